r"""Kernels of deep equilibrium models of finite width, realization after realization.

One realization draws A (m, m) and B (m, p), solves
:math:`z_i = \phi(\sigma_a A z_i + \sigma_b B x_i)/\sqrt m` for every sample and returns n x n
matrices (theory.md §1-2):

* ``ck``: :math:`G_{ij} = z_i^\top z_j`;
* ``preactivation-ck``: :math:`\Lambda_{ij} = \sigma_a^2 G_{ij} + \sigma_b^2 x_i^\top x_j`;
* ``ntk``: :math:`\Theta_{ij} = G_{ij} + \Lambda_{ij}\, s_i^\top s_j`, the product of the gradients
  of :math:`f = a^\top z` in a, A and B;
* ``preactivation-ntk``: :math:`K_{ij} = \sigma_a^2\Theta_{ij} + \sigma_b^2 x_i^\top x_j`.

By implicit differentiation :math:`\partial f_i/\partial A = \sigma_a s_i z_i^\top` and
:math:`\partial f_i/\partial B = \sigma_b s_i x_i^\top`, where the adjoint solves
:math:`s_i = D_i(a + \sigma_a A^\top s_i)`, :math:`D_i = \mathrm{diag}\,\phi'(u_i)/\sqrt m` and
:math:`u_i` is the pre-activation. It is a fixed point like the first, and no Jacobian is formed.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from deqcli.activations import Activation, activation
from deqcli.checks import NOT_NEGATIVE, POSITIVE, Range, number, shown
from deqcli.errors import ConvergenceError, DataError, InputError
from deqcli.finite.equilibrium import Equilibrium, Precision
from deqcli.finite.fixed_point import Outcome
from deqcli.finite.weights import draw
from deqcli.kernels.matrix import check_samples
from deqcli.vocabulary import Kernel, Solver, Weights

Array = NDArray[Any]

# Weights are drawn in single precision, with the squares of their deviations.
_WEIGHTS = Range(least=0, most=1e30)


@dataclasses.dataclass(frozen=True)
class Ensemble:
    r"""The random networks to draw and how to solve them.

    Parameters
    ----------
    activation : Activation
        :math:`\phi`, centred or not.
    sigma_a2, sigma_b2 : float
        :math:`\sigma_a^2` and :math:`\sigma_b^2`.
    width : int
        The number m of neurons.
    weights : Weights
        The law of the entries of A and B; a is Gaussian.
    kernels : tuple of Kernel
        Which of the four matrices to return.
    solver : Solver
        All reach the same point.
    tolerance : float
        The largest relative residual, over samples, of both fixed points.
    max_iterations : int
        How many iterations each may take.
    dtype : {"float32", "float64"}
        The precision of the solve. Single precision changes a kernel by some 1e-7 of its norm,
        where two realizations differ by :math:`m^{-1/2}`.

    Examples
    --------
    >>> from deqcli.activations import activation
    >>> Ensemble(activation("tanh"), 0.1, 0.9, width=1000, kernels=(Kernel.NTK,)).needs_adjoint
    True
    >>> Ensemble(activation("tanh"), 0.1, 0.9, width=0)
    Traceback (most recent call last):
        ...
    deqcli.errors.InputError: `width` is 0; give a whole number at least 1.
    """

    activation: Activation
    sigma_a2: float
    sigma_b2: float
    width: int
    weights: Weights = Weights.GAUSSIAN
    kernels: tuple[Kernel, ...] = (Kernel.CK,)
    solver: Solver = Solver.GAUSS_SEIDEL
    tolerance: float = 1e-6
    max_iterations: int = 500
    dtype: Precision = "float32"

    def __post_init__(self) -> None:
        """Refuse values that mean nothing; names may be given as text."""
        if not isinstance(self.kernels, Sequence) or not self.kernels:
            raise InputError(
                f"`kernels` is {shown(self.kernels)}; name some of {', '.join(Kernel)}."
            )
        if not isinstance(self.dtype, str) or self.dtype not in get_args(Precision):
            known = ", ".join(get_args(Precision))
            raise InputError(f"`dtype` is {shown(self.dtype)}; choose from {known}.")
        checked: dict[str, Any] = {
            "activation": activation(self.activation),
            "kernels": tuple(Kernel.of(kernel, "kernels") for kernel in self.kernels),
            "weights": Weights.of(self.weights, "weights"),
            "solver": Solver.of(self.solver, "solver"),
            "tolerance": number(self.tolerance, "tolerance", float),
        }
        for name, allowed in (("sigma_a2", _WEIGHTS), ("sigma_b2", NOT_NEGATIVE)):
            checked[name] = number(getattr(self, name), name, float, allowed)
        for name in ("width", "max_iterations"):
            checked[name] = number(getattr(self, name), name, int, POSITIVE)
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        smallest = 4 * float(np.finfo(self.dtype).eps)
        if not smallest <= self.tolerance < 1:
            remedy = " or `dtype` float64" if self.dtype == "float32" and self.tolerance > 0 else ""
            raise InputError(
                f"`tolerance` is {self.tolerance:g}; in {self.dtype} give {smallest:.1g} or more, "
                f"below 1{remedy}."
            )

    @property
    def needs_adjoint(self) -> bool:
        """Whether a kernel was asked for that takes the second fixed point."""
        return any(kernel.explicit is Kernel.NTK for kernel in self.kernels)


@dataclasses.dataclass(frozen=True)
class Realization:
    """One draw of the weights: how its fixed points were solved, and its kernels.

    Parameters
    ----------
    forward : Outcome
        Of the fixed point z.
    adjoint : Outcome or None
        Of the second one, where there was need for it.
    kernels : dict of Kernel to ndarray of shape (n, n)
        Empty unless every solve converged.
    """

    forward: Outcome
    adjoint: Outcome | None
    kernels: dict[Kernel, Array]

    @property
    def converged(self) -> bool:
        """Whether every solve converged."""
        return self.forward.converged and (self.adjoint is None or self.adjoint.converged)


@dataclasses.dataclass(frozen=True)
class Accumulation:
    """Sums over the realizations that converged.

    Parameters
    ----------
    sums : dict of Kernel to ndarray of shape (n, n)
        In float64, by kernel.
    converged : int
        How many realizations the sums hold.
    records : tuple of Realization
        All of them in order, converged or not, without their kernels.
    """

    sums: dict[Kernel, Array]
    converged: int
    records: tuple[Realization, ...]

    def mean(self, kernel: str) -> Array:
        """Return the average of a kernel over the realizations that converged."""
        if not self.converged:
            raise ConvergenceError(
                f"none of {len(self.records)} realizations converged; lower `sigma_a2` or raise "
                "`width`, `tolerance` or `max_iterations`."
            )
        chosen = Kernel.of(kernel, "kernel")
        if chosen not in self.sums:
            raise InputError(f"`kernel` is {chosen}; averaged were {', '.join(self.sums)}.")
        average: Array = self.sums[chosen] / self.converged
        return average


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
        Which realizations to add, numbered from 0.
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
    if not isinstance(ensemble, Ensemble):
        raise InputError(f"`ensemble` is {shown(ensemble)}; give an Ensemble.")
    if not callable(stream):
        raise InputError(f"`stream` is {shown(stream)}; give a function from int to Generator.")
    try:
        numbers = iter(realizations)
    except TypeError:
        raise InputError(f"`realizations` is {shown(realizations)}; give a range.") from None
    workspace = Workspace(X, ensemble)
    n = len(workspace.input_gram)
    sums = {name: np.zeros((n, n)) for name in ensemble.kernels}
    records = []
    for index in numbers:
        rng = stream(number(index, "realizations", int, Range(least=0)))
        if not isinstance(rng, np.random.Generator):
            raise InputError(f"`stream` returned {shown(rng)}; it must return a Generator.")
        one = workspace.realize(rng)
        records.append(dataclasses.replace(one, kernels={}))
        for name, kernel in one.kernels.items():
            kernel *= 1 / workspace.quantum
            np.rint(kernel, out=kernel)
            kernel *= workspace.quantum
            sums[name] += kernel
    return Accumulation(sums, sum(record.converged for record in records), tuple(records))


class Workspace:
    r"""The buffers of a realization, and the work on them.

    Columns are samples, as :mod:`deqcli.finite.equilibrium` has it: the bias is
    :math:`\sigma_b BX^\top`, the source of the adjoint :math:`T = \sqrt m S` is a.

    Examples
    --------
    >>> from deqcli.activations import activation
    >>> tanh = Ensemble(activation("tanh"), 0.1, 0.9, width=300, kernels=(Kernel.NTK,))
    >>> one = Workspace(np.eye(3), tanh).realize(np.random.default_rng(0))
    >>> one.converged, one.kernels[Kernel.NTK].shape
    (True, (3, 3))
    """

    def __init__(self, X: Array, ensemble: Ensemble) -> None:
        data = check_samples(X)
        (n, p), m, dtype = data.shape, ensemble.width, np.dtype(ensemble.dtype)
        self.ensemble = ensemble
        limits = ensemble.tolerance, ensemble.max_iterations, ensemble.dtype
        self.layer = Equilibrium(ensemble.activation, m, ensemble.solver, *limits)
        self.input_gram = ensemble.sigma_b2 * (data @ data.T)
        largest = float(self.input_gram.diagonal().max())
        # Squares of what float32 can hold; what is smaller would vanish in them.
        if dtype == np.float32 and largest and not 1e-30 <= largest <= 1e30:
            raise DataError(
                f"`X` has {largest:.2g} for its largest `sigma_b2` |x|^2, beyond single precision; "
                "scale it, or give `dtype` float64."
            )
        self.quantum = 2.0 ** (math.frexp(largest)[1] - 34)
        self.inputs = np.ascontiguousarray(math.sqrt(ensemble.sigma_b2) * data.T, dtype=dtype)
        self.input_weights = np.empty((m, p), dtype=dtype)
        self.weights = np.empty((m, m), dtype=dtype)
        self.bias, self.value = np.empty((2, m, n), dtype=dtype)
        self.gram = np.empty((n, n), dtype=dtype)
        names = list(Kernel)  # each kernel is made from those before it
        last = max(names.index(name) for name in ensemble.kernels)
        self.kernels = {name: np.empty((n, n)) for name in names[: last + 1]}
        adjoint = (2, m, n) if ensemble.needs_adjoint else (2, 0, 0)
        self.preactivation, self.adjoint = np.empty(adjoint, dtype=dtype)

    def realize(self, rng: np.random.Generator) -> Realization:
        """Draw B, A and a; return the kernels, in buffers that the next call overwrites."""
        settings = self.ensemble
        draw(settings.weights, rng, self.input_weights)
        np.matmul(self.input_weights, self.inputs, out=self.bias)
        draw(settings.weights, rng, self.weights, math.sqrt(settings.sigma_a2 / settings.width))
        kept = self.preactivation if settings.needs_adjoint else None
        forward = self.layer.forward(self.weights, self.bias, self.value, kept)
        if not forward.converged:
            return Realization(forward, None, {})
        if kept is None:
            return Realization(forward, None, self._kernels())
        readout = np.empty((settings.width, 1), dtype=self.value.dtype)
        draw(Weights.GAUSSIAN, rng, readout)
        adjoint = self.layer.adjoint(self.weights, readout, kept, self.adjoint)
        return Realization(forward, adjoint, self._kernels() if adjoint.converged else {})

    def _kernels(self) -> dict[Kernel, Array]:
        settings, matrices = self.ensemble, self.kernels
        ck = matrices[Kernel.CK]
        np.matmul(self.value.T, self.value, out=self.gram)
        np.multiply(self.gram, 1 / settings.width, out=ck)
        if Kernel.PREACTIVATION_CK in matrices:
            self._add_inputs(ck, matrices[Kernel.PREACTIVATION_CK])
        if Kernel.NTK in matrices:
            ntk = matrices[Kernel.NTK]
            np.matmul(self.adjoint.T, self.adjoint, out=self.gram)
            np.multiply(self.gram, 1 / settings.width, out=ntk)
            ntk *= matrices[Kernel.PREACTIVATION_CK]
            ntk += ck
        if Kernel.PREACTIVATION_NTK in matrices:
            self._add_inputs(matrices[Kernel.NTK], matrices[Kernel.PREACTIVATION_NTK])
        return {name: matrices[name] for name in settings.kernels}

    def _add_inputs(self, kernel: Array, out: Array) -> None:
        np.multiply(kernel, self.ensemble.sigma_a2, out=out)
        out += self.input_gram
