"""The figure of the error against n: one line an activation, spread, and the promised slope."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from deqcli.figures.style import COLUMN, KERNEL_LABELS, styled
from deqcli.vocabulary import activation_title

_COLORS = ("#1f5fb4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf", "#8c564b", "#7f7f7f")
_MARKERS = "os^Dvp*h"


@styled
def draw(table: pd.DataFrame) -> Figure:
    """Draw relative error against n.

    Parameters
    ----------
    table : DataFrame
        Columns act, n, trial, error, slope, kernel, sigma_a2, data, as ``deqcli error-vs-n``
        writes them.
    """
    figure = Figure(figsize=(COLUMN, 2.9), layout="constrained")
    axes = figure.subplots()
    acts = list(dict.fromkeys(table["act"]))
    for k, act in enumerate(acts):
        rows = table[table["act"] == act].groupby("n")["error"]
        mean, low, high = rows.mean(), rows.min(), rows.max()
        color = _COLORS[k % len(_COLORS)]
        slope = table.loc[table["act"] == act, "slope"].iloc[0]
        label = f"{activation_title(act)}, slope {slope:.2f}"
        marker = _MARKERS[k % len(_MARKERS)]
        axes.plot(mean.index, mean, marker=marker, color=color, label=label)
        axes.fill_between(mean.index, low, high, color=color, alpha=0.2, lw=0)
    sizes = np.array(sorted(set(table["n"])), dtype=float)
    means = table.groupby("n")["error"].mean()
    # The guide hangs below all the lines, where it crosses none.
    height = 0.6 * float((table.groupby("n")["error"].min() * np.sqrt(means.index)).min())
    guide = height / np.sqrt(sizes)
    axes.plot(sizes, guide, "k--", lw=0.8, label=r"$n^{-1/2}$")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlabel("number of samples n")
    first = table.iloc[0]
    letter = KERNEL_LABELS[first["kernel"]]
    axes.set_ylabel(rf"$\|{letter} - \bar{{{letter}}}\| \,/\, \|{letter}\|$")
    title = (
        f"{first['data']}, $\\sigma_a^2$ = {first['sigma_a2']:g}, {first['estimator']} kernel, "
        f"{table['trial'].nunique()} trial(s): mean, range"
    )
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside upper center", title=title, title_fontsize=7.5, ncols=2
    )
    return figure
