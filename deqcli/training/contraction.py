r"""Keep the hidden weights of a DEQ such that its map contracts.

The map :math:`y \mapsto \phi(Wy + b)`, :math:`W = \sigma_aA/\sqrt m`, contracts for every input
when :math:`\|W\|L < 1`. At the start :math:`\|W\| \approx 2\sigma_a`, hence the papers'
:math:`\sigma_a^2 < 1/4L^2`; training adds to W.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deqcli.finite.norm import NormTracker

Array = NDArray[Any]

#: The largest permitted ||W||L, a little below 1, as the norm is followed from below.
MARGIN = 0.98
#: How many singular values can be clipped at a time.
_CLIPS = 20
#: Room above the norm at the start, where that is near the bound or beyond.
_SLACK = 1.05


class Guard:
    r"""Watches the spectral norm of a matrix and, where needed, clips it.

    The norm is followed by :class:`deqcli.finite.norm.NormTracker`, from below; a direction that
    training makes grow stands out from the bulk, and is found fast.

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
