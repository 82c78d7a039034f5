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
