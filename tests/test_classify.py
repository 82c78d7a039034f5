import numpy as np
import pytest

from deqcli.classify import classify
from deqcli.errors import ConvergenceError, InputError

RNG = np.random.default_rng(0)
Y = np.arange(60) % 3
X = RNG.standard_normal((60, 8)) + 2 * np.eye(3, 8)[Y]
TESTS = RNG.standard_normal((30, 8)) + 2 * np.eye(3, 8)[Y[:30]]


def test_is_ridge_regression_in_the_primal():
    train, test = classify(X @ X.T, Y, TESTS @ X.T, Y[:30], ridge=0.1)
    shift = 0.1 * np.mean(np.sum(X**2, axis=1))
    weights = np.linalg.solve(X.T @ X + shift * np.eye(8), X.T @ (np.eye(3)[Y] - 1 / 3))
    assert train == np.mean((X @ weights).argmax(1) == Y)
    assert test == np.mean((TESTS @ weights).argmax(1) == Y[:30])
    assert 0.5 < test < 1


def test_fitted_values_without_the_matrix():
    """The training accuracy comes from K alpha = J - shift alpha."""
    K = X @ X.T
    train, _ = classify(K.copy(), Y, K[:5], Y[:5], ridge=0.5)
    shift = 0.5 * np.mean(np.diag(K))
    fitted = K @ np.linalg.solve(K + shift * np.eye(60), np.eye(3)[Y])
    assert train == np.mean(fitted.argmax(1) == Y)


def test_singular_kernel_and_bad_input():
    with pytest.raises(ConvergenceError, match="raise `ridge`"):
        classify(-np.eye(4), np.array([0, 1, 0, 1]), np.eye(4), np.array([0, 1, 0, 1]), 0.0)
    with pytest.raises(InputError, match="do not fit"):
        classify(np.eye(4), np.array([0, 1]), np.eye(4), np.array([0, 1, 0, 1]))
    with pytest.raises(InputError, match="`ridge`"):
        classify(np.eye(2), np.array([0, 1]), np.eye(2), np.array([0, 1]), -1.0)
