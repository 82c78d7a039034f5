r"""What the papers misprint: each formula as printed beside the right one, and measured.

theory.md §7 lists what cannot be right as printed. :data:`ERRATA` are formulas with an error
that can be measured against the exact kernel for growing n; the right one falls like
:math:`n^{-1/2}`, the printed one stays away. :data:`CLAIMS` have no such curve, and a number each.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deqcli.data.laws import Law, Mixture, Sphere
from deqcli.data.mixture import GaussianMixture
from deqcli.equivalents import Equivalent, equivalent, operator_distance, operator_norm
from deqcli.errors import ConvergenceError
from deqcli.gaussian import moments
from deqcli.kernels.exact import explicit_kernels
from deqcli.matching import match
from deqcli.models import Model, deq_model
from deqcli.monte_carlo import Ensemble, accumulate
from deqcli.runs.seeds import stream
from deqcli.scalars import (
    Coefficients,
    ExplicitScalars,
    ImplicitScalars,
    SphereScalars,
    explicit_scalars,
)
from deqcli.vocabulary import Kernel, activation_title

Array = NDArray[np.float64]
Evidence = dict[str, Any]

#: Of every DEQ that shows a misprint; the smaller one is that of ICLR Figure 1, in the papers'
#: range for all activations.
SIGMA_A2, _SMALL_A2 = 0.2, 0.1
#: The mixture: p/n of the papers' Figure 1. Their means of norm 8 leave a large error of any form
#: at these sizes; the theorems hold for all means, and norm 2 shows the limit.
RATIO, MEAN_NORM, PAPERS_MEAN_NORM = 1.25, 2.0, 8.0
#: HLD's points on the sphere: d/n of its Figure 1.
SPHERE_RATIO = 1.2
#: The simulated networks that measure the tangent kernel itself.
NETWORKS, WIDTH, SAMPLES = 60, 2000, 64

_CLAIM_ACTS, _CLAIM_SIZES = ("relu", "tanh", "gelu", "softplus"), (200, 800)
_SPHERE_SIZE, _TERMS = (200, 240), 60


@dataclass(frozen=True)
class Entry:
    """Something that is wrong: where it is, what is printed, what is right."""

    where: str
    printed: str
    right: str


@dataclass(frozen=True)
class Erratum(Entry):
    """A formula whose error can be measured: its kernel, and the setting that shows it."""

    kernel: Kernel
    sigma_b2: float = 1 - SIGMA_A2


@dataclass(frozen=True)
class FalseClaim(Entry):
    """A statement without a curve.

    Attributes
    ----------
    evidence : callable
        From a seed to the numbers and, under ``evidence``, the sentence that they make.
    """

    evidence: Callable[[int], Evidence]


ERRATA = {
    "icml-theorem-1": Erratum(
        "ICML Theorem 1", "α2 = m2² α4 / 4D", "α2 = m2² α4² / 4D", Kernel.CK, 2.0
    ),
    "iclr-theorem-1": Erratum(
        "ICLR Theorem 1", "diagonal with −τ0⁴ α3", "no such term", Kernel.PREACTIVATION_CK
    ),
    "iclr-theorem-2": Erratum(
        "ICLR Theorem 2", "diagonal with −τ0⁴ β3", "no such term", Kernel.PREACTIVATION_NTK
    ),
    "icml-theorem-3": Erratum(
        "ICML Theorem 3",
        "α̃4 and α̃1 not squared, α̃4 without ½",
        "α̃2 with α̃4², α̃3 with α̃1², α̃4 with ½",
        Kernel.CK,
    ),
    "icml-ntk": Erratum(
        "ICML NTK",
        "K* = G/(1 − Ġ), with κ² from τ* and its β3",
        "Θ = G + Λ (Ġ/σa²)/(1 − Ġ) for the network, K = Λ/(1 − Ġ) before the activation",
        Kernel.NTK,
    ),
    "hld-theorem-3": Erratum(
        "HLD Theorem 3",
        "k'(0) over σa² f' − 1",
        "k'(0) over 1 − σa² f'",
        Kernel.PREACTIVATION_NTK,
    ),
}

#: What the numbers depend on, for a reader of the page.
SETUP = (
    f"Set-up: centred ReLU, σa² = {SIGMA_A2:g}, σb² = {1 - SIGMA_A2:g} "
    f"({ERRATA['icml-theorem-1'].sigma_b2:g} for ICML Theorem 1, where α4 ≈ 1 would hide the "
    f"misprint), two layers of ReLU for ICML Theorem 3; the papers’ two-class mixture with "
    f"p/n = {RATIO:g} and means of norm {MEAN_NORM:g} (theirs have {PAPERS_MEAN_NORM:g}, which "
    f"leaves a large error of any form at these n). HLD Theorem 3: normalised ReLU on the sphere, "
    f"d/n = {SPHERE_RATIO:g}. Errors are operator norms, not relative, averaged over the trials."
)


def icml_theorem_1(s: ImplicitScalars) -> Coefficients:
    r"""Return the scalars of G as ICML Theorem 1 prints them.

    Wrong: :math:`\alpha_2 = m_2^2\alpha_4/4D` has :math:`\alpha_4` in place of its square. The
    two agree at :math:`\alpha_4 = 1`, near which :math:`\sigma_b^2 = 1 - \sigma_a^2` keeps it.
    """
    D = 1 - s.sigma_a2 * s.m1**2
    return replace(s.coefficients(Kernel.CK), c2=s.m2**2 * s.alpha4 / (4 * D))


def iclr_diagonal(right: Coefficients) -> Coefficients:
    r"""Return the scalars of :math:`\Lambda` or K as ICLR Theorems 1 and 2 print them.

    Wrong: the diagonal has a further :math:`-\tau_0^4\alpha_3` (:math:`-\tau_0^4\beta_3`). The term
    would make up for a diagonal of :math:`VC_*V^\top` of that size, which is only O(1/p).
    """
    return replace(right, d=right.d - right.tau0**4 * right.c3)


def icml_theorem_3(s: ExplicitScalars) -> Coefficients:
    r"""Return the scalars of an explicit network as ICML Theorem 3 prints their recursion.

    Wrong: :math:`\tilde\alpha_{l-1,4}` and :math:`\tilde\alpha_{l-1,1}` stand without their squares
    in :math:`\tilde\alpha_{l,2}` and :math:`\tilde\alpha_{l,3}`, and
    :math:`\tilde\alpha_{l,4} = E[(\sigma_l^2)'']\tilde\alpha_{l-1,4}` lacks its factor 1/2.
    """
    alpha1, alpha2, alpha3, alpha4, tau2 = 1.0, 0.0, 0.0, 1.0, s.tau0**2
    for act in s.acts:
        m = moments(act, math.sqrt(tau2))
        alpha2 = m.m1**2 * alpha2 + 0.25 * m.m2**2 * alpha4
        alpha3 = m.m1**2 * alpha3 + 0.5 * m.m2**2 * alpha1
        alpha1 = m.m1**2 * alpha1
        alpha4 = 2 * m.s * alpha4
        tau2 = m.gamma2
    return Coefficients(alpha1, alpha2, alpha3, tau2, s.tau0)


def icml_tangent_kernel(ck: Array, preactivation_ck: Array, sigma_a2: float) -> Array:
    r"""Return ICML's :math:`K^* = G/(1 - \dot G)` of a ReLU DEQ.

    Wrong: the limit of the sum that defines it is :math:`\Lambda/(1 - \dot G)`, and the tangent
    kernel of the network is :math:`\Theta = G + \Lambda(\dot G/\sigma_a^2)/(1 - \dot G)`.

    Notes
    -----
    :math:`\dot G_{ij} = \sigma_a^2(\pi - \theta_{ij})/2\pi`, with the angle :math:`\theta_{ij}` of
    :math:`\Lambda`, the arc-cosine formula: it shares no code with the kernels of this package.
    """
    root = np.sqrt(np.diag(preactivation_ck))
    cosine = np.clip(preactivation_ck / np.outer(root, root), -1, 1)
    np.fill_diagonal(cosine, 1.0)
    derivative = sigma_a2 * (np.pi - np.arccos(cosine)) / (2 * np.pi)
    return np.asarray(ck / (1 - derivative))


def hld_theorem_3(right: SphereScalars) -> SphereScalars:
    r"""Return the scalars of K on the sphere as HLD Theorem 3 prints them.

    Wrong: :math:`k'(0)` has the denominator :math:`\sigma_a^2f' - 1`, the opposite of
    :math:`1 - \sigma_a^2f'`, hence the opposite sign; :math:`\dot\beta = k'(0)` and
    :math:`\dot\mu = k(1) - k(0) - k'(0)` follow it.
    """
    return replace(right, beta=-right.beta, mu=right.mu + 2 * right.beta)


def _model(law: Law, n: int, act: str, sigma_b2: float, seed: int, *names: str | int) -> Model:
    inputs = law.load(partial(stream, seed, "data", "errata", *names), n)
    return deq_model(inputs, act, SIGMA_A2, sigma_b2)


def _mixture(n: int) -> Law:
    return Mixture(round(RATIO * n), None, MEAN_NORM, "papers")


def measure(name: str, seed: int, n: int, trial: int) -> dict[str, Array]:
    """Return the errors of both forms of one erratum on one set of samples."""
    erratum = ERRATA[name]
    sphere = name.startswith("hld")
    law = Sphere(round(SPHERE_RATIO * n), None) if sphere else _mixture(n)
    model = _model(law, n, "nrelu" if sphere else "relu", erratum.sigma_b2, seed, n, trial)
    data, statistics = model.inputs.data, model.inputs.statistics
    if name == "icml-ntk":
        kernel, ck, preactivation = model.kernel(Kernel.NTK, Kernel.CK, Kernel.PREACTIVATION_CK)
        printed = icml_tangent_kernel(ck, preactivation, SIGMA_A2)
        return _errors(kernel, printed, model.equivalent(Kernel.NTK))
    scalars: Coefficients | SphereScalars
    if name == "icml-theorem-3":
        assert statistics is not None
        network = explicit_scalars(["relu", "relu"], statistics.tau0)
        kernel = explicit_kernels(data.X, network.acts).ck
        right = equivalent(data.X, data.y, network, Kernel.CK, statistics)
        scalars = icml_theorem_3(network)
    else:
        (kernel,) = model.kernel(erratum.kernel)
        right = model.equivalent(erratum.kernel)
        if model.scalars is None:
            # On the sphere the core of the equivalent is alpha, its ridge mu.
            alpha = right.core.item()
            known = SphereScalars(alpha, float(right.linear), float(right.ridge), data.X.shape[1])
            scalars = hld_theorem_3(known)
        elif name == "icml-theorem-1":
            scalars = icml_theorem_1(model.scalars)
        else:
            scalars = iclr_diagonal(model.scalars.coefficients(erratum.kernel))
    return _errors(kernel, equivalent(data.X, data.y, scalars, statistics=statistics), right)


def _errors(
    kernel: Array, printed: Array | Equivalent, right: Array | Equivalent
) -> dict[str, Array]:
    return {
        "printed": np.array(operator_distance(kernel, printed)),
        "right": np.array(operator_distance(kernel, right)),
        "norm": np.array(operator_norm(kernel)),
    }


def measure_networks(seed: int) -> dict[str, Array]:
    """Compare both definitions of the tangent kernel with that of simulated networks."""
    name = "empirical NTK"
    model = _model(_mixture(SAMPLES), SAMPLES, "relu", 1 - SIGMA_A2, seed, name)
    ensemble = Ensemble(model.act, SIGMA_A2, 1 - SIGMA_A2, width=WIDTH, kernels=(Kernel.NTK,))
    total = accumulate(model.X, ensemble, range(NETWORKS), partial(stream, seed, "errata", name))
    if total.converged < NETWORKS:
        raise ConvergenceError("a simulated network did not converge; choose another `seed`.")
    right, ck, preactivation = model.kernel(Kernel.NTK, Kernel.CK, Kernel.PREACTIVATION_CK)
    printed = icml_tangent_kernel(ck, preactivation, SIGMA_A2)
    return _errors(total.mean(Kernel.NTK), printed, right)


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
    """Return the scalars of a ReLU DEQ, and its distance from Leaky-ReLU twins of 1 and 2 layers.

    One layer has α2 = ½α3 whatever its activation, so that its distance does not fall with n.
    """
    relative: dict[int, list[float]] = {1: [], 2: []}
    for n in _CLAIM_SIZES:
        model = _model(_mixture(n), n, "relu", 1 - SIGMA_A2, seed, "corollary 2", n)
        assert model.inputs.statistics is not None
        (G,), tau0 = model.kernel(Kernel.CK), model.inputs.statistics.tau0
        for layers, distances in relative.items():
            twin = match("relu", SIGMA_A2, tau0=tau0, family="lrelu", layers=layers)
            kernel = explicit_kernels(model.X, list(twin.acts)).ck
            distances.append(operator_distance(G, kernel) / operator_norm(G))
    scalars = model.scalars
    assert scalars is not None
    one, two = relative.values()
    return {
        "sigma_a2": SIGMA_A2,
        "sizes": list(_CLAIM_SIZES),
        "m2": scalars.m2,
        "alpha2": scalars.alpha2,
        "alpha3": scalars.alpha3,
        "one_layer_relative": one,
        "two_layers_relative": two,
        "evidence": f"ReLU has E φ'' = {scalars.m2:.2g}, and α2 = {scalars.alpha2:.4f} beside "
        f"½α3 = {scalars.alpha3 / 2:.4f}. Distance of G from its nearest Leaky-ReLU twin, relative "
        f"to ‖G‖, at n = {_CLAIM_SIZES[0]} → {_CLAIM_SIZES[1]}: {one[0]:.2g} → {one[1]:.2g} with "
        f"one layer, {_power(two[0])} → {_power(two[1])} with two (σa² = {SIGMA_A2:g}).",
    }


def arc_tanh(seed: int) -> Evidence:
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


def sum_for_k(seed: int) -> Evidence:
    r"""Return how far the printed sum for K ends from the limit that the papers use.

    .. math:: K^{(l)} = \sum_{h=1}^{l+1} G^{(h-1)} \prod_{h'=h}^{l+1} \dot G^{(h')}
              = (K^{(l-1)} + G^{(l)}) \dot G^{(l+1)}

    (HLD equation 4, ICLR equation 5) tends to :math:`K\dot G`; without the last factor it is right.
    On the sphere with HLD's normalised ReLU, all by the arc-cosine formulas of its Lemma 1.
    """
    n, d = _SPHERE_SIZE
    model = _model(Sphere(d, None), n, "nrelu", 1 - SIGMA_A2, seed, "sum for K")
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
        "evidence": f"The printed sum tends to a matrix {off:.0%} off K = Λ/(1 − Ġ) in operator "
        f"norm; without its last factor Ġ at most {_power(max(rest, 1e-12))} (normalised ReLU, "
        f"σa² = {SIGMA_A2:g}, {n} points on the sphere, d = {d}).",
    }


CLAIMS = {
    "iclr-corollary-2": FalseClaim(
        "ICLR Corollary 2",
        "even or piecewise linear φ have E φ'' = 0; (a − b)² = 4α1²",
        "false for ReLU, which needs two layers; (a + b)²/4 = α1",
        corollary_2,
    ),
    "iclr-corollary-1": FalseClaim(
        "ICLR Corollary 1",
        "a quadratic two-layer network always exists",
        "no solution for odd φ, nor for ReLU, swish, gelu, softplus",
        corollary_1,
    ),
    "iclr-figure-1": FalseClaim(
        "ICLR Figure 1", "“Arc-Tanh” activation", "arctan: artanh has no values beyond ±1", arc_tanh
    ),
    "sum-for-k": FalseClaim(
        "ICLR and HLD, the sum for K",
        "K as summed has a factor Ġ in every term",
        "the limit used is K = Λ/(1 − Ġ)",
        sum_for_k,
    ),
}
