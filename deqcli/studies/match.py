r"""The explicit twin of a DEQ on data: its activations, and both spectra over each other.

ICLR Figure 2, the ICML slides' "CKs are close", HLD Figure 1 on the sphere. The points are the
DEQ's kernel, the matched network's and, as the control, an unmatched plain network's of the same
depth; given only ``tau0`` there is no data and there are no spectra.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from deqcli.activations import Activation, activation
from deqcli.errors import InputError, silence_range_warning
from deqcli.gaussian import check_existence
from deqcli.kernels.explicit import explicit_kernels
from deqcli.matching import Match, SphereMatch, match, match_sphere, plain_network
from deqcli.runs.task import Assembled, Task
from deqcli.spectra import count_isolated, eigenvalues, operator_distance, operator_norm
from deqcli.studies import inputs

Arrays = dict[str, NDArray[Any]]

STUDY = "match"
VERSION = 1

# The range on which activations are drawn, in units of tau0.
_REACH, _SAMPLES = 3.5, 141


def resolve(
    *,
    act: str,
    sigma_a2: float,
    sigma_b2: float | None,
    kernel: str,
    family: str,
    layers: str,
    tau0: float | None,
    seed: int,
    data: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the resolved spec."""
    chosen = activation(act)
    sigma_b2 = 1 - sigma_a2 if sigma_b2 is None else sigma_b2
    sphere = data["data"] == "sphere"
    check_existence(chosen, sigma_a2, sigma_b2, papers_range=not sphere)
    if sphere and family not in ("auto", "quadratic"):
        raise InputError(f"--family {family}: on the sphere the twin is a quadratic layer (HLD).")
    if sphere and layers == "2":
        raise InputError("--layers 2: on the sphere one layer is enough (HLD Corollary 1).")
    if sphere and tau0 is not None:
        raise InputError("--tau0 does not matter on the sphere; leave it out.")
    if tau0 is not None and not (math.isfinite(tau0) and tau0 > 0):
        raise InputError(f"--tau0 {tau0:g}: tau0 must be a positive number.")
    spec: dict[str, Any] = {
        "act": chosen.name,
        "sigma_a2": float(sigma_a2),
        "sigma_b2": float(sigma_b2),
        "kernel": kernel,
        "family": family,
        "layers": layers if layers == "auto" else int(layers),
        "seed": int(seed),
    }
    if tau0 is not None:
        return spec | {"data": None, "tau0": float(tau0)}
    return spec | dict(data)


def _twin(spec: Mapping[str, Any], tau0: float | None, dimension: int) -> Match | SphereMatch:
    with silence_range_warning():
        if spec["data"] == "sphere":
            return match_sphere(
                spec["act"], spec["sigma_a2"], dimension, spec["kernel"], sigma_b2=spec["sigma_b2"]
            )
        assert tau0 is not None
        return match(
            spec["act"],
            spec["sigma_a2"],
            spec["sigma_b2"],
            tau0,
            kernel=spec["kernel"],
            family=spec["family"],
            layers=spec["layers"],
        )


def _networks(
    spec: Mapping[str, Any], data_dir: str | None
) -> tuple[inputs.Model | None, Match | SphereMatch, tuple[Activation, ...]]:
    """Return the DEQ on its data, its twin, and the plain network of the same depth."""
    if spec["data"] is None:
        twin = _twin(spec, spec["tau0"], 0)
        return None, twin, plain_network(spec["act"], len(twin.acts), spec["tau0"])
    loaded = inputs.load(spec, STUDY, data_dir=data_dir)
    model = inputs.model(loaded, spec["act"], spec["sigma_a2"], spec["sigma_b2"])
    tau0 = None if loaded.statistics is None else loaded.statistics.tau0
    twin = _twin(spec, tau0, loaded.data.X.shape[1])
    if tau0 is None:
        return model, twin, (activation(spec["act"]),) * len(twin.acts)
    return model, twin, plain_network(spec["act"], len(twin.acts), tau0)


def task(
    spec: Mapping[str, Any], formats: tuple[str, ...] = ("png",), data_dir: str | None = None
) -> Task:
    """Return the study's points, ready to run."""
    from deqcli.figures.match import draw

    sources = ("matched",) if spec["data"] is None else ("deq", "matched", "plain")
    n = 0 if spec["data"] is None else inputs.size(spec)
    return Task(
        study=STUDY,
        version=VERSION,
        spec=spec,
        points={source: (source, data_dir) for source in sources},
        run_point=run_point,
        assemble=lambda load: assemble(spec, load, data_dir),
        draw=draw,
        formats=formats,
        memory=5 * 8 * n * n + 150_000_000,
        memory_hint="lower --n or --jobs",
    )


def run_point(spec: Mapping[str, Any], source: str, data_dir: str | None) -> Arrays:
    """Return the spectrum of one network's kernel and its distance to the DEQ's."""
    model, twin, plain = _networks(spec, data_dir)
    if model is None:
        return {"eigenvalues": np.empty(0)}
    deq = model.kernels().compute(twin.deq_kernel)[0]
    if source == "deq":
        return {"eigenvalues": eigenvalues(deq), "norm": np.array(operator_norm(deq))}
    layers: Sequence[Activation] = twin.acts if source == "matched" else plain
    kernel = explicit_kernels(model.inputs.data.X, layers).compute(twin.twin_kernel)[0]
    return {
        "eigenvalues": eigenvalues(kernel),
        "distance": np.array(operator_distance(deq, kernel)),
    }


def assemble(
    spec: Mapping[str, Any], load: Callable[[str], Arrays], data_dir: str | None = None
) -> Assembled:
    """Make the table: eigenvalues, scalars and sampled activations, one row each."""
    model, twin, plain = _networks(spec, data_dir)
    tau0 = getattr(twin, "tau0", 1.0)
    frames = [_activation_rows(spec, twin, tau0), _scalar_rows(twin)]
    results: dict[str, Any] = {
        "verdict": twin.reason,
        "feasible": twin.feasible,
        "match": _record(twin),
        "plain": [{"name": a.name, "shift": a.shift} for a in plain],
    }
    if model is not None:
        parts = {source: load(source) for source in ("deq", "matched", "plain")}
        isolated = count_isolated(parts["deq"]["eigenvalues"][::-1])
        norm = float(parts["deq"]["norm"])
        results["norm"] = norm
        for source, part in parts.items():
            descending = part["eigenvalues"][::-1]
            index = np.arange(descending.size)
            distance = float(part["distance"]) if source != "deq" else 0.0
            if source != "deq":
                results[f"{source}_distance"] = distance
                results[f"{source}_relative"] = distance / norm
            name = twin.deq_kernel if source == "deq" else twin.twin_kernel
            frames.append(
                pd.DataFrame(
                    {
                        "kind": "eigenvalue",
                        "source": source,
                        "name": name.attribute,
                        "index": index,
                        "value": descending,
                        "isolated": index < isolated,
                        "distance": distance,
                    }
                )
            )
    table = pd.concat(frames, ignore_index=True)
    table["act"] = spec["act"]
    table["sigma_a2"] = spec["sigma_a2"]
    table["data"] = spec["data"] or f"tau0 = {tau0:g}"
    table["n"] = 0 if model is None else model.inputs.data.n_samples
    table["feasible"] = twin.feasible
    return Assembled(table, results)


def _activation_rows(
    spec: Mapping[str, Any], twin: Match | SphereMatch, tau0: float
) -> pd.DataFrame:
    x = np.linspace(-_REACH * tau0, _REACH * tau0, _SAMPLES)
    deq = activation(spec["act"])
    if isinstance(twin, Match) and twin.deq is not None:
        deq = deq.shifted(twin.deq.shift)
    curves = [("deq", "phi", deq)]
    curves += [("matched", f"sigma_{k + 1}", act) for k, act in enumerate(twin.acts)]
    return pd.concat(
        [
            pd.DataFrame(
                {"kind": "activation", "source": source, "name": f"{name}: {act.name}", "index": k,
                 "x": x, "value": np.asarray(act(x), dtype=float)}
            )
            for k, (source, name, act) in enumerate(curves)
        ],
        ignore_index=True,
    )  # fmt: skip


def _record(twin: Match | SphereMatch) -> dict[str, Any]:
    if isinstance(twin, Match):
        return twin.as_record()
    return {
        "feasible": twin.feasible,
        "kernel": twin.kernel,
        "family": twin.family,
        "layers": len(twin.acts),
        "activations": [{"name": act.name, "shift": act.shift} for act in twin.acts],
        "target": twin.target,
        "achieved": twin.achieved,
        "residuals": twin.residuals,
    }


def _scalar_rows(twin: Match | SphereMatch) -> pd.DataFrame:
    rows = []
    for name, value in twin.target.items():
        rows.append({"kind": "scalar", "source": "deq", "name": name, "value": value})
        rows.append(
            {"kind": "scalar", "source": "matched", "name": name, "value": twin.achieved[name],
             "residual": twin.residuals[name]}
        )  # fmt: skip
    if isinstance(twin, Match):
        slopes = {"deq": twin.diagonal_slope.target, "matched": twin.diagonal_slope.achieved}
        for source, value in slopes.items():
            rows.append(
                {"kind": "scalar", "source": source, "name": "diagonal_slope", "value": value}
            )
    return pd.DataFrame(rows)


def export_source(spec: Mapping[str, Any], target: str, data_dir: str | None = None) -> str:
    """Return a self-contained Python file that defines the twin, for numpy or torch."""
    from deqcli.matching import export

    return export(_networks(spec, data_dir)[1], target)
