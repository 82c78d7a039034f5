"""``deqcli list``."""

from __future__ import annotations

import click

#: Names for completion, without importing numpy; a test keeps them equal to the registry.
ACTIVATIONS = (
    "identity", "tanh", "arctan", "erf", "sin", "cos", "relu", "nrelu", "lrelu", "maxlin", "abs",
    "htanh", "swish", "gelu", "softplus", "elu", "quadratic", "cubic", "hermite",
)  # fmt: skip


@click.command(epilog="""\b
Example:
  deqcli list activations
""")  # fmt: skip
@click.argument("what", type=click.Choice(("activations", "datasets", "kernels", "presets")))
def command(what: str) -> None:
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

        click.echo("\n".join(["gmm", "sphere", *names()]))
    elif what == "presets":
        from deqcli import presets

        for name in presets.names():
            click.echo(f"{name:22s} {presets.load(name).title}")
    else:
        from deqcli.vocabulary import Kernel

        click.echo("\n".join(Kernel))
