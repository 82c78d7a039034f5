"""Activation functions: what they are, their registry, and how a user names or brings one."""

from __future__ import annotations

import dataclasses
import difflib
import functools
import importlib
import math
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.polynomial import hermite_e
from numpy.typing import NDArray
from scipy.special import erf, expit, ndtr

from deqcli.closed_forms import ClosedForm, Erf, PiecewiseLinear, Sinusoid
from deqcli.errors import ActivationError

Function = Callable[[NDArray[Any]], NDArray[Any]]


@dataclasses.dataclass(frozen=True)
class Activation:
    r"""An activation :math:`\phi(x) = \tilde\phi(x) - c` with what the theory needs to know of it.

    Parameters
    ----------
    name : str
        The name that :func:`activation` understands, parameters included.
    function : callable
        :math:`\tilde\phi`, elementwise, array in and array of the same shape out.
    derivative : callable
        :math:`\tilde\phi'`, elementwise; at a kink, either one-sided value.
    kinks : tuple of float
        Where :math:`\tilde\phi` or a derivative jumps; quadrature splits there.
    lipschitz : float
        The Lipschitz constant L; infinite for polynomials of degree two or more.
    parameters : mapping of str to float
        The parameters that the name carries.
    shift : float
        The constant c; :meth:`centred` and :meth:`shifted` set it.
    closed_form : ClosedForm, optional
        Its Gaussian pair expectations, where they are known.

    Examples
    --------
    >>> act = activation("lrelu:slope=0.3").centred(sigma_a2=0.2, sigma_b2=0.8, tau0=1.0)
    >>> act.name, round(act.shift, 6)
    ('lrelu:slope=0.3', 0.262329)
    """

    name: str
    function: Function
    derivative: Function
    kinks: tuple[float, ...] = ()
    lipschitz: float = math.inf
    parameters: Mapping[str, float] = dataclasses.field(default_factory=dict, hash=False)
    shift: float = 0.0
    closed_form: ClosedForm | None = None

    def __call__(self, x: NDArray[Any]) -> NDArray[Any]:
        """Return ``function(x) - shift``, of the shape and floating type of ``x``."""
        return self.function(x) - self.shift if self.shift else self.function(x)

    def shifted(self, shift: float) -> Activation:
        """Return the same activation with ``shift`` subtracted (instead of any earlier shift)."""
        return dataclasses.replace(self, shift=float(shift))

    def centred(self, sigma_a2: float, sigma_b2: float, tau0: float) -> Activation:
        r"""Return the activation shifted so that :math:`E\phi(\tau_*\xi) = 0`.

        The shift and :math:`\tau_*^2 = \sigma_a^2 E\phi^2(\tau_*\xi) + \sigma_b^2\tau_0^2` are
        solved jointly (ICLR Remark 3; theory.md §3).
        """
        from deqcli.gaussian import centring

        return self.shifted(centring(self, sigma_a2, sigma_b2, tau0).shift)

    @staticmethod
    def from_function(
        function: Function,
        derivative: Function | None = None,
        kinks: tuple[float, ...] = (),
        lipschitz: float | None = None,
        name: str | None = None,
    ) -> Activation:
        """Wrap a function of one's own; what is not given is found numerically.

        Parameters
        ----------
        function, derivative : callable
            Elementwise, numpy array in and out. Without a derivative a fourth-order difference
            that never reaches across a kink takes its place.
        kinks : tuple of float
            Every point where the function or one of its derivatives jumps.
        lipschitz : float, optional
            Found on a grid over [-1000, 1000] when absent; infinite if the slope still grows there.
        """
        label = name or str(getattr(function, "__name__", "function"))
        kinks = tuple(sorted(float(k) for k in kinks))
        _check_elementwise(function, label)
        if derivative is None:
            derivative = functools.partial(_difference, function, kinks)
        else:
            _check_elementwise(derivative, f"the derivative of {label}")
        if lipschitz is None:
            lipschitz = _steepest(derivative)
        return Activation(label, function, derivative, kinks, float(lipschitz))


def activation(spec: str | Activation) -> Activation:
    """Return the activation that ``spec`` names.

    Parameters
    ----------
    spec : str or Activation
        ``name``, ``name:parameter=value,...`` or, for a function of one's own,
        ``package.module:function`` (found on the Python path or in the current folder; an
        attribute ``derivative``, ``kinks`` or ``lipschitz`` of the function is used).

    Examples
    --------
    >>> activation("htanh:a=1,c=2").parameters
    {'a': 1.0, 'c': 2.0}
    >>> activation("tahn")
    Traceback (most recent call last):
        ...
    deqcli.errors.ActivationError: unknown activation 'tahn': did you mean tanh, htanh or arctan?
    """
    if isinstance(spec, Activation):
        return spec
    if not isinstance(spec, str):
        raise ActivationError(
            f"an activation is a name or an Activation, not {type(spec).__name__}; "
            "wrap a function of your own with Activation.from_function."
        )
    name, _, arguments = spec.strip().partition(":")
    if name in REGISTRY:
        return REGISTRY[name](**_parse_parameters(name, arguments))
    if re.fullmatch(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", name) and re.fullmatch(
        r"[A-Za-z_]\w*", arguments
    ):
        return _imported(name, arguments)
    close = difflib.get_close_matches(name, REGISTRY, n=3, cutoff=0.5)
    listed = close or sorted(REGISTRY)
    hint = "did you mean " if close else "known are "
    names = ", ".join(listed[:-1]) + (" or " if close else " and ") + listed[-1]
    raise ActivationError(
        f"unknown activation {spec!r}: {hint}{names if len(listed) > 1 else listed[0]}"
        f"{'?' if close else '; a function of your own is package.module:function.'}"
    )


def _parse_parameters(name: str, text: str) -> dict[str, float]:
    factory = REGISTRY[name]
    known = PARAMETERS[name]
    values: dict[str, float] = {}
    for part in filter(None, text.split(",")):
        key, equals, number = part.partition("=")
        key = key.strip()
        if not equals or key not in known:
            legal = f"parameters are {', '.join(known)}" if known else "it takes no parameter"
            raise ActivationError(f"activation {name!r} does not understand {part!r}: {legal}.")
        try:
            values[key] = float(number)
        except ValueError:
            values[key] = math.nan
        if not math.isfinite(values[key]):
            raise ActivationError(
                f"activation {name!r}: {key} must be a finite number, not {number!r}."
            )
    assert factory is not None
    return values


def _imported(module: str, attribute: str) -> Activation:
    here = str(Path.cwd())
    added = here not in sys.path
    if added:
        sys.path.insert(0, here)
    try:
        found = getattr(importlib.import_module(module), attribute)
    except ModuleNotFoundError as error:
        close = difflib.get_close_matches(module, REGISTRY, n=1)
        hint = f"; did you mean the activation {close[0]}?" if close else ""
        raise ActivationError(
            f"activation {module}:{attribute}: no module named {error.name!r} on the Python path "
            f"or in the current folder{hint}"
        ) from error
    except AttributeError as error:
        raise ActivationError(
            f"activation {module}:{attribute}: the module has no {attribute!r}."
        ) from error
    except Exception as error:
        raise ActivationError(
            f"activation {module}:{attribute}: importing the module failed "
            f"({type(error).__name__}: {error})."
        ) from error
    finally:
        if added:
            sys.path.remove(here)
    spec = f"{module}:{attribute}"
    if isinstance(found, Activation):
        return dataclasses.replace(found, name=spec)
    if not callable(found):
        raise ActivationError(f"activation {spec}: {attribute!r} is not a function.")
    return Activation.from_function(
        found,
        derivative=getattr(found, "derivative", None),
        kinks=tuple(getattr(found, "kinks", ())),
        lipschitz=getattr(found, "lipschitz", None),
        name=spec,
    )


# A probe that no elementwise function can mistake for a scalar or a square matrix.
_PROBE = np.linspace(-3, 3, 6).reshape(2, 3)


def _check_elementwise(function: Function, label: str) -> None:
    try:
        value = np.asarray(function(_PROBE.copy()))
    except Exception as error:
        raise ActivationError(
            f"{label} failed on a numpy array ({type(error).__name__}: {error}); "
            "it must take and return an array."
        ) from error
    if value.shape != _PROBE.shape:
        raise ActivationError(
            f"{label} returned shape {value.shape} for an input of shape {_PROBE.shape}; "
            "it must be elementwise."
        )
    if value.dtype.kind not in "fiub" or not np.isfinite(value).all():
        raise ActivationError(f"{label} returned values that are not finite real numbers.")


def _difference(function: Function, kinks: tuple[float, ...], x: NDArray[Any]) -> NDArray[Any]:
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


def _steepest(derivative: Function) -> float:
    far = np.geomspace(10, 1000, 200)
    grid = np.concatenate([-far[::-1], np.linspace(-10, 10, 20001), far])
    with np.errstate(all="ignore"):
        slope = np.abs(np.asarray(derivative(grid), dtype=float))
    if not np.isfinite(slope).all():
        return math.inf
    top = float(slope.max())
    grows = max(slope[0], slope[-1]) > 1.01 * slope[np.abs(grid) <= 10].max()
    return math.inf if grows else top


# ---------------------------------------------------------------------------------------------
# The registry. Factories take their parameters by keyword, each with a default.


@dataclasses.dataclass(frozen=True)
class _Bound:
    """A function with its parameters; unlike ``functools.partial``, equal ones compare equal."""

    function: Callable[..., NDArray[Any]]
    parameters: tuple[Any, ...]

    def __init__(self, function: Callable[..., NDArray[Any]], *parameters: Any) -> None:
        object.__setattr__(self, "function", function)
        object.__setattr__(self, "parameters", parameters)

    def __call__(self, x: NDArray[Any]) -> NDArray[Any]:
        return self.function(*self.parameters, x)


def _tanh_slope(x: NDArray[Any]) -> NDArray[Any]:
    return 1 - np.tanh(x) ** 2


def _arctan_slope(x: NDArray[Any]) -> NDArray[Any]:
    return 1 / (1 + x * x)


def _erf_slope(x: NDArray[Any]) -> NDArray[Any]:
    return 2 / math.sqrt(math.pi) * np.exp(-x * x)


def _minus_sin(x: NDArray[Any]) -> NDArray[Any]:
    return -np.sin(x)


def _swish(x: NDArray[Any]) -> NDArray[Any]:
    return x * expit(x)


def _swish_slope(x: NDArray[Any]) -> NDArray[Any]:
    gate = expit(x)
    return gate * (1 + x * (1 - gate))


def _gelu(x: NDArray[Any]) -> NDArray[Any]:
    return x * ndtr(x)


def _gelu_slope(x: NDArray[Any]) -> NDArray[Any]:
    return ndtr(x) + x * np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)


def _softplus(x: NDArray[Any]) -> NDArray[Any]:
    return np.logaddexp(0, x)


def _elu(alpha: float, x: NDArray[Any]) -> NDArray[Any]:
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))


def _elu_slope(alpha: float, x: NDArray[Any]) -> NDArray[Any]:
    return np.where(x > 0, 1, alpha * np.exp(np.minimum(x, 0)))


def _two_slopes(right: float, left: float, x: NDArray[Any]) -> NDArray[Any]:
    return right * np.maximum(x, 0) + left * np.minimum(x, 0)


def _two_slopes_slope(right: float, left: float, x: NDArray[Any]) -> NDArray[Any]:
    dtype = np.result_type(x, 0.0)
    return np.where(x > 0, np.asarray(right, dtype), np.asarray(left, dtype))


def _htanh(a: float, c: float, x: NDArray[Any]) -> NDArray[Any]:
    return a * np.clip(x, -c, c)


def _htanh_slope(a: float, c: float, x: NDArray[Any]) -> NDArray[Any]:
    return a * (np.abs(x) < c).astype(np.asarray(x).dtype)


def _polynomial(coefficients: tuple[float, ...], x: NDArray[Any]) -> NDArray[Any]:
    total = np.zeros_like(x) + coefficients[-1]
    for c in coefficients[-2::-1]:
        total = total * x + c
    return total


def _smooth(
    name: str,
    function: Function,
    derivative: Function,
    lipschitz: float,
    closed_form: ClosedForm | None = None,
) -> Callable[..., Activation]:
    return lambda: Activation(
        name, function, derivative, lipschitz=lipschitz, closed_form=closed_form
    )


def _piecewise_linear(
    name: str, right: float, left: float, parameters: Mapping[str, float] | None = None
) -> Activation:
    kinked = right != left
    return Activation(
        name,
        _Bound(_two_slopes, right, left),
        _Bound(_two_slopes_slope, right, left),
        kinks=(0.0,) if kinked else (),
        lipschitz=max(abs(right), abs(left)),
        parameters=dict(parameters or {}),
        closed_form=PiecewiseLinear(
            0.0, left, *(((0.0,), (right - left,)) if kinked else ((), ()))
        ),
    )


def _format(name: str, **parameters: float) -> str:
    return f"{name}:" + ",".join(f"{key}={value!r}" for key, value in parameters.items())


def _make_lrelu(slope: float = 0.1) -> Activation:
    return _piecewise_linear(_format("lrelu", slope=slope), 1.0, slope, {"slope": slope})


def _make_maxlin(a: float = 1.0, b: float = 0.0) -> Activation:
    parameters = {"a": a, "b": b}
    return _piecewise_linear(_format("maxlin", **parameters), max(a, b), min(a, b), parameters)


def _make_htanh(a: float = 1.0, c: float = 1.0) -> Activation:
    if c <= 0:
        raise ActivationError(f"activation 'htanh': c must be positive, not {c:g}.")
    return Activation(
        _format("htanh", a=a, c=c),
        _Bound(_htanh, a, c),
        _Bound(_htanh_slope, a, c),
        kinks=(-c, c),
        lipschitz=abs(a),
        parameters={"a": a, "c": c},
        closed_form=PiecewiseLinear(-a * c, 0.0, (-c, c), (a, -a)),
    )


def _make_elu(alpha: float = 1.0) -> Activation:
    return Activation(
        _format("elu", alpha=alpha),
        _Bound(_elu, alpha),
        _Bound(_elu_slope, alpha),
        kinks=(0.0,),
        lipschitz=max(1.0, abs(alpha)),
        parameters={"alpha": alpha},
    )


def _make_polynomial(name: str, **coefficients: float) -> Activation:
    """Build ``sum_k a_k x^k`` from keywords ``a0, a1, ...``."""
    ascending = tuple(coefficients[f"a{k}"] for k in range(len(coefficients)))
    return _from_power_series(_format(name, **coefficients), ascending, coefficients)


def _make_quadratic(a2: float = 1.0, a1: float = 1.0, a0: float = 0.0) -> Activation:
    return _make_polynomial("quadratic", a2=a2, a1=a1, a0=a0)


def _make_cubic(a3: float = 1.0, a2: float = 1.0, a1: float = 1.0, a0: float = 0.0) -> Activation:
    return _make_polynomial("cubic", a3=a3, a2=a2, a1=a1, a0=a0)


def _make_hermite(scale: float = 1.0, **coefficients: float) -> Activation:
    r"""Build :math:`\sum_k c_k h_k(x/\text{scale})`, ``h_k`` orthonormal Hermite polynomials."""
    if scale <= 0:
        raise ActivationError(f"activation 'hermite': scale must be positive, not {scale:g}.")
    given = {key: coefficients[key] for key in sorted(coefficients)} or {"c1": 1.0}
    degree = max(int(key[1:]) for key in given)
    series = [given.get(f"c{k}", 0.0) / math.sqrt(math.factorial(k)) for k in range(degree + 1)]
    ascending = tuple(
        float(c) / scale**k for k, c in enumerate(hermite_e.herme2poly(np.array(series)))
    )
    parameters = {"scale": scale, **given}
    return _from_power_series(_format("hermite", **parameters), ascending, parameters)


def _from_power_series(
    name: str, ascending: tuple[float, ...], parameters: Mapping[str, float]
) -> Activation:
    slope = tuple(k * c for k, c in enumerate(ascending))[1:] or (0.0,)
    linear = not any(ascending[2:])
    return Activation(
        name,
        _Bound(_polynomial, ascending),
        _Bound(_polynomial, slope),
        lipschitz=abs(slope[0]) if linear else math.inf,
        parameters=dict(parameters),
    )


# The steepest point of swish solves x tanh(x/2) = 2; of gelu, x = sqrt(2).
_SWISH_TOP = float(_swish_slope(np.array(2.3993572805154186)))
_GELU_TOP = float(_gelu_slope(np.array(math.sqrt(2))))

REGISTRY: dict[str, Callable[..., Activation]] = {
    "identity": lambda: _piecewise_linear("identity", 1.0, 1.0),
    "tanh": _smooth("tanh", np.tanh, _tanh_slope, 1.0),
    "arctan": _smooth("arctan", np.arctan, _arctan_slope, 1.0),
    "erf": _smooth("erf", erf, _erf_slope, 2 / math.sqrt(math.pi), Erf()),
    "sin": _smooth("sin", np.sin, np.cos, 1.0, Sinusoid(cosine=False)),
    "cos": _smooth("cos", np.cos, _minus_sin, 1.0, Sinusoid(cosine=True)),
    "relu": lambda: _piecewise_linear("relu", 1.0, 0.0),
    "nrelu": lambda: _piecewise_linear("nrelu", math.sqrt(2), 0.0),
    "lrelu": _make_lrelu,
    "maxlin": _make_maxlin,
    "abs": lambda: _piecewise_linear("abs", 1.0, -1.0),
    "htanh": _make_htanh,
    "swish": _smooth("swish", _swish, _swish_slope, _SWISH_TOP),
    "gelu": _smooth("gelu", _gelu, _gelu_slope, _GELU_TOP),
    "softplus": _smooth("softplus", _softplus, expit, 1.0),
    "elu": _make_elu,
    "quadratic": _make_quadratic,
    "cubic": _make_cubic,
    "hermite": _make_hermite,
}

#: The parameters that each name understands.
PARAMETERS: dict[str, tuple[str, ...]] = {
    **{name: () for name in REGISTRY},
    "lrelu": ("slope",),
    "maxlin": ("a", "b"),
    "htanh": ("a", "c"),
    "elu": ("alpha",),
    "quadratic": ("a2", "a1", "a0"),
    "cubic": ("a3", "a2", "a1", "a0"),
    "hermite": ("scale", *(f"c{k}" for k in range(9))),
}
