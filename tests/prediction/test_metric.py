"""The metric of tangent kernels with an even layer, against random matrices and networks."""

from __future__ import annotations

import numpy as np
import pytest

from deqcli import GaussianMixture, explicit_scalars, predict_error
from deqcli.data.mixture import toeplitz
from deqcli.prediction.metric import Metric
from deqcli.spectral.covariances import General
from deqcli.spectral.from_moments import covariances_of

from .simulated import errors


def _drawn(place, depth, left, p, m, rng):
    """Return A - I of one network whose layers are linear, but for the even slopes of layer t."""
    weights = [rng.standard_normal((m, m if layer else p)) for layer in range(place)]
    readout = rng.standard_normal(m)
    image, kernels = np.eye(p), [np.eye(p)]
    for W in weights[:-1]:
        image = W @ image / np.sqrt(m)
        kernels.append(image.T @ image)
    last = weights[-1]
    slopes = [(last.T * readout**2) @ last / m]
    # Gradients in the layer below, of shape (m, m), and in those before it.
    back = (last.T * readout) @ last / m
    for W in weights[-2::-1]:
        slopes.insert(0, back.T @ back)
        back = W.T @ back / np.sqrt(m)
    seen = [image.T @ form @ image for form in slopes]
    times = left * (depth - place + 1)
    whole = 2 * place + times
    return (sum(kernels) + sum(seen) + times * kernels[-1]) / whole - np.eye(p)


@pytest.mark.parametrize(
    ("place", "depth", "left"), [(1, 1, 1.0), (1, 2, 0.5), (2, 2, 1.0), (2, 3, 0.3), (3, 3, 1.0)]
)
def test_moments_are_those_of_random_matrices(place, depth, left):
    p, m, found, rng = 40, 600, [], np.random.default_rng([place, depth])
    for _ in range(40):
        away = _drawn(place, depth, left, p, m, rng)
        values = np.linalg.eigvalsh(away)
        values -= values.mean()
        found.append([np.mean(values**k) * (m / p) ** (k - 1) for k in (2, 3)])
    expected = Metric.of_layer(place, depth, left)
    error = np.std(found, axis=0, ddof=1) / np.sqrt(len(found))
    # Means over matrices of finite size differ by parts p/m; of three layers some are left out.
    bound = 3 * error + [0.03 * expected.variance, 0.05 * expected.third]
    assert (np.abs(np.mean(found, axis=0) - [expected.variance, expected.third]) < bound).all()


def test_two_eigenvalues_have_the_moments():
    for ratio in (0.01, 0.5, 40.0):
        metric = Metric.of_layer(2, 3)
        values, parts = metric.eigenvalues(ratio)
        assert (values > 0).all()
        assert (parts > 0).all()
        away = values - 1
        expected = [1.0, 0.0, metric.variance * ratio, metric.third * ratio**2]
        moments = [parts @ away**k for k in range(4)]
        np.testing.assert_allclose(moments, expected, rtol=1e-9, atol=1e-12)


def test_covariances_in_a_metric():
    """Commuting ones keep traces and means; full ones are those of a drawn matrix, nearly."""
    p, width, rng = 120, 150, np.random.default_rng(3)
    means = np.zeros((2, p))
    means[0, 0] = means[1, 1] = 3.0
    metric, shares = Metric.of_layer(1, 1), np.array([0.5, 0.5])
    plain = covariances_of(means, [np.array(1.0), np.array(1.5)])
    seen = metric.applied(plain, shares, width)
    np.testing.assert_allclose(seen.traces, plain.traces)
    np.testing.assert_allclose(seen.grams, plain.grams, atol=1e-12)
    spread = 1 + metric.variance * p / width
    np.testing.assert_allclose(seen.products, plain.products * spread)
    halves = rng.standard_normal((2, p, 2 * p)) / np.sqrt(2 * p)
    full = covariances_of(means, [half @ half.T for half in halves])
    turned = metric.applied(full, shares, width)
    assert isinstance(full, General)
    values, parts = metric.eigenvalues(p / width)
    chosen = np.repeat(values, np.round(parts * p).astype(int))
    basis = np.linalg.qr(rng.standard_normal((p, p)))[0]
    root = (basis * np.sqrt(chosen)) @ basis.T
    drawn = covariances_of(means @ root, [root @ c @ root for c in full.matrices])
    np.testing.assert_allclose(turned.grams, full.grams, atol=1e-9)
    np.testing.assert_allclose(turned.traces, drawn.traces, rtol=0.05)
    np.testing.assert_allclose(turned.products, drawn.products, rtol=0.1)


@pytest.mark.parametrize(
    ("acts", "width"), [(["tanh", "abs"], 400), (["abs", "tanh"], 300), (["tanh", "cos"], 250)]
)
def test_networks_with_an_even_layer(acts, width):
    """Of 20 networks each; without the metric 0.097 is predicted of the first, not 0.117."""
    means = np.zeros((2, 120))
    means[0, 0] = means[1, 1] = 3.5
    mixture, counts = GaussianMixture(means, [1.0, 1.0]), [80, 80]
    s = explicit_scalars(acts, mixture.statistics(np.array(counts)).tau0)
    found = predict_error(mixture, counts, s, "ntk", 0.1, width).total
    wrong = errors(mixture, counts, s, "ntk", 0.1, width, draws=20).mean(axis=1)
    assert abs(found - wrong.mean()) < 3 * wrong.std(ddof=1) / np.sqrt(20)


@pytest.mark.parametrize(("acts", "p", "width"), [(["tanh", "abs"], 10, 200), (["abs"], 100, 40)])
def test_few_neurons_or_dimensions_have_the_own_norm_form(acts, p, width):
    """The papers' form, which is one half, is for what nothing else is known of."""
    means = np.zeros((2, p))
    means[0, 0] = means[1, 1] = 3.0
    mixture, counts = GaussianMixture(means, [1.0, 1.0]), [40, 40]
    s = explicit_scalars(acts, mixture.statistics(np.array(counts)).tau0)
    assert predict_error(mixture, counts, s, "ntk", 0.1, width).form == "own-norm"
    # Nor does one neuron end in an error.
    assert 0 < predict_error(mixture, counts, s, "ntk", 0.1, 1).total <= 0.5


def test_covariances_that_nearly_commute_are_in_the_same_metric():
    means = np.zeros((2, 100))
    means[0, 0] = means[1, 3] = 3.5
    found = []
    for other in (0.3, 0.301):
        mixture = GaussianMixture(means, [toeplitz(100, 0.3), toeplitz(100, other)])
        s = explicit_scalars(["abs"], mixture.statistics(np.array([60, 60])).tau0)
        found.append(predict_error(mixture, [60, 60], s, "ntk", 0.1, 150).total)
    assert abs(found[0] - found[1]) < 0.01
