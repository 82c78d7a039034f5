"""Intervals mean what they say: by textbook numbers, and by how often they hold the truth."""

from __future__ import annotations

import numpy as np
import pytest

from deqcli.errors import InputError
from deqcli.quantities import (
    Claim,
    Measured,
    Printed,
    draw_interval,
    mean_interval,
    t_quantile,
    trials_to_decide,
    undecided_note,
)


@pytest.mark.parametrize(
    # Student's table.
    ("freedom", "expected"), [(1, 12.706), (2, 4.303), (4, 2.776), (9, 2.262), (30, 2.042)]
)  # fmt: skip
def test_quantiles_are_those_of_students_table(freedom, expected):
    assert t_quantile(freedom) == pytest.approx(expected, abs=5e-4)


def test_ninety_percent_is_narrower():
    assert t_quantile(2, 0.90) == pytest.approx(2.920, abs=5e-4)
    assert mean_interval([1.0, 2.0, 4.0], 0.9).spread < mean_interval([1.0, 2.0, 4.0]).spread


@pytest.mark.parametrize("count", [3, 5])
def test_intervals_hold_the_truth_in_95_of_100_runs(count):
    samples = np.random.default_rng(0).normal(3.0, 2.0, (4000, count))
    held = [abs(m.value - 3.0) <= m.spread for m in map(mean_interval, samples.tolist())]
    # Three standard errors of a share of 0.95 in 4000.
    assert np.mean(held) == pytest.approx(0.95, abs=0.0104)


def test_second_draw_lies_within_the_interval_of_a_draw_in_95_of_100_runs():
    samples = np.random.default_rng(1).normal(3.0, 2.0, (4000, 5))
    others = np.random.default_rng(2).normal(3.0, 2.0, (4000, 2))
    halves = [draw_interval(row) for row in samples.tolist()]
    assert np.mean(np.abs(np.diff(others)[:, 0]) <= halves) == pytest.approx(0.95, abs=0.0104)


def test_two_standard_errors_of_three_trials_are_no_95_percent():
    samples = np.random.default_rng(3).normal(size=(4000, 3))
    errors = samples.std(axis=1, ddof=1) / np.sqrt(3)
    assert np.mean(np.abs(samples.mean(axis=1)) <= 2 * errors) < 0.85


def test_number_of_trials_decides_and_one_fewer_does_not():
    measured = mean_interval([0.0, 1.0, 2.0])
    needed = trials_to_decide(measured, 0.5)
    halves = [t_quantile(n - 1) / np.sqrt(n) for n in (needed - 1, needed)]
    assert halves[0] >= 0.5 > halves[1]


@pytest.mark.parametrize(
    ("measured", "note"),
    [
        (Measured(1.0, None, 1), "One trial cannot decide."),
        (Measured(1.0, 2.0, 3), "5 trials like these 3 would decide."),
        (Measured(1e-9, 2.0, 3), "Not even 10000 trials would decide."),
        (Measured(0.0, 2.0, 3), "Not even 10000 trials would decide."),
        (Measured(0.5, 0.6), ""),
        (Measured(3.0, 2.0, 3), ""),
    ],
)
def test_undecided_says_what_would_decide(measured, note):
    assert undecided_note(Claim("> 0", least=0.0), measured) == note


def test_one_trial_of_something_random_decides_nothing():
    assert Claim("> 0", least=0.0).judge(Measured(5.0, None, 1)) == "undecided"
    assert Printed("5").judge(Measured(5.0, None, 1)) == "undecided"
    # Where nothing is random there is no count.
    assert Claim("> 0", least=0.0).judge(Measured(5.0)) == "agrees"


def test_bad_values():
    with pytest.raises(InputError, match="no value"):
        mean_interval([])
    with pytest.raises(InputError, match="`values` has 1"):
        draw_interval([1.0])
