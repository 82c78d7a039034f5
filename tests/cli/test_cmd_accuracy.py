from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

SMALL = ("accuracy", "--data", "gmm", "--p", "50", "--train-size", "120", "--test-size", "60",
         "--widths", "16,32", "--trials", "2", "--epochs", "2", "--batch", "40")  # fmt: skip


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


def test_what_fails_before_training_has_no_rows(deqcli):
    """Far outside the papers' range the equilibrium is lost at once; the others are kept."""
    lost = (*SMALL, "-j", "1", "--sigma-a2", "0.99", "--sigma-b2", "1e-4", "--act", "tanh",
            "--widths", "300", "--trials", "1", "--tol", "1e-6")  # fmt: skip
    done = deqcli(*lost, "--name", "a", "--nets", "deq,plain")
    assert done.code == 3
    assert "deq width=300 trial=0: stopped: forward iteration" in done.err
    assert "before any training" in done.err
    table = pd.read_csv("results/a.csv")
    assert set(table["net"]) == {"plain"}
    assert not table.isna().any().any()
    assert deqcli(*lost, "--name", "b", "--nets", "deq").code == 3
    assert pd.read_csv("results/b.csv").empty
    assert Path("results/b.png").exists()


def test_ones_own_file_needs_no_sizes(deqcli):
    rng = np.random.default_rng(0)
    y = np.arange(300) % 2
    np.savez("mine.npz", X=rng.standard_normal((300, 10)) + 4 * y[:, None], y=y)
    done = deqcli("accuracy", "--data", "mine.npz", "--widths", "16", "--trials", "1", "--epochs",
                  "2", "--name", "a", "-j", "1")  # fmt: skip
    assert done.code == 0
    assert json.loads(Path("results/a.json").read_text())["spec"]["test_size"] == 60
    refused = deqcli("accuracy", "--data", "mine.npz", "--train-size", "5000")
    assert refused.code == 2
    assert "5000, more samples than there are" in refused.err


def test_the_default_is_the_preset(monkeypatch):
    """The papers' Figure 3 (a) up to width 1024 is what the bare command runs."""
    import click

    from deqcli import presets
    from deqcli.cli import accuracy

    preset = presets.sized(presets.load("iclr/figure-3-a"), "standard")
    seen = []
    for arguments in ([], preset.arguments()[1:]):
        with click.Context(accuracy.command) as ctx:
            ctx.default_map = {"data": "mnist"}
            accuracy.command.parse_args(ctx, list(arguments))
            for name, value in (("train_size", 5000), ("test_size", 4000)):
                ctx.params[name] = ctx.params[name] or value
            seen.append(ctx.params)
    assert seen[0] == seen[1]


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
        (("--lr", "0"), "learning_rate"),
        (("--momentum", "1"), "momentum"),
        (("--ridge", "nan"), "ridge"),
        (("--ridge", "-1", "--limit"), "ridge"),
        (("--mean-norm", "nan"), "--mean-norm"),
        (("--batch", "1000"), "batch"),
        (("--tol", "2"), "--tol"),
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
