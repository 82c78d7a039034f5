r"""What GEN promises of a run, read off the table of its times."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from deqcli.flow.training import OK


def promises(rows: pd.DataFrame) -> dict[str, Any]:
    r"""Return what GEN promises of one run beside what was measured; None where nothing was.

    ``rate`` is that of the loss over the second half of the run, :math:`\lambda_0` what Theorem
    3.1 promises; ``envelope_ratio`` the largest loss(t) over its envelope; ``kernel_change`` the
    largest :math:`\|H(t) - H(0)\|`, which the proof needs below :math:`\lambda_0/2`.

    Parameters
    ----------
    rows : DataFrame
        One run of the table that ``deqcli flow`` writes.
    """
    good = rows[rows["status"] == OK]
    if good.empty:
        return {"norm_start": _number(rows["norm"].iloc[0])}
    measured = good.dropna(subset="lambda_min")
    first, end = good.iloc[0], good.iloc[-1]
    tested = good.dropna(subset="test_loss")
    half = good[good["time"] >= end["time"] / 2].iloc[0]
    elapsed = end["time"] - half["time"]
    falls = elapsed > 0 and end["train_loss"] > 0
    rate = np.log(half["train_loss"] / end["train_loss"]) / elapsed if falls else np.nan
    lambda0 = first["lambda_min"]
    last = {
        name: np.nan if tested.empty else tested[name].iloc[-1]
        for name in ("test_loss", "test_error", "test_absolute")
    }
    numbers = {
        "lambda0": lambda0,
        "lambda_max": first["lambda_max"],
        "rate": rate,
        "envelope_ratio": (good["train_loss"] / good["envelope"]).max(),
        "largest_rise": good["train_loss"].diff().max(),
        "lambda_min_ratio": measured["lambda_min"].min() / lambda0 if lambda0 else np.nan,
        "kernel_change": measured["kernel_change"].max(),
        "norm_start": first["norm"],
        "norm_largest": rows["norm"].max(),
        "contraction_largest": good["contraction"].max(),
        "distance_largest": good["distance"].max(),
        "peak": first["peak"],
        "bound": first["bound"],
        "rademacher": first["rademacher"],
        "train_loss": end["train_loss"],
        "train_error": end["train_error"],
        **last,
        "time": end["time"],
    }
    steps = {
        "steps": int(end["step"]),
        "test_step": None if tested.empty else int(tested["step"].iloc[-1]),
    }
    return steps | {key: _number(value) for key, value in numbers.items()}


def _number(value: Any) -> float | None:
    return float(value) if np.isfinite(value) else None
