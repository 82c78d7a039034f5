"""Read what a run left, and say in a sentence which file is broken and what to do."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd

from deqcli.errors import InputError
from deqcli.runs import files, tables

_KEYS = ("findings", "hash", "study")


def record(out: Path, stem: str) -> dict[str, Any] | None:
    """Return the record of a finished run of a folder, or None if there is none.

    Raises
    ------
    InputError
        If it is not whole.
    """
    path = out / f"{stem}.json"
    if not path.is_file():
        return None
    with files.explained(path, "read"), _whole(path):
        value = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(value, dict):
            raise ValueError("no record of a run")
        lacking = [key for key in _KEYS if key not in value]
        if lacking:
            raise ValueError(f"there is no {lacking[0]!r} in it")
        if not isinstance(value["findings"], dict):
            raise ValueError("its findings are no mapping")
    return value


def table(path: Path, columns: Collection[str] | None = None) -> pd.DataFrame:
    """Return a table with the constants of its record; if columns are named, it has these."""
    with _whole(path):
        loaded = tables.read(path)
        if columns is not None and list(loaded.columns) != list(columns):
            raise ValueError("its columns are others")
    return loaded


@contextmanager
def _whole(path: Path) -> Iterator[None]:
    # Broken JSON, CSV and UTF-8 are all ValueErrors.
    try:
        yield
    except ValueError as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise InputError(
            f"{path} cannot be used: {reason}; delete it, or start over with `force`."
        ) from error
