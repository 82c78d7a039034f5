"""The data of a study: named in its spec, drawn or read where it is needed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from deqcli.activations import Activation, activation
from deqcli.data.dataset import Dataset
from deqcli.data.mixture import GaussianMixture, sphere, toeplitz
from deqcli.equivalents import Equivalent, equivalent
from deqcli.errors import InputError, silence_range_warning
from deqcli.kernels.implicit import ImplicitKernels, implicit_kernels
from deqcli.runs.seeds import stream
from deqcli.scalars import ImplicitScalars, SphereScalars, implicit_scalars, sphere_scalars
from deqcli.statistics import MixtureStatistics, estimate_statistics


@dataclass(frozen=True)
class Inputs:
    """Samples and what is known of their law.

    Attributes
    ----------
    data : Dataset
    statistics : MixtureStatistics or None
        Exact for a mixture, estimated per class for real data, None on the sphere.
    """

    data: Dataset
    statistics: MixtureStatistics | None


def resolve(
    *,
    data: str,
    n: int | None,
    p: int | None,
    classes: str | None,
    mean_norm: float,
    covariance: str,
    select: str,
    preprocess: str,
    data_dir: str | None = None,
) -> dict[str, Any]:
    """Return the part of a spec that decides the samples: only the keys that matter to them.

    Real data is read once, so that a missing file or too few samples is an error now and not one
    of every worker.

    Parameters
    ----------
    data : str
        ``gmm``, ``sphere``, a registered name, or a path to a ``.npz`` or ``.csv`` file.
    classes : str, optional
        A number for the mixture; labels separated by commas for real data.
    covariance : str
        ``papers``, ``identity`` or ``toeplitz:R``.
    """
    if data == "gmm":
        count = _number_of_classes(classes)
        if not math.isfinite(mean_norm):
            raise InputError(f"--mean-norm {mean_norm:g}: give a finite number.")
        _mixture(p or 1000, count, mean_norm, covariance)
        return {
            "data": "gmm",
            "n": n or 800,
            "p": p or 1000,
            "classes": count,
            "mean_norm": float(mean_norm),
            "covariance": covariance,
        }
    if data == "sphere":
        if classes is not None:
            raise InputError(f"--classes {classes}: points on the sphere have no classes.")
        return {"data": "sphere", "n": n or 800, "p": p or 1000}
    if p is not None:
        raise InputError(f"--p {p}: the data {data!r} has its own dimension; leave --p out.")
    labels = [part.strip() for part in classes.split(",")] if classes else None
    spec = {"data": data, "n": n, "classes": labels, "select": select, "preprocess": preprocess}
    if is_file(data):
        from deqcli.runs.files import sha256

        if not Path(data).is_file():
            raise InputError(f"--data {data}: there is no such file.")
        spec["sha256"] = sha256(Path(data))
    else:
        from deqcli.data.registry import names

        known = ["gmm", "sphere", *names()]
        if data.partition(":")[0] not in known:
            raise InputError(
                f"--data {data!r}: choose from {', '.join(known)}, or give a .npz or .csv file."
            )
    found = load({**spec, "seed": 0}, data_dir=data_dir).data
    # "n" stays what was asked for: all samples of unequal classes are no balanced selection.
    return {**spec, "samples": found.n_samples, "p": int(found.X.shape[1])}


def is_file(data: str) -> bool:
    """Tell whether the name of data is that of a person's file."""
    return data.endswith((".npz", ".csv"))


def size(spec: Mapping[str, Any]) -> int:
    """Return how many samples a resolved spec stands for."""
    return int(spec["n"] or spec.get("samples", 0))


def _number_of_classes(classes: str | None) -> int:
    try:
        count = int(classes or 2)
    except ValueError:
        count = 0
    if count < 1:
        raise InputError(f"--classes {classes}: a mixture takes the number of its classes.")
    return count


def _mixture(p: int, classes: int, mean_norm: float, covariance: str) -> GaussianMixture:
    name, _, value = covariance.partition(":")
    if name == "identity" and not value:
        return GaussianMixture.papers(p, classes, mean_norm, spread=0.0)
    papers = GaussianMixture.papers(p, classes, mean_norm)
    if name == "papers" and not value:
        return papers
    try:
        if name != "toeplitz":
            raise ValueError
        shape = toeplitz(p, float(value))
    except ValueError:
        raise InputError(
            f"--covariance {covariance!r}: choose papers, identity or toeplitz:R with |R| < 1."
        ) from None
    return GaussianMixture(papers.means, [c * shape for c in papers.covariances])


def load(spec: Mapping[str, Any], *names: str | int, data_dir: str | None = None) -> Inputs:
    """Draw or read the samples of a spec; ``names`` key the random stream beside the seed."""
    rng = stream(spec["seed"], "data", *names)
    kind, n = spec["data"], spec["n"]
    if kind == "gmm":
        mixture = _mixture(spec["p"], spec["classes"], spec["mean_norm"], spec["covariance"])
        data = mixture.sample(n, rng)
        return Inputs(data, mixture.statistics(np.bincount(data.y)))
    if kind == "sphere":
        return Inputs(sphere(n, spec["p"], rng), None)
    from deqcli.data.images import load as load_images

    data, _ = load_images(
        kind,
        classes=spec["classes"],
        n=n,
        select=spec["select"],
        preprocess=spec["preprocess"],
        rng=rng,
        data_dir=data_dir,
    )
    return Inputs(data, estimate_statistics(data.X, data.y))


def load_halves(
    spec: Mapping[str, Any], *names: str | int, n: int | None, data_dir: str | None
) -> tuple[Dataset, Dataset]:
    """Return ``n`` training samples and the spec's ``test_size`` test samples.

    Drawn samples come from two streams. Real data has a test half, or loses a part to it; ``n``
    None then stands for all that is left, and a ``test_size`` of 0 for all there are.
    """
    if spec["data"] in ("gmm", "sphere"):
        sizes = {"train": n, "test": spec["test_size"] or n}
        train, test = (
            load({**spec, "n": count}, *names, half).data for half, count in sizes.items()
        )
        return train, test
    from deqcli.data.images import load as load_images

    found, held_out = load_images(
        spec["data"],
        classes=spec["classes"],
        n=n,
        select=spec["select"],
        preprocess=spec["preprocess"],
        rng=stream(spec["seed"], "data", *names),
        data_dir=data_dir,
        n_test=spec["test_size"],
    )
    assert held_out is not None
    return found, held_out


@dataclass(frozen=True)
class Model:
    """A DEQ on given inputs: its activation as used, its scalars, kernels and equivalents."""

    inputs: Inputs
    act: Activation
    sigma_a2: float
    sigma_b2: float
    scalars: ImplicitScalars | None

    def kernels(self) -> ImplicitKernels:
        """Return the exact kernels."""
        with silence_range_warning():
            return implicit_kernels(self.inputs.data.X, self.act, self.sigma_a2, self.sigma_b2)

    def equivalent(self, kernel: str) -> Equivalent:
        """Return the closed-form matrix of one kernel."""
        data = self.inputs.data
        scalars: ImplicitScalars | SphereScalars
        if self.scalars is None:
            scalars = sphere_scalars(
                self.act,
                data.X.shape[1],
                sigma_a2=self.sigma_a2,
                sigma_b2=self.sigma_b2,
                kernel=kernel,
            )
        else:
            scalars = self.scalars
        return equivalent(data.X, data.y, scalars, kernel, self.inputs.statistics)


def model(inputs: Inputs, act: str, sigma_a2: float, sigma_b2: float) -> Model:
    """Build the DEQ of a spec: centred for mixtures and real data, as it is on the sphere (HLD)."""
    chosen = activation(act)
    with silence_range_warning():
        if inputs.statistics is None:
            return Model(inputs, chosen, sigma_a2, sigma_b2, None)
        scalars = implicit_scalars(chosen, sigma_a2, sigma_b2, inputs.statistics.tau0)
    return Model(inputs, chosen.shifted(scalars.shift), sigma_a2, sigma_b2, scalars)
