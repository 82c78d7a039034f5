import getpass
import json
import os
import platform
import subprocess
from pathlib import Path

import numpy as np
import pytest

from deqcli._version import __version__
from deqcli.runs import provenance
from deqcli.runs.parallel import pinned

RUN = {"study": "toy", "version": 2, "spec": {"n": 3, "act": "tanh"}}


def collect(**changes):
    settings = {
        "command": ["deqcli", "toy"],
        **RUN,
        "seed": 7,
        "timings": {"points": 1.5},
        "outputs": {"toy.csv": "ab"},
        "extra": {"distance": np.float64(0.1)},
    }
    return provenance.collect(**settings | changes)


def test_canonical_json_has_one_text_per_value():
    first = provenance.canonical_json({"b": (1, 2), "a": np.float64(0.1), "c": np.int32(4)})
    assert first == provenance.canonical_json({"c": 4, "a": 0.1, "b": [1, 2]})
    with pytest.raises(ValueError):
        provenance.canonical_json({"a": float("nan")})


def test_the_hash_knows_study_version_and_spec():
    hashes = {
        provenance.spec_hash(*run)
        for run in [
            ("a", 1, {}),
            ("b", 1, {}),
            ("a", 2, {}),
            ("a", 1, {"n": 1}),
            ("a", 1, {"n": 2}),
        ]
    }
    assert len(hashes) == 5
    assert provenance.default_stem("a", 1, {}) == f"a-{provenance.spec_hash('a', 1, {})[:8]}"


def test_the_record_is_complete_and_json_able():
    record = json.loads(provenance.canonical_json(collect()))
    assert {name: record[name] for name in RUN} == RUN
    assert record["schema"] == provenance.SCHEMA
    assert record["deqcli"] == __version__
    assert record["results"] == {"distance": 0.1}
    assert record["outputs"] == {"toy.csv": "ab"}
    environment = record["environment"]
    assert environment["packages"]["numpy"] == np.__version__
    assert environment["cpu"]["count"] == os.cpu_count()
    assert environment["blas"]


def test_threads_are_those_in_force():
    with pinned(1):
        assert {blas["threads"] for blas in collect()["environment"]["blas"]} == {1}


def test_nobody_is_named():
    home = Path.home()
    command = [f"{home}/bin/deqcli", f"--data={home}/x.csv", "--scheduler", "tcp://node7:8786"]
    record = collect(command=command)
    assert record["command"] == "deqcli --data=~/x.csv --scheduler tcp://HOST:8786"
    text = json.dumps(record, default=str)
    for secret in (str(home) + "/", f"/{getpass.getuser()}/", platform.node()):
        assert not secret or secret not in text


def test_commit_of_a_checkout_and_of_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(provenance, "_ROOT", tmp_path)
    assert provenance.environment()["commit"] is None
    (tmp_path / ".git").mkdir()
    assert provenance.environment()["commit"] is None  # not a repository
    (tmp_path / ".git").rmdir()

    def git(*arguments):
        settings = ["-c", "user.name=x", "-c", "user.email=x@x"]
        subprocess.run(["git", "-C", tmp_path, *settings, *arguments], check=True)

    git("init", "-q")
    (tmp_path / "a").write_text("a")
    git("add", "a")
    git("commit", "-qm", "a")
    commit = provenance.environment()["commit"]
    assert len(commit["revision"]) == 40
    assert commit["dirty"] is False
    (tmp_path / "a").write_text("b")
    assert provenance.environment()["commit"]["dirty"] is True
    monkeypatch.setenv("PATH", "")
    assert provenance.environment()["commit"] is None
