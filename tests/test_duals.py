"""Gaussian pair expectations: the routes against each other, Monte Carlo and Price's theorem."""

import math

import numpy as np
import pytest

from deqcli.activations import REGISTRY, Activation, activation
from deqcli.duals import _closed, _mixed, _quadrature, _series, bind, smooth_angle
from deqcli.gaussian import hermite_degree, second_moments

NAMES = [*sorted(REGISTRY), "htanh:a=0.7,c=2.5", "elu:alpha=0.4", "lrelu:slope=-0.5"]
CLOSED = [name for name in NAMES if activation(name).closed_form is not None]
SMOOTH = [name for name in NAMES if not activation(name).kinks]
OPEN = [n for n in NAMES if activation(n).closed_form is None]


def pairs(seed=0, largest=2.0):
    """Random scales and angles with the awkward ones among them."""
    rng = np.random.default_rng(seed)
    awkward = [0.0, math.pi, 1e-9, 1e-6, 1e-3, math.pi - 1e-9, math.pi - 1e-4, math.pi / 2]
    theta = np.concatenate([rng.uniform(0, math.pi, 6), awkward, [0.0, 1e-6, 1.0, 1.0, 0.0]])
    v1 = rng.uniform(0.05, largest, theta.size)
    v2 = rng.uniform(0.05, largest, theta.size)
    # The last: equal scales at parallel pairs, one zero scale, both zero.
    v2[-5], v2[-4] = v1[-5], v1[-4]
    v1[-3] = 0.0
    v1[-2], v2[-2], v1[-1], v2[-1] = 0.0, 0.0, 1.3, 0.0
    return v1, v2, theta


def agree(act, first, second, v1, v2, tolerance):
    """Compare values and slopes relative to their natural sizes."""
    for k, (a, b) in enumerate(zip(first, second, strict=True)):
        size = np.sqrt(second_moments(act, v1)[k] * second_moments(act, v2)[k])
        np.testing.assert_allclose(a, b, rtol=0, atol=tolerance * max(1.0, size.max()))


@pytest.mark.parametrize("name", CLOSED)
def test_closed_forms_against_quadrature(name, tol):
    act = activation(name).shifted(0.21)
    v1, v2, theta = pairs()
    closed, integral = (route(act, v1, v2)(theta) for route in (_closed, _quadrature))
    # The derivative of a kinked function at a zero scale and a kink at zero is either value.
    clear = (v1 > 0) & (v2 > 0) if 0.0 in act.kinks else np.ones(theta.size, bool)
    closed, integral = (tuple(x[clear] for x in r) for r in (closed, integral))
    agree(act, closed, integral, v1[clear], v2[clear], tol("quadrature"))


@pytest.mark.parametrize("name", SMOOTH)
def test_series_against_quadrature(name, tol):
    act = activation(name).shifted(-0.4)
    v1, v2, theta = pairs(1)
    degree = hermite_degree(act, 2.0)
    agree(
        act,
        _series(act, v1, v2, degree)(theta),
        _quadrature(act, v1, v2)(theta),
        v1,
        v2,
        tol("quadrature"),
    )


@pytest.mark.parametrize("name", NAMES)
def test_series_at_moderate_correlations_against_what_is_used(name, tol):
    act = activation(name).shifted(0.1)
    rng = np.random.default_rng(2)
    theta = rng.uniform(math.acos(0.95), math.acos(-0.95), 8)
    v1, v2 = rng.uniform(0.1, 1.8, (2, 8))
    agree(act, _series(act, v1, v2, 600)(theta), bind(act, v1, v2)(theta), v1, v2, 1e-11)


@pytest.mark.parametrize("name", OPEN)
def test_what_is_used_without_a_closed_form_against_an_independent_integral(name, expect_pair, tol):
    act = activation(name).shifted(0.3)
    v1, v2 = np.array([0.5, 1.4, 1.0, 2.0]), np.array([1.2, 1.3, 1.0, 0.7])
    rho = np.array([0.3, -0.8, 0.96, 0.985])
    value, slope = bind(act, v1, v2)(np.arccos(rho))
    for k in range(v1.size):
        c = np.array([[v1[k] ** 2, v1[k] * v2[k] * rho[k]], [v1[k] * v2[k] * rho[k], v2[k] ** 2]])
        for computed, f in ((value, act), (slope, act.derivative)):
            exact = expect_pair(f, act.kinks, c)
            assert computed[k] == pytest.approx(exact, rel=1e-11, abs=1e-11)


@pytest.mark.parametrize("name", ["tanh", "arctan", "swish", "gelu", "softplus", "elu", "htanh"])
@pytest.mark.parametrize("scale", [8.0, 60.0, 2000.0])
def test_large_scales_against_one_dimensional_integrals(name, scale, tol):
    """At parallel pairs of equal scale the pair expectation is a second moment."""
    act = activation(name).shifted(0.15)
    v = np.array([scale, 0.7 * scale])
    value, slope = bind(act, v, v)(np.zeros(2))
    square, slope_square = second_moments(act, v)
    np.testing.assert_allclose(value, square, rtol=1e-11)
    np.testing.assert_allclose(slope, slope_square, rtol=1e-11)


@pytest.mark.parametrize("name", ["tanh", "swish", "elu", "arctan"])
@pytest.mark.parametrize("scale", [3.6, 7.0, 40.0])
def test_large_scales_series_meets_graded_quadrature(name, scale, tol):
    """Just beyond the correlation where one route hands over to the other."""
    act = activation(name)
    v1, v2 = np.array([scale, scale]), np.array([scale, 0.3 * scale])
    theta = np.array([math.acos(0.969), math.acos(-0.969)])
    agree(act, _series(act, v1, v2, 1000)(theta), _quadrature(act, v1, v2)(theta), v1, v2, 1e-11)


@pytest.mark.parametrize("name", ["tanh", "gelu"])
def test_the_mixed_route_is_the_series_where_both_apply(name, tol):
    act = activation(name)
    v1, v2, theta = pairs(3)
    agree(act, _mixed(act, v1, v2)(theta), bind(act, v1, v2)(theta), v1, v2, tol("quadrature"))


@pytest.mark.parametrize("name", ["swish", "htanh:a=1,c=0.8"])
def test_monte_carlo_agrees(name, tol):
    act = activation(name).shifted(0.2)
    rng = np.random.default_rng(4)
    v1, v2, theta = 1.1, 0.7, 0.9
    x, y = rng.standard_normal((2, 400_000))
    u, v = v1 * x, v2 * (math.cos(theta) * x + math.sin(theta) * y)
    dual = bind(act, np.array([v1]), np.array([v2]))(np.array([theta]))
    for value, f in zip(dual, (act, act.derivative), strict=True):
        sample = f(u) * f(v)
        error = sample.std() / math.sqrt(sample.size)
        assert abs(sample.mean() - value[0]) < tol("monte carlo") * error


@pytest.mark.parametrize("name", NAMES)
def test_prices_theorem(name, tol):
    """The derivative of E f(u) f(v) in the covariance is E f'(u) f'(v)."""
    act = activation(name).shifted(0.1)
    v1, v2 = np.array([0.9, 1.2, 1.0]), np.array([1.1, 0.6, 1.0])
    lam, h = np.array([0.4, -0.3, 0.8]), 1e-4
    up, down = (bind(act, v1, v2)(np.arccos((lam + e) / (v1 * v2)))[0] for e in (h, -h))
    slope = bind(act, v1, v2)(np.arccos(lam / (v1 * v2)))[1]
    size = max(1.0, np.abs(slope).max())
    np.testing.assert_allclose((up - down) / (2 * h), slope, rtol=0, atol=10 * tol("price") * size)


@pytest.mark.parametrize("name", NAMES)
def test_exchange_and_opposite(name, tol):
    act = activation(name).shifted(0.05)
    v1, v2, theta = (x[:6] for x in pairs(5))
    agree(act, bind(act, v1, v2)(theta), bind(act, v2, v1)(theta), v1, v2, tol("quadrature"))
    odd = np.allclose(activation(name)(v1), -activation(name)(-v1), atol=1e-14)
    if odd:
        plain = activation(name)
        value, slope = bind(plain, v1, v2)(theta)
        turned = bind(plain, v1, v2)(math.pi - theta)
        agree(plain, (-value, slope), turned, v1, v2, tol("quadrature"))


def test_a_kinked_function_of_ones_own_equals_the_registered_one(tol):
    own = Activation.from_function(
        lambda x: 0.7 * np.clip(x, -2.5, 2.5),
        lambda x: 0.7 * (np.abs(x) < 2.5),
        kinks=(-2.5, 2.5),
        lipschitz=0.7,
    )
    act = activation("htanh:a=0.7,c=2.5")
    v1, v2, theta = pairs(6)
    agree(act, bind(own, v1, v2)(theta), bind(act, v1, v2)(theta), v1, v2, tol("quadrature"))


def test_empty_batches_are_legal():
    none = np.empty(0)
    for name in ("tanh", "relu", "elu"):
        value, slope = bind(activation(name), none, none)(none)
        assert value.size == slope.size == 0


def test_smooth_angles_leave_parallel_pairs_of_kinked_functions_out():
    assert smooth_angle(activation("tanh"), 1.0) == math.pi / 2
    assert smooth_angle(activation("tanh"), 100.0) < math.pi / 2
    assert smooth_angle(activation("sin"), 100.0) == math.pi / 2
    assert smooth_angle(activation("relu"), 1.0) < math.pi / 2
    assert smooth_angle(activation("elu"), 1.0) < math.pi / 2
