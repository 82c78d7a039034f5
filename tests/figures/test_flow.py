"""The four panels say what the table says; drawn from frozen tables, never from a run."""

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

from deqcli.figures import flow
from deqcli.figures.style import PAGE


def flow_table(trials=1, lost=()):
    frames = []
    for width in (100, 400):
        for trial in range(trials):
            steps = np.arange(11 if width not in lost else 7)
            measured = np.isin(steps, [0, 1, 4, 10])
            frames.append(
                pd.DataFrame(
                    {
                        "width": width,
                        "trial": trial,
                        "step": steps,
                        "status": "ok",
                        "train_loss": 0.5 * 0.7**steps,
                        "envelope": 0.5 * 0.99**steps,
                        "test_loss": np.where(measured, 0.6 * 0.8**steps, np.nan),
                        "test_error": np.where(measured, 0.3 * (steps < 10), np.nan),
                        "norm": 0.5 + 0.01 * steps,
                        "bound": 3.0,
                        "peak": 40.0 / width,
                        "peak_flow": 80.0 / width,
                        "slope": -1.0,
                        "slope_flow": -1.0,
                        "window": 12.5,
                    }
                )
            )
            if width in lost:
                last = frames[-1].index[-1]
                frames[-1].loc[last, ["status", "norm"]] = ["contraction lost", 1.01]
                frames[-1].loc[last, ["train_loss", "envelope"]] = np.nan
    constants = {
        "data": "mnist", "n": 500, "method": "gd", "init": "gaussian", "injection": "relu",
        "gamma0": 0.5,
    }  # fmt: skip
    return pd.concat(frames, ignore_index=True).assign(**constants)


def test_each_panel_shows_its_columns():
    table = flow_table()
    figure = flow.draw(table)
    training, test, norm, peaks = figure.axes
    assert figure.get_size_inches()[0] == PAGE
    for k, width in enumerate((100, 400)):
        rows = table[table["width"] == width]
        loss, envelope = training.lines[2 * k : 2 * k + 2]
        np.testing.assert_array_equal(loss.get_ydata(), rows["train_loss"])
        np.testing.assert_array_equal(envelope.get_ydata(), rows["envelope"])
        assert envelope.get_linestyle() == "--"
        held_out, error, bound = test.lines[3 * k : 3 * k + 3]
        np.testing.assert_array_equal(held_out.get_ydata(), rows["test_loss"].dropna())
        # The error of 0 at the last step has no place on a logarithmic axis.
        assert error.get_xdata().tolist() == [0, 1, 4]
        assert set(bound.get_ydata()) == {3.0}
        np.testing.assert_array_equal(norm.lines[k].get_ydata(), rows["norm"])
        color = loss.get_color()
        for line in (envelope, held_out, error, bound, norm.lines[k], peaks.lines[k]):
            np.testing.assert_array_equal(line.get_color(), color)
        assert peaks.lines[k].get_xydata().tolist() == [[width, 80.0 / width]]
    assert training.get_yscale() == test.get_yscale() == peaks.get_yscale() == "log"
    assert norm.get_yscale() == "linear"


def test_trials_are_a_mean_with_their_range_as_far_as_all_go():
    table = flow_table(trials=3)
    table["train_loss"] *= 1 + table["trial"]
    # The third trial of the wider one ends at step 4.
    cut = (table["width"] == 400) & (table["trial"] == 2) & (table["step"] > 4)
    figure = flow.draw(table[~cut])
    training, test, _, _ = figure.axes
    assert len(training.lines) == 4
    assert len(test.lines) == 6
    narrow, wide = training.lines[0], training.lines[2]
    np.testing.assert_allclose(narrow.get_ydata(), 2 * 0.5 * 0.7 ** np.arange(11))
    assert wide.get_xdata().tolist() == [0, 1, 2, 3, 4]
    # The dashed envelope and the dotted error end there too, or they would jump.
    assert training.lines[3].get_xdata().tolist() == [0, 1, 2, 3, 4]
    assert test.lines[4].get_xdata().tolist() == [0, 1, 4]
    (path,) = training.collections[0].get_paths()
    assert path.vertices[:, 1].max() == pytest.approx(3 * 0.5)
    at_start = path.vertices[path.vertices[:, 0] == 0, 1]
    assert at_start.min() == pytest.approx(0.5)
    assert "mean and range of 3 trials" in figure.legends[0].get_title().get_text()


def test_the_fit_passes_through_the_points_and_the_guide_has_the_promised_slope():
    peaks = flow.draw(flow_table(trials=2)).axes[3]
    points = [line for line in peaks.lines if len(line.get_xdata()) == 1]
    flow_fit, guide, fit = (line for line in peaks.lines if line not in points)
    assert [line.get_marker() for line in points] == ["o"] * 4 + ["s"] * 4
    np.testing.assert_allclose(fit.get_ydata(), [0.4, 0.1])
    np.testing.assert_allclose(flow_fit.get_ydata(), [0.8, 0.2])
    np.testing.assert_allclose(np.diff(np.log(guide.get_ydata())), -0.25 * np.log(4))
    labels = [text.get_text() for text in peaks.get_legend().get_texts()]
    assert labels == [
        r"to $\hat u(t)$, slope -1.00", "promised $m^{-1/4}$", "to linearised descent, slope -1.00",
    ]  # fmt: skip


def test_how_weak_the_envelope_is_is_said():
    texts = [text.get_text() for text in flow.draw(flow_table()).axes[0].get_legend().get_texts()]
    assert texts[1].endswith("ends at 0.9 of it")
    mixed = flow_table()
    mixed.loc[mixed["width"] == 400, "envelope"] = 0.5 * 0.9 ** mixed["step"]
    texts = [text.get_text() for text in flow.draw(mixed).axes[0].get_legend().get_texts()]
    assert texts[1].endswith("ends at 0.35 to 0.9 of it")
    stopped = flow.draw(flow_table(lost=(100,))).axes[0].get_legend().get_texts()
    assert stopped[1].get_text().endswith("ends at 0.9 of it")
    none = flow.draw(flow_table(lost=(100, 400))).axes[0].get_legend().get_texts()
    assert "ends at" not in none[1].get_text()


def test_what_was_run_is_said():
    figure = flow.draw(flow_table())
    legend = figure.legends[0]
    assert [text.get_text() for text in legend.get_texts()] == ["width 100", "width 400"]
    title = legend.get_title().get_text()
    for word in ("mnist", "n = 500", "gaussian A", "gradient descent", "$\\gamma_0$ = 0.5"):
        assert word in title
    assert (
        "gradient flow"
        in flow.draw(flow_table().assign(method="ode")).legends[0].get_title().get_text()
    )


def test_a_width_that_stopped_is_crossed_where_it_did():
    figure = flow.draw(flow_table(lost=(100,)))
    training, _, norm, _ = figure.axes
    crosses = [line for line in norm.lines if line.get_marker() == "x"]
    assert [line.get_xydata().tolist() for line in crosses] == [[[6, 1.01]]]
    assert training.lines[0].get_xdata().max() == 5
    limit = norm.lines[-1]
    assert set(limit.get_ydata()) == {1.0}
    assert not [line for line in flow.draw(flow_table()).axes[2].lines if line.get_marker() == "x"]


def test_a_norm_that_was_not_measured_has_no_cross():
    table = flow_table(lost=(100,))
    table.loc[table["status"] != "ok", "norm"] = np.nan
    norm = flow.draw(table).axes[2]
    assert not [line for line in norm.lines if line.get_marker() == "x"]


def test_the_last_panel_names_its_path_and_its_window():
    for method, path in (("gd", "descent"), ("ode", "flow")):
        peaks = flow.draw(flow_table().assign(method=method)).axes[3]
        assert peaks.get_ylabel() == "distance to the linearised path"
        labels = [text.get_text() for text in peaks.get_legend().get_texts()]
        assert labels[-1].startswith(f"to linearised {path}, slope")
        assert peaks.get_title() == "largest over the time all surviving runs share, t ≤ 12.5"
    assert not flow.draw(flow_table().assign(window=np.nan)).axes[3].get_title()


def test_without_a_slope_there_is_no_line():
    peaks = flow.draw(flow_table().assign(slope=np.nan, slope_flow=np.nan)).axes[3]
    assert [line.get_marker() for line in peaks.lines] == ["o", "o", "s", "s"]


def test_the_docstring_names_every_column_it_needs():
    text = flow.draw.__doc__.replace("\n", " ")
    for column in flow_table().columns:
        assert f" {column}," in text, column


def test_one_width_or_none_that_ran_is_no_obstacle(tmp_path):
    one = flow_table().query("width == 400").assign(slope=np.nan, slope_flow=np.nan, bound=np.inf)
    peaks = flow.draw(one).axes[3]
    assert len(peaks.lines) == 2
    none = (
        one.groupby("width").head(1)
        .assign(status="contraction lost", norm=1.4, peak=np.nan, peak_flow=np.nan, bound=np.nan)
    )  # fmt: skip
    figure = flow.draw(none)
    assert not figure.axes[0].lines
    figure.savefig(tmp_path / "none.png")


def test_drawing_twice_gives_the_same_bytes_and_leaves_settings_alone(tmp_path):
    with mpl.rc_context({"font.size": 33}):
        for name in ("a", "b"):
            flow.draw(flow_table()).savefig(tmp_path / f"{name}.png", metadata={"Software": None})
        assert mpl.rcParams["font.size"] == 33
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


@pytest.mark.parametrize("column", ["train_loss", "peak", "bound", "injection", "window"])
def test_the_table_must_have_the_columns(column):
    with pytest.raises(KeyError, match=column):
        flow.draw(flow_table().drop(columns=column))
