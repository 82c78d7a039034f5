r"""The papers' misprints as an experiment: the printed form beside the right one, against n.

theory.md §7 lists formulas that cannot be right as printed. Those with a number are measured: the
operator-norm error of the closed form as printed and as corrected, on the same samples. The right
one falls like :math:`n^{-1/2}`; the printed one stays away. A point is one erratum at one n in one
trial; one more has simulated networks say which definition of the tangent kernel is right. What
has no such curve is in :mod:`deqcli.studies.errata_claims`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from deqcli.equivalents import equivalent
from deqcli.errors import ConvergenceError, InputError
from deqcli.kernels.explicit import explicit_kernels
from deqcli.monte_carlo import Ensemble, accumulate
from deqcli.runs.seeds import stream
from deqcli.runs.task import Assembled, Task
from deqcli.scalars import Coefficients, SphereScalars
from deqcli.scalars import explicit_scalars as solve_explicit
from deqcli.spectra import operator_distance, operator_norm
from deqcli.studies import inputs
from deqcli.studies.errata_claims import claims
from deqcli.studies.error_vs_n import slope
from deqcli.studies.misprints import (
    SIGMA_A2,
    Erratum,
    hld_theorem_3,
    iclr_diagonal,
    icml_tangent_kernel,
    icml_theorem_1,
    icml_theorem_3,
)
from deqcli.vocabulary import Kernel

Array = NDArray[np.float64]
Arrays = dict[str, NDArray[Any]]

STUDY = "errata"
VERSION = 1

#: The mixture of all but the last: p/n of the papers' Figure 1. Their means of norm 8 leave a large
#: error of any form at these sizes; the theorems hold for all means, and norm 2 shows the limit.
RATIO, MEAN_NORM, PAPERS_MEAN_NORM = 1.25, 2.0, 8.0
#: HLD's points on the sphere: d/n of its Figure 1.
SPHERE_RATIO = 1.2
#: The simulated networks that measure the tangent kernel itself.
_EMPIRICAL = "empirical NTK"
_NETWORKS, _WIDTH, _SAMPLES = 60, 2000, 64

ERRATA = {
    "icml-theorem-1": Erratum("ICML Theorem 1", "ck", "α2 = m2² α4 / 4D", "α2 = m2² α4² / 4D", 2.0),
    "iclr-theorem-1": Erratum(
        "ICLR Theorem 1", "preactivation_ck", "diagonal with −τ0⁴ α3", "no such term"),
    "iclr-theorem-2": Erratum(
        "ICLR Theorem 2", "preactivation_ntk", "diagonal with −τ0⁴ β3", "no such term"),
    "icml-theorem-3": Erratum(
        "ICML Theorem 3", "explicit ck", "α̃4 and α̃1 not squared, α̃4 without ½",
        "α̃2 with α̃4², α̃3 with α̃1², α̃4 with ½"),
    "icml-ntk": Erratum("ICML NTK", "ntk", "K* = G/(1 − Ġ), with κ² from τ* and its β3",
        "Θ = G + Λ (Ġ/σa²)/(1 − Ġ) for the network, K = Λ/(1 − Ġ) before the activation"),
    "hld-theorem-3": Erratum(
        "HLD Theorem 3", "preactivation_ntk", "k'(0) over σa² f' − 1", "k'(0) over 1 − σa² f'"),
}  # fmt: skip

#: What the numbers depend on, for a reader of the page.
SETUP = (
    f"Set-up: centred ReLU, σa² = {SIGMA_A2:g}, σb² = {1 - SIGMA_A2:g} "
    f"({ERRATA['icml-theorem-1'].sigma_b2:g} for ICML Theorem 1, where α4 ≈ 1 would hide the "
    f"misprint), two layers of ReLU for ICML Theorem 3; the papers’ two-class mixture with "
    f"p/n = {RATIO:g} and means of norm {MEAN_NORM:g} (theirs have {PAPERS_MEAN_NORM:g}, which "
    f"leaves a large error of any form at these n). HLD Theorem 3: normalised ReLU on the sphere, "
    f"d/n = {SPHERE_RATIO:g}. Errors are operator norms, not relative, averaged over the trials."
)


def measure(spec: Mapping[str, Any], name: str, n: int, trial: int) -> Arrays:
    """Return the errors of both forms of one erratum on one set of samples."""
    erratum = ERRATA[name]
    sphere = name.startswith("hld")
    model = _model(spec, n, sphere, erratum.sigma_b2, n, trial)
    data, statistics = model.inputs.data, model.inputs.statistics
    if name == "icml-ntk":
        kernel, ck, preactivation = model.kernels().compute("ntk", "ck", "preactivation_ck")
        printed = icml_tangent_kernel(ck, preactivation, SIGMA_A2)
        return _errors(kernel, printed, model.equivalent("ntk"))
    scalars: Coefficients | SphereScalars
    if name == "icml-theorem-3":
        assert statistics is not None
        network = solve_explicit(["relu", "relu"], statistics.tau0)
        kernel = explicit_kernels(data.X, network.acts).ck
        right = equivalent(data.X, data.y, network, "ck", statistics)
        scalars = icml_theorem_3(network)
    else:
        kernel = model.kernels().compute(erratum.kernel)[0]
        right = model.equivalent(erratum.kernel)
        if model.scalars is None:
            # On the sphere the core of the equivalent is alpha, its ridge mu.
            alpha = right.core.item()
            known = SphereScalars(alpha, right.linear, right.ridge, data.X.shape[1])
            scalars = hld_theorem_3(known)
        elif name == "icml-theorem-1":
            scalars = icml_theorem_1(model.scalars)
        else:
            scalars = iclr_diagonal(model.scalars.coefficients(erratum.kernel))
    return _errors(kernel, equivalent(data.X, data.y, scalars, statistics=statistics), right)


def _model(
    spec: Mapping[str, Any], n: int, sphere: bool, sigma_b2: float, *names: str | int
) -> inputs.Model:
    if sphere:
        drawn = {"data": "sphere", "p": round(SPHERE_RATIO * n)}
    else:
        drawn = {"data": "gmm", "p": round(RATIO * n), "classes": 2, "covariance": "papers",
                 "mean_norm": MEAN_NORM}  # fmt: skip
    loaded = inputs.load({**drawn, "n": n, "seed": spec["seed"]}, STUDY, *names)
    return inputs.model(loaded, "nrelu" if sphere else "relu", SIGMA_A2, sigma_b2)


def _errors(kernel: Array, printed: Any, right: Any) -> Arrays:
    return {
        "printed": np.array(operator_distance(kernel, printed)),
        "right": np.array(operator_distance(kernel, right)),
        "norm": np.array(operator_norm(kernel)),
    }


def resolve(*, sizes: Sequence[int], trials: int, seed: int) -> dict[str, Any]:
    """Return the resolved spec; activations, variances and data belong to each erratum."""
    if len(set(sizes)) < 2 or min(sizes) < 16:
        raise InputError("--n needs at least two different sizes of at least 16 for a trend.")
    return {"sizes": sorted(set(sizes)), "trials": int(trials), "seed": int(seed)}


def task(spec: Mapping[str, Any], formats: tuple[str, ...] = ("png",)) -> Task:
    """Return the study's points, the largest first so that the last ones to finish are short."""
    from deqcli.figures.errata import draw

    points: dict[str, tuple[Any, ...]] = {
        _key(name, n, trial): (name, n, trial)
        for n in reversed(spec["sizes"])
        for name in ERRATA
        for trial in range(spec["trials"])
    }
    points[_EMPIRICAL] = (_EMPIRICAL, _SAMPLES, 0)
    largest = max(spec["sizes"])
    return Task(
        study=STUDY,
        version=VERSION,
        spec=spec,
        points=points,
        run_point=run_point,
        assemble=lambda load: assemble(spec, load),
        draw=draw,
        formats=formats,
        memory=8 * 6 * largest**2 + 200_000_000,
        memory_hint="lower the largest --n or --jobs",
    )


def _key(name: str, n: int, trial: int) -> str:
    return f"{name} n={n} trial={trial}"


def run_point(spec: Mapping[str, Any], name: str, n: int, trial: int) -> Arrays:
    """Measure one erratum, or what simulated networks say of the tangent kernel."""
    if name == _EMPIRICAL:
        return _empirical(spec)
    return measure(spec, name, n, trial)


def _empirical(spec: Mapping[str, Any]) -> Arrays:
    """Compare both definitions of the tangent kernel with that of random networks."""
    model = _model(spec, _SAMPLES, False, 1 - SIGMA_A2, _EMPIRICAL)
    ensemble = Ensemble(model.act, SIGMA_A2, 1 - SIGMA_A2, width=_WIDTH, kernels=(Kernel.NTK,))
    total = accumulate(
        model.inputs.data.X,
        ensemble,
        range(_NETWORKS),
        lambda index: stream(spec["seed"], STUDY, _EMPIRICAL, index),
    )
    if total.converged < _NETWORKS:
        raise ConvergenceError("a simulated network did not converge; choose another --seed.")
    right, ck, preactivation = model.kernels().compute("ntk", "ck", "preactivation_ck")
    printed = icml_tangent_kernel(ck, preactivation, SIGMA_A2)
    return _errors(total.mean("ntk"), printed, right)


def assemble(spec: Mapping[str, Any], load: Callable[[str], Arrays]) -> Assembled:
    """Make the table, one row a form and point, and each erratum's evidence."""
    rows = [
        {"erratum": name, "where": erratum.where, "form": form, "kernel": erratum.kernel, "n": n,
         "trial": trial, "error": float(point[form]), "norm": float(point["norm"])}
        for name, erratum in ERRATA.items()
        for n in spec["sizes"]
        for trial in range(spec["trials"])
        for point in [load(_key(name, n, trial))]
        for form in ("printed", "right")
    ]  # fmt: skip
    table = pd.DataFrame(rows)
    empirical = load(_EMPIRICAL)
    norm = float(empirical["norm"])
    return Assembled(
        table,
        {
            "errata": {name: _evidence(table, name) for name in ERRATA},
            "empirical_ntk": {
                "printed_relative": float(empirical["printed"]) / norm,
                "right_relative": float(empirical["right"]) / norm,
                "networks": _NETWORKS,
                "width": _WIDTH,
                "samples": _SAMPLES,
            },
            "claims": claims(spec),
        },
    )


def _evidence(table: pd.DataFrame, name: str) -> dict[str, Any]:
    erratum = ERRATA[name]
    means = table[table["erratum"] == name].groupby(["form", "n"])["error"].mean()
    found: dict[str, Any] = {
        "where": erratum.where,
        "printed": erratum.printed,
        "right": erratum.right,
        "kernel": erratum.kernel,
        "sizes": sorted({int(n) for n in table["n"]}),
    }
    for form in ("printed", "right"):
        curve = means.loc[form]
        found[f"{form}_errors"] = [float(value) for value in curve]
        found[f"{form}_slope"] = slope(curve.index.to_numpy(), curve.to_numpy())
    return found
