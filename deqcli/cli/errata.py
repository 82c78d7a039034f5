"""``deqcli errata``."""

from __future__ import annotations

from typing import Any

import click

from deqcli.cli import options
from deqcli.cli.options import Commas


@click.command(epilog="""\b
Examples:
  deqcli errata
  deqcli errata --n 128,256,512 --trials 2
""")  # fmt: skip
@click.option("--n", "sizes", type=Commas(int), default="250,500,1000,2000,4000",
              help="Sample sizes, separated by commas.")  # fmt: skip
@click.option("--trials", type=click.IntRange(1), default=3, help="Data sets at each n.")
@options.seed
@options.output
@click.pass_context
def command(
    ctx: click.Context,
    /,
    *,
    sizes: tuple[int, ...],
    trials: int,
    seed: int,
    formats: tuple[str, ...],
    **running: Any,
) -> int:
    """What the papers misprint, measured: printed and right form against the exact kernel.

    For each formula that cannot be right as printed, the operator-norm error of the printed
    closed form (red) and of the corrected one (blue) for growing n; the right one falls like
    n^(-1/2). Simulated networks say which definition of the tangent kernel is right. A number
    for each claim that has no such formula is printed and kept in the JSON.
    """
    from deqcli.cli.running import run_task
    from deqcli.studies import errata

    spec = errata.resolve(sizes=sizes, trials=trials, seed=seed)
    result, found = run_task(ctx, errata.task(spec, formats), **running)
    for evidence in found.get("errata", {}).values():
        printed, right = evidence["printed_errors"], evidence["right_errors"]
        click.echo(
            f"{evidence['where']}: printed {printed[0]:.3g} -> {printed[-1]:.3g}, "
            f"right {right[0]:.3g} -> {right[-1]:.3g} (slope {evidence['right_slope']:.2f})",
            err=True,
        )
    if "empirical_ntk" in found:
        empirical = found["empirical_ntk"]
        click.echo(
            f"tangent kernel of {empirical['networks']} networks of width {empirical['width']}: "
            f"G/(1 - G') is {empirical['printed_relative']:.0%} off, Theta "
            f"{empirical['right_relative']:.1%}",
            err=True,
        )
    for claim in found.get("claims", {}).values():
        click.echo(f"{claim['where']}: {claim['evidence']}", err=True)
    return result.exit_code
