"""``deqcli scalars``."""

from __future__ import annotations

import click

from deqcli.cli import options
from deqcli.shared_settings import DeqSettings


@click.command(cls=options.Command, epilog="""\b
Example:
  deqcli scalars --act relu --sigma-a2 0.2 --tau0 1.05
""")  # fmt: skip
@options.shared(*options.setting_options(DeqSettings))
@click.option("--tau0", type=float, default=1.0, help="Root of the data's mean variance.")
def command(act: str, sigma_a2: float, sigma_b2: float | None, tau0: float) -> None:
    """Print the scalars through which the kernels of a DEQ see its activation, as CSV."""
    from dataclasses import asdict

    from deqcli.scalars import implicit_scalars

    values = asdict(implicit_scalars(act, sigma_a2, sigma_b2, tau0))
    click.echo("scalar,value")
    for name, value in values.items():
        click.echo(f"{name},{value!r}" if isinstance(value, float) else f"{name},{value}")
