r"""Kernels expanded in the inner product, at the samples' own norms.

A kernel's entry is a function :math:`f(\|x\|, \|x'\|, s)` of two norms and
:math:`s = x^\top x'`. In high dimension s of two different samples is small, so that

.. math:: f(s) \approx f(m) + f'(m)(s - m) + \tfrac12f''(m)(s - m)^2

near a typical value m is all that is seen of the network, be it implicit or explicit
(theory.md §9).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.polynomial.chebyshev import Chebyshev, chebvander
from numpy.typing import NDArray

from deqcli.checks import SMALLEST
from deqcli.kernels.interpolation import Interval, sizes, transform
from deqcli.kernels.pairs import PairKernel
from deqcli.kernels.tiles import Combination

Array = NDArray[np.float64]

# Points in the cosine, over at most this half-width: branch points at +-1 are then so far away
# that 6.5 ** -20, the error, is rounding.
_COUNT, _HALF_WIDTH = 21, 0.3
_NODES = Interval(-1.0, 1.0).nodes(_COUNT)
# Rows: what takes values at those points to value, slope and half the curvature in the middle.
_DERIVATIVES = np.array(
    [
        [float(Chebyshev.basis(k).deriv(order)(0.0)) / (2 if order == 2 else 1)
         for k in range(_COUNT)]
        for order in range(3)
    ]
) @ transform(_COUNT)  # fmt: skip
_PAIRS = 2000
# Points in the norm, where kernels of all pairs of many samples are asked for.
_NORMS = 9
# Nodes of a standard normal variable, to expand in one: kernels are smooth on the scale of s.
_NORMAL_NODES, _NORMAL_WEIGHTS = np.polynomial.hermite_e.hermegauss(13)
_NORMAL_WEIGHTS = _NORMAL_WEIGHTS / _NORMAL_WEIGHTS.sum()
# Weights of own norms are interpolated in the norm to this relative accuracy.
_ENOUGH = 1e-8
# Norms, as parts of the longest, that count as zero, and below which slopes lose digits.
_TINY, _SHORT = 1e-6, 0.05


class Taylor(NamedTuple):
    """Value, slope and half the curvature of a kernel in the inner product, arrays of a shape."""

    value: Array
    slope: Array
    bend: Array


class Projection(NamedTuple):
    """A kernel of a random inner product: mean, linear part, variance of the rest."""

    mean: Array
    slope: Array
    rest: Array


class OwnNorms(NamedTuple):
    r"""Weights of samples by their own norms (theory.md §9), each of shape (n,).

    :math:`M_{ij} \approx a_ia_j + D_{1i}D_{1j}s_{ij} + D_{2i}D_{2j}s_{ij}^2` off the diagonal.
    """

    constant: Array
    linear: Array
    square: Array
    diagonal: Array


@dataclass(frozen=True)
class Expansion:
    """One kernel of a network as a function of two norms and an inner product.

    Examples
    --------
    >>> from deqcli.activations import activation
    >>> from deqcli.kernels.pairs import ExplicitPairs
    >>> from deqcli.vocabulary import Kernel
    >>> square = ExplicitPairs((activation("quadratic:a2=1,a1=0,a0=0"),))
    >>> ck = Expansion(square, Combination(Kernel.CK))       # |x|^2 |x'|^2 + 2 s^2
    >>> [round(float(part[0]), 9) for part in ck.taylor(*np.array([[1.0], [2.0], [0.5]]))]
    [4.5, 2.0, 2.0]
    """

    pairs: PairKernel
    combination: Combination

    def _values(self, norm1: Array, norm2: Array, angle: Array) -> Array:
        flat = np.stack([part.ravel() for part in np.broadcast_arrays(norm1, norm2, angle)])
        parts = [flat[:, start : start + _PAIRS] for start in range(0, flat.shape[1], _PAIRS)]
        kernel = self.combination.kernel
        return np.concatenate([self.pairs(*part).of(kernel) for part in parts])

    def diagonal(self, norm: Array) -> Array:
        """Return the kernel of samples with themselves."""
        own = self._values(norm, norm, np.zeros_like(norm))
        return np.asarray(self.combination.scale * own + self.combination.gram * norm**2)

    def taylor(self, norm1: Array, norm2: Array, inner: Array) -> Taylor:
        """Return the expansion at inner products smaller than the product of the norms.

        Parameters
        ----------
        norm1, norm2, inner : ndarray of shape (m,)
            Norms above zero.
        """
        size = norm1 * norm2
        middle = np.clip(inner / size, -0.999, 0.999)
        half = np.minimum(_HALF_WIDTH, 0.5 * (1 - np.abs(middle)))
        angle = np.arccos(middle[:, None] + half[:, None] * _NODES)
        shape = angle.shape
        values = self._values(norm1[:, None], norm2[:, None], angle).reshape(shape)
        value, slope, bend = self.combination.scale * (values @ _DERIVATIVES.T).T
        width = half * size
        gram = self.combination.gram
        return Taylor(value + gram * middle * size, slope / width + gram, bend / width**2)

    def projection(self, norm1: Array, norm2: Array, inner: Array, variance: Array) -> Projection:
        r"""Return the best linear function of a normal inner product :math:`s \sim N(m, v)`.

        .. math:: f(s) = \bar f + S(s - m) + \text{rest}, \qquad
                  \bar f = Ef(s), \quad S = E[f(s)(s - m)]/v .

        Parameters
        ----------
        norm1, norm2, inner, variance : ndarray of shape (q,)
            Norms and variances above zero.
        """
        size, deviation = (norm1 * norm2)[:, None], np.sqrt(variance)[:, None]
        inners = inner[:, None] + deviation * _NORMAL_NODES
        cosine = np.clip(inners / size, -1.0, 1.0)
        values = self._values(norm1[:, None], norm2[:, None], np.arccos(cosine))
        values = self.combination.scale * values.reshape(inners.shape)
        values += self.combination.gram * inners
        mean = values @ _NORMAL_WEIGHTS
        first = values @ (_NORMAL_NODES * _NORMAL_WEIGHTS)
        rest = (values - mean[:, None] - first[:, None] * _NORMAL_NODES) ** 2 @ _NORMAL_WEIGHTS
        return Projection(mean, first / deviation[:, 0], rest)

    def between(self, norms: Array, inners: Array) -> Array:
        """Return the kernel of all pairs of samples with given norms at given inner products.

        Interpolated in norms and cosine, since there may be a million.

        Parameters
        ----------
        norms : ndarray of shape (m,)
            Above zero.
        inners : ndarray of shape (m, m, q)
            Larger ones than the norms allow are taken for those that they do.
        """
        cosines = np.clip(inners / (norms[:, None] * norms)[..., None], -1.0, 1.0)
        span = Interval(float(norms.min()), float(norms.max()))
        turn = Interval(float(cosines.min()), float(cosines.max()))
        ends, middle = span.nodes(_NORMS), turn.nodes(_COUNT)
        first, second = np.triu_indices(_NORMS)
        known = self._values(ends[first, None], ends[second, None], np.arccos(middle))
        table = np.empty((_NORMS, _NORMS, _COUNT))
        table[first, second] = table[second, first] = known.reshape(-1, _COUNT)
        to_norms, to_cosine = transform(_NORMS), transform(_COUNT)
        series = np.einsum("ai,bj,ck,ijk->abc", to_norms, to_norms, to_cosine, table, optimize=True)
        of_norms = chebvander(span.unit(norms), _NORMS - 1)
        out = np.empty_like(cosines)
        # Row by row, or all the polynomials of a million pairs would be in memory.
        for row, weights in enumerate(of_norms):
            curves = of_norms @ np.tensordot(weights, series, 1)
            out[row] = np.einsum(
                "jc,jqc->jq", curves, chebvander(turn.unit(cosines[row]), _COUNT - 1)
            )
        return np.asarray(self.combination.scale * out + self.combination.gram * inners)

    def own_norms(self, norms: Array) -> OwnNorms:
        r"""Return the weights of samples by their norms.

        .. math:: a_i = \pm f_{ii}(0)^{1/2}, \quad D_{1i} = \pm f_{ii}'(0)^{1/2}, \quad
                  D_{2i} = \pm(\tfrac12f_{ii}''(0))^{1/2},

        where :math:`f_{ii}` has the norm of sample i twice; as series in s of a positive kernel
        they have a root. Signs are those beside the largest. They are interpolated in the norm;
        samples much shorter than the longest, whose s is nearly nothing, have the derivatives of
        longer ones, for which no digits are lost.
        """
        # Fourth powers are formed; what is shorter is as good as nothing.
        longest = max(float(norms.max()) or 1.0, SMALLEST)
        constant, diagonal = _interpolated(self._values_of, np.maximum(norms, _TINY * longest))
        # The diagonal is exact where others are as good as nothing, too.
        tiny = norms < _TINY * longest
        if tiny.any():
            diagonal[tiny] = self.diagonal(norms[tiny])
        linear, square = _interpolated(self._slopes_of, np.maximum(norms, _SHORT * longest))
        return OwnNorms(constant, linear, square, diagonal)

    def _values_of(self, norms: Array) -> tuple[Array, Array]:
        return self._root(norms, 0), self.diagonal(norms)

    def _slopes_of(self, norms: Array) -> tuple[Array, Array]:
        return self._root(norms, 1), self._root(norms, 2)

    def _root(self, norms: Array, order: int) -> Array:
        none = np.zeros_like(norms)
        own = self.taylor(norms, norms, none)[order]
        largest = np.full_like(norms, norms[int(np.argmax(own))])
        sign = np.where(self.taylor(norms, largest, none)[order] < 0, -1.0, 1.0)
        return np.asarray(sign * np.sqrt(np.maximum(own, 0.0)))


def _interpolated(
    functions: Callable[[Array], tuple[Array, Array]], norms: Array
) -> tuple[Array, Array]:
    """Return two functions of many norms from their values at a few."""
    interval = Interval(float(norms.min()), float(norms.max()))
    unique, where = np.unique(norms, return_inverse=True)
    for count in sizes(9, 96, interval):
        if count >= unique.size:
            break
        series = transform(count) @ np.stack(functions(interval.nodes(count)), axis=1)
        tail = np.abs(series[-2:]).max(axis=0)
        if count == 1 or np.all(tail <= _ENOUGH * np.abs(series).max()):
            first, second = (chebvander(interval.unit(norms), count - 1) @ series).T
            return np.ascontiguousarray(first), np.ascontiguousarray(second)
    first, second = functions(unique)
    return first[where], second[where]
