r"""One Leaky-ReLU layer by the equations of ICLR Corollary 2, corrected or as they are printed.

The layer :math:`\sigma(x) = \max(ax, bx) - (a - b)\tau_0/\sqrt{2\pi}` is to have two of the four
scalars of a DEQ's CK, :math:`c_1` and the diagonal d. As :math:`m_1 = (a + b)/2`,

.. math:: (a + b)^2 = 4c_1, \qquad
   \frac{(\pi - 1)(a^2 + b^2) + 2ab}{2\pi}\tau_0^2 - \frac{(a + b)^2}4\tau_0^2 = d - c_1\tau_0^2 .

ICLR prints :math:`(a - b)^2 = 4c_1^2` and :math:`+ab` (theory.md §7); its CK is :math:`\Lambda`.
The other two scalars are those that one layer has, :math:`c_2 = \frac12c_3` (theory.md §6).
"""

from __future__ import annotations

import math

from deqcli.activations import Activation, activation
from deqcli.errors import InputError
from deqcli.matching.result import Match
from deqcli.scalars import Coefficients, explicit_scalars, implicit_scalars
from deqcli.vocabulary import Kernel

_NAMES = ("c1", "c2", "c3", "d")


def corollary_2(
    act: Activation | str,
    sigma_a2: float,
    sigma_b2: float | None = None,
    tau0: float = 1.0,
    *,
    kernel: Kernel | str = Kernel.PREACTIVATION_CK,
    printed: bool = False,
) -> Match:
    r"""Return the one-layer network of ICLR Corollary 2 beside its DEQ.

    Parameters
    ----------
    act, sigma_a2, sigma_b2, tau0
        The DEQ and its data, as for :func:`deqcli.matching.match`.
    kernel : Kernel or str
        ``preactivation-ck``, which is the paper's, or ``ck``.
    printed : bool
        Solve the equations as they are printed.

    Returns
    -------
    Match
        Not feasible unless all four scalars agree.

    Examples
    --------
    >>> twin = corollary_2("relu", 0.2)
    >>> {name: round(value, 3) for name, value in twin.residuals.items()}
    {'c1': 0.0, 'c2': 0.0, 'c3': 0.039, 'd': 0.0}
    >>> layer = corollary_2("relu", 0.2, printed=True).acts[0]
    >>> {name: round(value, 3) for name, value in layer.parameters.items()}
    {'a': 2.334, 'b': 0.65}
    """
    kernel = Kernel.of(kernel, "kernel")
    if kernel.explicit is not Kernel.CK:
        raise InputError(
            f"`kernel` is {kernel}; the equations of Corollary 2 are for ck and preactivation-ck."
        )
    deq = implicit_scalars(act, sigma_a2=sigma_a2, sigma_b2=sigma_b2, tau0=tau0)
    target = deq.coefficients(kernel)
    mean, half = _printed(target) if printed else _corrected(target)
    name = f"maxlin:a={mean + half!r},b={mean - half!r}"
    scalars = explicit_scalars([activation(name)], tau0)
    achieved = scalars.coefficients(Kernel.CK)
    residuals = {key: _residual(target, achieved, key) for key in _NAMES}
    how = "as it prints them" if printed else "corrected"
    return Match(
        feasible=max(map(abs, residuals.values())) <= 1e-10,
        kernel=kernel,
        family="lrelu",
        layers=1,
        acts=scalars.acts,
        target={key: float(getattr(target, key)) for key in _NAMES},
        achieved={key: float(getattr(achieved, key)) for key in _NAMES},
        residuals=residuals,
        reason=f"One L-ReLU layer by the equations of ICLR Corollary 2, {how}.",
        tau0=tau0,
        deq=deq,
    )


def _corrected(c: Coefficients) -> tuple[float, float]:
    r"""Return p = (a + b)/2 and k = (a - b)/2; the variance is :math:`p^2 + (1 - 2/\pi)k^2`."""
    curved = max(c.d / c.tau0**2 - c.c1, 0.0)
    return math.sqrt(c.c1), math.sqrt(curved / (1 - 2 / math.pi))


def _printed(c: Coefficients) -> tuple[float, float]:
    r"""Return the same as printed.

    :math:`k = c_1` and :math:`k^2(1 - 3/2\pi) - p^2/2\pi = d/\tau_0^2 - c_1`.
    """
    square = 2 * math.pi * (c.c1**2 * (1 - 1.5 / math.pi) - (c.d / c.tau0**2 - c.c1))
    if square < 0:
        raise InputError(
            "`family` is corollary-2-printed, whose equations have no solution for this DEQ and "
            "`kernel`; give corollary-2."
        )
    return math.sqrt(square), c.c1


def _residual(target: Coefficients, achieved: Coefficients, key: str) -> float:
    """Return a scalar's relative error, relative to the diagonal where it is to be zero."""
    value = float(getattr(target, key))
    return (float(getattr(achieved, key)) - value) / (value or target.d)
