"""``deqcli accuracy``."""

from __future__ import annotations

from typing import Any

import click

from deqcli.cli import options
from deqcli.cli.options import Commas
from deqcli.vocabulary import Kernel


@click.command(context_settings={"default_map": {"data": "mnist"}}, epilog="""\b
Examples:
  deqcli accuracy
  deqcli accuracy --data fashion-mnist --limit
  deqcli accuracy --data gmm --classes 3 --act tanh --widths 32,128,512
  deqcli accuracy --data my-samples.npz --nets deq,matched
""")  # fmt: skip
@options.act("relu")
@options.variances(sigma_a2=0.2)
@options.data_source
@click.option("--p", type=click.IntRange(2), default=None,
              help="Dimension of drawn samples.  [default: 1000]")  # fmt: skip
@click.option("--train-size", type=click.IntRange(0), default=None,
              help="Training samples, the same number of each class; 0: all.  [default: 5000; of "
              "your file, all the rest]")  # fmt: skip
@click.option("--test-size", type=click.IntRange(0), default=None,
              help="Test samples; 0: all.  [default: 4000; of your file, a fifth]")  # fmt: skip
@click.option("--widths", type=Commas(int), default="32,64,128,256,512,1024",
              help="Neurons of each layer, separated by commas (the papers: to 8192).")  # fmt: skip
@click.option("--nets", type=Commas(choices=("deq", "matched", "plain")),
              default="deq,matched,plain", metavar="deq,matched,plain",
              help="Networks: the DEQ; the explicit one that 'deqcli match' finds for it; one "
              "of that depth with the DEQ's own activation.")  # fmt: skip
@click.option("--match", "matched", default="ck",
              type=click.Choice([kernel.value for kernel in Kernel]),
              help="Which kernel the matched network shares with the DEQ.")  # fmt: skip
@click.option("--train", "trained", type=click.Choice(("all", "readout")), default="all",
              help="Which weights are trained. With only the readout, a wide network is its CK; "
              "with all, its NTK.")  # fmt: skip
@click.option("--epochs", type=click.IntRange(1), default=40, help="Passes over the samples.")
@click.option("--batch", type=click.IntRange(1), default=128, help="Samples of one step.")
@click.option("--lr", type=float, default=4.0,
              help="Learning rate, in the parametrisation in which it serves all widths and "
              "networks: standard normal weights, every layer divided by the root of its "
              "width.")  # fmt: skip
@click.option("--momentum", type=float, default=0.9, help="Momentum.")
@click.option("--optimizer", type=click.Choice(("sgd",)), default="sgd", help="Optimizer.")
@click.option("--trials", type=click.IntRange(1), default=3,
              help="Trainings of each network, with other weights and batches.")  # fmt: skip
@click.option("--solver", type=click.Choice(("gauss-seidel", "picard", "anderson")),
              default="gauss-seidel", help="Fixed-point iteration of the DEQ.")  # fmt: skip
@click.option("--tol", "tolerance", type=float, default=1e-3, help="Its relative residual.")
@click.option("--limit", is_flag=True,
              help="Add each network's limit of infinite width: ridge regression with its exact "
              "CK and NTK. Takes 16 train-size (train-size + test-size) bytes.")  # fmt: skip
@click.option("--ridge", type=float, default=1e-3,
              help="Ridge of --limit, in units of the kernel's mean diagonal.")  # fmt: skip
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
    source: dict[str, Any],
    p: int | None,
    train_size: int | None,
    test_size: int | None,
    widths: tuple[int, ...],
    nets: tuple[str, ...],
    matched: str,
    trained: str,
    epochs: int,
    batch: int,
    lr: float,
    momentum: float,
    optimizer: str,
    trials: int,
    solver: str,
    tolerance: float,
    limit: bool,
    ridge: float,
    seed: int,
    formats: tuple[str, ...],
    **running: Any,
) -> int:
    """Train a DEQ, its matched explicit network and a plain one, side by side.

    Draws test accuracy against width (blue the DEQ, red its match, green the plain network), the
    gaps DEQ - matched and DEQ - plain with standard errors over trials, and seconds per epoch.
    The CSV has a row for every epoch; all of it but the measured seconds is the same whenever
    the run is made again.

    The default, 5000 samples of MNIST at widths up to 1024, takes some 6 minutes on two cores.
    """
    from deqcli.cli.running import run_task
    from deqcli.studies import accuracy, inputs
    from deqcli.training import Settings

    own = inputs.is_file(source["data"])
    if train_size is None:
        train_size = 0 if own else 5000
    spec = accuracy.resolve(
        act=act,
        sigma_a2=sigma_a2,
        sigma_b2=sigma_b2,
        widths=widths,
        nets=nets,
        matched=matched,
        settings=Settings(epochs, batch, lr, momentum, optimizer, trained),
        train_size=train_size,
        test_size=test_size,
        trials=trials,
        solver=solver,
        tolerance=tolerance,
        limit=limit,
        ridge=ridge,
        seed=seed,
        # Of a file all samples are counted, a part of which is held out to test.
        data=inputs.resolve(**source, n=None if own else train_size or None, p=p),
    )
    result, found = run_task(ctx, accuracy.task(spec, formats, source["data_dir"]), **running)
    for gap in found.get("gaps", ()):
        if gap["width"] == max(widths):
            error = gap["standard_error"]
            spread = "" if error is None else f" +- {100 * error:.2f}"
            click.echo(
                f"width {gap['width']}: DEQ - {gap['net']} = {100 * gap['mean']:.2f}{spread} "
                "points of test accuracy",
                err=True,
            )
    for key, status in found.get("stopped", {}).items():
        click.echo(f"{key}: {status}", err=True)
    return 3 if found.get("stopped") else result.exit_code
