"""What matching returns."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from deqcli.activations import Activation
from deqcli.matching.targets import KERNELS
from deqcli.scalars import ImplicitScalars


@dataclass(frozen=True)
class Fifth:
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
    kernel : str
        What was matched, a key of :data:`deqcli.matching.targets.KERNELS`.
    family : str
        ``htanh``, ``lrelu``, ``quadratic`` or ``cubic``.
    layers : int
    acts : tuple of Activation
        Centred, for ``explicit_kernels``; of the nearest network if not feasible.
    target, achieved, residuals : dict of str to float
        The four scalars by name; residuals are signed and relative.
    fifth : Fifth
    reason : str
        One sentence.
    suggestion : str
        Where the request is not feasible, what would work; else empty.
    alternatives : tuple of Attempt
        All that was tried, in order, this network among them.
    tau0 : float
    deq : ImplicitScalars, optional
        The DEQ; None for a bare target.
    """

    feasible: bool
    kernel: str
    family: str
    layers: int
    acts: tuple[Activation, ...]
    target: dict[str, float]
    achieved: dict[str, float]
    residuals: dict[str, float]
    fifth: Fifth
    reason: str
    suggestion: str
    alternatives: tuple[Attempt, ...]
    tau0: float
    deq: ImplicitScalars | None = None

    @property
    def deq_kernel(self) -> str:
        """The matched kernel's name in ``implicit_kernels``."""
        return KERNELS[self.kernel].deq

    @property
    def twin_kernel(self) -> str:
        """The matched kernel's name in ``explicit_kernels``."""
        return KERNELS[self.kernel].twin

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
            "fifth": asdict(self.fifth),
            "reason": self.reason,
            "suggestion": self.suggestion,
            "alternatives": [asdict(a) for a in self.alternatives],
            "tau0": self.tau0,
            "deq": None if self.deq is None else asdict(self.deq),
        }
