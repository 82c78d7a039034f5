"""Bad input gets one sentence from a named exception, and never a silent NaN."""

import math

import numpy as np
import pytest

import deqcli
from deqcli.activations import Activation
from deqcli.errors import (
    ActivationError,
    ConvergenceError,
    DataError,
    ExistenceError,
    InputError,
    OutsidePapersRangeWarning,
)

GOOD = np.array([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]])


def with_entry(value):
    X = GOOD.copy()
    X[1, 0] = value
    return X


class Attached:
    """Like a tensor of torch that is learned."""

    def __array__(self, *_args, **_named):
        raise RuntimeError("call detach() first")


@pytest.mark.parametrize(
    ("X", "said"),
    [
        (Attached(), ["numeric", "call detach() first"]),
        (np.ma.masked_equal(GOOD, 0.5), ["`X` has 2 masked entries"]),
        (with_entry(np.nan), ["not finite", "row 1", "column 0"]),
        (with_entry(np.inf), ["not finite", "row 1"]),
        (with_entry(1e120), ["too large to square"]),
        (np.zeros(3), ["shape (3,)", "(samples, features)"]),
        (np.zeros((2, 2, 2)), ["shape (2, 2, 2)"]),
        (np.zeros((3, 0)), ["shape (3, 0)"]),
        (np.zeros((1, 4)), ["1 sample", "at least 2"]),
        (np.zeros((0, 4)), ["0 sample"]),
        ([["a", "b"], ["c", "d"]], ["numeric"]),
        ([[1.0], [1.0, 2.0]], ["numeric"]),
        (GOOD + 1j, ["complex"]),
        (None, ["numeric", "shape"]),
    ],
)
def test_data(X, said):
    for make in (
        lambda: deqcli.implicit_kernels(X, "tanh", 0.1),
        lambda: deqcli.explicit_kernels(X, ["tanh"]),
    ):
        with pytest.raises(DataError) as caught:
            make()
        message = str(caught.value)
        assert (
            any(part in message for part in said)
            if X is None
            else all(part in message for part in said)
        )
        assert caught.value.exit_code == 2
        assert isinstance(caught.value, ValueError)


def test_two_sets_must_have_the_same_features():
    with pytest.raises(DataError, match="`X` has 2 features and `Y` has 3"):
        deqcli.implicit_kernels(GOOD, "tanh", 0.1, Y=np.zeros((4, 3)))
    with pytest.raises(DataError, match="`Y` has 1 entries that are not finite"):
        deqcli.explicit_kernels(GOOD, ["tanh"], Y=with_entry(np.nan))


@pytest.mark.parametrize(
    ("sigma_a2", "sigma_b2", "said"),
    [
        (-0.1, 0.9, "sigma_a2"),
        (math.nan, 0.9, "sigma_a2"),
        (0.1, -0.9, "sigma_b2"),
        (0.1, math.nan, "sigma_b2"),
    ],
)
def test_variances(sigma_a2, sigma_b2, said):
    with pytest.raises(InputError, match=said):
        deqcli.implicit_kernels(GOOD, "tanh", sigma_a2, sigma_b2)


def test_outside_existence_the_bound_is_named():
    with pytest.raises(ExistenceError, match=r"`sigma_a2` is 1.5, .*1/L\^2 = 1\b"):
        deqcli.implicit_kernels(GOOD, "relu", 1.5, 1.0)
    with pytest.raises(ExistenceError, match="no finite Lipschitz"):
        deqcli.implicit_kernels(GOOD, "cubic", 0.1)


def test_outside_the_papers_range_there_is_a_warning_and_an_answer():
    with pytest.warns(OutsidePapersRangeWarning, match="0.25"):
        k = deqcli.implicit_kernels(GOOD, "relu", 0.5)
    assert np.isfinite(k.ntk).all()


def test_unknown_names():
    with pytest.raises(ActivationError, match="did you mean tanh"):
        deqcli.implicit_kernels(GOOD, "tahn", 0.1)
    k = deqcli.implicit_kernels(GOOD, "tanh", 0.1)
    for ask in (lambda: k.compute("nkt"), lambda: list(k.blocks("nkt"))):
        with pytest.raises(InputError, match=r"`kernel` is 'nkt'; did you mean ntk"):
            ask()
    e = deqcli.explicit_kernels(GOOD, ["tanh"])
    with pytest.raises(InputError, match="ck and ntk"):
        e.compute("preactivation_ck")
    with pytest.raises(InputError, match="`rows` is 0; give a whole number at least 1"):
        list(e.blocks("ck", 0))
    with pytest.raises(InputError, match="`rows` is 0; give a whole number at least 1"):
        list(k.blocks("ck", 0))


def test_a_network_needs_a_layer():
    with pytest.raises(InputError, match="at least one activation"):
        deqcli.explicit_kernels(GOOD, [])


def test_an_activation_of_the_wrong_shape():
    with pytest.raises(ActivationError, match="elementwise"):
        Activation.from_function(lambda x: x.sum(axis=-1))


@pytest.mark.parametrize("kinks", [(), (4.0,)])
def test_an_activation_that_breaks_far_out_gives_no_silent_nan(kinks):
    holed = Activation.from_function(
        lambda x: np.where(x > 4, np.nan, x), np.ones_like, kinks, lipschitz=1.0, name="holed"
    )
    with pytest.raises(InputError, match=r"'holed'.*not finite"):
        _ = deqcli.explicit_kernels(GOOD, [holed]).ck
    with pytest.raises(InputError, match=r"'holed'.*not finite"):
        _ = deqcli.implicit_kernels(GOOD, holed, 0.1).ck


def test_a_kink_that_was_declared_away_is_found():
    hidden = Activation.from_function(
        lambda x: np.maximum(x, 0), kinks=(), lipschitz=1.0, name="hidden"
    )
    with pytest.raises(ConvergenceError, match=r"'hidden'.*declare its kinks"):
        _ = deqcli.implicit_kernels(GOOD, hidden, 0.1).ck
