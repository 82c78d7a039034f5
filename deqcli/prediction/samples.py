r"""Samples sorted by what a kernel can tell them apart by: coordinates along the means, and norms.

With Q a basis of the span of the means a sample of class a has coordinates
:math:`u = Q^\top\sqrt px \sim N(\bar u_a, \Sigma_a)`, :math:`\Sigma_a = Q^\top C_aQ`. Given these,

.. math:: \sqrt px = Qu + V_a(u - \bar u_a) + w, \qquad V_a = (I - QQ^\top)C_aQ\Sigma_a^{-1},

with noise w of mean zero that nothing is known of but its norm. A group is one value of u and of
:math:`\|w\|`; the inner product of two samples is that of their groups and small noise
(theory.md §11).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import combinations_with_replacement

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls
from scipy.special import gammaincinv, ndtr, ndtri

from deqcli.errors import ConvergenceError, InputError
from deqcli.prediction.tails import lattice
from deqcli.spectral.covariances import Commuting, Covariances, General
from deqcli.spectral.forms import MOST_CLASSES

Array = NDArray[np.float64]
# Groups of a class in many dimensions, or more where as many do not span them; in few there are
# twice as many as moments that they have right.
_GROUPS, _MOST_MOMENTS = 64, 46
# Moments of a standard normal variable, by their orders.
_NORMAL = np.array([0.0 if k % 2 else float(np.prod(np.arange(k - 1, 0, -2))) for k in range(17)])
# Deviations of shapes that differ by less between classes do not count; nor become negative.
_ONE_SHAPE, _LEAST = 1e-3, 0.1
# Nor do parts of them below this, relative to the first; more variables than this are too many.
_LEADING, _MOST_VARIABLES = 0.1, 10
# Parts of means and of what they are correlated with below this are rounding.
_NOTHING = 1e-9


@dataclass(frozen=True)
class Blocks:
    r"""Covariances :math:`C_a` in blocks, and the directions V that groups lie along.

    Attributes
    ----------
    matrices : ndarray of shape (K, q, s, s)
        Blocks of each class: numbers in a common eigenbasis (s = 1), or one whole matrix (q = 1).
    shares : ndarray of shape (q,)
        Times of each block, in units of p.
    vectors : ndarray of shape (t, s, k)
        V in blocks.
    places : ndarray of shape (t,)
        Which block each of these is of.
    """

    matrices: Array
    shares: Array
    vectors: Array
    places: NDArray[np.intp]


@dataclass(frozen=True)
class Samples:
    r"""Groups of samples.

    Attributes
    ----------
    dimension : int
        p.
    classes : ndarray of shape (m,)
    nodes : ndarray of shape (m, d + 1), or more
        Standard normal variables that they are values of.
    shares : ndarray of shape (m,)
        Their sum is one.
    norms : ndarray of shape (m,)
        Of the samples.
    relative : ndarray of shape (m,)
        Squared norms of w in units of their class's mean.
    rest : ndarray of shape (m,)
        Those themselves, of :math:`w/\sqrt p`.
    inner : ndarray of shape (m, m)
        Mean inner products.
    across : ndarray of shape (m, m)
        Their part along V.
    variances : ndarray of shape (m, m)
        Of inner products.
    triples : ndarray of shape (m,)
        :math:`\operatorname{tr}C_a^3/p^3`.
    loads : ndarray of shape (m, k)
        Coefficients of the groups in V.
    blocks : Blocks
    coordinates : ndarray of shape (m, d)
        u.
    scales : ndarray of shape (m,)
        Standard normal and independent of all else; or zeros.
    """

    dimension: int
    classes: NDArray[np.intp]
    nodes: Array
    shares: Array
    norms: Array
    relative: Array
    rest: Array
    inner: Array
    across: Array
    variances: Array
    triples: Array
    loads: Array
    blocks: Blocks
    coordinates: Array
    scales: Array

    @cached_property
    def members(self) -> Array:
        """Which group is of which class, of shape (m, K)."""
        return np.eye(int(self.classes[-1]) + 1)[self.classes]

    @cached_property
    def averages(self) -> Array:
        """Weights of the means over the groups of each class, of shape (m, K)."""
        shares = self.shares[:, None] * self.members
        return np.asarray(shares / shares.sum(axis=0))

    def by_class(self, values: Array) -> Array:
        """Return means over the groups of each class."""
        return np.tensordot(self.averages.T, values, 1)


def samples_of(
    covariances: Covariances,
    counts: NDArray[np.int64],
    *,
    scales: bool = False,
    norms: Covariances | None = None,
) -> Samples:
    """Sort the samples of classes into groups.

    Parameters
    ----------
    scales : bool
        Whether they are sorted by one more variable, too.
    norms : Covariances, optional
        By which norms vary, if the first are covariances in another metric.

    Examples
    --------
    >>> from deqcli.spectral.from_moments import covariances_of
    >>> two = covariances_of(3 * np.eye(2, 50), [np.array(1.0), np.array(1.2)])
    >>> samples = samples_of(two, np.array([30, 50]))
    >>> samples.by_class(samples.norms**2)                    # trace and mean, (9 + 50) / 50
    array([1.18, 1.38])
    """
    k, p = len(counts), covariances.dimension
    if k > MOST_CLASSES:
        raise InputError(
            f"`mixture` has {k} classes; the own-norm `form` of predictions is for at most "
            f"{MOST_CLASSES}: give fewer, or the `form` papers."
        )
    matrices, times, means, places = _coordinates(covariances)
    # In these coordinates, blocks one after the other: means, and covariances times a matrix.
    flat = means.reshape(-1, k)
    basis = _spanned(flat)
    d = basis.shape[1]
    if d >= p:
        raise InputError(
            f"`mixture` has {d} independent means in {p} dimensions; the own-norm `form` needs "
            "more dimensions."
        )
    centres = flat.T @ basis
    shaped = basis.reshape(*means.shape[:2], d)
    products = np.einsum("atij,tjd->atid", matrices[:, places], shaped)
    products = products.reshape(k, len(basis), d)
    own = basis.T @ products
    inverses = np.linalg.inv(own)
    along = (products - basis @ own) @ inverses
    known = np.trace(inverses @ (np.swapaxes(products, 1, 2) @ products), axis1=1, axis2=2)
    # What is left when d coordinates are known has as many dimensions less.
    traces, left = covariances.traces - known / p, 1 - d / p
    if not (traces > 0).all():
        raise ConvergenceError("the metric is too far from that of the data.")
    ratios = traces / (covariances.traces * left)
    T = np.outer(ratios, ratios) * covariances.products * left
    # As many parts as there are variables for, but one at least.
    shapes = _shapes(covariances, matrices, times)[: max(_MOST_VARIABLES - d - 1 - scales, 1)]
    own_variables = d + 1 + len(shapes)
    nodes, weights = _nodes(own_variables + scales)
    groups = len(nodes)
    classes = np.repeat(np.arange(k), groups)
    departures = np.einsum("ade,ge->agd", np.linalg.cholesky(own), nodes[:, :d])
    departures = departures.reshape(classes.size, d)
    coordinates = centres[classes] + departures
    plain = norms or covariances
    own_products = np.diagonal(plain.products)
    shape = (plain.traces**2 * left * p / (2 * own_products))[:, None]
    relative = (gammaincinv(shape, ndtr(nodes[:, d])) / shape).ravel()
    relative /= np.repeat(relative.reshape(k, -1) @ weights, groups)
    rest = relative * traces[classes]
    loads = (np.eye(k)[classes][:, :, None] * departures[:, None, :]).reshape(classes.size, k * d)
    vectors = np.moveaxis(along, 0, 1).reshape(len(flat), k * d)
    # Covariances of one shape have these directions in common.
    vectors, sizes, turn = np.linalg.svd(vectors, full_matrices=False)
    apart = sizes > _NOTHING
    loads, vectors = loads @ (sizes[:, None] * turn)[apart].T, vectors[:, apart]
    moved = loads @ vectors.T
    across = moved @ moved.T / p
    inner = coordinates @ coordinates.T / p + across
    both = np.ix_(classes, classes)
    # A long sample is longer yet to covariances like its own, along which it departs.
    raised = plain.triples * (plain.traces / own_products)[:, None]
    longer = relative[:, None] ** (raised / plain.products)[both]
    if len(shapes):
        known = np.tile(nodes[:, d + 1 : own_variables], (k, 1))
        away = np.einsum("is,sij->ij", known, shapes[:, classes[:, None], classes])
        longer *= np.maximum(1 + away, _LEAST)
    return Samples(
        p,
        classes,
        np.tile(nodes, (k, 1)),
        (counts / counts.sum())[classes] * np.tile(weights, k),
        np.sqrt(rest + np.diagonal(inner)),
        relative,
        rest,
        inner,
        across,
        longer * longer.T * T[both] / p,
        (np.diagonal(covariances.triples) / p**2)[classes],
        loads,
        Blocks(
            ratios[:, None, None, None] * matrices,
            left * times,
            vectors.reshape(*means.shape[:2], vectors.shape[1]),
            places,
        ),
        coordinates,
        np.tile(nodes[:, own_variables:].sum(axis=1), k),
    )


def _coordinates(covariances: Covariances) -> tuple[Array, Array, Array, NDArray[np.intp]]:
    """Return blocks (K, q, s, s), their shares, means (t, s, K) in them and of which each is."""
    if isinstance(covariances, General):
        return (
            covariances.matrices[:, None],
            np.full(1, 1 / covariances.dimension),
            covariances.means.T[None],
            np.zeros(1, dtype=np.intp),
        )
    assert isinstance(covariances, Commuting)
    times = covariances.multiplicities
    # Of equal columns only the span of the means counts, as many of them as it has dimensions.
    values, vectors = np.linalg.eigh(covariances.mean_products)
    root = np.swapaxes(np.sqrt(np.maximum(values, 0.0))[:, None] * vectors, 1, 2)
    least = _NOTHING * max(float(values.max(initial=0.0)), 1e-300)
    kept = values > least
    places = np.repeat(np.arange(times.size), values.shape[1]).reshape(values.shape)[kept]
    matrices = covariances.eigenvalues[:, :, None, None]
    return matrices, times / covariances.dimension, root[kept][:, None], places


def _shapes(covariances: Covariances, matrices: Array, times: Array) -> Array:
    r"""Return how samples of class a vary in what they are to others' covariances.

    Of :math:`w^\top C_bw`, given :math:`\|w\|`, its principal parts, the largest first: row a has
    a part's deviations for all b, in units of the means. There is none if classes have one shape,
    and cannot be told by it.
    """
    T, triples, p = covariances.products, covariances.triples, covariances.dimension
    pairs = np.einsum("aqij,bqjk->abqik", matrices, matrices, optimize=True)
    fourth = np.einsum("q,abqij,acqji->abc", times, pairs, pairs, optimize=True)
    known = triples[:, :, None] * triples[:, None, :] / np.diagonal(T)[:, None, None]
    relative = 2 / p * (fourth - known) / (T[:, :, None] * T[:, None, :])
    values, vectors = np.linalg.eigh(relative)
    parts = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors
    sizes = np.ptp(np.moveaxis(parts, -1, 0)[::-1], axis=2).max(axis=1)
    kept = sizes > max(_ONE_SHAPE, _LEADING * float(sizes[0]))
    return np.moveaxis(parts, -1, 0)[::-1][kept]


def _spanned(vectors: Array) -> Array:
    """Return an orthonormal basis of the span of columns, one after the other."""
    basis = np.zeros((len(vectors), 0))
    least = 1e-6 * float(np.linalg.norm(vectors, axis=0).max(initial=0.0))
    for vector in vectors.T:
        left = vector - basis @ (basis.T @ vector)
        left -= basis @ (basis.T @ left)
        size = float(np.linalg.norm(left))
        if size > least:
            basis = np.column_stack([basis, left / size])
    return basis


@lru_cache
def _nodes(dimension: int) -> tuple[Array, Array]:
    """Return points of a standard normal vector, (m, dimension), and their weights.

    Opposite points have equal weights, which are those that give moments of higher orders (up to
    the eighth of two variables, the fourth of three or four). In more dimensions all points are
    alike.
    """
    powers = _even_powers(dimension)
    if len(powers) > _MOST_MOMENTS:
        # As many as the polynomials of second degree, where these are few enough.
        fitted = 1 + dimension * (dimension + 1) // 2
        fitted = fitted if dimension <= _MOST_VARIABLES else 2 * dimension
        half = ndtri(lattice(dimension, max(_GROUPS // 2, fitted))).T
        root = np.linalg.cholesky(half.T @ half / len(half))
        half, weights = np.linalg.solve(root, half.T).T, np.full(len(half), 1 / len(half))
    else:
        # Of many points, a little farther out than normal ones, least squares take as few as
        # there are moments.
        half = 1.2 * ndtri(lattice(dimension, 20 * len(powers))).T
        values = np.prod(half[:, None, :] ** powers, axis=2)
        moments = np.prod(_NORMAL[powers], axis=1)
        sizes = np.sqrt(np.prod(_NORMAL[2 * powers], axis=1))
        weights, _ = nnls((values / sizes).T, moments / sizes)
        half, weights = half[weights > 0], weights[weights > 0]
    return np.vstack([half, -half]), np.tile(weights / (2 * weights.sum()), 2)


def _even_powers(dimension: int) -> NDArray[np.intp]:
    """Return the monomials of even order, as many orders as are few enough, at most eight."""
    powers = np.zeros((1, dimension), dtype=np.intp)
    for order in (2, 4, 6, 8):
        chosen = combinations_with_replacement(range(dimension), order)
        new = np.array([np.bincount(one, minlength=dimension) for one in chosen])
        if order > 4 and len(powers) + len(new) > _MOST_MOMENTS:
            break
        powers = np.vstack([powers, new])
    return powers
