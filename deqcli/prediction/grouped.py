r"""An exact kernel on groups of samples: its bulk, and the part of small rank.

Between groups i and j the inner product s is known but for noise of mean zero, so that

.. math:: f_{ij}(s) = \bar f_{ij} + S_{ij}(s - Es) + \text{rest}, \qquad
          S_{ij} = \sum_r\sigma_rb_{ir}b_{jr} ,

with :math:`\bar f` of small rank, since it is a smooth function of few numbers (theory.md §11).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from deqcli.kernels.expansion import Expansion
from deqcli.prediction.resolvent import Bulk
from deqcli.prediction.samples import Samples
from deqcli.spectral.forms import skews_of

Array = NDArray[np.float64]
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(7)
WEIGHTS = WEIGHTS / WEIGHTS.sum()
# Parts of slopes below this, relative to the largest, act like noise; and at most so many unknowns.
_MIXED, _UNKNOWNS = 1e-2, 200
# Columns whose eigenvalue is below this part of the diagonal are rounding.
_NOTHING = 1e-7


class Grouped(NamedTuple):
    """A kernel on groups.

    Attributes
    ----------
    bulk : Bulk
    linear : ndarray of shape (m, R)
        b, by which samples, directions V included, are multiplied.
    columns : ndarray of shape (m, r)
        Of the part of small rank.
    signs : ndarray of shape (r,)
    """

    bulk: Bulk
    linear: Array
    columns: Array
    signs: Array


@dataclass(frozen=True)
class Table:
    """The values of some kernels between groups, of which others are sums.

    Attributes
    ----------
    samples : Samples
    values : ndarray of shape (c, m, m, q)
        At points of the inner products.
    diagonals : ndarray of shape (c, m)
    """

    samples: Samples
    values: Array
    diagonals: Array

    @staticmethod
    def of(samples: Samples, kernels: Sequence[Expansion]) -> Table:
        """Tabulate some kernels."""
        inners = samples.inner[..., None] + np.sqrt(samples.variances)[..., None] * NODES
        values = np.stack([kernel.between(samples.norms, inners) for kernel in kernels])
        diagonals = np.stack([kernel.diagonal(samples.norms) for kernel in kernels])
        return Table(samples, values, diagonals)

    def with_products(self, rows: Array) -> Table:
        r"""Add :math:`bb^\top` between different samples, for rows b on groups."""
        products = rows[:, :, None] * rows[:, None, :]
        added = np.broadcast_to(products[..., None], (*products.shape, NODES.size))
        values = np.concatenate([self.values, added])
        return replace(self, values=values, diagonals=np.concatenate([self.diagonals, 0 * rows]))

    def unit(self) -> float:
        """Return the mean diagonal of the first."""
        return float(self.samples.shares @ self.diagonals[0])

    def kernel(self, amounts: Array, n: int, noise: Array | float = 0.0) -> Grouped:
        """Return a sum of them on n samples.

        Parameters
        ----------
        amounts : ndarray of shape (c,)
            How much of each.
        noise : ndarray of shape (m, m), optional
            Variances of what else acts as noise.
        """
        samples = self.samples
        members, variances = samples.members, samples.variances
        values = np.tensordot(amounts, self.values, 1)
        mean, first = values @ WEIGHTS, values @ (NODES * WEIGHTS)
        rest = values**2 @ WEIGHTS - mean**2 - first**2
        slope = first / np.sqrt(variances)
        k = members.shape[1]
        linear, signs = _parts(slope, samples.shares, _MIXED, int(np.sqrt(_UNKNOWNS / k)))
        kept = (linear * signs) @ linear.T
        low_rank = mean - kept * samples.across
        lines = (slope - kept) ** 2 * variances
        own = np.diagonal(kept) * (samples.rest + np.diagonal(samples.across))
        offsets = amounts @ self.diagonals - np.diagonal(low_rank) - own
        noises = n * (np.maximum(rest, 0.0) + lines + noise)
        even = samples.averages
        by_row = noises @ even.sum(axis=1)
        bulk = Bulk(
            samples,
            n,
            linear * np.sqrt(samples.relative)[:, None],
            signs,
            offsets,
            by_row / (by_row @ even)[samples.classes] if by_row.all() else np.ones_like(by_row),
            even.T @ noises @ even,
            skews_of(np.maximum(rest, 0.0), lines, variances, samples.triples, even, noise),
        )
        size = float(np.abs(amounts @ self.diagonals).max()) / n
        columns, column_signs = _parts(low_rank, samples.shares, 0.0, len(mean), _NOTHING * size)
        return Grouped(bulk, linear, columns, column_signs)


def _parts(
    matrix: Array, shares: Array, relative: float, most: int, least: float = 0.0
) -> tuple[Array, Array]:
    """Split a matrix on groups into columns and signs, the largest first."""
    root = np.sqrt(shares)
    values, vectors = np.linalg.eigh(root[:, None] * matrix * root)
    order = np.argsort(-np.abs(values))[:most]
    sizes = np.abs(values[order])
    order = order[sizes > max(least, relative * float(sizes[0]))]
    columns = vectors[:, order] * np.sqrt(np.abs(values[order])) / root[:, None]
    return np.asarray(columns), np.sign(values[order])
