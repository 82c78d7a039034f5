"""The study of training: its samples, its table, its survival."""

import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import deqcli
from deqcli.errors import DataError, InputError
from deqcli.flow.training import Settings, checkpoints
from deqcli.runs.files import read_csv
from deqcli.runs.task import execute
from deqcli.studies import flow, inputs

DATA = {
    "n": 16, "p": 10, "classes": None, "mean_norm": 4.0, "covariance": "papers",
    "select": "random", "preprocess": "centred",
}  # fmt: skip


def make_spec(data="gmm", settings=None, **changes):
    source = DATA | {key: changes.pop(key) for key in list(changes) if key in DATA}
    given = {
        "widths": (60, 30), "trials": 2, "gamma0": 0.5, "init": "gaussian", "injection": "relu",
        "scaling": "norm", "settings": settings or Settings(steps=8), "test_size": 12, "seed": 0,
    }  # fmt: skip
    return flow.resolve(**given | changes, data=inputs.resolve(data=data, **source), n=source["n"])


def run(spec, out, name="f", **options):
    result = execute(flow.task(spec), out=out, name=name, **options)
    return result, read_csv(out / f"{name}.csv")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A finished run of two widths and two trials: its folder and its table."""
    folder = tmp_path_factory.mktemp("whole")
    return folder, run(make_spec(), folder)[1]


def test_the_table_has_a_row_a_step_and_these_columns(whole):
    _, table = whole
    assert list(table.columns) == [
        "width", "trial", "step", "time", "status", "train_loss", "train_error", "envelope",
        "test_loss", "test_error", "test_absolute", "norm", "contraction", "lambda_min",
        "lambda_max", "kernel_change", "distance", "distance_method", "sweeps", "bound",
        "rademacher", "gamma",
        "step_size", "n", "p", "n_test", "peak", "slope", "data", "method", "init", "injection",
        "gamma0", "scaling",
    ]  # fmt: skip
    runs = table.groupby(["width", "trial"])
    assert list(runs.groups) == [(30, 0), (30, 1), (60, 0), (60, 1)]
    for _, rows in runs:
        assert rows["step"].tolist() == list(range(9))
        np.testing.assert_allclose(rows["time"], rows["step"] * rows["step_size"])
        assert rows["norm"].iloc[0] == pytest.approx(0.5, rel=1e-7)
        measured = rows.dropna(subset="lambda_min")
        assert measured["step"].tolist() == checkpoints(8)
        assert rows["step_size"].iloc[0] == pytest.approx(1 / rows["lambda_max"].iloc[0])
    assert (table["status"] == "ok").all()
    assert (table[["n", "p", "n_test"]] == [16, 10, 12]).all(axis=None)


def test_peaks_are_over_the_common_time_and_the_slope_is_theirs(whole):
    _, table = whole
    common = table.groupby(["width", "trial"])["time"].max().min()
    peaks = table[table["time"] <= common * (1 + 1e-9)].groupby(["width", "trial"])
    expected = peaks["distance_method"].max()
    found = table.groupby(["width", "trial"])["peak"].first()
    np.testing.assert_array_equal(found, expected)
    means = expected.groupby("width").mean()
    slope = np.log(means[60] / means[30]) / np.log(2)
    assert table["slope"].iloc[0] == pytest.approx(slope)


def test_promises_say_what_the_table_says(whole):
    rows = whole[1].query("width == 60 and trial == 1")
    found = flow.promises(rows)
    assert found["steps"] == found["test_step"] == 8
    assert found["lambda0"] == rows["lambda_min"].iloc[0]
    assert found["lambda_min_ratio"] == rows["lambda_min"].min() / rows["lambda_min"].iloc[0]
    assert found["envelope_ratio"] == 1.0
    late = rows.query("step in (4, 8)")
    assert found["rate"] == pytest.approx(
        -np.diff(np.log(late["train_loss"]))[0] / np.diff(late["time"])[0]
    )
    assert found["largest_rise"] == rows["train_loss"].diff().max()
    assert found["bound"] == rows["bound"].iloc[0]
    lost = rows.assign(status="contraction lost", norm=1.5)
    assert flow.promises(lost) == {"norm_start": 1.5}


def test_jobs_do_not_change_a_byte(whole, tmp_path):
    run(make_spec(), tmp_path, jobs=2)
    assert (tmp_path / "f.csv").read_bytes() == (whole[0] / "f.csv").read_bytes()


KILLED = """
import os, signal, sys
sys.path[:0] = {paths!r}
import test_flow_study as study
from deqcli.runs.task import execute
from deqcli.studies import flow
from pathlib import Path
whole, calls = flow.run_point, []
def run_point(*arguments):
    calls.append(1)
    if len(calls) == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return whole(*arguments)
flow.run_point = run_point
execute(flow.task(study.make_spec()), out=Path({out!r}), name="f")
"""


def test_killed_and_resumed_gives_the_same_bytes(whole, tmp_path):
    # Under another name: the file of this module may be imported as something else already.
    (tmp_path / "test_flow_study.py").write_bytes(Path(__file__).read_bytes())
    paths = [str(tmp_path), str(Path(deqcli.__file__).parents[1])]
    out = tmp_path / "out"
    program = KILLED.format(paths=paths, out=str(out))
    killed = subprocess.run([sys.executable, "-c", program], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert not (out / "f.csv").exists()
    result, _ = run(make_spec(), out)
    assert (result.status, result.reused) == ("done", 2)
    assert (out / "f.csv").read_bytes() == (whole[0] / "f.csv").read_bytes()


def test_a_width_that_stops_to_contract_keeps_its_rows(tmp_path):
    spec = make_spec(
        "sphere", Settings(steps=60), n=30, p=20, widths=(20, 400), trials=1, gamma0=0.8
    )
    result, table = run(spec, tmp_path)
    assert result.status == "done"
    narrow, wide = (table[table["width"] == width] for width in (20, 400))
    assert wide["status"].eq("ok").all()
    assert len(wide) == 61
    assert narrow["status"].tolist() == ["ok"] * (len(narrow) - 1) + ["contraction lost"]
    assert 1 < len(narrow) < 61
    assert narrow["norm"].iloc[-1] >= 1
    assert narrow["train_loss"].notna().tolist() == (narrow["status"] == "ok").tolist()
    # The wide run is compared over the time that the narrow one lived.
    early = wide[wide["time"] <= narrow["time"].iloc[-2]]
    assert wide["peak"].iloc[0] == early["distance_method"].max()


def test_no_width_that_contracts_makes_a_table_and_a_figure_all_the_same(tmp_path):
    result, table = run(make_spec(scaling="papers", gamma0=0.95, trials=1), tmp_path)
    assert result.status == "done"
    assert table["status"].eq("contraction lost").all()
    assert len(table) == 2
    assert table["norm"].gt(1).all()
    assert table[["peak", "slope", "bound", "train_loss"]].isna().all(axis=None)


def test_samples_have_norm_one_and_signs(tmp_path):
    for data in ("gmm", "sphere"):
        samples = flow.load_samples(make_spec(data), 0, None)
        for X, y, n in ((samples.X, samples.y, 16), (samples.X_test, samples.y_test, 12)):
            assert X.shape == (n, 10)
            np.testing.assert_allclose(np.linalg.norm(X, axis=1), 1)
            assert set(y) == {-1.0, 1.0}
        assert not (samples.X[:12] == samples.X_test).any()
        if data == "sphere":
            np.testing.assert_array_equal(samples.y, np.sign(samples.X[:, 0]))
    again, other = (flow.load_samples(make_spec("sphere"), trial, None) for trial in (0, 1))
    np.testing.assert_array_equal(samples.X, again.X)
    assert not np.isclose(samples.X, other.X).any()


@pytest.fixture
def toy(tmp_path):
    """Files of two and of three classes."""
    rng = np.random.default_rng(0)
    for classes in (2, 3):
        X, y = rng.random((60, 4)) + 1, np.arange(60) % classes + 5
        np.savez(tmp_path / f"{classes}.npz", X=X, y=y)
    np.savez(tmp_path / "zero.npz", X=np.zeros((60, 4)), y=np.arange(60) % 2)
    return tmp_path


def test_a_file_of_ones_own(toy):
    name = str(toy / "2.npz")
    centred, raw = (
        flow.load_samples(make_spec(name, p=None, preprocess=how), 0, None)
        for how in ("centred", "raw")
    )
    for samples in (centred, raw):
        assert (samples.X.shape, samples.X_test.shape) == ((16, 4), (12, 4))
        np.testing.assert_allclose(np.linalg.norm(samples.X, axis=1), 1)
    assert (raw.X > 0).all()
    assert (centred.X < 0).any()
    np.testing.assert_array_equal(centred.y, np.repeat([-1.0, 1.0], 8))
    assert make_spec(name, p=None, preprocess="unit") == make_spec(name, p=None)
    three = make_spec(str(toy / "3.npz"), p=None, classes="7,5")
    assert set(flow.load_samples(three, 0, None).y) == {-1.0, 1.0}
    rest = flow.load_samples(make_spec(name, p=None, n=None), 0, None)
    assert (len(rest.y), len(rest.y_test)) == (48, 12)
    with pytest.raises(DataError, match="is zero"):
        make_spec(str(toy / "zero.npz"), p=None, preprocess="raw")
    with pytest.raises(DataError, match="more samples than there are"):
        make_spec(name, p=None, test_size=50)


def test_two_classes_are_asked_for(toy):
    for data, changes in (
        ("gmm", {"classes": "3", "p": 30}),
        (str(toy / "3.npz"), {"p": None}),
        (str(toy / "3.npz"), {"p": None, "classes": "5"}),
    ):
        with pytest.raises(InputError, match="--classes"):
            make_spec(data, **changes)


@pytest.mark.parametrize(
    ("name", "classes", "words"),
    [("mnist", None, "10 classes"), ("mnist:test", ["0", "1"], "test")],
)
def test_of_named_data_two_classes_with_a_test_half(monkeypatch, name, classes, words):
    found = {"data": name, "n": 9, "p": 4, "classes": classes, "select": "random"}
    monkeypatch.setattr(inputs, "resolve", lambda **_: found)
    with pytest.raises(InputError, match=words):
        make_spec(name)


@pytest.mark.parametrize(
    ("changes", "option"),
    [
        ({"widths": (5, 5)}, "--widths"),
        ({"widths": (1,)}, "--widths"),
        ({"test_size": 0}, "--test-size"),
        ({"gamma0": 1.5}, "--gamma0"),
        ({"init": "ones"}, "--init"),
    ],
)
def test_bad_settings(changes, option):
    with pytest.raises(InputError, match=option):
        make_spec(**changes)


def test_the_equation_is_tabulated_at_the_checkpoints(tmp_path):
    spec = make_spec(settings=Settings("ode", steps=5), widths=(30,), trials=1)
    table = run(spec, tmp_path)[1]
    assert table["step"].tolist() == checkpoints(5)
    assert (table["distance"] == table["distance_method"]).all()
    assert table["slope"].isna().all()
