"""Compare fresh tables with committed ones, each column within the tolerance of its study.

Text, whole numbers and truth values must be the same, and so must what is not finite. A number
inside a text, such as an activation's parameter, is compared as a number where the column has a
tolerance (:class:`deqcli.study.Tolerance`).
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from deqcli.runs import reading
from deqcli.study import Study, Tolerance

_NUMBER = re.compile(r"[-+]?\d+\.?\d*(?:[eE][-+]?\d+)?")


@dataclass(frozen=True)
class Difference:
    """One column of one file that is not as committed."""

    file: str
    column: str
    message: str

    def __str__(self) -> str:
        where = f"{self.file}, column {self.column}" if self.column else self.file
        return f"{where}: {self.message}"


def compare(study: Study[Any, Any], fresh: Path, committed: Path) -> list[Difference]:
    """Return how a fresh table differs from the committed one, nothing if it does not.

    Raises
    ------
    InputError
        If one of them cannot be read.
    """
    if not committed.is_file():
        return [Difference(committed.name, "", f"there is no committed file {committed}")]
    new, old = reading.table(fresh), reading.table(committed)
    return compare_tables(study, committed.name, new, old)


def compare_tables(
    study: Study[Any, Any], file: str, new: pd.DataFrame, old: pd.DataFrame
) -> list[Difference]:
    """Compare two tables column by column.

    Examples
    --------
    >>> from deqcli.study import get
    >>> old = pd.DataFrame({"act": ["relu"], "error": [0.25]})
    >>> new = old.assign(error=0.26)
    >>> [str(part) for part in compare_tables(get("error-vs-n"), "a.csv", new, old)]
    ['a.csv, column error: row 0 is 0.26, committed 0.25: off by 0.01, allowed 2.5e-06']
    """
    if list(new.columns) != list(old.columns):
        odd = sorted(set(new.columns) ^ set(old.columns))
        return [Difference(file, "", f"the columns differ: {', '.join(odd) or 'their order'}")]
    if len(new) != len(old):
        return [Difference(file, "", f"{len(new)} rows, committed {len(old)}")]
    differences = []
    for column in old.columns:
        if column in study.ignored:
            continue
        message = _compare_columns(study, column, new, old)
        if message:
            differences.append(Difference(file, column, message))
    return differences


def compare_verdicts(
    fresh: pd.DataFrame, committed: pd.DataFrame, presets: Collection[str]
) -> list[Difference]:
    """Compare the verdicts of two summaries for some presets."""
    new, old = (
        {(row["preset"], row["quantity"]): row["verdict"] for _, row in part.iterrows()}
        for part in (
            table[table["preset"].isin(presets) & table["quantity"].notna()]
            for table in (fresh, committed)
        )
    )
    return [
        Difference("summary.csv", "verdict", f"{preset}, {quantity}: {mine}, committed {theirs}")
        for preset, quantity in dict.fromkeys([*old, *new])
        for mine, theirs in [
            (table.get((preset, quantity), "not there") for table in (new, old)),
        ]
        if mine != theirs
    ]


def _compare_columns(
    study: Study[Any, Any], column: str, fresh: pd.DataFrame, committed: pd.DataFrame
) -> str:
    new, old = fresh[column], committed[column]
    own = study.tolerances.get(column)
    floats = any(pd.api.types.is_float_dtype(part) for part in (new, old))
    if floats and all(pd.api.types.is_numeric_dtype(part) for part in (new, old)):
        tolerance = own or study.tolerances.get("", Tolerance())
        room: float | NDArray[Any] = tolerance.absolute
        if tolerance.samples:
            room = room + tolerance.samples / committed[tolerance.count].to_numpy(float)
        rows = np.arange(len(old))
        return _off(new.to_numpy(float), old.to_numpy(float), rows, tolerance, room)
    for row, pair in enumerate(zip(new, old, strict=True)):
        # An empty cell reads as NaN, which has the same text as itself.
        a, b = map(str, pair)
        if a == b:
            continue
        if own is None or _NUMBER.sub("", a) != _NUMBER.sub("", b):
            return f"row {row} is {a}, committed {b}"
        here, there = (np.array(_NUMBER.findall(part), dtype=float) for part in (a, b))
        message = _off(here, there, np.full(len(here), row), own, own.absolute)
        if message:
            return message
    return ""


def _off(
    new: NDArray[Any],
    old: NDArray[Any],
    rows: NDArray[Any],
    tolerance: Tolerance,
    room: float | NDArray[Any],
) -> str:
    """Say where the two are furthest apart beyond what is allowed, if that is anywhere."""
    gone = np.isnan(new) != np.isnan(old)
    if gone.any():
        return f"row {rows[np.argmax(gone)]} is empty on one side only"
    finite = np.isfinite(new) & np.isfinite(old)
    odd = ~finite & ~np.isnan(old) & (new != old)
    if odd.any():
        first = int(np.argmax(odd))
        return f"row {rows[first]} is {new[first]:.6g}, committed {old[first]:.6g}"
    new, old = np.where(finite, new, 0.0), np.where(finite, old, 0.0)
    largest = float(np.abs(old).max(initial=0.0))
    allowed = tolerance.relative * np.abs(old) + tolerance.of_largest * largest + room
    apart = np.abs(new - old)
    # The difference of two decimal fractions may exceed theirs by rounding.
    excess = apart - allowed * (1 + 1e-9)
    if not (excess > 0).any():
        return ""
    worst = int(np.argmax(excess))
    return (
        f"row {rows[worst]} is {new[worst]:.6g}, committed {old[worst]:.6g}: off by "
        f"{apart[worst]:.2g}, allowed {allowed[worst]:.2g}"
    )
