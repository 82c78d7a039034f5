"""Predicted errors against the formulas in closed form, and against drawn samples."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from deqcli import GaussianMixture, explicit_scalars, implicit_scalars, match, predict_error
from deqcli.data.mixture import toeplitz
from deqcli.errors import ConvergenceError, InputError
from deqcli.prediction.error import predict_on
from deqcli.prediction.layers import layers_of
from deqcli.scalars import Coefficients
from deqcli.spectral.from_moments import covariances_of

from .simulated import errors, outputs


def papers(p=500, norm=2.0, spread=0.0, classes=2):
    return GaussianMixture.papers(p, classes, norm, spread)


def scalars_on(mixture, counts, act="relu", sigma_a2=0.2):
    return implicit_scalars(act, sigma_a2, tau0=mixture.statistics(np.array(counts)).tau0)


# Measured with other code: exact kernels on three draws.
@pytest.mark.filterwarnings("ignore::deqcli.errors.OutsidePapersRangeWarning")
@pytest.mark.parametrize(
    ("act", "kernel", "limit", "measured"),
    [
        ("relu", "ck", 0.1635, 0.163),
        ("relu", "ntk", 0.1512, 0.150),
        ("tanh", "ck", 0.1951, 0.197),
        ("swish", "ck", 0.1726, 0.174),
        ("gelu", "ntk", 0.1540, 0.154),
    ],
)
def test_known_values(act, kernel, limit, measured):
    mixture = papers()
    s = scalars_on(mixture, [200, 200], act)
    assert predict_error(mixture, [200, 200], s, kernel, form="papers").total == pytest.approx(
        limit, abs=5e-5
    )
    found = predict_error(mixture, [200, 200], s, kernel)
    assert found.total == pytest.approx(measured, abs=0.003)
    assert found.total == pytest.approx(limit, abs=0.001)


def test_known_values_of_independent_features():
    mixture = papers(spread=3.0)
    c = scalars_on(mixture, [200, 200]).coefficients("ck")
    found = [predict_error(mixture, [200, 200], c, "ck", 0.01, m) for m in (100, 200, 400, 800)]
    errors = [round(one.total, 3) for one in found]
    assert errors == [0.360, 0.341, 0.363, 0.260]
    ridges = [one.effective_ridge for one in found]
    np.testing.assert_allclose(ridges, [2.72, 0.83, 0.089, 0.020], rtol=0.03)
    # .643 .671 and .785 .823: standard deviations at the first and the last.
    deviations = [np.sqrt(one.covariance.ravel()) for one in found]
    np.testing.assert_allclose(deviations[0], [0.643, 0.671], atol=6e-4)
    np.testing.assert_allclose(deviations[3], [0.785, 0.823], atol=6e-4)


def closed_form(means, scales, counts, c, ridge, width=None):
    """Return outputs' means and covariances by formulas of their own, C_a = scales[a] I.

    The unknowns g are iterated; z = -(ridge + delta).
    """
    (k, p), n = means.shape, counts.sum()
    kappa, shares = counts / p, counts / n
    T = np.outer(scales, scales)
    t = np.sqrt(p) * (scales - shares @ scales)
    delta, gram = c.d - c.tau0**2 * c.c1, means @ means.T

    def solve(rho):
        g = np.full(k, 1.0)
        for _ in range(300):
            psi = 1 / (1 + c.c1 * kappa @ (g * scales))
            g = 1 / (c.c1 * scales * psi + rho + delta)
        return g, psi

    rho = ridge
    if width is not None:
        low, high = ridge, 1e2
        for _ in range(50):
            rho = np.sqrt(low * high)
            df1 = n * (1 - rho * shares @ solve(rho)[0])
            low, high = (rho, high) if rho * (1 - df1 / width) < ridge else (low, rho)
    g, psi = solve(rho)
    omega = T * psi**2
    gamma3 = 2 * kappa @ (np.diagonal(T) * g)
    S = c.c1 * psi * gram + c.c3 * T + c.c2 / (1 + c.c2 * gamma3) * np.outer(t, t)
    Y0 = np.array([[-1.0], [1.0]]) if k == 2 else np.eye(k) - 1 / k
    Q = np.linalg.solve(np.diag(1 / (kappa * g)) + S, Y0)
    u = Q.T @ t / (1 + c.c2 * gamma3)
    squares = np.diagonal(T) * kappa
    covariances = []
    for a in range(k):
        inner = np.eye(k) - c.c1**2 * omega * (kappa * g**2)
        dh = np.linalg.solve(inner, c.c1**2 * omega[:, a])
        middle = scales[a] + kappa @ (g**2 * dh * scales)
        F = np.diag(dh / kappa) + c.c1**2 * psi**2 * middle * gram
        F += 2 * c.c2**2 * (squares @ (g**2 * dh)) / (1 + c.c2 * gamma3) ** 2 * np.outer(t, t)
        covariances.append(Q.T @ F @ Q + 2 * c.c2**2 * T[a, a] * np.outer(u, u))
    out = np.stack(covariances)
    if width is not None:
        slope = np.linalg.solve(np.eye(k) - c.c1**2 * (g**2)[:, None] * omega * kappa, g**2)
        F = -np.diag(slope / (kappa * g**2))
        F -= c.c1**2 * psi**2 * (kappa @ (slope * scales)) * gram
        F -= c.c2**2 * 2 * (squares @ slope) / (1 + c.c2 * gamma3) ** 2 * np.outer(t, t)
        df2 = n * (1 - 2 * rho * shares @ g + rho**2 * shares @ slope)
        form = p * (Y0.T @ Q + rho * Q.T @ F @ Q) / width / (1 - df2 / width)
        out = out + (1 / g - rho * slope / g**2)[:, None, None] * form
    return S @ Q, out


@pytest.mark.parametrize("width", [None, 90, 300])
@pytest.mark.parametrize(
    ("counts", "scales"), [([90, 60], [1.0, 1.3]), ([50, 80, 40], [1.0, 0.8, 1.2])]
)
def test_is_the_closed_form_for_multiples_of_the_identity(counts, scales, width):
    rng = np.random.default_rng(0)
    means = rng.standard_normal((len(counts), 120)) / 5
    counts, scales = np.array(counts), np.array(scales)
    mixture = GaussianMixture(means, scales)
    c = scalars_on(mixture, counts, "softplus", 0.1).coefficients("ntk")
    c = Coefficients(c.c1, 3 * c.c2, 2 * c.c3, c.d, c.tau0)
    found = predict_error(mixture, counts, c, ridge=0.05, width=width)
    mean, covariance = closed_form(means, scales, counts, c, 0.05 * c.d, width)
    np.testing.assert_allclose(found.mean, mean, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(found.covariance, covariance, rtol=1e-5, atol=1e-7)


def test_covariances_in_any_representation():
    rng = np.random.default_rng(1)
    p, means = 60, rng.standard_normal((2, 60)) / 4
    s = implicit_scalars("relu", 0.2, tau0=np.sqrt(1.2))
    same = [
        GaussianMixture(means, [1.0, 1.4]),
        GaussianMixture(means, [np.ones(p), np.full(p, 1.4)]),
        GaussianMixture(means, [1.0, 1.4], np.eye(p)),
        GaussianMixture(means, [np.eye(p), 1.4 * np.eye(p)]),
    ]
    found = [predict_error(mixture, [40, 40], s, width=60) for mixture in same]
    for other in found[1:]:
        np.testing.assert_allclose(other.covariance, found[0].covariance, rtol=1e-8)
        assert other.total == pytest.approx(found[0].total, rel=1e-8)
    turned = np.linalg.qr(rng.standard_normal((p, p)))[0]
    shaped = toeplitz(p, 0.6)
    first = GaussianMixture(means, [1.0, 1.4], shaped)
    second = GaussianMixture(means @ turned, [1.0, 1.4], turned.T @ shaped @ turned)
    pair = [predict_error(mixture, [40, 40], s).total for mixture in (first, second)]
    assert pair[0] == pytest.approx(pair[1], rel=1e-8)
    assert abs(pair[0] - found[0].total) > 0.001


CASES = {
    # mixture, counts, activation, sigma_a2, kernel, ridge, choices
    "unbalanced": (papers(250, 2.5, 2.0), [150, 60], "relu", 0.2, "ck", 0.02, {}),
    "toeplitz": (
        GaussianMixture(papers(200, 3.0).means, [1.0, 1.2], toeplitz(200, 0.4)),
        [100, 100], "tanh", 0.1, "ntk", 0.1, {},
    ),
    "diagonal": (
        GaussianMixture(
            papers(200, 2.5).means, [np.linspace(0.5, 1.5, 200), np.linspace(1.6, 0.4, 200)]
        ),
        [100, 100], "relu", 0.2, "ck", 0.1, {},
    ),
    "four classes": (papers(250, 3.0, 2.0, 4), [50] * 4, "gelu", 0.1, "ck", 0.1, {}),
    "bias": (papers(250, 2.0, 2.0), [160, 50], "relu", 0.2, "ck", 0.1, {"bias": True}),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_exact_kernels_on_drawn_samples(case):
    mixture, counts, act, sigma_a2, kernel, ridge, choices = CASES[case]
    s = scalars_on(mixture, counts, act, sigma_a2)
    found = predict_error(mixture, counts, s, kernel, ridge, **choices)
    measured = errors(mixture, counts, s, kernel, ridge, None, draws=20, **choices)
    totals = measured @ np.array(counts) / sum(counts)
    # Three standard errors, and what is left of higher order: 0.004 of an error of 0.1 to 0.2.
    assert abs(found.total - totals.mean()) < 3 * totals.std(ddof=1) / np.sqrt(20) + 0.004
    spread = measured.std(axis=0, ddof=1) / np.sqrt(20)
    assert (abs(found.error - measured.mean(axis=0)) < 3.5 * spread + 0.008).all()


def test_covariances_that_do_not_commute():
    """Mean and covariance of the outputs against one draw of many new samples."""
    rng = np.random.default_rng(3)
    p = 100
    parts = [root @ root.T / (2 * p) for root in rng.standard_normal((2, p, 2 * p))]
    mixture = GaussianMixture(papers(p, 2.0).means, parts)
    counts = [60, 60]
    s = scalars_on(mixture, counts)
    found = predict_error(mixture, counts, s, ridge=0.2)
    measured = [
        outputs(mixture, counts, s, "ck", 0.2, None, np.random.default_rng([8, draw]))
        for draw in range(12)
    ]
    for a in range(2):
        f = np.array([f[y == a, 0] for f, y in measured])
        assert f.mean() == pytest.approx(found.mean[a, 0], abs=4 * f.mean(axis=1).std() / 12**0.5)
        # Over new samples and draws alike.
        assert f.var() == pytest.approx(found.covariance[a, 0, 0], rel=0.1)


def test_forms_that_do_not_apply():
    mixture = papers(9, 1.0)
    s = scalars_on(mixture, [60, 60])
    found = predict_error(mixture, [60, 60], s)
    assert found.form == "papers"
    assert found.total == predict_error(mixture, [60, 60], s, form="papers").total
    with pytest.raises(InputError, match="own-norm"):
        predict_error(mixture, [60, 60], s, form="own-norm")
    assert predict_error(papers(), [200, 200], s).form == "own-norm"


def test_many_classes_have_the_papers_form():
    """In the own-norm form 20 take 40 seconds and 30 more than ten minutes."""
    mixture, counts = papers(200, 4.0, 0.0, 17), [12] * 17
    s = scalars_on(mixture, counts)
    found = predict_error(mixture, counts, s, width=100)
    assert found.form == "papers"
    assert found.total == predict_error(mixture, counts, s, width=100, form="papers").total
    with pytest.raises(InputError, match="17 classes; the own-norm `form` of predictions is for"):
        predict_error(mixture, counts, s, form="own-norm")


@pytest.mark.parametrize("width", [None, 70])
def test_real_data_is_a_mixture_without_squares(width):
    mixture = papers(120, 2.0, 2.0)
    counts = np.array([40, 50])
    moments = covariances_of(mixture.means, mixture.covariances, None, counts / 90)
    s = explicit_scalars(["relu"], 1.1)
    found = predict_on(moments, counts, s, "ck", 0.1, width, real=True)
    bare = replace(s.coefficients("ck"), c3=0.0)
    assert found.total == pytest.approx(predict_on(moments, counts, bare, "ck", 0.1, width).total)
    assert found.form == "papers"


def test_bias_moves_unbalanced_outputs():
    mixture = papers(250, 2.0)
    s = scalars_on(mixture, [300, 50])
    without = predict_error(mixture, [300, 50], s)
    with_bias = predict_error(mixture, [300, 50], s, bias=True)
    # Without a bias the outputs of the rare class are near those of the other.
    assert with_bias.error[0] < without.error[0]
    balanced = [predict_error(mixture, [100, 100], s, bias=b).total for b in (False, True)]
    assert balanced[0] == pytest.approx(balanced[1], rel=1e-6)


EVEN = {
    # mixture, counts, activation, kernel
    "cosine": (papers(500, 3.0), [200, 200], "cos", "ck"),
    "absolute value": (papers(400, 3.5), [150, 150], "abs", "ck"),
    "tangent kernel": (papers(300, 3.5), [120, 120], "cos", "ntk"),
    "three classes": (papers(300, 3.5, 0.0, 3), [100] * 3, "cos", "ck"),
    "do not commute": (
        GaussianMixture(
            papers(200, 3.5).means,
            [half @ half.T / 400 for half in np.random.default_rng(5).normal(size=(2, 200, 400))],
        ),
        [100, 100], "cos", "ck",
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("case", EVEN)
def test_even_activations_on_means(case):
    """Where four scalars see nothing, every pair of classes has a slope of its own."""
    mixture, counts, act, kernel = EVEN[case]
    s = scalars_on(mixture, counts, act)
    found = predict_error(mixture, counts, s, kernel)
    wrong = errors(mixture, counts, s, kernel, 0.1, None, draws=20).mean(axis=1)
    assert abs(found.total - wrong.mean()) < 3 * wrong.std(ddof=1) / np.sqrt(20)


def test_even_activations_where_four_scalars_see_nothing():
    mixture = papers(500, 3.0)
    s = scalars_on(mixture, [200, 200], "cos")
    limit = predict_error(mixture, [200, 200], s, form="papers")
    np.testing.assert_allclose(limit.error, 0.5, atol=1e-5)
    found = predict_error(mixture, [200, 200], s)
    measured = [
        outputs(mixture, [200, 200], s, "ck", 0.1, None, np.random.default_rng([4, draw]))
        for draw in range(4)
    ]
    for a in range(2):
        f = np.array([f[y == a, 0] for f, y in measured])
        # With one slope for all pairs, or without the draw of the norms, 0.9 or 0.94 of this.
        assert f.std() == pytest.approx(np.sqrt(found.covariance[a, 0, 0]), rel=0.05)


@pytest.mark.parametrize("kernel", ["ck", "ntk"])
def test_noise_along_a_mean_is_in_the_norms_too(kernel):
    """Deviations of the outputs on each of three classes, which without that are 2 % off."""
    mixture, counts = papers(200, 3.0, 2.0, 3), [80, 50, 30]
    s = scalars_on(mixture, counts)
    found = predict_error(mixture, counts, s, kernel, 0.05)
    measured = [
        outputs(mixture, counts, s, kernel, 0.05, None, np.random.default_rng([6, draw]))
        for draw in range(16)
    ]
    for a in range(3):
        f = np.array([f[y == a] for f, y in measured]).reshape(-1, 3)
        np.testing.assert_allclose(
            f.std(axis=0), np.sqrt(np.diagonal(found.covariance[a])), rtol=0.03
        )


NETWORKS = {
    "deq": lambda tau0: implicit_scalars("relu", 0.2, tau0=tau0),
    "deq, strong": lambda tau0: implicit_scalars("tanh", 0.6, tau0=tau0),
    "one layer": lambda tau0: explicit_scalars(["gelu"], tau0),
    "two layers": lambda tau0: explicit_scalars(
        [a.shifted(0.0) for a in match("relu", 0.2, tau0=tau0).acts], tau0
    ),
    "three layers": lambda tau0: explicit_scalars(["tanh"] * 3, tau0),
}


@pytest.mark.filterwarnings("ignore::deqcli.errors.OutsidePapersRangeWarning")
@pytest.mark.parametrize("network", NETWORKS)
def test_finite_width_goes_over_into_infinite(network):
    mixture = papers(60, 2.0, 1.0)
    s = NETWORKS[network](mixture.statistics(np.array([30, 30])).tau0)
    for kernel in ("ck", "ntk"):
        limit = predict_error(mixture, [30, 30], s, kernel)
        wide = predict_error(mixture, [30, 30], s, kernel, width=10**7)
        np.testing.assert_allclose(wide.mean, limit.mean, rtol=1e-4)
        np.testing.assert_allclose(wide.covariance, limit.covariance, rtol=1e-4)
        assert predict_error(mixture, [30, 30], s, kernel, width=60).total > limit.total


def test_three_layers_of_finite_width():
    """First steps may not be too long: without a bound on them there is no solution."""
    means = np.zeros((2, 150))
    means[0, 0] = means[1, 1] = 1.6
    mixture, counts = GaussianMixture(means, [1.0, 1.0]), [70, 70]
    s = explicit_scalars(["elu", "relu", "erf"], mixture.statistics(np.array(counts)).tau0)
    found = predict_error(mixture, counts, s, ridge=0.1, width=180)
    wrong = errors(mixture, counts, s, "ck", 0.1, 180, draws=20).mean(axis=1)
    assert abs(found.total - wrong.mean()) < 3 * wrong.std(ddof=1) / np.sqrt(20)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::deqcli.errors.OutsidePapersRangeWarning")
@pytest.mark.parametrize("width", [60, 150, 300])
@pytest.mark.parametrize("network", NETWORKS)
def test_networks_of_finite_width(network, width):
    """Outputs' means and deviations, and errors, of 20 networks on samples of their own."""
    mixture, counts = papers(180, 2.5, 2.0), [75, 75]
    s = NETWORKS[network](mixture.statistics(np.array(counts)).tau0)
    found = predict_error(mixture, counts, s, "ck", 0.02, width)
    measured = [
        outputs(mixture, counts, s, "ck", 0.02, width, np.random.default_rng([5, draw]))
        for draw in range(20)
    ]
    wrong = np.array([np.mean((f[:, 0] > 0) != y) for f, y in measured])
    assert abs(found.total - wrong.mean()) < 3 * wrong.std(ddof=1) / np.sqrt(20) + 0.003
    for a in range(2):
        f = np.array([f[y == a, 0] for f, y in measured])
        means = f.mean(axis=1)
        error = 3.5 * means.std(ddof=1) / np.sqrt(20)
        # With 120 draws the means at 60 neurons are 0.02 off, those at 120 within their noise.
        assert f.mean() == pytest.approx(found.mean[a, 0], abs=error + 0.02)
        # At width = n the deviation itself varies by a tenth from network to network.
        assert f.std() == pytest.approx(np.sqrt(found.covariance[a, 0, 0]), rel=0.08)


@pytest.mark.slow
@pytest.mark.parametrize("width", [200, 400])
def test_layers_whose_norms_and_means_share_noise(width):
    """Two ReLU layers on classes of different norms, where as if independent 0.02 is missing."""
    mixture, counts = papers(500, 2.0, 8.0), [200, 200]
    s = explicit_scalars(["relu", "relu"], mixture.statistics(np.array(counts)).tau0)
    found = predict_error(mixture, counts, s, "ck", 0.01, width)
    wrong = errors(mixture, counts, s, "ck", 0.01, width, draws=30, seed=7).mean(axis=1)
    assert abs(found.total - wrong.mean()) < 2 * wrong.std(ddof=1) / np.sqrt(30)


def test_noise_that_norms_and_means_share():
    """The formula for what a layer hears, against the inverse of two noisy measurements."""
    layers = layers_of(explicit_scalars(["relu", "gelu"], 1.1), "ck")
    norms, e, a, b = layers.norms[0], 0.7, 2.0, 3.0
    (slope, noise) = layers.heard_norms(np.array([e, 1.0]))[1]
    # q = mean t + nu and r = slope t + (skew / variance) nu + rest, with nu'Qnu = y.
    y, told = (1 / e - 1) / a, norms.skew / norms.variance
    rest = y / norms.variance * (norms.noise - told * norms.skew)
    noises = np.array([[y, told * y], [told * y, told**2 * y + rest]])
    seen = np.array([norms.mean, norms.slope])
    whole = seen @ np.linalg.solve(np.diag([1 / a, 1 / b]) + noises, seen)
    heard = slope**2 / (1 / b + y / norms.variance * noise)
    assert e * a * norms.mean**2 + heard == pytest.approx(whole, rel=1e-12)
    # The moments themselves, from draws.
    x = 1.1 * np.random.default_rng(0).standard_normal(10**6)
    z = np.maximum(x, 0) - np.maximum(x, 0).mean()
    assert norms.noise == pytest.approx(np.var(z**2), rel=0.02)
    assert norms.skew == pytest.approx(np.mean(z**3), rel=0.02)
    assert norms.variance == pytest.approx(np.var(z), rel=0.01)


def test_the_peak_and_least_squares():
    mixture = papers(100, 2.0)
    s = scalars_on(mixture, [40, 40])
    widths = (40, 79, 81, 160)
    found = [predict_error(mixture, [40, 40], s, ridge=0.0, width=m) for m in widths]
    below, before, after, above = (float(one.covariance[0, 0, 0]) for one in found)
    # Least squares on the way to interpolation: variances 20 times larger beside the peak.
    assert before > 20 * below
    assert after > 20 * above
    with pytest.raises(InputError, match="`ridge` is 0 and `width` 80 is the number of samples"):
        predict_error(mixture, [40, 40], s, ridge=0.0, width=80)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"ridge": -0.1}, "`ridge` is -0.1; give a finite number at least 0"),
        ({"ridge": np.nan}, "`ridge` is nan"),
        ({"width": 0}, "`width` is 0; give a whole number at least 1"),
        ({"counts": [200, 0]}, r"`counts` is \[200, 0\]; give every class a sample"),
        ({"counts": [200]}, "give 2 whole numbers, one a class"),
        ({"mixture": papers(classes=1), "counts": [20]}, "`mixture` has 1 class"),
        ({"mixture": None}, "give a GaussianMixture"),
        ({"scalars": 3}, "give scalars of a network"),
        ({"kernel": "nkt"}, "did you mean ntk"),
        ({"form": "own"}, "`form` is 'own'"),
    ],
)
def test_bad_input(change, words):
    arguments = {
        "mixture": papers(),
        "counts": [200, 200],
        "scalars": implicit_scalars("relu", 0.2),
    }
    with pytest.raises(InputError, match=words):
        predict_error(**arguments | change)


def test_no_equilibrium_and_no_inverse():
    with pytest.raises(InputError, match=r"`sigma_a2` is 1\.2"):
        implicit_scalars("relu", 1.2)
    # A linear network of more samples than dimensions has a singular kernel.
    linear = explicit_scalars(["identity"])
    with pytest.raises(ConvergenceError, match="raise `ridge`"):
        predict_error(papers(50, 1.0), [60, 60], linear, ridge=0.0)


def test_noise_is_a_product_of_many_features():
    """Of many samples in few dimensions; as independent noise deviations would be 5 % larger."""
    mixture, counts = papers(50, 3.0), [150, 150]
    s = explicit_scalars(["cos"], mixture.statistics(np.array(counts)).tau0)
    found = predict_error(mixture, counts, s, "ck", 0.05)
    measured = [
        outputs(mixture, counts, s, "ck", 0.05, None, np.random.default_rng([9, draw]))
        for draw in range(40)
    ]
    for a in range(2):
        f = np.array([f[y == a, 0] for f, y in measured])
        ratios = f.std(axis=1) / np.sqrt(found.covariance[a, 0, 0])
        error = 3 * ratios.std(ddof=1) / np.sqrt(40)
        assert f.std() == pytest.approx(np.sqrt(found.covariance[a, 0, 0]), rel=error)


def test_four_classes_that_differ_in_their_shapes():
    """Of ten draws; by the leading part of the shapes alone 0.236 would be predicted, not 0.257."""
    rng = np.random.default_rng(8)
    parts = rng.uniform(0.05, 1.95, (4, 200))
    shapes = list(parts / parts.mean(axis=1)[:, None])
    mixture, counts = GaussianMixture(np.zeros((4, 200)), shapes), [100, 100, 100, 100]
    s = explicit_scalars(["cos"], 1.0)
    found = predict_error(mixture, counts, s, "ck", 0.2).total
    wrong = errors(mixture, counts, s, "ck", 0.2, None, draws=10).mean(axis=1)
    assert abs(found - wrong.mean()) < 3 * wrong.std(ddof=1) / np.sqrt(10)
