"""One HTML file of a folder of results, with everything inside.

:func:`collect` alone (with :func:`_number`) knows of presets, summary and records. :func:`render`
lays out what it returns; ``page.html`` escapes every text of it.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files as resources
from pathlib import Path
from typing import Any, NamedTuple

import jinja2
import pandas as pd

from deqcli._version import __version__
from deqcli.errors import InputError
from deqcli.quantities import RULE
from deqcli.report import texts
from deqcli.reproduction import presets, reading, summary

#: What stands for rows of a summary that was made of other settings than the run shown.
_STALE = "summary is of another run; run deqcli reproduce"
_ABSENT = "in the summary, but not in this folder; run deqcli reproduce"
#: The class names of verdicts, by their first word; all others are "silent".
_KINDS = ("agrees", "differs", "failed", "undecided", "skipped", "stale")
_PNG = b"\x89PNG\r\n\x1a\n"


@dataclass(frozen=True)
class Number:
    """One row of the summary: the paper's number and ours."""

    quantity: str
    paper: str
    ours: str
    verdict: str
    note: str
    kind: str


class Picture(NamedTuple):
    """A PNG: its size in pixels, and its bytes in base64."""

    width: int
    height: int
    data: str


@dataclass(frozen=True)
class Entry:
    """A preset: its numbers and, if its run is in the folder, its figure and provenance.

    A study whose findings have ``entries`` (where, printed, right, evidence) and the ``setup`` that
    they were measured in has them set above its figure.
    """

    name: str
    title: str
    numbers: tuple[Number, ...] = ()
    present: bool = False
    caption: str = ""
    picture: Picture | None = None
    command: str = ""
    provenance: Mapping[str, str] = field(default_factory=dict)
    evidence: tuple[tuple[str, ...], ...] = ()
    setup: str = ""

    @property
    def anchor(self) -> str:
        """Name of its place on the page."""
        return re.sub(r"[^a-z0-9]+", "-", self.name.lower())

    @property
    def alt(self) -> str:
        """The figure in a sentence."""
        return texts.first_sentence(self.caption)


@dataclass(frozen=True)
class Contents:
    """All that the page says: the presets, and the titles of their papers."""

    entries: tuple[Entry, ...]
    papers: Mapping[str, str]
    rule: str


def collect(results: Path) -> Contents:
    """Return what a folder of results holds; nothing else here knows how it is stored."""
    known = presets.names()
    rows: dict[str, list[dict[Any, Any]]] = {name: [] for name in known}
    for row in summary.read(results).to_dict("records"):
        rows.setdefault(summary.text(row["preset"]), []).append(row)
    entries = []
    for name, mine in rows.items():
        preset = presets.load(name) if name in known else None
        record = reading.record(results, preset.stem) if preset else None
        title = preset.heading if preset else summary.text(mine[0]["figure"]) or name
        # A skipped or failed preset has rows without a hash, which say why.
        hashes = {summary.text(row["hash"]) for row in mine}
        current = hashes <= {"" if record is None else str(record["hash"])}
        stale = Number("", "", "–", _STALE if record else _ABSENT, "", "stale")
        numbers = tuple(_number(row, name) for row in mine) if current else (stale,)
        if preset is None or record is None:
            entries.append(Entry(name, title, numbers))
            continue
        caption = f"{preset.figure.about} {preset.figure.open}".strip()
        cut = summary.text(mine[0]["cut"]).split() if mine and current else []
        if cut:
            caption += f" This run is smaller than that: {', '.join(cut)}."
        entries.append(
            Entry(
                name,
                title,
                numbers,
                present=True,
                caption=caption,
                picture=_picture(results / f"{preset.stem}.png"),
                command=texts.command(record),
                provenance=texts.provenance(record),
                evidence=texts.evidence(record["findings"]),
                setup=texts.recorded(record["findings"], "{setup}".format_map, ""),
            )
        )
    papers = {
        folder: f"{paper.key}: {paper.title}" + (f" ({paper.venue})" if paper.venue else "")
        for folder, paper in presets.papers().items()
    }
    return Contents(tuple(entries), papers, RULE)


def _number(row: Mapping[str, Any], name: str) -> Number:
    quantity, paper, note = (summary.text(row[key]) for key in ("quantity", "paper", "note"))
    try:
        numbers = {key: float(row[key]) for key in ("ours", "interval")}
        ours = summary.ours(pd.Series(numbers, dtype=object))
    except (ArithmeticError, ValueError) as error:
        raise InputError(
            f"summary.csv cannot be used: {name} has ours = {row['ours']!r} and interval = "
            f"{row['interval']!r}, not two numbers; delete it and run deqcli reproduce again."
        ) from error
    verdict = summary.text(row["verdict"]).strip() or texts.NOT_RECORDED
    word = verdict.partition(" ")[0]
    return Number(quantity, paper, ours, verdict, note, word if word in _KINDS else "silent")


def _picture(path: Path) -> Picture | None:
    data = path.read_bytes() if path.is_file() else b""
    if not data.startswith(_PNG):
        return None
    # Width and height keep the place of a picture that is not decoded yet; a PNG begins with them.
    width, height = (int.from_bytes(data[start : start + 4], "big") for start in (16, 20))
    return Picture(width, height, base64.b64encode(data).decode())


def build(results: Path) -> str:
    """Return the page of a folder of results.

    Raises
    ------
    InputError
        If the folder has no result of any preset, or cannot be read.
    """
    try:
        if not results.is_dir():
            raise InputError(f"There is no folder {results}; run: deqcli reproduce all --quick.")
        contents = collect(results)
        quick = any((results / "quick").glob("*.json"))
    # A name too long, no permission; JSON nested without end.
    except (OSError, RecursionError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{results} cannot be read: {reason}; give other `results`.") from error
    if not any(entry.present for entry in contents.entries):
        remedy = "run: deqcli reproduce all --quick."
        if quick:
            remedy = f"give {results / 'quick'} as `results`, or run: deqcli reproduce all."
        raise InputError(f"{results} has no results of a preset; {remedy}")
    return render(contents)


def render(contents: Contents) -> str:
    """Return the page of what :func:`collect` found."""
    papers: dict[str, list[Entry]] = {}
    for entry in contents.entries:
        if entry.present:
            papers.setdefault(entry.name.partition("/")[0], []).append(entry)
    numbers = [number for entry in contents.entries for number in entry.numbers]
    counts = Counter(number.verdict for number in numbers if number.kind != "stale")
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    own = {kind: (resources("deqcli.report") / f"page.{kind}").read_text("utf-8")
           for kind in ("html", "css", "js")}  # fmt: skip
    environment.filters["sha256"] = _sha256
    page = environment.from_string(own["html"]).render(
        contents=contents,
        papers={key: (contents.papers.get(key, key), mine) for key, mine in papers.items()},
        missing=[entry for entry in contents.entries if not entry.present],
        counts=counts.most_common(),
        version=__version__,
        own=own,
    )
    # JSON may hold half a surrogate pair, which no file can.
    return page.encode("utf-8", "replace").decode("utf-8")


def _sha256(text: str) -> str:
    """Return the hash by which the policy of the page allows this style or script alone."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
