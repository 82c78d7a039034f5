"""The figure of a match: activations beside the spectra of DEQ, twin and plain network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from deqcli.figures.spectra import FILLED, Bulk, Isolated, draw_bulk, draw_isolated
from deqcli.figures.style import (
    DEQ,
    KERNEL_NAMES,
    MATCHED,
    PAGE,
    PLAIN,
    Figure,
    broken,
    styled,
)
from deqcli.vocabulary import activation_title

_COLORS = {"deq": DEQ, "matched": MATCHED, "plain": PLAIN}
_NAMES = {"deq": "DEQ", "matched": "matched", "plain": "plain"}
# Residuals of scalars that agree are no larger.
_EXACT = 1e-10
_DASHES = ("-", "--", "-.", ":")
# How far above its tallest bin a logarithmic axis ends, at least.
_ABOVE = 4
# What stays free between bins and the legend, of the height of the axes.
_GAP = 0.02
_TITLE = 8


@styled
def draw(table: pd.DataFrame) -> Figure:
    """Draw one match.

    Parameters
    ----------
    table : DataFrame
        Rows of kind activation, scalar, eigenvalue and average, as ``deqcli match`` writes them.
    """
    spectra = table[table["kind"] == "eigenvalue"]
    curves = table[table["kind"] == "activation"]
    known = table[table["kind"] == "average"]
    averages = {} if known.empty else dict(zip(known["name"], known["distance"], strict=True))
    first = table.iloc[0]
    sphere = first["data"] == "sphere"
    figure = Figure(figsize=(PAGE, 2.5), layout="constrained")
    if spectra.empty:
        figure.set_size_inches(PAGE / 2, 2.5)
        _draw_activations(figure.subplots(), curves)
    elif sphere:
        left, middle, right = figure.subplots(1, 3)
        for axes, source in ((left, "deq"), (middle, "matched")):
            _draw_bulk(axes, spectra, [source], averages)
            mine = spectra[(spectra["source"] == source) & spectra["isolated"].astype(bool)]
            apart = ", ".join(f"{value:.4g}" for value in mine["value"])
            axes.text(
                0.98,
                0.72,
                f"isolated: {apart or 'none'}",
                ha="right",
                fontsize=6.3,
                transform=axes.transAxes,
            )
        middle.set_ylim(*left.get_ylim())
        _draw_activations(right, curves)
        titles = (f"(a) {_kernel(spectra, 'deq')} of the DEQ",
                  f"(b) {_kernel(spectra, 'matched')} of its twin", "(c) activations")  # fmt: skip
        for axes, title in zip((left, middle, right), titles, strict=True):
            axes.set_title(title, loc="left")
    else:
        isolated = bool(spectra["isolated"].astype(bool).any())
        ratios = (1.15, 1.6, 0.75) if isolated else (1, 1.6)
        panels = figure.subplots(1, len(ratios), width_ratios=ratios)
        _draw_activations(panels[0], curves)
        _draw_bulk(panels[1], spectra, ["deq", "matched", "plain"], averages)
        if isolated:
            _draw_isolated(panels[2], spectra)
    named = f"{_kernel(spectra, 'deq')}, " if len(spectra) and not sphere else ""
    title = (
        f"{named}{activation_title(first['act'])}, "
        f"$\\sigma_a^2$ = {first['sigma_a2']:g}, {first['data']}"
        + (f", n = {first['n']}" if first["n"] else "")
        + ("" if first["feasible"] else f"\n{_shortcoming(table)}")
    )
    figure.suptitle(broken(title, 0.95 * figure.get_figwidth(), _TITLE), fontsize=_TITLE)
    for axes in figure.axes:
        _make_room(figure, axes)
    return figure


def _shortcoming(table: pd.DataFrame) -> str:
    """Say of a twin that is none whether scalars differ, and which differs most."""
    # "Exact" is said of scalars; a twin that is fitted, or has all of them, is only too far.
    if "residual" not in table or not table["residual"].abs().max() > _EXACT:
        return "no match"
    worst = table.iloc[int(np.nanargmax(table["residual"].abs()))]
    off = f"relative residual {abs(worst['residual']):.2g}"
    return f"no exact match: {_scalar(worst['name'])} differs ({off})"


def _scalar(name: str) -> str:
    r"""Return a scalar as formulas have it: ``alpha3`` is :math:`\alpha_3`."""
    letter = name.rstrip("0123456789")
    number = name[len(letter) :]
    # The diagonals are squares, but for that of the NTK.
    index = {"gamma": "^", "kappa": "^", "tau": "_*^"}.get(letter, "_")
    symbol = rf"\{letter}" if letter[1:] else letter
    return f"${symbol}{index}{number}$" if number else f"${symbol}$"


def _make_room(figure: Figure, axes: Axes) -> None:
    """Raise the top of a logarithmic axis until no bin under its legend reaches the legend."""
    shown = axes.get_legend()
    if shown is None or axes.get_yscale() != "log":
        return
    figure.draw_without_rendering()
    legend, around = shown.get_window_extent(), axes.bbox
    corners = np.concatenate(
        [patch.get_transform().transform_path(patch.get_path()).vertices for patch in axes.patches]
    )
    under = corners[corners[:, 0] >= legend.x0, 1]
    tallest = (under.max(initial=around.y0) - around.y0) / around.height
    free = (legend.y0 - around.y0) / around.height - _GAP
    if tallest > free:
        low, high = axes.get_ylim()
        axes.set_ylim(top=low * (high / low) ** (tallest / free))


def _kernel(spectra: pd.DataFrame, source: str) -> str:
    """Return what a title calls the kernel whose eigenvalues these are."""
    return KERNEL_NAMES[spectra.loc[spectra["source"] == source, "name"].iloc[0]]


def _label(name: str) -> str:
    """Turn ``sigma_1: htanh:a=0.84...,c=1.9...`` into a label; of more than two numbers none."""
    symbol, _, act = name.partition(": ")
    symbol = {"phi": r"$\phi$"}.get(symbol, rf"$\{symbol}$")
    _, _, parameters = act.partition(":")
    parts = []
    for item in filter(None, parameters.split(",")):
        key, _, value = item.partition("=")
        try:
            parts.append(f"{key}={float(value):.3g}")
        except ValueError:
            parts.append(item)
    shown = f"\n  {', '.join(parts)}" if 0 < len(parts) <= 2 else ""
    return f"{symbol} {activation_title(act)}{shown}"


def _draw_activations(axes: Axes, curves: pd.DataFrame) -> None:
    for number, (name, rows) in enumerate(curves.groupby("name", sort=False)):
        source = rows["source"].iloc[0]
        axes.plot(
            rows["x"], rows["value"], _DASHES[max(0, number - 1) % 4], color=_COLORS[source],
            label=_label(str(name)),
        )  # fmt: skip
    axes.axhline(0, color="0.8", lw=0.5, zorder=0)
    axes.axvline(0, color="0.8", lw=0.5, zorder=0)
    axes.set_xlabel("x")
    axes.set_ylabel("activation")
    axes.legend(loc="upper left", handlelength=1.8)
    low, high = axes.get_ylim()
    axes.set_ylim(low, high + 0.35 * (high - low))


def _draw_bulk(
    axes: Axes,
    spectra: pd.DataFrame,
    sources: Sequence[str],
    averages: Mapping[str, float],
) -> None:
    bulk = spectra[~spectra["isolated"].astype(bool)]
    shown = bulk[bulk["source"].isin(["deq", "matched"])]
    others = bulk[bulk["source"].isin(sources)].groupby("source")["value"]
    if ((others.max() < shown["value"].min()) | (others.min() > shown["value"].max())).any():
        # What lies wholly elsewhere is shown, too.
        shown = bulk[bulk["source"].isin(sources)]
    histograms = []
    for source in sources:
        rows = bulk[bulk["source"] == source]
        label = _NAMES[source]
        if source != "deq":
            label += f": {rows['distance'].iloc[0]:.3g}"
            label += f" ({rows['scaled'].iloc[0]:.3g})" if "scaled" in rows else ""
        if source == "matched" and averages:
            label += (
                f"\naveraged over {averages['realizations']:.0f} networks of"
                f"\nwidth {averages['width']:.0f}: {averages['distance']:.2g}"
            )
            if "noise_floor" in averages:
                label += f", noise {averages['noise_floor']:.2g}"
        style = {"histtype": "step", "color": _COLORS[source], "lw": 1.0}
        # Dashed, that it is told apart from the twin where both lie on each other.
        style |= {"ls": (0, (3, 1.2))} if source == "plain" else {}
        style = FILLED if source == "deq" else style
        histograms.append(Bulk(rows["value"].to_numpy(), label, style))
    draw_bulk(axes, histograms, shown["value"].to_numpy())
    if axes.get_yscale() == "log":
        # Room for the legend, whose corner a broad spectrum reaches.
        axes.set_ylim(top=_ABOVE * axes.get_ylim()[1])
    # Tables of before have no distance at the DEQ's scale.
    title = "distance (at the DEQ's scale)" if "scaled" in spectra else "distance"
    axes.legend(
        loc="upper right", title=title if sources != ["deq"] else None, title_fontsize=6.3,
        alignment="right",
    )  # fmt: skip


def _draw_isolated(axes: Axes, spectra: pd.DataFrame) -> None:
    isolated = spectra[spectra["isolated"].astype(bool)]
    marks = {"plain": "s", "matched": "x", "deq": "o"}
    rows = [
        Isolated(
            _NAMES[source],
            isolated.loc[isolated["source"] == source, "value"].to_numpy(),
            marker,
            _COLORS[source],
        )
        for source, marker in marks.items()
    ]
    draw_isolated(axes, rows, rows[-1])
