"""Settings of ``deqcli match``: the DEQ, the samples, and which twins are looked for."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from deqcli.checks import LARGEST, SMALLEST
from deqcli.errors import InputError
from deqcli.settings import setting, with_default
from deqcli.shared_settings import (
    LAW_FIELDS,
    DeqSettings,
    MonteCarloSettings,
    SampleSettings,
    kernel_setting,
)
from deqcli.vocabulary import Kernel

#: One L-ReLU layer by the equations of ICLR Corollary 2; whether they are as printed.
COROLLARY_2 = {"corollary-2": False, "corollary-2-printed": True}
#: Families that have no solution by scalars.
FITTED = ("spline", "quintic")


@dataclass(frozen=True, kw_only=True)
class MatchSettings(MonteCarloSettings, SampleSettings, DeqSettings):
    """Settings of ``deqcli match``."""

    act: str = with_default(DeqSettings, "act", "relu")
    sigma_a2: float = with_default(DeqSettings, "sigma_a2", 0.2)
    kernel: Kernel = kernel_setting(Kernel.CK)
    family: str = setting(
        "auto",
        "Activations of the twin; auto: the smallest network that matches, piecewise linear ones "
        "first; spline (piecewise linear) and quintic need data; corollary-2: one L-ReLU layer by "
        "ICLR's equations, corrected or as printed.",
        choices=("auto", "htanh", "lrelu", "quadratic", "cubic", *FITTED, *COROLLARY_2),
    )
    layers: str = setting(
        "auto", "Hidden layers of the twin; on data 1 or 2 takes the nearest of all families.",
        choices=("1", "2", "auto"),
    )  # fmt: skip
    design: int = setting(
        200, "Samples that the twin is fitted to, at most half; it is judged on the others, and "
        "the DEQ is centred at the root mean squared norm of all. 0: no fit, the papers' four "
        "scalars alone, at the tau0 of the equivalent.", least=0,
    )  # fmt: skip
    within: float = setting(
        0.01, "Distance, in units of the DEQ's norm, at which a twin on data matches.",
        above=0, below=1,
    )  # fmt: skip
    tau0: float | None = setting(
        None, "Root of the data's mean variance, in place of data (no spectra).",
        least=SMALLEST, most=LARGEST,
    )  # fmt: skip
    averaged: bool = setting(
        False, "Also average both kernels over random networks, as the papers do."
    )
    export: str | None = setting(
        None,
        "Write a self-contained Python file that defines the twin.",
        choices=("torch", "numpy"),
        identity=False,
    )

    @property
    def fitted(self) -> bool:
        """Whether the twin is fitted to samples."""
        closed = self.tau0 is not None or self.on_sphere or self.family in COROLLARY_2
        return self.design > 0 and not closed

    def check(self) -> None:
        """Refuse what does not go together."""
        super().check()
        if not self.fitted and self.family in FITTED:
            raise InputError(f"`family` is {self.family}, which is fitted to data; give another.")
        if self.fitted and self.n is not None and self.n < 20:
            raise InputError(
                f"`n` is {self.n}; a twin is fitted to 20 samples or more (`design` 0: to none)."
            )
        if self.fitted and self.design == 1:
            raise InputError("`design` is 1; give at least 2, or 0 for no fit.")
        if self.averaged and self.tau0 is not None:
            raise InputError(
                "`averaged` is given with `tau0`, which has no samples; leave one out."
            )
        if self.family in COROLLARY_2 and self.layers == "2":
            raise InputError(f"`layers` is 2, but `family` {self.family} has one.")
        if not self.on_sphere:
            return
        if self.family not in ("auto", "quadratic", "cubic"):
            raise InputError(f"`family` is {self.family}; on the sphere give quadratic or cubic.")
        if self.layers == "2":
            raise InputError("`layers` is 2; on the sphere one layer is enough (HLD Corollary 1).")
        if self.tau0 is not None:
            raise InputError("`tau0` does not matter on the sphere; leave it out.")

    def unused(self) -> Collection[str]:
        """Return the fields that do not matter for these settings."""
        drawn = () if self.averaged else self.MONTE_CARLO
        samples = super().unused() if self.tau0 is None else {"data", "n", *LAW_FIELDS}
        if self.on_sphere or self.family in COROLLARY_2:
            return {*samples, *drawn, "design", "within"}
        return {*samples, *drawn, *(() if self.tau0 is None else ("design",))}

    def inputs(self) -> dict[str, Any]:
        """Return the checksums of what is read; without data, of nothing."""
        return super().inputs() if self.tau0 is None else {}
