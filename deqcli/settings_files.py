"""Files of settings: TOML, or the JSON record of a finished run."""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deqcli.checks import content, shown
from deqcli.errors import InputError


@dataclass(frozen=True)
class Document:
    """A settings file: which study it is for, its values, and the texts of a paper's figure."""

    study: str | None
    values: dict[str, Any]
    figure: dict[str, Any]


def read_document(path: Path) -> Document:
    """Read a TOML file of settings, or the JSON record of a finished run.

    Keys are option names; ``study`` says which study they are for, and the table ``figure`` of a
    preset has the texts and numbers of the paper.

    Raises
    ------
    InputError
        If the file cannot be read or is no mapping.
    """
    try:
        text = content(path)
        loaded: Any = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from error
    except RecursionError:
        raise InputError(f"{path} is no settings file: it is nested too deeply.") from None
    except ValueError as error:
        raise InputError(f"{path} is no settings file: {str(error).rstrip('.')}.") from error
    if not isinstance(loaded, dict):
        raise InputError(f"{path} is no settings file: it has no keys.")
    if path.suffix == ".json":
        if "settings" not in loaded:
            raise InputError(
                f"{path} is no settings file: it has no settings; give the record of a run."
            )
        loaded = {"study": loaded.get("study"), **_table(loaded, "settings", path)}
    study = loaded.pop("study", None)
    if study is not None and not isinstance(study, str):
        raise InputError(f"{path}: study is {shown(study)}; give the name of a study.")
    figure = _table(loaded, "figure", path)
    loaded.pop("figure", None)
    return Document(study, loaded, figure)


def _table(loaded: dict[str, Any], name: str, path: Path) -> dict[str, Any]:
    table = loaded.get(name, {})
    if not isinstance(table, dict):
        raise InputError(f"{path}: {name} is {shown(table)}; give a table of keys and values.")
    return table
