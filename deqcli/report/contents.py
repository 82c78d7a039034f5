"""What a page says of a folder of results: presets, other runs, the summary, records.

:func:`collect` alone knows how results are stored.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from deqcli import study
from deqcli.errors import InputError
from deqcli.quantities import RULE, SILENT
from deqcli.report import texts
from deqcli.reproduction import joined, presets, summary
from deqcli.runs import reading

#: The part of the page, and of the anchors, of runs that belong to no preset.
BEYOND = "beyond"
#: The class names of verdicts, by their first word; all others are "silent".
KINDS = ("agrees", "differs", "failed", "undecided", "skipped", "stale")

#: What stands for rows of a summary that was made of other settings than the run shown.
_STALE = "summary is of another run; run deqcli reproduce"
_ABSENT = "in the summary, but not in this folder; run deqcli reproduce"
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
    """A preset or another run: its numbers, and if it is in the folder its figure and provenance.

    A study whose findings have ``entries`` (where, printed, right, evidence) and the ``setup`` that
    they were measured in has them set above its figure. What a run ``found`` is told in sentences
    where no summary does; ``links`` lead to files, by what they are called.
    """

    name: str
    title: str
    numbers: tuple[Number, ...] = ()
    present: bool = False
    stem: str = ""
    caption: str = ""
    picture: Picture | None = None
    kept: bool = False
    command: str = ""
    provenance: Mapping[str, str] = field(default_factory=dict)
    evidence: tuple[tuple[str, ...], ...] = ()
    setup: str = ""
    found: tuple[str, ...] = ()
    links: Mapping[str, str] = field(default_factory=dict)

    @property
    def anchor(self) -> str:
        """Name of its place on the page."""
        return re.sub(r"[^a-z0-9]+", "-", self.name.lower())

    @property
    def said(self) -> tuple[Number, ...]:
        """Numbers that a paper says something of, and what went wrong."""
        return tuple(number for number in self.numbers if number.verdict != SILENT)

    @property
    def unsaid(self) -> tuple[Number, ...]:
        """Numbers that no paper says anything of."""
        return tuple(number for number in self.numbers if number.verdict == SILENT)

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
        whole = Entry(name, title, numbers, caption=caption)
        entries.append(_shown(whole, results, preset.stem, record))
    for figure in joined.load():
        place = 1 + max((k for k, e in enumerate(entries) if e.name in figure.parts), default=-1)
        if (results / f"{figure.stem}.csv").is_file():
            entries.insert(place, _joined(results, figure))
    known_stems = {name.replace("/", "-") for name in known}
    entries += [
        _beyond(results, path.stem, record)
        for path in sorted(results.glob("*.json"))
        if path.stem not in known_stems and (record := _other(results, path.stem))
    ]
    papers = {
        folder: f"{paper.key}: {paper.title}" + (f" ({paper.venue})" if paper.venue else "")
        for folder, paper in presets.papers().items()
    }
    return Contents(tuple(entries), papers | {BEYOND: "Beyond the papers"}, RULE)


def _shown(entry: Entry, results: Path, stem: str, record: Mapping[str, Any]) -> Entry:
    """Return an entry with what its run left in the folder."""
    return replace(
        entry,
        present=True,
        stem=stem,
        picture=_picture(results / f"{stem}.png"),
        kept=(results / f"{stem}.png").is_file(),
        command=texts.command(record),
        provenance=texts.provenance(record),
        evidence=texts.evidence(record["findings"]),
        setup=texts.recorded(record["findings"], "{setup}".format_map, ""),
    )


def _joined(results: Path, figure: joined.Joined) -> Entry:
    """Return the entry of a figure that joins others, which tell where they come from."""
    return Entry(
        figure.name,
        figure.heading,
        present=True,
        stem=figure.stem,
        caption=figure.about,
        picture=_picture(results / f"{figure.stem}.png"),
        kept=(results / f"{figure.stem}.png").is_file(),
        command=figure.command,
        provenance={"made of": ", ".join(f"{name.replace('/', '-')}.csv" for name in figure.parts)},
    )


def _other(results: Path, stem: str) -> dict[str, Any] | None:
    """Return the record of a run that belongs to no preset; None for any other file."""
    try:
        record = reading.record(results, stem)
    except InputError:
        return None
    return record if record and record["study"] in study.names() else None


def _beyond(results: Path, stem: str, record: Mapping[str, Any]) -> Entry:
    """Return the entry of a run that no paper has, told in its study's own sentences."""
    caption = study.summary(record["study"])
    try:
        found = tuple(map(str, study.get(record["study"]).sentences(record["findings"])))
    # Findings are JSON of any shape, of another version too.
    except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError):
        found = ()
    entry = Entry(f"{BEYOND}/{stem}", stem, caption=caption, found=found)
    return _shown(entry, results, stem, record)


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
    return Number(quantity, paper, ours, verdict, note, word if word in KINDS else "silent")


def _picture(path: Path) -> Picture | None:
    data = path.read_bytes() if path.is_file() else b""
    if not data.startswith(_PNG):
        return None
    # Width and height keep the place of a picture that is not decoded yet; a PNG begins with them.
    width, height = (int.from_bytes(data[start : start + 4], "big") for start in (16, 20))
    return Picture(width, height, base64.b64encode(data).decode())
