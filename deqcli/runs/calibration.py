r"""How long a run will take: the work that its settings mean, at the speed of two small runs.

A study counts its work W in multiplications (:meth:`deqcli.study.Study.work`). Two runs of it with
smaller sizes and counts, of :math:`W_1` and about :math:`W_1/4`, give the speed v without what
every run costs besides:

.. math:: v = \frac{W_1 - W_2}{t_1 - t_2}, \qquad T = t_s + t_0 + t_1 + (W/\text{jobs} - W_1)/v,

where :math:`t_0` is what either takes longer at first than when it is done again: reading data,
fitting a twin; and :math:`t_s` is for what no trial run does, to start Python and to draw a figure.
Several processes start, and prepare the same, after the one that asks for them: both count twice.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from typing import Any

from deqcli.errors import DeqcliError
from deqcli.settings import Settings
from deqcli.study import Study, of_settings

#: Settings by which work grows faster than in proportion; below the least of them, nothing is
#: shrunk: classes need their samples, and dimensions.
SIZES = ("n", "p", "width", "widths", "train_size", "test_size")
_LEAST = 32
#: Sizes of which none, or 0, stands for all there are, and by what the number of all samples is
#: divided for a trial run: image data have five or six times as many training as test samples.
ALL = {"n": 1, "train_size": 1, "test_size": 6}
#: Settings that say how often the same is done, and how often in a trial run.
COUNTS = {"realizations": 8, "trials": 1, "epochs": 1, "steps": 10}
#: Settings that list what is done one after the other; trial runs have the last, or two. Of
#: values of an axis that is a size it is the largest, most of the work, and scaled like any size.
LISTS = ("ratio", "mean_norm", "values")
#: Seconds to start Python with its libraries, and to draw a figure.
BESIDES = 1.5
# Data that take less than this part of a trial run to prepare need no second run to be told apart.
_LITTLE = 0.2
#: Work of a trial run: about a second.
_TRIAL = 2e10


def estimate_seconds(
    study: Study[Any, Any],
    settings: Settings,
    jobs: int,
    measure: Callable[[Settings], float] | None = None,
) -> float | None:
    """Return about how many seconds a run will take, None where that cannot be told.

    On a machine that does nothing else it is right within a factor of two. Data files are read.

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
    work = study.work(settings)
    if work <= 0:
        return None
    # Some equations are as much work at any size: a trial run has few, and more than those alone.
    least = study.work(_shrunk(settings, 0.0, 1))
    listed = 2 if study.work(_shrunk(settings, 0.0, 2)) < 2 * _TRIAL else 1
    larger = _shrunk_to(study, settings, least + _TRIAL, listed)
    smaller = _shrunk_to(study, settings, least + (study.work(larger) - least) / 4, 1)
    try:
        # Each twice: what is prepared once, such as real data and their law, says nothing of speed.
        first = measure(smaller)
        before = measure(smaller)
        after = at_first = measure(larger)
        if first - before > _LITTLE * before:
            after = measure(larger)
    except DeqcliError:
        return None
    done, less = study.work(larger), study.work(smaller)
    # The same work, or noise, says nothing of the speed but that it is at least this.
    gained = after - before if done > less and after > 1.1 * before else after
    speed = (done - less if gained != after else done) / max(gained, 1e-6)
    once = BESIDES + max(first - before, at_first - after, 0.0)
    return (once if jobs == 1 else 2 * once) + after + max(work / jobs - done, 0.0) / speed


def _shrunk_to(study: Study[Any, Any], settings: Settings, work: float, listed: int) -> Settings:
    """Return settings with few counts, and sizes so much smaller that their work is about this."""
    low, high = 0.0, 1.0
    best = _shrunk(settings, high, listed)
    if study.work(best) <= work:
        return best
    for _ in range(12):
        middle = 0.5 * (low + high)
        best = _shrunk(settings, middle, listed)
        low, high = (middle, high) if study.work(best) < work else (low, middle)
    return best


def _shrunk(settings: Settings, factor: float, listed: int) -> Settings:
    """Return settings with all sizes times a factor, few counts and so many entries of lists."""
    smaller = dataclasses.replace(settings)
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        if field.name in SIZES:
            if field.name in ALL and not value and factor < 1:
                value = _all_there_are(settings) // ALL[field.name]
            value = _scaled(value, factor)
        elif field.name == "values" and getattr(settings, "against", None) in SIZES:
            value = (float(_scaled(int(max(value)), factor)),)
        elif field.name in LISTS and isinstance(value, tuple):
            value = value[-listed:]
        elif field.name in COUNTS and isinstance(value, int):
            value = min(value, COUNTS[field.name])
        # Past the checks, as a whole: sizes belong together, and a run checks what it is given.
        object.__setattr__(smaller, field.name, value)
    return smaller


def _all_there_are(settings: Any) -> int:
    """Return how many samples a run has that takes all."""
    return int(settings.law(getattr(settings, "p", None)).shape(settings.n)[0])


def _scaled(value: Any, factor: float) -> Any:
    if isinstance(value, tuple):
        return tuple(dict.fromkeys(_scaled(entry, factor) for entry in value))
    if not isinstance(value, int) or value <= 0:
        return value
    return max(round(value * factor), min(value, _LEAST))


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
