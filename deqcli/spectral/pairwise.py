r"""Covariances of samples whose products have a weight for each pair of classes.

If a kernel is :math:`s_{ab}x^\top x'` between classes a and b, with :math:`s = R^\top R`, it is
the inner product of features :math:`R_{\cdot a}\otimes x`: samples in K times as many dimensions,
whose covariances are :math:`R_{\cdot a}R_{\cdot a}^\top\otimes C_a`. All that the coupled
equations ask of them is made of

.. math:: P = R^\top\Big(I + \sum_by_be_bR_{\cdot b}R_{\cdot b}^\top\Big)^{-1}R
            = s\,(I + \mathrm{diag}(y\circ e)\,s)^{-1}

at each common eigenvalue :math:`e = (e_1, \dots, e_K)` of the covariances (theory.md §10); if all
weights are one, P is :math:`\Psi` in every entry.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from deqcli.spectral.covariances import Commuting, Covariances, Numbers

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Pairwise(Covariances):
    """Covariances that commute, of features with a weight for each pair of classes.

    Attributes
    ----------
    base : Commuting
        Of the samples.
    weights : ndarray of shape (K, K)
        s, with no negative eigenvalue.
    curved : ndarray of shape (K,)
        How much of a class's own weight :math:`s_{aa}` is due to its mean.

    Examples
    --------
    >>> base = Commuting(np.array([[1.0], [2.0]]), np.array([50.0]), np.zeros((1, 2, 2)))
    >>> y = np.array([1.0, 0.5])
    >>> Pairwise(base, np.ones((2, 2)), np.zeros(2)).response(y).round(3)    # C_a / (1 + 1 + 1)
    array([0.333, 0.667])
    >>> Pairwise(base, np.eye(2), np.zeros(2)).response(y)      # C_a / (1 + y_a C_a)
    array([0.5, 1. ])
    """

    base: Commuting
    weights: Array
    curved: Array

    @property
    def dimension(self) -> int:  # type: ignore[override]
        """The dimension p of the samples."""
        return self.base.dimension

    @property
    def surrogate(self) -> Pairwise:  # type: ignore[override]
        """Itself."""
        return self

    @property
    def _shares(self) -> Array:
        return self.base.multiplicities / self.dimension

    def _forms(self, y: Numbers) -> Numbers:
        """Return P, of shape (..., q, K, K)."""
        scaled = np.moveaxis(y[..., None] * self.base.eigenvalues, -2, -1)
        matrix = np.eye(len(self.weights)) + scaled[..., None] * self.weights
        # P is symmetric, so that it may be solved for from the left.
        # Matrices on both sides: before numpy 2 one matrix beside many was taken for vectors.
        weights = np.broadcast_to(self.weights, matrix.shape)
        return np.asarray(np.linalg.solve(np.swapaxes(matrix, -1, -2), weights))

    def response(self, y: Numbers) -> Numbers:
        """See :class:`Covariances`."""
        own = np.diagonal(self._forms(y), axis1=-2, axis2=-1)
        return np.einsum("...ja,aj,j->...a", own, self.base.eigenvalues, self._shares)

    def omega(self, y: Numbers) -> Numbers:
        """See :class:`Covariances`."""
        e = self.base.eigenvalues
        return np.einsum("...jab,aj,bj,j->...ab", self._forms(y) ** 2, e, e, self._shares)

    def mean_form(self, y: Array) -> Array:
        """See :class:`Covariances`."""
        return np.asarray((self._forms(y) * self.base.mean_products).sum(axis=0))

    def mean_slope(self, y: Array, change: Array) -> Array:
        """See :class:`Covariances`."""
        forms = self._forms(y)
        moved = forms @ ((change[:, None] * self.base.eigenvalues).T[..., None] * forms)
        return np.asarray(-(moved * self.base.mean_products).sum(axis=0))

    def weighted_means(self) -> Array:
        """See :class:`Covariances`."""
        return self.weights**2 * self.base.weighted_means()

    @property
    def products(self) -> Array:
        """See :class:`Covariances`."""
        return self.weights**2 * self.base.products

    @property
    def traces(self) -> Array:
        """See :class:`Covariances`."""
        return np.asarray(np.diagonal(self.weights) * self.base.traces)

    @property
    def triples(self) -> Array:
        """See :class:`Covariances`."""
        return np.diagonal(self.weights)[:, None] * self.weights**2 * self.base.triples

    @property
    def grams(self) -> Array:
        """See :class:`Covariances`."""
        return self.weights * self.base.grams

    def mixed(self, slopes: Array, shares: Array) -> Pairwise:
        """See :class:`Covariances`."""
        return replace(self, weights=self.weights * slopes)

    @property
    def rank(self) -> int:
        """See :class:`Covariances`."""
        return self.base.rank * int(np.linalg.matrix_rank(self.weights, hermitian=True))

    @cached_property
    def _root(self) -> Array:
        values, vectors = np.linalg.eigh(self.weights)
        return np.asarray(np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T)

    def directions(self, y: Array) -> Array:
        """See :class:`Covariances`."""
        scaled = (y[:, None] * self.base.eigenvalues).T
        inside = self._root @ (scaled[..., None] * self._root.T)
        return np.asarray(np.sign(1 + np.linalg.eigvalsh(inside)).ravel())

    @property
    def norm(self) -> float:
        """The largest eigenvalue of all classes."""
        own = np.diagonal(self.weights)[:, None] * self.base.eigenvalues
        return float(own.max())
