r"""Chebyshev interpolation of a pair kernel in its three scalars.

A kernel entry is one smooth function of :math:`(\|x\|, \|x'\|, \omega)`,
:math:`\omega = \arcsin\cos\angle(x, x')`. The arcsine opens the branch points at parallel inputs
that kinked activations have, so that a tensor of a few dozen Chebyshev polynomials a direction
reaches rounding. The degree in each direction grows until the trailing coefficients vanish.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.polynomial.chebyshev import chebvander
from numpy.typing import NDArray

from deqcli.kernels.pairs import PairKernel, PairValues
from deqcli.vocabulary import Kernel

Array = NDArray[np.float64]
Sampled = Callable[[Array, Array, Array], Array]

#: Trailing coefficients below this, relative to the largest, count as nothing.
TOLERANCE = 5e-12
_MAX_NORM_DEGREE, _MAX_ANGLE_DEGREE = 48, 160
# Pairs solved at a time: a long Hermite series holds a few thousand numbers for each.
_PAIRS = 2000


@dataclass(frozen=True)
class Interval:
    """A closed interval and its map to [-1, 1]."""

    low: float
    high: float

    def nodes(self, count: int) -> Array:
        """Return ``count`` Chebyshev points of the first kind."""
        return 0.5 * (self.low + self.high) + 0.5 * (self.high - self.low) * _points(count)

    def unit(self, x: Array) -> Array:
        """Map points of the interval to [-1, 1]."""
        width = self.high - self.low
        return (2 * x - (self.low + self.high)) / width if width > 0 else np.zeros_like(x)


def _points(count: int) -> Array:
    return np.asarray(np.cos(np.pi * (np.arange(count) + 0.5) / count))


def transform(count: int) -> Array:
    """Matrix from values at ``count`` Chebyshev points to Chebyshev coefficients."""
    matrix = chebvander(_points(count), count - 1).T * (2 / count)
    matrix[0] /= 2
    return np.asarray(matrix)


def _resolved(coefficients: Array, axis: int) -> bool:
    size = np.abs(coefficients)
    tail = np.take(size, [-1, -2], axis=axis) if size.shape[axis] > 2 else size
    return bool(tail.max() <= TOLERANCE * size.max())


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
    if interval.high - interval.low <= 4e-16 * abs(interval.high):
        return [1]
    sizes = [start]
    while sizes[-1] < largest:
        sizes.append(int(1.5 * sizes[-1]) + 1)
    return sizes


@dataclass(frozen=True)
class PairTable:
    """One kernel off the diagonal as a tensor Chebyshev series.

    Attributes
    ----------
    norms, omegas : Interval
        What is covered.
    coefficients : ndarray of shape (angle terms, norm terms, norm terms)
        Symmetric in the last two axes.
    """

    norms: Interval
    omegas: Interval
    coefficients: Array

    @staticmethod
    def fit(
        pairs: PairKernel, kernel: Kernel, norms: Interval, omegas: Interval
    ) -> PairTable | None:
        """Interpolate the CK or the NTK; None where no degree resolves it."""

        def select(norm1: Array, norm2: Array, omega: Array) -> Array:
            grid = np.broadcast_arrays(norm1, norm2, np.pi / 2 - omega)
            flat = np.stack([array.ravel() for array in grid])
            parts = [flat[:, start : start + _PAIRS] for start in range(0, flat.shape[1], _PAIRS)]
            values = np.concatenate([pairs(*part).of(kernel) for part in parts])
            return values.reshape(grid[0].shape)

        norm_sizes = sizes(5, _MAX_NORM_DEGREE, norms)
        angle_sizes = sizes(9, _MAX_ANGLE_DEGREE, omegas)
        a, b = _guess_sizes(select, norms, omegas, norm_sizes, angle_sizes)
        while a < len(norm_sizes) and b < len(angle_sizes):
            coefficients = _coefficients(select, norms, omegas, norm_sizes[a], angle_sizes[b])
            norms_done = norm_sizes[a] == 1 or _resolved(coefficients, 1)
            angle_done = angle_sizes[b] == 1 or _resolved(coefficients, 0)
            if norms_done and angle_done:
                return PairTable(norms, omegas, _chop(coefficients))
            a, b = a + (not norms_done), b + (not angle_done)
        return None

    def norm_basis(self, norm: Array) -> Array:
        """Return the Chebyshev polynomials of the norms, of shape (n, norm terms)."""
        return np.asarray(chebvander(self.norms.unit(norm), self.coefficients.shape[1] - 1))

    def evaluate(self, left: Array, basis: Array, cosine: Array, work: Array) -> Array:
        """Sum the series on a tile by Clenshaw's recurrence.

        Parameters
        ----------
        left : ndarray of shape (angle terms, rows, norm terms)
            The rows' norm basis times each coefficient matrix (see :meth:`contract`).
        basis : ndarray of shape (columns, norm terms)
        cosine : ndarray of shape (rows, columns)
            Cosines between the inputs.
        work : ndarray of shape (5, >= rows, >= columns)
            Scratch, so that tiles do not allocate.

        Returns
        -------
        ndarray of shape (rows, columns)
            A view into ``work``.
        """
        rows, columns = cosine.shape
        newer, older, product, spare, twice = (w[:rows, :columns] for w in work)
        np.clip(cosine, np.sin(self.omegas.low), np.sin(self.omegas.high), out=twice)
        np.arcsin(twice, out=twice)
        width = self.omegas.high - self.omegas.low
        if width > 0:
            twice *= 4 / width
            twice -= 2 * (self.omegas.low + self.omegas.high) / width
        newer[...] = 0.0
        older[...] = 0.0
        for k in range(len(left) - 1, 0, -1):
            np.matmul(left[k], basis.T, out=product)
            product -= older
            np.multiply(twice, newer, out=spare)
            product += spare
            newer, older, product = product, newer, older
        np.matmul(left[0], basis.T, out=product)
        product -= older
        twice *= 0.5
        np.multiply(twice, newer, out=spare)
        product += spare
        return np.asarray(product)

    def contract(self, basis: Array) -> Array:
        """Return ``basis @ coefficients[k]`` for every k."""
        return np.ascontiguousarray(np.einsum("na,kab->knb", basis, self.coefficients))


def _guess_sizes(
    function: Sampled, norms: Interval, omegas: Interval, *sizes: list[int]
) -> tuple[int, int]:
    """Find on a few lines which sizes resolve the function, so that most tables are built once."""
    low, high = norms.low, norms.high
    norm1, norm2 = np.array([[low, low, high], [low, high, high]])
    norm, omega = np.array([[low, low, high, high], [omegas.low, omegas.high] * 2])

    def first(counts: list[int], interval: Interval, line: Callable[[Array], Array]) -> int:
        for index, count in enumerate(counts):
            if count == 1 or _resolved(transform(count) @ line(interval.nodes(count)), 0):
                return index
        return len(counts)

    return (
        first(sizes[0], norms, lambda r: function(r[:, None], norm, omega)),
        first(sizes[1], omegas, lambda w: function(norm1, norm2, w[:, None])),
    )


def _coefficients(
    function: Sampled, norms: Interval, omegas: Interval, norm_count: int, angle_count: int
) -> Array:
    first, second = np.triu_indices(norm_count)
    r, w = norms.nodes(norm_count), omegas.nodes(angle_count)
    flat = function(r[first, None], r[second, None], w)
    values = np.empty((angle_count, norm_count, norm_count))
    values[:, first, second] = flat.T
    values[:, second, first] = flat.T
    to_norm, to_angle = transform(norm_count), transform(angle_count)
    in_norms = to_norm @ values @ to_norm.T
    return np.einsum("ck,kab->cab", to_angle, in_norms)


def _chop(coefficients: Array) -> Array:
    """Drop trailing terms that do not matter."""
    size = np.abs(coefficients)
    floor = 0.1 * TOLERANCE * size.max()
    angle = 1 + int(np.max(np.nonzero(size.max(axis=(1, 2)) > floor)[0], initial=0))
    norm = 1 + int(np.max(np.nonzero(size.max(axis=(0, 1)) > floor)[0], initial=0))
    return np.ascontiguousarray(coefficients[:angle, :norm, :norm])
