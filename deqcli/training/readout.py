"""The last layer alone, on the features of a network that stays as it was drawn."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from deqcli.training.base import Network, Progress

Array = NDArray[Any]


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
