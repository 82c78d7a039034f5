r"""What a twin must reproduce, and the families of activations that twins are made of.

A twin has four scalars of one kernel, which make the high-dimensional equivalents equal, and as
far as it can the slope of the kernel's diagonal: the rate at which it moves with
:math:`\|x_i\|^2` makes the largest error that is left (theory.md §6).

A layer is a few numbers; its moments are taken at input variance q:

=========  =====================================  ==================================
family     layer                                  numbers
=========  =====================================  ==================================
htanh      :math:`a\,\mathrm{clip}(x, -c, c)`     a, c
lrelu      :math:`px + k|x|` = max(ax, bx)        p = (a + b)/2, k = (a - b)/2
quadratic  :math:`c_1h_1 + c_2h_2` of x/√q        c1, c2
cubic      :math:`c_1h_1 + c_2h_2 + c_3h_3`       c1, c2, c3
=========  =====================================  ==================================

All are meant centred. Everything works on arrays, and (but for htanh) on complex ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import erf, erfc, gammainc

from deqcli.activations import Activation, activation
from deqcli.errors import InputError
from deqcli.gaussian import Moments, grid, moments
from deqcli.scalars import ExplicitScalars, ImplicitScalars, explicit_scalars, implicit_scalars
from deqcli.vocabulary import Kernel

Array = NDArray[np.float64]

#: Every scalar of a twin agrees to this, relative to the scalar.
TOLERANCE = 1e-10


#: How the papers call the four scalars (c1, c2, c3, d) of each kernel.
SCALAR_NAMES = {
    Kernel.CK: ("alpha1", "alpha2", "alpha3", "gamma2"),
    Kernel.PREACTIVATION_CK: ("ell1", "ell2", "ell3", "tau2"),
    Kernel.NTK: ("theta1", "theta2", "theta3", "theta0"),
    Kernel.PREACTIVATION_NTK: ("beta1", "beta2", "beta3", "kappa2"),
}


@dataclass(frozen=True)
class Target:
    r"""The scalars of the kernel to match.

    Attributes
    ----------
    kernel : Kernel
        Of the DEQ.
    c1, c2, c3, d : float
        Of the equivalent :math:`c_1XX^\top + V[\dots c_2, c_3 \dots]V^\top + (d - \tau_0^2c_1)I`.
    slope : float
        Of the kernel's diagonal in :math:`\|x_i\|^2`.
    tau0 : float
        Of the data.
    bend : float
        Relative slope in :math:`\|x_i\|^2` of the factor that :math:`x_i^\top x_j` has when every
        sample counts with its own norm; 0 where there is no such factor.
    """

    kernel: Kernel
    c1: float
    c2: float
    c3: float
    d: float
    slope: float
    tau0: float
    bend: float = 0.0

    @property
    def twin(self) -> Kernel:
        """The explicit network's kernel, ``ck`` or ``ntk``."""
        return self.kernel.explicit

    @property
    def values(self) -> Array:
        """``(c1, c2, c3, d, slope)``."""
        return np.array([self.c1, self.c2, self.c3, self.d, self.slope])

    @property
    def denominators(self) -> Array:
        r"""What errors are relative to: each scalar, or for zeros the scale of the kernel.

        Against :math:`d`, the scalars :math:`c_1, c_2, c_3` count with
        :math:`\tau_0^2, \tau_0^4, \tau_0^4`. One that is below the tolerance in this measure is
        zero as far as anyone can tell (the odd moments of an even function are 1e-17, not 0).
        """
        t2 = self.tau0**2
        scale = self.d / np.array([t2, t2**2, t2**2, 1.0, t2])
        magnitude = np.abs(self.values)
        return np.where(magnitude > TOLERANCE * scale, magnitude, scale)

    @property
    def vanishes(self) -> NDArray[np.bool_]:
        """Which of the five are zero within the tolerance."""
        return np.abs(self.values) <= TOLERANCE * self.denominators

    @property
    def curved(self) -> bool:
        """Whether the even part (c2, c3) is there at all; it is not for odd activations."""
        return not bool(self.vanishes[1] and self.vanishes[2])

    @property
    def excess(self) -> float:
        r"""The ratio :math:`R = d/(c_1\tau_0^2) \ge 1` of H-Tanh matching; 1 if linear."""
        return self.d / (self.c1 * self.tau0**2) if not self.vanishes[0] else np.inf

    def residuals(self, achieved: Array) -> Array:
        """Return the signed relative errors of ``(c1, c2, c3, d, slope)``."""
        return (achieved - self.values) / self.denominators

    def named(self, values: Array) -> dict[str, float]:
        """Return four values by the names that the papers give them for this kernel."""
        return dict(zip(SCALAR_NAMES[self.kernel], map(float, values[:4]), strict=True))


def deq_slope(scalars: ImplicitScalars, act: Activation, kernel: Kernel) -> float:
    r"""Return the rate at which a DEQ kernel's diagonal moves with :math:`\|x_i\|^2`.

    With :math:`q = 1 - \sigma_a^2 r`, the moments at :math:`\tau_*` and
    :math:`d\Lambda_{ii}/d\|x_i\|^2 = \alpha_4 = \sigma_b^2/(1 - \sigma_a^2s)`,

    .. math:: G: s\alpha_4,\quad \Lambda: \alpha_4,\quad
       K: \alpha_4\Big(\frac1q + \frac{\sigma_a^2\tau_*^2w}{q^2}\Big),\quad
       \Theta: \alpha_4\Big(s + \frac rq + \frac{\tau_*^2w}{q^2}\Big),

    the derivatives of :math:`K_{ii} = \Lambda_{ii}/(1 - \sigma_a^2r(\Lambda_{ii}))` and of
    :math:`\Theta_{ii} = G_{ii} + \Lambda_{ii}r/(1 - \sigma_a^2r)`.
    """
    if kernel is Kernel.CK:
        return scalars.s * scalars.alpha4
    if kernel is Kernel.PREACTIVATION_CK:
        return scalars.alpha4
    w, q = moments(act, scalars.tau).w, 1 - scalars.sigma_a2 * scalars.r
    bend = scalars.tau**2 * w / q**2
    if kernel is Kernel.PREACTIVATION_NTK:
        return scalars.alpha4 * (1 / q + scalars.sigma_a2 * bend)
    return scalars.alpha4 * (scalars.s + scalars.r / q + bend)


def _third(act: Activation, tau: float) -> float:
    r"""Return :math:`m_1' = dm_1/d\tau^2 = \frac12E\phi^{(3)}(\tau\xi)`, by parts."""
    nodes, weights = grid(tau, act.kinks)
    return float(weights @ ((nodes**3 - 3 * nodes) * np.asarray(act(tau * nodes)))) / (2 * tau**3)


def deq_bend(scalars: ImplicitScalars, act: Activation, kernel: Kernel) -> float:
    r"""Return how the linear coefficient of a DEQ's kernel moves with one sample's norm.

    With :math:`D = 1 - \sigma_a^2m_1^2` and :math:`m_1' = dm_1/d\tau_*^2` the factor of
    :math:`x_i^\top x_j` is :math:`\sqrt{f_if_j}`, and :math:`d\log f/d\|x\|^2` is

    .. math:: G: \frac{2\alpha_4m_1'}{m_1D},\quad \Lambda: \frac{2\alpha_4\sigma_a^2m_1m_1'}D,\quad
       K: \frac{4\alpha_4\sigma_a^2m_1m_1'}D,\quad
       \Theta: \frac{4\alpha_4\sigma_a^2m_1m_1'}{D(1 - D^2)}

    (theory.md §6).
    """
    m1 = scalars.m1
    if abs(m1) < TOLERANCE:
        return 0.0
    D = 1 - scalars.sigma_a2 * m1**2
    move = scalars.alpha4 * _third(act, scalars.tau) * m1 / D
    if kernel is Kernel.CK:
        return 2 * move / m1**2
    if kernel is Kernel.NTK:
        # 1 - D^2 without its cancellation at sigma_a^2 = 0.
        return 4 * move / (m1**2 * (1 + D))
    return (2 if kernel is Kernel.PREACTIVATION_CK else 4) * scalars.sigma_a2 * move


def network_bend(acts: Sequence[Activation], tau0: float) -> float:
    r"""Return the same of an explicit network, :math:`\sum_l2\tilde\alpha_{l-1,4}m_1'/m_1`.

    It is the same for CK and NTK: a network of L layers has
    :math:`\tilde\beta_1 = (L + 1)\tilde\alpha_1`.
    """
    q, alpha4, total = tau0**2, 1.0, 0.0
    for act in acts:
        m = moments(act, math.sqrt(q))
        if abs(m.m1) < TOLERANCE:
            return 0.0
        total += 2 * alpha4 * _third(act, math.sqrt(q)) / m.m1
        q, alpha4 = m.gamma2, alpha4 * m.s
    return total


def deq_target(
    act: Activation | str,
    sigma_a2: float,
    sigma_b2: float | None = None,
    tau0: float = 1.0,
    kernel: Kernel | str = Kernel.CK,
) -> tuple[Target, ImplicitScalars]:
    """Return what a twin of this DEQ must have, and all scalars of the DEQ.

    Examples
    --------
    >>> target, _ = deq_target("relu", 0.2, tau0=1.05)
    >>> round(target.c2, 10), round(target.slope, 10)
    (0.0326145037, 0.2926239295)
    """
    kernel, act = Kernel.of(kernel, "kernel"), activation(act)
    scalars = implicit_scalars(act, sigma_a2, sigma_b2, tau0)
    c = scalars.coefficients(kernel)
    slope = deq_slope(scalars, act, kernel)
    # What centring leaves of a constant is rounding.
    if c.d <= 1e-28 * scalars.shift**2:
        raise InputError(
            f"activation {act.name!r} is constant, so that its kernel {kernel} is zero; "
            "there is nothing to match."
        )
    bend = deq_bend(scalars, act.shifted(scalars.shift), kernel)
    return Target(kernel, c.c1, c.c2, c.c3, c.d, slope, scalars.tau0, bend), scalars


def network_target(
    acts: Sequence[Activation | str], tau0: float = 1.0, kernel: Kernel | str = Kernel.CK
) -> tuple[Target, tuple[Activation, ...]]:
    r"""Return the same five numbers of an explicit network, and its layers centred.

    An explicit network has no pre-activation kernels: its ``ck`` and ``ntk`` stand beside those.

    Examples
    --------
    >>> target, layers = network_target(["htanh:a=1,c=2"], tau0=1.0, kernel="ntk")
    >>> round(target.c1, 10), target.c2 < 1e-30
    (1.8221394924, True)
    """
    kernel = Kernel.of(kernel, "kernel")
    s = explicit_scalars(acts, tau0)
    c = s.coefficients(kernel.explicit)
    slope, bend = s.slope(kernel.explicit), network_bend(s.acts, s.tau0)
    return Target(kernel, c.c1, c.c2, c.c3, c.d, slope, s.tau0, bend), s.acts


#: How many numbers a layer has: the papers' families in their order, and the cubic one, ours.
SIZES = {"htanh": 2, "lrelu": 2, "quadratic": 2, "cubic": 3}
#: How the papers write them.
TITLES = {
    "htanh": "H-Tanh", "lrelu": "L-ReLU", "quadratic": "quadratic", "cubic": "cubic",
    "spline": "linear-spline", "quintic": "quintic",
}  # fmt: skip

_C = 1 - 2 / math.pi


def hermite_moments(numbers: Sequence[Any], q: Any) -> Moments:
    r"""Return the moments of :math:`\sum_{k=1}^3 c_kh_k(x/\sqrt q)`.

    .. math:: m_1 = c_1/\tau,\quad m_2 = \sqrt2c_2/\tau^2,\quad r = \textstyle\sum kc_k^2/\tau^2,
       \quad s = r + \sqrt6c_1c_3/\tau^2,\quad w = (2c_2^2 + 6c_3^2 + \sqrt6c_1c_3)/\tau^4.

    Examples
    --------
    >>> hermite_moments((1.0, 0.0, 0.0), 1.0).s
    1.0
    """
    c1, c2 = numbers[0], numbers[1]
    c3 = numbers[2] if len(numbers) > 2 else 0 * c1
    energy, cross = c1**2 + 2 * c2**2 + 3 * c3**2, math.sqrt(6) * c1 * c3
    return Moments(
        m1=c1 / q**0.5,
        m2=math.sqrt(2) * c2 / q,
        s=(energy + cross) / q,
        r=energy / q,
        w=(2 * c2**2 + 6 * c3**2 + cross) / q**2,
        gamma2=c1**2 + c2**2 + c3**2,
        mean=0.0,
    )


def lrelu_moments(numbers: Sequence[Any], q: Any) -> Moments:
    r"""Return the moments of :math:`px + k|x| - k\sqrt{2q/\pi}`.

    .. math:: m_1 = p,\quad m_2^2 = 2k^2/\pi q,\quad s = p^2 + (1 - \tfrac2\pi)k^2,\quad
       r = p^2 + k^2,\quad w = 0,\quad E\sigma^2 = sq.

    Examples
    --------
    >>> lrelu_moments((0.5, 0.5), 2.0).r          # ReLU
    0.5
    """
    p, k = numbers
    s = p**2 + _C * k**2
    return Moments(p, k * (2 / math.pi / q) ** 0.5, s, p**2 + k**2, 0 * p, s * q, 0.0)


def htanh_moments(numbers: Sequence[Any], q: Any) -> Moments:
    r"""Return the moments of :math:`a\,\mathrm{clip}(x, -c, c)`.

    With :math:`P = \mathrm{erf}(c/\sqrt{2q})` and :math:`n = e^{-c^2/2q}/\sqrt{2\pi q}`,

    .. math:: m_1 = aP,\quad r = a^2P,\quad s = a^2(P - 2cn),\quad w = -a^2cn/q,\quad
       E\sigma^2 = qs + a^2c^2(1 - P).

    Examples
    --------
    >>> float(htanh_moments((2.0, 50.0), 1.0).gamma2)
    4.0
    """
    a, c = numbers
    h = c / np.sqrt(2 * q)
    P, n = erf(h), np.exp(-(h**2)) / np.sqrt(2 * math.pi * q)
    # P - 2cn, without its cancellation at small c.
    inner = gammainc(1.5, h**2)
    gamma2 = a**2 * (q * inner + c**2 * erfc(h))
    return Moments(a * P, 0 * P, a**2 * inner, a**2 * P, -(a**2) * c * n / q, gamma2, 0.0)


MOMENTS: dict[str, Callable[[Sequence[Any], Any], Moments]] = {
    "htanh": htanh_moments,
    "lrelu": lrelu_moments,
    "quadratic": hermite_moments,
    "cubic": hermite_moments,
}


def network_scalars(
    family: str, layers: Sequence[Sequence[Any]], tau0: float, twin: Kernel
) -> list[Any]:
    r"""Return ``[c1, c2, c3, d, slope]`` of an explicit network by the recursions of theory.md §5.

    The last is the slope of the diagonal (:mod:`deqcli.matching.targets`).

    Parameters
    ----------
    family : str
    layers : sequence of sequences
        The numbers of each layer, scalars or arrays of one shape.
    tau0 : float
    twin : Kernel
        ``ck`` or ``ntk``.

    Examples
    --------
    >>> network_scalars("lrelu", [(1.0, 0.0), (1.0, 0.0)], 1.0, Kernel.NTK)[0]  # linear
    3.0
    """
    scalars = ExplicitScalars(tau0, tau0**2, tau0**2)
    for numbers in layers:
        scalars = scalars.next_layer(MOMENTS[family](numbers, scalars.tau2))
    c = scalars.coefficients(twin)
    return [c.c1, c.c2, c.c3, c.d, scalars.slope(twin)]


def network(family: str, layers: Sequence[Sequence[float]], tau0: float) -> tuple[Activation, ...]:
    """Return the registry's activations, each for the standard deviation that its layer meets.

    Examples
    --------
    >>> [act.name for act in network("lrelu", [(0.5, 0.5)], 1.0)]
    ['maxlin:a=1.0,b=0.0']
    """
    acts, q = [], tau0**2
    for numbers in layers:
        x, tau = [float(v) for v in numbers], math.sqrt(q)
        if family == "htanh":
            name = f"htanh:a={x[0]!r},c={x[1]!r}"
        elif family == "lrelu":
            name = f"maxlin:a={x[0] + x[1]!r},b={x[0] - x[1]!r}"
        elif family == "quadratic":
            a2 = x[1] / (math.sqrt(2) * tau**2)
            name = f"quadratic:a2={a2!r},a1={x[0] / tau!r},a0={-a2 * tau**2!r}"
        else:
            name = f"hermite:scale={tau!r},c1={x[0]!r},c2={x[1]!r},c3={x[2]!r}"
        acts.append(activation(name))
        q = float(MOMENTS[family](numbers, q).gamma2)
    return tuple(acts)
