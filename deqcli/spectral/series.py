"""A density on an interval as series in an angle, and its integral."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.fft import dct
from scipy.interpolate import PchipInterpolator

Array = NDArray[np.float64]

# A piece is halved if the last of its coefficients have more mass than this, so many times at most,
# and how many points the halves have.
_MASS, _HALVINGS, _PIECE_NODES = 1e-5, 20, 48
# Logarithms of how near to an interval's ends, as angles, ratios are known.
_FARTHEST = 6.0


@dataclass(frozen=True)
class Span:
    r"""An interval with the angle :math:`\theta \in [0, \pi]`, in the logarithm if it is wide.

    :math:`u = \frac{u_1 + u_2}2 + \frac{u_2 - u_1}2\cos\theta` for :math:`u = x` or
    :math:`\log x`: points are close at the ends, where a density has square roots.
    """

    left: float
    right: float

    @property
    def wide(self) -> bool:
        """Whether it spans orders of magnitude."""
        return self.left > 0 and self.right > 30 * self.left

    def points(self, angle: Array) -> Array:
        """Return the points at angles."""
        first, last = self._ends
        u = 0.5 * (first + last) + 0.5 * (last - first) * np.cos(angle)
        return np.clip(np.exp(u) if self.wide else u, self.left, self.right)

    def angles(self, points: Array) -> Array:
        """Return the angles of points; those outside have that of the nearest end."""
        first, last = self._ends
        inside = np.clip(points, self.left, self.right)
        unit = (2 * (np.log(inside) if self.wide else inside) - first - last) / (last - first)
        return np.asarray(np.arccos(np.clip(unit, -1.0, 1.0)))

    def speed(self, angle: Array) -> Array:
        r"""Return :math:`-dx/d\theta`."""
        first, last = self._ends
        speed = 0.5 * (last - first) * np.sin(angle)
        return np.asarray(speed * self.points(angle) if self.wide else speed)

    @property
    def _ends(self) -> tuple[float, float]:
        ends = (self.left, self.right)
        return (float(np.log(ends[0])), float(np.log(ends[1]))) if self.wide else ends


@dataclass(frozen=True)
class Series:
    r"""A density times :meth:`Span.speed`, piece by piece a Chebyshev series in the angle.

    A bulk may be a thousand times as narrow as the interval that it is in: pieces are halved
    until their series end.

    Attributes
    ----------
    ends : ndarray of shape (k + 1,)
        Where pieces meet, from 0 to :math:`\pi`.
    pieces : tuple of k arrays
        Coefficients of each.
    """

    span: Span
    ends: Array
    pieces: tuple[Array, ...]

    @staticmethod
    def of(density: Callable[[Array], Array], span: Span, count: int, halved: bool) -> Series:
        """Return the series through ``count`` points, and if ``halved`` more where they need."""
        found: dict[float, tuple[float, Array]] = {}
        open_pieces, halvings = [(0.0, np.pi)], _HALVINGS if halved else 0
        while open_pieces:
            lefts, rights = np.array(open_pieces).T[:, :, None]
            nodes = np.cos(np.pi * (np.arange(count) + 0.5) / count)
            angle = 0.5 * (lefts + rights) + 0.5 * (rights - lefts) * nodes
            values = density(span.points(angle.ravel())).reshape(angle.shape) * span.speed(angle)
            coefficients = dct(values) / count
            coefficients[:, 0] /= 2
            tails = (rights - lefts)[:, 0] * np.abs(coefficients[:, -(count // 8) :]).sum(axis=1)
            halves = []
            for (left, right), series, tail in zip(open_pieces, coefficients, tails, strict=True):
                if tail > _MASS and halvings > 0:
                    middle = 0.5 * (left + right)
                    halves += [(left, middle), (middle, right)]
                else:
                    found[left] = right, series
            open_pieces, halvings, count = halves, halvings - 1, min(count, _PIECE_NODES)
        lefts = sorted(found)
        return Series(span, np.array([*lefts, np.pi]), tuple(found[left][1] for left in lefts))

    def points(self, count: int) -> Array:
        """Return points of the interval, ``count + 1`` of them or more where pieces are many."""
        share = count if len(self.pieces) == 1 else max(8, count // len(self.pieces))
        part = np.arange(share) / share
        angle = (self.ends[:-1, None] + np.diff(self.ends)[:, None] * part).ravel()
        return self.span.points(np.append(angle, np.pi))

    def density(self, points: Array) -> Array:
        """Return the density at points inside."""
        angle, place, at = self._places(points)
        values = np.zeros(points.shape)
        for k, series in enumerate(self.pieces):
            here = place == k
            values[here] = np.polynomial.chebyshev.chebval(at[here], series)
        return np.maximum(values / self.span.speed(angle), 0.0)

    def distribution(self, points: Array) -> Array:
        """Return the integral of the density up to each point."""
        _, place, at = self._places(points)
        found, later = np.zeros(points.shape), 0.0
        halves = 0.5 * np.diff(self.ends)
        # Points descend where the angle ascends.
        for k in reversed(range(len(self.pieces))):
            integral = halves[k] * np.polynomial.chebyshev.chebint(self.pieces[k])
            here = place == k
            whole = np.polynomial.chebyshev.chebval(1.0, integral)
            found[here] = later + whole - np.polynomial.chebyshev.chebval(at[here], integral)
            later += whole - np.polynomial.chebyshev.chebval(-1.0, integral)
        return np.where(points > self.span.left, found, 0.0)

    def _places(self, points: Array) -> tuple[Array, NDArray[np.int64], Array]:
        """Return angles of points, their pieces, and where in these, from -1 to 1."""
        angle = self.span.angles(points)
        place = np.clip(np.searchsorted(self.ends, angle, "right") - 1, 0, len(self.pieces) - 1)
        left, right = self.ends[place], self.ends[place + 1]
        return angle, place, (2 * angle - left - right) / (right - left)


def scaled(
    cheap: Callable[[Array], Array],
    near: Span,
    density: Callable[[Array], Array],
    span: Span,
    count: int,
) -> Callable[[Array], Array]:
    """Return a density that is cheap, times what it lacks at ``count`` points.

    Parameters
    ----------
    cheap : callable
        A density on ``near``, with whose ends those of ``span`` are.
    density : callable
        The density on ``span``.
    """

    def moved(points: Array) -> Array:
        stretch = (near.right - near.left) / (span.right - span.left)
        return cheap(np.clip(near.left + stretch * (points - span.left), near.left, near.right))

    place = np.linspace(-_FARTHEST, _FARTHEST, count)
    points = span.points(2 * np.arctan(np.exp(place)))
    ratio = PchipInterpolator(place, density(points) / moved(points))

    def at(points: Array) -> Array:
        with np.errstate(divide="ignore"):
            place = np.log(np.tan(0.5 * span.angles(points)))
        return moved(points) * ratio(np.clip(place, -_FARTHEST, _FARTHEST))

    return at
