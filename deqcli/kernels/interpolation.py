"""Chebyshev points, coefficients and interpolation in one norm."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.polynomial.chebyshev import chebvander
from numpy.typing import NDArray

from deqcli.kernels.pairs import PairKernel, PairValues

Array = NDArray[np.float64]

#: Trailing coefficients below this, relative to the largest, count as nothing.
TOLERANCE = 1e-12
#: Functions of the norm have at most this many Chebyshev coefficients, diagonals twice as many.
MAX_NORM_DEGREE = 48


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


def resolved(coefficients: Array) -> bool:
    """Whether the last two Chebyshev coefficients, along the first axis, count as nothing."""
    size = np.abs(coefficients)
    tail = size[-2:] if len(size) > 2 else size
    return bool(tail.max() <= TOLERANCE * size.max())


def fit_diagonals(pairs: PairKernel, interval: Interval) -> Callable[[Array], PairValues] | None:
    """Interpolate the kernels' diagonals in the norm; None where no admissible degree does it."""
    for count in sizes(9, MAX_NORM_DEGREE * 2, interval):
        nodes = interval.nodes(count)
        values = np.stack(pairs(nodes, nodes, np.zeros_like(nodes)), axis=1)
        series = transform(count) @ values
        if count == 1 or all(resolved(column) for column in series.T):
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
