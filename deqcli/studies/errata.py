"""What the papers misprint, measured."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from deqcli.errors import InputError
from deqcli.quantities import Finished, Measured, Quantity
from deqcli.settings import setting
from deqcli.shared_settings import SeedSettings
from deqcli.studies.error_vs_n import RATE, fitted_slope, slope
from deqcli.study import Assembled, Study, Tolerance

if TYPE_CHECKING:
    import pandas as pd

    from deqcli.study import Arrays, Load

_EMPIRICAL = "empirical NTK"
_FORMS = ("printed", "right")


@dataclass(frozen=True, kw_only=True)
class ErrataSettings(SeedSettings):
    """Settings of ``deqcli errata``; activations, variances and data belong to each erratum."""

    n: tuple[int, ...] = setting(
        (250, 500, 1000, 2000, 4000),
        "Sample sizes, separated by commas.",
        least=16,
        metavar="N,…",
    )
    trials: int = setting(6, "Data sets at each n.", least=1, most=10_000)

    def check(self) -> None:
        if len(self.n) < 2:
            raise InputError(f"`n` is {self.n[0]}; give at least two sizes for a trend.")


class Errata(Study[ErrataSettings, ErrataSettings]):
    """What the papers misprint, measured: printed and right form against the exact kernel.

    For each formula that cannot be right as printed, the operator-norm error of the printed
    closed form (red) and of the corrected one (blue) for growing n; the right one falls like
    n^(-1/2). Simulated networks say which definition of the tangent kernel is right. A number
    for each claim that has no such formula is printed and kept in the JSON.
    """

    name = "errata"
    settings = ErrataSettings
    duration = "about four minutes"
    version = 2
    constants = {("erratum",): ("where", "kernel")}
    examples = ("", "--n 128,256,512 --trials 2")
    quick = {"n": 1000}
    tolerances = {"error": Tolerance(1e-5)}

    def prepare(self, settings: ErrataSettings) -> ErrataSettings:
        """Return the settings: every point draws samples of its own."""
        return settings

    def points(self, settings: ErrataSettings) -> dict[str, tuple[Any, ...]]:
        """Return the largest sizes first, so that the last ones to finish are short."""
        from deqcli.false_claims import CLAIMS
        from deqcli.misprints import ERRATA

        points: dict[str, tuple[Any, ...]] = {
            _key(name, n, trial): (name, n, trial)
            for n in reversed(settings.n)
            for name in ERRATA
            for trial in range(settings.trials)
        }
        return points | {name: (name,) for name in (_EMPIRICAL, *CLAIMS)}

    def memory(self, settings: ErrataSettings) -> int:
        from deqcli.misprints import RATIO
        from deqcli.runs.memory import peak

        square = 8 * max(settings.n) ** 2
        samples = round(RATIO * square)
        return peak(loading=3 * samples, held=samples, work=8 * square)

    def compute(self, settings: ErrataSettings, name: str, n: int = 0, trial: int = 0) -> Arrays:
        """Measure one erratum, what simulated networks say, or the number of one claim."""
        import numpy as np

        from deqcli.false_claims import CLAIMS
        from deqcli.misprints import measure, measure_networks

        if name == _EMPIRICAL:
            return measure_networks(settings.seed)
        if name in CLAIMS:
            return {"evidence": np.array(json.dumps(CLAIMS[name].evidence(settings.seed)))}
        return measure(name, settings.seed, n, trial)

    def assemble(self, settings: ErrataSettings, load: Load) -> Assembled:
        """Make the table, one row a form and point, and the evidence of each entry."""
        import pandas as pd

        from deqcli.false_claims import CLAIMS
        from deqcli.misprints import ERRATA, NETWORKS, SAMPLES, SETUP, WIDTH

        rows = [
            {"erratum": name, "where": erratum.where, "form": form, "kernel": erratum.kernel,
             "n": n, "trial": trial, "error": float(point[form]), "norm": float(point["norm"])}
            for name, erratum in ERRATA.items()
            for n in settings.n
            for trial in range(settings.trials)
            for point in [load(_key(name, n, trial))]
            for form in _FORMS
        ]  # fmt: skip
        table = pd.DataFrame(rows)
        networks = {key: float(value) for key, value in load(_EMPIRICAL).items()}
        empirical = {
            "printed_relative": networks["printed"] / networks["norm"],
            "right_relative": networks["right"] / networks["norm"],
            "frozen_relative": networks["frozen"] / networks["frozen_norm"],
            "networks": NETWORKS,
            "width": WIDTH,
            "samples": SAMPLES,
        }
        curves = {name: _curve(table, name) for name in ERRATA}
        claims = {name: json.loads(str(load(name)["evidence"])) for name in CLAIMS}
        sentences = {
            name: _sentence(curve, empirical if name == "icml-ntk" else None)
            for name, curve in curves.items()
        } | {name: claim["evidence"] for name, claim in claims.items()}
        entries = [
            {"name": name, "where": entry.where, "printed": entry.printed, "right": entry.right,
             "evidence": sentences[name]}
            for known in (ERRATA, CLAIMS)
            for name, entry in known.items()
        ]  # fmt: skip
        sizes = ", ".join(map(str, settings.n))
        return Assembled(
            table,
            {
                "errata": curves,
                "empirical_ntk": empirical,
                "claims": claims,
                "entries": entries,
                "setup": f"{SETUP} Here n = {sizes}; {settings.trials} trial(s) each.",
            },
        )

    def sentences(self, findings: Mapping[str, Any]) -> Iterable[str]:
        for entry in findings["entries"]:
            yield f"{entry['where']}: {entry['evidence']}"

    def quantities(self, settings: ErrataSettings) -> Sequence[Quantity]:
        from deqcli.misprints import ERRATA

        return tuple(
            Quantity(
                f"{name}-{key}",
                f"{erratum.where}, {form}: slope of log error against log n",
                partial(_measured_slope, name=name, form=key),
                RATE,
                note,
            )
            for name, erratum in ERRATA.items()
            for key, form, note in (
                ("printed", "as printed", "Misprint."),
                ("right", "corrected", ""),
            )
        )


def _key(name: str, n: int, trial: int) -> str:
    return f"{name} n={n} trial={trial}"


def _curve(table: pd.DataFrame, name: str) -> dict[str, Any]:
    """Return the errors of both forms against n, averaged over trials, and their slopes."""
    curve: dict[str, Any] = {"sizes": sorted({int(n) for n in table["n"]})}
    for form in _FORMS:
        rows = table[(table["erratum"] == name) & (table["form"] == form)]
        errors = rows.groupby("n")["error"].mean()
        fitted = fitted_slope(rows, slope(errors.index.to_numpy(), errors.to_numpy()))
        curve[f"{form}_errors"] = [float(value) for value in errors]
        curve[f"{form}_slope"] = fitted.value
        curve[f"{form}_interval"] = fitted.spread
    return curve


def _sentence(curve: Mapping[str, Any], empirical: Mapping[str, Any] | None) -> str:
    """Return the evidence of an erratum in a sentence or two.

    Examples
    --------
    >>> _sentence({"sizes": [250, 4000], "printed_errors": [0.596, 0.668],
    ...            "right_errors": [0.117, 0.0278], "right_slope": -0.51,
    ...            "right_interval": 0.02}, None)
    'Error at n = 250 → 4000: printed 0.596 → 0.668, right 0.117 → 0.0278 (slope −0.51 ± 0.02).'
    """
    sizes, printed, right = (curve[k] for k in ("sizes", "printed_errors", "right_errors"))
    half = curve["right_interval"]
    known = "" if half is None else f" ± {half:.2f}"
    text = (
        f"Error at n = {sizes[0]} → {sizes[-1]}: printed {printed[0]:.3g} → {printed[-1]:.3g}, "
        f"right {right[0]:.3g} → {right[-1]:.3g} (slope {curve['right_slope']:.2f}{known})."
    ).replace("slope -", "slope −")
    if empirical is None:
        return text
    return (
        f"{text} Both against the exact G/(1 − Ġ), a definition: the tangent kernel with B frozen. "
        f"Of {empirical['networks']} simulated networks of width {empirical['width']} it "
        f"is {empirical['frozen_relative']:.1%} off without the gradient in B and "
        f"{empirical['printed_relative']:.0%} with it, Θ {empirical['right_relative']:.1%}."
    )


def _measured_slope(run: Finished, name: str, form: str) -> Measured:
    rows = run.table[(run.table["erratum"] == name) & (run.table["form"] == form)]
    return fitted_slope(rows, run.findings["errata"][name][f"{form}_slope"])


STUDY = Errata()
