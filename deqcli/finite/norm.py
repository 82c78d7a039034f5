r"""The spectral norm of a matrix that moves a little from step to step."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator, eigsh

Array = NDArray[Any]

# Up to this width a full decomposition is as quick as Lanczos, and exact.
_DENSE = 100
# Residual of a refreshed singular vector; the norm's own error is its square and below 1e-8.
_RESIDUAL = 1e-4


def leading_triplet(matrix: Array, residual: float = 1e-10) -> tuple[float, Array, Array]:
    r"""Return the largest singular value and its left and right singular vectors, by Lanczos.

    Parameters
    ----------
    matrix : ndarray of shape (m, m)
    residual : float
        Of the eigenvector of :math:`M^\top M`, relative.

    Returns
    -------
    norm : float
        :math:`\|M\|`.
    left, right : ndarray of shape (m,)

    Examples
    --------
    >>> norm, left, right = leading_triplet(np.diag([1.0, -3.0]))
    >>> norm, float(left @ right)
    (3.0, -1.0)
    """
    m = len(matrix)
    if m <= _DENSE:
        columns, values, rows = np.linalg.svd(matrix)
        return float(values[0]), columns[:, 0], rows[0]
    # A fixed start makes the answer repeat; a random direction misses no singular vector.
    start = np.random.default_rng(0).standard_normal(m).astype(matrix.dtype)
    if not matrix.any():  # Lanczos has nowhere to go from zero
        return 0.0, start, start
    gram = LinearOperator((m, m), matvec=lambda x: matrix.T @ (matrix @ x), dtype=matrix.dtype)
    squares, directions = eigsh(gram, k=1, which="LA", v0=start, tol=residual)
    norm, right = float(np.sqrt(squares[0])), directions[:, 0]
    return norm, matrix @ right / norm, right


class NormTracker:
    r"""Follow :math:`\|M\|` by a warm-started block power iteration.

    The first singular vectors of the last matrix, multiplied a few times by :math:`M^\top M`, are
    those of the next one but for what a small step changes. The value is
    :math:`\|MQ\| \le \|M\|` with orthonormal Q. A block follows a singular value that overtakes
    the first, where a single vector would stay behind; :meth:`refresh` starts anew, by Lanczos.

    Parameters
    ----------
    matrix : ndarray of shape (m, m)
    directions, sweeps : int
        How many directions are followed, and how often an update multiplies them.

    Attributes
    ----------
    value : float
        The norm; NaN of a matrix that is not finite.
    left, right : ndarray of shape (m,)
        The singular vectors, as of the last :meth:`refresh`.

    Examples
    --------
    >>> matrix = np.random.default_rng(0).standard_normal((300, 300)) / 40
    >>> tracker = NormTracker(matrix)
    >>> matrix[0] += 0.1
    >>> bool(abs(tracker.update(matrix) / np.linalg.norm(matrix, 2) - 1) < 1e-2)
    True
    """

    def __init__(self, matrix: Array, directions: int = 8, sweeps: int = 3) -> None:
        m, self._sweeps = len(matrix), sweeps
        start = np.random.default_rng(0).standard_normal((m, min(directions, m)))
        self._directions: Array = start.astype(matrix.dtype)
        self.left, self.right = self._directions[:, 0], self._directions[:, -1]
        self.refresh(matrix)

    def update(self, matrix: Array) -> float:
        """Return the norm of a matrix near the last one."""
        directions, self.value = self._directions, math.nan
        with np.errstate(over="ignore", invalid="ignore"):
            for _ in range(self._sweeps):
                directions, _ = np.linalg.qr(matrix.T @ (matrix @ directions))
            image = matrix @ directions
        if np.isfinite(image).all():
            self._directions = directions
            self.value = float(np.linalg.norm(image, 2))
        return self.value

    def refresh(self, matrix: Array) -> float:
        """Return the norm to many digits, whatever the matrix was before."""
        self.value = math.nan
        if np.isfinite(matrix).all():
            self.value, self.left, self.right = leading_triplet(matrix, _RESIDUAL)
            self._directions[:, -1] = self.right
        return self.value
