"""Noise floors: what two independent averages are apart, from one average alone."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from deqcli.averaging import average, chunks, compare
from deqcli.equivalents import operator_distance
from deqcli.finite.explicit import sum_explicit

X = np.random.default_rng(0).normal(size=(60, 80)) / np.sqrt(80)


def parts(seed, count=24, size=4, lost=()):
    def stream(index):
        return np.random.default_rng([seed, index])

    def load(start):
        good = [i not in lost for i in range(start, start + size)]
        indices = [i for i in range(start, start + size) if i not in lost]
        return {"sum": sum_explicit(X, ["relu"], 50, indices, stream), "converged": np.array(good)}

    return [partial(load, start) for start in range(0, count, size)]


@pytest.mark.parametrize("lost", [(), (0, 1, 2, 3, 9)])
def test_floor_is_the_distance_of_two_averages(lost):
    # One average foretells how far others are apart, and compare how far they are from each other.
    averages = [average(parts(seed, lost=lost)) for seed in range(20)]
    apart = np.mean(
        [
            operator_distance(a.mean, b.mean)
            for a, b in zip(averages[::2], averages[1::2], strict=True)
        ]
    )
    floors = np.mean([a.floor() for a in averages])
    assert floors == pytest.approx(apart, rel=0.1)


def test_compared_averages_of_one_kernel_are_no_farther_apart_than_their_floor():
    found = compare(parts(1), parts(2))
    assert found["distance"] == pytest.approx(found["noise_floor"], rel=0.3)
    assert found["deq_noise_floor"] == pytest.approx(found["twin_noise_floor"], rel=0.3)


def test_floor_falls_with_the_root_of_the_networks():
    few, many = (average(parts(3, count)).floor() for count in (8, 128))
    assert few / many == pytest.approx(4.0, rel=0.25)


def test_one_network_has_no_floor_and_lost_ones_are_left_out():
    one = average(parts(0, count=1, size=1))
    assert one.noise is None
    assert one.floor() is None
    whole, rest = average(parts(0)), average(parts(0, lost=(5,)))
    missing = sum_explicit(X, ["relu"], 50, [5], lambda i: np.random.default_rng([0, i]))
    assert rest.mean == pytest.approx((24 * whole.mean - missing) / 23, rel=1e-9)
    # Of two halves one is empty.
    assert average(parts(0, count=8, lost=range(4, 8))).noise is None


@pytest.mark.parametrize(
    ("realizations", "n"), [(2, 100), (19, 100), (400, 800), (400, 6000), (7, 6000)]
)
def test_chunks_hold_all_and_make_two_halves(realizations, n):
    known = chunks(realizations, n)
    assert [start for start, _ in known[1:]] == [stop for _, stop in known[:-1]]
    assert (known[0][0], known[-1][1]) == (0, realizations)
    assert len(known) >= 2
