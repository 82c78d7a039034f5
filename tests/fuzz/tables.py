"""Numbers in tables: none may be infinite, and an empty cell has a row that says why."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

Mask = pd.Series

#: What `flow` measures only now and then, and what it knows only of whole runs.
_NOW_AND_THEN = ("test_loss", "test_error", "test_absolute", "lambda_min", "lambda_max",
                 "kernel_change")  # fmt: skip
_OF_RUNS = ("bound", "rademacher", "step_size", "peak", "slope", "window", "peak_flow",
            "slope_flow")  # fmt: skip
#: What a kernel classifier lacks.
_TRAINED = ("train_loss", "test_loss", "forward_seconds", "backward_seconds", "iterations",
            "residual", "parameters", "peak_memory")  # fmt: skip


def _match(table: pd.DataFrame, column: str) -> Mask:
    kind, matched = table["kind"], table["source"] == "matched"
    present = {
        "x": kind == "activation",
        "residual": (kind == "scalar") & matched & (table["name"] != "diagonal_slope"),
        "index": kind != "scalar",
        "isolated": kind == "eigenvalue",
        "distance": kind.isin(["eigenvalue", "average"]),
        "scaled": kind == "eigenvalue",
    }
    if column in ("value", "index"):
        return ~present.get(column, kind != "average") | (kind == "average")
    return ~present.get(column, kind != "")


def _spectrum(table: pd.DataFrame, column: str) -> Mask:
    source = table["source"]
    if column == "noise_floor":
        # One network has no second average.
        return (source != "monte-carlo") | (table["realizations"] < 2)
    law = source == "law"
    closed = source.isin(["equivalent", "own-norm"])
    if column == "network_relative":
        # Without hidden weights the inputs are all that there is.
        return closed | law | (table["sigma_a2"] == 0)
    if column == "own_norm":
        # On the sphere there is no such equivalent, and elsewhere it may not be asked for.
        return closed | law | ~(source == "own-norm").any()
    if column in ("density", "distribution"):
        return ~law | table["isolated"]
    if column == "error":
        # Of densities by Lanczos, not of eigenvalues and of laws.
        return law | table["density"].isna()
    if column in ("carries", "aligned"):
        return ~law | ~table["isolated"]
    return (closed & (column == "relative")) | (law & (column in ("relative", "distance", "norm")))


def _error_vs_n(table: pd.DataFrame, column: str) -> Mask:
    # The sphere has no own norms; odd activations have no squares; what is exact has no slope.
    sphere = table["data"] == "sphere"
    if column == "slope":
        return _rounding(table, "error")
    if column == "own_slope":
        return sphere | _rounding(table, "own_error")
    if column == "own_error":
        return sphere
    return pd.Series(column == "predicted", index=table.index)


def _rounding(table: pd.DataFrame, column: str) -> Mask:
    """Tell for which activations the mean error of a size is rounding."""
    means = table.groupby(["act", "n"])[column].transform("mean")
    return (means <= 1e-12).groupby(table["act"]).transform("any")


def _visible(table: pd.DataFrame, column: str) -> Mask:
    # Between the norms that are asked for nothing is measured.
    between = column in ("alignment", "eigenvalue")
    return table["kind"].eq("predicted") if between else table["kind"].isna()


def _accuracy(table: pd.DataFrame, column: str) -> Mask:
    if column in _TRAINED:
        return table["net"].str.endswith("-limit")
    return table["net"] == ""


def _flow(table: pd.DataFrame, column: str) -> Mask:
    lost = table["status"] != "ok"
    runs = table.groupby(["width", "trial"])
    last = runs["step"].transform("max")
    if column in _NOW_AND_THEN:
        # The first steps and the last have everything, unless the solve of the test samples
        # failed, which the next row then says.
        lost_next = runs["status"].shift(-1, fill_value="ok") != "ok"
        return lost | lost_next | ~table["step"].isin([0, 1]) & (table["step"] < last)
    if column == "contraction":
        # In one sweep, as a warm start may take, nothing is seen; the adjoint has its own.
        return lost | (table["step"] > 0) | (table["sweeps"] <= 2)
    if column in ("bound", "rademacher"):
        smallest = runs["lambda_min"].transform("first") / runs["lambda_max"].transform("first")
        return ~(smallest > 1e-14)
    if column in _OF_RUNS:
        # Nothing is fitted to one width, to lost runs or to no time.
        few = table["width"].nunique() < 2
        return runs["status"].transform(lambda s: (s != "ok").any()) | (few or bool(lost.any()))
    return lost


_EMPTY = {
    "spectrum": _spectrum,
    "error-vs-n": _error_vs_n,
    "visible": _visible,
    "match": _match,
    "accuracy": _accuracy,
    "flow": _flow,
}


def unexplained(study: str, table: pd.DataFrame) -> Iterator[str]:
    """Yield the columns with infinities, and with empty cells that no row accounts for."""
    for column in table.select_dtypes("number"):
        values = table[column]
        if np.isinf(values.to_numpy(dtype=float)).any():
            yield f"{study}: the column {column} has infinities"
        empty = values.isna()
        if study in _EMPTY:
            empty &= ~_EMPTY[study](table, column)
        if empty.any():
            row = table[empty].iloc[0].to_dict()
            yield f"{study}: the column {column} is empty, and nothing says why: {row}"
