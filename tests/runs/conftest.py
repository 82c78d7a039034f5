from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

import deqcli.studies

HERE = Path(__file__).parent
PATHS = [str(HERE), str(Path(deqcli.studies.__file__).parents[2])]

# The toy study has to be importable by name in this process and in every worker.
sys.path.insert(0, str(HERE))

import toy_study  # noqa: E402

# It made itself known; the tests of other folders must not see it.
deqcli.studies.__path__.remove(toy_study.FOLDER)


@pytest.fixture(autouse=True)
def toy(monkeypatch):
    """Let the tests of this folder find the toy study, and return its class to be changed."""
    monkeypatch.setattr(deqcli.studies, "__path__", [*deqcli.studies.__path__, toy_study.FOLDER])
    return toy_study.Toy


@pytest.fixture(scope="session")
def whole(tmp_path_factory):
    """Return the files of an unbroken run in this process, by name."""
    folder = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(deqcli.studies, "__path__", [toy_study.FOLDER])
        toy_study.run_toy(folder)
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def environment(monkeypatch):
    """Let child processes find the toy study and the package, whatever is installed."""
    paths = os.pathsep.join([*PATHS, *filter(None, [os.environ.get("PYTHONPATH")])])
    monkeypatch.setenv("PYTHONPATH", paths)
    return monkeypatch


@pytest.fixture
def start(environment):
    """Start Python programs that are gone when the test ends, with all their children.

    They heed Ctrl-C even if the tests do not, as in the background of a shell.
    """
    started = []

    def run(*arguments, **options):
        process = subprocess.Popen(
            [sys.executable, *map(str, arguments)],
            start_new_session=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
            **options,
        )
        started.append(process)
        return process

    yield run
    for process in started:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.fixture
def gate(environment, tmp_path):
    """Hold the toy study's points from number 3 on until the returned file is made."""
    folder = tmp_path / "gate"
    folder.mkdir()
    environment.setenv("TOY_GATE", str(folder / "open"))
    environment.setenv("TOY_GATE_FROM", "3")
    return folder / "open"


@pytest.fixture
def wait_for():
    """Wait until a condition holds; pytest's own timeout bounds it."""

    def wait(condition):
        while not (value := condition()):
            time.sleep(0.01)
        return value

    return wait
