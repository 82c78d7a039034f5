"""What holds for every study: its texts, its numbers by every door, and work done only once."""

from __future__ import annotations

import functools
import importlib
import json
import math
import pickle
import shlex
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import deqcli
import deqcli.studies
from deqcli import false_claims, matching, misprints
from deqcli import study as studies
from deqcli.cli import run as run_cli
from deqcli.cli.studies import StudyCommand
from deqcli.data import files as own_files
from deqcli.data import images, laws
from deqcli.errors import InputError
from deqcli.kernels.exact import ExactKernels
from deqcli.reproduction import presets
from deqcli.runs import provenance, tables
from deqcli.settings import options
from deqcli.training import trio

#: Every study at a size that takes a second.
TINY = {
    "spectrum": {"n": 24, "p": 30, "realizations": 3, "width": 20},
    "error-vs-n": {"n": [8, 16], "trials": 2, "act": ["tanh", "htanh:a=1,c=2"], "sigma-a2": 0.1},
    "visible": {"n": 20, "ratio": [2.0], "mean-norm": [1.0, 3.0], "trials": 2, "act": ["tanh"]},
    "match": {"n": 24, "p": 30},
    "predict": {"n": 16, "p": 20, "values": [8.0], "trials": 2, "test-size": 10, "nets": ["deq"]},
    "accuracy": {
        "data": "gmm", "p": 20, "train-size": 40, "test-size": 20, "widths": [8, 4], "epochs": 1,
        "trials": 2, "batch": 20,
    },
    "flow": {"n": 12, "p": 10, "test-size": 6, "widths": [10, 20], "steps": 8,
             "first-step": 1.0},
    "errata": {"n": [16, 32], "trials": 1},
}  # fmt: skip
every_study = pytest.mark.parametrize("name", list(TINY))
LONG = ("accuracy", "error-vs-n", "spectrum", "visible")


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    """Let no test find what another has prepared, nor anybody's data."""
    monkeypatch.delenv("DEQCLI_DATA_DIR", raising=False)
    studies.prepared.cache_clear()


@pytest.fixture(autouse=True, scope="module")
def short_errata():
    """Take one of the errata without claims and networks: all take half a minute at any size."""
    networks = {
        name: np.array(1.0) for name in ("printed", "right", "norm", "frozen", "frozen_norm")
    }
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(misprints, "ERRATA", {"icml-ntk": misprints.ERRATA["icml-ntk"]})
        monkeypatch.setattr(false_claims, "CLAIMS", {})
        monkeypatch.setattr(misprints, "measure_networks", lambda seed: networks)
        yield


@functools.cache
def tiny(name):
    """Return the small run of a study in this process, made once for all tests."""
    return deqcli.run(name, studies.get(name).settings.load(TINY[name]), jobs=1)


def parsed(name, words):
    """Return the settings that the command line makes of its words."""
    study = studies.get(name)
    known = {option.name for option in options(study.settings)}
    params = StudyCommand(study).make_context(name, list(words)).params
    return study.settings(**{key: value for key, value in params.items() if key in known})


def test_studies_are_the_modules_of_their_folder():
    (folder,) = deqcli.studies.__path__
    modules = {path.stem for path in Path(folder).glob("*.py")} - {"__init__"}
    assert {name.replace("-", "_") for name in studies.names()} == modules
    assert set(studies.names()) == set(TINY)


def test_a_study_nobody_knows_is_a_sentence_with_the_nearest_name():
    for wrong in ("error_vs_n", "eror-vs-n"):
        with pytest.raises(InputError, match=f"no study '{wrong}'; did you mean error-vs-n"):
            studies.get(wrong)
    with pytest.raises(InputError, match="choose from accuracy, "):
        deqcli.run("xyz")
    assert studies.summary("xyz") == ""


@every_study
def test_a_study_has_its_texts(name):
    study = studies.get(name)
    module = importlib.import_module(type(study).__module__)
    assert study.name == name
    assert studies.of_settings(study.settings()) is study
    assert studies.summary(name) == module.__doc__.splitlines()[0]
    assert type(study).__doc__.partition("\n")[0].endswith(".")
    for option in options(study.settings):
        assert option.rule.help.endswith("."), option.name
        # A flag can only be set, so that what is set by default could not be taken back.
        assert option.kind is not bool or option.default is False, option.name


@every_study
def test_examples_can_be_typed(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savez("my-samples.npz", X=np.eye(20), y=np.repeat([0, 1], 10))
    study = studies.get(name)
    assert study.examples
    for example in study.examples:
        # Some say in parentheses what will happen.
        words = shlex.split(example.partition("  (")[0])
        assert study.points(parsed(name, words)) or "--tau0" in words


@every_study
def test_limits_and_tolerances_name_what_there_is(name):
    study, result = studies.get(name), tiny(name)
    fields = {option.name for option in options(study.settings)}
    settings = study.settings()
    for limits in (study.quick, study.standard):
        assert limits.keys() <= fields
        smaller, changed = study.cut(settings, limits)
        assert set(changed) <= limits.keys() | {"p"}
        assert study.memory(smaller) <= study.memory(settings)
    columns = set(result.table.columns)
    if name == "match":  # A twin by equations has their residuals.
        columns |= set(deqcli.run(name, **TINY[name], design=0, jobs=1).table.columns)
    counts = {tolerance.count for tolerance in study.tolerances.values()}
    assert {*study.tolerances, *counts} - {""} <= columns
    assert study.ignored <= columns


@every_study
def test_a_small_run_says_what_it_found(name):
    study, result = studies.get(name), tiny(name)
    assert (result.status, result.exit_code, result.failures) == ("done", 0, ())
    assert result.points == len(study.points(result.settings))
    for line in study.sentences(result.findings):
        assert line.strip()
    quantities = study.quantities(result.settings)
    assert len({quantity.key for quantity in quantities}) == len(quantities) > 0
    for quantity in quantities:
        assert math.isfinite(quantity.measure(result).value), quantity.key
    assert result.figure().axes
    # What goes to a worker.
    call = (result.settings, study.points(result.settings))
    assert pickle.loads(pickle.dumps(call)) == call
    reseeded = study.reseeded(result.settings, 5)
    assert reseeded is None or reseeded.seed == 5


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow) if n in LONG else n for n in TINY]
)
def test_three_doors_give_the_same_numbers(name, tmp_path, monkeypatch, capsys):
    study, called = studies.get(name), tiny(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(presets, "folder", lambda: tmp_path / "experiments")
    # A JSON value without null and objects is a TOML value.
    lines = [f"{key} = {json.dumps(value)}" for key, value in TINY[name].items()]
    (tmp_path / "experiments" / "mine").mkdir(parents=True)
    preset = tmp_path / "experiments" / "mine" / "figure.toml"
    preset.write_text("\n".join([f'study = "{name}"', *lines]))
    words = []
    for key, value in TINY[name].items():
        text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
        words += [f"--{key}"] if value is True else [f"--{key}", text]
    assert run_cli([name, *words, "--name", "typed", "-j", "1"]) == 0, capsys.readouterr().err
    assert run_cli(["reproduce", "mine/figure", "-j", "1"]) == 0, capsys.readouterr().err
    for stem in ("typed", "mine-figure"):
        table = tables.read(tmp_path / "results" / f"{stem}.csv")
        pd.testing.assert_frame_equal(
            table.drop(columns=[*study.ignored]),
            called.table.drop(columns=[*study.ignored]),
            check_exact=True,
        )
        record = json.loads((tmp_path / "results" / f"{stem}.json").read_text())
        assert record["hash"] == called.record["hash"]
        assert record["findings"] == called.findings
        # The command in a record makes the same run.
        command, study_name, *rest = shlex.split(record["command"])
        assert (command, study_name) == ("deqcli", name)
        identity = provenance.identity(study, parsed(name, rest))
        assert provenance.identity_hash(identity) == record["hash"]
    typed = tmp_path / "results" / "typed.json"
    again = [name, "--config", str(typed), "--name", "again", "-j", "1"]
    assert run_cli([*again, "--dry-run"]) == 0
    settings = parsed(name, ["--config", str(typed)])
    assert settings.identity() == called.settings.identity()
    capsys.readouterr()


@pytest.mark.parametrize("jobs", [1, 2])
def test_without_a_folder_nothing_is_left_on_the_disk(tmp_path, monkeypatch, jobs):
    work, temporary = tmp_path / "work", tmp_path / "temporary"
    work.mkdir()
    temporary.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    result = deqcli.run("spectrum", **{**TINY["spectrum"], "save_kernels": True}, jobs=jobs)
    assert result.paths == ()
    with pytest.raises(InputError):
        deqcli.run("spectrum", data="absent.npz", jobs=jobs)
    assert [*work.iterdir(), *temporary.iterdir()] == []


# Prepared once: loading, matching and exact kernels are what costs.


@pytest.fixture
def counts(monkeypatch):
    """Count loads of samples, exact kernels and matches in this process."""
    counter = Counter()

    def watch(owner, name, what):
        original = getattr(owner, name)

        @functools.wraps(original)
        def counted(*arguments, **keywords):
            counter[what] += 1
            return original(*arguments, **keywords)

        monkeypatch.setattr(owner, name, counted)

    for law in (laws.Mixture, laws.Sphere, laws.RealData):
        watch(law, "load", "loads")
        watch(law, "load_halves", "loads of halves")
    watch(images, "load", "reads")
    watch(ExactKernels, "compute", "kernels")
    watch(matching, "match", "matches")
    watch(matching, "match_sphere", "matches")
    watch(matching, "fit_twin", "fits")
    watch(trio, "match", "matches")
    return counter


@pytest.mark.parametrize("estimator", ["exact", "monte-carlo,exact"])
def test_a_spectrum_has_one_load_and_one_exact_kernel(counts, tmp_path, estimator):
    deqcli.run("spectrum", **TINY["spectrum"], estimator=estimator, out=tmp_path, jobs=1)
    assert counts == {"loads": 1, "kernels": 1}


def test_a_match_with_export_has_one_load_and_one_match(counts, tmp_path):
    small = TINY["match"] | {"design": 0, "export": "numpy"}
    result = deqcli.run("match", **small, out=tmp_path, jobs=1)
    assert any(path.name.endswith("-numpy.py") for path in result.paths)
    # Three for the spectra, and three to judge the twin that the file will have.
    assert counts == {"loads": 1, "matches": 1, "kernels": 6}


def test_a_match_on_data_has_one_load_and_one_fit(counts):
    deqcli.run("match", **TINY["match"], jobs=1)
    del counts["kernels"]  # of the candidates, on the design
    assert counts == {"loads": 1, "fits": 1}


def test_a_match_on_the_sphere_has_one_load_one_match_and_three_kernels(counts):
    deqcli.run("match", **TINY["match"], data="sphere", act="nrelu", jobs=1)
    assert counts == {"loads": 1, "matches": 1, "kernels": 3}


def test_an_accuracy_has_one_load_of_both_halves_and_one_match(counts):
    settings = studies.get("accuracy").settings.load(
        TINY["accuracy"] | {"limit": "none", "twin": "scalars"}
    )
    deqcli.run(settings, jobs=1)
    assert counts == {"loads of halves": 1, "matches": 1}


def test_a_file_is_loaded_once(counts, tmp_path):
    rng = np.random.default_rng(0)
    path = tmp_path / "mine.npz"
    np.savez(path, X=rng.standard_normal((30, 10)), y=np.repeat([0, 1], 15))
    own_files._parse.cache_clear()
    deqcli.run("match", data=str(path), design=0, jobs=1)
    # Read once more for the moments of the whole set, but parsed once.
    assert counts == {"loads": 1, "reads": 2, "matches": 1, "kernels": 3}
    assert own_files._parse.cache_info().misses == 1
    counts.clear()
    own_files._parse.cache_clear()
    deqcli.run("flow", data=str(path), n=20, test_size=6, widths=[10, 20], steps=2, jobs=1)
    assert counts == {"loads of halves": 1, "reads": 1}
    # Its size and classes were asked for before: parsed once all the same.
    assert own_files._parse.cache_info().misses == 1


def test_other_settings_are_prepared_anew(counts):
    for _ in range(2):
        deqcli.run("spectrum", **TINY["spectrum"], estimator="exact", jobs=1)
    assert counts["loads"] == 1
    deqcli.run("spectrum", **TINY["spectrum"], estimator="exact", seed=1, jobs=1)
    assert counts["loads"] == 2


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_file_that_changed_under_its_name_is_read_again(tmp_path, jobs):
    path, distances = tmp_path / "mine.npz", []
    for scale in (1.0, 2.0):
        np.savez(path, X=scale * np.eye(20), y=np.repeat([0, 1], 10))
        chosen = {"data": str(path), "preprocess": "raw", "estimator": "exact"}
        distances.append(deqcli.run("spectrum", jobs=jobs, **chosen).findings["distances"])
    assert distances[0] != distances[1]
