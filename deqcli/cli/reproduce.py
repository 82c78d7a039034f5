"""``deqcli reproduce``."""

from __future__ import annotations

import contextlib
import io
import logging
import sys
import tempfile
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from deqcli.errors import DeqcliError, InputError, RunError

if TYPE_CHECKING:
    from deqcli.presets import Preset, Size
    from deqcli.reproduction.running import Command, Outcome


logger = logging.getLogger("deqcli")


def _complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from deqcli.presets import names

    return [name for name in ("all", *names()) if name.startswith(incomplete)]


@click.command(epilog="""\b
Examples:
  deqcli reproduce all --quick
  deqcli reproduce iclr/figure-1-left icml/error-vs-n
  deqcli reproduce all --quick --check            (exit code 3 where a table differs)
""")  # fmt: skip
@click.argument("wanted", metavar="[PRESET...|all]", nargs=-1, shell_complete=_complete)
@click.option("--quick", "size", flag_value="quick",
              help="Everything smaller, some minutes for all; results in OUT/quick.")  # fmt: skip
@click.option("--paper", "size", flag_value="paper",
              help="The papers' full settings, days for all; results in OUT/paper.  "
              "[default: only what would take hours is cut; results in OUT]")  # fmt: skip
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), default="results",
              help="Folder of results.")  # fmt: skip
@click.option("--check", is_flag=True,
              help="Change nothing in OUT: run afresh elsewhere and compare with the tables "
              "there.")  # fmt: skip
@click.option("--fresh", type=click.Path(file_okay=False, path_type=Path), default=None,
              help="Where --check writes; kept, and continued.  [default: temporary]")  # fmt: skip
@click.option("--skip-missing", is_flag=True,
              help="Missing real data is no reason for exit code 3.")  # fmt: skip
@click.option("-j", "--jobs", type=click.IntRange(1), default=None,
              help="Processes; results do not depend on it.  [default: all cores]")  # fmt: skip
@click.option("--force", is_flag=True, help="Start over, even over other settings' results.")
@click.option("--dry-run", is_flag=True, help="Print the commands, and run nothing.")
@click.pass_context
def command(
    ctx: click.Context,
    /,
    *,
    wanted: tuple[str, ...],
    size: Size | None,
    out: Path,
    check: bool,
    fresh: Path | None,
    skip_missing: bool,
    jobs: int | None,
    force: bool,
    dry_run: bool,
) -> int:
    """Every figure of the papers again, with the paper's number beside ours.

    Runs the presets one after the other; finished ones are not run again, an interrupted one
    continues. Writes each figure's CSV, PNG and JSON, and summary.csv and summary.md: figure,
    quantity, the paper's value, ours with its spread, and the verdict. A preset whose real data
    is missing is reported as skipped, with exit code 3.
    """
    presets = _presets(wanted, size or "standard")
    if dry_run:
        for preset in presets:
            click.echo(" ".join(["deqcli", *preset.arguments(), "--name", preset.stem]))
        return 0
    if fresh is not None and not check:
        raise InputError("--fresh goes with --check; without it results go to --out.")
    committed = out / size if size else out
    extra = [*(("--jobs", str(jobs)) if jobs else ()), *(("--force",) if force else ())]
    run = _command(bool((ctx.find_root().obj or {}).get("quiet")))
    with _folder(committed, check, fresh) as folder:
        outcomes = _run_all(presets, folder, run, extra)
        differences = _differences(outcomes, folder, committed) if check else 0
    stopped = {"failed"} if skip_missing else {"failed", "skipped"}
    return 3 if differences or any(each.status in stopped for each in outcomes) else 0


def _presets(wanted: tuple[str, ...], size: Size) -> list[Preset]:
    from deqcli import presets

    names = presets.names() if not wanted or "all" in wanted else tuple(dict.fromkeys(wanted))
    return [presets.sized(presets.load(name, _options), size) for name in names]


def _options(name: str) -> Collection[str]:
    """Return the option names of a command, as a settings file may use them."""
    from deqcli.cli import main
    from deqcli.cli.options import option_names

    ctx = click.Context(main, info_name="deqcli")
    found = main.get_command(ctx, name)
    if found is None:
        raise InputError(f"There is no command {name!r}.")
    return option_names(click.Context(found, info_name=name, parent=ctx))


def _command(quiet: bool) -> Command:
    """Return the command line as a function, recorded in provenance as if typed."""
    from deqcli.cli import main

    def run(arguments: Sequence[str], silent: bool) -> int:
        with contextlib.ExitStack() as stack:
            # Each call sets logging up for itself; afterwards it is as it was here.
            root = logging.getLogger()
            stack.callback(setattr, root, "handlers", root.handlers[:])
            stack.callback(logger.setLevel, logger.level)
            if silent:
                stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
                stack.enter_context(contextlib.redirect_stderr(io.StringIO()))
            typed, sys.argv = sys.argv, ["deqcli", *arguments]
            stack.callback(setattr, sys, "argv", typed)
            flags = ["--quiet"] if quiet or silent else []
            try:
                code = main.main([*flags, *arguments], prog_name="deqcli", standalone_mode=False)
            except click.ClickException as error:
                raise InputError(error.format_message()) from error
            except (click.Abort, DeqcliError):
                raise
            except Exception as error:
                # One figure that cannot be made must not cost the others.
                raise RunError(
                    f"{type(error).__name__}: {error}; its command alone with -v shows where"
                ) from error
        return code if isinstance(code, int) else 0

    return run


@contextlib.contextmanager
def _folder(committed: Path, check: bool, fresh: Path | None) -> Iterator[Path]:
    if check and fresh is None:
        with tempfile.TemporaryDirectory(prefix="deqcli-") as place:
            yield Path(place)
    else:
        yield fresh if check and fresh is not None else committed


def _run_all(
    presets: Sequence[Preset], folder: Path, run: Command, extra: Sequence[str]
) -> list[Outcome]:
    from deqcli.reproduction import running, summary
    from deqcli.runs import files

    files.make_folder(folder)
    old = summary.read(folder)
    outcomes, parts = [], []
    for number, preset in enumerate(presets, start=1):
        logger.info("[%d/%d] %s", number, len(presets), preset.name)
        outcome = running.reproduce(preset, folder, run, *extra)
        if outcome.run is None:
            click.echo(f"{preset.name}: {outcome.status}: {outcome.reason}", err=True)
        outcomes.append(outcome)
        parts.append(summary.rows(outcome, old, run, *extra))
        # After each, so that an interrupt leaves the summary of what is finished.
        paths = summary.write(folder, parts, old)
    for path in paths:
        click.echo(path)
    _print(parts)
    return outcomes


def _print(parts: Sequence[object]) -> None:
    import pandas as pd

    from deqcli.reproduction.summary import ours, text

    for part in parts:
        assert isinstance(part, pd.DataFrame)
        for _, row in part.iterrows():
            paper = f" (paper: {row['paper']})" if text(row["paper"]) else ""
            name = f", {row['quantity']}" if text(row["quantity"]) else ""
            click.echo(f"{row['preset']}{name}: {ours(row)}{paper}: {row['verdict']}", err=True)


def _differences(outcomes: Sequence[Outcome], folder: Path, committed: Path) -> int:
    from deqcli.reproduction.check import compare

    found = [
        difference
        for outcome in outcomes
        if outcome.status == "done"
        for name in [f"{outcome.preset.stem}.csv"]
        for difference in compare(outcome.preset.command, folder / name, committed / name)
    ]
    for difference in found:
        click.echo(f"differs: {difference}", err=True)
    if not found:
        click.echo("all fresh tables are as committed, within tolerance", err=True)
    return len(found)
