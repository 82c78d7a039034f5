"""What figures of spectra share: bulks as histograms, isolated eigenvalues beside them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from deqcli.figures.style import DEQ

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


def draw_bulk(axes: Axes, spectra: Sequence[Bulk], reference: NDArray[np.float64]) -> None:
    """Draw histograms with the same bins, which the values of ``reference`` choose."""
    wide = is_wide(reference)
    low, high = float(reference.min()), float(reference.max())
    if low == high:
        low, high = low - (0.5 * abs(low) or 0.5), high + (0.5 * abs(high) or 0.5)
    # About one bin for twelve eigenvalues shows the shape of the law without the noise.
    number = int(np.clip(spectra[0].values.size / 12, 12, 60))
    spaced = np.geomspace if wide else np.linspace
    bins = spaced(low, high + 1e-9 * abs(high), number + 1).tolist()
    for values, label, style in spectra:
        # The values of another matrix may all lie elsewhere: then there is no density.
        inside = bool(np.any((values >= bins[0]) & (values <= bins[-1])))
        axes.hist(values, bins, density=inside and not wide, label=label, **style)
    axes.set_xlabel("eigenvalue" if wide else "eigenvalue, bulk")
    axes.set_ylabel("eigenvalues in bin" if wide else "density")
    if wide:
        axes.set_xscale("log")
        axes.set_yscale("log")
    else:
        axes.set_xlim(low - 0.03 * (high - low), high + 0.03 * (high - low))


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
    pad = 0.15 * np.ptp(every) or 0.1 * abs(every.max())
    axes.set_xlim(every.min() - pad, every.max() + pad)
    axes.set_xlabel(label)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=3))
    axes.tick_params(axis="y", length=0)
