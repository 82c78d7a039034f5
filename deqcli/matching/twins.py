"""Twins: the explicit network that equals a DEQ, found for mixtures or the sphere, and why it is.

On the unit sphere one hidden layer does, in closed form (HLD Corollary 1).
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from deqcli.activations import Activation, activation
from deqcli.checks import shown
from deqcli.errors import InputError
from deqcli.matching.reasons import failure, success
from deqcli.matching.solve import solve
from deqcli.matching.targets import (
    SIZES,
    TITLES,
    TOLERANCE,
    Target,
    deq_target,
    network,
    network_target,
)
from deqcli.scalars import ImplicitScalars, explicit_scalars, sphere_scalars
from deqcli.vocabulary import Kernel

#: What ``auto`` tries, in this order: shallow first, the papers' families first.
_ORDER = (("htanh", 1), ("lrelu", 1), ("cubic", 1), ("lrelu", 2), ("cubic", 2))


@dataclass(frozen=True)
class DiagonalSlope:
    r"""The slope of the kernel's diagonal in :math:`\|x_i\|^2` (theory.md §6).

    Attributes
    ----------
    target, achieved : float
        Of the DEQ and of its twin.
    mismatch : float
        ``achieved - target`` in units of d / tau0^2: the relative error of the diagonal for a
        sample whose squared norm is off by all of tau0^2 (a fraction in practice).
    """

    target: float
    achieved: float
    mismatch: float


@dataclass(frozen=True)
class Attempt:
    """A family and depth that was tried: the largest relative residual, and why it failed."""

    family: str
    layers: int
    feasible: bool
    worst: float
    reason: str


@dataclass(frozen=True)
class Match:
    """An explicit network beside the DEQ that it is to equal.

    Attributes
    ----------
    feasible : bool
        Whether every scalar agrees to 1e-10, relative to the scalar (to the kernel for zeros).
    kernel : Kernel
        What was matched, of the DEQ.
    family : str
        ``htanh``, ``lrelu``, ``quadratic`` or ``cubic``.
    layers : int
    acts : tuple of Activation
        Centred, for ``explicit_kernels``; of the nearest network if not feasible.
    target, achieved, residuals : dict of str to float
        The four scalars by name; residuals are signed and relative.
    diagonal_slope : DiagonalSlope, optional
        None on the sphere, where norms do not move.
    reason : str
        One sentence.
    suggestion : str
        Where the request is not feasible, what would work; else empty.
    alternatives : tuple of Attempt
        All that was tried, in order, this network among them.
    tau0 : float
    deq : ImplicitScalars, optional
        The DEQ; None for a bare target and on the sphere.
    dimension : int, optional
        Of the sphere's space, for a twin on the unit sphere.
    """

    feasible: bool
    kernel: Kernel
    family: str
    layers: int
    acts: tuple[Activation, ...]
    target: dict[str, float]
    achieved: dict[str, float]
    residuals: dict[str, float]
    reason: str
    diagonal_slope: DiagonalSlope | None = None
    suggestion: str = ""
    alternatives: tuple[Attempt, ...] = ()
    tau0: float = 1.0
    deq: ImplicitScalars | None = None
    dimension: int | None = None

    @property
    def twin_kernel(self) -> Kernel:
        """The matched kernel in ``explicit_kernels``, ``ck`` or ``ntk``."""
        return self.kernel.explicit

    @property
    def worst(self) -> float:
        """The largest absolute relative residual."""
        return max(abs(r) for r in self.residuals.values())

    @property
    def names(self) -> tuple[tuple[str, float], ...]:
        """Each layer's registry name and shift: ``activation(name).shifted(shift)``."""
        return tuple((act.name, act.shift) for act in self.acts)

    def as_record(self) -> dict[str, Any]:
        """Return everything but the functions, fit for JSON."""
        record = asdict(replace(self, acts=(), deq=None))
        record["deq"] = None if self.deq is None else self.deq.as_record()
        record["acts"] = [{"name": name, "shift": shift} for name, shift in self.names]
        return {"activations" if key == "acts" else key: value for key, value in record.items()}


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
    return replace(best, reason=reason, suggestion=suggestion, alternatives=history, deq=deq)


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
    if not isinstance(family, str) or family not in ("auto", *SIZES):
        raise InputError(f"`family` is {shown(family)}; choose from auto, {', '.join(SIZES)}.")
    if not isinstance(layers, str | int) or layers not in ("auto", 1, 2):
        raise InputError(f"`layers` is {shown(layers)}; choose 1, 2 or auto.")
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


def match_sphere(
    act: Activation | str,
    sigma_a2: float,
    dimension: int,
    kernel: Kernel | str = Kernel.PREACTIVATION_CK,
    *,
    sigma_b2: float | None = None,
    family: str = "quadratic",
) -> Match:
    r"""Find the one-layer network that equals a DEQ on the unit sphere.

    A quadratic :math:`a_2x^2 + a_1x + a_0` has the kernel
    :math:`(a_0+a_2)^2 + \nu_1a_1^2t + 2\nu_2a_2^2t^2` of two inputs of inner product t, with
    :math:`\nu = (1, 1)` for the CK and :math:`(2, 3)` for the NTK, so that

    .. math:: a_2 = \sqrt{\mu/2\nu_2},\quad a_1 = \sqrt{\beta/\nu_1},\quad
       a_0 = \sqrt{\alpha - \mu/d} - a_2

    (HLD Corollary 1; theory.md §6). It needs :math:`\alpha \ge \mu/d`, which odd activations do
    not have; the cubic :math:`c_0 + c_1h_1 + c_3h_3` with
    :math:`c_0^2 = \alpha,\ c_1^2 = \beta/\nu_1,\ c_3^2 = \mu` (CK) or :math:`\mu/4` (NTK) does not.

    Parameters
    ----------
    act : Activation or str
        Of the DEQ, as it is: it is not centred. HLD's is ``nrelu``.
    sigma_a2, sigma_b2 : float
        ``sigma_b2`` is ``1 - sigma_a2`` by default.
    dimension : int
        The dimension d of the sphere's space.
    kernel : Kernel or str
        One of the four; HLD's CK and NTK are ``preactivation-ck`` and ``preactivation-ntk``.
    family : str
        ``quadratic`` or ``cubic``.

    Returns
    -------
    Match
        Its activation is not centred: a constant is part of the match. It is feasible where all
        three scalars agree to 1e-10 of the kernel's diagonal.

    Examples
    --------
    >>> twin = match_sphere("nrelu", 0.2, 1200)
    >>> {k: round(v, 5) for k, v in twin.acts[0].parameters.items()}
    {'a2': 0.13363, 'a1': 0.94518, 'a0': 0.13266}
    """
    kernel = Kernel.of(kernel, "kernel")
    t = sphere_scalars(act, dimension, sigma_a2=sigma_a2, sigma_b2=sigma_b2, kernel=kernel)
    scale = t.alpha + t.beta + t.mu
    if not scale > 0:
        raise InputError(
            f"the kernel {kernel} is zero with `sigma_b2` {shown(sigma_b2)}; there is nothing to "
            "match."
        )
    linear, square, cube = (1, 1, 1) if kernel.explicit is Kernel.CK else (2, 3, 4)
    if family == "quadratic":
        constant = t.alpha - t.mu / dimension
        a2 = math.sqrt(max(t.mu, 0.0) / (2 * square))
        a1, a0 = math.sqrt(max(t.beta, 0.0) / linear), math.sqrt(max(constant, 0.0)) - a2
        name = f"quadratic:a2={a2!r},a1={a1!r},a0={a0!r}"
        reason = (
            f"α = {t.alpha:.4g} is at least μ/d = {t.mu / dimension:.4g}: "
            "one hidden layer of quadratic activation matches."
            if constant >= 0
            else f"α = {t.alpha:.4g} is less than μ/d = {t.mu / dimension:.4g}: no quadratic "
            "matches; one hidden layer of cubic activation would do."
        )
    elif family == "cubic":
        c0, c1, c3 = (math.sqrt(max(x, 0.0)) for x in (t.alpha, t.beta / linear, t.mu / cube))
        name = f"hermite:scale=1.0,c0={c0!r},c1={c1!r},c3={c3!r}"
        reason = "one hidden layer of cubic activation matches wherever α, β, μ are not negative."
    else:
        raise InputError(f"`family` is {shown(family)}; on the sphere choose quadratic or cubic.")
    acts = (activation(name),)
    twin = sphere_scalars(acts, dimension, kernel=kernel.explicit)
    target, achieved = ({k: getattr(s, k) for k in ("alpha", "beta", "mu")} for s in (t, twin))
    residuals = {key: (achieved[key] - target[key]) / scale for key in target}
    # 11^T has the eigenvalue n, and alpha is of the order 1/d for odd activations.
    residuals["alpha"] *= dimension
    return Match(
        feasible=max(map(abs, residuals.values())) <= TOLERANCE,
        kernel=kernel,
        family=family,
        layers=1,
        acts=acts,
        target=target,
        achieved=achieved,
        residuals=residuals,
        reason=reason,
        dimension=dimension,
    )
