"""``deqcli report``."""

from __future__ import annotations

from pathlib import Path

import click

from deqcli.cli import options


@click.command("report", cls=options.Command, epilog="""\b
Examples:
  deqcli report
  deqcli report --results results/quick --out report.html
""")  # fmt: skip
@click.option("--results", type=click.Path(file_okay=False, path_type=Path),
              default="results", help="Folder that 'deqcli reproduce' wrote.")  # fmt: skip
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), default=None,
              help="The page.  [default: report.html in the folder of results]")  # fmt: skip
def command(*, results: Path, out: Path | None) -> None:
    """One web page of a folder of results.

    Figures with their captions, the papers' errata with their measured evidence, the command and
    provenance of each figure, and the table of verdicts, in one HTML file that needs no network,
    can be searched, follows the reader's light or dark setting, and can be read on a phone. Runs
    that belong to no paper come after the papers'. Every figure leads to its CSV in the folder of
    results and to its PDF, which is drawn into a folder beside the page: about half a second a
    figure the first time.
    """
    from deqcli.report.page import write

    path = out or results / "report.html"
    write(results, path)
    click.echo(path)
