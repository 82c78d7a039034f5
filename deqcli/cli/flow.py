"""``deqcli flow``."""

from __future__ import annotations

from typing import Any

import click

from deqcli.cli import options
from deqcli.cli.options import Commas


@click.command(epilog="""\b
Examples:
  deqcli flow --data mnist --classes 0,1 --n 500 --widths 100,500,1000,2000
  deqcli flow --data sphere --n 100 --p 50 --widths 200,400,800 --method ode --steps 50
  deqcli flow --data mnist --classes 0,1 --n 200 --init half-normal --widths 250,500,1000
""")  # fmt: skip
@options.data
@click.option("--test-size", type=click.IntRange(2), default=500,
              help="Test samples: drawn, of the test half, or held out of a file.")  # fmt: skip
@click.option("--widths", type=Commas(int), default="100,500,1000,2000",
              help="Neurons, separated by commas.")  # fmt: skip
@click.option("--trials", type=click.IntRange(1), default=1,
              help="Networks and data sets for each width.")  # fmt: skip
@click.option("--method", type=click.Choice(("gd", "ode")), default="gd",
              help="Gradient descent, or gradient flow by a Runge-Kutta method.")  # fmt: skip
@click.option("--steps", type=click.IntRange(1), default=500,
              help="Gradient steps; ode goes as far in time.")  # fmt: skip
@click.option("--step", type=float, default=1.0,
              help="Size of a step in units of 1/lambda_max(H(0)), below 2.")  # fmt: skip
@click.option("--tol", type=float, default=1e-8,
              help="Stop a width once its training loss per sample is this.")  # fmt: skip
@click.option("--residual", type=float, default=1e-6,
              help="Relative residual of each equilibrium and adjoint; 1e-12 or more.")  # fmt: skip
@click.option("--gamma0", type=float, default=0.5,
              help="Contraction constant ||gamma A|| at the start, below 1.")  # fmt: skip
@click.option("--scaling", type=click.Choice(("norm", "papers")), default="norm",
              help="gamma = gamma0/||A(0)||, or gamma0/sqrt(width) as printed, which contracts for "
              "few.")  # fmt: skip
@click.option("--init", type=click.Choice(("gaussian", "half-normal", "diagonal")),
              default="gaussian", help="Law of A(0).")  # fmt: skip
@click.option("--injection", type=click.Choice(("relu", "tanh", "identity")), default="relu",
              help="Activation of the input layer.")  # fmt: skip
@options.seed
@options.output
@click.pass_context
def command(
    ctx: click.Context,
    /,
    *,
    source: dict[str, Any],
    test_size: int,
    widths: tuple[int, ...],
    trials: int,
    method: str,
    steps: int,
    step: float,
    tol: float,
    residual: float,
    gamma0: float,
    scaling: str,
    init: str,
    injection: str,
    seed: int,
    formats: tuple[str, ...],
    **running: Any,
) -> int:
    """Train only the implicit layer of a ReLU DEQ, and check the theory's promises.

    Follows f(x) = z'b/sqrt(m), z = relu(gamma A'z + phi(W'x)), with A trained on half the squared
    error and labels -1 and 1, for several widths m. Every sample is scaled to norm 1 (after
    --preprocess), and points on the sphere are labelled by the sign of their first coordinate.
    Writes loss and error on training and test samples, ||gamma A||, the kernel's extreme
    eigenvalues, the distance to the linearised path, and the promised envelope and bound.

    A network that loses contraction (||gamma A|| reaches 1), or whose solve fails, stops there: the
    exit code is 3, and everything computed is kept and written.
    """
    from deqcli.cli.running import run_task
    from deqcli.flow.training import Settings
    from deqcli.studies import flow, inputs

    spec = flow.resolve(
        widths=widths,
        trials=trials,
        gamma0=gamma0,
        init=init,
        injection=injection,
        scaling=scaling,
        settings=Settings(method, steps, step, tol, residual),
        test_size=test_size,
        seed=seed,
        data=inputs.resolve(**source),
        n=source["n"],
        data_dir=source["data_dir"],
    )
    result, found = run_task(ctx, flow.task(spec, formats, source["data_dir"]), **running)
    runs = found.get("runs", [])
    for run in runs:
        click.echo(_line(run), err=True)
    if found.get("slope") is not None:
        click.echo(f"distance to the linearised path: slope {found['slope']:.3f}", err=True)
    return 3 if any(run["lost"] for run in runs) else result.exit_code


def _line(run: dict[str, Any]) -> str:
    head = f"width {run['width']}, trial {run['trial']}: "
    if "steps" not in run:
        norm = "" if run["norm_start"] is None else f", ||gamma A|| = {run['norm_start']:.3g}"
        return f"{head}{run['end']} at the start{norm}"
    test = ""
    if run["test_loss"] is not None:
        test = f"test loss {run['test_loss']:.3g}, test error {run['test_error']:.2%}, "
    return (
        f"{head}{run['end']} after {run['steps']} steps, training loss {run['train_loss']:.3g}, "
        f"{test}||gamma A|| up to {run['norm_largest']:.3g}"
    )
