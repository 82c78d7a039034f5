"""Run a study from its points to its files: what every door to a study goes through."""

from __future__ import annotations

import logging
import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing, nullcontext
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

# Loaded here, before threads are set: only libraries that are loaded can be told.
import scipy.linalg  # noqa: F401

from deqcli.checks import POSITIVE, number, of_type, shown
from deqcli.errors import InputError, RunConflictError, RunError
from deqcli.runs import cluster, files, memory, provenance, reading, tables
from deqcli.runs.parallel import Failure, end_workers, pinned, run_points
from deqcli.runs.result import Result, Status
from deqcli.runs.store import SUFFIXES, Store
from deqcli.settings import Settings
from deqcli.study import Study, get, of_settings, prepared

logger = logging.getLogger("deqcli")

FORMATS = ("png", "pdf", "svg")


def run(
    study: str | Settings,
    settings: Settings | None = None,
    *,
    out: str | os.PathLike[str] | None = None,
    name: str | None = None,
    jobs: int | None = None,
    scheduler: str | None = None,
    formats: Sequence[str] = ("png",),
    force: bool = False,
    dry_run: bool = False,
    progress: bool = False,
    **options: Any,
) -> Result:
    """Run a study: the same object, the same numbers and files as the command of that name.

    Each point is on disk as soon as it is finished. Interrupted in any way, the same call goes on
    where it stopped and writes the same bytes. Order: points, CSV, figures, ``.npz``, and last
    the JSON that makes the result whole.

    Parameters
    ----------
    study : str or Settings
        Name of a study, or the settings object of one.
    settings : Settings, optional
        In place of ``options``.
    out, name : path, str
        Folder of the files and the stem of their names; by default the study and the start of its
        hash. Without ``out`` nothing is left on the disk.
    jobs, scheduler : int, str
        Processes (by default as many as cores and memory allow), or the address of a Dask
        scheduler, which then does all the work.
    formats : sequence of str
        Of the figure, if files are written: png, pdf, svg.
    force, dry_run, progress : bool
        Start over, even over the results of other settings; only say what would be done; show a
        bar on stderr.
    **options
        Settings by name, such as ``act="tanh"``; the rest has its default. ``act`` may be a
        function, and ``data`` samples: a DataFrame with the labels in its column ``y`` or
        ``label``, or else the last one, a pair (X, y), or what :func:`deqcli.load` returned. They
        count by their content; samples are left beside the results as ``samples-….npz``, which
        the recorded command reads.

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
        For bad settings, or if the memory cannot suffice.
    RunError
        If a file cannot be read or written, or the workers are lost.

    Examples
    --------
    >>> result = run("match", act="tanh", sigma_a2=0.1, tau0=1.0)
    >>> result.status, result.findings["feasible"], sorted(set(result.table["kind"]))
    ('done', True, ['activation', 'scalar'])
    """
    if not isinstance(study, str | Settings):
        raise InputError(f"`study` is {shown(study)}; give the name of a study.")
    if isinstance(study, Settings):
        if settings is not None:
            raise InputError("`settings` is there twice; give one settings object.")
        chosen, settings = of_settings(study), study
    else:
        chosen = get(study)
    if settings is not None and options:
        raise InputError("give either settings or single options, not both.")
    if settings is not None and type(settings) is not chosen.settings:
        raise InputError(f"{type(settings).__name__} is not of the study {chosen.name}.")
    for wanted in formats if isinstance(formats, Sequence) else [formats]:
        if not isinstance(wanted, str) or wanted not in FORMATS:
            raise InputError(f"`formats` has {shown(wanted)}; give some of {', '.join(FORMATS)}.")
    if jobs is not None:
        jobs = number(jobs, "jobs", int, POSITIVE)
    for key, text in {"name": name, "scheduler": scheduler}.items():
        of_type(text, key, str | None, "a text")
    for key, flag in {"force": force, "dry_run": dry_run, "progress": progress}.items():
        of_type(flag, key, bool, "True or False")
    of_type(out, "out", str | os.PathLike | None, "a text or a path")
    with ExitStack() as stack:
        if out is None or dry_run:
            # Only where nothing may be left: whoever is killed cannot remove it.
            made = tempfile.TemporaryDirectory(prefix="deqcli-")
            place = Path(stack.enter_context(made))
        else:
            place = Path(out)
        folder = place if out is None else Path(out)
        if settings is None:
            # Samples lie beside the results, so that the recorded command finds them.
            settings = chosen.settings.load(chosen.settings.adopt(options, place))
        running = _Run(chosen, settings, tuple(formats), jobs, scheduler, progress)
        if out is not None:
            return running.execute(folder, name, force=force, dry_run=dry_run)
        result = replace(running, formats=()).execute(folder, name, dry_run=dry_run)
        return replace(result, paths=())


def fitting_jobs(study: Study[Any, Any], settings: Settings, scheduler: str | None = None) -> int:
    """Return as many processes as cores, points and free memory allow, at least one."""
    most = max(min(os.cpu_count() or 1, len(study.points(settings))), 1)
    available = None if scheduler or not study.memory(settings) else memory.available_bytes()
    if available is None:
        return most
    fits = (jobs for jobs in range(most, 1, -1) if _total(study, settings, jobs) <= available)
    return next(fits, 1)


def _total(study: Study[Any, Any], settings: Settings, processes: int) -> int:
    """Return the bytes of all processes at a time."""
    one, point = study.memory(settings), study.point_memory(settings)
    if processes == 1:
        return one
    if point is None:
        # Of the process that starts them, its libraries count.
        return processes * one + memory.LIBRARIES
    return max(one, (processes + 1) * point)


def compute_point(study: str, settings: Settings, identity: str, *arguments: Any) -> Any:
    """Compute one point in whatever process this is."""
    return get(study).compute(prepared(study, settings, identity), *arguments)


@dataclass(frozen=True)
class _Run:
    """A study with its settings and how it is to be run."""

    study: Study[Any, Any]
    settings: Settings
    formats: tuple[str, ...]
    jobs: int | None
    scheduler: str | None
    progress: bool

    def execute(
        self, out: Path, name: str | None, *, force: bool = False, dry_run: bool = False
    ) -> Result:
        """Run what is left of the study in a folder."""
        if self.scheduler is None and (needing := self.study.needs_scheduler(self.settings)):
            raise InputError(f"{needing} needs workers; give `scheduler`.")
        identity = provenance.identity(self.study, self.settings)
        stem = provenance.default_stem(identity) if name is None else name
        store = Store(out, stem, identity)
        finished = not force and store.finished()
        points = self.study.points(self.settings)
        jobs = self.jobs
        if jobs is None:
            jobs = fitting_jobs(self.study, self.settings, self.scheduler)
        processes = 1 if self.scheduler else max(min(jobs, len(points)), 1)
        needed = _total(self.study, self.settings, processes)
        result = partial(
            Result, self.study.name, stem, self.settings, points=len(points), memory=needed
        )
        if dry_run:
            missing = [] if finished else list(points) if force else store.missing(points)
            return result("dry run", reused=len(points) - len(missing))
        if not finished and self.scheduler is None:
            subject = f"{self.study.name} with `jobs` {processes}"
            memory.check(needed, subject, partial(self._remedy, processes))
        if not finished:
            # Whatever is wrong with the cluster or the inputs is said here: before any file is
            # touched, and once instead of by every worker.
            if self.scheduler is not None:
                cluster.check(self.scheduler)
            with pinned(self.study.threads):
                self._prepared(store)
        # A finished result is only read, which works in a folder that cannot be written to.
        whole = finished and store.whole(f".{name}" for name in self.formats)
        with ExitStack() as opened:
            try:
                if not whole:
                    opened.enter_context(store.open(force=force))
            except RunError as error:
                # There what a killed process left cannot be tidied up.
                if not (finished and files.cannot_be_written(error)):
                    raise
                whole = True
            if (record := store.record()) is not None:
                paths = self._redraw(store, record)
                reused = len(points)
                status: Status = "already done"
            else:
                started = time.perf_counter()
                missing = store.missing(points)
                reused = len(points) - len(missing)
                if failures := self._compute(store, {key: points[key] for key in missing}, jobs):
                    return result("incomplete", reused=reused, failures=failures)
                timings = {"points": time.perf_counter() - started, "reused": reused, "jobs": jobs}
                status, paths = "done", self._write(store, name, timings)
            paths += self._export(store, force, locked=not whole)
            record = store.record() or {}
            table = reading.table(store.path(".csv"))
        return result(status, reused=reused, paths=paths, record=record, _table=table)

    def _remedy(self, processes: int) -> str:
        return self.study.memory_remedy(self.settings) + (" or `jobs`" if processes > 1 else "")

    def _prepared(self, store: Store) -> Any:
        return prepared(self.study.name, self.settings, store.hash)

    def _compute(
        self, store: Store, points: Mapping[str, tuple[Any, ...]], jobs: int
    ) -> tuple[Failure, ...]:
        where = f"Dask at {self.scheduler}" if self.scheduler else f"{jobs} process(es)"
        logger.info(
            "%s: %d points on %s, %d BLAS thread(s) each",
            self.study.name, len(points), where, self.study.threads,
        )  # fmt: skip
        outcomes = run_points(
            partial(compute_point, self.study.name, self.settings, store.hash),
            points,
            jobs=jobs,
            scheduler=self.scheduler,
            threads=self.study.threads,
            description=self.study.name,
            progress=self.progress,
        )
        failures = []
        with closing(outcomes):
            for key, outcome in outcomes:
                if isinstance(outcome, Failure):
                    logger.warning("%s failed: %s: %s", key, outcome.kind, outcome.message)
                    failures.append(outcome)
                else:
                    store.save(key, outcome)
        if self.study.point_memory(self.settings) is not None:
            end_workers()
        if failures:
            store.save_failures([asdict(failure) for failure in failures])
        return tuple(failures)

    def _write(self, store: Store, name: str | None, timings: dict[str, float]) -> tuple[Path, ...]:
        started = time.perf_counter()
        # Pinned like the points: what is computed here ends in the CSV too, and the record has
        # the threads that were used.
        with pinned(self.study.threads), cluster.using(self.scheduler):
            assembled = self.study.assemble(self._prepared(store), store.load)
            rows, constants = tables.split(assembled.table, self.study.constants)
            files.write_csv(store.path(".csv"), rows, self.study.digits)
            suffixes = [".csv", *self._draw(store, self.formats, constants)]
            if assembled.arrays is not None:
                files.write_npz(store.path(".npz"), assembled.arrays)
                suffixes.append(".npz")
            record = provenance.collect(
                store.identity,
                command=self.study.command_line(self.settings, name),
                findings=assembled.findings,
                constants=constants,
                outputs=_digests(store, suffixes),
                timings=timings
                | {"assembly": time.perf_counter() - started, "peak_bytes": memory.taken()},
            )
        store.finish(record)
        return _paths(store, record)

    def _redraw(self, store: Store, record: dict[str, Any]) -> tuple[Path, ...]:
        """Draw the figures that a finished run lacks, from its CSV alone."""
        absent = [name for name in self.formats if not store.path(f".{name}").exists()]
        if absent:
            with files.usable(store.path(".csv")):
                drawn = self._draw(store, absent, record)
            record["outputs"] |= _digests(store, drawn)
            store.finish(record)
        return _paths(store, record)

    def _draw(
        self, store: Store, formats: Sequence[str], constants: Mapping[str, Any]
    ) -> list[str]:
        if not formats:
            return []
        # The table as it reads back from the disk: a figure cannot depend on what is not there.
        figure = self.study.draw(tables.joined(files.read_csv(store.path(".csv")), constants))
        suffixes = [f".{name}" for name in formats]
        for suffix in suffixes:
            files.write_figure(store.path(suffix), figure, store.hash)
        return suffixes

    def _export(self, store: Store, force: bool, locked: bool) -> tuple[Path, ...]:
        paths = []
        prepare = partial(self._prepared, store)
        for ending, text in self.study.exports(self.settings, prepare).items():
            path = store.path(ending)
            paths.append(path)
            there = path.read_text(encoding="utf-8") if path.is_file() else None
            if there is not None and there != text and not force:
                raise RunConflictError(
                    f"{path} exists and differs; give another `name`, or `force`."
                )
            if there != text:
                with nullcontext() if locked else store.open():
                    files.remove_temporaries(path.parent, path.stem, path.suffix)
                    files.write_text(path, text)
        return tuple(paths)


def _digests(store: Store, suffixes: Sequence[str]) -> dict[str, str]:
    return {store.path(suffix).name: files.sha256(store.path(suffix)) for suffix in suffixes}


def _paths(store: Store, record: Mapping[str, Any]) -> tuple[Path, ...]:
    written = [suffix for suffix in SUFFIXES if store.path(suffix).name in record["outputs"]]
    return tuple(store.path(suffix) for suffix in [*written, ".json"])
