"""Activation functions: what they are, their registry, and how a user names or brings one."""

from __future__ import annotations

import dataclasses
import difflib
import hashlib
import importlib
import inspect
import math
import re
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.polynomial import hermite_e
from scipy.special import erf, expit

from deqcli import activation_functions as functions
from deqcli import checks
from deqcli.activation_class import SIZE
from deqcli.activation_class import Activation as Activation
from deqcli.activation_functions import Function
from deqcli.checks import one_line, shown
from deqcli.closed_forms import ClosedForm, Erf, PiecewiseLinear, Sinusoid
from deqcli.errors import ActivationError, InputError
from deqcli.vocabulary import Named

#: What every function takes for an activation.
ActivationLike = Activation | str | Function


def activation(
    name: ActivationLike,
    *,
    derivative: Function | None = None,
    kinks: tuple[float, ...] | None = None,
    lipschitz: float | None = None,
) -> Activation:
    r"""Return the activation of a name, or of a function.

    Two facts decide what the theory can say of a function, and both are looked for when they are
    not given. *Kinks*, where it or its slope jumps, split every Gaussian integral. The *Lipschitz
    constant* L bounds the recurrence: an equilibrium exists for :math:`\sigma_a^2 < 1/L^2`, so
    that an activation without one (a square, an exponential) has none for sure, and only
    ``sigma_a2=0`` is allowed.

    Parameters
    ----------
    name : str, Activation or callable
        ``name``, ``name:parameter=value,...`` or, for a function of one's own,
        ``package.module:function`` (found on the Python path or in the current folder; an
        attribute ``derivative``, ``kinks`` or ``lipschitz`` of the function is used). A callable
        takes a numpy array and returns one of the same shape, elementwise; those that the registry
        has, such as ``np.tanh``, are the same as their names.
    derivative, kinks, lipschitz
        Of a callable, where they are known: see :meth:`Activation.from_function`.

    Examples
    --------
    >>> activation(np.tanh) == activation("tanh")
    True
    >>> activation(lambda x: np.maximum(x, 0.3 * x))
    Activation
      name       <lambda>
      kinks      0
      Lipschitz  1
      shift      0
    >>> activation("htanh:a=1,c=2").parameters
    {'a': 1.0, 'c': 2.0}
    >>> activation("tahn")
    Traceback (most recent call last):
        ...
    deqcli.errors.ActivationError: unknown activation 'tahn': did you mean tanh, htanh or arctan?
    """
    known = {"derivative": derivative, "kinks": kinks, "lipschitz": lipschitz}
    if callable(name) and not isinstance(name, Activation | type):
        registered = _registered(name)
        if registered is None or any(value is not None for value in known.values()):
            return Activation.from_function(name, derivative, kinks, lipschitz)
        return registered
    for parameter, value in known.items():
        if value is not None:
            raise ActivationError(
                f"`{parameter}` is {shown(value)}, but {shown(name)} knows its own; leave it out."
            )
    if isinstance(name, Named):
        name = name.meaning
    if isinstance(name, Activation):
        return name
    if not isinstance(name, str):
        raise ActivationError(
            f"an activation is a name, a function or an Activation, not {type(name).__name__}."
        )
    base, _, arguments = name.strip().partition(":")
    if base in REGISTRY:
        return REGISTRY[base](**_parse_parameters(base, arguments))
    if re.fullmatch(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", base) and re.fullmatch(
        r"[A-Za-z_]\w*", arguments
    ):
        return _imported(base, arguments)
    if "@" in base:
        raise ActivationError(
            f"activation {name!r} was a function of somebody's Python; write it to a file and name "
            "it module:function."
        )
    close = difflib.get_close_matches(base, REGISTRY, n=3, cutoff=0.5)
    listed = close or sorted(REGISTRY)
    hint = "did you mean " if close else "known are "
    names = ", ".join(listed[:-1]) + (" or " if close else " and ") + listed[-1]
    raise ActivationError(
        f"unknown activation {name!r}: {hint}{names if len(listed) > 1 else listed[0]}"
        f"{'?' if close else '; a function of your own is package.module:function.'}"
    )


def activations(acts: Any, name: str) -> tuple[Activation, ...]:
    """Return one activation or several as a tuple; ``name`` is that of the parameter.

    Examples
    --------
    >>> [act.name for act in activations(["tanh", "relu"], "acts")]
    ['tanh', 'relu']
    """
    if isinstance(acts, str) or (callable(acts) and not isinstance(acts, type)):
        return (activation(acts),)
    if not isinstance(acts, Sequence) or not acts:
        raise ActivationError(
            f"`{name}` is {shown(acts)}; an explicit network needs a list of at least one "
            "activation."
        )
    return tuple(map(activation, acts))


def named(acts: Any) -> Any:
    """Return the text by which settings know an activation, or those of a list; texts stay.

    A function that no text means gets one, with a hash of what it computes, and goes with it.

    Examples
    --------
    >>> named(np.tanh), named(["relu", activation("htanh:c=2")])
    ('tanh', ['relu', 'htanh:a=1.0,c=2.0'])
    >>> activation(named(lambda x: np.minimum(x, 1.0))).kinks
    (1.0,)
    """
    if isinstance(acts, list | tuple):
        return [named(act) for act in acts]
    if isinstance(acts, str | type) or not callable(acts):
        return acts
    act = activation(acts)
    try:
        if activation(act.name) == act:
            return act.name
    except ActivationError:
        pass
    x = np.linspace(-10, 10, 2001)
    content = np.concatenate([act(x), act.derivative(x), act.kinks, [act.lipschitz]])
    name = f"{act.name}@{hashlib.sha256(content.tobytes()).hexdigest()[:8]}"
    return Named(name, dataclasses.replace(act, name=name))


def _registered(function: object) -> Activation | None:
    """Return the activation of the registry that is this very function, such as ``np.tanh``."""
    if function is np.abs:
        return activation("abs")
    names = ("tanh", "arctan", "erf", "sin", "cos")
    return next((act for act in map(activation, names) if act.function is function), None)


def _parse_parameters(name: str, text: str) -> dict[str, float]:
    known = PARAMETERS[name]
    values: dict[str, float] = {}
    for part in filter(None, text.split(",")):
        key, equals, number = part.partition("=")
        key = key.strip()
        if not equals or key not in known:
            legal = f"parameters are {', '.join(known)}" if known else "it takes no parameter"
            raise ActivationError(f"activation {name!r} does not understand {part!r}: {legal}.")
        try:
            values[key] = checks.number(number, key, float, SIZE)
        except InputError as error:
            raise ActivationError(f"activation {name!r}: {error}") from None
    return values


def _imported(module: str, attribute: str) -> Activation:
    here = str(Path.cwd())
    added = here not in sys.path
    if added:
        sys.path.insert(0, here)
    try:
        function = getattr(importlib.import_module(module), attribute)
        declared = {
            key: getattr(function, key, None) for key in ("derivative", "kinks", "lipschitz")
        }
    except ModuleNotFoundError as error:
        close = difflib.get_close_matches(module, REGISTRY, n=1)
        hint = f"; did you mean the activation {close[0]}?" if close else "."
        raise ActivationError(
            f"activation {module}:{attribute}: no module named {error.name!r} on the Python path "
            f"or in the current folder{hint}"
        ) from error
    except AttributeError as error:
        raise ActivationError(
            f"activation {module}:{attribute}: the module has no {attribute!r}."
        ) from error
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise ActivationError(
            f"activation {module}:{attribute}: importing the module failed "
            f"({type(error).__name__}: {one_line(error)})."
        ) from error
    finally:
        if added:
            sys.path.remove(here)
    name = f"{module}:{attribute}"
    if isinstance(function, Activation):
        return dataclasses.replace(function, name=name)
    if not callable(function):
        raise ActivationError(f"activation {name}: {attribute!r} is not a function.")
    return Activation.from_function(function, **declared, name=name)


# ---------------------------------------------------------------------------------------------
# The registry. Factories take their parameters by keyword, each with a default.


def _smooth(
    name: str,
    function: Function,
    derivative: Function,
    lipschitz: float,
    closed_form: ClosedForm | None = None,
) -> Callable[..., Activation]:
    return cache(
        lambda: Activation(name, function, derivative, lipschitz=lipschitz, closed_form=closed_form)
    )


def _format(name: str, **parameters: float) -> str:
    return ":".join([name, ",".join(f"{key}={value!r}" for key, value in parameters.items())])


def _two_slopes(name: str, right: float, left: float, **parameters: float) -> Activation:
    kinks, jumps = ((0.0,), (right - left,)) if right != left else ((), ())
    return Activation(
        _format(name, **parameters) if parameters else name,
        functions.Bound(functions.two_slopes, right, left),
        functions.Bound(functions.two_slopes_slope, right, left),
        kinks=kinks,
        lipschitz=max(abs(right), abs(left)),
        parameters=parameters,
        closed_form=PiecewiseLinear(0.0, left, kinks, jumps),
    )


def _make_htanh(a: float = 1.0, c: float = 1.0) -> Activation:
    if c <= 0:
        raise ActivationError(f"activation 'htanh': `c` is {c:g}; give more than 0.")
    return Activation(
        _format("htanh", a=a, c=c),
        functions.Bound(functions.htanh, a, c),
        functions.Bound(functions.htanh_slope, a, c),
        kinks=(-c, c),
        lipschitz=abs(a),
        parameters={"a": a, "c": c},
        closed_form=PiecewiseLinear(-a * c, 0.0, (-c, c), (a, -a)),
    )


def _make_spline(slope: float = 1.0, **pieces: float) -> Activation:
    r"""Build :math:`\text{slope}\,x + \sum_j d_j(x - k_j)_+`; a knot that is not named is 0."""
    numbers = sorted({int(key[1:]) for key in pieces})
    ramps = sorted((pieces.get(f"k{n}", 0.0), pieces.get(f"d{n}", 0.0)) for n in numbers)
    knots, jumps = tuple(k for k, _ in ramps), tuple(d for _, d in ramps)
    return Activation(
        _format("spline", slope=slope, **pieces),
        functions.Bound(functions.linear_spline, slope, knots, jumps),
        functions.Bound(functions.linear_spline_slope, slope, knots, jumps),
        kinks=knots,
        lipschitz=float(np.abs(np.cumsum([slope, *jumps])).max()),
        parameters={"slope": slope, **pieces},
        closed_form=PiecewiseLinear(0.0, slope, knots, jumps),
    )


def _make_elu(alpha: float = 1.0) -> Activation:
    return Activation(
        _format("elu", alpha=alpha),
        functions.Bound(functions.elu, alpha),
        functions.Bound(functions.elu_slope, alpha),
        kinks=(0.0,),
        lipschitz=max(1.0, abs(alpha)),
        parameters={"alpha": alpha},
    )


def _make_hermite(scale: float = 1.0, **coefficients: float) -> Activation:
    r"""Build :math:`\sum_k c_k h_k(x/\text{scale})`, ``h_k`` orthonormal Hermite polynomials."""
    if scale <= 0:
        raise ActivationError(f"activation 'hermite': `scale` is {scale:g}; give more than 0.")
    coefficients = {key: coefficients[key] for key in sorted(coefficients)} or {"c1": 1.0}
    terms = range(1 + max(int(key[1:]) for key in coefficients))
    series = [coefficients.get(f"c{k}", 0.0) / math.sqrt(math.factorial(k)) for k in terms]
    powers = hermite_e.herme2poly(np.array(series))
    with np.errstate(all="ignore"):
        ascending = powers / np.float64(scale) ** np.arange(powers.size)
    if not np.isfinite(ascending).all():
        raise ActivationError(f"activation 'hermite': `scale` is {scale:g}; give a larger one.")
    return _polynomial("hermite", tuple(ascending.tolist()), scale=scale, **coefficients)


def _polynomial(name: str, ascending: tuple[float, ...], **parameters: float) -> Activation:
    """Build ``sum_k a_k x^k``."""
    slope = tuple(k * c for k, c in enumerate(ascending))[1:] or (0.0,)
    return Activation(
        _format(name, **parameters),
        functions.Bound(functions.polynomial, ascending),
        functions.Bound(functions.polynomial, slope),
        lipschitz=math.inf if any(ascending[2:]) else abs(slope[0]),
        parameters=parameters,
    )


# The steepest point of swish solves x tanh(x/2) = 2; of gelu, x = sqrt(2).
_SWISH_TOP = float(functions.swish_slope(np.array(2.3993572805154186)))
_GELU_TOP = float(functions.gelu_slope(np.array(math.sqrt(2))))

REGISTRY: dict[str, Callable[..., Activation]] = {
    "identity": lambda: _two_slopes("identity", 1.0, 1.0),
    "tanh": _smooth("tanh", np.tanh, functions.tanh_slope, 1.0),
    "arctan": _smooth("arctan", np.arctan, functions.arctan_slope, 1.0),
    "erf": _smooth("erf", erf, functions.erf_slope, 2 / math.sqrt(math.pi), Erf()),
    "sin": _smooth("sin", np.sin, np.cos, 1.0, Sinusoid(cosine=False)),
    "cos": _smooth("cos", np.cos, functions.minus_sin, 1.0, Sinusoid(cosine=True)),
    "relu": lambda: _two_slopes("relu", 1.0, 0.0),
    "nrelu": lambda: _two_slopes("nrelu", math.sqrt(2), 0.0),
    "lrelu": lambda slope=0.1: _two_slopes("lrelu", 1.0, slope, slope=slope),
    "maxlin": lambda a=1.0, b=0.0: _two_slopes("maxlin", max(a, b), min(a, b), a=a, b=b),
    "abs": lambda: _two_slopes("abs", 1.0, -1.0),
    "htanh": _make_htanh,
    "spline": _make_spline,
    "swish": _smooth("swish", functions.swish, functions.swish_slope, _SWISH_TOP),
    "gelu": _smooth("gelu", functions.gelu, functions.gelu_slope, _GELU_TOP),
    "softplus": _smooth("softplus", functions.softplus, expit, 1.0),
    "elu": _make_elu,
    "quadratic": lambda a2=1.0, a1=1.0, a0=0.0: _polynomial(
        "quadratic", (a0, a1, a2), a2=a2, a1=a1, a0=a0
    ),
    "cubic": lambda a3=1.0, a2=1.0, a1=1.0, a0=0.0: _polynomial(
        "cubic", (a0, a1, a2, a3), a3=a3, a2=a2, a1=a1, a0=a0
    ),
    "hermite": _make_hermite,
}

#: The parameters that each name understands.
PARAMETERS: dict[str, tuple[str, ...]] = {
    name: tuple(inspect.signature(factory).parameters) for name, factory in REGISTRY.items()
} | {
    "hermite": ("scale", *(f"c{k}" for k in range(9))),
    "spline": ("slope", *(f"{key}{n}" for n in range(1, 10) for key in "kd")),
}
