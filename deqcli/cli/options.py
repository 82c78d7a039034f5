"""Every option that commands share, defined once, and how a settings file feeds them.

Precedence: command line, then environment (``DEQCLI_<COMMAND>_<OPTION>``), then ``--config``, then
the default.
"""

from __future__ import annotations

import functools
import json
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from deqcli.errors import InputError

Command = TypeVar("Command", bound=Callable[..., Any])
Decorator = Callable[[Command], Command]


def group(*options: Callable[[Any], Any]) -> Callable[[Command], Command]:
    """Combine options into one decorator, shown in the order given."""

    def decorate(function: Command) -> Command:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


def packed(into: str, *options: Callable[[Any], Any]) -> Callable[[Command], Command]:
    """Combine options whose values a command gets as one mapping, the argument ``into``."""
    probe = group(*options)(lambda: None)
    names = {parameter.name for parameter in probe.__click_params__}  # type: ignore[attr-defined]

    def decorate(function: Command) -> Command:
        @functools.wraps(function)
        def call(*arguments: Any, **given: Any) -> Any:
            values = {name: given.pop(name) for name in names & set(given)}
            return function(*arguments, **given, **{into: values})

        return group(*options)(call)  # type: ignore[return-value]

    return decorate


class Commas(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """Values separated by commas, each of the given type and, if stated, from a list."""

    name = "list"

    def __init__(self, kind: type = str, choices: tuple[str, ...] = ()) -> None:
        self.kind, self.choices = kind, choices
        self.name = ",".join(choices[:2]) + ",…" if choices else f"{kind.__name__},…"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[Any, ...]:
        """Split and check."""
        parts = value if isinstance(value, list | tuple) else str(value).split(",")
        out = []
        for part in (p.strip() if isinstance(p, str) else p for p in parts):
            if part == "":
                continue
            try:
                out.append(self.kind(part))
            except (TypeError, ValueError):
                self.fail(f"{part!r} is not a valid {self.kind.__name__}.", param, ctx)
            if self.choices and part not in self.choices:
                self.fail(f"{part!r} is not one of {', '.join(self.choices)}.", param, ctx)
        if not out:
            self.fail("give at least one value.", param, ctx)
        return tuple(out)


class Activations(Commas):
    """Activations separated by commas, whose own parameters may hold commas too."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        """Join ``c=2`` of ``htanh:a=1,c=2,relu`` to the name before it."""
        names: list[str] = []
        for part in super().convert(value, param, ctx):
            if names and "=" in part and ":" not in part:
                names[-1] += f",{part}"
            else:
                names.append(part)
        return tuple(names)


def _read_config(ctx: click.Context, _: click.Parameter, path: Path | None) -> None:
    if path is None or ctx.resilient_parsing:
        return
    text = path.read_text(encoding="utf-8")
    try:
        loaded = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except ValueError as error:
        raise InputError(f"--config {path}: {error}.") from error
    # The provenance file of a finished run carries its settings under "options".
    settings = dict(loaded.get("options", {}) if path.suffix == ".json" else loaded)
    wanted = settings.pop("command", ctx.info_name)
    if wanted != ctx.info_name:
        raise InputError(f"--config {path} is for deqcli {wanted}, not deqcli {ctx.info_name}.")
    known = option_names(ctx)
    unknown = sorted(set(settings) - set(known))
    if unknown:
        names = ", ".join(sorted(known))
        raise InputError(f"--config {path}: unknown key {unknown[0]!r}; known are {names}.")
    given = {known[key]: value for key, value in settings.items()}
    ctx.default_map = {**(ctx.default_map or {}), **given}


def option_names(ctx: click.Context) -> dict[str, str]:
    """Return option name (without dashes) -> parameter name of the command being called."""
    return {
        max(p.opts, key=len).lstrip("-"): p.name
        for p in ctx.command.params
        if isinstance(p, click.Option) and p.expose_value and p.name
    }


config = click.option(
    "--config", type=click.Path(exists=True, dir_okay=False, path_type=Path), is_eager=True,
    expose_value=False, callback=_read_config,
    help="Settings from a TOML file (keys are option names) or a result's .json; options given "
    "here win.",
)  # fmt: skip


def _complete_activations(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from deqcli.cli.listing import ACTIVATIONS

    return [name for name in ACTIVATIONS if name.startswith(incomplete)]


def act(default: str | None = "tanh") -> Callable[[Command], Command]:
    """Return the option that names one activation."""
    return click.option(
        "--act", default=default, metavar="NAME", shell_complete=_complete_activations,
        help="Activation: a name of 'deqcli list activations' with its parameters "
        "(lrelu:slope=0.3), or your own function (package.module:function).",
    )  # fmt: skip


def variances(sigma_a2: float) -> Callable[[Command], Command]:
    """Return the two variance options."""
    return group(
        click.option("--sigma-a2", type=float, default=sigma_a2,
                     help="Variance of the hidden weights A."),
        click.option("--sigma-b2", type=float, default=None,
                     help="Variance of the input weights B.  [default: 1 - sigma-a2]"),
    )  # fmt: skip


def kernel(default: str) -> Callable[[Command], Command]:
    """Return the option that chooses one of the four kernels."""
    names = ("ck", "preactivation-ck", "ntk", "preactivation-ntk")
    return click.option(
        "--kernel", type=click.Choice(names), default=default,
        help="ck: of the features (ICML's G); preactivation-ck: what HLD and ICLR call G*; "
        "ntk: of the network with all weights trained; preactivation-ntk: HLD's and ICLR's K*.",
    )  # fmt: skip


_SOURCE = (
    click.option("--data", default="gmm", metavar="gmm|sphere|NAME|FILE",
                 help="Samples: the papers' Gaussian mixture, the unit sphere, a data set of "
                 "'deqcli data list', or a .npz/.csv file of your own (arrays X, y)."),
    click.option("--classes", default=None, metavar="K|LABELS",
                 help="How many classes the mixture has, or which labels of real data (6,8).  "
                 "[default: 2; all]"),
    click.option("--mean-norm", type=float, default=8.0, help="Norm of the mixture's means."),
    click.option("--covariance", default="papers", metavar="papers|identity|toeplitz:R",
                 help="Covariances of the mixture; papers: (1 + 8(a-1)/sqrt(p)) I."),
    click.option("--select", type=click.Choice(("random", "first")), default="random",
                 help="Which samples of real data: drawn by the seed, or the first of each class."),
    click.option("--preprocess", type=click.Choice(("centred", "unit", "raw")), default="centred",
                 help="Real data: centred by the global mean and scaled to mean squared norm 1; "
                 "centred and each sample scaled to norm 1; as it is."),
    click.option("--data-dir", type=click.Path(file_okay=False), default=None,
                 envvar="DEQCLI_DATA_DIR", help="Folder of the data sets.  [default: user cache]"),
)  # fmt: skip

#: Which samples, as the mapping ``source``; what :func:`deqcli.studies.inputs.resolve` takes.
data_source = packed("source", *_SOURCE)
data = packed(
    "source",
    *_SOURCE,
    click.option("--n", type=click.IntRange(2), default=None,
                 help="Number of samples.  [default: 800; all of a real data set]"),
    click.option("--p", type=click.IntRange(2), default=None,
                 help="Dimension of drawn samples.  [default: 1000]"),
)  # fmt: skip

monte_carlo = group(
    click.option("--realizations", type=click.IntRange(1), default=400,
                 help="Random networks to average."),
    click.option("--width", type=click.IntRange(1), default=1000,
                 help="Neurons of each (the papers give none)."),
    click.option("--weights", type=click.Choice(("gaussian", "rademacher", "student-t")),
                 default="gaussian", help="Law of the weights; the limit does not depend on it."),
    click.option("--solver", type=click.Choice(("gauss-seidel", "picard", "anderson")),
                 default="gauss-seidel", help="Fixed-point iteration."),
    click.option("--tolerance", type=float, default=1e-6, help="Its relative residual."),
)  # fmt: skip

seed = click.option("--seed", type=click.IntRange(0), default=0, help="Seed of all random streams.")

output = group(
    click.option("--out", type=click.Path(file_okay=False, path_type=Path), default="results",
                 help="Folder to write to."),
    click.option("--name", default=None, metavar="STEM",
                 help="Stem of the files.  [default: the study and a hash of its settings]"),
    click.option("--format", "formats", type=Commas(choices=("png", "pdf", "svg")), default="png",
                 metavar="png,pdf,svg", help="Figure formats."),
    config,
    click.option("-j", "--jobs", type=click.IntRange(1), default=None,
                 help="Processes; results do not depend on it.  [default: all cores]"),
    click.option("--scheduler", default=None, metavar="tcp://HOST:PORT",
                 help="Send the work to a Dask scheduler (needs deqcli[dask])."),
    click.option("--force", is_flag=True, help="Start over, even over other settings' results."),
    click.option("--dry-run", is_flag=True, help="Say what would be done and what it needs."),
)  # fmt: skip
