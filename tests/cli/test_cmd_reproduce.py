from __future__ import annotations

import json
import shlex
from pathlib import Path

import pandas as pd
import pytest

import deqcli as package
from deqcli import study
from deqcli.cli.studies import StudyCommand
from deqcli.reproduction import presets

TINY = """
study = "match"
act = "tanh"
sigma-a2 = 0.1
kernel = "ck"
data = "gmm"
n = 60
p = 80
{more}
[figure]
title = "ICML slides, Figure {number}"
"""
MNIST = """
study = "match"
act = "relu"
data = "mnist"
n = 30
"""


def tiny(number: int, more: str = "") -> str:
    return TINY.format(number=number, more=more)


@pytest.fixture
def three(tmp_path_factory, monkeypatch):
    """Three small presets, one of real data, and a folder without data."""
    root = tmp_path_factory.mktemp("presets")
    (root / "icml").mkdir()
    (root / "gen").mkdir()
    (root / "icml" / "h-tanh.toml").write_text(tiny(1))
    (root / "icml" / "l-relu.toml").write_text(tiny(2).replace("0.1", "0.05"))
    (root / "gen" / "figure-1.toml").write_text(MNIST)
    monkeypatch.setattr(presets, "folder", lambda: root)
    monkeypatch.setenv("DEQCLI_DATA_DIR", str(root / "no-data"))
    return root


@pytest.mark.slow
def test_runs_resumes_and_sums_up(deqcli, three):
    done = deqcli("reproduce", "icml/h-tanh", "icml/l-relu", "--quick", "-j", "1")
    assert done.code == 0, done.err
    assert done.out.split()[-2:] == ["results/quick/summary.csv", "results/quick/summary.md"]
    assert "[2/2] icml/l-relu" in done.err
    table = pd.read_csv("results/quick/summary.csv")
    assert len(table) == 10
    assert (table["interval"] > 0).all()
    record = json.loads(Path("results/quick/icml-h-tanh.json").read_text())
    # Recorded as if it had been typed, so that it can be.
    assert record["command"] == (
        "deqcli match --act tanh --sigma-a2 0.1 --n 60 --p 80 --name icml-h-tanh"
    )
    written = Path("results/quick/icml-h-tanh.csv").read_bytes()
    again = deqcli("reproduce", "icml/h-tanh", "--quick", "-j", "1")
    assert again.code == 0
    assert "already done" in again.err
    assert "two more seeds" not in again.err
    assert len(pd.read_csv("results/quick/summary.csv")) == 10
    typed = shlex.split(record["command"])[1:]
    assert deqcli(*typed, "-j", "1").code == 0
    assert Path("results/icml-h-tanh.csv").read_bytes() == written


@pytest.mark.slow
def test_sizes_have_their_folders(deqcli, three):
    assert deqcli("-q", "reproduce", "icml/h-tanh", "-j", "1").code == 0
    assert Path("results/icml-h-tanh.csv").exists()
    assert deqcli("-q", "reproduce", "icml/h-tanh", "--paper", "-j", "1").code == 0
    assert Path("results/paper/icml-h-tanh.csv").exists()


@pytest.mark.slow
def test_missing_data_is_skipped_with_its_reason(deqcli, three):
    done = deqcli("-q", "reproduce", "gen/figure-1", "icml/h-tanh", "-j", "1")
    assert done.code == 3
    assert "gen/figure-1: skipped: mnist is incomplete" in done.err
    assert Path("results/icml-h-tanh.csv").exists()
    table = pd.read_csv("results/summary.csv")
    assert table.loc[table["preset"] == "gen/figure-1", "verdict"].tolist() == ["skipped"]
    lenient = deqcli("-q", "reproduce", "gen/figure-1", "--skip-missing")
    assert lenient.code == 0


@pytest.mark.slow
def test_check_passes_and_names_what_differs(deqcli, three):
    assert deqcli("-q", "reproduce", "icml/h-tanh", "-j", "1").code == 0
    before = {path.name: path.read_bytes() for path in Path("results").iterdir()}
    done = deqcli("-q", "reproduce", "icml/h-tanh", "--check", "-j", "1")
    assert done.code == 0, done.err
    assert "1 of 1 tables compared\nwhat was compared is as committed" in done.err
    path = Path("results/icml-h-tanh.csv")
    table = pd.read_csv(path)
    last = table.index[table["kind"] == "eigenvalue"][-1]
    table.loc[last, "value"] += 0.01
    table.to_csv(path, index=False)
    done = deqcli("-q", "reproduce", "icml/h-tanh", "--check", "--fresh", "fresh", "-j", "1")
    assert done.code == 3
    assert f"differs: icml-h-tanh.csv, column value: row {last} is" in done.err
    assert "off by 0.01" in done.err
    assert Path("fresh/icml-h-tanh.csv").exists()
    path.write_bytes(before["icml-h-tanh.csv"])
    # The fresh folder is continued, so that these cost nothing: a verdict, and a broken table.
    check = ("-q", "reproduce", "icml/h-tanh", "--check", "--fresh", "fresh", "-j", "1")
    kept = Path("results/summary.csv")
    kept.write_text(kept.read_text(encoding="utf-8").replace("paper does not say", "agrees"))
    done = deqcli(*check)
    assert done.code == 3
    assert "paper does not say, committed agrees" in done.err
    kept.write_bytes(before["summary.csv"])
    path.write_text("")
    done = deqcli(*check)
    assert done.code == 3
    assert "icml-h-tanh.csv cannot be used" in done.err
    assert "0 of 1 tables compared; not compared: icml/h-tanh (broken file)" in done.err
    path.write_bytes(before["icml-h-tanh.csv"])
    assert {path.name: path.read_bytes() for path in Path("results").iterdir()} == before


@pytest.mark.slow
def test_check_without_committed_tables_says_so(deqcli, three):
    done = deqcli("-q", "reproduce", "icml/h-tanh", "--check", "-j", "1")
    assert done.code == 3
    assert "no committed file" in done.err
    assert "0 of 1 tables compared; not compared: icml/h-tanh" in done.err
    assert not Path("results").exists()


def test_check_of_nothing_is_not_well(deqcli, three):
    done = deqcli("-q", "reproduce", "gen/figure-1", "--check", "--skip-missing")
    assert done.code == 3
    assert "0 of 1 tables compared; not compared: gen/figure-1 (skipped)" in done.err
    assert "as committed" not in done.err


@pytest.mark.slow
def test_check_counts_what_it_left_out(deqcli, three):
    assert deqcli("-q", "reproduce", "icml/h-tanh", "-j", "1").code == 0
    check = ("-q", "reproduce", "icml/h-tanh", "gen/figure-1", "--check", "-j", "1")
    done = deqcli(*check, "--skip-missing", "--fresh", "fresh")
    assert done.code == 0, done.err
    assert "1 of 2 tables compared; not compared: gen/figure-1 (skipped)" in done.err
    assert deqcli(*check, "--fresh", "fresh").code == 3


@pytest.mark.slow
def test_infeasible_points_are_exit_code_3_but_no_difference(deqcli, three):
    path = three / "icml" / "h-tanh.toml"
    path.write_text(tiny(1, 'family = "lrelu"\nlayers = "1"'))
    done = deqcli("-q", "reproduce", "icml/h-tanh", "-j", "1")
    assert done.code == 3
    assert "icml/h-tanh: done: Finished with shortcomings: no match within 0.01" in done.err
    table = pd.read_csv("results/summary.csv")
    assert table["ours"].notna().all()
    assert table["note"].str.contains("no match within 0.01").all()
    checked = deqcli("-q", "reproduce", "icml/h-tanh", "--check", "-j", "1")
    assert checked.code == 0, checked.err


def test_fresh_folder_must_be_another(deqcli, three):
    done = deqcli("reproduce", "icml/h-tanh", "--quick", "--check", "--fresh", "./results/quick")
    assert done.code == 2
    assert "--fresh is results/quick, the folder to compare with" in done.err


@pytest.mark.slow
def test_force_measures_intervals_again(deqcli, three):
    again = ("reproduce", "icml/h-tanh", "-j", "1")
    assert deqcli("-q", *again).code == 0
    path = Path("results/summary.csv")
    table = pd.read_csv(path)
    true = table["interval"].tolist()
    table.assign(interval=9.0).to_csv(path, index=False)
    assert deqcli("-q", *again).code == 0
    assert pd.read_csv(path)["interval"].tolist() == [9.0] * 5
    assert deqcli("-q", *again, "--force").code == 0
    assert pd.read_csv(path)["interval"].tolist() == true


@pytest.mark.slow
def test_broken_files_are_named_and_force_starts_over(deqcli, three):
    again = ("-q", "reproduce", "icml/h-tanh", "-j", "1")
    assert deqcli(*again).code == 0
    Path("results/summary.csv").write_text("preset,ours\n")
    done = deqcli(*again)
    assert done.code == 2
    assert "results/summary.csv cannot be used" in done.err
    assert "--force" in done.err
    assert deqcli(*again, "--check").code == 2
    Path("results/icml-h-tanh.json").write_text("{")
    done = deqcli(*again, "--force")
    assert done.code == 0, done.err
    Path("results/icml-h-tanh.json").write_text("{}")
    done = deqcli(*again)
    assert done.code == 3
    assert "icml-h-tanh.json" in done.err
    assert "--force" in done.err


def test_folder_that_cannot_be_made(deqcli, three):
    Path("file").write_text("")
    done = deqcli("reproduce", "icml/h-tanh", "--out", "file/results")
    assert done.code == 2
    assert "--out is file/results, which cannot be made (Not a directory); choose" in done.err


@pytest.fixture
def no_data_folder(monkeypatch):
    """The folder of data is no part of a command; the environment may name one."""
    monkeypatch.delenv("DEQCLI_DATA_DIR", raising=False)


def parsed(line: str):
    """Return the study, the settings and the rest that a printed command stands for."""
    program, name, *words = shlex.split(line)
    assert program == "deqcli"
    command = StudyCommand(study.get(name))
    values = command.make_context(name, words).params
    own = {key: values.pop(key) for key in list(values) if hasattr(command.settings, key)}
    return name, command.settings(**own), values


@pytest.mark.parametrize("size", ["quick", "standard", "paper"])
def test_dry_run_prints_commands_that_parse_to_the_presets(deqcli, no_data_folder, size):
    flags = [] if size == "standard" else [f"--{size}"]
    done = deqcli("reproduce", "all", *flags, "--dry-run")
    assert done.code == 0
    lines = done.out.splitlines()
    assert len(lines) == len(presets.names())
    for name, line in zip(presets.names(), lines, strict=True):
        preset = presets.sized(presets.load(name), size)
        study_name, settings, rest = parsed(line)
        assert (study_name, settings) == (preset.study.name, preset.settings)
        folder = Path("results") if size == "standard" else Path("results", size)
        assert (rest["name"], rest["out"]) == (preset.stem, folder)
    assert not Path("results").exists()


@pytest.mark.parametrize(
    ("name", "options"),
    [
        # What is the default for others is not the default here.
        ("spectrum", {"data": "mnist", "n": 800}),
        ("spectrum", {"sigma_a2": 0.2, "sigma_b2": 0.9}),
        ("accuracy", {"data": "gmm", "p": 1000}),
    ],
)
def test_command_of_settings_parses_to_the_same(no_data_folder, name, options):
    chosen = study.get(name)
    settings = chosen.settings(**options)
    assert parsed(chosen.command_line(settings))[1] == settings


def test_commands_can_be_typed_in_any_folder(deqcli, monkeypatch):
    command = ("reproduce", "icml/h-tanh", "--dry-run", "--out")
    spaced = deqcli(*command, "my results")
    assert spaced.out.rstrip().endswith("--name icml-h-tanh --out 'my results'")
    # The name of a person stays out of it, and the shell still finds the folder.
    monkeypatch.setenv("HOME", "/home/anna")
    assert deqcli(*command, "/home/anna/my results").out.rstrip().endswith("--out ~/'my results'")
    assert deqcli(*command, "/home/annabel").out.rstrip().endswith("--out /home/annabel")
    monkeypatch.setenv("HOME", "/")
    assert deqcli(*command, "/tmp/results").out.rstrip().endswith("--out /tmp/results")


def test_presets_are_listed_by_their_headings(deqcli):
    done = deqcli("list", "presets")
    assert done.code == 0
    lines = done.out.splitlines()
    assert [line.split()[0] for line in lines] == list(presets.names())
    assert "iclr/figure-1-left     ICLR version, Figure 1 (left), p. 8" in lines


@pytest.mark.slow
def test_results_of_other_settings_are_not_overwritten(deqcli, three):
    assert deqcli("-q", "reproduce", "icml/h-tanh", "-j", "1").code == 0
    path = three / "icml" / "h-tanh.toml"
    path.write_text(path.read_text().replace("n = 60", "n = 50"))
    done = deqcli("-q", "reproduce", "icml/h-tanh", "-j", "1")
    assert done.code == 3
    assert "n is 60 there and 50 here" in done.err
    assert "--force" in done.err
    assert deqcli("-q", "reproduce", "icml/h-tanh", "-j", "1", "--force").code == 0


@pytest.mark.slow
def test_one_that_breaks_does_not_cost_the_others(deqcli, three, monkeypatch):
    match = type(study.get("match"))
    whole = match.prepare

    def breaks(self, settings):
        if settings.sigma_a2 == 0.05:
            raise ZeroDivisionError("a mistake of ours")
        return whole(self, settings)

    monkeypatch.setattr(match, "prepare", breaks)
    done = deqcli("reproduce", "icml/l-relu", "icml/h-tanh", "-j", "1")
    assert done.code == 3
    assert "icml/l-relu: failed: ZeroDivisionError: a mistake of ours" in done.err
    assert Path("results/icml-h-tanh.csv").exists()


OWN = {"act": "tanh", "sigma_a2": 0.1, "n": 30, "p": 40, "estimator": "exact"}


@pytest.mark.slow
def test_a_result_of_ones_own_is_run_again_and_compared(deqcli, monkeypatch):
    spectrum = type(study.get("spectrum"))
    monkeypatch.setattr(spectrum, "standard", {"n": 20})
    made = package.run("spectrum", out="mine", name="own.1", formats=(), jobs=1, **OWN)
    files = {path.name for path in Path("mine").iterdir()}
    call = ("reproduce", "mine/own.1.json", "--check", "--out", "mine", "-j", "1")
    done = deqcli(*call)
    assert done.code == 0, done.err
    assert "1 of 1 tables compared" in done.err
    # Nothing was cut, and nothing written beside the result.
    assert made.settings.n == 30
    assert {path.name for path in Path("mine").iterdir()} == files
    rows = Path("mine/own.1.csv").read_text().splitlines()
    rows[1] = rows[2]
    Path("mine/own.1.csv").write_text("\n".join([*rows, ""]))
    done = deqcli(*call)
    assert done.code == 3
    assert "differs: own.1.csv, column " in done.err


def test_a_file_of_settings_is_a_preset_and_only_quick_cuts_it(deqcli, monkeypatch):
    spectrum = type(study.get("spectrum"))
    monkeypatch.setattr(spectrum, "standard", {"n": 20})
    monkeypatch.setattr(spectrum, "quick", {"n": 10})
    Path("mine.toml").write_text('study = "spectrum"\nact = "tanh"\nn = 30\np = 60\n')
    line = "deqcli spectrum --n {} --p {} --name mine"
    assert deqcli("reproduce", "mine.toml", "--dry-run").out.strip() == line.format(30, 60)
    quick = deqcli("reproduce", "mine.toml", "--dry-run", "--quick").out.strip()
    assert quick == line.format(10, 20) + " --out results/quick"


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("nothing.json",), "nothing.json cannot be read: No such file"),
        (("iclr/figure-9",), "There is no preset"),
        (("all", "icml/figure-9", "--dry-run"), "There is no preset 'icml/figure-9'"),
        (("all", "--fresh", "x"), "--fresh goes with"),
        (("all", "--quick", "--paper", "--dry-run"), "--quick and --paper are two sizes"),
    ],
)
def test_bad_usage(deqcli, arguments, part):
    done = deqcli("reproduce", *arguments)
    assert done.code == 2
    assert part in done.err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (tiny(1, "wigth = 3"), "The preset icml/h-tanh: unknown key 'wigth'"),
        (tiny(1).replace("n = 60", 'n = "abc"'), "The preset icml/h-tanh: n is 'abc'; give a"),
        (tiny(1).replace("gmm", "mnits"), "The preset icml/h-tanh: "),
    ],
)
def test_wrong_preset_is_named_before_anything_runs(deqcli, three, text, message):
    (three / "icml" / "h-tanh.toml").write_text(text)
    done = deqcli("reproduce", "all", "--quick")
    assert done.code == 2
    assert message in done.err
    assert not Path("results").exists()
