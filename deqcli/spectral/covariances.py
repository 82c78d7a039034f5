r"""The covariances of a mixture, as the coupled equations of its spectrum ask for them.

With :math:`\Psi = (I + \sum_b y_bC_b)^{-1}`, for numbers y real or complex,

.. math:: h_a = \tfrac1p\operatorname{tr}C_a\Psi, \qquad
          \Omega_{ab} = \tfrac1p\operatorname{tr}C_a\Psi C_b\Psi = -\partial h_a/\partial y_b

and :math:`M\Psi M^\top` for the means (theory.md §10). Covariances that commute cost O(p) a
solution, O(1) if they are multiples of the identity; others O(p^2), and are expanded.
"""

from __future__ import annotations

import abc
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deqcli.spectral.slopes import Slopes

Array = NDArray[np.float64]
Numbers = NDArray[Any]
#: Parts below this, relative to the whole, are rounding.
ROUNDING = 1e-9
# Parts of slopes that are kept where covariances have no more different columns; else two.
_MOST_MIXED = 4


class Covariances(abc.ABC):
    """Covariances and means of K classes in p dimensions."""

    dimension: int
    #: What has the same interface, is cheap, and comes near.
    surrogate: Commuting

    @property
    def exact(self) -> Covariances:
        """What has the same interface and expands nothing, at whatever cost."""
        return self

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
    def triples(self) -> Array:
        r"""Return :math:`\operatorname{tr}C_a^2C_b/p`, of shape (K, K)."""

    @property
    @abc.abstractmethod
    def rank(self) -> int:
        """The dimension of what all the covariances span."""

    @abc.abstractmethod
    def mixed(self, slopes: Array, shares: Array) -> Covariances:
        """Return the same with slopes that depend on classes (:mod:`deqcli.spectral.slopes`).

        Parameters
        ----------
        slopes : ndarray of shape (K, K)
            Of the largest two parts only, where there are many different columns.
        shares : ndarray of shape (K,)
            Of the classes.
        """

    @property
    def traces(self) -> Array:
        r"""Return :math:`\operatorname{tr}C_a/p`, of shape (K,)."""
        diagonals = self.surrogate
        return np.asarray(diagonals.eigenvalues @ diagonals.multiplicities / self.dimension)

    def directions(self, y: Array) -> Array:
        """Return the signs of Psi in its basis; they change across a part of the spectrum."""
        surrogate = self.surrogate
        eigenvalues = surrogate.eigenvalues[:, ~surrogate.apart]
        if surrogate.slopes is None:
            return np.asarray(np.sign(1 + y @ eigenvalues))
        return surrogate.slopes.directions(y, eigenvalues)

    @property
    def outliers(self) -> tuple[Array, Array]:
        """Eigenvalues and coordinates of the means of columns set apart, both of shape (K, o)."""
        return np.zeros((len(self.traces), 0)), np.zeros((len(self.traces), 0))

    @property
    def norm(self) -> float:
        """The largest eigenvalue of all classes times the largest slope, or nearly."""
        common = self.surrogate
        steepest = 1.0 if common.slopes is None else float(common.slopes.matrix.max())
        return float(common.eigenvalues.max()) * steepest

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
    slopes : Slopes, optional
        By class; one everywhere if there are none.
    outlying : tuple of int
        Columns of one dimension each that make isolated eigenvalues rather than bulk: responses
        are those of the others.
    """

    eigenvalues: Array
    multiplicities: Array
    mean_products: Array
    slopes: Slopes | None = None
    outlying: tuple[int, ...] = ()

    @property
    def dimension(self) -> int:  # type: ignore[override]
        """The dimension p."""
        return round(float(self.multiplicities.sum()))

    @property
    def surrogate(self) -> Commuting:  # type: ignore[override]
        """Itself."""
        return self

    @cached_property
    def apart(self) -> NDArray[np.bool_]:
        """Which columns are outlying, of shape (q,)."""
        return np.isin(np.arange(self.multiplicities.size), self.outlying)

    @property
    def outliers(self) -> tuple[Array, Array]:
        """See :class:`Covariances`."""
        squares, vectors = np.linalg.eigh(self.mean_products[self.apart])
        means = np.sqrt(np.maximum(squares[:, -1:], 0.0)) * vectors[:, :, -1]
        return self.eigenvalues[:, self.apart], means.T

    @cached_property
    def _bulk(self) -> Array:
        # No pole of a column that is set apart.
        return np.where(self.apart, 0.0, self.eigenvalues)

    def _psi(self, y: Numbers) -> Numbers:
        return np.asarray(~self.apart / (1 + y @ self._bulk))

    def response(self, y: Numbers) -> Numbers:
        """See :class:`Covariances`."""
        weights = self._bulk * (self.multiplicities / self.dimension)
        if self.slopes is None:
            return np.asarray(self._psi(y) @ weights.T)
        return self.slopes.response(self.slopes.inverse(y, self._bulk), weights)

    def mixed(self, slopes: Array, shares: Array) -> Commuting:
        """See :class:`Covariances`."""
        most = _MOST_MIXED if self.multiplicities.size <= _MOST_MIXED else 2
        return replace(self, slopes=Slopes.of(slopes, shares, most))

    @cached_property
    def _pairs(self) -> Array:
        e = self._bulk
        pairs = np.einsum("aj,bj,j->jab", e, e, self.multiplicities / self.dimension)
        return np.asarray(pairs.reshape(len(pairs), -1))

    def omega(self, y: Numbers) -> Numbers:
        """See :class:`Covariances`."""
        k = len(self.eigenvalues)
        if self.slopes is not None:
            return self.slopes.omega(self.slopes.inverse(y, self._bulk), self._pairs)
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
        some = (total > ROUNDING * total.max()) & ~self.apart
        return round(float(self.multiplicities[some].sum()))

    @property
    def products(self) -> Array:
        """See :class:`Covariances`."""
        e = self.eigenvalues
        return np.asarray((e * self.multiplicities) @ e.T / self.dimension)

    @property
    def triples(self) -> Array:
        """See :class:`Covariances`."""
        e = self.eigenvalues
        return np.asarray((e**2 * self.multiplicities) @ e.T / self.dimension)

    @property
    def grams(self) -> Array:
        """See :class:`Covariances`."""
        return np.asarray(self.mean_products.sum(axis=0))


@dataclass(frozen=True)
class General(Covariances):
    r"""Covariances that do not commute, to third order in how far they are from it.

    In the basis that diagonalises their weighted sum, :math:`C_b = \mathrm{diag}(e_b) + O_b`.
    With :math:`a = 1/(1 + \sum_by_be_b)` entry by entry,

    .. math:: \log\det(I + \textstyle\sum y_bC_b) = -\sum_j\log a_j
       - \tfrac12\sum_{bc}y_by_c\,a^\top(O_b\circ O_c)a + \dots,

    whose derivatives are h; :math:`\sum_by_bO_b` vanishes where y follows the weights, as it
    nearly does. A solution costs :math:`O(K^2p^2)`.

    Attributes
    ----------
    surrogate : Commuting
        The diagonals.
    rest : ndarray of shape (K, p, p)
        :math:`O_b`.
    squares : ndarray of shape (K, K, p, p)
        Their products entry by entry.
    means : ndarray of shape (K, p)
        In the same basis.
    """

    surrogate: Commuting
    rest: Array
    squares: Array
    means: Array

    @property
    def dimension(self) -> int:  # type: ignore[override]
        """The dimension p."""
        return int(self.means.shape[1])

    @property
    def matrices(self) -> Array:
        """The covariances whole, of shape (K, p, p)."""
        whole = self.rest.copy()
        place = np.arange(self.dimension)
        whole[:, place, place] = self.surrogate.eigenvalues
        return whole

    def response(self, y: Numbers) -> Numbers:
        """See :class:`Covariances`."""
        e = self.surrogate.eigenvalues
        a = 1 / (1 + y @ e)
        k = len(e)
        # Products of each square with a, summed over one of its two classes.
        rows = np.zeros((*y.shape, e.shape[1]), dtype=a.dtype)
        for b in range(k):
            for c in range(b, k):
                product = a @ self.squares[b, c]
                rows[..., b, :] += y[..., c, None] * product
                if c > b:
                    rows[..., c, :] += y[..., b, None] * product
        total = np.einsum("...b,...bj->...j", y, rows)
        first = (a**2 * total) @ e.T - np.einsum("...j,...bj->...b", a, rows)
        return np.asarray(self.surrogate.response(y) + first / self.dimension)

    def omega(self, y: Numbers) -> Numbers:
        """See :class:`Covariances`; by differences."""
        step = 1e-5 * float(np.abs(y).max()) + 1e-12
        shifts = step * np.eye(y.shape[-1])
        behind, ahead = self.response(
            y[..., None, :] + np.stack([-shifts, shifts])[:, None]
            if y.ndim > 1
            else y + np.stack([-shifts, shifts])
        )
        return np.asarray(np.swapaxes(behind - ahead, -1, -2) / (2 * step))

    def mean_form(self, y: Array) -> Array:
        """See :class:`Covariances`."""
        a = 1 / (1 + y @ self.surrogate.eigenvalues)
        moved = (a * self.means).T
        across = np.tensordot(y, self.rest, 1) @ moved
        return np.asarray(self.means @ moved - moved.T @ across + across.T @ (a[:, None] * across))

    def mean_slope(self, y: Array, change: Array) -> Array:
        """See :class:`Covariances`; by differences."""
        step = 1e-5 * float(np.abs(y).max()) / max(float(np.abs(change).max()), 1e-300)
        ahead, behind = self.mean_form(y + step * change), self.mean_form(y - step * change)
        return np.asarray((ahead - behind) / (2 * step))

    def weighted_means(self) -> Array:
        """See :class:`Covariances`."""
        off = np.einsum("bi,aij,bj->ab", self.means, self.rest, self.means, optimize=True)
        return np.asarray(self.surrogate.weighted_means() + off)

    @property
    def rank(self) -> int:
        """See :class:`Covariances`."""
        return self.surrogate.rank

    @property
    def products(self) -> Array:
        """See :class:`Covariances`."""
        return self.surrogate.products + self.squares.sum(axis=(2, 3)) / self.dimension

    @property
    def triples(self) -> Array:
        """See :class:`Covariances`."""
        whole = self.matrices
        flat = whole.reshape(len(whole), -1)
        return np.stack([flat @ (c @ c).ravel() for c in whole]) / self.dimension

    @property
    def exact(self) -> General:
        """See :class:`Covariances`."""
        return Inverted(self.surrogate, self.rest, self.squares, self.means)

    def mixed(self, slopes: Array, shares: Array) -> General:
        """See :class:`Covariances`; what slopes add is that of the diagonals."""
        return replace(self, surrogate=self.surrogate.mixed(slopes, shares))

    @property
    def grams(self) -> Array:
        """See :class:`Covariances`."""
        return self.surrogate.grams


@dataclass(frozen=True)
class Inverted(General):
    r"""The same without an expansion: responses cost :math:`O(p^3)`, Omega K times as much.

    Where y is large, classes differ in it and a covariance hardly varies in some direction, an
    expansion is too coarse.
    """

    def response(self, y: Numbers) -> Numbers:
        """See :class:`Covariances`."""
        matrices = self.matrices
        flat = [self._psi(matrices, at).ravel() for at in y.reshape(-1, len(matrices))]
        traces = np.stack(flat) @ matrices.reshape(len(matrices), -1).T
        plain = replace(self.surrogate, slopes=None).response(y)
        return np.asarray(traces.reshape(y.shape) / self.dimension) + (
            self.surrogate.response(y) - plain
        )

    def omega(self, y: Numbers) -> Numbers:
        """See :class:`Covariances`."""
        matrices = self.matrices
        k, found = len(matrices), []
        for at in y.reshape(-1, k):
            products = matrices @ self._psi(matrices, at)
            turned = np.swapaxes(products, 1, 2)
            found.append(products.reshape(k, -1) @ turned.reshape(k, -1).T)
        plain = replace(self.surrogate, slopes=None).omega(y)
        return np.reshape(found, (*y.shape, k)) / self.dimension + self.surrogate.omega(y) - plain

    def _psi(self, matrices: Array, y: Numbers) -> Numbers:
        return np.asarray(np.linalg.inv(np.eye(self.dimension) + np.tensordot(y, matrices, 1)))
