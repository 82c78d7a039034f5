"""Points on the workers of a Dask cluster, of which only those are used that have this deqcli.

`submit` and single futures rather than joblib's Dask backend: here each result is fetched when its
turn comes (the parent holds one at a time) and released on the cluster, workers can be chosen, and
a future that is lost or cancelled can be told from a point that failed.
"""

from __future__ import annotations

import logging
import pkgutil
import queue
import socket
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping
from concurrent.futures import CancelledError
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from typing import Any
from urllib.parse import urlsplit

from deqcli._version import __version__
from deqcli.errors import InputError, RunError

logger = logging.getLogger(__name__)

_CONNECT_SECONDS = 10.0
#: For the first worker to come, and for the next one when all are gone.
_WORKER_SECONDS = 60.0
#: For a version or a result; Dask answers beside the work, so that busy workers do too.
_ANSWER_SECONDS = 30.0


_scheduler: ContextVar[str | None] = ContextVar("scheduler", default=None)


@contextmanager
def using(scheduler: str | None) -> Iterator[None]:
    """Let what runs in the block know the cluster that its run was given."""
    token = _scheduler.set(scheduler)
    try:
        yield
    finally:
        _scheduler.reset(token)


def in_use() -> str | None:
    """Return the address of the scheduler that this run was given, if it was."""
    return _scheduler.get()


def run_on_cluster(
    call: Callable[[str, tuple[Any, ...]], Any],
    arguments: Mapping[str, tuple[Any, ...]],
    scheduler: str,
) -> Generator[tuple[str, Any], None, None]:
    """Call a function once per point on the workers of a Dask cluster.

    Workers are asked for their version of deqcli, and only those with this one are used; those
    that join later as well. Points of a worker that is lost go to the others. What is under way
    when the generator is closed is dropped on the cluster together with the client.

    Parameters
    ----------
    call : callable
        Called with the key and the arguments of a point; at the top level of a module.
    arguments : mapping of str to tuple
    scheduler : str
        Address such as ``tcp://host:8786``.

    Yields
    ------
    tuple of str and object
        The key, and the result or the exception for which Dask could not make the call.

    Raises
    ------
    InputError
        For Dask not installed, a bad address, a scheduler that does not answer, or a cluster
        without workers or of which no part has this version of deqcli.
    RunError
        If the scheduler is lost.
    """
    waiting = deque(arguments)
    sent: dict[Any, tuple[str, frozenset[str]]] = {}
    finished: queue.SimpleQueue[Any] = queue.SimpleQueue()
    misfits: dict[str, str | None] = {}
    with _connected(scheduler) as client:
        while waiting or sent:
            workers = _fitting_workers(client, misfits, scheduler)
            # Dask would wait for ever for points whose workers are all gone.
            for future in [future for future in sent if sent[future][1].isdisjoint(workers)]:
                waiting.append(sent.pop(future)[0])
                future.release()
            # Few at a time, so that points go where it is free and to workers that join later.
            while waiting and len(sent) < 2 * sum(workers.values()):
                key = waiting.popleft()
                # Retries are for a call that could not even begin on one of the workers.
                options = {"workers": list(workers), "pure": False, "retries": 3}
                future = client.submit(call, key, arguments[key], **options)
                sent[future] = key, frozenset(workers)
                future.add_done_callback(finished.put)
            try:
                future = finished.get(timeout=1)
                if future not in sent:
                    continue
                failed = future.status == "error"
                outcome = future.exception() if failed else future.result(timeout=_ANSWER_SECONDS)
            except queue.Empty:
                continue
            except TimeoutError:
                # The worker was lost with its result, which is computed again.
                future.add_done_callback(finished.put)
                continue
            key, _ = sent.pop(future)
            future.release()
            yield key, outcome


@contextmanager
def workers_of(scheduler: str) -> Iterator[tuple[Any, dict[str, int]]]:
    """Keep a client, and the threads of each worker that has this version of deqcli.

    Raises
    ------
    InputError, RunError
        As :func:`run_on_cluster`.
    """
    with _connected(scheduler) as client:
        yield client, _fitting_workers(client, {}, scheduler)


def check(scheduler: str) -> None:
    """Raise what :func:`run_on_cluster` would of a cluster that cannot be used.

    Workers that are left out are named by the run itself.
    """
    with _connected(scheduler) as client:
        _fitting_workers(client, {}, scheduler, naming=False)


@contextmanager
def _connected(scheduler: str) -> Iterator[Any]:
    """Keep a client, and say in a sentence what Dask would log with a traceback."""
    try:
        import distributed  # noqa: F401 - sets the levels of its loggers
    except ImportError:
        raise InputError(
            "`scheduler` needs Dask, which is not installed; run: pip install 'deqcli[dask]'."
        ) from None
    with ExitStack() as stack:
        # Those to which it gives a level of their own, and the one of its event loop.
        for name in ("distributed", "distributed.client", "tornado.application", "asyncio"):
            dask_logger = logging.getLogger(name)
            stack.callback(dask_logger.setLevel, dask_logger.level)
            dask_logger.setLevel(logging.CRITICAL + 1)
        client = stack.enter_context(_start_client(scheduler))
        try:
            # The scheduler reads what is sent to the workers, and needs the same modules for it.
            if misfit := _misfit(client):
                raise InputError(
                    f"The Dask scheduler at {scheduler} {misfit}, and this is deqcli {__version__};"
                    " install the same version there, or leave out `scheduler`."
                )
            yield client
        except Exception as error:
            # Whatever breaks once the connection is gone breaks for that reason.
            if client.status == "running" and not isinstance(error, OSError | CancelledError):
                raise
            raise RunError(
                f"The Dask scheduler at {scheduler} was lost; finished points are kept: run the "
                "same command again to continue."
            ) from error


def _start_client(scheduler: str) -> Any:
    import distributed

    class Client(distributed.Client):  # type: ignore[misc]
        """One that is closed where it cannot be started, not ten seconds later with a traceback."""

        def start(self, **options: Any) -> None:
            try:
                # Dask's own limit does not hold where somebody listens and says nothing.
                super().start(callback_timeout=2 * _CONNECT_SECONDS, **options)
            except BaseException:
                self.close(timeout=_CONNECT_SECONDS)
                raise

    try:
        parts = urlsplit(scheduler if "://" in scheduler else f"tcp://{scheduler}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if not host or not port or parts.scheme not in ("tcp", "tls", "ws", "wss"):
        raise InputError(f"`scheduler` is {scheduler!r}; give an address such as tcp://host:8786.")
    try:
        # Where nobody listens this fails at once; Dask would try again for seconds.
        socket.create_connection((host, port), timeout=_CONNECT_SECONDS).close()
        return Client(scheduler, timeout=_CONNECT_SECONDS, set_as_default=False)
    # Any exception: what listens there may be anything, and Dask reads its bytes as its own.
    except Exception as error:
        raise InputError(
            f"No Dask scheduler answers at {scheduler}; start one with `dask scheduler`, correct "
            "`scheduler` or leave it out."
        ) from error


def _misfit(client: Any, worker: str | None = None) -> str | None:
    """Say why a worker, or else the scheduler, cannot be used."""
    # A function of the standard library, so that it can be called where deqcli is missing.
    question = pkgutil.resolve_name, "deqcli._version:__version__"
    try:
        if worker is None:
            version = client.run_on_scheduler(*question)
        else:
            options = {"workers": [worker], "callback_timeout": _ANSWER_SECONDS}
            version = client.run(*question, **options)[worker]
    except OSError:
        return "does not answer"
    except Exception as error:
        return f"cannot import deqcli ({type(error).__name__}: {error})"
    return None if version == __version__ else f"has deqcli {version}"


def _fitting_workers(
    client: Any, misfits: dict[str, str | None], scheduler: str, *, naming: bool = True
) -> dict[str, int]:
    """Return the threads of each worker that can be used; asks those not in `misfits` so far."""
    workers: dict[str, int] = client.nthreads()
    if not workers:
        logger.warning("The scheduler at %s has no workers; waiting.", scheduler)
        try:
            client.wait_for_workers(1, timeout=_WORKER_SECONDS)
        except TimeoutError:
            raise InputError(
                f"No worker came to the Dask scheduler at {scheduler} within {_WORKER_SECONDS:g} "
                f"seconds; start one with `dask worker {scheduler}`, or leave out `scheduler`."
            ) from None
        workers = client.nthreads()
    for worker in sorted(workers.keys() - misfits.keys()):
        # One by one, so that one that does not answer takes nobody's answer along.
        misfits[worker] = _misfit(client, worker)
        if naming and misfits[worker]:
            logger.warning("The Dask worker %s is not used: it %s.", worker, misfits[worker])
    fitting = {worker: count for worker, count in workers.items() if not misfits[worker]}
    if workers and not fitting:
        reasons = ", ".join(f"{worker} {misfits[worker]}" for worker in list(workers)[:3])
        raise InputError(
            f"No Dask worker at {scheduler} has deqcli {__version__}: {reasons}; install the same "
            "version there, or leave out `scheduler`."
        )
    return fitting
