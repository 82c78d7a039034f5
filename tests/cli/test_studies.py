"""What the commands of all studies promise, tested on each of them."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from deqcli import false_claims, misprints, study
from deqcli.runs import provenance
from deqcli.runs.seeds import stream
from deqcli.settings import options
from deqcli.studies.accuracy import TIMES
from deqcli.study import get

ROOT = Path(__file__).parents[2]
#: Each study in a second or two.
SMALL = {
    "spectrum": "--n 60 --p 80 --realizations 25 --width 50",
    "error-vs-n": "--n 64,32 --trials 2 --act tanh,relu",
    "visible": "--n 40 --ratio 2,1 --mean-norm 1,3 --trials 2 --act tanh,relu",
    "match": "--n 60 --p 80",
    "predict": "--n 40 --p 50 --values 30 --trials 2 --test-size 40 --nets deq",
    "accuracy": "--data gmm --p 50 --train-size 120 --test-size 60 --widths 32,16 --trials 2 "
    "--epochs 2 --batch 40",
    "flow": "--n 16 --p 10 --test-size 12 --steps 6 --widths 80,40 --trials 2",
    "errata": "--n 48,96 --trials 1",
}
OF_SAMPLES = [name for name in SMALL if "data" in {o.name for o in options(get(name).settings)}]


@dataclass(frozen=True)
class Finished:
    """A small run: its study, the folder in which it was called, and what it said."""

    name: str
    folder: Path
    outcome: object

    def words(self, *more: str) -> list[str]:
        return [self.name, *SMALL[self.name].split(), *more]


@contextlib.contextmanager
def quick_errata():
    """Leave out of the errata what takes long and is tested elsewhere."""
    with pytest.MonkeyPatch.context() as patch:
        name = "iclr-figure-1"
        patch.setattr(false_claims, "CLAIMS", {name: false_claims.CLAIMS[name]})
        patch.setattr(misprints, "NETWORKS", 2)
        patch.setattr(misprints, "WIDTH", 100)
        yield


@pytest.fixture(scope="module", params=list(SMALL))
def finished(request, tmp_path_factory, deqcli_here):
    """One finished run of each study, ``results/x.*`` in a folder of its own."""
    folder = tmp_path_factory.mktemp(request.param)
    with contextlib.chdir(folder), quick_errata():
        run = Finished(request.param, folder, None)
        outcome = deqcli_here(*run.words("--name", "x", "-j", "1"))
    return Finished(request.param, folder, outcome)


def table_bytes(path: Path) -> bytes:
    """Return a CSV without measured times."""
    table = pd.read_csv(path)
    times = [name for name in TIMES if name in table]
    return table.drop(columns=times).to_csv().encode() if times else path.read_bytes()


def assert_same_files(name: str, one: Path, other: Path) -> None:
    assert table_bytes(one.with_suffix(".csv")) == table_bytes(other.with_suffix(".csv"))
    if name != "accuracy":  # its figure shows measured times
        assert one.with_suffix(".png").read_bytes() == other.with_suffix(".png").read_bytes()


def assert_refused(outcome, *words: str) -> None:
    """One sentence on stderr that says what is wrong and has no backquote, and exit code 2."""
    assert outcome.code == 2, outcome
    assert outcome.out == ""
    last = outcome.err.strip().splitlines()[-1]
    assert last.lower().startswith("error: ")
    assert last[-1] in ".?)"
    assert "`" not in outcome.err
    assert "Traceback" not in outcome.err
    for word in words:
        assert word in last


def test_every_study_is_here():
    assert set(SMALL) == set(study.names())


def test_stdout_has_the_paths_and_nothing_else(finished):
    assert finished.outcome.code == 0, finished.outcome
    assert finished.outcome.out.split() == ["results/x.csv", "results/x.png", "results/x.json"]
    assert finished.outcome.err.strip()
    assert "`" not in finished.outcome.err
    found = sorted(path.name for path in (finished.folder / "results").iterdir())
    assert [name for name in found if not name.endswith(".lock")] == ["x.csv", "x.json", "x.png"]


def test_the_record_has_the_settings_and_a_command_that_makes_the_same(
    finished, deqcli_here, monkeypatch
):
    monkeypatch.chdir(finished.folder)
    record = json.loads(Path("results/x.json").read_text())
    settings = get(finished.name).settings.load(record["settings"])
    assert provenance.identity(get(finished.name), settings)["settings"] == record["settings"]
    assert record["study"] == finished.name
    program, *words = shlex.split(record["command"])
    assert program == "deqcli"
    points = len(get(finished.name).points(settings))
    dry = deqcli_here(*words, "--dry-run")
    assert dry.out.startswith(f"x: {points} points, {points} already done, about ")


def test_its_json_is_its_settings_and_a_second_call_does_nothing(
    finished, deqcli_here, monkeypatch
):
    monkeypatch.chdir(finished.folder)
    stamp = Path("results/x.csv").stat().st_mtime_ns
    for words in ([finished.name, "--config", "results/x.json"], finished.words()):
        again = deqcli_here(*words, "--name", "x")
        assert again.code == 0, again
        assert again.out == finished.outcome.out
        assert "already done; --force starts over" in again.err
    assert Path("results/x.csv").stat().st_mtime_ns == stamp


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=pytest.mark.slow) if n in ("errata", "accuracy") else n for n in SMALL],
)
@pytest.mark.slow
def test_jobs_do_not_change_a_byte(name, deqcli):
    for jobs in ("1", "2"):
        assert deqcli(name, *SMALL[name].split(), "--name", jobs, "-j", jobs).code == 0
    assert_same_files(name, Path("results/1.csv"), Path("results/2.csv"))


@pytest.mark.slow
def test_an_interrupted_run_goes_on_to_the_same_bytes(finished, deqcli, monkeypatch):
    cls = type(get(finished.name))
    genuine, calls = cls.compute, []

    def mortal(self, *arguments):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return genuine(self, *arguments)

    monkeypatch.setattr(cls, "compute", mortal)
    with quick_errata():
        stopped = deqcli(*finished.words("--name", "x", "-j", "1"))
        assert stopped.code == 130
        assert stopped.out == ""
        assert "interrupted; the same command continues" in stopped.err
        assert not Path("results/x.csv").exists()
        assert " 2 already done" in deqcli(*finished.words("--name", "x", "--dry-run")).out
        assert deqcli(*finished.words("--name", "x", "-j", "1")).code == 0
    record = json.loads(Path("results/x.json").read_text())
    assert record["timings"]["reused"] == 2
    assert 10**8 < record["timings"]["peak_bytes"] < 10**10
    assert_same_files(finished.name, Path("results/x.csv"), finished.folder / "results/x.csv")


#: `deqcli` with the errata cut as above.
MORTAL = """
from deqcli import false_claims, misprints
from deqcli.__main__ import main
false_claims.CLAIMS = {"iclr-figure-1": false_claims.CLAIMS["iclr-figure-1"]}
misprints.NETWORKS, misprints.WIDTH = 2, 100
main()
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "kills"), list(zip(SMALL, (4, 4, 3, 3, 3, 3, 3, 3), strict=True)), ids=list(SMALL)
)
def test_killed_at_any_moment_goes_on_to_the_same_bytes(name, kills, tmp_path):
    """Twenty kills over all studies, at moments drawn over the time of an unbroken run."""
    # What is cut in the errata is cut in this process alone.
    jobs = "1" if name == "errata" else "2"
    words = [name, *SMALL[name].split(), "--name", "x", "-j", jobs]
    folders = {"whole": tmp_path / "whole", "broken": tmp_path / "broken"}

    def start(folder):
        folder.mkdir(exist_ok=True)
        return subprocess.Popen(
            [sys.executable, "-c", MORTAL, *words],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    started = time.monotonic()
    assert start(folders["whole"]).wait() == 0
    duration = time.monotonic() - started
    draws = stream(13, "kills", name)
    while kills:
        child = start(folders["broken"])
        try:
            assert child.wait(draws.uniform(0, duration)) == 0
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
            kills -= 1
        else:  # It was faster; the next kill needs something to stop.
            shutil.rmtree(folders["broken"])
    assert start(folders["broken"]).wait() == 0
    assert_same_files(name, *(folder / "results" / "x.csv" for folder in folders.values()))
    left = sorted(path.name for path in (folders["broken"] / "results").iterdir())
    assert left == sorted(path.name for path in (folders["whole"] / "results").iterdir())


@pytest.mark.slow
def test_dry_run_writes_nothing(finished, deqcli, tmp_path):
    dry = deqcli(*finished.words("--dry-run"))
    assert dry.code == 0
    assert dry.out.startswith(f"{finished.name}-")
    assert " points, 0 already done, about " in dry.out
    _, second = dry.out.splitlines()
    assert second.startswith("about ")
    assert list(tmp_path.iterdir()) == []


def test_other_settings_under_the_same_name_are_refused(finished, deqcli_here, monkeypatch):
    monkeypatch.chdir(finished.folder)
    before = {path: path.read_bytes() for path in Path("results").iterdir()}
    refused = deqcli_here(*finished.words("--name", "x", "--seed", "7", "-j", "1"))
    assert_refused(refused, "seed is 0 there and 7 here", "--name", "--force")
    assert {path: path.read_bytes() for path in Path("results").iterdir()} == before


# Wrong values, option by option -------------------------------------------------------------------


def wrong_values():
    for name in SMALL:
        for option in options(get(name).settings):
            if option.many:
                known = (1.0,) if option.kind is float else ("a",)
                known = tuple(option.kind) if issubclass(option.kind, Enum) else known
                first = str((option.default or option.choices or known)[0])
                yield name, option.flag, ",", "is empty; give at least one value"
                yield name, option.flag, f"{first},{first}", f"has {first} twice; give each value"
            if option.choices:
                yield name, option.flag, "zzz", f"is 'zzz'; choose from {option.choices[0]}"
            if option.kind in (int, float):
                yield name, option.flag, "abc", "is 'abc'; give a"
                shown = "nan" if option.kind is float else "'nan'"
                yield name, option.flag, "nan", f"is {shown}; give a"
            if np.isfinite(option.rule.least):
                below = option.rule.least - 1
                value = f"{below:.0f}" if option.kind is int else f"{below!r}"
                yield name, option.flag, value, f"at least {option.rule.least:g}"
            if np.isfinite(option.rule.above):
                yield name, option.flag, str(option.rule.above), f"above {option.rule.above:g}"
            if np.isfinite(option.rule.below):
                yield name, option.flag, str(option.rule.below), f"below {option.rule.below:g}"


@pytest.mark.parametrize(("name", "flag", "value", "words"), list(wrong_values()))
def test_a_wrong_value_names_option_value_and_remedy(deqcli, tmp_path, name, flag, value, words):
    assert_refused(deqcli(name, flag, value), f"{flag} ", words)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--format", "bmp"), "--format has 'bmp'; give some of png, pdf, svg"),
        (("--format", ""), "--format is empty; give some of png"),
        (("--name", "a/b"), "--name is 'a/b'; give a file name without folders"),
        (("--jobs", "0"), "'--jobs'"),
        (("--sead", "3"), "--seed"),
        (("--config", "absent.toml"), "--config"),
    ],
)
def test_options_of_running(deqcli, tmp_path, name, arguments, words):
    assert_refused(deqcli(name, *arguments), words)
    assert list(tmp_path.iterdir()) == []


# Wrong data, study by study -----------------------------------------------------------------------


@pytest.fixture
def files(tmp_path):
    """Files of a person's own, good and bad, in the folder of the test."""
    X, y = np.random.default_rng(0).standard_normal((60, 4)), np.arange(60) % 2
    np.savez(tmp_path / "good.npz", X=X, y=y)
    np.savez(tmp_path / "short.npz", X=X, y=y[:-1])
    np.savez(tmp_path / "unlabelled.npz", X=X)
    (tmp_path / "broken.npz").write_text("hello")
    (tmp_path / "text.csv").write_text("a,b\nx,y\n")
    return sorted(tmp_path.iterdir())


WRONG = [
    ("--data absent.npz", "--data is absent.npz; there is no such file."),
    ("--data broken.npz", "broken.npz is not a readable .npz file"),
    ("--data unlabelled.npz", "unlabelled.npz has no array y"),
    ("--data short.npz", "short.npz has 60 samples but labels of shape (59,)"),
    ("--data text.csv", "text.csv has text in the column 'a'"),
    ("--data good.npz --classes 7,8", "no class '7'; --classes may be 0, 1"),
    ("--data good.npz --classes 1,1", "--classes has 1 twice"),
    ("--data mnist --classes 0,11 --data-dir .", "no class '11'; --classes may be 0, 1"),
    ("--data minst", "--data is 'minst'; did you mean mnist?"),
    ("--data nope", "--data is 'nope'; choose from gmm, sphere, mnist"),
    ("--data sphere --classes 2", "--classes is 2; points on the sphere have no classes"),
    ("--data gmm --classes two", "--classes is two; a mixture takes the number"),
    ("--data gmm --classes 0", "--classes is 0; a mixture takes the number"),
    ("--data gmm --covariance toeplitz:2", "--covariance is 'toeplitz:2'; choose papers"),
    ("--data good.npz --p 4", "--p is 4; the data 'good.npz' has its own dimension"),
    ("--data gmm --p 5", "--p is 5, too small for 2 classes; give 9 or more"),
    ("--sigma-a2 1.5", "--sigma-a2 is 1.5, too large for"),
    ("--sigma-a2 0.1 --act cubic", "no finite Lipschitz constant"),
    ("--act tahn", "unknown activation 'tahn': did you mean tanh"),
    ("--act lrelu:slop=1", "parameters are slope"),
    ("--act nowhere:f", "no module named 'nowhere'"),
]


def has_options(name, arguments):
    """Tell whether a study has the options of some arguments."""
    known = {option.flag for option in options(get(name).settings)}
    return {word for word in arguments.split() if word.startswith("--")} <= known


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [(name, *case) for name in OF_SAMPLES for case in WRONG if has_options(name, case[0])],
)
def test_wrong_data_and_models(deqcli, tmp_path, files, name, arguments, words):
    assert_refused(deqcli(name, *arguments.split(), "-j", "1"), words)
    # Refused before anything was written, so that the right settings may have the name.
    assert sorted(tmp_path.iterdir()) == files


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("spectrum --n 5000", "--n is 5000, more samples than there are"),
        ("error-vs-n --n 8,1600", "--n is 1600, more samples than there are"),
        ("match --n 5000", "--n is 5000, more samples than there are"),
        ("flow --n 5000 --test-size 4", "--n is 5000, more samples than there are"),
        ("flow --test-size 5000", "--test-size is 5000, more samples than there are"),
        ("accuracy --train-size 5000", "--train-size is 5000, more samples than there are"),
        ("accuracy --test-size 5000", "--test-size is 5000, more samples than there are"),
        ("accuracy --batch 5000", "--batch is 5000, more than the 48 training samples"),
    ],
)
def test_too_few_samples(deqcli, tmp_path, files, words, message):
    assert_refused(deqcli(*words.split(), "--data", "good.npz", "-j", "1"), message)
    assert sorted(tmp_path.iterdir()) == files


@pytest.mark.parametrize(
    "words",
    [
        "spectrum --n 60",
        "error-vs-n --n 60,80",
        "match --n 60",
        "flow --n 60 --widths 20",
        "accuracy --train-size 60 --widths 20",
    ],
)
def test_data_that_was_not_fetched(deqcli, tmp_path, words):
    missing = ("--data", "mnist", "--classes", "0,1", "--data-dir", ".", "-j", "1")
    assert_refused(deqcli(*words.split(), *missing), "run 'deqcli data fetch mnist'", "--data-dir")
    assert list(tmp_path.iterdir()) == []


def test_points_that_fail_are_named_without_backquotes(deqcli, monkeypatch):
    from deqcli.errors import ConvergenceError

    def fail(*_):
        raise ConvergenceError("3 realizations were lost; lower `sigma_a2`.")

    monkeypatch.setattr(type(get("error-vs-n")), "compute", fail)
    outcome = deqcli("error-vs-n", *SMALL["error-vs-n"].split(), "-j", "1")
    assert outcome.code == 3
    assert outcome.out == ""
    assert "failed: n=64 trial=0: 3 realizations were lost; lower --sigma-a2." in outcome.err
    assert "the same command tries the rest again" in outcome.err
    assert "`" not in outcome.err


# Where settings come from -------------------------------------------------------------------------


def stem(name: str, **settings: object) -> str:
    chosen = get(name)
    return provenance.default_stem(provenance.identity(chosen, chosen.settings(**settings)))


def shown(outcome) -> str:
    """Return the stem that a dry run prints: it stands for the settings."""
    assert outcome.code == 0, outcome
    return outcome.out.partition(":")[0]


@pytest.mark.usefixtures("no_small_runs")
def test_command_line_wins_over_environment_over_file_over_default(deqcli, tmp_path, monkeypatch):
    (tmp_path / "s.toml").write_text("n = 61\nwidth = 70\n")
    words = ["spectrum", "--dry-run"]
    assert shown(deqcli(*words)) == stem("spectrum")
    words += ["--config", "s.toml"]
    assert shown(deqcli(*words)) == stem("spectrum", n=61, width=70)
    monkeypatch.setenv("DEQCLI_SPECTRUM_N", "62")
    assert shown(deqcli(*words)) == stem("spectrum", n=62, width=70)
    assert shown(deqcli(*words, "--n", "63")) == stem("spectrum", n=63, width=70)
    monkeypatch.setenv("DEQCLI_SPECTRUM_N", "abc")
    assert_refused(deqcli(*words), "--n is 'abc'; give a whole number at least 2")


@pytest.mark.usefixtures("no_small_runs")
def test_lists_and_flags_from_the_environment_and_from_files(deqcli, tmp_path, monkeypatch):
    expected = stem("accuracy", data="gmm", widths=(16, 32), nets=("deq",), limit="none")
    text = 'study = "accuracy"\ndata = "gmm"\nwidths = [32, 16]\nnets = "deq"\nlimit = "none"\n'
    (tmp_path / "s.toml").write_text(text)
    assert shown(deqcli("accuracy", "--config", "s.toml", "--dry-run")) == expected
    for key, value in {"DATA": "gmm", "WIDTHS": "32,16", "NETS": "deq", "LIMIT": "none"}.items():
        monkeypatch.setenv(f"DEQCLI_ACCURACY_{key}", value)
    assert shown(deqcli("accuracy", "--dry-run")) == expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("widht = 3\n", "s.toml: unknown key 'widht'; did you mean width?"),
        ("zzz = 3\n", "s.toml: unknown key 'zzz'; choose from act"),
        ('study = "match"\n', "s.toml is for deqcli match, not deqcli spectrum"),
        ('n = "abc"\n', "--n is 'abc'; give a whole number at least 2"),
        ("n = true\n", "--n is True; give a whole number"),
        ("n = 2.5\n", "--n is 2.5; give a whole number"),
        ("estimator = []\n", "--estimator is empty"),
        ("estimator = [3]\n", "--estimator is 3; choose from monte-carlo"),
        ("sigma_a2 = inf\n", "--sigma-a2 is inf; give a finite number"),
        ("n = = 3\n", "s.toml is no settings file"),
        ("n = [60]\n", "--n is [60]; give a whole number"),
    ],
)
def test_wrong_files_of_settings(deqcli, tmp_path, text, words):
    (tmp_path / "s.toml").write_text(text)
    assert_refused(deqcli("spectrum", "--config", "s.toml", "--dry-run"), words)


def test_a_flag_takes_yes_or_no(deqcli, tmp_path):
    (tmp_path / "s.toml").write_text('save-kernels = "perhaps"\n')
    refused = deqcli("spectrum", "--config", "s.toml", "--dry-run")
    assert refused.code == 2
    assert "'--save-kernels': 'perhaps' is not a valid boolean" in refused.err


@pytest.mark.parametrize("name", study.names())
def test_help_says_how_long_the_defaults_take(name, deqcli):
    done = deqcli(name, "--help")
    assert done.code == 0
    words = " ".join(done.out.split())
    assert f"With the defaults it takes {study.get(name).duration} on two cores;" in words
    assert re.search(r"seconds|minute|hour", study.get(name).duration)
