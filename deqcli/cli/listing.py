"""``deqcli list``."""

from __future__ import annotations

import click

from deqcli.cli import options


@click.command(cls=options.Command, epilog="""\b
Example:
  deqcli list activations
""")  # fmt: skip
@click.argument("what", type=click.Choice(("activations", "datasets", "kernels", "presets")))
def command(what: str) -> None:
    """List what the other commands understand."""
    if what == "activations":
        from deqcli.activations import PARAMETERS, activation
        from deqcli.vocabulary import ACTIVATIONS

        for name in ACTIVATIONS:
            act = activation(name)
            parameters = ",".join(PARAMETERS[name])
            text = f"{name}:{parameters}" if parameters else name
            click.echo(f"{text:38s} L = {act.lipschitz:<8.5g} kinks {act.kinks or 'none'}")
    elif what == "datasets":
        from deqcli.data.registry import names
        from deqcli.shared_settings import DRAWN

        click.echo("\n".join([*DRAWN, *names()]))
    elif what == "presets":
        from deqcli.reproduction import presets

        for name in presets.names():
            click.echo(f"{name:22s} {presets.load(name).heading}")
    else:
        from deqcli.vocabulary import Kernel

        click.echo("\n".join(Kernel))
