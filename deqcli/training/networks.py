"""The deep equilibrium model, explicit networks of any depth, and their training steps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deqcli.activations import Activation
from deqcli.errors import ConvergenceError, InputError
from deqcli.finite.equilibrium import Elementwise, Equilibrium, Precision
from deqcli.finite.fixed_point import ANDERSON_MEMORY, Outcome
from deqcli.finite.norm import Guard
from deqcli.gaussian import check_existence
from deqcli.training.base import Network, Parameter, Progress
from deqcli.vocabulary import Solver

Array = NDArray[Any]

#: Steps between two looks at the spectral norm.
_WATCH = 8


class EquilibriumNetwork(Network):
    r"""The DEQ :math:`z = \phi(\sigma_aAz + \sigma_bBx)/\sqrt m`, :math:`f = Wz` (theory.md §1).

    A, B and W are standard normal at the start and trained. Kept are :math:`Y = \sqrt m\,z` with
    samples in columns and the scaled matrices, so that the two fixed points of a step are

    .. math:: Y = \phi(U),\ U = \tilde AY + \tilde BX^\top, \qquad
              T = \phi'(U)\circ(\tilde W^\top\delta + \tilde A^\top T), \quad
              \delta = \partial L/\partial f,

    and the gradients :math:`\partial L/\partial\tilde A = TY^\top`,
    :math:`\partial L/\partial\tilde B = TX`, :math:`\partial L/\partial\tilde W = \delta Y^\top`:
    the implicit function theorem, without a graph or a Jacobian.

    Both solves start from zero. From the equilibrium that a sample had an epoch ago, the forward
    one takes 4 iterations instead of 6 (ReLU, :math:`\sigma_a^2 = 0.2`, width 512, tolerance 1e-3);
    but the first iteration from zero does a third of the products only, so that a tenth of the step
    would be saved, for as much memory as all samples' equilibria take.

    Parameters
    ----------
    act : Activation
        Used as it is, shift included.
    sigma_a2, sigma_b2 : float
    width, n_features, n_classes : int
    solver : Solver
    tolerance : float
        The largest relative residual, over the samples of a batch, of both fixed points.
    max_iterations : int
    dtype : {"float32", "float64"}

    Examples
    --------
    >>> from deqcli.activations import activation
    >>> network = EquilibriumNetwork(activation("tanh"), 0.1, 0.9, 50, 4, 3)
    >>> network.draw([np.random.default_rng(k) for k in range(3)])
    >>> progress = network.forward(np.eye(4, dtype=np.float32))
    >>> progress.residual < 1e-3, network.outputs.shape
    (True, (3, 4))
    """

    def __init__(
        self,
        act: Activation,
        sigma_a2: float,
        sigma_b2: float,
        width: int,
        n_features: int,
        n_classes: int,
        *,
        solver: Solver = Solver.GAUSS_SEIDEL,
        tolerance: float = 1e-3,
        max_iterations: int = 200,
        dtype: Precision = "float32",
    ) -> None:
        super().__init__(width, n_features, n_classes, dtype)
        check_existence(act, sigma_a2, sigma_b2, papers_range=False)
        self.act = act
        chosen = Solver.of(solver, "solver")
        self.layer = Equilibrium(act, width, chosen, tolerance, max_iterations, dtype)
        self.inputs = Parameter((width, n_features), math.sqrt(sigma_b2), dtype)
        self.hidden = Parameter((width, width), math.sqrt(sigma_a2 / width), dtype)
        self.parameters = (self.inputs, self.hidden, self._readout())
        self._steps = 0
        self._largest_batch = 0
        self._guard: Guard | None = None

    def draw(self, streams: Sequence[np.random.Generator]) -> None:
        """See :meth:`Network.draw`; B, A, W."""
        super().draw(streams)
        self._steps = 0
        self._guard = Guard(self.hidden.weight, self.act.lipschitz)

    def _forward(self, X: Array) -> Progress:
        self._X = X
        self._largest_batch = max(self._largest_batch, len(X))
        shape = self.width, len(X)
        bias = self.buffers("bias", *shape)
        self._preactivation: Array = self.buffers("preactivation", *shape)
        self.features = self.buffers("value", *shape)
        np.matmul(self.inputs.weight, X.T, out=bias)
        outcome = self.layer.forward(self.hidden.weight, bias, self.features, self._preactivation)
        return _progress("forward", outcome)

    def _backward(self, delta: Array, momentum: float) -> Progress:
        shape = self.width, delta.shape[1]
        # The bias of the forward pass is no longer needed.
        source = self.buffers("bias", *shape)
        np.matmul(self.parameters[-1].weight.T, delta, out=source)
        adjoint = self.buffers("adjoint", *shape)
        outcome = self.layer.adjoint(self.hidden.weight, source, self._preactivation, adjoint)
        progress = _progress("adjoint", outcome)
        self.hidden.accumulate(adjoint, self.features, momentum)
        self.inputs.accumulate(adjoint, self._X.T, momentum)
        return progress

    def move(self, learning_rate: float) -> str:
        """See :meth:`Network.move`; clips the norm of A where it would end contraction."""
        super().move(learning_rate)
        self._steps += 1
        if self._guard is None or self._steps % _WATCH:
            return ""
        return "projected" if self._guard.check() else ""

    @property
    def nbytes(self) -> int:
        """See :attr:`Network.nbytes`; with what Anderson mixes."""
        batch = self.width * self._largest_batch * np.dtype(self.dtype).itemsize
        # Images and residuals that are mixed, and five arrays of an iteration itself.
        arrays = 2 * ANDERSON_MEMORY + 5 if self.layer.solver == Solver.ANDERSON else 0
        return super().nbytes + arrays * batch


def _progress(which: str, outcome: Outcome) -> Progress:
    if not outcome.converged:
        raise ConvergenceError(f"{which} iteration {outcome.status}")
    return Progress(outcome.iterations, outcome.residual)


class ExplicitNetwork(Network):
    r"""The network :math:`x^{(l)} = \sigma_l(W_lx^{(l-1)})/\sqrt m`, :math:`f = Wx^{(L)}`.

    All weights are standard normal at the start and trained (theory.md §5; ICLR Eq. 18). Kept are
    :math:`H_l = \sqrt m\,x^{(l)}` with samples in columns, so that

    .. math:: H_l = \sigma_l(\tilde W_lH_{l-1}), \qquad
              T_l = \sigma_l'(U_l)\circ\tilde W_{l+1}^\top T_{l+1}, \qquad
              \partial L/\partial\tilde W_l = T_lH_{l-1}^\top

    with :math:`\tilde W_1 = W_1` and :math:`\tilde W_l = W_l/\sqrt m` after it.

    Parameters
    ----------
    acts : sequence of Activation
        One a layer, used as they are, shifts included.
    width, n_features, n_classes : int
    dtype : {"float32", "float64"}

    Examples
    --------
    >>> from deqcli.activations import activation
    >>> network = ExplicitNetwork([activation("tanh")] * 2, 50, 4, 3)
    >>> network.draw([np.random.default_rng(k) for k in range(3)])
    >>> _ = network.forward(np.eye(4, dtype=np.float32))
    >>> network.outputs.shape, network.size
    ((3, 4), 2850)
    """

    def __init__(
        self,
        acts: Sequence[Activation],
        width: int,
        n_features: int,
        n_classes: int,
        dtype: Precision = "float32",
    ) -> None:
        super().__init__(width, n_features, n_classes, dtype)
        if not acts:
            raise InputError("`acts` is empty; give at least one activation.")
        self.layers = tuple(Elementwise(act, dtype) for act in acts)
        inner = 1 / math.sqrt(width)
        self.parameters = (
            Parameter((width, n_features), 1.0, dtype),
            *(Parameter((width, width), inner, dtype) for _ in acts[1:]),
            self._readout(),
        )
        self._values: list[Array] = []
        self._slopes: list[Array] = []

    def _forward(self, X: Array) -> Progress:
        self._values, self._slopes = [X.T], []
        for number, (layer, parameter) in enumerate(
            zip(self.layers, self.parameters[:-1], strict=True)
        ):
            value = self.buffers(f"value {number}", self.width, len(X))
            slope = self.buffers(f"slope {number}", self.width, len(X))
            np.matmul(parameter.weight, self._values[-1], out=value)
            slope[...] = value
            layer.value(value)
            self._values.append(value)
            self._slopes.append(slope)
        self.features = value
        return Progress()

    def _backward(self, delta: Array, momentum: float) -> Progress:
        errors = delta
        for number in range(len(self.layers) - 1, -1, -1):
            passed = self.buffers(f"error {number}", self.width, delta.shape[1])
            np.matmul(self.parameters[number + 1].weight.T, errors, out=passed)
            slope = self._slopes[number]
            self.layers[number].slope(slope)
            passed *= slope
            self.parameters[number].accumulate(passed, self._values[number], momentum)
            errors = passed
        return Progress()
