"""The same calls in this process, in local processes or on a Dask cluster, with the same bytes.

Results arrive in the order in which they finish, so that the caller can store each one at once.
BLAS uses the same number of threads everywhere: sums are split by thread, and the last digits of
an eigenvalue follow. Digits also follow the processor's instruction set: a cluster of unlike
machines is as repeatable as its machines are alike.
"""

from __future__ import annotations

import functools
import logging
import os
import signal
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any

import joblib
import threadpoolctl
from joblib.externals.loky import get_reusable_executor
from tqdm import tqdm

from deqcli.errors import InputError, RunError
from deqcli.runs.cluster import run_on_cluster

logger = logging.getLogger(__name__)

Outcomes = Generator[tuple[str, Any], None, None]


@dataclass(frozen=True)
class Failure:
    """Why a point has no result: the name and the message of the exception that stopped it."""

    key: str
    kind: str
    message: str
    trace: str = field(default="", repr=False, compare=False)

    @classmethod
    def of(cls, key: str, error: BaseException) -> Failure:
        """Describe an exception."""
        trace = "".join(traceback.format_exception(error))
        return cls(key, type(error).__name__, str(error), trace)


def run_points(
    function: Callable[..., Any],
    arguments: Mapping[str, tuple[Any, ...]],
    *,
    jobs: int = 1,
    scheduler: str | None = None,
    threads: int = 1,
    description: str = "",
    progress: bool = False,
) -> Outcomes:
    """Call a function once per point and yield each result as it arrives.

    Parameters
    ----------
    function : callable
        At the top level of a module, so that it can be sent. What it needs of BLAS it imports at
        the top of that module: threads can only be set for libraries that are loaded.
    arguments : mapping of str to tuple
        Arguments by point; small, since each is sent with its call.
    jobs : int
        Local processes; 1 runs here, and so does any number where the system has no semaphores
        (a container whose ``/dev/shm`` cannot be written to), with a warning.
    scheduler : str, optional
        Address of a Dask scheduler such as ``tcp://host:8786``, whose workers do all the work.
    threads : int
        BLAS threads of each process.
    description : str
        Stands before the progress bar.
    progress : bool
        Show a bar on stderr if that is a terminal.

    Yields
    ------
    tuple of str and object
        The key, and the result or the `Failure` of that point. The others go on.

    Raises
    ------
    InputError
        For ``jobs`` below 1, or a Dask cluster that cannot be used (`run_on_cluster`).
    RunError
        If a local process is killed or the scheduler is lost; points already yielded are safe.

    Examples
    --------
    >>> import math
    >>> dict(run_points(math.sqrt, {"four": (4,), "minus one": (-1,)}))["four"]
    2.0
    """
    if jobs < 1:
        raise InputError(f"`jobs` is {jobs}; give 1 or more.")
    if not arguments:
        return
    if scheduler is not None:
        outcomes = _on_cluster(function, arguments, threads, scheduler)
    elif min(jobs, len(arguments)) > 1 and _processes_work():
        outcomes = _in_processes(function, arguments, threads, min(jobs, len(arguments)))
    else:
        outcomes = _here(function, arguments, threads)
    bar = tqdm(total=len(arguments), desc=description, disable=None if progress else True)
    with bar, closing(outcomes):
        for key, outcome in outcomes:
            if isinstance(outcome, Failure):
                logger.debug("%s failed:\n%s", key, outcome.trace)
            yield key, outcome
            bar.update()


@contextmanager
def pinned(threads: int) -> Iterator[None]:
    """Give BLAS and OpenMP of this process a number of threads for the block."""
    with threadpoolctl.threadpool_limits(limits=threads):
        yield


def _processes_work() -> bool:
    """Tell whether this system has the semaphores by which local processes talk."""
    # What joblib found when it was imported; it would fall back to threads, which share one BLAS.
    if joblib.parallel.mp is not None:
        return True
    logger.warning(
        "no other process can be used (/dev/shm is full or cannot be written to): points are "
        "computed one after the other."
    )
    return False


def _attempt(function: Callable[..., Any], key: str, arguments: tuple[Any, ...]) -> Any:
    try:
        return function(*arguments)
    except Exception as error:
        return Failure.of(key, error)


def _here(
    function: Callable[..., Any], arguments: Mapping[str, tuple[Any, ...]], threads: int
) -> Outcomes:
    for key, values in arguments.items():
        with pinned(threads):
            outcome = _attempt(function, key, values)
        yield key, outcome


def _elsewhere(
    threads: int, function: Callable[..., Any], key: str, arguments: tuple[Any, ...]
) -> Any:
    """Make one call in a worker of either kind."""
    # Not undone: the limit is one for the process, and a Dask worker with several threads has
    # other points under way when this one ends.
    threadpoolctl.threadpool_limits(limits=threads)
    return _attempt(function, key, arguments)


def _in_child(
    parent: int,
    threads: int,
    function: Callable[..., Any],
    key: str,
    arguments: tuple[Any, ...],
) -> tuple[str, Any]:
    _attend(parent)
    return key, _elsewhere(threads, function, key, arguments)


@functools.cache
def _attend(parent: int) -> None:
    """Leave Ctrl-C to the parent, which answers it for all, and end when the parent is killed.

    Once per worker process. Workers of joblib would otherwise go through the calls they were sent
    and then idle for minutes, in the way of the run that continues.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


def _in_processes(
    function: Callable[..., Any], arguments: Mapping[str, tuple[Any, ...]], threads: int, jobs: int
) -> Outcomes:
    with joblib.parallel_config(backend="loky", inner_max_num_threads=threads):
        # No memory maps: they would give workers other alignments than a call made here, and
        # leave files behind when the parent is killed. No batches: each result counts at once.
        parallel = joblib.Parallel(
            n_jobs=jobs, return_as="generator_unordered", batch_size=1, max_nbytes=None
        )
    call = joblib.delayed(_in_child)
    calls = (call(os.getpid(), threads, function, key, values) for key, values in arguments.items())
    outcomes = parallel(calls)
    try:
        # Not `yield from`, which would close joblib's generator before the last lines are reached.
        for outcome in outcomes:  # noqa: UP028
            yield outcome
    except BrokenProcessPool as error:
        raise RunError(
            "A worker process died, most often for lack of memory; finished points are kept: run "
            "the same command again with fewer `jobs`."
        ) from error
    finally:
        # Ends the workers if the caller stops early, on purpose: joblib need not warn of it.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            outcomes.close()


def end_workers() -> None:
    """End local processes, if there are, which would wait with their data for the next points."""
    if joblib.parallel.mp is not None:
        get_reusable_executor().shutdown(wait=True)


def _on_cluster(
    function: Callable[..., Any],
    arguments: Mapping[str, tuple[Any, ...]],
    threads: int,
    scheduler: str,
) -> Outcomes:
    outcomes = run_on_cluster(
        functools.partial(_elsewhere, threads, function), arguments, scheduler
    )
    with closing(outcomes):
        for key, outcome in outcomes:
            # Not the point failed but its way there and back.
            lost = isinstance(outcome, Exception)
            yield key, Failure.of(key, outcome) if lost else outcome
