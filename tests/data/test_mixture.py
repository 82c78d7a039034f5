"""Gaussian mixtures and the sphere: the drawn samples have the moments they should."""

import numpy as np
import pytest

import deqcli
from deqcli.data import mixture
from deqcli.data.mixture import GaussianMixture, sphere, toeplitz
from deqcli.errors import DataError, InputError


def test_the_mixture_of_the_papers():
    mix = GaussianMixture.papers(p=100)
    assert mix.means.shape == (2, 100)
    assert mix.means[0, 0] == mix.means[1, 8] == 8.0
    assert np.count_nonzero(mix.means) == 2
    assert [float(c) for c in mix.covariances] == pytest.approx([1.0, 1.8])
    three = GaussianMixture.papers(p=25, classes=3, mean_norm=2.0, spread=1.0)
    assert three.means[2, 16] == 2.0
    assert float(three.covariances[2]) == pytest.approx(1.4)
    assert float(GaussianMixture.papers(4, classes=1).covariances[0]) == 1.0


@pytest.mark.parametrize("kind", ["scalar", "diagonal", "full"])
def test_samples_have_the_mean_and_covariance_asked_for(kind):
    p, n = 5, 60_000
    covariance = {
        "scalar": 2.0,
        "diagonal": np.array([0.5, 1.0, 2.0, 3.0, 0.1]),
        "full": toeplitz(p, -0.6) * 1.5,
    }[kind]
    mix = GaussianMixture([np.arange(p)], [covariance])
    X = mix.sample(n, np.random.default_rng(0)).X * np.sqrt(p)
    exact = np.asarray(covariance, float)
    exact = exact * np.eye(p) if exact.ndim == 0 else np.diag(exact) if exact.ndim == 1 else exact
    # Six standard errors: sqrt(C_ii C_jj (1 + rho^2)/n) for a covariance.
    error = 6 * np.sqrt(2 * np.outer(np.diag(exact), np.diag(exact)) / n)
    assert np.all(np.abs(np.cov(X.T) - exact) < error)
    assert np.all(np.abs(X.mean(axis=0) - np.arange(p)) < 6 * np.sqrt(np.diag(exact) / n))


def test_a_common_shape_is_the_list_of_its_multiples_factorised_once(monkeypatch):
    p, counts, scales = 12, np.array([3, 2, 4]), [1.0, 1.7, 0.4]
    rng, matrix = np.random.default_rng(2), toeplitz(p, 0.5)
    means = rng.standard_normal((3, p))
    listed = GaussianMixture(means, [scale * matrix for scale in scales])
    calls = []
    monkeypatch.setattr(
        mixture, "cholesky", lambda c: calls.append(c) or np.linalg.cholesky(c).T.copy()
    )
    shared = GaussianMixture(means, scales, matrix)
    X, Y = (mix.sample(9, np.random.default_rng(1), counts).X for mix in (listed, shared))
    np.testing.assert_allclose(X, Y, rtol=1e-12, atol=1e-14)
    first, second = (mix.statistics(counts) for mix in (listed, shared))
    for name in ("tau0", "t", "T", "centres", "spreads"):
        np.testing.assert_allclose(getattr(first, name), getattr(second, name), atol=1e-13)
    assert len(calls) == 1


def test_scalars_have_the_statistics_of_the_matrices_they_stand_for():
    p, counts = 6, np.array([2, 5])
    means = np.zeros((2, p))
    scalars = GaussianMixture(means, [1.0, 2.5]).statistics(counts)
    matrices = GaussianMixture(means, [np.eye(p), 2.5 * np.eye(p)]).statistics(counts)
    np.testing.assert_allclose(scalars.T, matrices.T, rtol=1e-14)
    np.testing.assert_allclose(scalars.t, matrices.t, rtol=1e-14)


def test_sizes_of_classes():
    mix = GaussianMixture.papers(30, classes=3)
    rng = np.random.default_rng(0)
    assert np.bincount(mix.sample(10, rng).y).tolist() == [4, 3, 3]
    assert np.bincount(mix.sample(10, rng, counts=np.array([5, 3, 2])).y).tolist() == [5, 3, 2]
    assert np.bincount(mix.sample(8, rng).y).tolist() == [3, 3, 2]
    data = mix.sample(9, rng)
    assert (data.n_classes, data.n_samples, data.classes) == (3, 9, ("1", "2", "3"))


def test_the_same_generator_gives_the_same_samples():
    mix = GaussianMixture.papers(20)
    a, b = (mix.sample(8, np.random.default_rng(3)).X for _ in range(2))
    np.testing.assert_array_equal(a, b)


def test_the_sphere_is_uniform():
    X = sphere(4000, 6, np.random.default_rng(1)).X
    np.testing.assert_allclose(np.linalg.norm(X, axis=1), 1, atol=1e-14)
    np.testing.assert_allclose(X.T @ X / 4000, np.eye(6) / 6, atol=0.015)
    assert np.abs(X.mean(axis=0)).max() < 0.03


@pytest.mark.parametrize(
    ("means", "covariances", "said"),
    [
        (np.zeros((2, 4)), [1.0], "2 means but 1 covariances"),
        (np.zeros((1, 4)), [np.ones(3)], r"shape \(3,\)"),
        (np.zeros((1, 4)), [np.ones((4, 3))], r"shape \(4, 3\)"),
        (np.zeros((1, 4)), [-1.0], "positive definite"),
        (np.zeros((1, 4)), [np.array([1.0, 1.0, 0.0, 1.0])], "positive definite"),
        (np.zeros((1, 2)), [np.array([[1.0, 2.0], [2.0, 1.0]])], "positive definite"),
        (np.zeros((1, 2)), [np.array([[1.0, 0.5], [0.2, 1.0]])], "symmetric"),
        (np.zeros((1, 4)), [np.nan], "finite"),
        (np.zeros((1, 2)), [np.full((2, 2), np.nan)], "finite"),
        (np.full((1, 4), np.inf), [1.0], "means must be finite"),
    ],
)
def test_bad_mixtures(means, covariances, said):
    with pytest.raises(DataError, match=said):
        GaussianMixture(means, covariances)


@pytest.mark.parametrize(
    ("covariances", "shape", "said"),
    [
        ([np.ones(2), 1.0], np.eye(2), "with a common `shape` the covariances must be numbers"),
        ([1.0, 1.0], np.eye(3), r"`shape` has shape \(3, 3\); \(2, 2\) is needed"),
        ([1.0, 1.0], np.ones((2, 2)), "`shape` must be positive definite"),
        ([1.0, 1.0], np.triu(np.ones((2, 2))), "`shape` must be symmetric"),
        ([1.0, 0.0], np.eye(2), "covariance 1 must be positive definite"),
        ([1.0, 1.0], "round", "must be numbers"),
    ],
)
def test_bad_shapes(covariances, shape, said):
    with pytest.raises(DataError, match=said):
        GaussianMixture(np.zeros((2, 2)), covariances, shape)


def test_bad_requests():
    rng = np.random.default_rng(0)
    mix = GaussianMixture.papers(30, classes=3)
    with pytest.raises(InputError, match="`n` is 2, too small for 3 classes"):
        mix.sample(2, rng)
    with pytest.raises(InputError, match="counts"):
        mix.sample(10, rng, counts=np.array([5, 5, 5]))
    with pytest.raises(InputError, match="`p` is 8, too small"):
        GaussianMixture.papers(8)
    with pytest.raises(InputError, match="above -1 and below 1"):
        toeplitz(4, 1.0)
    with pytest.raises(InputError, match=r"`n` is 1; .* at least 2"):
        sphere(1, 5, rng)
    with pytest.raises(InputError, match=r"`dimension` is 1; .* at least 2"):
        sphere(5, 1, rng)
    assert deqcli.sphere is sphere
