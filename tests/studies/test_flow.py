"""The study of training: its samples, its table, its survival."""

import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from deqcli.runs.task import execute

import deqcli
from deqcli.errors import DataError, InputError
from deqcli.flow.promises import promises
from deqcli.flow.training import Settings, checkpoints
from deqcli.runs.files import read_csv
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
        "step_size", "n", "p", "n_test", "peak", "slope", "window", "data", "method", "init",
        "injection", "gamma0", "scaling",
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
    assert table["window"].eq(common).all()


def test_promises_say_what_the_table_says(whole):
    rows = whole[1].query("width == 60 and trial == 1")
    found = promises(rows)
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
    assert promises(lost) == {"norm_start": 1.5}


def test_promises_of_a_run_that_was_never_tested_or_has_a_singular_kernel(whole):
    rows = whole[1].query("width == 60 and trial == 1 and step == 0")
    tests = dict.fromkeys(("test_loss", "test_error", "test_absolute"), np.nan)
    found = promises(rows.assign(**tests))
    assert found["test_step"] is found["test_loss"] is found["test_error"] is None
    assert found["lambda0"] == rows["lambda_min"].iloc[0]
    assert promises(rows.assign(lambda_min=0.0))["lambda_min_ratio"] is None


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
    # The wide run is compared over all its time: the narrow one is left out.
    assert wide["peak"].iloc[0] == wide["distance_method"].max()
    assert narrow["peak"].isna().all()
    assert wide["window"].iloc[0] == wide["time"].iloc[-1]


def fake_run(end, distances, n=4):
    """The arrays of one point whose distances to the linearised path are these."""
    steps = np.arange(len(distances))
    columns = dict.fromkeys(flow._COLUMNS, np.ones(len(steps)))
    status = ["ok"] * (len(steps) - 1) + ["ok" if end == "steps done" else end]
    numbers = dict.fromkeys(("bound", "rademacher", "gamma", "step_size"), np.array(1.0))
    return {
        **columns, **numbers, "step": steps, "time": steps * 1.0, "status": np.array(status),
        "distance_method": np.array(distances), "end": np.array(end), "shape": np.array([n, 3, 2]),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("runs", "slope", "window"),
    [
        # One lost early, at 10, neither shortens the time nor enters the fit.
        ([("contraction lost", [0, 9.0]), ("steps done", [0, 2, 8]), ("steps done", [0, 1, 2, 9])],
         -2.0, 2.0),
        # Fewer than two widths are left.
        ([("contraction lost", [0, 9.0]), ("stalled", [0, 2, 8]), ("steps done", [0, 1, 2, 9])],
         None, 3.0),
        # None is left.
        ([("contraction lost", [0, 9.0])] * 3, None, None),
        # No time: only the rounding at the start is shared.
        ([("steps done", [1e-16]), ("steps done", [1e-15, 2, 8]), ("steps done", [1e-16, 1, 2])],
         None, None),
        # A peak of rounding.
        ([("steps done", [0, 1e-13]), ("steps done", [0, 2]), ("steps done", [0, 1])], None, 1.0),
    ],
)  # fmt: skip
def test_lost_runs_and_rounding_do_not_enter_the_slope(runs, slope, window):
    spec = make_spec(widths=(10, 20, 40), trials=1)
    points = {
        f"width={width} trial=0": fake_run(*run)
        for width, run in zip(spec["widths"], runs, strict=True)
    }
    made = flow.assemble(spec, points.__getitem__)
    assert made.extra["slope"] == (slope if slope is None else pytest.approx(slope))
    assert made.extra["window"] == window
    expected = [end != "steps done" for end, _ in runs]
    assert [run["lost"] for run in made.extra["runs"]] == expected
    peaks = made.table.groupby("width")["peak"].first()
    assert peaks.isna().tolist() == [lost or window is None for lost in expected]


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
    """Files of one, two and three classes."""
    rng = np.random.default_rng(0)
    for classes in (1, 2, 3):
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
        ("gmm", {"classes": "3", "p": 30, "words": "--classes 3: .* --classes 2"}),
        (str(toy / "3.npz"), {"p": None, "words": "has 3 classes; name two classes, such as 5,6"}),
        (str(toy / "3.npz"), {"p": None, "classes": "5", "words": "--classes 5: name .* as 5,6"}),
        (str(toy / "1.npz"), {"p": None, "words": "has 1 class; give data"}),
    ):
        with pytest.raises(InputError, match=changes.pop("words")):
            make_spec(data, **changes)


@pytest.mark.parametrize(
    ("name", "classes", "words"),
    [
        ("mnist", None, "10 classes"),
        ("mnist", ["0"], "--classes 0: name two classes, such as 0,1"),
        ("mnist:test", ["0", "1"], "test"),
    ],
)
def test_of_named_data_two_classes_with_a_test_half(monkeypatch, name, classes, words):
    found = {"data": name, "n": 9, "p": 4, "classes": classes, "select": "random"}
    monkeypatch.setattr(inputs, "resolve", lambda **_: found)
    with pytest.raises(InputError, match=words):
        make_spec(name)


@pytest.mark.parametrize(
    ("changes", "option"),
    [
        ({"widths": (5, 5)}, "--widths 5,5"),
        ({"widths": (1,)}, "--widths 1"),
        ({"test_size": 1}, "--test-size must be at least 2, not 1"),
        ({"test_size": 1, "data": "sphere"}, "--test-size"),
        ({"n": 1}, "--n must be at least 2, not 1"),
        ({"trials": 0}, "--trials must be at least 1, not 0"),
        ({"gamma0": 1.5}, "`gamma0`"),
        ({"init": "ones"}, "`init`"),
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
