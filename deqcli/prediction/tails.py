"""How often a Gaussian output names another class than its own."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

Array = NDArray[np.float64]

# Points of the lattice; errors are below 1e-4 in the cases of the tests.
_POINTS = 1 << 13
# Variances below this part of the largest are rounding.
_NOTHING = 1e-12


def wrong_share(mean: Array, covariance: Array, own: int) -> float:
    r"""Return the probability that an output does not name its own class.

    Of one output the sign names class 0 or 1; of several, the largest does.

    Parameters
    ----------
    mean : ndarray of shape (r,)
    covariance : ndarray of shape (r, r)
    own : int
        The class.

    Examples
    --------
    >>> round(wrong_share(np.array([1.0]), np.array([[1.0]]), own=1), 4)
    0.1587
    >>> round(wrong_share(np.zeros(3), np.eye(3), own=0), 4)      # one of three alike
    0.6667
    """
    if mean.size == 1:
        to_own = np.array([[1.0 if own else -1.0]])
    else:
        to_own = np.eye(mean.size)[own] - np.delete(np.eye(mean.size), own, axis=0)
    return 1.0 - _all_positive(to_own @ mean, to_own @ covariance @ to_own.T)


def _all_positive(mean: Array, covariance: Array) -> float:
    r"""Return :math:`P(N(m, C) > 0)` in all coordinates, by Genz's transformation (1992).

    One coordinate after the other is conditioned on those before it, the least likely first; what
    is left to integrate over the unit cube is smooth, and a lattice rule does it.
    """
    variances = np.diagonal(covariance)
    least = max(_NOTHING * float(variances.max(initial=0.0)), 1e-300)
    order = np.argsort(mean / np.sqrt(np.maximum(variances, least)))
    m, c = mean[order], covariance[np.ix_(order, order)]
    root = np.linalg.cholesky(c + 2 * least * m.size * np.eye(m.size))
    points = _lattice(m.size - 1)
    drawn = np.empty((m.size, points.shape[1]))
    share = np.ones(points.shape[1])
    for j in range(m.size):
        known = m[j] + root[j, :j] @ drawn[:j]
        above = ndtr(known / root[j, j])
        share = share * above
        if j < m.size - 1:
            # A standard normal above -known / root, at the point's quantile.
            drawn[j] = -ndtri(np.clip(points[j] * above, 1e-300, 1.0 - 1e-16))
    return float(share.mean())


def _lattice(dimension: int) -> Array:
    """Return points of the open cube, of shape (dimension, count): square roots of primes, folded.

    Folding makes functions periodic, which the rule likes.
    """
    if dimension == 0:
        return np.empty((0, 1))
    limit = int(20 + 3 * dimension * np.log(dimension + 2))
    numbers = np.arange(2, limit)
    primes = numbers[[all(x % q for q in range(2, int(x**0.5) + 1)) for x in numbers]]
    steps = np.sqrt(primes[:dimension].astype(float))
    points = np.multiply.outer(steps, np.arange(_POINTS) + 0.5) % 1.0
    return np.clip(np.abs(2 * points - 1), 1e-12, 1 - 1e-12)
