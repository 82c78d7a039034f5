"""The figures of a folder of results as PDF, beside the page that leads to them."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path

from deqcli import study
from deqcli.errors import DeqcliError
from deqcli.runs import files, reading

logger = logging.getLogger("deqcli")


def folder_of(page: Path) -> Path:
    """Return where the PDFs of a page lie.

    Examples
    --------
    >>> folder_of(Path("results/report.html")).as_posix()
    'results/report-pdf'
    """
    return page.with_name(f"{page.stem}-pdf")


def draw(results: Path, page: Path, stems: Iterable[str]) -> None:
    """Draw runs of a folder from their tables; what is newer than its table stays as it is.

    A table that cannot be drawn costs its own PDF and a warning.
    """
    from deqcli.figures import accuracy_gaps

    if folder_of(page).is_dir():
        files.remove_temporaries(folder_of(page))
    for stem in stems:
        table, pdf = results / f"{stem}.csv", folder_of(page) / f"{stem}.pdf"
        if not table.is_file() or _newer(pdf, table):
            continue
        try:
            record = reading.record(results, stem)
            drawn = accuracy_gaps.draw if record is None else study.get(record["study"]).draw
            figure = drawn(reading.table(table))
        # Tables of another version lack columns, in as many ways as there are studies.
        except (DeqcliError, LookupError, TypeError, ValueError, AttributeError) as error:
            logger.warning("%s: no PDF, its table cannot be drawn: %s", stem, error)
            continue
        files.make_folder(pdf.parent)
        files.write_figure(pdf, figure, stem)


def _newer(pdf: Path, table: Path) -> bool:
    return pdf.is_file() and pdf.stat().st_mtime >= table.stat().st_mtime
