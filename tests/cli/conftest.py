"""Running the command line the way a user does, in process or as a real one."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from deqcli.cli import run

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Outcome:
    """What a command left on the terminal."""

    code: int
    out: str
    err: str


def call(*arguments: str) -> Outcome:
    """Call ``deqcli ARGS`` in process."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run(arguments)
    return Outcome(code, out.getvalue(), err.getvalue())


@pytest.fixture(scope="session")
def deqcli_here() -> Callable[..., Outcome]:
    """Call ``deqcli ARGS`` wherever the test is."""
    return call


@pytest.fixture
def deqcli(tmp_path, monkeypatch):
    """Call ``deqcli ARGS`` in an empty folder; returns exit code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)
    return call


@pytest.fixture
def process(tmp_path):
    """Start ``python -m deqcli ARGS`` as a process of its own in an empty folder.

    It heeds Ctrl-C even if the tests do not, as in the background of a shell.
    """
    started: list[subprocess.Popen[str]] = []

    def start(
        *arguments: str, cwd: Path = tmp_path, stdout: Any = subprocess.PIPE
    ) -> subprocess.Popen[str]:
        child = subprocess.Popen(
            [sys.executable, "-m", "deqcli", *arguments],
            cwd=cwd,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        started.append(child)
        return child

    yield start
    for child in started:
        if child.poll() is None:
            child.kill()
        with child:  # closes its pipes and waits
            pass
