"""The figure of a spectrum: the bulk as histograms, the isolated eigenvalues beside it."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from deqcli.figures.spectra import (
    FILLED,
    Bulk,
    Isolated,
    Line,
    draw_bulk,
    draw_isolated,
    is_wide,
    name_marks,
)
from deqcli.figures.style import (
    COLUMN,
    DEQ,
    DEQ_DARK,
    KERNEL_LABELS,
    KERNEL_NAMES,
    MATCHED,
    SMALL,
    Figure,
    broken,
    shortened,
    styled,
)
from deqcli.vocabulary import DRAWN, activation_title

# Drawn in this order; the first two are the DEQ, blue, the last its equivalent, red.
_LINES = {
    "monte-carlo": FILLED,
    "exact": {"histtype": "step", "color": DEQ_DARK, "lw": 0.8, "ls": (0, (2, 1))},
    "equivalent": {"histtype": "step", "color": MATCHED, "lw": 1.1},
    "own-norm": {"histtype": "step", "color": MATCHED, "lw": 0.8, "ls": (0, (1, 1))},
}
_LAW = {"color": "black", "lw": 0.9}
# Inches of the title, of the legend's texts beside their handles; letters of what a vector carries.
_TITLE, _TEXT, _CARRIED = COLUMN - 0.1, COLUMN - 0.4, 36
_MARKS = {
    "equivalent": ("equiv.", "x", MATCHED),
    "own-norm": ("own n.", "+", MATCHED),
    "exact": ("exact", "D", DEQ_DARK),
    "monte-carlo": ("draws", "o", DEQ),
    "law": ("law", "|", "black"),
}
_LARGEST = 5


@styled
def draw(table: pd.DataFrame) -> Figure:
    """Draw the spectra of one run.

    Parameters
    ----------
    table : DataFrame
        Columns source, index, eigenvalue, isolated, distance, relative, network_relative,
        noise_floor, own_norm, kernel, act, sigma_a2, n, p, realizations, width, and of the law
        density, distribution, carries, aligned, as ``deqcli spectrum`` writes them. Where it has a
        column error, spectra are leading eigenvalues and a density with its distribution.
    """
    figure = Figure(figsize=(COLUMN, 3.3), layout="constrained")
    table = _from_densities(table)
    of_law = table["source"] == "law"
    isolated, bulk = table[table["isolated"]], table[~table["isolated"] & ~of_law]
    label = "isolated"
    if isolated.empty and is_wide(bulk["eigenvalue"].to_numpy()):
        # Real data has no edge to stand apart from; its few largest eigenvalues say the most.
        largest = (table["index"] < _LARGEST) & ~of_law
        isolated, label = table[largest], f"largest {_LARGEST}"
    left = figure.add_subplot() if isolated.empty else None
    if left is None:
        left, right = figure.subplots(1, 2, width_ratios=(2.6, 1))
        rows = [
            Isolated(name, _values(isolated, source), marker, color)
            for source, (name, marker, color) in _MARKS.items()
            if (isolated["source"] == source).any()
        ]
        named = isolated[isolated["source"] == "law"]
        draw_isolated(right, rows, rows[-1] if len(named) else rows[0], label)
        if len(named):
            names = [_name(*pair) for pair in zip(named["carries"], named["aligned"], strict=True)]
            name_marks(right, rows[-1].values, names, len(rows) - 1)
    sources = [source for source in _LINES if (bulk["source"] == source).any()]
    spectra = [
        # The DEQ's own spectrum is filled, wherever it comes from.
        Bulk(_values(bulk, source), _label(bulk, source), FILLED if k == 0 else _LINES[source])
        for k, source in enumerate(sources)
    ]
    draw_bulk(
        left, spectra, bulk["eigenvalue"].to_numpy(), _law(table[of_law & ~table["isolated"]])
    )
    first = table.iloc[0]
    network = (
        f"{KERNEL_NAMES[first['kernel']]}, {activation_title(first['act'])}, "
        f"$\\sigma_a^2$ = {first['sigma_a2']:g}"
    )
    samples = f"{first['data']}, n = {first['n']}, p = {first['p']}"
    whole = f"{network}, {samples}"
    title = whole if "\n" not in broken(whole, _TITLE) else broken(f"{network},\n{samples}", _TITLE)
    handles, labels = left.get_legend_handles_labels()
    labels = [broken(label, _TEXT, SMALL) for label in labels]
    figure.legend(
        handles, labels, loc="outside upper center", title=title, title_fontsize=7.5,
        handlelength=1.4, ncols=1,
    )  # fmt: skip
    return figure


def _from_densities(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table of eigenvalues: where only their density is known, its quantiles."""
    if "error" not in table:
        return table
    known = table[table["error"].isna()]
    parts = [known]
    for source, rows in table[table["error"].notna()].groupby("source", sort=False):
        first = rows.iloc[[0]]
        n = int(first["n"].iloc[0])
        shares = (np.arange(n - (known["source"] == source).sum()) + 0.5) / n
        values = np.interp(shares, rows["distribution"], rows["eigenvalue"])
        parts.append(first.loc[first.index.repeat(values.size)].assign(eigenvalue=values))
    return pd.concat(parts, ignore_index=True)


def _law(rows: pd.DataFrame) -> Line | None:
    if rows.empty:
        return None
    points, density, distribution = (
        rows[name].to_numpy() for name in ("eigenvalue", "density", "distribution")
    )
    drawn = rows["data"].iloc[0] in DRAWN
    label = "law, predicted" if drawn else "law of a mixture with the data's moments"
    return Line(points, density, distribution, label, _LAW)


def _name(carries: str, aligned: float) -> str:
    """Return what an eigenvector carries, with the share of it that lies in the classes."""
    if carries in ("norms", "neither"):
        return carries
    return f"{shortened(carries, _CARRIED)}, {100 * aligned:.0f}\N{NO-BREAK SPACE}%"


def _values(table: pd.DataFrame, source: str) -> NDArray[np.float64]:
    return table.loc[table["source"] == source, "eigenvalue"].to_numpy()


def _label(table: pd.DataFrame, source: str) -> str:
    first = table[table["source"] == source].iloc[-1]
    letter = KERNEL_LABELS[first["kernel"]]
    bar = rf"\bar{{{letter}}}"
    if source == "equivalent":
        return rf"equivalent ${bar}$"
    if source == "own-norm":
        return rf"equivalent ${bar}'$ with own norms"
    # Two parts of the same norm: what the inputs add to a pre-activation kernel is in both.
    network = {r"\Lambda": "G", "K": r"\Theta"}.get(letter)
    shares = rf"{_percent(first['relative'])} of ${letter}$"
    if network and pd.notna(first["network_relative"]):
        shares += rf", {_percent(first['network_relative'])} of ${network}$"
    own = first.get("own_norm", np.nan)
    # The distance is to the first equivalent that was asked for.
    only_own = bool(np.isclose(own, first["distance"], rtol=1e-6))
    closed = rf"{bar}'" if only_own else bar
    apart = rf"$\|{letter} - {closed}\|$ = {first['distance']:.3g}: {shares}"
    if source == "exact":
        own = np.nan if only_own else own
        nearer = "" if pd.isna(own) else rf", $\|{letter} - {bar}'\|$ = {own:.2g}"
        bulk = "\n(below the largest, a density by stochastic Lanczos)"
        return f"exact, {apart}{nearer}{bulk if pd.notna(first.get('error')) else ''}"
    noise = first["noise_floor"]
    draws = "draw" if first["realizations"] == 1 else "draws"
    text = f"{first['realizations']} {draws} of width {first['width']}, {apart}"
    return text if pd.isna(noise) else f"{text}\n(two such averages: {noise:.2g} apart)"


def _percent(share: float) -> str:
    """Return a share with two digits, without a power of ten where people write none."""
    return f"{float(f'{100 * share:.2g}'):g} %"
