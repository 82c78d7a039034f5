"""The estimate of a run's time, with clocks that obey known laws."""

from __future__ import annotations

import copy

import pytest

from deqcli import study
from deqcli.errors import DataError
from deqcli.runs.calibration import BESIDES, COUNTS, SIZES, estimate_seconds, in_words

SPECTRUM = study.get("spectrum")


def clock(settings):
    """A machine of 2e10 multiplications a second that takes a fifth of a second besides."""
    return 0.2 + study.of_settings(settings).work(settings) / 2e10


@pytest.mark.parametrize("jobs", [1, 4])
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("spectrum", {}),
        ("spectrum", {"n": 3000, "p": 2000, "realizations": 10, "kernel": "ntk"}),
        ("spectrum", {"estimator": "exact", "n": 5000}),
        ("error-vs-n", {}),
        ("visible", {"n": 2000}),
        ("predict", {}),
        ("match", {"n": 6000, "p": 5000}),
        ("accuracy", {"data": "gmm"}),
        ("accuracy", {"data": "gmm", "limit": "linearised", "trials": 2}),
        ("flow", {"data": "gmm", "n": 500, "p": 600}),
        ("errata", {}),
    ],
)
def test_work_at_a_steady_speed_is_foretold(name, options, jobs):
    chosen = study.get(name)
    settings = chosen.settings.load(options)
    work = chosen.work(settings) / 2e10
    assert work > 3
    told = estimate_seconds(chosen, settings, jobs, clock)
    # Several processes start after the one that asks for them.
    starts = BESIDES if jobs == 1 else 2 * BESIDES
    assert told == pytest.approx(starts + 0.2 + work / jobs, rel=1e-6)


def test_a_run_that_is_small_itself_is_what_was_measured():
    settings = SPECTRUM.settings.load({"n": 60, "p": 50, "width": 40, "realizations": 4})
    told = estimate_seconds(SPECTRUM, settings, 1, clock)
    assert told == pytest.approx(BESIDES + clock(settings))


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("accuracy", {"train_size": 0, "test_size": 0, "widths": (64, 256), "nets": "deq",
                      "trials": 1, "epochs": 4, "limit": "regression"}),
        ("accuracy", {"train_size": 0, "test_size": 0, "limit": "none", "widths": 1024}),
        ("spectrum", {"n": None, "estimator": "exact"}),
    ],
)  # fmt: skip
def test_small_runs_of_all_of_a_data_set_have_few_samples(name, options):
    seen = []
    chosen = study.get(name)
    settings = chosen.settings.load({"data": "mnist", **options})
    estimate_seconds(chosen, settings, 1, lambda small: seen.append(small) or clock(small))
    for small in seen:
        assert 32 <= small.n < 20_000
        assert getattr(small, "test_size", 32) in range(32, 10_001)
        assert chosen.work(small) < 5e10


def test_small_runs_are_small_and_of_the_same_shape():
    seen = []
    settings = SPECTRUM.settings.load({"n": 4000, "p": 2000, "width": 3000, "realizations": 900})
    estimate_seconds(SPECTRUM, settings, 1, lambda small: seen.append(small) or 1.0)
    # The smaller twice, which tells that nothing is prepared once.
    assert len(seen) == 3
    assert max(SPECTRUM.work(small) for small in seen) < 2.2e10
    assert max(small.realizations for small in seen) == 8
    assert seen[-1].n / seen[-1].p == pytest.approx(2, rel=0.05)


def test_more_of_everything_is_more_work():
    for name in study.names():
        chosen = study.get(name)
        settings = chosen.settings.load({"data": "gmm"} if name == "accuracy" else {})
        most = chosen.work(settings)
        for field in (*COUNTS, *SIZES):
            if isinstance(vars(settings).get(field), int):
                doubled = copy.copy(settings)
                object.__setattr__(doubled, field, 2 * getattr(settings, field))
                assert chosen.work(doubled) >= most, (name, field)


@pytest.mark.parametrize("name", study.names())
def test_every_study_can_be_shrunk(name):
    chosen = study.get(name)
    settings = chosen.settings.load({"data": "gmm"} if name == "accuracy" else {})
    told = estimate_seconds(chosen, settings, 2, lambda small: type(small)(**vars(small)) and 1.0)
    assert told is not None


def test_where_small_runs_fail_nothing_is_told():
    def fail(_):
        raise DataError("too small.")

    assert estimate_seconds(SPECTRUM, SPECTRUM.settings.load({}), 1, fail) is None
    match = study.get("match")
    assert estimate_seconds(match, match.settings.load({"tau0": 1.0}), 1, fail) is None


def test_a_time_in_words():
    words = [in_words(s) for s in (1, 80, 100, 5000, 6000, 100_000, 1e6)]
    assert words == [
        "a second", "80 seconds", "2 minutes", "83 minutes", "1.7 hours", "27.8 hours", "11.6 days",
    ]  # fmt: skip


def test_what_is_prepared_once_is_counted_once():
    settings = SPECTRUM.settings.load({})
    seen = []

    def first_is_slow(small):
        seen.append(small)
        return clock(small) + (3.0 if len(seen) == 1 else 0.0)

    told = estimate_seconds(SPECTRUM, settings, 1, first_is_slow)
    assert told == pytest.approx(BESIDES + 3.2 + SPECTRUM.work(settings) / 2e10)
    # The larger twice as well, to know its speed.
    assert len(seen) == 4


def test_what_takes_longer_to_prepare_for_larger_sizes_is_counted_as_it_is_there():
    settings = SPECTRUM.settings.load({})
    seen = []

    def at_first(small):
        seen.append(small)
        return clock(small) + (0.0 if seen.count(small) > 1 else small.n / 100)

    told = estimate_seconds(SPECTRUM, settings, 2, at_first)
    once, work = BESIDES + seen[-1].n / 100, SPECTRUM.work(settings) / 2e10
    assert told == pytest.approx(2 * once + 0.2 + work / 2)


def test_trial_runs_of_a_size_as_the_axis_have_its_largest_value_scaled():
    """Networks of 3200 neurons are most of the default's time: the narrowest say nothing of it."""
    predict, seen = study.get("predict"), []
    settings = predict.settings.load({})
    estimate_seconds(predict, settings, 1, lambda small: seen.append(small) or 1.0)
    for small in seen:
        (width,) = small.values
        assert width / small.n == pytest.approx(max(settings.values) / settings.n, rel=0.05)


@pytest.mark.parametrize("name", ["visible", "predict"])
def test_trial_runs_solve_few_equations(name):
    """Laws and predictions are as slow for small sizes as for large ones."""
    chosen, seen = study.get(name), []
    settings = chosen.settings.load({})
    estimate_seconds(chosen, settings, 1, lambda small: seen.append(small) or 1.0)
    assert len(seen) == 3
    for small in seen:
        assert chosen.work(small) < 0.2 * chosen.work(settings)
