"""Twins on data: fitted to a design, judged on other rows."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from deqcli.activations import Activation, activation
from deqcli.checks import NOT_NEGATIVE, Range, number
from deqcli.equivalents import operator_distance, operator_norm
from deqcli.errors import silence_range_warning
from deqcli.kernels.exact import explicit_kernels, implicit_kernels
from deqcli.kernels.matrix import check_samples
from deqcli.matching.fit import DESIGN, HELD_OUT, Fitted, Problem, choose_design
from deqcli.matching.layers import NUMBERS
from deqcli.matching.result import Attempt, Match
from deqcli.matching.scalar import attempt, plain_network, plan
from deqcli.matching.targets import SIZES, TITLES, Target, deq_target
from deqcli.vocabulary import Kernel, Net

Array = NDArray[np.float64]

#: What ``auto`` tries: shallow first, then what trains safely (piecewise linear), then small.
_ORDER = (
    ("htanh", 1), ("lrelu", 1), ("spline", 1), ("quintic", 1), ("lrelu", 2), ("spline", 2),
)  # fmt: skip
# On other rows a twin is a third farther than on the design, or less: this leaves room.
_MARGIN = 0.4
# Rows, dimension, factor and steps of the search for the range of norms.
_RANGE_ROWS, _RANGE_DIMENSION, _RANGE_FACTOR, _RANGE_STEPS = 24, 400, 4.0, 5


class Distances(NamedTuple):
    """Relative distances of the twin (operator and Frobenius norm) and of the control."""

    twin: float
    frobenius: float
    plain: float
    rows: int


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
) -> tuple[Array, Match]:
    """Fit a twin to a design; return the data as a matrix and the twin, yet to be judged.

    Parameters are those of :func:`deqcli.matching.match`; ``design`` is how many rows to fit to.
    """
    limit = number(within, "within", float, Range(above=0, below=1))
    seed = number(seed, "seed", int, NOT_NEGATIVE)
    tried = plan(family, layers, _ORDER, NUMBERS)
    kernel = Kernel.of(kernel, "kernel")
    rows = check_samples(X)
    chosen = choose_design(rows, seed, design)
    unit = float(np.sqrt(np.mean(np.einsum("ij,ij->i", rows, rows))))
    target, deq = deq_target(act, sigma_a2, sigma_b2, unit if tau0 is None else tau0, kernel)
    centred = activation(act).shifted(deq.shift)
    sample = rows[chosen.rows]
    with silence_range_warning():
        matrix = implicit_kernels(sample, centred, deq.sigma_a2, deq.sigma_b2).compute(kernel)[0]
    problem = Problem(sample, matrix, target.twin is Kernel.NTK, unit, seed)
    ends: list[Fitted] = []
    for name, depth in tried:
        starts = _starts(name, depth, centred, target, ends, unit)
        ends.append(problem.fit(name, depth, starts))
        if ends[-1].distance <= _MARGIN * limit:
            break
    best = min(ends, key=lambda end: (end.distance > _MARGIN * limit, end.distance))
    depth = len(best.acts)
    twin = Match(
        feasible=False,
        kernel=kernel,
        family=best.family,
        layers=depth,
        acts=best.acts,
        target=target.named(target.values),
        achieved={},
        residuals={},
        reason="",
        alternatives=tuple(_attempted(end, limit) for end in ends),
        tau0=target.tau0,
        deq=deq,
        act=centred,
        limit=limit,
        plain=plain_network(act, depth, target.tau0),
        design=chosen,
    )
    return rows, replace(twin, norms_range=norms_range(twin, limit, rows))


def _attempted(end: Fitted, limit: float) -> Attempt:
    """Return what is said of a network that was tried."""
    near = end.distance <= _MARGIN * limit
    return Attempt(
        end.family,
        len(end.acts),
        near,
        end.distance,
        f"{_network(end.family, len(end.acts))}: {end.distance:.2g} of the norm on the design.",
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


def measure(twin: Match, held: Array) -> Distances:
    """Measure a twin on rows that were not fitted to, at most 1000 of them."""
    if len(held) > HELD_OUT:
        rng = np.random.default_rng([0 if twin.design is None else twin.design.seed, 17])
        held = held[np.sort(rng.choice(len(held), size=HELD_OUT, replace=False))]
    matrix, ours, plain = (_kernel(twin, held, net) for net in Net)
    norm = operator_norm(matrix)
    return Distances(
        operator_distance(matrix, ours) / norm,
        float(np.linalg.norm(matrix - ours) / np.linalg.norm(matrix)),
        operator_distance(matrix, plain) / norm,
        len(held),
    )


def _kernel(twin: Match, X: Array, net: Net) -> Array:
    """Return the exact kernel of one of the three networks."""
    if net is not Net.DEQ:
        acts = twin.acts if net is Net.MATCHED else twin.plain
        return explicit_kernels(X, acts).compute(twin.twin_kernel)[0]
    assert twin.deq is not None
    assert twin.act is not None
    with silence_range_warning():
        kernels = implicit_kernels(X, twin.act, twin.deq.sigma_a2, twin.deq.sigma_b2)
    return kernels.compute(twin.kernel)[0]


def norms_range(
    twin: Match, limit: float, sample: Array | None = None
) -> tuple[float, float] | None:
    """Return between which root mean squared norms data may be for the twin to be near.

    By rescaling a few rows, with bisection of the logarithm towards the first end that is too far.
    Without a sample they are Gaussian, of norm tau0.
    """
    if sample is None:
        rng = np.random.default_rng(0)
        sample = twin.tau0 * rng.standard_normal((_RANGE_ROWS, _RANGE_DIMENSION))
        sample /= _RANGE_DIMENSION**0.5
    few = sample[np.linspace(0, len(sample) - 1, min(_RANGE_ROWS, len(sample))).astype(int)]
    unit = float(np.sqrt(np.mean(np.einsum("ij,ij->i", sample, sample))))

    def near(power: float) -> bool:
        X = few * _RANGE_FACTOR**power
        deq, ours = _kernel(twin, X, Net.DEQ), _kernel(twin, X, Net.MATCHED)
        return operator_distance(deq, ours) <= limit * operator_norm(deq)

    if not near(0.0):
        return None
    ends = []
    for sign in (-1.0, 1.0):
        inside, outside = (sign, sign) if near(sign) else (0.0, sign)
        for _ in range(_RANGE_STEPS if inside != outside else 0):
            middle = 0.5 * (inside + outside)
            inside, outside = (middle, outside) if near(middle) else (inside, middle)
        ends.append(unit * _RANGE_FACTOR**inside)
    return ends[0], ends[1]


def judge(twin: Match, distances: Distances) -> Match:
    """Return the twin with its distances on other rows, and what they say."""
    assert twin.limit is not None
    near = distances.twin <= twin.limit
    other = "other " if twin.design is not None else ""
    where = (
        f"{distances.twin:.2g} of the norm from the DEQ's kernel on {distances.rows} {other}rows "
        f"(a plain network {distances.plain:.2g})"
    )
    name, suggestion = _network(twin.family, twin.layers), "" if near else _help(twin, distances)
    if twin.design is None:
        # By scalars: both they and the kernels have to agree.
        feasible, apart = twin.feasible and near, "" if near else f", not within {twin.limit:g}"
        reason = f"{twin.reason.rstrip('.')}; it is {where}{apart}."
        suggestion = twin.suggestion or suggestion
    elif near:
        feasible, reason = True, f"{name} matches within {twin.limit:g}: it is {where}."
    else:
        feasible, reason = (
            False,
            (
                f"No network that was tried is within {twin.limit:g}: the nearest, "
                f"{name[0].lower()}{name[1:]}, is {where}; {suggestion}."
            ),
        )
    return replace(
        twin,
        feasible=feasible,
        distance=distances.twin,
        frobenius=distances.frobenius,
        plain_distance=distances.plain,
        reason=reason,
        suggestion=suggestion,
    )


def _network(family: str, layers: int) -> str:
    count = "One hidden layer" if layers == 1 else "A network of two layers"
    return f"{count} of {TITLES[family]} activation"


def _help(twin: Match, distances: Distances) -> str:
    """Say what would bring a twin nearer."""
    remedies = []
    if distances.plain < distances.twin:
        remedies.append("take the plain network, which is nearer")
    if twin.design is None:
        remedies.append("a `design` fits it to the data")
    else:
        tried = {attempt.family for attempt in twin.alternatives}
        known = dict.fromkeys(name for name, _ in _ORDER)
        if others := [name for name in known if name not in tried]:
            remedies.append(f"`family` {' or '.join(others)} was not tried")
    if all(attempt.layers == 1 for attempt in twin.alternatives):
        remedies.append("two layers may do")
    if twin.design is not None and twin.design.rows.size < DESIGN:
        remedies.append(f"more rows would help ({twin.design.rows.size} were fitted to)")
    remedies.append(f"ask for no less than `within` {1.05 * distances.twin:.2g}")
    remedies.append("a smaller `sigma_a2` makes the DEQ easier to equal")
    return ", or ".join(remedies)
