"""The figure of predicted errors, from tables made by hand."""

from __future__ import annotations

import pandas as pd
import pytest

from deqcli.figures import predict


def table(widths: list[int], n: int = 100) -> pd.DataFrame:
    """Predictions and one measured network at some widths, 0 the infinite one."""
    facts = {"net": "deq", "layers": 1, "n": n, "ridge": 0.01, "mean_norm": 2.0, "sigma_a2": 0.2,
             "act": "relu", "against": "width", "kernel": "ck", "data": "gmm"}  # fmt: skip
    rows = [
        {"kind": kind, "value": float(width), "width": width, "trial": 0, "error": 0.1,
         "mean": 0.5, "deviation": 0.2, **facts}
        for kind in ("predicted", "measured") for width in widths
    ]  # fmt: skip
    return pd.DataFrame(rows)


@pytest.mark.parametrize(("n", "shown"), [(20, False), (64, True), (100, True), (400, False)])
def test_the_place_of_as_many_neurons_as_samples_is_marked_within_the_widths(n, shown):
    for axes in predict.draw(table([50, 200, 0], n)).axes:
        assert [text.get_text() for text in axes.texts] == ["m = n"] * shown
        low, high = axes.get_xlim()
        assert high < 1000
        assert not shown or low < n < high


def test_a_single_prediction_is_a_dash():
    dashes = {
        len(line.get_xdata()): line.get_marker()
        for widths in ([50, 0], [50, 100, 200, 0])
        for line in predict.draw(table(widths)).axes[0].lines[:1]
    }
    assert dashes == {1: "_", 3: "None"}


@pytest.mark.parametrize(
    ("layers", "named"), [([1, 1], "1 layer"), ([2, 2], "2 layers"), ([1, 2], "1 to 2 layers")]
)
def test_the_legend_says_how_many_layers_there_are(layers, named):
    twin = [table([50, 100]).assign(net="matched", layers=number) for number in layers]
    drawn = predict.draw(pd.concat([table([50, 100]), *twin], ignore_index=True))
    (legend,) = drawn.legends
    names = [text.get_text() for text in legend.get_texts()]
    assert names[:2] == ["DEQ", f"explicit twin, {named}"]
