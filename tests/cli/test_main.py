"""What the group itself promises: lazy subcommands, exit codes, clean streams."""

from __future__ import annotations

import subprocess
import sys

import pytest

from deqcli import __version__
from deqcli.cli import COMMANDS

HEAVY = ("numpy", "scipy", "pandas", "matplotlib", "joblib", "pooch", "tqdm", "threadpoolctl")


@pytest.mark.parametrize("arguments", [("--help",), ("--version",), ("--cite",), ("-h",)])
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


@pytest.mark.parametrize("name", list(COMMANDS))
def test_every_command_has_help_without_heavy_imports(name):
    code = (
        "import sys\nfrom deqcli.cli import run\n"
        f"code = run([{name!r}, '--help'])\n"
        f"heavy = [name for name in {HEAVY!r} if name in sys.modules]\n"
        "assert not heavy, heavy\nsys.exit(code)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "Usage: deqcli" in done.stdout


def test_version(deqcli):
    assert deqcli("--version").out == f"deqcli, version {__version__}\n"


def test_python_dash_m():
    done = subprocess.run(
        [sys.executable, "-m", "deqcli", "--version"], capture_output=True, text=True
    )
    assert done.stdout == f"deqcli, version {__version__}\n"


def test_unknown_command_suggests(deqcli):
    refused = deqcli("spectre")
    assert refused.code == 2
    assert "Did you mean 'spectrum'?" in refused.err


def test_listing_agrees_with_the_registry(deqcli):
    from deqcli.presets import names

    from deqcli.activations import REGISTRY
    from deqcli.cli.listing import ACTIVATIONS

    assert sorted(ACTIVATIONS) == sorted(REGISTRY)
    shown = deqcli("list", "activations").out
    assert all(name in shown for name in REGISTRY)
    assert deqcli("list", "kernels").out.split() == [
        "ck", "preactivation-ck", "ntk", "preactivation-ntk",
    ]  # fmt: skip
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
    import deqcli.studies.spectrum as study

    def broken(**_: object) -> None:
        raise RuntimeError("boom")

    monkeypatch.setattr(study, "resolve", broken)
    failed = deqcli("spectrum")
    assert failed.code == 1
    assert "boom" in failed.err
    assert "Traceback" not in failed.err


def test_bench_kernel_prints_ratios(deqcli):
    done = deqcli("bench", "kernel", "--n", "150", "--p", "40", "--act", "relu", "--repeats", "1")
    assert done.code == 0
    assert "ck_ratio" in done.out


def test_bench_monte_carlo_prints_ratios(deqcli):
    done = deqcli("bench", "monte-carlo", "--n", "50", "--p", "40", "--width", "60", "--act",
                  "relu", "--repeats", "1")  # fmt: skip
    assert done.code == 0
    assert "share_of_products" in done.out


def test_bench_match_names_the_twins(deqcli):
    done = deqcli("bench", "match", "--act", "tanh,relu")
    assert done.code == 0
    assert "htanh" in done.out
    assert "lrelu" in done.out
