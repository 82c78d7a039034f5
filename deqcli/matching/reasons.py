"""One sentence, with numbers, on why a family reaches a target or does not."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deqcli.matching.targets import SCALAR_NAMES, TITLES, TOLERANCE, Target
from deqcli.vocabulary import Kernel

Array = NDArray[np.float64]

_GREEK = {"alpha": "α", "beta": "β", "ell": "ℓ", "theta": "θ"}
_DIAGONAL = {"gamma2": "γ²", "tau2": "τ*²", "kappa2": "κ²", "theta0": "θ0"}


def symbols(target: Target) -> list[str]:
    """Return how the papers write the four scalars, the diagonal last.

    Examples
    --------
    >>> symbols(Target(Kernel.CK, 1.0, 0.0, 0.0, 1.0, 1.0, 1.0))
    ['α1', 'α2', 'α3', 'γ²']
    """
    names = SCALAR_NAMES[target.kernel]
    return [_GREEK[n[:-1]] + n[-1] for n in names[:3]] + [_DIAGONAL[names[3]]]


def _part(target: Target) -> tuple[str, float]:
    r"""Return how :math:`c_3/2` (CK) or :math:`c_3/6` (NTK) is written, and what it is.

    One hidden layer has this for :math:`c_2`: :math:`c_2 = \frac14m_2^2`,
    :math:`c_3 = \frac12m_2^2` and, for the NTK, :math:`\frac32m_2^2` (theory.md §5). Both kernels
    of a DEQ have it together, when :math:`\alpha_4 = \ell_1`.
    """
    sign, divisor = ("½", 2) if target.twin is Kernel.CK else ("⅙", 6)
    return sign + symbols(target)[2], target.c3 / divisor


def one_layer_will_do(target: Target) -> bool:
    """Whether the even part is that of one hidden layer."""
    return bool(abs(target.c2 - _part(target)[1]) <= TOLERANCE * target.denominators[1])


def _gap_text(target: Target) -> str:
    (text, part), digits = _part(target), 4
    while digits < 10 and f"{target.c2:.{digits}f}" == f"{part:.{digits}f}":
        digits += 1
    two = symbols(target)[1]
    return (
        f"{two} = {target.c2:.{digits}f} ≠ {text} = {part:.{digits}f}: "
        "one hidden layer cannot match"
    )


def _excess_text(target: Target) -> str:
    one, _, _, diagonal = symbols(target)
    return f"R = {diagonal}/({one} τ0²) = {target.excess:.4f}"


def why_depth(target: Target) -> str:
    """Say what the target asks of the depth."""
    _, two, three, _ = symbols(target)
    if not target.curved:
        return f"{two} = {three} = 0 and {_excess_text(target)}"
    if one_layer_will_do(target):
        return f"{two} = {_part(target)[0]} = {target.c2:.4g}, as one hidden layer has"
    return _gap_text(target)


def success(target: Target, family: str, layers: int) -> str:
    """Say why the chosen network does it."""
    title = TITLES[family]
    if not target.curved and target.excess - 1 <= TOLERANCE:
        limit = ", the limit c → ∞ of H-Tanh," if family == "htanh" else ""
        return f"{why_depth(target)}: a linear network{limit} matches."
    if family == "htanh":
        bound = "in [1, π/2)" if target.twin is Kernel.CK else "at least 1"
        return f"{why_depth(target)} is {bound}: one hidden layer of H-Tanh matches."
    count, verb = ("one hidden layer", "matches") if layers == 1 else ("two layers", "match")
    return f"{why_depth(target)}; {count} of {title} activation {verb}."


def failure(target: Target, family: str, layers: int, residuals: Array) -> str:
    """Say what keeps a family from the target; without a full stop."""
    one, two, three, diagonal = symbols(target)
    title = TITLES[family]
    worst = int(np.argmax(np.abs(residuals[:4])))
    closest = f"the nearest misses {symbols(target)[worst]} by {abs(residuals[worst]):.1e}"
    if family == "htanh":
        if target.curved:
            return (
                f"{two} = {target.c2:.4g} and {three} = {target.c3:.4g} are not zero, "
                "which they are for H-Tanh as for every odd activation"
            )
        if target.excess < 1:
            return f"{_excess_text(target)} is below 1, which no activation reaches"
        return f"{_excess_text(target)} is not below π/2 = 1.5708, where H-Tanh ends"
    if layers == 1 and not one_layer_will_do(target):
        return _gap_text(target)
    if not target.curved and family != "cubic":
        return (
            f"{two} = {three} = 0 leaves {title} layers linear with R = 1, "
            f"but {_excess_text(target)}"
        )
    if layers == 1:
        if family == "cubic":
            return f"{diagonal} = {target.d:.4g} is less than its linear and quadratic parts"
        return f"one {title} layer has two numbers for three scalars: {closest}"
    if family == "lrelu" and target.twin is Kernel.CK:
        if target.c2 < target.c3 / 2:
            return (
                f"{two} = {target.c2:.4g} < ½{three} = {target.c3 / 2:.4g}, out of L-ReLU's reach"
            )
        left = target.d / target.tau0**2 - target.c1
        right = (2 * math.pi - 4) * target.tau0**2 * target.c2
        if abs(left - right) > TOLERANCE * left:
            return (
                f"L-ReLU layers have {diagonal}/τ0² − {one} = (2π − 4)τ0²{two}, "
                f"but {left:.4g} ≠ {right:.4g}"
            )
    if family == "cubic":
        return f"two cubic layers do not reach it: {closest}"
    return f"two {title} layers have three free numbers for four scalars: {closest}"


def describe(record: Mapping[str, Any]) -> Iterator[str]:
    """Say in lines what a twin is made of, from its record.

    Examples
    --------
    >>> from deqcli.matching import match
    >>> list(describe(match("identity", 0.2).as_record()))[0]
    '  layer 1: maxlin:a=1.0,b=1.0, shift 0.0'
    """
    for place, layer in enumerate(record["activations"], start=1):
        yield f"  layer {place}: {layer['name']}, shift {layer['shift']!r}"
    for name, achieved in record["achieved"].items():
        yield (
            f"  {name}: DEQ {record['target'][name]:.10g}, twin {achieved:.10g} "
            f"(relative residual {record['residuals'][name]:.1e})"
        )
    for what in ("diagonal", "linear"):
        if slope := record.get(f"{what}_slope"):
            yield (
                f"  {what} slope: DEQ {slope['target']:.6g}, twin {slope['achieved']:.6g} "
                f"(mismatch {slope['mismatch']:.1e})"
            )
    design = record.get("design")
    if design:
        pairs = f"{design['pairs']} pair{'s' * (design['pairs'] > 1)}"
        yield (
            f"  fitted to {design['rows']} samples ({pairs}), judged on {design['held_out']} others"
        )
    if ends := record.get("norms_range"):
        kind = "data" if design else "Gaussian data"
        yield (
            f"  within what is asked for on {kind} of root mean squared norm {ends[0]:.3g} to "
            f"{ends[1]:.3g}, searched from half to twice its own"
        )
