"""The figure of a spectrum: the bulk as histograms, the isolated eigenvalues beside it."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from deqcli.figures.style import COLUMN, DEQ, DEQ_DARK, KERNEL_LABELS, MATCHED, styled
from deqcli.vocabulary import activation_title

# Drawn in this order; the first two are the DEQ, blue, the last its equivalent, red.
_SOURCES = ("monte-carlo", "exact", "equivalent")
_LARGEST = 5


@styled
def draw(table: pd.DataFrame) -> Figure:
    """Draw the spectra of one run.

    Parameters
    ----------
    table : DataFrame
        Columns source, index, eigenvalue, isolated, distance, kernel, act, sigma_a2, n, p,
        realizations, width, as ``deqcli spectrum`` writes them.
    """
    figure = Figure(figsize=(COLUMN, 2.7), layout="constrained")
    spikes = table[table["isolated"]]
    bulk = table[~table["isolated"]]
    wide = _is_wide(bulk)
    label = "isolated"
    if spikes.empty and wide:
        # Real data has no edge to stand apart from; its few largest eigenvalues say the most.
        spikes, label = table[table["index"] < _LARGEST], f"largest {_LARGEST}"
    if spikes.empty:
        left, right = figure.subplots(), None
    else:
        left, right = figure.subplots(1, 2, width_ratios=(2.6, 1))
    _draw_bulk(left, bulk, wide)
    if right is not None:
        _draw_spikes(right, spikes, label)
    first = table.iloc[0]
    title = (
        f"{activation_title(first['act'])}, $\\sigma_a^2$ = {first['sigma_a2']:g}, "
        f"{first['data']}, n = {first['n']}, p = {first['p']}"
    )
    handles, labels = left.get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside upper center", title=title, title_fontsize=7.5,
        handlelength=1.4, ncols=1,
    )  # fmt: skip
    return figure


def _label(rows: pd.DataFrame) -> str:
    first = rows.iloc[0]
    letter = KERNEL_LABELS[first["kernel"]]
    bar = rf"\bar{{{letter}}}"
    if first["source"] == "equivalent":
        return rf"equivalent ${bar}$"
    apart = rf"$\|{letter} - {bar}\|$ = {first['distance']:.3g}"
    if first["source"] == "exact":
        return f"exact, {apart}"
    return f"{first['realizations']} draws of width {first['width']}, {apart}"


def _is_wide(bulk: pd.DataFrame) -> bool:
    """Whether the eigenvalues span so many orders that only a logarithmic axis shows them."""
    values = bulk["eigenvalue"]
    return bool(values.min() > 0 and values.max() > 50 * values.median())


def _draw_bulk(axes: Axes, bulk: pd.DataFrame, wide: bool) -> None:
    values = bulk["eigenvalue"].to_numpy()
    low, high = values.min(), values.max()
    # About one bin for twelve eigenvalues shows the shape of the law without the noise.
    count = int(bulk["source"].value_counts().iloc[0])
    number = int(np.clip(count / 12, 12, 60))
    spaced = np.geomspace if wide else np.linspace
    bins = spaced(low, high + 1e-9 * abs(high), number + 1).tolist()
    for source in _SOURCES:
        rows = bulk[bulk["source"] == source]
        if rows.empty:
            continue
        label = _label(rows)
        data = rows["eigenvalue"].to_numpy()
        if source == "equivalent":
            axes.hist(
                data, bins, density=not wide, histtype="step", color=MATCHED, lw=1.1, label=label
            )
        elif source == "exact" and (bulk["source"] == "monte-carlo").any():
            axes.hist(
                data, bins, density=not wide, histtype="step", color=DEQ_DARK, lw=0.8,
                ls=(0, (2, 1)), label=label,
            )  # fmt: skip
        else:
            axes.hist(data, bins, density=not wide, color=DEQ, alpha=0.45, label=label)
    axes.set_xlabel("eigenvalue" if wide else "eigenvalue, bulk")
    axes.set_ylabel("eigenvalues in bin" if wide else "density")
    if wide:
        axes.set_xscale("log")
        axes.set_yscale("log")
    else:
        axes.set_xlim(low - 0.03 * (high - low), high + 0.03 * (high - low))


def _draw_spikes(axes: Axes, spikes: pd.DataFrame, label: str) -> None:
    """Mark the isolated eigenvalues, one row a source, each mark beside the others of its index."""
    present = [s for s in reversed(_SOURCES) if (spikes["source"] == s).any()]
    marks = {"monte-carlo": ("o", DEQ), "exact": ("D", DEQ_DARK), "equivalent": ("x", MATCHED)}
    values = spikes["eigenvalue"].to_numpy()
    for height, source in enumerate(present):
        data = spikes.loc[spikes["source"] == source, "eigenvalue"].to_numpy()
        marker, color = marks[source]
        axes.plot(
            data, np.full(data.size, height), marker, color=color, mew=1.1,
            mfc="none" if marker != "x" else color,
        )  # fmt: skip
    for value in spikes.loc[spikes["source"] == "equivalent", "eigenvalue"]:
        axes.axvline(value, color=MATCHED, lw=0.5, alpha=0.5, zorder=0)
    names = {"monte-carlo": "draws", "exact": "exact", "equivalent": "equiv."}
    axes.set_yticks(range(len(present)), [names[s] for s in present])
    axes.set_ylim(-0.7, len(present) - 0.3)
    pad = 0.15 * (values.max() - values.min()) or 0.1 * abs(values.max())
    axes.set_xlim(values.min() - pad, values.max() + pad)
    axes.set_xlabel(label)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=3))
    axes.tick_params(axis="y", length=0)
