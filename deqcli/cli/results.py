"""``deqcli results``: what is in a folder, and which command made it."""

from __future__ import annotations

from pathlib import Path

import click

from deqcli.cli import options


@click.command("results", cls=options.Command, epilog="""\b
Examples:
  deqcli results
  deqcli results results/quick
""")  # fmt: skip
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path), default="results")
def command(folder: Path) -> None:
    """List the results of a folder: each with its files, its command, and what is unfinished.

    The command makes the same numbers again. A result is whole when its JSON is there; an
    interrupted run has finished points and goes on with the same command.
    """
    from deqcli.runs import listing, memory

    for entry in listing.results(folder):
        click.echo(f"{entry.stem}: {entry.state}")
        if entry.files:
            size = memory.format_bytes(entry.size)
            click.echo(f"  files    {' '.join(entry.files)} ({size})")
        if entry.command:
            click.echo(f"  command  {entry.command}")
