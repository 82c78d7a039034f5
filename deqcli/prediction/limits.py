"""Outputs' means and covariances, sorted into groups of new samples."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from deqcli.prediction.forms import RidgeForms, by_class
from deqcli.spectral.forms import Model

Array = NDArray[np.float64]


class Limits(NamedTuple):
    r"""What becomes of one kernel's regression, as forms in the targets.

    Attributes
    ----------
    inverse : ndarray of shape (K, K)
        :math:`J^\top QJ`.
    means : ndarray of shape (m, K)
        Of the outputs on each group.
    covariances : ndarray of shape (m, K, K)
    classes : ndarray of shape (m,)
        Of the groups.
    weights : ndarray of shape (m,)
        Their shares of the class.
    nodes : ndarray of shape (m, d)
        Standard normal variables that the groups are values of.
    skews : ndarray of shape (m, K, K, K)
        Third cumulants.
    """

    inverse: Array
    means: Array
    covariances: Array
    classes: NDArray[np.intp]
    weights: Array
    nodes: Array
    skews: Array


def limits_of(model: Model, n: int, ridge: float) -> Limits:
    """Return the limits of a kernel in the papers' form, one group a class."""
    found, equations = RidgeForms(model, n, ridge), model.equations
    means = by_class(equations, found.means)
    away = found.means - means[equations.classes]
    spread = by_class(equations, away[:, :, None] * away[:, None, :])
    covariances = by_class(equations, found.linear) + spread
    k = len(means)
    groups = np.arange(k), np.ones(k), np.zeros((k, 0))
    return Limits(found.inverse, means, covariances, *groups, np.zeros((k, k, k, k)))
