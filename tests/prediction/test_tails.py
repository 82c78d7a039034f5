import numpy as np
import pytest
from scipy.stats import ncx2, norm

from deqcli.prediction.tails import wrong_of_groups, wrong_share

EVEN = np.full(96, 1 / 96)


@pytest.mark.parametrize("own", [0, 1])
def test_one_output_is_a_tail(own):
    mean, variance = np.array([0.7]), np.array([[2.0]])
    expected = norm.cdf((0.7 if own == 0 else -0.7) / np.sqrt(2))
    assert wrong_share(mean, variance, own) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("correlation", [-0.9, -0.3, 0.0, 0.5, 0.99])
def test_three_alike_are_an_orthant(correlation):
    """P(X > 0, Y > 0) = 1/4 + arcsin(r) / 2 pi for the two differences from one of three."""
    # Differences of independent outputs with variances a, b, b have correlation a / (a + b).
    a, b = max(correlation, 0.01), 1 - max(correlation, 0.01)
    covariance = np.diag([a, b, b])
    r = a / (a + b)
    expected = 1 - (0.25 + np.arcsin(r) / (2 * np.pi))
    assert wrong_share(np.zeros(3), covariance, 0) == pytest.approx(expected, abs=2e-4)


def test_many_classes_by_drawing():
    rng = np.random.default_rng(0)
    root = rng.standard_normal((7, 7))
    mean, covariance = 2.0 * np.eye(7)[3] + 0.3 * rng.standard_normal(7), root @ root.T
    drawn = mean + rng.standard_normal((400_000, 7)) @ root.T
    expected = np.mean(drawn.argmax(axis=1) != 3)
    assert wrong_share(mean, covariance, 3) == pytest.approx(expected, abs=4 * 0.5 / 632)


@pytest.mark.parametrize(("mean", "expected"), [([1.0, 0.0, 0.0], 0.0), ([0.0, 1.0, 0.0], 1.0)])
def test_outputs_that_do_not_vary(mean, expected):
    assert wrong_share(np.array(mean), np.zeros((3, 3)), 0) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("length", [2.0, 4.0])
def test_groups_of_a_square(length):
    """Of (length + xi)^2 - t the law is known: a noncentral chi-square."""
    threshold = (0.4 * length) ** 2
    nodes = norm.ppf((np.arange(96) + 0.5) / 96)[:, None]
    means = (length + nodes) ** 2 - threshold
    # A little noise besides, or groups would be on this side or that.
    found = wrong_of_groups(means, np.full((96, 1, 1), 0.02 * length**2), EVEN, nodes, 1)
    assert found == pytest.approx(ncx2.cdf(threshold, 1, length**2), abs=4e-3)
    # A normal law of this mean and variance is far from it.
    normal = wrong_share(means.mean(axis=0), np.atleast_2d(means.var()), 1)
    assert abs(normal - found) > 0.01


def test_groups_of_many_outputs_by_drawing():
    rng = np.random.default_rng(1)
    root, line = rng.standard_normal((4, 4)), np.array([0.3, -0.5, 0.2, 0.1])
    across = rng.standard_normal(4)

    def means(xi):
        return 1.5 * np.eye(4)[2] + line * (xi + 0.2 * (xi**2 - 1))

    nodes = norm.ppf((np.arange(96) + 0.5) / 96)[:, None]
    spread = (1 + 0.4 * nodes[:, :, None]) ** 2 * np.outer(across, across)
    found = wrong_of_groups(means(nodes), root @ root.T + spread, EVEN, nodes, 2)
    xi, zeta = rng.standard_normal((2, 400_000, 1))
    drawn = means(xi) + across * zeta * (1 + 0.4 * xi) + rng.standard_normal((400_000, 4)) @ root.T
    assert found == pytest.approx(np.mean(drawn.argmax(axis=1) != 2), abs=4 * 0.5 / 632)


def test_groups_that_differ_linearly_are_normal():
    rng = np.random.default_rng(2)
    root, lines = rng.standard_normal((3, 3)), rng.standard_normal((2, 3))
    half = rng.standard_normal((10, 2))
    nodes = np.vstack([half, -half])
    nodes = nodes @ np.linalg.inv(np.linalg.cholesky(nodes.T @ nodes / 20)).T
    covariance = root @ root.T
    parts = np.eye(3)[0] + nodes @ lines, np.tile(covariance, (20, 1, 1)), np.full(20, 1 / 20)
    found = wrong_of_groups(*parts, nodes, 0)
    expected = wrong_share(np.eye(3)[0], covariance + lines.T @ lines, 0)
    assert found == pytest.approx(expected, abs=1e-4)
