r"""Classifiers that are trained by least squares: with a kernel, or on the features of a network.

.. math:: f(x) = k(x)^\top(K + \lambda I)^{-1}(T - 1b^\top) + b, \qquad
          \lambda = \rho\,\tfrac1n\operatorname{tr}K,

T the targets of the training samples. Without a bias b = 0; with one the residuals sum to zero
(least-squares support vector machine).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from deqcli.errors import ConvergenceError, InputError

Array = NDArray[np.float64]


def ridge_weights(kernel: Array, targets: Array, ridge: float) -> tuple[Array, float]:
    r"""Return :math:`(K + sI)^{-1}T` and the shift :math:`s = \rho\operatorname{tr}K/n`.

    Parameters
    ----------
    kernel : ndarray of shape (n, n)
        Overwritten.
    targets : ndarray of shape (n, k)
    ridge : float
        :math:`\rho`.

    Examples
    --------
    >>> weights, shift = ridge_weights(np.diag([1.0, 3.0]), np.eye(2), ridge=0.5)
    >>> weights.diagonal(), shift
    (array([0.5 , 0.25]), 1.0)
    """
    if not (np.isfinite(ridge) and ridge >= 0):
        raise InputError(f"`ridge` is {ridge:g}; give a number of at least 0.")
    shift = ridge * float(np.mean(np.diagonal(kernel)))
    return _solve(kernel, targets, shift, ridge), shift


def kernel_outputs(
    kernel: Array, targets: Array, test_kernel: Array, ridge: float, bias: bool = False
) -> Array:
    """Return the outputs of kernel ridge regression on new samples, of shape (q, r).

    Parameters
    ----------
    kernel : ndarray of shape (n, n)
        Between training samples. Overwritten.
    targets : ndarray of shape (n, r)
    test_kernel : ndarray of shape (q, n)
        Between new and training samples.
    ridge : float
        In units of the kernel's mean diagonal entry.
    bias : bool

    Examples
    --------
    >>> X, T = np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([[1.0], [0.0]])
    >>> kernel_outputs(X @ X.T, T, X[:1] @ X.T, ridge=1.0).round(12)
    array([[0.5]])
    >>> kernel_outputs(X @ X.T, T, X[:1] @ X.T, ridge=1.0, bias=True).round(12)
    array([[0.75]])
    """
    if not bias:
        return np.asarray(test_kernel @ ridge_weights(kernel, targets, ridge)[0])
    both = np.column_stack([targets, np.ones(len(targets))])
    solved = ridge_weights(kernel, both, ridge)[0]
    weights, ones = solved[:, :-1], solved[:, -1]
    shift = weights.sum(axis=0) / ones.sum()
    return np.asarray(test_kernel @ (weights - np.outer(ones, shift)) + shift)


def feature_outputs(
    features: Array, targets: Array, test_features: Array, ridge: float, bias: bool = False
) -> Array:
    r"""Return the outputs of a readout by ridge regression on new samples, of shape (q, r).

    The smaller of two systems is solved, that of the n samples or that of the m features:
    :math:`(Z^\top Z + \lambda)^{-1}T` or :math:`(ZZ^\top + \lambda)^{-1}ZT`.

    Parameters
    ----------
    features : ndarray of shape (m, n)
        Z, of the training samples.
    targets : ndarray of shape (n, r)
    test_features : ndarray of shape (m, q)
    ridge : float
        In units of the mean squared norm of the samples' features.
    bias : bool

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> Z, new, T = rng.standard_normal((3, 8)), rng.standard_normal((3, 2)), np.eye(8, 1)
    >>> first = feature_outputs(Z, T, new, 0.1)
    >>> bool(np.allclose(first, kernel_outputs(Z.T @ Z, T, new.T @ Z, 0.1)))
    True
    """
    m, n = features.shape
    if m >= n:
        return kernel_outputs(features.T @ features, targets, test_features.T @ features, ridge,
                              bias)  # fmt: skip
    shift = ridge * float(np.vdot(features, features)) / n
    centre, middle = np.zeros((m, 1)), np.zeros(targets.shape[1])
    if bias:
        # A bias that is not penalised takes the means away.
        centre, middle = features.mean(axis=1, keepdims=True), targets.mean(axis=0)
    Z = features - centre
    weights = _solve(Z @ Z.T, Z @ (targets - middle), shift, ridge)
    return np.asarray((test_features - centre).T @ weights + middle)


def _solve(matrix: Array, right: Array, shift: float, ridge: float) -> Array:
    """Return (matrix + shift I)^-1 right; the matrix is overwritten."""
    n = len(matrix)
    matrix[np.diag_indices(n)] += shift
    try:
        factor = cho_factor(matrix, overwrite_a=True, check_finite=False)
    except np.linalg.LinAlgError:
        raise ConvergenceError(
            f"the kernel of {n} samples with `ridge` {ridge:g} is singular; raise `ridge`."
        ) from None
    return np.asarray(cho_solve(factor, right, check_finite=False))
