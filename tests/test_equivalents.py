"""The closed-form matrices: their algebra, and that kernels approach them like n^(-1/2)."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse.linalg import eigsh

import deqcli
from deqcli.data.mixture import toeplitz
from deqcli.errors import DataError, InputError
from deqcli.scalars import Coefficients
from deqcli.vocabulary import Kernel


def by_hand(X, y, c, stats):
    """Theory.md §4 written out with dense matrices (rows are samples)."""
    n, p = X.shape
    J = (y[:, None] == np.arange(len(stats.t))).astype(float)
    psi = np.array(
        [np.sum((x - stats.centres[a]) ** 2) - stats.spreads[a] for x, a in zip(X, y, strict=True)]
    )
    V = np.column_stack([J / np.sqrt(p), psi])
    t, T = stats.t[:, None], stats.T
    core = np.block([[c.c2 * t @ t.T + c.c3 * T, c.c2 * t], [c.c2 * t.T, np.array([[c.c2]])]])
    return c.c1 * X @ X.T + V @ core @ V.T + (c.d - c.tau0**2 * c.c1) * np.eye(n)


@pytest.mark.parametrize("kernel", Kernel)
@pytest.mark.parametrize(("n", "p", "classes"), [(60, 90, 2), (90, 40, 3), (50, 30, 1)])
def test_structured_operator_is_the_dense_formula(kernel, n, p, classes):
    model = deqcli.GaussianMixture.papers(p, classes)
    data = model.sample(n, np.random.default_rng(1))
    stats = model.statistics(np.bincount(data.y))
    s = deqcli.implicit_scalars("gelu", 0.15, 0.85, stats.tau0)
    M = deqcli.equivalent(data.X, data.y, s, kernel, stats)
    dense = by_hand(data.X, data.y, s.coefficients(kernel), stats)
    np.testing.assert_allclose(M.dense(), dense, atol=1e-12)
    vectors = np.random.default_rng(2).standard_normal((n, 3))
    np.testing.assert_allclose(M @ vectors, dense @ vectors, atol=1e-11)
    np.testing.assert_allclose(M @ vectors[:, 0], dense @ vectors[:, 0], atol=1e-11)
    np.testing.assert_allclose(M.eigenvalues(), np.linalg.eigvalsh(dense), atol=1e-11)


@pytest.mark.parametrize("kernel", Kernel)
@pytest.mark.parametrize("act", ["tanh", "relu", pytest.param("swish", marks=pytest.mark.slow)])
def test_kernels_approach_their_equivalents(act, kernel):
    sizes = (128, 256, 512, 1024)
    distances = []
    for n in sizes:
        each = []
        for seed in range(2):
            model = deqcli.GaussianMixture.papers(round(0.8 * n), mean_norm=2.0)
            data = model.sample(n, np.random.default_rng(seed))
            stats = model.statistics(np.bincount(data.y))
            s = deqcli.implicit_scalars(act, 0.15, 0.85, stats.tau0)
            centred = deqcli.activation(act).shifted(s.shift)
            k = deqcli.implicit_kernels(data.X, centred, 0.15, 0.85).compute(kernel)[0]
            M = deqcli.equivalent(data.X, data.y, s, kernel, stats)
            each.append(deqcli.operator_distance(k, M))
        distances.append(np.mean(each))
    slope = np.polyfit(np.log(sizes), np.log(distances), 1)[0]
    assert -0.75 < slope < -0.35


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("kernel", ["ck", "ntk"])
def test_explicit_kernels_approach_their_equivalents(layers, kernel):
    sizes = (128, 256, 512, 1024)
    distances = []
    for n in sizes:
        model = deqcli.GaussianMixture.papers(round(0.8 * n), mean_norm=2.0)
        data = model.sample(n, np.random.default_rng(0))
        stats = model.statistics(np.bincount(data.y))
        q = deqcli.explicit_scalars(["relu", "gelu"][:layers], stats.tau0)
        k = deqcli.explicit_kernels(data.X, q.acts).compute(kernel)[0]
        M = deqcli.equivalent(data.X, data.y, q, kernel, stats)
        distances.append(deqcli.operator_distance(k, M))
    assert -0.8 < np.polyfit(np.log(sizes), np.log(distances), 1)[0] < -0.35


@pytest.mark.parametrize("act", ["nrelu", "softplus", "cos"])
def test_sphere_kernels_approach_theirs(act):
    distances = []
    for n in (200, 800):
        X = deqcli.sphere(n, round(1.2 * n), np.random.default_rng(0)).X
        s = deqcli.sphere_scalars(act, X.shape[1], sigma_a2=0.1)
        k = deqcli.implicit_kernels(X, act, 0.1).preactivation_ck
        distances.append(deqcli.operator_distance(k, deqcli.equivalent(X, None, s)))
    assert distances[1] < 0.6 * distances[0]
    assert distances[1] < 0.01


def full(p, rng):
    root = rng.standard_normal((p, 2 * p)) / np.sqrt(2 * p)
    return root @ root.T + 0.3 * np.eye(p)


@pytest.mark.parametrize("kind", ["scalar", "diagonal", "toeplitz", "full"])
def test_estimated_statistics_approach_the_exact_ones(kind):
    rng = np.random.default_rng(0)
    p, counts = 150, np.array([7000, 5000])
    make = {
        "scalar": lambda: 1.5,
        "diagonal": lambda: rng.uniform(0.5, 2, p),
        "toeplitz": lambda: toeplitz(p, 0.4),
        "full": lambda: full(p, rng),
    }[kind]
    model = deqcli.GaussianMixture(rng.standard_normal((2, p)), [make(), make()])
    data = model.sample(12000, rng, counts)
    exact, estimate = model.statistics(counts), deqcli.estimate_statistics(data.X, data.y)
    assert estimate.tau0 == pytest.approx(exact.tau0, rel=0.01)
    # The standard error of t is about 1.5 sqrt(2 / n_a) = 0.03.
    np.testing.assert_allclose(estimate.t, exact.t, atol=0.12)
    np.testing.assert_allclose(estimate.T, exact.T, rtol=0.03)
    np.testing.assert_allclose(estimate.centres, exact.centres, atol=0.03)


def test_estimate_of_the_squared_trace_is_unbiased():
    """With n_a comparable to p the plug-in is twice too large; the average of ours is right."""
    rng = np.random.default_rng(0)
    values = [
        deqcli.estimate_statistics(rng.standard_normal((60, 60)) / np.sqrt(60), np.zeros(60)).T[
            0, 0
        ]
        for _ in range(200)
    ]
    error = np.std(values) / np.sqrt(len(values))
    assert abs(np.mean(values) - 1) < 4 * error
    assert error < 0.01


def test_labels_of_any_kind_and_one_class():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 20)) / np.sqrt(20)
    s = deqcli.implicit_scalars("relu", 0.2)
    numbers = deqcli.equivalent(X, np.repeat([5, -1, 7], 10), s).dense()
    words = deqcli.equivalent(X, np.repeat(["b", "a", "c"], 10), s).dense()
    np.testing.assert_allclose(numbers, words, atol=1e-13)
    alone = deqcli.equivalent(X, None, s).dense()
    np.testing.assert_allclose(alone, deqcli.equivalent(X, np.zeros(30), s).dense())


def test_bad_input():
    X = np.random.default_rng(0).standard_normal((10, 5))
    s = deqcli.implicit_scalars("tanh", 0.1)
    with pytest.raises(DataError, match="one label a sample"):
        deqcli.equivalent(X, np.zeros(9), s)
    with pytest.raises(DataError, match="at least 2"):
        deqcli.equivalent(X, np.array([0] * 9 + [1]), s)
    with pytest.raises(DataError, match="not finite"):
        deqcli.equivalent(np.where(X > 2, np.nan, X) * np.nan, np.zeros(10), s)
    with pytest.raises(InputError, match="`kernel` is 'gram'"):
        deqcli.equivalent(X, np.zeros(10), s, kernel="gram")
    stats = deqcli.GaussianMixture.papers(20).statistics(np.array([5, 5]))
    with pytest.raises(DataError, match="do not match"):
        deqcli.equivalent(X, np.zeros(10), s, statistics=stats)
    with pytest.raises(DataError, match="`ridge` has 0 sample"):
        deqcli.Equivalent(X, 0.5, np.zeros((10, 1)), np.zeros((1, 1)), np.array([]))


def test_operator_norms_against_dense():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((300, 300))
    A, B = A + A.T, np.diag(rng.standard_normal(300))
    assert deqcli.operator_norm(A) == pytest.approx(np.linalg.norm(A, 2), rel=1e-9)
    assert deqcli.operator_distance(A, B) == pytest.approx(np.linalg.norm(A - B, 2), rel=1e-9)


# ------------------------------------------------------------------------------- other data


def draw(n, seed, ratio=0.8, classes=2):
    """Samples whose classes differ by little, so that the asymptotic regime is entered early."""
    model = deqcli.GaussianMixture.papers(int(ratio * n), classes, mean_norm=1.0, spread=2.0)
    data = model.sample(n, np.random.default_rng(seed))
    return data.X, data.y, model.statistics(np.bincount(data.y))


def distances_of(n, **setting):
    """Mean distances of G and Theta of a rectified DEQ to their equivalents, over three draws."""
    distances = []
    for seed in range(3):
        X, y, statistics = draw(n, seed, **setting)
        s = deqcli.implicit_scalars("relu", 0.2, 0.8, statistics.tau0)
        k = deqcli.implicit_kernels(X, deqcli.activation("relu").shifted(s.shift), 0.2, 0.8)
        distances.append(
            [
                deqcli.operator_distance(M, deqcli.equivalent(X, y, s, kernel, statistics))
                for M, kernel in zip(k.compute("ck", "ntk"), ("ck", "ntk"), strict=True)
            ]
        )
    return np.mean(distances, axis=0)


@pytest.mark.slow
@pytest.mark.parametrize("setting", [{"classes": 1}, {"classes": 3}, {"ratio": 2.0}])
def test_one_class_three_classes_more_features(setting):
    small, large = distances_of(100, **setting), distances_of(800, **setting)
    # 8 ** -0.5 = 0.35.
    assert np.all(large < 0.55 * small)
    assert np.all(large > 0.2 * small)
    assert np.all(large < 0.15)


def test_unbalanced_classes_and_general_covariances():
    """Class sizes 1:4, one Toeplitz and one diagonal covariance of nearly equal traces."""
    means = []
    for n in (100, 400):
        rng = np.random.default_rng(n)
        p = int(0.8 * n)
        mix = deqcli.GaussianMixture(
            np.pad(np.eye(2), ((0, 0), (0, p - 2))),
            [toeplitz(p, 0.3), rng.uniform(0.8, 1.2, p) + 2 / np.sqrt(p)],
        )
        counts = np.array([n // 5, n - n // 5])
        values = []
        for _ in range(3):
            data = mix.sample(n, rng, counts=counts)
            statistics = mix.statistics(counts)
            s = deqcli.implicit_scalars("relu", 0.2, 0.8, statistics.tau0)
            k = deqcli.implicit_kernels(
                data.X, deqcli.activation("relu").shifted(s.shift), 0.2, 0.8
            )
            M = deqcli.equivalent(data.X, data.y, s, "ck", statistics)
            values.append(deqcli.operator_distance(k.ck, M))
        means.append(np.mean(values))
    assert 0.35 < np.log(means[0] / means[1]) / np.log(4) < 0.75


def test_preactivation_equivalents_are_the_others_scaled_and_shifted(tol):
    """So that Lambda, K have the distances of G, Theta times sigma_a2, to the last digits."""
    X, y, statistics = draw(90, 0)
    s = deqcli.implicit_scalars("swish", 0.2, 0.8, statistics.tau0)
    matrices = {k: deqcli.equivalent(X, y, s, k, statistics).dense() for k in Kernel}
    for pre in (Kernel.PREACTIVATION_CK, Kernel.PREACTIVATION_NTK):
        expected = 0.2 * matrices[pre.explicit] + 0.8 * X @ X.T
        np.testing.assert_allclose(matrices[pre], expected, rtol=0, atol=tol("quadrature"))


def test_the_operator_is_its_own_transpose_and_serves_lanczos(tol):
    X, y, statistics = draw(80, 1)
    s = deqcli.implicit_scalars("relu", 0.2, 0.8, statistics.tau0)
    M = deqcli.equivalent(X, y, s, "ntk", statistics)
    dense, v = M.dense(), np.random.default_rng(2).standard_normal(80)
    np.testing.assert_array_equal(dense, dense.T)
    np.testing.assert_allclose(M.T @ v, dense @ v, atol=tol("quadrature"))
    np.testing.assert_allclose(M.H @ v, dense @ v, atol=tol("quadrature"))
    top = eigsh(M, k=2, which="LA", return_eigenvectors=False)
    np.testing.assert_allclose(np.sort(top), M.eigenvalues()[-2:], atol=tol("routes"))


def test_equivalents_of_the_sphere_and_of_bare_coefficients(tol):
    X = deqcli.sphere(60, 20, np.random.default_rng(0)).X
    s = deqcli.sphere_scalars("nrelu", 20, sigma_a2=0.1)
    M = deqcli.equivalent(X, None, s)
    plain = s.alpha + s.beta * X @ X.T + s.mu * np.eye(60)
    np.testing.assert_allclose(M.dense(), plain, atol=tol("quadrature"))
    np.testing.assert_allclose(M.eigenvalues(), np.linalg.eigvalsh(plain), atol=tol("routes"))
    bare = Coefficients(0.5, 0.0, 0.0, 2.0, 1.0)
    flat = deqcli.equivalent(X, None, bare).dense()
    np.testing.assert_allclose(flat, 0.5 * X @ X.T + 1.5 * np.eye(60), atol=tol("quadrature"))


def test_the_order_of_samples_does_not_matter(tol):
    X, y, _ = draw(60, 4)
    s = deqcli.implicit_scalars("relu", 0.2)
    order = np.random.default_rng(0).permutation(60)
    plain = deqcli.equivalent(X, y, s).dense()
    shuffled = deqcli.equivalent(X[order], y[order], s).dense()
    np.testing.assert_allclose(shuffled, plain[np.ix_(order, order)], atol=tol("quadrature"))
