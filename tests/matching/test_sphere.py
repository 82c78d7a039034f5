"""HLD Corollary 1."""

import numpy as np
import pytest

from deqcli.data.mixture import sphere
from deqcli.equivalents import operator_distance
from deqcli.errors import InputError
from deqcli.kernels.exact import explicit_kernels, implicit_kernels
from deqcli.matching import match_sphere
from deqcli.vocabulary import Kernel

pytestmark = pytest.mark.filterwarnings("ignore::deqcli.errors.OutsidePapersRangeWarning")


@pytest.mark.parametrize(
    ("kernel", "a2", "a1", "a0"),
    [
        ("preactivation_ck", 0.13363, 0.94518, 0.13266),
        ("preactivation_ntk", 0.16739, 0.70806, 0.11391),
    ],
)
def test_printed_quadratics(kernel, a2, a1, a0):
    twin = match_sphere("nrelu", 0.2, 1200, kernel)
    assert twin.feasible
    # Five printed digits.
    assert twin.acts[0].parameters == pytest.approx({"a2": a2, "a1": a1, "a0": a0}, abs=5.1e-6)


@pytest.mark.parametrize("kernel", Kernel)
@pytest.mark.parametrize(("name", "family"), [("nrelu", "quadratic"), ("tanh", "cubic")])
def test_kernels_approach_each_other(name, family, kernel):
    distances = []
    for n in (150, 600):
        X = sphere(n, n, np.random.default_rng(3)).X
        twin = match_sphere(name, 0.2, n, kernel, family=family)
        assert twin.feasible
        deq = implicit_kernels(X, name, 0.2).compute(twin.kernel)[0]
        ours = explicit_kernels(X, twin.acts).compute(twin.twin_kernel)[0]
        distances.append(operator_distance(deq, ours))
    assert distances[1] < 0.6 * distances[0]


def test_odd_activations_have_no_quadratic():
    twin = match_sphere("tanh", 0.2, 1200)
    assert not twin.feasible
    assert "cubic" in twin.reason
    with pytest.raises(InputError, match="quadratic, cubic"):
        match_sphere("tanh", 0.2, 1200, family="lrelu")
