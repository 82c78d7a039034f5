"""Targets: the slopes by differences of exact kernels, and how errors are counted."""

import numpy as np
import pytest

from deqcli.activations import activation
from deqcli.errors import InputError
from deqcli.kernels.exact import explicit_kernels, implicit_kernels
from deqcli.matching.targets import Target, deq_target, network_target
from deqcli.vocabulary import Kernel

STEP = 1e-4


def diagonal_slope(kernel_of, tau0):
    """Central difference of a kernel's diagonal in the squared norm."""
    norms = tau0**2 + np.array([-STEP, STEP])
    low, high = np.diag(kernel_of(np.diag(np.sqrt(norms))))
    return (high - low) / (2 * STEP)


@pytest.mark.parametrize("kernel", Kernel)
@pytest.mark.parametrize("name", ["tanh", "relu", "gelu", "htanh:a=0.9,c=1.1", "cos"])
def test_slope_of_a_deq_by_differences(name, kernel):
    sigma_a2, sigma_b2, tau0 = 0.15, 1.4, 0.9
    target, scalars = deq_target(name, sigma_a2, sigma_b2, tau0, kernel)
    act = activation(name).shifted(scalars.shift)

    def kernel_of(X):
        return implicit_kernels(X, act, sigma_a2, sigma_b2).compute(kernel)[0]

    # The difference is of second order: 1e-8 times a third derivative of order one.
    assert target.slope == pytest.approx(diagonal_slope(kernel_of, tau0), rel=1e-6)


@pytest.mark.parametrize("kernel", ["ck", "ntk"])
@pytest.mark.parametrize(
    "layers",
    [
        ["htanh:a=1.1,c=0.8"],
        ["maxlin:a=1,b=0.2", "tanh"],
        ["hermite:c1=0.9,c2=0.3,c3=-0.2", "relu"],
    ],
)
def test_slope_of_a_network_by_differences(layers, kernel):
    target, acts = network_target(layers, 1.2, kernel)
    slope = diagonal_slope(lambda X: explicit_kernels(X, acts).compute(kernel)[0], 1.2)
    assert target.slope == pytest.approx(slope, rel=1e-6)


def test_errors_are_relative_to_the_scalar_and_for_zeros_to_the_kernel():
    target = Target(Kernel.CK, 0.5, 1e-30, 0.02, 2.0, 0.4, tau0=2.0)
    assert target.vanishes.tolist() == [False, True, False, False, False]
    off = target.values + np.array([0.05, 0.125, 0.0, 0.0, -0.04])
    # c2 counts against d / tau0^4 = 2/16.
    assert target.residuals(off) == pytest.approx([0.1, 1.0, 0.0, 0.0, -0.1])


def test_unknown_kernel_is_refused():
    for name in ("theta", "network_ntk"):
        with pytest.raises(InputError, match=f"`kernel` is '{name}'"):
            deq_target("tanh", 0.1, kernel=name)
    assert deq_target("tanh", 0.1, kernel="preactivation_ntk")[0].kernel is Kernel.PREACTIVATION_NTK


@pytest.mark.parametrize("kernel", list(Kernel))
@pytest.mark.parametrize("name", ["tanh", "elu", "softplus"])
def test_linear_slope_is_that_of_the_exact_kernel(name, kernel):
    target, deq = deq_target(name, 0.2, 0.9, 1.1, kernel)
    act = activation(name).shifted(deq.shift)

    def log_factor(square, kernels):
        # The part of one entry that is odd in the cosine, over the inner product.
        norm, cosine = np.sqrt(square), 1e-4
        ends = []
        for sign in (1, -1):
            X = norm * np.array([[1.0, 0.0], [sign * cosine, np.sqrt(1 - cosine**2)]])
            ends.append(kernels(X)[0, 1])
        return np.log((ends[0] - ends[1]) / (2 * cosine * square))

    def slope(kernels):
        return (log_factor(1.21 + 1e-3, kernels) - log_factor(1.21 - 1e-3, kernels)) / 2e-3

    exact = slope(lambda X: implicit_kernels(X, act, 0.2, 0.9).compute(kernel)[0])
    assert target.bend == pytest.approx(exact, abs=2e-6)
    layers = [activation("tanh"), activation("hermite:scale=1,c1=0.8,c2=0.2,c3=-0.1")]
    twin, layers = network_target(layers, 1.1, kernel)
    exact = slope(lambda X: explicit_kernels(X, layers).compute(kernel.explicit)[0])
    assert twin.bend == pytest.approx(exact, abs=2e-6)
