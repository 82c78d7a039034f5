"""``deqcli spectrum``."""

from __future__ import annotations

from typing import Any

import click

from deqcli.cli import options
from deqcli.cli.options import Commas


@click.command(epilog="""\b
Examples:
  deqcli spectrum --act tanh --sigma-a2 0.1
  deqcli spectrum --act arctan --sigma-a2 0.1 --name iclr-figure-1-left
  deqcli spectrum --act relu --kernel ntk --estimator exact --n 2000 --p 1500
  deqcli spectrum --data mnist --classes 6,8 --n 6000 --estimator exact
  deqcli spectrum --act tanh --weights rademacher --realizations 100 --format png,pdf
""")  # fmt: skip
@options.act()
@options.variances(sigma_a2=0.1)
@options.kernel("preactivation-ck")
@options.data
@click.option("--estimator", "estimators", type=Commas(choices=("mc", "exact")),
              default="mc,exact", help="What to set beside the equivalent.")  # fmt: skip
@options.monte_carlo
@options.seed
@click.option("--save-kernels", is_flag=True, help="Write the matrices too (.npz).")
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
    source: dict[str, Any],
    estimators: tuple[str, ...],
    realizations: int,
    width: int,
    weights: str,
    solver: str,
    tolerance: float,
    seed: int,
    save_kernels: bool,
    formats: tuple[str, ...],
    **running: Any,
) -> int:
    """Eigenvalues of a DEQ's kernel and of its closed-form equivalent.

    Draws three spectra: the kernel averaged over random networks of finite width (blue), the
    exact kernel of infinite width, and the equivalent matrix (red), with the operator-norm
    distances between them. Writes a CSV of all eigenvalues, a figure, and a JSON with settings,
    versions, solver statistics and distances.
    """
    from deqcli.cli.running import run_task
    from deqcli.studies import inputs, spectrum

    spec = spectrum.resolve(
        act=act,
        sigma_a2=sigma_a2,
        sigma_b2=sigma_b2,
        kernel=kernel,
        estimators=estimators,
        realizations=realizations,
        width=width,
        weights=weights,
        solver=solver,
        tolerance=tolerance,
        seed=seed,
        save_kernels=save_kernels,
        data=inputs.resolve(**source),
    )
    result, found = run_task(ctx, spectrum.task(spec, formats, source["data_dir"]), **running)
    for name, values in found.get("distances", {}).items():
        click.echo(
            f"{name.replace('_', '-')}: distance to the equivalent {values['distance']:.4g} "
            f"({values['relative']:.2g} of the norm {values['norm']:.4g})",
            err=True,
        )
    lost = found.get("monte_carlo", {}).get("not_converged", {})
    if lost:
        total = found["monte_carlo"]["realizations"]
        click.echo(
            f"{len(lost)} of {total} realizations did not converge and were left out", err=True
        )
    return 3 if lost else result.exit_code
