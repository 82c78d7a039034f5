"""Twins by scalars: the network whose four scalars are the DEQ's, and why it is that one."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np

from deqcli.activations import Activation
from deqcli.checks import shown
from deqcli.errors import InputError
from deqcli.matching.layers import NUMBERS
from deqcli.matching.reasons import failure, success
from deqcli.matching.result import Attempt, Match, Slope
from deqcli.matching.solve import solve
from deqcli.matching.targets import SIZES, TITLES, TOLERANCE, Target, network, network_target
from deqcli.scalars import ImplicitScalars, explicit_scalars

#: What ``auto`` tries, in this order: shallow first, the papers' families first.
_ORDER = (("htanh", 1), ("lrelu", 1), ("cubic", 1), ("lrelu", 2), ("cubic", 2))
# A mismatch of the linear coefficient's slope that is none.
_STRAIGHT = 1e-6


def match_target(
    target: Target,
    *,
    family: str = "auto",
    layers: int | str = "auto",
    deq: ImplicitScalars | None = None,
) -> Match:
    """Find an explicit network for a target from anywhere; see :func:`match`.

    Examples
    --------
    >>> target, _ = network_target(["tanh"])
    >>> match_target(target).family
    'htanh'
    """
    chosen = plan(family, layers, _ORDER, SIZES)
    tried: list[Match] = []
    for name, depth in chosen:
        if any(m.feasible and (depth > m.layers or _bends(m) < _STRAIGHT) for m in tried):
            break
        tried.append(attempt(target, name, depth))
    # Of exact networks the one that also follows the norm; of others the nearest.
    best = min(tried, key=lambda m: (not m.feasible, _bends(m) if m.feasible else m.worst))
    reason, suggestion = best.reason, ""
    if not best.feasible:
        suggestion = _suggestion(target, set(chosen))
        reason = f"{reason[:-1]}; {suggestion}."
    history = tuple(a for m in tried for a in m.alternatives)
    return replace(best, reason=reason, suggestion=suggestion, alternatives=history, deq=deq)


def _bends(twin: Match) -> float:
    """Return how far the linear coefficient is from following the norm as the DEQ's does."""
    assert twin.linear_slope is not None
    return round(abs(twin.linear_slope.mismatch), 9)


def plain_network(act: Activation | str, layers: int, tau0: float = 1.0) -> tuple[Activation, ...]:
    """Return the control: the DEQ's own activation in every layer, centred where it stands.

    Examples
    --------
    >>> [round(a.shift, 6) for a in plain_network("relu", 2)]
    [0.398942, 0.23291]
    """
    if layers < 1:
        raise InputError(f"`layers` is {layers}; give at least 1.")
    return explicit_scalars([act] * layers, tau0).acts


def plan(
    family: str, layers: int | str, order: tuple[tuple[str, int], ...], known: Collection[str]
) -> list[tuple[str, int]]:
    """Return which families are tried with how many layers, in order.

    Examples
    --------
    >>> plan("cubic", "auto", _ORDER, SIZES)
    [('cubic', 1), ('cubic', 2)]
    """
    if not isinstance(family, str) or family not in ("auto", *NUMBERS):
        raise InputError(f"`family` is {shown(family)}; choose from auto, {', '.join(NUMBERS)}.")
    if family not in ("auto", *known):
        raise InputError(
            f"`family` is {family}, which is fitted to data; give data, or another family."
        )
    if not isinstance(layers, str | int) or layers not in ("auto", 1, 2):
        raise InputError(f"`layers` is {shown(layers)}; choose 1, 2 or auto.")
    asked = order if family == "auto" else ((family, 1), (family, 2))
    chosen = [(f, n) for f, n in asked if layers in ("auto", n) and (f, n) != ("htanh", 2)]
    if not chosen:
        raise InputError("`layers` is 2, but htanh has one layer; for two choose another `family`.")
    return chosen


def attempt(target: Target, family: str, layers: int) -> Match:
    """Return the network of one family that comes nearest to a target.

    Examples
    --------
    >>> target, _ = network_target(["tanh"])
    >>> attempt(target, "lrelu", 1).feasible
    False
    """
    layer_family, numbers = solve(target, family, layers)
    # The numbers come from closed forms; how good they are is measured by quadrature.
    acts = network(layer_family, numbers, target.tau0)
    twin, acts = network_target(acts, target.tau0, target.kernel)
    acts = tuple(a.shifted(0.0) if abs(a.shift) < 1e-14 * target.d**0.5 else a for a in acts)
    residuals = target.residuals(twin.values)
    mismatch = (twin.slope - target.slope) * target.tau0**2 / target.d
    worst = float(np.abs(residuals[:4]).max())
    feasible = worst <= TOLERANCE
    if feasible:
        reason = success(target, family, layers)
    else:
        reason = failure(target, family, layers, residuals) + "."
    return Match(
        feasible=feasible,
        kernel=target.kernel,
        family=family,
        layers=layers,
        acts=acts,
        target=target.named(target.values),
        achieved=target.named(twin.values),
        residuals=target.named(residuals),
        diagonal_slope=Slope(target.slope, twin.slope, mismatch),
        linear_slope=Slope(target.bend, twin.bend, (twin.bend - target.bend) * target.tau0**2),
        reason=reason,
        suggestion="",
        alternatives=(Attempt(family, layers, feasible, worst, reason),),
        tau0=target.tau0,
    )


def _suggestion(target: Target, tried: set[tuple[str, int]]) -> str:
    """Say which family would work."""
    for family, layers in _ORDER:
        if (family, layers) not in tried and attempt(target, family, layers).feasible:
            count = "one hidden layer" if layers == 1 else "two layers"
            return f"{count} of {TITLES[family]} activation would do"
    return "no family here reaches it"
