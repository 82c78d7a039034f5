"""The figure of the errata: one panel each, the printed form beside the right one."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FormatStrFormatter, LogLocator, NullLocator

from deqcli.figures.style import DEQ, MATCHED, PAGE, Figure, of_trials, styled

_COLUMNS = 3
_STYLES = {"printed": (MATCHED, "s", "as printed"), "right": (DEQ, "o", "corrected")}


@styled
def draw(table: pd.DataFrame) -> Figure:
    """Draw the error of both forms against n, one panel an erratum.

    Parameters
    ----------
    table : DataFrame
        Columns erratum, where, form, n, trial, error, as ``deqcli errata`` writes them.
    """
    names = list(dict.fromkeys(table["erratum"]))
    rows = -(-len(names) // _COLUMNS)
    figure = Figure(figsize=(PAGE, 1.75 * rows + 0.4), layout="constrained")
    panels = figure.subplots(rows, _COLUMNS, squeeze=False).ravel()
    for axes, name in zip(panels, names, strict=False):
        _draw_panel(axes, table[table["erratum"] == name])
    for axes in panels[len(names) :]:
        axes.set_axis_off()
    for axes in panels[: len(names)][-_COLUMNS:]:
        axes.set_xlabel("number of samples n")
    for axes in panels[::_COLUMNS]:
        axes.set_ylabel("operator-norm error")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside upper center", ncols=3,
        title=f"closed forms against the exact kernels, {of_trials(table)}",
        title_fontsize=7.5,
    )  # fmt: skip
    return figure


def _draw_panel(axes: Axes, rows: pd.DataFrame) -> None:
    sizes = np.array(sorted(set(rows["n"])), dtype=float)
    for form, (color, marker, label) in _STYLES.items():
        errors = rows[rows["form"] == form].groupby("n")["error"]
        mean = errors.mean()
        axes.plot(mean.index, mean, marker=marker, ms=3, color=color, label=label)
        axes.fill_between(mean.index, errors.min(), errors.max(), color=color, alpha=0.2, lw=0)
    # The guide hangs below the right form, where it crosses nothing.
    right = rows[rows["form"] == "right"].groupby("n")["error"].min()
    height = 0.65 * float((right * np.sqrt(right.index)).min())
    axes.plot(sizes, height / np.sqrt(sizes), "k--", lw=0.8, label=r"$n^{-1/2}$")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(sizes, [f"{size:g}" for size in sizes])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 3.0)))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FormatStrFormatter("%g"))
    axes.set_title(rows["where"].iloc[0], loc="left")
