"""A twin beside its DEQ as rows of a table: spectra, activations, scalars."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from deqcli.activations import activation
from deqcli.equivalents import count_isolated, operator_distance, operator_norm
from deqcli.matching.result import Match
from deqcli.vocabulary import Net

Array = NDArray[np.float64]

# The range on which activations are drawn, in units of tau0.
_REACH, _SAMPLES = 3.5, 141


def compare(
    networks: Mapping[Net, Mapping[str, Array]],
) -> tuple[dict[Net, Array], dict[str, float]]:
    """Return the spectra of the three networks, and the distances of two to the DEQ.

    A factor of a kernel is one of the learning rate, so that each distance is there once more, as
    ``<net>_scaled``, with the network's mean diagonal brought to the DEQ's.

    Examples
    --------
    >>> networks = {net: {"kernel": np.eye(2), "eigenvalues": np.ones(2)} for net in Net}
    >>> compare(networks)[1]["plain_relative"]
    0.0
    """
    deq = networks[Net.DEQ]["kernel"]
    norm, size = operator_norm(deq), float(np.linalg.norm(deq))
    distances = {"norm": norm}
    for net in (Net.MATCHED, Net.PLAIN):
        other = networks[net]["kernel"]
        distance = operator_distance(deq, other)
        distances |= {
            f"{net}_distance": distance,
            f"{net}_relative": distance / norm,
            f"{net}_frobenius": float(np.linalg.norm(deq - other)) / size,
            f"{net}_scaled": operator_distance(deq, _scaled(other, deq)) / norm,
        }
    return {net: networks[net]["eigenvalues"] for net in Net}, distances


def _scaled(kernel: Array, like: Array) -> Array:
    """Return a kernel with the trace of another one; without a diagonal, the kernel itself."""
    trace = float(np.trace(kernel))
    return kernel * (float(np.trace(like)) / trace) if trace > 0 else kernel


def eigenvalue_rows(
    twin: Match,
    spectra: Mapping[Net, Array],
    distances: Mapping[str, float],
) -> list[pd.DataFrame]:
    """Return one row an eigenvalue of each network, largest first, and what stands apart.

    ``scaled`` is the distance with the DEQ's mean diagonal.
    """
    isolated = count_isolated(spectra[Net.DEQ][::-1])
    index = np.arange(spectra[Net.DEQ].size)
    return [
        pd.DataFrame(
            {
                "kind": "eigenvalue",
                "source": net.value,
                "name": (twin.kernel if net == Net.DEQ else twin.twin_kernel).value,
                "index": index,
                "value": spectrum[::-1],
                "isolated": index < isolated,
                "distance": distances.get(f"{net}_distance", 0.0),
                "scaled": distances.get(f"{net}_scaled", 0.0) * distances["norm"],
            }
        )
        for net, spectrum in spectra.items()
    ]


def activation_rows(name: str, twin: Match) -> pd.DataFrame:
    """Return the activations of DEQ and twin, sampled."""
    x = twin.tau0 * np.linspace(-_REACH, _REACH, _SAMPLES)
    deq = activation(name)
    if twin.deq is not None:
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


def scalar_rows(twin: Match) -> pd.DataFrame:
    """Return one row a scalar of DEQ and twin.

    Examples
    --------
    >>> from deqcli.matching import match
    >>> len(scalar_rows(match("tanh", 0.1)))
    10
    """
    rows: list[dict[str, Any]] = []
    for name, value in twin.target.items():
        rows.append({"kind": "scalar", "source": "deq", "name": name, "value": value})
        if name in twin.achieved:
            rows.append(
                {"kind": "scalar", "source": "matched", "name": name, "value": twin.achieved[name],
                 "residual": twin.residuals[name]}
            )  # fmt: skip
    if slope := twin.diagonal_slope:
        rows += [
            {"kind": "scalar", "source": source, "name": "diagonal_slope", "value": value}
            for source, value in (("deq", slope.target), ("matched", slope.achieved))
        ]
    return pd.DataFrame(rows)


def average_rows(averaged: Mapping[str, Any]) -> pd.DataFrame:
    """Return one row a number of what was found for averages over random networks.

    Examples
    --------
    >>> average_rows({"distance": 0.1, "noise_floor": None})["name"].tolist()
    ['distance']
    """
    values = pd.Series(averaged, dtype=float).dropna()
    kind = {"kind": "average", "source": Net.MATCHED.value}
    return pd.DataFrame({**kind, "name": values.index, "distance": values})
