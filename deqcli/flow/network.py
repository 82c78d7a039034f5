r"""The network of GEN: equilibrium, adjoint, gradient and kernel of all samples, in training.

.. math:: f(x) = z^\top b/\sqrt m, \qquad z = \mathrm{ReLU}(\gamma A^\top z + \phi(W^\top x))

Only A is trained, and it enters as :math:`M = \gamma A` alone. So M is what is stored, and
:math:`\gamma` only sets the clock: a flow of A is a flow of M slowed down by :math:`\gamma^2`.

The map contracts, and the equilibrium is unique, while :math:`\|\gamma A\| < 1`. How the norm of
A(0) grows depends on its law, and GEN's :math:`\gamma = \gamma_0/\sqrt m`, 0 < :math:`\gamma_0`
< 1, does not make a contraction of each:

=============  ==============================  ========================================
law of A(0)    :math:`\|A(0)\|`                :math:`\|\gamma A(0)\|` with GEN's scaling
=============  ==============================  ========================================
gaussian       :math:`2\sqrt m`                :math:`2\gamma_0`: only for :math:`\gamma_0 < 1/2`
half-normal    :math:`m\sqrt{2/\pi}` (Perron)  :math:`\gamma_0\sqrt{2m/\pi}`: for no large m
diagonal       :math:`\sqrt{2\log m}`          :math:`\gamma_0\sqrt{2\log(m)/m}`: always
=============  ==============================  ========================================

The default, ``scaling="norm"``, is :math:`\gamma = \gamma_0/\|A(0)\|`, with which the first map
contracts with the constant :math:`\gamma_0` whatever the law; GEN's proof asks for this (its
Lemma 3.2 and "without loss of generality c = 1"). For a half-normal A it makes
:math:`\gamma \sim 1/m` and H(0) of order 1/m: :math:`\lambda_0` is then no constant (GEN §5.1).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from deqcli.finite.fixed_point import FixedPoint, Status, gauss_seidel
from deqcli.finite.norm import NormTracker, leading_triplet
from deqcli.flow.settings import LayerSettings

Array = NDArray[np.float64]

INJECTIONS: dict[str, Callable[[Array], Array]] = {
    "relu": lambda x: np.maximum(x, 0),
    "tanh": np.tanh,
    "identity": lambda x: x,
}

#: The norm of the matrix has reached 1: nothing says that the equilibrium is unique.
LOST = "contraction lost"
#: No neuron is awake at the start: nothing moves, and a step has no size.
ZERO = "kernel is zero"
#: The first solve decides H(0), whose smallest eigenvalue may be 1e-7 of its largest.
_FIRST = 1e-12
_MAX_SWEEPS = 500


@dataclass(frozen=True)
class Network:
    r"""What is drawn once: all weights at time 0.

    Attributes
    ----------
    matrix : ndarray of shape (m, m)
        :math:`M(0) = \gamma A(0)`.
    gamma : float
        :math:`\gamma`.
    input_weights : ndarray of shape (p, m)
        W, never trained.
    output_weights : ndarray of shape (m,)
        b, signs, never trained.
    injection : str
        Of :data:`INJECTIONS`, the 1-Lipschitz :math:`\phi`.
    """

    matrix: Array
    gamma: float
    input_weights: Array
    output_weights: Array
    injection: str = "relu"

    @property
    def width(self) -> int:
        """The number m of neurons."""
        return len(self.matrix)

    def inject(self, X: Array) -> Array:
        r"""Return :math:`\phi(XW)`, of shape (n, m)."""
        return INJECTIONS[self.injection](X @ self.input_weights)

    def outputs(self, Z: Array) -> Array:
        r"""Return :math:`u = Zb/\sqrt m`, of shape (n,)."""
        return Z @ self.output_weights / np.sqrt(self.width)


def draw_network(
    n_features: int, width: int, rng: np.random.Generator, layer: LayerSettings
) -> Network:
    r"""Draw the weights of GEN (4): W Gaussian, b of signs, A of the law ``layer.init``.

    The laws are ``gaussian``: entries N(0, 1); ``half-normal``: :math:`|N(0, 1)|` (GEN §5.1);
    ``diagonal``: N(0, 1) on the diagonal and 0 beside it (GEN §5.2).

    Examples
    --------
    >>> layer = LayerSettings(gamma0=0.3, init="half-normal")
    >>> network = draw_network(5, 40, np.random.default_rng(0), layer)
    >>> round(float(np.linalg.norm(network.matrix, 2)), 12)
    0.3
    """
    W = rng.standard_normal((n_features, width))
    b = rng.choice([-1.0, 1.0], width)
    if layer.init == "diagonal":
        A = np.diag(rng.standard_normal(width))
    else:
        A = rng.standard_normal((width, width))
    if layer.init == "half-normal":
        np.abs(A, out=A)
    scale = leading_triplet(A)[0] if layer.scaling == "norm" else np.sqrt(width)
    gamma = float(layer.gamma0 / scale)
    A *= gamma
    return Network(A, gamma, W, b, layer.injection)


def equilibrium(matrix: Array, injected: Array, start: Array, tolerance: float) -> FixedPoint:
    r"""Solve :math:`Z = \mathrm{ReLU}(ZM + \Phi)`, rows :math:`z_i^\top`, by products alone.

    Parameters
    ----------
    matrix : ndarray of shape (m, m)
        :math:`M = \gamma A`.
    injected, start : ndarray of shape (n, m)
        :math:`\Phi`, and the first Z: the one of the step before saves most of the sweeps.
    tolerance : float
        The last change of each sample, relative to its norm.

    Examples
    --------
    >>> solve = equilibrium(np.array([[0.5]]), np.array([[1.0]]), np.zeros((1, 1)), 1e-9)
    >>> solve.converged, round(float(solve.value[0, 0]), 6), round(solve.contraction, 6)
    (True, 2.0, 0.5)
    """

    def finish(_: slice, product: Array) -> None:
        product += injected.T
        np.maximum(product, 0, out=product)

    return _solve(matrix.T, finish, start, tolerance)


def adjoint(matrix: Array, active: Array, b: Array, start: Array, tolerance: float) -> FixedPoint:
    r"""Solve :math:`w_i = b + \gamma A D_i w_i` for all samples at once, as a fixed point.

    Then :math:`v_i = D_i w_i = D_i(I - \gamma A D_i)^{-1}b` (theory.md §8). The unmasked w is
    returned since it moves less than v when a neuron of a sample wakes up.

    Parameters
    ----------
    active : ndarray of shape (n, m)
        The diagonals of :math:`D_i`, 1 where :math:`z_i > 0` and 0 elsewhere.
    b : ndarray of shape (m,)
    start : ndarray of shape (n, m)
        The first w.
    """

    def finish(_: slice, product: Array) -> None:
        product += b[:, None]

    return _solve(matrix, finish, start, tolerance, active.T)


def _solve(
    matrix: Array,
    finish: Callable[[slice, Array], None],
    start: Array,
    tolerance: float,
    mask: Array | None = None,
) -> FixedPoint:
    """Iterate all neurons at once, so that the contraction seen is that of the map itself."""
    value = start.copy()
    outcome = gauss_seidel(
        matrix, finish, value.T, tolerance, _MAX_SWEEPS,
        blocks=[slice(0, len(matrix))], mask=mask, warm=True,
    )  # fmt: skip
    return FixedPoint(**vars(outcome), value=value)


def gradient(Z: Array, V: Array, residual: Array) -> Array:
    r"""Return :math:`\partial L/\partial M = Z^\top\mathrm{diag}(u - y)V/\sqrt m` of shape (m, m).

    L is :math:`\frac12\|u-y\|^2`. With respect to A it is :math:`\gamma` times this (GEN (6)).

    Parameters
    ----------
    Z, V : ndarray of shape (n, m)
        Equilibria and adjoints.
    residual : ndarray of shape (n,)
        :math:`u - y`.
    """
    return Z.T @ (V * (residual / np.sqrt(Z.shape[1]))[:, None])


def tangent_kernel(Z: Array, V: Array, gamma: float) -> Array:
    r"""Return :math:`H_{ij} = (\gamma^2/m)(z_i^\top z_j)(v_i^\top v_j)` of shape (n, n).

    The gradients :math:`\partial f(x_i)/\partial A = (\gamma/\sqrt m) z_i v_i^\top` have rank one,
    so their inner products cost :math:`O(n^2 m)` (GEN (8); theory.md §8).

    Examples
    --------
    >>> tangent_kernel(np.array([[2.0, 0.0]]), np.array([[1.0, 1.0]]), 0.5)
    array([[1.]])
    """
    H = Z @ Z.T
    H *= V @ V.T
    H *= gamma**2 / Z.shape[1]
    return H


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
