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
# Groups of equal size that the norms of a class are sorted into.
_BINS = 8
# Means longer than this, in units of the noise's norm, are not small in any expansion.
_LONGEST = 10.0
# Columns whose eigenvalue is below this part of the spectrum's width are rounding.
_NOTHING = 1e-9


class Model(NamedTuple):
    """The equations of the bulk, and what adds isolated eigenvalues to it."""

    equations: Coupled
    low_rank: LowRank


def papers_form(
    covariances: Covariances, coefficients: Coefficients, counts: NDArray[np.int64]
) -> Model:
    r"""Return the model of :math:`c_1XX^\top + VBV^\top + \delta I`.

    The fluctuations :math:`\psi` of a class, of variance :math:`2T_{aa}/p`, are two groups of
    samples, one on each side.
    """
    side = np.array([1.0, -1.0])
    return _grouped(covariances, coefficients, counts, side, [(coefficients.c2, 1.0, 0 * side)])


def noisy_norms(
    covariances: Covariances,
    coefficients: Coefficients,
    counts: NDArray[np.int64],
    parts: Sequence[tuple[float, float, float]],
) -> Model:
    r"""Return the model of a kernel in which several terms :math:`c_2vv^\top` see the norms.

    Each is given by its :math:`c_2`, by the share of the norms' departures that v has, and by the
    standard deviation of its noise; noise of different terms has one sign. A class is four groups,
    on each side of both.
    """
    side, other = np.array([1.0, 1.0, -1.0, -1.0]), np.array([1.0, -1.0, 1.0, -1.0])
    terms = [(c2, share, noise * other) for c2, share, noise in parts]
    return _grouped(covariances, coefficients, counts, side, terms)


def _grouped(
    covariances: Covariances,
    c: Coefficients,
    counts: NDArray[np.int64],
    side: Array,
    terms: Sequence[tuple[float, float, Array]],
) -> Model:
    k, p = len(counts), covariances.dimension
    n, groups = int(counts.sum()), side.size
    shares = counts / n
    traces, T = covariances.traces, covariances.products
    classes = np.repeat(np.arange(k), groups)
    alpha = c.c3 * T[np.ix_(classes, classes)] / p
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


def own_norm_form(
    covariances: Covariances, expansion: Expansion, counts: NDArray[np.int64]
) -> Model:
    r"""Return the model of the exact kernel.

    Each class is sorted into groups of equal size by its samples' norms, whose law is nearly
    normal. Between groups i and j of classes a and b, with :math:`m = \mu_a^\top\mu_b/p` the mean
    of s and v its variance, the kernel is linear in s but for noise,

    .. math:: f_{ij}(s) = S_{ij}s + A_{ij} + \text{rest}, \qquad
              S_{ij} = E[f_{ij}(s)(s - m)]/v, \quad A_{ij} = Ef_{ij}(s) - S_{ij}m .

    :math:`S \approx D_1D_1^\top`; what it leaves of S is small and acts by its mean and its
    variance, and so does the rest, a Wigner matrix.
    """
    k, p = len(counts), covariances.dimension
    n = int(counts.sum())
    traces, T, grams = covariances.traces, covariances.products, covariances.grams / p
    if n > p * p:
        raise InputError(
            f"`counts` are {n} samples in {p} dimensions; the own-norm `form` needs fewer than "
            "dimensions squared, or what it takes for noise is none."
        )
    longest = float(np.sqrt(np.max(np.diagonal(grams) / traces)))
    if longest > _LONGEST:
        raise InputError(
            f"`mixture` has means {longest:.3g} times as long as its noise; the own-norm `form` "
            f"expands in their products and needs at most {_LONGEST:g}."
        )
    weighted = covariances.weighted_means() / p**2
    classes = np.repeat(np.arange(k), _BINS)
    shares = (counts / n)[classes] / _BINS
    variance = 2 * np.diagonal(T) / p + 4 * np.diagonal(weighted)
    radius, within = (part.ravel() for part in _gamma_bins(traces, variance, _BINS))
    squared = radius + np.diagonal(grams)[classes]
    norms = np.sqrt(squared)
    both = np.ix_(classes, classes)
    relative = radius / traces[classes]
    m, v = grams[both], np.outer(relative, relative) * (T / p)[both]
    v += relative[:, None] * weighted[both] + weighted.T[both] * relative
    first, second = np.triu_indices(classes.size)
    pair = first, second
    found = expansion.projection(norms[first], norms[second], m[pair], v[pair])
    f, slope, noise = (_symmetric(part, first, second) for part in found)
    root = np.sqrt(shares)
    values, vectors = np.linalg.eigh(root[:, None] * slope * root)
    linear = np.sqrt(max(values[-1], 0.0)) * vectors[:, -1] / root
    rest = slope - np.outer(linear, linear)
    alpha = f - slope * m + rest * m
    offsets = expansion.diagonal(norms) - linear**2 * squared - np.diagonal(alpha)
    spread = _slopes(radius.reshape(k, -1), offsets.reshape(k, -1)).ravel()
    linear_noise = rest**2 * v
    residual = n * (noise + linear_noise)
    members = np.eye(k)[classes] / _BINS
    by_row = residual.mean(axis=1)
    coupling = members.T @ residual @ members
    equations = Coupled(
        covariances,
        ratio=n / p,
        classes=classes,
        shares=shares,
        scales=linear**2 * relative,
        offsets=offsets,
        variances=spread**2 * within,
        noise=by_row / (by_row @ members)[classes] if by_row.all() else np.ones_like(by_row),
        coupling=coupling,
        skews=_skews(noise, linear_noise, v, radius, members),
    )
    norm = (radius - traces[classes]) / np.sqrt(variance)[classes]
    return Model(equations, _low_rank(equations, linear, alpha, norm, n))


def _skews(noise: Array, linear_noise: Array, v: Array, radius: Array, members: Array) -> Array:
    r"""Return one over the diagonals of what acts as noise, of shape (K,).

    Squares :math:`\omega(s^2 - v)` of variance :math:`2\omega^2v^2` have the diagonal
    :math:`\omega\|x\|^4`, and linear terms :math:`\omega s` of variance :math:`\omega^2v`
    the diagonal :math:`\omega\|x\|^2`. Third cumulants :math:`w^2/\theta` add up.
    """
    own = np.diagonal(v)
    squares, lines = np.diagonal(noise), np.diagonal(linear_noise)
    skewed = np.sqrt(2 * squares) * own * squares / radius**2
    skewed += np.sqrt(own * lines) * lines / radius
    total = (squares + lines) ** 2 @ members
    return np.divide(skewed @ members, total, out=np.zeros_like(total), where=total > 0)


def _symmetric(values: Array, first: NDArray[np.intp], second: NDArray[np.intp]) -> Array:
    size = int(first[-1]) + 1
    out = np.empty((size, size))
    out[first, second] = values
    out[second, first] = values
    return out


def _gamma_bins(mean: Array, variance: Array, count: int) -> tuple[Array, Array]:
    """Return means and variances of gamma laws within bins of equal probability, (K, count).

    The squared norm of Gaussian noise is such a law if the covariance is a multiple of the
    identity, and near one otherwise.
    """
    shape, scale = (mean**2 / variance)[:, None], (variance / mean)[:, None]
    edges = gammaincinv(shape, np.arange(count + 1) / count)
    first = scale * shape * count * np.diff(gammainc(shape + 1, edges), axis=1)
    second = scale**2 * shape * (shape + 1) * count * np.diff(gammainc(shape + 2, edges), axis=1)
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
