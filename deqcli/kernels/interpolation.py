r"""Chebyshev interpolation of a pair kernel in its three scalars.

A kernel entry is one smooth function of :math:`(\|x\|, \|x'\|, \omega)`,
:math:`\omega = \arcsin\cos\angle(x, x')`. The arcsine opens the branch points at parallel inputs
that kinked activations have. The angles are cut into segments so short that a few dozen
Chebyshev polynomials reach rounding; each one's coefficient is a function of the two norms of low
rank,

.. math:: k(x, x') = \sum_k T_k(w) \sum_r \lambda_{kr}\, q_{kr}(\|x\|)\, q_{kr}(\|x'\|),
          \qquad w \in [-1, 1] \text{ on the segment},

which Clenshaw's rule sums on a tile with two passes over it and one small matrix product that
adds into it, a term.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.polynomial.chebyshev import chebvander
from numpy.typing import NDArray
from scipy.linalg import qr
from scipy.linalg.blas import dgemm

from deqcli.kernels.pairs import PairKernel, PairValues

Array = NDArray[np.float64]
Sampled = Callable[[Array, Array, Array], Array]

#: Trailing coefficients below this, relative to the largest, count as nothing.
TOLERANCE = 1e-12
_MAX_NORM_DEGREE = 48
_ANGLE_SIZES = (9, 14, 22, 34)
# Segments of angles are cut no shorter than this.
_SHORTEST = 0.1
# A fit solves for this many pairs at least.
_LEAST = 1000
# Pairs at which a fit is checked.
_CHECKED = 60
# Pairs solved at a time: a long Hermite series holds a few thousand numbers for each.
_PAIRS = 2000


@dataclass(frozen=True)
class Interval:
    """A closed interval and its map to [-1, 1]."""

    low: float
    high: float

    @property
    def width(self) -> float:
        """Its length."""
        return self.high - self.low

    @property
    def middle(self) -> float:
        """Halfway between its ends."""
        return 0.5 * (self.low + self.high)

    def nodes(self, count: int) -> Array:
        """Return ``count`` Chebyshev points of the first kind."""
        return self.middle + 0.5 * self.width * _points(count)

    def unit(self, x: Array) -> Array:
        """Map points of the interval to [-1, 1]."""
        return (2 * x - (self.low + self.high)) / self.width if self.width > 0 else np.zeros_like(x)


def _points(count: int) -> Array:
    return np.asarray(np.cos(np.pi * (np.arange(count) + 0.5) / count))


def transform(count: int) -> Array:
    """Matrix from values at ``count`` Chebyshev points to Chebyshev coefficients."""
    matrix = chebvander(_points(count), count - 1).T * (2 / count)
    matrix[0] /= 2
    return np.asarray(matrix)


def _resolved(coefficients: Array, axis: int, tolerance: float = TOLERANCE) -> bool:
    size = np.abs(coefficients)
    tail = np.take(size, [-1, -2], axis=axis) if size.shape[axis] > 2 else size
    return bool(tail.max() <= tolerance * size.max())


def fit_diagonals(pairs: PairKernel, interval: Interval) -> Callable[[Array], PairValues] | None:
    """Interpolate the kernels' diagonals in the norm; None where no admissible degree does it."""
    for count in sizes(9, _MAX_NORM_DEGREE * 2, interval):
        nodes = interval.nodes(count)
        values = np.stack(pairs(nodes, nodes, np.zeros_like(nodes)), axis=1)
        series = transform(count) @ values
        if count == 1 or all(_resolved(column, 0) for column in series.T):
            return lambda norm: PairValues(
                *(chebvander(interval.unit(norm), len(series) - 1) @ series).T
            )
    return None


def sizes(start: int, largest: int, interval: Interval) -> list[int]:
    """Return numbers of points to try; one suffices where the interval is a point."""
    if interval.width <= 4e-16 * abs(interval.high):
        return [1]
    counts = [start]
    while counts[-1] < largest:
        counts.append(int(1.5 * counts[-1]) + 1)
    return counts


@dataclass(frozen=True)
class Series:
    """One kernel on one segment of angles, as Chebyshev polynomials with coefficients of low rank.

    Attributes
    ----------
    norms : Interval
        What is covered.
    vectors : tuple of ndarray of shape (norm terms, rank)
        One an angle term, from the constant on: Chebyshev coefficients of functions of the norm.
    weights : tuple of ndarray of shape (rank,)
    """

    norms: Interval
    vectors: tuple[Array, ...]
    weights: tuple[Array, ...]

    @staticmethod
    def compress(norms: Interval, coefficients: Array) -> Series:
        """Cut each coefficient, of shape (angle terms, norm terms, norm terms), to its rank."""
        # A row of Chebyshev polynomials has at most the norm sqrt(terms).
        floor = 0.1 * TOLERANCE * np.abs(coefficients).max() / coefficients.shape[1]
        weights, vectors = np.linalg.eigh(coefficients)
        kept = np.abs(weights) > floor
        count = 1 + int(np.max(np.flatnonzero(kept.any(axis=1)), initial=0))
        return Series(
            norms,
            tuple(v[:, chosen] for v, chosen in zip(vectors[:count], kept, strict=False)),
            tuple(w[chosen] for w, chosen in zip(weights[:count], kept, strict=False)),
        )

    def bind(self, rows: Array, columns: Array) -> BoundSeries:
        """Evaluate what depends on the norms alone; of shapes (n,) and (q,)."""
        bases = [chebvander(self.norms.unit(x), len(self.vectors[0]) - 1) for x in (rows, columns)]
        return BoundSeries(
            tuple(bases[0] @ (v * w) for v, w in zip(self.vectors, self.weights, strict=True)),
            tuple(bases[1] @ v for v in self.vectors),
        )


@dataclass(frozen=True)
class BoundSeries:
    """A series for given inputs: each term's coefficient is ``left[k] @ right[k].T``."""

    left: tuple[Array, ...]
    right: tuple[Array, ...]

    def on_tile(
        self, rows: slice, columns: slice, twice: Array, out: Array, spare: Array, work: Array
    ) -> None:
        """Sum the series on a tile by Clenshaw's recurrence.

        Parameters
        ----------
        rows, columns : slice
        twice : ndarray of shape (columns, rows)
            2 w on the transpose of the tile: BLAS adds into arrays whose columns are contiguous.
        out : ndarray of shape (columns, rows)
            Takes the transposed result.
        spare, work : ndarray of shape (columns, rows)
        """
        last = len(self.left) - 1
        newer, older = (spare, out) if last % 2 == 0 else (out, spare)
        for k in range(last, -1, -1):
            left, right = self.left[k][rows].T, self.right[k][columns].T
            # older <- left right^T - older, where what is older than the first terms is zero.
            beta = -1.0 if k < last - 1 else 0.0
            if left.shape[0]:
                dgemm(1.0, left, right, beta, older.T, trans_a=1, overwrite_c=1)
            elif beta:
                np.negative(older, out=older)
            else:
                older[...] = 0.0
            if k < last:
                np.multiply(twice, newer, out=work)
                if k == 0:
                    work *= 0.5
                older += work
            newer, older = older, newer

    def at(self, i: NDArray[np.intp], j: NDArray[np.intp], w: Array) -> Array:
        """Sum the series for pairs, each of shape (m,)."""
        newer, older, twice = np.zeros_like(w), np.zeros_like(w), 2 * w
        for k in range(len(self.left) - 1, -1, -1):
            term = np.einsum("mr,mr->m", self.left[k][i], self.right[k][j])
            newer, older = term + (twice if k else w) * newer - older, newer
        return newer


@dataclass(frozen=True)
class Segment:
    """Both kernels for arcsines of cosines within an interval."""

    omegas: Interval
    series: PairSeries


class PairSeries(NamedTuple):
    """The series of the two kernels."""

    ck: Series
    ntk: Series


def fit_segments(
    pairs: PairKernel,
    norms: Interval,
    cuts: Sequence[float],
    expected: Callable[[Interval], float],
) -> list[Segment]:
    """Interpolate CK and NTK between neighbouring cuts, cut further where they vary fast.

    Parameters
    ----------
    pairs : PairKernel
    norms : Interval
    cuts : sequence of float
        Arcsines of cosines, increasing.
    expected : callable
        About how many pairs there are in an interval. A fit that solves for more than a third of
        them is not made.

    Returns
    -------
    list of Segment
        What is left out is better solved pair by pair.
    """

    def solve(norm1: Array, norm2: Array, omega: Array) -> Array:
        """Return both kernels, of shape (2, angles, ...); angles last keep pairs of a kind."""
        grid = np.broadcast_arrays(norm1, norm2, np.pi / 2 - omega)
        flat = np.stack([array.ravel() for array in grid])
        parts = [flat[:, start : start + _PAIRS] for start in range(0, flat.shape[1], _PAIRS)]
        values = np.concatenate([np.stack(pairs(*part)) for part in parts], axis=1)
        return values.reshape(2, *grid[0].shape)

    ahead = [Interval(*ends) for ends in itertools.pairwise(cuts)][::-1]
    segments: list[Segment] = []
    # Norms that are not resolved far from parallel are resolved nowhere. (At a right angle kernels
    # of odd functions vanish.)
    if NormBasis.find(solve, norms, Interval(0.25, 0.25)) is None:
        return segments
    while ahead:
        omegas = ahead.pop()
        budget = expected(omegas) / 3
        if budget < _LEAST:
            continue
        basis = NormBasis.find(solve, norms, omegas)
        series = None if basis is None else _fit(solve, basis, omegas, budget)
        if series is not None:
            segments.append(Segment(omegas, series))
        elif omegas.width > _SHORTEST:
            ahead += [Interval(omegas.middle, omegas.high), Interval(omegas.low, omegas.middle)]
    return segments


@dataclass(frozen=True)
class NormBasis:
    """Functions of the norm by which a pair kernel is interpolated.

    Attributes
    ----------
    norms : Interval
    nodes : ndarray of shape (rank,)
    cardinal : ndarray of shape (norm terms, rank)
        Chebyshev coefficients of the functions that are one at a node and zero at the others.
    """

    norms: Interval
    nodes: Array
    cardinal: Array

    @staticmethod
    def find(function: Sampled, norms: Interval, omegas: Interval) -> NormBasis | None:
        """Look at some lines; None where they are not resolved.

        The lines span what a kernel does in one norm, to rounding. Pivots of that space are the
        nodes: a third of the Chebyshev points, hence a tenth of their pairs.
        """
        partners, angles = np.meshgrid(norms.nodes(3), [omegas.low, omegas.middle, omegas.high])
        for count in sizes(13, _MAX_NORM_DEGREE, norms):
            nodes, to_series = norms.nodes(count), transform(count)
            if count == 1:
                return NormBasis(norms, nodes, to_series)
            lines = function(nodes[:, None], partners.ravel(), angles.ravel())
            if all(_resolved(to_series @ of_kernel, 0) for of_kernel in lines):
                scaled = np.hstack([line / (np.abs(line).max() or 1.0) for line in lines])
                left, size, _ = np.linalg.svd(scaled)
                rank = max(1, int(np.count_nonzero(size > 0.01 * TOLERANCE * size[0])))
                left = left[:, :rank]
                pivots = qr(left.T, mode="r", pivoting=True)[1][:rank]
                cardinal = np.linalg.solve(left[pivots].T, left.T).T
                return NormBasis(norms, nodes[pivots], to_series @ cardinal)
        return None

    def all_points(self) -> NormBasis:
        """Return the Chebyshev points instead of the chosen ones."""
        count = len(self.cardinal)
        return NormBasis(self.norms, self.norms.nodes(count), transform(count))


def _fit(function: Sampled, basis: NormBasis, omegas: Interval, budget: float) -> PairSeries | None:
    """Interpolate on a segment; None where that takes too many angles, or pairs."""
    counts = list(_ANGLE_SIZES) if omegas.width > 0 else [1]
    first = _guess_size(function, basis.norms, omegas, counts)
    for chosen in (basis, basis.all_points()):
        for count in counts[first:]:
            if count * chosen.nodes.size**2 / 2 > budget:
                return None
            coefficients = _coefficients(function, chosen, omegas, count)
            if count == 1 or all(_resolved(c, 0) for c in coefficients):
                found = PairSeries(*(Series.compress(basis.norms, c) for c in coefficients))
                if _holds(function, found, omegas):
                    return found
                break
    return None


def _holds(function: Sampled, found: PairSeries, omegas: Interval) -> bool:
    """Compare with the function at some pairs between the nodes."""
    norms = found.ck.norms
    # Multiples of irrational numbers fill the box evenly.
    along: Array = np.outer(np.arange(1, _CHECKED + 1), np.sqrt([2.0, 3.0, 5.0])) % 1.0
    # Few different norms, as each is solved for.
    r1, r2 = (norms.low + norms.width * (np.floor(8 * along[:, k]) + 0.5) / 8 for k in range(2))
    omega: Array = omegas.low + omegas.width * along[:, 2]
    where = np.arange(_CHECKED)
    return all(
        np.abs(series.bind(r1, r2).at(where, where, omegas.unit(omega)) - exact).max()
        <= 0.5 * TOLERANCE * np.abs(exact).max()
        for series, exact in zip(found, function(r1, r2, omega), strict=True)
    )


def _guess_size(function: Sampled, norms: Interval, omegas: Interval, counts: list[int]) -> int:
    """Find on a few lines how many angles resolve the function, so that most fits are made once."""
    norm1, norm2 = np.array([[norms.low, norms.low, norms.high], [norms.low, *[norms.high] * 2]])
    for index, count in enumerate(counts):
        lines = function(norm1, norm2, omegas.nodes(count)[:, None])
        if count == 1 or all(_resolved(transform(count) @ of_kernel, 0) for of_kernel in lines):
            return index
    return len(counts)


def _coefficients(function: Sampled, basis: NormBasis, omegas: Interval, angle_count: int) -> Array:
    """Return Chebyshev coefficients of both kernels, (2, angle terms, norm terms, norm terms)."""
    rank = basis.nodes.size
    first, second = np.triu_indices(rank)
    flat = function(basis.nodes[first], basis.nodes[second], omegas.nodes(angle_count)[:, None])
    values = np.empty((2, angle_count, rank, rank))
    values[..., first, second] = flat
    values[..., second, first] = flat
    in_norms = basis.cardinal @ values @ basis.cardinal.T
    return np.einsum("ck,skab->scab", transform(angle_count), in_norms)
