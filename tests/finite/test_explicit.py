"""Explicit networks of finite width: their mean kernels are the exact ones, within the noise."""

from __future__ import annotations

import numpy as np
import pytest

from deqcli.activations import activation
from deqcli.equivalents import operator_distance, operator_norm
from deqcli.errors import InputError
from deqcli.finite.explicit import sum_explicit
from deqcli.kernels.exact import explicit_kernels
from deqcli.scalars import explicit_scalars
from deqcli.vocabulary import Kernel, Weights

X = np.random.default_rng(0).normal(size=(12, 30)) / np.sqrt(30)


def mean(acts, kernel, *, width=600, count=150, samples=X, **options):
    total = sum_explicit(
        samples, acts, width, range(count), np.random.default_rng, kernel, **options
    )
    return total / count


@pytest.mark.parametrize("kernel", [Kernel.CK, Kernel.NTK])
@pytest.mark.parametrize("names", [["relu"], ["tanh", "relu"], ["relu", "swish", "sin"]])
def test_mean_of_wide_networks_is_the_exact_kernel(names, kernel):
    acts = explicit_scalars(names, 1.0).acts
    (exact,) = explicit_kernels(X, list(acts)).compute(kernel)
    # The error of a mean over 90 000 neurons; a lost layer or factor would be 10 % and more.
    assert operator_distance(mean(acts, kernel), exact) < 0.03 * operator_norm(exact)


def test_weights_of_another_law_have_the_same_limit():
    # In low dimension another fourth moment still shows.
    samples = np.random.default_rng(1).normal(size=(12, 500)) / np.sqrt(500)
    exact = explicit_kernels(samples, [activation("tanh")]).ck
    averaged = mean(["tanh"], Kernel.CK, samples=samples, weights=Weights.RADEMACHER)
    assert operator_distance(averaged, exact) < 0.03 * operator_norm(exact)


def test_tangent_kernel_of_one_network_is_that_of_its_gradients():
    # A linear network by hand: f = a'Wx/√m has the gradients Wx/√m in a and a x'/√m in W.
    rng = np.random.default_rng(5)
    W, a = (np.empty(shape, dtype=np.float32) for shape in ((40, 30), (40, 1)))
    from deqcli.finite.weights import draw

    draw(Weights.GAUSSIAN, rng, W)
    draw(Weights.GAUSSIAN, rng, a)
    expected = X @ W.T @ W @ X.T / 40 + (X @ X.T) * float(np.sum(a**2)) / 40
    total = sum_explicit(X, ["identity"], 40, [5], np.random.default_rng, Kernel.NTK)
    assert total == pytest.approx(expected, abs=1e-5)


def test_sums_add_up_whatever_the_portions():
    whole = sum_explicit(X, ["relu"], 50, range(6), np.random.default_rng)
    parts = [
        sum_explicit(X, ["relu"], 50, part, np.random.default_rng) for part in ([0, 1], range(2, 6))
    ]
    assert sum(parts) == pytest.approx(whole, rel=1e-12)


@pytest.mark.parametrize(
    ("name", "options"), [("width", {"width": 0}), ("kernel", {"kernel": "k"})]
)
def test_bad_input(name, options):
    settings = {"acts": ["relu"], "width": 5, "realizations": [0], **options}
    with pytest.raises(InputError, match=f"`{name}`"):
        sum_explicit(X, stream=np.random.default_rng, **settings)
