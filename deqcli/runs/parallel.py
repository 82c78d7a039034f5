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
from tqdm import tqdm

from deqcli._version import __version__
from deqcli.errors import InputError, RunError

logger = logging.getLogger(__name__)

Outcomes = Generator[tuple[str, Any], None, None]

_CONNECT_SECONDS = 5
_RETRIES = 3


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
        Local processes; 1 runs here.
    scheduler : str, optional
        Address of a Dask scheduler such as ``tcp://host:8786``, which then does all the work.
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
        For ``jobs`` below 1, Dask not installed or a scheduler that does not answer.
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
    elif min(jobs, len(arguments)) > 1:
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
    function: Callable[..., Any],
    key: str,
    arguments: tuple[Any, ...],
    threads: int,
    version: str,
) -> tuple[str, Any]:
    """Make one call in a worker of either kind."""
    if version != __version__:
        message = f"this worker has deqcli {__version__}, the run {version}"
        return key, Failure(key, "VersionMismatch", message)
    # Not undone: the limit is one for the process, and a Dask worker with several threads has
    # other points under way when this one ends.
    threadpoolctl.threadpool_limits(limits=threads)
    return key, _attempt(function, key, arguments)


def _in_child(parent: int, *call: Any) -> tuple[str, Any]:
    _attend(parent)
    return _elsewhere(*call)


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
    calls = (
        call(os.getpid(), function, key, values, threads, __version__)
        for key, values in arguments.items()
    )
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


# `submit` and `as_completed` rather than joblib's Dask backend: that one gathers results by
# callbacks on the client's own thread and offers no hold on single futures, while here each result
# is fetched when its turn comes (the parent holds one at a time) and released on the cluster, and
# a future that is lost or cancelled can be told from a point that failed.
def _on_cluster(
    function: Callable[..., Any],
    arguments: Mapping[str, tuple[Any, ...]],
    threads: int,
    scheduler: str,
) -> Outcomes:
    try:
        import distributed
    except ImportError:
        raise InputError(
            "`scheduler` needs Dask, which is not installed; run: pip install 'deqcli[dask]'."
        ) from None
    try:
        client = distributed.Client(scheduler, timeout=_CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError) as error:
        raise InputError(
            f"No Dask scheduler answers at {scheduler}; start one with `dask scheduler`, correct "
            "`scheduler` or leave it out."
        ) from error
    with client:
        if not client.scheduler_info()["workers"]:
            logger.warning("The scheduler at %s has no workers yet; waiting.", scheduler)
        # The points and unfetched results of a killed worker are computed again by the others
        # without more ado; retries are for a call that could not even begin on one of them.
        submit = functools.partial(client.submit, _elsewhere, pure=False, retries=_RETRIES)
        futures = {
            submit(function, key, values, threads, __version__): key
            for key, values in arguments.items()
        }
        try:
            for future in distributed.as_completed(list(futures), loop=client.loop):
                yield _fetch(future, futures.pop(future), scheduler)
                future.release()
        finally:
            client.cancel(list(futures), force=True)


def _fetch(future: Any, key: str, scheduler: str) -> tuple[str, Any]:
    try:
        outcome: tuple[str, Any] = future.result()
    except Exception as error:
        if future.cancelled():
            raise RunError(
                f"The Dask scheduler at {scheduler} was lost; finished points are kept: run the "
                "same command again to continue."
            ) from error
        return key, Failure.of(key, error)
    return outcome
