r"""One tile of a kernel matrix: products, a series for most entries, solves for the rest.

The cosines of a tile are one matrix product. Most of them lie in one segment of angles, whose
series is summed on the whole tile; entries of other segments are gathered, and entries outside of
all (duplicated or nearly parallel inputs under a kinked activation, and few inputs much shorter or
longer than the others) are solved directly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from deqcli.kernels.interpolation import Interval
from deqcli.kernels.pairs import PairKernel, PairValues
from deqcli.kernels.segments import Segment, fit_segments
from deqcli.kernels.series import BoundSeries
from deqcli.vocabulary import Kernel

Array = NDArray[np.float64]
Indices = NDArray[np.intp]
Mask = NDArray[np.bool_]

#: Rows and columns of a tile, at most: an array or two of that size stay in the second-level cache.
SIDE = 256
#: Arrays of the size of a tile that are needed besides the results.
SCRATCH = 3
# Up to this many pairs the direct route is cheaper than building series.
_FEW_PAIRS = 4000
# Rows whose cosines with all the others set the range of the series.
_PROBE_ROWS = 64
# Angles this far apart are one segment if series allow; of wider ranges, the quantiles at both
# ends that the main segment leaves to others.
_NARROW, _RARE = 0.9, 0.001
# Norms within this factor of each other are resolved under kinked activations, too.
_ALIKE = 8.0
# From this share of a tile on a segment is summed on all of it: a gathered entry costs as much as
# some thirty others. Up to it, entries without a series wait for those of other tiles.
_DENSE = 0.03
# Cosines this close to +-1 have lost half their digits: the angle is taken from differences.
_PARALLEL = 1 - 1e-6
# Pairs solved at a time: a long Hermite series holds a few thousand numbers for each.
_DIRECT_CHUNK = 200


@dataclass(frozen=True)
class Combination:
    """A matrix to make: ``scale * kernel + gram * X Y^T``; the pre-activation kernels are such.

    Attributes
    ----------
    kernel : Kernel
        ``ck`` or ``ntk``.
    scale, gram : float
    """

    kernel: Kernel
    scale: float = 1.0
    gram: float = 0.0


class Entries(NamedTuple):
    """Places in a matrix, rows i and columns j, and the cosines there, each of shape (m,)."""

    i: Indices
    j: Indices
    cosine: Array


class _Part:
    """A segment of angles with the series of given inputs, made when first asked for."""

    def __init__(self, segment: Segment, x_norm: Array, y_norm: Array) -> None:
        self.omegas, self.norms = segment.omegas, segment.series.ck.norms
        self._series, self._norms = segment.series, (x_norm, y_norm)
        low, high = self.omegas.low, self.omegas.high
        # To infinity where rounding may push a cosine past the end.
        self.cosines = (
            -np.inf if low <= -np.pi / 2 else float(np.sin(low)),
            np.inf if high >= np.pi / 2 else float(np.sin(high)),
        )

    @cached_property
    def ck(self) -> BoundSeries:
        return self._series.ck.bind(*self._norms)

    @cached_property
    def ntk(self) -> BoundSeries:
        return self._series.ntk.bind(*self._norms)

    def of(self, kernel: Kernel) -> BoundSeries:
        return self.ck if kernel is Kernel.CK else self.ntk


class Tiles:
    """The tiles of the matrices of one pair kernel.

    Parameters
    ----------
    pairs : PairKernel
    x, y : ndarray of shape (n, p), (q, p)
        Unit rows, or zero ones; the same object where the matrix is symmetric.
    x_norm, y_norm : ndarray of shape (n,), (q,)
        Their norms before.
    """

    def __init__(self, pairs: PairKernel, x: Array, x_norm: Array, y: Array, y_norm: Array) -> None:
        self.pairs = pairs
        self._x, self._x_norm, self._y, self._y_norm = x, x_norm, y, y_norm
        self._symmetric = x is y

    @cached_property
    def parts(self) -> list[_Part]:
        """Segments of angles, that of most pairs first; none where the direct route is taken."""
        rows, columns = len(self._x), len(self._y)
        count = rows * (rows - 1) / 2 if self._symmetric else rows * columns
        if count <= _FEW_PAIRS:
            return []
        probe, cuts = self._probe()

        def share(omegas: Interval) -> float:
            within = (probe >= omegas.low) & (probe <= omegas.high)
            return np.count_nonzero(within) / max(1, probe.size)

        def fit(norms: Interval) -> list[Segment]:
            inside = np.mean(_within(norms, self._x_norm)) * np.mean(_within(norms, self._y_norm))
            return fit_segments(
                self.pairs, norms, cuts, lambda omegas: float(count * inside) * share(omegas)
            )

        norms = np.sort(np.concatenate([self._x_norm, self._y_norm]))
        segments = fit(Interval(float(norms[0]), float(norms[-1])))
        if norms[-1] > _ALIKE * norms[0] and sum(share(s.omegas) for s in segments) < 0.5:
            # A zero row among others, say: without those that are not like most.
            segments = fit(_most_alike(norms)) or segments
        segments.sort(key=lambda segment: share(segment.omegas), reverse=True)
        return [_Part(segment, self._x_norm, self._y_norm) for segment in segments]

    @cached_property
    def _unlike(self) -> tuple[Mask, Mask]:
        """Which rows and which columns have norms that the series do not cover."""
        norms = self.parts[0].norms if self.parts else Interval(0.0, np.inf)
        return ~_within(norms, self._x_norm), ~_within(norms, self._y_norm)

    def _probe(self) -> tuple[Array, list[float]]:
        """Return arcsines of some cosines, from evenly spaced rows, and where to cut them."""
        step = -(-len(self._x) // _PROBE_ROWS)
        probe = np.arange(0, len(self._x), step)
        cosine = self._x[probe] @ self._y.T
        if self._symmetric:
            cosine[np.arange(probe.size), probe] = 0.0
        limit = self.pairs.smooth_angle(float(max(self._x_norm.max(), self._y_norm.max())))
        omega = np.arcsin(cosine[np.abs(cosine) <= np.sin(limit)])
        low, high = float(omega.min(initial=0.0)), float(omega.max(initial=0.0))
        margin = 0.1 * (high - low) + 1e-3
        low, high = max(low - margin, -limit), min(high + margin, limit)
        if high - low <= _NARROW:
            return omega, [low, high]
        inner = np.quantile(omega, [_RARE, 1 - _RARE])
        return omega, [low, *(float(c) for c in inner if low < c < high), high]

    def fill(
        self,
        rows: slice,
        columns: slice,
        combinations: Sequence[Combination],
        upper: bool,
        buffers: Sequence[Array],
        later: list[Entries] | None = None,
    ) -> list[Array]:
        """Return the transposes of one tile of the matrices; diagonal entries are left open.

        Parameters
        ----------
        rows, columns : slice
        combinations : sequence of Combination
        upper : bool
            Whether entries below the diagonal may be left open, too.
        buffers : sequence of ndarray
            :data:`SCRATCH` and one for each combination, as long as a tile has entries; the
            results are views of the last.
        later : list of Entries, optional
            Takes the few entries of a tile that no series covers, which are left open, too: many
            of them are solved in nearly the time of one.
        """
        shape = columns.stop - columns.start, rows.stop - rows.start
        arrays = [b[: shape[0] * shape[1]].reshape(shape) for b in buffers]
        (cosine, omega, work), results = arrays[:SCRATCH], arrays[SCRATCH:]
        np.matmul(self._y[columns], self._x[rows].T, out=cosine)
        far = self._far(cosine, rows, columns, upper)
        if self.parts:
            # Rounding pushes cosines of parallel inputs past 1.
            np.arcsin(cosine if far is None else np.clip(cosine, -1, 1, out=omega), out=omega)
            _sum(self.parts[0], rows, columns, omega, work, combinations, results)
        if far is not None:
            self._fill_far(far, rows, columns, cosine, omega, work, combinations, results, later)
        for c, result in zip(combinations, results, strict=True):
            if c.scale != 1.0:
                result *= c.scale
            if c.gram:
                inner = np.multiply(cosine, c.gram * self._x_norm[rows], out=work)
                inner *= self._y_norm[columns, None]
                result += inner
        return results

    def _far(self, cosine: Array, rows: slice, columns: slice, upper: bool) -> Indices | None:
        """Return which entries the main segment does not cover, or None where it covers all."""
        low, high = self.parts[0].cosines if self.parts else (np.inf, -np.inf)
        unlike = self._unlike_on(rows, columns)
        near = unlike is None and cosine.min() >= low and cosine.max() <= high
        if near and max(-low, high) < 1:
            return None
        outside = (cosine < low) | (cosine > high)
        far = np.flatnonzero(outside if unlike is None else outside | unlike)
        if self._symmetric:
            # The diagonal is known, and what lies below it is copied from above.
            j, i = np.divmod(far, cosine.shape[1])
            j, i = j + columns.start, i + rows.start
            far = far[j > i if upper and rows == columns else j != i]
        return far

    def _unlike_on(self, rows: slice, columns: slice) -> Mask | None:
        """Return which entries of a transposed tile have norms without series; None for none."""
        x, y = self._unlike[0][rows], self._unlike[1][columns]
        return y[:, None] | x if x.any() or y.any() else None

    def _fill_far(
        self,
        far: Indices,
        rows: slice,
        columns: slice,
        cosine: Array,
        omega: Array,
        work: Array,
        combinations: Sequence[Combination],
        results: Sequence[Array],
        later: list[Entries] | None,
    ) -> None:
        """Give the chosen entries of a tile the values of other segments or of direct solves."""
        left = np.ones(far.size, dtype=bool)
        angles = omega.reshape(-1)[far] if self.parts else np.empty(0)
        unlike = self._unlike_on(rows, columns)
        for part in self.parts[1:]:
            # A segment's end is rounded once as a cosine and once as an angle.
            chosen = (angles >= part.omegas.low - 1e-12) & (angles <= part.omegas.high + 1e-12)
            chosen &= left
            if unlike is not None:
                chosen &= ~unlike.reshape(-1)[far]
            left &= ~chosen
            where = far[chosen]
            if where.size > _DENSE * omega.size:
                whole = [np.empty_like(omega) for _ in results]
                _sum(part, rows, columns, omega, work, combinations, whole)
                for result, values in zip(results, whole, strict=True):
                    result.reshape(-1)[where] = values.reshape(-1)[where]
            elif where.size:
                j, i = np.divmod(where, omega.shape[1])
                unit = part.omegas.unit(angles[chosen])
                for c, result in zip(combinations, results, strict=True):
                    values = part.of(c.kernel).at(i + rows.start, j + columns.start, unit)
                    result.reshape(-1)[where] = values
        where = far[left]
        if where.size:
            j, i = np.divmod(where, cosine.shape[1])
            entries = Entries(i + rows.start, j + columns.start, cosine.reshape(-1)[where])
            if later is not None and where.size <= _DENSE * cosine.size:
                later.append(entries)
                return
            solved = self._solve(entries)
            for c, result in zip(combinations, results, strict=True):
                result.reshape(-1)[where] = solved.of(c.kernel)

    def values(self, entries: Entries, combinations: Sequence[Combination]) -> list[Array]:
        """Return entries of the matrices by direct solves, each of shape (m,)."""
        solved = self._solve(entries)
        inner = entries.cosine * self._x_norm[entries.i] * self._y_norm[entries.j]
        return [c.scale * solved.of(c.kernel) + c.gram * inner for c in combinations]

    def _solve(self, entries: Entries) -> PairValues:
        norm1, norm2 = self._x_norm[entries.i], self._y_norm[entries.j]
        zero = (norm1 == 0) | (norm2 == 0)
        if not zero.any():
            return self._solve_each(entries)
        # With a zero row, the other's norm is all that matters; every other pair is one of a kind.
        kinds = np.where(zero, norm1 + norm2, -1.0 - np.arange(zero.size))
        _, first, kind = np.unique(kinds, return_index=True, return_inverse=True)
        solved = self._solve_each(
            Entries(entries.i[first], entries.j[first], entries.cosine[first])
        )
        return PairValues(*(values[kind] for values in solved))

    def _solve_each(self, entries: Entries) -> PairValues:
        i, j, cosine = entries
        solved = PairValues(np.empty(i.size), np.empty(i.size))
        for begin in range(0, i.size, _DIRECT_CHUNK):
            part = slice(begin, begin + _DIRECT_CHUNK)
            angle = self._angles(i[part], j[part], cosine[part])
            values = self.pairs(self._x_norm[i[part]], self._y_norm[j[part]], angle)
            solved.ck[part], solved.ntk[part] = values
        return solved

    def _angles(self, i: Indices, j: Indices, cosine: Array) -> Array:
        angle = np.arccos(np.clip(cosine, -1.0, 1.0))
        near = np.flatnonzero(np.abs(cosine) > _PARALLEL)
        step = max(1, 4_000_000 // self._x.shape[1])
        for begin in range(0, near.size, step):
            part = near[begin : begin + step]
            x, y = self._x[i[part]], self._y[j[part]]
            apart = np.linalg.norm(x - y, axis=1)
            together = np.linalg.norm(x + y, axis=1)
            angle[part] = 2 * np.arctan2(apart, together)
        return angle


def _within(interval: Interval, norms: Array) -> Mask:
    return np.asarray((norms >= interval.low) & (norms <= interval.high))


def _most_alike(norms: Array) -> Interval:
    """Return the interval of sorted norms, within a factor, that has most of them."""
    ends = np.searchsorted(norms, _ALIKE * norms, side="right")
    first = int(np.argmax(ends - np.arange(norms.size)))
    return Interval(float(norms[first]), float(norms[ends[first] - 1]))


def _sum(
    part: _Part,
    rows: slice,
    columns: slice,
    omega: Array,
    work: Array,
    combinations: Sequence[Combination],
    results: Sequence[Array],
) -> None:
    """Sum a segment's series on a whole tile."""
    low, width = part.omegas.low, part.omegas.width
    w = np.multiply(omega, 2 / width if width > 0 else 0.0, out=work)
    w -= 2 * low / width + 1 if width > 0 else 0.0
    for c, result in zip(combinations, results, strict=True):
        part.of(c.kernel).on_tile(rows, columns, w, result)
