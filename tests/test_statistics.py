"""Statistics of mixtures: definitions, estimates, unbiasedness, labels."""

import numpy as np
import pandas as pd
import pytest

import deqcli
from deqcli.data.mixture import GaussianMixture, toeplitz
from deqcli.errors import DataError
from deqcli.statistics import check_labels, estimate_statistics


def mixture(kind, p, rng):
    means = np.zeros((2, p))
    means[0, 0], means[1, 1] = 1.5, -2.0
    if kind == "scalar":
        return GaussianMixture(means, [1.0, 1.3])
    if kind == "diagonal":
        return GaussianMixture(means, [rng.uniform(0.5, 1.5, p), rng.uniform(0.5, 2.0, p)])
    if kind == "toeplitz":
        return GaussianMixture(means, [toeplitz(p, 0.4), 1.2 * toeplitz(p, -0.3)])
    root = rng.standard_normal((p, 2 * p)) / np.sqrt(2 * p)
    return GaussianMixture(means, [root @ root.T + 0.2 * np.eye(p), rng.uniform(0.5, 1.5, p)])


def matrices(mix):
    p = mix.n_features
    return [
        c * np.eye(p) if c.ndim == 0 else np.diag(c) if c.ndim == 1 else c for c in mix.covariances
    ]


KINDS = ["scalar", "diagonal", "toeplitz", "full"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("counts", [(50, 50), (20, 80)])
def test_exact_statistics_are_their_definitions(kind, counts, tol):
    p = 30
    mix = mixture(kind, p, np.random.default_rng(0))
    C = matrices(mix)
    n = np.array(counts)
    mean = (n[0] * C[0] + n[1] * C[1]) / n.sum()
    s = mix.statistics(n)
    assert s.tau0**2 == pytest.approx(np.trace(mean) / p, rel=tol("quadrature"))
    np.testing.assert_allclose(
        s.t, [np.trace(c - mean) / np.sqrt(p) for c in C], atol=tol("quadrature")
    )
    np.testing.assert_allclose(
        s.T, [[np.trace(a @ b) / p for b in C] for a in C], rtol=tol("quadrature")
    )
    np.testing.assert_allclose(s.centres, mix.means / np.sqrt(p))
    assert n @ s.t == pytest.approx(0, abs=tol("quadrature") * n.sum())


@pytest.mark.parametrize("kind", KINDS)
def test_estimates_approach_the_exact_statistics(kind):
    """With p/n fixed: tau0 like 1/n, t and T like 1/sqrt(n), or better."""
    rng = np.random.default_rng(1)
    errors = []
    for n in (100, 800):
        mix = mixture(kind, int(0.6 * n), rng)
        data = mix.sample(n, rng)
        exact, estimate = mix.statistics(np.bincount(data.y)), estimate_statistics(data.X, data.y)
        errors.append(
            [
                abs(estimate.tau0 - exact.tau0),
                np.abs(estimate.t - exact.t).max() / np.sqrt(n),
                np.abs(estimate.T - exact.T).max(),
            ]
        )
    small, large = np.array(errors)
    assert large[0] < 0.01
    assert large[1] < 0.01
    assert large[2] < 0.08
    assert small.sum() > large.sum()


@pytest.mark.parametrize("n", [4, 10, 60])
def test_the_estimate_of_T_is_unbiased(n):
    """The plug-in is too large by about p/n; what is used is right on average."""
    p, rng, repeats = 12, np.random.default_rng(2), 1500
    C = toeplitz(p, 0.5)
    mix = GaussianMixture(np.ones((2, p)), [C, 0.7])
    exact = mix.statistics(np.array([n, n])).T
    estimates = np.array(
        [estimate_statistics(d.X, d.y).T for d in (mix.sample(2 * n, rng) for _ in range(repeats))]
    )
    error = estimates.std(axis=0) / np.sqrt(repeats)
    # Truncation at zero bends the smallest classes' estimate upwards a little.
    slack = 0.02 * exact if n == 4 else 0.0
    assert np.all(np.abs(estimates.mean(axis=0) - exact) < 4.5 * error + slack)
    if n == 10:
        assert p / (n - 1) > 20 * error.max()


@pytest.mark.parametrize("n", [30, 400])
def test_both_ways_of_taking_products_agree(n, tol):
    """More samples than features, and fewer: the same traces by covariance or Gram matrices."""
    rng = np.random.default_rng(3)
    p = 100
    X = rng.standard_normal((n, p)) / 10
    y = np.arange(n) % 2
    s = estimate_statistics(X, y)
    hats = [p * np.cov(X[y == a].T) for a in (0, 1)]
    assert s.T[0, 1] == pytest.approx(np.trace(hats[0] @ hats[1]) / p, rel=tol("quadrature"))
    m = (y == 0).sum()
    plug_in, trace = np.trace(hats[0] @ hats[0]), np.trace(hats[0])
    exact = (m - 1) ** 2 / ((m - 2) * (m + 1)) * (plug_in - trace**2 / (m - 1)) / p
    assert s.T[0, 0] == pytest.approx(exact, rel=tol("routes"))
    # Spreads are with 1/n, so that the fluctuations of each class have mean zero.
    spreads = [np.trace(h) / p * (m - 1) / m for h in hats]
    assert s.spreads == pytest.approx(spreads, rel=tol("quadrature"))
    psi = s.fluctuations(X, y)
    assert [psi[y == a].mean() for a in (0, 1)] == pytest.approx([0, 0], abs=tol("rounding"))


def test_fluctuations_are_deviations_of_squared_distances(tol):
    rng = np.random.default_rng(4)
    mix = GaussianMixture.papers(40)
    data = mix.sample(21, rng)
    s = mix.statistics(np.bincount(data.y))
    psi = s.fluctuations(data.X, data.y)
    for i in range(21):
        a = data.y[i]
        distance = np.sum((data.X[i] - mix.means[a] / np.sqrt(40)) ** 2)
        assert psi[i] == pytest.approx(distance - float(mix.covariances[a]), abs=tol("rounding"))


def test_labels_of_any_kind():
    expected = [0, 1, 1, 0, 2]
    for labels in (
        [3, 7, 7, 3, 9],
        ["cat", "dog", "dog", "cat", "eel"],
        np.array(["cat", "dog", "dog", "cat", "eel"], dtype=object),
        np.array([-1.5, 0.0, 0.0, -1.5, 2.5]),
        np.array([b"a", b"b", b"b", b"a", b"c"]),
    ):
        assert check_labels(labels, 5).tolist() == expected
    assert check_labels([True, False, True], 3).tolist() == [1, 0, 1]


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        ([0, 1], "5 samples"),
        ([[0], [1], [0], [1], [0]], r"shape \(5, 1\)"),
        ([0, 1, np.nan, 0, 1], "not finite"),
        (np.array([0, "a", None, 1, 2], dtype=object), "none of them missing"),
    ],
)
def test_labels_that_do_not_match(labels, said):
    with pytest.raises(DataError, match=said):
        check_labels(labels, 5)
    with pytest.raises(DataError, match=said):
        deqcli.equivalent(np.eye(5), labels, deqcli.implicit_scalars("tanh", 0.1))


def test_a_class_of_one_is_refused():
    with pytest.raises(DataError, match="at least 2"):
        estimate_statistics(np.eye(5), [0, 0, 0, 0, 1])
    with pytest.raises(DataError, match="not finite"):
        estimate_statistics(np.full((4, 2), np.nan), [0, 0, 1, 1])


@pytest.mark.parametrize(
    "labels",
    [
        [True, False, True],
        np.array([1, "a", 1], dtype=object),
        pd.Series(["b", "a", "b"], dtype="string", index=[5, 6, 7]),
        pd.Categorical(["b", "a", "b"]),
        pd.to_datetime(["2021-01-01", "2020-01-01", "2021-01-01"]),
        [frozenset({1}), frozenset(), frozenset({1})],
        [b"y", b"x", b"y"],
    ],
    ids=lambda labels: type(labels).__name__,
)
def test_labels_need_only_be_told_apart(labels):
    numbers = check_labels(labels, 3)
    assert sorted(numbers) in ([0, 0, 1], [0, 1, 1])
    assert numbers[0] == numbers[2] != numbers[1]


@pytest.mark.parametrize(
    "labels",
    [[None, 1], [{}, {}], pd.Series([pd.NA, 1], dtype="Int64"), pd.to_datetime(["", "2020"])],
)
def test_labels_that_are_missing_are_refused(labels):
    with pytest.raises(DataError, match="`y` has labels that"):
        check_labels(labels, 2)
