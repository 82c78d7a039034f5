import os
import signal
import sys

import joblib
import numpy as np
import pytest
import threadpoolctl
from toy_study import ToySettings

from deqcli.errors import InputError, RunError
from deqcli.runs.execute import compute_point
from deqcli.runs.parallel import Failure, end_workers, run_points

POINTS = {f"trial {trial}": ("toy", ToySettings(), "", trial) for trial in range(4)}


def report(index):
    threads = {library["num_threads"] for library in threadpoolctl.threadpool_info()}
    return os.getpid(), threads, signal.getsignal(signal.SIGINT)


def fail_on_odd(number):
    if number % 2:
        raise ArithmeticError(f"{number} is odd")
    return number


def die(number):
    os.kill(os.getpid(), signal.SIGKILL)


def test_one_and_two_processes_give_the_same_bits():
    one, two = (dict(run_points(compute_point, POINTS, jobs=jobs)) for jobs in (1, 2))
    assert one.keys() == two.keys() == POINTS.keys()
    for key in POINTS:
        assert one[key]["eigenvalues"].tobytes() == two[key]["eigenvalues"].tobytes()


def test_without_semaphores_all_is_done_here(monkeypatch, caplog):
    """As in a container whose /dev/shm is full or cannot be written to."""
    monkeypatch.setattr(joblib.parallel, "mp", None)
    monkeypatch.delitem(joblib.parallel.BACKENDS, "loky")
    here = dict(run_points(report, {"a": (0,), "b": (1,)}, jobs=2))
    assert {pid for pid, _, _ in here.values()} == {os.getpid()}
    assert "computed one after the other" in caplog.text
    end_workers()


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("threads", [1, 2])
def test_threads_are_pinned_alike(jobs, threads):
    before = report(0)
    results = dict(run_points(report, {"a": (0,), "b": (1,)}, jobs=jobs, threads=threads))
    assert report(0) == before
    for pid, found, _ in results.values():
        assert (pid == os.getpid()) == (jobs == 1)
        assert found == {threads}


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_failed_point_is_a_value_and_the_others_go_on(jobs):
    results = dict(run_points(fail_on_odd, {str(n): (n,) for n in range(4)}, jobs=jobs))
    assert results["1"] == Failure("1", "ArithmeticError", "1 is odd")
    assert "fail_on_odd" in results["1"].trace
    assert (results["0"], results["2"]) == (0, 2)


def test_a_killed_process_is_a_sentence():
    with pytest.raises(RunError, match=r"finished points are kept.*`jobs`"):
        list(run_points(die, {"a": (0,), "b": (1,)}, jobs=2))
    assert dict(run_points(fail_on_odd, {"a": (0,), "b": (2,)}, jobs=2)) == {"a": 0, "b": 2}


# joblib aborts its pool while a thread of it may still be looking for the next point (KeyError).
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_consumer_that_stops_stops_the_work():
    points = run_points(fail_on_odd, {str(n): (n,) for n in range(100)}, jobs=2)
    next(points)
    points.close()
    assert dict(run_points(fail_on_odd, {"a": (0,), "b": (2,)}, jobs=2)) == {"a": 0, "b": 2}


def test_workers_leave_ctrl_c_to_the_parent():
    before = signal.getsignal(signal.SIGINT)
    results = dict(run_points(report, {"a": (0,), "b": (1,)}, jobs=2))
    assert {handler for _, _, handler in results.values()} == {signal.SIG_IGN}
    assert signal.getsignal(signal.SIGINT) is before


def test_nothing_to_do():
    assert list(run_points(fail_on_odd, {}, jobs=2)) == []


def test_bad_jobs():
    with pytest.raises(InputError, match="`jobs` is 0"):
        list(run_points(fail_on_odd, {}, jobs=0))


def test_the_bar_counts_what_is_left_on_stderr_of_a_terminal_only(capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    list(run_points(fail_on_odd, {"a": (0,), "b": (2,)}, description="toy", progress=True))
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "toy: 100%" in shown.err
    assert "2/2" in shown.err
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False, raising=False)
    list(run_points(fail_on_odd, {"a": (0,)}, progress=True))
    assert capsys.readouterr().err == ""


def test_dask_absent_is_a_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(InputError, match=r"pip install 'deqcli\[dask\]'"):
        list(run_points(fail_on_odd, {"a": (0,)}, scheduler="tcp://127.0.0.1:1"))


def test_results_do_not_depend_on_memory_layout_of_arguments():
    matrix = np.arange(2.0e5).reshape(500, 400) % 7.3
    one, two = (
        dict(run_points(np.linalg.norm, {"a": (matrix,), "b": (matrix,)}, jobs=j)) for j in (1, 2)
    )
    assert one == two
