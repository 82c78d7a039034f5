"""Hostile arguments for every public function of data."""

from __future__ import annotations

import functools
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

import deqcli

from .hostile import TEXTS, Random, anything, hostile, labels, matrix, pick


def mixture(rng: Random) -> Any:
    p = int(rng.integers(2, 6))
    means = matrix(rng, 2, p)
    full = np.eye(p) + 0.3 * pick(rng, (0, 1, 5, -9))
    parts = (1.0, np.ones(p), full, np.zeros(p), -1.0, np.triu(full), matrix(rng, p, p))
    covariances = hostile(rng, [hostile(rng, pick(rng, parts), 0.05) for _ in range(2)], 0.05)
    arguments: dict[str, Any] = {"means": means, "covariances": covariances}
    if rng.random() < 0.3:
        arguments["shape"] = hostile(rng, pick(rng, parts), 0.1)
        arguments["covariances"] = hostile(rng, [1.0, pick(rng, (0.5, 0.0, np.ones(p)))], 0.05)
    return deqcli.GaussianMixture, arguments, _mixture_use(rng)


def papers(rng: Random) -> Any:
    names = {"p": 10, "classes": 2, "mean_norm": 8.0, "spread": 8.0}
    arguments = {name: hostile(rng, good, 0.12) for name, good in names.items()}
    return deqcli.GaussianMixture.papers, arguments, _mixture_use(rng)


def _mixture_use(rng: Random) -> Any:
    n, source = hostile(rng, 7), hostile(rng, np.random.default_rng(0), 0.05)
    counts = hostile(rng, pick(rng, ([3, 4], [0, 7], [-1, 8], [3.5, 3.5], np.array([3, 4]))), 0.1)

    def use(law: deqcli.GaussianMixture) -> Any:
        sizes = None if rng.random() < 0.5 else counts
        return law.statistics(counts), law.sample(n, source, sizes)

    return use


def sphere(rng: Random) -> Any:
    source = hostile(rng, np.random.default_rng(0), 0.1)
    return deqcli.sphere, {"n": hostile(rng, 3), "dimension": hostile(rng, 4), "rng": source}, None


def estimate_statistics(rng: Random) -> Any:
    n, p = (int(size) for size in rng.integers(2, 9, 2))
    return deqcli.estimate_statistics, {"X": matrix(rng, n, p), "y": labels(rng, n)}, None


@functools.cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    """Files of samples, most with something wrong; removed when the process ends."""
    folder = tempfile.TemporaryDirectory(prefix="deqcli-fuzz-")
    rows = [f"{i},{i * i % 7},{i % 3},{i % 2}" for i in range(24)]
    texts = {
        "good": ["a,b,c,y", *rows],
        "unlabelled": ["a,b,c,d", *rows],
        "headless": rows,
        "huge": ["a,b,c,y", *(f"1e307,{row[2:]}" for row in rows)],
        "far": ["a,b,c,y", *(f"{row[:-1]}{pick_label}" for row, pick_label in zip(
            rows, ("0", "1e300") * 12, strict=True))],
        "words": ["a,b,c,y", *(f"{row}x" for row in rows)],
        "gaps": ["a,b,c,y", *rows, "1,,2,0", "nan,inf,1,1"],
        "same": ["a,b,y", *("1,2,0", "1,2,1") * 5],
        "one": ["a,b,y", "1,2,0"],
        "empty": [""],
    }  # fmt: skip
    for name, lines in texts.items():
        Path(folder.name, f"{name}.csv").write_text("\n".join(lines) + "\n")
    X, y = np.arange(48.0).reshape(16, 3), np.arange(16) % 2
    np.savez(Path(folder.name, "good.npz"), X=X, y=y)
    np.savez(Path(folder.name, "images.npz"), X=X.reshape(16, 3, 1).astype("u1"), y=y)
    np.savez(Path(folder.name, "pickle.npz"), X=np.array([{}], object), y=y)
    np.savez(Path(folder.name, "other.npz"), a=X)
    # Beside tables, what is no record of a run.
    for name, text in {
        "good": "{}",
        "headless": "[1]",
        "huge": "{",
        "words": '{"study": 3}',
    }.items():
        Path(folder.name, f"{name}.json").write_text(text)
    Path(folder.name, "bad.npz").write_bytes(b"PK\x03\x04nonsense")
    header = "{'descr': '<f8', 'fortran_order': False, 'shape': (99999999, 99999999)}"
    with zipfile.ZipFile(Path(folder.name, "lying.npz"), "w") as archive:
        prefix = b"\x93NUMPY\x01\0" + len(header).to_bytes(2, "little")
        archive.writestr("X.npy", prefix + header.encode() + bytes(8))
    Path(folder.name, "folder.npz").mkdir()
    Path(folder.name, "link.npz").symlink_to("link.npz")
    return folder


def load(rng: Random) -> Any:
    names = sorted(path.name for path in Path(_folder().name).iterdir())
    name = pick(rng, ("good.csv", "good.npz", *names))
    place = pick(rng, (f"{_folder().name}/{name}",) * 8 + ("mnist", "cifar-10:test", *TEXTS))
    arguments = {"name": hostile(rng, place, 0.03), "data_dir": _folder().name}
    options = {
        "classes": pick(rng, (["0", "1"], [0], ["x"], [], "01", [0, 0], None)),
        "n": pick(rng, (4, 1, 0, 100, None)),
        "select": pick(rng, ("random", "first", "last")),
        "preprocess": pick(rng, ("centred", "unit", "raw", "x")),
        "seed": pick(rng, (0, 3, 2**40)),
        "n_test": pick(rng, (4, 1, 0, 100, None)),
        "data_dir": anything(rng),
    }
    for option, value in options.items():
        if rng.random() < (0.05 if option == "data_dir" else 0.4):
            arguments[option] = hostile(rng, value, 0.1)
    return deqcli.load, arguments, None


def read(rng: Random) -> Any:
    names = sorted(path.name for path in Path(_folder().name).iterdir())
    place = pick(rng, (*(f"{_folder().name}/{name}" for name in names), *TEXTS))
    return deqcli.read, {"path": hostile(rng, place, 0.2)}, None
