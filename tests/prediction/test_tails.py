import numpy as np
import pytest
from scipy.stats import norm

from deqcli.prediction.tails import wrong_share


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
