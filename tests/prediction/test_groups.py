"""Groups of samples, the equations on them, and what follows, each by a second route."""

from __future__ import annotations

import numpy as np
import pytest

from deqcli import GaussianMixture, explicit_scalars, implicit_scalars
from deqcli.data.mixture import toeplitz
from deqcli.kernels.expansion import Expansion
from deqcli.kernels.tiles import Combination
from deqcli.own_norms import kernel_expansion
from deqcli.prediction.grouped import Grouped, Table
from deqcli.prediction.outputs import Outputs
from deqcli.prediction.resolvent import Bulk
from deqcli.prediction.samples import samples_of
from deqcli.spectral.from_moments import covariances_of
from deqcli.vocabulary import Kernel

P = 120


def mixtures():
    rng = np.random.default_rng(0)
    means = np.zeros((2, P))
    means[0, 0], means[1, :2] = 3.0, [1.0, -2.0]
    full = [half @ half.T / (2 * P) for half in rng.standard_normal((2, P, 2 * P))]
    return {
        "scalar": GaussianMixture(means, [1.0, 1.3]),
        "diagonal": GaussianMixture(means, [np.linspace(0.5, 1.5, P), np.linspace(1.6, 0.6, P)]),
        "shared": GaussianMixture(means, [1.0, 1.2], toeplitz(P, 0.6)),
        "full": GaussianMixture(means, full),
    }


def samples_on(mixture, counts):
    counts = np.array(counts)
    parts = mixture.means, mixture.covariances, mixture.shape, counts / counts.sum()
    return samples_of(covariances_of(*parts), counts)


@pytest.mark.parametrize("name", mixtures())
def test_moments_of_groups_are_those_of_drawn_samples(name):
    mixture = mixtures()[name]
    samples = samples_on(mixture, [60, 40])
    drawn = mixture.sample(8000, np.random.default_rng(1), counts=np.array([4000, 4000]))
    squared = np.sum(drawn.X**2, axis=1)
    inner = drawn.X @ drawn.X.T
    for a in range(2):
        of_class = squared[drawn.y == a]
        weights, own_squared = samples.averages[:, a], samples.norms**2
        mean = weights @ own_squared
        assert mean == pytest.approx(of_class.mean(), rel=0.005)
        deviation = np.sqrt(weights @ (own_squared - mean) ** 2)
        assert deviation == pytest.approx(of_class.std(), rel=0.05)
        for b in range(2):
            other = samples.averages[:, b]
            here = inner[np.ix_(drawn.y == a, drawn.y == b)]
            if a == b:
                here = here[~np.eye(len(here), dtype=bool)]
            mean = weights @ samples.inner @ other
            assert mean == pytest.approx(here.mean(), abs=1e-3)
            spread = weights @ ((samples.inner - mean) ** 2 + samples.variances) @ other
            assert spread == pytest.approx(here.var(), rel=0.04)


def test_kernels_of_many_pairs_are_those_of_each():
    rng = np.random.default_rng(2)
    norms = rng.uniform(0.7, 1.4, 12)
    inners = rng.uniform(-0.3, 0.45, (12, 12, 3))
    for scalars in (implicit_scalars("gelu", 0.15), explicit_scalars(["relu", "tanh"])):
        for kernel in Kernel.CK, Kernel.NTK:
            known = kernel_expansion(scalars, kernel)
            first, second = np.broadcast_arrays(norms[:, None, None], norms[:, None])
            wide = (np.broadcast_to(part, inners.shape).ravel() for part in (first, second))
            expected = known.taylor(*wide, inners.ravel()).value.reshape(inners.shape)
            np.testing.assert_allclose(known.between(norms, inners), expected, rtol=1e-5)


def regression(mixture, counts, weights, function, ridge, draws, rng):
    """Return outputs (draws, tests, K) of K unit targets, classes and coordinates of new samples.

    The kernel is weights(u, u') x'x + function(u, u'), with u the first two coordinates.
    """
    n = sum(counts)
    found, classes = [], None
    for _ in range(draws):
        data = mixture.sample(n, rng, counts=np.array(counts))
        new = mixture.sample(600, rng, counts=np.array([300, 300]))
        X, Y = data.X, new.X
        u, v = np.sqrt(P) * X[:, :2], np.sqrt(P) * Y[:, :2]
        kernel = weights(u, u) * (X @ X.T) + function(u, u)
        beta = np.linalg.solve(kernel + ridge * np.eye(n), np.eye(2)[data.y])
        found.append((weights(v, u) * (Y @ X.T) + function(v, u)) @ beta)
        classes = new.y
    return np.array(found), classes


@pytest.mark.parametrize("name", ["scalar", "diagonal", "shared", "full"])
def test_weights_and_functions_of_coordinates_on_drawn_samples(name):
    """Regression with (0.4 + u'u/20) x'x + (u'u)^2/100, of which the parts are known."""
    mixture, counts, ridge = mixtures()[name], [110, 70], 0.4
    samples = samples_on(mixture, counts)
    inner = P * (samples.inner - samples.across)
    # Features: a constant and the coordinates, of which only products count.
    values, vectors = np.linalg.eigh(inner)
    coordinates = vectors[:, -2:] * np.sqrt(values[-2:])
    linear = np.column_stack([np.full(len(inner), np.sqrt(0.4)), coordinates / np.sqrt(20)])
    # On the span itself x'x is known, and a function of u too.
    low_rank = (0.4 + inner / 20) * inner / P + inner**2 / 100
    root = np.sqrt(samples.shares)
    sizes, columns = np.linalg.eigh(root[:, None] * low_rank * root)
    kept = np.abs(sizes) > 1e-9
    columns = columns[:, kept] * np.sqrt(np.abs(sizes[kept])) / root[:, None]
    nothing = np.zeros(len(inner))
    bulk = Bulk(
        samples, sum(counts), linear * np.sqrt(samples.relative)[:, None], np.ones(3), nothing,
        nothing + 1, np.zeros((2, 2)), np.zeros(2),
    )  # fmt: skip
    found = Outputs(Grouped(bulk, linear, columns, np.sign(sizes[kept])), ridge)
    measured, classes = regression(
        mixture, counts, lambda u, v: 0.4 + u @ v.T / 20, lambda u, v: (u @ v.T) ** 2 / 100,
        ridge, 60, np.random.default_rng(3),
    )  # fmt: skip
    for a in range(2):
        own = samples.classes == a
        outputs = measured[:, classes == a]
        spread = outputs.mean(axis=1).std(axis=0) / np.sqrt(60)
        weights = samples.averages[own, a]
        means = weights @ found.means[own]
        assert (np.abs(outputs.mean(axis=(0, 1)) - means) < 4 * spread + 0.004).all()
        away = found.means[own] - means
        covariance = np.tensordot(weights, found.covariances[own], 1)
        covariance += (weights * away.T) @ away
        flat = outputs.reshape(-1, 2)
        np.testing.assert_allclose(
            np.cov(flat.T), covariance, rtol=0.06, atol=0.06 * np.diagonal(covariance).max()
        )


def test_derivatives_of_resolvents():
    """Along offsets and along the response, against differences."""
    mixture = mixtures()["diagonal"]
    samples = samples_on(mixture, [60, 40])
    known = kernel_expansion(implicit_scalars("relu", 0.2, tau0=1.05), Kernel.CK)
    bulk = Table.of(samples, [known]).kernel(np.ones(1), 100).bulk
    state = bulk.at(0.05)
    rng = np.random.default_rng(4)
    change = rng.standard_normal(len(samples.classes))
    step = 1e-5

    def moved(sign):
        parts = {name: getattr(bulk, name) for name in bulk.__dataclass_fields__}
        return Bulk(**parts | {"offsets": bulk.offsets + sign * step * change}).at(0.05).g

    slope, _ = state.moved_by_offsets(change)
    np.testing.assert_allclose(slope, (moved(1) - moved(-1)) / (2 * step), rtol=1e-5, atol=1e-6)


def test_a_sum_of_kernels_is_the_kernel_of_a_sum():
    mixture = mixtures()["scalar"]
    samples = samples_on(mixture, [60, 40])
    s = explicit_scalars(["gelu"], 1.0)
    known = kernel_expansion(s, Kernel.CK)
    twice = Expansion(known.pairs, Combination(Kernel.CK, scale=3.0))
    one = Outputs(Table.of(samples, [known, known]).kernel(np.array([1.0, 2.0]), 100), 0.3)
    other = Outputs(Table.of(samples, [twice]).kernel(np.ones(1), 100), 0.3)
    np.testing.assert_allclose(one.means, other.means, rtol=1e-9)
    np.testing.assert_allclose(one.covariances, other.covariances, rtol=1e-8)
