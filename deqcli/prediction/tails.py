"""How often a Gaussian output names another class than its own."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

Array = NDArray[np.float64]

# Points of the lattice; errors are below 1e-4 in the cases of the tests.
_POINTS = 1 << 13
# Variances below this part of the largest are rounding.
_NOTHING = 1e-12


class Bend(NamedTuple):
    r"""How an output's law is not normal, where a kernel bends along a class's mean.

    A new sample has its mean :math:`1 + \varepsilon\xi` times, :math:`\xi` standard normal and
    :math:`1/\varepsilon` the mean's length in units of the noise. A kernel that is quadratic in
    it has the output

    .. math:: f\,|\,\xi \sim N\Big(m + \ell\big(\xi + \tfrac b2(\xi^2 - 1)\big),\
       \Sigma - L + (L - \ell\ell^\top)(1 + b\xi)^2\Big), \qquad b = \varepsilon,

    and one that is linear has b = 0, where the law is :math:`N(m, \Sigma)`.

    Attributes
    ----------
    line : ndarray of shape (r,)
        :math:`\ell`.
    linear : ndarray of shape (r, r)
        L, what the linear part of the kernel has of the variance.
    size : float
        b.
    """

    line: Array
    linear: Array
    size: float


def wrong_share(mean: Array, covariance: Array, own: int, bend: Bend | None = None) -> float:
    r"""Return the probability that an output does not name its own class.

    Of one output the sign names class 0 or 1; of several, the largest does.

    Parameters
    ----------
    mean : ndarray of shape (r,)
    covariance : ndarray of shape (r, r)
    own : int
        The class.
    bend : Bend, optional
        How the law departs from a normal one.

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
    if bend is not None:
        bend = Bend(to_own @ bend.line, to_own @ bend.linear @ to_own.T, bend.size)
    return 1.0 - _all_positive(to_own @ mean, to_own @ covariance @ to_own.T, bend)


def _all_positive(mean: Array, covariance: Array, bend: Bend | None) -> float:
    r"""Return the probability that all coordinates are positive, by Genz's transformation (1992).

    One coordinate after the other is conditioned on those before it, the least likely first; what
    is left to integrate over the unit cube is smooth, and a lattice rule does it. The variable of
    a bend is one more coordinate of the cube.
    """
    variances = np.diagonal(covariance)
    least = max(_NOTHING * float(variances.max(initial=0.0)), 1e-300)
    order = np.argsort(mean / np.sqrt(np.maximum(variances, least)))
    both = np.ix_(order, order)
    m, c = mean[order, None], covariance[both][None]
    points = _lattice(m.size - (bend is None))
    if bend is not None:
        xi, points = ndtri(points[0]), points[1:]
        line, linear = bend.line[order], bend.linear[both]
        m = m + line[:, None] * (xi + bend.size / 2 * (xi**2 - 1))
        # What is left of the linear part is a covariance but for rounding.
        values, basis = np.linalg.eigh(linear - np.outer(line, line))
        across = (basis * np.maximum(values, 0.0)) @ basis.T
        c = c - linear + across * ((1 + bend.size * xi) ** 2)[:, None, None]
    root = np.moveaxis(np.linalg.cholesky(c + 2 * least * len(m) * np.eye(len(m))), 0, -1)
    drawn = np.empty((len(m), points.shape[1]))
    share = np.ones(points.shape[1])
    for j in range(len(m)):
        known = m[j] + np.sum(root[j, :j] * drawn[:j], axis=0)
        above = ndtr(known / root[j, j])
        share = share * above
        if j < len(m) - 1:
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
