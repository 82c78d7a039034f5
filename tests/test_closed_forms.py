"""Closed-form pair expectations against one-dimensional mpmath integrals."""

import itertools
import math
from types import SimpleNamespace

import mpmath as mp
import numpy as np
import pytest
from mpmath.calculus.quadrature import GaussLegendre
from scipy.special import ndtr

from deqcli.closed_forms import Erf, PiecewiseLinear, Sinusoid


def clip_pair(c, v1, v2, theta, rule, lib):
    """E clip(u) clip(v) and E clip'(u) clip'(v): over v given u in closed form, u by ``rule``.

    ``lib`` computes cos, sin, the normal distribution function and density; ``rule`` sums a
    function over panels that end at the given points.
    """
    rho, sd = lib.cos(theta), v2 * lib.sin(theta)

    def cuts(x):
        m = v2 * rho * x
        return m, (-c - m) / sd, (c - m) / sd

    def value(x):
        m, a, b = cuts(x)
        middle = m * (lib.cdf(b) - lib.cdf(a)) - sd * (lib.pdf(b) - lib.pdf(a))
        inner = c * (lib.cdf(-b) - lib.cdf(a)) + middle
        return lib.pdf(x) * lib.clip(v1 * x, -c, c) * inner

    def slope(x):
        _, a, b = cuts(x)
        return lib.pdf(x) * (lib.cdf(b) - lib.cdf(a))

    # The inner expectation bends within a few widths of the points where v reaches a knot.
    bends = [c / (v2 * abs(rho)) + t * sd / (v2 * abs(rho)) for t in range(-10, 11, 2)]
    steps = {s * x for s in (-1, 1) for x in (0, *range(1, 13), c / v1, *bends)}
    points = sorted(x for x in steps if abs(x) <= 12)
    return rule(value, points), rule(slope, [x for x in points if abs(x) <= c / v1])


@pytest.mark.parametrize(("v1", "v2"), [(1.0, 1.0), (0.3, 2.2), (5.0, 4.0), (30.0, 1.0)])
def test_the_hard_tanh_by_conditioning(v1, v2, tol):
    nodes, weights = np.polynomial.legendre.leggauss(40)

    def rule(function, points):
        edges = np.array(points)
        half = np.diff(edges)[:, None] / 2
        return float(np.sum(half * weights * function(edges[:-1, None] + half * (1 + nodes))))

    lib = SimpleNamespace(cos=np.cos, sin=np.sin, cdf=ndtr, clip=np.clip)
    lib.pdf = lambda x: np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi)
    form = PiecewiseLinear(-1.0, 0.0, (-1.0, 1.0), (1.0, -1.0))
    # At a right angle the bends run away to infinity; parallel pairs have no second width.
    theta = np.array([1e-7, 1e-4, 0.01, 0.4, 1.2, 2.0, 3.0, math.pi - 1e-4])
    value, slope = form.dual(np.full_like(theta, v1), np.full_like(theta, v2), theta)
    for k, at in enumerate(theta):
        exact, exact_slope = clip_pair(1.0, v1, v2, at, rule, lib)
        assert value[k] == pytest.approx(exact, abs=tol("quadrature")), at
        # Near parallel pairs sd itself is only known to rounding of the angle.
        assert slope[k] == pytest.approx(exact_slope, abs=tol("quadrature")), at


@pytest.mark.parametrize("theta", [1e-6, 0.4, 3.0])
def test_the_hard_tanh_against_mpmath(theta, tol):
    def rule(function, points):
        panels = itertools.pairwise(mp.mpf(x) for x in points)
        gauss = GaussLegendre(mp.mp)
        return float(
            mp.fsum(
                w * function(x) for a, b in panels for x, w in gauss.get_nodes(a, b, 4, mp.mp.prec)
            )
        )

    lib = SimpleNamespace(cos=mp.cos, sin=mp.sin, cdf=mp.ncdf, pdf=mp.npdf)
    lib.clip = lambda x, low, high: max(low, min(high, x))
    form = PiecewiseLinear(-1.0, 0.0, (-1.0, 1.0), (1.0, -1.0))
    dual = form.dual(np.array([0.3]), np.array([2.2]), np.array([theta]))
    with mp.workdps(25):
        exact = clip_pair(mp.mpf(1), mp.mpf(0.3), mp.mpf(2.2), mp.mpf(theta), rule, lib)
    assert [float(x[0]) for x in dual] == pytest.approx(exact, abs=tol("quadrature"))


def test_the_hard_tanh_at_parallel_pairs_and_small_inputs(tol):
    """At equal variables E clip^2 is known; inputs that reach no knot see a linear function."""
    form = PiecewiseLinear(-1.0, 0.0, (-1.0, 1.0), (1.0, -1.0))
    for v in (1e-9, 0.2, 1.0, 7.0, 100.0):
        h = 1 / v
        inside = math.erf(h / math.sqrt(2))
        tail = 2 * h * math.exp(-h * h / 2) / math.sqrt(2 * math.pi)
        square = v**2 * (inside - tail) + 1 - inside
        for theta, sign in ((0.0, 1), (math.pi, -1)):
            value, slope = form.dual(np.array([v]), np.array([v]), np.array([theta]))
            assert value[0] == pytest.approx(sign * square, rel=tol("routes"))
            assert slope[0] == pytest.approx(inside, abs=tol("quadrature"))
    small, angle = np.array([1e-5]), np.array([1.0])
    value, slope = form.dual(small, 2 * small, angle)
    assert value[0] == pytest.approx(2e-10 * math.cos(1.0), rel=tol("rounding"))
    assert slope[0] == pytest.approx(1.0, abs=tol("rounding"))


def test_knots_on_one_side_and_at_zero(expect_pair, tol):
    """A ramp at a negative knot, one at zero, one beyond: no symmetry to hide behind."""
    form = PiecewiseLinear(0.3, -0.2, (-0.7, 0.0, 1.1), (0.5, -1.5, 0.9))

    def function(x):
        ramps = zip(form.knots, form.jumps, strict=True)
        return 0.3 - 0.2 * x + sum(s * np.maximum(x - k, 0) for k, s in ramps)

    def slope(x):
        ramps = zip(form.knots, form.jumps, strict=True)
        return -0.2 + sum(s * (x > k) for k, s in ramps)

    for v1, v2, rho in ((1.0, 0.8, 0.5), (0.4, 2.0, -0.9), (1.5, 1.5, 0.95), (1.0, 1.0, 0.0)):
        covariance = np.array([[v1**2, v1 * v2 * rho], [v1 * v2 * rho, v2**2]])
        dual = form.dual(np.array([v1]), np.array([v2]), np.array([math.acos(rho)]))
        assert dual[0][0] == pytest.approx(
            expect_pair(function, form.knots, covariance), abs=tol("quadrature")
        )
        assert dual[1][0] == pytest.approx(
            expect_pair(slope, form.knots, covariance), abs=tol("quadrature")
        )
        mean = form.mean(np.array([v1]))[0]
        wide = np.array([[v1**2, 0], [0, 1.0]])
        split = expect_pair(lambda x: 1 + function(x), form.knots, wide)
        other = form.mean(np.array([1.0]))[0]
        assert (1 + mean) * (1 + other) == pytest.approx(split, abs=tol("quadrature"))


def test_the_arc_cosine_kernel():
    """Cho and Saul's formula at angles where cos theta has lost half its digits."""
    form = PiecewiseLinear(0.0, 0.0, (0.0,), (1.0,))
    one, theta = np.ones(4), np.array([0.0, 1e-9, 1e-5, math.pi])
    value, slope = form.dual(one, 2 * one, theta)
    np.testing.assert_array_equal(slope, (math.pi - theta) / (2 * math.pi))
    np.testing.assert_allclose(
        value, [1.0, 1.0, 1 - 0.5e-10 + 1e-15 / (3 * math.pi), 0.0], 0, 1e-14
    )


@pytest.mark.parametrize("v", [1e-8, 1.0, 1e4, 1e8])
def test_erf_at_parallel_inputs_of_any_size(v, tol):
    """E erf'^2 = 4/(pi sqrt(1 + 4 v^2)) exactly; the textbook form loses all digits at 1e8."""
    at = np.array([v])
    value, slope = Erf().dual(at, at, np.zeros(1))
    assert slope[0] == pytest.approx(4 / math.pi / math.sqrt(1 + 4 * v**2), rel=tol("rounding"))
    with mp.workdps(40):
        exact = float(2 / mp.pi * mp.asin(2 * mp.mpf(v) ** 2 / (1 + 2 * mp.mpf(v) ** 2)))
    assert value[0] == pytest.approx(exact, rel=tol("rounding"))


@pytest.mark.parametrize("v", [1e-6, 0.5, 3.0, 1e3])
@pytest.mark.parametrize("theta", [0.0, 1e-3, 1.0, 2.5, math.pi])
@pytest.mark.parametrize("cosine", [False, True])
def test_sinusoids_of_any_size(v, theta, cosine, tol):
    with mp.workdps(40):
        lam, q = mp.mpf(v) ** 2 * mp.cos(mp.mpf(theta)), mp.mpf(v) ** 2
        odd, even = float(mp.exp(-q) * mp.sinh(lam)), float(mp.exp(-q) * mp.cosh(lam))
    value, slope = Sinusoid(cosine).dual(np.array([v]), np.array([v]), np.array([theta]))
    expected = (even, odd) if cosine else (odd, even)
    for computed, exact in zip((value[0], slope[0]), expected, strict=True):
        assert computed == pytest.approx(exact, rel=10 * tol("quadrature"), abs=1e-300)


def test_zero_scales_are_the_value_at_zero(tol):
    zero, one, theta = np.zeros(1), np.ones(1), np.array([1.0])
    clip = PiecewiseLinear(-1.0, 0.0, (-1.0, 1.0), (1.0, -1.0))
    for form, at_zero in ((clip, 0.0), (Erf(), 0.0), (Sinusoid(True), 1.0)):
        value = form.dual(zero, one, theta)[0][0]
        assert value == pytest.approx(at_zero * form.mean(one)[0], abs=tol("rounding"))
        assert form.dual(zero, zero, theta)[0][0] == pytest.approx(at_zero**2, abs=tol("rounding"))
