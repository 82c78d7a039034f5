"""The spectral norm of a matrix that moves a little from step to step, and a limit on it."""

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
#: The largest permitted ||W||L, a little below 1, as the norm is followed from below.
MARGIN = 0.98
#: How many singular values can be clipped at a time.
_CLIPS = 20
#: Room above the norm at the start, where that is near the bound or beyond.
_SLACK = 1.05


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


class Guard:
    r"""Watches the spectral norm of a matrix and, where needed, clips it.

    The map :math:`y \mapsto \phi(Wy + b)`, :math:`W = \sigma_aA/\sqrt m`, contracts for every input
    when :math:`\|W\|L < 1`. At the start :math:`\|W\| \approx 2\sigma_a`, hence the papers'
    :math:`\sigma_a^2 < 1/4L^2`; training adds to W. The norm is followed from below; a direction
    that training makes grow stands out from the bulk, and is found fast.

    Where :math:`s > \text{limit}` the matrix becomes :math:`W - (s - \text{limit})uv^\top`,
    singular value after singular value: the nearest matrix, in the Frobenius norm, that the limit
    allows, which a uniform rescaling is not. The limit is :math:`0.98/L`, or 1.05 times the norm
    found at the start where that is larger (:math:`\sigma_a^2` near or above :math:`1/4L^2`:
    contraction is then not guaranteed from the outset, and the solver's own verdict counts).

    Parameters
    ----------
    matrix : ndarray of shape (m, m)
        Watched, and changed in place.
    lipschitz : float
        L.

    Examples
    --------
    >>> W = np.diag([0.5, 0.2, 0.1])
    >>> guard = Guard(W, 1.0)
    >>> W[0, 0] = 3.0
    >>> guard.check(), float(np.linalg.norm(W, 2).round(6)), round(guard.norm, 6)
    (1, 0.98, 0.98)
    """

    def __init__(self, matrix: Array, lipschitz: float) -> None:
        self.matrix = matrix
        # One direction costs little beside a step, and the margin covers its delay.
        self._tracker = NormTracker(matrix, directions=1, sweeps=2)
        bound = MARGIN / lipschitz if lipschitz > 0 else math.inf
        self.limit = bound if self.norm * _SLACK < bound else self.norm * _SLACK

    @property
    def norm(self) -> float:
        """The norm as of the last check."""
        return self._tracker.value

    def check(self) -> int:
        """Bring the norm below its limit; return how many singular values were clipped."""
        self._tracker.update(self.matrix)
        clipped = 0
        while self.norm > self.limit * (1 + 1e-6) and clipped < _CLIPS:
            # The triplet has to be good before it is subtracted.
            norm = self._tracker.refresh(self.matrix)
            excess = np.asarray(norm - self.limit, self.matrix.dtype)
            self.matrix -= np.outer(excess * self._tracker.left, self._tracker.right)
            clipped += 1
            self._tracker.refresh(self.matrix)
        return clipped
