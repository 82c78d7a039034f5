"""What ``deqcli predict`` is asked for: the networks, the axis and its values."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, NamedTuple

from deqcli.checks import LARGEST, POSITIVE, number
from deqcli.errors import InputError
from deqcli.settings import setting, with_default
from deqcli.shared_settings import DeqSettings, SampleSettings, SourceSettings, kernel_setting
from deqcli.vocabulary import Kernel, Net

#: What errors can be drawn against, with the values that are measured unless told otherwise.
AXES: dict[str, tuple[float, ...]] = {
    "width": (50, 100, 200, 300, 400, 600, 800, 1600, 3200),
    "n": (100, 200, 400, 800, 1600),
    "ridge": (1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0),
    "mean-norm": (0.5, 1.0, 1.5, 2.0, 2.5, 3.0),
    "sigma-a2": (0.0, 0.05, 0.1, 0.15, 0.2),
}
_WHOLE = ("width", "n")
# Points of a line between the measured ones.
_LINE = 16
#: The width that stands for infinitely many neurons in tables.
INFINITE = 0


class Place(NamedTuple):
    """Where networks are trained: one value of each axis; no width is an infinite one."""

    width: int | None
    n: int
    ridge: float
    mean_norm: float
    sigma_a2: float


@dataclass(frozen=True, kw_only=True)
class PredictSettings(SampleSettings, DeqSettings):
    """Settings of ``deqcli predict``."""

    act: str = with_default(DeqSettings, "act", "relu")
    sigma_a2: float = with_default(DeqSettings, "sigma_a2", 0.2)
    kernel: Kernel = kernel_setting(Kernel.CK, "ck: the readout is trained, ntk: all weights, as "
                                    "in the lazy regime. The kernels")  # fmt: skip
    n: int = setting(400, "Training samples, the same number of each class.", least=4)
    p: int | None = setting(
        None, "Dimension of drawn samples.", least=2, metavar="P", default_text="500",
        derive=lambda settings: 500 if settings.drawn else None,
    )  # fmt: skip
    mean_norm: float = with_default(SourceSettings, "mean_norm", 2.0)
    ridge: float = setting(
        0.01, "Ridge, in units of the kernel's mean diagonal.", least=0, most=LARGEST
    )
    against: str = setting("width", "What errors are drawn against.", choices=tuple(AXES))
    values: tuple[float, ...] = setting(
        None, "Its values at which networks are trained, separated by commas.", least=0,
        most=LARGEST, metavar="VALUE,…", derive=lambda settings: AXES[settings.against],
        default_text="50 to 3200 neurons; others in the text",
    )  # fmt: skip
    width: int | None = setting(
        None, "Neurons of each layer, where errors are drawn against something else.", least=1,
        default_text="infinitely many: exact kernels",
    )  # fmt: skip
    nets: tuple[Net, ...] = setting(
        tuple(Net), "Networks: the DEQ, its explicit twin, a plain one of as many layers."
    )
    twin: str = setting(
        "data", "How the twin is found; data: fitted to the DEQ's kernel on samples; scalars: it "
        "has the DEQ's four scalars.", choices=("data", "scalars"),
    )  # fmt: skip
    bias: bool = setting(False, "Train a bias too, which makes the residuals sum to zero.")
    test_size: int = setting(1000, "New samples that errors are measured on.", least=2)
    trials: int = setting(
        10, "Networks of each kind at each value, each on samples of its own.", least=1, most=10_000
    )

    def check(self) -> None:
        """Refuse what cannot be trained or predicted."""
        from deqcli.activations import activation
        from deqcli.gaussian import check_existence
        from deqcli.prediction.error import check_peak

        super().check()
        if self.on_sphere:
            raise InputError("`data` is sphere, which has no classes; take another.")
        if self.kernel.before_activation:
            raise InputError(f"`kernel` is {self.kernel}; networks are trained by ck and ntk.")
        classes = self.law(self.p).n_classes
        if classes < 2:
            raise InputError("there is one class; `classes` must be at least 2 to be told apart.")
        if self.test_size < classes:
            raise InputError(f"`test_size` is {self.test_size}; give one of each class or more.")
        if self.against == "mean-norm" and self.data != "gmm":
            raise InputError(f"`against` is mean-norm, which `data` {self.data} does not have.")
        for value in self.values:
            if self.against in _WHOLE:
                if value != int(value):
                    raise InputError(f"`values` has {value:g}; give whole numbers.")
                number(int(value), "values", int, POSITIVE)
            place = self.place(value)
            if place.n < 2 * classes:
                raise InputError(f"`n` is {place.n}; give two samples of each class or more.")
            if place.width is not None and self.kernel is Kernel.CK:
                given = "width" if self.against != "width" else "values"
                check_peak(place.ridge, place.width, place.n, given)
            if self.against == "sigma-a2":
                check_existence(activation(self.act), value, self._sigma_b2(value))

    def unused(self) -> Collection[str]:
        """Return the names of settings that the axis takes the place of, or the data has not."""
        axis = {"n", "ridge", "mean_norm", "sigma_a2", "width"} & {self.against.replace("-", "_")}
        return {*super().unused(), *axis}

    def place(self, value: float) -> Place:
        """Return where networks are trained for one value of the axis."""
        here = Place(self.width, self.n, self.ridge, self.mean_norm, self.sigma_a2)
        found: Any = int(value) if self.against in _WHOLE else value
        if self.against == "width" and value == INFINITE:
            found = None
        return here._replace(**{self.against.replace("-", "_"): found})

    def _sigma_b2(self, sigma_a2: float) -> float:
        return 1 - sigma_a2 if self.sigma_b2 == 1 - self.sigma_a2 else self.sigma_b2

    def deq(self, sigma_a2: float) -> tuple[str, float, float]:
        """Return the DEQ of one variance; the other one follows it unless it was given."""
        return self.act, sigma_a2, self._sigma_b2(sigma_a2)

    @property
    def measured(self) -> tuple[float, ...]:
        """The values at which networks are trained; against width, also the limit."""
        return (*self.values, INFINITE) if self.against == "width" else self.values


def line(settings: PredictSettings) -> tuple[float, ...]:
    """Return the values at which errors are predicted: those measured, and some between."""
    import numpy as np

    linear = settings.against == "mean-norm"
    values = np.array([value for value in settings.values if value or linear])
    between: Any = []
    if settings.against != "sigma-a2" and np.unique(values).size > 1:
        space = np.linspace if linear else np.geomspace
        between = space(values.min(), values.max(), _LINE)
        if settings.against in _WHOLE:
            between = np.round(between)
            if settings.ridge == 0:
                # There the variance of a readout is infinite.
                peak = settings.n if settings.against == "width" else settings.width
                between = between[between != peak]
    ends = (INFINITE,) if settings.against == "width" else ()
    found = {float(f"{value:.6g}") for value in between} | set(settings.values) | set(ends)
    return tuple(sorted(found))
