"""The study of training: its samples, its table, its promises."""

import numpy as np
import pytest

from deqcli.errors import DataError, InputError
from deqcli.flow.promises import promises
from deqcli.flow.training import checkpoints
from deqcli.runs.execute import run
from deqcli.studies.flow import STUDY, FlowSettings, Prepared, _columns

SMALL = {
    "data": "gmm", "n": 16, "p": 10, "mean_norm": 4.0, "widths": (60, 30), "trials": 2, "steps": 8,
    "test_size": 12,
}  # fmt: skip


def make(**changes):
    return FlowSettings(**SMALL | changes)


@pytest.fixture(scope="module")
def table():
    """Two widths and two trials."""
    return run(make(), jobs=1).table


def test_the_table_has_a_row_a_step_and_these_columns(table):
    assert list(table.columns) == [
        "width", "trial", "step", "time", "status", "train_loss", "train_error", "envelope",
        "test_loss", "test_error", "test_absolute", "norm", "contraction", "lambda_min",
        "lambda_max", "kernel_change", "distance", "distance_method", "sweeps", "bound",
        "rademacher", "gamma",
        "step_size", "n", "p", "n_test", "peak", "peak_flow", "window", "slope",
        "slope_flow", "data", "method", "init", "injection", "gamma0", "scaling",
    ]  # fmt: skip
    runs = table.groupby(["width", "trial"])
    assert list(runs.groups) == [(30, 0), (30, 1), (60, 0), (60, 1)]
    for _, rows in runs:
        assert rows["step"].tolist() == list(range(9))
        # Eight steps are all first ones.
        np.testing.assert_allclose(rows["time"], rows["step"] * rows["step_size"] / 64)
        assert rows["norm"].iloc[0] == pytest.approx(0.5, rel=1e-7)
        measured = rows.dropna(subset="lambda_min")
        assert measured["step"].tolist() == checkpoints(8)
        assert rows["step_size"].iloc[0] == pytest.approx(1 / rows["lambda_max"].iloc[0])
    assert (table["status"] == "ok").all()
    assert (table[["n", "p", "n_test"]] == [16, 10, 12]).all(axis=None)


def test_peaks_are_over_the_common_time_and_the_slope_is_theirs(table):
    common = table.groupby(["width", "trial"])["time"].max().min()
    early = table[table["time"] <= common * (1 + 1e-9)].groupby(["width", "trial"])
    expected = early["distance_method"].max()
    peaks = table.groupby(["width", "trial"])["peak"].first()
    np.testing.assert_allclose(peaks, expected, rtol=1e-9)
    means = expected.groupby("width").mean()
    slope = np.log(means[60] / means[30]) / np.log(2)
    assert table["slope"].iloc[0] == pytest.approx(slope)
    np.testing.assert_allclose(table["window"], common, rtol=1e-9)


def test_promises_say_what_the_table_says(table):
    rows = table.query("width == 60 and trial == 1")
    summary = promises(rows)
    assert summary["steps"] == summary["test_step"] == 8
    assert summary["lambda0"] == rows["lambda_min"].iloc[0]
    assert summary["lambda_min_ratio"] == rows["lambda_min"].min() / rows["lambda_min"].iloc[0]
    # The rows of a CSV have ten digits.
    assert summary["envelope_ratio"] == pytest.approx(1.0, rel=1e-9)
    late = rows.query("step in (4, 8)")
    assert summary["rate"] == pytest.approx(
        -np.diff(np.log(late["train_loss"]))[0] / np.diff(late["time"])[0]
    )
    assert summary["largest_rise"] == rows["train_loss"].diff().max()
    assert summary["bound"] == rows["bound"].iloc[0]
    lost = rows.assign(status="contraction lost", norm=1.5)
    assert promises(lost) == {"norm_start": 1.5}


def test_promises_of_a_run_that_was_never_tested_or_has_a_singular_kernel(table):
    rows = table.query("width == 60 and trial == 1 and step == 0")
    tests = dict.fromkeys(("test_loss", "test_error", "test_absolute"), np.nan)
    summary = promises(rows.assign(**tests))
    assert summary["test_step"] is summary["test_loss"] is summary["test_error"] is None
    assert summary["lambda0"] == rows["lambda_min"].iloc[0]
    assert promises(rows.assign(lambda_min=0.0))["lambda_min_ratio"] is None


def test_a_width_that_stops_to_contract_keeps_its_rows():
    result = run(
        make(
            data="sphere",
            steps=60,
            first_step=1.0,
            n=30,
            p=20,
            widths=(20, 400),
            trials=1,
            gamma0=0.8,
        ),
        jobs=1,
    )
    assert (result.status, result.exit_code) == ("done", 3)
    narrow, wide = (result.table[result.table["width"] == width] for width in (20, 400))
    assert wide["status"].eq("ok").all()
    assert len(wide) == 61
    assert narrow["status"].tolist() == ["ok"] * (len(narrow) - 1) + ["contraction lost"]
    assert 1 < len(narrow) < 61
    assert narrow["norm"].iloc[-1] >= 1
    assert narrow["train_loss"].notna().tolist() == (narrow["status"] == "ok").tolist()
    # The wide run is compared over all its time: the narrow one is left out.
    assert wide["peak"].iloc[0] == pytest.approx(wide["distance_method"].max(), rel=1e-9)
    assert narrow["peak"].isna().all()
    assert wide["window"].iloc[0] == pytest.approx(wide["time"].iloc[-1], rel=1e-9)


def point(end, distances, n=4):
    """The arrays of one point whose distances to the linearised path are these."""
    steps = np.arange(len(distances))
    columns = dict.fromkeys(_columns(), np.ones(len(steps)))
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
    settings = make(widths=(10, 20, 40), trials=1)
    points = {
        f"width={width} trial=0": point(*run)
        for width, run in zip(settings.widths, runs, strict=True)
    }
    assembled = STUDY.assemble(Prepared(settings, ()), points.__getitem__)
    assert assembled.findings["slope"] == (slope if slope is None else pytest.approx(slope))
    assert assembled.findings["window"] == window
    expected = [end != "steps done" for end, _ in runs]
    assert [run["lost"] for run in assembled.findings["runs"]] == expected
    assert len(STUDY.shortcomings(assembled.findings)) == sum(expected)
    peaks = assembled.table.groupby("width")["peak"].first()
    assert peaks.isna().tolist() == [lost or window is None for lost in expected]


def test_no_width_that_contracts_makes_a_table_and_a_figure_all_the_same():
    result = run(make(scaling="papers", gamma0=0.95, trials=1), jobs=1)
    table = result.table
    assert (result.status, result.exit_code) == ("done", 3)
    assert table["status"].eq("contraction lost").all()
    assert len(table) == 2
    assert table["norm"].gt(1).all()
    assert table[["peak", "slope", "bound", "train_loss"]].isna().all(axis=None)
    assert result.figure().axes


def test_samples_have_norm_one_and_signs():
    for data in ("gmm", "sphere"):
        samples, other = STUDY.prepare(make(data=data)).samples
        for X, y, n in ((samples.X, samples.y, 16), (samples.X_test, samples.y_test, 12)):
            assert X.shape == (n, 10)
            np.testing.assert_allclose(np.linalg.norm(X, axis=1), 1)
            assert set(y) == {-1.0, 1.0}
        assert not (samples.X[:12] == samples.X_test).any()
        if data == "sphere":
            np.testing.assert_array_equal(samples.y, np.sign(samples.X[:, 0]))
    again, _ = STUDY.prepare(make(data="sphere")).samples
    np.testing.assert_array_equal(samples.X, again.X)
    assert not np.isclose(samples.X, other.X).any()


@pytest.fixture
def own(tmp_path):
    """Files of one, two and three classes, and settings that name one."""
    rng = np.random.default_rng(0)
    for classes in (1, 2, 3):
        X, y = rng.random((60, 4)) + 1, np.arange(60) % classes + 5
        np.savez(tmp_path / f"{classes}.npz", X=X, y=y)
    np.savez(tmp_path / "zero.npz", X=np.zeros((60, 4)), y=np.arange(60) % 2)
    return lambda name, **changes: make(data=str(tmp_path / f"{name}.npz"), p=None, **changes)


def test_a_file_of_ones_own(own):
    centred, raw = (STUDY.prepare(own(2, preprocess=how)).samples[0] for how in ("centred", "raw"))
    for samples in (centred, raw):
        assert (samples.X.shape, samples.X_test.shape) == ((16, 4), (12, 4))
        np.testing.assert_allclose(np.linalg.norm(samples.X, axis=1), 1)
    assert (raw.X > 0).all()
    assert (centred.X < 0).any()
    np.testing.assert_array_equal(centred.y, np.repeat([-1.0, 1.0], 8))
    # Scaled to norm 1 in any case, so that the two are one run.
    assert own(2, preprocess="unit").identity() == own(2).identity()
    assert set(STUDY.prepare(own(3, classes="7,5")).samples[0].y) == {-1.0, 1.0}
    rest = STUDY.prepare(own(2, n=None)).samples[0]
    assert (len(rest.y), len(rest.y_test)) == (48, 12)
    with pytest.raises(DataError, match="is zero"):
        STUDY.prepare(own("zero", preprocess="raw"))
    with pytest.raises(DataError, match="`n` is 16, more samples than there are"):
        STUDY.prepare(own(2, test_size=50))


def test_two_classes_are_asked_for(own):
    for name, classes, words in (
        (3, None, r"3.npz, which has 3 class\(es\), .* name two as `classes`, such as 5,6"),
        (3, "5", "`classes` is 5 and two classes are told apart; give two labels"),
        (1, None, r"1.npz, which has 1 class\(es\), and two are told apart; give others"),
    ):
        with pytest.raises(InputError, match=words):
            own(name, classes=classes)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"classes": "3", "p": 30}, "`classes` is 3 and two classes are told apart; give 2"),
        ({"data": "mnist", "p": None}, r"which has 10 class\(es\).* such as 0,1"),
        ({"data": "mnist", "p": None, "classes": "0"}, "`classes` is 0 .* give two labels"),
        ({"data": "mnist:test", "p": None, "classes": "0,1"}, "leave out ':test'"),
        ({"widths": (5, 5)}, "`widths` has 5 twice; give each value once"),
        ({"widths": (1,)}, "`widths` is 1; give a whole number at least 2"),
        ({"test_size": 1}, "`test_size` is 1; give a whole number at least 2"),
        ({"test_size": 1, "data": "sphere"}, "`test_size`"),
        ({"n": 1}, "`n` is 1; give a whole number at least 2"),
        ({"trials": 0}, "`trials` is 0; give a whole number at least 1"),
        ({"gamma0": 1.5}, "`gamma0` is 1.5; give a finite number above 0 and below 1"),
        ({"init": "ones"}, "`init` is 'ones'; choose from gaussian"),
    ],
)
def test_bad_settings(changes, words):
    with pytest.raises(InputError, match=words):
        make(**changes)


def test_the_equation_is_tabulated_at_the_checkpoints():
    table = run(make(method="ode", steps=5, widths=30, trials=1), jobs=1).table
    assert table["step"].tolist() == checkpoints(5)
    assert (table["distance"] == table["distance_method"]).all()
    assert table["slope"].isna().all()
