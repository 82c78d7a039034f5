from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from deqcli import run
from deqcli.runs import tables


def test_classes_show_above_the_threshold(deqcli):
    done = deqcli("visible", "--n", "200", "--ratio", "1,2", "--mean-norm", "0.4,3", "--trials",
                  "2", "--name", "v", "-j", "1")  # fmt: skip
    assert done.code == 0
    written = tables.read(Path("results/v.csv"))
    table = written[written["kind"] == "measured"]
    assert len(table) == 2 * 2 * 2 * 2
    near, far = table[table["mean_norm"] == 0.4], table[table["mean_norm"] == 3]
    assert (near["predicted"] == 0).all()
    # One of four vectors in 200 dimensions has a share of a few per cent by chance.
    assert near["alignment"].max() < 0.1
    np.testing.assert_allclose(far["alignment"], far["predicted"], atol=0.08)
    # No activation is in the prediction but by the norms' small share.
    spread = table.groupby(["ratio", "mean_norm"])["predicted"].agg(np.ptp)
    assert spread.max() < 0.01
    found = json.loads(Path("results/v.json").read_text())["findings"]
    assert found["thresholds"]["2"] == pytest.approx(2**0.25)
    assert "p/n = 1: classes show from means of norm 1 on" in done.err
    # Between the norms that are measured the line is the closed form, not straight.
    between = written[(written["kind"] == "predicted") & (written["ratio"] == 2)]
    between = between[between["mean_norm"].between(1.3, 2.9)]
    assert len(between) >= 10
    square = between["mean_norm"] ** 2
    share = (1 - 2 / square**2) / (1 + 1 / square)
    np.testing.assert_allclose(between["predicted"], share, atol=0.02)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--ratio", "0"), "--ratio is 0.0; give a finite number above 0"),
        (("--act", "tanh,foo"), "unknown activation 'foo'"),
        (("--n", "9"), "--n is 9"),
    ],
)
def test_bad_input(deqcli, tmp_path, arguments, words):
    refused = deqcli("visible", *arguments)
    assert refused.code == 2
    assert words in refused.err
    assert list(tmp_path.iterdir()) == []


def test_the_figure_names_the_ratio_that_was_drawn():
    """Of 40 samples in a tenth as many dimensions there are 8, the least."""
    done = run("visible", n=40, ratio=[0.1, 2.0], mean_norm=[1.0], trials=1, act=["tanh"], jobs=1)
    (legend,) = done.figure().legends
    labels = [text.get_text() for text in legend.get_texts()]
    assert labels[:2] == ["p/n = 0.2, predicted", "p/n = 2, predicted"]
