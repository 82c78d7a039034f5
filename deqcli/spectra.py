"""Eigenvalues and operator norms of kernels and of their equivalents."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigvalsh
from scipy.sparse.linalg import LinearOperator, aslinearoperator, eigsh

Array = NDArray[np.float64]

# Below this size a full decomposition is as quick as Lanczos, and exact.
_DENSE = 200


def eigenvalues(matrix: Array) -> Array:
    """Return the eigenvalues of a symmetric matrix in ascending order."""
    return np.asarray(eigvalsh(matrix, check_finite=False))


def operator_norm(matrix: Array | LinearOperator) -> float:
    """Return the largest absolute eigenvalue of a symmetric matrix or operator, by Lanczos.

    Parameters
    ----------
    matrix : ndarray or LinearOperator of shape (n, n)
        Symmetric.

    Examples
    --------
    >>> operator_norm(np.diag([1.0, -3.0, 2.0]))
    3.0
    """
    operator = aslinearoperator(matrix)
    n = operator.shape[0]
    if n <= _DENSE:
        dense = matrix if isinstance(matrix, np.ndarray) else operator @ np.eye(n)
        return float(np.abs(np.linalg.eigvalsh(0.5 * (dense + dense.T))).max())
    # A fixed start makes the answer repeat; a random direction misses no eigenvector.
    start = np.random.default_rng(0).standard_normal(n)
    if not np.any(operator @ start):
        return 0.0
    top = eigsh(operator, k=1, which="LM", v0=start, tol=1e-10, return_eigenvectors=False)
    return float(np.abs(top).max())


def operator_distance(first: Array | LinearOperator, second: Array | LinearOperator) -> float:
    """Return the operator norm of the difference of two symmetric matrices, formed by neither.

    Examples
    --------
    >>> operator_distance(np.eye(3), np.zeros((3, 3)))
    1.0
    """
    if isinstance(first, np.ndarray) and isinstance(second, np.ndarray) and len(first) <= _DENSE:
        return operator_norm(first - second)
    return operator_norm(aslinearoperator(first) - aslinearoperator(second))


def count_isolated(descending: Array, most: int = 12, factor: float = 4.0) -> int:
    """Return how many of the largest eigenvalues stand apart from the bulk.

    The last gap, among the first ``most``, that is ``factor`` times as wide as each of the fifteen
    gaps after it ends the isolated ones; inside a bulk neighbouring gaps differ less than that.

    Parameters
    ----------
    descending : ndarray of shape (n,)
        Eigenvalues, the largest first.

    Examples
    --------
    >>> bulk = np.linspace(1, 0, 100)
    >>> count_isolated(np.concatenate([[9.0, 3.0], bulk]))
    2
    >>> count_isolated(bulk)
    0
    """
    gaps = -np.diff(descending)
    isolated = 0
    for k in range(min(most, len(gaps) - 15)):
        if gaps[k] > factor * gaps[k + 1 : k + 16].max():
            isolated = k + 1
    return isolated
