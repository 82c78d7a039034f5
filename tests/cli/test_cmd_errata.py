from __future__ import annotations

import json
from pathlib import Path

import pytest

from deqcli.studies import errata


@pytest.fixture(autouse=True)
def few_networks(monkeypatch):
    monkeypatch.setattr(errata, "_NETWORKS", 2)
    monkeypatch.setattr(errata, "_WIDTH", 100)


def test_prints_each_erratum_and_writes_three_files(deqcli):
    done = deqcli("errata", "--n", "48,96", "--trials", "1", "--name", "e", "-j", "1")
    assert done.code == 0
    assert done.out.split() == ["results/e.csv", "results/e.png", "results/e.json"]
    for erratum in errata.ERRATA.values():
        assert f"{erratum.where}: printed " in done.err
    assert "tangent kernel of 2 networks of width 100" in done.err
    assert "ICLR Corollary 2: ReLU has E φ'' = 0.4" in done.err
    record = json.loads(Path("results/e.json").read_text())
    assert record["options"] == {"command": "errata", "n": [48, 96], "trials": 1, "seed": 0,
                                 "format": ["png"]}  # fmt: skip


def test_one_size_is_no_trend(deqcli):
    done = deqcli("errata", "--n", "48")
    assert done.code == 2
    assert "--n" in done.err


def test_dry_run_counts_the_points(deqcli):
    done = deqcli("errata", "--dry-run")
    assert done.code == 0
    # Six errata, five sizes, three trials, and the simulated networks.
    assert "91 points" in done.out
