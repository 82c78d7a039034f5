"""The covariances of a mixture from its moments, in the cheapest form."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from deqcli.spectral.covariances import ROUNDING, Commuting, Covariances, General

Array = NDArray[np.float64]


def covariances_of(
    means: Array,
    covariances: Sequence[Array],
    shape: Array | None = None,
    weights: Array | None = None,
) -> Covariances:
    """Return the covariances of a mixture in the cheapest form.

    Parameters
    ----------
    means : ndarray of shape (K, p)
    covariances : sequence of K arrays
        Numbers, diagonals of shape (p,) or matrices of shape (p, p).
    shape : ndarray of shape (p, p), optional
        A matrix that the numbers in ``covariances`` multiply.
    weights : ndarray of shape (K,), optional
        Shares of the classes, near which :class:`General` covariances are expanded.

    Examples
    --------
    >>> scalar = covariances_of(np.eye(2, 50), [np.array(1.0), np.array(2.0)])
    >>> scalar.response(np.array([1.0, 0.5])).round(3)         # C_a / (1 + 1 + 0.5 * 2)
    array([0.333, 0.667])
    """
    p = means.shape[1]
    if shape is not None:
        values, basis = eigh(shape, check_finite=False)
        scales = np.array([float(c) for c in covariances])
        return _commuting(np.outer(scales, np.maximum(values, 0.0)), means @ basis)
    if all(c.ndim == 0 for c in covariances):
        scales = np.array([float(c) for c in covariances])
        return Commuting(scales[:, None], np.array([float(p)]), (means @ means.T)[None])
    if all(c.ndim < 2 for c in covariances):
        return _commuting(np.stack([np.broadcast_to(c, p) for c in covariances]), means)
    matrices = np.stack([c if c.ndim == 2 else np.diag(np.broadcast_to(c, p)) for c in covariances])
    shares = np.full(len(matrices), 1 / len(matrices)) if weights is None else weights
    _, basis = eigh(np.tensordot(shares, matrices, 1), check_finite=False)
    rest = np.stack([basis.T @ matrix @ basis for matrix in matrices])
    diagonals = np.stack([np.diagonal(matrix) for matrix in rest])
    common = _commuting(diagonals, means @ basis)
    rest[:, np.arange(p), np.arange(p)] = 0.0
    if np.linalg.norm(rest) <= ROUNDING * np.linalg.norm(matrices):
        return common
    return General(common, rest, rest[:, None] * rest[None], means @ basis)


def spanned(means: Array, scales: Array, factor: Array) -> Commuting:
    r"""Return the covariances :math:`s_aF^\top F` of a factor that has fewer rows than columns.

    They have the eigenvalues of :math:`FF^\top`, and zero beyond what its rows span.

    Parameters
    ----------
    means : ndarray of shape (K, p)
    scales : ndarray of shape (K,)
    factor : ndarray of shape (r, p)

    Examples
    --------
    >>> few = spanned(np.ones((1, 50)), np.array([2.0]), np.eye(3, 50))
    >>> few.eigenvalues, few.multiplicities, few.mean_products.ravel()
    (array([[2., 2., 2., 0.]]), array([ 1.,  1.,  1., 47.]), array([ 1.,  1.,  1., 47.]))
    """
    values, basis = eigh(factor @ factor.T, check_finite=False)
    seen = values > len(values) * np.finfo(float).eps * values[-1]
    values, basis = values[seen], basis[:, seen]
    inside = (means @ factor.T) @ (basis / np.sqrt(values))
    within = _commuting(np.outer(scales, np.append(values, 0.0)), np.pad(inside, ((0, 0), (0, 1))))
    within.multiplicities[-1] = means.shape[1] - len(values)
    within.mean_products[-1] = means @ means.T - inside @ inside.T
    return within


def _commuting(eigenvalues: Array, means: Array) -> Commuting:
    return Commuting(
        eigenvalues,
        np.ones(eigenvalues.shape[1]),
        np.ascontiguousarray(np.einsum("aj,bj->jab", means, means)),
    )
