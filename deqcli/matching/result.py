"""What a search for a twin returns."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, replace
from typing import Any

from deqcli.activations import Activation
from deqcli.display import Displayed
from deqcli.matching.fit import Design
from deqcli.scalars import ImplicitScalars
from deqcli.vocabulary import Kernel


@dataclass(frozen=True)
class Slope:
    r"""A slope in :math:`\|x_i\|^2`: of the diagonal, or of the linear coefficient (theory.md §6).

    Attributes
    ----------
    target, achieved : float
        Of the DEQ and of its twin; of the linear coefficient relative to it.
    mismatch : float
        ``achieved - target`` as the relative error for a sample whose squared norm is off by all of
        tau0^2 (a fraction in practice).
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


@dataclass(frozen=True, repr=False)
class Match(Displayed):
    """An explicit network beside the DEQ that it is to equal.

    Attributes
    ----------
    feasible : bool
        By scalars: whether every one agrees to 1e-10, relative to the scalar (to the kernel for
        zeros). Fitted to data: whether the held-out distance is within the limit.
    kernel : Kernel
        What was matched, of the DEQ.
    family : str
        ``htanh``, ``lrelu``, ``quadratic``, ``cubic``, ``spline`` or ``quintic``.
    layers : int
    acts : tuple of Activation
        With their shifts, for ``explicit_kernels``; of the nearest network if not feasible.
    target, achieved, residuals : dict of str to float
        The four scalars by name; residuals are signed and relative. A network that was fitted to
        data is not centred, and has no such scalars: the last two are empty.
    diagonal_slope, linear_slope : Slope, optional
        None on the sphere, where norms do not move, and on data.
    reason : str
        One sentence.
    suggestion : str
        Where the request is not feasible, what would work; else empty.
    alternatives : tuple of Attempt
        All that was tried, in order, this network among them.
    tau0 : float
    deq : ImplicitScalars, optional
        The DEQ; None for a bare target and on the sphere.
    act : Activation, optional
        Of the DEQ, centred; on the sphere as it is.
    variances : tuple of float, optional
        ``sigma_a2`` and ``sigma_b2`` of the DEQ of a twin on the sphere.
    dimension : int, optional
        Of the sphere's space, for a twin on the unit sphere.
    limit : float, optional
        The relative distance that was asked for, of a twin that was fitted to data.
    distance, frobenius : float, optional
        Of the twin's kernel from the DEQ's on rows that were not fitted to, in operator norm and
        in Frobenius norm, relative to the DEQ's.
    plain, plain_distance : tuple of Activation, float, optional
        The control of as many layers, and its distance.
    norms_range : tuple of float, optional
        Root mean squared norms between which the rows that it was judged on may be rescaled so
        that the twin stays within the limit, to 4 %; searched from half to twice their own.
    design : Design, optional
        The rows that were fitted to.
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
    diagonal_slope: Slope | None = None
    linear_slope: Slope | None = None
    suggestion: str = ""
    alternatives: tuple[Attempt, ...] = ()
    tau0: float = 1.0
    deq: ImplicitScalars | None = None
    act: Activation | None = None
    variances: tuple[float, float] | None = None
    dimension: int | None = None
    limit: float | None = None
    distance: float | None = None
    frobenius: float | None = None
    plain: tuple[Activation, ...] = ()
    plain_distance: float | None = None
    norms_range: tuple[float, float] | None = None
    design: Design | None = None

    def _facts(self) -> dict[str, object]:
        return {
            "of": f"the {self.kernel} of {self.deq.activation}" if self.deq else f"a {self.kernel}",
            "feasible": "yes" if self.feasible else "no",
            "layers": [_short(name, shift) for name, shift in self.names],
            "worst residual" if self.distance is None else "distance": self.worst,
            "why": self.reason,
        }

    @property
    def within(self) -> bool:
        """Whether the twin is what was asked for; the same as ``feasible``."""
        return self.feasible

    @property
    def twin_kernel(self) -> Kernel:
        """The matched kernel in ``explicit_kernels``, ``ck`` or ``ntk``."""
        return self.kernel.explicit

    @property
    def worst(self) -> float:
        """The largest absolute relative residual; of a twin on data, its distance."""
        if self.distance is not None:
            return self.distance
        return max((abs(r) for r in self.residuals.values()), default=float("inf"))

    @property
    def names(self) -> tuple[tuple[str, float], ...]:
        """Each layer's registry name and shift: ``activation(name).shifted(shift)``."""
        return tuple((act.name, act.shift) for act in self.acts)

    def as_record(self) -> dict[str, Any]:
        """Return everything but the functions, fit for JSON."""
        record = asdict(replace(self, act=None, acts=(), plain=(), design=None, deq=None))
        record["deq"] = None if self.deq is None else self.deq.as_record()
        record["acts"] = [{"name": name, "shift": shift} for name, shift in self.names]
        record["plain"] = [{"name": act.name, "shift": act.shift} for act in self.plain]
        record["design"] = None if self.design is None else self.design.as_record()
        del record["act"], record["variances"]
        return {"activations" if key == "acts" else key: value for key, value in record.items()}


def _short(name: str, shift: float) -> str:
    """Return an activation for a person: six digits, and the constant that is subtracted.

    Examples
    --------
    >>> _short("htanh:a=0.7642966792080208,c=1.1964853252887853", 0.0)
    'htanh:a=0.764297,c=1.19649'
    >>> _short("relu", 0.3989422804014327), _short("cos", -0.5)
    ('relu - 0.398942', 'cos + 0.5')
    """
    name = re.sub(r"\d+\.\d+(e[+-]?\d+)?", lambda found: f"{float(found[0]):.6g}", name)
    return f"{name} {'-' if shift > 0 else '+'} {abs(shift):.6g}" if shift else name
