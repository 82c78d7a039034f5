"""What matching returns."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from deqcli.activations import Activation
from deqcli.scalars import ImplicitScalars
from deqcli.vocabulary import Kernel


@dataclass(frozen=True)
class DiagonalSlope:
    r"""The slope of the kernel's diagonal in :math:`\|x_i\|^2` (theory.md §6).

    Attributes
    ----------
    target, achieved : float
        Of the DEQ and of its twin.
    mismatch : float
        ``achieved - target`` in units of d / tau0^2: the relative error of the diagonal for a
        sample whose squared norm is off by all of tau0^2 (a fraction in practice).
    """

    target: float
    achieved: float
    mismatch: float


@dataclass(frozen=True)
class Attempt:
    """A family and depth that was tried: the largest relative residual, and why it failed."""

    family: str
    layers: int
    feasible: bool
    worst: float
    reason: str


@dataclass(frozen=True)
class Match:
    """An explicit network beside the DEQ that it is to equal.

    Attributes
    ----------
    feasible : bool
        Whether every scalar agrees to 1e-10, relative to the scalar (to the kernel for zeros).
    kernel : Kernel
        What was matched, of the DEQ.
    family : str
        ``htanh``, ``lrelu``, ``quadratic`` or ``cubic``.
    layers : int
    acts : tuple of Activation
        Centred, for ``explicit_kernels``; of the nearest network if not feasible.
    target, achieved, residuals : dict of str to float
        The four scalars by name; residuals are signed and relative.
    diagonal_slope : DiagonalSlope, optional
        None on the sphere, where norms do not move.
    reason : str
        One sentence.
    suggestion : str
        Where the request is not feasible, what would work; else empty.
    alternatives : tuple of Attempt
        All that was tried, in order, this network among them.
    tau0 : float
    deq : ImplicitScalars, optional
        The DEQ; None for a bare target and on the sphere.
    dimension : int, optional
        Of the sphere's space, for a twin on the unit sphere.
    """

    feasible: bool
    kernel: Kernel
    family: str
    layers: int
    acts: tuple[Activation, ...]
    target: dict[str, float]
    achieved: dict[str, float]
    residuals: dict[str, float]
    reason: str
    diagonal_slope: DiagonalSlope | None = None
    suggestion: str = ""
    alternatives: tuple[Attempt, ...] = ()
    tau0: float = 1.0
    deq: ImplicitScalars | None = None
    dimension: int | None = None

    @property
    def deq_kernel(self) -> Kernel:
        """The matched kernel in ``implicit_kernels``."""
        return self.kernel

    @property
    def twin_kernel(self) -> Kernel:
        """The matched kernel in ``explicit_kernels``, ``ck`` or ``ntk``."""
        return self.kernel.explicit

    @property
    def worst(self) -> float:
        """The largest absolute relative residual."""
        return max(abs(r) for r in self.residuals.values())

    @property
    def names(self) -> tuple[tuple[str, float], ...]:
        """Each layer's registry name and shift: ``activation(name).shifted(shift)``."""
        return tuple((act.name, act.shift) for act in self.acts)

    def as_record(self) -> dict[str, Any]:
        """Return everything but the functions, fit for JSON."""
        return {
            "feasible": self.feasible,
            "kernel": self.kernel,
            "family": self.family,
            "layers": self.layers,
            "activations": [{"name": name, "shift": shift} for name, shift in self.names],
            "target": self.target,
            "achieved": self.achieved,
            "residuals": self.residuals,
            "diagonal_slope": asdict(self.diagonal_slope) if self.diagonal_slope else None,
            "reason": self.reason,
            "suggestion": self.suggestion,
            "alternatives": [asdict(a) for a in self.alternatives],
            "tau0": self.tau0,
            "deq": asdict(self.deq) if self.deq else None,
            "dimension": self.dimension,
        }
