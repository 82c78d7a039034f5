r"""The isolated eigenvalues of a law, and what their eigenvectors carry.

The matrix is noise plus a part of small rank, :math:`H_0 + UAU^\top`, so that its eigenvalues
outside the support of :math:`H_0` are where

.. math:: \Phi(\lambda) = A^{-1} + \lim U^\top(H_0 - \lambda)^{-1}U
   = \begin{bmatrix}\mathrm{diag}(\eta_a) & I & \Gamma\\ I & -M\Psi M^\top & 0\\
     \Gamma^\top & 0 & S + \Delta\end{bmatrix}

is singular (theory.md §10). Phi has no poles there and increases, so that each of its eigenvalues
has at most one root in a gap, and their number is known from signs at the gap's ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from deqcli.spectral.coupled import Coupled, State

Array = NDArray[np.float64]


@dataclass(frozen=True)
class LowRank:
    r"""The part of small rank, given on groups of samples.

    Attributes
    ----------
    linear : ndarray of shape (m,)
        :math:`D_1`, by which a group's samples, means included, are multiplied.
    columns : ndarray of shape (m, r)
        Further columns of U: values of the groups' samples.
    signs : ndarray of shape (r,)
        :math:`\pm1`, their places on the diagonal of A.
    norms : ndarray of shape (m,)
        By how many standard deviations a group's norms depart from their class's mean.
    """

    linear: Array
    columns: Array
    signs: Array
    norms: Array


@dataclass(frozen=True)
class Spike:
    r"""An isolated eigenvalue and its eigenvector v.

    Attributes
    ----------
    position : float
    alignment : ndarray of shape (K,)
        :math:`(j_a^\top v)^2/n_a` for each class a: which share of v is constant on it.
    informative : float
        Share of v that tells classes apart: constant on each class, with mean zero over all.
    common : float
        Share of v that all samples have in common, :math:`(1^\top v)^2/n`.
    norms : float
        Share of v that follows the samples' norms within classes.
    """

    position: float
    alignment: Array
    informative: float
    common: float
    norms: float

    @property
    def carries(self) -> str:
        """What the eigenvector carries most of: classes, mean, norms or neither."""
        shares = {"classes": self.informative, "mean": self.common, "norms": self.norms}
        name = max(shares, key=lambda key: shares[key])
        return name if shares[name] > 0.05 else "neither"


class SpikeFinder:
    """Finds isolated eigenvalues of the equations' matrix with a part of small rank added."""

    def __init__(self, equations: Coupled, low_rank: LowRank, n: int) -> None:
        self.equations, self.low_rank, self.n = equations, low_rank, n
        k, r = equations.n_classes, low_rank.signs.size
        self._parts = slice(0, k), slice(k, 2 * k), slice(2 * k, 2 * k + r)
        # Means and columns enter with the dimension's root, so that all entries are of order 1.
        shares = equations.ratio * equations.shares
        size = np.sqrt(equations.covariances.dimension)
        self._squares = shares * low_rank.linear**2
        self._cross = size * (shares * low_rank.linear)[:, None] * low_rank.columns
        self._columns = size**2 * shares

    def _form(self, g: Array, means: Array) -> Array:
        """Return the part of Phi that is linear in the resolvents, and that of the means."""
        first, second, third = self._parts
        members, columns = self.equations.members, self.low_rank.columns
        out = np.zeros((third.stop, third.stop))
        out[first, first] = np.diag((self._squares * g) @ members)
        out[first, third] = members.T @ (self._cross * g[:, None])
        out[third, first] = out[first, third].T
        out[third, third] = columns.T @ ((self._columns * g)[:, None] * columns)
        out[second, second] = -means
        return out

    def phi(self, state: State) -> Array:
        """Return Phi at a solution of the equations."""
        first, second, third = self._parts
        out = self._form(state.g, self.equations.covariances.mean_form(state.y))
        identity = np.eye(self.equations.n_classes)
        out[first, second], out[second, first] = identity, identity
        out[third, third] += np.diag(self.low_rank.signs)
        return out

    def outside(self, pieces: Sequence[tuple[float, float]]) -> tuple[Spike, ...]:
        """Return all isolated eigenvalues, the largest first.

        Parameters
        ----------
        pieces : sequence of pairs of float
            Where the spectrum lies, in ascending order: intervals, and atoms as points.
        """
        equations = self.equations
        ends = [-np.inf, *(end for piece in pieces for end in piece), np.inf]
        spikes: list[Spike] = []
        for low, high in zip(ends[::2], ends[1::2], strict=True):
            if high - low <= 1e-6 * equations.span:
                continue
            if np.isfinite(low) and np.isfinite(high):
                inside = 0.5 * (low + high)
                guess = equations.surrogate.above(np.array([inside])).unknowns[0].real
            else:
                inside = low + equations.span if np.isfinite(low) else high - equations.span
                guess = equations.far
            state = equations.on_axis(inside, np.ascontiguousarray(guess))
            if state is not None and equations.stability(state) < 1:
                spikes += self.between(low, high, inside, state.unknowns)
        return tuple(sorted(spikes, key=lambda spike: -spike.position))

    def between(self, low: float, high: float, inside: float, start: Array) -> list[Spike]:
        """Return the isolated eigenvalues in a gap, in descending order.

        Parameters
        ----------
        low, high : float
            Ends of the gap; one may be infinite.
        inside : float
            A point of it.
        start : ndarray of shape (2K,)
            A solution there.
        """
        path = {inside: start}
        span = self.equations.span

        def at(point: float) -> State:
            nearest = min(path, key=lambda known: abs(known - point))
            state = self._reach(nearest, path[nearest], point)
            path[point] = state.unknowns
            return state

        def eigenvalue(point: float, place: int) -> float:
            return float(np.linalg.eigvalsh(self.phi(at(point)))[place])

        def negative(point: float) -> int:
            return int(np.sum(np.linalg.eigvalsh(self.phi(at(point))) < 0))

        close = 1e-7 * span
        left = low + close if np.isfinite(low) else inside
        right = high - close if np.isfinite(high) else inside
        k = self.equations.n_classes
        at_infinity = k + int(np.sum(self.low_rank.signs < 0))
        if not np.isfinite(high):
            while negative(right) > at_infinity:
                right += max(span, abs(right))
        if not np.isfinite(low):
            while negative(left) < at_infinity:
                left -= max(span, abs(left))
        if left >= right:
            return []
        places = range(negative(right), negative(left))
        return [
            self._spike(at(root), root, place)
            for place, root in reversed([
                (place, brentq(eigenvalue, left, right, (place,), xtol=1e-12 * span, rtol=1e-12))
                for place in places
            ])
        ]  # fmt: skip

    def _reach(self, known: float, unknowns: Array, point: float) -> State:
        """Solve at a point from a solution at another one, by steps as long as they can be."""
        step = point - known
        while True:
            state = self.equations.on_axis(known + step, unknowns)
            if state is not None and self.equations.stability(state) < 1:
                if known + step == point or step == point - known:
                    return state
                known, unknowns, step = known + step, state.unknowns, point - (known + step)
            elif abs(step) <= 1e-14 * self.equations.span:
                raise FloatingPointError("no solution outside the support")
            else:
                step *= 0.5

    def _spike(self, state: State, position: float, place: int) -> Spike:
        equations, low_rank = self.equations, self.low_rank
        null = np.linalg.eigh(self.phi(state))[1][:, place]
        g_slope, y_slope = equations.derivative(state)
        slope = self._form(g_slope, equations.covariances.mean_slope(state.y, y_slope))
        first, _, third = self._parts
        # The eigenvector's mean in each group, but for its length.
        linear = low_rank.linear * (equations.members @ null[first])
        size = np.sqrt(equations.covariances.dimension)
        values = state.g * (linear + size * (low_rank.columns @ null[third]))
        values = values / np.sqrt(null @ slope @ null * equations.covariances.dimension)
        # Group means v_i times the root of the group's size, so that squares add up to shares.
        shares = self.n * equations.shares
        of_class = (shares @ equations.members)
        sums = (shares * values) @ equations.members
        alignment = sums**2 / of_class
        common = float(sums.sum() ** 2 / self.n)
        by_norm = (shares * values * low_rank.norms) @ equations.members
        weight = (shares * low_rank.norms**2) @ equations.members
        norms = float(np.sum(np.divide(by_norm**2, weight, out=np.zeros_like(weight),
                                       where=weight > 0)))  # fmt: skip
        return Spike(
            float(position), alignment, float(alignment.sum()) - common, common, norms
        )
