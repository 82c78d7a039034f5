"""The memory that studies say they need, beside the peak of a process that runs them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import deqcli
from deqcli import study as studies
from deqcli.data import files
from deqcli.errors import InputError
from deqcli.runs import memory

FACTOR = 1.5
STATUS = Path("/proc/self/status")
# The kernel's own peak of this program. That of getrusage may be the parent's: it outlives exec.
CHILD = f"""
import ast, re, sys
import deqcli
name, options, folder = sys.argv[1], ast.literal_eval(sys.argv[2]), sys.argv[3]
result = deqcli.run(name, out=folder, jobs=1, **options)
assert result.status == "done", result.failures
print(re.search(r"VmHWM:\\s+(\\d+) kB", open("{STATUS}").read())[1])
"""

# Sizes at which the libraries are less than half of the peak. First what takes a second each.
SMALL = [
    ("spectrum", {"n": 50, "p": 200_000, "estimator": "exact"}),
    ("match", {"n": 50, "p": 2500, "covariance": "toeplitz:0.5"}),
    ("flow", {"n": 50, "test_size": 100, "p": 100_000, "widths": 20, "steps": 1}),
]
ONCE = {"epochs": 1, "trials": 1}
LARGE = [
    ("spectrum", {"n": 2500, "p": 500, "estimator": "exact"}),
    ("spectrum", {"n": 200, "p": 500, "width": 5000, "realizations": 1}),
    ("spectrum", {"n": 2000, "p": 300, "width": 1000, "realizations": 1, "kernel": "ntk"}),
    ("spectrum", {"n": 100, "p": 4000, "estimator": "exact", "covariance": "toeplitz:0.5"}),
    ("spectrum", {"n": 1000, "p": 20_000, "classes": 500, "estimator": "exact"}),
    ("spectrum", {"n": 200, "p": 100_000, "estimator": "exact", "data": "sphere"}),
    ("spectrum", {"n": 2500, "estimator": "exact", "data": "mnist"}),
    ("spectrum", {"n": 500, "estimator": "exact", "data": "own.npz"}),
    ("spectrum", {"n": 500, "estimator": "exact", "data": "own.csv"}),
    ("spectrum", {"n": 100, "estimator": "exact", "data": "wide.npz"}),
    ("match", {"data": "wide.npz"}),
    ("predict", {"data": "wide.npz", "n": 100, "values": 50, "trials": 1, "test_size": 50}),
    ("spectrum", {"n": 2500, "p": 300, "width": 300, "realizations": 2}),
    ("spectrum", {"n": 12_000, "p": 50, "estimator": "exact", "storage": "memory"}),
    ("match", {"n": 2500, "p": 300}),
    ("match", {"n": 2000, "p": 300, "averaged": True, "width": 1000, "realizations": 2}),
    ("error-vs-n", {"n": (64, 2500), "trials": 1, "act": "relu"}),
    ("error-vs-n", {"n": (64, 2000), "ratio": 0.3, "trials": 1, "act": "relu,tanh", "width": 500,
                    "estimator": "monte-carlo", "realizations": 1}),
    ("visible", {"n": 2500, "ratio": 1.0, "mean_norm": 2.0, "trials": 1, "act": "relu"}),
    ("predict", {"n": 1500, "p": 200, "values": 3000, "trials": 1, "test_size": 1000}),
    ("predict", {"n": 1500, "p": 200, "values": 300, "trials": 1, "kernel": "ntk"}),
    ("predict", {"n": 2000, "p": 200, "against": "ridge", "values": 0.1, "trials": 1}),
    ("errata", {"n": (16, 1500), "trials": 1}),
    ("flow", {"n": 200, "p": 60_000, "widths": 30, "steps": 2, "trials": 3}),
    ("flow", {"n": 100, "p": 50, "widths": 1200, "steps": 2, "test_size": 100, "method": "ode"}),
    ("flow", {"n": 1500, "p": 50, "widths": 50, "steps": 2, "test_size": 100}),
    ("accuracy", {"data": "gmm", "p": 200, "train_size": 300, "test_size": 200, "widths": 4000,
                  **ONCE}),
    ("accuracy", {"data": "gmm", "p": 200, "train_size": 2500, "test_size": 1000, "widths": 50,
                  **ONCE}),
    ("accuracy", {"data": "gmm", "p": 200, "train_size": 5000, "test_size": 5000, "widths": 2000,
                  "train": "readout", "limit": "none", **ONCE}),
    ("accuracy", {"data": "mnist", "train_size": 20_000, "widths": 64, **ONCE}),
    ("accuracy", {"data": "gmm", "p": 300, "train_size": 4000, "widths": 32,
                  "limit": "regression", **ONCE}),
    ("accuracy", {"data": "own.npz", "widths": 64, **ONCE}),
]  # fmt: skip


def check_estimate(name, options, folder):
    if not STATUS.exists():
        pytest.skip("the peak of a process is read from /proc")
    study = studies.get(name)
    estimate = study.memory(study.settings.load(options))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CHILD, name, repr(options), str(folder / "out")],
        env={**os.environ, "PYTHONPATH": str(Path(deqcli.__file__).parents[1])},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    measured = 1024 * int(done.stdout)
    assert measured / FACTOR < estimate < FACTOR * measured, (estimate, measured)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "options"), SMALL)
def test_the_estimate_is_near_the_peak(name, options, tmp_path):
    check_estimate(name, options, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "options"), LARGE)
def test_the_estimate_is_near_the_peak_of_large_runs(name, options, tmp_path, monkeypatch, request):
    if options.get("data") == "mnist":
        monkeypatch.setenv("DEQCLI_DATA_DIR", str(request.getfixturevalue("real_data")))
    if shape := {"own.npz": (5000, 2000), "wide.npz": (300, 50_000)}.get(options.get("data")):
        rng = np.random.default_rng(0)
        X, y = rng.standard_normal(shape), rng.integers(0, 2, shape[0])
        np.savez(tmp_path / "own.npz", X=X, y=y)
        options = options | {"data": str(tmp_path / "own.npz")}
    if options.get("data") == "own.csv":
        X = np.random.default_rng(0).standard_normal((4000, 1000))
        names = ",".join(f"x{column}" for column in range(1000))
        samples = np.column_stack([X, np.arange(4000) % 2])
        np.savetxt(tmp_path / "own.csv", samples, delimiter=",", header=f"{names},y", comments="")
        options = options | {"data": str(tmp_path / "own.csv")}
    check_estimate(name, options, tmp_path)


@pytest.mark.parametrize(
    ("name", "options", "remedy"),
    [
        ("spectrum", {"n": 100, "p": 10**9}, "lower `p`"),
        ("spectrum", {"n": 10**7}, "lower `n`"),
        ("spectrum", {"n": 10**5, "estimator": "exact"}, "take `storage` disk, or lower `n`"),
        ("spectrum", {"width": 10**7}, "lower `width`"),
        (
            "spectrum",
            {"p": 10**6, "covariance": "toeplitz:0.5"},
            "`covariance` toeplitz:0.5 keeps p × p numbers: take papers, or lower `p`",
        ),
        ("match", {"p": 10**7, "classes": 10**4, "n": 10**6}, "lower `p`"),
        ("match", {"data": "mnist"}, "give `n`"),
        ("error-vs-n", {"n": (64, 10**7)}, "lower the largest of `n`"),
        ("errata", {"n": (64, 10**7)}, "lower the largest of `n`"),
        ("flow", {"widths": (10, 10**7)}, "lower the largest of `widths`"),
        ("flow", {"widths": 10**7}, "lower `widths`"),
        ("accuracy", {"data": "gmm", "p": 10**9}, "lower `p`"),
        ("accuracy", {"limit": "linearised", "train_size": 0}, "give `train_size`"),
    ],
)
def test_what_cannot_fit_is_refused_unallocated_and_the_culprit_named(
    name, options, remedy, tmp_path, monkeypatch
):
    monkeypatch.setattr(memory, "available_bytes", lambda: 10**9)
    study = studies.get(name)
    monkeypatch.setattr(type(study), "prepare", lambda *_: pytest.fail("this was allocated"))
    with pytest.raises(InputError, match=r"of memory needed and 1 GB available; ") as refused:
        deqcli.run(name, out=tmp_path, jobs=1, **options)
    assert str(refused.value).endswith(f"; {remedy}.")


@pytest.mark.parametrize(
    ("name", "options", "remedy"),
    [
        ("spectrum", {}, "give `n`"),
        ("spectrum", {"n": 10}, "free some memory"),
        ("match", {"n": 20}, "free some memory"),
        ("error-vs-n", {"n": (20, 100)}, "lower the largest of `n`"),
        ("predict", {}, "lower `test_size`"),
        ("flow", {}, "lower the largest of `widths`"),
        ("accuracy", {}, "lower the largest of `widths`"),
    ],
)
def test_a_file_that_unpacks_to_much_is_refused_by_its_header(
    name, options, remedy, tmp_path, monkeypatch
):
    path = tmp_path / "own.npz"
    np.savez_compressed(path, X=np.zeros((200, 50_000), np.uint8), y=np.arange(200) % 2)
    study = studies.get(name)
    needed = study.memory(study.settings.load({"data": str(path), **options}))
    assert needed > memory.LIBRARIES + 2 * 200 * 50_000
    monkeypatch.setattr(files, "_parse", lambda *_: pytest.fail("the samples were read"))
    for available, words in (
        (needed - 1, rf"{name} with `jobs` 1: .* available; {remedy}, or give a smaller file\."),
        (10**6, r"own\.npz: 20 MB of memory needed and 1 MB available; give a smaller file\."),
    ):
        monkeypatch.setattr(memory, "available_bytes", lambda room=available: room)
        files._outline.cache_clear()
        with pytest.raises(InputError, match=words):
            deqcli.run(name, out=tmp_path / "out", jobs=1, data=str(path), **options)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("sizes", "options", "decisive"),
    [
        ((20_000, 20_001), {}, 20_000),
        ((1000, 4000, 15_000, 60_000), {"data": "mnist"}, 15_000),
    ],
)
def test_a_matrix_may_take_more_than_the_operator_of_more_samples(
    sizes, options, decisive, monkeypatch
):
    study = studies.get("error-vs-n")
    needed, alone = (study.memory(study.settings(n=n, **options)) for n in (sizes, (64, decisive)))
    assert needed == alone > 36 * decisive**2
    # The record of the second run says that it took this.
    assert needed > 7_998_312_448
    assert study.memory_remedy(study.settings(n=sizes, **options)) == f"lower {decisive} of `n`"


def test_classes_that_share_a_matrix_hardly_count():
    study = studies.get("match")
    few, many = (
        study.memory(study.settings(n=200, p=4000, classes=classes, covariance="toeplitz:0.5"))
        for classes in ("2", "100")
    )
    assert few < many < 1.1 * few
