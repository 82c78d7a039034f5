"""A real cluster on this machine: one scheduler and two worker processes."""

import json
import os
import signal
import socket
import threading
from pathlib import Path

import pytest
from toy_study import run_toy

from deqcli.errors import InputError, RunError
from deqcli.runs import parallel

distributed = pytest.importorskip(
    "distributed", reason="Dask is not installed: pip install 'deqcli[dask]'"
)


@pytest.fixture
def cluster(start, wait_for, tmp_path):
    """Start a scheduler and two workers without a nanny, so that a killed one stays dead."""
    contact = tmp_path / "scheduler.json"
    log = (tmp_path / "cluster.log").open("w")
    quiet = {"stdout": log, "stderr": log}
    common = ["--no-dashboard", "--scheduler-file", contact]
    scheduler = start(
        *("-m", "dask", "scheduler", "--host", "127.0.0.1", "--port", "0", *common), **quiet
    )
    wait_for(lambda: contact.exists() and contact.read_text().endswith("}"))
    local = ["--host", "127.0.0.1", "--local-directory", tmp_path, "--no-nanny", "--nthreads", "1"]
    for _ in range(2):
        start("-m", "dask", "worker", *common, *local, **quiet)
    address = json.loads(contact.read_text())["address"]
    # Or one of them might be given all the points before the other has come.
    with distributed.Client(address, set_as_default=False) as client:
        client.wait_for_workers(2, timeout=60)
    yield address, scheduler
    log.close()


@pytest.fixture
def beside(wait_for, gate, tmp_path):
    """Do something to the processes of waiting points while the run goes on in the test itself."""
    threads, over = [], threading.Event()

    def workers():
        return sorted({int(path.name.split("-")[-1]) for path in gate.parent.glob("waiting-*")})

    def stored(out):
        return len(list(out.glob("toy.parts/trial*.npz"))) == 3

    def begin(count, action):
        def watch():
            wait_for(
                lambda: over.is_set() or (len(workers()) == count and stored(tmp_path / "out"))
            )
            if not over.is_set():
                action(workers())

        threads.append(threading.Thread(target=watch))
        threads[-1].start()

    yield begin
    # A test that ended otherwise must not be waited for here.
    over.set()
    for thread in threads:
        thread.join()


def test_a_cluster_that_loses_a_worker_gives_local_bytes(gate, cluster, whole, beside, tmp_path):
    def kill_one(workers):
        os.kill(workers[0], signal.SIGKILL)
        gate.touch()

    beside(2, kill_one)
    address, _ = cluster
    result = run_toy(tmp_path / "out", scheduler=address)
    assert result.status == "done"
    assert (tmp_path / "out" / "toy.csv").read_bytes() == whole["toy.csv"]


def test_a_lost_scheduler_is_a_sentence_and_the_run_goes_on_without(
    gate, cluster, whole, beside, tmp_path
):
    address, scheduler = cluster
    beside(2, lambda _: scheduler.kill())
    with pytest.raises(RunError, match="finished points are kept"):
        run_toy(tmp_path / "out", scheduler=address)
    gate.touch()
    result = run_toy(tmp_path / "out")
    assert (result.status, result.reused) == ("done", 3)
    assert (tmp_path / "out" / "toy.csv").read_bytes() == whole["toy.csv"]


def test_ctrl_c_stops_a_run_on_a_cluster(gate, cluster, whole, start, wait_for, tmp_path, capfd):
    address, _ = cluster
    out = tmp_path / "out"
    process = start("-m", "toy_study", out, "--scheduler", address)
    wait_for(lambda: len(list(out.glob("toy.parts/trial*.npz"))) == 3)
    process.send_signal(signal.SIGINT)
    assert process.wait() == 130
    assert "Traceback" not in capfd.readouterr().err
    gate.touch()
    assert run_toy(out).reused == 3
    assert (out / "toy.csv").read_bytes() == whole["toy.csv"]


def test_failures_on_a_cluster_are_values(cluster, tmp_path, monkeypatch):
    address, _ = cluster
    result = run_toy(tmp_path / "out", scheduler=address, broken=2, size=20)
    assert result.exit_code == 3
    (failure,) = result.failures
    assert (failure.key, failure.kind, failure.message) == (
        "trial 2",
        "ArithmeticError",
        "trial 2 is broken",
    )
    monkeypatch.setattr(parallel, "__version__", "9.9")
    result = run_toy(tmp_path / "other", scheduler=address)
    assert {failure.kind for failure in result.failures} == {"VersionMismatch"}


def test_nobody_at_the_address(tmp_path, monkeypatch):
    monkeypatch.setattr(parallel, "_CONNECT_SECONDS", 0.3)
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{unused.getsockname()[1]}"
        with pytest.raises(InputError, match=f"No Dask scheduler answers at {address}"):
            run_toy(tmp_path, scheduler=address)
    with pytest.raises(InputError, match="`scheduler`"):
        run_toy(tmp_path, scheduler="nonsense://x")


def test_a_spectrum_on_a_cluster_gives_local_bytes(cluster, tmp_path, monkeypatch, capfd):
    """The same through the command line: two workers, then two local processes."""
    from deqcli.cli import run

    monkeypatch.chdir(tmp_path)
    small = ["spectrum", "--n", "60", "--p", "80", "--realizations", "45", "--width", "50"]
    assert run([*small, "--name", "dask", "--scheduler", cluster[0]]) == 0, capfd.readouterr().err
    assert run([*small, "--name", "local", "-j", "2"]) == 0, capfd.readouterr().err
    one, other = (Path("results") / f"{name}.csv" for name in ("dask", "local"))
    assert one.read_bytes() == other.read_bytes()
