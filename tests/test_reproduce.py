"""Verdicts, checks and the summary; runs are played by a function that writes files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from deqcli import presets
from deqcli.errors import RunConflictError
from deqcli.reproduction import check, running, summary
from deqcli.reproduction.quantities import QUANTITIES
from deqcli.reproduction.verdicts import Claim, Measured, Printed, Quantity, Run, verdict


def judge(paper, value, spread=None, cut=()):
    quantity = Quantity("q", lambda run: Measured(0.0), paper, needs=("n", "p"))
    return verdict(quantity, Measured(value, spread), cut)


@pytest.mark.parametrize(
    ("text", "value", "spread", "expected"),
    [
        ("0.12", 0.124, None, "agrees"),
        ("0.12", 0.126, None, "differs"),
        ("0.12", 0.135, 0.006, "agrees"),
        ("0.12", 0.135, 0.004, "differs"),
        ("2", 2.4, None, "agrees"),
        ("-0.50", -0.5049, None, "agrees"),
    ],
)
def test_printed_numbers_agree_within_their_last_digit_and_two_spreads(
    text, value, spread, expected
):
    assert judge(Printed(text), value, spread) == expected


@pytest.mark.parametrize(
    ("value", "spread", "expected"),
    [(-0.5, None, "agrees"), (-0.44, None, "differs"), (-0.6, 0.1, "undecided"),
     (-0.3, 0.1, "undecided"), (-0.7, 0.1, "agrees"), (-0.2, 0.1, "differs"),
     (-0.45, 0.0, "agrees")],
)  # fmt: skip
def test_claims(value, spread, expected):
    assert judge(Claim("steep", most=-0.45), value, spread) == expected


def test_nothing_is_compared_with_a_run_too_small_for_it():
    assert judge(Printed("0.12"), 0.12, cut=("n",)) == "not compared: smaller run"
    assert judge(Printed("0.12"), 0.12, cut=("trials",)) == "agrees"
    assert judge(Claim("small", most=1.0), 0.5, cut=("n",)) == "not compared: smaller run"
    assert judge(Claim("small", most=1.0), 0.5, cut=("trials",)) == "agrees"
    assert judge(None, 0.5, cut=("n",)) == "paper does not say"


def test_every_printed_number_needs_its_size():
    for quantities in QUANTITIES.values():
        for quantity in quantities:
            if isinstance(quantity.paper, Printed):
                assert {"n", "p"} <= set(quantity.needs), quantity.name


def test_slopes_and_their_spread_are_those_of_the_trials():
    n = np.array([64, 256, 1024])
    rows = pd.concat(
        [pd.DataFrame({"act": "lrelu:slope=0.1", "n": n, "trial": trial, "slope": -0.5,
                       "error": n**power})
         for trial, power in enumerate((-0.4, -0.6))]
    )  # fmt: skip
    quantity = QUANTITIES["icml/error-vs-n"][3]
    found = quantity.measure(Run({"results": {}}, rows))
    assert found.value == -0.5
    assert found.spread == pytest.approx(0.1)


def test_gaps_are_in_points_and_compared_by_size():
    gaps = [
        {"net": net, "width": width, "mean": mean, "standard_error": error}
        for net, width, mean, error in [
            ("matched", 32, 9.0, 9.0), ("plain", 32, 9.0, 9.0),
            ("matched", 64, -0.003, 0.003), ("plain", 64, 0.02, 0.004),
        ]
    ]  # fmt: skip
    run = Run({"results": {"gaps": gaps}}, pd.DataFrame())
    _, twin, plain, advantage = QUANTITIES["iclr/figure-3-a"]
    assert twin.measure(run).value == pytest.approx(-0.3)
    assert plain.measure(run).spread == pytest.approx(0.4)
    found = advantage.measure(run)
    assert (found.value, found.spread) == pytest.approx((1.7, 0.5))
    assert verdict(advantage, found) == "agrees"


PRESET = presets.Preset(
    "icml/h-tanh", "match", {"act": "tanh", "data": "gmm", "n": 800}, "ICML slides", "About."
)


class Played:
    """Stands for the command line: writes what a run leaves."""

    def __init__(self, error: Exception | None = None) -> None:
        self.calls: list[list[str]] = []
        self.error = error

    def __call__(self, arguments, silent):
        self.calls.append(list(arguments))
        if self.error:
            raise self.error
        given = dict(zip(arguments[1::2], arguments[2::2], strict=False))
        seed = int(given.get("--seed", 0))
        assert silent == (seed > 0)
        out, stem = Path(given["--out"]), given["--name"]
        results = {"matched_relative": 0.01 * (1 + seed), "plain_relative": 0.5}
        out.mkdir(parents=True, exist_ok=True)
        record = {"results": results, "spec_hash": f"hash {given['--n']}"}
        (out / f"{stem}.json").write_text(json.dumps(record))
        (out / f"{stem}.csv").write_text("a\n1\n")
        return 0


def test_rows_have_the_spread_over_three_seeds_and_the_command(tmp_path):
    command = Played()
    outcome = running.reproduce(PRESET, tmp_path, command, "--jobs", "2")
    assert outcome.status == "done"
    table = summary.rows(outcome, summary.read(tmp_path), command, "--jobs", "2")
    assert table["spread"].tolist() == pytest.approx([0.01, 0.0])
    assert table["verdict"].tolist() == ["paper does not say"] * 2
    assert table["command"][0] == "deqcli match --act tanh --data gmm --n 800 --name icml-h-tanh"
    assert [call[-2:] for call in command.calls] == [["--jobs", "2"], *[["--name", "seed-1"],
                                                     ["--name", "seed-2"]]]  # fmt: skip
    assert sorted(path.name for path in tmp_path.iterdir()) == ["icml-h-tanh.csv",
                                                                 "icml-h-tanh.json"]  # fmt: skip


def test_summary_keeps_spreads_and_the_rows_of_other_presets(tmp_path):
    command = Played()
    first = running.reproduce(PRESET, tmp_path, command)
    old = summary.read(tmp_path)
    summary.write(tmp_path, [summary.rows(first, old, command)], old)
    calls = len(command.calls)
    old = summary.read(tmp_path)
    again = summary.rows(first, old, command)
    assert len(command.calls) == calls
    assert again["spread"].tolist() == pytest.approx([0.01, 0.0])
    other = presets.Preset("hld/figure-1-ck", "match", {"data": "sphere", "n": 9}, "HLD", "")
    second = running.reproduce(other, tmp_path, command)
    summary.write(tmp_path, [summary.rows(second, old, command)], old)
    table = summary.read(tmp_path)
    # In the order of the figures, whatever was run last.
    assert list(dict.fromkeys(table["preset"])) == ["hld/figure-1-ck", "icml/h-tanh"]
    text = (tmp_path / "summary.md").read_text(encoding="utf-8")
    assert "| ICML slides | ‖G* − Σ‖/‖G*‖, twin |  | 0.01 ± 0.01 | paper does not say |" in text
    assert "* icml/h-tanh: `deqcli match --act tanh" in text


def test_other_settings_measure_the_spread_again(tmp_path):
    command = Played()
    outcome = running.reproduce(PRESET, tmp_path, command)
    empty = summary.read(tmp_path)
    summary.write(tmp_path, [summary.rows(outcome, empty, command)], empty)
    calls = len(command.calls)
    larger = presets.Preset(PRESET.name, "match", {**PRESET.settings, "n": 900}, "", "")
    changed = running.reproduce(larger, tmp_path, command)
    summary.rows(changed, summary.read(tmp_path), command)
    assert len(command.calls) == calls + 3


def test_failure_and_missing_data_are_rows_with_a_reason(tmp_path, monkeypatch):
    monkeypatch.setenv("DEQCLI_DATA_DIR", str(tmp_path / "nothing"))
    failed = running.reproduce(PRESET, tmp_path, Played(RunConflictError("made otherwise")))
    assert (failed.status, failed.reason) == ("failed", "made otherwise")
    mnist = presets.Preset("gen/figure-1", "flow", {"data": "mnist", "test-size": 5}, "GEN", "")
    command = Played()
    skipped = running.reproduce(mnist, tmp_path, command)
    assert skipped.status == "skipped"
    assert "deqcli data fetch mnist" in skipped.reason
    assert command.calls == []
    old = summary.read(tmp_path)
    summary.write(tmp_path, [summary.rows(each, old, command) for each in (failed, skipped)], old)
    table = summary.read(tmp_path)
    assert set(table["verdict"]) == {"failed", "skipped"}
    assert "skipped. mnist is incomplete" in (tmp_path / "summary.md").read_text(encoding="utf-8")


def test_run_that_leaves_no_result_has_failed(tmp_path):
    outcome = running.reproduce(PRESET, tmp_path, lambda arguments, silent: 3)
    assert outcome.status == "failed"
    assert "same command" in outcome.reason


OLD = pd.DataFrame(
    {
        "source": ["exact", "exact", "equivalent"],
        "index": [0, 1, 0],
        "isolated": [True, False, True],
        "eigenvalue": [25.0, 1e-3, 25.1],
        "distance": [0.08, 0.08, np.nan],
    }
)


def differences(**changed) -> list[str]:
    new = OLD.assign(**changed)
    return [str(found) for found in check.compare_tables("spectrum", "a.csv", new, OLD)]


def test_tables_within_tolerance_are_the_same():
    assert differences() == []
    # Rounding of a matrix of norm 25 moves small eigenvalues by as much as large ones.
    assert differences(eigenvalue=OLD["eigenvalue"] + 2e-5) == []


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"eigenvalue": [25.1, 1e-3, 25.1]}, ["column eigenvalue: row 0 is 25.1, committed 25"]),
        ({"source": ["exact", "mc", "equivalent"]}, ["column source: row 1 is mc"]),
        ({"index": [0, 2, 0]}, ["column index: row 1 is 2, committed 1"]),
        ({"isolated": [True, True, True]}, ["column isolated: row 1 is True"]),
        ({"distance": [0.08, 0.08, 0.0]}, ["column distance: row 2 is empty on one side only"]),
        ({"index": [0, 2, 0], "distance": [0.09, 0.08, np.nan]},
         ["column index", "column distance: row 0 is 0.09"]),
        ({"other": 1}, ["the columns differ: other"]),
    ],
)  # fmt: skip
def test_differences_name_file_column_and_size(changed, expected):
    found = differences(**changed)
    assert len(found) == len(expected)
    for message, part in zip(found, expected, strict=True):
        assert message.startswith("a.csv")
        assert part in message


def test_size_of_a_difference_is_said():
    (message,) = differences(eigenvalue=[26.0, 1e-3, 25.1])
    assert message.endswith("off by 1, allowed 0.00028")


def test_rows_and_files_that_are_not_there(tmp_path):
    (found,) = check.compare_tables("spectrum", "a.csv", OLD.head(2), OLD)
    assert str(found) == "a.csv: 2 rows, committed 3"
    OLD.to_csv(tmp_path / "a.csv", index=False)
    (found,) = check.compare("spectrum", tmp_path / "a.csv", tmp_path / "none" / "a.csv")
    assert "no committed file" in str(found)
    assert check.compare("spectrum", tmp_path / "a.csv", tmp_path / "a.csv") == []


def test_numbers_inside_names_are_compared_as_numbers():
    old = pd.DataFrame({"name": ["sigma_1: htanh:a=0.84123456,c=1.9e-05"], "value": [1.0]})
    near = old.assign(name="sigma_1: htanh:a=0.84123457,c=1.9e-05")
    far = old.assign(name="sigma_1: htanh:a=0.85,c=1.9e-05")
    other = old.assign(name="sigma_1: lrelu:a=0.84123456,c=1.9e-05")
    assert check.compare_tables("match", "m.csv", near, old) == []
    assert "0.85" in str(check.compare_tables("match", "m.csv", far, old)[0])
    assert "lrelu" in str(check.compare_tables("match", "m.csv", other, old)[0])
    # Where no tolerance is stated, a text is a text.
    assert check.compare_tables("spectrum", "m.csv", near, old) != []


def test_measured_times_are_ignored():
    old = pd.DataFrame({"forward_seconds": [1.0], "test_accuracy": [0.9]})
    assert check.compare_tables("accuracy", "a.csv", old.assign(forward_seconds=9.0), old) == []
    assert check.compare_tables("accuracy", "a.csv", old.assign(test_accuracy=0.91), old) == []
    assert check.compare_tables("accuracy", "a.csv", old.assign(test_accuracy=0.93), old) != []
