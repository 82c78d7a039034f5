r"""Regression with the exact kernel of a DEQ, also on whole data sets.

.. math:: f(x) = k(x)^\top(K + \rho\,\tfrac{\operatorname{tr}K}nI)^{-1}T ,

what training an infinitely wide network to the end by least squares makes of it: with the tangent
kernel if all weights are trained, with the conjugate kernel if the readout is (theory.md §2).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from deqcli.activations import ActivationLike
from deqcli.classify import ridge_weights
from deqcli.conjugate import solve_ridge
from deqcli.errors import ConvergenceError
from deqcli.kernels.exact import implicit_kernels
from deqcli.operators import kernel_operator, operator_bytes
from deqcli.vocabulary import Kernel

Array = NDArray[np.float64]

#: Samples up to which the kernel is a matrix and the equations are solved directly.
DIRECT = 20_000
# New samples whose kernel with the training samples is made at a time.
_ROWS = 2048
# Columns of the kernel that precondition the steps.
_COLUMNS = 1000


@dataclass(frozen=True)
class KernelRidge:
    """A DEQ of infinite width that has learned its training samples.

    Attributes
    ----------
    act : Activation, str or callable
    sigma_a2 : float
    sigma_b2 : float or None
    kernel : Kernel
    samples : ndarray of shape (n, p)
        Those it was trained on.
    weights : ndarray of shape (n, r)
    residual : float or None
        Relative residual that conjugate gradients left, where they were used.
    """

    act: ActivationLike
    sigma_a2: float
    sigma_b2: float | None
    kernel: Kernel
    samples: Array
    weights: Array
    residual: float | None

    def outputs(self, X: Array) -> Array:
        """Return the outputs on new samples, of shape (q, r)."""
        parts = []
        for start in range(0, len(X), _ROWS):
            rows = X[start : start + _ROWS]
            exact = implicit_kernels(rows, self.act, self.sigma_a2, self.sigma_b2, self.samples)
            parts.append(exact.compute(self.kernel)[0] @ self.weights)
        return np.concatenate(parts)


def fit_kernel_ridge(
    X: Array,
    targets: Array,
    act: ActivationLike,
    sigma_a2: float,
    sigma_b2: float | None = None,
    *,
    kernel: Kernel = Kernel.NTK,
    ridge: float = 1e-3,
    direct: int = DIRECT,
    budget: float = 8 * 2.0**30,
) -> KernelRidge:
    """Train a DEQ of infinite width by least squares.

    Parameters
    ----------
    X : ndarray of shape (n, p)
    targets : ndarray of shape (n, r)
    act, sigma_a2, sigma_b2, kernel
        As :func:`deqcli.kernel_operator` takes them.
    ridge : float
        In units of the kernel's mean diagonal entry.
    direct : int
        Samples up to which the kernel is a matrix; beyond, it is an operator of two bytes a pair,
        and conjugate gradients solve the equations.
    budget : float
        Bytes that the operator may take.

    Examples
    --------
    >>> X = np.random.default_rng(0).standard_normal((120, 10)) / np.sqrt(10)
    >>> fits = [fit_kernel_ridge(X, X[:, :1], "relu", 0.2, direct=d) for d in (1000, 10)]
    >>> [fit.residual is None or fit.residual < 1e-6 for fit in fits]
    [True, True]
    >>> bool(np.abs(fits[0].outputs(X) - fits[1].outputs(X)).max() < 1e-4)
    True
    """
    residual = None
    if len(X) <= direct:
        # Copied, since the factorisation overwrites it.
        (matrix,) = implicit_kernels(X, act, sigma_a2, sigma_b2).compute(kernel)
        weights, _ = ridge_weights(matrix.copy(), targets, ridge)
    else:
        operator = kernel_operator(X, act, sigma_a2, sigma_b2, kernel=kernel, budget=budget)
        found = solve_ridge(operator, targets, ridge, columns=_COLUMNS)
        if not found.converged:
            raise ConvergenceError(
                f"conjugate gradients leave a residual of {found.residual:.2g} at `ridge` "
                f"{ridge:g}; raise it, or `direct` if a matrix fits in memory."
            )
        weights, residual = found.weights, found.residual
    return KernelRidge(act, sigma_a2, sigma_b2, kernel, X, weights, residual)


def ridge_bytes(n: int, p: int) -> int:
    """Return about how many bytes a fit to n samples of dimension p takes.

    Examples
    --------
    >>> round(ridge_bytes(60_000, 784) / 2**30, 1)
    6.1
    """
    rows = 16 * _ROWS * n
    if n <= DIRECT:
        return 16 * n * n + rows
    return operator_bytes(n, p) + max(16 * _COLUMNS * n, rows)
