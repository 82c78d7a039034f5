"""The scikit-learn estimators: scikit-learn's own checks, closed forms, and our other routes."""

from __future__ import annotations

import re
import subprocess
import sys

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import WhiteKernel
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import estimator_checks_generator

import deqcli
from deqcli.classify import kernel_outputs
from deqcli.errors import InputError

RNG = np.random.default_rng(0)
X = RNG.standard_normal((30, 6)) / np.sqrt(6)
Y = RNG.standard_normal((7, 6)) / np.sqrt(6)


def checks():
    """Every check of ``check_estimator``; the one of array API input needs that switched on."""
    for made in (deqcli.DEQClassifier(), deqcli.DEQRegressor()):
        for estimator, check in estimator_checks_generator(made):
            name = re.search(r"check_\w+", str(check))[0]
            if name != "check_array_api_input":
                yield pytest.param(estimator, check, id=f"{type(made).__name__}-{name}")


@pytest.mark.parametrize(("estimator", "check"), list(checks()))
def test_checks_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.parametrize("kernel", deqcli.Kernel)
def test_kernel_is_the_exact_one(kernel):
    made = deqcli.DEQKernel("relu", 0.2, kernel=kernel.value)
    exact = deqcli.implicit_kernels(X, "relu", 0.2).compute(kernel)[0]
    np.testing.assert_array_equal(made(X), exact)
    np.testing.assert_allclose(made.diag(X), exact.diagonal(), rtol=1e-12)
    other = deqcli.implicit_kernels(Y, "relu", 0.2, Y=X).compute(kernel)[0]
    np.testing.assert_array_equal(made(Y, X), other)
    assert made(X[:1]) == pytest.approx(exact[:1, :1], rel=1e-12)
    assert not made.is_stationary()


def test_gradient_of_a_linear_deq_is_that_of_its_closed_form():
    """Λ = (a² /(1 - a²) + 1) b² XX', so that Θ = b² XX' (2 - a²)/(1 - a²)²."""
    kernel = deqcli.DEQKernel("identity", 0.2, 0.7)
    K, gradient = kernel(X, eval_gradient=True)
    a2, gram = 0.2, 0.7 * (X @ X.T)
    np.testing.assert_allclose(K, (2 - a2) / (1 - a2) ** 2 * gram, atol=1e-12)
    slope = a2 * (-1 / (1 - a2) ** 2 + 2 * (2 - a2) / (1 - a2) ** 3)
    np.testing.assert_allclose(gradient[:, :, 0], slope * gram, atol=1e-9)
    fixed = deqcli.DEQKernel("identity", 0.2, sigma_a2_bounds="fixed")
    assert fixed(X, eval_gradient=True)[1].shape == (30, 30, 0)
    with pytest.raises(InputError, match="`eval_gradient`"):
        kernel(X, Y, eval_gradient=True)


@pytest.mark.filterwarnings("ignore:The optimal value")  # the best one may lie at a bound
def test_gaussian_process_learns_the_variance():
    target = np.sin(3 * X[:, 0])
    start = deqcli.DEQKernel("relu", 0.01)
    process = GaussianProcessRegressor(start + WhiteKernel(1e-3), normalize_y=True).fit(X, target)
    assert process.kernel_.k1.sigma_a2 != 0.01
    assert process.log_marginal_likelihood_value_ > process.log_marginal_likelihood(
        (start + WhiteKernel(1e-3)).theta
    )
    mean, deviation = process.predict(Y, return_std=True)
    assert mean.shape == deviation.shape == (7,)
    assert np.isfinite(deviation).all()
    assert clone(start).theta == pytest.approx(np.log(0.01))


def test_classifier_is_the_limit_that_accuracy_finds():
    y = (X[:, 0] + X[:, 1] > 0).astype(int)
    test = (Y[:, 0] + Y[:, 1] > 0).astype(int)
    kernels = [deqcli.implicit_kernels(first, "tanh", 0.1, Y=X).ntk.copy() for first in (X, Y)]
    targets = np.eye(2)[y] - 0.5
    outputs = [kernel_outputs(kernels[0].copy(), targets, new, ridge=1e-2) for new in kernels]
    expected = [np.mean(f.argmax(axis=1) == of) for f, of in zip(outputs, (y, test), strict=True)]
    model = deqcli.DEQClassifier("tanh", ridge=1e-2, preprocess="raw").fit(
        X, np.array(["no", "yes"])[y]
    )
    words = np.array(["no", "yes"])
    assert (model.score(X, words[y]), model.score(Y, words[test])) == pytest.approx(expected)


def test_regressor_is_ridge_regression_in_the_kernel():
    target = X @ np.arange(6) + 3
    model = deqcli.DEQRegressor("erf", 0.1, kernel="ck", ridge=0.1, preprocess="raw").fit(X, target)
    K = deqcli.implicit_kernels(X, "erf", 0.1).ck
    dual = np.linalg.solve(K + 0.1 * np.trace(K) / 30 * np.eye(30), target - target.mean())
    across = deqcli.implicit_kernels(Y, "erf", 0.1, Y=X).ck
    np.testing.assert_allclose(model.predict(Y), target.mean() + across @ dual, rtol=1e-8)
    both = deqcli.DEQRegressor().fit(X, np.column_stack([target, -target])).predict(Y)
    np.testing.assert_allclose(both[:, 0], -both[:, 1])


def test_it_works_where_estimators_are_used():
    y = np.where(X[:, 0] > 0, "b", "a")
    pipeline = make_pipeline(StandardScaler(), deqcli.DEQClassifier())
    search = GridSearchCV(pipeline, {"deqclassifier__act": ["relu", np.tanh]}, cv=3).fit(X, y)
    assert search.best_score_ > 0.5
    assert set(SVC(kernel=deqcli.DEQKernel("relu")).fit(X, y).predict(Y)) <= {"a", "b"}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"ridge": -1}, "`ridge` is -1"),
        ({"kernel": "nkt"}, "did you mean ntk"),
        ({"act": "tahn"}, "did you mean tanh"),
        ({"preprocess": "x"}, "`preprocess`"),
        ({"sigma_a2": 2}, "`sigma_a2` is 2"),
    ],
)
def test_wrong_parameters_are_told(change, said):
    with pytest.raises(InputError, match=said):
        deqcli.DEQRegressor(**change).fit(X, X[:, 0])


def test_without_scikit_learn_there_is_one_sentence():
    code = (
        "import sys; sys.modules['sklearn'] = None\n"
        "import deqcli, deqcli.errors\n"
        "try: deqcli.DEQKernel\n"
        "except deqcli.errors.MissingExtraError as error: print(error)\n"
        "deqcli.implicit_scalars('tanh', 0.1)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == 1
    assert "pip install 'deqcli[sklearn]'" in done.stdout
