"""Nothing of a figure is cut off or over something else, for options of every kind."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

import deqcli
from deqcli.reproduction import presets
from deqcli.runs import tables

QUICK = Path(__file__).parents[2] / "results" / "quick"
#: Pixels; texts are hinted to whole ones.
SLACK = 3.0

SMALL = {"n": 40, "p": 50}
TRAINED = {"data": "gmm", "p": 20, "train_size": 60, "test_size": 30, "batch": 20, "epochs": 1}
OPTIONS = [
    ("spectrum", {**SMALL, "realizations": 3, "width": 20, "classes": 5}),
    ("spectrum", {**SMALL, "estimator": "exact", "kernel": "preactivation-ntk", "sigma_a2": 0.0}),
    ("spectrum", {**SMALL, "estimator": "exact", "act": "htanh:a=0.123456,c=1.987654"}),
    ("match", {"tau0": 1.0, "act": "gelu", "sigma_a2": 0.1}),
    ("match", {**SMALL, "act": "relu", "family": "htanh", "design": 0}),
    ("match", {**SMALL, "family": "lrelu", "layers": "2", "design": 0, "averaged": True,
               "realizations": 2, "width": 20}),
    ("match", {**SMALL, "data": "sphere", "act": "nrelu", "kernel": "ntk"}),
    ("error-vs-n", {"n": "20,40", "trials": 1, "sigma_a2": 0.1,
                    "act": "relu,tanh,gelu,swish,erf,sin,cos,softplus"}),
    ("error-vs-n", {"n": "20,1000", "trials": 1, "act": "relu"}),
    ("visible", {"n": 40, "mean_norm": "1,2", "trials": 1, "ratio": "0.5,1,2,4,8", "act": "relu"}),
    ("flow", {**SMALL, "widths": "20,30,40,50,60,70,80,90,100", "steps": 3, "trials": 1}),
    ("flow", {**SMALL, "widths": "30", "steps": 1, "trials": 2}),
    ("accuracy", {**TRAINED, "widths": "16", "trials": 1}),
    ("accuracy", {**TRAINED, "widths": "8,16,24,32,40,48,56,64", "trials": 2,
                  "nets": "deq,matched"}),
    ("accuracy", {**TRAINED, "widths": "8,9,400", "trials": 2, "nets": "matched,plain"}),
    ("spectrum", {"n": 150, "p": 200, "estimator": "exact", "classes": 8, "act": "relu",
                  "kernel": "ntk", "mean_norm": 4.0, "covariance": "identity"}),
    ("spectrum", {"n": 30, "p": 20, "estimator": "exact", "kernel": "preactivation-ntk",
                  "act": "htanh:a=1,c=2", "sigma_a2": 1e-30, "sigma_b2": 1e12}),
    ("match", {"classes": 9, "n": 90, "p": 200, "act": "abs", "mean_norm": 5.0}),
    ("error-vs-n", {"n": "20,40", "trials": 1, "sigma_a2": 0.1,
                    "act": "relu,tanh,gelu,swish,erf,sin,cos,softplus,abs,htanh,lrelu"}),
    ("predict", {"n": 20, "p": 30, "values": "7", "trials": 1, "test_size": 20, "nets": "deq"}),
    ("predict", {"n": 40, "p": 30, "values": "20,21,22,23,400", "trials": 2, "test_size": 20}),
]  # fmt: skip


def outside(figure: Figure) -> list[str]:
    """Return what leaves the figure, legends that leave their axes, and texts over each other."""
    renderer = FigureCanvasAgg(figure).get_renderer()
    figure.draw(renderer)
    wrong = []

    def look(name, box, around):
        low = box.x0 >= around.x0 - SLACK and box.y0 >= around.y0 - SLACK
        if not (low and box.x1 <= around.x1 + SLACK and box.y1 <= around.y1 + SLACK):
            wrong.append(f"{name}: {box.extents.round(1)} in {around.extents.round(1)}")

    def over(texts):
        boxes = [text.get_window_extent(renderer) for text in texts]
        for (one, first), (other, second) in combinations(zip(texts, boxes, strict=True), 2):
            if first.overlaps(second):
                wrong.append(f"{one.get_text()!r} is over {other.get_text()!r}")

    for legend in figure.legends:
        look("legend of the figure", legend.get_window_extent(renderer), figure.bbox)
    titles = [figure._suptitle] if figure._suptitle else []
    for axes in figure.axes:
        if (legend := axes.get_legend()) is not None:
            look("legend", legend.get_window_extent(renderer), axes.bbox)
        for text in axes.texts:
            look(f"text {text.get_text()!r}", text.get_window_extent(renderer), axes.bbox)
        look("axes with labels", axes.get_tightbbox(renderer), figure.bbox)
        titles += [axes.title, axes._left_title, axes._right_title]
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            ticks = [t for t in axis.get_major_ticks() if low <= t.get_loc() <= high]
            assert ticks, f"{axis.axis_name} axis of {axes.get_title()!r} without a tick"
            over([tick.label1 for tick in ticks if tick.label1.get_text()])
    for title in titles:
        look(f"title {title.get_text()!r}", title.get_window_extent(renderer), figure.bbox)
    over([title for title in titles if title.get_text()])
    return wrong


@pytest.mark.parametrize("name", presets.names())
def test_nothing_leaves_the_papers_figures(name):
    preset = presets.load(name)
    assert outside(preset.study.draw(tables.read(QUICK / f"{preset.stem}.csv"))) == []


@pytest.mark.parametrize("name", presets.names())
def test_nothing_leaves_figures_of_long_names(name):
    """Files and classes are named by others."""
    preset = presets.load(name)
    table = tables.read(QUICK / f"{preset.stem}.csv")
    for column in {"data", "dataset"} & set(table):
        table[column] = (
            "folder/a-very-long-name-of-samples-that-somebody-measured-somewhere-2024.csv"
        )
    if "carries" in table:
        table["carries"] = table["carries"].str.replace("class", "class of $ and long names, " * 3)
    assert outside(preset.study.draw(table)) == []


@pytest.mark.slow
@pytest.mark.parametrize(("name", "options"), OPTIONS, ids=str)
def test_nothing_leaves_figures_of_other_options(name, options):
    assert outside(deqcli.run(name, jobs=1, **options).figure()) == []
