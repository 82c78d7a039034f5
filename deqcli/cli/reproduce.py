"""``deqcli reproduce``."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import click

from deqcli.cli import options
from deqcli.cli.studies import quiet, show
from deqcli.errors import InputError, RunError

if TYPE_CHECKING:
    import pandas as pd

    from deqcli.reproduction.presets import Preset, Size
    from deqcli.reproduction.running import Outcome

logger = logging.getLogger("deqcli")

_Outcomes: TypeAlias = "list[tuple[Outcome, pd.DataFrame]]"
"""What became of presets, and their rows of the summary."""


def _complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from deqcli.reproduction.presets import names

    return [name for name in ("all", *names()) if name.startswith(incomplete)]


@click.command("reproduce", cls=options.Command, epilog="""\b
Examples:
  deqcli reproduce all --quick
  deqcli reproduce iclr/figure-1-left icml/error-vs-n
  deqcli reproduce all --quick --check            (exit code 3 where a table differs)
  deqcli reproduce results/mine.json --check      (one's own result again)
""")  # fmt: skip
@click.argument("wanted", metavar="[PRESET|FILE...|all]", nargs=-1, shell_complete=_complete)
@click.option("--quick", is_flag=True,
              help="Everything smaller, some minutes for all; results in OUT/quick.")  # fmt: skip
@click.option("--paper", is_flag=True,
              help="The papers' full settings, days for all; results in OUT/paper.  "
              "[default: only what would take hours is cut; results in OUT]")  # fmt: skip
@click.option("--check", is_flag=True,
              help="Change nothing in OUT: run afresh elsewhere and compare with the tables and "
              "verdicts there. Text and whole numbers must be the same, floats within 1e-6 or what "
              "experiments/README.md states for their column. Exit code 3 where something "
              "differs or nothing could be compared; a point that stops as the committed one did "
              "is no difference.")  # fmt: skip
@click.option("--fresh", type=click.Path(file_okay=False, path_type=Path), default=None,
              help="Where --check writes; kept, and continued.  [default: temporary]")  # fmt: skip
@click.option("--skip-missing", is_flag=True,
              help="Missing real data is no reason for exit code 3.")  # fmt: skip
@options.shared(options.out, options.jobs, options.force)
@click.option("--dry-run", is_flag=True, help="Print the commands, and run nothing.")
@click.pass_context
def command(
    ctx: click.Context,
    /,
    *,
    wanted: tuple[str, ...],
    quick: bool,
    paper: bool,
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
    quantity, the paper's value, ours with its 95 % interval, and the verdict. A preset that is
    not finished and whose real data is missing is reported as skipped, with exit code 3; so is
    one that finished with failed or infeasible points, whose numbers count. What a preset's file
    expects, such as narrow layers that lose contraction in gen/figure-1, is a finding and no
    reason for it.

    A FILE of settings, TOML or the JSON of a result, stands for a preset of its name. Nothing of
    it is cut but by --quick, and no verdict is compared.
    """
    if quick and paper:
        raise InputError("`quick` and `paper` are two sizes; give one of them.")
    size: Size = "quick" if quick else "paper" if paper else "standard"
    committed = out if size == "standard" else out / size
    presets = _presets(wanted, size)
    if dry_run:
        for preset in presets:
            click.echo(preset.study.command_line(preset.settings, preset.stem, committed))
        return 0
    if fresh is not None and not check:
        raise InputError("`fresh` goes with `check`; without it results go to `out`.")
    if fresh is not None and fresh.resolve() == committed.resolve():
        raise InputError(
            f"`fresh` is {fresh}, the folder to compare with; give another, or none for a "
            "temporary."
        )
    runner = _Runner(committed, jobs, force, quiet(ctx))
    if not check:
        outcomes = runner.run_all(presets, committed)
        bad = {"failed"} if skip_missing else {"failed", "skipped"}
        return 3 if any(ran.code or bad & set(rows["verdict"]) for ran, rows in outcomes) else 0
    from deqcli.reproduction import summary

    # Before hours of work: what is broken there is known now.
    kept = summary.read(committed)
    with tempfile.TemporaryDirectory(prefix="deqcli-") as place:
        folder = fresh or Path(place)
        outcomes = runner.run_all(presets, folder)
        same = _compare(outcomes, kept, folder, committed)
    skipped = any(outcome.status == "skipped" for outcome, _ in outcomes)
    return 0 if same and (skip_missing or not skipped) else 3


def _presets(wanted: tuple[str, ...], size: Size) -> list[Preset]:
    from deqcli.reproduction import presets

    everything = not wanted or "all" in wanted
    named = [name for name in dict.fromkeys(wanted) if name != "all"]
    # Named beside "all", a name that does not exist is still a mistake.
    names = dict.fromkeys([*presets.names(), *named]) if everything else named
    return [presets.sized(presets.load(name), size) for name in names]


@dataclass(frozen=True)
class _Runner:
    """How presets are run; ``shown`` is the folder that the summary's commands name."""

    shown: Path
    jobs: int | None
    force: bool
    quiet: bool

    def run_all(self, presets: Sequence[Preset], folder: Path) -> _Outcomes:
        from deqcli.reproduction import joined, summary
        from deqcli.reproduction.running import reproduce

        old = _prepare(folder, "out" if folder == self.shown else "fresh", self.force)
        known = summary.empty() if self.force else old
        outcomes: _Outcomes = []
        for number, preset in enumerate(presets, start=1):
            logger.info("[%d/%d] %s", number, len(presets), preset.name)
            outcome = reproduce(
                preset,
                folder,
                shown=self.shown,
                jobs=self.jobs,
                force=self.force,
                progress=not self.quiet,
            )
            if outcome.result is not None:
                show(outcome.result)
            if outcome.reason:
                options.tell(f"{preset.name}: {outcome.status}: {outcome.reason}")
            outcomes.append((outcome, summary.rows(outcome, known, self.jobs)))
            # After each, so that an interrupt leaves the summary of what is finished.
            paths = summary.write(folder, [rows for _, rows in outcomes], old)
        for path in [*paths, *joined.write(folder)]:
            click.echo(path)
        for _, rows in outcomes:
            _print(rows)
        return outcomes


def _prepare(folder: Path, option: str, force: bool) -> pd.DataFrame:
    """Make the folder, and return the summary that is there."""
    from deqcli.reproduction import summary
    from deqcli.runs import files

    try:
        files.make_folder(folder)
    except RunError as error:
        raise InputError(
            f"`{option}` is {folder}, which cannot be made "
            f"({getattr(error.__cause__, 'strerror', error)}); choose another folder."
        ) from error
    try:
        return summary.read(folder)
    except InputError:
        if not force:
            raise
        return summary.empty()


def _print(rows: pd.DataFrame) -> None:
    from deqcli.reproduction.summary import ours, text

    for _, row in rows.iterrows():
        paper = f" (paper: {row['paper']})" if text(row["paper"]) else ""
        name = f", {row['quantity']}" if text(row["quantity"]) else ""
        click.echo(f"{row['preset']}{name}: {ours(row)}{paper}: {row['verdict']}", err=True)


def _compare(outcomes: _Outcomes, kept: pd.DataFrame, folder: Path, committed: Path) -> bool:
    """Print what differs and how much was compared; tell whether all of it is as committed."""
    import pandas as pd

    from deqcli.reproduction import check

    differences: list[object] = []
    done, left = [], []
    for outcome, rows in outcomes:
        preset, status = outcome.preset, outcome.status
        table = f"{preset.stem}.csv"
        if status != "done" or not (committed / table).is_file():
            left.append(f"{preset.name} ({'no committed file' if status == 'done' else status})")
            if status != "skipped":
                reason = outcome.reason or f"there is no committed file {committed / table}"
                differences.append(f"{table}: {reason}")
            continue
        try:
            differences += check.compare(preset.study, folder / table, committed / table)
            done.append((preset.name, rows))
        except InputError as error:
            left.append(f"{preset.name} (broken file)")
            differences.append(error)
    if done:
        fresh = pd.concat([rows for _, rows in done], ignore_index=True)
        of_papers = {outcome.preset.name for outcome, _ in outcomes if outcome.preset.of_paper}
        differences += check.compare_verdicts(fresh, kept, of_papers & {name for name, _ in done})
    for difference in differences:
        options.tell(f"differs: {difference}")
    rest = f"; not compared: {', '.join(left)}" if left else ""
    click.echo(f"{len(done)} of {len(outcomes)} tables compared{rest}", err=True)
    if done and not differences:
        click.echo("what was compared is as committed, within tolerance", err=True)
    return bool(done) and not differences
