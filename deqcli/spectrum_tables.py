"""The table of a spectrum: averages, distances, rows of eigenvalues and of the law."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator, aslinearoperator

from deqcli.averaging import average, chunk_key, chunks
from deqcli.equivalents import Equivalent, operator_distance, operator_norm
from deqcli.errors import InputError
from deqcli.models import Model
from deqcli.predicted import findings_of, rows_of
from deqcli.spectral.law import SpectralLaw
from deqcli.vocabulary import Estimator, Form

if TYPE_CHECKING:
    from deqcli.studies.spectrum import SpectrumSettings
    from deqcli.study import Arrays, Load

# What a distance is relative to, what sampling alone would make of it, and the distance to the
# other form.
_SHARES = ("relative", "network_relative", "noise_floor", "own_norm")


def law_rows(
    law: SpectralLaw, form: Form, model: Model, rows: pd.DataFrame, real: bool
) -> tuple[dict[str, Any], pd.DataFrame]:
    """Return what a record says of a law, and its rows beside those of a spectrum."""
    shared = {str(name): value for name, value in rows.iloc[0].items()}
    own = dict.fromkeys(("distance", "norm", *_SHARES), math.nan)
    for name in ("eigenvalue", "isolated", "index"):
        del shared[name]
    added = rows_of(law, model.inputs.data.classes).assign(**{**shared, **own, "source": "law"})
    return findings_of(law, form, real), added


def distances_of(
    settings: SpectrumSettings,
    model: Model,
    kernel: NDArray[np.float64] | LinearOperator,
    closed: Equivalent,
) -> dict[str, Any]:
    r"""Return the operator-norm distance of a kernel to its equivalent, and what it is part of.

    A pre-activation kernel is :math:`\sigma_a^2` times the network's plus the inputs'
    :math:`\sigma_b^2 XX^\top`, which its equivalent has exactly: one distance gives both, but the
    inputs' part makes it look small beside the norm. So ``network_relative`` sets it beside the
    network's part alone; None where that part is zero.
    """
    distance, norm = operator_distance(kernel, closed), operator_norm(kernel)
    distances: dict[str, Any] = {"distance": distance, "norm": norm, "relative": distance / norm}
    if not settings.kernel.before_activation:
        distances["preactivation_kernel"] = distance * settings.sigma_a2
        return distances | {"network_relative": distance / norm}
    X = aslinearoperator(model.X)
    inputs = settings.sigma_b2 * (X @ X.T)
    distances["input_norm"] = operator_norm(inputs)
    part = operator_distance(kernel, inputs) if settings.sigma_a2 > 0 else 0.0
    if settings.sigma_a2 > 0:
        distances["network_kernel"] = distance / settings.sigma_a2
        distances["network_norm"] = part / settings.sigma_a2
    return distances | {"network_relative": distance / part if part else None}


def spectrum_rows(
    settings: SpectrumSettings,
    model: Model,
    source: str,
    spectrum: NDArray[np.float64],
    distance: Mapping[str, Any] | None,
    findings: Mapping[str, Any],
) -> pd.DataFrame:
    """Return the eigenvalues of one matrix in rows, the largest first."""
    descending = spectrum[::-1]
    index = np.arange(descending.size)
    averaged = source == "monte-carlo"
    return pd.DataFrame(
        {
            "source": source,
            "index": index,
            "eigenvalue": descending,
            "isolated": index < findings["isolated"],
            "distance": distance["distance"] if distance else 0.0,
            "norm": distance["norm"] if distance else float(np.abs(descending).max()),
            **{name: _number(distance, name) for name in _SHARES},
            "kernel": settings.kernel,
            "act": model.act.name,
            "sigma_a2": settings.sigma_a2,
            "data": settings.source,
            "n": model.inputs.data.n_samples,
            "p": model.X.shape[1],
            "realizations": settings.realizations if averaged else 0,
            "width": settings.width if averaged else 0,
        }
    )


def _number(distance: Mapping[str, Any] | None, name: str) -> float:
    """Return what is known of a source's distance, an empty cell where nothing is."""
    value = distance.get(name) if distance else None
    return math.nan if value is None else float(value)


def chunks_of(settings: SpectrumSettings) -> list[tuple[int, int]]:
    """Return which realizations are summed together."""
    averaged = Estimator.MONTE_CARLO in settings.estimator
    return chunks(settings.realizations, settings.shape[0]) if averaged else []


def average_of(
    settings: SpectrumSettings, load: Load
) -> tuple[NDArray[np.float64], dict[str, Any]]:
    """Return the kernel averaged over the realizations that converged, and how they did."""
    columns: dict[str, list[NDArray[Any]]] = {}

    def part(chunk: tuple[int, int]) -> Arrays:
        arrays = load(chunk_key(chunk))
        for key in ("converged", "iterations", "residual", "status"):
            columns.setdefault(key, []).append(arrays[key])
        return arrays

    mean = average([partial(part, chunk) for chunk in chunks_of(settings)])
    solves = {key: np.concatenate(values) for key, values in columns.items()}
    good = solves["converged"]
    if not good.any():
        raise InputError(
            f"none of the {good.size} realizations converged at `sigma_a2` {settings.sigma_a2:g}; "
            "lower it or raise `width`."
        )
    statistics = {
        "realizations": int(good.size),
        "not_converged": {
            str(index): str(solves["status"][index]) for index in np.flatnonzero(~good)
        },
        "iterations_mean": float(solves["iterations"][good].mean()),
        "iterations_max": int(solves["iterations"].max()),
        "residual_max": float(solves["residual"][good].max()),
        "tolerance": settings.tolerance,
        "solver": settings.solver,
        "noise_floor": mean.floor(),
    }
    return mean.mean, statistics
