"""Expectations over one Gaussian variable and the centring, against mpmath and closed forms."""

import itertools
import math
from types import SimpleNamespace

import mpmath as mp
import numpy as np
import pytest
from mpmath.calculus.quadrature import GaussLegendre

from deqcli.activations import Activation, activation
from deqcli.errors import (
    ConvergenceError,
    ExistenceError,
    InputError,
    OutsidePapersRangeWarning,
)
from deqcli.gaussian import (
    centring,
    check_existence,
    grid,
    hermite_coefficients,
    hermite_degree,
    moments,
    second_moments,
)
from deqcli.scalars import implicit_scalars


def _swish(x):
    return x / (1 + mp.exp(-x))


def _swish1(x):
    g = 1 / (1 + mp.exp(-x))
    return g * (1 + x * (1 - g))


def _swish2(x):
    g = 1 / (1 + mp.exp(-x))
    return g * (1 - g) * (2 + x * (1 - 2 * g))


def _one_if(condition):
    return mp.mpf(1) if condition else mp.mpf(0)


# Function, its first and second derivative between kinks, and (kink, jump of the slope) pairs: the
# second derivative of a kinked function has a point mass at each.
MP = {
    "tanh": (
        mp.tanh,
        lambda x: mp.sech(x) ** 2,
        lambda x: -2 * mp.tanh(x) * mp.sech(x) ** 2,
        (),
    ),
    "arctan": (
        mp.atan,
        lambda x: 1 / (1 + x * x),
        lambda x: -2 * x / (1 + x * x) ** 2,
        (),
    ),
    "sin": (mp.sin, mp.cos, lambda x: -mp.sin(x), ()),
    "cos": (mp.cos, lambda x: -mp.sin(x), lambda x: -mp.cos(x), ()),
    "swish": (_swish, _swish1, _swish2, ()),
    "gelu": (
        lambda x: x * mp.ncdf(x),
        lambda x: mp.ncdf(x) + x * mp.npdf(x),
        lambda x: (2 - x * x) * mp.npdf(x),
        (),
    ),
    "softplus": (
        lambda x: mp.log1p(mp.exp(x)),
        lambda x: 1 / (1 + mp.exp(-x)),
        lambda x: mp.exp(-x) / (1 + mp.exp(-x)) ** 2,
        (),
    ),
    "elu:alpha=0.5": (
        lambda x: x if x > 0 else mp.expm1(x) / 2,
        lambda x: mp.mpf(1) if x > 0 else mp.exp(x) / 2,
        lambda x: mp.mpf(0) if x > 0 else mp.exp(x) / 2,
        ((0, 0.5),),
    ),
    "relu": (lambda x: max(x, mp.mpf(0)), lambda x: _one_if(x > 0), lambda x: 0, ((0, 1),)),
    "htanh:a=0.8,c=1.5": (
        lambda x: mp.mpf("0.8") * max(mp.mpf("-1.5"), min(mp.mpf("1.5"), x)),
        lambda x: mp.mpf("0.8") * _one_if(abs(x) < 1.5),
        lambda x: 0,
        ((-1.5, 0.8), (1.5, -0.8)),
    ),
}
NOT_IN_CSV = ["arctan", "sin", "cos", "gelu", "softplus", "elu:alpha=0.5"]


def mp_rule(breaks):
    """Nodes and weights of a composite Gauss-Legendre rule under the normal density, in mpmath."""
    points = sorted({mp.mpf(x) for x in (*range(-12, 13, 3), *breaks)})
    rule = GaussLegendre(mp.mp)
    panels = (rule.get_nodes(a, b, 5, mp.mp.prec) for a, b in itertools.pairwise(points))
    return [(x, w * mp.npdf(x)) for panel in panels for x, w in panel]


def mp_moments(name, tau, shift):
    """Moments from their definitions, with derivatives, not by parts."""
    function, first, second, masses = MP[name]
    rule = mp_rule([k / tau for k, _ in masses])
    weights = [w for _, w in rule]
    phi = [function(tau * x) - shift for x, _ in rule]
    phi1 = [first(tau * x) for x, _ in rule]
    phi2 = [second(tau * x) for x, _ in rule]

    def mean(values):
        return mp.fdot(values, weights)

    # (kink, jump of the slope): a point mass of the second derivative.
    mass = [(mp.mpf(k), jump * mp.npdf(k / tau) / tau) for k, jump in masses]
    return SimpleNamespace(
        mean=mean(phi),
        gamma2=mean([f * f for f in phi]),
        m1=mean(phi1),
        m2=mean(phi2) + sum(weight for _, weight in mass),
        s=mean([f1 * f1 + f * f2 for f, f1, f2 in zip(phi, phi1, phi2, strict=True)])
        + sum((function(k) - shift) * weight for k, weight in mass),
        r=mean([f1 * f1 for f1 in phi1]),
    )


@pytest.mark.parametrize("tau", [0.3, 1.0, 2.7])
@pytest.mark.parametrize("name", sorted(MP))
def test_moments_are_those_of_the_definition(name, tau, tol):
    with mp.workdps(20):
        exact = mp_moments(name, mp.mpf(tau), mp.mpf("0.3"))
    m = moments(activation(name).shifted(0.3), tau)
    for field, value in vars(exact).items():
        assert getattr(m, field) == pytest.approx(
            float(value), rel=tol("quadrature"), abs=tol("quadrature")
        ), field


@pytest.mark.parametrize("tau", [1e-3, 0.2, 1.0, 6.0, 40.0, 1e4])
def test_moments_of_rectifiers_in_closed_form(tau, tol):
    m = moments(activation("relu"), tau)
    density = 1 / math.sqrt(2 * math.pi)
    exact = [0.5, density / tau, 0.5, 0.5, tau**2 / 2, tau * density]
    others = [value for name, value in vars(m).items() if name != "w"]
    assert others == pytest.approx(exact, rel=tol("quadrature"))
    assert m.w * tau**2 == pytest.approx(0, abs=tol("rounding"))  # r does not depend on tau


@pytest.mark.parametrize("tau", [0.5, 3.0, 30.0])
def test_moments_of_polynomials_are_exact(tau, tol):
    m = moments(activation("quadratic:a2=2,a1=3,a0=5"), tau)
    assert m.mean == pytest.approx(2 * tau**2 + 5, rel=tol("quadrature"))
    assert m.m1 == pytest.approx(3, rel=tol("quadrature"))
    assert m.m2 == pytest.approx(4, rel=tol("quadrature"))
    assert m.r == pytest.approx(16 * tau**2 + 9, rel=tol("quadrature"))
    assert m.w == pytest.approx(16, rel=tol("quadrature"))


@pytest.mark.parametrize("name", ["tanh", "softplus", "gelu", "htanh", "elu", "lrelu:slope=0.2"])
@pytest.mark.parametrize("tau", [0.4, 1.7])
def test_integration_by_parts(name, tau, tol):
    """E[xi phi] = tau E phi', and d/dtau^2 E phi^2 = s (the moments' reason of being)."""
    act = activation(name).shifted(0.1)
    m = moments(act, tau)
    nodes, weights = grid(tau, act.kinks)
    mean_slope = weights @ act.derivative(tau * nodes)
    assert m.m1 == pytest.approx(mean_slope, rel=tol("quadrature"), abs=1e-14)
    h = 1e-4
    up, down = (moments(act, math.sqrt(tau**2 + e)).gamma2 for e in (h, -h))
    assert m.s == pytest.approx((up - down) / (2 * h), rel=tol("price"), abs=1e-8)
    up, down = (moments(act, math.sqrt(tau**2 + e)).mean for e in (h, -h))
    assert m.m2 == pytest.approx((up - down) / h, rel=tol("price"), abs=1e-8)


@pytest.mark.parametrize("scale", [0.0, 1e-8, 0.9, 5.0, 19.0, 30.0, 1e3, 1e6])
@pytest.mark.parametrize("kinks", [(), (0.0,), (-1.0, 2.0)])
def test_grids_integrate_one_and_the_variance(scale, kinks, tol):
    nodes, weights = grid(scale, kinks)
    assert weights.sum() == pytest.approx(1, abs=tol("rounding"))
    assert weights @ nodes**2 == pytest.approx(1, abs=tol("rounding"))
    assert abs(weights @ nodes) < tol("rounding")
    assert nodes.size < 50_000
    assert np.all(np.diff(nodes) > 0)


def test_second_moments_of_any_scales_at_once(tol):
    scales = np.array([3.0, 0.0, 0.2, 3.0, 50.0])
    for name in ("abs", "htanh:a=1,c=2", "swish", "cos"):
        act = activation(name).shifted(0.2)
        value, slope = second_moments(act, scales)
        for at, v, s in zip(scales, value, slope, strict=True):
            if at:
                alone = [m[0] for m in second_moments(act, np.array([at]))]
                assert [v, s] == pytest.approx(alone, rel=tol("quadrature"))
        zero = act(np.zeros(1))[0] ** 2
        assert value[1] == pytest.approx(zero, abs=tol("rounding"))
    whole = second_moments(activation("abs"), np.array([3, 5]))[0]
    assert whole.tolist() == pytest.approx([9.0, 25.0], rel=tol("quadrature"))


@pytest.mark.parametrize("scale", [30.0, 5000.0, 1e7])
def test_second_moments_of_very_large_inputs(scale, tol):
    """E arctan^2 by mpmath on graded points; E tanh'^2 -> 4/3 density(0)/scale."""
    with mp.workdps(25):
        points = [0, *(mp.mpf(10) ** k for k in range(-9, 1)), 3, 14]
        exact = 2 * mp.quad(lambda z: mp.npdf(z) * mp.atan(scale * z) ** 2, points)
    value = second_moments(activation("arctan"), np.array([scale]))[0][0]
    assert value == pytest.approx(float(exact), rel=tol("quadrature"))
    slope = second_moments(activation("tanh"), np.array([scale]))[1][0]
    limit = 4 / 3 / math.sqrt(2 * math.pi) / scale
    assert slope == pytest.approx(limit, rel=1 / scale**2)


def test_too_fast_an_activation_for_large_inputs_is_refused():
    wave = Activation.from_function(np.sin, np.cos, lipschitz=1.0)
    ripple = second_moments(wave, np.array([15.0]))[0][0]
    assert ripple == pytest.approx(0.5, rel=1e-10)
    with pytest.raises(ConvergenceError, match="scale the data down"):
        second_moments(wave, np.array([3000.0]))


def test_an_activation_that_is_not_finite_is_named():
    bad = Activation.from_function(
        lambda x: np.where(x > 4, np.nan, x), np.ones_like, (4.0,), lipschitz=1.0, name="holed"
    )
    with pytest.raises(InputError, match=r"'holed'.*not finite"):
        moments(bad, 1.0)
    with pytest.raises(InputError, match=r"'holed'.*not finite"):
        second_moments(bad, np.ones(1))


# ------------------------------------------------------------------------------------- Hermite


def test_hermite_coefficients_of_a_rectifier(tol):
    """relu = 1/sqrt(2 pi) h0 + h1/2 + sum over even k; known in closed form."""
    value, slope = hermite_coefficients(activation("relu"), np.array([2.0]), 6)
    base = 2 / math.sqrt(2 * math.pi)
    exact = [base, 1.0, base / math.sqrt(2), 0, -base / math.sqrt(24), 0, 3 * base / math.sqrt(720)]
    np.testing.assert_allclose(value[0], exact, rtol=0, atol=tol("quadrature"))
    np.testing.assert_allclose(
        slope[0, :6], value[0, 1:] * np.sqrt(np.arange(1, 7)) / 2.0, rtol=0, atol=tol("quadrature")
    )


@pytest.mark.parametrize("name", ["tanh", "swish", "gelu", "softplus", "arctan"])
def test_the_hermite_series_carries_all_the_energy(name, tol):
    act, scale = activation(name), np.array([0.3, 1.1])
    degree = hermite_degree(act, 1.1)
    value, slope = hermite_coefficients(act, scale, degree)
    square, slope_square = second_moments(act, scale)
    np.testing.assert_allclose(np.sum(value**2, axis=1), square, rtol=tol("quadrature"))
    np.testing.assert_allclose(np.sum(slope**2, axis=1), slope_square, rtol=tol("quadrature"))


def test_a_step_needs_too_many_terms_and_an_undeclared_kink_is_found():
    assert hermite_degree(activation("tanh"), 100.0) is None
    hidden = Activation.from_function(lambda x: np.maximum(x, 0), kinks=(), lipschitz=1.0)
    with pytest.raises(ConvergenceError, match="kinks"):
        hermite_degree(hidden, 1.0)


# ------------------------------------------------------------------------------------- centring


def test_scalars_of_the_reference(reference_scalars, tol):
    assert len(reference_scalars) == 24
    for row in reference_scalars:
        setting = [float(row[k]) for k in ("sigma_a2", "sigma_b2", "tau0")]
        if row["activation"] == "erf" and setting[0] == 0.2:
            with pytest.warns(OutsidePapersRangeWarning):
                s = implicit_scalars(row["activation"], *setting)
        else:
            s = implicit_scalars(row["activation"], *setting)
        for field, text in row.items():
            if field == "activation":
                assert activation(text).name == s.activation
                continue
            exact = float(text)
            limit = tol("zero") if abs(exact) < tol("zero") else tol("scalars") * abs(exact)
            assert abs(getattr(s, field) - exact) <= limit, (row["activation"], field)


@pytest.mark.parametrize(
    ("sigma_a2", "sigma_b2", "tau0"),
    [(0.2, 0.8, 1.1), pytest.param(0.1, 2.0, 0.6, marks=pytest.mark.slow)],
)
@pytest.mark.parametrize("name", NOT_IN_CSV)
@pytest.mark.filterwarnings("ignore::deqcli.errors.OutsidePapersRangeWarning")
def test_scalars_of_other_activations_by_mpmath(name, sigma_a2, sigma_b2, tau0, tol):
    """Solve the joint centring with mpmath and write the table of theory.md section 4 out."""
    with mp.workdps(18):
        a2, b2, t0 = mp.mpf(sigma_a2), mp.mpf(sigma_b2), mp.mpf(tau0)
        function, _, _, masses = MP[name]

        def residual(tau):
            rule = mp_rule([k / tau for k, _ in masses])
            values = [(function(tau * x), w) for x, w in rule]
            mean, square = (mp.fsum(f**p * w for f, w in values) for p in (1, 2))
            return tau**2 - a2 * (square - mean**2) - b2 * t0**2

        start = mp.sqrt(b2) * t0
        tau = mp.findroot(residual, (start, start * mp.mpf("1.05")), tol=1e-30)
        shift = mp_moments(name, tau, 0).mean
        m = mp_moments(name, tau, shift)
        D = 1 - a2 * m.m1**2
        exact = {
            "tau": tau,
            "shift": shift,
            **{k: getattr(m, k) for k in ("m1", "m2", "s", "r", "gamma2")},
            "alpha1": b2 * m.m1**2 / D,
            "alpha4": b2 / (1 - a2 * m.s),
            "ell1": b2 / D,
            "beta1": b2 / D**2,
            "kappa2": tau**2 / (1 - a2 * m.r),
        }
        exact["alpha2"] = m.m2**2 * exact["alpha4"] ** 2 / (4 * D)
        exact["alpha3"] = m.m2**2 * (a2 * exact["alpha1"] + b2) ** 2 / (2 * D)
        exact["ell2"], exact["ell3"] = a2 * exact["alpha2"], a2 * exact["alpha3"]
        exact["beta2"] = exact["ell2"] / D
        exact["beta3"] = (exact["ell3"] + a2 * m.m2**2 * exact["ell1"] ** 2 / D) / D
    s = implicit_scalars(name, sigma_a2, sigma_b2, tau0)
    for field, value in exact.items():
        assert getattr(s, field) == pytest.approx(
            float(value), rel=tol("scalars"), abs=tol("zero")
        ), field


@pytest.mark.parametrize("name", ["tanh", "relu", "swish", "htanh:c=0.3", "abs", "cos", "elu"])
@pytest.mark.parametrize(("sigma_a2", "sigma_b2"), [(0.0, 1.0), (0.2, 0.8), (0.9, 0.3), (0.8, 5.0)])
@pytest.mark.filterwarnings("ignore::deqcli.errors.OutsidePapersRangeWarning")
def test_the_centring_solves_its_two_equations(name, sigma_a2, sigma_b2, tol):
    act = activation(name)
    if sigma_a2 * act.lipschitz**2 >= 1:
        with pytest.raises(ExistenceError):
            centring(act, sigma_a2, sigma_b2, 1.2)
        return
    solved = centring(act, sigma_a2, sigma_b2, 1.2)
    m = moments(act.shifted(solved.shift), solved.tau)
    assert abs(m.mean) < tol("rounding") * max(1, solved.tau)
    assert solved.tau**2 == pytest.approx(
        sigma_a2 * m.gamma2 + sigma_b2 * 1.44, rel=10 * tol("rounding")
    )


def test_the_centring_of_linear_and_rectified_units_in_closed_form(tol):
    solved = centring(activation("identity"), 0.2, 0.6, 1.5)
    assert solved.tau**2 == pytest.approx(0.6 * 2.25 / 0.8, rel=tol("rounding"))
    assert abs(solved.shift) < tol("rounding")
    # Var relu(tau xi) = tau^2 (1/2 - 1/2pi).
    solved = centring(activation("relu"), 0.2, 0.6, 1.5)
    tau2 = 0.6 * 2.25 / (1 - 0.2 * (0.5 - 0.5 / math.pi))
    assert solved.tau**2 == pytest.approx(tau2, rel=tol("rounding"))
    assert solved.shift == pytest.approx(math.sqrt(tau2 / (2 * math.pi)), rel=tol("rounding"))


# ------------------------------------------------------------------------------------- existence


def test_existence_names_its_bound():
    with pytest.raises(ExistenceError, match=r"`sigma_a2` is 1, .*'tanh'.*1/L\^2 = 1\b"):
        check_existence(activation("tanh"), 1.0, 0.5)
    with pytest.raises(ExistenceError, match=r"1/L\^2 = 0.25"):
        check_existence(activation("htanh:a=2"), 0.25, 0.5)
    with pytest.raises(ExistenceError, match="no finite Lipschitz constant"):
        check_existence(activation("quadratic"), 0.01, 0.5)
    check_existence(activation("quadratic"), 0.0, 1.0)


def test_the_papers_range_is_open_and_named():
    with pytest.warns(OutsidePapersRangeWarning, match=r"1/\(4 L\^2\) = 0.25"):
        check_existence(activation("relu"), 0.25, 0.75)
    with pytest.warns(OutsidePapersRangeWarning):
        check_existence(activation("relu"), 0.9, 0.1)
    check_existence(activation("relu"), 0.2499, 0.75)
    check_existence(activation("relu"), 0.9, 0.1, papers_range=False)


@pytest.mark.parametrize(
    ("sigma_a2", "sigma_b2", "tau0", "named"),
    [
        (-0.1, 0.9, 1.0, "sigma_a2"),
        (math.nan, 0.9, 1.0, "sigma_a2"),
        (0.1, -1.0, 1.0, "sigma_b2"),
        (0.1, math.inf, 1.0, "sigma_b2"),
        (0.1, 0.0, 1.0, "sigma_b2"),
        (0.1, 0.9, 0.0, "tau0"),
        (0.1, 0.9, -1.0, "tau0"),
        (0.1, 0.9, math.nan, "tau0"),
    ],
)
def test_bad_settings_are_named(sigma_a2, sigma_b2, tau0, named):
    with pytest.raises(InputError, match=named):
        centring(activation("tanh"), sigma_a2, sigma_b2, tau0)


@pytest.mark.parametrize("tau", [0.0, -1.0, math.nan])
def test_moments_need_a_positive_scale(tau):
    with pytest.raises(InputError, match="`tau` is"):
        moments(activation("tanh"), tau)
