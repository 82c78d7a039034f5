r"""One tile of a kernel matrix: products, a series for most entries, solves for the rest.

The cosines of a tile are one matrix product. Most of them lie in one segment of angles, whose
series is summed on the whole tile; entries of other segments are gathered, and entries outside of
all (duplicated or nearly parallel inputs under a kinked activation) are solved directly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from deqcli.kernels.interpolation import BoundSeries, Interval, fit_segments
from deqcli.kernels.pairs import PairKernel, PairValues
from deqcli.vocabulary import Kernel

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

#: Rows and columns of a tile, at most.
SIDE = 256
# Columns whose series is summed at a time: what that takes stays in the second-level cache.
_STRIP = 64
#: Arrays of the size of a tile that are needed besides the results.
SCRATCH = 5
# Up to this many pairs the direct route is cheaper than building series.
_FEW_PAIRS = 4000
# Rows whose cosines with all the others set the range of the series.
_PROBE_ROWS = 128
# Angles this far apart are one segment if series allow; of wider ranges, the quantiles at both
# ends that the main segment leaves to others.
_NARROW, _RARE = 0.9, 0.001
# From this share of a tile on a segment is summed on all of it: a gathered entry costs as much as
# some thirty others.
_DENSE = 0.03
# Cosines this close to +-1 have lost half their digits: the angle is taken from differences.
_PARALLEL = 1 - 1e-6
_DIRECT_CHUNK = 5_000


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


@dataclass(frozen=True)
class _Part:
    """A segment of angles with the series of given inputs."""

    omegas: Interval
    ck: BoundSeries
    ntk: BoundSeries

    def of(self, kernel: Kernel) -> BoundSeries:
        return self.ck if kernel is Kernel.CK else self.ntk

    @cached_property
    def cosines(self) -> tuple[float, float]:
        """What it covers; to infinity where rounding may push a cosine past the end."""
        low, high = self.omegas.low, self.omegas.high
        return (
            -np.inf if low <= -np.pi / 2 else float(np.sin(low)),
            np.inf if high >= np.pi / 2 else float(np.sin(high)),
        )


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
        norms = np.concatenate([self._x_norm, self._y_norm])
        covered = Interval(float(norms.min()), float(norms.max()))
        probe, cuts = self._probe()

        def share(omegas: Interval) -> float:
            within = (probe >= omegas.low) & (probe <= omegas.high)
            return np.count_nonzero(within) / max(1, probe.size)

        segments = fit_segments(self.pairs, covered, cuts, lambda omegas: count * share(omegas))
        segments.sort(key=lambda segment: share(segment.omegas), reverse=True)
        return [
            _Part(s.omegas, *(series.bind(self._x_norm, self._y_norm) for series in s.series))
            for s in segments
        ]

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
        """
        shape = columns.stop - columns.start, rows.stop - rows.start
        arrays = [b[: shape[0] * shape[1]].reshape(shape) for b in buffers]
        (cosine, omega, *work), results = arrays[:SCRATCH], arrays[SCRATCH:]
        np.matmul(self._y[columns], self._x[rows].T, out=cosine)
        far = self._far(cosine, rows, columns, upper)
        if self.parts:
            # Rounding pushes cosines of parallel inputs past 1.
            np.arcsin(cosine if far is None else np.clip(cosine, -1, 1, out=omega), out=omega)
            _sum(self.parts[0], rows, columns, omega, work, combinations, results)
        if far is not None:
            self._fill_far(far, rows, columns, cosine, omega, work, combinations, results)
        for c, result in zip(combinations, results, strict=True):
            if c.scale != 1.0:
                result *= c.scale
            if c.gram:
                inner = np.multiply(cosine, c.gram * self._x_norm[rows], out=work[0])
                inner *= self._y_norm[columns, None]
                result += inner
        return results

    def _far(self, cosine: Array, rows: slice, columns: slice, upper: bool) -> Indices | None:
        """Return which entries the main segment does not cover, or None where it covers all."""
        low, high = self.parts[0].cosines if self.parts else (np.inf, -np.inf)
        if cosine.min() >= low and cosine.max() <= high and max(-low, high) < 1:
            return None
        far = np.flatnonzero((cosine < low) | (cosine > high))
        if self._symmetric:
            # The diagonal is known, and what lies below it is copied from above.
            j, i = np.divmod(far, cosine.shape[1])
            j, i = j + columns.start, i + rows.start
            far = far[j > i if upper and rows == columns else j != i]
        return far

    def _fill_far(
        self,
        far: Indices,
        rows: slice,
        columns: slice,
        cosine: Array,
        omega: Array,
        work: Sequence[Array],
        combinations: Sequence[Combination],
        results: Sequence[Array],
    ) -> None:
        """Give the chosen entries of a tile the values of other segments or of direct solves."""
        left = np.ones(far.size, dtype=bool)
        angles = omega.reshape(-1)[far] if self.parts else np.empty(0)
        for part in self.parts[1:]:
            # A segment's end is rounded once as a cosine and once as an angle.
            chosen = (angles >= part.omegas.low - 1e-12) & (angles <= part.omegas.high + 1e-12)
            chosen &= left
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
            solved = self._solve(i + rows.start, j + columns.start, cosine.reshape(-1)[where])
            for c, result in zip(combinations, results, strict=True):
                result.reshape(-1)[where] = solved.of(c.kernel)

    def _solve(self, i: Indices, j: Indices, cosine: Array) -> PairValues:
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


def _sum(
    part: _Part,
    rows: slice,
    columns: slice,
    omega: Array,
    work: Sequence[Array],
    combinations: Sequence[Combination],
    results: Sequence[Array],
) -> None:
    """Sum a segment's series on a whole tile."""
    low, width = part.omegas.low, part.omegas.width
    for start in range(0, len(omega), _STRIP):
        here = slice(start, min(start + _STRIP, len(omega)))
        those = slice(columns.start + here.start, columns.start + here.stop)
        twice, *scratch = (array[: here.stop - here.start] for array in work)
        np.multiply(omega[here], 4 / width if width > 0 else 0.0, out=twice)
        twice -= 4 * low / width + 2 if width > 0 else 0.0
        for c, result in zip(combinations, results, strict=True):
            part.of(c.kernel).on_tile(rows, those, twice, result[here], *scratch)
