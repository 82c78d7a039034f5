"""Commands that only look something up: ``deqcli list``, ``deqcli scalars``, ``deqcli info``."""

from __future__ import annotations

import click

from deqcli.checks import SCALE, number
from deqcli.cli import options
from deqcli.shared_settings import DeqSettings
from deqcli.vocabulary import ACTIVATIONS, DRAWN, Kernel


@click.command("list", cls=options.Command, epilog="""\b
Example:
  deqcli list activations
""")  # fmt: skip
@click.argument("what", type=click.Choice(("activations", "datasets", "kernels", "presets")))
def listing(what: str) -> None:
    """List what the other commands understand."""
    if what == "activations":
        from deqcli.activations import PARAMETERS, activation

        for name in ACTIVATIONS:
            act = activation(name)
            parameters = ",".join(PARAMETERS[name])
            text = f"{name}:{parameters}" if parameters else name
            click.echo(f"{text:38s} L = {act.lipschitz:<8.5g} kinks {act.kinks or 'none'}")
    elif what == "datasets":
        from deqcli.data.registry import names

        click.echo("\n".join([*DRAWN, *names()]))
    elif what == "presets":
        from deqcli.reproduction import presets

        for name in presets.names():
            click.echo(f"{name:22s} {presets.load(name).heading}")
    else:
        click.echo("\n".join(Kernel))


@click.command(cls=options.Command, epilog="""\b
Example:
  deqcli scalars --act relu --sigma-a2 0.2 --tau0 1.05
""")  # fmt: skip
@options.shared(*options.setting_options(DeqSettings))
@click.option("--tau0", default="1.0", metavar="NUMBER", help="Root of the data's mean variance.")
def scalars(act: str, sigma_a2: float, sigma_b2: float | None, tau0: str) -> None:
    """Print the scalars through which the kernels of a DEQ see its activation, as CSV."""
    from deqcli.scalars import implicit_scalars

    values = implicit_scalars(act, sigma_a2, sigma_b2, number(tau0, "tau0", float, SCALE))
    click.echo("scalar,value")
    for name, value in values.as_record().items():
        click.echo(f"{name},{value!r}" if isinstance(value, float) else f"{name},{value}")


@click.command(cls=options.Command)
def info() -> None:
    """Print versions, BLAS and machine, as every result records them."""
    import json

    from deqcli._version import __version__
    from deqcli.runs.provenance import environment

    click.echo(json.dumps({"deqcli": __version__, **environment()}, indent=2))
