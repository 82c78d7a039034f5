"""``deqcli bench``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from deqcli.cli import options
from deqcli.cli.options import Activations, Commas

if TYPE_CHECKING:
    import pandas as pd

_repeats = click.option("--repeats", type=click.IntRange(1), default=5, help="Rounds to take the "
                        "median of.")  # fmt: skip
_out = click.option("--out", type=click.Path(file_okay=False, path_type=Path), default="results",
                    help="Folder of the CSV.")  # fmt: skip


@click.group(epilog="""\b
Every figure is a ratio taken within one run; seconds of different machines do not compare.

\b
Examples:
  deqcli bench kernel
  deqcli bench monte-carlo
  deqcli bench training
""")  # fmt: skip
def command() -> None:
    """Speed, as ratios within one run."""


def _report(table: pd.DataFrame, path: Path) -> None:
    from deqcli.runs import files

    files.make_folder(path.parent)
    files.write_csv(path, table)
    click.echo(table.to_string(index=False, float_format=lambda x: f"{x:.3g}"))
    click.echo(path, err=True)


@command.command("kernel")
@click.option("--n", type=click.IntRange(2), default=6000, help="Number of samples.")
@click.option("--p", type=click.IntRange(9), default=784, help="Dimension.")
@click.option("--act", "acts", type=Activations(), default="tanh,relu,swish,htanh",
              help="Activations, separated by commas.")  # fmt: skip
@_repeats
@options.seed
@_out
def kernel(n: int, p: int, acts: tuple[str, ...], repeats: int, seed: int, out: Path) -> None:
    """Exact CK and CK + NTK, as multiples of the float64 product X @ X.T."""
    from deqcli.bench.kernel import measure
    from deqcli.data.mixture import GaussianMixture
    from deqcli.runs.seeds import stream

    data = GaussianMixture.papers(p).sample(n, stream(seed, "bench", "kernel"))
    _report(measure(data.X, acts, repeats=repeats), out / "bench-kernel.csv")


@command.command("monte-carlo")
@click.option("--n", type=click.IntRange(2), default=800, help="Number of samples.")
@click.option("--p", type=click.IntRange(1), default=1000, help="Dimension.")
@click.option("--width", type=click.IntRange(1), default=1000, help="Neurons.")
@click.option("--act", "acts", type=Activations(), default="relu,tanh,erf",
              help="Activations, separated by commas.")  # fmt: skip
@_repeats
@_out
def monte_carlo(n: int, p: int, width: int, acts: tuple[str, ...], repeats: int, out: Path) -> None:
    """One realization, against its own matrix products and a plain float64 loop."""
    from deqcli.bench.monte_carlo import measure

    _report(measure(n, p, width, acts, repeats=repeats), out / "bench-monte-carlo.csv")


@command.command("training")
@click.option("--widths", type=Commas(int), default="128,512,1024", metavar="M,…",
              help="Widths, separated by commas.")  # fmt: skip
@click.option("--act", "acts", type=Activations(), default="relu,tanh",
              help="Activations, separated by commas.")  # fmt: skip
@click.option("--batch", type=click.IntRange(1), default=128, help="Samples in a step.")
@click.option("--tolerance", type=float, default=1e-3, help="Relative residual of both solves.")
@_repeats
@_out
def training(
    widths: tuple[int, ...],
    acts: tuple[str, ...],
    batch: int,
    tolerance: float,
    repeats: int,
    out: Path,
) -> None:
    """One step of a DEQ and of an explicit network, against their own matrix products."""
    from deqcli.bench.training import measure

    table = measure(widths, acts, batch=batch, tolerance=tolerance, repeats=repeats)
    _report(table, out / "bench-training.csv")


@command.command("match")
@click.option("--act", "acts", type=Activations(), default="tanh,relu,swish,gelu,cos,abs",
              help="Activations, separated by commas.")  # fmt: skip
@_out
def match(acts: tuple[str, ...], out: Path) -> None:
    """Seconds of one match on one core, with its family and worst residual."""
    from deqcli.bench.match import measure

    _report(measure(acts), out / "bench-match.csv")
