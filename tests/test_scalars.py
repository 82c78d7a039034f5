"""Scalars against the reference, against each other, and against what the kernels do."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import deqcli
from deqcli.errors import ExistenceError, InputError, OutsidePapersRangeWarning

REFERENCE = pd.read_csv(Path(__file__).parent / "reference" / "scalars.csv")
ODD = ("identity", "tanh", "arctan", "erf", "sin", "htanh")


@pytest.mark.parametrize("row", [row for _, row in REFERENCE.iterrows()],
                         ids=lambda r: f"{r['activation']}-{r['sigma_a2']}-{r['sigma_b2']}")  # fmt: skip
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
    assert (G[1, 1] - G[0, 0]) / (2 * h) == pytest.approx(s.diagonal_slope, rel=1e-6)
    q = deqcli.explicit_scalars([act, act], 1.0)
    S = deqcli.explicit_kernels(X, q.acts).ck
    assert (S[1, 1] - S[0, 0]) / (2 * h) == pytest.approx(q.diagonal_slope, rel=1e-6)


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
    with pytest.raises(InputError, match="tau0 must be a positive number"):
        deqcli.implicit_scalars("tanh", 0.1, tau0=0.0)
    with pytest.raises(InputError, match="sigma_b2"):
        deqcli.implicit_scalars("tanh", 0.1, sigma_b2=-1.0)
    with pytest.raises(InputError, match="at least one activation"):
        deqcli.explicit_scalars([])
    with pytest.warns(OutsidePapersRangeWarning, match="0.25"):
        deqcli.implicit_scalars("tanh", 0.3)
