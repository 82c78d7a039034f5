r"""Slopes of a kernel in :math:`x^\top x'` that depend on both samples' classes.

For :math:`S_{ab} = \sum_r\sigma_rB_{ar}B_{br}`, :math:`\sigma_r = \pm1`, a sample of class a has
the features :math:`B_{ar}x`, and where there was
:math:`\Psi = (I + \sum_cy_cC_c)^{-1}` there is

.. math:: G_{ab} = \sum_{rs}B_{ar}\Big[\Big(\mathrm{diag}(\sigma)\otimes I
   + \sum_cy_cB_cB_c^\top\otimes C_c\Big)^{-1}\Big]_{rs}B_{bs}, \quad
   h_a = \tfrac1p\operatorname{tr}C_aG_{aa}, \quad
   \Omega_{ab} = \tfrac1p\operatorname{tr}C_aG_{ab}C_bG_{ba}

(theory.md §10).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Numbers = NDArray[Any]
# Parts of slopes below this, relative to the largest, are rounding.
_NOTHING = 1e-9


@dataclass(frozen=True)
class Slopes:
    """Slopes by class, in factors.

    Attributes
    ----------
    factors : ndarray of shape (K, r)
        B.
    signs : ndarray of shape (r,)
        Sigma.

    Examples
    --------
    >>> slopes = Slopes.of(np.array([[1.1, 0.9], [0.9, 1.2]]), np.array([0.5, 0.5]), most=2)
    >>> slopes.matrix.round(12).tolist()
    [[1.1, 0.9], [0.9, 1.2]]
    >>> nothing = slopes.inverse(np.zeros(2), np.ones((2, 1)))
    >>> slopes.response(nothing, np.ones((2, 1))).round(12).tolist()
    [1.1, 1.2]
    """

    factors: Array
    signs: Array

    @staticmethod
    def of(matrix: Array, shares: Array, most: int) -> Slopes:
        """Factorise slopes; of more parts the largest are kept, in the measure of the shares."""
        root = np.sqrt(shares)
        values, vectors = np.linalg.eigh(root[:, None] * matrix * root)
        order = np.argsort(-np.abs(values))[:most]
        order = order[np.abs(values[order]) > _NOTHING * np.abs(values).max()]
        factors = vectors[:, order] * np.sqrt(np.abs(values[order])) / root[:, None]
        return Slopes(factors, np.sign(values[order]))

    @property
    def matrix(self) -> Array:
        """S, what is kept of it."""
        return np.asarray((self.factors * self.signs) @ self.factors.T)

    @cached_property
    def parts(self) -> tuple[Array, ...]:
        r"""Matrices :math:`T_k` of shape (K, K) with :math:`G_{ab} = \sum_kT_{k,ab}R_k`.

        R are the entries of the inverse on and above its diagonal, row by row.
        """
        B = self.factors.T
        crossed = (np.outer(B[r], B[t]) for r, t in self._places)
        return tuple(T if r == t else T + T.T
                     for T, (r, t) in zip(crossed, self._places, strict=True))  # fmt: skip

    @property
    def _places(self) -> list[tuple[int, int]]:
        return list(combinations_with_replacement(range(self.signs.size), 2))

    def inverse(self, y: Numbers, eigenvalues: Array) -> list[Numbers]:
        """Return R, arrays of shape (..., q).

        Parameters
        ----------
        y : ndarray of shape (..., K)
        eigenvalues : ndarray of shape (K, q)
            Of the covariances.
        """
        entries = self._entries(y, eigenvalues)
        if len(entries) == 1:
            return [1 / entries[0]]
        if len(entries) == 3:
            a, b, d = entries
            scale = 1 / (a * d - b**2)
            return [d * scale, -b * scale, a * scale]
        rows, columns = np.array(self._places).T
        return list(np.moveaxis(np.linalg.inv(self._whole(entries))[..., rows, columns], -1, 0))

    def directions(self, y: Array, eigenvalues: Array) -> Array:
        """Return the sign of each determinant, of shape (q,); it changes at a pole of G."""
        return np.asarray(np.sign(np.linalg.det(self._whole(self._entries(y, eigenvalues)))))

    def _entries(self, y: Numbers, eigenvalues: Array) -> list[Numbers]:
        B = self.factors.T
        return [
            y @ ((B[r] * B[t])[:, None] * eigenvalues) + self.signs[r] * (r == t)
            for r, t in self._places
        ]

    def _whole(self, entries: list[Numbers]) -> Numbers:
        rows, columns = np.array(self._places).T
        whole = np.empty((*entries[0].shape, *(self.signs.size,) * 2), dtype=entries[0].dtype)
        whole[..., rows, columns] = whole[..., columns, rows] = np.stack(entries, axis=-1)
        return whole

    def response(self, inverse: list[Numbers], weights: Array) -> Numbers:
        """Return the sums of the diagonal of G with weights of shape (K, q): (..., K)."""
        terms = [np.diagonal(T) * (R @ weights.T)
                 for T, R in zip(self.parts, inverse, strict=True)]  # fmt: skip
        return np.asarray(sum(terms))

    def omega(self, inverse: list[Numbers], weights: Array) -> Numbers:
        """Return the sums of the squares of G with weights of shape (q, K * K): (..., K, K)."""
        k = len(self.factors)
        out = np.zeros((*inverse[0].shape[:-1], k, k), dtype=inverse[0].dtype)
        for first, second in combinations_with_replacement(range(len(inverse)), 2):
            both = self.parts[first] * self.parts[second] * (1 if first == second else 2)
            sums = (inverse[first] * inverse[second]) @ weights
            out += both * sums.reshape(out.shape)
        return out
