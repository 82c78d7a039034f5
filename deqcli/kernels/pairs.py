r"""Exact kernels as functions of two inputs: all that matters is two norms and an angle.

The conjugate kernel and the tangent kernel of a wide network depend on inputs x and x' only
through :math:`\|x\|`, :math:`\|x'\|` and the angle between them. The classes here evaluate that
function for arrays of pairs; :mod:`deqcli.kernels.matrix` makes matrices of it.
"""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from deqcli.activations import Activation
from deqcli.closed_forms import PiecewiseLinear
from deqcli.duals import Dual, bind, smooth_angle
from deqcli.errors import ConvergenceError
from deqcli.gaussian import second_moments
from deqcli.vocabulary import Kernel

Array = NDArray[np.float64]

# Pairs of inputs closer than this (relative) are linearised: cos(theta) no longer resolves them.
# The neglected terms and the rounding of arccos are both below 1e-9 at the switch.
_CLOSE = 1e-6


class PairValues(NamedTuple):
    """The two kernels of pairs of inputs, each of shape (m,)."""

    ck: Array
    ntk: Array

    def of(self, kernel: Kernel) -> Array:
        """Return the values from which this kernel is made; the pre-activation ones add a Gram."""
        return self.ck if kernel.explicit is Kernel.CK else self.ntk


class PairKernel(abc.ABC):
    """A network's kernels as functions of pairs of inputs."""

    @abc.abstractmethod
    def smooth_angle(self, norm: float) -> float:
        """Return how far from a right angle kernels are smooth and cheap, norms up to ``norm``."""

    @abc.abstractmethod
    def solve(self, norm1: Array, norm2: Array, angle: Array) -> PairValues:
        """Return CK and NTK of pairs, without use of homogeneity."""

    @property
    @abc.abstractmethod
    def is_homogeneous(self) -> bool:
        """Whether inputs x and 2x are as good as duplicates."""

    def __call__(self, norm1: Array, norm2: Array, angle: Array) -> PairValues:
        """Return CK and NTK of pairs with these norms and angles."""
        if not self.is_homogeneous:
            return self.solve(norm1, norm2, angle)
        one, size = np.ones_like(angle), norm1 * norm2
        return PairValues(*(size * values for values in self.solve(one, one, angle)))


@dataclass(frozen=True)
class ImplicitPairs(PairKernel):
    r"""CK and NTK of the DEQ :math:`z = \phi(\sigma_a A z + \sigma_b B x)/\sqrt m`.

    .. math:: \Lambda = \sigma_a^2 G + \sigma_b^2 x^\top x', \quad G = E[\phi(u)\phi(v)], \quad
       \Theta = G + \Lambda\,\frac{\dot G/\sigma_a^2}{1 - \dot G}, \quad
       \dot G = \sigma_a^2 E[\phi'(u)\phi'(v)],

    with :math:`(u, v)` Gaussian of covariance :math:`\Lambda` (theory.md §2). The standard
    deviations are solved first, by the secant method on a map that contracts with
    :math:`\sigma_a L`; then each :math:`\Lambda` is one scalar Newton solve, whose derivative
    :math:`1 - \dot G` is the one the NTK needs.

    Examples
    --------
    >>> from deqcli.activations import activation
    >>> one = np.ones(1)
    >>> pairs = ImplicitPairs(activation("identity"), 0.2, 0.8)
    >>> [float(k[0].round(12)) for k in pairs(one, one, np.zeros(1))]
    [1.0, 2.25]
    """

    act: Activation
    sigma_a2: float
    sigma_b2: float

    @property
    def is_homogeneous(self) -> bool:
        """See :class:`PairKernel`."""
        return _is_homogeneous(self.act)

    def smooth_angle(self, norm: float) -> float:
        """See :class:`PairKernel`."""
        return smooth_angle(self.act, float(self.scale(np.array([norm]))[0]))

    def scale(self, norm: Array) -> Array:
        r"""Solve :math:`v = (\sigma_a^2 E\phi^2(v\xi) + \sigma_b^2\|x\|^2)^{1/2}` for each norm."""
        norms, where = np.unique(norm, return_inverse=True)

        def step(v: Array) -> Array:
            second = second_moments(self.act, v)[0]
            return np.sqrt(self.sigma_a2 * second + self.sigma_b2 * norms**2)

        v = np.sqrt(self.sigma_b2) * norms
        image = step(v)
        last, last_gap = v, v - image
        v = image
        for _ in range(100):
            gap = v - step(v)
            if np.all(np.abs(gap) <= 4e-16 * np.abs(v)):
                break
            slope = np.divide(gap - last_gap, v - last, out=np.ones_like(v), where=v != last)
            # But for rounding the slope lies within 1 +- sigma_a L.
            slope = np.clip(slope, 1 - np.sqrt(self.sigma_a2) * self.act.lipschitz, 2.0)
            new = np.where(np.abs(gap) <= 4e-16 * np.abs(v), v, v - gap / np.maximum(slope, 1e-3))
            if np.all(np.abs(new - v) <= 2e-16 * np.abs(v)):
                break
            last, last_gap, v = v, gap, np.maximum(new, 0)
        else:
            raise ConvergenceError(
                f"the norm equation of {self.act.name!r} did not converge; "
                f"`sigma_a2` is {self.sigma_a2:g}, try less."
            )
        return np.asarray(v[where])

    def solve(self, norm1: Array, norm2: Array, angle: Array) -> PairValues:
        """See :class:`PairKernel`."""
        both = self.scale(np.concatenate([norm1, norm2]))
        v1, v2 = both[: norm1.size], both[norm1.size :]
        dual = bind(self.act, v1, v2)
        inner = self.sigma_b2 * norm1 * norm2 * np.cos(angle)
        theta = self._newton(dual, v1, v2, inner, angle)
        for sign in (1, -1) if _parity(self.act) < 0 else (1,):
            gap2, close = _close_pairs(norm1, norm2, angle, sign)
            if close.any():
                slope2 = second_moments(self.act, v1[close])[1]
                spread = self.sigma_b2 * gap2[close] / (1 - self.sigma_a2 * slope2)
                theta[close] = _angle_of_gap(spread, v1[close], v2[close], sign)
        value, slope = dual(theta)
        covariance = self.sigma_a2 * value + inner
        return PairValues(value, value + covariance * slope / (1 - self.sigma_a2 * slope))

    def _newton(self, dual: Dual, v1: Array, v2: Array, inner: Array, angle: Array) -> Array:
        bound = v1 * v2
        theta = np.where(bound > 0, angle, np.pi / 2)
        if self.sigma_a2 == 0:
            return theta
        covariance = bound * np.cos(theta)
        for _ in range(100):
            value, slope = dual(theta)
            change = (self.sigma_a2 * value + inner - covariance) / (1 - self.sigma_a2 * slope)
            new = np.clip(covariance + change, -bound, bound)
            moved = np.abs(new - covariance)
            covariance = new
            theta = _angle(covariance, bound)
            # Newton squares the error: after a move of 1e-9 nothing is left but rounding.
            if np.all(moved <= 1e-9 * bound):
                return theta
        raise ConvergenceError(
            f"the kernel equation of {self.act.name!r} did not converge; "
            f"`sigma_a2` is {self.sigma_a2:g}, try less."
        )


@dataclass(frozen=True)
class ExplicitPairs(PairKernel):
    r"""CK and NTK of :math:`x^{(l)} = \sigma_l(W_l x^{(l-1)})/\sqrt{m_l}`, layer by layer.

    The recursion is that of :func:`deqcli.kernels.exact.explicit_kernels` (theory.md §5).
    """

    acts: tuple[Activation, ...]

    @property
    def is_homogeneous(self) -> bool:
        """See :class:`PairKernel`."""
        return all(map(_is_homogeneous, self.acts))

    def smooth_angle(self, norm: float) -> float:
        """See :class:`PairKernel`."""
        angles = [np.pi / 2]
        for act in self.acts:
            angles.append(smooth_angle(act, norm))
            norm = float(np.sqrt(second_moments(act, np.array([norm]))[0][0]))
        return float(min(angles))

    def solve(self, norm1: Array, norm2: Array, angle: Array) -> PairValues:
        """See :class:`PairKernel`."""
        v1, v2, theta = norm1, norm2, angle
        value = tangent = v1 * v2 * np.cos(theta)
        gaps = [(sign, *_close_pairs(norm1, norm2, angle, sign)) for sign in (1, -1)]
        for act in self.acts:
            value, slope = bind(act, v1, v2)(theta)
            tangent = value + tangent * slope
            second1, slope1 = second_moments(act, v1)
            v1, v2 = np.sqrt(second1), np.sqrt(second_moments(act, v2)[0])
            theta = _angle(value, v1 * v2)
            # Opposites stay opposites in an odd layer, and become duplicates in an even one.
            parity = _parity(act)
            gaps = [(parity if sign < 0 else sign, gap2 * slope1, c) for sign, gap2, c in gaps]
            for sign, gap2, close in gaps:
                if sign:
                    theta[close] = _angle_of_gap(gap2[close], v1[close], v2[close], sign)
        return PairValues(value, tangent)


def _is_homogeneous(act: Activation) -> bool:
    form = act.closed_form
    return isinstance(form, PiecewiseLinear) and form.offset == act.shift == 0 == any(form.knots)


def _angle(covariance: Array, bound: Array) -> Array:
    ratio = np.divide(covariance, bound, out=np.zeros_like(bound), where=bound > 0)
    return np.arccos(np.clip(ratio, -1.0, 1.0))


def _parity(act: Activation) -> int:
    """Return 1 for an even activation, -1 for an odd one, 0 for others."""
    grid = np.linspace(0.05, 6, 40)
    value, mirrored = act(grid), act(-grid)
    parities = (s for s in (1, -1) if np.allclose(value, s * mirrored, rtol=0, atol=1e-14))
    return next(parities, 0)


def _close_pairs(
    norm1: Array, norm2: Array, angle: Array, sign: int
) -> tuple[Array, NDArray[np.bool_]]:
    r"""Return :math:`\|x \mp x'\|^2` and which pairs are nearly equal (nearly opposite)."""
    half = np.sin(angle / 2) if sign > 0 else np.cos(angle / 2)
    # For opposite inputs cos(pi/2) is 6e-17 and not 0, which is harmless when squared.
    gap2 = (norm1 - norm2) ** 2 + 4 * norm1 * norm2 * half**2
    size = np.maximum(norm1, norm2)
    return gap2, (gap2 <= (_CLOSE * size) ** 2) & (size > 0)


def _angle_of_gap(gap2: Array, v1: Array, v2: Array, sign: int) -> Array:
    """Return the angle of Gaussian variables whose difference (sum) has variance ``gap2``."""
    product = np.maximum(4 * v1 * v2, 1e-300)
    half = np.sqrt(np.clip((gap2 - (v1 - v2) ** 2) / product, 0.0, 1.0))
    small = 2 * np.arcsin(half)
    return small if sign > 0 else np.pi - small
