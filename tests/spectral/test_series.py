"""Densities as series, against distributions that are known."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm, semicircular

from deqcli.spectral.series import Series, Span


@pytest.mark.parametrize("width", [1.0, 0.1, 0.02])
@pytest.mark.parametrize("span", [Span(-10.0, 10.0), Span(-0.02, 25.0), Span(1e-3, 30.0)])
def test_a_bulk_that_is_far_narrower_than_its_interval_is_not_lost(width, span):
    middle, radius = 0.5 * (span.left + span.right), 0.5 * (span.right - span.left)
    wide = semicircular(middle, radius)
    narrow = norm(span.left + 0.2 + 7 * width, width)

    def density(x):
        return 0.9 * narrow.pdf(x) + 0.1 * wide.pdf(x)

    x = np.sort(np.concatenate([narrow.ppf(np.linspace(1e-6, 1 - 1e-6, 50)), wide.ppf([0.4, 1])]))
    series = Series.of(density, span, 400, halved=True)
    expected = 0.9 * narrow.cdf(x) + 0.1 * wide.cdf(x)
    np.testing.assert_allclose(series.distribution(x), expected, atol=1e-5)
    np.testing.assert_allclose(series.density(x[:-1]), density(x[:-1]), atol=1e-3 / width)
    # A table's points are near each other where the distribution rises.
    points = series.points(120)
    assert np.all(np.diff(points[::-1]) >= 0)
    assert np.diff(series.distribution(points[::-1])).max() < 0.5


def test_one_piece_is_enough_where_nothing_is_narrow():
    wide = semicircular(1.0, 1.0)
    series = Series.of(wide.pdf, Span(0.0, 2.0), 400, halved=True)
    assert len(series.pieces) == 1
    x = np.linspace(-0.5, 2.5, 301)
    np.testing.assert_allclose(series.distribution(x), wide.cdf(x), atol=1e-12)
    assert series.points(120).size == 121
