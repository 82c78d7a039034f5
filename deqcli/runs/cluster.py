"""Points on the workers of a Dask cluster, of which only those are used that have this deqcli.

`submit` and single futures rather than joblib's Dask backend: here each result is fetched when its
turn comes (the parent holds one at a time) and released on the cluster, workers can be chosen, and
a future that is lost or cancelled can be told from a point that failed.
"""

from __future__ import annotations

import asyncio
import logging
import pkgutil
import queue
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from deqcli._version import __version__
from deqcli.errors import InputError, RunError

logger = logging.getLogger(__name__)

_PROTOCOLS = ("tcp", "tls", "ws", "wss")
_CONNECT_SECONDS = 5.0
#: For a worker to tell its version; Dask answers beside the work, so that busy ones do too.
_ANSWER_SECONDS = 10.0
_FETCH_SECONDS = 60.0
_LOOK_SECONDS = 1.0
_RETRIES = 3


def run_on_cluster(
    call: Callable[[str, tuple[Any, ...]], Any],
    arguments: Mapping[str, tuple[Any, ...]],
    scheduler: str,
) -> Generator[tuple[str, Any], None, None]:
    """Call a function once per point on the workers of a Dask cluster.

    Workers are asked for their version of deqcli, and only those with this one are used; those
    that join later as well. Points of a worker that is lost go to the others.

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
        For Dask not installed, a bad address, a scheduler that does not answer, or a cluster of
        which no part has this version of deqcli.
    RunError
        If the scheduler is lost.
    """
    try:
        import distributed
    except ImportError:
        raise InputError(
            "`scheduler` needs Dask, which is not installed; run: pip install 'deqcli[dask]'."
        ) from None
    _check_address(scheduler)
    with _silenced() as silence, _connect(scheduler) as client:
        client.sync(silence)
        _check_scheduler(client, scheduler)
        tasks = _Tasks(client, call, arguments, scheduler)
        try:
            while tasks.left():
                try:
                    outcome = tasks.advance()
                # Whatever breaks once the connection is gone breaks for that reason.
                except (Exception, distributed.CancelledError) as error:
                    if client.status == "running" and not isinstance(error, OSError):
                        raise
                    raise RunError(
                        f"The Dask scheduler at {scheduler} was lost; finished points are kept: "
                        "run the same command again to continue."
                    ) from error
                if outcome is not None:
                    yield outcome
        finally:
            tasks.cancel()


def _check_address(scheduler: str) -> None:
    """Refuse at once what Dask would try for many seconds."""
    try:
        parts = urlsplit(scheduler if "://" in scheduler else f"tcp://{scheduler}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if not host or not port or parts.scheme not in _PROTOCOLS:
        raise InputError(f"`scheduler` is {scheduler!r}; give an address such as tcp://host:8786.")
    try:
        socket.create_connection((host, port), timeout=_CONNECT_SECONDS).close()
    # A name that cannot be encoded for the search is a ValueError.
    except (OSError, ValueError) as error:
        raise _no_answer(scheduler) from error


def _no_answer(scheduler: str) -> InputError:
    return InputError(
        f"No Dask scheduler answers at {scheduler}; start one with `dask scheduler`, correct "
        "`scheduler` or leave it out."
    )


def _connect(scheduler: str) -> Any:
    import distributed

    class Client(distributed.Client):  # type: ignore[misc]
        """One that is closed where it cannot be started, not ten seconds later with a traceback."""

        def start(self, **options: Any) -> None:
            try:
                super().start(**options)
            except BaseException:
                self.close(timeout=_CONNECT_SECONDS)
                raise

        async def _start(self, **options: Any) -> None:
            # Dask's own limit does not hold where somebody listens and says nothing.
            await asyncio.wait_for(super()._start(**options), 2 * _CONNECT_SECONDS)

    try:
        return Client(scheduler, timeout=_CONNECT_SECONDS, set_as_default=False)
    # Any exception: what listens there may be anything, and Dask reads its bytes as its own.
    except Exception as error:
        raise _no_answer(scheduler) from error


@contextmanager
def _silenced() -> Iterator[Callable[[], Any]]:
    """Keep Dask's thread from logging what is said here in a sentence.

    Yields a coroutine function, which is to be called in the thread in question.
    """
    threads: set[int] = set()

    def loud(record: logging.LogRecord) -> bool:
        return record.thread not in threads

    async def silence() -> None:
        threads.add(threading.get_ident())

    # A filter holds for the very logger alone, not for those below it.
    loggers = [
        logging.getLogger(name)
        for name in [*logging.root.manager.loggerDict]
        if name.partition(".")[0] in ("distributed", "tornado", "asyncio")
    ]
    for noisy in loggers:
        noisy.addFilter(loud)
    try:
        yield silence
    finally:
        for noisy in loggers:
            noisy.removeFilter(loud)


# A function of the standard library, so that it can be called where deqcli is missing.
_ASK_VERSION = (pkgutil.resolve_name, "deqcli._version:__version__")


def _misfit(version: Any) -> str | None:
    """Say what is wrong with an answer to the question for the version."""
    if version == __version__:
        return None
    if isinstance(version, TimeoutError):
        return f"does not answer within {_ANSWER_SECONDS:g} seconds"
    if isinstance(version, Exception):
        return f"cannot import deqcli ({type(version).__name__}: {version})"
    return f"has deqcli {version}"


def _check_scheduler(client: Any, scheduler: str) -> None:
    """The scheduler reads what is sent to the workers, and needs the same modules for it."""
    try:
        version = client.run_on_scheduler(*_ASK_VERSION)
    except Exception as error:
        version = error
    if misfit := _misfit(version):
        raise InputError(
            f"The Dask scheduler at {scheduler} {misfit}, and this is deqcli {__version__}; "
            "install the same version there, or leave out `scheduler`."
        )


class _Workers:
    """The workers that can be used, with their threads; looked at anew every second."""

    def __init__(self, client: Any, scheduler: str) -> None:
        self._client = client
        self._scheduler = scheduler
        self._misfits: dict[str, str | None] = {}
        self._fitting: dict[str, int] = {}
        self._looked = float("-inf")
        self._waiting = False

    def fitting(self) -> dict[str, int]:
        """Return the threads of each worker that can be used, by its address.

        Raises
        ------
        InputError
            If there are workers, and none can be used.
        """
        if time.monotonic() < self._looked + _LOOK_SECONDS:
            return self._fitting
        present: dict[str, int] = self._client.nthreads()
        self._client.sync(self._ask, [name for name in present if name not in self._misfits])
        self._looked = time.monotonic()
        self._fitting = {n: count for n, count in present.items() if self._misfits[n] is None}
        if present and not self._fitting:
            reasons = [f"{name} {self._misfits[name]}" for name in present]
            more = f" and {len(reasons) - 3} more" if len(reasons) > 3 else ""
            raise InputError(
                f"No Dask worker at {self._scheduler} has deqcli {__version__}: "
                f"{', '.join(reasons[:3])}{more}; install the same version there, or leave out "
                "`scheduler`."
            )
        if not present and not self._waiting:
            logger.warning("The scheduler at %s has no workers; waiting.", self._scheduler)
        self._waiting = not present
        return self._fitting

    async def _ask(self, names: list[str]) -> None:
        answers = await asyncio.gather(*map(self._ask_one, names))
        for name, misfit in zip(names, answers, strict=True):
            self._misfits[name] = misfit
            if misfit is not None:
                logger.warning("The Dask worker %s is not used: it %s.", name, misfit)

    async def _ask_one(self, name: str) -> str | None:
        question = self._client.run(*_ASK_VERSION, workers=[name], on_error="return")
        try:
            answers = await asyncio.wait_for(question, _ANSWER_SECONDS)
        except Exception as error:
            return _misfit(error)
        # A worker that has just left gives none.
        return _misfit(answers.get(name, TimeoutError()))


class _Tasks:
    """Points on their way to the workers and back, few enough at a time to go where it is free."""

    def __init__(
        self,
        client: Any,
        call: Callable[..., Any],
        arguments: Mapping[str, tuple[Any, ...]],
        scheduler: str,
    ) -> None:
        self._client = client
        self._call = call
        self._arguments = arguments
        self._workers = _Workers(client, scheduler)
        self._waiting = deque(arguments)
        self._sent: dict[Any, tuple[str, frozenset[str]]] = {}
        self._finished: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def left(self) -> bool:
        """Tell whether points are without a result."""
        return bool(self._waiting or self._sent)

    def advance(self) -> tuple[str, Any] | None:
        """Send what can be sent and return the next result, or nothing if none came so far."""
        workers = self._workers.fitting()
        self._recall(workers)
        while self._waiting and len(self._sent) < 2 * sum(workers.values()):
            self._send(self._waiting.popleft(), workers)
        try:
            future = self._finished.get(timeout=_LOOK_SECONDS)
        except queue.Empty:
            return None
        if future not in self._sent:
            return None
        try:
            outcome = self._fetch(future)
        except TimeoutError:
            # The worker was lost with its result, which is computed again.
            future.add_done_callback(self._finished.put)
            return None
        key, _ = self._sent.pop(future)
        future.release()
        return key, outcome

    def cancel(self) -> None:
        """Take back what was sent."""
        if self._sent and self._client.status == "running":
            self._client.cancel(list(self._sent), force=True)

    def _send(self, key: str, workers: Mapping[str, int]) -> None:
        # Retries are for a call that could not even begin on one of the workers.
        future = self._client.submit(
            self._call,
            key,
            self._arguments[key],
            workers=list(workers),
            pure=False,
            retries=_RETRIES,
        )
        self._sent[future] = key, frozenset(workers)
        future.add_done_callback(self._finished.put)

    def _recall(self, workers: Mapping[str, int]) -> None:
        """Take back points whose workers are all gone: Dask would wait for them for ever."""
        lost = [future for future, (_, chosen) in self._sent.items() if not chosen & workers.keys()]
        for future in lost:
            self._waiting.append(self._sent.pop(future)[0])
        if lost:
            self._client.cancel(lost, force=True)

    def _fetch(self, future: Any) -> Any:
        if future.status == "error":
            return future.exception()
        return future.result(timeout=_FETCH_SECONDS)
