r"""What regression with an exact kernel makes of new samples, group by group.

As in :mod:`deqcli.prediction.forms`, but with all that a kernel tells samples apart by in the
groups: given its group an output is normal, and its mean and its variance depend on the group
(theory.md §11).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from deqcli.errors import ConvergenceError
from deqcli.prediction.grouped import Grouped
from deqcli.prediction.resolvent import Resolvent

Array = NDArray[np.float64]
# Of what columns add to resolvents, which is small: each time an n-th part as wrong.
_TIMES = 3
# Lengths of rows that are nothing.
_TINY = 1e-300


class Outputs:
    r"""The limits of one kernel's regression at one ridge; all are forms in the targets.

    Parameters
    ----------
    kernel : Grouped
    ridge : float
        :math:`\varrho`, in the kernel's own units.
    pairs : callable, optional
        Of a resolvent rows a and b on groups, by :math:`-\sum(ab^\top + ba^\top)` of which the
        kernel is another.
    """

    def __init__(
        self,
        kernel: Grouped,
        ridge: float,
        pairs: Callable[[Resolvent], tuple[Array, Array]] | None = None,
    ) -> None:
        self.bulk, self.state = kernel.bulk, kernel.bulk.at(ridge)
        columns, signs = kernel.columns, kernel.signs
        if pairs is not None:
            a, b = (rows.T / np.sqrt(2) for rows in pairs(self.state))
            # As long as each other, so that neither is lost in their sum.
            sizes = np.maximum([np.abs(a).max(axis=0), np.abs(b).max(axis=0)], _TINY)
            balance = np.sqrt(sizes[1] / sizes[0])
            a, b = a * balance, b / balance
            columns = np.hstack([columns, a - b, a + b])
            signs = np.concatenate([signs, np.repeat([1.0, -1.0], a.shape[1])])
        self.samples, self.n = kernel.bulk.samples, kernel.bulk.n
        loads, linear = self.samples.loads, kernel.linear
        lines = (linear[:, :, None] * loads[:, None, :]).reshape(len(linear), -1)
        size = lines.shape[1]
        self._lines = slice(0, size), slice(size, 2 * size)
        self.rows = np.zeros((len(linear), 2 * size + signs.size))
        self.rows[:, :size] = lines / np.sqrt(self.samples.dimension)
        self.rows[:, 2 * size :] = columns
        self._away = self.rows - self.samples.by_class(self.rows)[self.samples.classes]
        for _ in range(_TIMES):
            self._inverse = self._inverted(signs)
            own = np.einsum("ij,jk,ik->i", self._away, self._inverse, self._away, optimize=True)
            self.bulk = replace(kernel.bulk, offsets=kernel.bulk.offsets + own)
            self.state = self.bulk.near(ridge, self.state.unknowns)
        self._inverse = self._inverted(signs)
        labels = self._weighted(self.rows, self.state.g) @ self.samples.members
        self._solved = self._inverse @ labels

    def _inverted(self, signs: Array) -> Array:
        r"""Return :math:`\Phi^{-1}`."""
        first, second = self._lines
        size = first.stop
        phi = self._weighted(self.rows, self.state.g) @ self.rows
        phi[second, second] = -self._along()
        phi[first, second] = phi[second, first] = np.eye(size)
        place = np.arange(2 * size, len(phi))
        phi[place, place] += signs
        if int(np.sum(np.linalg.eigvalsh(phi) < 0)) != size + int(np.sum(signs < 0)):
            raise ConvergenceError("the kernel has an eigenvalue below minus the ridge.")
        return np.asarray(np.linalg.inv(phi))

    def _weighted(self, columns: Array, g: Array) -> Array:
        """Return the transposed columns times the groups' samples and resolvents, (..., c, m)."""
        return np.asarray((self.n * self.samples.shares * g)[..., None, :] * columns.T)

    def _along(self) -> Array:
        r""":math:`V^\top GV`, of shape (R * k, R * k)."""
        V, places = self.samples.blocks.vectors, self.samples.blocks.places
        size = self._lines[0].stop
        found = np.einsum("tik,trisj,tjl->rksl", V, self.state.G[places], V, optimize=True)
        return np.asarray(found.reshape(size, size))

    @cached_property
    def _turned(self) -> Array:
        r""":math:`V^\top G(E_{tu}\otimes C_b)GV`, of shape (K, R * R, R * k, R * k)."""
        blocks = self.samples.blocks
        V, places, matrices = blocks.vectors, blocks.places, blocks.matrices
        k, parts, size = len(matrices), self.bulk.signs.size, self._lines[0].stop
        GV = np.einsum("trisj,tjl->trisl", self.state.G[places], V, optimize=True)
        CGV = np.einsum("btij,trjsl->btrisl", matrices[:, places], GV, optimize=True)
        found = np.einsum("tvirk,btuisl->bvurksl", GV, CGV, optimize=True)
        return np.asarray(found.reshape(k, parts**2, size, size))

    def _moved(self, g: Array, Y: Array, along: Array | float = 0.0) -> Array:
        """Return the change of :attr:`inverse` for changes of resolvents, Y and the metric."""
        lines = self._solved[self._lines[1]]
        change = along - np.tensordot(Y, self._turned, 2)
        sums = self._weighted(self._left, g) @ self._left
        return np.asarray(sums - lines.T @ change @ lines)

    @cached_property
    def inverse(self) -> Array:
        r""":math:`J^\top QJ`, of shape (K, K)."""
        return self.against(self.samples.members.T)

    @cached_property
    def means(self) -> Array:
        """Mean outputs on each group of new samples, for the unit targets: (m, K)."""
        return np.asarray(self.rows @ self._solved)

    def against(self, columns: Array) -> Array:
        r"""Return :math:`J^\top Qc` for columns c on groups, rows of shape (..., m): (..., K)."""
        weighted = columns * (self.n * self.samples.shares * self.state.g)
        return np.asarray(weighted @ self._left)

    @cached_property
    def _left(self) -> Array:
        """What the means leave of the labels, of shape (m, K)."""
        return self.samples.members - self.means

    @cached_property
    def covariances(self) -> Array:
        """Of the outputs on each group, over new and training samples: (m, K, K)."""
        return self.linear + self._noise + self._drawn

    @cached_property
    def linear(self) -> Array:
        """By the linear part of the kernel."""
        omega, classes = self.state.omega, self.samples.classes
        out = []
        for a in range(omega.shape[1]):
            moved = self.state.moved_by_response(np.moveaxis(omega[:, a], -1, 0))
            out.append(-self._moved(*moved, self._turned[a]) / self.samples.dimension)
        return np.einsum("ix,ixab->iab", self.bulk.pairs, np.stack(out)[classes])

    def _squares(self, offsets: Array) -> Array:
        r"""Return :math:`\sum_i\omega_i\beta_i\beta_i^\top` for rows of weights of groups."""
        return -self._moved(*self.state.moved_by_offsets(offsets))

    @property
    def _noise(self) -> Array:
        r"""By those parts of k(x) which are as good as independent.

        Like those of the kernel they are products of many features, of which
        :math:`(I + n\omega\Sigma\bar g)^{-1}` is left on either side.
        """
        bulk, classes = self.bulk, self.samples.classes
        bent = self.state.bent
        left = bent[:, None] * bulk.coupling * bent
        of_class = self._squares(left[:, classes] * bulk.noise / self.n)
        return bulk.noise[:, None, None] * of_class[classes]

    @property
    def _drawn(self) -> Array:
        r"""By the draw of the training samples, which is random in their groups.

        :math:`\delta(AU^\top\beta) = \Phi^{-1}\sum_i\delta U_i\beta_i`.
        """
        samples = self.samples
        turned = self.rows @ self._inverse
        spread = samples.by_class((turned @ self._away.T).T ** 2)
        drawn = np.einsum("ai,abc->ibc", spread, self._squares(samples.members.T))
        # Forms a'Qr of the noise's resolvent vary too, as those of a matrix with free eigenvectors.
        weights, g = self.n * samples.shares, self.state.g
        moved = self.state.moved_by_offsets(np.ones_like(g))[0]
        varied = -(samples.shares @ moved) - (samples.shares @ g) ** 2
        left = self._left
        lengths = (turned @ self.rows.T) ** 2 @ weights
        both = (turned @ self.rows.T) @ (weights[:, None] * left)
        squares = lengths[:, None, None] * (left.T @ (weights[:, None] * left))
        return drawn + varied / self.n * (squares + both[:, :, None] * both[:, None, :])
