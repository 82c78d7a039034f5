r"""Expectations over one Gaussian variable, exact to rounding also for kinked activations.

Every expectation :math:`E f(\tau\xi)`, :math:`\xi \sim N(0, 1)`, is a composite Gauss-Legendre sum
whose panels end at the kinks of the activation and are short against the scale on which it varies.
(Gauss-Hermite with 200 nodes misses the third digit of the hard tanh.)
"""

from __future__ import annotations

import functools
import math
import warnings
from dataclasses import astuple, dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from deqcli.activation_functions import Guarded
from deqcli.activations import Activation
from deqcli.checks import NOT_NEGATIVE, SCALE, SMALLEST, Range, number
from deqcli.errors import ConvergenceError, ExistenceError, InputError, OutsidePapersRangeWarning

Array = NDArray[np.float64]

# Integrals end here, where exp(-REACH^2/4), the root of the density, is below rounding.
REACH = 12.5
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(20)

# Panels have one length on the activation's axis up to here and grow geometrically beyond, so that
# large inputs cost little more than small ones.
_CORE, _GROWTH = 256.0, 1.5
_KNOTS = 3.0


@functools.lru_cache(maxsize=64)
def _panels(breaks: tuple[float, ...], width: float, core: float) -> tuple[Array, Array]:
    """Nodes and Gaussian weights on [-REACH, REACH], panels ending at ``breaks``."""
    steps = max(0, math.ceil(math.log(REACH / core, _GROWTH)))
    graded = [sign * core * _GROWTH**k for k in range(steps) for sign in (-1, 1)]
    inner = [b for b in sorted({*breaks, *graded}) if -REACH < b < REACH]

    def length(a: float, b: float) -> float:
        near = min(abs(a), abs(b)) if a * b > 0 else 0.0
        return min(0.5, (_GROWTH - 1) * near) if near >= core else width

    edges = np.concatenate(
        [
            np.linspace(a, b, max(1, math.ceil(0.999 * (b - a) / length(a, b))), endpoint=False)
            for a, b in zip([-REACH, *inner], [*inner, REACH], strict=True)
        ]
        + [np.array([REACH])]
    )
    half = np.diff(edges)[:, None] / 2
    nodes = (edges[:-1, None] + half + half * _NODES).ravel()
    weights = (half * _WEIGHTS).ravel() * np.exp(-0.5 * nodes**2) / math.sqrt(2 * math.pi)
    return nodes, weights


def grid(scale: float, kinks: tuple[float, ...] = ()) -> tuple[Array, Array]:
    r"""Return nodes and weights: :math:`\sum_i w_i f(\xi_i) = E f(\xi)` for ``f = phi(scale .)``.

    Parameters
    ----------
    scale : float
        The standard deviation that will multiply the nodes.
    kinks : tuple of float
        Kinks of ``phi`` (they lie at ``kink / scale`` on the nodes' axis).

    Examples
    --------
    >>> nodes, weights = grid(1.3, (-1.0, 1.0))
    >>> round(float(weights @ np.clip(1.3 * nodes, -1, 1) ** 2), 12)      # E htanh(1.3 xi)^2
    0.613585108158
    """
    return _panels(*_layout(scale, kinks))


def _layout(scale: float, kinks: tuple[float, ...]) -> tuple[tuple[float, ...], float, float]:
    """Return break points on the nodes' axis, the panels' width, and where they start to grow."""
    breaks = tuple(k / scale for k in kinks) if scale > 0 else ()
    # Wide scales compress the activation: its features are 1/scale long on the nodes' axis.
    # Rounded to octaves, so that nearby scales share one cached grid.
    octave = 2.0 ** math.ceil(math.log2(max(scale, 1e-300)))
    return breaks, 0.5 / max(1.0, octave / 2), min(REACH, _CORE / octave)


@dataclass(frozen=True)
class Moments:
    r"""Gaussian moments of a centred activation at one standard deviation (theory.md §3).

    Attributes
    ----------
    m1, m2 : float
        :math:`E\phi'(\tau\xi)` and :math:`E\phi''(\tau\xi)`, both by parts so that kinks count.
    s : float
        :math:`\frac12 E(\phi^2)''(\tau\xi)`.
    r, w : float
        :math:`E\phi'(\tau\xi)^2` and its derivative in :math:`\tau^2`, by parts too.
    gamma2 : float
        :math:`E\phi^2(\tau\xi)`.
    mean : float
        :math:`E\phi(\tau\xi)`, zero for a centred activation.
    """

    m1: float
    m2: float
    s: float
    r: float
    w: float
    gamma2: float
    mean: float


@np.errstate(all="ignore")  # what is not finite is refused
def moments(act: Activation, tau: float) -> Moments:
    r"""Return the moments of ``act``, shift included, at standard deviation ``tau``.

    .. math:: m_1 = E[\xi\phi]/\tau,\quad m_2 = E[(\xi^2-1)\phi]/\tau^2,\quad
              s = E[(\xi^2-1)\phi^2]/2\tau^2,\quad w = E[(\xi^2-1)\phi'^2]/2\tau^2.

    Examples
    --------
    >>> from deqcli.activations import activation
    >>> round(moments(activation("relu"), 0.7).m1, 14)
    0.5
    """
    tau = number(tau, "tau", float, Range(above=0))
    check_resolved(act, tau)
    nodes, weights = grid(tau, act.kinks)
    value, slope = np.asarray(act(tau * nodes)), np.asarray(act.derivative(tau * nodes))
    _check_finite(act, tau, value, slope)
    second = nodes**2 - 1
    result = Moments(
        m1=float(weights @ (nodes * value)) / tau,
        m2=float(weights @ (second * value)) / tau**2,
        s=float(weights @ (second * value**2)) / (2 * tau**2),
        r=float(weights @ slope**2),
        w=float(weights @ (second * slope**2)) / (2 * tau**2),
        gamma2=float(weights @ value**2),
        mean=float(weights @ value),
    )
    _check_finite(act, tau, np.array(astuple(result)))
    return result


@dataclass(frozen=True)
class Centring:
    r"""The jointly solved :math:`\tau_*` and shift :math:`E\tilde\phi(\tau_*\xi)`."""

    tau: float
    shift: float


def check_existence(
    act: Activation, sigma_a2: float, sigma_b2: float | None = None, papers_range: bool = True
) -> tuple[float, float]:
    r"""Refuse variances for which the equilibrium need not exist; warn outside the papers' range.

    Returns both; ``sigma_b2`` is ``1 - sigma_a2`` by default.

    The kernel recursion contracts when :math:`\sigma_a^2 L^2 < 1`; ICLR Condition 1 asks for
    :math:`\sigma_a^2 < 1/4L^2`, which makes finite-width solves contract too (theory.md §2).
    HLD, on the sphere, does not; ``papers_range=False`` leaves the warning out.
    """
    if act.lipschitz == 0:
        raise InputError(f"`act` is {act.name!r}, a constant; a network needs one that varies.")
    sigma_a2 = number(sigma_a2, "sigma_a2", float, NOT_NEGATIVE)
    bound = act.lipschitz**-2 if act.lipschitz > SMALLEST else math.inf
    # Next to the bound the equilibrium is lost in rounding.
    if sigma_a2 > 0 and sigma_a2 >= bound * (1 - 1e-6):
        reason = (
            "the activation has no finite Lipschitz constant, so an equilibrium need not exist; "
            "use it in an explicit network"
            if math.isinf(act.lipschitz)
            else f"an equilibrium is sure to exist only below 1/L^2 = {bound:.6g} "
            f"(Lipschitz constant {act.lipschitz:.6g})"
        )
        raise ExistenceError(f"`sigma_a2` is {sigma_a2:g}, too large for {act.name!r}: {reason}.")
    sigma_b2 = 1 - sigma_a2 if sigma_b2 is None else sigma_b2
    sigma_b2 = number(sigma_b2, "sigma_b2", float, NOT_NEGATIVE)
    if papers_range and sigma_a2 > 0 and sigma_a2 >= bound / 4:
        warnings.warn(
            f"`sigma_a2` is {sigma_a2:g}, outside the papers' range for {act.name!r}: they ask for "
            f"less than 1/(4 L^2) = {bound / 4:.6g}; the infinite-width kernels still exist.",
            OutsidePapersRangeWarning,
            stacklevel=3,
        )
    return sigma_a2, sigma_b2


def centring(act: Activation, sigma_a2: float, sigma_b2: float | None, tau0: float) -> Centring:
    r"""Solve :math:`\tau^2 = \sigma_a^2\operatorname{Var}\tilde\phi(\tau\xi) + \sigma_b^2\tau_0^2`.

    The variance is at most :math:`L^2\tau^2` (Poincaré), which brackets the root:
    :math:`\sigma_b^2\tau_0^2 \le \tau^2 \le \sigma_b^2\tau_0^2/(1 - \sigma_a^2 L^2)`.
    """
    sigma_a2, sigma_b2 = check_existence(act, sigma_a2, sigma_b2)
    tau0 = number(tau0, "tau0", float, SCALE)
    base = act.shifted(0.0)
    low = sigma_b2 * tau0**2
    if low == 0:
        raise InputError("`sigma_b2` is 0, so the network has no input; give more than 0.")

    def excess(tau2: float) -> float:
        m = moments(base, math.sqrt(tau2))
        return tau2 - sigma_a2 * (m.gamma2 - m.mean**2) - low

    tau2 = low
    if sigma_a2 > 0 and excess(low) < 0:
        high = low / (1 - sigma_a2 * act.lipschitz**2)
        # Linear activations attain the bound, so the bracket is a little wider.
        tau2 = brentq(excess, low, high * (1 + 1e-6), xtol=1e-15 * low, rtol=1e-15, maxiter=200)
    tau = math.sqrt(tau2)
    return Centring(tau, moments(base, tau).mean)


@np.errstate(all="ignore")
def second_moments(act: Activation, scales: Array) -> tuple[Array, Array]:
    r"""Return :math:`E\phi^2(\tau\xi)` and :math:`E\phi'(\tau\xi)^2` for each standard deviation.

    Parameters
    ----------
    act : Activation
        Its shift counts.
    scales : ndarray of shape (m,)
        Zero allowed.

    Examples
    --------
    >>> from deqcli.activations import activation
    >>> second_moments(activation("abs"), np.array([0.0, 2.0]))[0].round(12)
    array([0., 4.])
    """
    unique, where = np.unique(np.asarray(scales, dtype=np.float64), return_inverse=True)
    value, slope = np.empty_like(unique), np.empty_like(unique)
    widest = float(np.max(unique, initial=0.0))
    if not math.isfinite(widest):
        raise InputError("the data is too large: squared norms overflow; scale it down.")
    knot = max(map(abs, act.kinks), default=0.0)
    # Where panels would be many, or as many grids as there are scales; beyond a few knots the
    # closed form loses digits.
    closed = widest <= _KNOTS * knot if knot else widest > _CORE / REACH
    if act.closed_form is not None and closed:
        value, slope = act.closed_form.dual(unique, unique, np.zeros_like(unique))
        value = value + act.shift * (act.shift - 2 * act.closed_form.mean(unique))
        return value[where], slope[where]
    check_resolved(act, widest)
    # Kinks away from zero move with the scale, so each scale has a grid of its own.
    together = not any(act.kinks)
    step = max(1, 1_000_000 // grid(widest, act.kinks)[0].size) if together else 1
    for start in range(0, unique.size, step):
        part = slice(start, start + step)
        nodes, weights = grid(float(unique[part][-1]), act.kinks)
        x = np.multiply.outer(unique[part], nodes)
        value[part] = np.asarray(act(x)) ** 2 @ weights
        slope[part] = np.asarray(act.derivative(x)) ** 2 @ weights
    _check_finite(act, widest, value, slope)
    return value[where], slope[where]


def _check_finite(act: Activation, scale: float, *arrays: Array) -> None:
    if not all(np.isfinite(array).all() for array in arrays):
        raise InputError(
            f"activation {act.name!r} or its derivative is not finite (or too large to square) on "
            f"[{-scale * REACH:g}, {scale * REACH:g}], which inputs of this size reach."
        )


def check_resolved(act: Activation, scale: float, from_scale: float = _CORE / (2 * REACH)) -> None:
    """Refuse an activation that varies too fast for the growing panels of wide scales.

    Two grids are compared, at a standard deviation of ``from_scale`` or more; below it the panels
    are short everywhere.
    """
    # What a function of the user's own declares may be wrong: that is looked at on every scale.
    if isinstance(act.function, Guarded):
        from_scale = 0.0
    if scale > from_scale and math.isfinite(scale):
        # Rounded up to eighths of an octave, so that nearby scales share one cached answer.
        _check_resolved(act, 2.0 ** (math.ceil(8 * math.log2(scale)) / 8))


@functools.lru_cache(maxsize=256)
@np.errstate(all="ignore")
def _check_resolved(act: Activation, scale: float, tolerance: float = 1e-11) -> None:
    breaks, width, core = _layout(scale, act.kinks)
    halves = tuple(
        sign * core * _GROWTH ** (k + 0.5)
        for k in range(max(0, math.ceil(math.log(REACH / core, _GROWTH))))
        for sign in (-1, 1)
    )
    integrals = []
    # The golden section keeps the two grids' panels from ending at the same points: a kink there
    # would escape both.
    for layout in ((breaks, width, core), ((*breaks, *halves), width / 2.618, core)):
        nodes, weights = _panels(*layout)
        values = [np.asarray(f(scale * nodes)) for f in (act, act.derivative)]
        _check_finite(act, scale, *values)
        integrals.append([float(weights @ v**2) for v in values])
    error = max(abs(a - b) / max(abs(b), 1e-300) for a, b in zip(*integrals, strict=True))
    if error > tolerance:
        raise ConvergenceError(
            f"activation {act.name!r} is not resolved on [{-scale * REACH:g}, {scale * REACH:g}] "
            f"(relative error {error:.1e}): declare its kinks, or scale the data down."
        )


@functools.lru_cache(maxsize=2)
def _hermite_functions(breaks: tuple[float, ...], width: float, core: float, degree: int) -> Array:
    """Return ``h_k(nodes) * sqrt(weights)``, bounded where h_k alone would overflow."""
    nodes, weights = _panels(breaks, width, core)
    root = np.sqrt(weights)
    table = np.empty((degree + 1, nodes.size))
    table[0] = root
    if degree:
        table[1] = nodes * root
    for k in range(1, degree):
        table[k + 1] = (nodes * table[k] - math.sqrt(k) * table[k - 1]) / math.sqrt(k + 1)
    return table


def hermite_coefficients(act: Activation, scales: Array, degree: int) -> tuple[Array, Array]:
    r"""Return :math:`c_k(\tau) = E[\phi(\tau\xi) h_k(\xi)]` and the same for :math:`\phi'`.

    Parameters
    ----------
    act : Activation
        Its shift counts.
    scales : ndarray of shape (m,)
    degree : int
        The largest k of the orthonormal Hermite polynomials :math:`h_k`.

    Returns
    -------
    value, slope : ndarray of shape (m, degree + 1)

    Examples
    --------
    >>> from deqcli.activations import activation
    >>> square = activation("quadratic:a2=1,a1=0,a0=0")
    >>> hermite_coefficients(square, np.array([1.0]), 3)[0].round(12) + 0.0
    array([[1.        , 0.        , 1.41421356, 0.        ]])
    """
    value = np.empty((scales.size, degree + 1))
    slope = np.empty((scales.size, degree + 1))
    together = not any(act.kinks)
    widest = float(np.max(scales, initial=1e-150))
    step = max(1, 2_000_000 // grid(widest, act.kinks)[0].size) if together else 1
    for start in range(0, scales.size, step):
        part = slice(start, start + step)
        layout = _layout(widest if together else max(float(scales[start]), 1e-150), act.kinks)
        nodes, weights = _panels(*layout)
        root, functions = np.sqrt(weights), _hermite_functions(*layout, degree).T
        x = np.multiply.outer(scales[part], nodes)
        value[part] = (np.asarray(act(x)) * root) @ functions
        slope[part] = (np.asarray(act.derivative(x)) * root) @ functions
    return value, slope


def hermite_degree(act: Activation, scale: float) -> int | None:
    r"""Return a degree beyond which the Hermite series of a smooth activation adds nothing.

    Parseval bounds what is left out at every correlation at once:
    :math:`|\sum_{k>K} c_k(\tau)^2\rho^k| \le E\phi^2 - \sum_{k\le K} c_k^2`. Valid for every
    standard deviation up to ``scale``. None where a smooth activation varies so fast on that
    scale that more than 2048 terms would be needed.
    """
    # Rounded up to eighths of an octave, so that nearby scales share one cached answer.
    return _hermite_degree(act, 2.0 ** (math.ceil(8 * math.log2(max(scale, 1e-3))) / 8))


# Beyond this standard deviation a series is not worth trying.
_STEEP = 16.0


@functools.lru_cache(maxsize=256)
def _hermite_degree(act: Activation, scale: float, tolerance: float = 2e-14) -> int | None:
    if scale > _STEEP:
        check_resolved(act, scale, from_scale=0.0)
        return None
    at = np.array([scale])
    totals = [max(float(m[0]), 1e-30) for m in second_moments(act, at)]
    degree = 64
    while degree <= 2048:
        energies = [c[0] ** 2 for c in hermite_coefficients(act, at, degree)]
        left = [abs(m - float(e.sum())) / m for m, e in zip(totals, energies, strict=True)]
        if max(left) <= 10 * tolerance:
            tails = [e[::-1].cumsum()[::-1] / m for m, e in zip(totals, energies, strict=True)]
            return int(np.max(np.nonzero(np.maximum(*tails) > tolerance)[0], initial=1))
        degree *= 2
    check_resolved(act, scale, from_scale=0.0)
    return None
