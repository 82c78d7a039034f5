r"""The covariances of a mixture, as the coupled equations of its spectrum ask for them.

With :math:`\Psi = (I + \sum_b y_bC_b)^{-1}`, for numbers y real or complex,

.. math:: h_a = \tfrac1p\operatorname{tr}C_a\Psi, \qquad
          \Omega_{ab} = \tfrac1p\operatorname{tr}C_a\Psi C_b\Psi = -\partial h_a/\partial y_b

and :math:`M\Psi M^\top` for the means (theory.md §10). Covariances that commute cost O(p) a
solution (O(1) if they are multiples of the identity); others a matrix inverse each.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

Array = NDArray[np.float64]
Numbers = NDArray[Any]
# Off-diagonal parts below this, relative to the matrix, are rounding.
_COMMUTES = 1e-9


class Covariances(abc.ABC):
    """Covariances and means of K classes in p dimensions."""

    dimension: int
    #: What has the same interface, is cheap, and comes near.
    surrogate: Commuting

    @abc.abstractmethod
    def response(self, y: Numbers) -> Numbers:
        """Return h, of shape (..., K), for y of shape (..., K)."""

    @abc.abstractmethod
    def omega(self, y: Numbers) -> Numbers:
        """Return Omega, of shape (..., K, K)."""

    @abc.abstractmethod
    def mean_form(self, y: Array) -> Array:
        r"""Return :math:`M\Psi M^\top`, of shape (K, K), for y of shape (K,)."""

    @abc.abstractmethod
    def mean_slope(self, y: Array, change: Array) -> Array:
        r"""Return the derivative of :meth:`mean_form` along a change of y."""

    @abc.abstractmethod
    def weighted_means(self) -> Array:
        r"""Return :math:`\mu_b^\top C_a\mu_b`, of shape (K, K): row a, column b."""

    @property
    @abc.abstractmethod
    def products(self) -> Array:
        r"""Return :math:`\operatorname{tr}C_aC_b/p`, of shape (K, K)."""

    @property
    @abc.abstractmethod
    def rank(self) -> int:
        """The dimension of what all the covariances span."""

    @property
    def traces(self) -> Array:
        r"""Return :math:`\operatorname{tr}C_a/p`, of shape (K,)."""
        return np.asarray(self.response(np.zeros(len(self.grams))))

    @property
    @abc.abstractmethod
    def grams(self) -> Array:
        r"""Return :math:`\mu_a^\top\mu_b`, of shape (K, K)."""


@dataclass(frozen=True)
class Commuting(Covariances):
    """Covariances that are diagonal in one basis.

    Attributes
    ----------
    eigenvalues : ndarray of shape (K, q)
        Of each class, in the common basis; equal columns may be taken together.
    multiplicities : ndarray of shape (q,)
        How many columns were; their sum is p.
    mean_products : ndarray of shape (q, K, K)
        Products of two means' coordinates in that basis, summed over the equal columns.
    """

    eigenvalues: Array
    multiplicities: Array
    mean_products: Array

    @property
    def dimension(self) -> int:  # type: ignore[override]
        """The dimension p."""
        return round(float(self.multiplicities.sum()))

    @property
    def surrogate(self) -> Commuting:  # type: ignore[override]
        """Itself."""
        return self

    def _psi(self, y: Numbers) -> Numbers:
        return np.asarray(1 / (1 + y @ self.eigenvalues))

    def response(self, y: Numbers) -> Numbers:
        """See :class:`Covariances`."""
        weights = self.eigenvalues * (self.multiplicities / self.dimension)
        return np.asarray(self._psi(y) @ weights.T)

    @cached_property
    def _pairs(self) -> Array:
        e = self.eigenvalues
        pairs = np.einsum("aj,bj,j->jab", e, e, self.multiplicities / self.dimension)
        return np.asarray(pairs.reshape(len(pairs), -1))

    def omega(self, y: Numbers) -> Numbers:
        """See :class:`Covariances`."""
        k = len(self.eigenvalues)
        return np.asarray((self._psi(y) ** 2 @ self._pairs).reshape(*y.shape, k))

    def mean_form(self, y: Array) -> Array:
        """See :class:`Covariances`."""
        return np.asarray(np.einsum("j,jab->ab", self._psi(y), self.mean_products))

    def mean_slope(self, y: Array, change: Array) -> Array:
        """See :class:`Covariances`."""
        weights = -(self._psi(y) ** 2) * (change @ self.eigenvalues)
        return np.asarray(np.einsum("j,jab->ab", weights, self.mean_products))

    def weighted_means(self) -> Array:
        """See :class:`Covariances`."""
        return np.asarray(np.einsum("aj,jbb->ab", self.eigenvalues, self.mean_products))

    @property
    def rank(self) -> int:
        """See :class:`Covariances`."""
        total = self.eigenvalues.sum(axis=0)
        return round(float(self.multiplicities[total > _COMMUTES * total.max()].sum()))

    @property
    def products(self) -> Array:
        """See :class:`Covariances`."""
        return self._pairs.sum(axis=0).reshape(len(self.eigenvalues), -1)

    @property
    def grams(self) -> Array:
        """See :class:`Covariances`."""
        return np.asarray(self.mean_products.sum(axis=0))


@dataclass(frozen=True)
class General(Covariances):
    """Covariances that do not commute; each solution costs a matrix inverse.

    Attributes
    ----------
    matrices : ndarray of shape (K, p, p)
    means : ndarray of shape (K, p)
    surrogate : Commuting
        Their diagonals in the basis of a sum of them.
    """

    matrices: Array
    means: Array
    surrogate: Commuting

    @property
    def dimension(self) -> int:  # type: ignore[override]
        """The dimension p."""
        return int(self.means.shape[1])

    def _psi(self, y: Numbers) -> Numbers:
        total = np.tensordot(y, self.matrices, 1)
        total[np.diag_indices_from(total)] += 1
        return np.asarray(np.linalg.inv(total))

    def response(self, y: Numbers) -> Numbers:
        """See :class:`Covariances`."""
        rows = y.reshape(-1, y.shape[-1])
        flat = self.matrices.reshape(len(self.matrices), -1)
        found = np.array([flat @ self._psi(row).ravel() for row in rows]) / self.dimension
        return found.reshape(y.shape)

    def omega(self, y: Numbers) -> Numbers:
        """See :class:`Covariances`."""
        k = len(self.matrices)
        out = np.empty((y.size // k, k, k), dtype=y.dtype)
        for row, place in zip(y.reshape(-1, k), out, strict=True):
            psi = self._psi(row)
            products = [matrix @ psi for matrix in self.matrices]
            for a in range(k):
                for b in range(a, k):
                    place[a, b] = place[b, a] = np.sum(products[a] * products[b].T)
        return (out / self.dimension).reshape(*y.shape, k)

    def mean_form(self, y: Array) -> Array:
        """See :class:`Covariances`."""
        return np.asarray(self.means @ self._psi(y) @ self.means.T)

    def mean_slope(self, y: Array, change: Array) -> Array:
        """See :class:`Covariances`."""
        right = self._psi(y) @ self.means.T
        return np.asarray(-right.T @ (np.tensordot(change, self.matrices, 1) @ right))

    def weighted_means(self) -> Array:
        """See :class:`Covariances`."""
        return np.asarray(np.einsum("bi,aij,bj->ab", self.means, self.matrices, self.means))

    @property
    def rank(self) -> int:
        """See :class:`Covariances`."""
        return self.surrogate.rank

    @property
    def products(self) -> Array:
        """See :class:`Covariances`."""
        flat = self.matrices.reshape(len(self.matrices), -1)
        return np.asarray(flat @ flat.T / self.dimension)

    @property
    def grams(self) -> Array:
        """See :class:`Covariances`."""
        return np.asarray(self.means @ self.means.T)


def covariances_of(
    means: Array, covariances: Sequence[Array], shape: Array | None = None
) -> Covariances:
    """Return the covariances of a mixture in the cheapest form that is exact.

    Parameters
    ----------
    means : ndarray of shape (K, p)
    covariances : sequence of K arrays
        Numbers, diagonals of shape (p,) or matrices of shape (p, p).
    shape : ndarray of shape (p, p), optional
        A matrix that the numbers in ``covariances`` multiply.

    Examples
    --------
    >>> scalar = covariances_of(np.eye(2, 50), [np.array(1.0), np.array(2.0)])
    >>> scalar.response(np.array([1.0, 0.5])).round(3)         # C_a / (1 + 1 + 0.5 * 2)
    array([0.333, 0.667])
    """
    p = means.shape[1]
    if shape is not None:
        values, basis = eigh(shape, check_finite=False)
        scales = np.array([float(c) for c in covariances])
        return _commuting(np.outer(scales, np.maximum(values, 0.0)), means @ basis)
    if all(c.ndim == 0 for c in covariances):
        scales = np.array([float(c) for c in covariances])
        return Commuting(scales[:, None], np.array([float(p)]), (means @ means.T)[None])
    if all(c.ndim < 2 for c in covariances):
        return _commuting(np.stack([np.broadcast_to(c, p) for c in covariances]), means)
    matrices = np.stack(
        [c if c.ndim == 2 else np.diag(np.broadcast_to(c, p)) for c in covariances]
    )
    # Any common basis diagonalises a sum with weights that are not related.
    weights = 1 + np.sqrt(np.arange(2, 2 + len(matrices))) % 1
    _, basis = eigh(np.tensordot(weights, matrices, 1), check_finite=False)
    rotated = [basis.T @ matrix @ basis for matrix in matrices]
    diagonals = np.stack([np.diagonal(matrix) for matrix in rotated])
    common = _commuting(diagonals, means @ basis)
    rest = max(float(np.linalg.norm(m - np.diag(d))) for m, d in zip(rotated, diagonals, strict=True))
    if rest <= _COMMUTES * float(np.linalg.norm(matrices)):
        return common
    return General(matrices, means, common)


def _commuting(eigenvalues: Array, means: Array) -> Commuting:
    return Commuting(
        eigenvalues,
        np.ones(eigenvalues.shape[1]),
        np.ascontiguousarray(np.einsum("aj,bj->jab", means, means)),
    )
