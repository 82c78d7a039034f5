"""The printed forms are what the papers print, and the study tells them from the right ones."""

from __future__ import annotations

import math

import numpy as np
import pytest
from deqcli.runs.task import execute
from deqcli.studies.errata_claims import CLAIMS

from deqcli.errors import InputError
from deqcli.kernels.exact import implicit_kernels
from deqcli.scalars import explicit_scalars, implicit_scalars, sphere_scalars
from deqcli.studies import errata, misprints

SPEC = {"sizes": [64, 128], "trials": 1, "seed": 0}


@pytest.fixture
def few_networks(monkeypatch):
    monkeypatch.setattr(errata, "_NETWORKS", 3)
    monkeypatch.setattr(errata, "_WIDTH", 300)


def test_icml_theorem_1_is_off_by_one_factor_alpha4():
    s = implicit_scalars("relu", 0.2, 2.0, 1.05)
    right, printed = s.coefficients("ck"), misprints.icml_theorem_1(s)
    assert printed.c2 * s.alpha4 == pytest.approx(right.c2, rel=1e-13)
    assert (printed.c1, printed.c3, printed.d) == (right.c1, right.c3, right.d)
    assert abs(s.alpha4 - 1) > 0.5


def test_iclr_diagonal_subtracts_what_the_theorems_print():
    s = implicit_scalars("relu", 0.2, 0.8, 1.05)
    for kernel, c3 in (("preactivation_ck", s.ell3), ("preactivation_ntk", s.beta3)):
        right = s.coefficients(kernel)
        printed = misprints.iclr_diagonal(right)
        assert right.d - printed.d == pytest.approx(1.05**4 * c3, rel=1e-12)
        assert printed.c2 == right.c2


def test_icml_theorem_3_of_one_and_two_layers_by_hand():
    """ReLU: m1 = 1/2, m2 = 1/(tau sqrt(2 pi)), s = 1/2 - 1/(2 pi) whatever tau is."""
    one = misprints.icml_theorem_3(explicit_scalars(["relu"], 1.3))
    right = explicit_scalars(["relu"], 1.3).coefficients("ck")
    # The squares are those of 1 in the first layer: nothing is wrong yet.
    assert (one.c1, one.c2, one.c3) == pytest.approx((right.c1, right.c2, right.c3), rel=1e-12)
    two = misprints.icml_theorem_3(explicit_scalars(["relu", "relu"], 1.3))
    first = 1 / (2 * math.pi * 1.3**2)
    tau2 = 1.3**2 * (0.5 - 0.5 / math.pi)
    second = 1 / (2 * math.pi * tau2)
    s = explicit_scalars(["relu"], 1.3).alpha4
    assert two.c2 == pytest.approx(0.25 * first / 4 + second / 4 * 2 * s, rel=1e-12)
    assert two.c3 == pytest.approx(0.25 * first / 2 + second / 2 * 0.25, rel=1e-12)
    assert two.d == pytest.approx(tau2 * (0.5 - 0.5 / math.pi), rel=1e-12)


def test_icml_tangent_kernel_from_the_other_two_kernels():
    X = np.random.default_rng(0).standard_normal((30, 40)) / math.sqrt(40)
    k = implicit_kernels(X, "relu", 0.2, 0.8)
    # K = Lambda/(1 - G'), so that 1/(1 - G') is the ratio of the two.
    ratio = k.preactivation_ntk / k.preactivation_ck
    printed = misprints.icml_tangent_kernel(k.ck, k.preactivation_ck, 0.2)
    np.testing.assert_allclose(printed, k.ck * ratio, rtol=1e-8)
    assert np.abs(printed - k.ntk).max() > 0.1


def test_hld_theorem_3_turns_the_slope_round():
    right = sphere_scalars("nrelu", 1200, sigma_a2=0.2, kernel="preactivation_ntk")
    printed = misprints.hld_theorem_3(right)
    assert printed.beta == -right.beta
    # k(1) - k(0), which has no derivative in it, is the same.
    assert printed.beta + printed.mu == pytest.approx(right.beta + right.mu, rel=1e-13)
    assert printed.alpha == right.alpha


@pytest.mark.parametrize("name", errata.ERRATA)
def test_right_form_falls_and_printed_form_stays(name):
    small, large = (
        np.mean([[float(errata.measure(SPEC, name, n, trial)[form]) for trial in range(3)]
                 for form in ("printed", "right")], axis=1)
        for n in (100, 400)
    )  # fmt: skip
    # n^(-1/2) halves the right error, three trials leaving some room; the printed one has the same
    # falling part, and beside it one that does not fall.
    assert large[1] < 0.6 * small[1]
    assert large[0] > 0.65 * small[0]
    assert large[0] > 2 * large[1]


def test_simulated_networks_prefer_theta(few_networks):
    found = errata.run_point(SPEC, errata._EMPIRICAL, errata._SAMPLES, 0)
    assert found["printed"] / found["norm"] > 0.3
    assert found["right"] < 0.5 * found["printed"]


def test_table_and_record(tmp_path, few_networks):
    done = execute(errata.task(SPEC), out=tmp_path, name="e")
    assert [path.name for path in done.paths] == ["e.csv", "e.png", "e.json"]
    import json

    import pandas as pd

    table = pd.read_csv(tmp_path / "e.csv")
    assert list(table.columns) == ["erratum", "where", "form", "kernel", "n", "trial", "error",
                                   "norm"]  # fmt: skip
    assert len(table) == len(errata.ERRATA) * 2 * 2
    assert not table.isna().any().any()
    found = json.loads((tmp_path / "e.json").read_text())["results"]
    first = found["errata"]["icml-theorem-1"]
    rows = table[(table["erratum"] == "icml-theorem-1") & (table["form"] == "right")]
    assert first["right_errors"] == pytest.approx(rows["error"].tolist())
    halved = math.log(first["right_errors"][1] / first["right_errors"][0]) / math.log(2)
    assert first["right_slope"] == pytest.approx(halved)
    assert set(found["claims"]) == set(CLAIMS)
    assert all(claim["evidence"].endswith(".") for claim in found["claims"].values())


def test_names_are_not_used_twice():
    assert not set(errata.ERRATA) & set(CLAIMS)


@pytest.mark.parametrize("sizes", [(100,), (100, 100), (4, 100)])
def test_sizes_without_a_trend_are_refused(sizes):
    with pytest.raises(InputError, match="--n"):
        errata.resolve(sizes=sizes, trials=1, seed=0)
