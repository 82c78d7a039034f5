"""The figure of the errata says what its table says."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from deqcli.figures import errata
from deqcli.figures.style import DEQ, MATCHED


def table(names: int) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {"erratum": f"e{k}", "where": f"Theorem {k}", "form": form, "n": n, "trial": trial,
             "error": (1.0 if form == "printed" else 3 / np.sqrt(n)) * (1 + 0.1 * trial)}
            for k in range(names)
            for form in ("printed", "right")
            for n in (100, 400)
            for trial in range(2)
        ]
    )  # fmt: skip


@pytest.mark.parametrize("names", [1, 4, 6])
def test_one_panel_an_erratum(names):
    figure = errata.draw(table(names))
    shown = [axes for axes in figure.axes if axes.axison]
    assert [axes.get_title(loc="left") for axes in shown] == [f"Theorem {k}" for k in range(names)]


def test_means_of_both_forms_and_a_guide_below():
    (axes,) = [axes for axes in errata.draw(table(1)).axes if axes.axison]
    printed, right, guide = axes.lines
    assert (printed.get_color(), right.get_color()) == (MATCHED, DEQ)
    np.testing.assert_allclose(printed.get_ydata(), [1.05, 1.05])
    np.testing.assert_allclose(right.get_ydata(), [0.315, 0.1575])
    assert (guide.get_ydata() < 0.9 * right.get_ydata()).all()
    assert guide.get_ydata()[0] / guide.get_ydata()[1] == pytest.approx(2)
    assert axes.get_xscale() == axes.get_yscale() == "log"
