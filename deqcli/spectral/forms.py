r"""From a mixture and a kernel to the equations of its spectrum, in two forms.

The papers' form is the law of the equivalent with four scalars (theory.md §4). The own-norm form
expands the kernel itself, as a function of two norms and an inner product, at the norms and inner
products that each pair of classes has (theory.md §9, §10): it is the law of the exact kernel, and
holds for any network.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammainc, gammaincinv

from deqcli.errors import InputError
from deqcli.kernels.expansion import Expansion
from deqcli.scalars import Coefficients
from deqcli.spectral.coupled import Coupled
from deqcli.spectral.covariances import Covariances
from deqcli.spectral.spikes import LowRank

Array = NDArray[np.float64]
#: With more classes a law, or a prediction in the own-norm form, takes longer than what it is of.
MOST_CLASSES = 16
# Shares of the groups that the norms of a class are sorted into: tails have groups of their own.
_BINS = np.array([0.01, 0.05, 0.14, 0.3, 0.3, 0.14, 0.05, 0.01])
# Slopes that differ by less than this part from pair to pair of classes differ like noise.
_MIXED = 0.01
# Means longer than this, in units of the noise's norm, are not small in any expansion.
_LONGEST = 10.0
# Columns whose eigenvalue is below this part of the spectrum's width are rounding.
_NOTHING = 1e-9


class Model(NamedTuple):
    """The equations of the bulk, and what adds isolated eigenvalues to it."""

    equations: Coupled
    low_rank: LowRank


def papers_form(
    covariances: Covariances,
    coefficients: Coefficients,
    counts: NDArray[np.int64],
    constant: float = 0.0,
) -> Model:
    r"""Return the model of :math:`c_1XX^\top + VBV^\top + \delta I`.

    The fluctuations :math:`\psi` of a class, of variance :math:`2T_{aa}/p`, are two groups of
    samples, one on each side. The constant is added to what it is between different samples.
    """
    side = np.array([1.0, -1.0])
    return _grouped(
        covariances, coefficients, counts, side, [(coefficients.c2, 1.0, 0 * side)], constant
    )


def noisy_norms(
    covariances: Covariances,
    coefficients: Coefficients,
    counts: NDArray[np.int64],
    parts: Sequence[tuple[float, float, float]],
    constant: float = 0.0,
) -> Model:
    r"""Return the model of a kernel in which several terms :math:`c_2vv^\top` see the norms.

    Each is given by its :math:`c_2`, by the share of the norms' departures that v has, and by the
    standard deviation of its noise; noise of different terms has one sign. A class is four groups,
    on each side of both.
    """
    side, other = np.array([1.0, 1.0, -1.0, -1.0]), np.array([1.0, -1.0, 1.0, -1.0])
    terms = [(c2, share, noise * other) for c2, share, noise in parts]
    return _grouped(covariances, coefficients, counts, side, terms, constant)


def _grouped(
    covariances: Covariances,
    c: Coefficients,
    counts: NDArray[np.int64],
    side: Array,
    terms: Sequence[tuple[float, float, Array]],
    constant: float,
) -> Model:
    k, p = len(counts), covariances.dimension
    n, groups = int(counts.sum()), side.size
    shares = counts / n
    traces, T = covariances.traces, covariances.products
    classes = np.repeat(np.arange(k), groups)
    alpha = constant + c.c3 * T[np.ix_(classes, classes)] / p
    psi = np.tile(side, k) * np.sqrt(2 * np.diagonal(T) / p)[classes]
    norm = (traces - shares @ traces)[classes] + psi
    for c2, share, noise in terms:
        seen = share * norm + np.tile(noise, k)
        alpha = alpha + c2 * np.outer(seen, seen)
    m = classes.size
    equations = Coupled(
        covariances,
        ratio=n / p,
        classes=classes,
        shares=np.repeat(shares / groups, groups),
        scales=np.full(m, c.c1),
        offsets=np.full(m, c.d - c.tau0**2 * c.c1),
        variances=np.zeros(m),
        noise=np.ones(m),
        coupling=np.zeros((k, k)),
        skews=np.zeros(k),
    )
    linear = np.full(m, np.sqrt(c.c1))
    return Model(equations, _low_rank(equations, linear, alpha, np.tile(side, k), n))


def check_own_norms(covariances: Covariances, counts: NDArray[np.int64]) -> None:
    """Refuse samples for which the own-norm form does not hold."""
    n, p = int(counts.sum()), covariances.dimension
    if n > p * p:
        raise InputError(
            f"`counts` are {n} samples in {p} dimensions; the own-norm `form` needs fewer than "
            "dimensions squared, or what it takes for noise is none."
        )
    longest = float(np.sqrt(np.max(np.diagonal(covariances.grams) / p / covariances.traces)))
    if longest > _LONGEST:
        raise InputError(
            f"`mixture` has means {longest:.3g} times as long as its noise; the own-norm `form` "
            f"expands in their products and needs at most {_LONGEST:g}."
        )


def own_norm_form(
    covariances: Covariances,
    expansion: Expansion,
    counts: NDArray[np.int64],
) -> Model:
    r"""Return the model of the exact kernel.

    Each class is sorted into groups by its samples' norms, whose law is nearly normal. Between
    groups i and j of classes a and b, with :math:`m = \mu_a^\top\mu_b/p` the mean
    of s and v its variance, the kernel is linear in s but for noise,

    .. math:: f_{ij}(s) = S_{ij}s + A_{ij} + \text{rest}, \qquad
              S_{ij} = E[f_{ij}(s)(s - m)]/v, \quad A_{ij} = Ef_{ij}(s) - S_{ij}m .

    :math:`S_{ij} \approx D_{1i}D_{1j}s_{ab}`; the rest acts as a Wigner matrix.
    """
    check_own_norms(covariances, counts)
    k, p = len(counts), covariances.dimension
    n = int(counts.sum())
    traces, T, grams = covariances.traces, covariances.products, covariances.grams / p
    weighted = covariances.weighted_means() / p**2
    classes = np.repeat(np.arange(k), _BINS.size)
    shares = (counts / n)[classes] * np.tile(_BINS, k)
    variance = 2 * np.diagonal(T) / p + 4 * np.diagonal(weighted)
    radius, within = (part.ravel() for part in _gamma_bins(traces, variance))
    squared = radius + np.diagonal(grams)[classes]
    norms = np.sqrt(squared)
    both = np.ix_(classes, classes)
    relative = radius / traces[classes]
    # A long sample is longer yet to covariances like its own, along which it departs.
    triples = covariances.triples
    longer = relative[:, None] ** (triples * (traces / np.diagonal(T))[:, None] / T)[both]
    m, pure = grams[both], longer * longer.T * (T / p)[both]
    v = pure + relative[:, None] * weighted[both] + weighted.T[both] * relative
    first, second = np.triu_indices(classes.size)
    pair = first, second
    found = expansion.projection(norms[first], norms[second], m[pair], v[pair])
    f, slope, rest = (_symmetric(part, first, second) for part in found)
    members = np.eye(k)[classes] * np.tile(_BINS, k)[:, None]
    linear = _leading(slope, shares)
    product = np.outer(linear, linear)
    with np.errstate(divide="ignore", invalid="ignore"):
        mixing = members.T @ (slope / product - 1) @ members
    kept = np.zeros((k, k))
    if _MIXED < np.abs(mixing).max() < 1:
        covariances = covariances.mixed(1 + mixing, counts / n)
        assert covariances.surrogate.slopes is not None
        kept = covariances.surrogate.slopes.matrix - 1
    lines = (slope - product * (1 + kept)[both]) ** 2 * pure
    inside = linear**2 * (squared + np.diagonal(kept)[classes] * radius)
    # Products with directions of means have small rank or multiply samples: they are no noise.
    squares = rest * (pure / v) ** 2
    alpha = f - product * m
    offsets = expansion.diagonal(norms) - np.diagonal(alpha) - inside
    spread = _slopes(radius.reshape(k, -1), offsets.reshape(k, -1)).ravel()
    noise = n * (squares + lines)
    by_row = noise @ members.sum(axis=1)
    equations = Coupled(
        covariances,
        ratio=n / p,
        classes=classes,
        shares=shares,
        scales=linear**2 * relative,
        offsets=offsets,
        variances=spread**2 * within,
        noise=by_row / (by_row @ members)[classes] if by_row.all() else np.ones_like(by_row),
        coupling=members.T @ noise @ members,
        skews=skews_of(squares, lines, pure, (np.diagonal(triples) / p**2)[classes], members),
    )
    norm = (radius - traces[classes]) / np.sqrt(variance)[classes]
    return Model(equations, _low_rank(equations, linear, alpha, norm, n))


def _leading(slope: Array, shares: Array) -> Array:
    """Return what the product of a vector with itself comes nearest with."""
    root = np.sqrt(shares)
    values, vectors = np.linalg.eigh(root[:, None] * slope * root)
    return np.asarray(np.sqrt(max(values[-1], 0.0)) * vectors[:, -1] / root)


def skews_of(
    squares: Array,
    lines: Array,
    v: Array,
    triple: Array,
    members: Array,
    others: Array | float = 0.0,
) -> Array:
    r"""Return :math:`1/\theta` of what acts as noise, of shape (K,).

    Noise that is a product of features of covariance :math:`\Sigma`, times :math:`\omega`, has
    the variance :math:`\omega^2\operatorname{tr}\Sigma^2` and
    :math:`1/\theta = \operatorname{tr}\Sigma^3/\omega(\operatorname{tr}\Sigma^2)^2`.
    Lines :math:`\omega s` have :math:`\Sigma = C/p`, whose traces are v and ``triple``; squares
    :math:`\omega(s^2 - v)` have :math:`2v^2` and four times the square of ``triple``. Third
    cumulants :math:`w^2/\theta` add up; those of ``others`` are nothing.
    """
    own, square, line = np.diagonal(v), np.diagonal(squares), np.diagonal(lines)
    cubes = np.sqrt(2.0) * square**1.5 * triple**2 / own**3 + line**1.5 * triple / own**1.5
    total = (square + line + np.diagonal(np.broadcast_to(others, v.shape))) ** 2 @ members
    return np.divide(cubes @ members, total, out=np.zeros_like(total), where=total > 0)


def _symmetric(values: Array, first: NDArray[np.intp], second: NDArray[np.intp]) -> Array:
    size = int(first[-1]) + 1
    out = np.empty((size, size))
    out[first, second] = values
    out[second, first] = values
    return out


def _gamma_bins(mean: Array, variance: Array) -> tuple[Array, Array]:
    """Return means and variances of gamma laws within their groups, (K, groups).

    The squared norm of Gaussian noise is such a law if the covariance is a multiple of the
    identity, and near one otherwise.
    """
    shape, scale = (mean**2 / variance)[:, None], (variance / mean)[:, None]
    edges = gammaincinv(shape, np.append(0.0, np.append(np.cumsum(_BINS[:-1]), 1.0)))
    first = scale * shape * np.diff(gammainc(shape + 1, edges), axis=1) / _BINS
    second = scale**2 * shape * (shape + 1) * np.diff(gammainc(shape + 2, edges), axis=1) / _BINS
    return first, np.maximum(second - first**2, 0.0)


def _slopes(x: Array, y: Array) -> Array:
    return np.stack([np.gradient(b, a) for a, b in zip(x, y, strict=True)])


def _low_rank(equations: Coupled, linear: Array, alpha: Array, norms: Array, n: int) -> LowRank:
    """Split a matrix on groups into columns and signs."""
    root = np.sqrt(equations.shares)
    values, vectors = np.linalg.eigh(root[:, None] * alpha * root)
    size = equations.span + float(np.abs(equations.offsets).max())
    kept = n * np.abs(values) > _NOTHING * size
    columns = vectors[:, kept] * np.sqrt(np.abs(values[kept])) / root[:, None]
    return LowRank(linear, columns, np.sign(values[kept]), norms)
