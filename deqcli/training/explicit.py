"""Explicit networks of any depth, and their training step."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deqcli.activations import Activation
from deqcli.errors import InputError
from deqcli.finite.elementwise import Elementwise
from deqcli.finite.equilibrium import Precision
from deqcli.training.base import Network, Progress
from deqcli.training.parameters import Parameter, readout_factor

Array = NDArray[Any]


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
    >>> network.forward(np.eye(4, dtype=np.float32)).failure
    ''
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
            Parameter((n_classes, width), readout_factor(width), dtype),
        )
        self._values: list[Array] = []
        self._slopes: list[Array] = []

    @property
    def features(self) -> Array:
        r"""The last hidden layer times :math:`\sqrt m`, of shape (m, b)."""
        return self._values[-1]

    def forward(self, X: Array) -> Progress:
        """See :meth:`Network.forward`."""
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
        self._read_out(value)
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
