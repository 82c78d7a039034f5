r"""How long a run will take, from runs of the same study at a fraction of its size.

All sizes are shrunk by one factor f and all counts (realizations, trials, epochs, steps) to a few.
With o the seconds of a tiny run, e found from runs at f/2 and f, and v from one with three
times the count c that is cut most,

.. math:: T = o + f^{-e}\,(F + v N / (c\, \text{jobs})), \qquad F = T(f) - o - v.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable
from typing import Any

from deqcli.errors import DeqcliError
from deqcli.settings import Settings
from deqcli.study import Study, of_settings

#: Settings by which work grows faster than in proportion, and their largest value in a trial run.
SIZES = ("n", "p", "width", "widths", "train_size", "test_size")
_SMALL = 400
#: Below this size nothing is shrunk: classes need their samples, and dimensions.
_LEAST = 32
#: Settings that say how often the same is done, and how often in a trial run.
COUNTS = {"realizations": 8, "trials": 1, "epochs": 1, "steps": 10}
#: Part of the size of a trial run at which hardly anything but its overhead is left.
_TINY = 0.1
#: A trial run that takes longer than this is the last.
_PATIENCE = 5.0


def estimate_seconds(
    study: Study[Any, Any],
    settings: Settings,
    jobs: int,
    measure: Callable[[Settings], float] | None = None,
) -> float | None:
    """Return about how many seconds a run will take, None where that cannot be told.

    On a machine that does nothing else it is right within a factor of two or so: small matrices are
    slower than their share. Data files are read.

    Parameters
    ----------
    study, settings
        What would be run.
    jobs : int
        On how many processes.
    measure : callable, optional
        From settings to seconds; by default they are run and timed.
    """
    measure = measure or _timed
    largest = max(_numbers(settings, SIZES).values(), default=_SMALL)
    factor = min(1.0, _SMALL / largest)
    try:
        measure(_shrunk(settings, _TINY * factor, 1))  # what is loaded once
        least, half = (measure(_shrunk(settings, f * factor, 1)) for f in (_TINY, 0.5))
        if half > _PATIENCE:
            return None
        once, more = (measure(_shrunk(settings, factor, times)) for times in (1, 3))
    except DeqcliError:
        return None
    per_count = max((more - once) / 2, 0.0)
    rest = max(once - least - per_count, 0.0)
    # Less than no growth is noise, more than cubic the cost of a cache.
    grown, before = max(once - least, 1e-3), max(half - least, 1e-3)
    exponent = min(max(math.log2(grown / before), 0.0), 3.0)
    times = _repetition(settings) / jobs
    return least + (1 / factor) ** exponent * (rest + per_count * times)


def _numbers(settings: Settings, names: Any) -> dict[str, float]:
    """Return the largest value of each of some settings that there are."""
    values: dict[str, float] = {}
    fields = {field.name for field in dataclasses.fields(settings)}
    for name in fields.intersection(names):
        value = getattr(settings, name, None)
        several = value if isinstance(value, tuple) else (value,)
        counted = [entry for entry in several if isinstance(entry, int) and entry > 0]
        if counted:
            values[name] = max(counted)
    return values


def _few_counts(settings: Settings) -> dict[str, int]:
    """Return the counts of a trial run."""
    there = _numbers(settings, COUNTS)
    return {name: min(COUNTS[name], int(value)) for name, value in there.items()}


def _repetition(settings: Settings) -> float:
    """Return how many times as often a run does the same as a trial run."""
    there, few = _numbers(settings, COUNTS), _few_counts(settings)
    return math.prod(there[name] / few[name] for name in few)


def _shrunk(settings: Settings, factor: float, times: int) -> Settings:
    """Return settings of a trial run, ``times`` as many of the count that is cut most."""
    few: dict[str, Any] = dict(_few_counts(settings))
    there = _numbers(settings, COUNTS)
    if few:
        most = max(few, key=lambda name: there[name] / few[name])
        few[most] *= times

    def smaller(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(dict.fromkeys(map(smaller, value)))
        if not isinstance(value, int) or value <= 0:
            return value
        return max(round(value * factor), min(value, _LEAST))

    fields = {field.name for field in dataclasses.fields(settings)}
    sizes = {name: smaller(getattr(settings, name)) for name in SIZES if name in fields}
    return dataclasses.replace(settings, **sizes, **few)


def _timed(settings: Settings) -> float:
    from deqcli.runs.execute import run

    # Of this process alone, which other work on the machine does not change.
    started = time.process_time()
    run(settings, jobs=1)
    return (time.process_time() - started) / of_settings(settings).threads


def in_words(seconds: float) -> str:
    """Return a time as a person would say it.

    Examples
    --------
    >>> in_words(0.4), in_words(44), in_words(200), in_words(9000), in_words(400000)
    ('a second', '44 seconds', '3 minutes', '2.5 hours', '4.6 days')
    """
    if seconds < 1.5:
        return "a second"
    limits = {"seconds": (90, 1), "minutes": (5400, 60), "hours": (129600, 3600)}
    for unit, (limit, length) in limits.items():
        if seconds < limit:
            return f"{seconds / length:.{1 if length == 3600 else 0}f} {unit}"
    return f"{seconds / 86400:.1f} days"
