"""The figure of accuracy against width: accuracies, gaps, and what they cost."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, NullLocator

from deqcli.figures.style import DEQ, MATCHED, PAGE, PLAIN, styled
from deqcli.paired import gaps, last_epochs
from deqcli.vocabulary import Kernel, Net

_COLORS = {"deq": DEQ, "matched": MATCHED, "plain": PLAIN}
_LABELS = {"deq": "DEQ", "matched": "matched explicit", "plain": "plain explicit"}
_MARKERS = {"deq": "o", "matched": "s", "plain": "^"}
_LIMIT_STYLES = {Kernel.CK: (0.0, (1.0, 2.0)), Kernel.NTK: (0.0, (4.0, 8.0))}
_NETS = tuple(net.value for net in Net)


@styled
def draw(table: pd.DataFrame) -> Figure:
    """Draw test accuracy, its gaps, and time per epoch against width; one row a data set.

    Parameters
    ----------
    table : DataFrame
        As ``deqcli accuracy`` writes it; tables of several data sets may be joined.
    """
    datasets = list(dict.fromkeys(table["dataset"])) or ["nothing trained"]
    figure = Figure(figsize=(PAGE, 0.45 + 2.2 * len(datasets)), layout="constrained")
    grid = figure.subplots(len(datasets), 3, squeeze=False)
    for row, dataset in zip(grid, datasets, strict=True):
        here = table[table["dataset"] == dataset]
        _draw_accuracy(row[0], here, str(dataset))
        _draw_gaps(row[1], here)
        _draw_times(row[2], here)
        for axes in row:
            _width_axis(axes, sorted(set(here.loc[here["width"] > 0, "width"])))
    handles, labels = grid[0, 0].get_legend_handles_labels()
    for kernel, dashes in _LIMIT_STYLES.items():
        if table["net"].str.endswith(f"-{kernel}-limit").any():
            handles.append(Line2D([], [], color="0.3", ls=dashes, lw=0.8))
            labels.append(f"infinite width, {kernel.upper()} regression")
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels))
    return figure


def _draw_accuracy(axes: Axes, table: pd.DataFrame, dataset: str) -> None:
    last = last_epochs(table)
    for net in _NETS:
        groups = last[last["net"] == net].groupby("width")["test_accuracy"]
        if not groups.ngroups:
            continue
        mean, low, high = groups.mean(), groups.min(), groups.max()
        axes.plot(
            mean.index, mean, marker=_MARKERS[net], color=_COLORS[net], label=_LABELS[net],
            mfc="none",
        )  # fmt: skip
        axes.fill_between(mean.index, low, high, color=_COLORS[net], alpha=0.18, lw=0)
        for kernel, (_, dashes) in _LIMIT_STYLES.items():
            value = table.loc[table["net"] == f"{net}-{kernel}-limit", "test_accuracy"]
            if len(value):
                # Each begins elsewhere in its dashes: equal limits show all their colours.
                style = _NETS.index(net) * sum(dashes) / len(_NETS), dashes
                axes.axhline(float(value.iloc[0]), color=_COLORS[net], ls=style, lw=0.8, zorder=0)
    trials = int(last.groupby(["net", "width"]).size().max()) if len(last) else 0
    axes.set_title(f"{dataset}: {trials} trials, range" if trials > 1 else dataset)
    axes.set_ylabel("test accuracy")


def _draw_gaps(axes: Axes, table: pd.DataFrame) -> None:
    differences = gaps(table)
    axes.axhline(0, color="0.6", lw=0.6, zorder=0)
    # Side by side, that error bars of one width do not hide one another.
    for net, aside in (("matched", 0.95), ("plain", 1.05)):
        rows = differences[differences["net"] == net]
        if rows.empty:
            continue
        errors = rows["standard_error"].astype(float).fillna(0.0)
        axes.errorbar(
            rows["width"] * aside, 100 * rows["mean"], 100 * errors, fmt=_MARKERS[net] + "-",
            color=_COLORS[net], mfc="none", capsize=2,
        )  # fmt: skip
    axes.set_ylabel("percentage points")
    axes.set_title("DEQ minus the others, standard error")


def _draw_times(axes: Axes, table: pd.DataFrame) -> None:
    trained = table[table["net"].isin(_NETS) & (table["epoch"] > 0)]
    seconds = (trained["forward_seconds"] + trained["backward_seconds"]).rename("seconds")
    rows = trained[["net", "width", "trial"]].join(seconds)
    # The mean over epochs: the first may hold what serves all. The median over trials: one during
    # which the machine did something else does not count.
    means = rows.groupby(["net", "width", "trial"])["seconds"].mean()
    medians = means.groupby(["net", "width"]).median()
    for net in _NETS:
        if net in medians.index.get_level_values("net"):
            here = medians[net]
            axes.plot(here.index, here, marker=_MARKERS[net], color=_COLORS[net], mfc="none")
    axes.set_yscale("log")
    axes.set_ylabel("seconds per epoch")
    axes.set_title("time to train")


def _width_axis(axes: Axes, widths: list[int]) -> None:
    axes.set_xscale("log", base=2)
    shown = widths if len(widths) <= 7 else widths[::2]
    axes.set_xticks(shown)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0f}"))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel("width m")
