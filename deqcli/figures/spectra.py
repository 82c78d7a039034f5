"""What figures of spectra share: bulks as histograms, isolated eigenvalues beside them."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from deqcli.figures.style import DEQ, inches_of

#: What a line of names holds at most, what share of an axis of 1.4 inches a letter of it takes, and
#: what share of one of two thirds of an inch a line takes beside others.
_CHARACTERS, _CHARACTER, _LINE = 21, 0.03, 0.15
# Points of the labels of ticks, as in the style sheet, and inches between them.
_TICKS, _SPACE = 6.5, 0.03
# Lines of names that are beside each other.
_LINES = 3

FILLED: dict[str, Any] = {"color": DEQ, "alpha": 0.45}
"""How the first spectrum is drawn, over which the others are lines."""


class Bulk(NamedTuple):
    """A spectrum without its isolated eigenvalues, its label and how it is drawn."""

    values: NDArray[np.float64]
    label: str
    style: dict[str, Any]


class Isolated(NamedTuple):
    """The isolated eigenvalues of one matrix: its name, marker and colour."""

    name: str
    values: NDArray[np.float64]
    marker: str
    color: str


def is_wide(values: NDArray[np.float64]) -> bool:
    """Tell whether eigenvalues span so many orders that only a logarithmic axis shows them."""
    return bool(values.min() > 0 and values.max() > 50 * np.median(values))


class Line(NamedTuple):
    """A law: points, its density and distribution there, its label and how it is drawn."""

    points: NDArray[np.float64]
    density: NDArray[np.float64]
    distribution: NDArray[np.float64]
    label: str
    style: dict[str, Any]


def draw_bulk(
    axes: Axes, spectra: Sequence[Bulk], reference: NDArray[np.float64], law: Line | None = None
) -> None:
    """Draw histograms with the same bins, which the values of ``reference`` choose.

    A law is drawn over them as a line: its density, or where axes are logarithmic how many
    eigenvalues it has in a bin.
    """
    wide = is_wide(reference)
    low, high = float(reference.min()), float(reference.max())
    if low == high:
        low, high = low - (0.5 * abs(low) or 0.5), high + (0.5 * abs(high) or 0.5)
    # About one bin for twelve eigenvalues shows the shape of the law without the noise.
    number = int(np.clip(spectra[0].values.size / 12, 12, 60))
    spaced = np.geomspace if wide else np.linspace
    bins = spaced(low, high + 1e-9 * abs(high), number + 1).tolist()
    tallest = []
    for values, label, style in spectra:
        # The values of another matrix may all lie elsewhere: then there is no density.
        inside = bool(np.any((values >= bins[0]) & (values <= bins[-1])))
        heights, _, _ = axes.hist(values, bins, density=inside and not wide, label=label, **style)
        tallest.append(float(np.max(heights)))
    if law is not None and wide:
        shares = np.interp(bins, law.points, law.distribution, left=0.0, right=1.0)
        expected = spectra[0].values.size * np.diff(shares)
        expected[expected < 0.1] = np.nan
        middles = np.sqrt(np.multiply(bins[1:], bins[:-1]))
        axes.plot(middles, expected, label=law.label, **law.style)
    elif law is not None and law.density.any():
        axes.plot(law.points, law.density, label=law.label, **law.style)
        # What is drawn filled sets the height: another may have all its values in one bin.
        axes.set_ylim(0, 1.15 * max(tallest[0], float(np.quantile(law.density, 0.95))))
    axes.set_xlabel("eigenvalue" if wide else "eigenvalue, bulk")
    axes.set_ylabel("eigenvalues in bin" if wide else "density")
    if wide:
        axes.set_xscale("log")
        axes.set_yscale("log")
    else:
        axes.set_xlim(low - 0.03 * (high - low), high + 0.03 * (high - low))


class _Few(MaxNLocator):
    """Up to three steps, fewer where labels of ticks would touch."""

    def __init__(self, axes: Axes) -> None:
        super().__init__(min_n_ticks=2)
        self._axes = axes

    def __call__(self) -> Any:
        low, high = self._axes.get_xlim()
        inch = (high - low) * self._axes.figure.dpi / self._axes.bbox.width
        for steps in (3, 2, 1):
            self.set_params(nbins=steps)
            ticks = super().__call__()
            shown = [tick for tick in ticks if low <= tick <= high]
            widest = max((inches_of(f"{tick:g}", _TICKS) for tick in shown), default=0.0)
            if len(shown) < 2 or shown[1] - shown[0] > (widest + _SPACE) * inch:
                break
        return ticks


def draw_isolated(
    axes: Axes, rows: Sequence[Isolated], guide: Isolated, label: str = "isolated"
) -> None:
    """Mark isolated eigenvalues, one row a matrix, with lines through those of ``guide``."""
    for height, (_, values, marker, color) in enumerate(rows):
        axes.plot(values, np.full(values.size, height), marker, color=color, mew=1.1, mfc="none")
    for value in guide.values:
        axes.axvline(value, color=guide.color, lw=0.5, alpha=0.5, zorder=0)
    axes.set_yticks(range(len(rows)), [row.name for row in rows])
    axes.set_ylim(-0.7, len(rows) - 0.3)
    every = np.concatenate([row.values for row in rows])
    # Never so close that a per cent looks like a world.
    pad = max(0.15 * float(np.ptp(every)), 0.1 * float(np.abs(every).max()))
    axes.set_xlim(every.min() - pad, every.max() + pad)
    axes.set_xlabel(label)
    axes.xaxis.set_major_locator(_Few(axes))
    axes.tick_params(axis="y", length=0)


def _first_of(texts: Sequence[list[str]]) -> list[str]:
    """Return the lines of as many texts as there is room for, and how many there are more."""
    lines = list(texts[0])
    for place, text in enumerate(texts[1:], start=1):
        if len(lines) + len(text) > _LINES:
            return [*lines, f"and {len(texts) - place} more"]
        lines += text
    return lines


def name_marks(axes: Axes, values: NDArray[np.float64], names: Sequence[str], row: int) -> None:
    """Write above the marks of the top row what each carries; near ones share a text."""
    low, high = axes.get_xlim()
    line = _LINE * (high - low)
    groups: list[tuple[list[float], dict[str, list[str]]]] = []
    for value, name in sorted(zip(values.tolist(), names, strict=True)):
        lines = wrap(name, _CHARACTERS)
        places, texts = groups[-1] if groups else ([], {})
        beside = min(sum(map(len, texts.values())) + len(lines), 2 * _LINES)
        if places and value - places[-1] < 0.5 * line * beside:
            places.append(value)
            texts[name] = lines
        else:
            groups.append(([value], {name: lines}))
    longest = 0
    for places, texts in groups:
        lines = _first_of(list(texts.values()))
        longest = max(longest, *map(len, lines))
        # Room for lines beside each other at the ends of the axis.
        middle, half = float(np.mean(places)), 0.5 * line * len(lines)
        left, right = axes.get_xlim()
        axes.set_xlim(min(left, middle - half), max(right, middle + half))
        axes.text(
            middle, row + 0.35, "\n".join(lines), rotation=90, ha="center",
            va="bottom", fontsize=6, linespacing=1.2,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5},
        )  # fmt: skip
    # Room for the longest line: of the height of the axes it takes this share.
    share = _CHARACTER * longest
    bottom = axes.get_ylim()[0]
    axes.set_ylim(top=(row + 0.5 - share * bottom) / (1 - share))
