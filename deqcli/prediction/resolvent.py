r"""Resolvents of a kernel whose weight of inner products depends on both samples.

Between groups i and j it is :math:`\sum_r\sigma_rb_{ir}b_{jr}\,x^\top x'`, the inner product of
features :math:`b_i\otimes x`. With offsets :math:`\delta_i` and noise as in
:mod:`deqcli.spectral.coupled`, the bulk has the resolvent

.. math:: g_i = \frac1{b_i^\top H_ab_i + \delta_i - \tau_ie_a + \varrho}, \quad
   H_a = \tfrac1p\operatorname{tr}C_aG, \quad
   G = \Big(\mathrm{diag}(\sigma)\otimes I + \sum_bY_b\otimes C_b\Big)^{-1}, \quad
   Y_b = \frac np\sum_{i\in b}\rho_ig_ib_ib_i^\top ,

:math:`H_a` and :math:`Y_b` of shape (R, R), the trace over the samples' coordinates only
(theory.md §11).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from deqcli.errors import ConvergenceError
from deqcli.prediction.samples import Samples

Array = NDArray[np.float64]
_TOLERANCE = 1e-10


@dataclass(frozen=True)
class Bulk:
    r"""What a kernel is on groups, but for its part of small rank.

    Attributes
    ----------
    samples : Samples
    n : int
        Training samples.
    weights : ndarray of shape (m, R)
        b, with the samples' relative norms.
    signs : ndarray of shape (R,)
        :math:`\sigma`.
    offsets, noise : ndarray of shape (m,)
        :math:`\delta` and :math:`\tau`.
    coupling : ndarray of shape (K, K)
    skews : ndarray of shape (K,)
    """

    samples: Samples
    n: int
    weights: Array
    signs: Array
    offsets: Array
    noise: Array
    coupling: Array
    skews: Array

    @cached_property
    def pairs(self) -> Array:
        """Products of a group's weights, of shape (m, R * R)."""
        products = self.weights[:, :, None] * self.weights[:, None, :]
        return products.reshape(len(products), -1)

    @cached_property
    def _shares(self) -> Array:
        """Shares of groups by class, times n/p, of shape (K, m)."""
        shares = self.samples.shares[:, None] * self.samples.members
        return self.n / self.samples.dimension * shares.T

    def at(self, ridge: float) -> Resolvent:
        """Solve, from a ridge so large that the kernel hardly counts, step by step."""
        k, parts = len(self.coupling), self.signs.size
        size = k * parts**2
        first = 10 * (float(np.abs(self.offsets).max()) + ridge)
        least = max(ridge, 1e-7 * first)
        count = int(np.ceil(np.log(first / least) / np.log(4)))
        unknowns = np.zeros(size + k)
        unknowns[:size] = Resolvent(self, first, unknowns, np.zeros_like(self.offsets)).response
        for at in first * 4.0 ** -np.arange(count):
            unknowns = self.near(float(at), unknowns).unknowns
        return self.near(ridge, unknowns)

    def near(self, ridge: float, unknowns: Array) -> Resolvent:
        """Solve from unknowns that are near the solution, by Newton."""
        for _ in range(60):
            found = self._evaluate(ridge, unknowns)
            if np.abs(found.miss).max() <= _TOLERANCE * np.abs(unknowns).max():
                break
            unknowns = unknowns + found.solve(found.miss)
        else:
            raise ConvergenceError("there is no inverse of the kernel at this ridge.")
        if not (found.g > 0).all():
            raise ConvergenceError("the kernel has an eigenvalue below minus the ridge.")
        return found

    def _evaluate(self, ridge: float, unknowns: Array) -> Resolvent:
        k, classes = len(self.coupling), self.samples.classes
        h, e = unknowns[:-k].reshape(k, -1), unknowns[-k:]
        inverse = np.einsum("ix,ix->i", self.pairs, h[classes]) - self.noise * e[classes]
        return Resolvent(self, ridge, unknowns, 1 / (inverse + self.offsets + ridge))


@dataclass(frozen=True)
class Resolvent:
    """The resolvents of groups for given unknowns H and e, one after the other.

    Attributes
    ----------
    bulk : Bulk
    ridge : float
    unknowns : ndarray of shape (K * R * R + K,)
    g : ndarray of shape (m,)
    """

    bulk: Bulk
    ridge: float
    unknowns: Array
    g: Array

    @cached_property
    def G(self) -> Array:
        """G in blocks, of shape (q, R, s, R, s)."""
        bulk, blocks = self.bulk, self.bulk.samples.blocks
        parts, size = bulk.signs.size, blocks.matrices.shape[-1]
        sums = ((bulk._shares * self.g) @ bulk.pairs).reshape(len(bulk.coupling), parts, parts)
        whole = np.einsum("ars,aqij->qrisj", sums, blocks.matrices, optimize=True)
        whole += np.einsum("rs,ij->risj", np.diag(bulk.signs), np.eye(size))
        flat = whole.reshape(len(whole), parts * size, parts * size)
        return np.linalg.inv(flat).reshape(whole.shape)

    @property
    def response(self) -> Array:
        """H, of shape (K * R * R,)."""
        blocks = self.bulk.samples.blocks
        found = np.einsum(
            "q,aqij,qrjsi->ars", blocks.shares, blocks.matrices, self.G, optimize=True
        )
        return found.ravel()

    @cached_property
    def _linear(self) -> Array:
        shares = self.bulk.samples.shares * self.bulk.noise * self.g
        return (shares @ self.bulk.samples.members) @ self.bulk.coupling

    @cached_property
    def bent(self) -> Array:
        """How much of the noise the features that it is a product of leave, of shape (K,)."""
        return 1 / (1 + self._linear * self.bulk.skews)

    @property
    def miss(self) -> Array:
        """By how much the unknowns miss what follows from them."""
        return np.concatenate([self.response, self._linear * self.bent]) - self.unknowns

    @cached_property
    def omega(self) -> Array:
        r"""How H moves with Y: :math:`-\partial H_a/\partial Y_b`, of shape (K, K, R*R, R*R)."""
        blocks, parts = self.bulk.samples.blocks, self.bulk.signs.size
        moved = np.einsum("aqij,qrjsk->aqrisk", blocks.matrices, self.G, optimize=True)
        k = len(moved)
        found = np.einsum("q,aqritj,bqujsi->abrstu", blocks.shares, moved, moved, optimize=True)
        return np.asarray(found.reshape(k, k, parts**2, parts**2))

    @cached_property
    def _jacobian(self) -> Array:
        bulk, k = self.bulk, len(self.bulk.coupling)
        squares = bulk._shares * self.g**2
        pairs, noise = bulk.pairs, bulk.noise
        size = pairs.shape[1]
        by_pairs = np.stack([-(pairs.T * row) @ pairs for row in squares])
        by_noise = (squares * noise) @ pairs
        out = np.empty((k * size + k, k * size + k))
        first, second = slice(0, k * size), slice(k * size, None)
        out[first, first] = -np.einsum("abxy,byz->axbz", self.omega, by_pairs).reshape(
            k * size, k * size
        )
        out[first, second] = -np.einsum("abxy,by->axb", self.omega, by_noise).reshape(k * size, k)
        # Shares here are in units of n/p, which noise is not.
        coupling = bulk.coupling * self.bent[:, None] ** 2 * bulk.samples.dimension / bulk.n
        out[second, first] = -np.einsum("ab,bx->abx", coupling, by_noise).reshape(k, k * size)
        out[second, second] = coupling * (squares @ noise**2)
        return out

    def solve(self, direct: Array) -> Array:
        """Return how the unknowns move, if they are pushed so: rows of shape (..., unknowns)."""
        matrix = np.eye(len(self.unknowns)) - self._jacobian
        return np.asarray(np.linalg.solve(matrix, direct.T).T)

    def moved_by_response(self, change: Array) -> tuple[Array, Array]:
        """Return the derivatives of g and of Y along changes of H at given Y.

        Parameters
        ----------
        change : ndarray of shape (..., K, R * R)

        Returns
        -------
        tuple of ndarray of shape (..., m) and (..., K, R * R)
        """
        k = len(self.bulk.coupling)
        flat = change.reshape(*change.shape[:-2], -1)
        direct = np.concatenate([flat, np.zeros((*flat.shape[:-1], k))], axis=-1)
        return self._moved(self.solve(direct), 0.0)

    def moved_by_offsets(self, offsets: Array) -> tuple[Array, Array]:
        """Return the same along changes of the offsets, of shape (..., m)."""
        bulk = self.bulk
        squares = bulk._shares * self.g**2
        pushed = -np.einsum("bi,...i,ix->...bx", squares, offsets, bulk.pairs, optimize=True)
        first = -np.einsum("abxy,...by->...ax", self.omega, pushed)
        second = -(offsets * bulk.noise) @ squares.T @ bulk.coupling.T * self.bent**2
        second = second * (bulk.samples.dimension / bulk.n)
        flat = first.reshape(*first.shape[:-2], -1)
        return self._moved(self.solve(np.concatenate([flat, second], axis=-1)), offsets)

    def _moved(self, change: Array, offsets: Array | float) -> tuple[Array, Array]:
        bulk, k = self.bulk, len(self.bulk.coupling)
        classes = bulk.samples.classes
        h = change[..., :-k].reshape(*change.shape[:-1], k, -1)
        e = change[..., -k:]
        inverse = np.einsum("ix,...ix->...i", bulk.pairs, h[..., classes, :])
        g = -(self.g**2) * (inverse - bulk.noise * e[..., classes] + offsets)
        return g, np.einsum("bi,...i,ix->...bx", bulk._shares, g, bulk.pairs, optimize=True)
