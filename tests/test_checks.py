"""Numbers at the edges, and functions of the user's own that misbehave: one sentence each."""

import math
import sys

import numpy as np
import pytest

import deqcli
from deqcli import study
from deqcli.activations import Activation, activation
from deqcli.checks import SMALLEST, Range, number
from deqcli.cli import run
from deqcli.errors import (
    ActivationError,
    ConvergenceError,
    DataError,
    DeqcliError,
    ExistenceError,
    InputError,
)
from deqcli.finite.equilibrium import Elementwise
from deqcli.settings import options


@pytest.mark.parametrize(
    "words",
    [
        "scalars --tau0 1e-160", "scalars --tau0 1e200", "scalars --tau0 nan",
        "scalars --sigma-b2 1e-320", "scalars --sigma-a2 1e-320",
        "match --tau0 1e200", "match --tau0 1e-160",
        "match --tau0 1 --act cubic:a3=0,a2=0,a1=0 --sigma-a2 0",
        "match --tau0 1 --act htanh:a=0,c=1", "match --data sphere --n 8 --p 9 --act htanh:a=0,c=1",
        "spectrum --n 8 --p 9 --act htanh:a=0,c=1", "spectrum --n 8 --p 99999999999999999999",
        "error-vs-n --n 8,9 --act htanh:a=0,c=1", "scalars --act htanh:a=1e200,c=1",
        "scalars --act hermite:scale=1e-50,c8=1 --sigma-a2 0", "scalars --act htanh:a=-1e-60,c=1",
        "flow --step 1e-320", "flow --first-step 1e-160", "flow --gamma0 1e-51",
        "match --within 1e-60", "predict --ridge 1e-320", "spectrum --mean-norm 1e-51",
        "accuracy --data gmm --learning-rate 1e-60", "accuracy --data gmm --learning-rate 1e60",
    ],
)  # fmt: skip
def test_numbers_beyond_the_limits(words, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run(words.split()) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    assert said.count("\n") == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", study.names())
def test_no_option_takes_a_number_that_cannot_be_squared(name):
    """Nothing but 0 itself may be nearer to 0 than 1e-50, whatever an option's range is."""
    floats = [option for option in options(study.get(name).settings) if option.kind is float]
    for option in floats:
        for value in (1e-51, 1e-160, 5e-324, -1e-51):
            with pytest.raises(InputError, match=rf"`{option.name}` is -?\S+; give .*"):
                option.convert(value)
        if option.rule.allows(0):
            assert option.convert(0) in (0, (0,))


def test_the_sentence_says_how_near_to_zero_a_number_may_be():
    for value in (1e-51, -1e-51):
        with pytest.raises(InputError, match=r"at most 1, no nearer to 0 than 1e-50\.$"):
            number(value, "x", float, Range(most=1, smallest=SMALLEST))
    with pytest.raises(InputError, match=r"a whole number at least 0\.$"):
        number(1.5, "x", int, Range(least=0))
    assert number(-1e-50, "x", float, Range(smallest=SMALLEST)) == -1e-50
    assert number(5e-324, "x", float) == 5e-324


class Nothing:
    def __repr__(self):
        raise RuntimeError("nothing")

    __float__ = __repr__


@pytest.mark.parametrize("value", [10**5000, Nothing()], ids=["long", "none"])
def test_values_that_cannot_be_shown_are_a_sentence(value):
    for call in (
        lambda: deqcli.implicit_scalars("tanh", 0.1, tau0=value),
        lambda: deqcli.run("match", seed=value),
        lambda: deqcli.run("match", jobs=value),
        lambda: deqcli.activation(value),
        lambda: deqcli.Kernel.of(value, "kernel"),
        lambda: deqcli.load("mnist", classes=[value], n=10),
    ):
        with pytest.raises(DeqcliError) as caught:
            call()
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "words",
    [
        "spectrum --realizations", "error-vs-n --realizations", "error-vs-n --trials",
        "errata --trials", "flow --trials", "flow --steps", "accuracy --data gmm --trials",
        "accuracy --data gmm --epochs", "bench kernel --repeats", "spectrum --n",
        "spectrum --width", "flow --widths", "accuracy --data gmm --train-size",
        "bench monte-carlo --width", "bench training --widths", "bench kernel --n",
        "spectrum --classes", "flow --classes",
    ],
)  # fmt: skip
def test_counts_have_limits(words, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run([*words.split(), "1000000000000"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    assert said.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_next_to_the_bound_is_beyond_it():
    with pytest.raises(ExistenceError, match="too large for 'identity'"):
        deqcli.match("identity", 0.9999999999999999, tau0=1e6, kernel="ntk")


@pytest.mark.slow
def test_no_hidden_weights_are_legal(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    small = ["--jobs", "1", "--sigma-a2", "0", "--kernel", "preactivation-ck"]
    assert run(["spectrum", "--n", "8", "--p", "12", "--estimator", "exact", *small]) == 0
    assert run(["match", "--n", "20", "--p", "12", *small]) == 0


def test_a_singular_kernel_gives_no_bound_and_says_so():
    result = deqcli.run("flow", data="sphere", n=6, p=3, widths=4, steps=2, test_size=3, jobs=1)
    assert result.table["bound"].isna().all()
    assert result.table["rademacher"].isna().all()
    (sentence,) = deqcli.study.get("flow").sentences(result.findings)
    assert "singular and gives no bound" in sentence


@pytest.mark.parametrize("dimension", [math.nan, 0, 2.5, "x", None])
def test_the_sphere_has_a_dimension(dimension):
    with pytest.raises(InputError, match="`dimension` is"):
        deqcli.sphere_scalars("tanh", dimension)


@pytest.mark.parametrize(
    ("matrix", "said"),
    [
        (np.array([[1.0, math.nan], [math.nan, 1.0]]), "not finite"),
        (np.ones((2, 3)), "square"),
        (np.triu(np.ones((3, 3))), "symmetric"),
        (None, "matrix"),
        (np.zeros((0, 0)), "matrix"),
        (np.eye(2) * 1j, "complex"),
    ],
)
def test_operator_norms_look_at_their_matrices(matrix, said):
    with pytest.raises(DataError, match=said):
        deqcli.operator_norm(matrix)
    with pytest.raises(DataError, match=said):
        deqcli.operator_distance(np.eye(2), matrix)
    with pytest.raises(DataError, match="of one shape"):
        deqcli.operator_distance(np.eye(2), np.eye(3))


def test_an_activation_in_place_reaches_every_entry():
    x = np.linspace(-2, 2, 24, dtype=np.float32).reshape(4, 6)
    for view in (x.copy().T, np.repeat(x, 2, axis=1)[:, ::2]):
        expected = np.tanh(view)
        Elementwise(activation("tanh"), "float32").value(view)
        np.testing.assert_allclose(view, expected, rtol=1e-6)


def leaves(x):
    sys.exit(3)


def leaves_later(x):
    return np.tanh(x) if x.size < 10 else sys.exit(0)


def closes(x):
    raise GeneratorExit


def raises_later(x):
    if x.size > 10:
        raise RuntimeError("so\nmuch")
    return np.tanh(x)


def shrinks_later(x):
    return np.tanh(x) if x.size < 10 else np.tanh(x)[:3]


def writes(x):
    x *= 0.5
    return x


@pytest.mark.parametrize(
    ("function", "declared", "said"),
    [
        (leaves, {}, "SystemExit"),
        (leaves_later, {"lipschitz": 1.0}, "SystemExit"),
        (closes, {}, "GeneratorExit"),
        (raises_later, {"lipschitz": 1.0}, "RuntimeError: so much"),
        (shrinks_later, {"lipschitz": 1.0}, "elementwise"),
        (writes, {}, "read-only"),
        (np.tanh, {"kinks": 3}, "`kinks` is 3"),
        (np.tanh, {"kinks": ("a",)}, "`kinks` is 'a'"),
        (np.tanh, {"lipschitz": "abc"}, "`lipschitz` is 'abc'"),
        (np.tanh, {"lipschitz": -1.0}, "`lipschitz` is -1"),
        (np.tanh, {"lipschitz": np.array([])}, "`lipschitz` is array"),
        (np.tanh, {"lipschitz": 0.9}, "slope reaches 1"),
        (np.tanh, {"derivative": 3}, "give a function"),
        (np.exp, {"derivative": np.tanh}, "its slope is"),
        (np.tanh, {"derivative": lambda x: np.nan * x}, "not finite real numbers"),
    ],
)
def test_own_functions_that_misbehave(function, declared, said):
    with pytest.raises(ActivationError, match=said) as caught:
        deqcli.implicit_scalars(Activation.from_function(function, name="mine", **declared), 0.1)
    assert "mine" in str(caught.value)
    assert "\n" not in str(caught.value)


class Closed:
    """Callable, and whatever else it is asked for fails."""

    def __getattr__(self, name):
        raise RuntimeError("closed")

    def __call__(self, x):
        return np.tanh(x)


class Silent(Exception):
    def __str__(self):
        raise RuntimeError("no text")


def raises_silent(x):
    raise Silent


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        ({"function": leaves_later}, "SystemExit"),
        ({"derivative": leaves_later}, "derivative of mine failed"),
        ({"function": 3}, "give a function"),
        ({"derivative": np.cosh}, "its slope is"),
        ({"kinks": None}, "`kinks` is None"),
        ({"lipschitz": "abc"}, "`lipschitz` is 'abc'"),
        ({"lipschitz": 0.01}, "slope reaches 1"),
        ({"shift": "x"}, "`shift` is 'x'"),
        ({"name": 3}, "`name` is 3"),
        ({"closed_form": "x"}, "`closed_form` is 'x'"),
    ],
)
def test_an_activation_made_by_its_constructor_is_looked_at(declared, said):
    good = {"name": "mine", "function": lambda x: np.sin(x), "derivative": np.cos}
    assert deqcli.activation(deqcli.Activation(**good)).shifted(1.0).lipschitz == math.inf
    with pytest.raises(DeqcliError, match=said) as caught:
        deqcli.Activation(**good | declared)
    assert "\n" not in str(caught.value)


def test_an_object_whose_attributes_fail_is_named():
    assert Activation.from_function(Closed()).name == "function"
    with pytest.raises(ActivationError, match=r"\(Silent: it cannot be shown\)"):
        activation(raises_silent)


@pytest.mark.parametrize("kink", [0.3, 0.5, 1.0, -2.0])
@pytest.mark.parametrize("tau0", [0.4, 1.0, 3.0])
def test_an_undeclared_kink_is_named_and_a_declared_one_is_not(kink, tau0):
    def bent(x):
        return np.maximum(x, kink)

    hidden = Activation.from_function(bent, kinks=(), lipschitz=1.0)
    with pytest.raises(ConvergenceError, match=r"'bent'.*declare its kinks"):
        deqcli.implicit_scalars(hidden, 0.1, tau0=tau0)
    honest = Activation.from_function(bent, kinks=(kink,), lipschitz=1.0)
    expected = deqcli.implicit_scalars(honest, 0.1, tau0=tau0).gamma2
    found = Activation.from_function(bent, lipschitz=1.0)
    assert deqcli.implicit_scalars(found, 0.1, tau0=tau0).gamma2 == pytest.approx(expected)
