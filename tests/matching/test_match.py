"""What is chosen, how exactly it agrees, and what is said where there is nothing to choose."""

import json

import numpy as np
import pytest

from deqcli.activations import REGISTRY, Activation, activation
from deqcli.errors import InputError
from deqcli.matching import match, match_target, network_target, plain_network

LIPSCHITZ = [name for name in REGISTRY if np.isfinite(activation(name).lipschitz)]
# The defaults of "hermite" and "spline" are linear.
ODD = {"identity", "hermite", "spline", "tanh", "arctan", "erf", "sin", "htanh"}
PIECEWISE = {"relu", "nrelu", "lrelu", "maxlin", "abs"}

pytestmark = pytest.mark.filterwarnings("ignore::deqcli.errors.OutsidePapersRangeWarning")


@pytest.mark.parametrize("kernel", ["ck", "preactivation-ntk"])
@pytest.mark.parametrize("sigma_a2", [0.05, 0.1, 0.2, 0.24])
@pytest.mark.parametrize("name", LIPSCHITZ)
def test_auto_finds_a_network(name, sigma_a2, kernel):
    twin = match(name, sigma_a2, kernel=kernel)
    assert twin.feasible
    assert twin.worst <= 1e-10
    expected = ("htanh", 1) if name in ODD else ("cubic", 2)
    if name == "sin":
        # H-Tanh and the cubic both have the scalars; which one follows the norm differs.
        expected = (twin.family, 1)
    if name in PIECEWISE and kernel == "ck":
        expected = ("lrelu", 2)
    assert (twin.family, twin.layers) == expected
    if twin.layers == 2:
        assert abs(twin.diagonal_slope.mismatch) < 1e-10
    # An independent reading of the layers by name.
    read = [activation(n).shifted(s) for n, s in twin.names]
    again, _ = network_target(read, twin.tau0, twin.twin_kernel)
    assert list(twin.achieved.values()) == pytest.approx(again.values[:4], rel=1e-12, abs=1e-15)


@pytest.mark.parametrize(
    ("sigma_a2", "sigma_b2", "tau0"), [(0.1, 2.0, 0.7), (0.2, 2.0, 1.4), (0.24, None, 1.3)]
)
@pytest.mark.parametrize("kernel", ["ck", "preactivation-ntk", "preactivation_ck"])
@pytest.mark.parametrize("name", ["sin", "cos", "abs", "gelu", "elu", "nrelu"])
def test_any_setting(name, kernel, sigma_a2, sigma_b2, tau0):
    twin = match(name, sigma_a2, sigma_b2, tau0, kernel=kernel)
    assert twin.feasible
    assert twin.worst <= 1e-10


def test_of_exact_networks_the_one_that_follows_the_norm_is_taken():
    sine = match("sin", 0.2)
    assert (sine.family, sine.layers) == ("cubic", 1)
    other = match("sin", 0.2, family="htanh")
    assert other.feasible
    assert abs(sine.linear_slope.mismatch) < 0.5 * abs(other.linear_slope.mismatch)
    assert match("tanh", 0.2).family == "htanh"


def test_beyond_htanh_the_cubic_takes_over():
    twin = match("sin", 0.2, 2.0, 1.4)
    assert (twin.family, twin.layers) == ("cubic", 1)
    first = twin.alternatives[0]
    assert (first.family, first.feasible) == ("htanh", False)
    assert "π/2" in first.reason


def test_without_a_hidden_loop_one_layer_is_enough():
    twin = match("gelu", 0.0)
    assert (twin.feasible, twin.family, twin.layers) == (True, "cubic", 1)
    relu = match("relu", 0.0, sigma_b2=0.81)
    assert (relu.family, relu.layers) == ("lrelu", 1)
    assert relu.acts[0].parameters == pytest.approx({"a": 0.9, "b": 0.0}, abs=1e-12)


def test_a_linear_deq_has_a_linear_twin():
    twin = match("identity", 0.2)
    assert twin.names == (("maxlin:a=1.0,b=1.0", 0.0),)
    assert "c → ∞" in twin.reason
    for family in ("lrelu", "quadratic", "cubic"):
        assert match("identity", 0.2, family=family, layers=2).feasible


@pytest.mark.parametrize(
    ("name", "family", "layers", "says", "remedy"),
    [
        ("relu", "htanh", 1, "are not zero", "L-ReLU"),
        ("elu", "lrelu", 2, "< ½α3", "cubic"),
        ("gelu", "lrelu", 2, "(2π − 4)τ0²α2", "cubic"),
        ("relu", "lrelu", 1, "one hidden layer cannot match", "L-ReLU"),
        ("tanh", "quadratic", "auto", "R = 1, but R = γ²", "H-Tanh"),
        ("relu", "quadratic", 2, "three free numbers", "L-ReLU"),
        ("softplus", "cubic", 1, "≠ ½α3", "two layers of cubic"),
    ],
)
def test_infeasible_is_an_answer(name, family, layers, says, remedy):
    twin = match(name, 0.1, family=family, layers=layers)
    assert not twin.feasible
    assert says in twin.reason
    assert remedy in twin.suggestion
    assert 1e-10 < twin.worst < 2
    assert twin.acts


def test_papers_quadratic_misses_by_what_the_formula_sheet_says():
    # theory.md section 6: 1e-3 to 1e-1; by least squares softplus comes to 3e-4.
    for name in ("relu", "swish", "gelu", "softplus"):
        for sigma_a2 in (0.1, 0.2):
            assert 2e-4 < match(name, sigma_a2, family="quadratic", layers=2).worst < 1e-1


@pytest.mark.parametrize("kernel", ["ck", "ntk"])
def test_htanh_recovers_itself(kernel):
    for c in (0.05, 0.7, 2.5):
        target, _ = network_target([f"htanh:a=0.8,c={c}"], 1.1, kernel)
        twin = match_target(target)
        assert twin.acts[0].parameters == pytest.approx({"a": 0.8, "c": c}, rel=1e-9)
        assert abs(twin.diagonal_slope.mismatch) < 1e-9


@pytest.mark.parametrize("kernel", ["ck", "ntk"])
def test_two_lrelu_layers_recover_themselves(kernel):
    target, _ = network_target(["maxlin:a=1.2,b=0.9", "maxlin:a=0.8,b=-0.1"], 1.1, kernel)
    twin = match_target(target)
    assert (twin.feasible, twin.family, twin.layers) == (True, "lrelu", 2)
    ratios = [act.parameters["b"] / act.parameters["a"] for act in twin.acts]
    assert ratios == pytest.approx([0.75, -0.125], rel=1e-8)
    assert abs(twin.diagonal_slope.mismatch) < 1e-9


@pytest.mark.parametrize("kernel", ["ck", "ntk"])
def test_two_cubic_layers_recover_themselves(kernel):
    layers = [[0.95, 0.2, -0.08], [0.7, 0.3, 0.02]]
    scales = [1.1, np.linalg.norm(layers[0])]
    names = [
        f"hermite:scale={s},c1={c[0]},c2={c[1]},c3={c[2]}"
        for s, c in zip(scales, layers, strict=True)
    ]
    target, _ = network_target(names, 1.1, kernel)
    twin = match_target(target, family="cubic")
    assert twin.feasible
    for act, c in zip(twin.acts, layers, strict=True):
        numbers = [act.parameters[f"c{k}"] for k in (1, 2, 3)]
        assert np.array(numbers) / numbers[0] == pytest.approx(np.array(c) / c[0], rel=1e-7)


def test_the_answer_repeats_and_is_in_canonical_sign():
    for kernel in ("ck", "preactivation-ntk"):
        first, second = (match("cos", 0.2, kernel=kernel) for _ in range(2))
        assert first.names == second.names
        for act in first.acts:
            assert act.parameters["c1"] >= 0
            assert act.parameters["c2"] >= 0


def test_the_answer_moves_with_the_setting():
    steps = [match("gelu", s).acts[1].parameters["c2"] for s in (0.2, 0.2001, 0.2002)]
    assert np.ptp(np.diff(steps)) < 1e-6


def test_record_is_json():
    record = json.loads(json.dumps(match("relu", 0.1).as_record()))
    assert record["family"] == "lrelu"
    assert len(record["activations"]) == 2
    assert record["deq"]["sigma_a2"] == 0.1


def test_own_function_can_be_matched():
    twin = match(Activation.from_function(np.arctan, name="mine"), 0.1)
    assert (twin.feasible, twin.family) == (True, "htanh")
    named = match("arctan", 0.1)
    # The derivative by differences enters the slope of the diagonal only.
    assert twin.target == pytest.approx(named.target, rel=1e-12, abs=1e-15)


def test_network_tangent_kernel():
    for name in ("tanh", "relu", "gelu", "elu", "cos"):
        assert match(name, 0.2, kernel="ntk").feasible
    # A known limit of two cubic layers: near, but not exact.
    beyond = match("softplus", 0.2, kernel="ntk")
    assert not beyond.feasible
    assert beyond.worst < 1e-2
    assert "no family" in beyond.suggestion


def test_plain_network_is_centred():
    acts = plain_network("relu", 2, 1.3)
    assert acts[0].shift == pytest.approx(1.3 / np.sqrt(2 * np.pi), rel=1e-12)


def test_bad_requests_are_refused():
    with pytest.raises(InputError, match="choose from auto"):
        match("tanh", 0.1, family="tanh")
    with pytest.raises(InputError, match="`layers` is 3"):
        match("tanh", 0.1, layers=3)
    with pytest.raises(InputError, match="one layer"):
        match("tanh", 0.1, family="htanh", layers=2)
    with pytest.raises(InputError, match="at least 1"):
        plain_network("tanh", 0)
