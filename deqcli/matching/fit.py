r"""Fit an explicit network to a DEQ's kernel on the pairs of a sample.

With :math:`M` the DEQ's kernel on a design of some 200 rows and :math:`\tilde M(z)` that of the
network with numbers z (:mod:`deqcli.matching.layers`),

.. math:: \min_z \|\tilde M(z) - M\|_F^2/\|M\|_F^2

by Levenberg-Marquardt, over all diagonal entries and a few thousand of the pairs, which stand for
all of them. Derivatives are complex steps. It starts at the solution by scalars (theory.md §6), at
the smaller networks that were fitted before, and at the DEQ's own activation; the best end counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from deqcli.activations import Activation
from deqcli.checks import SMALLEST
from deqcli.errors import DataError
from deqcli.gaussian import second_moments
from deqcli.kernels.matrix import check_samples, root_mean_squared_norm
from deqcli.matching.layers import Numbers, Pairs, network_pairs, project, to_activation

Array = NDArray[np.float64]

#: Rows that are fitted to, and rows that a library call measures on, at most.
DESIGN, HELD_OUT = 200, 1000
_LEAST_ROWS = 20
# Pairs off the diagonal that the fit looks at.
_PAIRS = 3000
_EVALUATIONS = 60


@dataclass(frozen=True)
class Design:
    """The rows that a twin is fitted to, and those that it is judged on.

    Attributes
    ----------
    rows, others : ndarray of int
        Indices into X, ascending; they do not meet.
    seed : int
    """

    rows: NDArray[np.intp]
    others: NDArray[np.intp]
    seed: int

    def as_record(self) -> dict[str, int]:
        """Return the numbers that a reader needs."""
        pairs = min(_PAIRS, self.rows.size * (self.rows.size - 1) // 2)
        sizes = {"rows": self.rows.size, "pairs": pairs, "held_out": self.others.size}
        return sizes | {"seed": self.seed}


def choose_design(X: Array, seed: int, size: int = DESIGN) -> Design:
    """Choose the design: half of the rows, at most ``size``, among them the extreme norms.

    Raises
    ------
    DataError
        If there are fewer than 20 rows, or their norms are all the same or too small.

    Examples
    --------
    >>> X = np.random.default_rng(0).standard_normal((30, 4))
    >>> design = choose_design(X, seed=0)
    >>> design.rows.size, design.others.size, np.intersect1d(design.rows, design.others).size
    (15, 15, 0)
    """
    X = check_samples(X)
    if len(X) < _LEAST_ROWS:
        raise DataError(f"`X` has {len(X)} row(s); give at least {_LEAST_ROWS} to match on.")
    norms = np.linalg.norm(X, axis=1)
    if np.ptp(X, axis=0).max() <= 1e-12 * np.abs(X).max():
        raise DataError("`X` has rows that are all the same; give data that varies.")
    if root_mean_squared_norm(X) < SMALLEST:
        raise DataError(f"`X` has rows of norm {norms.max():.2g} at most, too small; scale it up.")
    if np.ptp(norms) <= 1e-6 * norms.max():
        raise DataError(
            f"`X` has rows that are all of norm {norms.max():.6g}; for inputs on the sphere use "
            "match_sphere (`data` sphere), else leave the rows unscaled."
        )
    rng = np.random.default_rng([seed, 15])
    # One row of each of as many equal shares of the sorted norms, the first and the last as well.
    size = min(size, len(X) // 2)
    order, edges = np.argsort(norms, kind="stable"), np.linspace(0, len(X), size + 1).astype(int)
    picks = edges[:-1] + rng.integers(0, np.diff(edges))
    picks[0], picks[-1] = 0, len(X) - 1
    rows = np.sort(order[picks])
    return Design(rows, np.setdiff1d(np.arange(len(X)), rows), seed)


@dataclass(frozen=True)
class Fitted:
    """A network fitted to the design; ``distance`` is the relative operator norm there."""

    family: str
    acts: tuple[Activation, ...]
    distance: float


@dataclass(frozen=True)
class Problem:
    """The DEQ's kernel on the rows of a design.

    Attributes
    ----------
    X : ndarray of shape (n, p)
        The design's rows.
    kernel : ndarray of shape (n, n)
        Of the DEQ.
    tangent : bool
        Whether the twin's NTK is to equal it, and not its CK.
    tau0 : float
        The norm at which layers have their units.
    seed : int
        Of the pairs.
    """

    X: Array
    kernel: Array
    tangent: bool
    tau0: float
    seed: int

    @cached_property
    def _every(self) -> Pairs:
        norms = np.linalg.norm(self.X, axis=1)
        i, j = np.triu_indices(len(self.X), 1)
        size = np.maximum(norms[i] * norms[j], np.finfo(float).tiny)
        return Pairs(norms, i, j, np.clip((self.X @ self.X.T)[i, j] / size, -1.0, 1.0))

    @cached_property
    def _some(self) -> tuple[Pairs, Array, Array]:
        """Return the pairs of the fit, their entries of the kernel, and all weights."""
        every = self._every
        count = every.first.size
        rng = np.random.default_rng([self.seed, 16])
        picks = np.sort(rng.choice(count, size=min(_PAIRS, count), replace=False))
        pairs = Pairs(every.norms, every.first[picks], every.second[picks], every.cosines[picks])
        norm = float(np.linalg.norm(self.kernel))
        weights = np.full(len(self.X) + picks.size, 1 / norm)
        weights[len(self.X) :] *= np.sqrt(2 * count / picks.size)
        target = np.append(np.diagonal(self.kernel), self.kernel[pairs.first, pairs.second])
        return pairs, target, weights

    def distance(self, family: str, layers: Sequence[Numbers]) -> float:
        """Return the relative operator distance on the whole design."""
        own, mixed, _ = network_pairs(family, layers, self.tau0, self._every, self.tangent)
        gap = np.zeros_like(self.kernel)
        gap[self._every.first, self._every.second] = mixed
        gap = gap + gap.T
        np.fill_diagonal(gap, own)
        largest = np.abs(np.linalg.eigvalsh(self.kernel)).max()
        return float(np.abs(np.linalg.eigvalsh(gap - self.kernel)).max() / largest)

    def fit(self, family: str, depth: int, starts: Sequence[tuple[Activation, ...]]) -> Fitted:
        """Fit a network of one family from several starts."""
        ends = [self._descend(family, depth, self._numbers(family, s)) for s in starts]
        _, z = min(ends, key=lambda end: end[0])
        layers = np.split(z, depth)
        units = network_pairs(family, layers, self.tau0, self._some[0], self.tangent)[2]
        acts = tuple(to_activation(family, x, t) for x, t in zip(layers, units[:-1], strict=True))
        return Fitted(family, acts, self.distance(family, layers))

    def _numbers(self, family: str, acts: tuple[Activation, ...]) -> Array:
        """Return the numbers of layers near to these, the last with the best gain."""
        unit, rows = self.tau0, []
        for act in acts:
            rows.append(project(family, act, unit))
            unit = float(np.sqrt(second_moments(act, np.array([unit]))[0][0]))
        pairs, target, weights = self._some
        own, mixed, _ = network_pairs(family, rows, self.tau0, pairs, self.tangent)
        value, goal = weights * np.append(own, mixed), weights * target
        gain = np.sqrt(max(float(value @ goal / (value @ value)), 1e-6))
        rows[-1] *= np.array([gain, gain, 1.0]) if family == "htanh" else gain
        return np.concatenate(rows)

    def _descend(self, family: str, depth: int, start: Array) -> tuple[float, Array]:
        pairs, target, weights = self._some

        def residuals(z: Numbers) -> Numbers:
            with np.errstate(all="ignore"):
                own, mixed, units = network_pairs(
                    family, np.split(z, depth), self.tau0, pairs, self.tangent
                )
                gaps = weights * (np.append(own, mixed) - target)
            # The first layer's gain is free: it keeps the variance of its input.
            free = [unit / self.tau0 - 1 for unit in units[1:-1]]
            return np.nan_to_num(np.append(gaps, free), nan=1e3, posinf=1e3, neginf=-1e3)

        def jacobian(z: Array) -> Array:
            steps = 1e-30j * np.eye(z.size)
            return np.stack([np.imag(residuals(z + step)) / 1e-30 for step in steps], axis=1)

        end = least_squares(
            residuals, start, jacobian, method="lm", max_nfev=_EVALUATIONS, ftol=1e-7, xtol=1e-9
        )
        return float(end.cost), np.asarray(end.x)
