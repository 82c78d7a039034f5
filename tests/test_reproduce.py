"""Verdicts and the summary; runs are played by a function that writes files."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from deqcli import presets
from deqcli.errors import InputError, RunConflictError, RunError
from deqcli.reproduction import running, summary
from deqcli.reproduction.quantities import QUANTITIES
from deqcli.reproduction.verdicts import RULE, Claim, Measured, Printed, Quantity, verdict


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


PRESET = presets.Preset(
    "icml/h-tanh", "match", {"act": "tanh", "data": "gmm", "n": 800}, "ICML slides", "About."
)


class Played:
    """Stands for the command line: writes what a run leaves."""

    def __init__(self, error: Exception | None = None, *, code: int = 0, bad: int | None = None):
        self.calls: list[list[str]] = []
        self.error = error
        self.code = code
        self.bad = bad
        self.results = {}

    def __call__(self, arguments, silent):
        self.calls.append(list(arguments))
        if self.error:
            raise self.error
        given = dict(zip(arguments[1::2], arguments[2::2], strict=False))
        seed = int(given.get("--seed", 0))
        assert silent == (seed > 0)
        if seed == self.bad:
            raise RunError("the seed is bad.")
        out, stem = Path(given["--out"]), given["--name"]
        results = {"matched_relative": 0.01 * (1 + seed), "plain_relative": 0.5} | self.results
        out.mkdir(parents=True, exist_ok=True)
        record = {"results": results, "spec_hash": f"hash {given['--n']}"}
        (out / f"{stem}.json").write_text(json.dumps(record))
        (out / f"{stem}.csv").write_text("a\n1\n")
        return self.code


def test_rows_have_the_spread_over_three_seeds_and_the_command(tmp_path):
    command = Played()
    shown = Path("my results/quick")
    outcome = running.reproduce(PRESET, tmp_path, command, "--jobs", "2", shown=shown)
    assert (outcome.status, outcome.code, outcome.reason) == ("done", 0, "")
    table = summary.rows(outcome, summary.read(tmp_path), command, "--jobs", "2")
    assert table["spread"].tolist() == pytest.approx([0.01, 0.0])
    assert table["verdict"].tolist() == ["paper does not say"] * 2
    assert table["command"][0] == (
        "deqcli match --act tanh --data gmm --n 800 --name icml-h-tanh --out 'my results/quick'"
    )
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
    assert "| ICML slides | ‖G* − Σ‖/‖G*‖, twin |  | 0.010 ± 0.010 | paper does not say |" in text
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


@pytest.mark.parametrize(
    ("results", "said"),
    [
        ({"runs": [{"width": 9, "trial": 1, "end": "contraction lost"},
                   {"width": 20, "trial": 0, "end": "steps done"},
                   {"width": 20, "trial": 1, "end": "loss reached"}]},
         "Finished with exit code 3: width 9, trial 1: contraction lost."),
        ({"stopped": {"deq width=8 trial=0": "stopped: overflow"}},
         "Finished with exit code 3: deq width=8 trial=0: stopped: overflow."),
        ({"feasible": False, "verdict": "No network of the family."},
         "Finished with exit code 3: No network of the family."),
        ({}, "Finished with exit code 3."),
    ],
)  # fmt: skip
def test_exit_code_of_a_finished_run_is_kept_with_its_reason(tmp_path, results, said):
    command = Played(code=3)
    command.results = results
    outcome = running.reproduce(PRESET, tmp_path, command)
    assert (outcome.status, outcome.code, outcome.reason) == ("done", 3, said)
    table = summary.rows(outcome, summary.empty(), command)
    # Its table counts.
    assert table["ours"].tolist() == [0.01, 0.5]
    assert table["note"].tolist() == [said] * 2


@pytest.mark.parametrize(("end", "code"), [("contraction lost", 0), ("stalled", 3)])
def test_known_finding_is_no_failure(tmp_path, end, code):
    command = Played(code=3)
    command.results = {"runs": [{"width": 100, "trial": 1, "end": end}]}
    outcome = running.reproduce(replace(PRESET, name="gen/figure-1"), tmp_path, command)
    assert (outcome.status, outcome.code) == ("done", code)
    assert outcome.reason == f"Finished with exit code 3: width 100, trial 1: {end}."


def test_bad_seed_costs_only_the_spread(tmp_path):
    command = Played(bad=2)
    outcome = running.reproduce(PRESET, tmp_path, command)
    table = summary.rows(outcome, summary.empty(), command)
    assert table["ours"].tolist() == [0.01, 0.5]
    assert table["spread"].isna().all()
    assert table["note"].tolist() == ["No spread: the seed is bad."] * 2


@pytest.mark.parametrize(
    ("value", "said"),
    [("x", "Not measured: TypeError: "), (float("nan"), "Not measured: it is nan.")],
)
def test_number_that_cannot_be_measured_costs_only_itself(tmp_path, value, said):
    command = Played()
    command.results = {"matched_relative": value}
    outcome = running.reproduce(PRESET, tmp_path, command)
    table = summary.rows(outcome, summary.empty(), command)
    assert table["verdict"].tolist() == ["failed", "paper does not say"]
    assert said in table["note"][0]
    assert table["ours"][1] == 0.5
    assert table["spread"][1] == 0.0
    summary.write(tmp_path, [table], summary.empty())
    assert "| – | failed. Not measured" in (tmp_path / "summary.md").read_text(encoding="utf-8")


def test_misspelt_data_set_has_failed_and_is_not_skipped(tmp_path):
    preset = presets.Preset("gen/figure-1", "flow", {"data": "mnits"}, "GEN", "")
    command = Played()
    outcome = running.reproduce(preset, tmp_path, command)
    assert outcome.status == "failed"
    assert "no data set 'mnits'" in outcome.reason
    assert command.calls == []


@pytest.mark.parametrize("broken", ["", '{"results": {', "{}", "[1]", "\xff"])
def test_broken_record_is_named_with_the_remedy(tmp_path, broken):
    running.reproduce(PRESET, tmp_path, Played())
    path = tmp_path / "icml-h-tanh.json"
    path.write_bytes(broken.encode("latin-1"))
    with pytest.raises(InputError, match=r"icml-h-tanh\.json cannot be used: .*; delete it, or"):
        running.read(tmp_path, "icml-h-tanh")
    # In the middle of others it is their loss of one.
    outcome = running.reproduce(PRESET, tmp_path, lambda arguments, silent: 0)
    assert outcome.status == "failed"
    assert "--force" in outcome.reason


@pytest.mark.parametrize("broken", ["", "a,b\n1,2,3\n4\n5,6,7,8\n"])
def test_broken_table_is_named_with_the_remedy(tmp_path, broken):
    running.reproduce(PRESET, tmp_path, Played())
    (tmp_path / "icml-h-tanh.csv").write_text(broken)
    with pytest.raises(InputError, match=r"icml-h-tanh\.csv cannot be used: .*; delete it, or"):
        running.read(tmp_path, "icml-h-tanh")


@pytest.mark.parametrize("broken", ["", "preset,figure\nicml/h-tanh,ICML\n"])
def test_broken_summary_is_not_an_empty_one(tmp_path, broken):
    (tmp_path / "summary.csv").write_text(broken)
    with pytest.raises(InputError, match=r"summary\.csv cannot be used: .*; delete it, or"):
        summary.read(tmp_path)


def test_minus_signs_are_those_of_the_text_in_markdown_and_plain_in_the_table(tmp_path):
    row = {"preset": "icml/h-tanh", "figure": "F", "quantity": "q", "ours": -0.5, "spread": 6e-5,
           "verdict": "agrees", "command": "deqcli match"}  # fmt: skip
    table = pd.DataFrame([row], columns=list(summary.COLUMNS))
    summary.write(tmp_path, [table], summary.empty())
    assert "| −0.50000 ± 0.00006 |" in (tmp_path / "summary.md").read_text(encoding="utf-8")
    assert ",-0.5,6e-05," in (tmp_path / "summary.csv").read_text(encoding="utf-8")


def test_bound_of_a_rate_is_said():
    rates = [
        each for name in ("icml/error-vs-n", "errata/printed-forms") for each in QUANTITIES[name]
    ]
    for quantity in rates:
        assert isinstance(quantity.paper, Claim)
        assert quantity.paper.most == -0.45
        assert "−0.45" in quantity.paper.text
    assert "−0.45" in RULE


def test_errata_are_those_of_the_study():
    from deqcli.studies.errata import ERRATA

    names = [quantity.name for quantity in QUANTITIES["errata/printed-forms"]]
    assert names[::2] == [
        f"{erratum.where}, as printed: slope of log error against log n"
        for erratum in ERRATA.values()
    ]
    keys = [quantity.measure.keywords["name"] for quantity in QUANTITIES["errata/printed-forms"]]
    assert keys[::2] == list(ERRATA)
