"""Activations: parsing, registry, functions of one's own."""

import math
import pickle
import textwrap

import numpy as np
import pytest

import deqcli
from deqcli.activations import PARAMETERS, REGISTRY, Activation, activation
from deqcli.errors import ActivationError, InputError
from deqcli.vocabulary import ACTIVATIONS, activation_title

NAMES = sorted(REGISTRY)
VARIANTS = [
    *NAMES,
    "lrelu:slope=0.3",
    "lrelu:slope=-2",
    "maxlin:a=0.4,b=1.2",
    "htanh:a=0.7,c=2.5",
    "elu:alpha=0.4",
    "quadratic:a2=0.5,a1=-1,a0=2",
    "cubic:a3=0.1,a2=0,a1=1,a0=-1",
    "hermite:c1=1,c2=-0.5,c3=0.25",
    "hermite:scale=2,c0=1,c4=0.5,c8=0.1",
]


# ------------------------------------------------------------------------------------- parsing


def test_every_promised_name_is_registered():
    promised = "identity tanh arctan erf sin cos relu lrelu abs htanh swish gelu softplus elu"
    assert set(promised.split()) | {"quadratic", "cubic", "hermite"} <= set(REGISTRY)
    assert set(PARAMETERS) == set(REGISTRY)
    assert tuple(REGISTRY) == ACTIVATIONS


def test_titles_are_what_people_say():
    titles = {"lrelu:slope=0.2": "Leaky ReLU", "maxlin:a=1,b=0.5": "Leaky ReLU", "tanh": "tanh",
              "htanh": "Hard Tanh", "nrelu": "normalised ReLU", "gelu": "GELU"}  # fmt: skip
    for name, title in titles.items():
        assert activation_title(activation(name).name) == activation_title(name) == title
    assert activation_title("mine") == "mine"


@pytest.mark.parametrize("spec", VARIANTS)
def test_the_name_of_an_activation_parses_back_to_it(spec):
    act = activation(spec)
    again = activation(act.name)
    x = np.linspace(-4, 4, 33)
    np.testing.assert_array_equal(again(x), act(x))
    assert again.parameters == act.parameters
    assert (again.lipschitz, again.kinks) == (act.lipschitz, act.kinks)


def test_parameters_reach_the_function():
    x = np.array([-3.0, -0.5, 0.0, 0.5, 3.0])
    np.testing.assert_array_equal(activation("lrelu:slope=0.3")(x), np.where(x > 0, x, 0.3 * x))
    np.testing.assert_array_equal(activation("htanh:c=2,a=3")(x), 3 * np.clip(x, -2, 2))
    np.testing.assert_array_equal(activation("maxlin:a=0.4,b=1.2")(x), np.maximum(0.4 * x, 1.2 * x))
    np.testing.assert_allclose(
        activation("quadratic:a2=2,a1=3,a0=5")(x), 2 * x**2 + 3 * x + 5, rtol=1e-15
    )
    np.testing.assert_allclose(
        activation("hermite:c2=3,c3=2,scale=2")(x),
        3 * ((x / 2) ** 2 - 1) / math.sqrt(2) + 2 * ((x / 2) ** 3 - 3 * x / 2) / math.sqrt(6),
        rtol=1e-14,
    )
    assert activation(" tanh ").name == "tanh"


def test_an_activation_is_its_own_spec():
    act = activation("tanh").shifted(0.3)
    assert activation(act) is act


@pytest.mark.parametrize(
    ("spec", "parts"),
    [
        ("tahn", ["'tahn'", "tanh", "did you mean"]),
        ("rleu", ["relu", "did you mean"]),
        ("zzzzzz", ["known are", "tanh", "relu", "package.module:function"]),
        ("lrelu:slop=0.3", ["lrelu", "slop=0.3", "slope"]),
        ("lrelu:slope", ["lrelu", "slope"]),
        ("lrelu:slope=nan", ["slope", "finite", "nan"]),
        ("lrelu:slope=steep", ["slope", "finite", "steep"]),
        ("tanh:a=1", ["tanh", "no parameter"]),
        ("htanh:c=0", ["htanh", "`c` is"]),
        ("htanh:c=-1", ["htanh", "`c` is"]),
        ("hermite:scale=0,c1=1", ["`scale` is 0"]),
        ("hermite:c9=1", ["hermite", "c9"]),
        ("", ["unknown activation"]),
    ],
)
def test_bad_names_and_parameters_say_what_is_wrong(spec, parts):
    with pytest.raises(ActivationError) as caught:
        activation(spec)
    message = str(caught.value)
    for part in parts:
        assert part in message
    assert isinstance(caught.value, InputError)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("thing", [int, 3, None])
def test_what_is_no_activation_is_told_what_one_is(thing):
    with pytest.raises(ActivationError, match="a name, a function or an Activation"):
        activation(thing)


# ------------------------------------------------------------------------------------ registry


def _away_from_kinks(act):
    x = np.linspace(-5, 5, 401) + 0.00123
    for kink in act.kinks:
        x = x[np.abs(x - kink) > 0.05]
    return x


@pytest.mark.parametrize("spec", VARIANTS)
def test_derivatives_are_derivatives(spec, tol):
    act = activation(spec)
    x, h = _away_from_kinks(act), 1e-2
    stencil = {-3: -1 / 60, -2: 3 / 20, -1: -3 / 4, 1: 3 / 4, 2: -3 / 20, 3: 1 / 60}
    slope = sum(c * act(x + k * h) for k, c in stencil.items()) / h
    scale = max(1.0, np.abs(slope).max())
    np.testing.assert_allclose(act.derivative(x), slope, rtol=0, atol=tol("difference") * scale)


@pytest.mark.parametrize("spec", VARIANTS)
def test_kinks_are_declared_and_real(spec):
    """At a declared kink the slope or the curvature jumps; elsewhere the slope is continuous."""
    act = activation(spec)
    x = np.linspace(-5, 5, 100001)
    jump = np.abs(np.diff(act.derivative(x)))
    smooth = np.abs(act.derivative(x)).max() * 1e-2
    where = x[:-1][jump > smooth]
    for at in where:
        assert min(abs(at - k) for k in act.kinks) < 1e-3


@pytest.mark.parametrize("spec", VARIANTS)
def test_lipschitz_constants_are_the_steepest_slope(spec):
    act = activation(spec)
    if math.isinf(act.lipschitz):
        assert np.abs(act.derivative(np.array([1e6]))).max() > 1e4
        return
    x = np.concatenate([np.linspace(-50, 50, 200001), [0.0, math.sqrt(2), 2.3993572805154186]])
    steepest = np.abs(act.derivative(x)).max()
    assert steepest <= act.lipschitz * (1 + 1e-14)
    assert steepest >= act.lipschitz * (1 - 1e-12)


@pytest.mark.parametrize("spec", VARIANTS)
def test_single_precision_stays_single(spec, tol):
    act = activation(spec).shifted(0.37)
    double = np.linspace(-4, 4, 25) + 0.01
    single = double.astype(np.float32)
    for function in (act, act.function, act.derivative):
        value = function(single)
        assert value.dtype == np.float32, function
        exact = function(single.astype(np.float64))
        np.testing.assert_allclose(
            value, exact, rtol=tol("float32"), atol=tol("float32") * np.abs(exact).max()
        )


@pytest.mark.parametrize("spec", VARIANTS)
def test_whole_numbers_are_taken_as_real(spec):
    act, x = activation(spec), np.array([-3, -1, 2, 5])
    np.testing.assert_array_equal(act(x), act(x.astype(float)))
    np.testing.assert_array_equal(act.derivative(x), act.derivative(x.astype(float)))


@pytest.mark.parametrize("spec", VARIANTS)
def test_shapes_are_kept(spec):
    act = activation(spec).shifted(0.2)
    for shape in ((), (1,), (2, 3), (2, 0, 3)):
        x = np.full(shape, 0.7)
        assert np.shape(act(x)) == shape
        assert np.shape(act.derivative(x)) == shape


@pytest.mark.parametrize("spec", VARIANTS)
def test_activations_survive_a_pickle_and_have_a_hash(spec):
    act = activation(spec).shifted(0.25)
    again = pickle.loads(pickle.dumps(act))
    x = np.linspace(-3, 3, 7)
    np.testing.assert_array_equal(again(x), act(x))
    np.testing.assert_array_equal(again.derivative(x), act.derivative(x))
    assert again == act
    assert hash(again) == hash(act)


@pytest.mark.parametrize("spec", VARIANTS)
def test_extreme_arguments_give_no_nan(spec):
    act = activation(spec)
    with np.errstate(over="ignore", under="ignore"):
        if math.isfinite(act.lipschitz):
            x = np.array([-1e300, -1e5, -800.0, -0.0, 800.0, 1e5, 1e300])
            assert np.isfinite(act.derivative(x)).all()
            assert np.isfinite(act(x)).all()


def test_shifts_replace_each_other_and_move_the_value_only():
    base = activation("softplus")
    x = np.linspace(-2, 2, 9)
    once = base.shifted(0.5)
    np.testing.assert_array_equal(once(x), base(x) - 0.5)
    assert once.shifted(0.2).shift == 0.2
    assert once.shifted(0.0) == base
    np.testing.assert_array_equal(once.derivative(x), base.derivative(x))
    assert base.shift == 0.0


def test_centring_ignores_an_earlier_shift():
    plain = activation("swish").centred(0.1, 0.9, 1.0)
    assert activation("swish").shifted(7.0).centred(0.1, 0.9, 1.0).shift == plain.shift


# ------------------------------------------------------------------------- functions of one's own


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A module in the current folder, with functions that declare more or less."""
    (tmp_path / "my_own_activations.py").write_text(
        textwrap.dedent(
            """
            import numpy as np
            from deqcli.activations import Activation

            def plain(x):
                return np.tanh(2 * x)

            def bent(x):
                return np.maximum(x, 0) - 0.5 * np.maximum(x - 1, 0)

            bent.kinks = (1, 0)

            def full(x):
                return np.abs(x)

            full.kinks = (0,)
            full.derivative = np.sign
            full.lipschitz = 1

            def total(x):
                return np.sum(x)

            def flat(x):
                return np.ravel(x)

            def undefined(x):
                return np.sqrt(np.where(x < 0, np.nan, x))

            def scalar_only(x):
                return 1.0 if x > 0 else 0.0

            def bad_slope(x):
                return np.tanh(x)

            bad_slope.derivative = lambda x: 1.0

            number = 3.0
            ready = Activation("ready", np.sin, np.cos, lipschitz=1.0)

            class Closed:
                def __getattr__(self, name):
                    raise RuntimeError("closed")

                def __call__(self, x):
                    return x

            closed = Closed()
            """
        )
    )
    (tmp_path / "my_broken_module.py").write_text("def f(x:\n")
    (tmp_path / "my_needy_module.py").write_text("import no_such_module_anywhere\n")
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("module")
def test_a_function_from_the_current_folder(tol):
    act = activation("my_own_activations:plain")
    x = np.linspace(-3, 3, 50)
    assert act.name == "my_own_activations:plain"
    np.testing.assert_array_equal(act(x), np.tanh(2 * x))
    slope = 2 - 2 * np.tanh(2 * x) ** 2
    np.testing.assert_allclose(
        act.derivative(x), slope, rtol=0, atol=30 * tol("numerical derivative")
    )
    assert act.lipschitz == pytest.approx(2, abs=1e-8)
    assert act.kinks == ()


@pytest.mark.usefixtures("module")
def test_declared_derivative_kinks_and_lipschitz_are_used():
    act = activation("my_own_activations:full")
    assert act.derivative.function is np.sign
    assert (act.kinks, act.lipschitz) == ((0.0,), 1.0)
    assert activation("my_own_activations:bent").kinks == (0.0, 1.0)
    assert activation("my_own_activations:ready").name == "my_own_activations:ready"


@pytest.mark.usefixtures("module")
def test_numerical_derivative_next_to_kinks(tol):
    act = activation("my_own_activations:bent")
    near = np.array([0, 1e-12, 1e-6, 1e-4, 1e-3, 1.9e-3, 2.1e-3, 0.3])
    x = np.concatenate([-near[1:], near, 1 - near[1:], 1 + near])
    expected = np.where(x < 0, 0.0, np.where(x < 1, 1.0, 0.5))
    np.testing.assert_allclose(
        act.derivative(x), expected, rtol=0, atol=tol("numerical derivative")
    )


def test_numerical_derivative_next_to_a_kink_of_a_curved_function(tol):
    act = Activation.from_function(lambda x: np.where(x < 0.5, np.sin(x), np.cos(x)), kinks=(0.5,))
    x = 0.5 + np.concatenate([-np.geomspace(1e-9, 1, 40), np.geomspace(1e-9, 1, 40)])
    expected = np.where(x < 0.5, np.cos(x), -np.sin(x))
    np.testing.assert_allclose(
        act.derivative(x), expected, rtol=0, atol=tol("numerical derivative")
    )


@pytest.mark.usefixtures("module")
@pytest.mark.parametrize(
    ("spec", "parts"),
    [
        ("my_own_activations:total", ["shape ()", "(2, 3)", "elementwise"]),
        ("my_own_activations:flat", ["shape (6,)", "(2, 3)", "elementwise"]),
        ("my_own_activations:undefined", ["not finite"]),
        ("my_own_activations:scalar_only", ["ValueError", "array"]),
        ("my_own_activations:bad_slope", ["derivative", "shape ()"]),
        ("my_own_activations:closed", ["RuntimeError: closed"]),
        ("my_own_activations:missing", ["no 'missing'"]),
        ("my_own_activations:number", ["not a function"]),
        ("no_such_module_at_all:f", ["no_such_module_at_all", "current folder"]),
        ("my_broken_module:f", ["SyntaxError", "my_broken_module"]),
        ("my_needy_module:f", ["no_such_module_anywhere"]),
    ],
)
def test_functions_that_misbehave_are_named(spec, parts):
    with pytest.raises(ActivationError) as caught:
        activation(spec)
    for part in parts:
        assert part in str(caught.value)


@pytest.mark.usefixtures("module")
def test_the_python_path_is_left_as_it_was():
    import sys

    before = list(sys.path)
    activation("my_own_activations:plain")
    with pytest.raises(ActivationError):
        activation("my_own_activations:missing")
    assert sys.path == before


@pytest.mark.parametrize(
    ("function", "lipschitz"),
    [
        (np.tanh, 1.0),
        (lambda x: 3 * np.sin(x), 3.0),
        (lambda x: x**2, math.inf),
        (np.exp, math.inf),
        # A difference that stops at a kink does not see that the function jumps there.
        (np.sign, math.inf),
        (lambda x: np.where(x > 0, x + 1e-3, x), math.inf),
        (np.abs, 1.0),
        (lambda x: np.where(x > 0, x, 0.1 * x), 1.0),
    ],
)
def test_lipschitz_constants_found_on_a_grid(function, lipschitz):
    act = Activation.from_function(function, kinks=(0.0,))
    assert act.lipschitz == pytest.approx(lipschitz, rel=1e-6)


@pytest.mark.parametrize(
    ("function", "kinks"),
    [
        (lambda x: np.maximum(x, 0), (0.0,)),
        (np.sign, (0.0,)),
        (lambda x: np.clip(x, 0, 6), (0.0, 6.0)),
        (lambda x: x * np.clip(x + 3, 0, 6) / 6, (-3.0, 3.0)),
        (lambda x: np.abs(x - np.pi), (3.14159265,)),
        (lambda x: np.tanh(50 * x), ()),
        (lambda x: np.sin(200 * x), ()),
        (lambda x: np.tanh(x.astype("f4")), ()),
        (lambda x: 0 * x, ()),
        (lambda x: 1e200 * x, ()),
    ],
)
def test_kinks_of_a_plain_function_are_found(function, kinks):
    assert activation(function).kinks == pytest.approx(kinks, abs=1e-7)


def test_a_plain_function_is_as_good_as_its_name():
    """Where the kinks are found the integrals are those of the registry."""
    named, own = activation("htanh:a=1,c=2"), activation(lambda x: np.clip(x, -2, 2))
    assert own.lipschitz == pytest.approx(named.lipschitz)
    X = np.random.default_rng(0).standard_normal((5, 4))
    expected = deqcli.implicit_kernels(X, named, 0.2, 0.8).ck
    np.testing.assert_allclose(deqcli.implicit_kernels(X, own, 0.2, 0.8).ck, expected, atol=1e-10)
    assert activation(np.abs) == activation("abs")


def test_a_function_with_too_many_kinks_is_told_so():
    with pytest.raises(ActivationError, match=r"jumps at \d+ places"):
        activation(lambda x: np.floor(9 * x))
    assert activation(lambda x: np.floor(9 * x), kinks=(0.0,), lipschitz=np.inf).kinks == (0.0,)


def test_a_name_knows_its_own_facts():
    with pytest.raises(ActivationError, match="knows its own; leave it out"):
        activation("tanh", kinks=(0.0,))
