"""The law of a spectrum against closed forms, another form of its equations, and simulation."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import deqcli
from deqcli.data.mixture import toeplitz
from deqcli.errors import ConvergenceError, DataError, InputError
from deqcli.predicted import findings_of, sentences_of
from deqcli.scalars import Coefficients
from deqcli.spectral.spikes import Spike
from deqcli.vocabulary import Form

FORMS = ("papers", "own-norm")


def opposite(p, norm, covariance=1.0):
    """Two classes of means plus and minus mu, along a direction that no coordinate is."""
    direction = np.ones(p) / np.sqrt(p)
    return deqcli.GaussianMixture(np.outer([norm, -norm], direction), [covariance] * 2)


def three(p):
    """Three classes with different means, traces and shapes."""
    means = np.zeros((3, p))
    means[0, 0], means[1, 1], means[2, 2:6] = 2, -2.5, 1.5
    ramp = np.linspace(0.4, 1.6, p)
    step = np.where(np.arange(p) < p // 3, 2.0, 0.55)
    return deqcli.GaussianMixture(means, [ramp, ramp[::-1] * 1.05, step])


def scalars_of(mixture, counts, act="relu", sigma_a2=0.2):
    tau0 = mixture.statistics(np.array(counts)).tau0
    return deqcli.implicit_scalars(act, sigma_a2, tau0=tau0)


def simulate(mixture, counts, s, kernel, form, draws):
    """Mean eigenvalues, mean alignments of their vectors and all eigenvalues, in columns."""
    counts = np.array(counts)
    values, alignments = [], []
    for seed in range(draws):
        data = mixture.sample(int(counts.sum()), np.random.default_rng(seed), counts)
        if form == "papers":
            statistics = mixture.statistics(counts)
            M = deqcli.equivalent(data.X, data.y, s, kernel, statistics).dense()
        else:
            M = deqcli.implicit_kernels(data.X, s.act, s.sigma_a2, s.sigma_b2).compute(kernel)[0]
        w, v = np.linalg.eigh(M)
        J = np.eye(len(counts))[data.y]
        values.append(w)
        alignments.append((J.T @ v) ** 2 / counts[:, None])
    return np.array(values), np.mean(alignments, axis=0)


# ------------------------------------------------------------------------- closed forms


@pytest.mark.parametrize(("n", "p"), [(400, 500), (500, 400), (300, 300), (2000, 100)])
def test_marchenko_pastur(n, p):
    mixture = deqcli.GaussianMixture(np.zeros((2, p)), [1.5, 1.5])
    c = Coefficients(c1=0.7, c2=0.0, c3=0.0, d=1.3, tau0=np.sqrt(1.5))
    law = deqcli.spectral_law(mixture, [n // 4, n - n // 4], c)
    ratio, size, delta = n / p, 0.7 * 1.5, 1.3 - 0.7 * 1.5
    low, high = delta + size * (1 - np.sqrt(ratio)) ** 2, delta + size * (1 + np.sqrt(ratio)) ** 2
    assert law.edge == pytest.approx(high, rel=1e-6)
    np.testing.assert_allclose(law.edges, [(low, high)], atol=1e-6)
    x = np.linspace(low, high, 203)[1:-1]
    density = np.sqrt((high - x) * (x - low)) / (2 * np.pi * size * ratio * (x - delta))
    np.testing.assert_allclose(law.density(x), density, rtol=1e-5)
    assert law.density(np.array([[low - 0.1, high + 0.1], [high + 9, -5]])).tolist() == [[0, 0]] * 2
    if n > p:
        np.testing.assert_allclose(law.atom, (delta, 1 - p / n), atol=1e-9)
    else:
        assert law.atom is None
    assert float(law.distribution(high + 1)) == pytest.approx(1, abs=1e-5)
    assert float(law.distribution(delta - 1)) == 0
    assert law.spikes == ()
    # Tracy and Widom: the scale of the largest eigenvalue of a Wishart matrix.
    root = np.sqrt(n) + np.sqrt(p)
    scale = root * (1 / np.sqrt(n) + 1 / np.sqrt(p)) ** (1 / 3) / p
    assert law.largest == pytest.approx(high - 1.2065 * size * scale, rel=1e-3)


@pytest.mark.parametrize(
    ("act", "kernel"), [("relu", "ck"), ("tanh", "preactivation-ntk"), ("gelu", "ntk")]
)
def test_means_separate_at_the_threshold_of_any_activation(act, kernel):
    """A spike where mu^2 > sqrt(p/n), at delta + c1 theta (theta - c + 1)/(theta - c)."""
    n, p = 300, 500
    ratio = n / p
    s = deqcli.implicit_scalars(act, 0.15)
    c = s.coefficients(kernel)
    for factor in (0.97, 1.03, 2.0, 6.0):
        ell = factor * np.sqrt(p / n)
        law = deqcli.spectral_law(opposite(p, np.sqrt(ell)), [n // 2] * 2, s, kernel)
        found = [spike for spike in law.above if spike.carries == "classes"]
        assert len(found) == (factor > 1)
        if factor > 1:
            theta = ratio * (1 + ell)
            place = c.d - c.c1 + c.c1 * theta * (theta - ratio + 1) / (theta - ratio)
            assert found[0].position == pytest.approx(place, rel=1e-6)
            # The same for the vector: (1 - p/(n ell^2)) / (1 + 1/ell) in all.
            share = (1 - p / n / ell**2) / (1 + 1 / ell)
            np.testing.assert_allclose(found[0].alignment, share / 2, atol=1e-6)
            assert found[0].informative == pytest.approx(share, abs=1e-6)


def spiked(p, along, *variances):
    """Two opposite means along one of the first coordinates, whose variances are larger."""
    means, diagonal = np.zeros((2, p)), np.ones(p)
    diagonal[: len(variances)] = variances
    means[:, 0] = along, -along
    return deqcli.GaussianMixture(means, [diagonal, diagonal])


@pytest.mark.parametrize(("n", "p"), [(400, 500), (600, 300)])
@pytest.mark.parametrize("norm", [0.0, 2.0])
def test_covariances_that_stand_out_make_isolated_eigenvalues(n, p, norm):
    """Means along such a direction and its noise are one larger variance: a closed form."""
    c = Coefficients(c1=1.0, c2=0.0, c3=0.0, d=1.0, tau0=1.0)
    law = deqcli.spectral_law(spiked(p, norm, 12.0, 30.0), [n // 2, n // 2], c)
    sizes = np.array(sorted([12.0 + norm**2, 30.0])[::-1])
    expected = sizes * (n / p + 1 / (sizes - 1))
    # Up to the two dimensions of p that are not in the bulk.
    np.testing.assert_allclose([spike.position for spike in law.above], expected, rtol=0.005)
    assert law.edge == pytest.approx((1 + np.sqrt(n / p)) ** 2, rel=0.01)
    # Of one direction's variance the classes have the share of their means.
    shown = law.above[1].informative
    if norm:
        whole = 1 - p / n / (sizes[1] - 1) ** 2
        assert shown == pytest.approx(whole * norm**2 / sizes[1], rel=0.005)
    else:
        assert shown == pytest.approx(0.0, abs=1e-9)


def test_a_covariance_that_does_not_stand_out_is_bulk():
    c = Coefficients(c1=1.0, c2=0.0, c3=0.0, d=1.0, tau0=1.0)
    law = deqcli.spectral_law(spiked(500, 0.0, 1.6), [200, 200], c)
    assert not law.spikes
    # A ramp has no few that stand out, however far its end is from the middle.
    ramp = deqcli.GaussianMixture(np.zeros((1, 500)), [np.linspace(0.1, 3, 500)])
    assert not deqcli.spectral_law(ramp, [400], c).spikes


def plus(mixture, counts, c, z):
    """The symmetric (K+1) x (K+1) matrix whose determinant vanishes at spikes, theory.md §10."""
    counts = np.array(counts)
    stats = mixture.statistics(counts)
    p, k = mixture.n_features, len(counts)
    e = np.stack([np.broadcast_to(v, p) for v in mixture.covariances])
    kappa, h = counts / p, e.mean(axis=1) * c.c1
    for _ in range(3000):
        psi = 1 / (1 + c.c1 * (kappa / (h - z)) @ e)
        h = 0.5 * h + 0.5 * c.c1 * e @ psi / p
    g = 1 / (h - z)
    gamma3 = 2 * np.sum(kappa * np.diagonal(stats.T) * g)
    out = np.empty((k + 1, k + 1))
    out[:k, :k] = np.diag(1 / (kappa * g)) + c.c1 * (mixture.means * psi) @ mixture.means.T
    out[:k, :k] += c.c3 * stats.T + c.c2 * np.outer(stats.t, stats.t)
    out[:k, k] = out[k, :k] = c.c2 * stats.t
    out[k, k] = 1 / gamma3 + c.c2
    return out


@pytest.mark.parametrize(("n", "p", "act"), [(400, 300, "relu"), (300, 450, "gelu")])
def test_spikes_are_the_zeros_of_the_small_determinant(n, p, act):
    mixture, counts = three(p), [n // 2, n // 4, n // 4]
    s = scalars_of(mixture, counts, act, 0.15)
    c = s.coefficients("ck")
    law = deqcli.spectral_law(mixture, counts, s, "ck")
    delta = c.d - c.tau0**2 * c.c1
    # As many as there are positive eigenvalues next to the edge.
    near = np.linalg.eigvalsh(plus(mixture, counts, c, law.edge + 1e-4 - delta))
    assert len(law.above) == np.sum(near > 0) > 0
    for spike in law.above:
        z = spike.position - delta
        values, vectors = np.linalg.eigh(plus(mixture, counts, c, z))
        place = np.argmin(np.abs(values))
        assert abs(values[place]) < 1e-7 * np.abs(values).max()
        q, step = vectors[:, place], 1e-5
        ahead, behind = (plus(mixture, counts, c, z + x) for x in (step, -step))
        slope = q @ (ahead - behind) @ q / (2 * step)
        alignment = -(q[:-1] ** 2) / slope / (np.array(counts) / p)
        np.testing.assert_allclose(spike.alignment, alignment, rtol=1e-4, atol=1e-8)


def test_two_bulks_are_told_apart():
    """Twenty of 300 directions are thirty times as wide: eigenvalues in two intervals."""
    p, n = 300, 600
    mixture = deqcli.GaussianMixture(np.zeros((1, p)), [np.where(np.arange(p) < 20, 30.0, 1.0)])
    c = Coefficients(c1=1.0, c2=0.0, c3=0.0, d=3.0, tau0=mixture.statistics(np.array([n])).tau0)
    law = deqcli.spectral_law(mixture, [n], c)
    assert len(law.edges) == 2
    X = mixture.sample(n, np.random.default_rng(0)).X
    values = np.linalg.eigvalsh(X @ X.T) + c.d - c.tau0**2
    (low, first), (second, high) = law.edges
    assert np.sum(values > second - 2) == 20 == np.sum(values > first + 2)
    for edge, value in ((high, values[-1]), (second, values[-20]), (first, values[-21])):
        assert value == pytest.approx(edge, abs=0.06 * (edge - low))
    # Shares: 20/600 above, 280/600 below, 300/600 at the atom.
    middle = 0.5 * (first + second)
    assert float(law.distribution(middle)) == pytest.approx(1 - 20 / n, abs=1e-5)
    assert law.atom is not None
    assert law.atom.mass == pytest.approx(0.5)


# ------------------------------------------------------------------------------- simulation


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("make", "counts", "p", "act", "kernel"),
    [
        (opposite, (300, 200), 600, "relu", "ck"),
        (opposite, (350, 250), 400, "tanh", "ntk"),
        (three, (200, 150, 150), 400, "relu", "preactivation-ntk"),
    ],
)
def test_laws_are_those_of_matrices(make, counts, p, act, kernel, form):
    """Papers: of the equivalent; own-norm: of the exact kernel."""
    mixture = make(p, 2.5) if make is opposite else make(p)
    s = scalars_of(mixture, counts, act, 0.15)
    law = deqcli.spectral_law(mixture, list(counts), s, kernel, form)
    values, alignments = simulate(mixture, counts, s, kernel, form, draws=3)
    mean, n = values.mean(axis=0), values.shape[1]
    spikes = law.above
    assert spikes
    for place, spike in enumerate(spikes, 1):
        # Three draws of a few hundred samples: positions vary by 3 % or so.
        assert spike.position == pytest.approx(mean[-place], rel=0.04)
        assert np.sum(spike.alignment) == pytest.approx(alignments[:, -place].sum(), abs=0.08)
    assert mean[n - 1 - len(spikes)] == pytest.approx(law.largest, rel=0.03)
    every = np.sort(values.ravel())
    x = np.linspace(every[0] - 0.01, law.edge * 1.02, 1000)
    empirical = np.searchsorted(every, x, side="right") / every.size
    # Isolated eigenvalues are 1/n each, and no part of the law.
    bound = 0.006 + len(law.spikes) / n
    assert np.abs(law.distribution(x) - empirical).max() < bound


@pytest.mark.slow
@pytest.mark.parametrize("act", ["tanh", "relu"])
@pytest.mark.parametrize("kernel", ["ck", "ntk"])
def test_own_norm_law_of_the_papers_mixture(act, kernel):
    """To 2 % in edge and spikes, 0.05 in alignments, 0.01 in the distribution; n = 800."""
    mixture, counts = deqcli.GaussianMixture.papers(1000), (400, 400)
    s = scalars_of(mixture, counts, act, 0.1)
    law = deqcli.spectral_law(mixture, list(counts), s, kernel, "own-norm")
    values, alignments = simulate(mixture, counts, s, kernel, "own-norm", draws=4)
    mean = values.mean(axis=0)
    assert len(law.spikes) == 2
    for place, spike in enumerate(law.spikes, 1):
        assert spike.position == pytest.approx(mean[-place], rel=0.02)
        np.testing.assert_allclose(spike.alignment, alignments[:, -place], atol=0.05)
    assert law.largest == pytest.approx(mean[-3], rel=0.02)
    every = np.sort(values.ravel())
    x = np.linspace(every[0] - 0.01, law.edge * 1.02, 1000)
    empirical = np.searchsorted(every, x, side="right") / every.size
    assert np.abs(law.distribution(x) - empirical).max() < 0.01


def bulk_distance(law, values):
    """The largest distance of two distributions of the bulk; values in rows, one a draw."""
    bulk = np.sort(values[:, : values.shape[1] - len(law.above)].ravel())
    x = np.linspace(bulk[0] - 0.01, law.edge * 1.02, 2000)
    empirical = np.searchsorted(bulk, x, side="right") / bulk.size
    return np.abs(law.distribution(x) - empirical).max()


def test_slopes_that_depend_on_classes_are_no_noise(monkeypatch):
    """Long means, n > p: small eigenvalues lie where class-wise slopes of the kernel put them."""
    mixture, counts = deqcli.GaussianMixture.papers(400), (480, 160)
    s = scalars_of(mixture, counts)
    values, _ = simulate(mixture, counts, s, "ck", "own-norm", draws=4)
    law = deqcli.spectral_law(mixture, list(counts), s, "ck", "own-norm")
    assert bulk_distance(law, values) < 0.008
    monkeypatch.setattr("deqcli.spectral.forms._MIXED", 1.0)
    as_noise = deqcli.spectral_law(mixture, list(counts), s, "ck", "own-norm")
    assert bulk_distance(as_noise, values) > 0.012


@pytest.mark.parametrize("norm", [4.0, 10.0])
def test_isolated_eigenvalues_push_the_bulk(norm):
    """The largest of the bulk, 100 draws of a Gram matrix with six means."""
    k, n, p = 6, 150, 200
    mixture = deqcli.GaussianMixture(norm * np.eye(k, p), [1.0] * k)
    c = Coefficients(c1=1.0, c2=0.0, c3=0.0, d=1.0, tau0=1.0)
    law = deqcli.spectral_law(mixture, [n // k] * k, c)
    assert len(law.above) == k
    rng = np.random.default_rng(0)
    largest = []
    for _ in range(100):
        X = mixture.sample(n, rng).X
        largest.append(np.linalg.eigvalsh(X @ X.T)[-1 - k])
    alone = deqcli.spectral_law(deqcli.GaussianMixture(np.zeros((1, p)), [1.0]), [n], c)
    assert law.edge == pytest.approx(alone.edge)
    # The mean is known to 0.008; the push is 0.12 to 0.2.
    assert law.largest == pytest.approx(np.mean(largest), abs=0.02)
    assert alone.largest - np.mean(largest) > 0.1


def test_directions_of_little_variance_that_covariances_do_not_share():
    """The density has a peak at its left end, which an expansion around a mean would miss."""
    n = p = 200
    G = np.random.default_rng(5).standard_normal((p, p // 2))
    full = 2 * G @ G.T / p + 0.01 * np.eye(p)
    mixture = deqcli.GaussianMixture(np.zeros((2, p)), [full, np.linspace(0.3, 1.7, p)])
    counts = [120, 80]
    law = deqcli.spectral_law(mixture, counts, Coefficients(1.0, 0.0, 0.0, 2.0, 1.0))
    assert float(law.distribution(law.edge + 1)) == pytest.approx(1, abs=1e-3)
    rng = np.random.default_rng(0)
    draws = [mixture.sample(n, rng, np.array(counts)).X for _ in range(20)]
    every = np.sort(np.concatenate([np.linalg.eigvalsh(X @ X.T) for X in draws])) + 1
    x = np.quantile(every, np.linspace(0.01, 0.99, 99))
    np.testing.assert_allclose(law.distribution(x), np.linspace(0.01, 0.99, 99), atol=0.006)
    # One at a time points are solved as they are, many together from a series.
    inside = np.linspace(law.edges[0][0] + 0.001, law.edge - 0.05, 60)
    one_by_one = [float(law.density(point)) for point in inside[::6]]
    np.testing.assert_allclose(law.density(inside)[::6], one_by_one, rtol=0.02)


def test_nearly_singular_covariances_are_told():
    p = 100
    G = np.random.default_rng(5).standard_normal((p, p // 2))
    covariances = [2 * G @ G.T / p + 1e-5 * np.eye(p), np.linspace(0.3, 1.7, p)]
    mixture = deqcli.GaussianMixture(np.zeros((2, p)), covariances)
    law = deqcli.spectral_law(mixture, [60, 40], Coefficients(1.0, 0.0, 0.0, 2.0, 1.0))
    with pytest.raises(ConvergenceError, match="of all eigenvalues"):
        law.distribution(1.0)


def test_the_largest_of_a_bulk_is_in_it():
    """A few samples are no large n, and what parts of small rank push is as wide as the bulk."""
    mixture = deqcli.GaussianMixture.papers(60)
    for counts, act in [((1, 0), "relu"), ((2, 3), "abs"), ((3, 3), "abs")]:
        s = scalars_of(mixture, counts, act, 0.1)
        law = deqcli.spectral_law(mixture, counts, s, form="own-norm")
        assert law.edges[-1][0] <= law.largest <= law.edges[-1][1]


def test_an_eigenvalue_that_is_nearly_isolated_does_not_push_inwards():
    """It is nearer to the edge than isolated ones are looked for: the largest of the bulk."""
    p, counts = 500, (300, 200)
    rng = np.random.default_rng(5)
    rng.standard_normal((2, p, p))
    full = [G @ G.T / 1000 + 1e-6 * np.eye(p) for G in rng.standard_normal((2, p, 1000))]
    mixture = deqcli.GaussianMixture(2 * np.eye(2, p), full)
    s = scalars_of(mixture, counts)
    law = deqcli.spectral_law(mixture, list(counts), s)
    values, _ = simulate(mixture, counts, s, "ck", "papers", draws=4)
    assert len(law.above) == 1
    assert law.largest == pytest.approx(values[:, -2].mean(), rel=0.02)


def four(p, norms, traces):
    basis, _ = np.linalg.qr(np.random.default_rng(1).standard_normal((p, 4)))
    return deqcli.GaussianMixture((basis * np.array(norms)).T, list(traces))


def shaped(p, norm, correlation, classes=2):
    means = np.outer([norm, -norm][:classes], np.ones(p) / np.sqrt(p))
    return deqcli.GaussianMixture(means, [1.0, 1.1][:classes], toeplitz(p, correlation))


# Mixture, samples of each class, activation, sigma_a2, kernel.
SETTINGS = {
    "toeplitz": (shaped(1000, 2.0, 0.6), (400, 400), "relu", 0.2, "ck"),
    "one class, toeplitz 0.8": (shaped(1000, 0.0, 0.8, 1), (800,), "relu", 0.2, "ck"),
    "four classes": (deqcli.GaussianMixture.papers(1000, 4), (200,) * 4, "tanh", 0.1, "ntk"),
    "traces, unbalanced": (
        four(600, (2, 2, 3, 3), (0.6, 0.9, 1.1, 1.4)), (350, 250, 150, 50), "gelu", 0.15, "ntk",
    ),
    "n > p": (deqcli.GaussianMixture.papers(500), (600, 200), "relu", 0.2, "ntk"),
    "shapes, p = 3000": (three(3000), (300, 250, 250), "relu", 0.2, "preactivation-ntk"),
    "shapes, p = 300": (three(300), (300, 250, 250), "swish", 0.2, "ck"),
    "even": (deqcli.GaussianMixture.papers(1000, mean_norm=2.0), (400, 400), "abs", 0.1, "ck"),
    "even, four": (
        four(1000, (1, 2, 3, 4), (0.7, 0.9, 1.1, 1.3)), (200,) * 4, "abs", 0.1, "ntk",
    ),
    "before activation": (opposite(1000, 1.5), (700, 100), "tanh", 0.1, "preactivation-ck"),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", SETTINGS)
def test_own_norm_laws_of_many_settings(name):
    """Largest of the bulk and spikes to 2 %, bulk to 0.01, alignments in all to 0.05; 20 draws."""
    mixture, counts, act, sigma_a2, kernel = SETTINGS[name]
    s = scalars_of(mixture, counts, act, sigma_a2)
    law = deqcli.spectral_law(mixture, list(counts), s, kernel, "own-norm")
    values, alignments = simulate(mixture, counts, s, kernel, "own-norm", draws=20)
    mean, k = values.mean(axis=0), len(law.above)
    assert law.largest == pytest.approx(mean[-1 - k], rel=0.02)
    assert bulk_distance(law, values) < 0.01
    assert [spike.position for spike in law.above] == pytest.approx(mean[::-1][:k], rel=0.02)
    # Near pairs mix from draw to draw; what they carry together does not.
    aligned = sum((spike.alignment for spike in law.above), np.zeros(len(counts)))
    np.testing.assert_allclose(aligned, alignments[:, values.shape[1] - k :].sum(axis=1), atol=0.05)


def test_eigenvalues_between_the_atom_and_the_bulk():
    """With n > p the kernel's mean lifts eigenvalues off the atom, by a little."""
    mixture, counts = three(240), (160, 100, 100)
    s = scalars_of(mixture, counts, "relu", 0.2)
    law = deqcli.spectral_law(mixture, list(counts), s, "ntk")
    assert law.atom is not None
    below = [spike for spike in law.spikes if spike.position < law.edge]
    assert below
    values, _ = simulate(mixture, counts, s, "ntk", "papers", draws=3)
    inside = law.atom.position + 1e-9, law.edges[0][0]
    for spike in below:
        nearest = np.abs(values - spike.position).min(axis=1)
        assert np.all(nearest < 0.2 * (inside[1] - inside[0]))


# ------------------------------------------------------------------------ special and wrong


@pytest.mark.parametrize("act", ["abs", "cos"])
def test_even_activations_leave_an_atom_and_spikes(act):
    mixture, counts = deqcli.GaussianMixture.papers(500, mean_norm=2.0), [200, 200]
    s = scalars_of(mixture, counts, act, 0.1)
    law = deqcli.spectral_law(mixture, counts, s)
    c = s.coefficients("ck")
    assert law.atom == pytest.approx((c.d - c.tau0**2 * c.c1, 1.0))
    assert law.edge == law.largest == law.atom.position
    assert law.edges == ()
    assert not law.density(np.linspace(-1, 3, 7)).any()
    data = mixture.sample(400, np.random.default_rng(0))
    M = deqcli.equivalent(data.X, data.y, s, "ck", mixture.statistics(np.array(counts)))
    top = M.eigenvalues()[::-1]
    assert len(law.spikes) == 2
    np.testing.assert_allclose([x.position for x in law.spikes], top[:2], rtol=0.06)
    # The exact kernel's bulk is as wide as its samples' norms make it.
    exact = deqcli.spectral_law(mixture, counts, s, form="own-norm")
    values = np.linalg.eigvalsh(deqcli.implicit_kernels(data.X, s.act, 0.1).ck)
    x = np.quantile(values, [0.1, 0.3, 0.5, 0.7, 0.9])
    np.testing.assert_allclose(exact.distribution(x), [0.1, 0.3, 0.5, 0.7, 0.9], atol=0.03)


@pytest.mark.parametrize("form", FORMS)
def test_one_class_and_classes_without_samples(form):
    means = np.zeros((3, 120))
    means[0, 0], means[2, 1] = 3, 5
    mixture = deqcli.GaussianMixture(means, [1.0, 2.0, 3.0])
    s = deqcli.implicit_scalars("relu", 0.2)
    alone = deqcli.spectral_law(deqcli.GaussianMixture(means[:1], [1.0]), [90], s, form=form)
    padded = deqcli.spectral_law(mixture, [90, 0, 0], s, form=form)
    assert padded.edge == pytest.approx(alone.edge)
    assert len(alone.spikes) == len(padded.spikes) > 0
    for one, other in zip(alone.spikes, padded.spikes, strict=True):
        assert one.position == pytest.approx(other.position)
        np.testing.assert_allclose(other.alignment, [one.alignment[0], 0, 0], atol=1e-9)


def test_order_of_classes_and_of_coordinates_does_not_matter():
    mixture, counts = three(90), [40, 30, 20]
    s = scalars_of(mixture, counts)
    law = deqcli.spectral_law(mixture, counts, s, form="own-norm")
    order, shuffle = [2, 0, 1], np.random.default_rng(0).permutation(90)
    other = deqcli.GaussianMixture(
        mixture.means[order][:, shuffle], [mixture.covariances[a][shuffle] for a in order]
    )
    again = deqcli.spectral_law(other, [20, 40, 30], s, form="own-norm")
    np.testing.assert_allclose(again.edges, law.edges, rtol=1e-6)
    for one, two in zip(law.spikes, again.spikes, strict=True):
        assert one.position == pytest.approx(two.position, rel=1e-6)
        np.testing.assert_allclose(two.alignment, one.alignment[order], atol=1e-5)


def test_a_full_covariance_is_what_its_eigenvalues_are():
    rng = np.random.default_rng(0)
    basis, _ = np.linalg.qr(rng.standard_normal((80, 80)))
    diagonal, mean = rng.uniform(0.5, 2, 80), rng.standard_normal((2, 80)) / 4
    plain = deqcli.GaussianMixture(mean, [diagonal, 1.3 * diagonal])
    turned = deqcli.GaussianMixture(
        mean @ basis.T, [basis * diagonal @ basis.T, 1.3 * basis * diagonal @ basis.T]
    )
    shared = deqcli.GaussianMixture(mean @ basis.T, [1.0, 1.3], basis * diagonal @ basis.T)
    s = deqcli.implicit_scalars("relu", 0.2)
    laws = [deqcli.spectral_law(m, [50, 40], s, "ntk") for m in (plain, turned, shared)]
    for law in laws[1:]:
        np.testing.assert_allclose(law.edges, laws[0].edges, rtol=1e-6)
        x = np.linspace(*laws[0].edges[0], 9)[1:-1]
        np.testing.assert_allclose(law.density(x), laws[0].density(x), rtol=1e-6)


def test_covariances_that_do_not_commute():
    rng = np.random.default_rng(0)
    p, counts = 250, [150, 100]
    parts = []
    for rows in (p, 3 * p):
        root = rng.standard_normal((p, rows)) / np.sqrt(rows)
        parts.append(root @ root.T + 0.2 * np.eye(p))
    mixture = deqcli.GaussianMixture(np.zeros((2, p)), parts)
    s = scalars_of(mixture, counts)
    law = deqcli.spectral_law(mixture, counts, s)
    values, _ = simulate(mixture, counts, s, "ck", "papers", draws=4)
    assert law.largest == pytest.approx(values[:, -1 - len(law.above)].mean(), rel=0.04)
    x = np.linspace(law.edges[0][0], law.edge, 400)
    empirical = np.searchsorted(np.sort(values.ravel()), x) / values.size
    assert np.abs(law.distribution(x) - empirical).max() < 0.012
    points = np.linspace(law.edges[0][0], law.edge, 60)
    np.testing.assert_allclose(
        law.density(points)[5:-5], [float(law.density(v)) for v in points[5:-5]], rtol=0.02
    )


def test_laws_of_explicit_networks():
    mixture, counts = opposite(400, 3.0), [150, 150]
    s = deqcli.explicit_scalars(["tanh", "relu"], 1.0)
    data = mixture.sample(300, np.random.default_rng(0), np.array(counts))
    values = np.linalg.eigvalsh(deqcli.explicit_kernels(data.X, s.acts).ntk)
    for form, rel in (("papers", 0.05), ("own-norm", 0.04)):
        law = deqcli.spectral_law(mixture, counts, s, "ntk", form)
        assert len(law.above) == 1
        assert law.above[0].position == pytest.approx(values[-1], rel=rel)
        assert law.largest == pytest.approx(values[-2], rel=rel)


def test_wrong_input_is_named():
    mixture = deqcli.GaussianMixture.papers(50)
    s = deqcli.implicit_scalars("relu", 0.2)
    for wrong in ([3], [3, -1], [0, 0], [1.5, 2], "34", None):
        with pytest.raises(InputError, match="`counts`"):
            deqcli.spectral_law(mixture, wrong, s)
    with pytest.raises(InputError, match="`mixture`"):
        deqcli.spectral_law("gmm", [3, 3], s)
    with pytest.raises(InputError, match="`form` is 'own_norms'; did you mean own-norm"):
        deqcli.spectral_law(mixture, [3, 3], s, form="own_norms")
    with pytest.raises(InputError, match="`scalars`"):
        deqcli.spectral_law(mixture, [3, 3], deqcli.sphere_scalars("relu", 50, sigma_a2=0.1))
    with pytest.raises(InputError, match="needs the activations"):
        deqcli.spectral_law(mixture, [3, 3], s.coefficients("ck"), form="own-norm")
    law = deqcli.spectral_law(mixture, [30, 30], s)
    with pytest.raises(DataError, match="`x`"):
        law.density("here")
    with pytest.raises(DataError, match="`x` has values that are not finite"):
        law.density([np.nan])
    with pytest.raises(InputError, match="`counts` are 10000 samples in 10 dimensions"):
        deqcli.spectral_law(deqcli.GaussianMixture.papers(10), [5000, 5000], s, form="own-norm")


@pytest.mark.parametrize("size", [1e3, 1e6, 1e20, 1e40])
@pytest.mark.parametrize("covariances", [[1.0, 2.0], [np.eye(20) + 0.3, np.linspace(0.5, 2, 20)]])
def test_long_means_are_not_lost_in_rounding(size, covariances):
    r"""What is isolated tends to the eigenvalues of :math:`c_1JMM^\top J^\top/p`."""
    means = np.random.default_rng(0).standard_normal((2, 20))
    s = deqcli.implicit_scalars("relu", 0.1)
    mixture = deqcli.GaussianMixture(size * means, covariances)
    law = deqcli.spectral_law(mixture, [20, 30], s)
    rows = np.repeat(means, [20, 30], axis=0)
    limit = np.linalg.eigvalsh(s.coefficients("ck").c1 * rows @ rows.T / 20)[:-3:-1]
    found = [spike.position / size**2 for spike in law.above]
    # What the noise adds is of the order of 1/size^2; roots are found to 1e-12.
    np.testing.assert_allclose(found, limit, rtol=10 / size**2 + 1e-11)


@pytest.mark.slow
def test_a_gap_that_is_none_has_no_edge():
    """Beside this spectrum's edges equations off the axis miss, and seem to leave gaps."""
    rng = np.random.default_rng([12689, *b"calls"])
    rng.integers(9, 40), rng.integers(4)
    means = 5 * rng.standard_normal((2, 20))
    mixture = deqcli.GaussianMixture(means, [1.0, np.linspace(0.5, 2, 20)])
    s = deqcli.explicit_scalars(["tanh"])
    law = deqcli.spectral_law(mixture, [20, 30], s, "ck", "own-norm")
    ends = [end for interval in law.edges for end in interval]
    assert ends == sorted(ends)
    assert np.isfinite(law.largest)


def test_a_kernel_has_no_isolated_eigenvalue_below_zero():
    """With few dimensions the model of small rank has one, which the kernel cannot have."""
    mixture = deqcli.GaussianMixture.papers(100)
    scalars = deqcli.implicit_scalars("tanh", 0.1, tau0=mixture.statistics([1200, 1200]).tau0)
    law = deqcli.spectral_law(mixture, [1200, 1200], scalars, kernel="ck", form="own-norm")
    assert law.spikes
    assert all(spike.position > 0 for spike in law.spikes)


@pytest.mark.parametrize(("norm", "mixed"), [(4.1, True), (4.6, False)])
def test_eigenvectors_that_mix_are_said_to(norm, mixed):
    """Alone they are not the law's where it says so; together they are always."""
    means = np.zeros((2, 250))
    means[[0, 1], [0, 1]] = 4.0, norm
    mixture, counts = deqcli.GaussianMixture(means, [1.0, 1.0]), [100, 100]
    s = scalars_of(mixture, counts)
    law = deqcli.spectral_law(mixture, counts, s, "ck", "own-norm")
    shares = []
    for seed in range(16):
        data = mixture.sample(200, np.random.default_rng(seed))
        _, vectors = np.linalg.eigh(deqcli.implicit_kernels(data.X, s.act, 0.2).ck)
        shares.append([np.eye(2)[data.y].T @ vectors[:, -1 - k] for k in range(2)])
    measured = np.mean(np.square(shares), axis=0) / 100
    told = np.array([spike.alignment for spike in law.above])
    assert (np.abs(measured - told).max() > 0.05) == mixed
    np.testing.assert_allclose(measured.sum(axis=0), told.sum(axis=0), atol=0.02)
    findings = findings_of(law, Form.OWN_NORM, model=False)
    said = [text for text in sentences_of(findings, ("1", "2")) if "eigenvectors mix" in text]
    assert len(said) == len(findings["mixed"]) == mixed


@pytest.mark.parametrize("k", range(1, 13))
def test_an_eigenvector_that_lies_in_all_classes_alike_carries_all(k):
    """Seven or more have less than 15 % each."""
    spikes = [
        Spike(position, np.full(k, 0.9 / k), informative=0.9, common=0.0, norms=0.0)
        for position in (2.0, 1.9)
    ]
    law = SimpleNamespace(
        edges=[(0.0, 1.0)], largest=0.99, atoms=[], above=spikes, counts=np.arange(100, 100 + k)
    )
    findings = findings_of(law, Form.OWN_NORM, model=False)
    # Apart by less than a tenth: one over the root of the smallest class.
    assert findings["mixed"] == [[2.0, 1.9]]
    classes = tuple(f"c{a}" for a in range(k))
    said = list(sentences_of(findings, classes))[1]
    if k > 1:
        assert f"carries classes {', '.join(classes)} (90%, informative)" in said


def test_one_class_is_not_told_from_another():
    mixture = deqcli.GaussianMixture(np.full((1, 200), 0.3), [np.array(1.0)])
    scalars = deqcli.implicit_scalars("relu", 0.2, tau0=1.0)
    law = deqcli.spectral_law(mixture, [150], scalars, kernel="ck", form="own-norm")
    assert {spike.carries for spike in law.above} == {"mean"}


def test_an_interval_that_rounding_makes_leaves_no_hole(tmp_path):
    """Few dimensions, and offsets that hardly vary: one interval would begin where it ends."""
    X = np.random.default_rng(0).standard_normal((60, 10))
    X[::2] += 2
    np.savez(tmp_path / "own.npz", X=X, y=np.arange(60) % 2)
    found = deqcli.run("spectrum", data=str(tmp_path / "own.npz"), estimator="exact", jobs=1)
    rows = found.table[(found.table["source"] == "law") & ~found.table["isolated"]]
    assert len(rows)
    assert rows["distribution"].notna().all()
    assert all(high > low for low, high in found.findings["law"]["edges"])
