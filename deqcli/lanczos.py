"""Densities of eigenvalues of operators, by Lanczos from random vectors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import eigh_tridiagonal
from scipy.sparse.linalg import LinearOperator, eigsh
from scipy.special import ndtr

from deqcli.checks import SCALE, Range, generator, number, shown
from deqcli.errors import InputError
from deqcli.kernels.matrix import check_columns

Array = NDArray[np.float64]
# One in so many steps is left out, to see what more of them would change.
_LEFT_OUT = 4
#: Up to this size a full decomposition is as quick as Lanczos, and exact.
DENSE = 200
#: Nodes of less weight are padding or rounding.
NO_WEIGHT = 1e-12
#: Probes whose steps are done together; their bases take 8 n × this × steps bytes.
TOGETHER = 8


@dataclass(frozen=True)
class Density:
    """A smoothed density of eigenvalues and its error.

    Attributes
    ----------
    at, density : ndarray of shape (m,)
    error : ndarray of shape (m,)
        Of the density: the standard error of random probes and what the last quarter of the
        Lanczos steps changed, as the root of the sum of their squares.
    distribution : ndarray of shape (m,)
        The share of eigenvalues below.
    """

    at: Array
    density: Array
    error: Array
    distribution: Array


@dataclass(frozen=True)
class Quadrature:
    r"""Gauss quadratures of random vectors: what Lanczos leaves of an operator.

    Attributes
    ----------
    diagonal, beside : ndarray of shape (probes, steps), (probes, steps - 1)
        Of the tridiagonal matrix of each probe.
    """

    diagonal: Array
    beside: Array

    def nodes(self, fewer: bool = False) -> tuple[Array, Array]:
        """Return nodes and weights, each of shape (probes, steps), of all steps or fewer."""
        steps = self.diagonal.shape[1]
        steps -= steps // _LEFT_OUT if fewer else 0
        found = [
            eigh_tridiagonal(alpha[:steps], beta[: steps - 1])
            for alpha, beta in zip(self.diagonal, self.beside, strict=True)
        ]
        return np.array([v for v, _ in found]), np.array([vectors[0] ** 2 for _, vectors in found])

    def density(
        self, at: Array, width: float, known: Array | None = None, n: int = 0, log: bool = False
    ) -> Density:
        r"""Return the density, smoothed by a normal one.

        Parameters
        ----------
        at : ndarray of shape (m,)
            Where.
        width : float
            Standard deviation of what smooths; with ``log`` of the logarithm.
        known : ndarray of shape (k + 1,), optional
            The largest of all n eigenvalues, descending. The first k are put in the place of what
            the probes say of them, which is only noise.
        log : bool
            Smooth logarithms; all eigenvalues must be positive.
        """
        whole, distributions = _smoothed(*self.nodes(), at, width, known, n, log)
        fewer, _ = _smoothed(*self.nodes(fewer=True), at, width, known, n, log)
        density = whole.mean(axis=0)
        spread = whole.std(axis=0, ddof=1) / np.sqrt(len(whole))
        error = np.hypot(spread, density - fewer.mean(axis=0))
        return Density(at, density, error, distributions.mean(axis=0))


@dataclass(frozen=True)
class SplitQuadrature(Quadrature):
    r"""A quadrature of M whose smallest eigenvalues are seen apart from the largest.

    With P the projection off r directions, in which the largest are,

    .. math:: \lambda_{i+r}(M) \le \lambda_i(PMP) \le \lambda_i(M)

    (Cauchy). The r largest are taken from M, the other n - r from PMP, where Lanczos has no large
    ones to find first: the share of eigenvalues below any value is wrong by r/n at most.

    Attributes
    ----------
    inner : Quadrature
        Of PMP.
    share : float
        r/n.
    """

    inner: Quadrature
    share: float

    def nodes(self, fewer: bool = False) -> tuple[Array, Array]:
        """See :meth:`Quadrature.nodes`."""
        nodes, weights = super().nodes(fewer)
        low, inside = self.inner.nodes(fewer)
        # Nodes ascend: what comes after each, and how much of it is among the r largest.
        above = weights.sum(axis=1, keepdims=True) - np.cumsum(weights, axis=1)
        largest = np.clip(self.share - above, 0.0, weights)
        return np.hstack([low, nodes]), np.hstack([inside * (1 - self.share), largest])


def _smoothed(
    nodes: Array, weights: Array, at: Array, width: float, known: Array | None, n: int, log: bool
) -> tuple[Array, Array]:
    """Return the density and the distribution of each probe, of shape (probes, m)."""
    weights = np.where(weights > NO_WEIGHT, weights, 0.0)
    if known is not None and known.size > 1:
        below = weights * (nodes < known[-2:].mean())
        left = below.sum(axis=1, keepdims=True)
        # Nothing is left where the largest are all alike.
        if left.all():
            shape = len(nodes), known.size - 1
            nodes = np.hstack([nodes, np.broadcast_to(known[:-1], shape)])
            below *= (1 - shape[1] / n) / left
            weights = np.hstack([below, np.full(shape, 1 / n)])
    where = at
    if log:
        # Nodes without weight stand where they may.
        nodes, where = np.log(np.where(weights > 0, nodes, 1.0)), np.log(at)
    densities, distributions = [], []
    for places, shares in zip(nodes, weights, strict=True):
        z = (where[:, None] - places) / width
        densities.append(np.exp(-0.5 * z**2) @ shares / (width * np.sqrt(2 * np.pi)))
        distributions.append(ndtr(z) @ shares)
    jacobian = at if log else 1.0
    return np.array(densities) / jacobian, np.array(distributions)


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
    points = check_columns(at, "at").ravel()
    width = number(width, "width", float, SCALE)
    probes = number(probes, "probes", int, Range(least=2, most=100_000))
    steps = number(steps, "steps", int, Range(least=1, most=100_000))
    return quadrature(operator, probes, steps, generator(rng)).density(points, width)


def leading_pairs(operator: LinearOperator, count: int) -> tuple[Array, Array]:
    """Return the largest eigenvalues, descending, and their eigenvectors in columns.

    Parameters
    ----------
    operator : LinearOperator of shape (n, n)
        Symmetric.
    count : int
        Below n.
    """
    n = operator.shape[0]
    if n <= DENSE:
        dense = operator @ np.eye(n)
        values, vectors = np.linalg.eigh(0.5 * (dense + dense.T))
    else:
        start = np.random.default_rng(0).standard_normal(n)
        values, vectors = eigsh(operator, k=count, which="LA", v0=start, tol=1e-12)
    order = np.argsort(values)[::-1][:count]
    return values[order], vectors[:, order]


def quadrature(
    operator: LinearOperator,
    probes: int,
    steps: int,
    rng: np.random.Generator,
    project: Callable[[Array], Array] | None = None,
) -> Quadrature:
    """Do Lanczos steps from random signs, several probes together: products are with blocks.

    Parameters
    ----------
    project : callable, optional
        The projection P of columns; then of PMP on its range.
    """
    n = operator.shape[0]
    steps = min(steps, n)
    if project is not None:
        whole, apart = operator, project
        operator = LinearOperator(
            (n, n), matvec=lambda v: apart(whole @ v), matmat=lambda v: apart(whole @ v)
        )
    # An invariant subspace ends a probe: what follows in its matrix has no weight.
    diagonal, beside = np.zeros((probes, steps)), np.zeros((probes, steps - 1))
    for first in range(0, probes, TOGETHER):
        group = slice(first, first + TOGETHER)
        signs = rng.choice([-1.0, 1.0], (len(diagonal[group]), n))
        starts = signs if project is None else project(signs.T).T
        starts /= np.linalg.norm(starts, axis=1, keepdims=True)
        _lanczos(operator, starts, diagonal[group], beside[group])
    return Quadrature(diagonal, beside)


def _lanczos(operator: LinearOperator, starts: Array, diagonal: Array, beside: Array) -> None:
    """Do the steps of some probes, each with a basis of its own."""
    (probes, n), steps = starts.shape, diagonal.shape[1]
    bases = np.zeros((probes, steps, n))
    bases[:, 0] = starts
    running = list(range(probes))
    for k in range(steps):
        images = np.asarray(operator @ np.ascontiguousarray(bases[running, k].T)).T
        for probe, image in zip(list(running), images, strict=True):
            basis, vector = bases[probe, : k + 1], np.array(image)
            diagonal[probe, k] = basis[k] @ vector
            # Twice is enough to be orthogonal to rounding.
            for _ in range(2):
                vector -= basis.T @ (basis @ vector)
            size = np.linalg.norm(vector)
            if k + 1 == steps or size <= 1e-12 * np.abs(diagonal[probe]).max():
                running.remove(probe)
                continue
            beside[probe, k] = size
            bases[probe, k + 1] = vector / size
        if not running:
            return
