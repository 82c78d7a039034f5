"""What all figures share: the papers' colours, a style sheet, and labels."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.style
from matplotlib.figure import Figure

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

_STYLE = Path(__file__).with_name("deqcli.mplstyle")


def styled(draw: Callable[..., Figure]) -> Callable[..., Figure]:
    """Draw under the project's style sheet, whatever the user's own settings are."""

    @wraps(draw)
    def wrapped(*args: Any, **kwargs: Any) -> Figure:
        with mpl.rc_context():
            mpl.rcdefaults()
            mpl.style.use(_STYLE)
            return draw(*args, **kwargs)

    return wrapped
