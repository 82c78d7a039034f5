"""``deqcli bench``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from deqcli.cli import options
from deqcli.errors import DataError
from deqcli.settings import Settings, setting, split_activations, split_commas
from deqcli.shared_settings import SeedSettings
from deqcli.vocabulary import ACTIVATIONS

if TYPE_CHECKING:
    import pandas as pd


def _activations(*default: str) -> Any:
    return setting(
        default, "Activations, separated by commas.", split=split_activations,
        suggestions=ACTIVATIONS, metavar="NAME,…",
    )  # fmt: skip


def _repeats() -> Any:
    return setting(5, "Rounds to take the median of.", least=1, most=1000)


@dataclass(frozen=True, kw_only=True)
class KernelBench(SeedSettings):
    """Exact CK and CK + NTK, as multiples of the float64 product X @ X.T."""

    n: int = setting(6000, "Number of samples.", least=2)
    p: int = setting(784, "Dimension of the mixture.", least=9)
    act: tuple[str, ...] = _activations("tanh", "relu", "swish", "htanh", "elu")
    data: tuple[str, ...] | None = setting(
        None, "Samples, separated by commas: gmm (the papers' mixture) and names of real data.",
        split=split_commas, metavar="NAME,…", default_text="gmm, and mnist if it is there",
    )  # fmt: skip
    data_dir: str | None = setting(
        None, "Folder of the data sets.", environment="DEQCLI_DATA_DIR", metavar="FOLDER",
        default_text="deqcli in the user's cache",
    )  # fmt: skip
    repeats: int = _repeats()

    @property
    def entries(self) -> int:
        """Numbers in all matrices that are kept together, at most."""
        return self.n * (4 * self.n + 3 * self.p)

    def measure(self) -> pd.DataFrame:
        """Run the benchmark."""
        import pandas as pd

        from deqcli.bench import measure_kernel

        tables = []
        for name in self.data or ("gmm", "mnist"):
            samples = self._samples(name)
            if samples is not None:
                tables.append(measure_kernel(samples, self.act, self.repeats))
                tables[-1].insert(0, "data", name)
        return pd.concat(tables, ignore_index=True)

    def _samples(self, name: str) -> Any:
        from deqcli.data.images import load
        from deqcli.data.mixture import GaussianMixture
        from deqcli.runs.seeds import stream

        rng = stream(self.seed, "bench", "kernel")
        if name == "gmm":
            return GaussianMixture.papers(self.p).sample(self.n, rng).X
        try:
            return load(name, n=self.n, rng=rng, data_dir=self.data_dir)[0].X
        except DataError:
            if self.data is not None:
                raise
            return None


@dataclass(frozen=True, kw_only=True)
class MonteCarloBench(Settings):
    """One realization, against its own matrix products and a plain float64 loop."""

    n: int = setting(800, "Number of samples.", least=2)
    p: int = setting(1000, "Dimension.", least=1)
    width: int = setting(1000, "Neurons.", least=1)
    act: tuple[str, ...] = _activations("relu", "tanh", "erf", "swish")
    threads: int = setting(1, "Realizations at a time, each on one core.", least=1, most=1000)
    repeats: int = _repeats()

    @property
    def entries(self) -> int:
        """Numbers in all matrices that are kept together, at most."""
        n, p, m = self.n, self.p, self.width
        return self.threads * (3 * m * m + m * (4 * n + 2 * p) + n * (2 * n + p))

    def measure(self) -> pd.DataFrame:
        """Run the benchmark."""
        from deqcli.bench import measure_monte_carlo

        sizes = self.n, self.p, self.width
        return measure_monte_carlo(*sizes, self.act, self.repeats, self.threads)


@dataclass(frozen=True, kw_only=True)
class TrainingBench(Settings):
    """One step of a DEQ and of an explicit network, against their own matrix products."""

    widths: tuple[int, ...] = setting(
        (128, 512, 1024), "Widths, separated by commas.", least=1, metavar="M,…"
    )
    act: tuple[str, ...] = _activations("relu", "tanh")
    batch: int = setting(128, "Samples in a step.", least=1)
    tolerance: float = setting(1e-3, "Relative residual of the fixed point.", least=1e-6, below=1)
    repeats: int = _repeats()

    @property
    def entries(self) -> int:
        """Numbers in all matrices that are kept together, at most."""
        m = max(self.widths)
        return m * (6 * m + 12 * self.batch + 2000)

    def measure(self) -> pd.DataFrame:
        """Run the benchmark."""
        from deqcli.bench import measure_training

        return measure_training(self.widths, self.act, self.batch, self.tolerance, self.repeats)


@dataclass(frozen=True, kw_only=True)
class MatchBench(Settings):
    """A match by scalars and one by a fit to data, against one exact kernel of 400 samples."""

    act: tuple[str, ...] = _activations("tanh", "relu", "swish", "gelu", "cos", "abs")
    entries = 0

    def measure(self) -> pd.DataFrame:
        """Run the benchmark."""
        from deqcli.bench import measure_match

        return measure_match(self.act)


@click.group("bench", epilog="""\b
Every figure is a ratio taken within one run; seconds of different machines do not compare.

\b
Examples:
  deqcli bench kernel --data gmm,mnist,fashion-mnist
  deqcli bench monte-carlo
  deqcli bench training
""")  # fmt: skip
def command() -> None:
    """Speed, as ratios within one run."""


def _add(name: str, cls: type[Any]) -> None:
    def run(out: Path, **values: Any) -> None:
        from deqcli.runs import files, memory

        settings = cls(**values)
        memory.check(8 * settings.entries, f"bench {name}", "lower the sizes")
        table: pd.DataFrame = settings.measure()
        files.make_folder(out)
        path = out / f"bench-{name}.csv"
        files.write_csv(path, table)
        click.echo(table.to_string(index=False, float_format=lambda x: f"{x:.3g}"))
        click.echo(path, err=True)

    parameters: list[click.Parameter] = [*options.setting_options(cls), options.out]
    command.add_command(options.Command(name, params=parameters, callback=run, help=cls.__doc__))


for _name, _cls in {
    "kernel": KernelBench,
    "monte-carlo": MonteCarloBench,
    "training": TrainingBench,
    "match": MatchBench,
}.items():
    _add(_name, _cls)
