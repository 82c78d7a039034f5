r"""How the equivalent's relative error :math:`\|M - \bar M\|/\|M\|` falls with the sample size.

The ICML slides' error figure: several activations, :math:`\sigma_a^2 = 0.2`, p/n = 0.8; the theory
promises a slope of -1/2 in log-log. A point is one activation at one n in one trial.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from deqcli.activations import activation
from deqcli.errors import ConvergenceError, InputError
from deqcli.gaussian import check_existence
from deqcli.monte_carlo import Ensemble, accumulate
from deqcli.runs.seeds import stream
from deqcli.runs.task import Assembled, Task
from deqcli.spectra import operator_distance, operator_norm
from deqcli.studies import inputs
from deqcli.vocabulary import Kernel

Arrays = dict[str, NDArray[Any]]

STUDY = "error-vs-n"
VERSION = 1


def resolve(
    *,
    acts: Sequence[str],
    sigma_a2: float,
    sigma_b2: float | None,
    kernel: str,
    sizes: Sequence[int],
    ratio: float,
    trials: int,
    estimator: str,
    monte_carlo: Mapping[str, Any],
    seed: int,
    data: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the resolved spec."""
    sigma_b2 = 1 - sigma_a2 if sigma_b2 is None else sigma_b2
    names = []
    for name in acts:
        chosen = activation(name)
        check_existence(chosen, sigma_a2, sigma_b2, papers_range=data["data"] != "sphere")
        names.append(chosen.name)
    if len(set(names)) != len(names):
        raise InputError("--act names an activation twice.")
    if len(set(sizes)) < 2 or min(sizes) < 8:
        raise InputError("--n needs at least two different sizes of at least 8 for a slope.")
    if not ratio > 0:
        raise InputError(f"--ratio must be positive, not {ratio:g}.")
    spec: dict[str, Any] = {
        **{key: value for key, value in data.items() if key not in ("n", "p", "samples")},
        "acts": names,
        "sigma_a2": float(sigma_a2),
        "sigma_b2": float(sigma_b2),
        "kernel": Kernel.of(kernel, "kernel").attribute,
        "sizes": sorted(set(sizes)),
        "trials": int(trials),
        "estimator": estimator,
        "seed": int(seed),
    }
    if data["data"] in ("gmm", "sphere"):
        spec["ratio"] = float(ratio)
    if estimator == "mc":
        spec |= monte_carlo
    return spec


def task(
    spec: Mapping[str, Any], formats: tuple[str, ...] = ("png",), data_dir: str | None = None
) -> Task:
    """Return the study's points, the largest first so that the last ones to finish are short."""
    from deqcli.figures.error_vs_n import draw

    points = {
        _key(act, n, trial): (act, n, trial, data_dir)
        for n in reversed(spec["sizes"])
        for act in spec["acts"]
        for trial in range(spec["trials"])
    }
    largest = max(spec["sizes"])
    width = spec.get("width", 0)
    return Task(
        study=STUDY,
        version=VERSION,
        spec=spec,
        points=points,
        run_point=run_point,
        assemble=lambda load: assemble(spec, load),
        draw=draw,
        formats=formats,
        memory=8 * 3 * largest**2 + 4 * width * (3 * width + 8 * largest) + 150_000_000,
        memory_hint="lower the largest --n or --jobs",
    )


def _key(act: str, n: int, trial: int) -> str:
    return f"{act} n={n} trial={trial}"


def run_point(
    spec: Mapping[str, Any], act: str, n: int, trial: int, data_dir: str | None
) -> Arrays:
    """Measure the error of one activation at one size on one data set."""
    here = {**spec, "n": n}
    if "ratio" in spec:
        here["p"] = max(16, round(spec["ratio"] * n))
    # The stream does not know the activation: all of them see the same samples.
    loaded = inputs.load(here, STUDY, n, trial, data_dir=data_dir)
    model = inputs.model(loaded, act, spec["sigma_a2"], spec["sigma_b2"])
    if spec["estimator"] == "exact":
        kernel = model.kernels().compute(spec["kernel"])[0]
    else:
        kernel = _monte_carlo(spec, model, n, trial)
    return {
        "distance": np.array(operator_distance(kernel, model.equivalent(spec["kernel"]))),
        "norm": np.array(operator_norm(kernel)),
        "p": np.array(loaded.data.X.shape[1]),
    }


def _monte_carlo(
    spec: Mapping[str, Any], model: inputs.Model, n: int, trial: int
) -> NDArray[np.float64]:
    name = spec["kernel"]
    ensemble = Ensemble(
        model.act,
        model.sigma_a2,
        model.sigma_b2,
        width=spec["width"],
        weights=spec["weights"],
        kernels=(name,),
        solver=spec["solver"],
        tolerance=spec["tolerance"],
    )
    total = accumulate(
        model.inputs.data.X,
        ensemble,
        range(spec["realizations"]),
        lambda index: stream(spec["seed"], STUDY, n, trial, "realization", index),
    )
    if total.converged < spec["realizations"]:
        raise ConvergenceError(
            f"{spec['realizations'] - total.converged} of {spec['realizations']} realizations did "
            "not converge; lower --sigma-a2 or raise --width."
        )
    return total.mean(name)


def slope(sizes: NDArray[Any], errors: NDArray[Any]) -> float:
    """Return the slope of the least-squares line through log error against log n.

    Examples
    --------
    >>> n = np.array([64, 256, 1024])
    >>> round(slope(n, 3 / np.sqrt(n)), 12)
    -0.5
    """
    return float(np.polyfit(np.log(sizes.astype(float)), np.log(errors), 1)[0])


def assemble(spec: Mapping[str, Any], load: Callable[[str], Arrays]) -> Assembled:
    """Make the table, one row a point, with each activation's fitted slope."""
    rows = []
    for act in spec["acts"]:
        for n in spec["sizes"]:
            for trial in range(spec["trials"]):
                point = load(_key(act, n, trial))
                rows.append(
                    {
                        "act": act,
                        "n": n,
                        "p": int(point["p"]),
                        "trial": trial,
                        "error": float(point["distance"] / point["norm"]),
                        "distance": float(point["distance"]),
                        "norm": float(point["norm"]),
                    }
                )
    table = pd.DataFrame(rows)
    means = table.groupby(["act", "n"], sort=False)["error"].mean().reset_index()
    slopes = {
        act: slope(group["n"].to_numpy(), group["error"].to_numpy())
        for act, group in means.groupby("act", sort=False)
    }
    table["slope"] = table["act"].map(slopes)
    for key in ("kernel", "sigma_a2", "data", "estimator"):
        table[key] = spec[key]
    return Assembled(table, {"slopes": slopes})
