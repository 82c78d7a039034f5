r"""What kernel ridge regression makes of new samples: its outputs' means and covariances.

With training kernel H, labels J (n, K) and targets :math:`Y_0` (K, r), the outputs are

.. math:: f(x) = k(x)^\top\beta, \qquad \beta = QJY_0, \quad Q = (H + \varrho I)^{-1}.

H is noise plus a part of small rank, as for the law of its spectrum (theory.md §10), so that
:math:`J^\top QJ` and the mean of f over a class have limits; and a variance is a derivative, for
:math:`\beta^\top B\beta = -\partial_sY_0^\top J^\top(H + \varrho + sB)^{-1}JY_0` (theory.md §11).
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from deqcli.errors import ConvergenceError
from deqcli.spectral.coupled import Coupled
from deqcli.spectral.forms import Model
from deqcli.spectral.spikes import SpikeFinder

Array = NDArray[np.float64]


class RidgeForms:
    r"""The limits of one kernel's regression at one ridge; all are forms in the targets.

    Parameters
    ----------
    model : Model
        The kernel on the classes' samples.
    n : int
        Training samples.
    ridge : float
        :math:`\varrho`, in the kernel's own units.
    """

    def __init__(self, model: Model, n: int, ridge: float) -> None:
        equations, low_rank = model
        self.equations, self.low_rank, self.n, self.ridge = equations, low_rank, n, ridge
        self.finder = SpikeFinder(equations, low_rank, n)
        # From far below, where there is no eigenvalue, as near to zero as the ridge is.
        start = float(equations.offsets.min()) - equations.bound - equations.span
        first = equations.on_axis(min(start, -ridge), equations.far)
        reached = None
        if first is not None:
            reached = self.finder.reach(min(start, -ridge), first.unknowns, -ridge)
        if reached is None:
            raise ConvergenceError("there is no inverse of the kernel at this ridge.")
        self.state = reached
        self._phi = phi = self.finder.phi(self.state)
        negative = equations.n_classes + int(np.sum(low_rank.signs < 0))
        if int(np.sum(np.linalg.eigvalsh(phi) < 0)) != negative:
            raise ConvergenceError("the kernel has an eigenvalue below minus the ridge.")
        self._labels = self._cross(self.state.g)
        self._solved = np.linalg.solve(phi, self._labels)

    def _cross(self, g: Array) -> Array:
        r"""Return :math:`U^\top Q_0J` for given resolvents, of shape (2K + r, K)."""
        weights = self.n * self.equations.shares * g
        return np.asarray((self._rows * weights[:, None]).T @ self.equations.members)

    def _sums(self, g: Array) -> Array:
        return np.diag(self.n * (self.equations.shares * g) @ self.equations.members)

    @cached_property
    def inverse(self) -> Array:
        r""":math:`J^\top QJ`, of shape (K, K)."""
        return np.asarray(self._sums(self.state.g) - self._labels.T @ self._solved)

    def _moved(self, g: Array, means: Array) -> Array:
        """Return the change of :attr:`inverse` for changes of the resolvents and of the means."""
        labels, solved = self._cross(g), self._solved
        cross = labels.T @ solved
        form = self.finder.form(g, means, np.zeros(0))
        return np.asarray(self._sums(g) - cross - cross.T + solved.T @ form @ solved)

    @cached_property
    def _rows(self) -> Array:
        """Rows of U that each group's samples have, of shape (m, 2K + r)."""
        equations, low_rank = self.equations, self.low_rank
        k = equations.n_classes
        out = np.zeros((equations.classes.size, 2 * k + low_rank.signs.size))
        linear = np.sqrt(self.finder.unit / equations.covariances.dimension) * low_rank.linear
        out[:, :k] = linear[:, None] * equations.members
        out[:, 2 * k :] = low_rank.columns
        return out

    @cached_property
    def means(self) -> Array:
        """Mean outputs on each group of new samples, for the unit targets; of shape (m, K)."""
        return np.asarray(self._rows @ self._solved)

    @cached_property
    def linear(self) -> Array:
        r"""Covariances by the linear part of the kernel, forms in the targets: (m, K, K).

        .. math:: d\,\beta^\top D_1XC_aX^\top D_1\beta/p ,

        d the group's weight.
        """
        equations, y = self.equations, self.state.y
        covariances, p = equations.covariances, equations.covariances.dimension
        omega = covariances.omega(y)
        out = []
        for a in range(equations.n_classes):
            g, change = equations.perturbed(self.state, response=omega[:, a])
            out.append(-self._moved(g, covariances.mean_slope(y, change) + self._bent[a]) / p)
        return equations.scales[:, None, None] * np.stack(out)[equations.classes]

    @cached_property
    def _bent(self) -> Array:
        r"""Return :math:`M\Psi C_b\Psi M^\top` for each class b."""
        covariances, y = self.equations.covariances, self.state.y
        return np.stack([-covariances.mean_slope(y, unit) for unit in np.eye(y.size)])


def by_class(equations: Coupled, values: Array) -> Array:
    """Return means over the groups of each class."""
    members = equations.shares[:, None] * equations.members
    return np.tensordot((members / members.sum(axis=0)).T, values, 1)
