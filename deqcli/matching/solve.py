r"""Find the layers of a family that come closest to a target; exact where they can be.

One layer: the scalars are linear in the squares of the layer's numbers, so the answer is a
non-negative least-squares problem (H-Tanh: a bracketed root).

Two layers: a damped Gauss-Newton iteration (Levenberg-Marquardt) with exact Jacobians, run from
many fixed starts at once. A factor moved from the first layer to the second, with the second
stretched to match, changes neither kernel, so the first layer is normalised to keep the variance
of its input. What is left to choose is therefore 3 numbers for two layers of L-ReLU or quadratics
and 5 for two cubic layers: the former meet four equations only by luck, the latter have just room
for the diagonal's slope.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq, nnls
from scipy.special import ndtri

from deqcli.matching.targets import SIZES, TOLERANCE, Target, htanh_moments, network_scalars
from deqcli.vocabulary import Kernel

Array = NDArray[np.float64]
Layers = list[list[float]]

_STARTS = 96
# Squared norm of the relative residuals below which a solution is exact: 1e-12 in each.
_EXACT = 1e-24


def solve(target: Target, family: str, layers: int) -> tuple[str, Layers]:
    """Return the nearest network of a family: the family of its layers, and their numbers.

    The first differs from ``family`` only where the limit of H-Tanh is a linear layer.

    Examples
    --------
    >>> from deqcli.matching.targets import network_target
    >>> target, _ = network_target(["htanh:a=0.9,c=1.2"])
    >>> [[round(x, 12) for x in layer] for layer in solve(target, "htanh", 1)[1]]
    [[0.9, 1.2]]
    """
    if family == "htanh":
        return _htanh(target)
    if layers == 1:
        return family, _one_layer(target, family)
    return family, _two_layers(target, family)


def htanh_excess(cut: float, twin: Kernel) -> float:
    r"""Return :math:`R = d/(c_1\tau_0^2)` of one H-Tanh layer at :math:`\tau_0 = 1`.

    Falls from :math:`\pi/2` (CK) or infinity (NTK) at c = 0 to 1 at infinity.

    Examples
    --------
    >>> round(htanh_excess(1e-6, Kernel.CK) - np.pi / 2, 5)
    -0.0
    """
    m = htanh_moments((1.0, cut), 1.0)
    if twin == Kernel.CK:
        return float(m.gamma2 / m.m1**2)
    return float((m.gamma2 + m.r) / (2 * m.m1**2))


def _htanh(target: Target) -> tuple[str, Layers]:
    R, twin, tau0 = target.excess, target.twin, target.tau0
    if R - 1 <= TOLERANCE:
        # The limit c -> infinity.
        c1 = target.c1 if twin is Kernel.CK else target.c1 / 2
        return "lrelu", [[math.sqrt(c1), 0.0]]
    cut = narrow = 1e-8
    if htanh_excess(narrow, twin) > R:
        cut = brentq(lambda h: htanh_excess(h, twin) - R, narrow, 9.0, xtol=1e-15, rtol=1e-15)
    # All scalars are proportional to the gain's square: by least squares if R is out of reach.
    unit = np.array(network_scalars("htanh", [(1.0, cut * tau0)], tau0, twin))[:4]
    row, goal = unit / target.denominators[:4], target.values[:4] / target.denominators[:4]
    return "htanh", [[math.sqrt(float(row @ goal / (row @ row))), cut * tau0]]


def _one_layer(target: Target, family: str) -> Layers:
    size, tau0 = SIZES[family], target.tau0
    columns = [network_scalars(family, [list(e)], tau0, target.twin) for e in np.eye(size)]
    weights = 1 / target.denominators[:4]
    squares, _ = nnls(np.array(columns).T[:4] * weights[:, None], target.values[:4] * weights)
    units = np.array([c[3] for c in columns])
    squares[squares * units < 1e-12 * target.d] = 0.0
    numbers = np.sqrt(squares)
    if size == 3:
        # The sign of the cubic term is free: take the better slope of the diagonal.
        flipped = numbers * np.array([1, 1, -1])
        slopes = [
            network_scalars(family, [list(x)], tau0, target.twin)[4] for x in (numbers, flipped)
        ]
        if abs(slopes[1] - target.slope) < abs(slopes[0] - target.slope):
            numbers = flipped
    return [[float(x) for x in numbers]]


@dataclass(frozen=True)
class _Chart:
    """Two layers of a family as one vector, with some numbers held at zero."""

    target: Target
    family: str
    free: tuple[int, ...]

    def layers(self, z: NDArray[np.inexact]) -> list[list[NDArray[np.inexact]]]:
        """Return the numbers of both layers; ``z`` is of shape (free, batch)."""
        size, tau0 = SIZES[self.family], self.target.tau0
        zero = 0 * z[0]
        full = [z[self.free.index(i)] if i in self.free else zero for i in range(2 * size)]
        # The kernel's scale goes into the units, so that z is of order one.
        first = 1.0 if self.family == "lrelu" else tau0
        second = math.sqrt(self.target.d) / (tau0 if self.family == "lrelu" else 1.0)
        return [[first * x for x in full[:size]], [second * x for x in full[size:]]]

    def starts(self, count: int) -> Array:
        """Return fixed, evenly spread points, every second one nearly linear; (count, free)."""
        steps = np.sqrt([2.0, 3.0, 5.0, 7.0, 11.0, 13.0])[: len(self.free)]
        points = np.asarray(ndtri((np.arange(1, count + 1)[:, None] * steps) % 1.0))
        bent = np.array([i % SIZES[self.family] != 0 for i in self.free])
        points[::2, bent] *= 0.1
        return points

    def residuals(self, z: NDArray[np.inexact], slope_weight: float) -> NDArray[np.inexact]:
        """Return the relative errors, then that of the first layer's normalisation."""
        layers, t = self.layers(z), self.target
        scalars = network_scalars(self.family, layers, t.tau0, t.twin)
        first = network_scalars(self.family, layers[:1], t.tau0, Kernel.CK)[3]
        rows = [(s - v) / d for s, v, d in zip(scalars, t.values, t.denominators, strict=True)]
        return np.array([*rows[:4], slope_weight * rows[4], first / t.tau0**2 - 1])


def _charts(target: Target, family: str) -> list[_Chart]:
    """Return the charts to search: numbers that must vanish are held at zero, or Newton stalls."""
    size = SIZES[family]
    free = [i for i in range(2 * size) if target.curved or i % size != 1]
    if not target.vanishes[0]:
        return [_Chart(target, family, tuple(free))]
    # c1 = 0: one of the layers has no linear part.
    return [_Chart(target, family, tuple(i for i in free if i != missing)) for missing in (0, size)]


def _two_layers(target: Target, family: str) -> Layers:
    candidates: list[tuple[tuple[float, ...], Layers]] = []
    for chart in _charts(target, family):
        z, exact = chart.starts(_STARTS), False
        if family == "cubic":
            z, cost = _minimise(partial(chart.residuals, slope_weight=1.0), z)
            exact = bool((cost < _EXACT).any())
            if not exact:
                # Out of reach: as near to the slope as the four scalars allow.
                z, cost = _minimise(partial(chart.residuals, slope_weight=1e-3), z)
        if not exact:
            z, cost = _minimise(partial(chart.residuals, slope_weight=0.0), z)
        if family == "cubic" and not (cost < _EXACT).any():
            more = chart.starts(4 * _STARTS)
            z, cost = _minimise(partial(chart.residuals, slope_weight=0.0), more)
        candidates += [_ranked(chart, x, c) for x, c in zip(z, cost, strict=True)]
    return min(candidates, key=lambda item: item[0])[1]


def _ranked(chart: _Chart, z: Array, cost: float) -> tuple[tuple[float, ...], Layers]:
    """Return a sort key and the layers in canonical sign.

    Exact solutions come first, then those with the right slope, then those with a small share of
    cubic terms: in both layers for the CK, in the last for the NTK (what came out nearer at n = 300
    and 1200 for eight DEQs). A nearly linear first layer settles ties, which rounding makes exact.
    """
    t = chart.target
    layers = [_canonical([float(x) for x in layer]) for layer in chart.layers(z)]
    misfit = 0.0 if cost < _EXACT else round(math.log10(cost), 3) + 100
    slope = network_scalars(chart.family, layers, t.tau0, t.twin)[4]
    off = abs(slope - t.slope) / float(t.denominators[4])
    first, last = (
        layer[-1] ** 2 / sum(x**2 for x in layer) if any(layer) else 0.0 for layer in layers
    )
    share = 0.0 if chart.family != "cubic" else first + last if t.twin is Kernel.CK else last
    return (misfit, round(off, 6), round(share, 6), round(first, 6)), layers


def _canonical(layer: list[float]) -> list[float]:
    """Linear and even terms are not negative; without a linear term the cubic one is not."""
    top = max(abs(x) for x in layer)
    out = [0.0 if abs(x) < 1e-9 * top else x for x in layer]
    if out[0] < 0 or (out[0] == 0 and len(out) == 3 and out[2] < 0):
        out = [-x for x in out]
    out[1] = abs(out[1])
    return [x + 0.0 for x in out]


def _minimise(
    residuals: Callable[[NDArray[np.inexact]], NDArray[np.inexact]], starts: Array
) -> tuple[Array, Array]:
    """Run Levenberg-Marquardt from all starts; return the points and squared residuals."""
    every, costs = starts.copy(), np.full(len(starts), np.inf)
    eye, step = np.eye(starts.shape[1]), 1e-30
    rows = np.arange(len(starts))
    z, damping = every.copy(), np.full(len(starts), 1e-2)
    r = np.asarray(residuals(z.T)).T
    cost = np.sum(r**2, axis=1)
    for _ in range(100):
        # Derivatives by complex steps, which subtract nothing and so lose no digits.
        columns = [np.imag(residuals((z + 1j * step * e).T)).T / step for e in eye]
        J = np.stack(columns, axis=2)
        H = np.einsum("bij,bik->bjk", J, J)
        ridge = (damping + 1e-15) * np.einsum("bjj->b", H) / len(eye) + 1e-300
        g = np.einsum("bij,bi->bj", J, r)
        trial = z - np.linalg.solve(H + ridge[:, None, None] * eye, g[..., None])[..., 0]
        r_trial = np.asarray(residuals(trial.T)).T
        cost_trial = np.sum(r_trial**2, axis=1)
        better = cost_trial < cost
        stalled = better & (cost_trial > (1 - 1e-9) * cost)
        z = np.where(better[:, None], trial, z)
        r = np.where(better[:, None], r_trial, r)
        cost = np.where(better, cost_trial, cost)
        damping = np.where(better, np.maximum(damping / 10, 1e-16), damping * 5)
        every[rows], costs[rows] = z, cost
        going = ~stalled & (cost > 1e-29) & (damping < 1e6)
        if not going.any():
            break
        rows, z, r, cost, damping = (x[going] for x in (rows, z, r, cost, damping))
    return every, costs
