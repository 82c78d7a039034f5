import errno
import fcntl
import os
import signal
import subprocess

import pytest

from deqcli.errors import RunConflictError
from deqcli.runs.lock import hold

HOLDER = """
import sys
from pathlib import Path
from deqcli.runs.lock import hold
with hold(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(start, tmp_path):
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    process = start("-c", HOLDER, tmp_path / "a.b.lock", **pipes)
    assert process.stdout.readline() == "held\n"
    yield process
    process.stdin.close()
    process.stdout.close()


def test_a_second_process_is_refused_and_told_the_first(holder, tmp_path):
    path = tmp_path / "a.b.lock"
    with pytest.raises(RunConflictError, match=rf"pid {holder.pid}\).*/a\.b;"), hold(path):
        pass
    assert path.exists()
    holder.stdin.close()
    assert holder.wait() == 0
    assert not path.exists()
    with hold(path):
        assert path.read_text() == f"{os.getpid()}\n"


def test_a_killed_holder_locks_nobody_out(holder, tmp_path):
    path = tmp_path / "a.b.lock"
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert path.exists()
    with hold(path):
        assert path.read_text() == f"{os.getpid()}\n"
    assert not path.exists()


def test_a_lock_removed_between_opening_and_locking_is_taken_anew(tmp_path, monkeypatch):
    path = tmp_path / "a.lock"
    flock, calls = fcntl.flock, []

    def slow(descriptor, operation):
        if not calls:
            path.unlink()  # the former holder ends right now
        calls.append(descriptor)
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", slow)
    with hold(path):
        assert path.exists()
    assert len(calls) == 2


def test_file_systems_without_locks_get_a_warning(tmp_path, monkeypatch, caplog):
    def unsupported(*_):
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", unsupported)
    with hold(tmp_path / "a.lock"):
        assert "no locks on this file system" in caplog.text
