from __future__ import annotations

import json
from pathlib import Path

import pytest

from deqcli import misprints


@pytest.fixture(autouse=True)
def few_networks(monkeypatch):
    monkeypatch.setattr(misprints, "NETWORKS", 2)
    monkeypatch.setattr(misprints, "WIDTH", 100)


@pytest.mark.slow
def test_prints_each_erratum_and_keeps_the_settings(deqcli):
    done = deqcli("errata", "--n", "96,48", "--trials", "1", "--name", "e", "-j", "1")
    assert done.code == 0
    for erratum in misprints.ERRATA.values():
        assert f"{erratum.where}: Error at n = 48 → 96: printed " in done.err
    assert "Of 2 simulated networks of width 100" in done.err
    assert "ICLR Corollary 2: ReLU has E φ'' = 0.4" in done.err
    record = json.loads(Path("results/e.json").read_text())
    assert record["settings"] == {"n": [48, 96], "trials": 1, "seed": 0}


@pytest.mark.usefixtures("no_small_runs")
def test_dry_run_counts_the_points(deqcli):
    done = deqcli("errata", "--dry-run")
    assert done.code == 0
    # Six errata, five sizes, six trials; the simulated networks; five claims.
    assert "186 points" in done.out
