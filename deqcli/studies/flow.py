r"""Train the implicit layer alone, and set each promise of GEN beside the run.

GEN's Figure 1: 500 samples of MNIST's 0 and 1, several widths; loss and error on training and
test samples and :math:`\|\gamma A(k)\|`. A point is one width in one trial; all widths of a trial
see the same samples.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from deqcli.data.dataset import Dataset
from deqcli.errors import DataError, InputError
from deqcli.flow.network import check_choices, draw_network
from deqcli.flow.promises import promises
from deqcli.flow.state import Samples
from deqcli.flow.training import FINISHED, Row, Settings, train
from deqcli.runs.seeds import stream
from deqcli.runs.task import Assembled, Task
from deqcli.studies import inputs
from deqcli.studies.error_vs_n import slope

Array = NDArray[np.float64]
Arrays = dict[str, NDArray[Any]]
Run = tuple[int, int]

STUDY = "flow"
VERSION = 2

_COLUMNS = tuple(field.name for field in fields(Row))
_SETTINGS = ("method", "steps", "step", "stop_loss", "tolerance")
# A distance below this, over the norm of y, is that of two sums of the same numbers.
_ROUNDING = 1e-10


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
        given = ",".join(map(str, widths))
        raise InputError(f"--widths {given}: give different widths of at least 2, such as 100,500.")
    for option, value, least in (
        ("--trials", trials, 1), ("--test-size", test_size, 2), ("--n", n, 2),
    ):  # fmt: skip
        if value is not None and value < least:
            raise InputError(f"{option} must be at least {least}, not {value}.")
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
        if classes != 2:
            raise InputError(f"--classes {classes}: two are told apart; give --classes 2.")
    elif classes is None or len(classes) != 2:
        known = _known_classes(spec)
        if len(known) < 2:
            raise InputError(f"--data {name} has {len(known)} class; give data of at least two.")
        if classes is not None or len(known) != 2:
            given = f" {','.join(classes)}:" if classes else f": {name} has {len(known)} classes;"
            raise InputError(f"--classes{given} name two classes, such as {known[0]},{known[1]}.")
    if name.endswith(":test"):
        raise InputError(f"--data {name}: leave out ':test', which the test samples come from.")
    # Samples are scaled to norm 1 in any case, so that these two are one.
    if spec.get("preprocess") == "centred":
        spec["preprocess"] = "unit"
    return spec


def _known_classes(spec: Mapping[str, Any]) -> Sequence[str]:
    if "sha256" in spec:
        from deqcli.data.files import read

        return read(Path(spec["data"]))[0].classes
    from deqcli.data.registry import find

    return find(spec["data"])[0].classes


def load_samples(spec: Mapping[str, Any], trial: int, data_dir: str | None) -> Samples:
    r"""Draw or read training and test samples, each scaled to :math:`\|x\| = 1`, with y = -1 or 1.

    The first class has y = -1, the second 1. Points on the sphere have no classes: their teacher
    is :math:`y = \mathrm{sign}(x_1)`, which by symmetry stands for every half-space.
    """
    halves = inputs.load_halves(spec, STUDY, trial, n=spec["n"], data_dir=data_dir)
    (X, y), (X_test, y_test) = (_unit(data, spec["data"] == "sphere") for data in halves)
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
    # Of ode 16.2 were measured: seven stages, and what a step makes of them.
    matrices = 17 if spec["method"] == "ode" else 5
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
    ends: dict[Run, str] = {}
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
    lost = {key for key, end in ends.items() if end not in FINISHED}
    fitted = _add_peaks(table, lost)
    for key in ("data", "method", "init", "injection", "gamma0", "scaling"):
        table[key] = spec[key]
    runs = []
    for (width, trial), end in ends.items():
        rows = table[(table["width"] == width) & (table["trial"] == trial)]
        known = {"width": width, "trial": trial, "end": end, "lost": (width, trial) in lost}
        runs.append(known | promises(rows))
    return Assembled(table, fitted | {"runs": runs})


def _add_peaks(table: pd.DataFrame, lost: Collection[Run]) -> dict[str, float | None]:
    r"""Add the largest distance to the linearised path over the time that all survivors share.

    Lost runs have no peak and do not shorten the time. Returns that time, the window, and the slope
    of the peaks' mean over trials in log-log, for which GEN Lemma 4.3 promises -1/4 or less; None
    where no run survived or no time passed, and for the slope also below two widths or where a
    peak is rounding.
    """
    keys = list(zip(table["width"], table["trial"], strict=True))
    alive = table[[key not in lost for key in keys]]
    common = float(alive.groupby(["width", "trial"])["time"].max().min())
    found: dict[str, float | None] = {"slope": None, "window": None}
    peaks = pd.Series(dtype=float)
    if common > 0:
        found["window"] = common
        early = alive[alive["time"] <= common * (1 + 1e-9)]
        peaks = early.groupby(["width", "trial"])["distance_method"].max()
        means = peaks.groupby("width").mean()
        if len(means) > 1 and (peaks > _ROUNDING * np.sqrt(alive["n"].iloc[0])).all():
            found["slope"] = slope(means.index.to_numpy(), means.to_numpy())
    table["peak"] = [peaks.get(key, np.nan) for key in keys]
    for name, value in found.items():
        table[name] = np.nan if value is None else value
    return found
