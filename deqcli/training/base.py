"""What every network that is trained here can do."""

from __future__ import annotations

import abc
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deqcli.errors import InputError
from deqcli.finite.equilibrium import Precision
from deqcli.training.parameters import Buffers, Parameter

Array = NDArray[Any]


@dataclass(frozen=True)
class Progress:
    """What the last forward or backward pass did.

    Attributes
    ----------
    iterations : float
        How often the fixed-point map was applied; 0 in an explicit network.
    residual : float
        Its relative residual; 0 in an explicit network.
    failure : str
        Why the pass is of no use; empty if it is.
    """

    iterations: float = 0.0
    residual: float = 0.0
    failure: str = ""


class Network(abc.ABC):
    """A classifier whose features come from random weights.

    Attributes
    ----------
    parameters : tuple of Parameter
        The matrix that reads the input first, the readout last.
    width, n_features, n_classes : int
    dtype : str
    """

    parameters: tuple[Parameter, ...]

    def __init__(self, width: int, n_features: int, n_classes: int, dtype: Precision) -> None:
        if min(width, n_features, n_classes) < 1:
            raise InputError(
                f"`width` is {width}, `n_features` {n_features} and `n_classes` {n_classes}; give "
                "at least one neuron, feature and class."
            )
        self.width, self.n_features, self.n_classes = width, n_features, n_classes
        self.dtype: Precision = dtype
        self.buffers = Buffers(dtype)

    def draw(self, streams: Sequence[np.random.Generator]) -> None:
        """Draw all weights, each parameter from its own stream."""
        for parameter, rng in zip(self.parameters, streams, strict=True):
            parameter.draw(rng)

    @abc.abstractmethod
    def forward(self, X: Array) -> Progress:
        """Compute the features and the outputs of a batch; rows of ``X`` are samples."""

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
        if not progress.failure:
            self.parameters[-1].accumulate(delta, self.features, momentum)
        return progress

    @abc.abstractmethod
    def _backward(self, delta: Array, momentum: float) -> Progress:
        """Add the gradients of all hidden weights; nothing where that is not possible."""

    @property
    @abc.abstractmethod
    def features(self) -> Array:
        r"""The features of the last batch times :math:`\sqrt m`, of shape (m, b)."""

    @property
    def outputs(self) -> Array:
        """The outputs f of the last batch, of shape (K, b)."""
        return self._outputs

    def _read_out(self, features: Array) -> None:
        self._outputs: Array = self.parameters[-1].weight @ features

    def move(self, learning_rate: float) -> str:
        """Step along the velocities; say what had to be done about it besides, if anything."""
        for parameter in self.parameters:
            parameter.move(learning_rate)
        return ""

    @property
    def size(self) -> int:
        """Number of weights."""
        return sum(parameter.size for parameter in self.parameters)

    @property
    def nbytes(self) -> int:
        """Bytes of weights, velocities and buffers, once a step has been made."""
        return sum(parameter.nbytes for parameter in self.parameters) + self.buffers.nbytes


class Readout(Network):
    r"""The classifier :math:`f = Wz` on fixed features z, of which W is trained.

    Its limit of infinite width is the conjugate kernel, where that of a network trained whole is
    the tangent kernel. Features do not change, so that each sample's are computed once: an epoch is
    then two products with W, whatever the network behind it.

    Parameters
    ----------
    network : Network
        Its weights drawn; shares its readout.

    Examples
    --------
    >>> from deqcli.activations import activation
    >>> from deqcli.training.explicit import ExplicitNetwork
    >>> network = ExplicitNetwork([activation("tanh")], 50, 4, 3)
    >>> network.draw([np.random.default_rng(k) for k in range(2)])
    >>> readout, X = Readout(network), np.eye(4, dtype=np.float32)
    >>> features = readout.compute_features(X, batch=2)
    >>> _ = readout.forward(features), network.forward(X)
    >>> features.shape, bool(np.allclose(readout.outputs, network.outputs, atol=1e-5))
    ((4, 50), True)
    """

    def __init__(self, network: Network) -> None:
        super().__init__(network.width, network.width, network.n_classes, network.dtype)
        self.network = network
        self.parameters = network.parameters[-1:]
        self._solves = Progress()
        self._count = 0

    def compute_features(self, X: Array, batch: int) -> Array:
        r"""Return the features of samples, times :math:`\sqrt m`, of shape (n, m).

        Where the network fails, so does every later :meth:`forward`.
        """
        features = np.empty((len(X), self.width), self.dtype)
        for start in range(0, len(X), batch):
            part = X[start : start + batch]
            progress = self.network.forward(part)
            features[start : start + len(part)] = self.network.features.T
            self._add(progress, len(part))
        return features

    def _add(self, progress: Progress, count: int) -> None:
        before, self._count = self._count, self._count + count
        total = self._solves.iterations * before + progress.iterations * count
        self._solves = Progress(
            total / self._count,
            max(self._solves.residual, progress.residual),
            self._solves.failure or progress.failure,
        )

    @property
    def features(self) -> Array:
        r"""The features of the last batch times :math:`\sqrt m`, of shape (m, b)."""
        return self._features

    def forward(self, X: Array) -> Progress:
        """Read out what :meth:`compute_features` returned; tells of the solves behind it."""
        self._features: Array = X.T
        self._read_out(self._features)
        return self._solves

    def _backward(self, delta: Array, momentum: float) -> Progress:
        return Progress()


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
