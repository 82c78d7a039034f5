"""Outputs' means and covariances on classes, and how far their law is from a normal one."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from deqcli.prediction.forms import RidgeForms, by_class
from deqcli.spectral.forms import Model
from deqcli.spectral.pairwise import Pairwise

Array = NDArray[np.float64]


class Limits(NamedTuple):
    r"""What becomes of one kernel's regression, as forms in the targets.

    Attributes
    ----------
    inverse : ndarray of shape (K, K)
        :math:`J^\top QJ`.
    means : ndarray of shape (K, K)
        Of the outputs on each class.
    covariances : ndarray of shape (K, K, K)
    lines : ndarray of shape (K, K)
        By how much a standard deviation of the noise along its mean moves a class's outputs.
    linear : ndarray of shape (K, K, K)
        What the linear part of the kernel and that noise have of the covariances.
    bends : ndarray of shape (K,)
        Of the lines, in units of those (:class:`deqcli.prediction.tails.Bend`).
    """

    inverse: Array
    means: Array
    covariances: Array
    lines: Array
    linear: Array
    bends: Array


def limits_of(model: Model, n: int, ridge: float, higher: bool) -> Limits:
    """Return the limits of one kernel, groups taken together by class.

    Parameters
    ----------
    higher : bool
        Whether to count what is of higher order in 1/p: the draw of the training samples, and that
        noise along a class's mean is in the norms too.
    """
    found, equations, norms = RidgeForms(model, n, ridge), model.equations, model.low_rank.norms
    means = by_class(equations, found.means)
    away = found.means - means[equations.classes]
    # Groups have a part of the norms' variance only; in the papers' form, all of it.
    known = by_class(equations, norms**2)[:, None]
    spread = by_class(equations, _squares(away)) / known[:, :, None]
    linear = by_class(equations, found.linear)
    covariances = linear + by_class(equations, found.noise) + spread
    # A standard deviation of the noise along a class's mean, in units of the mean.
    used = equations.covariances
    lengths, along = np.diagonal(used.grams), np.sqrt(np.diagonal(used.weighted_means()))
    along = np.divide(along, lengths, out=np.zeros_like(along), where=lengths > 0)
    lines = by_class(equations, found.lines) * along[:, None]
    if higher:
        own = 2 * np.diagonal(used.weighted_means()) / used.dimension
        share = np.sqrt(own / (own + np.diagonal(used.products)))[:, None]
        by_norm = share * by_class(equations, away * norms[:, None]) / known
        cross = _squares(lines + by_norm) - _squares(lines) - _squares(by_norm)
        covariances += found.drawn + cross
        linear, lines = linear + cross + _squares(by_norm), lines + by_norm
    bends = along * used.curved if isinstance(used, Pairwise) else np.zeros_like(along)
    return Limits(found.inverse, means, covariances, lines, linear, bends)


def _squares(rows: Array) -> Array:
    """Return the product of each row with itself."""
    return rows[:, :, None] * rows[:, None, :]
