"""The estimate of a run's time, with clocks that obey known laws."""

from __future__ import annotations

import pytest

from deqcli import study
from deqcli.errors import DataError
from deqcli.runs.calibration import estimate_seconds, in_words

SPECTRUM = study.get("spectrum")


def seconds(settings, *, overhead=0.2, fixed=1e-9, each=1e-11):
    """Eigenvalues of one matrix, and networks of a width, as real ones cost."""
    return overhead + fixed * settings.n**3 + each * settings.realizations * settings.width**3


@pytest.mark.parametrize("jobs", [1, 4])
@pytest.mark.parametrize(
    "options", [{}, {"n": 3000, "p": 2000}, {"realizations": 10}, {"n": 100, "p": 90, "width": 80}]
)
def test_cubic_work_is_foretold(options, jobs):
    settings = SPECTRUM.settings.load(options)
    expected = seconds(settings)
    alone = 0.2 + 1e-9 * settings.n**3
    told = estimate_seconds(SPECTRUM, settings, jobs, seconds)
    # Sizes are rounded, and the networks share the exponent of the rest.
    assert told == pytest.approx(alone + (expected - alone) / jobs, rel=0.15)


def test_what_takes_the_same_at_any_size_does_not_grow():
    settings = SPECTRUM.settings.load({"n": 4000, "p": 4000})
    assert estimate_seconds(SPECTRUM, settings, 1, lambda _: 2.0) == pytest.approx(2.0)


def test_small_runs_are_small():
    seen = []
    settings = SPECTRUM.settings.load({"n": 4000, "p": 2000, "width": 3000, "realizations": 900})
    estimate_seconds(SPECTRUM, settings, 1, lambda small: seen.append(small) or 1.0)
    assert max(small.n for small in seen) <= 400
    assert max(small.realizations for small in seen) == 24
    # The shape stays, which the cost depends on.
    assert seen[-1].n / seen[-1].p == pytest.approx(2, rel=0.05)


@pytest.mark.parametrize("name", study.names())
def test_every_study_can_be_shrunk(name):
    chosen = study.get(name)
    settings = chosen.settings.load({"data": "gmm"} if name == "accuracy" else {})
    assert estimate_seconds(chosen, settings, 2, lambda _: 1.0) >= 1


def test_where_small_runs_fail_nothing_is_told():
    def fail(_):
        raise DataError("too small.")

    assert estimate_seconds(SPECTRUM, SPECTRUM.settings.load({}), 1, fail) is None
    assert estimate_seconds(SPECTRUM, SPECTRUM.settings.load({}), 1, lambda _: 60.0) is None


def test_a_time_in_words():
    words = [in_words(s) for s in (1, 80, 100, 5000, 6000, 100_000, 1e6)]
    assert words == [
        "a second", "80 seconds", "2 minutes", "83 minutes", "1.7 hours", "27.8 hours", "11.6 days",
    ]  # fmt: skip
