"""Activation functions and their derivatives, elementwise, in the floating type they are given.

And for a function of the user's own: is it elementwise, how steep is it, what is its derivative?
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Hashable
from types import FunctionType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, ndtr

from deqcli.checks import one_line
from deqcli.errors import ActivationError

Function = Callable[[NDArray[Any]], NDArray[Any]]


@dataclasses.dataclass(frozen=True)
class Bound:
    """A function with its parameters; unlike ``functools.partial``, equal ones compare equal."""

    function: Callable[..., NDArray[Any]]
    parameters: tuple[Any, ...]

    def __init__(self, function: Callable[..., NDArray[Any]], *parameters: Any) -> None:
        object.__setattr__(self, "function", function)
        object.__setattr__(self, "parameters", parameters)

    def __call__(self, x: NDArray[Any]) -> NDArray[Any]:
        """Apply the function."""
        return self.function(*self.parameters, x)


def tanh_slope(x: NDArray[Any]) -> NDArray[Any]:
    """Return 1 - tanh(x)^2."""
    return 1 - np.tanh(x) ** 2


def arctan_slope(x: NDArray[Any]) -> NDArray[Any]:
    """Return 1 / (1 + x^2)."""
    return 1 / (1 + x * x)


def erf_slope(x: NDArray[Any]) -> NDArray[Any]:
    """Return 2/sqrt(pi) exp(-x^2)."""
    return 2 / math.sqrt(math.pi) * np.exp(-x * x)


def minus_sin(x: NDArray[Any]) -> NDArray[Any]:
    """Return -sin(x), the cosine's derivative."""
    return -np.sin(x)


def swish(x: NDArray[Any]) -> NDArray[Any]:
    """Return x / (1 + exp(-x))."""
    return x * expit(x)


def swish_slope(x: NDArray[Any]) -> NDArray[Any]:
    """Swish's derivative."""
    gate = expit(x)
    return gate * (1 + x * (1 - gate))


def gelu(x: NDArray[Any]) -> NDArray[Any]:
    """Return x Phi(x), Phi the normal distribution function."""
    return x * ndtr(x)


def gelu_slope(x: NDArray[Any]) -> NDArray[Any]:
    """GELU's derivative, Phi(x) + x times the normal density."""
    return ndtr(x) + x * np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)


def softplus(x: NDArray[Any]) -> NDArray[Any]:
    """Return log(1 + exp(x)), without overflow."""
    return np.logaddexp(0, x)


def elu(alpha: float, x: NDArray[Any]) -> NDArray[Any]:
    """Return x above zero, alpha (exp(x) - 1) below."""
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))


def elu_slope(alpha: float, x: NDArray[Any]) -> NDArray[Any]:
    """ELU's derivative."""
    return np.where(x > 0, 1, alpha * np.exp(np.minimum(x, 0)))


def two_slopes(right: float, left: float, x: NDArray[Any]) -> NDArray[Any]:
    """One slope above zero, another below: ReLU and its relatives."""
    return right * np.maximum(x, 0) + left * np.minimum(x, 0)


def two_slopes_slope(right: float, left: float, x: NDArray[Any]) -> NDArray[Any]:
    """The derivative of :func:`two_slopes`; at zero the left slope."""
    dtype = np.result_type(x, 0.0)
    return np.where(x > 0, np.asarray(right, dtype), np.asarray(left, dtype))


def htanh(a: float, c: float, x: NDArray[Any]) -> NDArray[Any]:
    """Return a clip(x, -c, c)."""
    return a * np.clip(x, -c, c)


def htanh_slope(a: float, c: float, x: NDArray[Any]) -> NDArray[Any]:
    """Hard tanh's derivative: a inside (-c, c), zero outside."""
    return a * (np.abs(x) < c).astype(np.asarray(x).dtype)


def linear_spline(
    slope: float, knots: tuple[float, ...], jumps: tuple[float, ...], x: NDArray[Any]
) -> NDArray[Any]:
    """Return ``slope x + sum_j jumps_j (x - knots_j)_+``."""
    total = slope * x
    for knot, jump in zip(knots, jumps, strict=True):
        total = total + jump * np.maximum(x - knot, 0)
    return total


def linear_spline_slope(
    slope: float, knots: tuple[float, ...], jumps: tuple[float, ...], x: NDArray[Any]
) -> NDArray[Any]:
    """The derivative of :func:`linear_spline`; at a knot the left slope."""
    values = np.cumsum([slope, *jumps]).astype(np.result_type(x, 0.0))
    return np.asarray(values[np.searchsorted(knots, x, side="left")])


def polynomial(coefficients: tuple[float, ...], x: NDArray[Any]) -> NDArray[Any]:
    """A polynomial by its coefficients in ascending order (Horner)."""
    total = np.zeros_like(x) + coefficients[-1]
    for c in coefficients[-2::-1]:
        total = total * x + c
    return total


# Not square, so that a function which sums or transposes returns another shape.
_PROBE = np.linspace(-3, 3, 6).reshape(2, 3)


@dataclasses.dataclass(frozen=True)
class Guarded:
    """A function of the user's own: whatever it does wrong is a sentence that names it.

    Its input is read-only, since others hold the same numbers.
    """

    function: Function
    label: str

    def __call__(self, x: NDArray[Any]) -> NDArray[Any]:
        """Apply the function, and look at what it returns."""
        x = np.asarray(x)
        view = x.view()
        view.flags.writeable = False
        try:
            # What overflows is looked at by whoever asked.
            with np.errstate(all="ignore"):
                value = np.asarray(self.function(view))
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            raise ActivationError(
                f"{self.label} failed on a numpy array of shape {x.shape} "
                f"({type(error).__name__}: {one_line(error)}); it must take and return an array."
            ) from error
        if value.shape != x.shape:
            raise ActivationError(
                f"{self.label} returned shape {value.shape} for an input of shape {x.shape}; "
                "it must be elementwise."
            )
        if value.dtype.kind not in "fiub":
            raise ActivationError(f"{self.label} returned values that are no real numbers.")
        return value if value.flags.writeable else value.copy()


def is_known(function: Function) -> bool:
    """Tell whether a function is one of numpy, scipy or this module, which needs no guard."""
    own = isinstance(function, FunctionType) and function.__module__ == __name__
    return own or isinstance(function, np.ufunc)


def name_of(function: Function) -> str:
    """Return what a function calls itself."""
    try:
        return str(getattr(function, "__name__", "function"))
    except Exception:  # an object of the user's own may raise anything
        return "function"


def guarded(function: Function, label: str) -> Guarded:
    """Wrap a function that maps an array to a finite one of its shape; refuse any other."""
    wrapped = Guarded(function, label)
    if not isinstance(function, Hashable) or not callable(function):
        raise ActivationError(f"{label} is a {type(function).__name__}; give a function.")
    if not np.isfinite(wrapped(_PROBE)).all():
        raise ActivationError(f"{label} returned values that are not finite real numbers.")
    return wrapped


def difference(function: Function, kinks: tuple[float, ...], x: NDArray[Any]) -> NDArray[Any]:
    """Fourth-order difference quotient, one-sided within reach of a kink."""
    x = np.asarray(x, dtype=float)
    step = 1e-3
    near_right = np.zeros(x.shape, dtype=bool)
    near_left = np.zeros(x.shape, dtype=bool)
    for k in kinks:
        near_right |= (x >= k) & (x < k + 2 * step)
        near_left |= (x < k) & (x > k - 2 * step)
    central = (-1, 8, -8, 1), (2, 1, -1, -2)
    forward = (-25, 48, -36, 16, -3), (0, 1, 2, 3, 4)
    f = [c * function(x + o * step) for c, o in zip(*central, strict=True)]
    slope = np.sum(f, axis=0) / (12 * step)
    for near, side in ((near_right, 1), (near_left, -1)):
        if near.any():
            at = x[near]
            g = [c * function(at + side * o * step) for c, o in zip(*forward, strict=True)]
            slope[near] = side * np.sum(g, axis=0) / (12 * step)
    return np.asarray(slope)


def check_derivative(
    function: Function, derivative: Function, kinks: tuple[float, ...], label: str
) -> None:
    """Refuse a derivative that is not the function's, at more than a tenth of many points.

    Examples
    --------
    >>> check_derivative(np.sin, np.cos, (), "sin")
    """
    x = np.linspace(-3, 3, 61)
    with np.errstate(all="ignore"):
        given = np.asarray(derivative(x), dtype=float)
        found = difference(function, kinks, x)
        off = np.abs(given - found) / (1 + np.abs(found))
    off[~np.isfinite(found)] = 0.0
    if np.mean(off > 1e-3) > 0.1:
        worst = int(off.argmax())
        raise ActivationError(
            f"{label}: its `derivative` is {given[worst]:.4g} at {x[worst]:.4g}, where its slope "
            f"is {found[worst]:.4g}; give the right one, or none."
        )


def _wide_grid() -> NDArray[np.float64]:
    far = np.geomspace(10, 1000, 200)
    return np.concatenate([-far[:0:-1], np.linspace(-10, 10, 20001), far[1:]])


def steepest_secant(function: Function) -> float:
    """Return the largest slope between neighbours on [-1000, 1000], which no constant undercuts."""
    grid = _wide_grid()
    with np.errstate(all="ignore"):
        slopes = np.abs(np.diff(np.asarray(function(grid), dtype=float)) / np.diff(grid))
    return float(np.max(slopes, where=np.isfinite(slopes), initial=0.0))


def steepest(derivative: Function) -> float:
    """Return the largest slope on [-1000, 1000], infinite if it still grows at the ends."""
    grid = _wide_grid()
    with np.errstate(all="ignore"):
        slope = np.abs(np.asarray(derivative(grid), dtype=float))
    if not np.isfinite(slope).all():
        return math.inf
    top = float(slope.max())
    grows = max(slope[0], slope[-1]) > 1.01 * slope[np.abs(grid) <= 10].max()
    return math.inf if grows else top


def jumps(function: Function, kinks: tuple[float, ...]) -> bool:
    """Tell whether the function itself jumps at a kink: its change hardly falls with the distance.

    Examples
    --------
    >>> jumps(np.sign, (0.0,)), jumps(np.abs, (0.0,)), jumps(lambda x: np.clip(x, -1, 1), (-1, 1))
    (True, False, False)
    """
    at = np.asarray(kinks, dtype=float)
    with np.errstate(all="ignore"):
        far, near = (
            np.abs(np.asarray(function(at + h), float) - np.asarray(function(at - h), float))
            for h in (1e-5 * (1 + np.abs(at)), 1e-7 * (1 + np.abs(at)))
        )
    return bool(np.any((near > 0.5 * far) & (far > 1e-6)))


#: Where kinks are looked for: a pre-activation is hardly ever beyond.
_REACH = 20.0
#: A jump of the slope counts from this part of the steepest slope on.
_JUMP = 1e-3
_MOST_KINKS = 50


def find_kinks(function: Function, label: str) -> tuple[float, ...]:
    r"""Return where a function or its slope jumps on [-20, 20].

    The second difference :math:`(f(x+h) - 2f(x) + f(x-h))/h` falls like h where f is smooth and
    keeps its size at a jump of the slope; places where it is large are looked at again with h ten
    times smaller, six times.

    Examples
    --------
    >>> find_kinks(lambda x: np.clip(x, -1, 0.25), "hard"), find_kinks(np.tanh, "tanh")
    ((-1.0, 0.25), ())
    """
    step = 5e-3
    at = np.arange(-_REACH, _REACH + step / 2, step)
    first = _second_difference(function, at, step)
    with np.errstate(all="ignore"):
        slopes = np.abs(np.diff(function(at).astype(float)) / step)
    scale = float(np.max(slopes, where=np.isfinite(slopes), initial=0.0))
    keep = first > _JUMP * scale
    at, first = at[keep], first[keep]
    for _ in range(6):
        step /= 10
        finer = at[:, None] + step * np.arange(-10, 11)
        differences = _second_difference(function, finer, step)
        best = differences.argmax(axis=1)
        rows = np.arange(len(at))
        at, now = finer[rows, best], differences[rows, best]
        keep = (now > 0.3 * first) & (now > _JUMP * scale)
        at, first = at[keep], first[keep]
        if not at.size:
            return ()
    rounded = np.round(at, 6)
    at = np.where(np.abs(rounded - at) < 3 * step, rounded, at)
    places = np.unique(np.round(at, 8)) + 0.0
    apart = places[np.append(True, np.diff(places) > 1e-6)]
    if apart.size > _MOST_KINKS:
        raise ActivationError(
            f"{label} jumps at {apart.size} places or more between -20 and 20; give `kinks`, or a "
            "function that is smooth but for a few."
        )
    return tuple(apart.tolist())


def _second_difference(function: Function, x: NDArray[Any], step: float) -> NDArray[Any]:
    """Return its size over the step; 0 where the function is not finite."""
    with np.errstate(all="ignore"):
        ends = function(x + step).astype(float) + function(x - step).astype(float)
        difference = np.abs(ends - 2 * function(x).astype(float)) / step
    return np.where(np.isfinite(difference), difference, 0.0)
