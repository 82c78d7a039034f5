"""Functions and samples that only Python has, in the place of names and files."""

from __future__ import annotations

import errno
import shlex

import numpy as np
import pandas as pd
import pytest
from filelock import FileLock

import deqcli
from deqcli.cli import run as command
from deqcli.data import files
from deqcli.errors import ActivationError, DeqcliError, InputError

SMALL = {"estimator": "exact", "form": "papers", "jobs": 1}
LABELS = np.array(["left", "right"])


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    y = np.arange(40) % 2
    X = rng.standard_normal((40, 30)) + np.outer(2.0 * y, np.ones(30))
    return X, LABELS[y]


def same(one, other):
    pd.testing.assert_frame_equal(one.table, other.table)
    return one.stem == other.stem


class Attached:
    """Like a tensor of torch that is learned."""

    def __array__(self, *_args, **_named):
        raise RuntimeError("call detach() first")


def bent(x):
    return np.arctan(x)


def test_samples_in_any_form_are_those_of_a_file(data, tmp_path):
    X, y = data
    np.savez(tmp_path / "mine.npz", X=X, y=y)
    frame = pd.DataFrame(X).assign(label=pd.Categorical(y))
    forms = [(X, y), [X.tolist(), pd.Series(y)], frame]
    runs = [deqcli.run("spectrum", data=form, **SMALL) for form in forms]
    assert all(same(runs[0], other) for other in runs[1:])
    loaded = deqcli.load(tmp_path / "mine.npz", preprocess="raw")
    for form in (tmp_path / "mine.npz", loaded):
        file = deqcli.run("spectrum", data=form, **SMALL)
        np.testing.assert_array_equal(runs[0].table["eigenvalue"], file.table["eigenvalue"])
    file = deqcli.run("spectrum", data=tmp_path / "mine.npz", **SMALL)
    # Tables name a file, and not where it was.
    assert set(file.table["data"]) == {"mine.npz"}
    assert runs[0].table["data"].str.fullmatch(r"samples-[0-9a-f]{8}\.npz").all()


def test_other_samples_are_another_run(data):
    X, y = data
    first, second = (deqcli.run("spectrum", data=(Z, y), **SMALL) for Z in (X, X + 1e-9 * X**2))
    assert first.stem != second.stem
    numbers = [deqcli.run("spectrum", data=(X, z), **SMALL).stem for z in (y == "left", y)]
    assert numbers[0] != numbers[1]


def test_the_recorded_command_finds_the_samples(data, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    result = deqcli.run("spectrum", data=data, out="results", **SMALL)
    (samples,) = (tmp_path / "results").glob("samples-*.npz")
    assert f"--data results/{samples.name}" in result.record["command"]
    _, *words = shlex.split(result.record["command"])
    assert command(words) == 0
    assert "results/spectrum" in capsys.readouterr().out
    assert deqcli.run("spectrum", data=data, out="results", **SMALL).status == "already done"


def test_the_lock_of_a_killed_process_does_not_matter_where_nothing_can_be_written(
    data, tmp_path, monkeypatch
):
    path = files.save(data, tmp_path)
    path.with_suffix(".lock").touch()

    def read_only(*arguments, **options):
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(FileLock, "acquire", read_only)
    assert files.save(data, tmp_path) == path
    path.unlink()
    with pytest.raises(DeqcliError, match="cannot be written to"):
        files.save(data, tmp_path)


def test_a_dry_run_writes_no_samples(data, tmp_path):
    out = tmp_path / "results"
    assert deqcli.run("spectrum", data=data, out=out, dry_run=True, **SMALL).status == "dry run"
    assert not out.exists()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda X, y: X, "`data` is array"),
        (lambda X, y: (X, y, y), "a pair (X, y)"),
        (lambda X, y: 5, "`data` is 5; give a name, a file, a DataFrame"),
        (lambda X, y: (X, y[1:]), "`data` has 40 samples but labels of shape (39,)"),
        (lambda X, y: (X, [None, *y[1:]]), "`data` has no label at sample 0"),
        (lambda X, y: (np.where(X[3, 2] == X, np.nan, X), y), "sample 3, feature 2 is nan"),
        (lambda X, y: pd.DataFrame(X).assign(word="a", y=y), "text in the column 'word'"),
        (lambda X, y: pd.DataFrame(X).assign(y=y)[:0], "`data` has no samples"),
        (lambda X, y: pd.concat([pd.DataFrame({"y": y})] * 2, axis=1), "'y' and a column 'y';"),
        (lambda X, y: (X, np.array([b"a", b"\xff"] * 20)), "labels that are not UTF-8"),
        (lambda X, y: (Attached(), y), "give a name, a file"),
        (lambda X, y: (np.ma.masked_less(X, 0), y), "masked entries; fill them"),
        (lambda X, y: deqcli.Dataset(X, np.arange(40), "a", ("b", "c")), "y has classes 0 to 39"),
        (lambda X, y: deqcli.Dataset(X, np.arange(40) - 1, "a"), "y has classes -1 to 38"),
        (lambda X, y: deqcli.Dataset(None, np.arange(40), "a"), "`X` is None"),
        (lambda X, y: deqcli.Dataset(X, y, "a"), "`y` is array"),
    ],
)
def test_samples_that_cannot_be_used_are_one_sentence(data, make, words):
    with pytest.raises(DeqcliError) as error:
        deqcli.run("spectrum", data=make(*data), **SMALL)
    assert words in str(error.value)
    assert "\n" not in str(error.value)


def test_whole_numbers_with_gaps_name_the_gap(data):
    X, y = data
    frame = pd.DataFrame({"a": pd.array([1, None] * 20, dtype="Int64"), "b": X[:, 0], "y": y})
    with pytest.raises(DeqcliError, match="sample 1, feature 0 is nan"):
        deqcli.run("spectrum", data=frame, **SMALL)


def test_a_function_of_the_registry_is_its_name():
    chosen = {"n": 40, "p": 50, **SMALL}
    assert same(*(deqcli.run("spectrum", act=act, **chosen) for act in (np.tanh, "tanh")))
    htanh = deqcli.activation("htanh:c=2")
    assert same(*(deqcli.run("spectrum", act=act, **chosen) for act in (htanh, htanh.name)))


def test_a_function_counts_by_what_it_computes(tmp_path):
    chosen = {"n": 40, "p": 50, "out": tmp_path, **SMALL}
    first = deqcli.run("spectrum", act=bent, **chosen)
    assert (first.status, first.settings.act[:5]) == ("done", "bent@")
    again = deqcli.run("spectrum", act=deqcli.activation(lambda x: np.arctan(x)), **chosen)
    assert again.settings.act[-8:] == first.settings.act[-8:]
    other = deqcli.run("spectrum", act=lambda x: np.arctan(x * (1 - 1e-9)), **chosen)
    assert other.settings.act[-8:] != first.settings.act[-8:]
    assert deqcli.run("spectrum", act=bent, **chosen).status == "already done"
    assert deqcli.read(tmp_path / f"{first.stem}.csv").settings.act == str(first.settings.act)
    # The numbers are those of the same function by another route.
    known = deqcli.run("spectrum", act="arctan", **chosen)
    np.testing.assert_allclose(first.table["eigenvalue"], known.table["eigenvalue"], rtol=1e-6)


def test_functions_go_to_other_processes():
    chosen = {"n": 40, "p": 50, "realizations": 4, "width": 30, "estimator": "monte-carlo"}
    one, two = (deqcli.run("spectrum", act=bent, jobs=jobs, **chosen) for jobs in (1, 2))
    assert same(one, two)


def test_several_functions_and_names():
    result = deqcli.run("error-vs-n", act=[bent, "tanh"], n=[32, 64], trials=1, jobs=1)
    assert result.table["act"].str.partition("@")[0].unique().tolist() == ["bent", "tanh"]
    assert deqcli.run("error-vs-n", act=bent, n=[32, 64], trials=1, jobs=1).status == "done"


def test_a_function_has_no_command_line_and_that_is_said(capsys):
    result = deqcli.run("spectrum", act=bent, n=40, p=50, **SMALL)
    _, *words = shlex.split(result.record["command"])
    assert command(words) == 2
    said = capsys.readouterr().err
    assert "was a function of somebody's Python; write it to a file" in said
    with pytest.raises(ActivationError, match="module:function"):
        deqcli.activation(str(result.settings.act))


def test_load_names_the_type_of_samples_and_who_takes_them():
    frame = pd.DataFrame({"f0": [0.0, 1.0], "y": [0, 1]})
    with pytest.raises(InputError, match=r"`name` is of type DataFrame; .* deqcli\.run"):
        deqcli.load(frame)
