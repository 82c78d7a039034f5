"""One writer per result: an ``flock`` that the kernel drops when its process dies, however."""

from __future__ import annotations

import errno
import fcntl
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from deqcli.errors import RunConflictError
from deqcli.runs.files import explained

logger = logging.getLogger(__name__)

_UNSUPPORTED = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP}


@contextmanager
def hold(path: Path) -> Iterator[None]:
    """Hold the lock file ``path`` for the block, and remove it afterwards.

    The file carries the holder's process id, only to be named in the refusal: whether the lock is
    held is the kernel's knowledge, so a file left behind by SIGKILL locks nobody out.

    Raises
    ------
    RunConflictError
        If another process holds it.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with hold(Path(folder, "a.lock")):
    ...         print([file.name for file in Path(folder).iterdir()])
    ...     print(list(Path(folder).iterdir()))
    ['a.lock']
    []
    """
    with explained(path):
        descriptor = _acquire(path)
    try:
        yield
    finally:
        # Unlinked while still held: a waiter that opened this file sees that it is gone and
        # starts again with a new one (see _acquire).
        with explained(path):
            path.unlink(missing_ok=True)
        os.close(descriptor)


def _acquire(path: Path) -> int:
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            _lock(descriptor, path)
            if _is_current(descriptor, path):
                os.ftruncate(descriptor, 0)
                os.write(descriptor, f"{os.getpid()}\n".encode())
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _lock(descriptor: int, path: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.read(descriptor, 32).decode(errors="replace").strip()
        raise RunConflictError(
            f"Another process (pid {holder or 'unknown'}) is writing {path.with_suffix('')}; "
            "wait until it ends or give another --name."
        ) from None
    except OSError as error:
        # Some cluster file systems are mounted without locks; the run itself works there.
        if error.errno not in _UNSUPPORTED:
            raise
        logger.warning("%s: no locks on this file system; start each run only once.", path.parent)


def _is_current(descriptor: int, path: Path) -> bool:
    """Tell whether the path still names the file that was locked."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
