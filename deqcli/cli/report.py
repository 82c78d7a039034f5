"""``deqcli report``."""

from __future__ import annotations

from pathlib import Path

import click

from deqcli.cli import options


@click.command(cls=options.Command, epilog="""\b
Examples:
  deqcli report
  deqcli report --results results/quick --out report.html
""")  # fmt: skip
@click.option("--results", type=click.Path(file_okay=False, path_type=Path),
              default="results", help="Folder that 'deqcli reproduce' wrote.")  # fmt: skip
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), default=None,
              help="The page.  [default: report.html in the folder of results]")  # fmt: skip
def command(*, results: Path, out: Path | None) -> None:
    """One self-contained web page of a folder of results.

    Figures with their captions, the table of verdicts, the papers' errata with their measured
    evidence, and the command and provenance of each figure, in one HTML file that needs no
    network, follows the reader's light or dark setting, and can be read on a phone.
    """
    from deqcli.report.page import build
    from deqcli.runs import files

    path = out or results / "report.html"
    page = build(results)
    files.make_folder(path.parent)
    files.write_text(path, page)
    click.echo(path)
