"""The figure of trained networks: how far each is from the DEQ, in loss and in accuracy."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator, NullLocator

from deqcli import paired
from deqcli.display import around
from deqcli.figures.style import (
    DEQ,
    MATCHED,
    PAGE,
    PLAIN,
    Figure,
    apart,
    broken,
    log_ticks,
    styled,
)
from deqcli.vocabulary import Net, activation_title

COLORS = {"deq": DEQ, "matched": MATCHED, "plain": PLAIN}
LABELS = {"deq": "DEQ", "matched": "matched explicit", "plain": "plain explicit"}
_MARKERS = {"deq": "o", "matched": "s", "plain": "^"}
# Side by side, that bars of one width do not hide one another.
_ASIDE = {"deq": 1.0, "matched": 0.94, "plain": 1.06}
# Inches of the panel of curves, and of others.
_WIDE, _NARROW = 4.7, 1.9
# The largest log ratio that is drawn.
_FAR = 5.0
# Room for marks at the ends of shares.
_MARGIN = 0.05


@styled
def draw(table: pd.DataFrame) -> Figure:
    """Draw differences from the DEQ along epochs and against width; three rows a data set.

    One row where there is nothing to compare: the DEQ alone, or others without it.

    Bars and bands are 95 % intervals by Student's t over trials.

    Parameters
    ----------
    table : DataFrame
        As ``deqcli accuracy`` writes it; tables of several data sets may be joined.
    """
    datasets = list(dict.fromkeys(table["dataset"])) or ["nothing trained"]
    nets = set(table["net"].str.removesuffix(paired.LIMIT))
    compared = table.empty or (Net.DEQ in nets and not nets.isdisjoint(paired.OTHERS))
    rows = 3 if compared else 1
    figure = Figure(figsize=(PAGE, 0.4 + 1.9 * rows * len(datasets)), layout="constrained")
    # What is clipped is the DEQ's norm.
    shown = _ALL if compared else _ALONE if Net.DEQ in nets else _WITHOUT
    grid = figure.add_gridspec(rows * len(datasets), min(len(shown), 3))
    for number, dataset in enumerate(datasets):
        here, top = table[table["dataset"] == dataset], rows * number
        if compared:
            _draw_curves(figure.add_subplot(grid[top, :2]), here, str(dataset))
        places = range(2 if compared else 0, 3 * rows)
        panels = {
            name: figure.add_subplot(grid[top + place // 3, place % 3])
            for name, place in zip(shown, places, strict=False)
        }
        if compared:
            for name, values in paired.differences(here).items():
                _draw_differences(panels[name], 100 * values if name == "accuracy" else values)
        _draw_accuracies(panels["share"], here)
        _draw_times(panels["times"], here)
        if "clipped" in panels:
            _draw_clipped(panels["clipped"], here)
        for name, axes in panels.items():
            title, unit = _PANELS[name]
            axes.set_title(title)
            axes.set_ylabel(unit)
            width_axis(axes, sorted(set(here["width"])), name not in ("clipped", "times"))
        for name, said in _predicted(here).items() if compared else ():
            axes = panels[name]
            axes.set_title(axes.get_title(), y=1.18)
            axes.set_title(said, loc="left", fontsize=6.3)
        if not compared:
            panels["share"].set_title(broken(f"{dataset}: test accuracy", _NARROW))
    figure.legend(
        *_legend(table), loc="outside upper center", ncols=4, title_fontsize=7.5,
        title=broken(_title(table, compared), PAGE - 0.1),
    )  # fmt: skip
    return figure


def _title(table: pd.DataFrame, compared: bool) -> str:
    """Say which DEQ was trained, how much of it, and what bars are."""
    texts = []
    # Tables of before do not say it.
    if "act" in table:
        trained = table[["act", "sigma_a2", "train"]].drop_duplicates().to_numpy()
        texts = [
            f"{activation_title(act)}, $\\sigma_a^2$ = {sigma_a2:g}, "
            + ("readout trained" if train == "readout" else "all weights trained")
            for act, sigma_a2, train in trained
        ]
    drawn = "bars and band" if compared else "bars"
    several = table["trial"].nunique() > 1
    said = f"{drawn}: 95 % intervals of the mean over trials" if several else "one trial"
    return "; ".join([*texts, said])


# Title and unit of each panel.
_PANELS = {
    "loss": ("loss / DEQ's, mean over epochs", "mean log ratio"),
    "end": ("loss / DEQ's, last epoch", "log ratio"),
    "distance": ("distance of loss curves", "rms log ratio"),
    "accuracy": ("test accuracy, DEQ minus it", "percentage points"),
    "share": ("test accuracy", "share right"),
    "clipped": ("DEQ's norm clipped", "% of epochs"),
    "times": ("time to train", "seconds per epoch"),
}
_ALL, _ALONE, _WITHOUT = tuple(_PANELS), ("share", "clipped", "times"), ("share", "times")


def _predicted(table: pd.DataFrame) -> dict[str, str]:
    """Say by panel how much farther the plain network is than the twin, and should be."""
    said = {}
    widest = table["width"].max()
    found = {row["measure"]: row for row in paired.advantages(table) if row["width"] == widest}
    for row in paired.resolution(table):
        factor = 100 if row["measure"] == "accuracy" else 1
        ours, theirs = (
            around(factor * value, None if half is None else factor * half)
            for value, half in (
                (found[row["measure"]]["advantage"], row["interval"]),
                (row["predicted"], row["predicted_interval"]),
            )
        )
        needed = f"needs {row['trials'] or 'more'} trials"
        outcome = "trials are enough" if row["enough"] else needed
        text = f"plain farther by {ours} at {widest},\n{theirs} at ∞: "
        text += outcome if row["effect"] else "not told from 0"
        said[row["measure"]] = text
    return said


def _legend(table: pd.DataFrame) -> tuple[list[Line2D], list[str]]:
    handles = [
        Line2D([], [], color=COLORS[net], marker=_MARKERS[net], mfc="none")
        for net in COLORS
        if (table["net"] == net).any()
    ]
    labels = [LABELS[net] for net in COLORS if (table["net"] == net).any()]
    if (table["width"] == paired.INFINITE).any():
        handles.append(Line2D([], [], color="0.3", marker="D", ls="--"))
        labels.append("infinite width, by exact kernel")
    if "predicted_accuracy" in table:
        handles.append(Line2D([], [], color="0.3", ls=":"))
        labels.append("predicted, least squares to the end")
    if "deq_regression_accuracy" in table:
        handles.append(Line2D([], [], color=DEQ, ls="-."))
        labels.append("DEQ of infinite width, least squares")
    return handles, labels


def _draw_curves(axes: Axes, table: pd.DataFrame, dataset: str) -> None:
    """Draw the loss over the DEQ's along epochs, widest network darkest, its limit dashed."""
    ratios = paired.log_ratios(table)
    widths = sorted(set(ratios.index.get_level_values("width")) - {paired.INFINITE})
    axes.axhline(1, color=DEQ, lw=0.8, zorder=0)
    trials = 0
    for net in paired.OTHERS:
        values = ratios[net].dropna()
        for width, rows in values.groupby("width"):
            curve = paired.means(rows, ["epoch"]).apply(pd.to_numeric)
            low, high = curve["mean"] - curve["half"], curve["mean"] + curve["half"]
            limit, widest = width == paired.INFINITE, width == widths[-1] if widths else False
            # The narrower, the fainter.
            place = 1.0 if limit or widest else 0.15 + 0.4 * widths.index(width) / len(widths)
            axes.plot(
                curve.index, _exp(curve["mean"]), color=COLORS[net], alpha=place,
                ls="--" if limit else "-", lw=1.3 if limit or widest else 0.8,
            )  # fmt: skip
            if widest:
                trials = rows.index.get_level_values("trial").nunique()
                axes.fill_between(
                    curve.index, _exp(low), _exp(high), color=COLORS[net], alpha=0.2, lw=0
                )
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("epoch")
    axes.set_ylabel("training loss / DEQ's")
    name = f"{dataset}: same batches, " + (f"{trials} trials" if trials != 1 else "one trial")
    band = " with its band" if trials > 1 else ""
    shown = f"; width {widths[-1]}{band}" if widths else ""
    fainter = ", narrower ones fainter" if widths[1:] else ""
    axes.set_title(broken(f"{name}{shown}{fainter}", _WIDE))


def _exp(values: pd.Series) -> pd.Series:
    # Half an interval of two trials may be of any size.
    return values.clip(-_FAR, _FAR).apply(math.exp)


def _draw_differences(axes: Axes, values: pd.DataFrame) -> None:
    axes.axhline(0, color=DEQ, lw=0.8, zorder=0)
    for net in paired.OTHERS:
        _draw_against_width(axes, values[net], net.value)


def _draw_accuracies(axes: Axes, table: pd.DataFrame) -> None:
    final = paired.accuracies(table)
    if "predicted_accuracy" in table:
        for net, value in table.groupby("net")["predicted_accuracy"].first().items():
            if net in COLORS:
                axes.axhline(float(value), color=COLORS[str(net)], ls=":", lw=1)
    if "deq_regression_accuracy" in table and len(table):
        axes.axhline(table["deq_regression_accuracy"].iloc[0], color=DEQ, ls="-.", lw=1)
    for net in Net:
        _draw_against_width(axes, final[net], net.value)
    # An interval of two trials may reach beyond what a share can be.
    low, high = axes.get_ylim()
    axes.set_ylim(max(low, -_MARGIN), min(high, 1 + _MARGIN))


def _draw_against_width(axes: Axes, values: pd.Series, net: str) -> None:
    """Draw means over trials with their intervals; the limit stands alone at the right end."""
    rows = paired.means(values, ["width"])
    finite = rows[rows.index != paired.INFINITE]
    if finite.empty:
        return
    axes.errorbar(
        finite.index * _ASIDE[net], finite["mean"], finite["half"], fmt=_MARKERS[net] + "-",
        mfc="none", color=COLORS[net], capsize=2,
    )  # fmt: skip
    limit = rows[rows.index == paired.INFINITE]
    if len(limit):
        place = [beyond(list(finite.index)) * _ASIDE[net]]
        axes.errorbar(
            place, limit["mean"], limit["half"], fmt="D", ms=3.5, color=COLORS[net], capsize=2
        )


def _draw_clipped(axes: Axes, table: pd.DataFrame) -> None:
    shares = 100 * paired.clipped(table)
    axes.plot(
        shares.index.get_level_values("width"), shares, marker=_MARKERS["deq"], color=DEQ,
        mfc="none",
    )  # fmt: skip
    axes.set_ylim(-5, 105)


def _draw_times(axes: Axes, table: pd.DataFrame) -> None:
    trained = table[table["net"].isin(list(Net)) & (table["epoch"] > 0)]
    seconds = (trained["forward_seconds"] + trained["backward_seconds"]).rename("seconds")
    rows = trained[["net", "width", "trial"]].join(seconds)
    # The mean over epochs: the first may hold what serves all. The median over trials: one during
    # which the machine did something else does not count.
    medians = rows.groupby(["net", "width", "trial"])["seconds"].mean().groupby(["net", "width"])
    for net, values in medians.median().groupby("net"):
        here = values.droplevel("net")
        axes.plot(here.index, here, marker=_MARKERS[str(net)], color=COLORS[str(net)], mfc="none")
    log_ticks(axes)


def beyond(widths: Sequence[int]) -> float:
    """Return where infinite width stands on the axis."""
    return 2.5 * max(widths)


def width_axis(axes: Axes, widths: Sequence[int], with_limits: bool) -> None:
    """Make the horizontal axis that of widths, infinite width at its end if there is any."""
    finite = [width for width in widths if width != paired.INFINITE]
    axes.set_xscale("log", base=2)
    axes.set_xlabel("width m")
    shown = apart(finite if len(finite) <= 4 else finite[::-2][::-1])
    ticks, labels = [float(width) for width in shown], [str(width) for width in shown]
    if with_limits and finite and paired.INFINITE in widths:
        ticks, labels = [*ticks, beyond(finite)], [*labels, "∞"]
    axes.set_xticks(ticks, labels)
    axes.xaxis.set_minor_locator(NullLocator())
