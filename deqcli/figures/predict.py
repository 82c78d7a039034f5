"""The figure of predicted test errors: lines, and trained networks as points."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import NullFormatter, NullLocator

from deqcli import paired
from deqcli.figures.style import (
    DEQ,
    KERNEL_LABELS,
    MATCHED,
    PAGE,
    PLAIN,
    Figure,
    apart,
    broken,
    styled,
)
from deqcli.vocabulary import activation_title

_COLORS = {"deq": DEQ, "matched": MATCHED, "plain": PLAIN}
_LABELS = {"deq": "DEQ", "matched": "explicit twin", "plain": "plain explicit"}
_MARKERS = {"deq": "o", "matched": "s", "plain": "^"}
# Side by side, that bars of one value do not hide one another.
_ASIDE = {"deq": 0.0, "matched": -1.0, "plain": 1.0}
_AXES = {
    "width": "width m", "n": "training samples n", "ridge": "ridge / mean diagonal",
    "mean-norm": "norm of the means", "sigma-a2": r"$\sigma_a^2$",
}  # fmt: skip
_LOGARITHMIC = ("width", "n", "ridge")


@styled
def draw(table: pd.DataFrame) -> Figure:
    """Draw test errors, and mean and spread of the outputs, predicted and measured.

    Bars are 95 % intervals by Student's t over networks.

    Parameters
    ----------
    table : DataFrame
        As ``deqcli predict`` writes it.
    """
    figure = Figure(figsize=(PAGE, 2.7), layout="constrained")
    left, right = figure.subplots(1, 2)
    first = table.iloc[0]
    against = str(first["against"])
    for net in dict.fromkeys(table["net"]):
        rows = table[table["net"] == net]
        _draw(left, rows, "error", against, "-")
        _draw(right, rows, "mean", against, "-")
        _draw(right, rows, "deviation", against, "--")
    left.set_ylabel("test error")
    left.set_ylim(bottom=0)
    right.set_ylabel("output of the own class")
    styles = [Line2D([], [], color="0.3", ls=ls) for ls in ("-", "--")]
    right.legend(styles, ["mean", "standard deviation"], loc="best")
    for axes in (left, right):
        _axis(axes, table, against)
    title = broken(_title(table), PAGE - 0.1)
    figure.legend(*_legend(table), loc="outside upper center", ncols=5, title=title,
                  title_fontsize=7.5)  # fmt: skip
    return figure


def _draw(axes: Axes, rows: pd.DataFrame, column: str, against: str, style: str) -> None:
    """Draw one network's line, points, and their limits of infinite width."""
    net = str(rows["net"].iloc[0])
    color = _COLORS[net]
    line = rows[rows["kind"] == "predicted"].sort_values("value").set_index("value")[column]
    trials = rows[rows["kind"] == "measured"].set_index(["value", "trial"])[column]
    points = paired.means(trials, ["value"]).apply(pd.to_numeric)
    values = sorted({*line.index, *points.index} - {0.0})
    end = _beyond(values) if against == "width" else None
    inside = line[line.index != 0] if end else line
    # A single point is no line.
    dash: dict[str, Any] = {"marker": "_", "ms": 9} if len(inside) == 1 else {}
    axes.plot(inside.index, inside, color=color, ls=style, **dash)
    if end and 0.0 in line.index:
        axes.plot([0.8 * end, 1.25 * end], [line[0.0]] * 2, color=color, ls=style)
    places = points.index.to_series()
    places = places.mask(places == 0, end) if end else places
    step = 0.03 * _ASIDE[net]
    # Beside each other: by a factor, or by a part of the axis.
    span = max(values) - min(values) if values else 0.0
    places = places * (1 + step) if against in _LOGARITHMIC else places + 0.3 * step * span
    axes.errorbar(
        places, points["mean"], points["half"], fmt=_MARKERS[net], color=color, capsize=1.5,
        mfc="none" if style == "--" else color, ms=3, lw=0.8,
    )  # fmt: skip


def _beyond(values: list[float]) -> float:
    """Return where infinite width stands on the axis."""
    return 2.2 * max(values)


def _axis(axes: Axes, table: pd.DataFrame, against: str) -> None:
    axes.set_xlabel(_AXES[against])
    if against not in _LOGARITHMIC:
        return
    values = sorted(set(table.loc[table["kind"] == "measured", "value"]))
    positive = [value for value in values if value]
    if against == "ridge":
        if len(positive) == len(values):
            axes.set_xscale("log")
        elif positive:
            # No ridge stands one decade below the least.
            axes.set_xscale("symlog", linthresh=min(positive))
            axes.set_xlim(-0.1 * min(positive), 1.3 * max(positive))
        return
    axes.set_xscale("log")
    shown = (
        positive
        if len(positive) <= 5
        else [v for v in positive if not math.log2(v / positive[0]) % 1]
    )
    ticks = apart(shown)
    labels = [f"{value:g}" for value in ticks]
    if against == "width":
        ticks, labels = [*ticks, _beyond(positive)], [*labels, "∞"]
        n = float(table["n"].iloc[0])
        if positive[0] <= n <= positive[-1]:
            axes.axvline(n, color="0.7", lw=0.7, ls=":", zorder=0)
            axes.text(1.05 * n, 1.0, "m = n", transform=axes.get_xaxis_transform(), va="top",
                      color="0.5", fontsize=6)  # fmt: skip
    axes.set_xticks(ticks, labels)
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_minor_formatter(NullFormatter())


def _legend(table: pd.DataFrame) -> tuple[list[Line2D], list[str]]:
    nets = [net for net in _COLORS if (table["net"] == net).any()]
    handles = [Line2D([], [], color=_COLORS[net], marker=_MARKERS[net], ms=3) for net in nets]
    handles += [Line2D([], [], color="0.3"), Line2D([], [], color="0.3", marker="o", ls="", ms=3)]
    count = table["trial"].max() + 1
    measured = f"measured, {count} network{'s' if count > 1 else ''}, 95 %"
    return handles, [*(_label(table, net) for net in nets), "predicted", measured]


def _label(table: pd.DataFrame, net: str) -> str:
    """Return the name of a network, with the layers of one that has them."""
    layers = table.loc[table["net"] == net, "layers"]
    if net == "deq":
        return _LABELS[net]
    least, most = layers.min(), layers.max()
    span = f"{most}" if least == most else f"{least} to {most}"
    return f"{_LABELS[net]}, {span} layer{'s' if most > 1 else ''}"


def _title(table: pd.DataFrame) -> str:
    first, against = table.iloc[0], table["against"].iloc[0]
    parts = [f"{first['data']}: {activation_title(str(first['act']))}, "
             f"${KERNEL_LABELS[first['kernel']]}$"]  # fmt: skip
    known = {"sigma-a2": r"$\sigma_a^2$ = ", "n": "n = ", "ridge": "ridge ",
             "mean-norm": "means of norm "}  # fmt: skip
    if first["data"] != "gmm":
        del known["mean-norm"]
    parts += [
        f"{text}{first[name.replace('-', '_')]:g}"
        for name, text in known.items()
        if name != against
    ]
    if against != "width":
        parts.append(f"m = {first['width']}" if first["width"] else "infinite width")
    return ", ".join(parts)
