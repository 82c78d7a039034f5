"""The numbers beside the papers' claims, each from a second route."""

from __future__ import annotations

import math

import numpy as np
import pytest

from deqcli.scalars import implicit_scalars
from deqcli.studies import errata_claims


def test_two_quadratic_layers_miss_every_deq():
    found = errata_claims.corollary_1()
    for residuals in found["residuals"].values():
        # Far above what a solver leaves of a solution, 1e-10.
        assert all(1e-4 < value < 0.1 for value in residuals.values())
    # Odd: quadratic layers must be linear, R = 1, and share the relative error of R evenly.
    s = implicit_scalars("tanh", 0.1)
    R = s.gamma2 / s.alpha1
    assert found["residuals"]["ck"]["tanh"] == pytest.approx((R - 1) / 2, rel=0.1)


def test_relu_needs_two_layers():
    found = errata_claims.corollary_2(0)
    assert found["alpha2"] > 1.02 * found["alpha3"] / 2
    # ReLU's second derivative is a unit mass at 0: E of it is the density there.
    tau0 = math.sqrt(1 + 4 / math.sqrt(1000))
    tau = implicit_scalars("relu", 0.2, tau0=tau0).tau
    assert found["m2"] == pytest.approx(1 / (tau * math.sqrt(2 * math.pi)), rel=1e-6)
    one, two = found["one_layer_relative"], found["two_layers_relative"]
    assert one[1] > 0.8 * one[0]
    assert two[1] < 0.7 * two[0]
    assert one[1] > 100 * two[1]


def test_a_third_of_the_pre_activations_is_beyond_artanh():
    found = errata_claims.arc_tanh()
    drawn = math.sqrt(found["variance"]) * np.random.default_rng(0).standard_normal(100_000)
    # Five standard errors.
    assert found["share"] == pytest.approx((np.abs(drawn) >= 1).mean(), abs=0.0075)
    assert found["variance"] == pytest.approx(0.9 * (1 + 4 / math.sqrt(1000)), rel=1e-12)


def test_printed_sum_ends_elsewhere():
    found = errata_claims.sum_for_k(0)
    assert found["right_relative"] < 1e-12
    assert found["printed_relative"] > 0.5


def test_every_claim_has_its_evidence_and_depends_on_the_seed_alone():
    found = errata_claims.claims({"seed": 0, "sizes": [64, 128], "trials": 1})
    assert list(found) == list(errata_claims.CLAIMS)
    assert found == errata_claims.claims({"seed": 0})
    assert "32% of them lie beyond" in found["iclr-figure-1"]["evidence"]
