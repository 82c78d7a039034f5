"""A real cluster on this machine: one scheduler and two worker processes."""

import json
import os
import shutil
import signal
import socket
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from toy_study import run_toy

import deqcli
from deqcli import __version__
from deqcli.errors import InputError, RunError
from deqcli.runs import cluster as clusters

distributed = pytest.importorskip(
    "distributed", reason="Dask is not installed: pip install 'deqcli[dask]'"
)

#: The toy study by the command line, which says what becomes of it.
COMMAND = "import sys, toy_study; from deqcli.cli import run; sys.exit(run(sys.argv[1:]))"


@pytest.fixture
def log(tmp_path):
    """Return where the cluster writes what it says."""
    with (tmp_path / "cluster.log").open("w") as stream:
        yield {"stdout": stream, "stderr": stream, "cwd": tmp_path}


@pytest.fixture
def scheduler(start, wait_for, log, tmp_path):
    """Start a scheduler; returns its address and its process."""
    contact = tmp_path / "scheduler.json"
    process = start(
        *("-m", "dask", "scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard"),
        *("--scheduler-file", contact),
        **log,
    )
    wait_for(lambda: contact.exists() and contact.read_text().endswith("}"))
    return json.loads(contact.read_text())["address"], process


@pytest.fixture
def add_worker(start, scheduler, log, tmp_path):
    """Start workers without a nanny, so that a killed one stays dead."""
    address, _ = scheduler

    def add(path=None):
        """Start one that looks for modules in a folder before all others."""
        paths = os.pathsep.join([*([str(path)] if path else []), os.environ["PYTHONPATH"]])
        return start(
            *("-m", "dask", "worker", address, "--host", "127.0.0.1", "--no-dashboard"),
            *("--local-directory", tmp_path, "--no-nanny", "--nthreads", "1"),
            env=os.environ | {"PYTHONPATH": paths},
            **log,
        )

    return add


def wait_for_workers(address, count):
    with distributed.Client(address, set_as_default=False) as client:
        client.wait_for_workers(count, timeout=120)


def tasks_left(address):
    """Count what the scheduler still keeps for anybody."""
    with distributed.Client(address, set_as_default=False) as client:
        return client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks))


@pytest.fixture
def cluster(scheduler, add_worker):
    """Start a scheduler and two workers."""
    for _ in range(2):
        add_worker()
    # Or one of them might be given all the points before the other has come.
    wait_for_workers(scheduler[0], 2)
    return scheduler


@pytest.fixture
def misfits(add_worker, tmp_path):
    """Start a worker that cannot import deqcli, and one that has another version of it."""
    broken, other = tmp_path / "broken", tmp_path / "other"
    (broken / "deqcli").mkdir(parents=True)
    (broken / "deqcli" / "__init__.py").write_text("raise ImportError('a module is missing')")
    shutil.copytree(Path(deqcli.__file__).parent, other / "deqcli")
    (other / "deqcli" / "_version.py").write_text('__version__ = "0.0.1"')
    return [add_worker(path) for path in (broken, other)]


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


@pytest.mark.slow
def test_ctrl_c_stops_a_run_on_a_cluster(gate, cluster, whole, start, wait_for, tmp_path, capfd):
    address, _ = cluster
    out = tmp_path / "out"
    process = start("-m", "toy_study", out, "--scheduler", address)
    wait_for(lambda: len(list(out.glob("toy.parts/trial*.npz"))) == 3)
    process.send_signal(signal.SIGINT)
    assert process.wait() == 130
    assert capfd.readouterr().err == ""
    # The points are still at the gate, and yet nobody waits for them.
    wait_for(lambda: not tasks_left(address))
    gate.touch()
    assert run_toy(out).reused == 3
    assert (out / "toy.csv").read_bytes() == whole["toy.csv"]


@pytest.mark.slow
def test_a_lost_scheduler_leaves_a_sentence_and_no_traceback(
    gate, cluster, start, wait_for, tmp_path, capfd
):
    address, scheduler = cluster
    here = tmp_path / "here"
    here.mkdir()
    process = start("-c", COMMAND, "toy", "--out", "out", "--scheduler", address, cwd=here)
    wait_for(lambda: len(list(gate.parent.glob("waiting-*"))) == 2)
    scheduler.kill()
    assert process.wait() == 1
    shown = capfd.readouterr()
    assert shown.out == ""
    first, last = shown.err.splitlines()
    assert first.startswith("toy: 6 points on Dask")
    assert last.startswith(f"error: The Dask scheduler at {address} was lost; finished points are")
    assert [path.name for path in here.iterdir()] == ["out"]


def test_failures_on_a_cluster_are_values(cluster, wait_for, tmp_path):
    address, _ = cluster
    result = run_toy(tmp_path / "out", scheduler=address, broken=2, size=20)
    assert result.exit_code == 3
    (failure,) = result.failures
    assert (failure.key, failure.kind, failure.message) == (
        "trial 2",
        "ArithmeticError",
        "trial 2 is broken",
    )
    wait_for(lambda: not tasks_left(address))


def test_only_workers_that_fit_are_used(scheduler, add_worker, misfits, whole, tmp_path, caplog):
    address, _ = scheduler
    add_worker()
    wait_for_workers(address, 3)
    result = run_toy(tmp_path / "out", scheduler=address)
    assert (result.status, result.failures) == ("done", ())
    assert (tmp_path / "out" / "toy.csv").read_bytes() == whole["toy.csv"]
    said = sorted(text.partition(" is not used: it ")[2] for text in caplog.messages)
    assert [text for text in said if text] == [
        "cannot import deqcli (ImportError: a module is missing).",
        "has deqcli 0.0.1.",
    ]


def test_no_worker_that_fits_is_a_sentence(scheduler, misfits, tmp_path, environment):
    address, _ = scheduler
    wait_for_workers(address, 2)
    with pytest.raises(InputError) as error:
        run_toy(tmp_path / "out", scheduler=address)
    text = str(error.value)
    assert text.startswith(f"No Dask worker at {address} has deqcli {__version__}: tcp://")
    assert " cannot import deqcli (ImportError: a module is missing)" in text
    assert " has deqcli 0.0.1" in text
    assert text.endswith("install the same version there, or leave out `scheduler`.")
    environment.setattr(clusters, "__version__", "9.9")
    with pytest.raises(InputError, match=rf"scheduler at {address} has deqcli {__version__}, and "):
        run_toy(tmp_path / "out", scheduler=address)
    assert not (tmp_path / "out").exists()


def test_a_scheduler_without_workers_is_a_sentence(scheduler, tmp_path, monkeypatch):
    address, _ = scheduler
    monkeypatch.setattr(clusters, "_WORKER_SECONDS", 0.5)
    with pytest.raises(InputError) as error:
        run_toy(tmp_path / "out", scheduler=address)
    assert str(error.value) == (
        f"No worker came to the Dask scheduler at {address} within 0.5 seconds; start one with "
        f"`dask worker {address}`, or leave out `scheduler`."
    )
    assert not (tmp_path / "out").exists()


def test_a_worker_that_does_not_answer_hangs_nothing(scheduler, add_worker, tmp_path, monkeypatch):
    address, _ = scheduler
    worker = add_worker()
    wait_for_workers(address, 1)
    worker.send_signal(signal.SIGSTOP)
    monkeypatch.setattr(clusters, "_ANSWER_SECONDS", 0.5)
    with pytest.raises(InputError, match=r"No Dask worker at .*: tcp://\S+ does not answer; "):
        run_toy(tmp_path / "out", scheduler=address)


@pytest.mark.slow
def test_a_worker_that_joins_takes_over_from_one_that_is_lost(
    gate, scheduler, add_worker, whole, beside, tmp_path, monkeypatch
):
    """Nobody is there at the start; then one comes, and is gone before the next one comes."""
    # A slow machine may take its time to start them.
    monkeypatch.setattr(clusters, "_WORKER_SECONDS", 240.0)

    def replace(workers):
        first.kill()
        first.wait()
        gate.touch()
        add_worker()

    beside(1, replace)
    first = add_worker()
    result = run_toy(tmp_path / "out", scheduler=scheduler[0])
    assert result.status == "done"
    assert (tmp_path / "out" / "toy.csv").read_bytes() == whole["toy.csv"]


@pytest.mark.parametrize(
    "address",
    [
        "", "localhost", "127.0.0.1", "tcp://127.0.0.1", "tcp://127.0.0.1:", "tcp://", "::", "[::",
        "http://127.0.0.1:80", "nonsense://x:1", "inproc://x", "tcp://127.0.0.1:abc",
        "tcp://127.0.0.1:0", "tcp://127.0.0.1:99999", "tcp://127.0.0.1:-5", "scheduler.json",
    ],
)  # fmt: skip
def test_what_is_no_address(address, tmp_path):
    with pytest.raises(InputError) as error:
        run_toy(tmp_path, scheduler=address)
    expected = f"`scheduler` is {address!r}; give an address such as tcp://host:8786."
    assert str(error.value) == expected
    assert not list(tmp_path.iterdir())


def test_nobody_at_the_address(tmp_path, capfd):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        hosts = (
            f"tcp://127.0.0.1:{port}",
            f"localhost:{port}",
            "host.invalid:1",
            "\u20ac" * 70 + ":1",
        )
        for address in hosts:
            with pytest.raises(InputError, match=f"No Dask scheduler answers at {address};"):
                run_toy(tmp_path, scheduler=address)
    assert capfd.readouterr().err == ""
    assert not list(tmp_path.iterdir())


def test_a_bad_address_leaves_an_old_result_in_force(tmp_path):
    run_toy(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(InputError, match="give an address"):
        run_toy(tmp_path, scheduler="nowhere", force=True)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n" * 20])
def test_somebody_else_at_the_address(tmp_path, monkeypatch, capfd, answer):
    monkeypatch.setattr(clusters, "_CONNECT_SECONDS", 1.0)

    def serve():
        while True:
            try:
                visitor, _ = server.accept()
            except OSError:
                return
            visitors.append(visitor)
            visitor.sendall(answer)

    visitors = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve)
        thread.start()
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(InputError, match=f"No Dask scheduler answers at {address}"):
            run_toy(tmp_path, scheduler=address)
        server.shutdown(socket.SHUT_RDWR)
    thread.join()
    for visitor in visitors:
        visitor.close()
    assert capfd.readouterr().err == ""


@pytest.mark.slow
def test_a_spectrum_on_a_cluster_gives_local_bytes(cluster, tmp_path, monkeypatch, capfd):
    """The same through the command line: two workers, then two local processes."""
    from deqcli.cli import run

    monkeypatch.chdir(tmp_path)
    small = ["spectrum", "--n", "60", "--p", "80", "--realizations", "45", "--width", "50"]
    assert run([*small, "--name", "dask", "--scheduler", cluster[0]]) == 0, capfd.readouterr().err
    assert run([*small, "--name", "local", "-j", "2"]) == 0, capfd.readouterr().err
    one, other = (Path("results") / f"{name}.csv" for name in ("dask", "local"))
    assert one.read_bytes() == other.read_bytes()


@pytest.fixture
def killer(scheduler):
    """End the process of the first worker that is seen at a task of some name."""
    address, _ = scheduler
    threads = []

    def begin(task, victims):
        def watch():
            with distributed.Client(address, set_as_default=False) as client:
                processes = client.run(os.getpid)
                for _ in range(20_000):
                    at_work = client.processing()
                    for worker, tasks in at_work.items():
                        if any(task in str(key) for key in tasks):
                            os.kill(processes[worker], signal.SIGKILL)
                            victims.append(worker)
                            return
                    time.sleep(0.001)

        threads.append(threading.Thread(target=watch))
        threads[-1].start()

    yield begin
    for thread in threads:
        thread.join()


@pytest.mark.slow
def test_an_operator_survives_a_worker_lost_in_the_pass_and_one_lost_in_a_product(
    scheduler, add_worker, killer
):
    address, _ = scheduler
    for _ in range(3):
        add_worker()
    wait_for_workers(address, 3)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2500, 60)) / np.sqrt(60)
    block = rng.standard_normal((2500, 3))
    local = deqcli.kernel_operator(X, "relu", 0.2)
    expected = local @ block
    lost = []
    killer("_shard", lost)
    with deqcli.cluster_operator(X, "relu", 0.2, scheduler=address) as operator:
        assert len(lost) == 1
        assert operator.rounding == pytest.approx(local.rounding, rel=1e-12)
        assert operator.nbytes == local.nbytes
        killer("_apply", lost)
        for _ in range(200):
            np.testing.assert_allclose(operator @ block, expected, rtol=0, atol=1e-12)
            if len(lost) == 2:
                break
        assert len(set(lost)) == 2
        np.testing.assert_allclose(operator @ block, expected, rtol=0, atol=1e-12)
        chosen = np.array([0, 700, 2499])
        np.testing.assert_allclose(operator.columns(chosen), local.columns(chosen), atol=1e-14)
        assert operator.distance() == pytest.approx(local.distance(), rel=1e-9)
        with distributed.Client(address, set_as_default=False) as client:
            for process in client.run(os.getpid).values():
                os.kill(process, signal.SIGKILL)
        with pytest.raises(RunError, match="All Dask workers that kept a part of the kernel are"):
            operator @ block


@pytest.mark.slow
def test_a_spectrum_kept_on_a_cluster_is_that_of_one_process(cluster, tmp_path):
    options = {"n": 800, "p": 30, "act": "relu", "kernel": "ck", "estimator": "exact"}
    here = deqcli.run("spectrum", jobs=1, storage="memory", **options)
    there = deqcli.run("spectrum", storage="cluster", scheduler=cluster[0], **options)
    assert there.points == 2
    for name, value in here.findings["distances"]["exact"].items():
        assert there.findings["distances"]["exact"][name] == pytest.approx(value, rel=1e-8), name
    for name in ("eigenvalue", "distribution"):
        np.testing.assert_allclose(there.table[name], here.table[name], rtol=1e-6, atol=1e-9)
