r"""The spectrum of a DEQ's kernel three ways: Monte Carlo, exact, and its closed-form equivalent.

The papers' Figure 1 (ICLR): the eigenvalues of the kernel, averaged over 400 random (A, B), lie on
those of the equivalent matrix. Points are chunks of realizations and the two closed routes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from deqcli.errors import InputError
from deqcli.gaussian import check_existence
from deqcli.kernels.implicit import kernel_name
from deqcli.monte_carlo import Accumulation, Ensemble, accumulate
from deqcli.runs.seeds import stream
from deqcli.runs.task import Assembled, Task
from deqcli.spectra import count_isolated, eigenvalues, operator_distance, operator_norm
from deqcli.studies import inputs
from deqcli.vocabulary import Kernel

Array = NDArray[np.float64]
Arrays = dict[str, NDArray[Any]]

STUDY = "spectrum"
VERSION = 1
ESTIMATORS = ("mc", "exact")

# A chunk is what a kill can cost; large kernels make fewer and larger parts to spare the disk.
_CHUNK, _LARGE_N, _LARGE_PARTS = 20, 2000, 8


def resolve(
    *,
    act: str,
    sigma_a2: float,
    sigma_b2: float | None,
    kernel: str,
    estimators: tuple[str, ...],
    realizations: int,
    width: int,
    weights: str,
    solver: str,
    tolerance: float,
    seed: int,
    save_kernels: bool,
    data: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the resolved spec; everything that decides the numbers, and nothing else."""
    from deqcli.activations import activation

    chosen = activation(act)
    sigma_b2 = 1 - sigma_a2 if sigma_b2 is None else sigma_b2
    check_existence(chosen, sigma_a2, sigma_b2, papers_range=data["data"] != "sphere")
    for name in estimators:
        if name not in ESTIMATORS:
            raise InputError(f"--estimator has {name!r}; give some of {', '.join(ESTIMATORS)}.")
    if not estimators:
        raise InputError(f"--estimator is empty; give some of {', '.join(ESTIMATORS)}.")
    spec: dict[str, Any] = {
        **data,
        "act": chosen.name,
        "sigma_a2": float(sigma_a2),
        "sigma_b2": float(sigma_b2),
        "kernel": kernel_name(kernel),
        "estimators": [name for name in ESTIMATORS if name in estimators],
        "seed": int(seed),
        "save_kernels": bool(save_kernels),
    }
    if "mc" in estimators:
        if realizations < 1:
            raise InputError(f"--realizations must be at least 1, not {realizations}.")
        spec |= {
            "realizations": int(realizations),
            "width": int(width),
            "weights": weights,
            "solver": solver,
            "tolerance": float(tolerance),
        }
        _ensemble(spec, inputs.model(_no_inputs(), chosen.name, sigma_a2, sigma_b2))
    return spec


def _no_inputs() -> inputs.Inputs:
    from deqcli.data.dataset import Dataset

    return inputs.Inputs(Dataset(np.zeros((2, 1)), np.zeros(2, dtype=np.int64), "none"), None)


def _ensemble(spec: Mapping[str, Any], model: inputs.Model) -> Ensemble:
    return Ensemble(
        model.act,
        model.sigma_a2,
        model.sigma_b2,
        width=spec["width"],
        weights=spec["weights"],
        kernels=(spec["kernel"],),
        solver=spec["solver"],
        tolerance=spec["tolerance"],
    )


def _model(spec: Mapping[str, Any], data_dir: str | None) -> inputs.Model:
    loaded = inputs.load(spec, STUDY, data_dir=data_dir)
    return inputs.model(loaded, spec["act"], spec["sigma_a2"], spec["sigma_b2"])


def task(
    spec: Mapping[str, Any], formats: tuple[str, ...] = ("png",), data_dir: str | None = None
) -> Task:
    """Return the study's points, ready to run."""
    from deqcli.figures.spectrum import draw

    points: dict[str, tuple[Any, ...]] = {"equivalent": ("equivalent", 0, 0, data_dir)}
    if "exact" in spec["estimators"]:
        points["exact"] = ("exact", 0, 0, data_dir)
    for start, stop in _chunks(spec):
        points[f"realizations {start:05d}-{stop:05d}"] = ("realizations", start, stop, data_dir)
    n = inputs.size(spec)
    width, p = spec.get("width", 0), spec.get("p") or 0
    return Task(
        study=STUDY,
        version=VERSION,
        spec=spec,
        points=points,
        run_point=run_point,
        assemble=lambda load: assemble(spec, load, data_dir),
        draw=draw,
        formats=formats,
        memory=6 * 8 * n * n + 4 * width * (3 * width + 6 * n + 2 * p) + 150_000_000,
        memory_hint="lower --n, --width or --jobs",
    )


def _chunks(spec: Mapping[str, Any]) -> list[tuple[int, int]]:
    total = spec.get("realizations", 0)
    size = _CHUNK if inputs.size(spec) <= _LARGE_N else max(_CHUNK, -(-total // _LARGE_PARTS))
    return [(start, min(start + size, total)) for start in range(0, total, size)]


def run_point(
    spec: Mapping[str, Any], kind: str, start: int, stop: int, data_dir: str | None
) -> Arrays:
    """Compute one point: a chunk of realizations, the exact kernel, or the equivalent."""
    model = _model(spec, data_dir)
    if kind == "equivalent":
        return {"eigenvalues": model.equivalent(spec["kernel"]).eigenvalues()}
    if kind == "exact":
        kernel = model.kernels().compute(spec["kernel"])[0]
        return _compare(kernel, model.equivalent(spec["kernel"]))
    total = accumulate(
        model.inputs.data.X,
        _ensemble(spec, model),
        range(start, stop),
        lambda index: stream(spec["seed"], STUDY, "realization", index),
    )
    return {"sum": total.sums[Kernel.of(spec["kernel"], "kernel")], **_records(total)}


def _compare(kernel: Array, closed: Any) -> Arrays:
    return {
        "eigenvalues": eigenvalues(kernel),
        "distance": np.array(operator_distance(kernel, closed)),
        "norm": np.array(operator_norm(kernel)),
    }


def _records(total: Accumulation) -> Arrays:
    solves = [
        [record.forward, *([record.adjoint] if record.adjoint else [])] for record in total.records
    ]
    return {
        "converged": np.array([record.converged for record in total.records]),
        "iterations": np.array([max(s.iterations for s in each) for each in solves]),
        "residual": np.array([max(s.residual for s in each) for each in solves]),
        "status": np.array(
            [next((str(s.status) for s in each if not s.converged), "converged") for each in solves]
        ),
    }


def assemble(
    spec: Mapping[str, Any], load: Callable[[str], Arrays], data_dir: str | None = None
) -> Assembled:
    """Make the table of eigenvalues, and the distances and solver statistics for provenance."""
    model = _model(spec, data_dir)
    closed = model.equivalent(spec["kernel"])
    found: dict[str, Arrays] = {"equivalent": load("equivalent")}
    results: dict[str, Any] = {"details": dict(model.inputs.data.details)}
    arrays: dict[str, NDArray[Any]] = {}
    exact = None
    if "exact" in spec["estimators"]:
        found["exact"] = load("exact")
        exact = model.kernels().compute(spec["kernel"])[0]
    if "mc" in spec["estimators"]:
        average, results["monte_carlo"] = _average(spec, load)
        found["monte-carlo"] = _compare(average, closed)
        if exact is not None:
            results["monte_carlo"]["distance_to_exact"] = operator_distance(average, exact)
        arrays["monte_carlo"] = average
    if spec["save_kernels"]:
        arrays |= {"equivalent": closed.dense(), "X": model.inputs.data.X, "y": model.inputs.data.y}
        arrays |= {"exact": exact} if exact is not None else {}
    isolated = count_isolated(found["equivalent"]["eigenvalues"][::-1])
    table = pd.concat(
        [_rows(spec, model, name, found[name], isolated) for name in sorted(found)],
        ignore_index=True,
    )
    results["distances"] = _distances(spec, found)
    results["isolated"] = isolated
    if model.scalars is not None:
        results["scalars"] = {
            key: value for key, value in vars(model.scalars).items() if key != "activation"
        }
    return Assembled(table, results, arrays if spec["save_kernels"] else None)


def _average(
    spec: Mapping[str, Any], load: Callable[[str], Arrays]
) -> tuple[Array, dict[str, Any]]:
    total: Array | None = None
    parts: dict[str, list[NDArray[Any]]] = {}
    for start, stop in _chunks(spec):
        part = load(f"realizations {start:05d}-{stop:05d}")
        total = part["sum"] if total is None else total + part["sum"]
        for key in ("converged", "iterations", "residual", "status"):
            parts.setdefault(key, []).append(part[key])
    joined = {key: np.concatenate(values) for key, values in parts.items()}
    assert total is not None
    good = joined["converged"]
    if not good.any():
        raise InputError(
            f"none of the {good.size} realizations converged at sigma_a2 = {spec['sigma_a2']:g}; "
            "lower --sigma-a2 or raise --width."
        )
    statistics = {
        "realizations": int(good.size),
        "not_converged": {
            str(index): str(joined["status"][index]) for index in np.flatnonzero(~good)
        },
        "iterations_mean": float(joined["iterations"][good].mean()),
        "iterations_max": int(joined["iterations"].max()),
        "residual_max": float(joined["residual"][good].max()),
        "tolerance": spec["tolerance"],
        "solver": spec["solver"],
    }
    return total / good.sum(), statistics


def _distances(spec: Mapping[str, Any], found: Mapping[str, Arrays]) -> dict[str, Any]:
    r"""Return operator-norm distances to the equivalent.

    A pre-activation kernel and its equivalent differ by :math:`\sigma_a^2` times what the
    network's differ by, so one distance gives both.
    """
    factor = spec["sigma_a2"]
    preactivation = spec["kernel"].startswith("preactivation")
    distances: dict[str, Any] = {}
    for name, values in found.items():
        if "distance" not in values:
            continue
        distance = float(values["distance"])
        other = distance / factor if preactivation else distance * factor
        distances[name.replace("-", "_")] = {
            "distance": distance,
            "norm": float(values["norm"]),
            "relative": distance / float(values["norm"]),
            ("network_kernel" if preactivation else "preactivation_kernel"): other,
        }
    return distances


def _rows(
    spec: Mapping[str, Any], model: inputs.Model, source: str, values: Arrays, isolated: int
) -> pd.DataFrame:
    descending = values["eigenvalues"][::-1]
    index = np.arange(descending.size)
    return pd.DataFrame(
        {
            "source": source,
            "index": index,
            "eigenvalue": descending,
            "isolated": index < isolated,
            "distance": float(values["distance"]) if "distance" in values else 0.0,
            "norm": float(values["norm"]) if "norm" in values else float(np.abs(descending).max()),
            "kernel": spec["kernel"],
            "act": spec["act"],
            "sigma_a2": spec["sigma_a2"],
            "data": spec["data"],
            "n": model.inputs.data.n_samples,
            "p": model.inputs.data.X.shape[1],
            "realizations": spec.get("realizations", 0) if source == "monte-carlo" else 0,
            "width": spec.get("width", 0) if source == "monte-carlo" else 0,
        }
    )
