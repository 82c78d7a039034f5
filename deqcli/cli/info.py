"""``deqcli info``."""

from __future__ import annotations

import json

import click


@click.command()
def command() -> None:
    """Print versions, BLAS and machine, as every result records them."""
    from deqcli._version import __version__
    from deqcli.runs.provenance import environment

    click.echo(json.dumps({"deqcli": __version__, **environment()}, indent=2))
