"""Densities of eigenvalues of operators, by Lanczos from random vectors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import eigh_tridiagonal
from scipy.sparse.linalg import LinearOperator

from deqcli.checks import SCALE, Range, generator, number, shown
from deqcli.errors import InputError
from deqcli.kernels.matrix import check_samples

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Density:
    """A smoothed density of eigenvalues and the standard error of its random probes.

    Attributes
    ----------
    at, density, error : ndarray of shape (m,)
    """

    at: Array
    density: Array
    error: Array


def spectral_density(
    operator: LinearOperator,
    at: ArrayLike,
    width: float,
    probes: int,
    steps: int,
    rng: np.random.Generator,
) -> Density:
    r"""Return the density of eigenvalues, smoothed, by stochastic Lanczos quadrature.

    .. math:: f(x) = \frac1n\operatorname{tr} g_w(x - M) \approx
       \frac1{n_v}\sum_v v^\top g_w(x - M)v, \qquad v = \pm n^{-1/2},

    with :math:`g_w` the normal density of standard deviation w; each term is a Gauss quadrature
    from Lanczos steps on v (Golub and Meurant), here orthogonalised in full.

    Parameters
    ----------
    operator : LinearOperator of shape (n, n)
        Symmetric.
    at : array of shape (m,)
        Where.
    width : float
        w.
    probes, steps : int
        Random signs, at least 2, and Lanczos steps of each.
    rng : numpy.random.Generator

    Examples
    --------
    >>> matrix = LinearOperator((300, 300), matvec=lambda v: np.linspace(0, 1, 300) * v.ravel())
    >>> found = spectral_density(matrix, [0.3, 0.5], 0.05, 20, 60, np.random.default_rng(0))
    >>> bool(np.all(np.abs(found.density - 1) < 4 * found.error + 0.01))
    True
    """
    if not isinstance(operator, LinearOperator) or operator.shape[0] != operator.shape[1]:
        raise InputError(f"`operator` is {shown(operator)}; give a square LinearOperator.")
    points = check_samples(np.reshape(at, (-1, 1)), "at").ravel()
    width = number(width, "width", float, SCALE)
    probes = number(probes, "probes", int, Range(least=2, most=100_000))
    steps = number(steps, "steps", int, Range(least=1, most=100_000))
    generator(rng)
    estimates = np.empty((probes, points.size))
    for estimate in estimates:
        signs = rng.choice([-1.0, 1.0], operator.shape[0])
        nodes, weights = _gauss_nodes(operator, signs / np.sqrt(signs.size), steps)
        bumps = np.exp(-0.5 * ((points[:, None] - nodes) / width) ** 2)
        estimate[:] = bumps @ weights / (width * np.sqrt(2 * np.pi))
    error = estimates.std(axis=0, ddof=1) / np.sqrt(probes)
    return Density(points, estimates.mean(axis=0), error)


def _gauss_nodes(operator: LinearOperator, start: Array, steps: int) -> tuple[Array, Array]:
    """Return eigenvalues of Lanczos' matrix and the squared first components of its vectors."""
    n = start.size
    basis = np.zeros((min(steps, n), n))
    diagonal, beside = np.zeros(len(basis)), np.zeros(len(basis))
    basis[0], used = start, len(basis)
    for k in range(len(basis)):
        vector = np.asarray(operator @ basis[k]).ravel()
        diagonal[k] = basis[k] @ vector
        # Twice is enough to be orthogonal to rounding.
        for _ in range(2):
            vector -= basis[: k + 1].T @ (basis[: k + 1] @ vector)
        beside[k] = np.linalg.norm(vector)
        if k + 1 == len(basis) or beside[k] <= 1e-12 * np.abs(diagonal).max():
            used = k + 1
            break
        basis[k + 1] = vector / beside[k]
    values, vectors = eigh_tridiagonal(diagonal[:used], beside[: used - 1])
    return values, vectors[0] ** 2
