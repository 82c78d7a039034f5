"""Read what a run left, and say in a sentence which file is broken and what to do."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from deqcli.errors import InputError
from deqcli.runs import files

_KEYS = ("findings", "hash", "study")


@dataclass(frozen=True)
class Recorded:
    """A finished run as its files have it."""

    record: dict[str, Any]
    table: pd.DataFrame

    @property
    def findings(self) -> dict[str, Any]:
        """What the study recorded."""
        findings: dict[str, Any] = self.record["findings"]
        return findings


def recorded(out: Path, stem: str) -> Recorded | None:
    """Return a finished run of a folder, or None if there is none.

    Raises
    ------
    InputError
        If one of its files is not whole.
    """
    record, path = out / f"{stem}.json", out / f"{stem}.csv"
    if not (record.is_file() and path.is_file()):
        return None
    with files.explained(record, "read"), _whole(record):
        value = json.loads(record.read_text(encoding="utf-8"))
        if not isinstance(value, dict):
            raise ValueError("no record of a run")
        lacking = [key for key in _KEYS if key not in value]
        if lacking:
            raise ValueError(f"there is no {lacking[0]!r} in it")
        if not isinstance(value["findings"], dict):
            raise ValueError("its findings are no mapping")
    return Recorded(value, table(path))


def table(path: Path, columns: Collection[str] | None = None) -> pd.DataFrame:
    """Return a table; if columns are named, it must have these."""
    with _whole(path):
        loaded = files.read_csv(path)
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
