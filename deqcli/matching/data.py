"""Twins on data: fitted to a design, judged on other rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from deqcli.activations import Activation, activation
from deqcli.checks import NOT_NEGATIVE, Range, number
from deqcli.errors import silence_range_warning
from deqcli.kernels.exact import implicit_kernels
from deqcli.kernels.matrix import check_samples, root_mean_squared_norm
from deqcli.matching.fit import DESIGN, Fitted, Problem, choose_design
from deqcli.matching.judging import ORDER, compare, judge, network_name, norms_range
from deqcli.matching.layers import NUMBERS
from deqcli.matching.result import Attempt, Match
from deqcli.matching.scalar import attempt, plain_network, plan
from deqcli.matching.targets import SIZES, Target, deq_target
from deqcli.vocabulary import Kernel

Array = NDArray[np.float64]


def fit_twin(
    act: Activation | str,
    sigma_a2: float,
    sigma_b2: float | None,
    tau0: float | None,
    *,
    kernel: Kernel | str,
    family: str,
    layers: int | str,
    X: ArrayLike,
    within: float,
    seed: int,
    design: int = DESIGN,
) -> Match:
    """Fit a twin to a design, and judge it on the other rows.

    Parameters are those of :func:`deqcli.matching.match`; ``design`` is how many rows to fit to.
    The DEQ is centred at the root mean squared norm of all rows, unless ``tau0`` is given.
    """
    limit = number(within, "within", float, Range(above=0, below=1))
    seed = number(seed, "seed", int, NOT_NEGATIVE)
    tried = plan(family, layers, ORDER, NUMBERS)
    kernel = Kernel.of(kernel, "kernel")
    rows = check_samples(X)
    chosen = choose_design(rows, seed, design)
    unit = root_mean_squared_norm(rows)
    target, deq = deq_target(act, sigma_a2, sigma_b2, unit if tau0 is None else tau0, kernel)
    centred = activation(act).shifted(deq.shift)
    sample = rows[chosen.rows]
    with silence_range_warning():
        matrix = implicit_kernels(sample, centred, deq.sigma_a2, deq.sigma_b2).compute(kernel)[0]
    problem = Problem(sample, matrix, target.twin is Kernel.NTK, unit, seed)
    twin = Match(
        feasible=False,
        kernel=kernel,
        family=family,
        layers=0,
        acts=(),
        target=target.named(target.values),
        achieved={},
        residuals={},
        reason="",
        tau0=target.tau0,
        deq=deq,
        act=centred,
        limit=limit,
        design=chosen,
    )
    comparison = compare(twin, rows[chosen.others])
    ends: list[Fitted] = []
    distances: list[float] = []
    near: list[bool] = []
    best: Fitted | None = None
    for name, depth in tried:
        # Where a shallow network is near enough, a deeper one is not asked for.
        if layers == "auto" and any(near) and depth > len(ends[-1].acts):
            break
        starts = _starts(name, depth, centred, target, ends, unit)
        ends.append(problem.fit(name, depth, starts))
        distances.append(comparison.distance(ends[-1].acts))
        near.append(max(ends[-1].distance, distances[-1]) <= limit)
        # A depth that is asked for has its nearest network, not the first that will do; one that
        # is farther than the plain network will not.
        if layers == "auto" and near[-1]:
            plain = plain_network(act, depth, target.tau0)
            if distances[-1] <= comparison.distance(plain):
                best = ends[-1]
                break
    if best is None:
        # By the farther of both, so that neither set of rows chooses by its luck alone.
        worst = np.maximum(distances, [end.distance for end in ends])
        best = ends[int(np.argmin(worst))]
    depth = len(best.acts)
    twin = replace(
        twin,
        family=best.family,
        layers=depth,
        acts=best.acts,
        alternatives=tuple(_attempted(*each, limit) for each in zip(ends, distances, strict=True)),
        plain=plain_network(act, depth, target.tau0),
    )
    twin = judge(twin, comparison.distances(twin))
    return replace(twin, norms_range=norms_range(twin, limit, comparison.X))


def _attempted(end: Fitted, other: float, limit: float) -> Attempt:
    """Return what is said of a network that was tried."""
    return Attempt(
        end.family,
        len(end.acts),
        end.distance <= limit,
        end.distance,
        f"{network_name(end.family, len(end.acts))}: {end.distance:.2g} of the norm on the design, "
        f"{other:.2g} on other rows.",
    )


def _starts(
    family: str, depth: int, act: Activation, target: Target, before: list[Fitted], unit: float
) -> list[tuple[Activation, ...]]:
    """Return where fits begin: two bent lines, the DEQ's activation, the scalars, former fits."""
    bent = [
        activation(
            f"hermite:scale={unit!r},c1={unit!r},c2={0.2 * unit!r},c3={sign * 0.05 * unit!r}"
        )
        for sign in (1, -1)
    ]
    starts = [(layer,) * depth for layer in (*bent[: 3 - depth], act)]
    if family in SIZES:
        starts.append(attempt(target, family, depth).acts)
    if before:
        nearest = min(before, key=lambda end: end.distance).acts
        # One more layer in front must not be a straight line, where the derivatives vanish.
        starts.append((bent[0], *nearest)[-depth:])
    return starts
