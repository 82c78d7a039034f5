r"""Expectations of an activation over a Gaussian pair, by the best route for that activation.

.. math:: F = E[\phi(u)\phi(v)], \qquad \dot F = E[\phi'(u)\phi'(v)]

for :math:`(u, v)` with standard deviations :math:`v_1, v_2` and angle :math:`\theta`
(:math:`\cos\theta` the correlation). Three routes, which test each other: closed forms
(:mod:`deqcli.closed_forms`), the Hermite series (smooth activations; its remainder is bounded
a priori) and quadrature between kinks (the rest).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from deqcli.activations import Activation
from deqcli.errors import InputError
from deqcli.gaussian import hermite_coefficients, hermite_degree, second_moments

Array = NDArray[np.float64]
Dual = Callable[[Array], tuple[Array, Array]]


def bind(act: Activation, scale1: Array, scale2: Array) -> Dual:
    """Return the map ``theta -> (F, F')`` for pairs of fixed standard deviations.

    Binding first lets a solver that only moves the angles reuse what depends on the scales.

    Parameters
    ----------
    act : Activation
    scale1, scale2 : ndarray of shape (m,)
        Standard deviations, zero allowed.

    Returns
    -------
    callable
        ``ndarray of shape (m,)`` in, two of them out.

    Examples
    --------
    >>> from deqcli.activations import activation
    >>> one = np.ones(1)
    >>> for name in ("sin", "relu"):
    ...     value, slope = bind(activation(name), one, one)(np.zeros(1))
    ...     print(round(float(value[0]), 12), round(float(slope[0]), 12))
    0.432332358382 0.567667641618
    0.5 0.5
    """
    widest = max(float(np.max(scale1, initial=0.0)), float(np.max(scale2, initial=0.0)))
    # The closed form of a clipped function loses digits like (scale/knot)^2.
    outermost = max(map(abs, act.kinks), default=0.0)
    if act.closed_form is not None and not widest > _CANCELS * outermost > 0:
        return _closed(act, scale1, scale2)
    if not act.kinks:
        degree = hermite_degree(act, widest)
        if degree is not None:
            return _series(act, scale1, scale2, degree)
    return _mixed(act, scale1, scale2)


# Kinked activations without closed form, and smooth ones at standard deviations so large that they
# look like steps: the Hermite series up to this correlation, where 0.97^1000 = 6e-14 bounds what
# it leaves out; quadrature beyond.
_SERIES_RHO, _SERIES_DEGREE = 0.97, 1000
_CANCELS = 300.0


def smooth_angle(act: Activation, scale: float) -> float:
    """Return how far from a right angle the pair expectations are smooth and cheap.

    Kinked activations have branch points at parallel pairs, and so nearly have smooth ones at a
    large standard deviation ``scale``; interpolation stops short of them.
    """
    if not act.kinks and (act.closed_form is not None or hermite_degree(act, scale) is not None):
        return float(np.pi / 2)
    if act.closed_form is None:
        return float(np.arcsin(_SERIES_RHO))
    # Kinks away from zero make cones of the branch points, where the two norms differ.
    return 1.2 if any(act.kinks) else 1.43


def _closed(act: Activation, scale1: Array, scale2: Array) -> Dual:
    form, shift = act.closed_form, act.shift
    assert form is not None
    correction = shift**2 - shift * (form.mean(scale1) + form.mean(scale2)) if shift else 0.0

    def dual(theta: Array) -> tuple[Array, Array]:
        value, slope = form.dual(scale1, scale2, theta)
        return value + correction, slope

    return dual


def _series(act: Activation, scale1: Array, scale2: Array, degree: int) -> Dual:
    scales, where = np.unique(np.concatenate([scale1, scale2]), return_inverse=True)
    value, slope = hermite_coefficients(act, scales, degree)
    first, second = where[: scale1.size], where[scale1.size :]
    value, slope = np.ascontiguousarray(value.T), np.ascontiguousarray(slope.T)
    terms: list[Array] = []

    def dual(theta: Array) -> tuple[Array, Array]:
        rho = np.cos(theta)
        count = _terms(float(np.max(np.abs(rho), initial=0.0)), degree)
        if not terms or len(terms[0]) < count:
            # With some to spare, as a solver moves the angles.
            some = min(degree + 1, count + count // 4)
            terms[:] = (c[:some, first] * c[:some, second] for c in (value, slope))
        total, total_slope = terms[0][count - 1].copy(), terms[1][count - 1].copy()
        for k in range(count - 2, -1, -1):
            total *= rho
            total += terms[0][k]
            total_slope *= rho
            total_slope += terms[1][k]
        return total, total_slope

    return dual


def _terms(rho: float, degree: int) -> int:
    """Return how many terms of a series matter at correlations up to ``rho``.

    What k and more terms add is at most rho^k of the second moment.
    """
    needed = np.log(1e-17) / np.log(rho) if 1e-17 < rho < 1 else (1.0 if rho < 1 else np.inf)
    return 1 + int(min(degree, np.ceil(needed)))


def _mixed(act: Activation, scale1: Array, scale2: Array) -> Dual:
    """Use the series at moderate correlations and quadrature near parallel pairs."""
    cache: dict[bytes, tuple[Dual, Dual]] = {}

    def dual(theta: Array) -> tuple[Array, Array]:
        same = (theta == 0) & (scale1 == scale2)
        near = (np.abs(np.cos(theta)) > _SERIES_RHO) & ~same
        far = ~near & ~same
        key = np.packbits([near, same]).tobytes()
        if key not in cache:
            cache.clear()
            cache[key] = (
                _series(act, scale1[far], scale2[far], _SERIES_DEGREE),
                _quadrature(act, scale1[near], scale2[near]),
            )
        value, slope = np.empty_like(theta), np.empty_like(theta)
        for chosen, route in zip((far, near), cache[key], strict=True):
            if chosen.any():
                value[chosen], slope[chosen] = route(theta[chosen])
        if same.any():
            value[same], slope[same] = second_moments(act, scale1[same])
        return value, slope

    return dual


# The double integral's reach: exp(-9^2/2) is below rounding. Panels are at most 1.5 long on the
# scale of the activation, and 3 long on that of the Gaussian.
_REACH, _PANEL, _LONGEST = 9.0, 1.5, 3.0
# From this standard deviation on panels grow outwards instead of being short everywhere.
_WIDE = 5.0
# A pair takes a second here and minutes at 1e20, where smooth activations are all but piecewise
# linear.
_LARGEST = 1e10
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(14)
# Points at a time; they and their temporaries stay in the cache, which halves the time.
_CHUNK = 50_000


def _quadrature(act: Activation, scale1: Array, scale2: Array) -> Dual:
    """Return the double integral in the pair's own axes, split at every kink and crossing.

    With u/v1 = a cos(t/2) + b sin(t/2) and v/v2 = a cos(t/2) - b sin(t/2), a and b independent,
    the integrand in a is smooth between the kinks of either factor, and its integral is smooth
    in b between the points where two of those kinks cross.
    """
    kinks = np.array(act.kinks)
    widest = max(1.0, float(np.max(scale1, initial=0)), float(np.max(scale2, initial=0)))
    if widest > _LARGEST:
        raise InputError(
            f"inputs of {act.name!r} have standard deviations up to {widest:.1e}, too large for "
            "its double integral; scale the data down."
        )
    knots = _knots(widest) if widest > _WIDE else np.empty(0)
    base_a = _even_panels(1.0 if knots.size else widest)

    def dual(theta: Array) -> tuple[Array, Array]:
        value, slope = np.empty_like(theta), np.empty_like(theta)
        # Of nearly parallel pairs the second axis has little of the activation.
        share = float(np.max(np.sin(np.minimum(theta, np.pi - theta) / 2), initial=0.0))
        base_b = _even_panels(share * (1.0 if knots.size else widest))
        across = base_b.size + kinks.size**2 + knots.size
        along = base_a.size + 2 * (kinks.size + knots.size)
        step = max(1, _CHUNK // (across * along * _NODES.size**2))
        for start in range(0, theta.size, step):
            part = slice(start, start + step)
            value[part], slope[part] = _double_integral(
                act, base_a, base_b, knots, scale1[part], scale2[part], theta[part]
            )
        return value, slope

    return dual


def _even_panels(scale: float) -> Array:
    """Return ends of panels of one length, for an activation at that standard deviation."""
    length = min(_LONGEST, _PANEL / max(scale, 1e-3))
    return np.linspace(-_REACH, _REACH, 1 + int(np.ceil(2 * _REACH / length)))


def _knots(widest: float) -> Array:
    """Return points of the activation's axis from zero outwards, further and further apart."""
    outwards = [1.0, 2.0, 3.0]
    while outwards[-1] < 1.5 * _REACH * widest:
        outwards.append(4.0 / 3 * outwards[-1] if len(outwards) % 2 else 1.5 * outwards[-1])
    return np.array([*(-x for x in outwards[::-1]), 0.0, *outwards])


def _double_integral(
    act: Activation,
    base_a: Array,
    base_b: Array,
    knots: Array,
    scale1: Array,
    scale2: Array,
    theta: Array,
) -> tuple[Array, Array]:
    """Integrate; ``knots`` refine the panels where the activation is steep on their scale."""
    kinks = np.array(act.kinks)
    # Beyond a right angle mirror the second variable, so that cos(t/2) stays away from zero.
    sign = np.where(theta > np.pi / 2, -1.0, 1.0)
    half = np.where(theta > np.pi / 2, np.pi - theta, theta) / 2
    c, s = np.cos(half), np.sin(half)
    v1, v2 = np.maximum(scale1, 1e-150), sign * np.maximum(scale2, 1e-150)
    k1, k2 = kinks / v1[:, None], kinks / v2[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        crossings = (k1[:, :, None] - k2[:, None, :]) / (2 * s[:, None, None])
        steep = knots / (s * np.maximum(v1, np.abs(v2)))[:, None]
    crossings = np.concatenate([crossings.reshape(len(theta), -1), steep], axis=1)
    b, weight_b = _split_nodes(base_b, np.nan_to_num(crossings, nan=0.0))
    marks = np.concatenate([kinks, knots])
    k1, k2 = marks / v1[:, None], marks / v2[:, None]
    edges = np.concatenate(
        [
            (k1[:, None, :] - (b * s[:, None])[:, :, None]) / c[:, None, None],
            (k2[:, None, :] + (b * s[:, None])[:, :, None]) / c[:, None, None],
        ],
        axis=2,
    )
    a, weight_a = _split_nodes(base_a, edges)
    along, across = a * c[:, None, None], (b * s[:, None])[:, :, None]
    u = (along + across) * v1[:, None, None]
    v = (along - across) * v2[:, None, None]
    weight = weight_a * weight_b[:, :, None]
    value = np.einsum("mba,mba->m", weight, np.asarray(act(u)) * act(v))
    slope = np.einsum("mba,mba->m", weight, np.asarray(act.derivative(u)) * act.derivative(v))
    return value, slope


def _split_nodes(base: Array, breaks: Array) -> tuple[Array, Array]:
    """Gauss-Legendre nodes with Gaussian weights, panels split at ``breaks`` (last axis)."""
    # A break beyond reach for all of them would only add panels of no length.
    breaks = breaks[..., (np.abs(breaks) < _REACH).any(axis=tuple(range(breaks.ndim - 1)))]
    base = np.broadcast_to(base, (*breaks.shape[:-1], base.size))
    edges = np.sort(np.concatenate([base, np.clip(breaks, -_REACH, _REACH)], axis=-1), axis=-1)
    half = np.diff(edges, axis=-1)[..., None] / 2
    nodes = edges[..., :-1, None] + half + half * _NODES
    weights = half * _WEIGHTS * np.exp(-0.5 * nodes**2) / np.sqrt(2 * np.pi)
    shape = (*breaks.shape[:-1], -1)
    return nodes.reshape(shape), weights.reshape(shape)
