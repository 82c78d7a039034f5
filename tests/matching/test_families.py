"""Closed-form scalars of the families against the general code by quadrature."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deqcli.matching.solve import htanh_excess
from deqcli.matching.targets import SIZES, network, network_scalars, network_target
from deqcli.vocabulary import Kernel

NUMBER = st.floats(0.2, 1.5)


@pytest.mark.parametrize("family", SIZES)
@pytest.mark.parametrize("kernel", [Kernel.CK, Kernel.NTK])
@settings(max_examples=15, deadline=None)
@given(
    numbers=st.lists(NUMBER, min_size=6, max_size=6), tau0=st.floats(0.6, 1.5), flip=st.booleans()
)
def test_closed_forms(family, kernel, numbers, tau0, flip):
    size = SIZES[family]
    layers = [numbers[:size], numbers[size : 2 * size]]
    if flip:
        layers[0][-1] *= -1 if family == "cubic" else 1
    closed = network_scalars(family, layers, tau0, kernel)
    target, acts = network_target(network(family, layers, tau0), tau0, kernel)
    # Quadrature and recursion lose a few digits of 1e-16 each.
    assert np.array(closed) == pytest.approx(target.values, rel=1e-11, abs=1e-13)
    assert len(acts) == 2


def test_htanh_excess_falls_from_half_pi_to_one():
    cuts = np.geomspace(1e-8, 8, 200)
    values = [htanh_excess(c, Kernel.CK) for c in cuts]
    assert values[0] == pytest.approx(np.pi / 2, rel=1e-7)
    assert values[-1] == pytest.approx(1, rel=1e-13)
    assert np.all(np.diff(values) < 1e-15)
    tangent = [htanh_excess(c, Kernel.NTK) for c in cuts]
    assert tangent[0] > 1e7
    assert np.all(np.diff(tangent) < 1e-15)


def test_a_factor_moved_between_the_layers_changes_nothing():
    layers = [[0.9, 0.3, -0.2], [0.7, 0.2, 0.1]]
    louder = [[3 * c for c in layers[0]], layers[1]]
    for kernel in (Kernel.CK, Kernel.NTK):
        once, again = (network_scalars("cubic", x, 1.3, kernel) for x in (layers, louder))
        assert once == pytest.approx(again, rel=1e-13)
