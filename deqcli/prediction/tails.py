"""How often a Gaussian output names another class than its own."""

from __future__ import annotations

from itertools import combinations_with_replacement

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
    points = lattice(mean.size - 1, _POINTS) if mean.size > 2 else np.full((mean.size - 1, 1), 0.5)
    return _wrong(mean[None], covariance[None], own, points)


def wrong_of_groups(
    means: Array,
    covariances: Array,
    weights: Array,
    nodes: Array,
    own: int,
    thirds: Array | None = None,
) -> float:
    """Return the share of a class that is taken for another, over its groups.

    What outputs are between the groups, polynomials tell that are fitted to them.

    Parameters
    ----------
    means : ndarray of shape (m, r)
    covariances : ndarray of shape (m, r, r)
    weights : ndarray of shape (m,)
        Shares of the groups.
    nodes : ndarray of shape (m, d)
        Standard normal variables that the groups are values of.
    thirds : ndarray of shape (r, r, r), optional
        Third cumulants, as a form in three directions.
    """
    (count, variables), outputs = nodes.shape, means.shape[1]
    if not variables:
        return wrong_share(means[0], covariances[0], own)
    points = lattice(variables + max(outputs - 2, 0), _POINTS)
    fine = ndtri(points[:variables]).T
    exponents = [
        one for order in range(4) for one in combinations_with_replacement(range(variables), order)
    ][: count // 2]
    known, wanted = (
        np.stack([np.prod(x[:, list(one)], axis=1) for one in exponents], axis=1)
        for x in (nodes, fine)
    )
    root = np.sqrt(weights)[:, None]
    values = np.column_stack([means, covariances.reshape(count, -1)])
    fitted = wanted @ np.linalg.lstsq(root * known, root * values, rcond=None)[0]
    spread = fitted[:, outputs:].reshape(-1, outputs, outputs)
    try:
        np.linalg.cholesky(spread)
    except np.linalg.LinAlgError:
        # Far out a polynomial may have no root.
        sizes, basis = np.linalg.eigh(spread)
        least = 0.1 * np.linalg.eigvalsh(covariances).min(axis=0)
        spread = (basis * np.maximum(sizes, least)[:, None, :]) @ np.swapaxes(basis, 1, 2)
    return _wrong(fitted[:, :outputs], spread, own, points[variables:], thirds)


def _wrong(
    means: Array,
    covariances: Array,
    own: int,
    points: Array,
    thirds: Array | None = None,
) -> float:
    outputs = means.shape[1]
    if outputs == 1:
        to_own = np.array([[1.0 if own else -1.0]])
    else:
        to_own = np.eye(outputs)[own] - np.delete(np.eye(outputs), own, axis=0)
    margins, spread = means @ to_own.T, to_own @ covariances @ to_own.T
    if thirds is not None:
        margins = margins + _leaning(margins, spread, to_own, thirds)
    return 1.0 - _all_positive(margins, spread, points)


def _leaning(margins: Array, spread: Array, to_own: Array, thirds: Array) -> Array:
    r"""Return by how much margins seem larger for their third cumulants.

    One of a gamma law of skewness :math:`\gamma`, x deviations above zero, is positive as often as
    a normal variable :math:`\frac6\gamma(1 - (1 - \frac{\gamma x}2)^{1/3}) - \frac\gamma6` above
    (Wilson and Hilferty 1931), to first order :math:`x + \gamma(x^2 - 1)/6` as by Edgeworth. Few
    neurons have no more skewness than one, whatever their third cumulants are to first order.
    """
    deviations = np.sqrt(np.maximum(np.diagonal(spread, axis1=1, axis2=2), 1e-300))
    cumulants = np.einsum("ir,is,it,rst->i", to_own, to_own, to_own, thirds)
    skewness = np.clip(cumulants / deviations**3, -1.0, 1.0)
    skewness[np.abs(skewness) < _NOTHING] = _NOTHING
    x = margins / deviations
    with np.errstate(divide="ignore"):  # at the end of the gamma law
        root = np.expm1(np.log1p(np.maximum(-skewness * x / 2, -1.0)) / 3)
    return np.asarray((-6 / skewness * root - skewness / 6 - x) * deviations)


def _all_positive(mean: Array, covariance: Array, points: Array) -> float:
    r"""Return the probability that all coordinates are positive, by Genz's transformation (1992).

    One coordinate after the other is conditioned on those before it, the least likely first; what
    is left to integrate over the unit cube is smooth, and a lattice rule does it.

    Parameters
    ----------
    mean : ndarray of shape (q, r)
        One row for all points, or one for each.
    covariance : ndarray of shape (q, r, r)
    points : ndarray of shape (r - 1, ...)
        Of the cube.
    """
    count = mean.shape[1]
    variances = np.diagonal(covariance, axis1=1, axis2=2)
    least = np.maximum(_NOTHING * variances.max(axis=1, keepdims=True), 1e-300)
    order = np.argsort(mean / np.sqrt(np.maximum(variances, least)), axis=1)
    m = np.take_along_axis(mean, order, 1)
    c = np.take_along_axis(covariance, order[:, :, None], 1)
    c = np.take_along_axis(c, order[:, None, :], 2)
    root = np.linalg.cholesky(c + (2 * count * least)[:, :, None] * np.eye(count))
    drawn: list[Array] = []
    share = np.ones(1)
    for j in range(count):
        known = m[:, j] + sum((root[:, j, i] * x for i, x in enumerate(drawn)), np.zeros(1))
        above = ndtr(known / root[:, j, j])
        share = share * above
        if j < count - 1:
            # A standard normal above -known / root, at the point's quantile.
            drawn.append(-ndtri(np.clip(points[j] * above, 1e-300, 1.0 - 1e-16)))
    return float(share.mean())


def lattice(dimension: int, count: int) -> Array:
    """Return points of the open cube, of shape (dimension, count): square roots of primes, folded.

    Folding makes functions periodic, which the rule likes.
    """
    limit = int(20 + 3 * dimension * np.log(dimension + 2))
    numbers = np.arange(2, limit)
    primes = numbers[[all(x % q for q in range(2, int(x**0.5) + 1)) for x in numbers]]
    steps = np.sqrt(primes[:dimension].astype(float))
    points = np.multiply.outer(steps, np.arange(count) + 0.5) % 1.0
    return np.clip(np.abs(2 * points - 1), 1e-12, 1 - 1e-12)
