"""Figures of plain arrays: spectra, activations, errors against n."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from deqcli.figures.spectra import FILLED, Bulk, Isolated, draw_bulk, draw_isolated
from deqcli.figures.style import (
    COLUMN,
    DEQ,
    DEQ_DARK,
    MATCHED,
    PLAIN,
    SMALL,
    TITLE,
    Figure,
    broken,
    columns,
    shortened,
    styled,
)

Array = NDArray[np.float64]

#: In turn: the DEQ, its equivalent or twin, a plain network, and what else there is.
COLOURS = (DEQ, MATCHED, PLAIN, DEQ_DARK, "#9467bd", "#8c564b", "#e377c2", "#7f7f7f")
_MARKERS = "oxsD^v*+"


def _fitted(text: str, size: float) -> str:
    """Return a text of one's own with lines that fit; one with formulas is left as it is."""
    if "$" in text:
        return text
    words = " ".join(shortened(word) for word in text.split(" "))
    return broken(words, COLUMN - 0.45, size, at=" ")


def _legend(figure: Figure, axes: Axes, most: int, title: str = "") -> None:
    """Name what is drawn above the axes."""
    handles, labels = axes.get_legend_handles_labels()
    labels = [_fitted(label, SMALL) for label in labels]
    lines = [line for label in labels for line in label.split("\n")]
    figure.legend(
        handles, labels, loc="outside upper center", title=_fitted(title, TITLE) or None,
        title_fontsize=TITLE, handlelength=1.4, ncols=min(most, columns(lines, COLUMN - 0.1)),
    )  # fmt: skip


@styled
def draw_spectra(spectra: Mapping[str, Array], isolated: int, title: str) -> Figure:
    """Draw spectra over each other, their ``isolated`` largest eigenvalues on an axis beside.

    Parameters
    ----------
    spectra : mapping of str to ndarray
        Eigenvalues, the largest first, by label.
    """
    figure = Figure(figsize=(COLUMN, 2.7), layout="constrained")
    rest = {label: values[isolated:] for label, values in spectra.items()}
    if isolated:
        left, right = figure.subplots(1, 2, width_ratios=(2.6, 1))
        rows = [
            Isolated(str(place + 1), values[:isolated], _MARKERS[place], COLOURS[place])
            for place, values in enumerate(spectra.values())
        ]
        draw_isolated(right, rows, rows[-1])
    else:
        left = figure.add_subplot()
    bulks = [
        Bulk(
            values,
            f"{place + 1}: {label}" if isolated else label,
            {**FILLED, "color": COLOURS[0]}
            if place == 0
            else {"histtype": "step", "color": COLOURS[place], "lw": 1.1},
        )
        for place, (label, values) in enumerate(rest.items())
    ]
    draw_bulk(left, bulks, np.concatenate(list(rest.values())))
    _legend(figure, left, 1, title)
    return figure


@styled
def draw_curves(x: Array, curves: Mapping[str, Array], xlabel: str, ylabel: str) -> Figure:
    """Draw functions of one variable."""
    figure = Figure(figsize=(COLUMN, 2.4), layout="constrained")
    axes = figure.add_subplot()
    for place, (label, values) in enumerate(curves.items()):
        axes.plot(x, values, color=COLOURS[place], label=label, lw=1.2)
    axes.set_xlabel(xlabel)
    axes.set_ylabel(ylabel)
    _legend(figure, axes, min(len(curves), 2))
    return figure


@styled
def draw_errors(n: Array, errors: Mapping[str, Array], slopes: Sequence[float]) -> Figure:
    """Draw relative errors against the number of samples, both logarithmic, beside n^(-1/2)."""
    figure = Figure(figsize=(COLUMN, 2.7), layout="constrained")
    axes = figure.add_subplot()
    for place, ((label, values), slope) in enumerate(zip(errors.items(), slopes, strict=True)):
        colour, marker = COLOURS[place], _MARKERS[place]
        axes.loglog(n, values, marker=marker, color=colour, lw=1, ms=4, mfc="none",
                    label=f"{label}, slope {slope:.2f}")  # fmt: skip
    first = min(values[0] for values in errors.values())
    guide = 0.8 * first * np.sqrt(n[0] / n)
    axes.loglog(n, guide, color="0.4", lw=0.8, ls="--", label=r"$n^{-1/2}$")
    axes.set_xlabel("n")
    axes.set_ylabel("relative error")
    _legend(figure, axes, 2)
    return figure
