r"""A network in training: its matrix, and the equilibria and adjoints that belong to it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from deqcli.finite.fixed_point import FixedPoint, Status
from deqcli.finite.norm import NormTracker
from deqcli.flow.network import Network, adjoint, equilibrium, gradient, tangent_kernel

Array = NDArray[np.float64]

#: The norm of the matrix has reached 1: nothing says that the equilibrium is unique.
LOST = "contraction lost"
#: No neuron is awake at the start: nothing moves, and a step has no size.
ZERO = "kernel is zero"

# The first solve decides H(0), whose smallest eigenvalue may be 1e-7 of its largest.
_FIRST = 1e-12


@dataclass(frozen=True)
class Samples:
    """Training and test samples of norm 1 with targets in [-1, 1]; rows are samples."""

    X: Array
    y: Array
    X_test: Array
    y_test: Array


class LostError(Exception):
    """The map is no contraction, or a solve did not converge, at a time of the training."""

    def __init__(self, status: str, time: float, norm: float, contraction: float = np.nan) -> None:
        super().__init__(status)
        self.status, self.time, self.norm, self.contraction = status, time, norm, contraction


class State:
    """The matrix as trained so far, and the solutions that belong to it."""

    def __init__(self, network: Network, samples: Samples, tolerance: float) -> None:
        self.network, self.samples, self.tolerance = network, samples, tolerance
        self.matrix = network.matrix.copy()
        self._injected = network.inject(samples.X)
        self._injected_test = network.inject(samples.X_test)
        self._Z = [self._injected]
        self._w = np.ones_like(self._injected)
        self._w *= network.output_weights
        self._Z_test = self._injected_test
        self._tracker: NormTracker | None = None
        self.time = 0.0
        self.norm = self.contraction = np.nan
        self.sweeps = 0
        self.u = np.empty(0)

    @property
    def Z(self) -> Array:
        """The equilibria, of shape (n, m)."""
        return self._Z[-1]

    @property
    def V(self) -> Array:
        """The adjoints, of shape (n, m)."""
        return self._w * (self.Z > 0)

    def solve(
        self, time: float, matrix: Array, *, extrapolate: bool = False, refresh: bool = False
    ) -> None:
        """Set time and matrix and solve; ``extrapolate`` starts on the line of the last two."""
        self.time, self.matrix = time, matrix
        self._follow_norm(refresh)
        tolerance = _FIRST if self.u.size == 0 else self.tolerance
        Z = self.Z
        if extrapolate and len(self._Z) == 2:
            Z = np.maximum(2 * Z - self._Z[0], 0)
        forward = self._checked(equilibrium(matrix, self._injected, Z, tolerance))
        active = (forward.value > 0).astype(np.float64)
        b = self.network.output_weights
        backward = self._checked(adjoint(matrix, active, b, self._w, tolerance))
        self._Z, self._w = [self.Z, forward.value], backward.value
        self.contraction = forward.contraction
        self.sweeps = forward.iterations + backward.iterations
        self.u = self.network.outputs(forward.value)

    def _follow_norm(self, refresh: bool) -> None:
        if self._tracker is None:
            self._tracker = NormTracker(self.matrix)
        elif refresh:
            self._tracker.refresh(self.matrix)
        else:
            self._tracker.update(self.matrix)
        self.norm = self._tracker.value
        if np.isnan(self.norm):
            raise LostError(str(Status.DIVERGED), self.time, np.nan)
        if self.norm >= 1:
            raise LostError(LOST, self.time, self.norm)

    def _checked(self, solve: FixedPoint) -> FixedPoint:
        if not solve.converged:
            raise LostError(str(solve.status), self.time, self.norm, solve.contraction)
        return solve

    def outputs_test(self) -> Array:
        """Solve for the test samples, from where they were last, and return their outputs."""
        solve = equilibrium(self.matrix, self._injected_test, self._Z_test, self.tolerance)
        self._Z_test = self._checked(solve).value
        return self.network.outputs(self._Z_test)

    def kernel(self) -> Array:
        """Return H(t), of shape (n, n)."""
        return tangent_kernel(self.Z, self.V, self.network.gamma)

    def velocity(self) -> Array:
        """Return dM/dt of gradient flow, of shape (m, m)."""
        return -(self.network.gamma**2) * gradient(self.Z, self.V, self.u - self.samples.y)

    def loss(self) -> float:
        r"""Return the loss per training sample, :math:`\frac1{2n}\|u - y\|^2`."""
        return float(np.mean((self.u - self.samples.y) ** 2) / 2)
