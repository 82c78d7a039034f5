"""One HTML file of a folder of results, with everything inside.

:func:`render` lays out what :func:`deqcli.report.contents.collect` found; ``page.html`` escapes
every text of it.
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections import Counter
from dataclasses import replace
from importlib.resources import files as resources
from pathlib import Path
from urllib.parse import quote

import jinja2

from deqcli._version import __version__
from deqcli.errors import InputError
from deqcli.quantities import SILENT
from deqcli.report import pdfs
from deqcli.report.contents import Contents, Entry, collect
from deqcli.runs import files
from deqcli.runs.lock import alone


def linked(contents: Contents, results: Path, page: Path) -> Contents:
    """Return contents whose entries lead to their CSV and PDF, where these exist."""

    def links(entry: Entry) -> dict[str, str]:
        there = {
            "PDF": pdfs.folder_of(page) / f"{entry.stem}.pdf",
            "CSV": results / f"{entry.stem}.csv",
        }
        return {
            label: quote(os.fsencode(Path(os.path.relpath(path, page.parent)).as_posix()))
            for label, path in there.items()
            if entry.present and path.is_file()
        }

    entries = (replace(entry, links=links(entry)) for entry in contents.entries)
    return replace(contents, entries=tuple(entries))


def build(results: Path, page: Path | None = None) -> str:
    """Return the page of a folder of results.

    Parameters
    ----------
    results : Path
    page : Path, optional
        Where it will lie, for its links; by default ``report.html`` in the folder.

    Raises
    ------
    InputError
        If the folder has no result of any preset, or cannot be read.
    """
    return render(linked(_whole(results), results, page or results / "report.html"))


def write(results: Path, page: Path) -> None:
    """Write the page of a folder of results, and the PDFs that it leads to beside it."""
    contents = _whole(results)
    files.make_folder(page.parent)
    with alone(page):
        pdfs.draw(results, page, [entry.stem for entry in contents.entries if entry.present])
        files.write_text(page, render(linked(contents, results, page)))


def _whole(results: Path) -> Contents:
    """Return what a folder holds, which must be something."""
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
        raise InputError(f"{results} has no results; {remedy}")
    return contents


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
        silent=SILENT,
        version=__version__,
        own=own,
    )
    # JSON may hold half a surrogate pair, which no file can.
    return page.encode("utf-8", "replace").decode("utf-8")


def _sha256(text: str) -> str:
    """Return the hash by which the policy of the page allows this style or script alone."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
