"""Kernels of whole data sets: against dense matrices, to the rounding they report."""

import itertools
import tracemalloc

import numpy as np
import pytest

import deqcli
from deqcli.activations import activation
from deqcli.equivalents import operator_norm
from deqcli.errors import InputError
from deqcli.kernels.tiles import SIDE
from deqcli.operators import kernel_rest, operator_bytes
from deqcli.vocabulary import Kernel


def data(n=600, p=100, seed=0):
    """Three tiles, the last one partial, two near copies among them."""
    rng = np.random.default_rng(seed)
    sample = deqcli.GaussianMixture.papers(p, mean_norm=2.0).sample(n, rng)
    X = sample.X.copy()
    X[-1] = X[3]
    X[-2] = X[4] * (1 + 1e-9)
    return X, sample.y


@pytest.mark.parametrize("kernel", list(Kernel))
@pytest.mark.parametrize(("name", "components"), [("tanh", 0), ("relu", 3)])
def test_an_operator_is_its_kernel_to_the_rounding_it_reports(kernel, name, components):
    X, y = data()
    act = activation(name)
    operator = deqcli.kernel_operator(X, act, 0.2, kernel=kernel, y=y, components=components)
    (exact,) = deqcli.implicit_kernels(X, act, 0.2).compute(kernel)
    made = operator @ np.eye(len(X))
    np.testing.assert_allclose(made, made.T, rtol=0, atol=1e-12)
    # What was rounded off is known exactly; products add their own rounding.
    lost = np.linalg.norm(made - exact)
    assert lost == pytest.approx(operator.rounding, rel=1e-3)
    assert operator.rounding < 1e-5 * np.linalg.norm(exact)
    np.testing.assert_allclose(np.diag(made), np.diag(exact), rtol=1e-10)
    assert operator.nbytes < len(X) * (len(X) + 2 * SIDE)


@pytest.mark.parametrize("name", ["tanh", "relu"])
@pytest.mark.parametrize("n", [2, 40])
def test_zero_rows_have_the_diagonal_of_zero_rows(name, n):
    X = 100 * np.random.default_rng(0).standard_normal((n, 5))
    X[0] = 0.0
    operator = deqcli.kernel_operator(X, name, 0.2)
    exact = deqcli.implicit_kernels(X, name, 0.2).ck
    lost = np.linalg.norm(operator @ np.eye(n) - exact)
    assert lost <= operator.rounding + 1e-14 * np.linalg.norm(exact)
    np.testing.assert_allclose(operator.diagonal[0], exact[0, 0], rtol=0, atol=1e-14 * exact.max())


def test_distance_and_leading_eigenpairs_are_those_of_the_matrix():
    X, y = data()
    operator = deqcli.kernel_operator(X, "relu", 0.2, y=y)
    exact = deqcli.implicit_kernels(X, "relu", 0.2).ck
    expected = operator_norm(exact - operator.equivalent.dense())
    assert abs(operator.distance() - expected) <= operator.rounding
    values, vectors = operator.leading(3)
    all_values = np.linalg.eigvalsh(exact)[::-1]
    np.testing.assert_allclose(values, all_values[:3], rtol=0, atol=operator.rounding)
    np.testing.assert_allclose(exact @ vectors, vectors * values, atol=3 * operator.rounding)
    # Both forms of product.
    block = np.random.default_rng(1).standard_normal((len(X), 2))
    np.testing.assert_allclose(operator @ block[:, 0], (operator @ block)[:, 0], rtol=1e-12)
    assert deqcli.operator_distance(operator, exact) <= operator.rounding


def test_a_pass_goes_on_where_it_stopped_with_the_same_bytes():
    X, y = data()
    operator = deqcli.kernel_operator(X, "relu", 0.2, y=y)
    rest = kernel_rest(X, "relu", 0.2, 0.8, "ck", y)
    for first, start in itertools.zip_longest(operator.panels[1:], rest.starts[1:]):
        second = rest.panel(start)
        assert first.start == second.start
        np.testing.assert_array_equal(first.codes, second.codes)
        np.testing.assert_array_equal(first.scales, second.scales)
        assert first.rounding2 == second.rounding2


def test_progress_counts_entries_to_the_end():
    X, _ = data(600, 30)
    seen = []
    deqcli.kernel_operator(X, "tanh", 0.1, progress=lambda *count: seen.append(count))
    assert len(seen) == 3
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert seen[-1] == (600 * 601 // 2,) * 2


def test_what_does_not_fit_is_refused_before_it_is_begun():
    X, _ = data(300, 20)
    with pytest.raises(InputError, match=r"`budget` is .* takes about .* GiB; raise it"):
        deqcli.kernel_operator(X, "tanh", 0.1, budget=1e5)


@pytest.mark.parametrize("components", ["x", [1, 2], 5e-324, -1])
def test_components_are_a_number_wherever_panels_are_kept(components):
    X, _ = data(30, 20)
    with pytest.raises(InputError, match="`components` is"):
        deqcli.kernel_operator(X, "tanh", 0.1, components=components)
    with pytest.raises(InputError, match="`components` is"):
        deqcli.cluster_operator(X, "tanh", 0.1, components=components, scheduler="").__enter__()


@pytest.mark.slow
def test_memory_is_as_estimated():
    X, y = data(3000, 100)
    deqcli.kernel_operator(X[:600], "relu", 0.2, y=y[:600])
    tracemalloc.start()
    try:
        deqcli.kernel_operator(X, "relu", 0.2, y=y)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < operator_bytes(3000, 100, 2) < 2 * peak


def test_densities_by_lanczos_are_those_of_all_eigenvalues():
    X, _ = data(400, 300)
    exact = deqcli.implicit_kernels(X, "relu", 0.2).ck
    operator = deqcli.kernel_operator(X, "relu", 0.2)
    at, width = np.linspace(0, 1.2, 25), 0.03
    found = deqcli.spectral_density(operator, at, width, 30, 60, np.random.default_rng(0))
    values = np.linalg.eigvalsh(exact)
    bumps = np.exp(-0.5 * ((at[:, None] - values) / width) ** 2)
    expected = bumps.mean(axis=1) / (width * np.sqrt(2 * np.pi))
    apart = np.abs(found.density - expected) / (found.error + 1e-9)
    # Errors of 25 neighbouring points: few are beyond two, none far beyond.
    assert np.sqrt(np.mean(apart**2)) < 2
    assert found.error.max() < 0.1 * expected.max()


def test_lanczos_of_few_eigenvalues_ends_early():
    from scipy.sparse.linalg import aslinearoperator

    identity = aslinearoperator(2.0 * np.eye(30))
    found = deqcli.spectral_density(identity, [2.0], 0.1, 2, 20, np.random.default_rng(0))
    assert found.density[0] == pytest.approx(1 / (0.1 * np.sqrt(2 * np.pi)))
    assert found.error[0] < 1e-12


@pytest.mark.parametrize("kernel", ["ck", "preactivation-ntk"])
def test_columns_and_diagonal_are_those_of_the_operator(kernel):
    X, y = data()
    operator = deqcli.kernel_operator(X, "relu", 0.2, kernel=kernel, y=y, components=2)
    whole = operator @ np.eye(len(X))
    chosen = np.array([0, 5, 255, 256, 300, 511, 512, 598, 599])
    np.testing.assert_allclose(operator.columns(chosen), whole[:, chosen], rtol=0, atol=1e-12)
    np.testing.assert_allclose(operator.diagonal, np.diag(whole), rtol=1e-12)
