"""How each number that is set beside a paper's is read from a finished run."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

from deqcli.errors import InputError
from deqcli.reproduction.verdicts import Measured, Run, standard_error

Width = Callable[[pd.Series], int]
"""Chooses one of the widths of a run: ``min`` or ``max``."""


def distance(run: Run, source: str) -> Measured:
    """Return the distance of an averaged or exact kernel to its equivalent."""
    return Measured(run.results["distances"][source]["distance"])


def matched(run: Run, key: str) -> Measured:
    """Return what ``deqcli match`` recorded under a key."""
    return Measured(run.results[key])


def slope(run: Run, act: str) -> Measured:
    """Return the fitted slope of log error against log n of one activation."""
    rows = run.table[run.table["act"].str.partition(":")[0] == act]
    return Measured(float(rows["slope"].iloc[0]), _slope_error(rows))


def erratum(run: Run, name: str, form: str) -> Measured:
    """Return the slope of the error of one form, printed or right, of an erratum."""
    rows = run.table[(run.table["erratum"] == name) & (run.table["form"] == form)]
    return Measured(run.results["errata"][name][f"{form}_slope"], _slope_error(rows))


def _slope_error(rows: pd.DataFrame) -> float | None:
    slopes = [
        np.polyfit(np.log(trial["n"].to_numpy(dtype=float)), np.log(trial["error"]), 1)[0]
        for _, trial in rows.groupby("trial")
    ]
    return standard_error(np.array(slopes))


def accuracy(run: Run) -> Measured:
    """Return the DEQ's accuracy at the largest width, in percent."""
    return _mean(100 * _last(run)["deq"].dropna())


def gap(run: Run, net: str) -> Measured:
    """Return the accuracy that a network lacks to the DEQ at the largest width, in points."""
    last = _last(run)
    return _mean(100 * (last["deq"] - last[net]).dropna())


def advantage(run: Run) -> Measured:
    """Return by how much the plain network's gap is larger than the twin's, in points.

    The gaps are those of the means; the spread is that of the differences of the two within one
    seed, which share samples, order and weights.
    """
    last = 100 * _last(run).dropna()
    plain, twin = last["deq"] - last["plain"], last["deq"] - last["matched"]
    return _mean(np.sign(plain.mean()) * plain - np.sign(twin.mean()) * twin)


def widest(run: Run) -> int:
    """Return the largest width of a run."""
    return int(run.table["width"].max())


def _last(run: Run) -> pd.DataFrame:
    """Return test accuracies after the last epoch at the largest width, by seed and network."""
    rows = run.table[run.table["width"] == widest(run)]
    last = rows.loc[rows.groupby(["net", "seed"])["epoch"].idxmax()]
    last = last[~last["status"].str.startswith("stopped")]
    table = last.pivot(index="seed", columns="net", values="test_accuracy")
    return table.reindex(columns=["deq", "matched", "plain"])


def _mean(values: pd.Series) -> Measured:
    if values.empty:
        raise InputError("no training at the largest width reached its end")
    return Measured(float(values.mean()), standard_error(values.to_numpy()))


def flow_end(run: Run, key: str, width: Width = max) -> Measured:
    """Return the last value of a column, over the trials of one width."""
    return _mean(_by_trial(_started(run), width, lambda rows: rows[key].dropna().iloc[-1]))


def flow_largest(run: Run, key: str, width: Width = max) -> Measured:
    """Return the largest value of a column, the row where a run stopped included."""
    return _mean(_by_trial(run.table, width, lambda rows: rows[key].max()))


def end_over_start(run: Run, key: str, width: Width = max) -> Measured:
    """Return the last value of a column over its first."""

    def ratio(rows: pd.DataFrame) -> float:
        values = rows[key].dropna()
        if values.iloc[0] == 0:
            raise InputError(f"{key} is 0 at the start")
        return float(values.iloc[-1] / values.iloc[0])

    return _mean(_by_trial(_started(run), width, ratio))


def narrow_over_wide(run: Run, key: str) -> Measured:
    """Return a loss of the narrowest over that of the widest, at the last time that all runs have.

    Runs have steps of their own and may stop early. Between two times at which it was measured a
    loss is taken to fall exponentially. Ratios are within a trial, whose widths share samples.
    """
    good = _started(run).dropna(subset=key)
    common = float(good.groupby(["width", "trial"])["time"].max().min())

    def at_common(rows: pd.DataFrame) -> float:
        return float(np.exp(np.interp(common, rows["time"], np.log(rows[key]))))

    narrow, wide = (_by_trial(good, width, at_common) for width in (min, max))
    return _mean((narrow / wide).dropna())


def _started(run: Run) -> pd.DataFrame:
    return run.table[run.table["status"] == "ok"]


def _by_trial(
    table: pd.DataFrame, width: Width, measure: Callable[[pd.DataFrame], float]
) -> pd.Series:
    chosen = table[table["width"] == width(table["width"])]
    return pd.Series({trial: measure(rows) for trial, rows in chosen.groupby("trial")}, dtype=float)
