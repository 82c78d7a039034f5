"""The theory on real data: the numbers that a run on MNIST must give."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from deqcli.equivalents import operator_distance, operator_norm
from deqcli.studies import inputs

_BESIDE = Path(__file__).parents[3] / "shared" / "data"
FOLDER = Path(os.environ.get("DEQCLI_DATA_DIR", _BESIDE))

needs_mnist = pytest.mark.skipif(
    not (FOLDER / "mnist").is_dir(), reason="MNIST is not in DEQCLI_DATA_DIR"
)


def distance(n: int) -> tuple[float, float]:
    spec = inputs.resolve(
        data="mnist", n=n, p=None, classes="6,8", mean_norm=8.0, covariance="papers",
        select="first", preprocess="centred", data_dir=str(FOLDER),
    )  # fmt: skip
    loaded = inputs.load({**spec, "seed": 0}, data_dir=str(FOLDER))
    model = inputs.model(loaded, "tanh", 0.1, 0.9)
    kernel = model.kernels().preactivation_ck
    closed = model.equivalent("preactivation_ck")
    return operator_distance(kernel, closed), operator_norm(kernel)


@needs_mnist
def test_mnist_6_v_8_first_500_of_each():
    apart, norm = distance(1000)
    assert apart == pytest.approx(0.730, abs=0.001)
    assert norm == pytest.approx(138.3, abs=0.1)


@needs_mnist
@pytest.mark.slow
def test_mnist_6_v_8_first_3000_of_each():
    apart, norm = distance(6000)
    assert apart == pytest.approx(4.23, abs=0.01)
    assert norm == pytest.approx(789.9, abs=0.1)
