"""Traces and quadratic forms of covariances, in every structure, against matrix inverses."""

from __future__ import annotations

import numpy as np
import pytest

from deqcli.data.mixture import toeplitz
from deqcli.spectral.covariances import Commuting, General, covariances_of

P = 60


def full(rng, p=P):
    root = rng.standard_normal((p, 2 * p)) / np.sqrt(2 * p)
    return root @ root.T + 0.3 * np.eye(p)


def dense(c, shape=None):
    if shape is not None:
        return float(c) * shape
    return np.asarray(c) if np.ndim(c) == 2 else np.diag(np.broadcast_to(c, P))


def structures():
    rng = np.random.default_rng(0)
    one = full(rng)
    return {
        "scalar": ([np.array(1.0), np.array(1.7)], None, Commuting),
        "diagonal": ([rng.uniform(0.5, 2, P), np.array(1.2)], None, Commuting),
        "shared": ([np.array(1.0), np.array(1.4)], toeplitz(P, 0.5), Commuting),
        "polynomials of one": ([one, 0.5 * one @ one + np.eye(P)], None, Commuting),
        "full": ([one, full(rng)], None, General),
    }


@pytest.mark.parametrize("name", structures())
@pytest.mark.parametrize("y", [(0.4, 0.42), (-0.11, -0.1), (0.2 + 0.3j, 0.25 + 0.28j)])
def test_responses_are_traces_of_the_inverse(name, y):
    parts, shape, kind = structures()[name]
    means = np.random.default_rng(1).standard_normal((2, P))
    covariances = covariances_of(means, parts, shape)
    assert isinstance(covariances, kind)
    assert covariances.dimension == P
    matrices = [dense(c, shape) for c in parts]
    y = np.array(y)
    psi = np.linalg.inv(np.eye(P) + sum(v * m for v, m in zip(y, matrices, strict=True)))
    h = np.array([np.trace(m @ psi) / P for m in matrices])
    omega = np.array([[np.trace(a @ psi @ b @ psi) / P for b in matrices] for a in matrices])
    # Those that do not commute are expanded to third order, y being near the weights.
    exact = 1e-12 if kind is Commuting else 2e-5
    np.testing.assert_allclose(covariances.response(y), h, rtol=exact)
    np.testing.assert_allclose(covariances.omega(y), omega, rtol=max(100 * exact, 1e-9))
    batch = np.stack([y, 2 * y, 0 * y])
    np.testing.assert_allclose(covariances.response(batch)[0], h, rtol=exact)
    np.testing.assert_allclose(covariances.omega(batch)[0], covariances.omega(y), rtol=1e-6)
    if not np.iscomplexobj(y):
        np.testing.assert_allclose(
            covariances.mean_form(y), means @ psi @ means.T, rtol=0, atol=200 * exact
        )
        change = np.array([0.3, -0.2])
        moved = sum(v * m for v, m in zip(change, matrices, strict=True))
        slope = -means @ psi @ moved @ psi @ means.T
        np.testing.assert_allclose(
            covariances.mean_slope(y, change), slope, rtol=0, atol=max(5e4 * exact, 1e-6)
        )


@pytest.mark.parametrize("name", structures())
def test_moments(name):
    parts, shape, _ = structures()[name]
    means = np.random.default_rng(1).standard_normal((2, P))
    covariances = covariances_of(means, parts, shape)
    matrices = [dense(c, shape) for c in parts]
    np.testing.assert_allclose(covariances.traces, [np.trace(m) / P for m in matrices])
    products = [[np.sum(a * b) / P for b in matrices] for a in matrices]
    np.testing.assert_allclose(covariances.products, products)
    weighted = [[mu @ m @ mu for mu in means] for m in matrices]
    np.testing.assert_allclose(covariances.weighted_means(), weighted)
    np.testing.assert_allclose(covariances.grams, means @ means.T)
    assert covariances.rank == P
