"""The law of a kernel's spectrum on a mixture: density, edges, atom, isolated eigenvalues.

For n samples in p dimensions, both large, the eigenvalues of a kernel fill the law's support; a
few stand apart, at places and with eigenvectors that the law gives (theory.md §10).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from deqcli.checks import shown
from deqcli.display import Displayed
from deqcli.errors import ConvergenceError, DataError, InputError
from deqcli.own_norms import kernel_expansion
from deqcli.scalars import Coefficients, ExplicitScalars, ImplicitScalars
from deqcli.spectral.coupled import Coupled, State
from deqcli.spectral.covariances import Commuting, Covariances
from deqcli.spectral.forms import Model, own_norm_form, papers_form
from deqcli.spectral.from_moments import covariances_of
from deqcli.spectral.series import Series, Span, scaled
from deqcli.spectral.spikes import LowRank, Spike, SpikeFinder
from deqcli.spectral.support import (
    Atom,
    Intervals,
    atoms_of,
    density_of,
    intervals_of,
    outlying_columns,
)
from deqcli.statistics import MixtureStatistics
from deqcli.vocabulary import Form, Kernel

Array = NDArray[np.float64]

# Mean of the Tracy-Widom law of real symmetric matrices.
_TRACY_WIDOM = -1.2065335745820
# By how much the second eigenvalue is below the first there.
_SECOND = 2.056
# Points in each interval at which the distribution is known, and beyond which so is the density
# where every point costs matrix inverses.
_NODES, _COSTLY_NODES = 400, 40
# How much of all a density may lack or have too much.
_LOST = 0.005


class Mixture(Protocol):
    """What the law asks of a mixture (:class:`deqcli.GaussianMixture` is one)."""

    @property
    def means(self) -> Array:
        """Of shape (K, p)."""
        ...

    @property
    def covariances(self) -> tuple[Array, ...]:
        """Numbers, diagonals or matrices."""
        ...

    @property
    def shape(self) -> Array | None:
        """What the numbers multiply."""
        ...

    def statistics(self, counts: NDArray[np.int64]) -> MixtureStatistics:
        """Return the statistics; refuses wrong counts."""
        ...


@dataclass(frozen=True, repr=False)
class SpectralLaw(Displayed):
    r"""The law of a kernel's spectrum.

    Attributes
    ----------
    counts : ndarray of shape (K,)
        Samples of each class.
    equations : Coupled
        The coupled equations of the bulk.
    low_rank : LowRank
        What adds isolated eigenvalues to it.
    edges : tuple of pairs of float
        Intervals of the bulk, in ascending order; empty where all eigenvalues coincide.
    atoms : tuple of Atom
        Eigenvalues that coincide.
    spikes : tuple of Spike
        Isolated eigenvalues, the largest first.
    """

    counts: NDArray[np.int64]
    equations: Coupled
    low_rank: LowRank
    edges: Intervals
    atoms: tuple[Atom, ...]
    spikes: tuple[Spike, ...]

    def _facts(self) -> dict[str, object]:
        return {
            "samples": tuple(map(int, self.counts)),
            "bulk": ", ".join(f"{left:.6g} to {right:.6g}" for left, right in self.edges) or "none",
            "atoms": ", ".join(f"{a.mass:.4g} at {a.position:.6g}" for a in self.atoms) or "none",
            "isolated": tuple(spike.position for spike in self.spikes) or "none",
        }

    @property
    def edge(self) -> float:
        r"""The right end of the bulk in the limit (an atom's place if there is nothing else).

        The largest eigenvalue of n samples lies inside it, by a part of order
        :math:`n^{-2/3}`: 1 to 4 % at n = 800. Compare simulations with :attr:`largest`.
        """
        return max([atom.position for atom in self.atoms] + [right for _, right in self.edges])

    @property
    def atom(self) -> Atom | None:
        """The largest atom, as position and mass, or None."""
        return max(self.atoms, key=lambda atom: atom.mass, default=None)

    @property
    def above(self) -> tuple[Spike, ...]:
        """The isolated eigenvalues above the bulk, the largest first."""
        return tuple(spike for spike in self.spikes if spike.position > self.edge)

    @cached_property
    def largest(self) -> float:
        r"""The mean of the bulk's largest eigenvalue at this n, a little inside the edge.

        With a density :math:`\frac A\pi\sqrt{E - \lambda}` near the edge E it is
        :math:`E + (nA)^{-2/3}E[TW_1]` by the Tracy-Widom law, and what isolated eigenvalues push
        it inwards (and those that nearly are, outwards), each by less than the distance of two
        eigenvalues there. Of few samples it is at least the last interval's left end.
        """
        if not self.edges or self.edges[-1][1] < self.edge:
            return self.edge
        left, right = self.edges[-1]
        near = (1e-2 if self._costly else 1e-4) * (right - left)
        state = self.equations.above(np.array([right - near]))
        inside = State(*(part[0] for part in state))
        rise = float(self.equations.shares @ inside.g.imag) / np.sqrt(near)
        unit = (self.counts.sum() * rise) ** (-2 / 3)
        finder = SpikeFinder(self.equations, self.low_rank, int(self.counts.sum()))
        push, most = finder.push(inside, len(self.above)), _SECOND * unit
        moved = float(np.sum(push * most / np.hypot(push, most)))
        return float(np.clip(right + _TRACY_WIDOM * unit + moved, left, right))

    def density(self, x: ArrayLike) -> Array:
        """Return the density of the bulk, of the shape of ``x``; zero outside of the edges.

        Atoms have no density, and isolated eigenvalues no share.
        """
        points = _points(x)
        out = np.zeros(points.shape)
        for number, (left, right) in enumerate(self.edges):
            inside = (points > left) & (points < right)
            if not inside.any():
                continue
            where = points[inside]
            if self._costly and where.size > _COSTLY_NODES:
                out[inside] = self._series[number].density(where)
            else:
                unique, back = np.unique(where, return_inverse=True)
                out[inside] = self._solved(unique)[back]
        return out

    def distribution(self, x: ArrayLike) -> Array:
        """Return the share of eigenvalues up to each ``x``, of its shape, atoms included."""
        points = _points(x)
        out = np.zeros(points.shape)
        for atom in self.atoms:
            out += atom.mass * (points >= atom.position)
        for series in self._series:
            out += series.distribution(points)
        return out

    def points(self, count: int) -> Array:
        """Return points at which to draw the law, some ``count`` of each interval, ascending."""
        atoms = [np.array([atom.position]) for atom in self.atoms]
        return np.sort(np.concatenate([series.points(count) for series in self._series] + atoms))

    def _solved(self, points: Array) -> Array:
        width = self.equations.covariances.dimension + self.equations.shares.size
        step = max(1, 4_000_000 // width)
        parts = [points[start : start + step] for start in range(0, points.size, step)]
        return np.concatenate([density_of(self.equations, part, self.atoms) for part in parts])

    @property
    def _costly(self) -> bool:
        covariances = self.equations.covariances
        return covariances.surrogate is not covariances

    @cached_property
    def _series(self) -> tuple[Series, ...]:
        spans = [Span(*interval) for interval in self.edges]
        if not self._costly:
            return tuple(Series.of(self._solved, span, _NODES, halved=True) for span in spans)
        surrogate = self.equations.surrogate
        cheap = replace(self, equations=surrogate, edges=intervals_of(surrogate, self.atoms))
        if len(cheap.edges) != len(spans):
            return tuple(Series.of(self._solved, span, _COSTLY_NODES, False) for span in spans)
        found = []
        for interval, span in zip(cheap.edges, spans, strict=True):
            near = scaled(cheap._solved, Span(*interval), self._solved, span, _COSTLY_NODES)
            found.append(Series.of(near, span, _NODES, halved=True))
        mass = sum(atom.mass for atom in self.atoms)
        mass += sum(float(series.distribution(np.array(series.span.right))) for series in found)
        if abs(mass - 1) > _LOST:
            raise ConvergenceError(
                f"the density found has {mass:.3f} of all eigenvalues; give `covariances` without "
                "directions in which one hardly varies and another does."
            )
        return tuple(found)


def _points(x: ArrayLike) -> Array:
    try:
        points = np.asarray(x).astype(np.float64, casting="same_kind")
    except (TypeError, ValueError):
        raise DataError(f"`x` is {shown(x)}; give numbers.") from None
    if not np.isfinite(points).all():
        raise DataError("`x` has values that are not finite; give numbers.")
    return points


def spectral_law(
    mixture: Mixture,
    counts: Sequence[int] | NDArray[np.int64],
    scalars: ImplicitScalars | ExplicitScalars | Coefficients,
    kernel: Kernel | str = Kernel.CK,
    form: Form | str = Form.PAPERS,
) -> SpectralLaw:
    r"""Return the law of a kernel's spectrum on samples of a Gaussian mixture.

    Parameters
    ----------
    mixture : GaussianMixture
        Any positive definite covariances, but the own-norm form needs an effective dimension,
        (tr C)^2 / tr C^2, of the order of n (theory.md §10). Full ones that do not commute cost
        matrix inverses. A few directions in which covariances are far larger than in all others
        make isolated eigenvalues, or, if covariances do not commute, short intervals of the bulk.
    counts : sequence of K int
        Samples of each class; classes without samples play no role.
    scalars : ImplicitScalars, ExplicitScalars or Coefficients
        Of the network, made with the mixture's ``statistics(counts).tau0``.
    kernel : Kernel or str
        One of the four; ``ck`` or ``ntk`` for an explicit network.
    form : Form or str
        ``papers``: the law of the papers' equivalent; ``own-norm``: that of the exact kernel,
        to higher order in 1/p.

    Examples
    --------
    >>> from deqcli import GaussianMixture, implicit_scalars
    >>> means = np.zeros((2, 1000))
    >>> means[:, 0] = 2.5, -2.5
    >>> mixture = GaussianMixture(means, [1.0, 1.0])
    >>> law = spectral_law(mixture, [400, 400], implicit_scalars("relu", 0.2))
    >>> round(law.edge, 3), [round(spike.position, 3) for spike in law.spikes]
    (0.838, [1.547])
    >>> law.spikes[0].alignment.round(3), law.atom is None
    (array([0.417, 0.417]), True)
    """
    try:
        mixture.statistics(np.asarray(counts))  # refuses wrong counts
        means, matrices, shape = mixture.means, mixture.covariances, mixture.shape
    except AttributeError:
        raise InputError(f"`mixture` is {shown(mixture)}; give a GaussianMixture.") from None
    sizes = np.asarray(counts, dtype=np.int64)
    present = np.flatnonzero(sizes)
    covariances = covariances_of(
        means[present], [matrices[a] for a in present], shape, sizes[present] / sizes.sum()
    )
    law = law_on(covariances, sizes, scalars, kernel, form)
    outlying = outlying_columns(law.equations, law.edges)
    if outlying and isinstance(covariances, Commuting):
        law = law_on(replace(covariances, outlying=outlying), sizes, scalars, kernel, form)
    return law


def law_on(
    covariances: Covariances,
    counts: NDArray[np.int64],
    scalars: ImplicitScalars | ExplicitScalars | Coefficients,
    kernel: Kernel | str,
    form: Form | str,
) -> SpectralLaw:
    """Return the law for given covariances, those of the classes that have samples."""
    present, form = counts[counts > 0], Form.of(form, "form")
    try:
        with np.errstate(all="ignore"):
            law = law_of(_model(covariances, scalars, kernel, form, present), counts)
    except (ConvergenceError, np.linalg.LinAlgError):
        raise ConvergenceError(
            f"the spectrum of {counts.sum()} samples in {covariances.dimension} dimensions has no "
            "law that could be found; give a dimension of the order of their number and moderate "
            "means."
        ) from None
    if form is Form.OWN_NORM:
        # An exact kernel has no eigenvalue below zero; with few dimensions its model may have one.
        law = replace(law, spikes=tuple(spike for spike in law.spikes if spike.position > 0))
    return law


def _model(
    covariances: Covariances, scalars: Any, kernel: Kernel | str, form: Form, counts: Any
) -> Model:
    if form is Form.OWN_NORM:
        return own_norm_form(covariances, kernel_expansion(scalars, kernel), counts)
    if not isinstance(scalars, ImplicitScalars | ExplicitScalars | Coefficients):
        raise InputError(f"`scalars` is {shown(scalars)}; give scalars of a network.")
    c = scalars if isinstance(scalars, Coefficients) else scalars.coefficients(kernel)
    return papers_form(covariances, c, counts)


def law_of(model: Model, counts: NDArray[np.int64]) -> SpectralLaw:
    """Return the law of a model of the classes that have samples."""
    equations, low_rank = model
    atoms = atoms_of(equations)
    edges = intervals_of(equations, atoms)
    finder = SpikeFinder(equations, low_rank, int(counts.sum()))
    found = finder.outside(sorted([*edges, *((a.position, a.position) for a in atoms)]))
    # Offsets have tails: beside their intervals nothing is seen apart.
    blur = 3 * equations.offset_deviation
    top = edges[-1][1] if edges else -np.inf
    ends = np.array([end for interval in edges for end in interval])
    spikes = []
    for spike in found:
        if spike.position < top and np.abs(ends - spike.position).min() < blur:
            continue
        alignment = np.zeros(counts.size)
        alignment[counts > 0] = spike.alignment
        spikes.append(replace(spike, alignment=alignment))
    return SpectralLaw(counts, equations, low_rank, edges, atoms, tuple(spikes))
