r"""Accuracy against width of a DEQ, of its matched explicit twin, and of a plain network.

The papers' Figure 3 (ICLR) and last experiment (ICML): trained by SGD, the twin reaches the DEQ's
accuracy as the width grows, a network with the DEQ's own activation does not. A point is one
network at one width in one trial.

What the papers leave open is settled so. All weights are trained, in the parametrisation of
theory.md §1, with the same settings for all networks (:mod:`deqcli.training.parameters`). All
points have the same samples; in one trial all networks see them in the same order and, at one
width, share the draws of their input and readout weights, which takes that noise out of the gaps.
:math:`\tau_0^2` is the mean squared norm of the training samples, the variance that the first
layer sees; the mean within-class variance, the same for mixtures in high dimension, is 0.6 to 0.8
of it on images and gives twins two to three times as far off. The accuracy is that after the
last epoch: none is chosen by looking at the test samples. The learning rate 4 is the largest power
of two at which every network trains at every width on MNIST (at 8 the twin overflows at width 32).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from deqcli.activations import activation
from deqcli.classify import check_ridge, classify
from deqcli.data.dataset import Dataset
from deqcli.errors import InputError
from deqcli.gaussian import check_existence
from deqcli.runs.seeds import stream
from deqcli.runs.task import Assembled, Task
from deqcli.studies import inputs
from deqcli.training import Network, Settings, train
from deqcli.training.loop import DONE, STOPPED, check_batch
from deqcli.training.trio import MATCHES, NETS, Trio, trio

Arrays = dict[str, NDArray[Any]]

STUDY = "accuracy"
VERSION = 1
COLUMNS = (
    "dataset", "net", "width", "seed", "epoch", "train_loss", "train_accuracy", "test_loss",
    "test_accuracy", "forward_seconds", "backward_seconds", "iterations", "residual",
    "parameters", "peak_memory", "status",
)  # fmt: skip
#: Measured times: the only columns that differ when the same run is made again.
TIMES = ("forward_seconds", "backward_seconds")
LIMITS = ("ck", "ntk")
TEST_SIZE = 4000


def resolve(
    *,
    act: str,
    sigma_a2: float,
    sigma_b2: float | None,
    widths: Sequence[int],
    nets: Sequence[str],
    matched: str,
    settings: Settings,
    train_size: int,
    test_size: int | None,
    trials: int,
    solver: str,
    tolerance: float,
    limit: bool,
    ridge: float,
    seed: int,
    data: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the resolved spec.

    Parameters
    ----------
    matched : {"ck", "ntk"}
        The kernel that the twin shares with the DEQ.
    settings : Settings
        Of the training.
    train_size, test_size : int
        Samples; 0 for all there are (of a mixture 800, and as many to test). By default 4000 to
        test, and of one's own file a fifth.
    limit : bool
        Whether to add the infinite-width limits, by kernel regression with this ``ridge``.
    data : mapping
        From :func:`deqcli.studies.inputs.resolve`.
    """
    chosen = activation(act)
    sigma_b2 = 1 - sigma_a2 if sigma_b2 is None else sigma_b2
    check_existence(chosen, sigma_a2, sigma_b2)
    for name in nets:
        if name not in NETS:
            raise InputError(f"--nets has {name!r}; give some of {', '.join(NETS)}.")
    if len(set(widths)) != len(widths) or min(widths, default=0) < 1:
        raise InputError(
            f"--widths {','.join(map(str, widths))}: give different numbers of at least 1."
        )
    if data["data"] == "sphere" or data["classes"] == 1:
        raise _no_classes(data["data"])
    check_ridge(ridge)
    if matched not in MATCHES:
        raise InputError(f"--match {matched!r}: choose from {', '.join(MATCHES)}.")
    if not 1e-6 <= tolerance < 1:
        raise InputError(
            f"--tol must lie between 1e-6 (single precision) and 1, not {tolerance:g}."
        )
    if test_size is None:
        test_size = max(2, data["samples"] // 5) if inputs.is_file(data["data"]) else TEST_SIZE
    spec = {
        **{key: value for key, value in data.items() if key != "samples"},
        # All that the test samples leave, of which load_data knows the number.
        "n": (train_size or None) if data["data"] != "gmm" else train_size or 800,
        "act": chosen.name,
        "sigma_a2": float(sigma_a2),
        "sigma_b2": float(sigma_b2),
        "widths": sorted(int(width) for width in widths),
        "nets": [name for name in NETS if name in nets],
        "match": matched,
        **vars(settings),
        "test_size": int(test_size),
        "trials": int(trials),
        "solver": solver,
        "tolerance": float(tolerance),
        "limit": bool(limit),
        "seed": int(seed),
    }
    return spec | ({"ridge": float(ridge)} if limit else {})


def load_data(spec: Mapping[str, Any], data_dir: str | None = None) -> tuple[Dataset, Dataset]:
    """Return training and test samples; they depend on the seed and on no trial."""
    data, test = inputs.load_halves(spec, STUDY, n=spec["n"], data_dir=data_dir)
    if data.n_classes < 2:
        raise _no_classes(spec["data"])
    return data, test


def _no_classes(name: str) -> InputError:
    return InputError(f"--data {name}: without two classes there is nothing to learn.")


def choose(spec: Mapping[str, Any], data: Dataset) -> Trio:
    """Return the networks of a spec for its training samples."""
    tau0 = float(np.sqrt(np.mean(np.sum(data.X**2, axis=1))))
    return trio(spec["act"], spec["sigma_a2"], spec["sigma_b2"], tau0, spec["match"])


def task(
    spec: Mapping[str, Any], formats: tuple[str, ...] = ("png",), data_dir: str | None = None
) -> Task:
    """Return the study's points, the widest first so that the last ones to finish are short."""
    from deqcli.figures.accuracy import draw

    data, test = load_data(spec, data_dir)
    if "matched" in spec["nets"]:
        choose(spec, data).require_twin()
    check_batch(spec["batch"], data.n_samples)
    points: dict[str, tuple[Any, ...]] = {
        key: (net, 0, 0, kernel, data_dir) for key, net, kernel in _limits(spec)
    }
    for width in reversed(spec["widths"]):
        for net in spec["nets"]:
            for trial in range(spec["trials"]):
                points[_key(net, width, trial)] = (net, width, trial, "", data_dir)
    (n, p), q, m = data.X.shape, test.n_samples, max(spec["widths"])
    # Twice the kernels themselves, for what finds and factorises them.
    kernels = 16 * n * (n + q) if spec["limit"] else 0
    network = 8 * m * (2 * m + p) + (80 if spec["solver"] == "anderson" else 20) * m * spec["batch"]
    if spec["train"] == "readout":
        network += 4 * m * (n + q)
    return Task(
        study=STUDY,
        version=VERSION,
        spec=spec,
        points=points,
        run_point=run_point,
        assemble=lambda load: assemble(spec, load, data_dir),
        draw=draw,
        formats=formats,
        memory=24 * (n + q) * p + max(kernels, network) + 200_000_000,
        memory_hint="lower --widths, --train-size or --jobs",
    )


def _key(net: str, width: int, trial: int) -> str:
    return f"{net} width={width} trial={trial}"


def _limits(spec: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    for net in spec["nets"] if spec["limit"] else ():
        for kernel in LIMITS:
            yield f"{net} limit {kernel}", net, kernel


def run_point(
    spec: Mapping[str, Any], net: str, width: int, trial: int, kernel: str, data_dir: str | None
) -> Arrays:
    """Train one network; or, if a kernel is named, find the limit of its kind."""
    data, test = load_data(spec, data_dir)
    nets = choose(spec, data)
    if kernel:
        matrices = nets.kernel(net, kernel, data.X), nets.kernel(net, kernel, test.X, data.X)
        found = classify(matrices[0], data.y, matrices[1], test.y, spec["ridge"])
        return {
            "train_accuracy": np.array([found.train_accuracy]),
            "test_accuracy": np.array([found.test_accuracy]),
        }
    network = nets.network(
        net,
        width,
        data.X.shape[1],
        data.n_classes,
        solver=spec["solver"],
        tolerance=spec["tolerance"],
    )
    network.draw(_streams(spec, network, net, width, trial))
    settings = Settings(**{name: spec[name] for name in Settings.__dataclass_fields__})
    order = stream(spec["seed"], STUDY, "order", trial)
    history = train(network, data, test, settings, order)
    epochs = len(history.status)
    return history.arrays() | {
        "failure": np.array(history.failure),
        "epoch": np.arange(epochs),
        "parameters": np.full(epochs, network.size),
        "peak_memory": np.full(epochs, history.nbytes),
    }


def _streams(
    spec: Mapping[str, Any], network: Network, net: str, width: int, trial: int
) -> list[np.random.Generator]:
    """Return a stream for each parameter; only the inner ones know the network's name."""
    inner = [(net, number) for number in range(len(network.parameters) - 2)]
    names: list[tuple[str | int, ...]] = [("input",), *inner, ("readout",)]
    return [stream(spec["seed"], STUDY, "weights", width, trial, *name) for name in names]


def assemble(
    spec: Mapping[str, Any], load: Callable[[str], Arrays], data_dir: str | None = None
) -> Assembled:
    """Make the table, one row an epoch, and the gaps at each width for the record.

    A limit is a row whose net is ``<net>-<kernel>-limit``, width and epoch 0; a kernel classifier
    has neither cross-entropy nor iterations, weights and times, and these cells are empty. A
    network that fails before any training has no row, and is named in the record.
    """
    from deqcli.figures.accuracy import gaps

    parts: list[pd.DataFrame] = []
    stopped: dict[str, str] = {}
    for net, width, trial in product(spec["nets"], spec["widths"], range(spec["trials"])):
        key = _key(net, width, trial)
        columns = load(key)
        end = str(columns.pop("failure")) or str(columns["status"][-1])
        if end.startswith(STOPPED):
            stopped[key] = end
        parts.append(pd.DataFrame(columns).assign(net=net, width=width, seed=trial))
    for key, net, kernel in _limits(spec):
        row = pd.DataFrame(load(key)).assign(width=0, seed=0, epoch=0, status=DONE)
        parts.append(row.assign(net=f"{net}-{kernel}-limit"))
    table = pd.concat(parts, ignore_index=True).assign(dataset=spec["data"])
    # Whole numbers stay whole beside the empty cells of limits, and text is text even of no row.
    table = table.astype({"parameters": "Int64", "peak_memory": "Int64", "status": object})
    table = table.reindex(columns=list(COLUMNS))
    data, _ = load_data(spec, data_dir)
    nets = choose(spec, data)
    return Assembled(
        table,
        {
            "gaps": gaps(table).to_dict("records"),
            "stopped": stopped,
            "projected_epochs": int((table["status"] == "projected").sum()),
            "twin": nets.twin.as_record(),
            "plain": [{"name": act.name, "shift": act.shift} for act in nets.plain],
            "details": dict(data.details),
        },
    )
