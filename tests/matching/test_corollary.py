"""The layer of ICLR Corollary 2, corrected and as printed."""

from __future__ import annotations

import math

import numpy as np
import pytest

from deqcli.data.laws import Mixture
from deqcli.equivalents import operator_distance, operator_norm
from deqcli.errors import InputError
from deqcli.kernels.exact import explicit_kernels
from deqcli.matching.corollary import corollary_2
from deqcli.models import deq_model
from deqcli.runs.seeds import stream
from deqcli.scalars import implicit_scalars
from deqcli.vocabulary import Kernel


@pytest.mark.parametrize("kernel", ["preactivation-ck", "ck"])
@pytest.mark.parametrize("tau0", [0.7, 1.0, 1.3])
def test_corrected_equations_hold_for_sampled_activations(kernel, tau0):
    twin = corollary_2("relu", 0.2, tau0=tau0, kernel=kernel)
    c = implicit_scalars("relu", sigma_a2=0.2, tau0=tau0).coefficients(Kernel(kernel))
    a, b = twin.acts[0].parameters.values()
    assert (a + b) ** 2 == pytest.approx(4 * c.c1)
    # The variance by quadrature of the layer itself: this is what +2ab is for.
    x = np.linspace(-9, 9, 20_001)
    w = np.exp(-(x**2) / 2) / np.sum(np.exp(-(x**2) / 2))
    values = np.maximum(a * tau0 * x, b * tau0 * x)
    variance = w @ values**2 - (w @ values) ** 2
    assert variance == pytest.approx(c.d, rel=1e-6)
    assert variance == pytest.approx(
        ((math.pi - 1) * (a * a + b * b) + 2 * a * b) / (2 * math.pi) * tau0**2, rel=1e-6
    )


def test_printed_equations_are_those_of_the_paper():
    twin = corollary_2("relu", 0.2, tau0=1.1, printed=True)
    c = implicit_scalars("relu", sigma_a2=0.2, tau0=1.1).coefficients(Kernel.PREACTIVATION_CK)
    a, b = twin.acts[0].parameters.values()
    assert a > b > 0
    assert (a - b) ** 2 == pytest.approx(4 * c.c1**2)
    left = ((math.pi - 1) * (a * a + b * b) + a * b) / (2 * math.pi) - (a + b) ** 2 / 4
    assert left * 1.1**2 == pytest.approx(c.d - c.c1 * 1.1**2)


def test_corrected_layer_is_near_and_the_printed_one_is_not():
    """On the samples of Figure 2: 5e-5 of Λ, and more than Λ itself."""
    inputs = Mixture(1000, None, 8.0, "papers").load(lambda *names: stream(0, *names), 800)
    model = deq_model(inputs, "relu", 0.2, 0.8)
    (kernel,) = model.kernel(Kernel.PREACTIVATION_CK)
    tau0 = inputs.statistics.tau0
    norm = operator_norm(kernel)
    off = {}
    for printed in (False, True):
        acts = corollary_2("relu", 0.2, tau0=tau0, printed=printed).acts
        off[printed] = operator_distance(kernel, explicit_kernels(model.X, list(acts)).ck) / norm
    assert off[False] < 1e-4
    assert off[True] > 1


def test_what_has_no_solution_is_said():
    with pytest.raises(InputError, match="no solution"):
        corollary_2("relu", 0.2, kernel="ck", printed=True)
    with pytest.raises(InputError, match="`kernel` is ntk"):
        corollary_2("relu", 0.2, kernel="ntk")
