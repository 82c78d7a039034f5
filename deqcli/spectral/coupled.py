r"""The coupled equations of a spectrum, solved at complex and at real points.

Samples fall into groups i, each of a class a(i), with a share :math:`\rho_i`, a weight
:math:`d_i` of their features' noise, an offset :math:`\delta_i`, and offsets that vary by a
variance :math:`v_i` around it. The resolvent of a matrix with these parts and a Wigner matrix of
variances :math:`\tau_i\tau_jw_{ab}/n` has the diagonal :math:`g_i(\lambda)`, solution of

.. math:: g_i = \frac1{d_ih_a + \delta_i - \tau_ie_a - v_ig_i - \lambda}, \quad
   h_a = \tfrac1p\operatorname{tr}C_a\Psi, \quad
   e_a = \frac{E_a}{1 + E_a/\theta_a}, \quad
   E_a = \sum_bw_{ab}\sum_{i\in b}\rho_i\tau_ig_i, \quad
   \Psi = \Big(I + \sum_by_bC_b\Big)^{-1}, \quad y_b = \frac np\sum_{i\in b}\rho_id_ig_i

(theory.md §10). A Wigner matrix has :math:`1/\theta = 0`; noise that is the product of many
features, less its mean diagonal :math:`\theta`, is not quite one. The unknowns are h and e, 2K
numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from deqcli.errors import ConvergenceError
from deqcli.spectral.covariances import Covariances

Array = NDArray[np.float64]
Numbers = NDArray[Any]

# Imaginary parts go down to this, relative to the width of the spectrum.
HEIGHT = 1e-11
_TOLERANCE = 1e-12
# Where the surrogate's Jacobian serves, the error is divided by about ten each time.
_ENOUGH, _CORRECTIONS = 1e-7, 15
# From how far above the axis Newton finds to it where the surrogate's solution is too far away.
_START = 1e-3
# An expansion that adds more than this part of the whole does not serve.
_COARSE = 0.1


class State(NamedTuple):
    """A solution: the unknowns, and what follows from them (leading axes are points)."""

    unknowns: Numbers
    g: Numbers
    slope: Numbers
    y: Numbers
    residual: Numbers
    bent: Numbers


@dataclass(frozen=True)
class Coupled:
    r"""The coupled equations of one law.

    Attributes
    ----------
    covariances : Covariances
    ratio : float
        n/p.
    classes : ndarray of shape (m,)
        Class of each group.
    shares : ndarray of shape (m,)
        Their sum is one.
    scales, offsets, variances, noise : ndarray of shape (m,)
        :math:`d_i`, :math:`\delta_i`, :math:`v_i` and :math:`\tau_i`.
    coupling : ndarray of shape (K, K)
        w.
    skews : ndarray of shape (K,)
        :math:`1/\theta`.
    """

    covariances: Covariances
    ratio: float
    classes: NDArray[np.int64]
    shares: Array
    scales: Array
    offsets: Array
    variances: Array
    noise: Array
    coupling: Array
    skews: Array

    @cached_property
    def members(self) -> Array:
        """Which group is of which class, of shape (m, K)."""
        return np.eye(len(self.coupling))[self.classes]

    @property
    def n_classes(self) -> int:
        """The number of classes K."""
        return len(self.coupling)

    @cached_property
    def span(self) -> float:
        """The width of the spectrum, roughly."""
        noise = float(np.max(self.scales * self.covariances.traces[self.classes]))
        spread = float(np.ptp(self.offsets)) + 4 * np.sqrt(
            float(np.max(self.variances)) + float(np.max(self.coupling))
        )
        least = 1e-3 * float(np.abs(self.offsets).max())
        return max(noise * (1 + np.sqrt(self.ratio)) ** 2 + float(spread), least)

    @property
    def bound(self) -> float:
        """A distance from the offsets beyond which there is no spectrum."""
        noise = float(np.max(self.scales)) * self.covariances.norm
        wigner = float(np.max(self.variances) + np.max(self.coupling) * np.max(self.noise) ** 2)
        return 1.05 * noise * (1 + np.sqrt(self.ratio)) ** 2 + 4 * float(np.sqrt(wigner))

    @property
    def offset_deviation(self) -> float:
        """The standard deviation of offsets within classes."""
        within = self.shares @ self.members
        means = (self.shares * self.offsets) @ self.members / within
        spread = (self.offsets - means[self.classes]) ** 2 + self.variances
        return float(np.sqrt(self.shares @ spread))

    @property
    def far(self) -> Array:
        """The unknowns far away from the spectrum."""
        nothing = np.zeros(self.n_classes)
        return np.concatenate([self.covariances.response(nothing), nothing])

    @cached_property
    def surrogate(self) -> Coupled:
        """The same with covariances that commute."""
        return replace(self, covariances=self.covariances.surrogate)

    def evaluate(self, z: Numbers, unknowns: Numbers) -> State:
        """Return the groups' resolvents for given unknowns and by how much those miss."""
        k = self.n_classes
        h, e = unknowns[..., :k], unknowns[..., k:]
        x = self.scales * h[..., self.classes] - self.noise * e[..., self.classes]
        x += self.offsets - z[..., None]
        radius = 2 * np.sqrt(self.variances)
        if np.iscomplexobj(x):
            root = np.sqrt(x - radius) * np.sqrt(x + radius)
        else:
            with np.errstate(invalid="ignore"):
                root = np.sign(x) * np.sqrt(x**2 - radius**2)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            g = 2 / (x + root)
            slope = g**2 / (1 - self.variances * g**2)
        y = self.ratio * (self.shares * self.scales * g) @ self.members
        linear = ((self.shares * self.noise * g) @ self.members) @ self.coupling
        bent = 1 / (1 + linear * self.skews)
        residual = np.concatenate([self.covariances.response(y) - h, linear * bent - e], axis=-1)
        return State(unknowns, g, slope, y, residual, bent)

    def jacobian(self, state: State, omega: Numbers) -> Numbers:
        """Return the derivative of the right-hand sides by the unknowns, (..., 2K, 2K)."""
        k = self.n_classes
        weight = self.shares * state.slope
        mixed = (weight * self.scales * self.noise) @ self.members
        dy_h = -self.ratio * (weight * self.scales**2) @ self.members
        out = np.empty((*state.y.shape[:-1], 2 * k, 2 * k), dtype=state.y.dtype)
        out[..., :k, :k] = -omega * dy_h[..., None, :]
        out[..., :k, k:] = -omega * (self.ratio * mixed)[..., None, :]
        coupling = self.coupling * state.bent[..., :, None] ** 2
        out[..., k:, :k] = -coupling * mixed[..., None, :]
        out[..., k:, k:] = coupling * ((weight * self.noise**2) @ self.members)[..., None, :]
        return out

    # ---------------------------------------------------------------- points off the real axis

    def above(self, points: Array, lowest: float = HEIGHT) -> State:
        """Solve just above the real axis.

        From far above it, where iterating contracts, imaginary parts are lowered step by step.
        Where covariances do not commute, the solution of those that do is corrected.

        Parameters
        ----------
        points : ndarray of shape (q,)
        lowest : float
            How far above, relative to the width of the spectrum.
        """
        if self.covariances.surrogate is not self.covariances:
            return self._correct(points)
        unknowns = np.tile(self.far.astype(complex), (points.size, 1))
        height = 2.0
        while True:
            z = points + 1j * height * self.span
            state = self._lower(z, unknowns)
            if height <= lowest:
                return state
            unknowns, height = state.unknowns, max(height / 6, lowest)

    def _lower(self, z: Numbers, unknowns: Numbers) -> State:
        """Solve at given points from nearby unknowns, by Newton where that stays in its domain."""
        k = self.n_classes
        identity, small = np.eye(2 * k), 1e-13 * self.span
        unknowns = unknowns.copy()
        left = np.arange(z.size)
        for step in range(400):
            state = self.evaluate(z[left], unknowns[left])
            miss = np.abs(state.residual).max(axis=1)
            open_ = miss > _TOLERANCE * np.abs(state.unknowns).max(axis=1)
            if not open_.any():
                break
            left, state = left[open_], State(*(part[open_] for part in state))
            new = state.unknowns + 0.5 * state.residual
            if step % 2:
                jacobian = self.jacobian(state, self.covariances.omega(state.y))
                change = np.linalg.solve(identity - jacobian, state.residual[..., None])[..., 0]
                newton = state.unknowns + change
                # A resolvent lies in the upper half plane: h does not, e does.
                good = (newton[:, :k].imag <= small).all(1) & (newton[:, k:].imag >= -small).all(1)
                new = np.where(good[:, None], newton, new)
            unknowns[left] = new
        else:
            if miss.max() > 1e-6 * np.abs(unknowns).max():
                raise ConvergenceError("the equations of the spectrum's density did not converge.")
        return self.evaluate(z, unknowns)

    def _correct(self, points: Array) -> State:
        """Solve from the surrogate's solution, and without expansion where that is too coarse."""
        z, own = points + 1j * HEIGHT * self.span, self.covariances
        unknowns = self.surrogate.above(points).unknowns
        unknowns, solved = self._corrected(z, unknowns, own.surrogate)
        for covariances in (own, own.exact):
            left = np.flatnonzero(~solved)
            if left.size:
                start = self.surrogate.above(points[left], _START).unknowns
                equations = replace(self, covariances=covariances)
                unknowns[left], solved[left] = equations._corrected(z[left], start, covariances)
            if covariances is own:
                y = self.evaluate(z, unknowns).y
                expanded = own.response(y)
                added = np.abs(expanded - own.surrogate.response(y))
                solved &= np.all(added < _COARSE * np.abs(expanded), axis=1)
        if not solved.all():
            raise ConvergenceError("the equations of the spectrum's density did not converge.")
        return self.evaluate(z, unknowns)

    def _corrected(
        self, z: Numbers, unknowns: Numbers, slopes: Covariances
    ) -> tuple[Numbers, NDArray[np.bool_]]:
        """Return unknowns by Newton with the Jacobian of some covariances, and which are right."""
        unknowns, solved = unknowns.copy(), np.zeros(z.size, dtype=bool)
        for _ in range(_CORRECTIONS):
            left = np.flatnonzero(~solved)
            state = self.evaluate(z[left], unknowns[left])
            miss = np.abs(state.residual).max(axis=1)
            near = miss <= _ENOUGH * np.abs(state.unknowns).max(axis=1)
            # A resolvent lies in the upper half plane.
            solved[left] = near & np.all(state.g.imag > -1e-6 * np.abs(state.g), axis=1)
            open_ = ~solved[left]
            if not open_.any():
                break
            left, state = left[open_], State(*(part[open_] for part in state))
            jacobian = self.jacobian(state, slopes.omega(state.y))
            identity = np.eye(2 * self.n_classes)
            unknowns[left] += np.linalg.solve(identity - jacobian, state.residual[..., None])[
                ..., 0
            ]
        return unknowns, solved

    # --------------------------------------------------------------------------- real points

    def on_axis(self, point: float, unknowns: Array) -> State | None:
        """Solve at a real point outside the support, by Newton; None if that does not converge."""
        z, identity = np.array(point), np.eye(2 * self.n_classes)
        moved, strikes = np.inf, 0
        for _ in range(40):
            state = self.evaluate(z, unknowns)
            if not np.isfinite(state.residual).all():
                return None
            jacobian = self.jacobian(state, self.covariances.omega(state.y))
            change = np.linalg.solve(identity - jacobian, state.residual)
            size, before = float(np.abs(unknowns).max()), moved
            unknowns, moved = unknowns + change, float(np.abs(change).max())
            if moved <= 1e-11 * size:
                return self.evaluate(z, unknowns)
            # Newton halves a double root's error; where there is no root it wanders.
            strikes += moved > before
            if strikes > 1 or moved > 1e3 * size:
                return None
        return None

    def branch(self, state: State) -> Array:
        """Return signs that a solution keeps while it crosses no part of the spectrum."""
        return np.append(np.sign(state.g), self.covariances.directions(state.y))

    def stability(self, state: State) -> float:
        """Return a number below one outside the support, one at its edges."""
        jacobian = self.jacobian(state, self.covariances.omega(state.y))
        own = float(np.max(self.variances * state.g**2))
        return max(float(np.abs(np.linalg.eigvals(jacobian)).max()), own)

    def derivative(self, state: State) -> tuple[Array, Array]:
        """Return the derivatives of g and y by the real point."""
        return self.perturbed(state, offsets=-np.ones_like(self.offsets))

    def perturbed(
        self, state: State, *, offsets: Array | None = None, response: Array | None = None
    ) -> tuple[Array, Array]:
        r"""Return the derivatives of g and y along a change of the equations.

        Parameters
        ----------
        state : State
            A solution at a real point.
        offsets : ndarray of shape (m,), optional
            The change of :math:`\delta_i`.
        response : ndarray of shape (K,), optional
            The change of :math:`h_a` at given y.
        """
        k = self.n_classes
        shift = np.zeros_like(self.offsets) if offsets is None else offsets
        omega = self.covariances.omega(state.y)
        weight = self.shares * state.slope * shift
        direct = np.concatenate(
            [
                omega @ (self.ratio * (weight * self.scales) @ self.members),
                -(state.bent**2) * (self.coupling @ ((weight * self.noise) @ self.members)),
            ]
        )
        if response is not None:
            direct[:k] += response
        change = np.linalg.solve(np.eye(2 * k) - self.jacobian(state, omega), direct)
        moved = self.scales * change[:k][self.classes] - self.noise * change[k:][self.classes]
        slope = -state.slope * (moved + shift)
        return slope, self.ratio * (self.shares * self.scales * slope) @ self.members
