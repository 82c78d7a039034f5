"""The four kernels of a DEQ against numbers made elsewhere."""

import numpy as np
import pytest

import deqcli
from deqcli.vocabulary import Kernel


@pytest.mark.parametrize("name", ["tanh", "relu", "swish"])
@pytest.mark.parametrize("kernel", Kernel)
def test_reference_kernels(name, kernel, reference_kernels, tol):
    X = reference_kernels["X"]
    act = deqcli.activation(name).shifted(float(reference_kernels[f"{name}/shift"]))
    kernels = deqcli.implicit_kernels(X, act, sigma_a2=0.2, sigma_b2=0.8)
    matrix = getattr(kernels, kernel.attribute)
    expected = reference_kernels[f"{name}/{kernel.attribute}"].copy()
    np.testing.assert_array_equal(X[0], X[4])
    if name == "relu" and kernel.endswith("ntk"):
        # Samples 0 and 4 are the same, so their entry is the diagonal one. The reference lost
        # digits there (arccos of a number next to 1): it is 7.2e-9 (1.4e-9) off its own diagonal.
        assert abs(expected[0, 4] - expected[0, 0]) > 1e-9
        expected[0, 4] = expected[4, 0] = expected[0, 0]
    np.testing.assert_allclose(matrix, expected, rtol=0, atol=tol("kernels"))


def test_the_shifts_of_the_reference_are_found_again(reference_kernels):
    X = reference_kernels["X"]
    tau0s = [1.0, float(np.sqrt(np.mean(np.sum(X**2, axis=1))))]
    for name in ("relu", "swish"):
        stored = float(reference_kernels[f"{name}/shift"])
        shifts = [deqcli.activation(name).centred(0.2, 0.8, tau0).shift for tau0 in tau0s]
        assert min(abs(shift - stored) for shift in shifts) < 1e-10
