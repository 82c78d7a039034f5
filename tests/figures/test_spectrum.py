"""The figures say what their tables say; drawn from frozen tables, never from a run."""

from __future__ import annotations

import itertools

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

from deqcli.figures import error_vs_n, spectrum
from deqcli.figures.style import DEQ, MATCHED


def spectrum_table(isolated: int = 2, scale: float = 1.0) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    frames = []
    for k, source in enumerate(("equivalent", "exact", "monte-carlo")):
        bulk = np.sort(rng.uniform(0.1, 3, 200))[::-1] ** scale
        values = np.concatenate([[30.0 + k, 20.0 + k][:isolated], bulk])
        frames.append(
            pd.DataFrame(
                {
                    "source": source,
                    "index": np.arange(values.size),
                    "eigenvalue": values,
                    "isolated": np.arange(values.size) < isolated,
                    "distance": 0.125 * k,
                    "relative": 0.004 if k else np.nan,
                    "network_relative": 0.094 if k else np.nan,
                    "noise_floor": 0.017 if k == 2 else np.nan,
                    "kernel": "preactivation-ck",
                    "act": "tanh",
                    "sigma_a2": 0.1,
                    "data": "gmm",
                    "n": values.size,
                    "p": 300,
                    "realizations": 400,
                    "width": 1000,
                }
            )
        )
    return pd.concat(frames, ignore_index=True)


def test_spectrum_shows_spikes_apart_and_distances_in_the_legend():
    figure = spectrum.draw(spectrum_table())
    left, right = figure.axes
    # No isolated eigenvalue is inside the bulk's axis, and all of them are in the other.
    assert left.get_xlim()[1] < 20
    marks = [line for line in right.lines if line.get_marker() not in (None, "None")]
    marked = sorted(x for line in marks for x in line.get_xdata())
    assert marked == [20, 21, 22, 30, 31, 32]
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    assert any("0.25" in text for text in texts)
    assert any("0.125" in text for text in texts)
    assert any("equivalent" in text for text in texts)
    # A distance is set beside the kernel and beside its part that is not the inputs'.
    assert all("0.4 % of" in text and "9.4 % of" in text for text in texts if "exact" in text)
    assert [text for text in texts if "two such averages: 0.017 apart" in text] == [
        text for text in texts if "draws" in text
    ]


def test_spectrum_without_isolated_eigenvalues_has_one_panel():
    assert len(spectrum.draw(spectrum_table(isolated=0)).axes) == 1


def law_rows(carries: list[str], aligned: list[float]) -> pd.DataFrame:
    first = spectrum_table().iloc[:1].drop(columns=["source", "index", "eigenvalue", "isolated"])
    bulk = pd.DataFrame({"eigenvalue": [0.1, 1.0, 3.0], "density": [0.0, 0.6, 0.0],
                         "distribution": [0.0, 0.3, 1.0], "isolated": False})  # fmt: skip
    spikes = pd.DataFrame({"eigenvalue": [30.0, 20.0], "isolated": True,
                           "carries": carries, "aligned": aligned})  # fmt: skip
    rows = pd.concat([spikes, bulk], ignore_index=True)
    return rows.assign(source="law", index=np.arange(5), **dict(first.iloc[0]))


@pytest.mark.parametrize(
    ("carries", "shown"),
    [
        (["class 1", "norms"], {"class 1, 97 %", "norms"}),
        (["classes 4, 7, 9", "mean"], {"classes 4, 7, 9, 97 %", "mean, 3 %"}),
        (
            ["classes trouser, dress, ankle boot", "classes sandal, sneaker"],
            {"classes trouser, dress, ankle boot, 97 %", "classes sandal, sneaker, 3 %"},
        ),
    ],
)
def test_spikes_are_named_with_their_alignments_inside_the_axes(carries, shown):
    law = law_rows(carries, [0.968, 0.031])
    figure = spectrum.draw(pd.concat([spectrum_table(), law], ignore_index=True))
    right = figure.axes[1]
    texts = {" ".join(text.get_text().split()) for text in right.texts}
    assert texts == shown
    figure.canvas.draw()
    for text in right.texts:
        box = text.get_window_extent()
        assert box.x0 >= right.bbox.x0
        assert box.x1 <= right.bbox.x1
        assert box.y1 <= right.bbox.y1


def test_of_many_names_three_lines_are_shown_and_how_many_there_are_more():
    law = law_rows(["mean", "norms"], [0.968, 0.031])
    spikes, bulk = law[law["isolated"]], law[~law["isolated"]]
    many = pd.concat([spikes] * 7).assign(
        eigenvalue=np.linspace(20.0, 21.0, 14),
        carries=[f"classes {'long name ' * 9}{k}" for k in range(14)],
    )
    table = pd.concat([spectrum_table(), many, bulk], ignore_index=True)
    (text,) = spectrum.draw(table).axes[1].texts
    *lines, last = text.get_text().split("\n")
    assert len(lines) <= 3
    assert max(map(len, lines)) <= 21
    assert "…" in "".join(lines)
    assert last == "and 13 more"


def test_numbers_are_written_as_people_write_them():
    table = spectrum_table().assign(realizations=1, width=1, relative=1.34, network_relative=1e-5)
    labels = [text.get_text() for text in spectrum.draw(table).legends[0].get_texts()]
    (draws,) = (label for label in labels if "draw" in label)
    assert draws.startswith("1 draw of width 1, ")
    assert "130 % of" in draws
    assert "0.001 % of" in draws


@pytest.mark.parametrize("size", [1.0, 12.5, 1250.0, 12345.0])
def test_labels_of_isolated_eigenvalues_do_not_touch(size):
    table = spectrum_table()
    table["eigenvalue"] = table["eigenvalue"].where(~table["isolated"], size)
    figure = spectrum.draw(table)
    figure.draw_without_rendering()
    right = figure.axes[1]
    low, high = right.get_xlim()
    ticks = [tick for tick in right.xaxis.get_major_ticks() if low <= tick.get_loc() <= high]
    boxes = [tick.label1.get_window_extent() for tick in ticks]
    assert len(boxes) >= 2
    assert all(one.x1 < other.x0 for one, other in itertools.pairwise(boxes))


def test_wide_spectra_get_logarithmic_axes():
    left, right = spectrum.draw(spectrum_table(isolated=0, scale=9.0)).axes
    assert left.get_xscale() == "log"
    assert "largest" in right.get_xlabel()


def test_colours_are_the_papers():
    figure = spectrum.draw(spectrum_table())
    faces = {mpl.colors.to_hex(patch.get_facecolor()) for patch in figure.axes[0].patches}
    edges = {mpl.colors.to_hex(patch.get_edgecolor()) for patch in figure.axes[0].patches}
    assert DEQ in faces
    assert MATCHED in edges


def test_drawing_leaves_the_users_settings_alone():
    before = dict(mpl.rcParams)
    spectrum.draw(spectrum_table())
    assert dict(mpl.rcParams) == before


@pytest.mark.parametrize("draw_from", ["spectrum", "error"])
def test_text_is_legible_and_inside(draw_from):
    figure = (
        spectrum.draw(spectrum_table()) if draw_from == "spectrum" else error_vs_n.draw(errors())
    )
    figure.canvas.draw()
    box = figure.bbox
    for legend in figure.legends:
        extent = legend.get_window_extent()
        assert extent.x0 >= box.x0 - 1
        assert extent.x1 <= box.x1 + 1
    for axes in figure.axes:
        assert axes.xaxis.label.get_size() >= 6
        assert axes.get_xlabel()


def errors() -> pd.DataFrame:
    rows = [
        {"act": act, "n": n, "trial": trial, "error": c * n**-0.5 * (1 + 0.05 * trial),
         "slope": -0.5, "kernel": "ck", "sigma_a2": 0.2, "data": "gmm", "estimator": "exact"}
        for act, c in (("relu", 1.0), ("tanh", 2.0))
        for n in (64, 256, 1024)
        for trial in (0, 1)
    ]  # fmt: skip
    return pd.DataFrame(rows)


def test_error_lines_are_the_means_and_the_guide_has_slope_minus_half():
    axes = error_vs_n.draw(errors()).axes[0]
    relu, tanh, guide = axes.lines
    np.testing.assert_allclose(relu.get_ydata(), 1.025 * np.array([64, 256, 1024]) ** -0.5)
    np.testing.assert_allclose(tanh.get_ydata(), 2.05 * np.array([64, 256, 1024]) ** -0.5)
    x, y = np.log(guide.get_xdata()), np.log(guide.get_ydata())
    np.testing.assert_allclose(np.diff(y) / np.diff(x), -0.5)
    assert guide.get_ydata().max() < relu.get_ydata().max()


def test_each_of_nine_activations_has_its_own_colour_and_marker():
    table = pd.concat([errors().assign(act=f"module:f{k}") for k in range(20)], ignore_index=True)
    lines = [x for x in error_vs_n.draw(table).axes[0].lines if x.get_marker() != "None"]
    assert len({(x.get_color(), x.get_marker()) for x in lines}) == 20


@pytest.mark.parametrize("others", [["relu", "tanh"], []])
def test_errors_that_are_rounding_are_named_and_not_drawn(others):
    table = errors()
    exact = table[table["act"] == "tanh"].assign(act="identity", slope=np.nan, own_slope=np.nan)
    exact = exact.assign(error=1e-16 * exact["n"], own_error=1e-16 * exact["n"])
    drawn = pd.concat([table[table["act"].isin(others)], exact], ignore_index=True)
    axes = error_vs_n.draw(drawn).axes[0]
    assert [line.get_label() for line in axes.lines if "exact" in line.get_label()]
    drawn = np.concatenate([line.get_ydata() for line in axes.lines])
    assert drawn.size == 0 or drawn.min() > 1e-3


@pytest.mark.parametrize("name", ["lrelu:slope=0.1", "maxlin:a=1.2,b=0.3"])
def test_figures_have_peoples_names_of_activations(name):
    title = spectrum.draw(spectrum_table().assign(act=name)).legends[0].get_title().get_text()
    labels = [line.get_label() for line in error_vs_n.draw(errors().assign(act=name)).axes[0].lines]
    for text in (title, labels[0]):
        assert "Leaky ReLU" in text
        assert name.partition(":")[0] not in text


def test_a_spectrum_of_which_only_the_density_is_known_is_drawn_by_its_quantiles():
    table = spectrum_table(isolated=2).query("source != 'monte-carlo'").assign(error=np.nan)
    known = table[table["index"] < 5]
    at = np.linspace(0, 3, 50)
    densities = [
        rows.iloc[[0]].loc[rows.index[:1].repeat(50)].assign(
            isolated=False, index=5 + np.arange(50), eigenvalue=at, density=0.33,
            distribution=at / 3 * 197 / 202, error=0.01,
        )
        for _, rows in known.groupby("source")
    ]  # fmt: skip
    figure = spectrum.draw(pd.concat([known, *densities], ignore_index=True))
    left, right = figure.axes
    assert left.get_xlim()[1] < 4
    # All below the isolated ones, three of them known, uniformly: what is filled is flat.
    heights = np.array([bar.get_height() for bar in left.patches[:10]])
    np.testing.assert_allclose(heights, 1 / 3, rtol=0.15)
    marks = [line for line in right.lines if line.get_marker() not in (None, "None")]
    assert sorted(x for line in marks for x in line.get_xdata()) == [20, 21, 30, 31]
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    assert [("stochastic Lanczos" in text) for text in texts] == [
        text.startswith("exact") for text in texts
    ]
