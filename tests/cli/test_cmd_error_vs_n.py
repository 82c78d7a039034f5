from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest


def test_slopes_on_a_small_grid(deqcli):
    done = deqcli("error-vs-n", "--n", "64,128,256,512,1024", "--trials", "2", "--name", "e")
    assert done.code == 0
    table = pd.read_csv("results/e.csv")
    assert len(table) == 4 * 5 * 2
    slopes = json.loads(Path("results/e.json").read_text())["results"]["slopes"]
    assert set(slopes) == {"relu", "tanh", "swish", "lrelu:slope=0.1"}
    for act, slope in slopes.items():
        assert -0.75 < slope < -0.35, act
        assert f"{act}: slope {slope:.3f}" in done.err
        rows = table[table["act"] == act].groupby("n")["error"].mean()
        refit = np.polyfit(np.log(rows.index), np.log(rows), 1)[0]
        assert slope == pytest.approx(refit, rel=1e-9)


def test_jobs_do_not_change_a_byte(deqcli):
    for jobs in ("1", "2"):
        done = deqcli("error-vs-n", "--n", "64,256", "--trials", "2", "--act", "relu,htanh:a=1,c=2",
                      "--kernel", "ntk", "--name", f"j{jobs}", "-j", jobs)  # fmt: skip
        assert done.code == 0
    assert Path("results/j1.csv").read_bytes() == Path("results/j2.csv").read_bytes()
    assert set(pd.read_csv("results/j1.csv")["act"]) == {"relu", "htanh:a=1.0,c=2.0"}


def test_monte_carlo_on_request(deqcli):
    arguments = ("error-vs-n", "--act", "tanh", "--n", "32,64", "--trials", "1", "-j", "1")
    assert deqcli(*arguments, "--name", "exact").code == 0
    done = deqcli(*arguments, "--estimator", "mc", "--realizations", "40", "--width", "400",
                  "--name", "mc")  # fmt: skip
    assert done.code == 0
    exact, drawn = (pd.read_csv(f"results/{name}.csv") for name in ("exact", "mc"))
    # Same samples, kernels averaged over 40 draws: the distances agree up to sampling error.
    np.testing.assert_allclose(drawn["distance"], exact["distance"], rtol=0.25)
    np.testing.assert_allclose(drawn["norm"], exact["norm"], rtol=0.02)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--n", "64"), "at least two different sizes"),
        (("--n", "a,b"), "--n"),
        (("--ratio", "0"), "--ratio"),
        (("--act", "relu,relu"), "twice"),
        (("--act", ","), "--act"),
        (("--act", "tanh,foo"), "unknown activation 'foo'"),
        (("--trials", "0"), "--trials"),
    ],
)
def test_bad_input(deqcli, tmp_path, arguments, words):
    refused = deqcli("error-vs-n", *arguments)
    assert refused.code == 2
    assert words in refused.err
    assert list(tmp_path.iterdir()) == []
