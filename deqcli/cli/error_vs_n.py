"""``deqcli error-vs-n``."""

from __future__ import annotations

from typing import Any

import click

from deqcli.cli import options
from deqcli.cli.options import Activations, Commas


@click.command(epilog="""\b
Examples:
  deqcli error-vs-n
  deqcli error-vs-n --act relu,htanh:a=1,c=2 --kernel ntk --n 64,128,256,512 --trials 3
  deqcli error-vs-n --data mnist --classes 6,8 --n 250,500,1000,2000 --act tanh
""")  # fmt: skip
@click.option("--act", "acts", type=Activations(), default="relu,tanh,swish,lrelu",
              help="Activations, separated by commas (see 'deqcli list activations').")  # fmt: skip
@options.variances(sigma_a2=0.2)
@options.kernel("ck")
@options.data_source
@click.option("--n", "sizes", type=Commas(int), default="64,128,256,512,1024,2048,4096",
              help="Sample sizes, separated by commas.")  # fmt: skip
@click.option("--ratio", type=float, default=0.8, help="p/n of drawn samples.")
@click.option("--trials", type=click.IntRange(1), default=5, help="Data sets at each n.")
@click.option("--estimator", type=click.Choice(("exact", "mc")), default="exact",
              help="Exact kernels, or averages over random networks.")  # fmt: skip
@options.monte_carlo
@options.seed
@options.output
@click.pass_context
def command(
    ctx: click.Context,
    /,
    *,
    acts: tuple[str, ...],
    sigma_a2: float,
    sigma_b2: float | None,
    kernel: str,
    source: dict[str, Any],
    sizes: tuple[int, ...],
    ratio: float,
    trials: int,
    estimator: str,
    realizations: int,
    width: int,
    weights: str,
    solver: str,
    tolerance: float,
    seed: int,
    formats: tuple[str, ...],
    **running: Any,
) -> int:
    """How the equivalent's relative error falls with the number of samples.

    Measures the operator norm of the difference between a DEQ's kernel and its closed-form
    equivalent, relative to the kernel's, for several activations; the theory promises
    n^(-1/2). Prints each fitted slope.
    """
    from deqcli.cli.running import run_task
    from deqcli.studies import error_vs_n, inputs

    spec = error_vs_n.resolve(
        acts=acts,
        sigma_a2=sigma_a2,
        sigma_b2=sigma_b2,
        kernel=kernel,
        sizes=sizes,
        ratio=ratio,
        trials=trials,
        estimator=estimator,
        monte_carlo={
            "realizations": realizations,
            "width": width,
            "weights": weights,
            "solver": solver,
            "tolerance": tolerance,
        },
        seed=seed,
        data=inputs.resolve(**source, n=None, p=None),
    )
    result, found = run_task(ctx, error_vs_n.task(spec, formats, source["data_dir"]), **running)
    for name, value in found.get("slopes", {}).items():
        click.echo(f"{name}: slope {value:.3f}", err=True)
    return result.exit_code
