"""Kernels of wide random networks, in plain numpy: what the infinite width is the limit of."""

import math

import numpy as np
import pytest

import deqcli
from deqcli.activations import activation


def relative(estimate, exact):
    return np.linalg.norm(estimate - exact) / np.linalg.norm(exact)


def samples():
    X = np.random.default_rng(0).standard_normal((5, 8)) / math.sqrt(8)
    X[4] = -X[3]
    return X


def empirical_deq(X, act, sigma_a2, sigma_b2, width, rng):
    """CK and NTK of one network f = a.z, z = act(sa A z + sb B x)/sqrt(m), all of it trained.

    With D = diag(act'(h))/sqrt(m), dz = (I - sa D A)^-1 D (sa dA z + sb dB x), so that
    df/dA = sa w z^T and df/dB = sb w x^T with w = D (I - sa A^T D)^-1 a.
    """
    sa, sb = math.sqrt(sigma_a2), math.sqrt(sigma_b2)
    A = rng.standard_normal((width, width))
    B = rng.standard_normal((width, X.shape[1]))
    a = rng.standard_normal(width)
    drive = sb * B @ X.T
    Z = np.zeros((width, len(X)))
    for _ in range(30):
        Z = act(sa * A @ Z + drive) / math.sqrt(width)
    H = sa * A @ Z + drive
    assert np.abs(act(H) / math.sqrt(width) - Z).max() < 1e-12
    W = np.empty_like(Z)
    for i in range(len(X)):
        d = act.derivative(H[:, i]) / math.sqrt(width)
        W[:, i] = d * np.linalg.solve(np.eye(width) - sa * A.T * d, a)
    features = Z.T @ Z
    return features, features + (W.T @ W) * (sigma_a2 * features + sigma_b2 * X @ X.T)


@pytest.mark.parametrize("name", ["tanh", pytest.param("relu", marks=pytest.mark.slow)])
def test_the_empirical_kernels_of_wide_equilibrium_models(name, tol):
    X = samples()
    act = activation(name).centred(0.2, 0.8, 1.0)
    rng = np.random.default_rng(1)
    drawn = [empirical_deq(X, act, 0.2, 0.8, 1000, rng) for _ in range(3)]
    ck, ntk = (np.mean([pair[which] for pair in drawn], axis=0) for which in (0, 1))
    k = deqcli.implicit_kernels(X, act, 0.2, 0.8)
    assert relative(ck, k.ck) < tol("wide network")
    assert relative(ntk, k.ntk) < tol("wide network")
    # ICML prints G/(1 - sigma_a2 E phi' phi') for this kernel, which is far from it.
    dot = 1 - k.preactivation_ck / k.preactivation_ntk
    assert relative(ntk, k.ck / (1 - dot)) > 0.3


@pytest.mark.parametrize("specs", [("tanh",), ("relu", "swish")])
def test_the_features_of_wide_explicit_networks(specs, tol):
    X = samples()
    rng = np.random.default_rng(2)
    width, kernels = 1500, []
    for _ in range(20):
        Z = X.T
        for spec in specs:
            Z = activation(spec)(rng.standard_normal((width, len(Z))) @ Z) / math.sqrt(width)
        kernels.append(Z.T @ Z)
    exact = deqcli.explicit_kernels(X, specs).ck
    assert relative(np.mean(kernels, axis=0), exact) < tol("many networks")


def test_the_jacobian_of_wide_networks_of_two_layers(tol):
    """f = a.x2, x2 = s2(W2 x1)/sqrt(m), x1 = s1(W1 x)/sqrt(m); a, W2 and W1 trained."""
    X = samples()
    s1, s2 = activation("tanh"), activation("softplus").shifted(0.5)
    m, rng, kernels = 1500, np.random.default_rng(3), []
    for _ in range(10):
        W1, W2, a = (rng.standard_normal(shape) for shape in ((m, 8), (m, m), (m,)))
        H1 = W1 @ X.T
        X1 = s1(H1) / math.sqrt(m)
        H2 = W2 @ X1
        X2 = s2(H2) / math.sqrt(m)
        back2 = s2.derivative(H2) * a[:, None] / math.sqrt(m)
        back1 = s1.derivative(H1) * (W2.T @ back2) / math.sqrt(m)
        kernels.append(X2.T @ X2 + (back2.T @ back2) * (X1.T @ X1) + (back1.T @ back1) * (X @ X.T))
    exact = deqcli.explicit_kernels(X, [s1, s2]).ntk
    assert relative(np.mean(kernels, axis=0), exact) < tol("many networks")
