r"""The metric in which a tangent kernel of finite width sees samples, if a layer of it is even.

With :math:`m_1 = 0` in layer t nothing but squares of inner products tells classes apart, and of m
neurons the tangent kernel has, besides noise of each pair of samples,

.. math:: (x^\top x')^2 + x^\top x'\,x^\top\Delta x' \approx (x^\top Ax')^2, \qquad
   A = I + \tfrac12\Delta ,

with random matrices in the place of the identity: :math:`W^\top W/m` of each layer below,
:math:`S = \frac1m\sum_ky_k^2w_kw_k^\top` of the layer itself, y what comes back to it, and what
the weights make of S on its way down. So it is the kernel of samples :math:`A^{1/2}x`, and means
are no eigenvectors of A: they are heard with noise that is as coherent as they are (theory.md §11).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from deqcli.kernels.expansion import Expansion
from deqcli.prediction.grouped import NODES, WEIGHTS, Table
from deqcli.spectral.covariances import Commuting, Covariances, General
from deqcli.spectral.from_moments import covariances_of

Array = NDArray[np.float64]
# Scales of rows below this do not count. Of more dimensions than so many times the width samples
# are so much longer that their groups are too few, and of more yet the metric is too far.
_LEAST, _MOST, _FAR = 1e-2, 1.5, 2.5


def repeats(place: int, depth: int, left: float) -> Array:
    """Return how often the features of each layer below an even one are in the kernel, (t - 1,).

    They are in what the slopes of all t layers multiply, in the kernels K above them, and in
    the features after them.
    """
    return np.asarray(place + left * (depth - place + 1) + np.arange(place - 1, 0, -1))


@dataclass(frozen=True)
class Metric:
    r"""A random matrix of mean one that is free from the samples.

    Attributes
    ----------
    variance, third : float
        :math:`m\operatorname{tr}(A - I)^2/p^2` and :math:`m^2\operatorname{tr}(A - I)^3/p^3`.
    """

    variance: float
    third: float

    @staticmethod
    def of_layer(place: int, depth: int, left: float = 1.0) -> Metric:
        r"""Return that of a network of L layers whose layer t is even.

        The kernel is a sum of t such squares of its slopes and of halves of :math:`L - t + 1` of
        its features. In units of p/m, :math:`W^\top W/m` has the central moments 1 and 1, S 3 and
        15, and what a layer's weights add to S 1 and 1; they are not independent.

        Parameters
        ----------
        place, depth : int
            t and L.
        left : float
            How much of the even layer's features acts.

        Examples
        --------
        >>> Metric.of_layer(1, 1)           # S, in two thirds of the kernel
        Metric(variance=0.3333333333333333, third=0.5555555555555556)
        """
        features = repeats(place, depth, left)
        below = np.arange(place - 1, 0, -1)
        squares = float((below**2).sum())
        variance = float((features**2).sum()) + 3 * place**2 + squares
        third = float((features**3).sum() + (below**3).sum()) + 15 * place**3 + 9 * place * squares
        third += float(features.sum()) * (9 * place**2 + 3 * squares)
        third += 3 * float(np.cumsum(features[:-1]) @ features[1:] ** 2)
        whole = 2 * place + left * (depth - place + 1)
        return Metric(variance / whole**2, third / whole**3)

    def shared(self, place: int, depth: int, left: float = 1.0) -> Metric:
        r"""Return that with what the even layer's slopes and its features have in common.

        Along a mean a sample hears :math:`\frac1m\sum_ky_k^2w_{k\mu}w_k^\top x` from slopes and,
        half as often, :math:`\frac1m\sum_k(w_{k\mu}^2 - 1)w_{k\mu}w_k^\top x` from features, of the
        same weights: their covariance is two thirds of the first one's variance.
        """
        times = left * (depth - place + 1)
        more = 2 * place * times / (2 * place + times) ** 2
        part = 1 + more / self.variance
        return Metric(part * self.variance, part**2 * self.third)

    def eigenvalues(self, ratio: float) -> tuple[Array, Array]:
        """Return two eigenvalues and their shares for p/m, with the first three moments."""
        variance, third = self.variance * ratio, self.third * ratio**2
        skew = third / variance
        root = np.sqrt(skew**2 + 4 * variance)
        away = np.array([skew - root, skew + root]) / 2
        return 1 + away, np.array([away[1], -away[0]]) / root

    def applied(self, covariances: Covariances, shares: Array, width: int) -> Covariances:
        r"""Return those of the samples :math:`A^{1/2}x`.

        A is free from covariances. Those that are not multiples of the identity are taken to
        commute with it, or are turned by one matrix A whose eigenvectors are waves.

        Parameters
        ----------
        shares : ndarray of shape (K,)
            Of the classes.
        """
        p = covariances.dimension
        values, parts = self.eigenvalues(p / width)
        if isinstance(covariances, Commuting):
            products = covariances.mean_products[:, None] * (values * parts)[:, None, None]
            return replace(
                covariances,
                eigenvalues=np.asarray(np.kron(covariances.eigenvalues, values)),
                multiplicities=np.asarray(np.kron(covariances.multiplicities, parts)),
                mean_products=products.reshape(-1, *products.shape[2:]),
            )
        assert isinstance(covariances, General)
        # Waves, in any order: in those of one length all means along axes have equal parts.
        k = np.arange(p)
        angles = 2 * np.pi / p * (k[:, None] * k % p)
        waves = (np.cos(angles) + np.sin(angles)) / np.sqrt(p)
        order = np.random.default_rng(0).permutation(p // 2 + 1)
        large = order[np.minimum(k, p - k)] < parts[1] * order.size
        chosen = np.where(large, values[1], values[0])
        root = (waves * np.sqrt(chosen / chosen.mean())) @ waves
        turned = root @ covariances.matrices @ root
        # Means keep their inner products, as if there were more waves.
        sides, sizes, basis = np.linalg.svd(covariances.means, full_matrices=False)
        lengths, sums = np.linalg.eigh(basis @ root @ root @ basis.T)
        basis = (sums / np.sqrt(lengths)) @ sums.T @ basis @ root
        return covariances_of((sides * sizes) @ basis, list(turned), weights=shares)

    @staticmethod
    def holds(width: int, dimension: int) -> bool:
        """Whether two eigenvalues tell enough of it."""
        return dimension < _FAR * width

    def stretches(self, width: int, dimension: int) -> bool:
        """Whether samples are longer in A than they are by what counts, and not by too much."""
        return 2 * self.variance / width > _LEAST**2 and dimension < _MOST * width

    def stretched(self, table: Table, kernel: Expansion, width: int) -> Table:
        r"""Scale rows of the first kernel as samples are longer in A than they are.

        Given :math:`\|x\|^2`, :math:`x^\top Ax` has the variance
        :math:`2\operatorname{tr}(C(A - I))^2/p^2`.

        Parameters
        ----------
        table : Table
            In which samples have scales.
        kernel : Expansion
            The first of its kernels.
        """
        samples = table.samples
        own = np.sqrt(2 * self.variance / width) * samples.scales
        factors = own[:, None] + own + own[:, None] * own
        # Of what is a square of inner products.
        still = kernel.between(samples.norms, np.zeros((own.size, own.size, 1)))
        bent = np.diagonal(table.values[0] @ ((NODES**2 - 1) * WEIGHTS)) / 2
        squares = bent / np.diagonal(samples.variances) * samples.norms**4
        values, diagonals = table.values.copy(), table.diagonals.copy()
        values[0] += factors[..., None] * (values[0] - still)
        diagonals[0] += np.diagonal(factors) * squares
        return replace(table, values=values, diagonals=diagonals)
