r"""Kernel matrices from a pair kernel: whole, by row blocks, or between two sets.

Tiles of the upper half are made one after the other, by as many threads as BLAS has, and copied to
the lower half (:mod:`deqcli.kernels.tiles`). Memory is the result plus a few tiles.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_info, threadpool_limits

from deqcli.checks import LARGEST
from deqcli.errors import DataError
from deqcli.kernels.interpolation import Interval, fit_diagonals
from deqcli.kernels.pairs import PairKernel, PairValues
from deqcli.kernels.tiles import SCRATCH, SIDE, Combination, Tiles

Array = NDArray[np.float64]


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
        self.tiles = Tiles(pairs, self._x, self.x_norm, self._y, self.y_norm)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.x_norm.size, self.y_norm.size

    def rows(self, start: int, stop: int, combinations: Sequence[Combination]) -> list[Array]:
        """Return some rows of the matrices, computed in one pass over the data."""
        outs = [np.empty((stop - start, self.shape[1])) for _ in combinations]
        whole = self.symmetric and (start, stop) == (0, self.shape[0])
        tabulated = bool(self.tiles.parts)
        local = threading.local()

        def tile(rows: slice, columns: slice) -> None:
            if not hasattr(local, "buffers"):
                # Entries that are left open are numbers all the same: no warning comes of them.
                local.buffers = np.zeros((SCRATCH + len(combinations), SIDE * SIDE))
            parts = self.tiles.fill(rows, columns, combinations, whole, local.buffers)
            for out, part in zip(outs, parts, strict=True):
                out[rows.start - start : rows.stop - start, columns] = part.T
                if whole and rows != columns:
                    out[columns, rows] = part

        # Of a whole symmetric matrix, only tiles on the diagonal and beyond.
        tiles = [
            (slice(i, min(i + SIDE, stop)), slice(j, min(j + SIDE, self.shape[1])))
            for i in range(start, stop, SIDE)
            for j in range(i if whole else 0, self.shape[1], SIDE)
        ]
        run_tiles(tile, tiles, threads_of_blas() if tabulated else 1)
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


def _mirror_diagonal_tiles(out: Array) -> None:
    """Copy the upper triangle down inside the tiles on the diagonal."""
    n = out.shape[0]
    for start in range(0, n, SIDE):
        block = out[start : start + SIDE, start : start + SIDE]
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


def threads_of_blas() -> int:
    """Return as many threads as BLAS may use now, so that one setting rules both."""
    return max((int(pool["num_threads"]) for pool in threadpool_info()), default=1)


def run_tiles(
    tile: Callable[[slice, slice], None], tiles: list[tuple[slice, slice]], threads: int
) -> None:
    """Do the tiles, by threads each of which has a BLAS of one."""
    if threads == 1 or len(tiles) < 2 * threads:
        for rows, columns in tiles:
            tile(rows, columns)
        return
    with threadpool_limits(1), ThreadPoolExecutor(threads) as pool:
        for _ in pool.map(lambda pair: tile(*pair), tiles):
            pass
