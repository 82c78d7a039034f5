"""One study from its points to its files: the only function a command has to call."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pandas as pd

from deqcli.errors import InputError
from deqcli.runs import files, memory, provenance
from deqcli.runs.parallel import Failure, pinned, run_points
from deqcli.runs.store import SUFFIXES, Arrays, Store

if TYPE_CHECKING:
    from matplotlib.figure import Figure

logger = logging.getLogger(__name__)

FORMATS = ("png", "pdf", "svg")

Status = Literal["done", "already done", "incomplete", "dry run"]


@dataclass(frozen=True)
class Assembled:
    """What a study makes of its points."""

    table: pd.DataFrame
    """The CSV."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """JSON-able findings for the provenance; JSON has no NaN, so say None."""
    arrays: Mapping[str, Any] | None = None
    """Arrays for an ``.npz`` beside the CSV, if wanted."""


@dataclass(frozen=True)
class Task:
    """A study with its settings, ready to run.

    Parameters
    ----------
    study : str
        Name of the study.
    version : int
        Raised by hand when the same spec gives other numbers.
    spec : mapping
        All settings that decide the numbers, resolved and JSON-able; ``seed`` among them.
    points : mapping of str to tuple
        Small picklable arguments by point, in the order of the table.
    run_point : callable
        ``run_point(spec, *arguments) -> dict of str to ndarray``, at the top level of a module.
    assemble : callable
        ``assemble(load) -> Assembled``, where ``load(key)`` reads one point's arrays from the
        disk: memory need not grow with the number of points.
    draw : callable
        ``draw(table) -> Figure``; is given the CSV as it reads back, nothing else.
    formats : tuple of str
        Of `FORMATS`.
    memory : int
        Bytes that one process needs at most.
    memory_hint : str
        The remedy when that cannot fit.
    threads : int
        BLAS threads of each process; decides the last digits, so a constant of the study.
    options : mapping
        How a user asks for the same run again; recorded, not part of the run's identity.
    """

    study: str
    version: int
    spec: Mapping[str, Any]
    points: Mapping[str, tuple[Any, ...]]
    run_point: Callable[..., Arrays]
    assemble: Callable[[Callable[[str], Arrays]], Assembled]
    draw: Callable[[pd.DataFrame], Figure]
    formats: tuple[str, ...] = ("png",)
    memory: int = 0
    memory_hint: str = "lower --jobs or the size of the problem"
    threads: int = 1
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in self.formats:
            if name not in FORMATS:
                raise InputError(f"--format has {name!r}; give some of {', '.join(FORMATS)}.")


@dataclass(frozen=True)
class Result:
    """What `execute` did."""

    status: Status
    stem: str
    points: int
    """All points of the study."""
    reused: int
    """Points that were on disk before."""
    memory: int
    """Bytes needed at most by all local processes, or by one worker of a cluster."""
    paths: tuple[Path, ...] = ()
    """Files of the finished run: CSV, figures, ``.npz``, JSON."""
    failures: tuple[Failure, ...] = ()

    @property
    def exit_code(self) -> int:
        """3 if points failed, else 0."""
        return 3 if self.status == "incomplete" else 0


def execute(
    task: Task,
    *,
    out: Path,
    name: str | None = None,
    force: bool = False,
    jobs: int | None = 1,
    scheduler: str | None = None,
    dry_run: bool = False,
    progress: bool = False,
    command: Sequence[str] = (),
) -> Result:
    """Run a study, or what is left of it, and write its files.

    Each point is on disk as soon as it is finished. Interrupted in any way, the same call goes on
    where it stopped and writes the same bytes. Order: points, CSV, figures, ``.npz``, and last
    the JSON that makes the result whole.

    Parameters
    ----------
    task : Task
        What to run.
    out, name : Path, str
        Folder, and stem of the files; by default the study's name and the start of its hash.
    force, dry_run : bool
        Start over, even over the results of other settings; only say what would be done.
    jobs, scheduler, progress : int, str, bool
        See `deqcli.runs.parallel.run_points`; None for as many jobs as cores and memory allow.
    command : sequence of str
        The command line, for the provenance.

    Returns
    -------
    Result
        ``"already done"`` returns at once; ``"incomplete"`` leaves the finished points for the
        next call, which tries the failed ones again.

    Raises
    ------
    RunConflictError
        If the name belongs to other settings or another process is writing it.
    InputError
        If the memory cannot suffice, or for bad ``jobs``, ``scheduler`` or ``name``.
    RunError
        If a file cannot be read or written, or the workers are lost.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from matplotlib.figure import Figure
    >>> def run_point(spec, trial):
    ...     return {"value": np.array([spec["scale"] * trial])}
    >>> def assemble(load):
    ...     return Assembled(pd.DataFrame({"value": [load(key)["value"][0] for key in points]}))
    >>> points = {"trial 0": (0,), "trial 1": (1,)}
    >>> task = Task("toy", 1, {"scale": 0.1}, points, run_point, assemble, lambda table: Figure())
    >>> with tempfile.TemporaryDirectory() as out:
    ...     first = execute(task, out=Path(out), name="toy")
    ...     again = execute(task, out=Path(out), name="toy")
    >>> first.status, again.status, [path.name for path in first.paths]
    ('done', 'already done', ['toy.csv', 'toy.png', 'toy.json'])
    """
    stem = provenance.default_stem(task.study, task.version, task.spec) if name is None else name
    store = Store(out, stem, task.spec, task.study, task.version)
    finished = not force and store.finished()
    jobs = fitting_jobs(task, scheduler) if jobs is None else jobs
    needed = task.memory * (1 if scheduler else max(min(jobs, len(task.points)), 1))
    result = partial(Result, stem=stem, points=len(task.points), memory=needed)
    if dry_run:
        missing = [] if finished else list(task.points) if force else store.missing(task.points)
        return result("dry run", reused=len(task.points) - len(missing))
    if not finished and scheduler is None:
        memory.check(needed, f"{task.study} with --jobs {jobs}", task.memory_hint)
    with store.open(force=force):
        if (record := store.record()) is not None:
            paths = _redraw(task, store, record)
            return result("already done", reused=len(task.points), paths=paths)
        started = time.perf_counter()
        missing = store.missing(task.points)
        reused = len(task.points) - len(missing)
        if reused:
            logger.info("%s: %d of %d points are on disk.", stem, reused, len(task.points))
        failures = _compute(task, store, missing, jobs, scheduler, progress)
        if failures:
            return result("incomplete", reused=reused, failures=failures)
        timings = {"points": time.perf_counter() - started, "reused": reused, "jobs": jobs}
        paths = _write(task, store, command, timings)
        return result("done", reused=reused, paths=paths)


def fitting_jobs(task: Task, scheduler: str | None = None) -> int:
    """Return as many processes as cores, points and free memory allow, at least one."""
    most = max(min(os.cpu_count() or 1, len(task.points)), 1)
    available = None if scheduler or not task.memory else memory.available_bytes()
    return most if available is None else max(min(most, available // task.memory), 1)


def _compute(
    task: Task,
    store: Store,
    missing: Sequence[str],
    jobs: int,
    scheduler: str | None,
    progress: bool,
) -> tuple[Failure, ...]:
    failures = []
    outcomes = run_points(
        partial(task.run_point, task.spec),
        {key: task.points[key] for key in missing},
        jobs=jobs,
        scheduler=scheduler,
        threads=task.threads,
        description=task.study,
        progress=progress,
    )
    with closing(outcomes):
        for key, outcome in outcomes:
            if isinstance(outcome, Failure):
                logger.warning("%s failed: %s: %s", key, outcome.kind, outcome.message)
                failures.append(outcome)
            else:
                store.save(key, outcome)
    if failures:
        store.save_failures([asdict(failure) for failure in failures])
    return tuple(failures)


def _write(
    task: Task, store: Store, command: Sequence[str], timings: dict[str, float]
) -> tuple[Path, ...]:
    started = time.perf_counter()
    # Pinned like the points: what is computed here ends in the CSV too, and the provenance reports
    # the threads that were used.
    with pinned(task.threads):
        assembled = task.assemble(store.load)
        files.write_csv(store.path(".csv"), assembled.table)
        suffixes = [".csv", *_draw(task, store, task.formats)]
        if assembled.arrays is not None:
            files.write_npz(store.path(".npz"), assembled.arrays)
            suffixes.append(".npz")
        record = provenance.collect(
            command=command,
            study=task.study,
            version=task.version,
            spec=task.spec,
            options=task.options,
            seed=task.spec.get("seed"),
            timings=timings | {"assembly": time.perf_counter() - started},
            outputs=_digests(store, suffixes),
            extra=assembled.extra,
        )
    store.finish(record)
    return _paths(store, record)


def _redraw(task: Task, store: Store, record: dict[str, Any]) -> tuple[Path, ...]:
    """Draw the figures a finished run lacks, from its CSV alone."""
    absent = [name for name in task.formats if not store.path(f".{name}").exists()]
    if absent:
        record["outputs"] |= _digests(store, _draw(task, store, absent))
        store.finish(record)
    return _paths(store, record)


def _draw(task: Task, store: Store, formats: Sequence[str]) -> list[str]:
    if not formats:
        return []
    # The table as it reads back from the disk: a figure cannot depend on what the CSV lacks.
    figure = task.draw(files.read_csv(store.path(".csv")))
    suffixes = [f".{name}" for name in formats]
    for suffix in suffixes:
        files.write_figure(store.path(suffix), figure, store.hash)
    return suffixes


def _digests(store: Store, suffixes: Sequence[str]) -> dict[str, str]:
    return {store.path(suffix).name: files.sha256(store.path(suffix)) for suffix in suffixes}


def _paths(store: Store, record: Mapping[str, Any]) -> tuple[Path, ...]:
    written = [suffix for suffix in SUFFIXES if store.path(suffix).name in record["outputs"]]
    return tuple(store.path(suffix) for suffix in [*written, ".json"])
