"""Real processes, stopped in the middle in every way there is, then started again."""

import os
import signal
from pathlib import Path

import pytest
from toy_study import run_toy

from deqcli.errors import RunConflictError


@pytest.fixture
def halted(start, wait_for, tmp_path, gate):
    """Return a way to start the study and have it stand in its middle, 3 of 6 points stored."""

    def run(jobs):
        out = tmp_path / "out"
        process = start("-m", "toy_study", out, "--jobs", jobs)
        wait_for(lambda: len(list(out.glob("toy.parts/trial*.npz"))) == 3)
        wait_for(lambda: len(waiting(gate)) == jobs)
        return process, out

    return run


def waiting(gate):
    """Return the processes that stand at the gate."""
    return {int(path.name.split("-")[-1]) for path in gate.parent.glob("waiting-*")}


def is_alive(pid):
    """Tell whether a process runs; one that ended and was not yet waited for does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def finish(out, gate, whole, jobs):
    gate.touch()
    result = run_toy(out, jobs=jobs)
    assert (result.status, result.reused) == ("done", 3)
    assert (out / "toy.csv").read_bytes() == whole["toy.csv"]
    assert sorted(path.name for path in out.iterdir()) == ["toy.csv", "toy.json", "toy.png"]


@pytest.mark.parametrize("jobs", [1, 2])
def test_killed_and_resumed_gives_the_bytes_of_an_unbroken_run(halted, gate, whole, jobs, wait_for):
    process, out = halted(jobs)
    workers = waiting(gate)
    process.send_signal(signal.SIGKILL)
    process.wait()
    wait_for(lambda: not any(map(is_alive, workers)))
    assert not (out / "toy.json").exists()
    finish(out, gate, whole, jobs=1)


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("whom", ["parent", "group"])
def test_interrupted_ends_cleanly_and_resumes(halted, gate, whole, jobs, whom, capfd, wait_for):
    process, out = halted(jobs)
    workers = waiting(gate)
    if whom == "group":
        os.killpg(process.pid, signal.SIGINT)
    else:
        process.send_signal(signal.SIGINT)
    assert process.wait() == 130
    assert capfd.readouterr().err == ""
    wait_for(lambda: not any(map(is_alive, workers)))
    assert not (out / "toy.lock").exists()
    finish(out, gate, whole, jobs=2)


def test_a_second_ctrl_c_ends_what_is_slow_to_stop(
    start, gate, whole, wait_for, tmp_path, capfd, monkeypatch
):
    monkeypatch.setenv("TOY_STUBBORN", "1")
    out = tmp_path / "out"
    code = "import toy_study; from deqcli.__main__ import main; main()"
    process = start("-c", code, "toy", "--out", out, "--name", "toy", "--jobs", 1)
    wait_for(lambda: len(list(out.glob("toy.parts/trial*.npz"))) == 3)
    wait_for(lambda: waiting(gate))
    process.send_signal(signal.SIGINT)
    wait_for((gate.parent / "stubborn").exists)
    process.send_signal(signal.SIGINT)
    assert process.wait() == 130
    shown = capfd.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("toy: 6 points on")
    assert len(shown.err.splitlines()) == 1
    finish(out, gate, whole, jobs=1)


def test_a_running_study_is_not_disturbed(halted, gate, whole):
    process, out = halted(1)
    for force in (False, True):
        with pytest.raises(RunConflictError, match="Another process"):
            run_toy(out, force=force)
    gate.touch()
    assert process.wait() == 0
    assert (out / "toy.csv").read_bytes() == whole["toy.csv"]


#: Does the same again and again, each time killed one step later, and then once unharmed.
EVERY_STEP = """
import itertools, os, signal, sys
from pathlib import Path
import numpy as np
import pandas as pd
from deqcli.data.files import save
from deqcli.reproduction import summary
from toy_study import Toy, run_toy

Toy.exports = lambda self, settings, prepare: {"-a.py": "x = 1"}
STEPS = {"open", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "shutil.rmtree"}
ROWS = pd.DataFrame([dict.fromkeys(summary.COLUMNS, "a") | {"ours": 1.0, "interval": 0.1}])
WORK = {
    "study": run_toy,
    "samples": lambda out: save((np.eye(2), [0, 1]), out),
    "summary": lambda out: out.mkdir(exist_ok=True) or summary.write(out, [ROWS], summary.empty()),
}[sys.argv[1]]

def in_child(function):
    if (child := os.fork()) == 0:
        function()
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

def mortal(out, steps):
    left = itertools.count(1)
    def count(event, arguments):
        if event in STEPS and str(out) in str(arguments[0]) and next(left) == steps:
            os.kill(os.getpid(), signal.SIGKILL)
    sys.addaudithook(count)
    WORK(out)

for steps in itertools.count(1):
    out = Path(sys.argv[2], str(steps))
    out.parent.mkdir(exist_ok=True)
    killed = in_child(lambda: mortal(out, steps))
    assert in_child(lambda: WORK(out)) == 0, steps
    if killed == 0:
        break
    assert killed == -signal.SIGKILL, (steps, killed)
"""


# The least that is done to files: six points and a result, or one file, locked, written, renamed.
@pytest.mark.parametrize(("work", "least"), [("study", 30), ("samples", 6), ("summary", 9)])
@pytest.mark.slow
def test_killed_before_any_step_on_the_disk_goes_on_to_the_same_files(
    start, whole, tmp_path, work, least
):
    assert start("-c", EVERY_STEP, work, tmp_path / "runs").wait() == 0
    folders = list((tmp_path / "runs").iterdir())
    assert len(folders) > least
    unharmed = max(folders, key=lambda folder: int(folder.name))
    files = {path.name: path.read_bytes() for path in unharmed.iterdir()}
    if work == "study":
        assert files.keys() == whole.keys() | {"toy-a.py"}
        assert files["toy.csv"] == whole["toy.csv"]
    else:
        assert len(files) == {"samples": 1, "summary": 2}[work]
    for folder in folders:
        assert {path.name for path in folder.iterdir()} == files.keys(), folder.name
        for name in files.keys() - {"toy.json"}:  # which has the time it took
            assert (folder / name).read_bytes() == files[name], folder.name
