import getpass
import json
import os
import platform
import subprocess
from pathlib import Path

import numpy as np
import pytest
from toy_study import STUDY, ToySettings

from deqcli._version import __version__
from deqcli.runs import provenance
from deqcli.runs.parallel import pinned
from deqcli.studies.spectrum import STUDY as SPECTRUM
from deqcli.studies.spectrum import SpectrumSettings

IDENTITY = {
    "study": "toy",
    "version": 2,
    "settings": {"n": 3, "act": "tanh"},
    "inputs": {"sha256": "ab"},
}


def collect(**changes):
    record = {
        "command": "deqcli toy",
        "findings": {"distance": np.float64(0.1)},
        "constants": {"columns": ["a"], "constants": []},
        "outputs": {"toy.csv": "ab"},
        "timings": {"points": 1.5},
    }
    return provenance.collect(IDENTITY, **record | changes)


def test_canonical_json_has_one_text_per_value():
    first = provenance.canonical_json({"b": (1, 2), "a": np.float64(0.1), "c": np.int32(4)})
    assert first == provenance.canonical_json({"c": 4, "a": 0.1, "b": [1, 2]})
    with pytest.raises(ValueError):
        provenance.canonical_json({"a": float("nan")})


def test_the_hash_knows_study_version_settings_and_inputs():
    changes = [
        {},
        {"study": "other"},
        {"version": 3},
        {"settings": {"n": 3}},
        {"settings": {"n": 4}},
        {"inputs": {"sha256": "cd"}},
    ]
    hashes = {provenance.identity_hash(IDENTITY | change) for change in changes}
    assert len(hashes) == len(changes)
    assert provenance.default_stem(IDENTITY) == f"toy-{provenance.identity_hash(IDENTITY)[:8]}"


def test_the_identity_is_what_a_record_reads_back_as(monkeypatch):
    settings = ToySettings(scale=2)
    identity = provenance.identity(STUDY, settings)
    assert identity == {
        "study": "toy",
        "version": 1,
        "settings": {"seed": 0, "size": 300, "trials": 6, "scale": 2.0, "save": False},
        "inputs": {},
    }
    monkeypatch.setattr(type(STUDY), "version", 2)
    assert provenance.identity(STUDY, settings) == identity | {"version": 2}
    estimators = provenance.identity(SPECTRUM, SpectrumSettings())["settings"]["estimator"]
    assert [type(name) for name in estimators] == [str, str]


def test_a_file_counts_by_its_content_and_name_and_not_by_its_folder(tmp_path):
    rng = np.random.default_rng(0)
    paths = [tmp_path / folder / "mine.npz" for folder in ("a", "b", "c")]
    samples = rng.standard_normal((3, 20, 4))
    for path, number in zip(paths, (0, 0, 1), strict=True):
        path.parent.mkdir()
        np.savez(path, X=samples[number], y=np.repeat([0, 1], 10))
    hashes = [
        provenance.identity_hash(provenance.identity(SPECTRUM, SpectrumSettings(data=str(path))))
        for path in paths
    ]
    assert hashes[0] == hashes[1] != hashes[2]


def test_the_record_is_complete_and_json_able():
    record = json.loads(provenance.canonical_json(collect()))
    assert {name: record[name] for name in IDENTITY} == IDENTITY
    assert record["hash"] == provenance.identity_hash(IDENTITY)
    assert record["schema"] == provenance.SCHEMA
    assert record["deqcli"] == __version__
    assert record["command"] == "deqcli toy"
    assert record["findings"] == {"distance": 0.1}
    assert record["outputs"] == {"toy.csv": "ab"}
    assert record["columns"] == ["a"]
    assert record["timings"] == {"points": 1.5}
    environment = record["environment"]
    assert environment["packages"]["numpy"] == np.__version__
    assert environment["cpu"]["count"] == os.cpu_count()
    assert environment["blas"]


def test_threads_are_those_in_force():
    with pinned(1):
        assert {blas["threads"] for blas in collect()["environment"]["blas"]} == {1}


def test_nobody_is_named(tmp_path, monkeypatch):
    home = tmp_path / "home"
    home.mkdir()
    np.savez(home / "mine.npz", X=np.eye(4), y=np.array([0, 0, 1, 1]))
    monkeypatch.setenv("HOME", str(home))
    settings = SpectrumSettings(data=str(home / "mine.npz"), data_dir=str(home / "data"))
    command = SPECTRUM.command_line(settings, "mine", home / "results")
    assert command == "deqcli spectrum --data ~/mine.npz --name mine --out ~/results"
    assert str(tmp_path) not in provenance.canonical_json(provenance.identity(SPECTRUM, settings))
    text = json.dumps(collect(), default=str)
    for secret in (str(Path.home()) + "/", f"/{getpass.getuser()}/", platform.node()):
        assert not secret or secret not in text


@pytest.mark.parametrize("home", ["/", "/some"])
def test_only_the_home_folder_itself_is_shortened(monkeypatch, home):
    monkeypatch.setenv("HOME", home)
    command = STUDY.command_line(ToySettings(), out=Path("/somewhere/else"))
    assert command == "deqcli toy --out /somewhere/else"


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
    for folder in ("deqcli", "results"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a").write_text("a")
    git("add", ".")
    git("commit", "-qm", "a")
    commit = provenance.environment()["commit"]
    assert len(commit["revision"]) == 40
    assert commit["dirty"] is False
    (tmp_path / "results" / "a").write_text("b")  # as a run does that writes over a result
    assert provenance.environment()["commit"]["dirty"] is False
    (tmp_path / "deqcli" / "a").write_text("b")
    assert provenance.environment()["commit"]["dirty"] is True
    monkeypatch.setenv("PATH", "")
    assert provenance.environment()["commit"] is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("abc123\n", {"revision": "abc123", "dirty": False}),
        ("abc123-dirty\n", {"revision": "abc123", "dirty": True}),
        ("", None),
    ],
)
def test_an_installed_copy_knows_the_commit_it_was_built_from(
    tmp_path, monkeypatch, text, expected
):
    monkeypatch.setattr(provenance, "_ROOT", tmp_path)
    (tmp_path / "deqcli").mkdir()
    (tmp_path / "deqcli" / "_commit.txt").write_text(text)
    assert provenance.environment()["commit"] == expected
