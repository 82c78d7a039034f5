"""What all figures share: the papers' colours, a style sheet, and labels."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path, PurePath
from typing import Any

import matplotlib as mpl
import matplotlib.style
import pandas as pd
from matplotlib import figure as mpl_figure
from matplotlib.axes import Axes
from matplotlib.textpath import TextPath
from matplotlib.ticker import LogLocator, NullFormatter

from deqcli.vocabulary import Kernel

#: The papers' colours: blue the DEQ, red its equivalent or matched twin, green a plain network.
DEQ, MATCHED, PLAIN = "#1f5fb4", "#d62728", "#2ca02c"
DEQ_DARK = "#0b2e5c"

#: Width of one column of a two-column page, and of the page, in inches.
COLUMN, PAGE = 3.4, 7.0

#: Points of titles and of legends, as in the style sheet.
TITLE, SMALL = 7.5, 6.3

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

# Inches of what stands before a text of a legend, and the space between columns.
_HANDLE = 0.35
# How far ticks are from each other, of the range of a logarithmic axis.
_APART = 0.1
# Points in an inch.
_INCH = 72
# Letters of a name given by others, and the columns that have them.
_LETTERS = 32
_NAMES = ("data", "dataset")
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


def apart(places: Sequence[float]) -> list[float]:
    """Return the places of ticks on a logarithmic axis whose labels do not touch.

    Examples
    --------
    >>> apart([8, 9, 4000])
    [9, 4000]
    """
    kept: list[float] = []
    for place in sorted(places, reverse=True):
        if not kept or math.log(kept[0] / place) >= _APART * math.log(places[-1] / places[0]):
            kept.insert(0, place)
    return kept


def of_trials(table: pd.DataFrame) -> str:
    """Say how many trials a line and the band around it are of.

    Examples
    --------
    >>> of_trials(pd.DataFrame({"trial": [0, 1, 0]})), of_trials(pd.DataFrame({"trial": [0]}))
    ('mean and range of 2 trials', 'one trial')
    """
    count = table["trial"].nunique()
    return "one trial" if count == 1 else f"mean and range of {count} trials"


def shortened(name: str, letters: int = _LETTERS) -> str:
    """Return a name with an ellipsis in place of what is too much of it.

    Examples
    --------
    >>> shortened("mnist"), shortened("samples-of-2024.csv", letters=13)
    ('mnist', 'samples-….csv')
    """
    if len(name) <= letters:
        return name
    kept = letters - 1
    return f"{name[: kept - kept // 3].rstrip()}…{name[len(name) - kept // 3 :].lstrip()}"


def broken(text: str, inches: float, size: float = TITLE, at: str = r"(?<=[,;:]) ") -> str:
    """Return a text with more lines, so that none is wider than some inches.

    Parameters
    ----------
    at : str
        Where lines may end, a regular expression: by default the spaces after commas, semicolons
        and colons.
    """
    lines = []
    for line in text.split("\n"):
        first, *rest = re.split(at, line)
        lines.append(first)
        for part in rest:
            if inches_of(longer := f"{lines[-1]} {part}", size) <= inches:
                lines[-1] = longer
            else:
                lines.append(part)
    return "\n".join(lines)


def inches_of(line: str, size: float = TITLE) -> float:
    """Return how wide a line of text is."""
    return float(TextPath((0, 0), line, size=size).get_extents().width) / _INCH


def columns(labels: Sequence[str], inches: float) -> int:
    """Return whether a legend has room for two columns of labels, or for one.

    Examples
    --------
    >>> columns(["DEQ", "twin"], 3.4), columns(["DEQ", "twin" * 15], 3.4)
    (2, 1)
    """
    widths = [inches_of(label, SMALL) for label in labels]
    half = -(-len(widths) // 2)
    both = max(widths[:half], default=0) + max(widths[half:], default=0)
    return 2 if both + 2 * _HANDLE <= inches else 1


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
    """Return a table of texts to be drawn: files and classes are named by others.

    Names are shortened, and a dollar is a dollar.
    """
    if not isinstance(given, pd.DataFrame):
        return given
    texts = given.select_dtypes(["object", "string"])
    return given.assign(**{str(name): _written(texts[name], name in _NAMES) for name in texts})


def _written(column: pd.Series, names: bool) -> pd.Series:
    def cell(text: Any) -> Any:
        if not isinstance(text, str):
            return text
        # A file is named without its folder.
        return (shortened(PurePath(text).name) if names else text).replace("$", r"\$")

    return column.map(cell)
