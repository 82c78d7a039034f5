r"""The equivalent in which every sample keeps its own norm (theory.md §9).

.. math:: \bar M' = D_1XX^\top D_1 + aa^\top + D_2(\overline{ss})D_2 + \text{exact diagonal},
   \qquad \overline{ss} = 2EE^\top\circ XX^\top - (EE^\top)^{\circ2} + J\bar TJ^\top,

where :math:`E = XQ` are the samples' shares in the span of the class means (and of the leading
principal components of what is left), and :math:`\bar T` the class averages of
:math:`(XX^\top - EE^\top)^{\circ2}`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import svd
from scipy.sparse.linalg import LinearOperator, eigsh

from deqcli.activations import Activation
from deqcli.checks import shown
from deqcli.errors import InputError
from deqcli.kernels.expansion import Expansion
from deqcli.kernels.pairs import ExplicitPairs, ImplicitPairs
from deqcli.kernels.tiles import Combination
from deqcli.scalars import ExplicitScalars, ImplicitScalars
from deqcli.vocabulary import Kernel

Array = NDArray[np.float64]
# Squares whose weight is below this, relative to the linear part, are rounding.
_NOTHING = 1e-8
# Directions of means that are kept, the leading ones: columns of factors are half its square.
_MOST = 32
# Variances below this part of the samples' squares are rounding.
_ROUNDING = 1e-14
# Samples that are enough for traces of powers of the covariance, which take cubic time.
_ENOUGH = 2000


def kernel_expansion(scalars: object, kernel: Kernel | str) -> Expansion:
    """Return a kernel of the network that has these scalars as a function of pairs."""
    if isinstance(scalars, ImplicitScalars) and isinstance(scalars.act, Activation):
        member = Kernel.of(kernel, "kernel")
        deq = ImplicitPairs(scalars.act, scalars.sigma_a2, scalars.sigma_b2)
        if member.before_activation:
            combination = Combination(member.explicit, scalars.sigma_a2, scalars.sigma_b2)
            return Expansion(deq, combination)
        return Expansion(deq, Combination(member))
    if isinstance(scalars, ExplicitScalars) and scalars.acts:
        return Expansion(
            ExplicitPairs(scalars.acts), Combination(Kernel.of_explicit(kernel, "kernel"))
        )
    raise InputError(
        f"`scalars` is {shown(scalars)}, but the own-norm form needs the activations; give what "
        "implicit_scalars or explicit_scalars returned."
    )


@dataclass(frozen=True)
class OwnNormParts:
    r"""The factors of :math:`(FF^\top)\circ XX^\top + VCV^\top + \mathrm{diag}(r)`.

    Attributes
    ----------
    weights : ndarray of shape (n, q)
        F.
    factor : ndarray of shape (n, k)
        V.
    core : ndarray of shape (k, k)
        C.
    ridge : ndarray of shape (n,)
        r, which makes the diagonal exact.
    """

    weights: Array
    factor: Array
    core: Array
    ridge: Array


def own_norm_parts(
    X: Array, labels: NDArray[np.int64], centres: Array, expansion: Expansion, components: int
) -> OwnNormParts:
    """Return the own-norm equivalent in factors.

    Parameters
    ----------
    X : ndarray of shape (n, p)
    labels : ndarray of shape (n,)
        Class indices.
    centres : ndarray of shape (K, p)
        Means of the classes.
    expansion : Expansion
        The kernel.
    components : int
        Principal components of what the means leave, whose share of the squares is kept.
    """
    squared = np.einsum("ij,ij->i", X, X)
    own = expansion.own_norms(np.sqrt(squared))
    weights, factors, cores = [own.linear], [own.constant[:, None]], [np.ones((1, 1))]
    if np.max(own.square**2 * squared) > _NOTHING * np.max(own.linear**2):
        basis = _directions(X, centres, labels, components)
        E = X @ basis
        weights += [np.sqrt(2.0) * own.square * column for column in E.T]
        first, second = np.triu_indices(E.shape[1])
        factors.append(own.square[:, None] * E[:, first] * E[:, second])
        cores.append(np.diag(np.where(first == second, -1.0, -2.0)))
        J = np.eye(len(centres))[labels]
        factors.append(own.square[:, None] * J)
        cores.append(_mean_squares(X, basis, labels, len(centres)))
    F, V = np.stack(weights, axis=1), np.hstack(factors)
    size = V.shape[1]
    core = np.zeros((size, size))
    place = 0
    for block in cores:
        end = place + len(block)
        core[place:end, place:end] = block
        place = end
    inside = np.einsum("ij,ij->i", F, F) * squared + np.einsum("ij,ij->i", V @ core, V)
    return OwnNormParts(F, V, core, own.diagonal - inside)


def squares_left(X: Array, labels: NDArray[np.int64], centres: Array) -> float:
    r"""Return what the norm of :math:`r_{ij}^2 - \bar T_{ab}` is to be for n samples.

    .. math:: \lVert r^{\circ2} - \bar T\rVert \to \frac{\sqrt{2n}\operatorname{tr}C^2}{p^2}
       \Big(y + \frac1y\Big), \qquad
       y = \max\Big(1, \frac{\sqrt{n\operatorname{tr}C^4}}{\operatorname{tr}C^2}\Big),

    where C is the covariance that the span of the class means leaves (theory.md §9): the edge of
    a Wigner matrix, or for y > 1 an eigenvalue beyond it. Traces are the means of
    :math:`r_{ij}^2` and of :math:`r_{ij}r_{jk}r_{kl}r_{li}` over different samples.

    Parameters
    ----------
    X : ndarray of shape (n, p)
        At least four samples.
    labels : ndarray of shape (n,)
        Class indices.
    centres : ndarray of shape (K, p)
        Means of the classes.

    Examples
    --------
    >>> X = np.random.default_rng(0).standard_normal((800, 200)) / np.sqrt(200)
    >>> round(squares_left(X, np.zeros(800, int), np.zeros((1, 200))), 1)    # 0.2 (2 + 1/2)
    0.5
    """
    n = len(X)
    basis = _directions(X, centres, labels, 0)
    some = _apart(X[:: -(-n // _ENOUGH)].copy(), basis)
    m = len(some)
    inner = some @ some.T
    # Eighth powers of samples are formed.
    unit = float(np.diagonal(inner).max()) or 1.0
    inner /= unit
    np.fill_diagonal(inner, 0.0)
    squares = inner**2
    rows = squares.sum(axis=1)
    second = rows.sum() / (m * (m - 1))
    if second == 0:
        return 0.0
    # Closed walks of four steps, but for those that come back to a sample on the way.
    cycles = np.sum((inner @ inner) ** 2) - 2 * np.sum(rows**2) + np.sum(squares**2)
    fourth = cycles / (m * (m - 1) * (m - 2) * (m - 3))
    apart = max(1.0, float(np.sqrt(n * max(fourth, 0.0)) / second))
    return float(unit**2 * np.sqrt(2 * n) * second * (apart + 1 / apart))


def _directions(X: Array, centres: Array, labels: NDArray[np.int64], components: int) -> Array:
    """Return an orthonormal basis of the class means and of the components, of shape (p, q)."""
    n, p = X.shape
    basis = np.zeros((p, 0))
    if centres.any():
        weights = np.sqrt(np.bincount(labels, minlength=len(centres)))[:, None]
        _, size, rows = svd(weights * centres, full_matrices=False, check_finite=False)
        basis = rows[:_MOST][size[:_MOST] > 1e-8 * size[0]].T
    count = min(components, min(n, p) - 1 - basis.shape[1])
    if count <= 0:
        return basis

    def apart(v: Array) -> Array:
        return v - basis @ (basis.T @ v)

    covariance = LinearOperator(
        (p, p), matvec=lambda v: apart(X.T @ (X @ apart(v.ravel()))), dtype=np.float64
    )
    start = np.random.default_rng(0).standard_normal(p)
    # Samples that do not vary beside the basis, but for rounding, have no further components.
    if np.linalg.norm(covariance @ start) <= _ROUNDING * np.sum(X**2) * np.linalg.norm(start):
        return basis
    _, leading = eigsh(covariance, k=count, which="LM", v0=start)
    return np.asarray(np.linalg.qr(np.hstack([basis, leading]))[0])


def _apart(X: Array, basis: Array) -> Array:
    """Take the share of a basis out of samples, in place."""
    X -= (X @ basis) @ basis.T
    return X


def _mean_squares(X: Array, basis: Array, labels: NDArray[np.int64], n_classes: int) -> Array:
    r"""Return the means of :math:`(s_{ij} - (EE^\top)_{ij})^2` over pairs of classes, (K, K).

    Sums of squares of a Gram matrix are inner products of covariances, whichever is the smaller.
    """
    counts = np.bincount(labels, minlength=n_classes)
    groups = [_apart(X[labels == a], basis) for a in range(n_classes)]
    sums = np.zeros((n_classes, n_classes))
    pairs = np.outer(counts, counts) - np.diag(counts)
    if counts.max() > X.shape[1]:
        flat = np.stack([(g.T @ g).ravel() for g in groups])
        sums = flat @ flat.T - np.diag([np.sum(np.sum(g**2, axis=1) ** 2) for g in groups])
    else:
        unit = max(float(np.abs(g).max(initial=0.0)) for g in groups) or 1.0
        # Single precision: errors of so many products cancel in their mean.
        single = [(g / unit).astype(np.float32) for g in groups]
        for a, first in enumerate(single):
            for b, second in enumerate(single[: a + 1]):
                # Of a product with its own transpose numpy does half.
                inner = first @ second.T
                if a == b:
                    np.fill_diagonal(inner, 0.0)
                sums[a, b] = sums[b, a] = unit**4 * np.square(inner, dtype=np.float64).sum()
    return np.divide(sums, pairs, out=np.zeros_like(sums), where=pairs > 0)
