r"""What the papers say that does not hold, or not as it stands: a number for each.

Statements without a curve against n (those are in :mod:`deqcli.misprints`); theory.md §7.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from deqcli.data.laws import Mixture, Sphere
from deqcli.equivalents import operator_distance, operator_norm
from deqcli.kernels.exact import explicit_kernels
from deqcli.matching import match
from deqcli.matching.corollary import corollary_2 as iclr_corollary_2
from deqcli.misprints import PAPERS_MEAN_NORM, SIGMA_A2, Entry, mixture, model_of
from deqcli.models import deq_model
from deqcli.runs.seeds import stream
from deqcli.vocabulary import Kernel, activation_title

Evidence = dict[str, Any]

#: That of ICLR Figure 1, in the papers' range for all activations.
_SMALL_A2 = 0.1
_CLAIM_ACTS, _CLAIM_SIZES = ("relu", "tanh", "gelu", "softplus"), (200, 800)
_SPHERE_SIZE, _TERMS = (200, 240), 60


@dataclass(frozen=True)
class FalseClaim(Entry):
    """A statement without a curve.

    Attributes
    ----------
    evidence : callable
        From a seed to the numbers and, under ``evidence``, the sentence that they make.
    """

    evidence: Callable[[int], Evidence]


def _power(value: float) -> str:
    """Return a small number with a minus sign, at which no line is broken."""
    return f"{value:.0e}".replace("-", "−")


def corollary_1(seed: int) -> Evidence:
    r"""Return how near two quadratic layers come to the four scalars of a DEQ.

    The largest relative residual of the nearest network found, for :math:`\Lambda`, which is the
    paper's G*, and for G; 0 would be a solution. :math:`\tau_0 = 1`.
    """
    residuals = {
        kernel: {
            act: match(act, _SMALL_A2, kernel=kernel, family="quadratic", layers=2).worst
            for act in _CLAIM_ACTS
        }
        for kernel in (Kernel.PREACTIVATION_CK, Kernel.CK)
    }
    parts = [
        f"{', '.join(f'{activation_title(act)} {value:.2g}' for act, value in by_act.items())}"
        f" for {kernel.letter}"
        for kernel, by_act in residuals.items()
    ]
    return {
        "sigma_a2": _SMALL_A2,
        "residuals": residuals,
        "evidence": "Relative residual of the nearest quadratic two-layer network found, 0 being a "
        f"solution: {'; '.join(parts)} (σa² = {_SMALL_A2:g}, τ0 = 1).",
    }


def corollary_2(seed: int) -> Evidence:
    r"""Return how near one Leaky-ReLU layer comes to a ReLU DEQ, and what its equations give.

    One layer has α2 = ½α3 whatever its activation, so that its distance does not fall with n. The
    equations of the corollary are for :math:`\Lambda`, the paper's G*.
    """
    ck, preactivation = Kernel.CK, Kernel.PREACTIVATION_CK
    names = ("one", "two", "one_preactivation", "printed")
    relative: dict[str, list[float]] = {name: [] for name in names}
    for n in _CLAIM_SIZES:
        model = model_of(mixture(n), n, "relu", 1 - SIGMA_A2, seed, "corollary 2", n)
        assert model.inputs.statistics is not None
        tau0 = model.inputs.statistics.tau0
        deq = dict(zip((ck, preactivation), model.kernel(ck, preactivation), strict=True))
        layer = partial(iclr_corollary_2, "relu", SIGMA_A2, tau0=tau0)
        twins = (
            (ck, layer(kernel=ck)),
            (ck, match("relu", SIGMA_A2, tau0=tau0, family="lrelu", layers=2)),
            (preactivation, layer()),
            (preactivation, layer(printed=True)),
        )
        for name, (kernel, twin) in zip(names, twins, strict=True):
            other = explicit_kernels(model.X, list(twin.acts)).ck
            distance = operator_distance(deq[kernel], other) / operator_norm(deq[kernel])
            relative[name].append(distance)
    s = model.scalars
    assert s is not None
    one, two, before, printed = relative.values()
    return {
        "sigma_a2": SIGMA_A2,
        "sizes": list(_CLAIM_SIZES),
        "m2": s.m2,
        "alpha2": s.alpha2,
        "alpha3": s.alpha3,
        "one_layer_relative": one,
        "two_layers_relative": two,
        "one_layer_preactivation_relative": before,
        "printed_relative": printed,
        "evidence": f"ReLU has E φ'' = {s.m2:.2g}, and α2 = {s.alpha2:.4f} beside "
        f"½α3 = {s.alpha3 / 2:.4f}, so that one layer does not match exactly. Corrected, the "
        f"equations come near all the same: relative distance of G at n = {_CLAIM_SIZES[0]} → "
        f"{_CLAIM_SIZES[1]} {_power(one[0])} → {_power(one[1])}, of Λ {_power(before[0])} → "
        f"{_power(before[1])}; two layers {_power(two[0])} → {_power(two[1])} of G. As printed "
        f"they give a layer {printed[0]:.2g} → {printed[1]:.2g} of Λ away (σa² = {SIGMA_A2:g}).",
    }


def arc_tanh(seed: int) -> Evidence:
    r"""Return why "Arc-Tanh" is not artanh, and that its distance does not say what it is.

    At the size of ICLR's Figure 1. The input's part :math:`\sigma_bBx` of a pre-activation is
    normal with variance :math:`\sigma_b^2\tau_0^2`; the exact distances
    :math:`\|\Lambda - \bar\Lambda\|` are of one draw of its data.
    """
    law, n = Mixture(1000, None, PAPERS_MEAN_NORM, "papers"), 800
    inputs = law.load(partial(stream, seed, "data", "errata", "arc-tanh"), n)
    assert inputs.statistics is not None
    variance = (1 - _SMALL_A2) * inputs.statistics.tau0**2
    share = math.erfc(1 / math.sqrt(2 * variance))
    distances = {}
    for title, act in (("arctan", "arctan"), ("arsinh", "numpy:arcsinh"), ("tanh", "tanh")):
        model = deq_model(inputs, act, _SMALL_A2, 1 - _SMALL_A2)
        (kernel,) = model.kernel(Kernel.PREACTIVATION_CK)
        closed = model.equivalent(Kernel.PREACTIVATION_CK)
        distances[title] = operator_distance(kernel, closed)
    listed = ", ".join(f"{value:.3f} with {title}" for title, value in distances.items())
    return {
        "sigma_a2": _SMALL_A2,
        "variance": variance,
        "share": share,
        "distances": distances,
        "evidence": f"In its set-up (σa² = {_SMALL_A2:g}) the input’s part of a pre-activation has "
        f"variance {variance:.3g}: {share:.0%} of them lie beyond ±1, where artanh has no value. "
        f"The exact distance does not tell which function it is: {listed}; 0.12 is printed.",
    }


def input_scale(seed: int) -> Evidence:
    r"""Return the variance of the input's part :math:`\sqrt{\sigma_b^2/m}\,Bx`, as printed.

    From drawn B; the recursions of both papers have :math:`\sigma_b^2\|x\|^2` in its place.
    """
    widths, p = (100, 10_000), 200
    rng = stream(seed, "errata", "input scale")
    x = rng.standard_normal(p) / math.sqrt(p)
    x /= np.linalg.norm(x)
    sigma_b2 = 1 - SIGMA_A2
    variances = [
        float(np.var(math.sqrt(sigma_b2 / m) * (rng.standard_normal((m, p)) @ x))) for m in widths
    ]
    return {
        "sigma_a2": SIGMA_A2,
        "widths": list(widths),
        "variances": variances,
        "evidence": f"Drawn at width {widths[0]} → {widths[1]}, √(σb²/m) Bx has variance "
        f"{variances[0]:.1g} → {_power(variances[1])} for ‖x‖ = 1, where the papers’ recursions "
        f"have σb² = {sigma_b2:g}.",
    }


def sum_for_k(seed: int) -> Evidence:
    r"""Return how far the sum for K, read literally, ends from the limit that the papers use.

    .. math:: K^{(l)} = \sum_{h=1}^{l+1} G^{(h-1)} \prod_{h'=h}^{l+1} \dot G^{(h')}
              = (K^{(l-1)} + G^{(l)}) \dot G^{(l+1)}

    (HLD equation 4, ICLR equation 5, ICML) tends to :math:`K\dot G`. Published recursions of this
    form set the last :math:`\dot G` to 1 (S. Arora et al. 2019, which ICLR cites), and then it is
    right. On the sphere with HLD's normalised ReLU, all by the arc-cosine formulas of its Lemma 1.
    """
    n, d = _SPHERE_SIZE
    model = model_of(Sphere(d, None), n, "nrelu", 1 - SIGMA_A2, seed, "sum for K")
    cosines = np.clip(model.X @ model.X.T, -1, 1)
    np.fill_diagonal(cosines, 1.0)
    G, printed = cosines, np.zeros_like(cosines)
    for _ in range(_TERMS):
        corrected = printed + G
        angle = np.arccos(G)
        printed = corrected * SIGMA_A2 * (np.pi - angle) / np.pi
        dual = (np.sqrt(1 - G**2) + (np.pi - angle) * G) / np.pi
        G = np.minimum(SIGMA_A2 * dual + (1 - SIGMA_A2) * cosines, 1.0)
    (K,) = model.kernel(Kernel.PREACTIVATION_NTK)
    norm = operator_norm(K)
    off = operator_distance(K, printed) / norm
    rest = operator_distance(K, corrected) / norm
    return {
        "sigma_a2": SIGMA_A2,
        "samples": n,
        "dimension": d,
        "printed_relative": off,
        "right_relative": rest,
        "evidence": f"Read literally the sum tends to Λ Ġ/(1 − Ġ), {off:.0%} off K = Λ/(1 − Ġ) in "
        f"operator norm; with 1 for the last Ġ at most {_power(max(rest, 1e-12))} (normalised "
        "ReLU, "
        f"σa² = {SIGMA_A2:g}, {n} points on the sphere, d = {d}).",
    }


CLAIMS = {
    "iclr-corollary-2": FalseClaim(
        "ICLR Corollary 2",
        "even or piecewise linear φ have E φ'' = 0; (a − b)² = 4α1²; a variance with + ab",
        "odd φ have; (a + b)² = 4α1; + 2ab",
        corollary_2,
    ),
    "iclr-corollary-1": FalseClaim(
        "ICLR Corollary 1",
        "a quadratic two-layer network always exists",
        "none for odd φ; none found for ReLU, gelu, softplus",
        corollary_1,
    ),
    "input-scale": FalseClaim(
        "ICLR and HLD (1)-(2)",
        "√(σb²/m) Bx",
        "σb Bx, as ICML has it: with 1/√m the input vanishes as the width grows",
        input_scale,
    ),
    "iclr-figure-1": FalseClaim(
        "ICLR Figure 1",
        "“Arc-Tanh” activation",
        "not artanh, which has no values beyond ±1; we take arctan",
        arc_tanh,
    ),
    "sum-for-k": FalseClaim(
        "ICLR (5), HLD (4) and ICML, the sum for K",
        "the last factor Ġ of every term is written out",
        "a published convention, 1 for it, is not stated; with it the limit is the papers’",
        sum_for_k,
    ),
}
