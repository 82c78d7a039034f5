"""The theory on real data: the numbers that a run on MNIST must give."""

from __future__ import annotations

import pytest

import deqcli


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "distance", "norm"), [(1000, (0.730, 0.001), 138.3), (6000, (4.23, 0.01), 789.9)]
)
def test_mnist_6_v_8_first_of_each(real_data, n, distance, norm):
    result = deqcli.run(
        "spectrum", data="mnist", classes="6,8", n=n, select="first", act="tanh", sigma_a2=0.1,
        kernel="preactivation-ck", estimator="exact", data_dir=str(real_data), jobs=1,
    )  # fmt: skip
    exact = result.findings["distances"]["exact"]
    value, tolerance = distance
    assert exact["distance"] == pytest.approx(value, abs=tolerance)
    assert exact["norm"] == pytest.approx(norm, abs=0.1)
