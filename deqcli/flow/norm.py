r"""The norm :math:`\|\gamma A\|` of a matrix that moves a little from step to step."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator, eigsh

Array = NDArray[np.float64]

# Up to this width a full decomposition is as quick as Lanczos, and exact.
_DENSE = 100
# Directions followed, and products of each with the matrix and its transpose in one update.
_DIRECTIONS, _SWEEPS = 8, 3
# Residual of a refreshed singular vector; the norm's own error is its square and below 1e-8.
_RESIDUAL = 1e-4


def leading_direction(matrix: Array, residual: float = 1e-10) -> tuple[float, Array]:
    r"""Return the largest singular value and its right singular vector, by Lanczos.

    Parameters
    ----------
    matrix : ndarray of shape (m, m)
    residual : float
        Of the eigenvector of :math:`M^\top M`, relative.

    Returns
    -------
    norm : float
        :math:`\|M\|`.
    direction : ndarray of shape (m,)

    Examples
    --------
    >>> norm, direction = leading_direction(np.diag([1.0, -3.0]))
    >>> norm, np.abs(direction).tolist()
    (3.0, [0.0, 1.0])
    """
    m = len(matrix)
    if m <= _DENSE:
        _, values, rows = np.linalg.svd(matrix)
        return float(values[0]), rows[0]
    gram = LinearOperator(
        (m, m), matvec=lambda x: matrix.T @ (matrix @ x), dtype=np.dtype(np.float64)
    )
    # A fixed start makes the answer repeat; a random direction misses no singular vector.
    start = np.random.default_rng(0).standard_normal(m)
    squares, directions = eigsh(gram, k=1, which="LA", v0=start, tol=residual)
    return float(np.sqrt(squares[0])), directions[:, 0]


class NormTracker:
    r"""Follow :math:`\|M\|` by a warm-started block power iteration.

    The first singular vectors of the last matrix, multiplied a few times by :math:`M^\top M`, are
    those of the next one but for what a small step changes. The value is
    :math:`\|MQ\| \le \|M\|` with orthonormal Q. A block follows a singular value that overtakes
    the first, where a single vector would stay behind; :meth:`refresh` starts anew, by Lanczos.

    Examples
    --------
    >>> matrix = np.random.default_rng(0).standard_normal((300, 300)) / 40
    >>> tracker = NormTracker(matrix)
    >>> matrix[0] += 0.1
    >>> bool(abs(tracker.update(matrix) / np.linalg.norm(matrix, 2) - 1) < 1e-2)
    True
    """

    def __init__(self, matrix: Array) -> None:
        m = len(matrix)
        rng = np.random.default_rng(0)
        self._directions = rng.standard_normal((m, min(_DIRECTIONS, m)))
        self.value = self.refresh(matrix)

    def update(self, matrix: Array) -> float:
        """Return the norm of a matrix near the last one."""
        for _ in range(_SWEEPS):
            self._directions, _ = np.linalg.qr(matrix.T @ (matrix @ self._directions))
        self.value = float(np.linalg.norm(matrix @ self._directions, 2))
        return self.value

    def refresh(self, matrix: Array) -> float:
        """Return the norm to many digits, whatever the matrix was before."""
        self.value, self._directions[:, -1] = leading_direction(matrix, _RESIDUAL)
        return self.value
