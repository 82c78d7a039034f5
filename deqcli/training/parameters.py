r"""Weights that are trained, their momentum, and the buffers that a step writes to.

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

import math
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy.linalg.blas import daxpy, dgemm, saxpy, sgemm

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

    @property
    def size(self) -> int:
        """Number of weights."""
        return self.weight.size

    @property
    def nbytes(self) -> int:
        """Bytes of weights and velocity."""
        return self.weight.nbytes + self.velocity.nbytes


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


def readout_factor(width: int) -> float:
    r"""Return the factor :math:`1/\sqrt m` of the readout.

    With it the outputs are :math:`a^\top z` of theory.md §1, whose variance at the start is the
    kernel's diagonal, of order 1: neither the softmax nor the errors that train the hidden weights
    start saturated or vanishing, at any width.
    """
    return 1 / math.sqrt(width)
