import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deqcli.data import dataset
from deqcli.errors import DataError, InputError

PIXELS = np.random.default_rng(1).integers(0, 256, (30, 7), dtype=np.uint8)
TEST = np.random.default_rng(2).integers(0, 256, (5, 7), dtype=np.uint8)


def test_centred_has_mean_zero_and_mean_squared_norm_one():
    scaling, Z = dataset.fit_transform(PIXELS, "centred")
    np.testing.assert_allclose(Z.mean(axis=0), 0, atol=1e-14)
    assert np.mean(np.sum(Z**2, axis=1)) == pytest.approx(1, rel=1e-14)
    # the same scale from the variances of the features
    assert scaling.scale**2 == pytest.approx(PIXELS.astype(float).var(axis=0).sum())
    np.testing.assert_array_equal(scaling(PIXELS), Z)


def test_unit_puts_every_sample_on_the_sphere_around_the_training_mean():
    scaling, Z = dataset.fit_transform(PIXELS, "unit")
    np.testing.assert_allclose(np.linalg.norm(Z, axis=1), 1)
    difference = TEST - PIXELS.mean(axis=0)
    expected = difference / np.linalg.norm(difference, axis=1)[:, None]
    np.testing.assert_allclose(scaling(TEST), expected)


def test_raw_changes_nothing():
    scaling, Z = dataset.fit_transform(PIXELS, "raw")
    assert Z.dtype == np.float64
    np.testing.assert_array_equal(Z, PIXELS)
    np.testing.assert_array_equal(scaling(TEST), TEST)


def test_test_samples_use_the_statistics_of_train():
    scaling, _ = dataset.fit_transform(PIXELS, "centred")
    expected = (TEST - PIXELS.mean(axis=0)) / np.sqrt(PIXELS.astype(float).var(axis=0).sum())
    np.testing.assert_allclose(scaling(TEST), expected)


def test_half_precision_features_do_not_overflow():
    X = np.full((400, 3), 300, np.float16)
    X[::2] = 0
    scaling, Z = dataset.fit_transform(X, "centred")
    assert scaling.mean.tolist() == [150, 150, 150]
    assert np.mean(np.sum(Z**2, axis=1)) == pytest.approx(1)


def test_samples_without_spread_are_refused():
    with pytest.raises(DataError, match="all the same"):
        dataset.fit_transform(np.ones((3, 2)), "centred")
    with pytest.raises(DataError, match="sample 1, which equals the mean"):
        dataset.fit_transform(np.array([[0.0], [1.0], [2.0]]), "unit")
    with pytest.raises(InputError, match="'white'; take one of centred, unit, raw"):
        dataset.fit_transform(PIXELS, "white")


def test_classes_by_number_name_and_order():
    names = ["3", "1", "cat"]
    assert dataset.pick_classes(names, None) == [0, 1, 2]
    assert dataset.pick_classes(names, ["cat", 1]) == [2, 1]  # a name goes before a number
    assert dataset.pick_classes(names, [0]) == [0]
    for wanted, complaint in (
        ([5], "no class '5'; `classes` may be 3, 1, cat"),
        (["dog"], "no class 'dog'"),
        ([-1], "no class '-1'"),
        ([1, "1"], "all different"),
        ([], "at least one"),
    ):
        with pytest.raises(InputError, match=complaint):
            dataset.pick_classes(names, wanted)


@given(st.integers(1, 6), st.integers(0, 40))
def test_balanced_shares_differ_by_at_most_one_first_classes_first(classes, extra):
    n = classes + extra
    counts = dataset.balanced(n, [50] * classes, list("abcdef")[:classes], "n")
    assert sum(counts) == n
    assert counts == sorted(counts, reverse=True)
    assert max(counts) - min(counts) <= 1


def test_too_few_samples_are_told_with_the_counts():
    with pytest.raises(
        DataError, match=r"`n` is 9, more .*5 of class a \(7 there\), 4 of class b \(3"
    ):
        dataset.balanced(9, [7, 3], ["a", "b"], "n")
    for n in (-3, 0, 1):
        with pytest.raises(DataError, match="without a sample"):
            dataset.balanced(n, [7, 3], ["a", "b"], "n")


def test_random_orders_are_nested_and_keyed_by_the_generator():
    y = np.arange(100) % 3
    one = dataset.order(y, [2, 0], "random", np.random.default_rng(4))
    two = dataset.order(y, [2, 0], "random", np.random.default_rng(4))
    other = dataset.order(y, [2, 0], "random", np.random.default_rng(5))
    assert all((a == b).all() for a, b in zip(one, two, strict=True))
    assert (one[0] != other[0]).any()
    assert [set(y[rows]) for rows in one] == [{2}, {0}]
    with pytest.raises(InputError, match="'last'; take one of random, first"):
        dataset.order(y, [0], "last", None)
