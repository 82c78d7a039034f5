"""The kernels of a DEQ: their equations, closed forms, symmetries and limits."""

import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import deqcli
from deqcli.activations import activation
from deqcli.vocabulary import Kernel

RELATED = ["tanh", "relu", "htanh:a=1,c=0.7", "swish", "abs", "cos", "lrelu:slope=0.3"]


def data(seed, n=6, p=4, scale=1.0):
    return np.random.default_rng(seed).standard_normal((n, p)) * scale / math.sqrt(p)


# ------------------------------------------------------------------------------------- equations


@pytest.mark.parametrize("name", [*RELATED, "elu", "softplus", "arctan"])
def test_the_fixed_point_equation_and_the_tangent_kernel(name, expect_pair, tol):
    """G = E phi phi over Lambda; Theta = G + Lambda (E phi' phi')/(1 - sigma_a2 E phi' phi')."""
    sigma_a2, sigma_b2 = 0.24 if name in ("tanh", "relu") else 0.15, 0.7
    act = activation(name).centred(sigma_a2, sigma_b2, 1.0)
    X = data(0, n=3, p=5)
    G, L, Theta, K = deqcli.implicit_kernels(X, act, sigma_a2, sigma_b2).compute(*Kernel)
    np.testing.assert_allclose(L, sigma_a2 * G + sigma_b2 * X @ X.T, rtol=0, atol=tol("rounding"))
    for i, j in ((0, 1), (0, 2), (1, 2)):
        covariance = L[np.ix_([i, j], [i, j])]
        value = expect_pair(act, act.kinks, covariance)
        slope = expect_pair(act.derivative, act.kinks, covariance)
        assert G[i, j] == pytest.approx(value, abs=tol("quadrature"))
        dot = sigma_a2 * slope
        assert K[i, j] == pytest.approx(L[i, j] / (1 - dot), abs=10 * tol("quadrature"))
        assert Theta[i, j] == pytest.approx(
            value + L[i, j] * slope / (1 - dot), abs=10 * tol("quadrature")
        )
    nodes, weights = np.polynomial.legendre.leggauss(40)
    for i in range(3):
        tau = math.sqrt(L[i, i])
        edges = np.unique(np.clip([*np.linspace(-9, 9, 37), *np.divide(act.kinks, tau)], -9, 9))
        half = np.diff(edges)[:, None] / 2
        x = edges[:-1, None] + half * (1 + nodes)
        w = half * weights * np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi)
        value, slope = (float(np.sum(w * f(tau * x) ** 2)) for f in (act, act.derivative))
        assert G[i, i] == pytest.approx(value, abs=tol("quadrature"))
        assert K[i, i] == pytest.approx(
            L[i, i] / (1 - sigma_a2 * slope), abs=10 * tol("quadrature")
        )


@pytest.mark.parametrize("sigma_a2", [0.05, 0.2])
def test_many_shared_layers_with_input_injection_become_the_equilibrium(sigma_a2, plain, tol):
    act = activation("tanh").shifted(0.1)
    X = data(1, n=4, scale=0.8)
    limit = plain.deep_shared(act, X @ X.T, sigma_a2, 0.6, layers=30)
    k = deqcli.implicit_kernels(X, act, sigma_a2, 0.6)
    for kernel in Kernel:
        matrices = getattr(k, kernel.attribute), getattr(limit, kernel.attribute)
        np.testing.assert_allclose(*matrices, atol=tol("newton"))


# --------------------------------------------------------------------------- nearly parallel inputs


def mp_relu_pair(x, y, sigma_a2, sigma_b2, shift):
    """CK and NTK of one pair under a shifted relu, to fifty digits by plain iteration."""
    with mp.workdps(50):
        x, y = ([mp.mpf(float(a)) for a in row] for row in (x, y))
        a2, b2, c = mp.mpf(sigma_a2), mp.mpf(sigma_b2), mp.mpf(shift)

        def dot(u, v):
            return mp.fdot(u, v)

        def variance(u):
            q = b2 * dot(u, u)
            for _ in range(90):
                # E (relu - c)^2 = q/2 - 2 c sqrt(q/2 pi) + c^2.
                q = a2 * (q / 2 - 2 * c * mp.sqrt(q / (2 * mp.pi)) + c * c) + b2 * dot(u, u)
            return q

        q1, q2 = variance(x), variance(y)
        mean = c * c - c * (mp.sqrt(q1) + mp.sqrt(q2)) / mp.sqrt(2 * mp.pi)
        lam = b2 * dot(x, y)
        for _ in range(90):
            rho = max(mp.mpf(-1), min(mp.mpf(1), lam / mp.sqrt(q1 * q2)))
            t = mp.acos(rho)
            value = mp.sqrt(q1 * q2) * (mp.sin(t) + (mp.pi - t) * rho) / (2 * mp.pi) + mean
            lam = a2 * value + b2 * dot(x, y)
        slope = (mp.pi - t) / (2 * mp.pi)
        return float(value), float(value + lam * slope / (1 - a2 * slope))


@pytest.mark.parametrize("shift", [0.0, 0.35])
@pytest.mark.parametrize("size", [1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-10, 1e-12, 0.0])
def test_nearly_parallel_inputs_under_a_rectifier(size, shift, tol):
    rng = np.random.default_rng(2)
    x = rng.standard_normal(5) / 2
    for y in (x + size * rng.standard_normal(5), 1.7 * (x + size * rng.standard_normal(5))):
        k = deqcli.implicit_kernels(np.stack([x, y]), activation("relu").shifted(shift), 0.2, 0.8)
        ck, ntk = mp_relu_pair(x, y, 0.2, 0.8, shift)
        assert k.ck[0, 1] == pytest.approx(ck, abs=tol("rounding"))
        assert k.ntk[0, 1] == pytest.approx(ntk, abs=tol("parallel"))


@pytest.mark.parametrize("name", ["relu", "htanh", "elu", "tanh", "abs"])
def test_duplicates_equal_the_diagonal_and_zero_inputs_are_finite(name, tol):
    X = data(3, n=4)
    X[1], X[3] = X[0], 0.0
    for act in (activation(name), activation(name).centred(0.2, 0.8, 1.0)):
        for M in deqcli.implicit_kernels(X, act, 0.2, 0.8).compute("ck", "ntk"):
            assert M[0, 1] == pytest.approx(M[0, 0], abs=tol("rounding"))
            assert np.isfinite(M).all()


@pytest.mark.parametrize("name", ["htanh", "tanh", "erf", "sin", "identity"])
def test_opposites_under_odd_activations(name, tol):
    X = data(4, n=3)
    X[1] = -X[0]
    for M in deqcli.implicit_kernels(X, name, 0.15, 0.8).compute("ck", "ntk"):
        assert M[0, 1] == pytest.approx(-M[0, 0], abs=tol("rounding"))
        assert M[1, 2] == pytest.approx(-M[0, 2], abs=tol("rounding"))


def test_memory_that_was_something_else_makes_no_warning(monkeypatch):
    """Entries that are left open are scaled with the others: they must be numbers."""
    X, empty = data(0, n=8, p=3), np.empty

    def rubbish(*arguments, **keywords):
        array = empty(*arguments, **keywords)
        # A signalling NaN: arithmetic with it is invalid.
        array.view(np.uint64)[...] = 0x7FF0000000000001
        return array

    expected = deqcli.implicit_kernels(X, "tanh", sigma_a2=0.1).preactivation_ck
    monkeypatch.setattr(np, "empty", rubbish)
    with np.errstate(all="raise"):
        found = deqcli.implicit_kernels(X, "tanh", sigma_a2=0.1).preactivation_ck
    np.testing.assert_array_equal(found, expected)


# ------------------------------------------------------------------------------------ properties

seeds = st.integers(0, 10**6)
# Zero, or one that can be divided by.
hidden = st.one_of(st.just(0.0), st.floats(1e-50, 0.24))
variances = st.tuples(hidden, st.floats(0.05, 3.0))
names = st.sampled_from(RELATED)


# Kernels exist beyond the papers' range, which ends at 0.207 for swish.
@pytest.mark.filterwarnings("ignore::deqcli.errors.OutsidePapersRangeWarning")
@given(seeds, names, variances, st.floats(-0.5, 0.5), st.floats(0.01, 3.0))
def test_symmetric_and_positive_semidefinite(seed, name, variance, shift, scale):
    X = data(seed, n=8, p=3, scale=scale)
    X[7] = X[0]
    k = deqcli.implicit_kernels(X, activation(name).shifted(shift), *variance)
    for M in k.compute(*Kernel):
        np.testing.assert_array_equal(M, M.T)
        eigenvalues = np.linalg.eigvalsh(M)
        assert eigenvalues[0] >= -1e-12 * eigenvalues[-1]


@pytest.mark.filterwarnings("ignore::deqcli.errors.OutsidePapersRangeWarning")
@given(seeds, names, variances)
def test_permutations_and_rotations(seed, name, variance):
    rng = np.random.default_rng(seed)
    X = data(seed)
    order = rng.permutation(len(X))
    rotation = np.linalg.qr(rng.standard_normal((4, 4)))[0]
    k = deqcli.implicit_kernels(X, name, *variance).compute("ck", "ntk")
    permuted = deqcli.implicit_kernels(X[order], name, *variance).compute("ck", "ntk")
    rotated = deqcli.implicit_kernels(X @ rotation, name, *variance).compute("ck", "ntk")
    for M, P, R in zip(k, permuted, rotated, strict=True):
        np.testing.assert_allclose(P, M[np.ix_(order, order)], rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(R, M, rtol=1e-11, atol=1e-11)


@given(seeds, hidden, st.floats(0.05, 3.0))
def test_the_linear_network_in_closed_form(seed, sigma_a2, sigma_b2):
    """phi(x) = x: G = Lambda = b XX^T/(1-a), K = Lambda/(1-a), Theta = G + Lambda/(1-a)."""
    X = data(seed)
    gram = X @ X.T
    L = sigma_b2 * gram / (1 - sigma_a2)
    expected = {
        "ck": L,
        "preactivation_ck": L,
        "ntk": L * (2 - sigma_a2) / (1 - sigma_a2),
        "preactivation_ntk": L / (1 - sigma_a2),
    }
    k = deqcli.implicit_kernels(X, "identity", sigma_a2, sigma_b2)
    for name, M in expected.items():
        np.testing.assert_allclose(getattr(k, name), M, rtol=1e-12, atol=1e-13)


@given(seeds, variances, st.floats(1e-6, 1e6), st.sampled_from(["relu", "abs", "lrelu:slope=0.3"]))
def test_uncentred_rectifiers_scale_with_the_data(seed, variance, scale, name):
    X = data(seed)
    one = deqcli.implicit_kernels(X, name, *variance).compute(*Kernel)
    other = deqcli.implicit_kernels(scale * X, name, *variance).compute(*Kernel)
    for A, B in zip(one, other, strict=True):
        np.testing.assert_allclose(B, scale**2 * A, rtol=1e-9, atol=1e-12 * scale**2)


@given(seeds, st.sampled_from([*RELATED, "quadratic"]), st.floats(0.1, 3.0))
def test_without_recurrence_it_is_one_explicit_layer(seed, name, sigma_b2):
    X = data(seed)
    k = deqcli.implicit_kernels(X, name, 0.0, sigma_b2).compute("ck", "ntk")
    e = deqcli.explicit_kernels(math.sqrt(sigma_b2) * X, [name]).compute("ck", "ntk")
    for A, B in zip(k, e, strict=True):
        np.testing.assert_allclose(A, B, rtol=1e-11, atol=1e-12)


@given(seeds, st.sampled_from(["tanh", "swish", "relu"]))
def test_default_input_variance_completes_to_one(seed, name):
    X = data(seed, n=3)
    np.testing.assert_array_equal(
        deqcli.implicit_kernels(X, name, 0.2).ntk, deqcli.implicit_kernels(X, name, 0.2, 0.8).ntk
    )


def test_close_to_the_edge_of_existence_the_equation_still_holds(tol):
    X = data(5, n=3)
    with pytest.warns(deqcli.errors.OutsidePapersRangeWarning):
        k = deqcli.implicit_kernels(X, "relu", 0.95, 0.05)
    G, L = k.compute("ck", "preactivation_ck")
    scale = np.sqrt(np.diag(L))
    theta = np.arccos(L[0, 1] / (scale[0] * scale[1]))
    exact = scale[0] * scale[1] * (np.sin(theta) + (np.pi - theta) * np.cos(theta)) / (2 * np.pi)
    assert G[0, 1] == pytest.approx(exact, abs=tol("quadrature"))
