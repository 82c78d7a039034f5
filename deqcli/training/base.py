r"""What every network that is trained here has: weights, their momentum, buffers, and a step.

Every network here is in the parametrisation of theory.md §1: standard normal weights
:math:`\theta`, each matrix multiplied by a fixed factor c where it is used. What is stored is the
matrix that enters the products, :math:`W = c\theta`. A gradient step of rate :math:`\eta` in
:math:`\theta` is one of rate :math:`c^2\eta` in W, momentum or not, since
:math:`\partial L/\partial\theta = c\,\partial L/\partial W`.

Because c carries all the :math:`1/\sqrt m`, the tangent kernel, which is how far a step of rate
:math:`\eta` moves the outputs, tends to a limit of order 1 as the width m grows: one learning rate
serves all widths. The limits of the DEQ and of explicit networks are :math:`\Theta` of theory.md §2
and §5, the same order again: one learning rate serves all networks.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy.linalg.blas import daxpy, dgemm, saxpy, sgemm

from deqcli.errors import InputError
from deqcli.finite.equilibrium import Precision
from deqcli.finite.weights import draw
from deqcli.vocabulary import Weights

Array = NDArray[Any]

_GEMM = {"float32": sgemm, "float64": dgemm}
_AXPY = {"float32": saxpy, "float64": daxpy}


class Parameter:
    r"""A matrix :math:`W = c\theta` with standard normal :math:`\theta`, and its velocity.

    Parameters
    ----------
    shape : tuple of int
        Rows are neurons (or classes), columns what they read.
    factor : float
        c.
    dtype : str
        ``float32`` or ``float64``.

    Attributes
    ----------
    weight, velocity : ndarray
        Both C-contiguous; the velocity is that of W, in units of its gradient.

    Examples
    --------
    >>> parameter = Parameter((2, 3), 0.5, "float64")
    >>> parameter.accumulate(np.eye(2), np.ones((3, 2)), momentum=0.0)
    >>> parameter.move(0.1)
    >>> float(parameter.weight[0, 0].round(12))             # - 0.1 * 0.5**2
    -0.025
    """

    def __init__(self, shape: tuple[int, int], factor: float, dtype: Precision) -> None:
        self.factor = factor
        self.weight: Array = np.zeros(shape, dtype)
        self.velocity: Array = np.zeros(shape, dtype)
        self._gemm, self._axpy = _GEMM[dtype], _AXPY[dtype]

    def draw(self, rng: np.random.Generator) -> None:
        """Draw the weights anew and forget the velocity."""
        draw(Weights.GAUSSIAN, rng, self.weight, self.factor)
        self.velocity.fill(0)

    def accumulate(self, left: Array, right: Array, momentum: float) -> None:
        r"""Set the velocity to ``momentum`` times itself plus the gradient :math:`LR^\top`.

        One matrix product that adds to its result: the gradient is never a matrix of its own.

        Parameters
        ----------
        left : ndarray of shape (rows, n), C-contiguous
        right : ndarray of shape (columns, n)
            C-contiguous, or the transpose of an array that is.
        """
        # BLAS is told of transposes, which for it are plain matrices: V^T <- mu V^T + R L^T.
        plain = right.flags.f_contiguous
        self._gemm(
            1.0,
            right if plain else right.T,
            left.T,
            momentum,
            self.velocity.T,
            trans_a=not plain,
            overwrite_c=1,
        )

    def move(self, learning_rate: float) -> None:
        r"""Go ``learning_rate`` against the velocity, as seen by :math:`\theta`."""
        self._axpy(self.velocity.ravel(), self.weight.ravel(), a=-learning_rate * self.factor**2)


class Buffers:
    """Arrays by name that are made once and lent again and again, always C-contiguous.

    Examples
    --------
    >>> buffers = Buffers(np.float32)
    >>> buffers("z", 2, 8).shape, buffers("z", 2, 3).shape, buffers.nbytes
    ((2, 8), (2, 3), 64)
    """

    def __init__(self, dtype: DTypeLike) -> None:
        self._dtype = np.dtype(dtype)
        self._flat: dict[str, Array] = {}

    def __call__(self, name: str, rows: int, columns: int) -> Array:
        """Return the array of that name; its content is whatever was left there."""
        size = rows * columns
        flat = self._flat.get(name)
        if flat is None or flat.size < size:
            flat = self._flat[name] = np.empty(size, self._dtype)
        return flat[:size].reshape(rows, columns)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(flat.nbytes for flat in self._flat.values())


@dataclass(frozen=True)
class Progress:
    """How often the last pass applied the fixed-point map, and its relative residual.

    Both are 0 in an explicit network.
    """

    iterations: float = 0.0
    residual: float = 0.0


class Network(abc.ABC):
    r"""A classifier whose features come from random weights.

    Attributes
    ----------
    parameters : tuple of Parameter
        The matrix that reads the input first, the readout last.
    features : ndarray of shape (m, b)
        Those of the last batch, times :math:`\sqrt m`; columns are samples.
    outputs : ndarray of shape (K, b)
        The outputs f of the last batch.
    width, n_features, n_classes : int
    dtype : str
    rate : float
        What learning rates are multiplied by; 1 unless :meth:`rescale` was called.
    """

    parameters: tuple[Parameter, ...]
    features: Array
    outputs: Array
    rate = 1.0

    def __init__(self, width: int, n_features: int, n_classes: int, dtype: Precision) -> None:
        if min(width, n_features, n_classes) < 1:
            raise InputError(
                f"`width` is {width}, `n_features` {n_features} and `n_classes` {n_classes}; give "
                "at least one neuron, feature and class."
            )
        self.width, self.n_features, self.n_classes = width, n_features, n_classes
        self.dtype: Precision = dtype
        self.buffers = Buffers(dtype)

    def _readout(self) -> Parameter:
        r"""Return a readout, divided by :math:`\sqrt m`.

        With it the outputs are :math:`a^\top z` of theory.md §1, whose variance at the start is the
        kernel's diagonal, of order 1: neither the softmax nor the errors that train the hidden
        weights start saturated or vanishing, at any width.
        """
        return Parameter((self.n_classes, self.width), 1 / math.sqrt(self.width), self.dtype)

    def rescale(self, gain: float, rate: float) -> None:
        r"""Multiply the outputs and the learning rate; weights have to be drawn anew.

        Both kernels are multiplied by ``gain`` squared (:mod:`deqcli.training.scale`).
        """
        self.parameters[-1].factor *= gain
        self.rate *= rate

    def draw(self, streams: Sequence[np.random.Generator]) -> None:
        """Draw all weights, each parameter from its own stream."""
        for parameter, rng in zip(self.parameters, streams, strict=True):
            parameter.draw(rng)

    def forward(self, X: Array) -> Progress:
        """Compute the features and the outputs of a batch; rows of ``X`` are samples.

        Raises
        ------
        ConvergenceError
            If a fixed point is not reached, here and in :meth:`backward`.
        """
        progress = self._forward(X)
        self.outputs = self.parameters[-1].weight @ self.features
        return progress

    def backward(self, delta: Array, momentum: float) -> Progress:
        r"""Add the gradient of the last batch to the velocities.

        Parameters
        ----------
        delta : ndarray of shape (K, b)
            :math:`\partial L/\partial f`, columns are samples.
        momentum : float
            What the velocities are multiplied by first.
        """
        progress = self._backward(delta, momentum)
        self.parameters[-1].accumulate(delta, self.features, momentum)
        return progress

    @abc.abstractmethod
    def _forward(self, X: Array) -> Progress:
        """Compute the features."""

    @abc.abstractmethod
    def _backward(self, delta: Array, momentum: float) -> Progress:
        """Add the gradients of all hidden weights."""

    def move(self, learning_rate: float) -> str:
        """Step along the velocities; say what had to be done about it besides, if anything."""
        for parameter in self.parameters:
            parameter.move(self.rate * learning_rate)
        return ""

    @property
    def size(self) -> int:
        """Number of weights."""
        return sum(parameter.weight.size for parameter in self.parameters)

    @property
    def nbytes(self) -> int:
        """Bytes of weights, velocities and buffers, once a step has been made."""
        weights = sum(parameter.weight.nbytes for parameter in self.parameters)
        return 2 * weights + self.buffers.nbytes


def cross_entropy(outputs: Array, labels: NDArray[np.int64]) -> tuple[float, int, Array]:
    r"""Return the mean cross-entropy of the softmax, the number right, and the gradient.

    .. math:: L = \frac1b\sum_i\Bigl(\log\sum_k e^{f_{ki}} - f_{y_ii}\Bigr), \qquad
              \frac{\partial L}{\partial f_{ki}} = \frac1b\bigl(p_{ki} - 1[k = y_i]\bigr)

    Parameters
    ----------
    outputs : ndarray of shape (K, b)
        Columns are samples.
    labels : ndarray of shape (b,)

    Examples
    --------
    >>> loss, right, delta = cross_entropy(np.array([[0.0, 5.0], [0.0, 0.0]]), np.array([0, 0]))
    >>> round(loss, 4), right, delta.round(3).tolist()
    (0.3499, 2, [[-0.25, -0.003], [0.25, 0.003]])
    """
    columns = np.arange(outputs.shape[1])
    best = outputs.max(axis=0)
    shifted = outputs - best
    chosen = shifted[labels, columns].copy()
    right = int(np.count_nonzero(outputs.argmax(axis=0) == labels))
    np.exp(shifted, out=shifted)
    total = shifted.sum(axis=0)
    loss = float(np.mean(np.log(total) - chosen))
    shifted /= total * outputs.shape[1]
    shifted[labels, columns] -= 1 / outputs.shape[1]
    return (loss if math.isfinite(loss) else math.inf), right, shifted
