"""What GEN says of training an implicit layer, as quantities of a table of ``deqcli flow``."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from deqcli.errors import InputError
from deqcli.quantities import Claim, Finished, Measured, Quantity, mean_interval

if TYPE_CHECKING:
    import pandas as pd

#: The two linearised paths: of the method used, whose peaks and slope have no suffix, and GEN's.
PATHS = {"": "the linearised descent", "_flow": "GEN's û(t)"}
# What a longer, wider or larger run may change.
_LENGTH = ("n", "widths", "steps")


def _by_trial(
    table: pd.DataFrame, width: Callable[[Any], int], measure: Callable[[pd.DataFrame], float]
) -> dict[Any, float]:
    """Return a measure of each trial at one width, ``min`` or ``max`` of those there are."""
    chosen = table[table["width"] == width(table["width"])]
    return {trial: float(measure(rows)) for trial, rows in chosen.groupby("trial")}


def _before_stop(run: Finished) -> pd.DataFrame:
    """Return the rows without those at which a run was lost."""
    return run.table[run.table["status"] == "ok"]


def _mean(values: Mapping[Any, float]) -> Measured:
    return mean_interval([value for value in values.values() if not math.isnan(value)])


def _end(run: Finished, key: str) -> Measured:
    """Return the last value of a column, over the trials of the largest width."""
    return _mean(_by_trial(_before_stop(run), max, lambda rows: rows[key].dropna().iloc[-1]))


def _largest(run: Finished, key: str) -> Measured:
    """Return the largest value of a column, the row where a run stopped included."""
    return _mean(_by_trial(run.table, max, lambda rows: rows[key].max()))


def _end_over_start(run: Finished, key: str) -> Measured:
    """Return the last value of a column over its first, at the largest width."""

    def ratio(rows: pd.DataFrame) -> float:
        values = rows[key].dropna()
        if values.iloc[0] == 0:
            raise InputError(f"{key} is 0 at the start")
        return float(values.iloc[-1] / values.iloc[0])

    return _mean(_by_trial(_before_stop(run), max, ratio))


def _path_slope(run: Finished, suffix: str) -> Measured:
    """Return the fitted slope of the peaks against the width, with the trials' own for interval."""
    from deqcli.studies.error_vs_n import fitted_slope

    value = run.findings[f"slope{suffix}"]
    if value is None:
        raise InputError("there are no two widths with a distance to fit")
    rows = run.table.drop_duplicates(["width", "trial"])
    rows = rows.rename(columns={"n": "samples", "width": "n", f"peak{suffix}": "error"})
    return fitted_slope(rows.dropna(subset="error"), value)


def _narrow_over_wide(run: Finished, key: str) -> Measured:
    """Return a loss of the narrowest over that of the widest, at the last time that all runs have.

    Runs have steps of their own and may stop early. Between two times at which it was measured a
    loss is taken to fall exponentially. Ratios are within a trial, whose widths share samples.
    """
    import numpy as np

    good = _before_stop(run).dropna(subset=key)
    common = float(good.groupby(["width", "trial"])["time"].max().min())

    def at_common(rows: pd.DataFrame) -> float:
        return float(np.exp(np.interp(common, rows["time"], np.log(rows[key]))))

    narrow, wide = (_by_trial(good, width, at_common) for width in (min, max))
    return _mean({trial: narrow[trial] / wide[trial] for trial in narrow if trial in wide})


QUANTITIES = (
    Quantity(
        "train_loss", "training loss, end / start, widest",
        partial(_end_over_start, key="train_loss"), Claim("< 1: decreases", most=1.0),
    ),
    Quantity(
        "train_error", "training error at the end, widest",
        partial(_end, key="train_error"), Claim("decreases to 0", most=0.0),
        needs=_LENGTH,
    ),
    Quantity(
        "faster", "training loss at the last common time, narrowest / widest",
        partial(_narrow_over_wide, key="train_loss"),
        Claim("> 1: wider is faster", least=1.0), needs=_LENGTH,
    ),
    Quantity(
        "better", "test loss at the last common time, narrowest / widest",
        partial(_narrow_over_wide, key="test_loss"),
        Claim("> 1: wider is better", least=1.0), needs=(*_LENGTH, "test_size"),
    ),
    Quantity(
        "test_error", "test error, end / start, widest",
        partial(_end_over_start, key="test_error"), Claim("< 1: is reduced", most=1.0),
    ),
    *(
        Quantity(
            f"path{suffix}", f"slope of the largest distance to {path} against the width",
            partial(_path_slope, suffix=suffix), Claim("≤ −1/4", most=-0.25),
            needs=_LENGTH,
        )
        for suffix, path in PATHS.items()
    ),
    Quantity(
        "norm", "largest ‖γA(k)‖, widest", partial(_largest, key="norm"),
        Claim("stays below 1", most=1.0), needs=_LENGTH,
    ),
)  # fmt: skip
