"""A sample of CIFAR-10's VGG-19 features, whose files cannot be fetched, gives committed tables.

``cifar10-vgg19-sample.npz`` has 240 samples of the test half, as stored. After a change that is
meant to change numbers: ``python tests/studies/test_cifar_sample.py`` writes the tables again.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

import deqcli
from deqcli.reproduction import check
from deqcli.runs import tables
from deqcli.study import get

PLACE = Path(__file__).parents[1] / "reference"
SAMPLE = "cifar10-vgg19-sample.npz"
RUNS = {
    "accuracy": {"train_size": 160, "test_size": 80, "widths": "64", "trials": 2, "epochs": 3},
    "match": {"kernel": "ntk", "act": "relu", "sigma_a2": 0.2, "design": 0},
}


def made(study: str, out: Path) -> Path:
    deqcli.run(
        study, data=SAMPLE, out=out, name=f"cifar-{study}", formats=(), jobs=1, force=True,
        **RUNS[study],
    )  # fmt: skip
    return out / f"cifar-{study}.csv"


@pytest.mark.parametrize("study", RUNS)
def test_a_sample_of_the_features_gives_the_committed_table(study, tmp_path, monkeypatch):
    shutil.copy(PLACE / SAMPLE, tmp_path)
    # The name of the file, as it is typed, is in the table.
    monkeypatch.chdir(tmp_path)
    fresh = made(study, tmp_path / "out")
    assert check.compare(get(study), fresh, PLACE / fresh.name) == []


def test_the_check_sees_another_sample(tmp_path, monkeypatch):
    with np.load(PLACE / SAMPLE) as stored:
        np.savez(tmp_path / SAMPLE, X=stored["X"][::-1] * 1.01, y=stored["y"])
    monkeypatch.chdir(tmp_path)
    fresh = made("match", tmp_path / "out")
    assert check.compare(get("match"), fresh, PLACE / fresh.name)


@pytest.mark.parametrize("study", RUNS)
def test_committed_tables_name_no_machine(study):
    table = tables.read(PLACE / f"cifar-{study}.csv")
    name = "dataset" if study == "accuracy" else "data"
    assert set(table[name]) == {SAMPLE}


if __name__ == "__main__":
    os.chdir(PLACE)
    for name in RUNS:
        made(name, PLACE)
