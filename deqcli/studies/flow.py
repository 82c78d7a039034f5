r"""Train the implicit layer alone, and set each promise of GEN beside the run.

GEN's Figure 1: 500 samples of MNIST's 0 and 1, several widths; loss and error on training and
test samples and :math:`\|\gamma A(k)\|`. A point is one width in one trial; all widths of a trial
see the same samples.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from deqcli.data.dataset import Dataset
from deqcli.errors import DataError, InputError
from deqcli.flow.network import check_choices, draw_network
from deqcli.flow.state import Samples
from deqcli.flow.training import OK, Row, Settings, train
from deqcli.runs.seeds import stream
from deqcli.runs.task import Assembled, Task
from deqcli.studies import inputs
from deqcli.studies.error_vs_n import slope

Array = NDArray[np.float64]
Arrays = dict[str, NDArray[Any]]

STUDY = "flow"
VERSION = 1

_COLUMNS = tuple(field.name for field in fields(Row))
_SETTINGS = ("method", "steps", "step", "tolerance", "residual")


def resolve(
    *,
    widths: Sequence[int],
    trials: int,
    gamma0: float,
    init: str,
    injection: str,
    scaling: str,
    settings: Settings,
    test_size: int,
    seed: int,
    data: Mapping[str, Any],
    n: int | None,
    data_dir: str | None = None,
) -> dict[str, Any]:
    """Return the resolved spec.

    Parameters
    ----------
    data : mapping
        Of :func:`deqcli.studies.inputs.resolve`.
    n : int, optional
        Samples asked for; of real data, without it, all that are not test samples.
    """
    check_choices(gamma0, init, injection, scaling)
    if len(set(widths)) != len(widths) or min(widths) < 2:
        raise InputError("--widths needs different widths of at least 2.")
    if trials < 1 or test_size < 1:
        raise InputError("--trials and --test-size must be at least 1.")
    spec = {
        **_two_classes(data),
        "widths": sorted(widths),
        "trials": int(trials),
        "gamma0": float(gamma0),
        "init": init,
        "injection": injection,
        "scaling": scaling,
        **{name: getattr(settings, name) for name in _SETTINGS},
        "test_size": int(test_size),
        "seed": int(seed),
    }
    if data["data"] not in ("gmm", "sphere"):
        spec["n"] = n
        # Read once, so that too few samples are an error now and not one of every worker.
        spec["p"] = int(load_samples(spec, 0, data_dir).X.shape[1])
    return spec


def _two_classes(data: Mapping[str, Any]) -> dict[str, Any]:
    """Check that there are two classes to tell apart, and say each preprocessing in one way."""
    spec, name = dict(data), data["data"]
    if name == "sphere":
        return spec
    classes = spec["classes"]
    if name == "gmm":
        count = classes
    elif classes is not None:
        count = len(classes)
    elif "sha256" in spec:
        from deqcli.data.files import read

        count = len(read(Path(name))[0].classes)
    else:
        from deqcli.data.registry import find

        count = len(find(name)[0].classes)
    if count != 2:
        raise InputError(f"--classes: {name} has {count} classes; name two of them.")
    if name.endswith(":test"):
        raise InputError(f"--data {name}: leave out ':test', which the test samples come from.")
    # Samples are scaled to norm 1 in any case, so that these two are one.
    if spec.get("preprocess") == "centred":
        spec["preprocess"] = "unit"
    return spec


def load_samples(spec: Mapping[str, Any], trial: int, data_dir: str | None) -> Samples:
    r"""Draw or read training and test samples, each scaled to :math:`\|x\| = 1`, with y = -1 or 1.

    The first class has y = -1, the second 1. Points on the sphere have no classes: their teacher
    is :math:`y = \mathrm{sign}(x_1)`, which by symmetry stands for every half-space.
    """
    if spec["data"] in ("gmm", "sphere"):
        train_data, test_data = (
            inputs.load({**spec, "n": n}, STUDY, trial, half).data
            for half, n in (("train", spec["n"]), ("test", spec["test_size"]))
        )
    else:
        from deqcli.data.images import load

        train_data, held_out = load(
            spec["data"],
            classes=spec["classes"],
            n=spec["n"],
            select=spec["select"],
            preprocess=spec["preprocess"],
            rng=stream(spec["seed"], "data", STUDY, trial),
            data_dir=data_dir,
            n_test=spec["test_size"],
        )
        assert held_out is not None
        test_data = held_out
    (X, y), (X_test, y_test) = (
        _unit(data, spec["data"] == "sphere") for data in (train_data, test_data)
    )
    return Samples(X, y, X_test, y_test)


def _unit(data: Dataset, teacher: bool) -> tuple[Array, Array]:
    norms = np.linalg.norm(data.X, axis=1, keepdims=True)
    if not norms.all():
        raise DataError(f"{data.name}: sample {int(np.argmin(norms))} is zero and has no norm 1.")
    positive = data.X[:, 0] >= 0 if teacher else data.y == 1
    return data.X / norms, np.where(positive, 1.0, -1.0)


def task(
    spec: Mapping[str, Any], formats: tuple[str, ...] = ("png",), data_dir: str | None = None
) -> Task:
    """Return the study's points, the widest first so that the last ones to finish are short."""
    from deqcli.figures.flow import draw

    points = {
        _key(width, trial): (width, trial, data_dir)
        for width in reversed(spec["widths"])
        for trial in range(spec["trials"])
    }
    m, n, held = max(spec["widths"]), spec["n"] or 10_000, spec["test_size"]
    matrices = 14 if spec["method"] == "ode" else 5
    return Task(
        study=STUDY,
        version=VERSION,
        spec=spec,
        points=points,
        run_point=run_point,
        assemble=lambda load: assemble(spec, load),
        draw=draw,
        formats=formats,
        memory=8 * (matrices * m * m + m * (12 * n + 4 * held) + 6 * n * n) + 200_000_000,
        memory_hint="lower the largest of --widths, --n or --jobs",
    )


def _key(width: int, trial: int) -> str:
    return f"width={width} trial={trial}"


def run_point(spec: Mapping[str, Any], width: int, trial: int, data_dir: str | None) -> Arrays:
    """Train one network, and return its rows as columns."""
    samples = load_samples(spec, trial, data_dir)
    network = draw_network(
        samples.X.shape[1],
        width,
        stream(spec["seed"], STUDY, "network", width, trial),
        gamma0=spec["gamma0"],
        init=spec["init"],
        injection=spec["injection"],
        scaling=spec["scaling"],
    )
    run = train(network, samples, Settings(**{name: spec[name] for name in _SETTINGS}))
    return {
        **{name: np.array([getattr(row, name) for row in run.rows]) for name in _COLUMNS},
        "bound": np.array(run.linearised.bound if run.linearised else np.nan),
        "rademacher": np.array(run.linearised.rademacher if run.linearised else np.nan),
        "gamma": np.array(network.gamma),
        "step_size": np.array(run.step_size),
        "end": np.array(run.status),
        "shape": np.array([*samples.X.shape, len(samples.y_test)]),
    }


def assemble(spec: Mapping[str, Any], load: Callable[[str], Arrays]) -> Assembled:
    """Make the table, one row a time of a run, and say of each promise whether it held."""
    parts: list[pd.DataFrame] = []
    ends: dict[tuple[int, int], str] = {}
    for width in spec["widths"]:
        for trial in range(spec["trials"]):
            point = load(_key(width, trial))
            ends[width, trial] = str(point["end"])
            parts.append(
                pd.DataFrame({"width": width, "trial": trial} | {k: point[k] for k in _COLUMNS})
            )
            for name in ("bound", "rademacher", "gamma", "step_size"):
                parts[-1][name] = float(point[name])
            for name, value in zip(("n", "p", "n_test"), point["shape"], strict=True):
                parts[-1][name] = int(value)
    table = pd.concat(parts, ignore_index=True)
    fitted = _add_peaks(table)
    for key in ("data", "method", "init", "injection", "gamma0", "scaling"):
        table[key] = spec[key]
    runs = []
    for (width, trial), end in ends.items():
        rows = table[(table["width"] == width) & (table["trial"] == trial)]
        runs.append({"width": width, "trial": trial, "end": end} | promises(rows))
    return Assembled(table, {"slope": fitted, "runs": runs})


def _add_peaks(table: pd.DataFrame) -> float | None:
    r"""Add the largest distance to the linearised path over the time that all runs lived.

    Runs that did not start have none. Returns the slope of its mean over trials in log-log, for
    which GEN Lemma 4.3 promises -1/4 or less, or None below two widths.
    """
    good = table[table["status"] == OK]
    runs = good.groupby(["width", "trial"])
    common = runs["time"].max().min()
    early = good[good["time"] <= common * (1 + 1e-9)]
    peaks = early.groupby(["width", "trial"])["distance_method"].max()
    keys = zip(table["width"], table["trial"], strict=True)
    table["peak"] = [peaks.get(key, np.nan) for key in keys]
    means = peaks.groupby("width").mean()
    fitted = None
    if len(means) > 1 and (means > 0).all():
        fitted = slope(means.index.to_numpy(), means.to_numpy())
    table["slope"] = np.nan if fitted is None else fitted
    return fitted


def promises(rows: pd.DataFrame) -> dict[str, Any]:
    r"""Return what GEN promises of one run beside what was measured; None where nothing was.

    ``rate`` is that of the loss over the second half of the run, :math:`\lambda_0` what Theorem
    3.1 promises; ``envelope_ratio`` the largest loss(t) over its envelope; ``kernel_change`` the
    largest :math:`\|H(t) - H(0)\|`, which the proof needs below :math:`\lambda_0/2`.
    """
    good = rows[rows["status"] == OK]
    if good.empty:
        return {"norm_start": _number(rows["norm"].iloc[0])}
    measured = good.dropna(subset="test_loss")
    first, last = measured.iloc[0], measured.iloc[-1]
    end = good.iloc[-1]
    half = good[good["time"] >= end["time"] / 2].iloc[0]
    elapsed = end["time"] - half["time"]
    rate = np.log(half["train_loss"] / end["train_loss"]) / elapsed if elapsed > 0 else np.nan
    numbers = {
        "lambda0": first["lambda_min"],
        "lambda_max": first["lambda_max"],
        "rate": rate,
        "envelope_ratio": (good["train_loss"] / good["envelope"]).max(),
        "largest_rise": good["train_loss"].diff().max(),
        "lambda_min_ratio": measured["lambda_min"].min() / first["lambda_min"],
        "kernel_change": measured["kernel_change"].max(),
        "norm_start": good["norm"].iloc[0],
        "norm_largest": rows["norm"].max(),
        "contraction_largest": good["contraction"].max(),
        "distance_largest": good["distance"].max(),
        "peak": good["peak"].iloc[0],
        "bound": first["bound"],
        "rademacher": first["rademacher"],
        "train_loss": end["train_loss"],
        "train_error": end["train_error"],
        "test_loss": last["test_loss"],
        "test_error": last["test_error"],
        "test_absolute": last["test_absolute"],
        "time": end["time"],
    }
    steps = {"steps": int(end["step"]), "test_step": int(last["step"])}
    return steps | {key: _number(value) for key, value in numbers.items()}


def _number(value: Any) -> float | None:
    return float(value) if np.isfinite(value) else None
