"""Nothing of a figure is cut off, and legends are inside their axes, for options of every kind."""

from __future__ import annotations

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
]  # fmt: skip


def outside(figure: Figure) -> list[str]:
    """Return what leaves the figure, and legends that leave their axes."""
    renderer = FigureCanvasAgg(figure).get_renderer()
    figure.draw(renderer)
    wrong = []

    def look(name, box, around):
        low = box.x0 >= around.x0 - SLACK and box.y0 >= around.y0 - SLACK
        if not (low and box.x1 <= around.x1 + SLACK and box.y1 <= around.y1 + SLACK):
            wrong.append(f"{name}: {box.extents.round(1)} in {around.extents.round(1)}")

    for legend in figure.legends:
        look("legend of the figure", legend.get_window_extent(renderer), figure.bbox)
    for axes in figure.axes:
        if (legend := axes.get_legend()) is not None:
            look("legend", legend.get_window_extent(renderer), axes.bbox)
        for text in axes.texts:
            look(f"text {text.get_text()!r}", text.get_window_extent(renderer), axes.bbox)
        look("axes with labels", axes.get_tightbbox(renderer), figure.bbox)
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            ticks = [t for t in axis.get_majorticklocs() if low <= t <= high]
            assert ticks, f"{axis.axis_name} axis of {axes.get_title()!r} without a tick"
    return wrong


@pytest.mark.parametrize("name", presets.names())
def test_nothing_leaves_the_papers_figures(name):
    preset = presets.load(name)
    assert outside(preset.study.draw(tables.read(QUICK / f"{preset.stem}.csv"))) == []


@pytest.mark.slow
@pytest.mark.parametrize(("name", "options"), OPTIONS, ids=str)
def test_nothing_leaves_figures_of_other_options(name, options):
    assert outside(deqcli.run(name, jobs=1, **options).figure()) == []
