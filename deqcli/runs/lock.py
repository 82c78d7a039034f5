"""One writer per result: a file lock that the system drops when its process dies."""

from __future__ import annotations

import errno
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from deqcli.errors import RunConflictError
from deqcli.runs.files import explained, remove_temporaries

logger = logging.getLogger(__name__)

_UNSUPPORTED = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP}


@contextmanager
def hold(path: Path, seconds: float = 0.2) -> Iterator[None]:
    """Hold the lock file ``path`` for the block, and remove it afterwards.

    Parameters
    ----------
    path : Path
    seconds : float
        How long another holder is waited for.

    Raises
    ------
    RunConflictError
        If another process holds the lock, or ``path`` is a symbolic link.

    Notes
    -----
    A lock file that SIGKILL left behind is not locked and is taken over. A symbolic link in its
    place is never followed.

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
    # At least a moment of waiting, because a holder that just ends removes the file that was opened
    # here; filelock notices this and opens a new one.
    lock = FileLock(path, timeout=seconds, poll_interval=0.02, fallback_to_soft=False)
    with explained(path):
        try:
            lock.acquire()
        except Timeout:
            raise RunConflictError(
                f"Another process is writing {path.with_suffix('')}; wait until it ends or give "
                "another `name`."
            ) from None
        except OSError as error:
            if error.errno == errno.ELOOP:  # from O_NOFOLLOW
                raise RunConflictError(
                    f"{path} is a symbolic link, which is never followed; remove it or give "
                    "another `name`."
                ) from None
            # Some cluster file systems are mounted without locks; the run itself works there.
            if error.errno not in _UNSUPPORTED:
                raise
            logger.warning(
                "%s: no locks on this file system; start each run only once.", path.parent
            )
    try:
        yield
    finally:
        # Removed before it is released: afterwards it may already be the lock of another process.
        with explained(path):
            path.unlink(missing_ok=True)
        lock.release()


@contextmanager
def alone(*paths: Path) -> Iterator[None]:
    """Write files that are no run's: one process at a time, without what a killed one left of them.

    Another process is waited for; it takes seconds.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Path(folder, ".a.0123456789abcdef.tmp.md").touch()
    ...     with alone(Path(folder, "a.md")):
    ...         print([file.name for file in Path(folder).iterdir()])
    ['a.md.lock']
    """
    with hold(paths[0].with_name(f"{paths[0].name}.lock"), seconds=60):
        for path in paths:
            remove_temporaries(path.parent, path.stem, path.suffix)
        yield
