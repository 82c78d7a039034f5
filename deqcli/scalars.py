r"""The few scalars through which a network's kernels see its activations.

Every equivalent matrix is
:math:`c_1 XX^\top + V[[c_2 tt^\top + c_3 T, c_2 t],[c_2 t^\top, c_2]]V^\top + (d - \tau_0^2c_1)I`
(:mod:`deqcli.equivalents`); here are :math:`c_1, c_2, c_3, d` for implicit and explicit networks.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.polynomial.chebyshev import Chebyshev
from numpy.typing import NDArray

from deqcli.activations import Activation, ActivationLike, activation, activations
from deqcli.checks import POSITIVE, SCALE, number
from deqcli.display import Displayed
from deqcli.errors import InputError, silence_range_warning
from deqcli.gaussian import Moments, centring, check_existence, moments
from deqcli.kernels.pairs import ExplicitPairs, ImplicitPairs
from deqcli.vocabulary import Kernel

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Coefficients:
    """The four scalars of one equivalent matrix, and the data's ``tau0``."""

    c1: float
    c2: float
    c3: float
    d: float
    tau0: float


@dataclass(frozen=True, repr=False)
class ImplicitScalars(Displayed):
    r"""All scalars of a DEQ with its activation centred (theory.md §3, §4).

    Attributes
    ----------
    activation : str
        Name of the activation.
    sigma_a2, sigma_b2, tau0 : float
        The setting.
    tau, shift : float
        :math:`\tau_*` and what centring subtracted.
    m1, m2, s, r, gamma2 : float
        Moments at :math:`\tau_*`.
    alpha1, alpha2, alpha3, alpha4 : float
        Of the conjugate kernel G; ``alpha4`` is the norms' response.
    ell1, ell2, ell3 : float
        Of the pre-activation kernel :math:`\Lambda`; HLD and ICLR print these as alpha.
    beta1, beta2, beta3, kappa2 : float
        Of the pre-activation tangent kernel K.
    act : Activation, optional
        The centred activation itself.
    """

    activation: str
    sigma_a2: float
    sigma_b2: float
    tau0: float
    tau: float
    shift: float
    m1: float
    m2: float
    s: float
    r: float
    gamma2: float
    alpha1: float
    alpha2: float
    alpha3: float
    alpha4: float
    ell1: float
    ell2: float
    ell3: float
    beta1: float
    beta2: float
    beta3: float
    kappa2: float
    act: Activation | None = dataclasses.field(default=None, repr=False, compare=False)

    def as_record(self) -> dict[str, str | float]:
        """Return everything but the function, fit for JSON."""
        return {name: value for name, value in vars(self).items() if name != "act"}

    def _facts(self) -> dict[str, object]:
        groups = {
            "moments": "tau shift m1 m2 s r gamma2",
            "of G": "alpha1 alpha2 alpha3 alpha4",
            "of Λ": "ell1 ell2 ell3",
            "of K": "beta1 beta2 beta3 kappa2",
        }
        shown = {
            title: ", ".join(f"{name} {getattr(self, name):.4g}" for name in names.split())
            for title, names in groups.items()
        }
        variances = f"sigma_a2 {self.sigma_a2:g}, sigma_b2 {self.sigma_b2:g}, tau0 {self.tau0:g}"
        return {"activation": self.activation, "network": variances, **shown}

    def coefficients(self, kernel: Kernel | str) -> Coefficients:
        r"""Return :math:`(c_1, c_2, c_3, d)` of one kernel.

        For the network's NTK, :math:`\Theta = (K - \sigma_b^2 XX^\top)/\sigma_a^2` with the
        division carried out by hand, so that :math:`\sigma_a = 0` is legal.
        """
        D = 1 - self.sigma_a2 * self.m1**2
        theta = (
            self.sigma_b2 * self.m1**2 * (1 + D) / D**2,
            self.alpha2 / D,
            (self.alpha3 + (self.m2 * self.ell1) ** 2 / D) / D,
            (self.gamma2 + self.r * self.sigma_b2 * self.tau0**2) / (1 - self.sigma_a2 * self.r),
        )
        scalars = {
            Kernel.CK: (self.alpha1, self.alpha2, self.alpha3, self.gamma2),
            Kernel.PREACTIVATION_CK: (self.ell1, self.ell2, self.ell3, self.tau**2),
            Kernel.NTK: theta,
            Kernel.PREACTIVATION_NTK: (self.beta1, self.beta2, self.beta3, self.kappa2),
        }
        return Coefficients(*scalars[Kernel.of(kernel, "kernel")], self.tau0)


def implicit_scalars(
    act: ActivationLike, sigma_a2: float, sigma_b2: float | None = None, tau0: float = 1.0
) -> ImplicitScalars:
    r"""Return every scalar of a DEQ; the activation is centred jointly with :math:`\tau_*`.

    With :math:`D = 1 - \sigma_a^2 m_1^2`,

    .. math:: \alpha_1 = \sigma_b^2 m_1^2/D,\quad \alpha_2 = m_2^2\alpha_4^2/4D,\quad
       \alpha_3 = m_2^2\ell_1^2/2D,\quad \alpha_4 = \sigma_b^2/(1 - \sigma_a^2 s),

    .. math:: \ell_1 = \sigma_b^2/D,\quad \ell_{2,3} = \sigma_a^2\alpha_{2,3},\quad
       \beta_{1,2} = \ell_{1,2}/D,\quad \beta_3 = (\ell_3 + \sigma_a^2 m_2^2\ell_1^2/D)/D,\quad
       \kappa^2 = \tau_*^2/(1 - \sigma_a^2 r)

    (theory.md §4; ICML Theorem 1 prints :math:`\alpha_4` where :math:`\alpha_4^2` is right, and
    its :math:`\beta_3` and K are not those of the tangent kernel).

    Parameters
    ----------
    act : Activation or str
        Any earlier shift is replaced by the centring one.
    sigma_a2, sigma_b2 : float
        ``sigma_b2`` is ``1 - sigma_a2`` by default.
    tau0 : float
        Root of the mean variance of the data.

    Examples
    --------
    >>> s = implicit_scalars("relu", sigma_a2=0.2, sigma_b2=0.8, tau0=1.05)
    >>> round(s.tau, 10), round(s.alpha2, 10), round(s.kappa2, 10)
    (0.9728944323, 0.0326145037, 1.0516928627)
    """
    act = activation(act)
    centre = centring(act, sigma_a2, sigma_b2, tau0)
    with silence_range_warning():
        sigma_a2, sigma_b2 = check_existence(act, sigma_a2, sigma_b2)
    tau0 = float(tau0)
    centred = act.shifted(centre.shift)
    m = moments(centred, centre.tau)
    D = 1 - sigma_a2 * m.m1**2
    ell1 = sigma_b2 / D
    alpha1 = ell1 * m.m1**2
    alpha4 = sigma_b2 / (1 - sigma_a2 * m.s)
    alpha2 = (m.m2 * alpha4) ** 2 / (4 * D)
    alpha3 = (m.m2 * ell1) ** 2 / (2 * D)
    ell2, ell3 = sigma_a2 * alpha2, sigma_a2 * alpha3
    return ImplicitScalars(
        act.name,
        *(sigma_a2, sigma_b2, tau0, centre.tau, centre.shift),
        *(m.m1, m.m2, m.s, m.r, m.gamma2),
        alpha1=alpha1,
        alpha2=alpha2,
        alpha3=alpha3,
        alpha4=alpha4,
        ell1=ell1,
        ell2=ell2,
        ell3=ell3,
        beta1=ell1 / D,
        beta2=ell2 / D,
        beta3=(ell3 + sigma_a2 * (m.m2 * ell1) ** 2 / D) / D,
        kappa2=centre.tau**2 / (1 - sigma_a2 * m.r),
        act=centred,
    )


@dataclass(frozen=True, repr=False)
class ExplicitScalars(Displayed):
    r"""Scalars of the last layer of an explicit network (theory.md §5); by default of its input.

    Attributes
    ----------
    tau0 : float
        Of the data.
    tau2, kappa2 : float
        :math:`\tilde\tau_L^2` and :math:`\tilde\kappa_L^2`, the diagonals of CK and NTK.
    alpha1, alpha2, alpha3, alpha4 : float
        :math:`\tilde\alpha_{L,1..4}` of the CK.
    beta1, beta2, beta3 : float
        Of the NTK.
    ntk_slope : float
        Rate at which the NTK's diagonal moves with :math:`\|x_i\|^2`.
    acts : tuple of Activation
        The layers, each centred where it stands.
    """

    tau0: float
    tau2: float
    kappa2: float
    alpha1: float = 1.0
    alpha2: float = 0.0
    alpha3: float = 0.0
    alpha4: float = 1.0
    beta1: float = 1.0
    beta2: float = 0.0
    beta3: float = 0.0
    ntk_slope: float = 1.0
    acts: tuple[Activation, ...] = dataclasses.field(default=(), repr=False)

    def coefficients(self, kernel: Kernel | str) -> Coefficients:
        """Return the four scalars of ``ck`` or ``ntk``."""
        if Kernel.of_explicit(kernel, "kernel") is Kernel.CK:
            return Coefficients(self.alpha1, self.alpha2, self.alpha3, self.tau2, self.tau0)
        return Coefficients(self.beta1, self.beta2, self.beta3, self.kappa2, self.tau0)

    def slope(self, kernel: Kernel) -> float:
        r"""Return the rate at which the kernel's diagonal moves with :math:`\|x_i\|^2`."""
        return self.alpha4 if kernel is Kernel.CK else self.ntk_slope

    def next_layer(self, m: Moments) -> ExplicitScalars:
        r"""Return the scalars after one more centred layer, from its moments at ``tau2``.

        .. math:: \tilde\alpha_1 \leftarrow m_1^2\tilde\alpha_1,\quad
           \tilde\alpha_2 \leftarrow m_1^2\tilde\alpha_2 + \tfrac14 m_2^2\tilde\alpha_4^2,\quad
           \tilde\alpha_3 \leftarrow m_1^2\tilde\alpha_3 + \tfrac12 m_2^2\tilde\alpha_1^2,\quad
           \tilde\alpha_4 \leftarrow s\tilde\alpha_4,

        .. math:: \tilde\beta_{1,2} \leftarrow \tilde\alpha_{1,2} + m_1^2\tilde\beta_{1,2},\quad
           \tilde\beta_3 \leftarrow \tilde\alpha_3 + m_1^2\tilde\beta_3
           + m_2^2(\tilde\beta_1\tilde\alpha_1)_{l-1},\quad
           \tilde\kappa^2 \leftarrow \tilde\tau^2 + r\tilde\kappa^2

        (theory.md §5; ICML Theorem 3 prints :math:`\tilde\alpha_4` and :math:`\tilde\alpha_1`
        without their squares). The slope of the NTK's diagonal,
        :math:`e \leftarrow \tilde\alpha_4 + r e + (\tilde\kappa^2\tilde\alpha_4)_{l-1}w`, is the
        derivative of :math:`\Theta^{(l)}_{ii} = \Sigma^{(l)}_{ii} + \Theta^{(l-1)}_{ii}r_l`.
        """
        try:
            first, second = m.m1**2, m.m2**2
        except OverflowError:
            raise InputError(
                f"`acts` has a layer that sees inputs of the size {math.sqrt(self.tau2):.3g}, too "
                "small for its kinks; give a larger `tau0` or a layer before it that shrinks less."
            ) from None
        alpha1, alpha4 = first * self.alpha1, m.s * self.alpha4
        alpha2 = first * self.alpha2 + 0.25 * second * self.alpha4**2
        alpha3 = first * self.alpha3 + 0.5 * second * self.alpha1**2
        return dataclasses.replace(
            self,
            tau2=m.gamma2,
            kappa2=m.gamma2 + m.r * self.kappa2,
            alpha1=alpha1,
            alpha2=alpha2,
            alpha3=alpha3,
            alpha4=alpha4,
            beta1=alpha1 + first * self.beta1,
            beta2=alpha2 + first * self.beta2,
            beta3=alpha3 + (first * self.beta3 + second * self.beta1 * self.alpha1),
            ntk_slope=alpha4 + m.r * self.ntk_slope + self.kappa2 * m.w * self.alpha4,
        )


def explicit_scalars(acts: Sequence[ActivationLike], tau0: float = 1.0) -> ExplicitScalars:
    r"""Return the scalars of an explicit network whose layers are centred one after the other.

    The recursion (:meth:`ExplicitScalars.next_layer`) holds for centred layers only: each
    activation is centred at its input's :math:`\tilde\tau_{l-1}` here, which changes nothing if it
    already was, and the layers used are returned in ``acts``.

    Examples
    --------
    >>> q = explicit_scalars(["tanh", "relu"], tau0=1.0)
    >>> round(q.alpha1, 8), round(q.tau2, 8)
    (0.09171979, 0.13439333)
    """
    tau0 = number(tau0, "tau0", float, SCALE)
    scalars, layers = ExplicitScalars(tau0, tau0**2, tau0**2), []
    for act in activations(acts, "acts"):
        layers.append(_centred(act, scalars))
        scalars = scalars.next_layer(moments(layers[-1], math.sqrt(scalars.tau2)))
    return dataclasses.replace(scalars, acts=tuple(layers))


def layer_scalars(
    acts: Sequence[ActivationLike], tau0: float = 1.0
) -> list[tuple[ExplicitScalars, Activation, Moments]]:
    """Return the scalars after each layer of an explicit network, the layer, and its moments.

    Examples
    --------
    >>> [(round(q.alpha1, 4), round(m.m1, 4)) for q, _, m in layer_scalars(["tanh", "relu"])]
    [(0.3669, 0.6057), (0.0917, 0.5)]
    """
    scalars, steps = ExplicitScalars(tau0, tau0**2, tau0**2), []
    for act in activations(acts, "acts"):
        layer = _centred(act, scalars)
        found = moments(layer, math.sqrt(scalars.tau2))
        scalars = scalars.next_layer(found)
        steps.append((scalars, layer, found))
    return steps


def _centred(act: Activation, below: ExplicitScalars) -> Activation:
    """Return an activation centred at what it sees."""
    base = act.shifted(0.0)
    return base.shifted(moments(base, math.sqrt(below.tau2)).mean)


@dataclass(frozen=True)
class SphereScalars:
    r"""Scalars of :math:`\alpha 11^\top + \beta XX^\top + \mu I` for unit-norm inputs (HLD)."""

    alpha: float
    beta: float
    mu: float
    dimension: int


def sphere_scalars(
    network: ActivationLike | Sequence[ActivationLike],
    dimension: int,
    *,
    sigma_a2: float | None = None,
    sigma_b2: float | None = None,
    kernel: Kernel | str = Kernel.PREACTIVATION_CK,
) -> SphereScalars:
    r"""Return the scalars of a kernel on the unit sphere, any activation, not centred.

    With :math:`g(t)` the kernel of two unit inputs of inner product t,

    .. math:: \alpha = g(0) + g''(0)/2d,\quad \beta = g'(0),\quad \mu = g(1) - g(0) - g'(0)

    (HLD Theorems 1-4; theory.md §4). The derivatives are those of a Chebyshev interpolant of the
    exact kernel, so that one code serves implicit and explicit networks, CK and NTK (HLD Theorem 3
    prints :math:`k'(0)` with the wrong sign).

    Parameters
    ----------
    network : activation, or sequence of activations
        A DEQ's activation (with ``sigma_a2``), or an explicit network's layers (without).
    dimension : int
        The dimension d of the sphere's space.
    kernel : Kernel or str
        One of the four for a DEQ; ``ck`` or ``ntk`` for an explicit network.

    Examples
    --------
    >>> s = sphere_scalars("nrelu", 1200, sigma_a2=0.2)      # HLD's setting, their CK
    >>> round(s.alpha, 6), round(s.beta, 6), round(s.mu, 6)
    (0.070937, 0.893374, 0.035713)
    """
    dimension = number(dimension, "dimension", int, POSITIVE)
    layers = activations(network, "network")
    pairs: ImplicitPairs | ExplicitPairs
    scale, gram = 1.0, 0.0
    if sigma_a2 is None:
        pairs = ExplicitPairs(layers)
        member = Kernel.of_explicit(kernel, "kernel")
    elif not isinstance(network, str | Activation):
        raise InputError(
            "`network` has several layers, but a DEQ has one activation; leave out `sigma_a2`."
        )
    else:
        variances = check_existence(layers[0], sigma_a2, sigma_b2, papers_range=False)
        pairs = ImplicitPairs(layers[0], *variances)
        member = Kernel.of(kernel, "kernel")
        if member.before_activation:
            scale, gram = pairs.sigma_a2, pairs.sigma_b2

    def g(t: Array) -> Array:
        one = np.ones_like(t)
        return scale * pairs(one, one, np.arccos(t)).of(member) + gram * t

    # g is smooth but at t = +-1; on an interval half as long 40 terms are exact to rounding.
    series = Chebyshev.interpolate(g, 40, domain=[-0.5, 0.5])
    value, slope, curvature = (float(series.deriv(k)(0.0)) for k in range(3))
    end = float(g(np.ones(1))[0])
    return SphereScalars(value + curvature / (2 * dimension), slope, end - value - slope, dimension)
