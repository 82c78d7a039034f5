from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

import deqcli.cli

SMALL = ("accuracy", "--data", "gmm", "--p", "50", "--train-size", "120", "--test-size", "60",
         "--widths", "16,32", "--trials", "2", "--epochs", "2", "--batch", "40")  # fmt: skip


@pytest.fixture(autouse=True)
def listed(monkeypatch):
    monkeypatch.setitem(deqcli.cli.COMMANDS, "accuracy", ("deqcli.cli.accuracy", "Train."))


def test_writes_what_it_says(deqcli):
    done = deqcli(*SMALL, "--name", "a", "-j", "1")
    assert done.code == 0
    assert done.out.split() == ["results/a.csv", "results/a.png", "results/a.json"]
    assert "width 32: DEQ - matched = " in done.err
    assert "width 32: DEQ - plain = " in done.err
    assert len(pd.read_csv("results/a.csv")) == 3 * 2 * 2 * 3
    record = json.loads(Path("results/a.json").read_text())
    assert record["options"]["lr"] == 4.0
    again = deqcli(*SMALL, "--name", "a")
    assert again.code == 0
    assert "already done" in again.err


def test_its_json_is_its_settings(deqcli):
    assert deqcli(*SMALL, "--name", "a", "-j", "1", "--match", "ntk", "--act", "tanh").code == 0
    same = deqcli("accuracy", "--config", "results/a.json", "--name", "a")
    assert same.code == 0
    assert "already done" in same.err


def test_stopped_trainings_give_exit_code_3(deqcli):
    done = deqcli(*SMALL, "--name", "a", "-j", "1", "--lr", "1e6", "--act", "softplus", "--nets",
                  "matched", "--trials", "1", "--widths", "16")  # fmt: skip
    assert done.code == 3
    assert "matched width=16 trial=0: stopped: loss not finite in epoch 1" in done.err
    assert Path("results/a.csv").exists()


def test_readout_alone_with_limits(deqcli):
    done = deqcli(
        *SMALL, "--name", "a", "-j", "1", "--train", "readout", "--limit", "--trials", "1"
    )
    assert done.code == 0
    assert (pd.read_csv("results/a.csv")["width"] == 0).sum() == 6


def test_dry_run_writes_nothing(deqcli, tmp_path):
    done = deqcli(*SMALL, "--dry-run", "--limit")
    assert done.code == 0
    assert "18 points" in done.out
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--widths", "a"), "--widths"),
        (("--widths", "0,8"), "--widths"),
        (("--nets", "deep"), "--nets"),
        (("--act", "foo"), "unknown activation"),
        (("--act", "quadratic"), "Lipschitz"),
        (("--sigma-a2", "2"), "sigma_a2"),
        (("--lr", "0"), "--lr"),
        (("--momentum", "1"), "--momentum"),
        (("--batch", "1000"), "--batch"),
        (("--tol", "2"), "--tol"),
        (("--optimizer", "adam"), "--optimizer"),
        (("--solver", "newton"), "--solver"),
        (("--data", "sphere"), "two classes"),
        (("--data", "nothing.npz"), "no such file"),
    ],
)
def test_bad_input(deqcli, tmp_path, arguments, words):
    small = SMALL
    if arguments[0] == "--data":
        small = tuple(word for word in SMALL if word not in ("--p", "50"))
    refused = deqcli(*small, *arguments)
    assert refused.code == 2
    assert words in refused.err
    assert list(tmp_path.iterdir()) == []


def test_help_states_the_default(deqcli):
    text = deqcli("accuracy", "--help").out
    assert "[default: mnist]" in text
    assert "minutes on two cores" in " ".join(text.split())
