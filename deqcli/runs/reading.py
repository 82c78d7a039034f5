"""Read what a run left, and say in a sentence which file is broken and what to do."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pandas as pd

from deqcli.checks import shown
from deqcli.errors import InputError
from deqcli.runs import files, provenance, tables
from deqcli.runs.result import Result
from deqcli.study import get

_KEYS = ("findings", "hash", "study")
_ENDINGS = (".csv", ".json")


def read(path: str | os.PathLike[str]) -> Result:
    """Read what a finished run left, as `run` returned it: nothing is computed or written.

    A column that is the same in every row of a run, or of one of its parts, is in the JSON and not
    in the CSV; the table has both.

    Parameters
    ----------
    path : path
        The CSV or the JSON of the run, or what their names share; both files are needed.

    Returns
    -------
    Result
        With `table`, `findings`, `settings`, `record` and `figure()`; its status is "already done",
        and `memory` what the largest process took, 0 where that was not measured. A file of
        samples may be gone; settings name it without its folder.

    Raises
    ------
    InputError
        If there is no such result, or one of its two files is broken or not of the other.
    RunError
        If a file cannot be read.

    Examples
    --------
    >>> import tempfile
    >>> import deqcli
    >>> folder = tempfile.TemporaryDirectory()
    >>> made = deqcli.run("match", act="tanh", sigma_a2=0.1, tau0=1.0, out=folder.name, name="twin")
    >>> result = read(f"{folder.name}/twin.csv")
    >>> result.settings == made.settings, result.table.equals(made.table)
    (True, True)
    >>> folder.cleanup()
    """
    if not isinstance(path, str | os.PathLike):
        raise InputError(f"`path` is {shown(path)}; give the CSV of a finished run.")
    given = Path(os.fsdecode(path))
    stem = given.stem if given.suffix in _ENDINGS else given.name
    csv, of_run = (given.parent / f"{stem}{ending}" for ending in _ENDINGS)
    where = f"`path` is {shown(str(given))}"
    if not _there(csv):
        raise InputError(f"{where}, where there is no table; give the CSV of a finished run.")
    if not _there(of_run):
        raise InputError(
            f"{where}, and no {of_run.name} beside it tells what made it; pandas.read_csv reads a"
            " table alone."
        )
    kept = record(given.parent, stem) or {}
    with files.usable(of_run):
        mappings = ("settings", "outputs", "timings")
        lacking = [key for key in mappings if not isinstance(kept.get(key), dict)]
        if lacking:
            raise ValueError(f"it has no mapping {lacking[0]!r}")
        study = get(str(kept["study"]))
        settings = study.settings.restored(kept["settings"])
        # Older records have no peak.
        peak = int(kept["timings"].get("peak_bytes", 0))
    with files.explained(csv, "read"), files.usable(csv):
        if files.sha256(csv) not in kept["outputs"].values():
            raise ValueError(f"it is not the table that {of_run.name} was written for")
    points = len(study.points(settings))
    named = [given.parent / name for name in kept["outputs"]]
    result = Result(
        study.name,
        stem,
        settings,
        "already done",
        points=points,
        reused=points,
        memory=peak,
        paths=tuple(file for file in (*named, of_run) if _there(file)),
        record=kept,
        _table=table(csv),
    )
    # What is wrong with its findings is told now.
    _ = result.sentences, result.shortcomings
    with files.usable(of_run):
        if not provenance.is_unchanged(kept):
            raise ValueError("its findings or constants were changed")
    return result


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
    with files.explained(path, "read"), files.usable(path):
        value = files.read_json(path)
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
    with files.usable(path):
        loaded = tables.read(path)
        if columns is not None and list(loaded.columns) != list(columns):
            raise ValueError("its columns are others")
    return loaded


def _there(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):
        # No file can have such a name: too long, or with a null in it.
        return False
