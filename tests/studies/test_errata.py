"""The study of the errata: its table and its record."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t as student

import deqcli
from deqcli import misprints, study
from deqcli.errors import InputError
from deqcli.false_claims import CLAIMS
from deqcli.misprints import ERRATA
from deqcli.studies.errata import _curve


@pytest.mark.slow
def test_table_and_record(tmp_path, monkeypatch):
    monkeypatch.setattr(misprints, "NETWORKS", 3)
    monkeypatch.setattr(misprints, "WIDTH", 300)
    result = deqcli.run("errata", n=(128, 64), trials=1, out=tmp_path, name="e", jobs=1)
    assert [path.name for path in result.paths] == ["e.csv", "e.png", "e.json"]
    table, findings = result.table, result.findings
    assert list(table.columns) == ["erratum", "where", "form", "kernel", "n", "trial", "error",
                                   "norm"]  # fmt: skip
    assert len(table) == len(ERRATA) * 2 * 2
    assert not table.isna().any().any()
    first = findings["errata"]["icml-theorem-1"]
    assert first["sizes"] == [64, 128]
    rows = table[(table["erratum"] == "icml-theorem-1") & (table["form"] == "right")]
    assert first["right_errors"] == pytest.approx(rows["error"].tolist())
    halved = math.log(first["right_errors"][1] / first["right_errors"][0]) / math.log(2)
    assert first["right_slope"] == pytest.approx(halved)
    assert first["right_interval"] is None
    assert set(findings["claims"]) == set(CLAIMS)
    assert [entry["name"] for entry in findings["entries"]] == [*ERRATA, *CLAIMS]
    assert all(entry["evidence"].endswith(".") for entry in findings["entries"])
    assert (
        findings["empirical_ntk"]["printed_relative"] > findings["empirical_ntk"]["right_relative"]
    )
    # What a finished run says of itself is what stands beside the papers.
    for quantity in study.get("errata").quantities(result.settings):
        name, _, form = quantity.key.rpartition("-")
        assert quantity.measure(result).value == findings["errata"][name][f"{form}_slope"]


def test_slopes_have_intervals_over_trials():
    """Errors that are powers of n: the slopes of trials are their exponents."""
    n, powers = np.array([16, 64, 256]), np.array([-0.6, -0.5, -0.4])
    table = pd.concat(
        pd.DataFrame({"erratum": "e", "form": form, "n": n, "trial": trial,
                      "error": 2.0 * n ** (power if form == "right" else 0.0)})
        for form in ("printed", "right")
        for trial, power in enumerate(powers)
    )  # fmt: skip
    curve = _curve(table, "e")
    assert curve["sizes"] == n.tolist()
    assert curve["right_errors"] == pytest.approx(np.mean(2.0 * n[:, None] ** powers, axis=1))
    half = student.ppf(0.975, 2) * powers.std(ddof=1) / math.sqrt(3)
    assert curve["right_interval"] == pytest.approx(half)
    assert (curve["printed_slope"], curve["printed_interval"]) == pytest.approx((0, 0), abs=1e-12)


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ((100,), "`n` is 100; give at least two sizes for a trend"),
        ((100, 100), "`n` has 100 twice"),
        ((4, 100), "`n` is 4; give a whole number at least 16"),
    ],
)
def test_sizes_without_a_trend_are_refused(sizes, words):
    with pytest.raises(InputError, match=words):
        study.get("errata").settings(n=sizes)
