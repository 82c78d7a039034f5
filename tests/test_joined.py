"""A figure that joins the results of several presets is made of their tables and nothing else."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex

from deqcli.figures import accuracy_gaps
from deqcli.figures.style import MATCHED, PLAIN
from deqcli.paired import gaps
from deqcli.report.page import build
from deqcli.reproduction import joined, presets
from deqcli.runs import files, tables

QUICK = Path(__file__).parents[1] / "results" / "quick"
(FIGURE,) = joined.load()
STEMS = [name.replace("/", "-") for name in FIGURE.parts]


@pytest.fixture
def folder(tmp_path) -> Path:
    for stem in STEMS:
        for suffix in (".csv", ".json"):
            shutil.copy(QUICK / f"{stem}{suffix}", tmp_path)
    return tmp_path


def test_its_parts_are_presets_of_one_study():
    assert {presets.load(name).study.name for name in FIGURE.parts} == {"accuracy"}
    assert FIGURE.name not in presets.names()


def test_the_table_has_the_gaps_of_every_part(folder):
    csv, png = joined.write(folder)
    table = files.read_csv(csv)
    assert list(table.columns) == list(joined.COLUMNS)
    for stem in STEMS:
        own = gaps(tables.read(folder / f"{stem}.csv"))
        mine = table[table["dataset"] == own["dataset"].iloc[0]]
        np.testing.assert_allclose(mine["accuracy"], own["accuracy"], rtol=1e-9)
        assert mine["width"].tolist() == own["width"].tolist()
    assert png.read_bytes().startswith(b"\x89PNG")
    first = csv.read_bytes(), png.read_bytes()
    joined.write(folder)
    assert (csv.read_bytes(), png.read_bytes()) == first


def test_nothing_is_made_before_all_parts_are_there(folder):
    (folder / f"{STEMS[1]}.json").unlink()
    assert joined.write(folder) == []
    assert not (folder / f"{FIGURE.stem}.csv").exists()


def test_committed_ones_are_those_of_their_parts(folder):
    (csv, _) = joined.write(folder)
    committed = files.read_csv(QUICK / csv.name)
    pd.testing.assert_frame_equal(files.read_csv(csv), committed, rtol=1e-6)


@pytest.mark.parametrize("limits", [True, False])
def test_points_and_bars_are_those_of_the_table(limits):
    rows = [
        {"dataset": data, "act": "relu", "net": net, "width": width, "trials": 3,
         "accuracy": 0.01 * k, "accuracy_interval": 0.001 * (k + 1) if k else np.nan}
        for k, (data, net, width) in enumerate(
            (data, net, width)
            for data in ("mnist", "cifar")
            for net in ("matched", "plain")
            for width in ((0, 32, 64) if limits else (32, 64))
        )
    ]  # fmt: skip
    table = pd.DataFrame(rows)
    figure = accuracy_gaps.draw(table)
    (axes,) = figure.axes
    shown = sorted(
        y for line in axes.lines[1:] if line.get_marker() in "os" for y in line.get_ydata()
    )
    np.testing.assert_allclose(shown, sorted(100 * table["accuracy"]))
    colors = {to_hex(line.get_color()) for line in axes.lines[1:] if line.get_marker() in "os"}
    assert colors == {MATCHED, PLAIN}
    assert (axes.get_xticklabels()[-1].get_text() == "∞") == limits
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == ["matched explicit", "plain explicit", "mnist", "cifar"]
    title = figure.legends[0].get_title().get_text()
    assert title == "ReLU, 3 trials: mean and 95 % interval"


def test_the_report_has_it_after_its_parts(folder):
    joined.write(folder)
    page = build(folder)
    places = [page.index(f'<article id="{stem}"') for stem in (*STEMS, FIGURE.stem)]
    assert places == sorted(places)
    assert f'href="{FIGURE.stem}.csv"' in page
    assert FIGURE.command in page
