"""From a study's task to its files and exit code: what every study command does last."""

from __future__ import annotations

import json
import logging
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from deqcli.cli.options import option_names

if TYPE_CHECKING:
    from deqcli.runs.task import Result, Task

logger = logging.getLogger("deqcli")


def run_task(
    ctx: click.Context,
    task: Task,
    *,
    out: Path,
    name: str | None,
    jobs: int | None,
    scheduler: str | None,
    force: bool,
    dry_run: bool,
) -> tuple[Result, dict[str, Any]]:
    """Run a study and print the paths it wrote; return its result and recorded findings."""
    from deqcli.runs import memory
    from deqcli.runs.task import execute, fitting_jobs

    count = jobs or fitting_jobs(task, scheduler)
    quiet = bool((ctx.find_root().obj or {}).get("quiet"))
    if not (quiet or dry_run):
        where = f"Dask at {scheduler}" if scheduler else f"{count} process(es)"
        logger.info(
            "%s: %d points on %s, %d BLAS thread(s) each", task.study, len(task.points), where,
            task.threads,
        )  # fmt: skip
    result = execute(
        replace(task, options=given_options(ctx)),
        out=out,
        name=name,
        force=force,
        jobs=count,
        scheduler=scheduler,
        dry_run=dry_run,
        progress=not quiet,
        command=["deqcli", *sys.argv[1:]],
    )
    if dry_run:
        click.echo(
            f"{result.stem}: {result.points} points, {result.reused} already done, "
            f"about {memory.format_bytes(result.memory)} of memory"
        )
        return result, {}
    if result.status == "incomplete":
        for failure in result.failures:
            click.echo(f"failed: {failure.key}: {failure.message}", err=True)
        click.echo("the finished points are kept; the same command tries the rest again", err=True)
        return result, {}
    if result.status == "already done":
        logger.info("already done; --force starts over")
    for path in result.paths:
        click.echo(path)
    record = json.loads(result.paths[-1].read_text(encoding="utf-8"))
    return result, record["results"]


def given_options(ctx: click.Context) -> dict[str, Any]:
    """Return the options as the user could write them into a settings file."""
    skipped = {"out", "name", "jobs", "scheduler", "force", "dry-run", "data-dir"}
    options: dict[str, Any] = {"command": ctx.info_name}
    for option, parameter in option_names(ctx).items():
        value = ctx.params.get(parameter)
        if option not in skipped and value is not None:
            options[option] = list(value) if isinstance(value, tuple) else value
    return options


def write_once(path: Path, text: str, *, force: bool) -> Path:
    """Write a text file, refusing to change one that is already there unless forced."""
    from deqcli.errors import RunConflictError
    from deqcli.runs import files

    if path.exists() and not force and path.read_text(encoding="utf-8") != text:
        raise RunConflictError(f"{path} exists and differs; give another --name, or --force.")
    files.write_text(path, text)
    return path
