from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from deqcli.runs import tables


@pytest.mark.slow
def test_slopes_on_a_small_grid(deqcli):
    done = deqcli("error-vs-n", "--n", "64,128,256,512,1024", "--trials", "2", "--name", "e")
    assert done.code == 0
    table = tables.read(Path("results/e.csv"))
    assert len(table) == 4 * 5 * 2
    slopes = json.loads(Path("results/e.json").read_text())["findings"]["slopes"]
    assert set(slopes) == {"relu", "tanh", "swish", "lrelu:slope=0.1"}
    for act, slope in slopes.items():
        assert -0.75 < slope < -0.35, act
        assert f"{act}: slope {slope:.3f}" in done.err
        rows = table[table["act"] == act].groupby("n")["error"].mean()
        refit = np.polyfit(np.log(rows.index), np.log(rows), 1)[0]
        assert slope == pytest.approx(refit, rel=1e-9)


def test_own_norms_are_nearer_by_the_predicted_constant(deqcli):
    done = deqcli("error-vs-n", "--n", "128,512", "--trials", "2", "--act", "relu,tanh", "--name",
                  "o", "--mean-norm", "1", "-j", "1")  # fmt: skip
    assert done.code == 0
    table = tables.read(Path("results/o.csv"))
    largest = table[table["n"] == 512].groupby("act")[["error", "own_error", "predicted"]].mean()
    assert largest.loc["relu", "own_error"] == pytest.approx(
        largest.loc["relu", "predicted"], rel=0.12
    )
    assert largest.loc["tanh", "own_error"] < 0.01 * largest.loc["tanh", "error"]
    assert np.isnan(largest.loc["tanh", "predicted"])
    slopes = table.groupby("act")["own_slope"].first()
    assert -1.4 < slopes["tanh"] < -0.9 < slopes["relu"] < -0.4
    assert "times nearer at the largest n" in done.err


def test_activations_with_parameters(deqcli):
    done = deqcli("error-vs-n", "--n", "64,128", "--trials", "1", "--act", "relu,htanh:a=1,c=2",
                  "--kernel", "ntk", "--name", "e", "-j", "1")  # fmt: skip
    assert done.code == 0
    table = tables.read(Path("results/e.csv"))
    assert set(table["act"]) == {"relu", "htanh:a=1.0,c=2.0"}
    assert set(table["kernel"]) == {"ntk"}


def test_monte_carlo_on_request(deqcli):
    arguments = ("error-vs-n", "--act", "tanh", "--n", "32,64", "--trials", "1", "-j", "1")
    assert deqcli(*arguments, "--name", "exact").code == 0
    done = deqcli(*arguments, "--estimator", "monte-carlo", "--realizations", "40", "--width",
                  "400", "--name", "drawn")  # fmt: skip
    assert done.code == 0
    exact, drawn = (tables.read(Path(f"results/{name}.csv")) for name in ("exact", "drawn"))
    # Same samples, kernels averaged over 40 draws: the distances agree up to sampling error.
    np.testing.assert_allclose(drawn["distance"], exact["distance"], rtol=0.25)
    np.testing.assert_allclose(drawn["norm"], exact["norm"], rtol=0.02)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--n", "64"), "--n is 64; give at least two sizes for a slope"),
        (("--act", "htanh:a=1,c=2,htanh:c=2.0,a=1.0"), "--act names an activation twice"),
        (("--act", "tanh,foo"), "unknown activation 'foo'"),
    ],
)
def test_bad_input(deqcli, tmp_path, arguments, words):
    refused = deqcli("error-vs-n", *arguments)
    assert refused.code == 2
    assert words in refused.err
    assert list(tmp_path.iterdir()) == []


def test_an_equivalent_that_is_exact_has_no_slope(deqcli):
    done = deqcli(
        "error-vs-n", "--act", "abs,identity", "--n", "64,128", "--trials", "1", "-j", "1"
    )
    assert "identity: exact, to rounding" in done.err
    assert "identity: slope" not in done.err
    assert "abs: slope" in done.err
