r"""The isolated eigenvalues of a law, and what their eigenvectors carry.

The matrix is noise plus a part of small rank, :math:`H_0 + UAU^\top`, so that its eigenvalues
outside the support of :math:`H_0` are where

.. math:: \Phi(\lambda) = A^{-1} + \lim U^\top(H_0 - \lambda)^{-1}U
   = \begin{bmatrix}\mathrm{diag}(\eta_a) & I & \Gamma\\ I & -M\Psi M^\top & 0\\
     \Gamma^\top & 0 & S + \Delta\end{bmatrix}

is singular (theory.md §10); directions in which covariances are far larger than in all others
have rows of their own. Phi has no poles there and increases, so that each of its eigenvalues
has at most one root in a gap, and their number is known from signs at the gap's ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from deqcli.errors import ConvergenceError
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
        return carried(self.alignment, self.common, self.norms)


def carried(alignment: Array, common: float, norms: float) -> str:
    """Say what an eigenvector carries, by its shares (:class:`Spike`).

    Examples
    --------
    >>> carried(np.array([0.9, 0.05]), common=0.7, norms=0.0)
    'classes'
    >>> carried(np.array([0.45, 0.45]), common=0.9, norms=0.0), carried(np.array([0.9]), 0.9, 0.0)
    ('mean', 'mean')
    """
    total = float(np.sum(alignment))
    if norms > max(total, 0.01):
        return "norms"
    if total <= 0.01:
        return "neither"
    # A class alone has nothing to be told from.
    return "mean" if common > 0.9 * total or len(alignment) == 1 else "classes"


class SpikeFinder:
    """Finds isolated eigenvalues of the equations' matrix with a part of small rank added."""

    def __init__(self, equations: Coupled, low_rank: LowRank, n: int) -> None:
        self.equations, self.low_rank, self.n = equations, low_rank, n
        k, r = equations.n_classes, low_rank.signs.size
        self._parts = slice(0, k), slice(k, 2 * k), slice(2 * k, 2 * k + r)
        self._outliers, self._along = equations.covariances.outliers
        self._size = 2 * k + r + self._along.shape[1]
        # Means and columns enter with the dimension's root, so that all entries are of order 1.
        shares = equations.ratio * equations.shares
        size = np.sqrt(equations.covariances.dimension)
        # The unit of features' variances, which samples' are divided by.
        self.unit = float(equations.shares @ equations.covariances.traces[equations.classes])
        # Negative eigenvalues of Phi far away.
        self._at_infinity = k + int(np.sum(low_rank.signs < 0))
        linear = np.sqrt(self.unit) * low_rank.linear
        self._squares = shares * linear**2
        self._cross = size * (shares * linear)[:, None] * low_rank.columns
        self._columns = size**2 * shares

    def form(self, g: Array, means: Array, apart: Array) -> Array:
        """Return the part of Phi that is linear in the resolvents, and that of the means.

        Parameters
        ----------
        g : ndarray of shape (m,)
        means : ndarray of shape (K, K)
        apart : ndarray of shape (o,)
            On the diagonal for directions of covariances that are set apart.
        """
        first, second, third = self._parts
        members, columns = self.equations.members, self.low_rank.columns
        out = np.diag(np.append(np.zeros(third.stop), apart).astype(g.dtype))
        out[first, first] = np.diag((self._squares * g) @ members)
        out[first, third] = members.T @ (self._cross * g[:, None])
        out[third, first] = out[first, third].T
        out[third, third] = columns.T @ ((self._columns * g)[:, None] * columns)
        out[second, second] = -means / self.unit
        return out

    def phi(self, state: State) -> Array:
        """Return Phi at a solution of the equations."""
        first, second, third = self._parts
        means = self.equations.covariances.mean_form(state.y)
        out = self.form(state.g, means, 1 + state.y @ self._outliers)
        identity = np.eye(self.equations.n_classes)
        out[first, second], out[second, first] = identity, identity
        out[third, third] += np.diag(self.low_rank.signs)
        fourth = slice(third.stop, self._size)
        out[second, fourth] = self._along / np.sqrt(self.unit)
        out[fourth, second] = out[second, fourth].T
        return out

    def balanced(self, state: State) -> tuple[Array, Array]:
        r"""Return :math:`B\Phi B` at a solution of the equations, and the diagonal of B.

        Long means are large in Phi and the resolvents that they meet are small, so that signs of
        Phi's eigenvalues, which are those of :math:`B\Phi B`, would be lost in rounding.
        """
        first, second, _ = self._parts
        phi = self.phi(state)
        sizes = np.abs(np.diagonal(phi))
        least = np.ones_like(sizes)
        least[first] = 1 / np.maximum(sizes[second], 1.0)
        balance = 1 / np.sqrt(np.maximum(sizes, least))
        return balance[:, None] * phi * balance, balance

    def push(self, state: State, isolated: int) -> Array:
        r"""Return by how much parts of small rank move the bulk's largest eigenvalue.

        The eigenvalue :math:`\lambda_1` of :math:`H_0` with vector u adds
        :math:`U^\top uu^\top U/(\lambda_1 - \lambda)` to :math:`\Phi`, which is singular again at
        :math:`\lambda_1 + u^\top U\Phi^{-1}U^\top u`. In the mean this is
        :math:`\operatorname{tr}\Phi^{-1}V`, :math:`V = \operatorname{Im}\Phi/\pi nf` with f the
        density: a sum over parts, negative for those that made isolated eigenvalues.

        Parameters
        ----------
        state : State
            A solution just inside the edge.
        isolated : int
            How many eigenvalues are isolated above it. Parts that seem to have made more, as near
            as they are to it, push outwards.
        """
        phi = self.phi(state)
        density = self.n * float(self.equations.shares @ state.g.imag)
        push = np.linalg.eigvals(np.linalg.solve(phi.real, phi.imag / density)).real
        seeming = int(np.sum(np.linalg.eigvalsh(self.balanced(state)[0].real) < 0))
        more = max(seeming - self._at_infinity - isolated, 0)
        inwards = np.argsort(push)[:more]
        push[inwards] = np.abs(push[inwards])
        return push

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
                far = equations.bound + equations.span
                inside = low + far if np.isfinite(low) else high - far
                guess = equations.far
            state = equations.on_axis(inside, np.ascontiguousarray(guess))
            if state is None or equations.stability(state) >= 1:
                continue
            try:
                spikes += self.between(low, high, inside, state.unknowns)
            except ConvergenceError:
                # In a narrow gap edges may be a little off; above the bulk they may not.
                if np.isinf(high):
                    raise
        return tuple(sorted(spikes, key=lambda spike: -spike.position))

    def between(self, low: float, high: float, inside: float, start: Array) -> list[Spike]:
        """Return the isolated eigenvalues in a gap.

        Parameters
        ----------
        low, high : float
            Ends of the gap; one may be infinite.
        inside : float
            A point of it.
        start : ndarray of shape (2K,)
            A solution there.
        """
        known = {inside: start}
        span = self.equations.span

        def solve(point: float) -> State | None:
            nearest = min(known, key=lambda other: abs(other - point))
            state = self.reach(nearest, known[nearest], point)
            if state is not None:
                known[point] = state.unknowns
            return state

        def eigenvalues(point: float) -> Array:
            state = solve(point)
            if state is None:
                raise ConvergenceError("the equations of isolated eigenvalues did not converge.")
            return np.asarray(np.linalg.eigvalsh(self.balanced(state)[0]))

        def negative(point: float) -> int:
            return int(np.sum(eigenvalues(point) < 0))

        def end(edge: float, outwards: int) -> float:
            # At the edge itself there is no solution; as near to it as there is one.
            margins = [margin * span for margin in (1e-6, 1e-5, 1e-4, 1e-3)]
            points = [edge - outwards * margin for margin in margins]
            inner = [point for point in points if outwards * (point - inside) > 0]
            return next((point for point in inner if solve(point) is not None), inside)

        left = end(low, -1) if np.isfinite(low) else inside
        right = end(high, +1) if np.isfinite(high) else inside
        while np.isinf(high) and negative(right) > self._at_infinity:
            right += max(span, abs(right))
        while np.isinf(low) and negative(left) < self._at_infinity:
            left -= max(span, abs(left))
        if left >= right:
            return []
        spikes = []
        for place in range(negative(right), negative(left)):
            root = brentq(
                lambda point, place=place: float(eigenvalues(point)[place]),
                left, right, xtol=1e-12 * span, rtol=1e-12, maxiter=2000,
            )  # fmt: skip
            state = solve(root)
            assert state is not None
            spikes.append(self._spike(state, root, place))
        return spikes

    def reach(self, known: float, unknowns: Array, point: float) -> State | None:
        """Solve at a point from a solution at another one, by steps as long as they can be."""
        step = point - known
        branch = self.equations.branch(self.equations.evaluate(np.array(known), unknowns))
        while True:
            target = point if step == point - known else known + step
            state = self.equations.on_axis(target, unknowns)
            if state is not None and self._belongs(state, branch):
                if target == point:
                    return state
                known, unknowns, step = target, state.unknowns, point - target
            elif abs(step) <= 1e-9 * self.equations.span:
                return None
            else:
                step *= 0.5

    def _belongs(self, state: State, branch: Array) -> bool:
        same = np.array_equal(self.equations.branch(state), branch)
        return same and self.equations.stability(state) < 1

    def _spike(self, state: State, position: float, place: int) -> Spike:
        equations, low_rank = self.equations, self.low_rank
        phi, balance = self.balanced(state)
        null = balance * np.linalg.eigh(phi)[1][:, place]
        g_slope, y_slope = equations.derivative(state)
        moved = equations.covariances.mean_slope(state.y, y_slope)
        slope = self.form(g_slope, moved, y_slope @ self._outliers)
        first, _, third = self._parts
        # The eigenvector's mean in each group, but for its length.
        linear = np.sqrt(self.unit) * low_rank.linear * (equations.members @ null[first])
        size = np.sqrt(equations.covariances.dimension)
        values = state.g * (linear + size * (low_rank.columns @ null[third]))
        values = values / np.sqrt(null @ slope @ null * equations.covariances.dimension)
        # Group means v_i times the root of the group's size, so that squares add up to shares.
        shares = self.n * equations.shares
        of_class = shares @ equations.members
        sums = (shares * values) @ equations.members
        alignment = sums**2 / of_class
        common = float(sums.sum() ** 2 / self.n)
        by_norm = (shares * values * low_rank.norms) @ equations.members
        weight = (shares * low_rank.norms**2) @ equations.members
        norms = float(np.sum(np.divide(by_norm**2, weight, out=np.zeros_like(weight),
                                       where=weight > 0)))  # fmt: skip
        return Spike(float(position), alignment, float(alignment.sum()) - common, common, norms)
