"""How far a twin is from its DEQ on rows that it was not fitted to, and what that says."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from deqcli.activations import Activation
from deqcli.equivalents import operator_distance, operator_norm
from deqcli.errors import silence_range_warning
from deqcli.kernels.exact import explicit_kernels, implicit_kernels
from deqcli.kernels.matrix import root_mean_squared_norm
from deqcli.matching.fit import DESIGN, HELD_OUT
from deqcli.matching.result import Match
from deqcli.matching.targets import TITLES

Array = NDArray[np.float64]

#: What ``auto`` tries: shallow first, then what trains safely (piecewise linear), then small.
ORDER = (
    ("htanh", 1), ("lrelu", 1), ("spline", 1), ("quintic", 1), ("lrelu", 2), ("spline", 2),
)  # fmt: skip
# Rows and dimension of the Gaussian data that stands for data where there is none.
_GAUSSIAN = 300, 300
# Norms are searched up to this factor from the data's own, to this power of it, which is 4 %;
# kernels of much longer rows take many times as long.
_FACTOR, _PRECISION = 2.0, 0.05


class Distances(NamedTuple):
    """Relative distances of the twin (operator and Frobenius norm) and of the control."""

    twin: float
    frobenius: float
    plain: float
    rows: int


@dataclass(frozen=True)
class Comparison:
    """A DEQ on rows that explicit networks are compared with it on.

    Attributes
    ----------
    X : ndarray of shape (n, p)
    twin : Match
        Whose DEQ and kernel it is; the layers do not matter.
    """

    X: Array
    twin: Match

    @cached_property
    def _deq(self) -> tuple[Array, float]:
        """The DEQ's kernel and its norm."""
        act, deq = self.twin.act, self.twin.deq
        assert act is not None
        assert deq is not None
        with silence_range_warning():
            kernels = implicit_kernels(self.X, act, deq.sigma_a2, deq.sigma_b2)
        matrix = kernels.compute(self.twin.kernel)[0]
        return matrix, operator_norm(matrix)

    def distance(self, acts: tuple[Activation, ...]) -> float:
        """Return how far the kernel of a network is, relative to the DEQ's norm."""
        return self._distances(acts)[0]

    def distances(self, twin: Match) -> Distances:
        """Return those of a twin and of its control."""
        return Distances(*self._distances(twin.acts), self.distance(twin.plain), len(self.X))

    def _distances(self, acts: tuple[Activation, ...]) -> tuple[float, float]:
        matrix, norm = self._deq
        other = explicit_kernels(self.X, acts).compute(self.twin.twin_kernel)[0]
        frobenius = float(np.linalg.norm(matrix - other) / np.linalg.norm(matrix))
        return operator_distance(matrix, other) / norm, frobenius


def compare(twin: Match, others: Array) -> Comparison:
    """Return the comparison on rows that were not fitted to, at most 1000 of them."""
    if len(others) > HELD_OUT:
        rng = np.random.default_rng([0 if twin.design is None else twin.design.seed, 17])
        others = others[np.sort(rng.choice(len(others), size=HELD_OUT, replace=False))]
    return Comparison(others, twin)


def on_gaussian_data(twin: Match, limit: float) -> Match:
    """Return a twin by scalars alone with how far it is on Gaussian data of its norm.

    Examples
    --------
    >>> from deqcli import match
    >>> twin = on_gaussian_data(match("gelu", 0.1, kernel="ntk"), 0.01)
    >>> twin.feasible, twin.reason.split("; ")[-1]
    (True, 'on Gaussian data of norm 1 the kernels are 0.048 of the norm apart, more than 0.01.')
    """
    n, p = _GAUSSIAN
    rows = twin.tau0 * np.random.default_rng(0).standard_normal((n, p)) / p**0.5
    distance = Comparison(rows, twin).distance(twin.acts)
    ends = norms_range(replace(twin, distance=distance), limit, rows)
    kind = " by these scalars" if twin.feasible else ""
    more = "" if distance <= limit else f", more than {limit:g}"
    reason = (
        f"{twin.reason.rstrip('.')}{kind}; on Gaussian data of norm {twin.tau0:.4g} the kernels "
        f"are {distance:.2g} of the norm apart{more}."
    )
    return replace(twin, norms_range=ends, reason=reason)


def norms_range(twin: Match, limit: float, rows: Array) -> tuple[float, float] | None:
    """Return between which root mean squared norms data may be for the twin to be near.

    Found by rescaling the rows that it was judged on, up to a factor of two, to where the distance
    passes the limit.

    Examples
    --------
    >>> from deqcli import match
    >>> [round(end, 1) for end in on_gaussian_data(match("tanh", 0.1), 0.02).norms_range]
    [0.7, 1.3]
    """

    @cache
    def excess(power: float) -> float:
        """Return the logarithm of the distance over the limit; far from 0 it does not matter."""
        known = None if power else twin.distance
        distance = known or Comparison(rows * _FACTOR**power, twin).distance(twin.acts)
        return math.log(min(max(distance / limit, 0.1), 10))

    if excess(0.0) > 0:
        return None
    unit = root_mean_squared_norm(rows)
    low, high = (unit * _FACTOR ** _zero(excess, sign) for sign in (-1, 1))
    return low, high


def _zero(function: Callable[[float], float], sign: int) -> float:
    """Return a zero of a function that is negative at 0, at most 1 away."""
    if function(sign) <= 0:
        return float(sign)
    return float(brentq(function, 0.0, float(sign), xtol=_PRECISION))


def judge(twin: Match, distances: Distances) -> Match:
    """Return the twin with its distances on other rows, and what they say."""
    assert twin.limit is not None
    near = distances.twin <= twin.limit
    other = "other " if twin.design is not None else ""
    nearer = ", which is nearer" if near and distances.plain < distances.twin else ""
    where = (
        f"{distances.twin:.2g} of the norm from the DEQ's kernel on {distances.rows} {other}rows "
        f"(a plain network {distances.plain:.2g}{nearer})"
    )
    name, suggestion = (
        network_name(twin.family, twin.layers),
        "" if near else _help(twin, distances),
    )
    if twin.design is None:
        # By scalars: both they and the kernels have to agree.
        feasible, apart = twin.feasible and near, "" if near else f", not within {twin.limit:g}"
        reason = f"{twin.reason.rstrip('.')}; it is {where}{apart}."
        suggestion = twin.suggestion or suggestion
    elif near:
        chosen = f", which chose it among {among} networks" if (among := _judged(twin)) > 1 else ""
        feasible, reason = True, f"{name} matches within {twin.limit:g}: it is {where}{chosen}."
    else:
        feasible, reason = (
            False,
            (
                f"No network that was tried is within {twin.limit:g} on both the rows that it was "
                f"fitted to and others: the nearest, {name[0].lower()}{name[1:]}, is {where}; "
                f"{suggestion}."
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


def _judged(twin: Match) -> int:
    """Return how many networks the other rows chose among: one, if the design did."""
    last = twin.alternatives[-1]
    if last.feasible and (last.family, last.layers) == (twin.family, twin.layers):
        return sum(attempt.feasible for attempt in twin.alternatives)
    return len(twin.alternatives)


def network_name(family: str, layers: int) -> str:
    """Name a network at the beginning of a sentence."""
    count = "One hidden layer" if layers == 1 else "A network of two layers"
    return f"{count} of {TITLES[family]} activation"


def _help(twin: Match, distances: Distances) -> str:
    """Say what would bring a twin nearer."""
    remedies = []
    tried = {attempt.family for attempt in twin.alternatives}
    if distances.plain < distances.twin:
        remedies.append("take the plain network, which is nearer")
    if twin.design is None:
        remedies.append("a `design` fits it to the data")
    else:
        known = dict.fromkeys(name for name, _ in ORDER)
        if others := [name for name in known if name not in tried]:
            remedies.append(f"`family` {' or '.join(others)} was not tried")
    if tried != {"htanh"} and all(attempt.layers == 1 for attempt in twin.alternatives):
        remedies.append("two layers may do")
    if twin.design is not None and twin.design.rows.size < DESIGN:
        remedies.append(f"more rows would help ({twin.design.rows.size} were fitted to)")
    if 1.05 * distances.twin < 0.995:
        remedies.append(f"ask for no less than `within` {1.05 * distances.twin:.2g}")
    remedies.append("a smaller `sigma_a2` makes the DEQ easier to equal")
    return ", or ".join(remedies)
