import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex

from deqcli import paired
from deqcli.display import around
from deqcli.figures.accuracy import draw
from deqcli.figures.style import DEQ, MATCHED, PAGE, PLAIN

ACCURACY = {"deq": 0.9, "matched": 0.89, "plain": 0.85}
COLORS = {"deq": DEQ, "matched": MATCHED, "plain": PLAIN}
PANELS = 8


def make_table(datasets=("mnist",), limits=True, trials=3, stopped=(), clipped=()):
    rng = np.random.default_rng(0)
    rows = []
    for dataset in datasets:
        for net, base in ACCURACY.items():
            for width in (32, 64, 128, *((0,) if limits else ())):
                name = net if width else f"{net}-limit"
                for trial in range(trials):
                    for epoch in range(3):
                        status = "projected" if (net, width) in clipped else "done"
                        if (net, width, trial) in stopped and epoch == 2:
                            status = "stopped: loss not finite in epoch 3"
                        value = base + 0.01 * epoch + width * 1e-4 + 1e-3 * rng.standard_normal()
                        seconds = (0.01 * width, 0.02 * width) if width else (None, None)
                        rows.append((dataset, name, width, trial, epoch, value,
                                     2 - value + 0.1 * rng.standard_normal(), *seconds,
                                     status))  # fmt: skip
    names = ["dataset", "net", "width", "trial", "epoch", "test_accuracy", "train_loss",
             "forward_seconds", "backward_seconds", "status"]  # fmt: skip
    return pd.DataFrame(rows, columns=names)


def by_color(axes):
    lines = [line for line in axes.lines if line.get_marker() in list("os^")]
    return {to_hex(line.get_color()): line for line in lines}


def diamonds(axes):
    lines = [line for line in axes.lines if line.get_marker() == "D"]
    return {to_hex(line.get_color()): line for line in lines}


def test_panels_show_the_table():
    table = make_table(limits=False, clipped=[("deq", 64)])
    figure = draw(table)
    assert figure.get_size_inches()[0] == PAGE
    _, *against_loss, gap, accuracy, clipped, seconds = figure.axes
    last = table[table["epoch"] == 2]
    for net, color in COLORS.items():
        rows = last[last["net"] == net].groupby("width")["test_accuracy"].mean()
        shown = np.asarray(by_color(accuracy)[color].get_ydata(), float)
        np.testing.assert_allclose(shown, rows)
        np.testing.assert_allclose(by_color(seconds)[color].get_ydata(), [0.96, 1.92, 3.84])
    expected = paired.gaps(table)
    for net in ("matched", "plain"):
        rows = expected[expected["net"] == net]
        panels = zip((*against_loss, gap), ("loss", "end", "distance", "accuracy"), strict=True)
        for axes, measure in panels:
            shown = np.asarray(by_color(axes)[COLORS[net]].get_ydata(), float)
            factor = 100 if measure == "accuracy" else 1
            np.testing.assert_allclose(shown, factor * rows[measure])
            assert DEQ not in by_color(axes)
    np.testing.assert_allclose(by_color(clipped)[DEQ].get_ydata(), [0, 100, 0])
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == ["DEQ", "matched explicit", "plain explicit"]
    ticks = [axes.get_xticks().tolist() for axes in figure.axes[1:]]
    assert ticks == [[32, 64, 128]] * (PANELS - 1)


def test_bars_are_the_intervals_of_the_findings():
    table = make_table()
    axes = draw(table).axes[1]
    rows = paired.gaps(table).query("net == 'plain' and width > 0")
    bars = {to_hex(bar.get_color()[0]): bar for bar in axes.collections}
    lengths = [np.ptp(path[:, 1]) / 2 for path in bars[PLAIN].get_segments()]
    # The last collection of a colour is its limit's; the widths' comes before.
    if len(lengths) == 1:
        bars = {to_hex(bar.get_color()[0]): bar for bar in reversed(axes.collections)}
        lengths = [np.ptp(path[:, 1]) / 2 for path in bars[PLAIN].get_segments()]
    np.testing.assert_allclose(lengths, rows["loss_interval"].astype(float))


def test_curves_have_every_width_and_a_band_for_the_widest():
    table = make_table()
    axes = draw(table).axes[0]
    curves = [line for line in axes.lines if len(line.get_xdata()) == 3]
    assert len(curves) == 2 * 4
    assert sum(line.get_linestyle() == "--" for line in curves) == 2
    assert len(axes.collections) == 2
    ratios = paired.log_ratios(table)["plain"].xs(128, level="width").groupby("epoch").mean()
    shown = [line for line in curves if to_hex(line.get_color()) == PLAIN
             and line.get_alpha() == 1 and line.get_linestyle() == "-"]  # fmt: skip
    np.testing.assert_allclose(shown[0].get_ydata(), np.exp(ratios))


def test_limits_stand_apart_at_infinity():
    figure = draw(make_table())
    for axes in figure.axes[1:5]:
        places = {color: float(line.get_xdata()[0]) for color, line in diamonds(axes).items()}
        assert set(places) == {MATCHED, PLAIN}
        assert len(set(places.values())) == 2
        assert min(places.values()) > 1.5 * 128
        assert axes.get_xticklabels()[-1].get_text() == "∞"
    assert set(diamonds(figure.axes[5])) == set(COLORS.values())
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels[-1] == "infinite width, by exact kernel"


def test_title_says_which_deq_was_trained_and_what_bars_are():
    table = make_table()
    bars = "bars and band: 95 % intervals of the mean over trials"

    def title(table):
        return draw(table).legends[0].get_title().get_text()

    assert title(table) == bars
    table = table.assign(act="maxlin:a=1.2,b=0.3", sigma_a2=0.25, train="readout")
    assert title(table) == rf"Leaky ReLU, $\sigma_a^2$ = 0.25, readout trained; {bars}"
    of_all = table[table["trial"] == 0].assign(train="all")
    assert title(of_all).endswith("0.25, all weights trained; one trial")


def test_three_rows_a_data_set():
    figure = draw(make_table(("mnist", "fashion-mnist")))
    assert len(figure.axes) == 2 * PANELS
    assert "fashion-mnist" in figure.axes[PANELS].get_title()


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


@pytest.mark.parametrize("trials", [1, 2])
def test_few_trials_can_be_drawn(trials):
    draw(make_table(trials=trials))


@pytest.mark.parametrize("nets", [["deq"], ["plain"], ["matched", "plain"], []])
def test_some_networks_only(nets):
    table = make_table(limits=False)
    draw(table[table["net"].isin(nets)])


def test_all_stopped_can_be_drawn():
    keys = [(net, width, k) for net in ACCURACY for width in (32, 64, 128) for k in range(3)]
    table = make_table(limits=False, stopped=keys)
    *panels, _, seconds = draw(table).axes
    # No difference is claimed; what the epochs cost was measured all the same.
    assert not any(by_color(axes) for axes in panels)
    assert set(by_color(seconds)) == set(COLORS.values())


def test_a_deq_alone_has_one_row_and_its_regression():
    table = make_table(limits=False).query("net == 'deq'").assign(deq_regression_accuracy=0.95)
    figure = draw(table)
    accuracy, _, seconds = figure.axes
    assert accuracy.get_title() == "mnist: test accuracy"
    np.testing.assert_allclose(by_color(seconds)[DEQ].get_ydata(), [0.96, 1.92, 3.84])
    assert [0.95, 0.95] in [list(line.get_ydata()) for line in accuracy.lines]
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == ["DEQ", "DEQ of infinite width, least squares"]


def test_what_is_predicted_stands_over_its_panel():
    table = make_table()
    figure = draw(table)
    for axes, row in zip(figure.axes[3:5], paired.resolution(table), strict=True):
        factor = 100 if row["measure"] == "accuracy" else 1
        predicted = around(factor * row["predicted"], factor * row["predicted_interval"])
        outcome = "trials are enough" if row["enough"] else "not told from 0"
        assert row["enough"] or not row["effect"]
        assert axes.get_title(loc="left").endswith(f"\n{predicted} at ∞: {outcome}")
    assert not any(axes.get_title(loc="left") for axes in draw(make_table(limits=False)).axes)


@pytest.mark.parametrize("nets", [["plain"], ["matched", "plain"]])
def test_without_the_deq_there_is_what_there_is_to_draw(nets):
    table = make_table(limits=False)
    figure = draw(table[table["net"].isin(nets)])
    share, seconds = figure.axes
    assert share.get_title() == "mnist: test accuracy"
    colors = {COLORS[net] for net in nets}
    assert set(by_color(share)) == set(by_color(seconds)) == colors
    assert "band" not in figure.legends[0].get_title().get_text()


def test_one_trial_has_no_band_and_shares_end_at_one():
    assert "band" not in draw(make_table(trials=1)).axes[0].get_title()
    table = make_table(trials=2)
    table["test_accuracy"] = np.where(table["trial"] == 0, 0.1, 0.9)
    low, high = draw(table).axes[PANELS - 3].get_ylim()
    assert -0.1 < low < 0
    assert 1 < high < 1.1


def test_ticks_of_widths_do_not_touch():
    table = make_table(limits=False)
    table["width"] = table["width"].map({32: 8, 64: 9, 128: 4000})
    for axes in draw(table).axes[1:]:
        assert axes.get_xticks().tolist() == [9, 4000]
