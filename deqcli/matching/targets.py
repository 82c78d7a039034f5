r"""What a twin must reproduce: four scalars of one kernel, and the slope of its diagonal.

The four make the high-dimensional equivalents of two kernels equal. The slope, the rate at which
the diagonal moves with :math:`\|x_i\|^2`, removes the largest error that is left (theory.md §6).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from deqcli.activations import Activation, activation
from deqcli.gaussian import moments
from deqcli.scalars import ImplicitScalars, explicit_scalars, implicit_scalars
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
    """

    kernel: Kernel
    c1: float
    c2: float
    c3: float
    d: float
    slope: float
    tau0: float

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
    return Target(kernel, c.c1, c.c2, c.c3, c.d, slope, scalars.tau0), scalars


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
    return Target(kernel, c.c1, c.c2, c.c3, c.d, s.slope(kernel.explicit), s.tau0), s.acts
