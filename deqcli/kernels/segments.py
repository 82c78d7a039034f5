"""Segments of angles on which a pair kernel is interpolated, and the fits there."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr

from deqcli.kernels.interpolation import (
    MAX_NORM_DEGREE,
    TOLERANCE,
    Interval,
    resolved,
    sizes,
    transform,
)
from deqcli.kernels.pairs import PairKernel
from deqcli.kernels.series import Series
from deqcli.kernels.threads import in_threads

Array = NDArray[np.float64]
Sampled = Callable[[Array, Array, Array], Array]

_MAX_ANGLES = 34
# Lines along which the functions of the norm are looked for: norms and angles of partners.
_PARTNERS, _ANGLES = 5, 3
# Segments of angles are cut no shorter than this.
_SHORTEST = 0.1
# A fit solves for this many pairs at least.
_LEAST = 1000
# Pairs at which a fit is checked.
_CHECKED = 60
# Pairs solved at a time: a long Hermite series holds a few thousand numbers for each.
_PAIRS = 1000


class PairSeries(NamedTuple):
    """The series of the two kernels."""

    ck: Series
    ntk: Series


@dataclass(frozen=True)
class Segment:
    """Both kernels for arcsines of cosines within an interval."""

    omegas: Interval
    series: PairSeries


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

    @functools.cache
    def hopeless() -> bool:
        """Norms that are not resolved far from parallel are resolved nowhere."""
        # At a right angle kernels of odd functions vanish.
        return NormBasis.find(solve, norms, Interval(0.25, 0.25)) is None

    def between(omegas: Interval) -> list[Segment]:
        budget = expected(omegas) / 3
        if budget < _LEAST:
            return []
        basis = NormBasis.find(solve, norms, omegas)
        if basis is None and hopeless():
            return []
        series = None if basis is None else _fit(solve, basis, omegas, budget)
        if series is not None:
            return [Segment(omegas, series)]
        if omegas.width <= _SHORTEST:
            return []
        halves = Interval(omegas.low, omegas.middle), Interval(omegas.middle, omegas.high)
        return [segment for half in halves for segment in between(half)]

    found = in_threads(between, [Interval(*ends) for ends in itertools.pairwise(cuts)])
    return list(itertools.chain.from_iterable(found))


@dataclass(frozen=True)
class NormBasis:
    """Functions of the norm by which a pair kernel is interpolated.

    Attributes
    ----------
    norms : Interval
    nodes : ndarray of shape (rank,)
    functions : ndarray of shape (norm terms, rank)
        Chebyshev coefficients, orthonormal.
    from_nodes : ndarray of shape (rank, rank)
        From values at the nodes to multiples of the functions.
    """

    norms: Interval
    nodes: Array
    functions: Array
    from_nodes: Array

    @staticmethod
    def find(function: Sampled, norms: Interval, omegas: Interval) -> NormBasis | None:
        """Look at some lines; None where they are not resolved.

        The lines span what a kernel does in one norm, to rounding. Pivots of that space are the
        nodes: a third of the Chebyshev points, hence a tenth of their pairs.
        """
        partners, angles = np.meshgrid(
            norms.nodes(_PARTNERS),
            np.linspace(omegas.low, omegas.high, _ANGLES if omegas.width > 0 else 1),
        )
        for count in sizes(13, MAX_NORM_DEGREE, norms):
            nodes, to_series = norms.nodes(count), transform(count)
            if count == 1:
                return NormBasis.of(norms, nodes, to_series)
            lines = function(nodes[:, None], partners.ravel(), angles.ravel())
            if all(resolved(to_series @ of_kernel) for of_kernel in lines):
                scaled = np.hstack([line / (np.abs(line).max() or 1.0) for line in lines])
                left, size, _ = np.linalg.svd(scaled)
                rank = max(1, int(np.count_nonzero(size > 0.001 * TOLERANCE * size[0])))
                left = left[:, :rank]
                pivots = qr(left.T, mode="r", pivoting=True)[1][:rank]
                cardinal = np.linalg.solve(left[pivots].T, left.T).T
                return NormBasis.of(norms, nodes[pivots], to_series @ cardinal)
        return None

    @staticmethod
    def of(norms: Interval, nodes: Array, cardinal: Array) -> NormBasis:
        """Make one of the series of functions that are one at a node and zero at the others."""
        return NormBasis(norms, nodes, *np.linalg.qr(cardinal))

    def all_points(self) -> NormBasis:
        """Return the Chebyshev points instead of the chosen ones."""
        count = len(self.functions)
        return NormBasis.of(self.norms, self.norms.nodes(count), transform(count))


def _fit(function: Sampled, basis: NormBasis, omegas: Interval, budget: float) -> PairSeries | None:
    """Interpolate on a segment; None where that takes too many angles, or pairs."""
    count = _count_angles(function, basis.norms, omegas)
    if count is None:
        return None
    for chosen in (basis, basis.all_points()):
        if count * chosen.nodes.size**2 / 2 > budget:
            return None
        ck, ntk = (
            Series.compress(chosen.norms, chosen.functions, values)
            for values in _coefficients(function, chosen, omegas, count)
        )
        if ck is None or ntk is None:
            return None
        if _holds(function, found := PairSeries(ck, ntk), omegas):
            return found
    return None


def _holds(function: Sampled, found: PairSeries, omegas: Interval) -> bool:
    """Compare with the function at some pairs between the nodes."""
    norms = found.ck.norms
    # Multiples of irrational numbers fill the box evenly.
    along: Array = np.outer(np.arange(1, _CHECKED + 1), np.sqrt([2.0, 3.0, 5.0])) % 1.0
    # Few different norms, as each is solved for. Errors are largest at the ends.
    r1, r2 = (norms.low + norms.width * np.floor(8 * along[:, k]) / 7 for k in range(2))
    omega: Array = omegas.middle - 0.5 * omegas.width * np.cos(np.pi * along[:, 2])
    where = np.arange(_CHECKED)
    return all(
        np.abs(series.bind(r1, r2).at(where, where, omegas.unit(omega)) - exact).max()
        <= 0.5 * TOLERANCE * np.abs(exact).max()
        for series, exact in zip(found, function(r1, r2, omega), strict=True)
    )


def _count_angles(function: Sampled, norms: Interval, omegas: Interval) -> int | None:
    """Find on a few lines how many angles resolve both kernels; None where too many would."""
    if omegas.width == 0:
        return 1
    norm1, norm2 = np.array([[norms.low, norms.low, norms.high], [norms.low, *[norms.high] * 2]])
    lines = function(norm1, norm2, omegas.nodes(_MAX_ANGLES)[:, None])
    size = np.abs(transform(_MAX_ANGLES) @ lines).max(axis=2)
    matters = size > TOLERANCE * size.max(axis=1, keepdims=True)
    # Three more, as other lines may need them.
    count = 4 + int(np.max(np.flatnonzero(matters.any(axis=0)), initial=0))
    return count if count <= _MAX_ANGLES else None


def _coefficients(function: Sampled, basis: NormBasis, omegas: Interval, angle_count: int) -> Array:
    """Return Chebyshev coefficients of both kernels, (2, angle terms, functions, functions)."""
    rank = basis.nodes.size
    first, second = np.triu_indices(rank)
    flat = function(basis.nodes[first], basis.nodes[second], omegas.nodes(angle_count)[:, None])
    values = np.empty((2, angle_count, rank, rank))
    values[..., first, second] = flat
    values[..., second, first] = flat
    in_norms = basis.from_nodes @ values @ basis.from_nodes.T
    return np.einsum("ck,skab->scab", transform(angle_count), in_norms)
