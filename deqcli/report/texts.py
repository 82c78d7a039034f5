"""Texts of presets and records as a reader of the page expects them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import PureWindowsPath
from typing import Any

NOT_RECORDED = "not recorded"

_OUT = re.compile(r"""\s--out[ =]((?:'[^']*'|"[^"]*"|[^\s'"])+)""")

Text = Callable[[Any], str]


def recorded(record: Any, text: Text, otherwise: str = NOT_RECORDED) -> str:
    """Return a text made of a record, another where the record lacks what the text needs.

    Examples
    --------
    >>> time = "{timings[points]:.0f} s".format_map
    >>> recorded({"timings": {"points": 61.5}}, time), recorded({"timings": "soon"}, time)
    ('62 s', 'not recorded')
    """
    # A record is JSON of any shape. RecursionError: nested too deeply to be written again.
    try:
        return text(record) or otherwise
    except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError, RecursionError):
        return otherwise


def command(record: Mapping[str, Any]) -> str:
    """Return the command of a record without a folder that only one machine has.

    Examples
    --------
    >>> command({"command": "deqcli errata --n 64,128 --out '/home/me/my results' --name e"})
    'deqcli errata --n 64,128 --name e'
    >>> command({"command": "deqcli errata --out=build/results"})
    'deqcli errata --out=build/results'
    """

    def kept(option: re.Match[str]) -> str:
        path = option.group(1).strip("'\"")
        local = path.startswith("~") or PureWindowsPath(path).anchor
        return "" if local else option.group()

    return recorded(record, lambda record: _OUT.sub(kept, record["command"]))


_FACTS: dict[str, Text] = {
    "deqcli": "{deqcli}".format_map,
    "commit": "{environment[commit][revision]:.12}".format_map,
    "changes not committed": "{environment[commit][dirty]}".format_map,
    "seed": "{settings[seed]}".format_map,
    "settings (hash)": "{hash}".format_map,
    "Python": "{environment[python]}".format_map,
    "packages": lambda record: ", ".join(
        f"{name} {version}"
        for name, version in record["environment"]["packages"].items()
        if version
    ),
    "machine": "{environment[platform]}, {environment[cpu][model]}".format_map,
    "time": "{timings[points]:.0f} s on {timings[jobs]} process(es)".format_map,
    "files (SHA-256)": lambda record: "; ".join(
        f"{name} {digest[:16]}…" for name, digest in record["outputs"].items()
    ),
    "all settings": lambda record: json.dumps(
        record["settings"], sort_keys=True, ensure_ascii=False
    ),
}


def provenance(record: Mapping[str, Any]) -> dict[str, str]:
    """Return what a record says of a run's origin, by what it is."""
    return {name: recorded(record, text) for name, text in _FACTS.items()}


def evidence(findings: Mapping[str, Any]) -> tuple[tuple[str, ...], ...]:
    """Return the entries of a study's findings: where, what is printed, what is right, evidence.

    Examples
    --------
    >>> entry = {"where": "Theorem 1", "printed": "a", "right": "b", "evidence": "c"}
    >>> evidence({"entries": [entry, "odd"]}), evidence({})
    ((('Theorem 1', 'a', 'b', 'c'),), ())
    """
    entries = findings.get("entries")
    keys = ("where", "printed", "right", "evidence")
    return tuple(
        tuple(recorded(entry, partial(str.format_map, f"{{{key}}}")) for key in keys)
        for entry in (entries if isinstance(entries, list) else ())
        if isinstance(entry, dict)
    )


def first_sentence(text: str) -> str:
    """Return what comes before a full stop that a capital follows.

    Examples
    --------
    >>> first_sentence("Errors for n = 0.5 p, see p. 8; slopes. Chosen here: tanh.")
    'Errors for n = 0.5 p, see p. 8; slopes.'
    """
    return re.split(r"(?<=\.)\s+(?=[\"“(]?[A-Z])", text, maxsplit=1)[0]
