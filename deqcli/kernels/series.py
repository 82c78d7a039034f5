r"""A pair kernel on one segment of angles, as a series that is summed on tiles.

A kernel entry is one smooth function of :math:`(\|x\|, \|x'\|, \omega)`,
:math:`\omega = \arcsin\cos\angle(x, x')`. The arcsine opens the branch points at parallel inputs
that kinked activations have. The angles are cut into segments so short that a few dozen
Chebyshev polynomials reach rounding. Such a series converges beyond the unit disc, so that it may
be written in powers without loss of digits; each power's coefficient is a function of the two
norms of low rank,

.. math:: k(x, x') = \sum_k w^k \sum_r \lambda_{kr}\, q_{kr}(\|x\|)\, q_{kr}(\|x'\|),
          \qquad w \in [-1, 1] \text{ on the segment},

which Horner's rule sums on a tile with one pass over it and one small matrix product that adds
into it, a power.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.polynomial.chebyshev import cheb2poly, chebvander
from numpy.typing import NDArray

from deqcli.kernels.interpolation import TOLERANCE, Interval
from deqcli.kernels.threads import add_product

Array = NDArray[np.float64]

# Powers may be this many times as large as their sum: one decimal digit is lost.
_GROWTH = 10.0
# Functions of the norm are dropped below this multiple of the tolerance, by a bound that is
# several times what they amount to; fits are checked all the same.
_CUT = 4.0
# Pairs whose series are summed at a time, some hundred numbers each.
_GATHERED = 1000


@dataclass(frozen=True)
class Series:
    """One kernel on one segment of angles, as powers with coefficients of low rank.

    Attributes
    ----------
    norms : Interval
        What is covered.
    vectors : ndarray of shape (norm terms, ranks of all powers)
        Chebyshev coefficients of functions of the norm, those of the constant first.
    weights : ndarray of shape (ranks of all powers,)
    starts : ndarray of shape (powers + 1,)
        Where the functions of a power begin; the last is where they end.
    """

    norms: Interval
    vectors: Array
    weights: Array
    starts: NDArray[np.intp]

    @staticmethod
    def compress(norms: Interval, functions: Array, coefficients: Array) -> Series | None:
        """Turn Chebyshev coefficients into those of powers, each cut to its rank.

        Parameters
        ----------
        norms : Interval
        functions : ndarray of shape (norm terms, functions)
            Chebyshev coefficients of orthonormal functions of the norm.
        coefficients : ndarray of shape (angle terms, functions, functions)

        Returns
        -------
        Series or None
            None where powers are so much larger than their sum that digits are lost.
        """
        largest = np.abs(coefficients).max()
        # A row of Chebyshev polynomials has at most the norm sqrt(terms).
        floor = _CUT * TOLERANCE * largest / len(functions)
        # First without the noise, which powers magnify and spread over all ranks.
        kept, vectors = _cut(coefficients, floor)
        clean = (vectors * kept[:, None]) @ vectors.swapaxes(1, 2)
        powers = np.einsum("jk,kab->jab", _powers(len(clean)), clean)
        if np.abs(powers).max(axis=(1, 2)).sum() > _GROWTH * largest:
            return None
        weights, vectors = _cut(powers, floor)
        ranks = np.count_nonzero(weights, axis=1)
        count = 1 + int(np.max(np.flatnonzero(ranks), initial=0))
        chosen = [vectors[k][:, weights[k] != 0] for k in range(count)]
        starts = np.concatenate([[0], np.cumsum(ranks[:count])])
        weights = weights[:count][weights[:count] != 0]
        return Series(norms, functions @ np.hstack(chosen), weights, starts)

    def bind(self, rows: Array, columns: Array) -> BoundSeries:
        """Return the series for inputs of these norms, of shapes (n,) and (q,)."""
        return BoundSeries(self, rows, columns)


def _cut(matrices: Array, floor: float) -> tuple[Array, Array]:
    """Return eigenvalues, small ones as zeros, and eigenvectors of symmetric matrices."""
    weights, vectors = np.linalg.eigh(matrices)
    return np.where(np.abs(weights) > floor, weights, 0.0), vectors


def _powers(count: int) -> Array:
    """Matrix from Chebyshev coefficients to those of powers."""
    matrix = np.zeros((count, count))
    for k, unit in enumerate(np.eye(count)):
        matrix[: k + 1, k] = cheb2poly(unit)[: k + 1]
    return matrix


class BoundSeries:
    """A series for given inputs; what depends on their norms alone is evaluated once.

    Parameters
    ----------
    series : Series
    rows, columns : ndarray of shape (n,), (q,)
        Norms.
    """

    def __init__(self, series: Series, rows: Array, columns: Array) -> None:
        self._series, self._norms = series, (rows, columns)

    def _evaluate(self) -> tuple[Array, Array]:
        series = self._series
        low, high = series.norms.low, series.norms.high
        # Inputs with other norms have entries that are not used.
        left, right = (
            chebvander(series.norms.unit(np.clip(x, low, high)), len(series.vectors) - 1)
            @ series.vectors
            for x in self._norms
        )
        left *= series.weights
        return left, right

    @cached_property
    def _together(self) -> tuple[Array, Array]:
        """Functions of all powers beside each other, as single pairs take them."""
        return self._evaluate()

    @cached_property
    def _apart(self) -> list[tuple[Array, Array]]:
        """Functions of each power, the highest first: BLAS would copy columns of a wide matrix."""
        left, right = self._evaluate()
        parts = [slice(*ends) for ends in itertools.pairwise(self._series.starts)]
        return [(left[:, part].copy(), right[:, part].copy()) for part in reversed(parts)]

    def on_tile(self, rows: slice, columns: slice, w: Array, out: Array) -> None:
        """Sum the series on a tile by Horner's rule.

        Parameters
        ----------
        rows, columns : slice
        w : ndarray of shape (columns, rows)
            On the transpose of the tile.
        out : ndarray of shape (columns, rows)
            Takes the transposed result.
        """
        highest = True
        for left, right in self._apart:
            if not highest:
                out *= w
            if highest or left.shape[1]:
                add_product(right[columns], left[rows], out, keep=not highest)
            highest = False

    def at(self, i: NDArray[np.intp], j: NDArray[np.intp], w: Array) -> Array:
        """Sum the series for pairs, each of shape (m,)."""
        left, right = self._together
        starts = self._series.starts
        total = np.empty_like(w)
        # A power without functions has nothing to sum; reduceat would take the next one's.
        powers = np.flatnonzero(np.diff(starts))
        for begin in range(0, w.size, _GATHERED):
            part = slice(begin, begin + _GATHERED)
            products = left[i[part]]
            products *= right[j[part]]
            sums = np.zeros((len(starts) - 1, len(products)))
            sums[powers] = np.add.reduceat(products, starts[powers], axis=1).T
            value = sums[-1]
            for coefficient in sums[-2::-1]:
                value *= w[part]
                value += coefficient
            total[part] = value
        return total
