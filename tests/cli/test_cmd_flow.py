from __future__ import annotations

import json
from pathlib import Path

import pytest

from deqcli.runs import tables

SMALL = ("flow", "--n", "16", "--p", "10", "--test-size", "12", "--steps", "6", "-j", "1")


def test_a_small_run(deqcli):
    done = deqcli(*SMALL, "--widths", "40,80", "--name", "f")
    assert done.code == 0
    findings = json.loads(Path("results/f.json").read_text())["findings"]
    assert [(run["width"], run["end"]) for run in findings["runs"]] == [
        (40, "steps done"),
        (80, "steps done"),
    ]
    assert "width 80, trial 0: steps done after 6 steps, training loss" in done.err
    assert f"slope {findings['slope']:.3f}" in done.err
    table = tables.read(Path("results/f.csv"))
    window = table.groupby("width")["time"].max().min()
    assert findings["window"] == pytest.approx(window, rel=1e-9)
    assert len(table) == 2 * 7
    # In another order they are the same widths.
    assert "already done" in deqcli(*SMALL, "--widths", "80,40", "--name", "f").err


@pytest.mark.parametrize(
    "arguments",
    [
        ("--data", "sphere", "--method", "ode"),
        ("--init", "half-normal", "--injection", "identity"),
        ("--init", "diagonal", "--injection", "tanh", "--trials", "2"),
        ("--classes", "2", "--mean-norm", "3", "--covariance", "identity", "--step", "0.5"),
    ],
)
def test_choices(deqcli, arguments):
    assert deqcli(*SMALL, "--widths", "40", *arguments, "--name", "f").code == 0
    table = tables.read(Path("results/f.csv"))
    assert table["train_loss"].iloc[-1] < table["train_loss"].iloc[0]


def test_the_loss_to_stop_at(deqcli):
    full = ("--first-step", "1")
    done = deqcli(*SMALL, "--widths", "40", "--stop-loss", "0.3", "--name", "f", *full)
    assert done.code == 0
    losses = tables.read(Path("results/f.csv"))["train_loss"]
    assert losses.iloc[-1] <= 0.3 < losses.iloc[-2]
    assert "width 40, trial 0: loss reached after" in done.err


def test_lost_contraction_exits_with_3_every_time(deqcli):
    arguments = (*SMALL, "--widths", "40", "--scaling", "papers", "--gamma0", "0.9", "--name", "f")
    done = deqcli(*arguments)
    assert done.code == 3
    assert "width 40, trial 0: contraction lost at the start, ||gamma A|| = 1.7" in done.err
    assert [Path(line).exists() for line in done.out.splitlines()] == [True] * 3
    assert tables.read(Path("results/f.csv"))["status"].tolist() == ["contraction lost"]
    assert deqcli(*arguments).code == 3


def test_lost_contraction_in_the_middle(deqcli):
    done = deqcli("flow", "--data", "sphere", "--n", "30", "--p", "20", "--test-size", "12",
                  "--widths", "20", "--steps", "60", "--gamma0", "0.8", "--name", "f",
                  "--first-step", "1", "-j", "1")  # fmt: skip
    assert done.code == 3
    assert "contraction lost after" in done.err
    assert (tables.read(Path("results/f.csv"))["status"] == "ok").any()


def test_dead_neurons_exit_with_3(deqcli):
    done = deqcli("flow", "--n", "2", "--p", "10", "--widths", "2", "--trials", "30",
                  "--test-size", "4", "--steps", "2", "--name", "f", "-j", "1")  # fmt: skip
    assert done.code == 3
    assert "kernel is zero at the start, ||gamma A|| = 0.5" in done.err
    rows = tables.read(Path("results/f.csv")).query("status == 'kernel is zero'")
    assert not rows.empty
    assert rows["step"].eq(0).all()
    assert not rows.duplicated(["width", "trial"]).any()


def test_help_says_what_losing_contraction_means(deqcli):
    text = " ".join(deqcli("flow", "--help").out.split())
    assert "loses contraction (||gamma A|| reaches 1)" in text
    assert "the exit code is 3, and everything computed is kept and written." in text
