r"""What the papers claim without a formula whose error could fall with n, and a number for each.

Cheap and deterministic, so that they are found when a run of the errata is put together. Each is a
mapping with the numbers and, under ``evidence``, the sentence that they make.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deqcli.data.mixture import GaussianMixture
from deqcli.kernels.explicit import explicit_kernels
from deqcli.matching import match
from deqcli.spectra import operator_distance, operator_norm
from deqcli.studies import inputs
from deqcli.studies.misprints import SIGMA_A2, Erratum

Array = NDArray[np.float64]
Found = dict[str, Any]

CLAIMS = {
    "iclr-corollary-2": Erratum(
        "ICLR Corollary 2", "ck", "even or piecewise linear φ have E φ'' = 0; (a − b)² = 4α1²",
        "false for ReLU, which needs two layers; (a + b)²/4 = α1"),
    "iclr-corollary-1": Erratum(
        "ICLR Corollary 1", "preactivation_ck", "a quadratic two-layer network always exists",
        "no solution for odd φ, nor for ReLU, swish, gelu, softplus"),
    "iclr-figure-1": Erratum(
        "ICLR Figure 1", "preactivation_ck", "“Arc-Tanh” activation",
        "arctan: artanh has no values beyond ±1"),
    "sum-for-k": Erratum(
        "ICLR and HLD, the sum for K", "preactivation_ntk",
        "K as summed has a factor Ġ in every term", "the limit used is K = Λ/(1 − Ġ)"),
}  # fmt: skip

_ACTS = ("relu", "tanh", "gelu", "softplus")
_TITLES = {"relu": "ReLU", "preactivation_ck": "Λ", "ck": "G"}
# In the papers' range for all of these activations, and that of ICLR Figure 1.
_SMALL_A2 = 0.1
_SIZES, _RATIO, _MEAN_NORM = (200, 800), 1.25, 2.0
_SPHERE = (200, 240)
_TERMS = 60


def claims(spec: Mapping[str, Any]) -> dict[str, Found]:
    """Return the evidence of every entry of :data:`CLAIMS`, by its name."""
    seed = int(spec["seed"])
    found = {
        "iclr-corollary-2": corollary_2(seed),
        "iclr-corollary-1": corollary_1(),
        "iclr-figure-1": arc_tanh(),
        "sum-for-k": sum_for_k(seed),
    }
    return {name: {"where": CLAIMS[name].where, **found[name]} for name in CLAIMS}


def _power(value: float) -> str:
    """Return a small number with a minus sign, at which no line is broken."""
    return f"{value:.0e}".replace("-", "−")


@functools.cache
def corollary_1() -> Found:
    r"""Return how near two quadratic layers come to the four scalars of a DEQ.

    The largest relative residual of the nearest network found, for :math:`\Lambda`, which is the
    paper's G*, and for G; 0 would be a solution. :math:`\tau_0 = 1`.
    """
    residuals = {
        kernel: {
            act: match(act, _SMALL_A2, kernel=kernel, family="quadratic", layers=2).worst
            for act in _ACTS
        }
        for kernel in ("preactivation_ck", "ck")
    }
    parts = [
        f"{', '.join(f'{_TITLES.get(act, act)} {value:.2g}' for act, value in found.items())}"
        f" for {_TITLES[kernel]}"
        for kernel, found in residuals.items()
    ]
    return {
        "sigma_a2": _SMALL_A2,
        "residuals": residuals,
        "evidence": "Relative residual of the nearest quadratic two-layer network found, 0 being a "
        f"solution: {'; '.join(parts)} (σa² = {_SMALL_A2:g}, τ0 = 1).",
    }


@functools.cache
def corollary_2(seed: int) -> Found:
    """Return the scalars of a ReLU DEQ, and its distance from Leaky-ReLU twins of 1 and 2 layers.

    One layer has α2 = ½α3 whatever its activation, so that its distance does not fall with n.
    """
    relative: dict[int, list[float]] = {1: [], 2: []}
    for n in _SIZES:
        drawn = {"data": "gmm", "n": n, "p": round(_RATIO * n), "classes": 2, "seed": seed,
                 "covariance": "papers", "mean_norm": _MEAN_NORM}  # fmt: skip
        loaded = inputs.load(drawn, "errata", "corollary 2", n)
        model = inputs.model(loaded, "relu", SIGMA_A2, 1 - SIGMA_A2)
        assert loaded.statistics is not None
        G, tau0 = model.kernels().ck, loaded.statistics.tau0
        for layers, distances in relative.items():
            twin = match("relu", SIGMA_A2, tau0=tau0, family="lrelu", layers=layers)
            kernel = explicit_kernels(loaded.data.X, list(twin.acts)).ck
            distances.append(operator_distance(G, kernel) / operator_norm(G))
    scalars = model.scalars
    assert scalars is not None
    one, two = relative.values()
    return {
        "sigma_a2": SIGMA_A2,
        "sizes": list(_SIZES),
        "m2": scalars.m2,
        "alpha2": scalars.alpha2,
        "alpha3": scalars.alpha3,
        "one_layer_relative": one,
        "two_layers_relative": two,
        "evidence": f"ReLU has E φ'' = {scalars.m2:.2g}, and α2 = {scalars.alpha2:.4f} beside "
        f"½α3 = {scalars.alpha3 / 2:.4f}. Distance of G from its nearest Leaky-ReLU twin, relative "
        f"to ‖G‖, at n = {_SIZES[0]} → {_SIZES[1]}: {one[0]:.2g} → {one[1]:.2g} with one layer, "
        f"{_power(two[0])} → {_power(two[1])} with two (σa² = {SIGMA_A2:g}).",
    }


def arc_tanh() -> Found:
    r"""Return the share of pre-activations at which artanh has no value, at ICLR's Figure 1.

    The input's part :math:`\sigma_bBx` alone is normal with variance :math:`\sigma_b^2\tau_0^2`.
    """
    tau0 = GaussianMixture.papers(1000).statistics(np.array([400, 400])).tau0
    variance = (1 - _SMALL_A2) * tau0**2
    share = math.erfc(1 / math.sqrt(2 * variance))
    return {
        "sigma_a2": _SMALL_A2,
        "variance": variance,
        "share": share,
        "evidence": f"In its set-up (σa² = {_SMALL_A2:g}) the input’s part of a pre-activation has "
        f"variance {variance:.3g}: {share:.0%} of them lie beyond ±1, where artanh has no value. "
        "What arctan gives is in the table of verdicts.",
    }


@functools.cache
def sum_for_k(seed: int) -> Found:
    r"""Return how far the printed sum for K ends from the limit that the papers use.

    .. math:: K^{(l)} = \sum_{h=1}^{l+1} G^{(h-1)} \prod_{h'=h}^{l+1} \dot G^{(h')}
              = (K^{(l-1)} + G^{(l)}) \dot G^{(l+1)}

    (HLD equation 4, ICLR equation 5) tends to :math:`K\dot G`; without the last factor it is right.
    On the sphere with HLD's normalised ReLU, all by the arc-cosine formulas of its Lemma 1.
    """
    n, d = _SPHERE
    drawn = {"data": "sphere", "n": n, "p": d, "seed": seed}
    loaded = inputs.load(drawn, "errata", "sum for K")
    cosines = np.clip(loaded.data.X @ loaded.data.X.T, -1, 1)
    np.fill_diagonal(cosines, 1.0)
    G, printed = cosines, np.zeros_like(cosines)
    for _ in range(_TERMS):
        corrected = printed + G
        angle = np.arccos(G)
        printed = corrected * SIGMA_A2 * (np.pi - angle) / np.pi
        dual = (np.sqrt(1 - G**2) + (np.pi - angle) * G) / np.pi
        G = np.minimum(SIGMA_A2 * dual + (1 - SIGMA_A2) * cosines, 1.0)
    K = inputs.model(loaded, "nrelu", SIGMA_A2, 1 - SIGMA_A2).kernels().preactivation_ntk
    norm = operator_norm(K)
    off = operator_distance(K, printed) / norm
    rest = operator_distance(K, corrected) / norm
    return {
        "sigma_a2": SIGMA_A2,
        "samples": n,
        "dimension": d,
        "printed_relative": off,
        "right_relative": rest,
        "evidence": f"The printed sum tends to a matrix {off:.0%} off K = Λ/(1 − Ġ) in operator "
        f"norm; without its last factor Ġ at most {_power(max(rest, 1e-12))} (normalised ReLU, "
        f"σa² = {SIGMA_A2:g}, {n} points on the sphere, d = {d}).",
    }
