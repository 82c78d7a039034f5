r"""The equilibrium of a layer of finite width, and the adjoint that its gradients need.

With samples in columns and the scale of the weights in :math:`W = \sigma_aA/\sqrt m`, the
equilibrium :math:`Y = \sqrt m Z` and the adjoint T of a source S solve

.. math:: Y = \phi(U), \quad U = WY + \text{bias}, \qquad T = \phi'(U)\circ(S + W^\top T)

(theory.md §1-2, by implicit differentiation): two fixed points alike, and no Jacobian is formed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from deqcli.activations import Activation
from deqcli.finite.elementwise import Elementwise
from deqcli.finite.fixed_point import Outcome, anderson, gauss_seidel
from deqcli.vocabulary import Solver

Array = NDArray[Any]
Precision = Literal["float32", "float64"]

#: Rows of a block of neurons: fewer lose matrix-product speed, more lose contraction.
_BLOCK = 256
#: Heights of blocks are multiples of this, as matrix products go by whole tiles.
_GRAIN = 64


def blocks(width: int, solver: Solver = Solver.GAUSS_SEIDEL) -> list[slice]:
    """Return the blocks of neurons that are updated together; one, but for Gauss-Seidel.

    Examples
    --------
    >>> [(block.start, block.stop) for block in blocks(600)]
    [(0, 320), (320, 600)]
    """
    count = max(1, round(width / _BLOCK)) if solver == Solver.GAUSS_SEIDEL else 1
    height = _GRAIN * math.ceil(width / count / _GRAIN)
    return [slice(start, min(start + height, width)) for start in range(0, width, height)]


class Equilibrium:
    """Solves both fixed points of a layer, each from zero.

    Parameters
    ----------
    act : Activation
        Used as it is, shift included.
    width : int
    solver : Solver
        All reach the same point. Gauss-Seidel updates blocks of neurons in turn: the same
        products, a third fewer iterations (:func:`deqcli.finite.fixed_point.gauss_seidel`).
    tolerance : float
        The largest relative residual, over samples, of both fixed points.
    max_iterations : int
    dtype : {"float32", "float64"}

    Examples
    --------
    >>> from deqcli.activations import activation
    >>> layer = Equilibrium(activation("identity"), 1, dtype="float64")
    >>> W, U, Y, T = np.array([[0.5]]), *np.empty((3, 1, 1))
    >>> layer.forward(W, np.ones((1, 1)), Y, U).converged, Y.round(4).item()
    (True, 2.0)
    >>> layer.adjoint(W, np.ones((1, 1)), U, T).converged, T.round(4).item()
    (True, 2.0)
    """

    def __init__(
        self,
        act: Activation,
        width: int,
        solver: Solver = Solver.GAUSS_SEIDEL,
        tolerance: float = 1e-6,
        max_iterations: int = 500,
        dtype: Precision = "float32",
    ) -> None:
        self.solver, self.tolerance, self.max_iterations = solver, tolerance, max_iterations
        self.blocks = blocks(width, solver)
        self._elementwise = Elementwise(act, dtype)

    def forward(
        self, matrix: Array, bias: Array, value: Array, preactivation: Array | None = None
    ) -> Outcome:
        """Solve for Y.

        Parameters
        ----------
        matrix : ndarray of shape (m, m)
            W.
        bias : ndarray of shape (m, n)
        value : ndarray of shape (m, n)
            Receives Y.
        preactivation : ndarray of shape (m, n), optional
            Receives U.
        """

        def finish(block: slice, product: Array) -> None:
            product += bias[block]
            if preactivation is not None:
                preactivation[block] = product
            self._elementwise.value(product)

        return self._solve(matrix, finish, value)

    def adjoint(self, matrix: Array, source: Array, preactivation: Array, value: Array) -> Outcome:
        """Solve for T.

        Parameters
        ----------
        matrix : ndarray of shape (m, m)
            W, as for :meth:`forward`.
        source : ndarray of shape (m, n) or (m, 1)
            S.
        preactivation : ndarray of shape (m, n)
            U; overwritten by the slope of the activation there.
        value : ndarray of shape (m, n)
            Receives T.
        """
        slope = preactivation
        self._elementwise.slope(slope)

        def finish(block: slice, product: Array) -> None:
            product += source[block]
            product *= slope[block]

        return self._solve(matrix.T, finish, value)

    def _solve(
        self, matrix: Array, finish: Callable[[slice, Array], None], value: Array
    ) -> Outcome:
        limits = self.tolerance, self.max_iterations
        if self.solver != Solver.ANDERSON:
            return gauss_seidel(
                matrix, finish, value, *limits, blocks=self.blocks, predict_residual=True
            )

        def step(rows: Array) -> Array:
            product = np.empty_like(value)
            np.matmul(matrix, rows.T, out=product)
            finish(slice(0, len(product)), product)
            return product.T

        solution = anderson(step, np.zeros_like(value.T), *limits)
        value[...] = solution.value.T
        return Outcome(
            solution.residual, solution.iterations, solution.status, solution.contraction
        )
