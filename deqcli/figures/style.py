"""What all figures share: the papers' colours, a style sheet, and labels."""

from __future__ import annotations

import io
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.style
import pandas as pd
from matplotlib import figure as mpl_figure
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, NullFormatter

from deqcli.vocabulary import Kernel

#: The papers' colours: blue the DEQ, red its equivalent or matched twin, green a plain network.
DEQ, MATCHED, PLAIN = "#1f5fb4", "#d62728", "#2ca02c"
DEQ_DARK = "#0b2e5c"

#: Width of one column of a two-column page, and of the page, in inches.
COLUMN, PAGE = 3.4, 7.0

#: The letters of the kernels in formulas.
KERNEL_LABELS = {
    Kernel.CK: r"G",
    Kernel.PREACTIVATION_CK: r"\Lambda",
    Kernel.NTK: r"\Theta",
    Kernel.PREACTIVATION_NTK: r"K",
}

#: What titles call them.
KERNEL_NAMES = {
    Kernel.CK: "CK $G$",
    Kernel.PREACTIVATION_CK: r"pre-activation CK $\Lambda$",
    Kernel.NTK: r"NTK $\Theta$",
    Kernel.PREACTIVATION_NTK: "pre-activation NTK $K$",
}

# Dots an inch of a figure in a notebook.
_SHOWN = 150
_STYLE = Path(__file__).with_name("deqcli.mplstyle")


class Figure(mpl_figure.Figure):
    """A figure that notebooks show, whatever their backend.

    Examples
    --------
    >>> Figure(figsize=(1, 1))._repr_png_()[1:4]
    b'PNG'
    """

    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        self.savefig(buffer, format="png", dpi=_SHOWN)
        return buffer.getvalue()


def log_ticks(axes: Axes) -> None:
    """Make the vertical axis logarithmic, its ticks in plain numbers: 1, 2 and 5 where few fit."""
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    if high < 3 * low:
        # Room for a tick or two.
        middle = (low * high) ** 0.5
        low, high = middle / 3**0.5, middle * 3**0.5
        axes.set_ylim(low, high)
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 100 * low else (1,)))
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.yaxis.set_minor_formatter(NullFormatter())


def of_trials(table: pd.DataFrame) -> str:
    """Say how many trials a line and the band around it are of.

    Examples
    --------
    >>> of_trials(pd.DataFrame({"trial": [0, 1, 0]})), of_trials(pd.DataFrame({"trial": [0]}))
    ('mean and range of 2 trials', 'one trial')
    """
    count = table["trial"].nunique()
    return "one trial" if count == 1 else f"mean and range of {count} trials"


def styled(draw: Callable[..., Figure]) -> Callable[..., Figure]:
    """Draw under the project's style sheet, whatever the user's own settings are."""

    @wraps(draw)
    def wrapped(*args: Any, **kwargs: Any) -> Figure:
        with mpl.rc_context():
            mpl.rcdefaults()
            mpl.style.use(_STYLE)
            return draw(*map(_escaped, args), **kwargs)

    return wrapped


def _escaped(given: Any) -> Any:
    """Return a table in whose texts a dollar is a dollar: files and classes are named by others."""
    if not isinstance(given, pd.DataFrame):
        return given
    texts = given.select_dtypes(["object", "string"]).columns
    found = [name for name in texts if given[name].map(lambda cell: "$" in str(cell)).any()]
    return given.assign(
        **{
            str(name): given[name].map(
                lambda cell: cell.replace("$", r"\$") if isinstance(cell, str) else cell
            )
            for name in found
        }
    )
