r"""Kernels of deep equilibrium models of finite width, realization after realization.

One realization draws A (m, m) and B (m, p), solves
:math:`z_i = \phi(\sigma_a A z_i + \sigma_b B x_i)/\sqrt m` for every sample and returns n x n
matrices (theory.md §1-2):

* ``ck``: :math:`G_{ij} = z_i^\top z_j`;
* ``preactivation_ck``: :math:`\Lambda_{ij} = \sigma_a^2 G_{ij} + \sigma_b^2 x_i^\top x_j`;
* ``ntk``: :math:`\Theta_{ij} = G_{ij} + \Lambda_{ij}\, s_i^\top s_j`, the product of the gradients
  of :math:`f = a^\top z` in a, A and B;
* ``preactivation_ntk``: :math:`K_{ij} = \sigma_a^2\Theta_{ij} + \sigma_b^2 x_i^\top x_j`.

By implicit differentiation :math:`\partial f_i/\partial A = \sigma_a s_i z_i^\top` and
:math:`\partial f_i/\partial B = \sigma_b s_i x_i^\top`, where the adjoint solves
:math:`s_i = D_i(a + \sigma_a A^\top s_i)`, :math:`D_i = \mathrm{diag}\,\phi'(u_i)/\sqrt m` and
:math:`u_i` is the pre-activation. It is a fixed point like the first, and no Jacobian is formed.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from deqcli.ensemble import Ensemble, Kernel, Solver
from deqcli.errors import ConvergenceError, DataError
from deqcli.fixed_point import Outcome, anderson, gauss_seidel
from deqcli.in_place import in_place
from deqcli.weights import draw

__all__ = ["Accumulation", "Ensemble", "Realization", "Record", "accumulate", "blocks", "simulate"]

Array = NDArray[Any]

#: Rows of a block of neurons: fewer lose matrix-product speed, more lose contraction.
_BLOCK = 256
#: Heights of blocks are multiples of this, as matrix products go by whole tiles.
_GRAIN = 64


@dataclasses.dataclass(frozen=True)
class Solves:
    """How the fixed point z of a realization and its adjoint, where there was one, were solved."""

    forward: Outcome
    adjoint: Outcome | None

    @property
    def converged(self) -> bool:
        """Whether every solve converged."""
        return self.forward.converged and (self.adjoint is None or self.adjoint.converged)


@dataclasses.dataclass(frozen=True)
class Realization(Solves):
    """The (n, n) kernels of one draw of the weights, by name: none unless it converged."""

    kernels: dict[str, Array]


@dataclasses.dataclass(frozen=True)
class Record(Solves):
    """What became of the realization of that number."""

    realization: int


@dataclasses.dataclass(frozen=True)
class Accumulation:
    """Sums over the realizations that converged.

    Parameters
    ----------
    sums : dict of str to ndarray of shape (n, n)
        In float64, by kernel.
    converged : int
        How many realizations the sums hold.
    records : tuple of Record
        One for each realization, converged or not.
    """

    sums: dict[str, Array]
    converged: int
    records: tuple[Record, ...]

    def __add__(self, other: Accumulation) -> Accumulation:
        return Accumulation(
            {name: self.sums[name] + other.sums[name] for name in self.sums},
            self.converged + other.converged,
            self.records + other.records,
        )

    def mean(self, kernel: str) -> Array:
        """Return the average of a kernel over the realizations that converged."""
        if not self.converged:
            raise ConvergenceError(
                f"none of {len(self.records)} realizations converged; lower sigma_a2 or raise "
                "the width, the tolerance or max_iterations."
            )
        average: Array = self.sums[kernel] / self.converged
        return average


def simulate(X: Array, ensemble: Ensemble, rng: np.random.Generator) -> Realization:
    """Draw one network and return its kernels.

    Parameters
    ----------
    X : ndarray of shape (n, p)
        The data; rows are samples.
    ensemble : Ensemble
        What to draw and how to solve it.
    rng : numpy.random.Generator
        All weights come from it: B, then A, then a.

    Examples
    --------
    >>> from deqcli.activations import activation
    >>> X = np.eye(3)
    >>> tanh = Ensemble(activation("tanh"), 0.1, 0.9, width=300, kernels=("ck", "ntk"))
    >>> one = simulate(X, tanh, np.random.default_rng(0))
    >>> one.converged, one.kernels["ntk"].shape
    (True, (3, 3))
    """
    return _Workspace(X, ensemble).realize(rng)


def accumulate(
    X: Array,
    ensemble: Ensemble,
    realizations: Iterable[int],
    stream: Callable[[int], np.random.Generator],
) -> Accumulation:
    r"""Sum the kernels of many realizations; those that did not converge are left out and reported.

    A realization depends on its own stream alone. Before it is added a kernel is rounded to a
    multiple of :math:`2^{-34}q`, q the power of two above :math:`\sigma_b^2\max\|x_i\|^2`, a change
    below that of single precision: sums in float64 are then exact up to :math:`2^{19}q`, and the
    total is the same to the last bit in whatever order and portions the realizations are added up.
    Memory does not depend on their number.

    Parameters
    ----------
    X : ndarray of shape (n, p)
        The data; rows are samples.
    ensemble : Ensemble
        What to draw and how to solve it.
    realizations : iterable of int
        Which realizations to add.
    stream : callable
        From the index of a realization to its own generator.

    Examples
    --------
    >>> from deqcli.activations import activation
    >>> linear = Ensemble(activation("identity"), 0.1, 0.9, width=200)
    >>> total = accumulate(np.eye(2), linear, range(50), np.random.default_rng)
    >>> total.converged, bool(np.allclose(total.mean("ck"), np.eye(2), atol=0.1))
    (50, True)
    """
    workspace = _Workspace(X, ensemble)
    sums: dict[str, Array] = {name: np.zeros((len(X), len(X))) for name in ensemble.kernels}
    records = []
    for index in realizations:
        one = workspace.realize(stream(index))
        records.append(Record(one.forward, one.adjoint, index))
        for name, kernel in one.kernels.items():
            kernel *= 1 / workspace.quantum
            np.rint(kernel, out=kernel)
            kernel *= workspace.quantum
            sums[name] += kernel
    return Accumulation(sums, sum(record.converged for record in records), tuple(records))


def blocks(width: int, solver: Solver = "gauss-seidel") -> list[slice]:
    """Return the blocks of neurons that are updated together."""
    count = max(1, round(width / _BLOCK)) if solver == "gauss-seidel" else 1
    height = _GRAIN * math.ceil(width / count / _GRAIN)
    return [slice(start, min(start + height, width)) for start in range(0, width, height)]


class _Workspace:
    r"""The buffers of a realization, and the work on them.

    Columns are samples here, so that a block of neurons is contiguous. The scale of the weights
    goes into :math:`W = \sigma_a A/\sqrt m`, which leaves :math:`Y = \sqrt m Z = \phi(U)` with
    :math:`U = WY + \sigma_b BX^\top`, and :math:`T = \sqrt m S = \phi'(U)\circ(a + W^\top T)`.
    """

    def __init__(self, X: Array, ensemble: Ensemble) -> None:
        data = np.asarray(X, dtype=np.float64)
        if data.ndim != 2 or 0 in data.shape:
            raise DataError(f"X must have rows (samples) and columns, not the shape {data.shape}.")
        if not np.isfinite(data).all():
            raise DataError("X holds values that are not finite; remove those samples first.")
        (n, p), m, dtype = data.shape, ensemble.width, np.dtype(ensemble.dtype)
        self.ensemble = ensemble
        self.activate = in_place(ensemble.activation, dtype)
        self.blocks = blocks(m, ensemble.solver)
        self.input_gram = ensemble.sigma_b2 * (data @ data.T)
        largest = float(self.input_gram.diagonal().max())
        self.quantum = 2.0 ** (math.frexp(largest)[1] - 34)
        self.inputs = np.ascontiguousarray(math.sqrt(ensemble.sigma_b2) * data.T, dtype=dtype)
        self.input_weights = np.empty((m, p), dtype=dtype)
        self.weights = np.empty((m, m), dtype=dtype)
        self.bias, self.value = np.empty((2, m, n), dtype=dtype)
        self.gram = np.empty((n, n), dtype=dtype)
        names = get_args(Kernel)  # each kernel is made from those before it
        last = max(names.index(name) for name in ensemble.kernels)
        self.kernels = {name: np.empty((n, n)) for name in names[: last + 1]}
        adjoint = (2, m, n) if ensemble.needs_adjoint else (2, 0, 0)
        self.slope, self.adjoint = np.empty(adjoint, dtype=dtype)

    def realize(self, rng: np.random.Generator) -> Realization:
        """Draw the weights and return the kernels, in buffers that the next call overwrites."""
        settings = self.ensemble
        draw(settings.weights, rng, self.input_weights)
        np.matmul(self.input_weights, self.inputs, out=self.bias)
        draw(settings.weights, rng, self.weights, math.sqrt(settings.sigma_a2 / settings.width))
        forward = self._solve(self.weights, self._finish_forward, self.value)
        if not forward.converged:
            return Realization(forward, None, {})
        if not settings.needs_adjoint:
            return Realization(forward, None, self._kernels())
        readout = np.empty((settings.width, 1), dtype=self.value.dtype)
        draw("gaussian", rng, readout)

        def finish(block: slice, product: Array) -> None:
            product += readout[block]
            product *= self.slope[block]

        for block in self.blocks:
            self.slope[block] = settings.activation.derivative(self.slope[block])
        adjoint = self._solve(self.weights.T, finish, self.adjoint)
        return Realization(forward, adjoint, self._kernels() if adjoint.converged else {})

    def _finish_forward(self, block: slice, product: Array) -> None:
        product += self.bias[block]
        if self.slope.size:
            self.slope[block] = product
        self.activate(product)

    def _solve(
        self, matrix: Array, finish: Callable[[slice, Array], None], value: Array
    ) -> Outcome:
        settings = self.ensemble
        limits = settings.tolerance, settings.max_iterations
        if settings.solver != "anderson":
            return gauss_seidel(matrix, finish, value, *limits, blocks=self.blocks, foretell=True)

        def step(rows: Array) -> Array:
            product = matrix @ rows.T
            finish(slice(0, len(product)), product)
            return product.T

        found = anderson(step, np.zeros_like(value.T), *limits)
        value[...] = found.value.T
        return Outcome(found.residual, found.iterations, found.status)

    def _kernels(self) -> dict[str, Array]:
        settings, made = self.ensemble, self.kernels
        np.matmul(self.value.T, self.value, out=self.gram)
        np.multiply(self.gram, 1 / settings.width, out=made["ck"])
        if "preactivation_ck" in made:
            np.multiply(made["ck"], settings.sigma_a2, out=made["preactivation_ck"])
            made["preactivation_ck"] += self.input_gram
        if "ntk" in made:
            np.matmul(self.adjoint.T, self.adjoint, out=self.gram)
            np.multiply(self.gram, 1 / settings.width, out=made["ntk"])
            made["ntk"] *= made["preactivation_ck"]
            made["ntk"] += made["ck"]
        if "preactivation_ntk" in made:
            np.multiply(made["ntk"], settings.sigma_a2, out=made["preactivation_ntk"])
            made["preactivation_ntk"] += self.input_gram
        return {name: made[name] for name in settings.kernels}
