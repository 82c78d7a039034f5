"""``deqcli match``."""

from __future__ import annotations

from typing import Any

import click

from deqcli.cli import options


@click.command(epilog="""\b
Examples:
  deqcli match --act relu --sigma-a2 0.2
  deqcli match --act tanh --sigma-a2 0.1 --export torch
  deqcli match --act gelu --kernel preactivation-ntk --tau0 1
  deqcli match --act relu --family htanh          (not feasible: exit code 3, and why)
  deqcli match --data sphere --kernel preactivation-ck --act nrelu --sigma-a2 0.2 --n 1000 --p 1200
""")  # fmt: skip
@options.act("relu")
@options.variances(sigma_a2=0.2)
@options.kernel("ck")
@click.option("--family", type=click.Choice(("auto", "htanh", "lrelu", "quadratic", "cubic")),
              default="auto", help="Activations of the twin; auto: the shallowest network that "
              "matches, the papers' families first.")  # fmt: skip
@click.option("--layers", type=click.Choice(("1", "2", "auto")), default="auto",
              help="Hidden layers of the twin.")  # fmt: skip
@click.option("--tau0", type=float, default=None,
              help="Root of the data's mean variance, in place of data (no spectra).")  # fmt: skip
@options.data
@click.option("--export", "export_to", type=click.Choice(("torch", "numpy")), default=None,
              help="Write a self-contained Python file that defines the twin.")  # fmt: skip
@options.seed
@options.output
@click.pass_context
def command(
    ctx: click.Context,
    /,
    *,
    act: str,
    sigma_a2: float,
    sigma_b2: float | None,
    kernel: str,
    family: str,
    layers: str,
    tau0: float | None,
    source: dict[str, Any],
    export_to: str | None,
    seed: int,
    formats: tuple[str, ...],
    **running: Any,
) -> int:
    """Design the shallow explicit network that equals a given DEQ.

    Finds activations for one or two hidden layers so that the network's kernel has the same
    four scalars as the DEQ's, says why that family and depth, and sets the two spectra over each
    other, beside an unmatched plain network of the same depth. A request that no network of the
    family can meet is an answer: exit code 3, with the residuals, the reason and what would work.
    """
    from deqcli.cli.running import run_task
    from deqcli.studies import inputs, match

    spec = match.resolve(
        act=act,
        sigma_a2=sigma_a2,
        sigma_b2=sigma_b2,
        kernel=kernel,
        family=family,
        layers=layers,
        tau0=tau0,
        seed=seed,
        data=inputs.resolve(**source),
    )
    result, found = run_task(ctx, match.task(spec, formats, source["data_dir"]), **running)
    if not found:
        return result.exit_code
    _print_verdict(found)
    if export_to is not None and found["feasible"]:
        from deqcli.cli.running import write_once

        path = running["out"] / f"{result.stem}-{export_to}.py"
        text = match.export_source(spec, export_to, source["data_dir"])
        click.echo(write_once(path, text, force=running["force"]))
    return result.exit_code if found["feasible"] else 3


def _print_verdict(found: dict[str, Any]) -> None:
    click.echo(found["verdict"], err=True)
    record = found["match"]
    for number, layer in enumerate(record["activations"], start=1):
        click.echo(f"  layer {number}: {layer['name']}, shift {layer['shift']!r}", err=True)
    for name, value in record["target"].items():
        click.echo(
            f"  {name}: DEQ {value:.10g}, twin {record['achieved'][name]:.10g} "
            f"(relative residual {record['residuals'][name]:.1e})",
            err=True,
        )
    if "diagonal_slope" in record:
        slope = record["diagonal_slope"]
        click.echo(
            f"  diagonal slope: DEQ {slope['target']:.6g}, twin {slope['achieved']:.6g} "
            f"(mismatch {slope['mismatch']:.1e})",
            err=True,
        )
    for source in ("matched", "plain"):
        if f"{source}_distance" in found:
            click.echo(
                f"  {source} network: distance {found[f'{source}_distance']:.4g} "
                f"({found[f'{source}_relative']:.2g} of the DEQ's norm {found['norm']:.4g})",
                err=True,
            )
