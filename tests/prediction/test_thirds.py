"""Third cumulants of features: what they are for drawn neurons, and in drawn networks."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import gamma

from deqcli import (
    GaussianMixture,
    explicit_kernels,
    explicit_scalars,
    implicit_scalars,
    predict_error,
)
from deqcli.own_norms import kernel_expansion
from deqcli.prediction.grouped import Table
from deqcli.prediction.layers import layers_of
from deqcli.prediction.samples import samples_of
from deqcli.prediction.tails import wrong_of_groups
from deqcli.prediction.thirds import thirds_of
from deqcli.spectral.from_moments import covariances_of

from .simulated import errors, features, tangent


def test_products_of_drawn_neurons():
    r"""The covariance of features with :math:`z^\top Qz`, of training samples and of a new one."""
    counts, amount, ridge, draws = np.array([80, 50]), 0.4, 0.05, 15000
    mixture = GaussianMixture.papers(150, 2, 0.0, 6.0)
    s = explicit_scalars(["relu"], mixture.statistics(counts).tau0)
    samples = samples_of(
        covariances_of(mixture.means, mixture.covariances, None, counts / 130), counts
    )
    kernel = kernel_expansion(s, "ck")
    table = Table.of(samples, [kernel, kernel])
    thirds = thirds_of(s, table, 1)
    state = table.kernel(np.array([0.0, amount]), 130).bulk.at(ridge)
    v = thirds.pairs(state, np.array([amount]))[1][0]
    expected = (
        samples.by_class(np.column_stack([v, v - thirds.own(state, np.array([amount]))[0]]))
        / amount**2
    )
    found = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        data, new = mixture.sample(130, rng, counts=counts), mixture.sample(300, rng)
        X = np.vstack([data.X, new.X])
        (G,) = explicit_kernels(data.X, s.acts).compute("ck")
        z = s.acts[0](rng.standard_normal((draws, 150)) @ X.T)
        z -= z.mean(axis=0)
        Q = np.linalg.inv(amount * np.asarray(G) + ridge * np.eye(130))
        form = np.einsum("ki,ki->k", z[:, :130] @ Q, z[:, :130])
        v = z.T @ (form - form.mean()) / draws
        y = [data.y, new.y]
        found.append(
            [
                [part[of == a].mean() for part, of in zip((v[:130], v[130:]), y, strict=True)]
                for a in (0, 1)
            ]
        )
    # The draws of samples leave 3 %, terms of higher order in 1/p are up to 6 %.
    np.testing.assert_allclose(expected, np.mean(found, axis=0), rtol=0.1)


@pytest.mark.parametrize("kernel", ["ck", "ntk"])
def test_mean_kernels_of_drawn_networks(kernel):
    """Noise in the inner products and norms that later layers see does not only average out."""
    counts, width, networks = np.array([60, 40]), 40, 100
    mixture = GaussianMixture.papers(150, 2, 0.0, 6.0)
    s = explicit_scalars(["relu"] * 3, mixture.statistics(counts).tau0)
    samples = samples_of(
        covariances_of(mixture.means, mixture.covariances, None, counts / 100), counts
    )
    table = Table.of(
        samples,
        [
            kernel_expansion(explicit_scalars(s.acts[:depth], s.tau0), "ck")
            for depth in (1, 1, 2, 3)
        ],
    )
    layers, thirds = layers_of(s, kernel), thirds_of(s, table, width)
    amounts = layers.amounts(np.ones(3))
    rows = thirds.bent(table.diagonals[1:]) @ samples.averages
    expected = (rows.T * layers.added(amounts).ravel() / width) @ rows
    shifts = (thirds.means @ samples.averages).T * amounts @ (thirds.shift @ samples.averages)
    expected += shifts + shifts.T
    found = []
    for seed in range(networks):
        rng = np.random.default_rng(seed)
        data = mixture.sample(100, rng, counts=counts)
        if kernel == "ck":
            z = features(data.X, s, width, rng)
            drawn = z.T @ z
        else:
            drawn, _ = tangent(data.X, s.acts, width, rng)
        (exact,) = explicit_kernels(data.X, s.acts).compute(kernel)
        more = (drawn - np.asarray(exact)) * (1 - np.eye(100))
        members = np.eye(2)[data.y]
        found.append(members.T @ more @ members / (np.outer(counts, counts) - np.diag(counts)))
    errors = np.std(found, axis=0) / np.sqrt(networks)
    # Beside what is drawn terms of order 1/m^2 are left out, up to a tenth.
    assert (np.abs(expected - np.mean(found, axis=0)) < 3 * errors + 0.1 * expected).all()
    assert (expected > 4 * errors).all()


SETTINGS = {
    # counts, spread, width, network
    "one layer": ([200, 40], 8.0, 40, lambda tau0: explicit_scalars(["relu"], tau0)),
    "deq": ([200, 40], 8.0, 100, lambda tau0: implicit_scalars("relu", 0.2, tau0=tau0)),
    "two layers": ([200, 40], 8.0, 100, lambda tau0: explicit_scalars(["relu"] * 2, tau0)),
}


@pytest.mark.parametrize("setting", SETTINGS)
def test_unequal_counts_of_classes_that_differ_in_traces(setting):
    """As if features were Gaussian, 0.02 to 0.06 larger errors would be predicted."""
    counts, spread, width, network = SETTINGS[setting]
    mixture = GaussianMixture.papers(200, 2, 0.0, spread)
    s = network(mixture.statistics(np.array(counts)).tau0)
    found = predict_error(mixture, counts, s, ridge=0.1, width=width)
    wrong = errors(mixture, counts, s, "ck", 0.1, width, draws=40)
    totals = wrong @ np.array(counts) / sum(counts)
    assert abs(found.total - totals.mean()) < 3 * totals.std(ddof=1) / np.sqrt(40)


@pytest.mark.parametrize("setting", SETTINGS)
def test_no_ridge_is_the_limit_of_a_small_one(setting):
    """With fewer neurons than samples; what third cumulants change is of any size beside means."""
    mixture, counts = GaussianMixture.papers(60, 2, 2.0, 3.0), np.array([80, 20])
    s = SETTINGS[setting][3](mixture.statistics(counts).tau0)
    found = [
        predict_error(mixture, counts, s, "ck", ridge, 20, form="own-norm").total
        for ridge in (0.0, 1e-6, 1e-3)
    ]
    assert np.ptp(found) < 0.003


@pytest.mark.parametrize(("act", "width"), [("cos", 5), ("cos", 20), ("relu", 10)])
def test_few_neurons_have_no_more_skewness_than_a_law_can(act, width):
    mixture, counts = GaussianMixture.papers(60, 2, 1.0, 8.0), np.array([200, 40])
    s = explicit_scalars([act], mixture.statistics(counts).tau0)
    found = predict_error(mixture, counts, s, ridge=0.1, width=width, bias=True)
    wrong = errors(mixture, counts, s, "ck", 0.1, width, draws=10, bias=True)
    totals = wrong @ counts / counts.sum()
    assert abs(found.total - totals.mean()) < 0.012


@pytest.mark.parametrize("above", [-0.5, 0.3, 1.5])
def test_outputs_with_a_third_cumulant(above):
    """Of a gamma law with the skewness that 40 neurons give, the share below zero."""
    skewness = 0.35
    nodes = np.array([[-1.0], [1.0], [-2.0], [2.0]])
    means, covariances = np.full((4, 1), above), np.ones((4, 1, 1))
    thirds = np.full((1, 1, 1), skewness)
    found = wrong_of_groups(means, covariances, np.full(4, 0.25), nodes, 1, thirds)
    shape = 4 / skewness**2
    expected = gamma.cdf(shape - above * np.sqrt(shape), shape)
    assert found == pytest.approx(expected, abs=0.001)
    plain = wrong_of_groups(means, covariances, np.full(4, 0.25), nodes, 1)
    assert abs(plain - expected) > 0.01
