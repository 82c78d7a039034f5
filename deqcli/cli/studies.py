"""The command of a study, made from the study itself."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from inspect import cleandoc
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from deqcli.cli import options
from deqcli.settings import Settings
from deqcli.study import Study

if TYPE_CHECKING:
    from deqcli.runs.result import Result

logger = logging.getLogger("deqcli")


class StudyCommand(options.Command):
    """``deqcli NAME`` for a study."""

    def __init__(self, study: Study[Any, Any]) -> None:
        self.study = study
        self.settings: type[Settings] = study.settings
        lines = [f"  deqcli {study.name} {example}".rstrip() for example in study.examples]
        takes = f"With the defaults it takes {study.duration} on two cores; --dry-run estimates it."
        super().__init__(
            study.name,
            params=[*options.setting_options(study.settings), *options.running],
            callback=click.pass_context(self._run),
            help=f"{cleandoc(type(study).__doc__ or '')}\n\n{takes if study.duration else ''}",
            epilog="\b\nExamples:\n" + "\n".join(lines) if lines else None,
        )

    def _run(
        self,
        ctx: click.Context,
        *,
        out: Path,
        name: str | None,
        formats: tuple[str, ...],
        jobs: int | None,
        scheduler: str | None,
        force: bool,
        dry_run: bool,
        **values: Any,
    ) -> int:
        from deqcli.runs.execute import run

        settings = self.settings(**values)
        result = run(
            self.study.name,
            settings,
            out=out,
            name=name,
            formats=formats,
            jobs=jobs,
            scheduler=scheduler,
            force=force,
            dry_run=dry_run,
            progress=not quiet(ctx),
        )
        code = show(result)
        if dry_run and result.reused < result.points and scheduler is None:
            _say_time(self.study, settings, result, jobs)
        return code


def quiet(ctx: click.Context) -> bool:
    """Tell whether the user asked for silence."""
    root: Mapping[str, Any] = ctx.find_root().obj or {}
    return bool(root.get("quiet"))


def _say_time(study: Study[Any, Any], settings: Settings, result: Result, jobs: int | None) -> None:
    """Say how long a run would take, by doing a small one."""
    from deqcli.runs.calibration import estimate_seconds, in_words
    from deqcli.runs.execute import fitting_jobs

    processes = min(jobs or fitting_jobs(study, settings), result.points)
    # What the small runs say of themselves is of no use here.
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        seconds = estimate_seconds(study, settings, processes)
    finally:
        logger.setLevel(before)
    if seconds is None:
        click.echo("how long it takes cannot be told from a small run")
        return
    left = seconds * (1 - result.reused / result.points)
    click.echo(f"about {in_words(left)} on {processes} process(es), give or take a factor of two")


def show(result: Result) -> int:
    """Print the paths that a run wrote, and say in words what it found; return the exit code."""
    from deqcli.runs import memory

    if result.status == "dry run":
        click.echo(
            f"{result.stem}: {result.points} points, {result.reused} already done, "
            f"about {memory.format_bytes(result.memory)} of memory"
        )
        return 0
    if result.status == "incomplete":
        for failure in result.failures:
            options.tell(f"failed: {failure.key}: {failure.message}")
        click.echo("the finished points are kept; the same command tries the rest again", err=True)
        return result.exit_code
    if result.status == "already done":
        logger.info("already done; --force starts over")
    for path in result.paths:
        click.echo(path)
    for line in (*result.sentences, *result.shortcomings):
        options.tell(line)
    return result.exit_code
