"""Exact kernels of DEQs and of their twins on Gaussian mixtures."""

import numpy as np
import pytest

from deqcli.activations import REGISTRY, activation
from deqcli.data.mixture import GaussianMixture
from deqcli.equivalents import operator_distance, operator_norm
from deqcli.kernels.exact import explicit_kernels, implicit_kernels
from deqcli.matching import match, plain_network

LIPSCHITZ = [name for name in REGISTRY if np.isfinite(activation(name).lipschitz)]

pytestmark = pytest.mark.filterwarnings("ignore::deqcli.errors.OutsidePapersRangeWarning")


def mixture(n, p, mean_norm):
    model = GaussianMixture.papers(p, mean_norm=mean_norm)
    X = model.sample(n, np.random.default_rng(1)).X
    return X, model.statistics(np.array([n // 2, n // 2])).tau0


def distance(data, name, sigma_a2, kernel="ck", family="auto"):
    """Return the operator distance, the kernel's norm and the control's distance."""
    X, tau0 = data
    twin = match(name, sigma_a2, tau0=tau0, kernel=kernel, family=family)
    assert twin.feasible
    act = activation(name).shifted(twin.deq.shift)
    deq = implicit_kernels(X, act, sigma_a2).compute(twin.kernel)[0]
    ours = explicit_kernels(X, twin.acts).compute(twin.twin_kernel)[0]
    plain = explicit_kernels(X, plain_network(name, twin.layers, tau0))
    control = plain.compute(twin.twin_kernel)[0]
    return operator_distance(deq, ours), operator_norm(deq), operator_distance(deq, control)


@pytest.fixture(scope="module")
def small():
    return mixture(200, 250, 2.0)


@pytest.fixture(scope="module")
def large():
    return mixture(800, 1000, 2.0)


def falls(small, large, name, sigma_a2, kernel):
    near, _, _ = distance(small, name, sigma_a2, kernel)
    far, norm, _ = distance(large, name, sigma_a2, kernel)
    # n^{-1/2} is 0.5 between the two sizes; 1e-9 covers twins that are exact (identity).
    assert far <= 0.52 * near + 1e-9 * norm


@pytest.mark.parametrize(
    ("name", "kernel"),
    [("tanh", "ck"), ("abs", "ck"), ("gelu", "preactivation-ntk")],
)
def test_distance_falls_like_root_n(small, large, name, kernel):
    falls(small, large, name, 0.2, kernel)


@pytest.mark.slow
@pytest.mark.parametrize("sigma_a2", [0.05, 0.1, 0.2, 0.24])
@pytest.mark.parametrize("kernel", ["ck", "preactivation-ntk"])
@pytest.mark.parametrize("name", LIPSCHITZ)
def test_distance_falls_for_every_activation(small, large, name, kernel, sigma_a2):
    falls(small, large, name, sigma_a2, kernel)


@pytest.mark.parametrize(("name", "bound"), [("tanh", 0.01), ("relu", 0.002)])
def test_papers_mixture(name, bound):
    ours, norm, control = distance(mixture(400, 500, 8.0), name, 0.1)
    assert ours < bound * norm
    assert control > 5 * ours


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "at_400", "at_1600"),
    [
        ("gelu", 0.025, 0.011),
        ("abs", 0.30, 0.14),
        ("cos", 0.092, 0.036),
        ("relu", 0.035, 0.018),
        ("softplus", 0.0023, 0.0011),
    ],
)
def test_cubic_twins_are_as_near_as_the_formula_sheet_says(name, at_400, at_1600):
    # theory.md section 6, another draw: the largest norm among n samples varies by some 15 %.
    assert distance(mixture(400, 500, 2.0), name, 0.2, family="cubic")[0] < 1.25 * at_400
    assert distance(mixture(1600, 2000, 2.0), name, 0.2, family="cubic")[0] < 1.15 * at_1600
