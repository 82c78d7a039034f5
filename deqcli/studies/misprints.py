"""The formulas as the papers print them, each beside the right one (theory.md §7)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from deqcli.gaussian import moments
from deqcli.scalars import Coefficients, ExplicitScalars, ImplicitScalars, SphereScalars

Array = NDArray[np.float64]

#: Of every DEQ that shows a misprint.
SIGMA_A2 = 0.2


@dataclass(frozen=True)
class Erratum:
    """One misprint: where it is, what is printed, what is right, and the setting that shows it."""

    where: str
    kernel: str
    printed: str
    right: str
    sigma_b2: float = 1 - SIGMA_A2


def icml_theorem_1(s: ImplicitScalars) -> Coefficients:
    r"""Return the scalars of G as ICML Theorem 1 prints them.

    Wrong: :math:`\alpha_2 = m_2^2\alpha_4/4D` has :math:`\alpha_4` in place of its square. The
    two agree at :math:`\alpha_4 = 1`, near which :math:`\sigma_b^2 = 1 - \sigma_a^2` keeps it.
    """
    D = 1 - s.sigma_a2 * s.m1**2
    return replace(s.coefficients("ck"), c2=s.m2**2 * s.alpha4 / (4 * D))


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
