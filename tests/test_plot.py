"""Figures of plain arrays show what they were given."""

from __future__ import annotations

import numpy as np
import pytest

import deqcli
from deqcli.errors import DataError, InputError

RNG = np.random.default_rng(0)
X = RNG.standard_normal((150, 200)) / np.sqrt(200)
Y = np.repeat([0, 1], 75)


def heights(axes, bins):
    """Count the eigenvalues behind each histogram."""
    return [patch.get_height() for patch in axes.patches][:bins]


def test_spectrum_of_matrices_operators_and_eigenvalues_is_one():
    scalars = deqcli.implicit_scalars("tanh", 0.1)
    M = deqcli.equivalent(X, Y, scalars)
    figures = [
        deqcli.plot.spectrum({"a": same}, isolated=2, title="t")
        for same in (M, M.dense(), M.eigenvalues(), RNG.permutation(M.eigenvalues()))
    ]
    first, *others = [heights(figure.axes[0], 12) for figure in figures]
    assert sum(first) > 0
    for other in others:
        np.testing.assert_allclose(other, first)
    marked = figures[0].axes[1].lines[0].get_xdata()
    np.testing.assert_allclose(marked, M.eigenvalues()[::-1][:2])
    assert figures[0].legends[0].get_title().get_text() == "t"


def test_spectra_have_the_papers_colours_and_labels():
    figure = deqcli.plot.spectrum({"DEQ": X @ X.T, "twin": 1.1 * (X @ X.T)}, isolated=0)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["DEQ", "twin"]
    assert len(figure.axes) == 1


def test_isolated_eigenvalues_are_found_by_themselves():
    values = np.append(np.linspace(0, 1, 60), [4.0, 9.0])
    figure = deqcli.plot.spectrum(values)
    assert sorted(figure.axes[1].lines[0].get_xdata()) == [4.0, 9.0]


def test_activations_are_drawn_with_their_shifts():
    act = deqcli.activation("relu").shifted(0.25)
    figure = deqcli.plot.activations({"mine": act, "other": np.sin}, reach=2)
    x, y = figure.axes[0].lines[0].get_data()
    np.testing.assert_allclose(y, np.maximum(x, 0) - 0.25)
    np.testing.assert_allclose(figure.axes[0].lines[1].get_ydata(), np.sin(x))


def test_errors_name_their_slope():
    n = np.array([100, 400, 1600])
    figure = deqcli.plot.errors(n, {"tanh": 3 / np.sqrt(n), "relu": 1 / n})
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    assert texts == ["tanh, slope -0.50", "relu, slope -1.00", "$n^{-1/2}$"]


@pytest.mark.parametrize(
    ("call", "kind", "said"),
    [
        (lambda: deqcli.plot.spectrum({}), InputError, "`number of spectra` is 0"),
        (lambda: deqcli.plot.spectrum({"a": X}), DataError, "give symmetric ones"),
        (lambda: deqcli.plot.spectrum(X @ X.T, isolated=150), InputError, "`isolated` is 150"),
        (lambda: deqcli.plot.activations("tahn"), InputError, "did you mean tanh"),
        (lambda: deqcli.plot.errors([2, 1], [1, 1]), InputError, "each larger than the last"),
        (lambda: deqcli.plot.errors([1, 2], [1, -1]), DataError, "2 numbers above 0"),
    ],
)
def test_wrong_input_is_told(call, kind, said):
    with pytest.raises(kind, match=said):
        call()


def test_long_names_and_titles_stay_inside():
    """One with formulas is its author's."""
    title = "what " * 30 + "x" * 90
    labels = {"a label that is much longer than the column that it is in " * 2: np.arange(5.0),
              r"$\frac{a}{b}$ " * 9: np.arange(5.0)}  # fmt: skip
    figure = deqcli.plot.spectrum(labels, isolated=0, title=title)
    figure.draw_without_rendering()
    (legend,) = figure.legends
    assert legend.get_window_extent().x0 >= 0
    assert legend.get_window_extent().x1 <= figure.bbox.x1
    assert r"$\frac{a}{b}$ " * 9 in [text.get_text() for text in legend.get_texts()]


def test_the_module_shows_its_figures_alone():
    assert dir(deqcli.plot) == ["activations", "errors", "spectrum"]
