import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex

from deqcli.figures.accuracy import draw
from deqcli.figures.style import DEQ, MATCHED, PAGE, PLAIN
from deqcli.paired import accuracies, gaps, last_epochs

ACCURACY = {"deq": 0.9, "matched": 0.89, "plain": 0.85}
COLORS = {"deq": DEQ, "matched": MATCHED, "plain": PLAIN}


def make_table(datasets=("mnist",), limits=True, trials=3, stopped=()):
    rng = np.random.default_rng(0)
    rows = []
    for dataset in datasets:
        for net, base in ACCURACY.items():
            for width in (32, 64, 128):
                for trial in range(trials):
                    for epoch in range(3):
                        status = "done"
                        if (net, width, trial) in stopped and epoch == 2:
                            status = "stopped: loss not finite in epoch 3"
                        value = base + 0.01 * epoch + width * 1e-4 + 1e-3 * rng.standard_normal()
                        rows.append((dataset, net, width, trial, epoch, value, 0.01 * width,
                                     0.02 * width, status))  # fmt: skip
            if limits:
                for kernel in ("ck", "ntk"):
                    name = f"{net}-{kernel}-limit"
                    rows.append((dataset, name, 0, 0, 0, base + 0.05, None, None, "done"))
    names = ["dataset", "net", "width", "trial", "epoch", "test_accuracy", "forward_seconds",
             "backward_seconds", "status"]  # fmt: skip
    return pd.DataFrame(rows, columns=names)


def by_color(axes):
    lines = [line for line in axes.lines if line.get_marker() in list("os^")]
    return {to_hex(line.get_color()): line for line in lines}


def test_panels_show_the_table():
    table = make_table(limits=False)
    figure = draw(table)
    assert figure.get_size_inches()[0] == PAGE
    accuracy, gap, seconds = figure.axes
    last = table[table["epoch"] == 2]
    for net, color in COLORS.items():
        rows = last[last["net"] == net].groupby("width")["test_accuracy"].mean()
        np.testing.assert_allclose(by_color(accuracy)[color].get_ydata(), rows)
        np.testing.assert_allclose(by_color(seconds)[color].get_ydata(), [0.96, 1.92, 3.84])
    expected = gaps(table)
    for net in ("matched", "plain"):
        line = by_color(gap)[COLORS[net]]
        shown = np.asarray(line.get_ydata(), float)
        np.testing.assert_allclose(shown, 100 * expected.loc[expected["net"] == net, "mean"])
    assert DEQ not in by_color(gap)
    assert len(accuracy.collections) == 3  # the spread of each
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == ["DEQ", "matched explicit", "plain explicit"]
    ticks = [axes.get_xticks().tolist() for axes in figure.axes]
    assert ticks == [[32, 64, 128]] * 3


def test_limits_are_horizontal_lines():
    figure = draw(make_table())
    flat = [line for line in figure.axes[0].lines if len(line.get_xdata()) == 2]
    assert len(flat) == 6
    assert {to_hex(line.get_color()) for line in flat} == set(COLORS.values())
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels[-2:] == ["infinite width, CK regression", "infinite width, NTK regression"]


def test_one_row_a_data_set():
    figure = draw(make_table(("mnist", "fashion-mnist")))
    assert len(figure.axes) == 6
    assert "fashion-mnist" in figure.axes[3].get_title()


def test_nothing_is_cut_off():
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    figure = draw(make_table(("mnist", "fashion-mnist")))
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    whole = figure.bbox
    renderer = canvas.get_renderer()
    for artist in (*figure.legends, *figure.axes):
        box = artist.get_tightbbox(renderer)
        assert box.x0 >= whole.x0 - 1
        assert box.x1 <= whole.x1 + 1
        assert box.y1 <= whole.y1 + 1


def test_gaps_are_paired_and_leave_out_stopped_trainings():
    table = make_table(stopped=[("plain", 64, 1)])
    assert len(last_epochs(table)) == 26
    assert np.isnan(accuracies(table).loc[("mnist", 64, 1), "plain"])
    differences = gaps(table).set_index(["net", "width"])
    assert differences.loc[("plain", 64), "trials"] == 2
    last = table[(table["epoch"] == 2) & (table["width"] == 128)].set_index(["net", "trial"])
    pairs = last.loc["deq", "test_accuracy"] - last.loc["matched", "test_accuracy"]
    assert differences.loc[("matched", 128), "mean"] == pytest.approx(pairs.mean())
    error = differences.loc[("matched", 128), "standard_error"]
    assert error == pytest.approx(pairs.std(ddof=1) / np.sqrt(3))


def test_one_trial_has_no_standard_error_and_can_be_drawn():
    table = make_table(trials=1)
    assert gaps(table)["standard_error"].isna().all()
    assert gaps(table).to_dict("records")[0]["standard_error"] is None
    draw(table)


@pytest.mark.parametrize("nets", [["deq"], ["plain"], ["matched", "plain"]])
def test_some_networks_only(nets):
    table = make_table(limits=False)
    table = table[table["net"].isin(nets)]
    assert gaps(table).empty
    draw(table)


def test_all_stopped_can_be_drawn():
    keys = [(net, width, k) for net in ACCURACY for width in (32, 64, 128) for k in range(3)]
    table = make_table(limits=False, stopped=keys)
    assert last_epochs(table).empty
    accuracy, gap, seconds = draw(table).axes
    # No accuracy and no gap is claimed; what the epochs cost was measured all the same.
    assert not by_color(accuracy)
    assert not by_color(gap)
    assert set(by_color(seconds)) == set(COLORS.values())
