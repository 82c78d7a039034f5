from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from deqcli.runs import tables

SMALL = ("accuracy", "--data", "gmm", "--p", "50", "--train-size", "120", "--test-size", "60",
         "--widths", "16,32", "--trials", "2", "--epochs", "2", "--batch", "40")  # fmt: skip


def test_says_the_gaps_at_the_largest_width(deqcli):
    done = deqcli(*SMALL, "--name", "a", "-j", "1")
    assert done.code == 0
    for net in ("matched", "plain"):
        assert f"width 32: training loss of {net} / DEQ's = " in done.err
        assert f"test accuracy DEQ - {net} = " in done.err
    assert " [infinite width " in done.err
    assert "width 16: " not in done.err
    assert len(tables.read(Path("results/a.csv"))) == 3 * 2 * 3 * 3
    assert json.loads(Path("results/a.json").read_text())["settings"]["learning_rate"] == 1.0


@pytest.mark.slow
def test_matched_to_the_ntk(deqcli):
    done = deqcli(*SMALL, "--name", "a", "-j", "1", "--match", "ntk", "--act", "tanh", "--nets",
                  "matched", "--trials", "1")  # fmt: skip
    assert done.code == 0
    twin = json.loads(Path("results/a.json").read_text())["findings"]["twin"]
    assert "theta1" in twin["target"]


@pytest.mark.slow
def test_stopped_trainings_give_exit_code_3(deqcli):
    done = deqcli(*SMALL, "--name", "a", "-j", "1", "--learning-rate", "1e6", "--act", "softplus",
                  "--match", "ck", "--nets", "matched", "--trials", "1",
                  "--widths", "16")  # fmt: skip
    assert done.code == 3
    assert "matched width=16 trial=0: stopped: loss not finite in epoch" in done.err
    assert Path("results/a.csv").exists()


@pytest.mark.slow
def test_what_fails_before_training_has_no_rows(deqcli):
    """Far outside the papers' range the equilibrium is lost at once; the others are kept."""
    lost = (*SMALL, "-j", "1", "--limit", "none", "--sigma-a2", "0.99", "--sigma-b2", "1e-4",
            "--act", "tanh", "--widths", "300", "--trials", "1", "--tolerance", "1e-6")  # fmt: skip
    done = deqcli(*lost, "--name", "a", "--nets", "deq,plain")
    assert done.code == 3
    assert "deq width=300 trial=0: stopped: forward iteration" in done.err
    assert "before any training" in done.err
    table = tables.read(Path("results/a.csv"))
    assert set(table["net"]) == {"plain"}
    assert not table.isna().any().any()
    assert deqcli(*lost, "--name", "b", "--nets", "deq").code == 3
    assert tables.read(Path("results/b.csv")).empty
    assert Path("results/b.png").exists()


@pytest.mark.slow
def test_ones_own_file_needs_no_sizes(deqcli):
    rng = np.random.default_rng(0)
    y = np.arange(300) % 2
    np.savez("mine.npz", X=rng.standard_normal((300, 10)) + 4 * y[:, None], y=y)
    done = deqcli("accuracy", "--data", "mine.npz", "--widths", "16", "--trials", "1", "--epochs",
                  "2", "--name", "a", "-j", "1")  # fmt: skip
    assert done.code == 0
    assert json.loads(Path("results/a.json").read_text())["settings"]["test_size"] == 60


def test_the_default_is_the_preset():
    """The papers' Figure 3 (a) up to width 1024 is what the bare command runs."""
    from deqcli.reproduction import presets
    from deqcli.studies.accuracy import AccuracySettings

    preset = presets.sized(presets.load("iclr/figure-3-a"), "standard")
    assert preset.settings == AccuracySettings()


@pytest.mark.slow
def test_readout_alone_with_limits(deqcli):
    done = deqcli(*SMALL, "--name", "a", "-j", "1", "--train", "readout", "--trials", "1")
    assert done.code == 0
    assert (tables.read(Path("results/a.csv"))["width"] == 0).sum() == 9


@pytest.mark.slow
def test_limits_are_points_of_their_own(deqcli):
    assert "15 points" in deqcli(*SMALL, "--dry-run").out
    assert "12 points" in deqcli(*SMALL, "--dry-run", "--limit", "none").out


def test_help_states_the_default(deqcli):
    text = deqcli("accuracy", "--help").out
    assert "[default: mnist]" in text
    assert "minutes on two cores" in " ".join(text.split())
