"""Traces and quadratic forms of covariances, in every structure, against matrix inverses."""

from __future__ import annotations

import numpy as np
import pytest

from deqcli.data.mixture import toeplitz
from deqcli.spectral.covariances import Commuting, General
from deqcli.spectral.from_moments import covariances_of, spanned

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


def test_a_factor_of_few_rows_gives_what_its_product_does():
    rng = np.random.default_rng(3)
    factor, means, scales = rng.standard_normal((7, P)), rng.standard_normal((2, P)), [1.0, 1.6]
    factor -= factor.mean(axis=0)  # centred samples span one dimension less
    few = spanned(means, np.array(scales), factor)
    whole = covariances_of(means, [np.array(scale) for scale in scales], factor.T @ factor)
    assert few.multiplicities.tolist() == [1.0] * 6 + [P - 6]
    assert few.dimension == P
    assert few.rank == whole.rank == 6
    y = np.array([0.3, 0.35])
    for found, expected in (
        (few.response(y), whole.response(y)),
        (few.omega(y), whole.omega(y)),
        (few.mean_form(y), whole.mean_form(y)),
        (few.weighted_means(), whole.weighted_means()),
        (few.products, whole.products),
        (few.triples, whole.triples),
        (few.grams, whole.grams),
        (few.traces, whole.traces),
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)
    slopes, shares = np.array([[1.0, 0.8], [0.8, 0.7]]), np.array([0.4, 0.6])
    np.testing.assert_allclose(
        few.mixed(slopes, shares).response(y), whole.mixed(slopes, shares).response(y), rtol=1e-10
    )


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
    triples = [[np.trace(a @ a @ b) / P for b in matrices] for a in matrices]
    np.testing.assert_allclose(covariances.triples, triples)
    weighted = [[mu @ m @ mu for mu in means] for m in matrices]
    np.testing.assert_allclose(covariances.weighted_means(), weighted)
    np.testing.assert_allclose(covariances.grams, means @ means.T)
    assert covariances.rank == P


@pytest.mark.parametrize("name", ["scalar", "diagonal", "shared", "full"])
@pytest.mark.parametrize("y", [(0.4, 0.42), (-0.11, -0.1), (0.2 + 0.3j, 0.25 + 0.28j)])
def test_slopes_that_depend_on_classes(name, y):
    """Against the inverse of a matrix of 2p rows: samples of class a have slots of their own."""
    parts, shape, kind = structures()[name]
    slopes, y = np.array([[1.1, 0.93], [0.93, 1.2]]), np.array(y)
    plain = covariances_of(np.zeros((2, P)), parts, shape)
    matrices = [dense(c, shape) for c in parts]
    noise = np.zeros((2 * P, 2 * P), dtype=y.dtype)
    noise[:P, :P], noise[P:, P:] = y[0] * matrices[0], y[1] * matrices[1]
    middle = np.kron(slopes, np.eye(P))
    G = np.linalg.solve(np.eye(2 * P) + middle @ noise, middle)
    blocks = [[G[:P, :P], G[:P, P:]], [G[P:, :P], G[P:, P:]]]
    h = [np.trace(matrices[a] @ blocks[a][a]) / P for a in (0, 1)]
    omega = [
        [np.trace(matrices[a] @ blocks[a][b] @ matrices[b] @ blocks[b][a]) / P for b in (0, 1)]
        for a in (0, 1)
    ]
    mixed = plain.mixed(slopes, np.array([0.7, 0.3]))
    np.testing.assert_allclose(mixed.surrogate.slopes.matrix, slopes)
    # Where covariances do not commute the slopes act on the diagonals alone: most of it.
    part = 1e-9 if kind is Commuting else 0.25
    assert np.all(np.abs(mixed.response(y) - h) <= part * np.abs(plain.response(y) - h))
    if kind is Commuting:
        np.testing.assert_allclose(mixed.omega(y), omega, rtol=1e-9)
    np.testing.assert_allclose(mixed.omega(np.stack([y, 2 * y]))[0], mixed.omega(y), rtol=1e-6)
    np.testing.assert_allclose(mixed.traces, plain.traces)
    # The same slopes for all classes change nothing.
    same = plain.mixed(np.ones((2, 2)), np.array([0.5, 0.5]))
    np.testing.assert_allclose(same.response(y), plain.response(y), rtol=1e-10)
    np.testing.assert_allclose(same.omega(y), plain.omega(y), rtol=1e-6)


def test_many_columns_keep_the_two_largest_parts_of_slopes():
    rng = np.random.default_rng(0)
    parts = [rng.uniform(0.5, 1.5, P) for _ in range(4)]
    slopes = 1 + 0.1 * np.eye(4) + np.diag([0.3, 0, 0, 0])
    shares = np.full(4, 0.25)
    kept = covariances_of(np.zeros((4, P)), parts).mixed(slopes, shares).slopes.matrix
    values = np.sort(np.abs(np.linalg.eigvalsh(slopes)))
    assert np.linalg.norm(kept - slopes, 2) == pytest.approx(values[-3])
    few = covariances_of(np.zeros((4, P)), [np.array(1.0 + a) for a in range(4)])
    np.testing.assert_allclose(few.mixed(slopes, shares).slopes.matrix, slopes)
    y = rng.uniform(0.1, 0.3, 4)
    step = 1e-6 * np.eye(4)
    ahead, behind = (few.mixed(slopes, shares).response(y + sign * step) for sign in (1, -1))
    np.testing.assert_allclose(
        few.mixed(slopes, shares).omega(y), (behind - ahead).T / 2e-6, rtol=1e-6
    )
