import errno
import fcntl
import signal
import subprocess
from itertools import pairwise

import pytest

from deqcli.errors import RunConflictError, RunError
from deqcli.runs.lock import hold

HOLDER = """
import sys
from pathlib import Path
from deqcli.runs.lock import hold
with hold(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""

CONTENDER = """
import sys, time
from pathlib import Path
from deqcli.errors import RunConflictError
from deqcli.runs.lock import hold
for _ in range(40):
    try:
        with hold(Path(sys.argv[1])):
            begin = time.monotonic_ns()
            time.sleep(0.002)
            end = time.monotonic_ns()
        print(begin, end)
    except RunConflictError:
        pass
"""


@pytest.fixture
def holder(start, tmp_path):
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    process = start("-c", HOLDER, tmp_path / "a.b.lock", **pipes)
    assert process.stdout.readline() == "held\n"
    yield process
    process.stdin.close()
    process.stdout.close()


def test_a_second_process_is_refused(holder, tmp_path):
    path = tmp_path / "a.b.lock"
    with pytest.raises(RunConflictError, match=r"Another process .*/a\.b; .*`name`"), hold(path):
        pass
    assert path.exists()
    holder.stdin.close()
    assert holder.wait() == 0
    assert not path.exists()
    with hold(path):
        assert path.exists()


def test_a_killed_holder_locks_nobody_out(holder, tmp_path):
    path = tmp_path / "a.b.lock"
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert path.exists()
    with hold(path):
        assert path.exists()
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


@pytest.mark.parametrize("target", ["existing", "missing"])
def test_a_symbolic_link_is_never_followed(tmp_path, target):
    existing, path = tmp_path / "existing", tmp_path / "a.lock"
    existing.write_text("precious")
    path.symlink_to(tmp_path / target)
    with pytest.raises(RunConflictError, match=r"a\.lock is a symbolic link"), hold(path):
        pass
    assert path.is_symlink()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.lock", "existing"]
    assert existing.read_text() == "precious"


def test_a_lock_that_cannot_be_written_is_told(tmp_path):
    (tmp_path / "a.lock").mkdir()
    with pytest.raises(RunError, match=r"Cannot write .*a\.lock"), hold(tmp_path / "a.lock"):
        pass


@pytest.mark.parametrize("code", [errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP])
def test_file_systems_without_locks_get_a_warning(tmp_path, monkeypatch, caplog, code):
    def unsupported(*_):
        raise OSError(code, "no locks")

    monkeypatch.setattr(fcntl, "flock", unsupported)
    with hold(tmp_path / "a.lock"):
        assert "no locks on this file system" in caplog.text
    assert not list(tmp_path.iterdir())


def test_many_processes_never_hold_one_lock_together(start, tmp_path):
    """Each notes when it held the lock; a file removed while waiting must not let two in."""
    pipes = {"stdout": subprocess.PIPE, "text": True}
    runs = [start("-c", CONTENDER, tmp_path / "a.lock", **pipes) for _ in range(4)]
    outputs = [run.communicate()[0].splitlines() for run in runs]
    assert [run.returncode for run in runs] == [0] * 4
    spans = sorted(tuple(map(int, line.split())) for lines in outputs for line in lines)
    assert len(spans) >= 40
    assert all(end <= start for (_, end), (start, _) in pairwise(spans))
