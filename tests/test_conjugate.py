"""Ridge regression with operators, against direct solves."""

import numpy as np
import pytest

import deqcli
from deqcli.classify import ridge_weights
from deqcli.errors import ConvergenceError, InputError


def problem(n=700, p=60, seed=0):
    sample = deqcli.GaussianMixture.papers(p, mean_norm=3.0).sample(n, np.random.default_rng(seed))
    return sample.X, sample.y, np.eye(2)[sample.y] - 0.5


@pytest.mark.parametrize(("act", "kernel"), [("tanh", "ck"), ("relu", "ntk")])
def test_weights_are_those_of_a_direct_solve(act, kernel):
    X, y, targets = problem()
    operator = deqcli.kernel_operator(X, act, 0.2, kernel=kernel, y=y)
    found = deqcli.solve_ridge(operator, targets, 1e-3, tolerance=1e-12)
    weights, shift = ridge_weights(operator @ np.eye(len(X)), targets, 1e-3)
    assert found.converged
    assert found.shift == pytest.approx(shift, rel=1e-12)
    np.testing.assert_allclose(found.weights, weights, rtol=0, atol=1e-9 * np.abs(weights).max())
    # Of the kernel itself, what was rounded off moves weights by its norm over the shift.
    exact = deqcli.implicit_kernels(X, act, 0.2).compute(kernel)[0].copy()
    direct, _ = ridge_weights(exact, targets, 1e-3)
    bound = operator.rounding / shift * np.linalg.norm(direct, axis=0)
    assert np.all(np.linalg.norm(found.weights - direct, axis=0) <= bound)


def test_the_residual_is_what_the_weights_leave():
    X, _, targets = problem()
    operator = deqcli.kernel_operator(X, "relu", 0.2)
    found = deqcli.solve_ridge(operator, targets[:, 0], 1e-4, tolerance=1e-4)
    left = targets[:, 0] - operator @ found.weights - found.shift * found.weights
    expected = np.linalg.norm(left) / np.linalg.norm(targets[:, 0])
    assert found.residual == pytest.approx(expected, rel=1e-6)
    assert found.residual < 2e-4
    assert found.weights.shape == (len(X),)
    assert f"{found.residual:.2g} after {found.iterations} steps" in repr(found)


def test_the_preconditioner_saves_most_steps():
    X, _, targets = problem()
    operator = deqcli.kernel_operator(X, "tanh", 0.1)
    steps = [deqcli.solve_ridge(operator, targets, 1e-4, columns=m).iterations for m in (1, 175)]
    assert steps[1] < 0.5 * steps[0]


def test_what_is_not_solved_says_so():
    X, _, targets = problem(300)
    operator = deqcli.kernel_operator(X, "relu", 0.2)
    found = deqcli.solve_ridge(operator, targets, 1e-8, most=2)
    assert not found.converged
    assert found.iterations == 2
    assert found.residual > 1e-3
    # Targets that are nothing need no step.
    nothing = deqcli.solve_ridge(operator, np.zeros((300, 2)))
    assert (nothing.iterations, nothing.residual, nothing.converged) == (0, 0.0, True)
    with pytest.raises(InputError, match=r"`operator` is .*; give what kernel_operator returned"):
        deqcli.solve_ridge(np.eye(3), targets)


@pytest.mark.parametrize("act", ["relu", "tanh"])
@pytest.mark.parametrize("copies", [2, 0])
def test_equations_without_a_solution_leave_no_more_than_no_weights(copies, act):
    """Duplicates, or zero rows, with unequal targets."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 6)) / 2
    X = np.vstack([X, X]) if copies else np.vstack([X, np.zeros((3, 6))])
    operator = deqcli.kernel_operator(X, act, 0.2)
    found = deqcli.solve_ridge(operator, rng.standard_normal((len(X), 2)), 0.0)
    assert not found.converged
    assert found.residual <= 1 + 1e-12


def test_the_classifier_of_many_samples_is_that_of_few():
    pytest.importorskip("sklearn")
    X, y, _ = problem(900)
    direct = deqcli.DEQClassifier("relu", 0.2).fit(X[:600], y[:600])
    steps = deqcli.DEQClassifier("relu", 0.2, direct=100).fit(X[:600], y[:600])
    assert steps.residual_ < 2e-6
    np.testing.assert_allclose(
        steps.decision_function(X[600:]), direct.decision_function(X[600:]), atol=1e-3
    )
    np.testing.assert_array_equal(steps.predict(X[600:]), direct.predict(X[600:]))
    with pytest.raises(ConvergenceError, match="conjugate gradients leave a residual of"):
        deqcli.DEQClassifier("quadratic", 0.0, ridge=0.0, direct=0).fit(X[:, :2], y)


@pytest.mark.parametrize("unit", [2.0**-530, 2.0**150])
def test_targets_of_any_size_have_the_same_digits(unit):
    X = np.random.default_rng(3).standard_normal((7, 5)) / 2
    T = np.random.default_rng(4).standard_normal((7, 2))
    operator = deqcli.kernel_operator(X, "tanh", sigma_a2=0.1)
    whole = deqcli.solve_ridge(operator, T, 0.1).weights
    np.testing.assert_array_equal(deqcli.solve_ridge(operator, T * unit, 0.1).weights / unit, whole)
