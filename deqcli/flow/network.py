r"""The network of GEN, its equilibrium, adjoint, gradient and kernel, batched over samples.

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

from deqcli.finite.fixed_point import FixedPoint, gauss_seidel
from deqcli.finite.norm import leading_triplet
from deqcli.flow.settings import LayerSettings

Array = NDArray[np.float64]

INJECTIONS: dict[str, Callable[[Array], Array]] = {
    "relu": lambda x: np.maximum(x, 0),
    "tanh": np.tanh,
    "identity": lambda x: x,
}

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
    n_features: int,
    width: int,
    rng: np.random.Generator,
    *,
    gamma0: float = 0.5,
    init: str = "gaussian",
    injection: str = "relu",
    scaling: str = "norm",
) -> Network:
    r"""Draw the weights of GEN (4): W Gaussian, b of signs, A of the law ``init``.

    Parameters
    ----------
    n_features, width : int
        p and m.
    gamma0 : float
        :math:`\gamma_0`, in (0, 1).
    init : str
        ``gaussian``: entries N(0, 1); ``half-normal``: :math:`|N(0, 1)|` (GEN §5.1); ``diagonal``:
        N(0, 1) on the diagonal and 0 beside it (GEN §5.2).
    scaling : str
        ``norm``: :math:`\gamma = \gamma_0/\|A(0)\|`; ``papers``: :math:`\gamma_0/\sqrt m`.

    Examples
    --------
    >>> network = draw_network(5, 40, np.random.default_rng(0), gamma0=0.3, init="half-normal")
    >>> round(float(np.linalg.norm(network.matrix, 2)), 12)
    0.3
    """
    # Refuses what cannot be drawn.
    LayerSettings(gamma0=gamma0, init=init, injection=injection, scaling=scaling)
    W = rng.standard_normal((n_features, width))
    b = rng.choice([-1.0, 1.0], width)
    if init == "diagonal":
        A = np.diag(rng.standard_normal(width))
    else:
        A = rng.standard_normal((width, width))
    if init == "half-normal":
        np.abs(A, out=A)
    scale = leading_triplet(A)[0] if scaling == "norm" else np.sqrt(width)
    gamma = float(gamma0 / scale)
    A *= gamma
    return Network(A, gamma, W, b, injection)


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
