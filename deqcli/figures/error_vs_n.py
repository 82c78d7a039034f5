"""The figure of the error against n: one line an activation, spread, and the promised slope."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from deqcli.figures.style import (
    COLUMN,
    KERNEL_LABELS,
    Figure,
    broken,
    columns,
    of_trials,
    styled,
)
from deqcli.vocabulary import activation_title

_COLORS = ("#1f5fb4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf", "#8c564b", "#7f7f7f")
_MARKERS = "os^Dvp*h"


@styled
def draw(table: pd.DataFrame) -> Figure:
    """Draw relative error against n.

    Parameters
    ----------
    table : DataFrame
        Columns act, n, trial, error, slope, own_error, own_slope, predicted, kernel, sigma_a2,
        data, as ``deqcli error-vs-n`` writes them.
    """
    figure = Figure(figsize=(COLUMN, 3.6), layout="constrained")
    axes = figure.subplots()
    acts = list(dict.fromkeys(table["act"]))
    # What has no slope is exact: rounding would take up the axis.
    table = table.assign(error=table["error"].where(table["slope"].notna()))
    if "own_error" in table:
        table["own_error"] = table["own_error"].where(table["own_slope"].notna())
    own = "own_error" in table and table["own_error"].notna().any()
    for k, act in enumerate(acts):
        rows = table[table["act"] == act]
        # Where colours begin again, markers are others.
        turn, place = divmod(k, len(_COLORS))
        color, marker = _COLORS[place], _MARKERS[(place + turn) % len(_MARKERS)]
        if rows["error"].isna().all():
            axes.plot([], [], color=color, marker=marker, label=f"{activation_title(act)}, exact")
            continue
        label = f"{activation_title(act)}, slope {_slope(rows['slope'])}"
        if own and rows["own_error"].notna().any():
            label += f"; {_slope(rows['own_slope'])}"
            style = {"marker": marker, "mfc": "white", "ls": (0, (4, 1.5)), "lw": 0.9}
            _line(axes, rows, "own_error", color, style)
            if rows["predicted"].notna().any():
                mean = rows.groupby("n")["predicted"].mean()
                axes.plot(mean.index, mean, ls=":", lw=1.0, color=color)
        _line(axes, rows, "error", color, {"marker": marker, "label": label})
    sizes = np.array(sorted(set(table["n"])), dtype=float)
    means = table.groupby("n")["error"].mean()
    if means.notna().any():
        # The guide hangs below the papers' lines, where it crosses none of them.
        height = 0.6 * float((table.groupby("n")["error"].min() * np.sqrt(means.index)).min())
        guide = height / np.sqrt(sizes)
        axes.plot(sizes, guide, "k--", lw=0.8, label=r"$n^{-1/2}$")
        axes.set_yscale("log")
    if own:
        lowest = table.groupby("n")["own_error"].min()
        height = 0.6 * float((lowest * lowest.index).min())
        axes.plot(sizes, height / sizes, "k-.", lw=0.8, label="$n^{-1}$")
        axes.plot([], [], color="grey", ls=(0, (4, 1.5)), label="open: own norms")
        axes.plot([], [], color="grey", ls=":", label="their error, predicted")
    axes.set_xscale("log", base=2)
    axes.set_xlabel("number of samples n")
    first = table.iloc[0]
    letter = KERNEL_LABELS[first["kernel"]]
    axes.set_ylabel(rf"$\|{letter} - \bar{{{letter}}}\| \,/\, \|{letter}\|$")
    title = (
        f"{first['data']}, $\\sigma_a^2$ = {first['sigma_a2']:g}, {first['estimator']} kernel, "
        f"{of_trials(table)}"
    )
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside upper center", title=broken(title, COLUMN - 0.1),
        title_fontsize=7.5, ncols=columns(labels, COLUMN - 0.1),
    )  # fmt: skip
    return figure


def _slope(column: pd.Series) -> str:
    # A minus zero is no slope.
    return f"{round(float(column.iloc[0]), 2) + 0.0:.2f}"


def _line(axes: Axes, rows: pd.DataFrame, column: str, color: str, style: dict[str, Any]) -> None:
    """Draw the mean over trials against n, and the range around it."""
    groups = rows.groupby("n")[column]
    mean = groups.mean()
    axes.plot(mean.index, mean, color=color, **style)
    axes.fill_between(mean.index, groups.min(), groups.max(), color=color, alpha=0.2, lw=0)
