from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import deqcli

SMALL = ("--n", "80", "--p", "100", "--trials", "6", "--test-size", "300", "-j", "1", "--name", "e")


def found():
    return json.loads(Path("results/e.json").read_text())["findings"]


@pytest.mark.slow
def test_errors_against_width(deqcli):
    done = deqcli("predict", *SMALL, "--values", "40,80,240", "--twin", "scalars")
    assert done.code == 0
    table = pd.read_csv("results/e.csv")
    measured = table[table["kind"] == "measured"]
    assert len(measured) == 3 * 4 * 6
    lines = table[table["kind"] == "predicted"].set_index(["net", "width"])["error"]
    means = measured.groupby(["net", "width"])["error"].agg(["mean", "sem"])
    told = lines.loc[means.index]
    # Twelve comparisons: the largest of so many normal variables is below 3.5.
    assert ((told - means["mean"]).abs() < 3.5 * means["sem"] + 0.01).all()
    for column in ("mean", "deviation"):
        seen = measured.groupby(["net", "width"])[column].mean()
        other = table[table["kind"] == "predicted"].set_index(["net", "width"])[column]
        np.testing.assert_allclose(seen, other.loc[seen.index], rtol=0.25, atol=0.03)
    # Infinitely wide, the twin has the DEQ's four scalars, and so its error.
    assert lines["matched", 0] == pytest.approx(lines["deq", 0], abs=0.002)
    assert lines["deq", 80] > 2 * lines["deq", 0]
    assert found()["layers"] == {"deq": 1, "matched": 2, "plain": 2}
    assert "with features taken for independent" in done.err
    assert "matched: test error minus the DEQ's, mean over widths" in done.err


@pytest.mark.parametrize(
    ("axis", "values"), [("n", "40,120"), ("ridge", "0.001,1"), ("mean-norm", "1,4")]
)
@pytest.mark.slow
def test_other_axes(deqcli, axis, values):
    done = deqcli("predict", *SMALL, "--against", axis, "--values", values, "--nets", "deq",
                  "--act", "tanh", "--sigma-a2", "0.1")  # fmt: skip
    assert done.code == 0
    records = found()["errors"]
    assert [record["value"] for record in records] == [float(v) for v in values.split(",")]
    for record in records:
        assert abs(record["predicted"] - record["measured"]) < 4 * record["standard_error"] + 0.01
    if axis != "ridge":
        assert records[1]["predicted"] < records[0]["predicted"]


def test_no_ridge_stands_beside_others_on_a_logarithmic_axis():
    settings = {"n": 40, "p": 60, "trials": 2, "test_size": 50, "nets": "deq"}
    found = deqcli.run("predict", against="ridge", values=(0.0, 1e-3, 1.0), **settings)
    told = np.unique(found.table.loc[found.table["kind"] == "predicted", "value"])
    # One value at zero, the others by a factor.
    np.testing.assert_allclose(told[2:] / told[1:-1], 1e3 ** (1 / 15), rtol=1e-5)
    axes = found.figure().axes[0]
    assert axes.get_xscale() == "symlog"
    assert axes.get_xaxis().get_transform().linthresh == 1e-3


@pytest.mark.slow
def test_tangent_kernels_and_classes_of_drawn_networks(deqcli):
    done = deqcli("predict", *SMALL, "--kernel", "ntk", "--values", "100", "--classes", "3",
                  "--mean-norm", "4", "--bias", "--nets", "deq,plain")  # fmt: skip
    assert done.code == 0
    for record in found()["errors"]:
        assert abs(record["predicted"] - record["measured"]) < 4 * record["standard_error"] + 0.02


@pytest.mark.slow
def test_a_variance_has_its_own_twin(deqcli):
    done = deqcli("predict", *SMALL, "--against", "sigma-a2", "--values", "0,0.2", "--act", "tanh")
    assert done.code == 0
    table = pd.read_csv("results/e.csv")
    assert sorted(set(table["sigma_a2"])) == [0, 0.2]
    lines = table[table["kind"] == "predicted"].set_index(["net", "value"])["error"]
    assert lines["deq", 0.0] == pytest.approx(lines["plain", 0.0], rel=1e-6)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--ridge", "-1"), "--ridge is -1"),
        (("--ridge", "0"), "--ridge is 0 and --values 400 is the number of samples"),
        (("--sigma-a2", "1.5"), "--sigma-a2 is 1.5"),
        (("--against", "sigma-a2", "--values", "0.1,3"), "is 3"),
        (("--kernel", "preactivation-ck"), "networks are trained by ck and ntk"),
        (("--data", "sphere"), "no classes"),
        (("--classes", "1"), "--classes must be at least 2"),
        (("--n", "4", "--classes", "3"), "--n is 4; give two samples of each class"),
        (("--test-size", "2", "--classes", "3"), "--test-size is 2; give one of each class"),
        (("--values", "2.5"), "--values has 2.5; give whole numbers"),
        (("--against", "speed"), "speed"),
    ],
)
def test_bad_input(deqcli, tmp_path, arguments, words):
    refused = deqcli("predict", *arguments)
    assert refused.code == 2
    assert words in refused.err
    assert list(tmp_path.iterdir()) == []
