"""What is in a folder of results: finished runs, unfinished ones, and which command made them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deqcli.errors import InputError
from deqcli.runs import files

_PARTS = ".parts"


@dataclass(frozen=True)
class Listed:
    """One result of a folder.

    Attributes
    ----------
    stem : str
    state : str
        In words: of which study and version, or how far an unfinished one is.
    files : tuple of str
        Endings of the files that the record names and that are there.
    size : int
        Bytes of these files.
    command : str
        What can be typed to make the same; empty where no record says it.
    """

    stem: str
    state: str
    files: tuple[str, ...] = ()
    size: int = 0
    command: str = ""


def results(folder: Path) -> Iterator[Listed]:
    """Yield the results of a folder in the order of their names.

    Raises
    ------
    InputError
        If the folder is not there, or nothing in it is a result.
    """
    if not os.path.isdir(folder):  # noqa: PTH112  Path.is_dir raises on long names
        raise InputError(f"there is no folder {folder}; name one that a study wrote to.")
    with files.explained(folder, "read"):
        stems = {path.name.removesuffix(".json") for path in folder.glob("*.json")}
        stems |= {path.name.removesuffix(_PARTS) for path in folder.glob(f"*{_PARTS}")}
    found = [entry for stem in sorted(stems) if (entry := _entry(folder, stem)) is not None]
    if not found:
        raise InputError(f"{folder} has no result; 'deqcli spectrum --out {folder}' makes one.")
    yield from found


def _entry(folder: Path, stem: str) -> Listed | None:
    parts = folder / f"{stem}{_PARTS}"
    path = folder / f"{stem}.json"
    if not path.exists():
        count = len(list(parts.glob("*.npz")))
        return Listed(stem, f"unfinished, {count} point(s) done; the same command goes on")
    try:
        with files.explained(path, "read"):
            record: Any = files.read_json(path)
        study, outputs = str(record["study"]), dict(record["outputs"])
        command, made = str(record["command"]), str(record["deqcli"])
    except (ValueError, KeyError, TypeError):
        # Somebody else's file, or a summary.
        return None
    there = [name for name in (*outputs, path.name) if (folder / name).is_file()]
    lacking = len(outputs) + 1 - len(there)
    state = f"{study}, by deqcli {made}"
    if lacking:
        state += f"; {lacking} of its files {'is' if lacking == 1 else 'are'} gone"
    endings = tuple(name.removeprefix(stem) for name in there)
    return Listed(stem, state, endings, sum((folder / n).stat().st_size for n in there), command)
