r"""Ridge regression with kernels of whole data sets, by preconditioned conjugate gradients.

.. math:: (K + sI)\alpha = T, \qquad s = \rho\operatorname{tr}K/n, \qquad
          P = CW^{-1}C^\top + \delta I,

preconditioned by Nyström's approximation from some columns C of K, W their rows in C, with
:math:`\delta = s +` the mean of the diagonal that it lacks (Frangella, Tropp and Udell 2023 have a
random sketch in the place of columns). Every target has steps of its own; products are shared.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import cho_factor, cho_solve

from deqcli.checks import NOT_NEGATIVE, POSITIVE, Range, number, shown
from deqcli.display import Displayed
from deqcli.errors import DataError, InputError
from deqcli.kernels.matrix import check_columns
from deqcli.operators import KernelOperator

Array = NDArray[np.float64]

# A residual that grows so many times leaves six digits of any that follows, and soon none.
_LOST = 1e10


@dataclass(frozen=True, repr=False)
class RidgeSolution(Displayed):
    r"""What conjugate gradients found.

    Attributes
    ----------
    weights : ndarray of shape (n,) or (n, k)
        :math:`\alpha`.
    shift : float
        s.
    residual : float
        The largest :math:`\lVert T - (K + sI)\alpha\rVert/\lVert T\rVert` of all targets, computed
        anew at the end.
    iterations : int
    converged : bool
        Whether the residual is below the tolerance.
    """

    weights: Array
    shift: float
    residual: float
    iterations: int
    converged: bool

    def _facts(self) -> dict[str, object]:
        return {
            "weights": " x ".join(map(str, self.weights.shape)),
            "residual": f"{self.residual:.2g} after {self.iterations} steps",
            "converged": self.converged,
        }


def solve_ridge(
    operator: KernelOperator,
    targets: ArrayLike,
    ridge: float = 1e-3,
    *,
    tolerance: float = 1e-6,
    columns: int = 1000,
    most: int = 2000,
) -> RidgeSolution:
    r"""Return the weights of kernel ridge regression, with the residual they leave.

    Takes 16 n × ``columns`` bytes besides the operator.

    Parameters
    ----------
    operator : KernelOperator
        Of :func:`deqcli.kernel_operator`.
    targets : array of shape (n,) or (n, k)
    ridge : float
        :math:`\rho`, in units of the kernel's mean diagonal entry.
    tolerance : float
        Relative residual at which a target is solved.
    columns : int
        Of the kernel, for the preconditioner; a quarter of them all at most.
    most : int
        Steps.

    Examples
    --------
    >>> from deqcli import kernel_operator
    >>> X = np.random.default_rng(0).standard_normal((300, 20)) / np.sqrt(20)
    >>> found = solve_ridge(kernel_operator(X, "relu", 0.2), X[:, 0])
    >>> found.converged, found.residual < 1e-6, found.weights.shape
    (True, True, (300,))
    """
    if not isinstance(operator, KernelOperator):
        raise InputError(f"`operator` is {shown(operator)}; give what kernel_operator returned.")
    n = operator.shape[0]
    T = check_columns(targets, "targets")
    if len(T) != n:
        raise DataError(f"`targets` has {len(T)} rows for {n} samples; give a row for each.")
    ridge = number(ridge, "ridge", float, NOT_NEGATIVE)
    tolerance = number(tolerance, "tolerance", float, Range(least=1e-14, below=1))
    columns = min(number(columns, "columns", int, POSITIVE), max(1, n // 4))
    most = number(most, "most", int, POSITIVE)
    shift = ridge * float(operator.diagonal.mean())
    precondition = _nystrom(operator, shift, columns)
    # Squares of tiny targets would be zero; powers of two change no digit.
    units = np.ldexp(1.0, np.frexp(np.abs(T).max(axis=0))[1] - 1)
    T = T / units
    sizes = np.linalg.norm(T, axis=0)
    sizes[sizes == 0] = 1.0
    weights, iterations = _steps(operator, shift, T, tolerance * sizes, precondition, most)
    left = T - (operator @ weights + shift * weights)
    residual = float((np.linalg.norm(left, axis=0) / sizes).max())
    # Rounding adds up along the steps: what is left of the tolerance need not be exact.
    done = residual <= 2 * tolerance
    return RidgeSolution(
        (weights * units).reshape(np.shape(targets)), shift, residual, iterations, done
    )


def _steps(
    operator: KernelOperator,
    shift: float,
    targets: Array,
    enough: Array,
    precondition: Callable[[Array], Array],
    most: int,
) -> tuple[Array, int]:
    """Return the nearest weights when all targets are solved or no more steps are allowed."""
    weights, left = np.zeros_like(targets), targets.copy()
    nearest, least = weights.copy(), np.linalg.norm(left, axis=0)
    active = np.flatnonzero(least > enough)
    directions = precondition(left)
    products = np.einsum("ij,ij->j", left, directions)
    steps = 0
    while active.size and steps < most:
        steps += 1
        along = directions[:, active]
        images = operator @ along + shift * along
        curvatures = np.einsum("ij,ij->j", along, images)
        # Where rounding makes the matrix indefinite nothing more can be found.
        good = curvatures > 0
        active, along, images = active[good], along[:, good], images[:, good]
        lengths = products[active] / curvatures[good]
        weights[:, active] += lengths * along
        left[:, active] -= lengths * images
        now = np.linalg.norm(left[:, active], axis=0)
        # Equations without a solution, as of duplicates with unequal targets, lead away from it.
        nearer = active[now < least[active]]
        nearest[:, nearer] = weights[:, nearer]
        least[active] = np.minimum(now, least[active])
        active = active[(now > enough[active]) & (now < _LOST * least[active])]
        better = precondition(left[:, active])
        after = np.einsum("ij,ij->j", left[:, active], better)
        directions[:, active] = better + (after / products[active]) * directions[:, active]
        products[active] = after
    return nearest, steps


def _nystrom(operator: KernelOperator, shift: float, columns: int) -> Callable[[Array], Array]:
    """Return the inverse of Nyström's approximation, plus a multiple of the identity."""
    n = operator.shape[0]
    chosen = np.sort(np.random.default_rng(0).choice(n, columns, replace=False))
    some = operator.columns(chosen)
    values, vectors = np.linalg.eigh(some[chosen])
    mean = float(operator.diagonal.mean()) or 1.0
    # Below the shift, or what was rounded off, directions of W are not told from noise.
    least = max(shift, operator.rounding / n, 1e-12 * mean)
    factor = some @ (vectors / np.sqrt(np.maximum(values, least)))
    lacking = float(np.mean(operator.diagonal - np.einsum("ij,ij->i", factor, factor)))
    delta = max(shift + max(lacking, 0.0), 1e-12 * mean)
    inner = factor.T @ factor
    inner[np.diag_indices_from(inner)] += delta
    solved = cho_factor(inner, overwrite_a=True, check_finite=False)

    def inverse(block: Array) -> Array:
        small = cho_solve(solved, factor.T @ block, check_finite=False)
        return np.asarray((block - factor @ small) / delta)

    return inverse
