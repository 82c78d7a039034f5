"""Tables of runs: what is the same in many rows is in the record, and put back on reading.

A study says which columns those are (:attr:`deqcli.study.Study.constants`): of the whole run, or
of all rows that agree in some other columns. Which they are never depends on the values, so that a
study's CSV has the same columns every time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from deqcli.runs import files

Constants = Mapping[tuple[str, ...], Sequence[str]]
"""Names of columns, by the columns that decide their values; none for those of the whole run."""


def split(table: pd.DataFrame, constants: Constants) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Return the table without its constants, and these for the record.

    Returns
    -------
    table : DataFrame
    kept : dict
        ``columns``, all columns in their order, and ``constants``, a list of small tables: how many
        of their columns decide (``by``), the names of all (``names``), and the rows (``values``);
        JSON-able.

    Raises
    ------
    ValueError
        If a column takes several values where it may have one.

    Examples
    --------
    >>> table = pd.DataFrame({"source": ["a", "a", "b"], "x": [1, 2, 3], "norm": [7.0, 7.0, 9.0],
    ...                       "act": "tanh"})
    >>> rest, kept = split(table, {(): ["act"], ("source",): ["norm"]})
    >>> list(rest.columns), kept["constants"][1]
    (['source', 'x'], {'by': 1, 'names': ['source', 'norm'], 'values': [['a', 7.0], ['b', 9.0]]})
    >>> joined(rest, kept).equals(table)
    True
    """
    parts = []
    for by, names in constants.items():
        if not (there := [name for name in names if name in table]):
            continue
        rows = table[[*by, *there]].drop_duplicates()
        if rows.duplicated(list(by)).any() if by else len(rows) > 1:
            raise ValueError(f"{', '.join(there)} are no constants of {', '.join(by) or 'the run'}")
        parts.append({"by": len(by), "names": list(rows.columns), "values": _plain(rows)})
    dropped = {name for names in constants.values() for name in names}
    kept = {"columns": list(table.columns), "constants": parts}
    return table[[name for name in table.columns if name not in dropped]], kept


def joined(table: pd.DataFrame, record: Mapping[str, Any]) -> pd.DataFrame:
    """Return the table of a CSV with the constants of its record, columns in their order.

    Raises
    ------
    ValueError
        If the record's constants are not of this table.
    """
    if "constants" not in record:
        return table
    try:
        for part in record["constants"]:
            table = _joined(table, part["by"], pd.DataFrame(part["values"], columns=part["names"]))
        # Those of a table without rows have no values.
        return table.reindex(columns=list(record["columns"]))
    except (LookupError, TypeError, AttributeError) as error:
        raise ValueError("the constants of its record are not of this table") from error


def read(path: Path) -> pd.DataFrame:
    """Return the table of a CSV with the constants of the record beside it, if there is one.

    Raises
    ------
    RunError
        If it cannot be read.
    ValueError
        If one of the two files is broken.
    """
    table, record = files.read_csv(path), path.with_suffix(".json")
    if not record.is_file():
        return table
    with files.explained(record, "read"):
        value = files.read_json(record)
    return joined(table, value) if isinstance(value, dict) else table


def _joined(table: pd.DataFrame, by: int, rows: pd.DataFrame) -> pd.DataFrame:
    if rows.empty:
        return table
    # Missing text of a CSV reads as NaN, for some versions of pandas another thing than None.
    rows = rows.where(rows.notna(), float("nan"))
    # Null alone tells no type; an empty column of a CSV reads as numbers.
    empty = [name for name in rows if rows[name].isna().all()]
    rows = rows.astype(dict.fromkeys(empty, float))
    if by:
        return table.merge(rows, on=list(rows.columns[:by]), how="left", sort=False)
    values = {str(name): rows[name].iloc[0] for name in rows}
    return table.assign(**values) if values else table


def _plain(rows: pd.DataFrame) -> list[list[Any]]:
    """Return rows as JSON has them."""
    return [
        [None if pd.isna(value) else value for value in row]
        for row in rows.astype(object).to_numpy().tolist()
    ]
