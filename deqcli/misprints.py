r"""What the papers misprint: each formula as printed beside the right one, and measured.

theory.md §7 lists what cannot be right as printed. :data:`ERRATA` are formulas with an error
that can be measured against the exact kernel for growing n; the right one falls like
:math:`n^{-1/2}`, the printed one stays away. What has no such curve is in
:mod:`deqcli.false_claims`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache, partial

import numpy as np
from numpy.typing import NDArray

from deqcli.data.laws import Law, Mixture, Sphere
from deqcli.equivalents import Equivalent, equivalent, operator_distance, operator_norm
from deqcli.errors import ConvergenceError
from deqcli.gaussian import moments
from deqcli.kernels.exact import explicit_kernels
from deqcli.models import Model, deq_model
from deqcli.monte_carlo import Ensemble, Workspace
from deqcli.runs.seeds import stream
from deqcli.scalars import (
    Coefficients,
    ExplicitScalars,
    ImplicitScalars,
    SphereScalars,
    explicit_scalars,
)
from deqcli.vocabulary import Kernel

Array = NDArray[np.float64]

#: Of every DEQ that shows a misprint.
SIGMA_A2 = 0.2
#: The mixture: p/n of the papers' Figure 1. Their means of norm 8 leave a large error of any form
#: at these sizes; the theorems hold for all means, and norm 2 shows the limit.
RATIO, MEAN_NORM, PAPERS_MEAN_NORM = 1.25, 2.0, 8.0
#: HLD's points on the sphere: d/n of its Figure 1.
SPHERE_RATIO = 1.2
#: The simulated networks that measure the tangent kernel itself.
NETWORKS, WIDTH, SAMPLES = 60, 2000, 64


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
        "κ² = τ*²/(1 − σa² r), β3 with β1 (σa² m2² + σb²) α1",
        "κ² = γ²/(1 − σa² r), β3 with β1 σa² m2² (σa² α1 + σb²)",
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

    A definition: the tangent kernel of the network with B frozen, whose entries are
    :math:`G_{ij} + \sigma_a^2G_{ij}\,s_i^\top s_j`. With B trained too it is
    :math:`\Theta = G + \Lambda(\dot G/\sigma_a^2)/(1 - \dot G)`.

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


def icml_ntk(s: ImplicitScalars, printed: bool) -> Coefficients:
    r"""Return the scalars of ICML's :math:`G/(1 - \dot G)`, as printed or corrected.

    .. math:: \kappa^2 = \frac{\gamma^2}{1 - \sigma_a^2r}, \qquad
       \beta_3 = \frac{\alpha_3 + \beta_1\sigma_a^2m_2^2(\sigma_a^2\alpha_1 + \sigma_b^2)}D

    follow from :math:`\dot G_{ij} \approx \sigma_a^2(m_1^2 + m_2^2\Lambda_{ij})` (theory.md §7).
    Wrong: :math:`\kappa^2` is printed with :math:`\tau_*^2`, :math:`\beta_3` with
    :math:`\beta_1(\sigma_a^2m_2^2 + \sigma_b^2)\alpha_1`. Both have :math:`\alpha_2` right here.
    """
    D, inner = 1 - s.sigma_a2 * s.m1**2, s.sigma_a2 * s.alpha1 + s.sigma_b2
    beta1, curved = s.alpha1 / D, s.sigma_a2 * s.m2**2
    wrong = beta1 * (curved + s.sigma_b2) * s.alpha1
    beta3 = (s.alpha3 + (wrong if printed else beta1 * curved * inner)) / D
    variance = s.tau**2 if printed else s.gamma2
    return Coefficients(beta1, s.alpha2 / D, beta3, variance / (1 - s.sigma_a2 * s.r), s.tau0)


def hld_theorem_3(right: SphereScalars) -> SphereScalars:
    r"""Return the scalars of K on the sphere as HLD Theorem 3 prints them.

    Wrong: :math:`k'(0)` has the denominator :math:`\sigma_a^2f' - 1`, the opposite of
    :math:`1 - \sigma_a^2f'`, hence the opposite sign; :math:`\dot\beta = k'(0)` and
    :math:`\dot\mu = k(1) - k(0) - k'(0)` follow it.
    """
    return replace(right, beta=-right.beta, mu=right.mu + 2 * right.beta)


def model_of(law: Law, n: int, act: str, sigma_b2: float, seed: int, *names: str | int) -> Model:
    """Return a DEQ on samples of its own, which ``names`` tell from others of the seed."""
    inputs = law.load(partial(stream, seed, "data", "errata", *names), n)
    return deq_model(inputs, act, SIGMA_A2, sigma_b2)


def mixture(n: int) -> Law:
    """Return the papers' two classes with the means of norm 2 that show a limit at small n."""
    return Mixture(round(RATIO * n), None, MEAN_NORM, "papers")


def measure(name: str, seed: int, n: int, trial: int) -> dict[str, Array]:
    """Return the errors of both forms of one erratum on one set of samples."""
    erratum = ERRATA[name]
    sphere = name.startswith("hld")
    law = Sphere(round(SPHERE_RATIO * n), None) if sphere else mixture(n)
    model = model_of(law, n, "nrelu" if sphere else "relu", erratum.sigma_b2, seed, n, trial)
    data, statistics = model.inputs.data, model.inputs.statistics
    if name == "icml-ntk":
        assert model.scalars is not None
        ck, preactivation = model.kernel(Kernel.CK, Kernel.PREACTIVATION_CK)
        kernel = icml_tangent_kernel(ck, preactivation, SIGMA_A2)
        forms = [
            equivalent(data.X, data.y, icml_ntk(model.scalars, form), statistics=statistics)
            for form in (True, False)
        ]
        return _errors(kernel, *forms)
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
    r"""Compare both tangent kernels with those of simulated networks.

    ``right`` and ``printed`` are the distances of :math:`\Theta` and of ICML's
    :math:`G/(1 - \dot G)` from the mean of the gradients' products in all weights, ``frozen`` that
    of the latter from the mean without the gradient in B.
    """
    return _networks(seed, NETWORKS, WIDTH)


@cache
def _networks(seed: int, networks: int, width: int) -> dict[str, Array]:
    """Return what :func:`measure_networks` does; the trial runs of an estimate ask repeatedly."""
    name = "empirical NTK"
    model = model_of(mixture(SAMPLES), SAMPLES, "relu", 1 - SIGMA_A2, seed, name)
    kernels = (Kernel.CK, Kernel.NTK)
    ensemble = Ensemble(model.act, SIGMA_A2, 1 - SIGMA_A2, width=width, kernels=kernels)
    workspace = Workspace(model.X, ensemble)
    trained, frozen = np.zeros((2, SAMPLES, SAMPLES))
    for index in range(networks):
        one = workspace.realize(stream(seed, "errata", name, index))
        if not one.converged:
            raise ConvergenceError("a simulated network did not converge; choose another `seed`.")
        ck, ntk = (one.kernels[kernel] for kernel in kernels)
        trained += ntk / networks
        adjoints = workspace.adjoint.T @ workspace.adjoint / width
        frozen += (ck + SIGMA_A2 * ck * adjoints) / networks
    right, ck, preactivation = model.kernel(Kernel.NTK, Kernel.CK, Kernel.PREACTIVATION_CK)
    icml = icml_tangent_kernel(ck, preactivation, SIGMA_A2)
    without = {
        "frozen": np.array(operator_distance(frozen, icml)),
        "frozen_norm": np.array(operator_norm(frozen)),
    }
    return _errors(trained, icml, right) | without
