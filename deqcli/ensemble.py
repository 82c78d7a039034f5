"""The settings of a Monte-Carlo simulation: which random networks, and how to solve them."""

from __future__ import annotations

import dataclasses
import math
from typing import Literal, get_args

import numpy as np

from deqcli.activations import Activation
from deqcli.errors import InputError
from deqcli.weights import check_law

Kernel = Literal["ck", "preactivation_ck", "ntk", "preactivation_ntk"]
Solver = Literal["gauss-seidel", "picard", "anderson"]
Precision = Literal["float32", "float64"]


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
    weights : str
        The law of the entries of A and B, a name of :data:`deqcli.weights.LAWS`; a is Gaussian.
    kernels : tuple of str
        Which of the four matrices to return.
    solver : {"gauss-seidel", "picard", "anderson"}
        All reach the same point; see :mod:`deqcli.fixed_point`.
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
    >>> Ensemble(activation("tanh"), 0.1, 0.9, width=1000, kernels=("ntk",)).needs_adjoint
    True
    >>> Ensemble(activation("tanh"), 0.1, 0.9, width=0)
    Traceback (most recent call last):
        ...
    deqcli.errors.InputError: width must be at least 1, not 0.
    """

    activation: Activation
    sigma_a2: float
    sigma_b2: float
    width: int
    weights: str = "gaussian"
    kernels: tuple[Kernel, ...] = ("ck",)
    solver: Solver = "gauss-seidel"
    tolerance: float = 1e-6
    max_iterations: int = 500
    dtype: Precision = "float32"

    def __post_init__(self) -> None:
        """Refuse values that mean nothing."""
        for name in ("sigma_a2", "sigma_b2"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise InputError(f"{name} must be a finite number of at least 0, not {value}.")
        if self.width < 1:
            raise InputError(f"width must be at least 1, not {self.width}.")
        check_law(self.weights)
        if not self.kernels:
            raise InputError(f"kernels is empty; name some of {', '.join(get_args(Kernel))}.")
        for kernel in self.kernels:
            _check_choice("kernel", kernel, get_args(Kernel))
        _check_choice("solver", self.solver, get_args(Solver))
        _check_choice("dtype", self.dtype, get_args(Precision))
        reach = 4 * float(np.finfo(self.dtype).eps)
        if not reach <= self.tolerance < 1:
            remedy = "; use float64" if self.dtype == "float32" and self.tolerance > 0 else ""
            raise InputError(
                f"tolerance must lie between {reach:.1g} and 1 in {self.dtype}, "
                f"not {self.tolerance:g}{remedy}."
            )
        if self.max_iterations < 1:
            raise InputError(f"max_iterations must be at least 1, not {self.max_iterations}.")

    @property
    def needs_adjoint(self) -> bool:
        """Whether a kernel was asked for that takes the second fixed point."""
        return any("ntk" in kernel for kernel in self.kernels)


def _check_choice(option: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise InputError(f"unknown {option} {value!r}: known are {', '.join(known)}.")
