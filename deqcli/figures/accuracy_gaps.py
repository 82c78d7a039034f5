"""The figure that joins data sets: how far test accuracies are from the DEQ's, against width."""

from __future__ import annotations

import pandas as pd
from matplotlib.lines import Line2D

from deqcli import paired
from deqcli.figures.accuracy import COLORS, LABELS, beyond, width_axis
from deqcli.figures.style import COLUMN, DEQ, Figure, styled
from deqcli.vocabulary import activation_title

_MARKERS = "os^Dv"
_DASHES = ("-", "--", ":", "-.")
# Side by side, that bars of one width do not hide one another.
_STEP = 0.035


@styled
def draw(table: pd.DataFrame) -> Figure:
    """Draw the DEQ's accuracy minus those of its twin and of the plain network.

    Parameters
    ----------
    table : DataFrame
        Columns dataset, net, width, trials, accuracy, accuracy_interval, as
        :func:`deqcli.paired.gaps` returns them for several data sets, and the DEQ's act.
    """
    figure = Figure(figsize=(COLUMN, 3.1), layout="constrained")
    axes = figure.add_subplot()
    axes.axhline(0, color=DEQ, lw=0.8, zorder=0)
    datasets = list(dict.fromkeys(table["dataset"]))
    finite = sorted(set(table["width"]) - {paired.INFINITE})
    pairs = [(dataset, net) for dataset in datasets for net in paired.OTHERS]
    for place, (dataset, net) in enumerate(pairs):
        rows = table[(table["dataset"] == dataset) & (table["net"] == net)].sort_values("width")
        kind, color = datasets.index(dataset), COLORS[net]
        aside = 1 + _STEP * (place - (len(pairs) - 1) / 2)
        limit = rows["width"] == paired.INFINITE
        for part, style in ((rows[~limit], _DASHES[kind % 4]), (rows[limit], "")):
            if part.empty or not finite:
                continue
            x = part["width"].replace(paired.INFINITE, beyond(finite)) * aside
            half = pd.to_numeric(part["accuracy_interval"]).fillna(0.0)
            axes.errorbar(
                x, 100 * part["accuracy"], 100 * half, color=color, ls=style, lw=0.9,
                elinewidth=0.6, marker=_MARKERS[kind % 5], ms=3.2,
                mfc=color if not style else "white", capsize=1.5,
            )  # fmt: skip
    width_axis(axes, sorted(set(table["width"])), True)
    axes.set_ylabel("test accuracy, DEQ minus it (points)")
    handles = [Line2D([], [], color=COLORS[net], label=LABELS[net]) for net in paired.OTHERS]
    handles += [
        Line2D([], [], color="0.3", ls=_DASHES[kind % 4], marker=_MARKERS[kind % 5], ms=3.2,
               mfc="white", label=str(dataset))
        for kind, dataset in enumerate(datasets)
    ]  # fmt: skip
    counts = sorted(set(table["trials"]))
    trials = f"{counts[0]} to {counts[-1]}" if counts[1:] else "".join(map(str, counts))
    acts = ", ".join(activation_title(act) for act in dict.fromkeys(table["act"]))
    figure.legend(
        handles=handles, loc="outside upper center", ncols=3, title_fontsize=7.5,
        title=f"{acts}, {trials} trials: mean and 95 % interval",
    )  # fmt: skip
    return figure
