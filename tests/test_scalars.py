"""Scalars against the reference, against each other, and against what the kernels do."""

from __future__ import annotations

import math
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import deqcli
from deqcli.activations import activation
from deqcli.errors import ExistenceError, InputError, OutsidePapersRangeWarning
from deqcli.gaussian import moments
from deqcli.kernels.pairs import ExplicitPairs, ImplicitPairs
from deqcli.vocabulary import Kernel

REFERENCE = pd.read_csv(Path(__file__).parent / "reference" / "scalars.csv")
ODD = ("identity", "tanh", "arctan", "erf", "sin", "htanh")


@pytest.mark.parametrize(
    "row",
    [row for _, row in REFERENCE.iterrows()],
    ids=lambda r: f"{r['activation']}-{r['sigma_a2']}-{r['sigma_b2']}",
)
def test_reference(row):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OutsidePapersRangeWarning)
        s = deqcli.implicit_scalars(row.activation, row.sigma_a2, row.sigma_b2, row.tau0)
    for name in REFERENCE.columns[1:]:
        # Zeros of the theory are rounding in the reference (1e-17): absolute there.
        assert getattr(s, name) == pytest.approx(row[name], rel=1e-10, abs=1e-13), name


@pytest.mark.parametrize("act", ["relu", "swish", "gelu", "softplus", "elu", "cos", "abs", "tanh"])
def test_relations_of_the_table(act):
    s = deqcli.implicit_scalars(act, 0.15, 1.1, 0.9)
    D = 1 - s.sigma_a2 * s.m1**2
    assert s.tau**2 == pytest.approx(s.sigma_a2 * s.gamma2 + s.sigma_b2 * s.tau0**2, rel=1e-13)
    assert s.ell1 == pytest.approx(s.sigma_a2 * s.alpha1 + s.sigma_b2, rel=1e-13)
    assert s.ell3 == pytest.approx(s.sigma_a2 * s.m2**2 * s.ell1**2 / (2 * D), rel=1e-12)
    assert s.kappa2 == pytest.approx(s.tau**2 / (1 - s.sigma_a2 * s.r), rel=1e-13)
    # Theta = (K - sigma_b2 X X^T) / sigma_a2, coefficient by coefficient.
    theta, K = s.coefficients("ntk"), s.coefficients("preactivation_ntk")
    assert theta.c1 == pytest.approx((K.c1 - s.sigma_b2) / s.sigma_a2, rel=1e-11)
    assert theta.c2 == pytest.approx(K.c2 / s.sigma_a2, rel=1e-12, abs=1e-15)
    assert theta.c3 == pytest.approx(K.c3 / s.sigma_a2, rel=1e-12, abs=1e-15)
    assert theta.d == pytest.approx((K.d - s.sigma_b2 * s.tau0**2) / s.sigma_a2, rel=1e-11)


@pytest.mark.parametrize("act", ODD)
def test_odd_activations_need_no_centring(act):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OutsidePapersRangeWarning)
        s = deqcli.implicit_scalars(act, 0.2)
    assert abs(s.shift) < 1e-15
    assert max(s.alpha2, s.alpha3) < 1e-25


@pytest.mark.parametrize("act", ["relu", "tanh", "gelu"])
def test_diagonal_slope_is_the_derivative_of_the_kernel(act):
    """G_ii moves with the squared norm at rate s alpha4, both for the DEQ and its layers."""
    s = deqcli.implicit_scalars(act, 0.15, 0.85, 1.0)
    centred = deqcli.activation(act).shifted(s.shift)
    h = 1e-4
    X = np.diag(np.sqrt([1 - h, 1 + h]))
    G = deqcli.implicit_kernels(X, centred, 0.15, 0.85).ck
    assert (G[1, 1] - G[0, 0]) / (2 * h) == pytest.approx(s.s * s.alpha4, rel=1e-6)
    q = deqcli.explicit_scalars([act, act], 1.0)
    S = deqcli.explicit_kernels(X, q.acts).ck
    assert (S[1, 1] - S[0, 0]) / (2 * h) == pytest.approx(q.slope(Kernel.CK), rel=1e-6)


def test_explicit_diagonals_are_the_kernels_at_tau0():
    q = deqcli.explicit_scalars(["swish", "relu", "tanh"], 1.2)
    e = deqcli.explicit_kernels(1.2 * np.eye(2), q.acts)
    assert e.ck[0, 0] == pytest.approx(q.tau2, rel=1e-12)
    assert e.ntk[0, 0] == pytest.approx(q.kappa2, rel=1e-12)


def test_explicit_linear_response_is_the_kernel_derivative():
    """alpha1 and beta1 are the derivatives of CK and NTK in the inner product at zero."""
    q = deqcli.explicit_scalars(["tanh", "relu"], 1.0)
    h = 1e-5
    values = []
    for t in (-h, h):
        X = np.array([[1.0, 0.0], [t, np.sqrt(1 - t * t)]])
        e = deqcli.explicit_kernels(X, q.acts)
        values.append((e.ck[0, 1], e.ntk[0, 1]))
    ck, ntk = (np.diff(np.array(values), axis=0) / (2 * h))[0]
    assert ck == pytest.approx(q.alpha1, rel=1e-6)
    assert ntk == pytest.approx(q.beta1, rel=1e-6)


def test_many_shared_layers_with_injection_approach_the_implicit_scalars():
    """sigma_a2 = 0 leaves one layer: the DEQ's scalars are then the explicit ones."""
    s = deqcli.implicit_scalars("gelu", 0.0, 1.0, 1.1)
    q = deqcli.explicit_scalars(["gelu"], 1.1)
    assert s.gamma2 == pytest.approx(q.tau2, rel=1e-13)
    for k in (1, 2, 3):
        assert getattr(s, f"alpha{k}") == pytest.approx(getattr(q, f"alpha{k}"), rel=1e-12)
    theta = s.coefficients("ntk")
    assert (theta.c1, theta.c2, theta.c3, theta.d) == pytest.approx(
        (q.beta1, q.beta2, q.beta3, q.kappa2), rel=1e-11
    )


class TestSphere:
    """HLD's closed forms for the normalised ReLU, f(x) = (sqrt(1-x^2) + (pi - arccos x) x)/pi."""

    sigma_a2, dimension = 0.2, 1200

    def root(self):
        from scipy.optimize import brentq

        def f(x):
            return (np.sqrt(1 - x * x) + (np.pi - np.arccos(x)) * x) / np.pi

        return brentq(lambda x: self.sigma_a2 * f(x) - x, 0, 0.9, xtol=1e-15)

    def test_conjugate_kernel(self):
        x = self.root()
        first, second = (np.pi - np.arccos(x)) / np.pi, 1 / (np.pi * np.sqrt(1 - x * x))
        D = 1 - self.sigma_a2 * first
        slope = (1 - self.sigma_a2) / D
        curvature = self.sigma_a2 * (1 - self.sigma_a2) ** 2 * second / D**3
        s = deqcli.sphere_scalars("nrelu", self.dimension, sigma_a2=self.sigma_a2)
        assert s.beta == pytest.approx(slope, rel=1e-10)
        assert s.alpha == pytest.approx(x + curvature / (2 * self.dimension), rel=1e-10)
        assert s.mu == pytest.approx(1 - x - slope, rel=1e-9)

    def test_printed_numbers(self):
        ck = deqcli.sphere_scalars("nrelu", 1200, sigma_a2=0.2)
        assert (ck.alpha, ck.beta, ck.mu) == pytest.approx((0.070937, 0.893374, 0.035713), abs=6e-7)
        ntk = deqcli.sphere_scalars("nrelu", 1200, sigma_a2=0.2, kernel="preactivation_ntk")
        assert (ntk.alpha, ntk.beta, ntk.mu) == pytest.approx(
            (0.079270, 1.002688, 0.168121), abs=6e-7
        )

    def test_explicit_layer(self):
        """HLD Theorems 2 and 4 for a quadratic layer, moments by hand."""
        a2, a1, a0, d = 0.3, 0.8, 0.1, 50
        act = deqcli.activation(f"quadratic:a2={a2},a1={a1},a0={a0}")
        ck = deqcli.sphere_scalars([act], d, kernel="ck")
        assert ck.alpha == pytest.approx((a0 + a2) ** 2 + (2 * a2) ** 2 / (2 * d), rel=1e-12)
        assert ck.beta == pytest.approx(a1**2, rel=1e-12)
        assert ck.mu == pytest.approx(2 * a2**2, rel=1e-11)
        ntk = deqcli.sphere_scalars([act], d, kernel="ntk")
        assert ntk.alpha == pytest.approx((a0 + a2) ** 2 + 3 * (2 * a2) ** 2 / (2 * d), rel=1e-12)
        assert ntk.beta == pytest.approx(2 * a1**2, rel=1e-12)
        assert ntk.mu == pytest.approx(6 * a2**2, rel=1e-11)


def test_bad_input():
    with pytest.raises(ExistenceError, match="below 1/L"):
        deqcli.implicit_scalars("tanh", 1.0)
    with pytest.raises(ExistenceError, match="no finite Lipschitz constant"):
        deqcli.implicit_scalars("quadratic", 0.1)
    with pytest.raises(InputError, match=r"`tau0` is .*; give a finite number at least"):
        deqcli.implicit_scalars("tanh", 0.1, tau0=0.0)
    with pytest.raises(InputError, match="sigma_b2"):
        deqcli.implicit_scalars("tanh", 0.1, sigma_b2=-1.0)
    with pytest.raises(InputError, match="at least one activation"):
        deqcli.explicit_scalars([])
    with pytest.warns(OutsidePapersRangeWarning, match="0.25"):
        deqcli.implicit_scalars("tanh", 0.3)


# ------------------------------------------------------------------------------ from the kernels

SETTINGS = [("relu", 0.2, 0.8, 1.1), ("swish", 0.1, 2.0, 0.7), ("cos", 0.2, 0.5, 1.3)]


@pytest.mark.parametrize(("name", "a2", "b2", "tau0"), SETTINGS)
def test_coefficients_are_the_taylor_expansion_of_the_exact_kernel(name, a2, b2, tau0):
    """Derivatives of the exact kernel at norms near tau0 and inner products near 0.

    Off the diagonal the equivalent is c1 x.y + c2 d_x d_y + c3 (x.y)^2 with d = |x|^2 - tau0^2, and
    on it d.
    """
    s = deqcli.implicit_scalars(name, a2, b2, tau0)
    pairs = ImplicitPairs(activation(name).shifted(s.shift), a2, b2)

    def kernel(which, t, d1=0.0, d2=0.0):
        n1, n2 = (np.array([math.sqrt(tau0**2 + d)]) for d in (d1, d2))
        return float(pairs(n1, n2, np.arccos(np.minimum(t / (n1 * n2), 1.0)))[which][0])

    h = 2e-3
    for which, name_of in ((0, "ck"), (1, "ntk")):
        c = s.coefficients(name_of)
        up, zero, down = (kernel(which, t) for t in (h, 0.0, -h))
        assert zero == pytest.approx(0, abs=1e-12)
        assert (up - down) / (2 * h) == pytest.approx(c.c1, rel=1e-4, abs=1e-7)
        assert (up + down - 2 * zero) / (2 * h**2) == pytest.approx(c.c3, rel=1e-4, abs=1e-8)
        mixed = kernel(which, 0, h, h) - kernel(which, 0, h, -h)
        mixed += kernel(which, 0, -h, -h) - kernel(which, 0, -h, h)
        assert mixed / (4 * h**2) == pytest.approx(c.c2, rel=1e-4, abs=1e-8)
        assert kernel(which, tau0**2) == pytest.approx(c.d, rel=1e-9)
    rate = (kernel(0, tau0**2 + h, h, h) - kernel(0, tau0**2 - h, -h, -h)) / (2 * h)
    assert rate == pytest.approx(s.s * s.alpha4, rel=1e-4)


@pytest.mark.parametrize("specs", [["relu"], ["swish", "tanh"], ["softplus", "cos", "gelu"]])
def test_explicit_scalars_are_the_taylor_expansion_of_the_exact_kernel(specs):
    tau0 = 1.2
    q = deqcli.explicit_scalars(specs, tau0)
    pairs = ExplicitPairs(q.acts)

    def kernel(which, t, d1=0.0, d2=0.0):
        n1, n2 = (np.array([math.sqrt(tau0**2 + d)]) for d in (d1, d2))
        return float(pairs(n1, n2, np.arccos(np.minimum(t / (n1 * n2), 1.0)))[which][0])

    h = 2e-3
    for which, name in ((0, "ck"), (1, "ntk")):
        c = q.coefficients(name)
        up, zero, down = (kernel(which, t) for t in (h, 0.0, -h))
        assert (up - down) / (2 * h) == pytest.approx(c.c1, rel=1e-4, abs=1e-7)
        assert (up + down - 2 * zero) / (2 * h**2) == pytest.approx(c.c3, rel=1e-3, abs=1e-7)
        mixed = kernel(which, 0, h, h) - kernel(which, 0, h, -h)
        mixed += kernel(which, 0, -h, -h) - kernel(which, 0, -h, h)
        assert mixed / (4 * h**2) == pytest.approx(c.c2, rel=1e-3, abs=1e-7)
        assert kernel(which, tau0**2) == pytest.approx(c.d, rel=1e-9)
    rate = (kernel(0, tau0**2 + h, h, h) - kernel(0, tau0**2 - h, -h, -h)) / (2 * h)
    assert rate == pytest.approx(q.slope(Kernel.CK), rel=1e-4, abs=1e-8)


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
    scalars = [q.alpha1, q.alpha2, q.alpha3, q.alpha4, q.tau2, q.beta1, q.beta2, q.beta3, q.kappa2]
    assert scalars == pytest.approx(
        [a1, a2, a3, a4, tau2, b1, b2, b3, kappa2], rel=tol("quadrature")
    )
    assert [act.name for act in q.acts] == specs
    # A layer that is already centred where it stands is left alone.
    again = deqcli.explicit_scalars(q.acts, tau0)
    assert again.tau2 == pytest.approx(q.tau2, rel=tol("rounding"))
    assert again.acts[0].shift == pytest.approx(q.acts[0].shift, rel=tol("rounding"))


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


@pytest.mark.parametrize("sigma_a2", [0.05, 0.2, 0.45])
@pytest.mark.parametrize("dimension", [50, 1200])
def test_the_sphere_in_hlds_closed_form(sigma_a2, dimension):
    for kernel, exact in zip(
        ("preactivation_ck", "preactivation_ntk"), hld(sigma_a2, dimension), strict=True
    ):
        s = deqcli.sphere_scalars("nrelu", dimension, sigma_a2=sigma_a2, kernel=kernel)
        assert (s.alpha, s.beta, s.mu) == pytest.approx(exact, rel=1e-9)


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
    s = {k: deqcli.sphere_scalars("swish", 300, sigma_a2=0.2, kernel=k) for k in Kernel}
    for pre in (Kernel.PREACTIVATION_CK, Kernel.PREACTIVATION_NTK):
        assert 0.2 * s[pre.explicit].alpha == pytest.approx(s[pre].alpha, rel=1e-10)
        assert 0.2 * s[pre.explicit].beta + 0.8 == pytest.approx(s[pre].beta, rel=1e-10)
        assert 0.2 * s[pre.explicit].mu == pytest.approx(s[pre].mu, rel=1e-8)


def test_more_bad_input():
    with pytest.raises(InputError, match="tau0"):
        deqcli.explicit_scalars(["tanh"], -1.0)
    with pytest.raises(InputError, match="`kernel` is 'kc'"):
        deqcli.implicit_scalars("tanh", 0.1).coefficients("kc")
    with pytest.raises(InputError, match="ck and ntk"):
        deqcli.explicit_scalars(["tanh"]).coefficients("preactivation_ck")
    with pytest.raises(InputError, match="ck and ntk"):
        deqcli.sphere_scalars(["tanh"], 100, kernel="preactivation_ck")
    with pytest.raises(InputError, match="one activation"):
        deqcli.sphere_scalars(["tanh"], 100, sigma_a2=0.1)
    with pytest.raises(InputError, match="dimension"):
        deqcli.sphere_scalars("tanh", 0, sigma_a2=0.1)


def test_layers_that_shrink_to_nothing_are_named():
    with pytest.raises(InputError, match=r"`acts` has a layer .* larger `tau0`"):
        deqcli.explicit_scalars(["maxlin:a=1e-50,b=0", "softplus", "identity"], 1e-50)
