"""A function of the user's own: is it elementwise, how steep is it, what is its derivative?"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deqcli.errors import ActivationError

Function = Callable[[NDArray[Any]], NDArray[Any]]

# Not square, so that a function which sums or transposes returns another shape.
_PROBE = np.linspace(-3, 3, 6).reshape(2, 3)


def check_elementwise(function: Function, label: str) -> None:
    """Refuse a function that does not map an array to a finite one of its shape."""
    try:
        value = np.asarray(function(_PROBE.copy()))
    except Exception as error:
        raise ActivationError(
            f"{label} failed on a numpy array ({type(error).__name__}: {error}); "
            "it must take and return an array."
        ) from error
    if value.shape != _PROBE.shape:
        raise ActivationError(
            f"{label} returned shape {value.shape} for an input of shape {_PROBE.shape}; "
            "it must be elementwise."
        )
    if value.dtype.kind not in "fiub" or not np.isfinite(value).all():
        raise ActivationError(f"{label} returned values that are not finite real numbers.")


def difference(function: Function, kinks: tuple[float, ...], x: NDArray[Any]) -> NDArray[Any]:
    """Fourth-order difference quotient, one-sided within reach of a kink."""
    x = np.asarray(x, dtype=float)
    step = 1e-3
    near_right = np.zeros(x.shape, dtype=bool)
    near_left = np.zeros(x.shape, dtype=bool)
    for k in kinks:
        near_right |= (x >= k) & (x < k + 2 * step)
        near_left |= (x < k) & (x > k - 2 * step)
    central = (-1, 8, -8, 1), (2, 1, -1, -2)
    forward = (-25, 48, -36, 16, -3), (0, 1, 2, 3, 4)
    f = [c * function(x + o * step) for c, o in zip(*central, strict=True)]
    slope = np.sum(f, axis=0) / (12 * step)
    for near, side in ((near_right, 1), (near_left, -1)):
        if near.any():
            at = x[near]
            g = [c * function(at + side * o * step) for c, o in zip(*forward, strict=True)]
            slope[near] = side * np.sum(g, axis=0) / (12 * step)
    return np.asarray(slope)


def steepest(derivative: Function) -> float:
    """Return the largest slope on [-1000, 1000], infinite if it still grows at the ends."""
    far = np.geomspace(10, 1000, 200)
    grid = np.concatenate([-far[::-1], np.linspace(-10, 10, 20001), far])
    with np.errstate(all="ignore"):
        slope = np.abs(np.asarray(derivative(grid), dtype=float))
    if not np.isfinite(slope).all():
        return math.inf
    top = float(slope.max())
    grows = max(slope[0], slope[-1]) > 1.01 * slope[np.abs(grid) <= 10].max()
    return math.inf if grows else top
