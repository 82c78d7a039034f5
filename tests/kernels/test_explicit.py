"""The kernels of explicit networks: the recursion written out, closed forms, properties."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import deqcli
from deqcli.activations import activation


def data(seed, n=5, p=4):
    return np.random.default_rng(seed).standard_normal((n, p)) / math.sqrt(p)


def plain_recursion(X, acts, pair_matrix):
    S = T = X @ X.T
    for act in acts:
        S, T = pair_matrix(act, S), T * pair_matrix(act.derivative, S)
        T = S + T
    return S, T


@pytest.mark.parametrize(
    "specs", [["tanh"], ["swish", "erf"], ["cubic:a3=0.1,a2=0.3,a1=1", "softplus", "sin"]]
)
def test_the_recursion_written_out(specs, plain, tol):
    acts = [activation(s).shifted(0.1) for s in specs]
    X = data(0, n=4)
    S, T = plain_recursion(X, acts, plain.pair_matrix)
    e = deqcli.explicit_kernels(X, acts)
    np.testing.assert_allclose(e.ck, S, rtol=0, atol=tol("newton"))
    np.testing.assert_allclose(e.ntk, T, rtol=0, atol=tol("newton"))


@pytest.mark.parametrize("specs", [["relu"], ["htanh:a=1.2,c=0.5", "relu"], ["elu", "abs"]])
def test_the_recursion_written_out_for_kinks(specs, expect_pair, tol):
    acts = [activation(s).shifted(0.2) for s in specs]
    X = data(1, n=2)
    S = T = X @ X.T
    for act in acts:
        value, slope = np.empty((2, 2)), np.empty((2, 2))
        for i in range(2):
            for j in range(2):
                # A pair of equal variables is not for this integral: squares over one.
                c = S[np.ix_([i, j], [i, j])]
                if i == j:
                    wide = np.array([[c[0, 0], 0.0], [0.0, 1.0]])
                    one = expect_pair(lambda x: np.ones_like(x), (), wide)
                    assert one == pytest.approx(1, abs=tol("rounding"))
                    value[i, i], slope[i, i] = (
                        square(f, act.kinks, math.sqrt(c[0, 0])) for f in (act, act.derivative)
                    )
                else:
                    value[i, j] = expect_pair(act, act.kinks, c)
                    slope[i, j] = expect_pair(act.derivative, act.kinks, c)
        S, T = value, value + T * slope
    e = deqcli.explicit_kernels(X, acts)
    np.testing.assert_allclose(e.ck, S, rtol=0, atol=tol("newton"))
    np.testing.assert_allclose(e.ntk, T, rtol=0, atol=tol("newton"))


def square(function, kinks, tau):
    nodes, weights = np.polynomial.legendre.leggauss(40)
    edges = np.unique(np.clip([*np.linspace(-9, 9, 37), *np.divide(kinks, tau)], -9, 9))
    half = np.diff(edges)[:, None] / 2
    x = edges[:-1, None] + half * (1 + nodes)
    w = half * weights * np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi)
    return float(np.sum(w * function(tau * x) ** 2))


def test_deep_linear_networks_in_closed_form(tol):
    X = data(2)
    for depth in (1, 2, 7):
        e = deqcli.explicit_kernels(X, ["identity"] * depth)
        np.testing.assert_allclose(e.ck, X @ X.T, rtol=0, atol=tol("rounding"))
        np.testing.assert_allclose(e.ntk, (depth + 1) * (X @ X.T), rtol=0, atol=tol("quadrature"))


def test_a_quadratic_layer_in_closed_form(tol):
    """E (a u^2 + b u + c)(a v^2 + b v + c) by Isserlis."""
    X = data(3)
    a, b, c = 0.7, -0.4, 0.2
    S = X @ X.T
    q = np.diag(S)
    mean = a * q + c
    ck = 2 * a**2 * S**2 + b**2 * S + np.outer(mean, mean)
    ntk = ck + S * (4 * a**2 * S + b**2)
    e = deqcli.explicit_kernels(X, [f"quadratic:a2={a},a1={b},a0={c}"])
    np.testing.assert_allclose(e.ck, ck, rtol=0, atol=tol("quadrature"))
    np.testing.assert_allclose(e.ntk, ntk, rtol=0, atol=tol("quadrature"))


def test_two_rectified_layers_of_nearly_parallel_inputs(tol):
    """Angles of a second layer: its cosine has lost half its digits, the NTK must not."""
    x = np.array([0.6, -0.3, 0.8])
    for size in (0.0, 1e-10, 1e-8, 1e-7, 1e-5, 1e-3):
        y = x + size * np.array([0.5, 1.0, 0.1])
        theta = 2 * math.atan2(
            np.linalg.norm(x / np.linalg.norm(x) - y / np.linalg.norm(y)),
            np.linalg.norm(x / np.linalg.norm(x) + y / np.linalg.norm(y)),
        )
        # Second angle from 1 - cos, by its series where cancellation would spoil it.
        first = (math.sin(theta) + (math.pi - theta) * math.cos(theta)) / math.pi
        small = theta**2 / 2 - theta**3 / (3 * math.pi)
        gap = small if theta < 1e-4 else 1 - first
        second = 2 * math.asin(math.sqrt(gap / 2))
        dots = [(math.pi - t) / (2 * math.pi) for t in (theta, second)]
        ck1 = np.linalg.norm(x) * np.linalg.norm(y) * first / 2
        f2 = (math.sin(second) + (math.pi - second) * math.cos(second)) / math.pi
        ck2 = np.linalg.norm(x) * np.linalg.norm(y) * f2 / 4
        ntk = ck2 + dots[1] * (ck1 + dots[0] * (x @ y))
        e = deqcli.explicit_kernels(np.stack([x, y]), ["relu", "relu"])
        assert e.ck[0, 1] == pytest.approx(ck2, abs=tol("quadrature"))
        assert e.ntk[0, 1] == pytest.approx(ntk, abs=tol("parallel"))


@given(
    st.integers(0, 10**6),
    st.lists(
        st.sampled_from(["tanh", "relu", "swish", "htanh", "quadratic:a2=0.3,a1=1,a0=0"]),
        min_size=1,
        max_size=3,
    ),
    st.floats(-0.3, 0.3),
)
def test_symmetric_positive_equivariant(seed, specs, shift):
    acts = [activation(s).shifted(shift) for s in specs]
    X = data(seed)
    X[4] = X[1]
    rng = np.random.default_rng(seed)
    order = rng.permutation(5)
    rotation = np.linalg.qr(rng.standard_normal((4, 4)))[0]
    for M, P, R in zip(
        deqcli.explicit_kernels(X, acts).compute("ck", "ntk"),
        deqcli.explicit_kernels(X[order], acts).compute("ck", "ntk"),
        deqcli.explicit_kernels(X @ rotation, acts).compute("ck", "ntk"),
        strict=True,
    ):
        np.testing.assert_array_equal(M, M.T)
        values = np.linalg.eigvalsh(M)
        assert values[0] >= -1e-12 * values[-1]
        np.testing.assert_allclose(P, M[np.ix_(order, order)], rtol=1e-11, atol=1e-12)
        # Duplicates need not stay exact duplicates under a rotation: slopes then move by 1e-8.
        np.testing.assert_allclose(R, M, rtol=1e-7, atol=1e-7)


def test_one_activation_needs_no_list():
    X = data(4)
    np.testing.assert_array_equal(
        deqcli.explicit_kernels(X, "tanh").ck, deqcli.explicit_kernels(X, ["tanh"]).ck
    )
