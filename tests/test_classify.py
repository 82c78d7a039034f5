import numpy as np
import pytest

from deqcli.classify import feature_outputs, kernel_outputs, ridge_weights
from deqcli.errors import ConvergenceError, InputError

RNG = np.random.default_rng(0)
Y = np.arange(60) % 3
X = RNG.standard_normal((60, 8)) + 2 * np.eye(3, 8)[Y]
NEW = RNG.standard_normal((30, 8)) + 2 * np.eye(3, 8)[Y[:30]]
TARGETS = np.eye(3)[Y] - 1 / 3


@pytest.mark.parametrize("bias", [False, True])
def test_samples_and_features_give_the_same(bias):
    by_samples = kernel_outputs(X @ X.T, TARGETS, NEW @ X.T, 0.1, bias)
    np.testing.assert_allclose(feature_outputs(X.T, TARGETS, NEW.T, 0.1, bias), by_samples)
    # More features than samples take the other system.
    wide = RNG.standard_normal((8, 100))
    np.testing.assert_allclose(
        feature_outputs((X @ wide).T, TARGETS, (NEW @ wide).T, 0.1, bias),
        kernel_outputs(X @ wide @ wide.T @ X.T, TARGETS, NEW @ wide @ wide.T @ X.T, 0.1, bias),
    )


def test_is_the_minimum_of_the_penalised_loss():
    shift = 0.1 * np.mean(np.sum(X**2, axis=1))
    design = np.column_stack([X, np.ones(60)])
    penalty = shift * np.diag([*np.ones(8), 0.0])
    weights = np.linalg.solve(design.T @ design + penalty, design.T @ TARGETS)
    expected = np.column_stack([NEW, np.ones(30)]) @ weights
    np.testing.assert_allclose(kernel_outputs(X @ X.T, TARGETS, NEW @ X.T, 0.1, True), expected)


def test_singular_kernel_and_bad_input():
    with pytest.raises(ConvergenceError, match="raise `ridge`"):
        ridge_weights(-np.eye(4), np.eye(4), 0.0)
    with pytest.raises(InputError, match="`ridge`"):
        kernel_outputs(np.eye(2), np.eye(2), np.eye(2), -1.0)
