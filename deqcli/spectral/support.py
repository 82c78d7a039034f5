r"""Where the spectrum lies: the intervals of its density, and its atoms.

Outside the support the coupled equations have a real solution at which their Jacobian has a
spectral radius :math:`\varrho < 1`; at an edge :math:`\varrho = 1`, and
:math:`(1 - \varrho)^2` falls to zero linearly on the way there (theory.md §10). So every edge
is found from outside by steps to where that line ends.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from deqcli.errors import ConvergenceError
from deqcli.spectral.coupled import HEIGHT, Coupled, State

Array = NDArray[np.float64]
Intervals = tuple[tuple[float, float], ...]

_GRID = 320
# Densities below this, in units of one over the width, count as none.
_EMPTY = 1e-4
# Edges are right to this part of the width.
_EXACT = 1e-7
# Directions of covariances that may be set apart from the bulk.
_FEW = 10
# Offsets and scales closer than this, relative to the width and the position, are equal.
_EQUAL = 1e-9


class Atom(NamedTuple):
    """Eigenvalues that coincide: where they are and which share of all they make."""

    position: float
    mass: float


def atoms_of(equations: Coupled) -> tuple[Atom, ...]:
    """Return the atoms in ascending order.

    Samples of one offset have more dimensions than their noise spans: n_a rows of p coordinates
    leave n_a - p zeros, and rows without noise leave all.
    """
    if np.any(equations.coupling > _EQUAL**2 * equations.span**2):
        return ()
    level = _EQUAL * (equations.span + float(np.abs(equations.offsets).max()))
    still = equations.variances <= level**2
    flat = equations.scales * equations.covariances.traces[equations.classes] <= level
    atoms, start = [], None
    order = np.argsort(equations.offsets)
    groups: list[list[int]] = []
    for i in order:
        if start is None or equations.offsets[i] - start > level:
            groups.append([])
            start = equations.offsets[i]
        groups[-1].append(int(i))
    rank = equations.covariances.rank / (equations.ratio * equations.covariances.dimension)
    for group in groups:
        inside = np.array([i for i in group if still[i]], dtype=int)
        silent = float(equations.shares[inside[flat[inside]]].sum())
        noisy = float(equations.shares[inside[~flat[inside]]].sum())
        mass = silent + max(noisy - rank, 0.0)
        if mass > _EQUAL:
            atoms.append(Atom(float(equations.offsets[group].mean()), mass))
    return tuple(atoms)


def density_of(equations: Coupled, points: Array, atoms: tuple[Atom, ...]) -> Array:
    """Return the density at points of the support, without what atoms leave above the axis."""
    return _density(equations, points, atoms, equations.above(points))


def _density(equations: Coupled, points: Array, atoms: tuple[Atom, ...], state: State) -> Array:
    height = HEIGHT * equations.span
    density = state.g.imag @ equations.shares
    for atom in atoms:
        density -= atom.mass * height / ((points - atom.position) ** 2 + height**2)
    return np.maximum(density / np.pi, 0.0)


def intervals_of(equations: Coupled, atoms: tuple[Atom, ...]) -> Intervals:
    """Return the intervals on which there is a density, in ascending order."""
    if sum(atom.mass for atom in atoms) > 1 - _EQUAL:
        return ()
    high = _from_outside(equations, +1, atoms)
    low = _from_outside(equations, -1, atoms)
    points = _grid(equations, low, high)
    state = equations.surrogate.above(points)
    full = _density(equations, points, atoms, state) * (high - low) > _EMPTY
    if not full.any():
        return ((low, high),)
    intervals = []
    starts = np.flatnonzero(full & ~np.append(False, full[:-1]))
    ends = np.flatnonzero(full & ~np.append(full[1:], False))
    for first, last in zip(starts, ends, strict=True):
        begins = low if first == starts[0] and not atoms else None
        stops = high if last == ends[-1] else None
        left = begins if begins is not None else _edge(equations, points, state, int(first) - 1, +1)
        right = stops if stops is not None else _edge(equations, points, state, int(last) + 1, -1)
        intervals.append((points[first] if left is None else left,
                          points[last] if right is None else right))  # fmt: skip
    # Both ends of a density that rounding alone makes may be found at one place.
    return tuple((float(left), float(right)) for left, right in intervals if right > left)


def outlying_columns(equations: Coupled, intervals: Intervals) -> tuple[int, ...]:
    r"""Return the few columns of covariances whose eigenvalues lie beyond a gap, if any do.

    Beyond is what has :math:`1 + \sum_by_be_b < 0` there (theory.md §10).
    """
    common = equations.covariances.surrogate
    for (_, low), (high, _) in pairwise(intervals):
        point = np.array([0.5 * (low + high)])
        guess = np.ascontiguousarray(equations.surrogate.above(point).unknowns[0].real)
        state = equations.on_axis(float(point[0]), guess)
        if state is None or equations.stability(state) >= 1:
            continue
        beyond = np.flatnonzero(1 + state.y @ common.eigenvalues < 0)
        if 0 < common.multiplicities[beyond].sum() <= min(_FEW, 0.05 * common.dimension):
            return tuple(int(column) for column in beyond)
    return ()


def _grid(equations: Coupled, low: float, high: float) -> Array:
    """Return points between two ends, closer at them and where offsets lie."""
    angle = np.pi * (np.arange(_GRID) + 0.5) / _GRID
    points = [0.5 * (low + high) - 0.5 * (high - low) * np.cos(angle)]
    width = np.sqrt(equations.variances.max()) + 1e-3 * (high - low)
    near, far = equations.offsets.min() - 3 * width, equations.offsets.max() + 3 * width
    around = np.linspace(max(low, near), min(high, far), _GRID // 4)[1:-1]
    points.append(around[(around > low) & (around < high)])
    return np.unique(np.concatenate(points))


def _from_outside(equations: Coupled, side: int, atoms: tuple[Atom, ...]) -> float:
    """Return the first edge or atom that is met from +-infinity."""
    centre = float(equations.offsets.max() if side > 0 else equations.offsets.min())
    distance = equations.bound + equations.span
    if equations.surrogate.covariances is not equations.covariances:
        near = _from_outside(equations.surrogate, side, atoms)
        distance = abs(near - centre) + 0.02 * equations.span
    for _ in range(60):
        state = equations.on_axis(centre + side * distance, equations.far)
        if state is not None and equations.stability(state) < 1 and np.all(side * state.g < 0):
            break
        distance *= 2
    if state is None:
        raise ConvergenceError("the equations of the spectrum have no solution outside of it.")
    barrier = max((side * atom.position for atom in atoms), default=-np.inf) * side
    return march(equations, centre + side * distance, state, -side, barrier)


def _edge(
    equations: Coupled, points: Array, near: State, outside: int, direction: int
) -> float | None:
    """Return the edge that is met from a point of the grid in a gap; None if it is in none."""
    if not 0 <= outside < points.size:
        return None
    start = float(points[outside])
    state = equations.on_axis(start, np.ascontiguousarray(near.unknowns[outside].real))
    if state is None or equations.stability(state) >= 1:
        return None
    edge = march(equations, start, state, direction)
    # There is a density at the next point, and a gap that seems to reach beyond it is none.
    return edge if direction * (points[outside + direction] - edge) >= 0 else None


def march(
    equations: Coupled, point: float, state: State, direction: int, barrier: float = np.inf
) -> float:
    """Return the edge that lies in a direction, or an atom that comes before it.

    Parameters
    ----------
    point : float
        Outside the support.
    state : State
        The solution there.
    direction : int
        1 to the right, -1 to the left.
    barrier : float
        Where the atom is.
    """
    exact = _EXACT * equations.span
    gap = (1 - equations.stability(state)) ** 2
    branch = equations.branch(state)
    last: tuple[float, float] | None = None
    step = 0.25 * equations.span * direction
    for _ in range(200):
        target = np.nan
        if last is not None and (gap - last[1]) * (point - last[0]) < 0:
            target = point - gap * (point - last[0]) / (gap - last[1])
        if direction * (target - point) > 0:
            if direction * (target - point) <= exact:
                return float(target)
            step = 0.9 * (target - point)
        left = direction * (barrier - point)
        if 0 < left < abs(step) / 0.9:
            step = 0.9 * left * direction
        while True:
            if abs(step) <= exact:
                return float(barrier) if 0 < left < 100 * exact else point
            new = equations.on_axis(point + step, state.unknowns)
            if new is not None and np.array_equal(equations.branch(new), branch):
                ratio = equations.stability(new)
                if ratio < 1:
                    break
            step *= 0.5
        last, point, state = (point, gap), point + step, new
        gap = (1 - ratio) ** 2
        step *= 1.5
    return point
