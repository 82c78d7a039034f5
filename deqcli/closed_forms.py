r"""Closed forms of :math:`E[\phi(u)\phi(v)]` and :math:`E[\phi'(u)\phi'(v)]`.

Every form takes the standard deviations of the Gaussian pair and its angle,

.. math:: (u, v) \sim N(0, \Lambda), \quad \Lambda_{11} = v_1^2,\ \Lambda_{22} = v_2^2,
          \ \Lambda_{12} = v_1 v_2 \cos\theta, \quad \theta \in [0, \pi].

The angle, not the correlation, because the derivative kernel of a kinked activation behaves like
:math:`1 - \theta/\pi` at duplicated inputs, where :math:`\cos\theta` has lost half of its digits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, owens_t

Array = NDArray[np.float64]

# Stands for a zero standard deviation: small enough to be zero, large enough for knot / scale to
# stay finite when squared.
_TINY = 1e-150


@runtime_checkable
class ClosedForm(Protocol):
    """Expectations known in closed form for one activation (without its shift)."""

    def mean(self, scale: Array) -> Array:
        """Return ``E f(u)``, elementwise."""
        ...

    def dual(self, scale1: Array, scale2: Array, theta: Array) -> tuple[Array, Array]:
        """Return ``E[f(u) f(v)]`` and ``E[f'(u) f'(v)]``, elementwise."""
        ...


@dataclass(frozen=True)
class PiecewiseLinear:
    r"""Piecewise-linear functions :math:`b_0 + b_1 x + \sum_j s_j (x - k_j)_+`.

    With standardised knots :math:`h = k_i/v_1`, :math:`l = k_j/v_2`,
    :math:`L = P(\xi_1 > h, \xi_2 > l)` (Owen's T function), :math:`\rho = \cos\theta`,
    :math:`\bar\rho = \sin\theta` and normal density :math:`n`,

    .. math:: E[(\xi_1 - h)_+ (\xi_2 - l)_+] = (\rho + hl) L
        - l\,n(h)\,\bar\Phi\!\left(\tfrac{l - \rho h}{\bar\rho}\right)
        - h\,n(l)\,\bar\Phi\!\left(\tfrac{h - \rho l}{\bar\rho}\right)
        + \tfrac{\bar\rho}{2\pi} e^{-(h^2 - 2\rho hl + l^2)/2\bar\rho^2},

    which for knots at zero is the arc-cosine kernel
    :math:`(\sin\theta + (\pi - \theta)\cos\theta)/2\pi` and :math:`L = (\pi - \theta)/2\pi`.

    Parameters
    ----------
    offset, slope : float
        :math:`b_0` and :math:`b_1`.
    knots, jumps : tuple of float
        :math:`k_j` and the change of slope :math:`s_j` there.

    Examples
    --------
    >>> relu = PiecewiseLinear(0.0, 0.0, (0.0,), (1.0,))
    >>> one = np.ones(1)
    >>> relu.dual(one, one, 0 * one)          # E relu^2 and P(u > 0)
    (array([0.5]), array([0.5]))
    """

    offset: float
    slope: float
    knots: tuple[float, ...] = ()
    jumps: tuple[float, ...] = ()

    def mean(self, scale: Array) -> Array:
        """Return ``E f(u)``."""
        v = np.maximum(scale, _TINY)
        offset, _, ramps = self._outwards()
        total = np.full_like(v, offset)
        for k, jump, e in ramps:
            total += jump * v * _ramp(e * k / v)
        return total

    def _outwards(self) -> tuple[float, float, list[tuple[float, float, int]]]:
        """Return offset, slope and (knot, jump, direction) with every ramp rising away from zero.

        A ramp at a negative knot is turned round, (x - k)_+ = (x - k) + (k - x)_+, so that ramps
        which small inputs do not reach leave nothing behind that must cancel.
        """
        ramps = [(k, s, -1 if k < 0 else 1) for k, s in zip(self.knots, self.jumps, strict=True)]
        offset = self.offset - sum(s * k for k, s, e in ramps if e < 0)
        return offset, self.slope + sum(s for _, s, e in ramps if e < 0), ramps

    def dual(self, scale1: Array, scale2: Array, theta: Array) -> tuple[Array, Array]:
        """Return the two expectations."""
        v1, v2 = np.maximum(scale1, _TINY), np.maximum(scale2, _TINY)
        rho = np.cos(theta)
        offset, linear, ramps = self._outwards()
        value = offset**2 + linear**2 * v1 * v2 * rho
        slope = np.full_like(rho, linear**2)
        for k, jump, e in ramps:
            beyond = e * (ndtr(-e * k / v1) + ndtr(-e * k / v2))
            means = v1 * _ramp(e * k / v1) + v2 * _ramp(e * k / v2)
            value = value + jump * (offset * means + linear * v1 * v2 * rho * beyond)
            slope = slope + jump * linear * beyond
        for k, jump_k, e in ramps:
            for m, jump_m, f in ramps:
                angle = theta if e == f else np.pi - theta
                ramp, step = _ramp_pair(e * k / v1, f * m / v2, angle)
                value = value + jump_k * jump_m * v1 * v2 * ramp
                slope = slope + e * f * jump_k * jump_m * step
        return value, slope


def _density(x: Array) -> Array:
    return np.exp(-0.5 * x * x) / np.sqrt(2 * np.pi)


def _ramp(h: Array) -> Array:
    """``E (xi - h)_+``."""
    return _density(h) - h * ndtr(-h)


def _ramp_pair(h: Array, k: Array, theta: Array) -> tuple[Array, Array]:
    """``E (xi1 - h)_+ (xi2 - k)_+`` and ``P(xi1 > h, xi2 > k)`` at angle theta."""
    rho, rho_bar = np.cos(theta), np.sin(theta)
    if not h.any() and not k.any():
        return (rho_bar + (np.pi - theta) * rho) / (2 * np.pi), (np.pi - theta) / (2 * np.pi)
    # k - rho h without cancellation near either end; at an exactly parallel pair the cut-offs
    # become steps (+-inf), or 0 where the knots coincide.
    near = theta < np.pi / 2
    sign = np.where(near, 1.0, -1.0)
    rest = sign * 2 * np.where(near, np.sin(theta / 2), np.cos(theta / 2)) ** 2
    parallel = rho_bar < 1e-15
    rest, bar = np.where(parallel, 0.0, rest), np.where(parallel, 1e-300, rho_bar)
    with np.errstate(over="ignore"):
        cut_h = ((k - sign * h) + h * rest) / bar
        cut_k = ((h - sign * k) + k * rest) / bar
        exponent = 0.5 * (cut_h**2 + h**2)
    both = _above_both(h, k, rho, cut_h, cut_k)
    ramp = (
        (rho + h * k) * both
        - k * _density(h) * ndtr(-cut_h)
        - h * _density(k) * ndtr(-cut_k)
        + rho_bar / (2 * np.pi) * np.exp(-exponent)
    )
    return ramp, both


def _above_both(h: Array, k: Array, rho: Array, cut_h: Array, cut_k: Array) -> Array:
    """Bivariate normal ``P(xi1 > h, xi2 > k)`` by Owen's T function.

    Owen (1956): with a = (k - rho h)/(h rho_bar), b = (h - rho k)/(k rho_bar),
    P = (Q(h) + Q(k))/2 - T(h, a) - T(k, b) - [h and k on different sides of 0]/2.
    """

    def owen(x: Array, cut: Array) -> Array:
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            ratio = np.where(x == 0, np.copysign(np.inf, cut), cut / x)
        # T(0, a) = arctan(a) / 2 pi, with the sign of an infinite a taken from the cut-off.
        ratio = np.where((x == 0) & (cut == 0), 0.0, ratio)
        return np.asarray(owens_t(x, ratio))

    opposite = np.where((h * k < 0) | ((h * k == 0) & (h + k < 0)), 0.5, 0.0)
    both = 0.5 * (ndtr(-h) + ndtr(-k)) - owen(h, cut_h) - owen(k, cut_k) - opposite
    return np.clip(both, 0.0, 1.0)


@dataclass(frozen=True)
class Erf:
    r"""The error function: :math:`E = \frac2\pi \arcsin \frac{2\lambda}{\sqrt{(1+2q_1)(1+2q_2)}}`.

    Here :math:`q = v^2` and :math:`\lambda = v_1 v_2\cos\theta`; the derivative's expectation is
    :math:`\frac4\pi ((1+2q_1)(1+2q_2) - 4\lambda^2)^{-1/2}`.
    """

    def mean(self, scale: Array) -> Array:
        """Return ``E f(u)``."""
        return np.zeros_like(scale)

    def dual(self, scale1: Array, scale2: Array, theta: Array) -> tuple[Array, Array]:
        """Return the two expectations."""
        lam = scale1 * scale2 * np.cos(theta)
        # The root of (1+2q1)(1+2q2) - 4 lam^2, without its cancellation at parallel large inputs.
        cross = 2 * scale1 * scale2 * np.sin(theta)
        root = np.sqrt(1 + 2 * (scale1**2 + scale2**2) + cross**2)
        return 2 / np.pi * np.arctan2(2 * lam, root), 4 / np.pi / root


@dataclass(frozen=True)
class Sinusoid:
    r"""Sine or cosine: :math:`e^{-(q_1+q_2)/2}\sinh\lambda`, :math:`e^{-(q_1+q_2)/2}\cosh\lambda`.

    The first is the sine's expectation and the cosine's derivative's, the second the reverse.
    """

    cosine: bool

    def mean(self, scale: Array) -> Array:
        """Return ``E f(u)``."""
        return np.exp(-0.5 * scale**2) if self.cosine else np.zeros_like(scale)

    def dual(self, scale1: Array, scale2: Array, theta: Array) -> tuple[Array, Array]:
        """Return the two expectations."""
        lam = scale1 * scale2 * np.cos(theta)
        # exp(+-lam - (q1+q2)/2)/2; exponents that are squares lose no digits at large inputs.
        far, product = 0.5 * (scale1 - scale2) ** 2, 2 * scale1 * scale2
        rising = 0.5 * np.exp(-far - product * np.sin(theta / 2) ** 2)
        falling = 0.5 * np.exp(-far - product * np.cos(theta / 2) ** 2)
        even = rising + falling
        # Their difference, without cancellation for small inputs.
        odd = -np.sign(lam) * np.maximum(rising, falling) * np.expm1(-2 * np.abs(lam))
        return (even, odd) if self.cosine else (odd, even)
