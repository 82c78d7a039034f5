r"""Predicted test errors beside measured ones: differences, their intervals, and sentences.

A trial is one network of each kind at every value of the axis, on samples of its own. What is
averaged over values is averaged within trials first, so that intervals are those of independent
repetitions (95 %, by Student's t). Two standard errors of a mean are told apart from a prediction
in one of twenty cases by chance.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from deqcli.prediction.regression import PredictedError
from deqcli.quantities import Measured, mean_interval, standard_error
from deqcli.vocabulary import Net

Array = NDArray[np.float64]

#: What a value of the axis is called in sentences.
_AXIS = {
    "width": "widths", "n": "numbers of samples", "ridge": "ridges", "mean-norm": "norms of means",
    "sigma-a2": "variances",
}  # fmt: skip


def seen(f: Array, y: NDArray[np.int64], shares: Array) -> tuple[float, float, float]:
    """Return the error of outputs, and mean and deviation of the output of a sample's own class."""
    k = shares.size
    named = (f[:, 0] > 0).astype(int) if k == 2 else f.argmax(axis=1)
    own = f[:, 0] * np.where(y == 0, -1.0, 1.0) if k == 2 else f[np.arange(y.size), y]
    parts = [own[y == a] for a in range(k)]
    wrong = np.array([np.mean(named[y == a] != a) for a in range(k)])
    spread = np.sqrt(np.mean([part.var() for part in parts]))
    return float(shares @ wrong), float(np.mean([part.mean() for part in parts])), float(spread)


def told(found: PredictedError) -> tuple[float, float, float]:
    """Return the same of what was predicted."""
    k, outputs = found.mean.shape
    a = np.arange(k)
    own = a if outputs > 1 else np.zeros(k, dtype=int)
    sign = np.array([-1.0, 1.0]) if outputs == 1 else np.ones(k)
    mean = float(np.mean(sign * found.mean[a, own]))
    return found.total, mean, float(np.sqrt(np.mean(found.covariance[a, own, own])))


def findings(table: pd.DataFrame) -> dict[str, Any]:
    """Return what a table of ``deqcli predict`` says, fit for JSON.

    Examples
    --------
    >>> rows = [(net, "measured", 1.0, trial, error) for net, trial, error in
    ...         [("deq", 0, 0.1), ("deq", 1, 0.2), ("plain", 0, 0.3), ("plain", 1, 0.4)]]
    >>> rows += [("deq", "predicted", 1.0, -1, 0.16), ("plain", "predicted", 1.0, -1, 0.31)]
    >>> names = ["net", "kind", "value", "trial", "error"]
    >>> found = findings(pd.DataFrame(rows, columns=names))
    >>> found["differences"]["plain"]["measured"]["value"].__round__(6)
    0.2
    >>> found["agreement"]["deq"]["within"], round(found["gaps"]["deq"]["value"], 6)
    (1, 0.01)
    """
    seen = table[table["kind"] == "measured"].pivot(
        index="trial", columns=["net", "value"], values="error"
    )
    by_net = table.set_index(["net", "value"])["error"]
    lines, others = (
        by_net[(table["kind"] == kind).to_numpy()] for kind in ("predicted", "independent")
    )
    nets = list(dict.fromkeys(table["net"]))
    out: dict[str, Any] = {"errors": [], "gaps": {}, "agreement": {}, "differences": {}}
    for net in nets:
        trials = seen[net]
        told = lines.loc[net].loc[trials.columns]
        records = [
            _compared(net, value, told[value], others.get((net, value)), trials[value].tolist())
            for value in trials.columns
        ]
        out["errors"] += records
        off = (told.to_numpy() - trials.to_numpy()).mean(axis=1)
        out["gaps"][net] = _plain(mean_interval(off.tolist()))
        out["agreement"][net] = _agreement(records)
        if net == Net.DEQ or Net.DEQ not in nets:
            continue
        apart = (trials - seen[Net.DEQ]).mean(axis=1)
        expected = told - lines.loc[Net.DEQ].loc[trials.columns]
        out["differences"][net] = {
            "measured": _plain(mean_interval(apart.tolist())),
            "predicted": float(expected.mean()),
            "trials": apart.tolist(),
        }
    if set(Net) <= set(nets):
        far, near = (
            np.array(out["differences"][net]["trials"]) for net in (Net.PLAIN, Net.MATCHED)
        )
        # In points; how far a mean difference is from zero, whichever way.
        ahead = 100 * (np.sign(far.mean()) * far - np.sign(near.mean()) * near)
        out["advantage"] = _plain(mean_interval(ahead.tolist()))
    for record in out["differences"].values():
        del record["trials"]
    return out


def _plain(measured: Measured) -> dict[str, Any]:
    return {"value": measured.value, "spread": measured.spread, "count": measured.count}


def _compared(
    net: str, value: float, told: float, independent: float | None, trials: list[float]
) -> dict[str, Any]:
    """Return one value's prediction beside its measurement."""
    measured = mean_interval(trials)
    return {
        "net": net,
        "value": float(value),
        "predicted": float(told),
        "independent": None if independent is None else float(independent),
        "measured": measured.value,
        "interval": measured.spread,
        "standard_error": standard_error(trials),
    }


def _agreement(records: list[dict[str, Any]]) -> dict[str, Any]:
    """Count the values at which a prediction is within two standard errors."""
    judged = sum(record["standard_error"] is not None for record in records)
    out: dict[str, Any] = {"of": len(records), "judged": judged}
    for name in ("predicted", "independent"):
        known = [record for record in records if record[name] is not None]
        gaps = [abs(record[name] - record["measured"]) for record in known]
        errors = [record["standard_error"] for record in known]
        near = [e is not None and gap <= 2 * e for gap, e in zip(gaps, errors, strict=True)]
        prefix = "" if name == "predicted" else "independent_"
        out |= {f"{prefix}within": sum(near), f"{prefix}largest": max(gaps, default=None)}
        out[f"{prefix}of"] = len(known)
    return out


def sentences(found: Mapping[str, Any]) -> Iterator[str]:
    """Say how near predictions are, and how far the networks from the DEQ."""
    values = _AXIS[found["against"]]
    if found["model"]:
        yield "lines are those of a mixture with the moments of the whole set, a model of the data"
    for net, told in found["agreement"].items():
        layers = found["layers"][net]
        depth = "" if net == Net.DEQ else f" ({layers} layer{'s' if layers > 1 else ''})"
        if not told["of"] or told["judged"] == 0:
            # One network has no standard error.
            yield f"{net}{depth}: predicted test error at most {told['largest']:.3f} away"
            continue
        text = (
            f"{net}{depth}: predicted test error within two standard errors at {told['within']} of "
            f"{told['of']} {values}, at most {told['largest']:.3f} away"
        )
        if told["independent_of"] and (layers > 1 or net == Net.DEQ):
            text += (
                f"; with features taken for independent at {told['independent_within']} of "
                f"{told['independent_of']}, {told['independent_largest']:.3f}"
            )
        yield text
    for net, apart in found["differences"].items():
        yield (
            f"{net}: test error minus the DEQ's, mean over {values}, {_interval(apart['measured'])}"
            f", predicted {apart['predicted']:+.4f}"
        )


def _interval(measured: Mapping[str, Any]) -> str:
    half = measured["spread"]
    return f"{measured['value']:+.4f}" + ("" if half is None else f" ± {half:.4f}")
