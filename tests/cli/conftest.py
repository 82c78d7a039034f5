"""Running the command line the way a user does, in process or as a real one."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from deqcli.cli import run

ROOT = Path(__file__).parents[2]


@dataclass
class Outcome:
    code: int
    out: str
    err: str


@pytest.fixture
def deqcli(tmp_path, monkeypatch, capsys):
    """Call ``deqcli ARGS`` in an empty folder; returns exit code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["deqcli", *arguments])
        code = run(arguments)
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    return call


@pytest.fixture
def process(tmp_path):
    """Start ``python -m deqcli ARGS`` as a process of its own in an empty folder."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str, cwd: Path = tmp_path) -> subprocess.Popen[str]:
        child = subprocess.Popen(
            [sys.executable, "-m", "deqcli", *arguments],
            cwd=cwd,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(child)
        return child

    yield start
    for child in started:
        if child.poll() is None:
            child.kill()
        child.communicate()


#: A spectrum that takes a second or two.
SMALL = ("--n", "60", "--p", "80", "--realizations", "45", "--width", "50")
