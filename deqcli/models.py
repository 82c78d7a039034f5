"""A deep equilibrium model on given samples: its activation as used, scalars and kernels."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from deqcli.activations import Activation, activation
from deqcli.data.laws import Inputs
from deqcli.equivalents import Equivalent, equivalent
from deqcli.errors import silence_range_warning
from deqcli.kernels.exact import implicit_kernels
from deqcli.scalars import ImplicitScalars, implicit_scalars, sphere_scalars
from deqcli.vocabulary import Form, Kernel

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Model:
    """A DEQ on given inputs.

    Attributes
    ----------
    inputs : Inputs
    act : Activation
        As used: centred for mixtures and real data, as it is on the sphere (HLD).
    sigma_a2, sigma_b2 : float
    scalars : ImplicitScalars or None
        None on the sphere, where each kernel has scalars of its own.
    """

    inputs: Inputs
    act: Activation
    sigma_a2: float
    sigma_b2: float
    scalars: ImplicitScalars | None

    @property
    def X(self) -> Array:
        """The samples, of shape (n, p)."""
        return self.inputs.data.X

    def part(self, rows: NDArray[np.intp]) -> Model:
        """Return the same DEQ on some of the samples."""
        data = self.inputs.data
        some = replace(data, X=data.X[rows], y=data.y[rows])
        return replace(self, inputs=replace(self.inputs, data=some))

    def kernel(self, *names: Kernel) -> list[Array]:
        """Return exact kernels."""
        with silence_range_warning():
            kernels = implicit_kernels(self.X, self.act, self.sigma_a2, self.sigma_b2)
        return kernels.compute(*names)

    def equivalent(
        self, kernel: Kernel, form: Form = Form.PAPERS, components: int = 0
    ) -> Equivalent:
        """Return the closed-form matrix of one kernel."""
        data = self.inputs.data
        variances = {"sigma_a2": self.sigma_a2, "sigma_b2": self.sigma_b2}
        scalars = self.scalars or sphere_scalars(
            self.act, data.X.shape[1], kernel=kernel, **variances
        )
        known = self.inputs.statistics
        return equivalent(data.X, data.y, scalars, kernel, known, form, components)


def deq_model(
    inputs: Inputs, act: str, sigma_a2: float, sigma_b2: float, tau0: float | None = None
) -> Model:
    """Build a DEQ on its samples, centred where the theory asks for it.

    That is at the tau0 of its equivalent, unless another is given.
    """
    chosen = activation(act)
    if inputs.statistics is None:
        return Model(inputs, chosen, sigma_a2, sigma_b2, None)
    with silence_range_warning():
        scalars = implicit_scalars(
            chosen, sigma_a2, sigma_b2, inputs.statistics.tau0 if tau0 is None else tau0
        )
    return Model(inputs, chosen.shifted(scalars.shift), sigma_a2, sigma_b2, scalars)
