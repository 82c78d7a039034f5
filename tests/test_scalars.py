"""The scalars of implicit, explicit and spherical equivalents, from second routes."""

import math

import numpy as np
import pytest

import deqcli
from deqcli.activations import activation
from deqcli.errors import ActivationError, ExistenceError, InputError
from deqcli.gaussian import moments
from deqcli.kernels.implicit import KERNELS
from deqcli.kernels.pairs import ExplicitPairs, ImplicitPairs

SETTINGS = [("relu", 0.2, 0.8, 1.1), ("swish", 0.1, 2.0, 0.7), ("cos", 0.2, 0.5, 1.3)]


@pytest.mark.parametrize(("name", "a2", "b2", "tau0"), SETTINGS)
def test_the_table_of_coefficients(name, a2, b2, tau0, tol):
    """theory.md section 4, written out once more, and Theta = (K - b2 XX^T)/a2."""
    s = deqcli.implicit_scalars(name, a2, b2, tau0)
    D = 1 - a2 * s.m1**2
    assert s.alpha4 == pytest.approx(b2 / (1 - a2 * s.s), rel=tol("rounding"))
    table = {
        "ck": (
            b2 * s.m1**2 / D,
            s.m2**2 * s.alpha4**2 / (4 * D),
            s.m2**2 * (a2 * s.alpha1 + b2) ** 2 / (2 * D),
            s.gamma2,
        ),
        "preactivation_ck": (b2 / D, a2 * s.alpha2, a2 * s.alpha3, s.tau**2),
    }
    ell1, ell2, ell3, _ = table["preactivation_ck"]
    table["preactivation_ntk"] = (
        ell1 / D,
        ell2 / D,
        (ell3 + a2 * s.m2**2 * ell1**2 / D) / D,
        s.tau**2 / (1 - a2 * s.r),
    )
    k1, k2, k3, kd = table["preactivation_ntk"]
    table["ntk"] = ((k1 - b2) / a2, k2 / a2, k3 / a2, (kd - b2 * tau0**2) / a2)
    assert set(table) == set(KERNELS)
    for kernel, row in table.items():
        c = s.coefficients(kernel)
        assert (c.c1, c.c2, c.c3, c.d) == pytest.approx(row, rel=1e-11), kernel
        assert c.tau0 == tau0
    assert ell3 == pytest.approx(a2 * s.m2**2 * ell1**2 / (2 * D), rel=tol("quadrature"))
    assert s.coefficients("preactivation-ntk") == s.coefficients("preactivation_ntk")


@pytest.mark.parametrize(("name", "a2", "b2", "tau0"), SETTINGS)
def test_coefficients_are_the_taylor_expansion_of_the_exact_kernel(name, a2, b2, tau0):
    """M_ij = c1 t + 2 c2 ... at norms near tau0 and inner products near 0, by differences.

    Off the diagonal the equivalent is c1 x.y + c2 d_x d_y + c3 (x.y)^2 with d = |x|^2 - tau0^2, and
    on it d, so that every coefficient is a derivative of the exact kernel.
    """
    s = deqcli.implicit_scalars(name, a2, b2, tau0)
    pairs = ImplicitPairs(activation(name).shifted(s.shift), a2, b2)

    def kernel(which, t, d1=0.0, d2=0.0):
        n1, n2 = (np.array([math.sqrt(tau0**2 + d)]) for d in (d1, d2))
        return float(pairs(n1, n2, np.arccos(t / (n1 * n2)))[which][0])

    h = 2e-3
    for which, name_of in ((0, "ck"), (1, "ntk")):
        c = s.coefficients(name_of)
        up, zero, down = (kernel(which, t) for t in (h, 0.0, -h))
        assert zero == pytest.approx(0, abs=1e-12)
        assert (up - down) / (2 * h) == pytest.approx(c.c1, rel=1e-4)
        assert (up + down - 2 * zero) / (2 * h**2) == pytest.approx(c.c3, rel=1e-4, abs=1e-8)
        mixed = kernel(which, 0, h, h) - kernel(which, 0, h, -h)
        mixed += kernel(which, 0, -h, -h) - kernel(which, 0, -h, h)
        assert mixed / (4 * h**2) == pytest.approx(c.c2, rel=1e-4, abs=1e-8)
        assert kernel(which, tau0**2) == pytest.approx(c.d, rel=1e-9)
    rate = (kernel(0, tau0**2 + h, h, h) - kernel(0, tau0**2 - h, -h, -h)) / (2 * h)
    assert rate == pytest.approx(s.diagonal_slope, rel=1e-4)


@pytest.mark.parametrize("specs", [["relu"], ["swish", "tanh"], ["softplus", "cos", "gelu"]])
def test_explicit_scalars_are_the_taylor_expansion_of_the_exact_kernel(specs):
    tau0 = 1.2
    q = deqcli.explicit_scalars(specs, tau0)
    pairs = ExplicitPairs(q.acts)

    def kernel(which, t, d1=0.0, d2=0.0):
        n1, n2 = (np.array([math.sqrt(tau0**2 + d)]) for d in (d1, d2))
        return float(pairs(n1, n2, np.arccos(t / (n1 * n2)))[which][0])

    h = 2e-3
    for which, name in ((0, "ck"), (1, "ntk")):
        c = q.coefficients(name)
        up, zero, down = (kernel(which, t) for t in (h, 0.0, -h))
        assert (up - down) / (2 * h) == pytest.approx(c.c1, rel=1e-4)
        assert (up + down - 2 * zero) / (2 * h**2) == pytest.approx(c.c3, rel=1e-3, abs=1e-7)
        mixed = kernel(which, 0, h, h) - kernel(which, 0, h, -h)
        mixed += kernel(which, 0, -h, -h) - kernel(which, 0, -h, h)
        assert mixed / (4 * h**2) == pytest.approx(c.c2, rel=1e-3, abs=1e-7)
        assert kernel(which, tau0**2) == pytest.approx(c.d, rel=1e-9)
    rate = (kernel(0, tau0**2 + h, h, h) - kernel(0, tau0**2 - h, -h, -h)) / (2 * h)
    assert rate == pytest.approx(q.diagonal_slope, rel=1e-4, abs=1e-8)


def test_the_explicit_recursion_written_out(tol):
    """theory.md section 5 with new and previous values kept apart."""
    tau0, specs = 0.9, ["swish", "relu", "tanh"]
    a1 = a4 = b1 = 1.0
    a2 = a3 = b2 = b3 = 0.0
    tau2 = kappa2 = tau0**2
    for spec in specs:
        base = activation(spec)
        shift = moments(base, math.sqrt(tau2)).mean
        m = moments(base.shifted(shift), math.sqrt(tau2))
        new_a1 = m.m1**2 * a1
        new_a2 = m.m1**2 * a2 + 0.25 * m.m2**2 * a4**2
        new_a3 = m.m1**2 * a3 + 0.5 * m.m2**2 * a1**2
        b3 = new_a3 + m.m1**2 * b3 + m.m2**2 * (b1 * a1)
        b1, b2 = new_a1 + m.m1**2 * b1, new_a2 + m.m1**2 * b2
        a1, a2, a3, a4 = new_a1, new_a2, new_a3, m.s * a4
        tau2 = m.gamma2
        kappa2 = tau2 + m.r * kappa2
    q = deqcli.explicit_scalars(specs, tau0)
    found = [q.alpha1, q.alpha2, q.alpha3, q.alpha4, q.tau2, q.beta1, q.beta2, q.beta3, q.kappa2]
    assert found == pytest.approx([a1, a2, a3, a4, tau2, b1, b2, b3, kappa2], rel=tol("quadrature"))
    assert [act.name for act in q.acts] == specs
    # A layer that is already centred where it stands is left alone.
    again = deqcli.explicit_scalars(q.acts, tau0)
    assert again.tau2 == pytest.approx(q.tau2, rel=tol("rounding"))
    assert again.acts[0].shift == pytest.approx(q.acts[0].shift, rel=tol("rounding"))


def test_a_linear_deq_and_odd_ones(tol):
    s = deqcli.implicit_scalars("identity", 0.2, 0.8, 1.05)
    assert (s.alpha1, s.ell1, s.beta1) == pytest.approx((1.0, 1.0, 1.25), rel=tol("rounding"))
    assert (s.tau**2, s.kappa2) == pytest.approx((1.1025, 1.378125), rel=tol("rounding"))
    for name in ("tanh", "arctan", "sin", "htanh"):
        s = deqcli.implicit_scalars(name, 0.2, 0.8, 1.0)
        assert max(abs(s.m2), abs(s.shift), s.alpha2, s.alpha3, s.beta3) < tol("zero")


def test_without_recurrence_it_is_one_explicit_layer(tol):
    for name in ("relu", "swish", "cubic:a3=0.1"):
        s = deqcli.implicit_scalars(name, 0.0, 1.0, 1.1)
        q = deqcli.explicit_scalars([name], 1.1)
        for kernel in ("ck", "ntk"):
            a, b = s.coefficients(kernel), q.coefficients(kernel)
            assert (a.c1, a.c2, a.c3, a.d) == pytest.approx(
                (b.c1, b.c2, b.c3, b.d), rel=tol("quadrature"), abs=tol("zero")
            )


# ---------------------------------------------------------------------------------------- sphere


def hld(sigma_a2, dimension):
    """HLD's formulas for the normalised ReLU with the sign of k'(0) put right."""
    a = sigma_a2

    def f(x):
        return (math.sqrt(1 - x * x) + (math.pi - math.acos(x)) * x) / math.pi

    def f1(x):
        return 1 - math.acos(x) / math.pi

    def f2(x):
        return 1 / (math.pi * math.sqrt(1 - x * x))

    g0 = 0.0
    for _ in range(200):
        g0 = a * f(g0)
    f3 = g0 / (math.pi * (1 - g0**2) ** 1.5)
    g1 = (1 - a) / (1 - a * f1(g0))
    g2 = a * (1 - a) ** 2 * f2(g0) / (1 - a * f1(g0)) ** 3
    u = 1 - a * f1(g0)
    h1 = 1 / u + g0 * a * f2(g0) / u**2
    h2 = 2 * a * f2(g0) / u**2 + g0 * (a * f3 / u**2 + 2 * (a * f2(g0)) ** 2 / u**3)
    k0, k1, k2 = g0 / u, h1 * g1, h2 * g1**2 + h1 * g2
    end = 1 / (1 - a)
    ck = (g0 + g2 / (2 * dimension), g1, 1 - g0 - g1)
    ntk = (k0 + k2 / (2 * dimension), k1, end - k0 - k1)
    return ck, ntk


@pytest.mark.parametrize("sigma_a2", [0.05, 0.2, 0.6])
@pytest.mark.parametrize("dimension", [50, 1200])
def test_the_sphere_in_hlds_closed_form(sigma_a2, dimension):
    for kernel, exact in zip(
        ("preactivation_ck", "preactivation_ntk"), hld(sigma_a2, dimension), strict=True
    ):
        s = deqcli.sphere_scalars("nrelu", dimension, sigma_a2=sigma_a2, kernel=kernel)
        assert (s.alpha, s.beta, s.mu) == pytest.approx(exact, rel=1e-9)


def test_the_numbers_of_the_formula_sheet():
    ck = deqcli.sphere_scalars("nrelu", 1200, sigma_a2=0.2)
    ntk = deqcli.sphere_scalars("nrelu", 1200, sigma_a2=0.2, kernel="preactivation_ntk")
    assert (ck.alpha, ck.beta, ck.mu) == pytest.approx((0.070937, 0.893374, 0.035713), abs=6e-7)
    assert (ntk.alpha, ntk.beta, ntk.mu) == pytest.approx((0.079270, 1.002688, 0.168121), abs=6e-7)


@pytest.mark.parametrize("name", ["tanh", "swish", "relu", "quadratic:a2=0.3,a1=0.8,a0=-0.1"])
def test_explicit_networks_on_the_sphere(name):
    """HLD Theorems 2 and 4: E[f]^2 + k E[f'']^2/2d, and so on, with moments at one."""
    m = moments(activation(name), 1.0)
    for kernel, factor, beta, extra in (("ck", 1, 1, 0.0), ("ntk", 3, 2, m.r)):
        s = deqcli.sphere_scalars([name], 400, kernel=kernel)
        alpha = m.mean**2 + factor * m.m2**2 / 800
        mu = m.gamma2 + extra - m.mean**2 - beta * m.m1**2
        assert (s.alpha, s.beta, s.mu) == pytest.approx((alpha, beta * m.m1**2, mu), rel=1e-8)


def test_the_sphere_knows_the_other_kernels():
    s = {k: deqcli.sphere_scalars("swish", 300, sigma_a2=0.2, kernel=k) for k in KERNELS}
    for features, pre in (("ck", "preactivation_ck"), ("ntk", "preactivation_ntk")):
        assert 0.2 * s[features].alpha == pytest.approx(s[pre].alpha, rel=1e-10)
        assert 0.2 * s[features].beta + 0.8 == pytest.approx(s[pre].beta, rel=1e-10)
        assert 0.2 * s[features].mu == pytest.approx(s[pre].mu, rel=1e-8)


# -------------------------------------------------------------------------------------- bad input


def test_bad_input_is_named():
    with pytest.raises(InputError, match="tau0"):
        deqcli.implicit_scalars("tanh", 0.1, 0.9, 0.0)
    with pytest.raises(InputError, match="tau0"):
        deqcli.explicit_scalars(["tanh"], -1.0)
    with pytest.raises(InputError, match="sigma_b2"):
        deqcli.implicit_scalars("tanh", 0.1, -0.9)
    with pytest.raises(ExistenceError, match=r"1/L\^2"):
        deqcli.implicit_scalars("tanh", 1.0, 1.0)
    with pytest.raises(ActivationError, match="did you mean"):
        deqcli.implicit_scalars("rellu", 0.1)
    with pytest.raises(InputError, match="at least one activation"):
        deqcli.explicit_scalars([])
    with pytest.raises(InputError, match="unknown kernel 'kc'"):
        deqcli.implicit_scalars("tanh", 0.1).coefficients("kc")
    with pytest.raises(InputError, match="ck and ntk"):
        deqcli.explicit_scalars(["tanh"]).coefficients("preactivation_ck")
    with pytest.raises(InputError, match="ck and ntk"):
        deqcli.sphere_scalars(["tanh"], 100, kernel="preactivation_ck")
    with pytest.raises(InputError, match="one activation"):
        deqcli.sphere_scalars(["tanh"], 100, sigma_a2=0.1)
    with pytest.raises(InputError, match="dimension"):
        deqcli.sphere_scalars("tanh", 0, sigma_a2=0.1)
