r"""Kernel matrices from a pair kernel: whole, by row blocks, or between two sets.

Small problems go pair by pair. Large ones go tile by tile: the cosines of a tile are one matrix
product, its entries one tensor Chebyshev series, and the few pairs outside the series' range
(duplicated or nearly parallel inputs under a kinked activation) are solved directly. Memory is the
result plus a few tiles.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_info, threadpool_limits

from deqcli.checks import LARGEST
from deqcli.errors import DataError
from deqcli.kernels.interpolation import Interval, PairTable, fit_diagonals
from deqcli.kernels.pairs import PairKernel, PairValues
from deqcli.vocabulary import Kernel

Array = NDArray[np.float64]

# Up to this many pairs the direct route is cheaper than building a table.
_FEW_PAIRS = 4000
_ROWS, _COLUMNS = 128, 512
# Rows whose cosines with all the others set the range of the table.
_PROBE_ROWS = 256
# Cosines this close to +-1 have lost half their digits: the angle is taken from differences.
_PARALLEL = 1 - 1e-6
_DIRECT_CHUNK = 5_000


def check_samples(X: object, name: str = "X", least: int = 1) -> Array:
    """Return ``X`` as a finite float64 matrix, or say what is wrong with it."""
    try:
        array = np.asarray(X)
        if array.dtype.kind == "c":
            raise TypeError("complex numbers")
        array = np.ascontiguousarray(array, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(f"`{name}` must be numeric, (samples, features): {error}.") from error
    if array.ndim != 2 or array.shape[1] == 0:
        raise DataError(
            f"`{name}` must be a matrix of shape (samples, features), not of shape {array.shape}."
        )
    if array.shape[0] < least:
        raise DataError(f"`{name}` has {array.shape[0]} sample(s); give at least {least}.")
    bad = np.argwhere(~np.isfinite(array))
    if bad.size:
        row, column = bad[0]
        raise DataError(
            f"`{name}` has {len(bad)} entries that are not finite, the first at row {row}, "
            f"column {column}; remove those samples."
        )
    if np.abs(array).max(initial=0.0) > LARGEST:
        raise DataError(f"`{name}` has entries beyond {LARGEST:g}, too large to square; scale it.")
    return array


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


class KernelMatrix:
    """Matrices of one pair kernel over one set of inputs, or between two.

    Parameters
    ----------
    pairs : PairKernel
    X : ndarray of shape (n, p)
    Y : ndarray of shape (q, p), optional
        The columns' inputs; the rows' when absent (the matrix is then symmetric).
    """

    def __init__(self, pairs: PairKernel, X: Array, Y: Array | None = None) -> None:
        self.pairs = pairs
        self.symmetric = Y is None
        self._x, self.x_norm = _directions(X)
        self._y, self.y_norm = (self._x, self.x_norm) if Y is None else _directions(Y)
        if self._x.shape[1] != self._y.shape[1]:
            raise DataError(
                f"`X` has {self._x.shape[1]} features and `Y` has {self._y.shape[1]}; give as many."
            )
        self._tables: dict[Kernel, PairTable | None] = {}

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.x_norm.size, self.y_norm.size

    def rows(self, start: int, stop: int, combinations: Sequence[Combination]) -> list[Array]:
        """Return some rows of the matrices, computed in one pass over the data."""
        outs = [np.empty((stop - start, self.shape[1])) for _ in combinations]
        whole = self.symmetric and (start, stop) == (0, self.shape[0])
        tables = [self._table(c.kernel) for c in combinations]
        factors = [
            (t.contract(t.norm_basis(self.x_norm)), t.norm_basis(self.y_norm)) if t else None
            for t in tables
        ]
        local = threading.local()

        def tile(rows: slice, columns: slice) -> None:
            if not hasattr(local, "work"):
                local.work = np.empty((5, _ROWS, _COLUMNS))
            cosine = self._x[rows] @ self._y[columns].T
            inner = None
            for out, c, table, factor in zip(outs, combinations, tables, factors, strict=True):
                if table is None or factor is None:
                    part = self._direct(rows, columns, cosine, None, c.kernel, whole)
                    part = part.reshape(cosine.shape)
                else:
                    outside = _outside(cosine, table)
                    left, right = factor[0][:, rows], factor[1][columns]
                    part = table.evaluate(left, right, cosine, local.work)
                    if outside is not None:
                        part[outside] = self._direct(
                            rows, columns, cosine, outside, c.kernel, whole
                        )
                if c.gram:
                    if inner is None:
                        inner = np.outer(self.x_norm[rows], self.y_norm[columns]) * cosine
                    part = c.scale * part + c.gram * inner
                elif c.scale != 1.0:
                    part = c.scale * part
                out[rows.start - start : rows.stop - start, columns] = part
                if whole and not _on_diagonal(rows, columns):
                    out[columns, rows] = part.T

        # Of a whole symmetric matrix, only tiles that reach the diagonal or lie beyond.
        tiles = [
            (slice(i, min(i + _ROWS, stop)), slice(j, min(j + _COLUMNS, self.shape[1])))
            for i in range(start, stop, _ROWS)
            for j in range(i // _COLUMNS * _COLUMNS if whole else 0, self.shape[1], _COLUMNS)
        ]
        _run_tiles(tile, tiles, 1 if None in tables else _threads())
        if self.symmetric:
            here = np.arange(start, stop)
            for out, c in zip(outs, combinations, strict=True):
                diagonal = c.scale * self.diagonals.of(c.kernel) + c.gram * self.x_norm**2
                if whole:
                    _mirror_diagonal_tiles(out)
                out[here - start, here] = diagonal[start:stop]
        return outs

    @cached_property
    def diagonals(self) -> PairValues:
        """CK and NTK of each row's input with itself, each of shape (n,)."""
        norm = self.x_norm
        if norm.size > 200:
            series = fit_diagonals(self.pairs, Interval(float(norm.min()), float(norm.max())))
            if series is not None:
                return series(norm)
        unique, where = np.unique(norm, return_inverse=True)
        ck, ntk = self.pairs(unique, unique, np.zeros_like(unique))
        return PairValues(ck[where], ntk[where])

    def _table(self, kernel: Kernel) -> PairTable | None:
        """Return the table for this kernel, or None where the direct route is taken."""
        if kernel not in self._tables:
            rows, columns = self.shape
            count = rows * (rows - 1) // 2 if self.symmetric else rows * columns
            self._tables[kernel] = None
            if count > _FEW_PAIRS:
                norms = np.concatenate([self.x_norm, self.y_norm])
                covered = Interval(float(norms.min()), float(norms.max()))
                self._tables[kernel] = PairTable.fit(self.pairs, kernel, covered, self._omega_range)
        return self._tables[kernel]

    @cached_property
    def _omega_range(self) -> Interval:
        """Arcsines of the cosines to expect, from evenly spaced rows; outliers go direct."""
        step = -(-self.shape[0] // _PROBE_ROWS)
        probe = np.arange(0, self.shape[0], step)
        cosine = self._x[probe] @ self._y.T
        if self.symmetric:
            cosine[np.arange(probe.size), probe] = 0.0
        limit = self.pairs.smooth_angle(float(max(self.x_norm.max(), self.y_norm.max())))
        inside = cosine[np.abs(cosine) <= np.sin(limit)]
        low = float(np.arcsin(max(-1.0, inside.min(initial=0.0))))
        high = float(np.arcsin(min(1.0, inside.max(initial=0.0))))
        margin = 0.1 * (high - low) + 1e-3
        return Interval(max(low - margin, -limit), min(high + margin, limit))

    def _direct(
        self,
        rows: slice,
        columns: slice,
        cosine: Array,
        where: NDArray[np.bool_] | None,
        kernel: Kernel,
        whole: bool,
    ) -> Array:
        """Solve the chosen entries of a tile (all by default), in arrays of pairs."""
        i, j = np.nonzero(np.ones(cosine.shape, dtype=bool) if where is None else where)
        near = cosine[i, j]
        i, j = i + rows.start, j + columns.start
        if not self.symmetric:
            return self._solve(i, j, near, kernel)
        # The diagonal is known, and what lies below it on a diagonal tile of a whole matrix is
        # copied from above.
        needed = j > i if whole and _on_diagonal(rows, columns) else i != j
        values = np.zeros(i.size)
        values[needed] = self._solve(i[needed], j[needed], near[needed], kernel)
        return values

    def _solve(
        self, i: NDArray[np.intp], j: NDArray[np.intp], cosine: Array, kernel: Kernel
    ) -> Array:
        values = np.empty(i.size)
        for begin in range(0, i.size, _DIRECT_CHUNK):
            part = slice(begin, begin + _DIRECT_CHUNK)
            angle = self._angles(i[part], j[part], cosine[part])
            pairs = self.pairs(self.x_norm[i[part]], self.y_norm[j[part]], angle)
            values[part] = pairs.of(kernel)
        return values

    def _angles(self, i: NDArray[np.intp], j: NDArray[np.intp], cosine: Array) -> Array:
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


def _outside(cosine: Array, table: PairTable) -> NDArray[np.bool_] | None:
    """Return which entries the table does not cover, or None."""
    # A cosine that rounding pushed past +-1 is not outside of a table that reaches there.
    low = -np.inf if table.omegas.low <= -np.pi / 2 else np.sin(table.omegas.low)
    high = np.inf if table.omegas.high >= np.pi / 2 else np.sin(table.omegas.high)
    if cosine.min() >= low and cosine.max() <= high:
        return None
    return np.asarray((cosine < low) | (cosine > high))


def _on_diagonal(rows: slice, columns: slice) -> bool:
    """Whether a tile holds diagonal entries (tiles start at multiples of their size)."""
    return bool(columns.start <= rows.start < columns.stop)


def _mirror_diagonal_tiles(out: Array) -> None:
    """Copy the upper triangle down inside the tiles on the diagonal."""
    n = out.shape[0]
    for start in range(0, n, _COLUMNS):
        block = out[start : start + _COLUMNS, start : start + _COLUMNS]
        low = np.tril_indices(block.shape[0], -1)
        block[low] = block.T[low]


def _directions(X: Array) -> tuple[Array, Array]:
    """Return unit rows (zero rows stay zero) and their norms."""
    # Scaling by the largest entry first keeps tiny and huge inputs from under- or overflowing.
    top = np.abs(X).max(axis=1, initial=0.0)
    safe = np.where(top > 0, top, 1.0)
    scaled = X / safe[:, None]
    norm = np.linalg.norm(scaled, axis=1)
    return scaled / np.where(norm > 0, norm, 1.0)[:, None], norm * top


def _threads() -> int:
    """Return as many threads as BLAS may use now, so that one setting rules both."""
    return max((int(pool["num_threads"]) for pool in threadpool_info()), default=1)


def _run_tiles(
    tile: Callable[[slice, slice], None], tiles: list[tuple[slice, slice]], threads: int
) -> None:
    if threads == 1 or len(tiles) < 2 * threads:
        for rows, columns in tiles:
            tile(rows, columns)
        return
    with threadpool_limits(1), ThreadPoolExecutor(threads) as pool:
        for _ in pool.map(lambda pair: tile(*pair), tiles):
            pass
