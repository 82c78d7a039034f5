"""What the group itself promises: lazy subcommands, exit codes, clean streams."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import click
import numpy as np
import pytest

from deqcli import __version__, study
from deqcli.cli import OTHERS, command_names, main

ROOT = Path(__file__).parents[2]
SMALL_MATCH = "--n 60 --p 80 --name m -j 1"
HEAVY = ("numpy", "scipy", "pandas", "matplotlib", "joblib", "pooch", "tqdm", "threadpoolctl")


#: Groups and their own commands.
NESTED = [("data", name) for name in ("list", "fetch", "verify", "path", "features")]
NESTED += [("bench", name) for name in ("kernel", "monte-carlo", "match", "training")]


@pytest.mark.parametrize(
    "arguments",
    [
        *(("--help",), ("--version",), ("--cite",), ("-h",), ("list", "kernels")),
        *((name, "--help") for name in command_names()),
        *((*words, "--help") for words in NESTED),
    ],
    ids=" ".join,
)
def test_help_and_version_import_nothing_heavy(arguments):
    # A clock would prove nothing on a busy machine; what is imported decides the start-up time.
    code = (
        "import sys\nfrom deqcli.cli import run\n"
        f"code = run({list(arguments)!r})\n"
        f"heavy = [name for name in {HEAVY!r} if name in sys.modules]\n"
        "assert not heavy, heavy\nsys.exit(code)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout
    if "--help" in arguments:
        assert "Usage: deqcli" in done.stdout
        assert "`" not in done.stdout


def test_commands_are_the_studies_and_the_others(deqcli):
    assert set(command_names()) == {*study.names(), *OTHERS}
    shown = deqcli("--help").out
    for name in command_names():
        assert f"\n  {name} " in shown
    for name in study.names():
        assert study.summary(name) in shown


def test_every_command_knows_its_name():
    """By it the documentation's reference of all options calls it."""
    context = click.Context(main)
    for name in command_names():
        assert main.get_command(context, name).name == name


def test_version(deqcli):
    assert deqcli("--version").out == f"deqcli, version {__version__}\n"


def test_python_dash_m():
    done = subprocess.run(
        [sys.executable, "-m", "deqcli", "--version"], capture_output=True, text=True
    )
    assert done.stdout == f"deqcli, version {__version__}\n"


@pytest.mark.parametrize("backend", ["foo", "module://matplotlib_inline.backend_inline"])
def test_the_backend_of_a_notebook_does_not_matter(backend, tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "deqcli", "match", *SMALL_MATCH.split()],
        capture_output=True, text=True, cwd=tmp_path, env={**os.environ, "MPLBACKEND": backend},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "results" / "m.png").is_file()


def test_an_error_of_the_system_that_names_no_file_is_not_blamed_on_stdout(deqcli, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", list)
    ended = deqcli("match", "--dry-run")
    assert ended.code == 1
    assert ended.err.startswith("error: No usable temporary directory found")


def test_unknown_command_suggests(deqcli):
    refused = deqcli("spectre")
    assert refused.code == 2
    assert "Did you mean 'spectrum'?" in refused.err


def test_listing_agrees_with_the_registry(deqcli):
    from deqcli.activations import REGISTRY
    from deqcli.data import registry
    from deqcli.reproduction.presets import names
    from deqcli.vocabulary import ACTIVATIONS

    assert sorted(ACTIVATIONS) == sorted(REGISTRY)
    shown = deqcli("list", "activations").out
    assert all(name in shown for name in REGISTRY)
    assert deqcli("list", "kernels").out.split() == [
        "ck", "preactivation-ck", "ntk", "preactivation-ntk",
    ]  # fmt: skip
    assert deqcli("list", "datasets").out.split() == ["gmm", "sphere", *registry.names()]
    presets = deqcli("list", "presets").out.splitlines()
    assert [line.split()[0] for line in presets] == list(names())


def test_scalars_prints_the_library_values(deqcli):
    from deqcli import implicit_scalars

    lines = deqcli("scalars", "--act", "relu", "--sigma-a2", "0.2", "--tau0", "1.05").out.split()
    values = dict(line.split(",", 1) for line in lines[1:])
    expected = implicit_scalars("relu", 0.2, 0.8, 1.05)
    assert float(values["alpha2"]) == expected.alpha2
    assert float(values["kappa2"]) == expected.kappa2


def test_info_names_versions_and_no_person(deqcli, monkeypatch):
    import getpass
    import json

    shown = deqcli("info").out
    record = json.loads(shown)
    assert record["packages"]["numpy"]
    user = getpass.getuser()
    assert f"/{user}/" not in shown


def test_unexpected_failure_is_exit_1(deqcli, monkeypatch):
    def broken(*_: object) -> None:
        raise RuntimeError("boom in `n`")

    monkeypatch.setattr(type(study.get("spectrum")), "prepare", broken)
    failed = deqcli("spectrum")
    assert failed.code == 1
    assert failed.out == ""
    assert "error: RuntimeError: boom in n (deqcli -v shows where; please report it)" in failed.err
    assert "Traceback" not in failed.err
    assert "Traceback" in deqcli("-v", "spectrum").err


def test_out_of_memory_is_a_sentence(deqcli, monkeypatch):
    def full(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(type(study.get("spectrum")), "prepare", full)
    failed = deqcli("spectrum")
    assert failed.code == 1
    assert failed.err.splitlines()[-1] == "error: out of memory; lower --n or --jobs."


def test_quiet_says_neither_progress_nor_notes(deqcli):
    words = ("spectrum", "--n", "60", "--p", "80", "--estimator", "exact", "--name", "q", "-j", "1")
    done = deqcli("-q", *words)
    assert done.code == 0
    assert len(done.out.splitlines()) == 3
    assert "process" not in done.err
    assert "already done" not in deqcli("-q", *words).err


#: Commands that write little and much, and a study, whose work must not be lost.
WRITERS = ["--help", "list activations", "spectrum --help", f"match {SMALL_MATCH}"]


def said_in_order(text):
    """Return what a process said, less the notes of the study; nothing of Python's own."""
    assert "Traceback" not in text
    assert "Exception ignored" not in text
    assert "report it" not in text
    return text.splitlines()[-1:]


@pytest.mark.parametrize("words", WRITERS)
def test_a_reader_that_went_away_is_no_error(process, tmp_path, words):
    read, write = os.pipe()
    os.close(read)
    child = process(*words.split(), stdout=write)
    os.close(write)
    _, err = child.communicate()
    assert child.returncode == 141
    assert "error" not in "".join(said_in_order(err))
    if words.startswith("match"):
        assert (tmp_path / "results" / "m.json").exists()


@pytest.mark.parametrize(
    "words",
    [
        "spectrum --n 20 --data {}.csv", "data list --data-dir {}", "data verify --data-dir {}",
        "data path mnist --data-dir {}", "spectrum --n 20 --data mnist --data-dir {}",
        "results {}", "report --results {}", "match --tau0 1 --config {}.toml",
        "match --tau0 1 --out {}", "match --tau0 1 --name {}", "report --results . --out {}",
    ],
)  # fmt: skip
def test_a_name_of_300_letters_is_a_sentence(deqcli, tmp_path, words):
    for suffix in ("csv", "json"):
        kept = ROOT / f"results/hld-figure-1-ck.{suffix}"
        (tmp_path / kept.name).write_bytes(kept.read_bytes())
    done = deqcli(*words.format("a" * 300).split())
    # What asks which data sets are there says that none is.
    assert done.code in (1, 2) or words.startswith(("data list", "data verify"))
    if done.code:
        assert done.err.splitlines()[-1].lower().startswith("error: ")
    assert "please report it" not in done.err
    assert "Traceback" not in done.err


def test_a_file_that_may_not_be_asked_about_is_a_sentence(deqcli, monkeypatch):
    def refuse(*_):
        raise PermissionError(13, "Permission denied", "closed/x")

    monkeypatch.setattr("deqcli.runs.listing.results", refuse)
    done = deqcli("results", ".")
    assert done.code == 2
    expected = "error: closed/x cannot be used: Permission denied; give another name or folder.\n"
    assert done.err == expected


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize("words", WRITERS)
def test_stdout_that_is_full_is_a_sentence(process, tmp_path, words):
    with Path("/dev/full").open("w") as full:
        child = process(*words.split(), stdout=full)
    _, err = child.communicate()
    assert child.returncode == 1
    expected = "error: cannot write to standard output: No space left on device."
    assert said_in_order(err) == [expected]
    if words.startswith("match"):
        assert (tmp_path / "results" / "m.json").exists()


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("words", WRITERS)
@pytest.mark.slow
def test_streams_that_are_closed_lead_nowhere(tmp_path, words, closed):
    done = subprocess.run(
        f"{sys.executable} -m deqcli {words} {closed}",
        shell=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0
    said_in_order(done.stderr)


def test_an_interrupt_that_python_drops_is_sent_again():
    # Python prints and forgets what is raised in a callback of C.
    code = (
        "import ctypes, signal, sys, time\nimport deqcli.cli\nfrom deqcli.__main__ import main\n"
        "def run(arguments):\n"
        "    called = ctypes.CFUNCTYPE(None)(lambda: signal.raise_signal(signal.SIGINT))\n"
        "    called()\n"
        "    print('dropped', flush=True)\n"
        "    try:\n        time.sleep(60)\n"
        "    except KeyboardInterrupt:\n        return 130\n"
        "    return 0\n"
        "deqcli.cli.run = run\nsignal.signal(signal.SIGINT, signal.default_int_handler)\nmain()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (130, "dropped\n", "")


#: As Python has a name whose bytes are no UTF-8.
ODD = "b\udce9d"


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("spectrum", "--data", f"{ODD}.npz"), "--data is 'b\\udce9d.npz', which is not UTF-8"),
        (("predict", "--data", f"{ODD}.csv"), "--data is 'b\\udce9d.csv', which is not UTF-8"),
        (("match", "--name", ODD), "--name is 'b\\udce9d', which is not UTF-8"),
        (("match", "--data", "mnist", "--data-dir", ODD), "--data-dir is 'b\\udce9d', which"),
        (("match", "--act", ODD), "--act is 'b\\udce9d', which is not UTF-8"),
        (("report", "--results", ODD), "There is no folder b\\udce9d"),
        (("results", ODD), "there is no folder b\\udce9d"),
        (("match", "--config", f"{ODD}.toml"), "--config"),
        (("reproduce", ODD), "There is no preset"),
    ],
)
def test_names_that_are_not_utf8_are_refused(words, complaint, tmp_path):
    (tmp_path / f"{ODD}.npz").write_bytes(b"")
    (tmp_path / f"{ODD}.csv").write_bytes(b"")
    before = sorted(tmp_path.iterdir())
    done = spoken(words, tmp_path)
    assert (done.returncode, done.stdout) == (2, b"")
    assert complaint.encode() in done.stderr
    assert b"Traceback" not in done.stderr
    assert sorted(tmp_path.iterdir()) == before


def spoken(words, folder):
    """Run a command where standard output takes nothing but UTF-8, as in most locales."""
    return subprocess.run(
        [sys.executable, "-m", "deqcli", *map(os.fsencode, words)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8:strict"},
        capture_output=True,
    )


@pytest.mark.slow
def test_folders_that_are_not_utf8_can_be_used(tmp_path):
    """And files that are named so, which a report shows as well as it can."""
    (tmp_path / f"{ODD}.toml").write_text("n = 60\np = 80\n")
    done = spoken(("match", "--config", f"{ODD}.toml", "--out", ODD, "--name", "m"), tmp_path)
    assert done.returncode == 0, done.stderr
    assert b"b\\udce9d/m.csv" in done.stdout
    assert (tmp_path / ODD / "m.csv").is_file()
    for file in (tmp_path / ODD).iterdir():
        file.rename(file.with_stem(ODD))
    for words in (("report", "--results", ODD, "--out", f"{ODD}.html"), ("results", ODD)):
        done = spoken(words, tmp_path)
        assert done.returncode == 0, done.stderr
    page = (tmp_path / f"{ODD}.html").read_text(encoding="utf-8")
    assert "b%E9d/b%E9d.csv" in page
    record = (tmp_path / ODD / f"{ODD}.json").read_text(encoding="utf-8")
    assert "\\ud" not in record


HANDLED = "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"


def test_a_ctrl_c_while_modules_are_loaded():
    code = (
        "import sys\nfrom deqcli.__main__ import main\n"
        "class Finder:\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if name == 'deqcli.cli':\n"
        "            signal.raise_signal(signal.SIGINT)\n"
        "sys.meta_path.insert(0, Finder())\nmain()\n"
    )
    done = subprocess.run([sys.executable, "-c", HANDLED + code], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


@pytest.mark.parametrize("code", [0, 130])
def test_a_ctrl_c_while_python_ends_changes_no_exit_code(code):
    # What is left at the end is destroyed after Python has taken its handlers away.
    text = (
        "import sys, deqcli.cli\nfrom deqcli.__main__ import main\n"
        "class Late:\n"
        "    def __del__(self, end=signal.raise_signal, number=signal.SIGINT):\n"
        "        print('late', flush=True)\n        end(number)\n        end(number)\n"
        f"late = Late()\ndeqcli.cli.run = lambda arguments: {code}\nmain()\n"
    )
    done = subprocess.run([sys.executable, "-c", HANDLED + text], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (code, "late\n", "")


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [1, 2])
def test_ctrl_c_again_and_again(tmp_path, jobs):
    """The second and the third at any moment of the end that the first one begins."""
    command = ["error-vs-n", "--jobs", str(jobs), "--out", str(tmp_path)]
    rng = np.random.default_rng(0)
    for gap in rng.uniform(0, 0.4, 6):
        process = subprocess.Popen(
            [sys.executable, "-c", HANDLED + "from deqcli.__main__ import main\nmain()", *command],
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
        with process:
            said = process.stderr.readline()
            for _ in range(3):
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGINT)
                time.sleep(gap)
            said += process.stderr.read()
        assert process.returncode == 130, said
        assert b"Traceback" not in said


def test_bench_kernel_prints_ratios(deqcli):
    done = deqcli("bench", "kernel", "--n", "150", "--p", "40", "--act", "relu", "--repeats", "1")
    assert done.code == 0
    assert "ck_ratio" in done.out


def test_bench_monte_carlo_prints_ratios(deqcli):
    done = deqcli("bench", "monte-carlo", "--n", "50", "--p", "40", "--width", "60", "--act",
                  "relu", "--repeats", "1")  # fmt: skip
    assert done.code == 0
    assert "share_of_products" in done.out


@pytest.mark.slow
def test_bench_match_names_the_twins(deqcli):
    done = deqcli("bench", "match", "--act", "tanh,relu")
    assert done.code == 0
    assert "htanh" in done.out
    assert "lrelu" in done.out
