r"""Kernel matrices from a pair kernel: whole, by row blocks, or between two sets.

Tiles of the upper half are made one after the other, by as many threads as BLAS has, and copied to
the lower half (:mod:`deqcli.kernels.tiles`). Memory is the result plus a few tiles.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from deqcli.checks import LARGEST, one_line, unmasked
from deqcli.errors import DataError
from deqcli.kernels.interpolation import Interval, fit_diagonals
from deqcli.kernels.pairs import PairKernel, PairValues
from deqcli.kernels.threads import in_threads
from deqcli.kernels.tiles import SCRATCH, SIDE, Combination, Entries, Tiles

Array = NDArray[np.float64]


def check_samples(X: object, name: str = "X", least: int = 1) -> Array:
    """Return ``X`` as a finite float64 matrix, or say what is wrong with it."""
    try:
        array = unmasked(X, name)
        if array.dtype.kind == "c":
            raise TypeError("complex numbers")
        array = np.ascontiguousarray(array, dtype=np.float64)
    except DataError:
        raise
    except Exception as error:  # of whatever library it is: a tensor that is learned, for one
        reason = one_line(error).rstrip(".")
        raise DataError(f"`{name}` must be numeric, (samples, features): {reason}.") from error
    if array.ndim != 2 or array.shape[1] == 0:
        raise DataError(
            f"`{name}` must be a matrix of shape (samples, features), not of shape {array.shape}."
        )
    if array.shape[0] < least:
        raise DataError(f"`{name}` has {array.shape[0]} sample(s); give at least {least}.")
    # No arrays beside a large X: one entry that is not a number makes the largest none.
    largest = max(array.max(initial=0.0), -array.min(initial=0.0))
    if not np.isfinite(largest):
        bad = np.argwhere(~np.isfinite(array))
        row, column = bad[0]
        raise DataError(
            f"`{name}` has {len(bad)} entries that are not finite, the first at row {row}, "
            f"column {column}; remove those samples."
        )
    if largest > LARGEST:
        raise DataError(f"`{name}` has entries beyond {LARGEST:g}, too large to square; scale it.")
    return array


def root_mean_squared_norm(X: Array) -> float:
    """Return the root of the mean squared norm of rows, where the DEQ of a fitted twin is centred.

    Examples
    --------
    >>> root_mean_squared_norm(np.array([[3.0, 4.0], [0.0, 5.0]]))
    5.0
    """
    return float(np.sqrt(np.mean(np.einsum("ij,ij->i", X, X))))


def check_columns(values: object, name: str) -> Array:
    """Return a vector as one column, or a matrix, finite float64, or say what is wrong with it."""
    try:
        array = unmasked(values, name)
    except DataError:
        raise
    except ValueError:
        raise DataError(f"`{name}` is ragged; give a vector, or rows of one length.") from None
    except Exception:
        return check_samples(values, name)
    return check_samples(array[:, None] if array.ndim == 1 else array, name)


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

    def rows(
        self,
        start: int,
        stop: int,
        combinations: Sequence[Combination],
        outs: Sequence[Array] | None = None,
    ) -> list[Array]:
        """Return some rows of the matrices, in ``outs`` if given, in one pass over the data."""
        if outs is None:
            outs = [np.empty((stop - start, self.shape[1])) for _ in combinations]
        whole = self.symmetric and (start, stop) == (0, self.shape[0])
        local = threading.local()
        # Without series nearly all entries are solved one by one: too many to keep.
        later: list[Entries] | None = [] if self.tiles.parts else None

        def tile(place: tuple[slice, slice]) -> None:
            rows, columns = place
            if not hasattr(local, "buffers"):
                # Entries that are left open are numbers all the same: no warning comes of them.
                local.buffers = np.zeros((SCRATCH + len(combinations), SIDE * SIDE))
            parts = self.tiles.fill(rows, columns, combinations, whole, local.buffers, later)
            for out, part in zip(outs, parts, strict=True):
                out[rows.start - start : rows.stop - start, columns] = part.T
                if whole and rows != columns:
                    out[columns, rows] = part

        # Of a whole symmetric matrix, only tiles on the diagonal and beyond.
        down, across = _tiled(start, stop), _tiled(0, self.shape[1])
        tiles = [(r, c) for r in down for c in across if not whole or c.start >= r.start]
        if later is None:
            for place in tiles:
                tile(place)
        else:
            in_threads(tile, tiles)
        if later:
            i, j, cosine = (np.concatenate(part) for part in zip(*later, strict=True))
            # Tiles end in any order; a solve depends, in its last digit, on what is beside it.
            order = np.lexsort((j, i))
            left_open = Entries(i[order], j[order], cosine[order])
            values = self.tiles.values(left_open, combinations)
            for out, value in zip(outs, values, strict=True):
                out[left_open.i - start, left_open.j] = value
                if whole:
                    out[left_open.j, left_open.i] = value
        if self.symmetric:
            here = np.arange(start, stop)
            for out, c in zip(outs, combinations, strict=True):
                diagonal = c.scale * self.diagonals.of(c.kernel) + c.gram * self.x_norm**2
                for rows in down if whole else ():
                    _mirror(out[rows, rows])
                out[here - start, here] = diagonal[start:stop]
        return list(outs)

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


def _tiled(start: int, stop: int) -> list[slice]:
    """Cut a range into equal parts of at most :data:`SIDE`, but for one."""
    count = max(1, -(-(stop - start) // SIDE))
    ends = np.linspace(start, stop, count + 1).astype(int)
    return [slice(int(i), int(j)) for i, j in itertools.pairwise(ends)]


def _mirror(block: Array) -> None:
    """Copy the upper triangle down."""
    upper = np.triu(block)
    np.add(upper, np.triu(block, 1).T, out=block)


def _directions(X: Array) -> tuple[Array, Array]:
    """Return unit rows (zero rows stay zero) and their norms."""
    with np.errstate(over="ignore", under="ignore"):
        squares = np.einsum("ij,ij->i", X, X)
    if np.all((squares > 1e-200) & (squares < 1e200)):
        norm = np.sqrt(squares)
        return X / norm[:, None], norm
    # Scaling by the largest entry first keeps tiny and huge inputs from under- or overflowing.
    top = np.abs(X).max(axis=1, initial=0.0)
    safe = np.where(top > 0, top, 1.0)
    scaled = X / safe[:, None]
    norm = np.linalg.norm(scaled, axis=1)
    return scaled / np.where(norm > 0, norm, 1.0)[:, None], norm * top
