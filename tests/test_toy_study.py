"""A study is one file and one figure: command, help, preset, Python call and page follow."""

from __future__ import annotations

import json
import sys

import pytest

import deqcli
import deqcli.figures
import deqcli.studies
from deqcli import study as studies
from deqcli.cli import run as run_cli
from deqcli.errors import InputError
from deqcli.reproduction import presets

STUDY = '''
"""Means of random numbers."""

from __future__ import annotations

from dataclasses import dataclass

from deqcli.quantities import Measured, Quantity
from deqcli.settings import setting
from deqcli.shared_settings import SeedSettings
from deqcli.study import Assembled, Study


@dataclass(frozen=True, kw_only=True)
class ToySettings(SeedSettings):
    """Settings of ``deqcli toy-means``."""

    trials: int = setting(3, "How many means.", least=1)
    scale: float = setting(2.0, "Standard deviation of the numbers.", above=0)


class ToyMeans(Study):
    """Average random numbers, and see how far from zero the means are."""

    name = "toy-means"
    settings = ToySettings
    examples = ("--trials 4",)
    quick = {"trials": 2}

    def prepare(self, settings):
        return settings

    def points(self, settings):
        return {f"trial {trial}": (trial,) for trial in range(settings.trials)}

    def memory(self, settings):
        return 1000

    def compute(self, prepared, trial):
        import numpy as np

        from deqcli.runs.seeds import stream

        draws = stream(prepared.seed, self.name, trial).standard_normal(100)
        return {"mean": np.array(prepared.scale * draws.mean())}

    def assemble(self, prepared, load):
        import pandas as pd

        means = [float(load(f"trial {trial}")["mean"]) for trial in range(prepared.trials)]
        table = pd.DataFrame({"trial": range(prepared.trials), "mean": means})
        return Assembled(table, {"largest": max(map(abs, means))})

    def sentences(self, findings):
        yield f"largest mean {findings['largest']:.3f}"

    def quantities(self, settings):
        return (Quantity("largest", "largest mean", lambda run: Measured(run.findings["largest"])),)


STUDY = ToyMeans()
'''
FIGURE = '''
"""The figure of the means."""

from matplotlib.figure import Figure


def draw(table):
    figure = Figure()
    figure.subplots().plot(table["trial"], table["mean"], "o")
    return figure
'''
PRESET = """
study = "toy-means"
trials = 4
scale = 3.0

[figure]
title = "Toy paper, Figure 1"
page = 7
about = "The means of a few numbers."

[figure.printed]
largest = "0.5"
"""


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """Three files, and nothing else: the study, its figure, a preset."""
    for folder, name, text in (
        ("studies", "toy_means.py", STUDY),
        ("figures", "toy_means.py", FIGURE),
        ("experiments/toy", "figure-1.toml", PRESET),
    ):
        place = tmp_path / folder
        place.mkdir(parents=True)
        (place / name).write_text(text.lstrip())
    for package in (deqcli.studies, deqcli.figures):
        folder = str(tmp_path / package.__name__.rpartition(".")[2])
        monkeypatch.setattr(package, "__path__", [*package.__path__, folder])
    monkeypatch.setattr(presets, "folder", lambda: tmp_path / "experiments")
    monkeypatch.chdir(tmp_path)
    yield
    for name in ("deqcli.studies.toy_means", "deqcli.figures.toy_means"):
        sys.modules.pop(name, None)
    studies.prepared.cache_clear()


def test_it_is_a_command_with_help(toy, capsys):
    assert run_cli(["--help"]) == 0
    assert "toy-means   Means of random numbers." in capsys.readouterr().out
    assert run_cli(["toy-means", "--help"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "Average random numbers, and see how far from zero the means are." in shown
    assert "--scale NUMBER Standard deviation of the numbers. [above 0] [default: 2.0]" in shown
    assert "deqcli toy-means --trials 4" in shown


def test_three_doors_give_the_same_numbers(toy, tmp_path, capsys):
    called = deqcli.run("toy-means", trials=4, scale=3.0, jobs=1)
    typing = ["toy-means", "--trials", "4", "--scale", "3", "--name", "typed", "-j", "1"]
    assert run_cli(typing) == 0
    assert "largest mean" in capsys.readouterr().err
    assert run_cli(["reproduce", "toy/figure-1", "-j", "1"]) == 0
    typed, preset = (tmp_path / "results" / f"{stem}.csv" for stem in ("typed", "toy-figure-1"))
    assert typed.read_bytes() == preset.read_bytes()
    assert typed.read_bytes().decode() == called.table.to_csv(index=False, lineterminator="\n")
    records = [json.loads(path.with_suffix(".json").read_text()) for path in (typed, preset)]
    assert records[0]["hash"] == records[1]["hash"] == called.record["hash"]
    assert records[0]["findings"] == dict(called.findings)
    assert called.figure().axes[0].lines


def test_wrong_values_are_refused_at_every_door(toy, tmp_path, capsys):
    with pytest.raises(InputError, match="`trials` is 0; give a whole number at"):
        deqcli.run("toy-means", trials=0)
    assert run_cli(["toy-means", "--trials", "0"]) == 2
    assert "--trials is 0; give a whole number at least 1" in capsys.readouterr().err
    (tmp_path / "mine.toml").write_text('study = "toy-means"\ntrails = 3\n')
    assert run_cli(["toy-means", "--config", "mine.toml"]) == 2
    assert "unknown key 'trails'; did you mean trials?" in capsys.readouterr().err


def test_its_preset_has_a_row_in_the_summary_and_a_page_in_the_report(toy, tmp_path, capsys):
    assert run_cli(["reproduce", "all", "--quick", "-j", "1"]) == 0
    summary = (tmp_path / "results/quick/summary.md").read_text(encoding="utf-8")
    assert "Toy paper, Figure 1, p. 7 | largest mean | 0.5" in summary
    assert run_cli(["report", "--results", "results/quick"]) == 0
    page = (tmp_path / "results/quick/report.html").read_text(encoding="utf-8")
    assert "The means of a few numbers. This run is smaller than that: trials." in page
    assert run_cli(["reproduce", "all", "--quick", "--check", "-j", "1"]) == 0
    capsys.readouterr()
