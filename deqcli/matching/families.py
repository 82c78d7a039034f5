r"""The families of activations that twins are made of, their moments in closed form.

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
from typing import Any

import numpy as np
from scipy.special import erf, erfc, gammainc

from deqcli.activations import Activation, activation
from deqcli.gaussian import Moments
from deqcli.scalars import ExplicitScalars
from deqcli.vocabulary import Kernel

#: The papers' families in the papers' order, and the cubic one, which is ours.
FAMILIES = ("htanh", "lrelu", "quadratic", "cubic")
#: How many numbers a layer has.
SIZES = {"htanh": 2, "lrelu": 2, "quadratic": 2, "cubic": 3}
#: How the papers write them.
TITLES = {"htanh": "H-Tanh", "lrelu": "L-ReLU", "quadratic": "quadratic", "cubic": "cubic"}

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


def layer_activation(family: str, numbers: Sequence[float], tau: float) -> Activation:
    """Return the registry's activation for a layer whose input has standard deviation ``tau``.

    Examples
    --------
    >>> layer_activation("lrelu", (0.5, 0.5), 1.0).name
    'maxlin:a=1.0,b=0.0'
    """
    x = [float(v) for v in numbers]
    if family == "htanh":
        name = f"htanh:a={x[0]!r},c={x[1]!r}"
    elif family == "lrelu":
        name = f"maxlin:a={x[0] + x[1]!r},b={x[0] - x[1]!r}"
    elif family == "quadratic":
        a2 = x[1] / (math.sqrt(2) * tau**2)
        name = f"quadratic:a2={a2!r},a1={x[0] / tau!r},a0={-a2 * tau**2!r}"
    else:
        name = f"hermite:scale={tau!r},c1={x[0]!r},c2={x[1]!r},c3={x[2]!r}"
    return activation(name)


def network(family: str, layers: Sequence[Sequence[float]], tau0: float) -> tuple[Activation, ...]:
    """Return the activations of all layers, each for the standard deviation it meets."""
    acts, q = [], tau0**2
    for numbers in layers:
        acts.append(layer_activation(family, numbers, math.sqrt(q)))
        q = float(MOMENTS[family](numbers, q).gamma2)
    return tuple(acts)
