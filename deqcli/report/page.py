"""The page itself: HTML put together from a folder of results, everything inside one file."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Collection, Iterable, Mapping
from html import escape
from importlib.resources import files as resources
from pathlib import Path
from string import Template
from typing import Any

import pandas as pd

from deqcli import presets
from deqcli._version import __version__
from deqcli.errors import InputError
from deqcli.report.errata import ENTRIES, evidence
from deqcli.report.texts import command, first_sentence, greek
from deqcli.reproduction import summary
from deqcli.reproduction.quantities import QUANTITIES
from deqcli.reproduction.running import read
from deqcli.reproduction.verdicts import RULE, SILENT, Run
from deqcli.studies.errata import SETUP

TITLE = "The figures again: deep equilibrium models and their explicit twins"
LEAD = (
    "Every figure of four papers on deep equilibrium models, made again by one command, with the "
    "paper’s number beside ours, what was found wrong, and what made each figure."
)
PAPERS = {
    "hld": "HLD: On the equivalence between implicit and explicit neural networks (workshop, 2023)",
    "iclr": "ICLR: Implicit NNs are almost equivalent to not-so-deep explicit NNs (preprint)",
    "icml": "ICML: Deep equilibrium models are almost equivalent to not-so-deep explicit models",
    "gen": "GEN: Training only the implicit layer",
    "errata": "Errata",
}
_ERRATA_PRESET = "errata/printed-forms"
#: What stands for rows of a summary that was made of other settings than the run shown.
_STALE = "summary is of another run; run deqcli reproduce"
_ABSENT = "in the summary, but not in this folder; run deqcli reproduce"


def build(out: Path) -> str:
    """Return the page of a folder of results.

    Raises
    ------
    InputError
        If the folder has no result of any preset.
    """
    if not out.is_dir():
        raise InputError(f"There is no folder {out}; run: deqcli reproduce all --quick.")
    runs = {name: read(out, presets.load(name).stem) for name in QUANTITIES}
    found = {name: run for name, run in runs.items() if run is not None}
    if not found:
        remedy = "run: deqcli reproduce all --quick."
        if any((out / "quick").glob("*.json")):
            remedy = f"give --results {out / 'quick'}, or run: deqcli reproduce all."
        raise InputError(f"{out} has no results of a preset; {remedy}")
    table = _current(summary.read(out), found)
    figures = [name for name in found if name != _ERRATA_PRESET]
    sections = [("verdicts", "Verdicts", _verdicts(table, found))]
    entries = [("verdicts", "Verdicts", False)]
    for paper in dict.fromkeys(name.partition("/")[0] for name in figures):
        mine = [name for name in figures if name.startswith(f"{paper}/")]
        body = "\n".join(_figure(name, found[name], out, table) for name in mine)
        sections.append((paper, PAPERS[paper], body))
        entries.append((paper, PAPERS[paper].partition(":")[0], False))
        entries += [(_anchor(name), presets.load(name).title, True) for name in mine]
    sections.append(("errata", "What was found wrong in the papers", _errata(found, out, table)))
    entries.append(("errata", "What was found wrong in the papers", False))
    missing = [name for name, run in runs.items() if run is None]
    if missing:
        items = "".join(f"<li>{escape(presets.load(name).title)}</li>" for name in missing)
        sections.append(("missing", "Not in this folder", f"<ul>{items}</ul>"))
        entries.append(("missing", "Not in this folder", False))
    return _fill(entries, sections)


def _fill(
    entries: Iterable[tuple[str, str, bool]], sections: Iterable[tuple[str, str, str]]
) -> str:
    place = resources("deqcli.report")
    parts = {name: (place / f"page.{name}").read_text("utf-8") for name in ("html", "css", "js")}
    contents = "\n".join(
        f'<li{" class=sub" if sub else ""}><a href="#{anchor}">{escape(text)}</a></li>'
        for anchor, text, sub in entries
    )
    main = "\n".join(
        f'<section id="{anchor}"><h2><a href="#{anchor}">{escape(title)}</a></h2>\n{body}</section>'
        for anchor, title, body in sections
    )
    return Template(parts["html"]).substitute(
        title=escape(TITLE),
        lead=escape(LEAD),
        style=parts["css"],
        script=parts["js"],
        contents=contents,
        main=main,
        footer=f"Made by deqcli {__version__}: <code>deqcli reproduce all</code>, then "
        "<code>deqcli report</code>.",
    )


def _anchor(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower())


def _current(table: pd.DataFrame, found: Mapping[str, Run]) -> pd.DataFrame:
    """Return the summary without numbers of other runs than those found; one row says so."""
    parts = []
    for name, rows in table.groupby("preset", sort=False):
        run, hashes = found.get(str(name)), set(rows["spec_hash"].dropna())
        if run is None and not hashes:
            parts.append(rows)  # skipped or failed, and why
        elif run is not None and rows["spec_hash"].eq(run.record["spec_hash"]).all():
            parts.append(rows)
        else:
            empty = dict.fromkeys(summary.COLUMNS)
            known = {key: rows[key].iloc[0] for key in ("preset", "figure")}
            verdict = _ABSENT if run is None else _STALE
            parts.append(pd.DataFrame([{**empty, **known, "verdict": verdict}]))
    return pd.concat(parts, ignore_index=True) if parts else table


def _verdicts(table: pd.DataFrame, found: Collection[str]) -> str:
    if table.empty:
        return "<p>There is no summary in this folder: run <code>deqcli reproduce all</code>.</p>"
    counts = ", ".join(
        f"{count} × {escape(str(verdict))}"
        for verdict, count in table["verdict"].value_counts().items()
        if verdict not in (_STALE, _ABSENT)
    )
    head = ("figure", "quantity", "paper", "ours", "verdict")
    # The figure is named where its rows begin.
    first = table["preset"] != table["preset"].shift()
    return f"<p>{f'{counts}. ' if counts else ''}{escape(RULE)}</p>\n" + _table(
        head,
        [
            _row(row, row["preset"] in found, begins)
            for row, begins in zip(_records(table), first, strict=True)
        ],
    )


def _records(table: pd.DataFrame) -> list[dict[str, Any]]:
    return [{str(key): value for key, value in row.items()} for _, row in table.iterrows()]


def _row(row: dict[str, Any], shown: bool, begins: bool) -> list[tuple[str, str]]:
    anchor = _anchor(row["preset"]) if shown else "missing"
    figure = f'<a href="#{anchor}">{escape(summary.text(row["figure"]))}</a>' if begins else ""
    note = summary.text(row["note"])
    return [("", figure), *_numbers(row, f"<small>{escape(note)}</small>" if note else "")]


def _numbers(row: dict[str, Any], note: str = "") -> list[tuple[str, str]]:
    verdict = row["verdict"]
    kind = "silent" if verdict == SILENT or verdict.startswith("not") else verdict.split()[0]
    if verdict in (_STALE, _ABSENT):
        kind = "stale"
    return [
        ("", escape(summary.text(row["quantity"]))),
        ("paper", escape(summary.text(row["paper"]))),
        ("ours", escape(summary.ours(pd.Series(row)))),
        ("", f'<span class="verdict {kind}">{escape(verdict)}</span>{note}'),
    ]


def _table(head: Iterable[str], rows: Iterable[list[tuple[str, str]]], kind: str = "number") -> str:
    """Return a table whose cells are (label on a phone, HTML); labelled ones are of that kind."""
    titles = "".join(f"<th>{escape(title)}</th>" for title in head)
    lines = []
    for cells in rows:
        line = "".join(
            f'<td class="{kind}" data-label="{label}">{cell}</td>' if label and cell
            else f"<td>{cell}</td>"
            for label, cell in cells
        )  # fmt: skip
        lines.append(f"<tr>{line}</tr>")
    return (
        f'<div class="wide"><table class="cards"><thead><tr>{titles}</tr></thead>\n<tbody>'
        + "\n".join(lines)
        + "</tbody></table></div>"
    )


def _figure(name: str, run: Run, out: Path, table: pd.DataFrame) -> str:
    preset = presets.load(name)
    anchor = _anchor(name)
    mine = [row for row in _records(table) if row["preset"] == name]
    numbers = _table(("quantity", "paper", "ours", "verdict"), map(_numbers, mine)) if mine else ""
    caption = greek(preset.about)
    cut = summary.text(mine[0]["cut"]).split() if mine else []
    if cut:
        caption += f" This run is smaller than that: {', '.join(cut)}."
    return (
        f'<article id="{anchor}"><h3><a href="#{anchor}">{escape(preset.title)}</a></h3>\n'
        f"{_image(out / f'{preset.stem}.png', caption)}\n{numbers}\n"
        f"<pre><code>{escape(command(run.record['command']))}</code></pre>\n{_provenance(run)}</article>"
    )


def _image(path: Path, caption: str) -> str:
    if not path.is_file():
        return f"<p>{escape(path.name)} is missing.</p>"
    data = path.read_bytes()
    # Width and height keep the place of a picture that is not decoded yet; a PNG begins with them.
    width, height = (int.from_bytes(data[start : start + 4], "big") for start in (16, 20))
    encoded = base64.b64encode(data).decode()
    return (
        f'<figure><div class="plot" tabindex="0"><img width="{width}" height="{height}" '
        f'alt="{escape(first_sentence(caption))}" src="data:image/png;base64,{encoded}"></div>'
        f"<figcaption>{escape(caption)}</figcaption></figure>"
    )


def _provenance(run: Run) -> str:
    record, environment = run.record, run.record["environment"]
    commit = environment.get("commit") or {}
    versions = ", ".join(f"{k} {v}" for k, v in environment["packages"].items() if v)
    revision = str(commit.get("revision", "installed package"))[:12]
    facts = {
        "deqcli": f"{record['deqcli']}, {revision}{' and changes' if commit.get('dirty') else ''}",
        "seed": record["seed"],
        "settings (hash)": record["spec_hash"],
        "Python": f"{environment['python']}; {versions}",
        "machine": f"{environment['platform']}, {(environment['cpu'] or {}).get('model')}",
        "time": f"{record['timings'].get('points', 0):.0f} s on {record['timings'].get('jobs')} "
        "process(es)",
        "files (SHA-256)": "; ".join(f"{k} {v[:16]}…" for k, v in record["outputs"].items()),
        "all settings": json.dumps(record["spec"], sort_keys=True, ensure_ascii=False),
    }
    items = "".join(f"<dt>{escape(k)}</dt><dd>{escape(str(v))}</dd>" for k, v in facts.items())
    return f"<details><summary>Provenance</summary><dl>{items}</dl></details>"


def _errata(found: dict[str, Run], out: Path, table: pd.DataFrame) -> str:
    run = found.get(_ERRATA_PRESET)
    rows = [
        [("", f"<strong>{escape(entry.where)}</strong>"), ("printed", escape(entry.printed)),
         ("right", escape(entry.right)),
         ("evidence", escape(evidence(name, run.results if run else None)))]
        for name, entry in ENTRIES.items()
    ]  # fmt: skip
    body = _table(("where", "printed", "right", "evidence"), rows, "text")
    if run is not None:
        spec = run.record["spec"]
        sizes = f" Here n = {', '.join(map(str, spec['sizes']))}; {spec['trials']} trial(s) each."
        body += f'<p class="note">{escape(SETUP + sizes)}</p>\n'
        body += _figure(_ERRATA_PRESET, run, out, table)
    return body
