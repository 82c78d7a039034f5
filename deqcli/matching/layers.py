r"""Layers of explicit networks by a few numbers, and their kernels on pairs of inputs.

A layer acts on its input in units of the standard deviation t that an input of norm
:math:`\tau_0` has there, :math:`\sigma(x) = f(x/t)`:

=========  ==================================================  ====================
family     f(u)                                                numbers
=========  ==================================================  ====================
htanh      :math:`b + a\,\mathrm{clip}(u, -c, c)`              b, a, c
lrelu      :math:`b + pu + k|u|`                               b, p, k
spline     :math:`b + su + \sum_j d_j(u - \kappa_j)_+`         b, s, d of the knots
quadratic  :math:`\sum_k c_kh_k(u)`, orthonormal Hermite       c0, c1, c2
cubic      likewise                                            c0 ... c3
quintic    likewise                                            c0 ... c5
=========  ==================================================  ====================

For an input of standard deviation wt the coefficients :math:`a_k = E[f(w\xi)h_k(\xi)]` are known
in closed form, and with them the kernel of a pair (theory.md §2, §6),

.. math:: E[f(u)f(v)] = \sum_ka_k(w_1)a_k(w_2)\rho^k, \qquad
   E[f'(u)f'(v)] = \sum_kk\,a_k(w_1)a_k(w_2)\rho^{k-1}/w_1w_2.

For polynomials this ends. For piecewise linear functions it is cut, and what is left of the
diagonal stands for the rest of the series. All of it takes complex numbers, which is how it is
differentiated.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from deqcli.activations import Activation, activation

Array = NDArray[np.float64]
Numbers = NDArray[Any]

#: Knots of a spline, in units of t: a few, where a Gaussian variable is.
KNOTS = (-1.6, -0.8, 0.0, 0.8, 1.6)
#: How many numbers a layer has.
NUMBERS = {"htanh": 3, "lrelu": 3, "quadratic": 3, "cubic": 4, "spline": 2 + len(KNOTS),
           "quintic": 6}  # fmt: skip
#: Families with a degree instead of kinks.
_DEGREES = {"quadratic": 2, "cubic": 3, "quintic": 5}
#: Terms of the series of piecewise linear functions.
_TERMS = 16
# A knot beyond some 17 standard deviations is out of reach; inputs are taken to be no smaller.
_NARROW = 0.03


class Series(NamedTuple):
    """Hermite coefficients of a layer, of shape (terms, n), and ``E f^2``, ``E f'^2``."""

    terms: Numbers
    second: Numbers
    slope2: Numbers


def series(family: str, numbers: Numbers, w: Numbers) -> Series:
    """Expand a layer for inputs of standard deviations ``w``, in units of t.

    Examples
    --------
    >>> relu = series("lrelu", np.array([0.0, 0.5, 0.5]), np.ones(1))
    >>> relu.terms[:3, 0].round(6).tolist(), float(relu.second[0])
    ([0.398942, 0.5, 0.282095], 0.5)
    """
    if family in _DEGREES:
        return _polynomial(numbers, w)
    return _piecewise(*_pieces(family, numbers), w)


def _polynomial(numbers: Numbers, w: Numbers) -> Series:
    """Re-expand: ``He_k(wx) = sum_m k!/(m! j! 2^m) w^j (w^2 - 1)^m He_j(x)``, j = k - 2m."""
    f, size = math.factorial, len(numbers)
    terms = np.zeros((size, w.size), dtype=np.result_type(numbers, w))
    for k in range(size):
        for m in range(k // 2 + 1):
            j = k - 2 * m
            factor = math.sqrt(f(k) / f(j)) / (f(m) * 2**m)
            terms[j] += factor * numbers[k] * w**j * (w * w - 1) ** m
    orders = np.arange(size)[:, None]
    return Series(terms, np.sum(terms**2, axis=0), np.sum(orders * terms**2, axis=0) / w**2)


def _pieces(family: str, numbers: Numbers) -> tuple[Any, Any, Numbers, Numbers]:
    """Return offset, slope, knots (ascending) and changes of slope."""
    if family == "spline":
        return numbers[0], numbers[1], np.array(KNOTS), numbers[2:]
    if family == "lrelu":
        b, p, k = numbers
        return b, p - k, np.zeros(1), np.array([2 * k])
    b, a, c = numbers
    # A fit is free to make c negative: that turns the layer round, and no kernel knows it.
    c = c if c.real > 0 else -c
    return b - a * c, 0 * a, np.array([-c, c]), np.array([a, -a])


def _piecewise(offset: Any, slope: Any, knots: Numbers, jumps: Numbers, w: Numbers) -> Series:
    h = knots / np.where(w.real < _NARROW, _NARROW, w)[:, None]
    density, beyond = np.exp(-h * h / 2) / math.sqrt(2 * math.pi), ndtr(-h)
    ramp = w[:, None] * (density - h * beyond)
    terms = np.empty((_TERMS, w.size), dtype=np.result_type(offset, jumps, h))
    terms[0] = offset + ramp @ jumps
    terms[1] = w * (slope + beyond @ jumps)
    hermite, before = density, 0 * density
    for k in range(2, _TERMS):
        # w n(h) He_(k-2)(h) / sqrt(k!), the polynomial divided by sqrt((k-2)!).
        terms[k] = w * (hermite @ jumps) / math.sqrt(k * (k - 1))
        hermite, before = (h * hermite - math.sqrt(k - 2) * before) / math.sqrt(k - 1), hermite
    # E (u - a)_+ (u - b)_+ ends at the upper knot.
    i, j = np.indices((knots.size, knots.size)).reshape(2, -1)
    top, both = np.maximum(i, j), jumps[i] * jumps[j]
    squares = (1 + h[:, i] * h[:, j]) * beyond[:, top] + (h[:, top] - h[:, i] - h[:, j]) * density[
        :, top
    ]
    second = offset**2 + (slope * w) ** 2 + 2 * offset * (ramp @ jumps)
    second = second + w**2 * (2 * slope * (beyond @ jumps) + squares @ both)
    slope2 = slope**2 + 2 * slope * (beyond @ jumps) + beyond[:, top] @ both
    return Series(terms, second, slope2)


@dataclass(frozen=True)
class Pairs:
    """Some inputs and some pairs of them.

    Attributes
    ----------
    norms : ndarray of shape (n,)
    first, second : ndarray of int of shape (m,)
        Which inputs make up each pair.
    cosines : ndarray of shape (m,)
    """

    norms: Array
    first: NDArray[np.intp]
    second: NDArray[np.intp]
    cosines: Array


def network_pairs(
    family: str, layers: Sequence[Numbers], tau0: float, pairs: Pairs, tangent: bool
) -> tuple[Numbers, Numbers, list[Any]]:
    r"""Return the CK or NTK of an explicit network: of each input, of each pair, and every t.

    The recursion is that of :func:`deqcli.kernels.exact.explicit_kernels`.

    Examples
    --------
    >>> pairs = Pairs(np.array([1.0, 2.0]), np.array([0]), np.array([1]), np.array([0.5]))
    >>> linear = [np.array([0.0, 1.0, 0.0])]
    >>> [x.tolist() for x in network_pairs("lrelu", linear, 1.0, pairs, tangent=True)[:2]]
    [[2.0, 8.0], [2.0]]
    """
    i, j = pairs.first, pairs.second
    # The last input is the one that sets each layer's unit.
    v: Numbers = np.append(np.maximum(pairs.norms, 1e-9 * tau0), tau0)
    rho: Numbers = pairs.cosines
    units: list[Any] = []
    own, mixed = v**2, v[i] * v[j] * rho
    value: Numbers = mixed
    for numbers in layers:
        units.append(v[-1])
        w = v / v[-1]
        terms, second, slope2 = series(family, numbers, w)
        slopes = terms[1:] * np.sqrt(np.arange(1.0, len(terms)))[:, None] / w
        value = _sum(terms, second, i, j, rho)
        if tangent:
            mixed = value + mixed * _sum(slopes, slope2, i, j, rho) / v[-1] ** 2
            own = second + own * slope2 / v[-1] ** 2
        else:
            mixed, own = value, second
        # Rounding may leave a vanishing layer with less than nothing.
        v = np.sqrt(np.where(second.real > 0, second, np.finfo(float).tiny))
        rho = value / (v[i] * v[j])
    return own[:-1], mixed, [*units, v[-1]]


def _sum(
    terms: Numbers, second: Numbers, i: NDArray[np.intp], j: NDArray[np.intp], rho: Numbers
) -> Numbers:
    """Sum the series of each pair; what its cut leaves of the diagonal takes the next power."""
    rest = second - np.sum(terms**2, axis=0)
    total = 0.5 * (rest[i] + rest[j])
    for row in terms[::-1]:
        total = total * rho + row[i] * row[j]
    return total


def to_activation(family: str, numbers: Array, unit: float) -> Activation:
    """Return a layer as an activation of the registry.

    Examples
    --------
    >>> act = to_activation("lrelu", np.array([0.1, 1.0, 1.0]), 2.0)
    >>> act.name, act.shift
    ('maxlin:a=1.0,b=0.0', -0.1)
    """
    x, t = [float(number) for number in numbers], float(unit)
    # Inputs are as likely as their opposites, so that no kernel knows which way round a layer is:
    # of both, the one that rises is taken.
    if family in _DEGREES:
        x = [-c if k % 2 and x[1] < 0 else c for k, c in enumerate(x)]
        coefficients = ",".join(f"c{k}={c!r}" for k, c in enumerate(x))
        return activation(f"hermite:scale={t!r},{coefficients}")
    if family == "htanh":
        return activation(f"htanh:a={abs(x[1]) / t!r},c={abs(x[2]) * t!r}").shifted(-x[0])
    if family == "lrelu":
        # Neither kernel knows the sign of a layer, and the registry's is convex.
        b, p, k = x if x[2] >= 0 else [-number for number in x]
        p = abs(p)
        return activation(f"maxlin:a={(p + k) / t!r},b={(p - k) / t!r}").shifted(-b)
    pieces = (f"k{n}={k * t!r},d{n}={d / t!r}" for n, (k, d) in enumerate(zip(KNOTS, x[2:],
              strict=True), start=1))  # fmt: skip
    return activation(f"spline:slope={x[1] / t!r},{','.join(pieces)}").shifted(-x[0])


def project(family: str, act: Activation, unit: float) -> Array:
    """Return the numbers of the layer nearest to an activation, at normal inputs.

    Examples
    --------
    >>> np.abs(project("cubic", activation("identity"), 2.0)).round(12).tolist()
    [0.0, 2.0, 0.0, 0.0]
    """
    u, weight = np.polynomial.hermite_e.hermegauss(60)
    value = np.asarray(act(unit * u), dtype=float)
    if family == "htanh":
        p = act.parameters
        a = p["a"] * unit if "c" in p else float(weight @ (u * value) / weight.sum())
        return np.array([float(weight @ value / weight.sum()), a, p.get("c", 3 * unit) / unit])
    return _least_squares(family, u, value, weight)


def _least_squares(family: str, u: Array, value: Array, weight: Array) -> Array:
    if family in _DEGREES:
        orders = np.arange(_DEGREES[family] + 1)
        scale = np.sqrt([float(math.factorial(k)) for k in orders])
        basis = np.polynomial.hermite_e.hermevander(u, orders[-1]) / scale
    elif family == "lrelu":
        basis = np.stack([np.ones_like(u), u, np.abs(u)], axis=1)
    else:
        ramps = [np.maximum(u - k, 0) for k in KNOTS]
        basis = np.stack([np.ones_like(u), u, *ramps], axis=1)
    root = np.sqrt(weight)
    return np.asarray(np.linalg.lstsq(root[:, None] * basis, root * value, rcond=None)[0])
