"""The figure of visible classes: predicted lines, simulated points, thresholds."""

from __future__ import annotations

from typing import Any

import pandas as pd

from deqcli.figures.style import COLUMN, KERNEL_LABELS, Figure, of_trials, styled
from deqcli.vocabulary import activation_title

_COLORS = ("#1f5fb4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf", "#8c564b", "#7f7f7f")
_MARKERS = "os^Dvp*h"


@styled
def draw(table: pd.DataFrame) -> Figure:
    """Draw the share of the classes in an eigenvector against the norm of the means.

    Parameters
    ----------
    table : DataFrame
        Columns act, ratio, p, mean_norm, kind, trial, alignment, predicted, threshold, n, kernel,
        sigma_a2, as ``deqcli visible`` writes them.
    """
    figure = Figure(figsize=(COLUMN, 3.0), layout="constrained")
    axes = figure.subplots()
    ratios, acts = sorted(set(table["ratio"])), list(dict.fromkeys(table["act"]))
    for k, ratio in enumerate(ratios):
        rows, color = table[table["ratio"] == ratio], _COLORS[k % len(_COLORS)]
        axes.axvline(rows["threshold"].iloc[0], color=color, ls=":", lw=0.8)
        for place, act in enumerate(acts):
            of_act = rows[rows["act"] == act]
            some = of_act[of_act["kind"] == "measured"].groupby("mean_norm")
            # The dimension has a least value: what was asked for need not be what was drawn.
            drawn = f"p/n = {rows['p'].iloc[0] / rows['n'].iloc[0]:.3g}"
            label = f"{drawn}, predicted" if place == 0 else None
            line = of_act.groupby("mean_norm")["predicted"].first()
            # Nothing up to the threshold, which need not be among the norms.
            line[float(rows["threshold"].iloc[0])] = 0.0
            line = line.sort_index()
            axes.plot(line.index, line, color=color, lw=0.9, label=label)
            mean = some["alignment"].mean()
            spread = [mean - some["alignment"].min(), some["alignment"].max() - mean]
            # Side by side, that marks of several activations do not hide each other.
            shift = 0.02 * (place - 0.5 * (len(acts) - 1))
            axes.errorbar(
                mean.index + shift, mean, spread, color=color, fmt=_MARKERS[place % len(_MARKERS)],
                ms=3.5, mfc="white" if place else color, lw=0.7,
            )  # fmt: skip
    for place, act in enumerate(acts):
        style: dict[str, Any] = {
            "mfc": "white" if place else "black",
            "ls": "",
            "ms": 3.5,
            "color": "black",
        }
        marker = _MARKERS[place % len(_MARKERS)]
        axes.plot([], [], marker=marker, label=f"{activation_title(act)}, exact kernel", **style)
    axes.plot([], [], color="black", ls=":", lw=0.8, label=r"$\|\mu\|^2 = \sqrt{p/n}$")
    axes.set_ylim(-0.03, 1.0)
    axes.set_xlabel(r"norm of the means $\pm\mu$")
    axes.set_ylabel("classes in the eigenvector")
    measured = table[table["kind"] == "measured"]
    first = measured.iloc[0]
    title = (
        f"${KERNEL_LABELS[first['kernel']]}$, $\\sigma_a^2$ = {first['sigma_a2']:g}, "
        f"n = {first['n']}, {of_trials(measured)}"
    )
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside upper center", title=title, title_fontsize=7.5, ncols=2
    )
    return figure
