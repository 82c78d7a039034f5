"""Choose the explicit network that equals a DEQ, and say why."""

from __future__ import annotations

import dataclasses

import numpy as np

from deqcli.activations import Activation
from deqcli.errors import InputError
from deqcli.matching.families import FAMILIES, TITLES, network
from deqcli.matching.reasons import failure, success
from deqcli.matching.result import Attempt, DiagonalSlope, Match
from deqcli.matching.solve import solve
from deqcli.matching.targets import TOLERANCE, Target, deq_target, network_target
from deqcli.scalars import ImplicitScalars, explicit_scalars
from deqcli.vocabulary import Kernel

#: What ``auto`` tries, in this order: shallow first, the papers' families first.
_ORDER = (("htanh", 1), ("lrelu", 1), ("cubic", 1), ("lrelu", 2), ("cubic", 2))


def match(
    act: Activation | str,
    sigma_a2: float,
    sigma_b2: float | None = None,
    tau0: float = 1.0,
    *,
    kernel: Kernel | str = Kernel.CK,
    family: str = "auto",
    layers: int | str = "auto",
) -> Match:
    r"""Find the explicit network with one or two hidden layers whose kernel is the DEQ's.

    In high dimension kernels are equal when four scalars are,

    .. math:: G: (\alpha_1, \alpha_2, \alpha_3, \gamma^2) =
       (\tilde\alpha_1, \tilde\alpha_2, \tilde\alpha_3, \tilde\tau_L^2), \qquad
       K: (\beta_1, \beta_2, \beta_3, \kappa^2) =
       (\tilde\beta_1, \tilde\beta_2, \tilde\beta_3, \tilde\kappa_L^2)

    and likewise for :math:`\Lambda` and :math:`\Theta` (theory.md §6; ICML Examples 1, 2, ICLR
    Corollaries 1, 2, whose quadratic network does not always exist). Spare numbers match the slope
    of the diagonal too.

    Parameters
    ----------
    act : Activation or str
        Of the DEQ.
    sigma_a2, sigma_b2 : float
        ``sigma_b2`` is ``1 - sigma_a2`` by default.
    tau0 : float
        Root of the mean variance of the data.
    kernel : Kernel or str
        Which of the DEQ's four; the twin's CK equals the first two, its NTK the others.
    family : str
        ``htanh``, ``lrelu``, ``quadratic``, ``cubic``, or ``auto`` for the shallowest that does.
    layers : 1, 2 or "auto"

    Returns
    -------
    Match
        ``feasible`` is False, with the nearest network and the reason, where there is none.

    Examples
    --------
    >>> twin = match("relu", 0.2, tau0=1.05)
    >>> twin.feasible, twin.family, twin.layers
    (True, 'lrelu', 2)
    >>> twin.reason
    'α2 = 0.0326 ≠ ½α3 = 0.0314: one hidden layer cannot match; two layers of L-ReLU activation...'
    >>> match("relu", 0.2, family="htanh").feasible
    False
    """
    target, deq = deq_target(act, sigma_a2, sigma_b2, tau0, kernel)
    return match_target(target, family=family, layers=layers, deq=deq)


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
    plan = _plan(family, layers)
    tried: list[Match] = []
    for name, depth in plan:
        tried.append(_attempt(target, name, depth))
        if tried[-1].feasible:
            break
    best = min(tried, key=lambda m: (not m.feasible, m.worst))
    reason, suggestion = best.reason, ""
    if not best.feasible:
        suggestion = _suggestion(target, set(plan))
        reason = f"{reason[:-1]}; {suggestion}."
    history = tuple(a for m in tried for a in m.alternatives)
    return dataclasses.replace(
        best, reason=reason, suggestion=suggestion, alternatives=history, deq=deq
    )


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


def _plan(family: str, layers: int | str) -> list[tuple[str, int]]:
    if family not in ("auto", *FAMILIES):
        raise InputError(f"`family` is {family!r}; choose from auto, {', '.join(FAMILIES)}.")
    if layers not in ("auto", 1, 2):
        raise InputError(f"`layers` is {layers!r}; choose 1, 2 or auto.")
    known = _ORDER if family == "auto" else ((family, 1), (family, 2))
    plan = [(f, n) for f, n in known if layers in ("auto", n) and (f, n) != ("htanh", 2)]
    if not plan:
        raise InputError("`layers` is 2, but htanh has one layer; for two choose another `family`.")
    return plan


def _attempt(target: Target, family: str, layers: int) -> Match:
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
        diagonal_slope=DiagonalSlope(target.slope, twin.slope, mismatch),
        reason=reason,
        suggestion="",
        alternatives=(Attempt(family, layers, feasible, worst, reason),),
        tau0=target.tau0,
    )


def _suggestion(target: Target, tried: set[tuple[str, int]]) -> str:
    """Say which family would work."""
    for family, layers in _ORDER:
        if (family, layers) not in tried and _attempt(target, family, layers).feasible:
            count = "one hidden layer" if layers == 1 else "two layers"
            return f"{count} of {TITLES[family]} activation would do"
    return "no family here reaches it"
