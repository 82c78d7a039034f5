"""The table of settings drawn at random, and what docs/theory.md §11 says of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from deqcli import implicit_kernels, implicit_scalars

from . import drawn
from .simulated import tangent_of_deq

pytestmark = pytest.mark.filterwarnings("ignore::deqcli.errors.OutsidePapersRangeWarning")
THEORY = Path(__file__).parents[2] / "docs" / "theory.md"
SETTINGS = range(drawn.SETTINGS)
# Full covariances of hundreds of dimensions take up to minutes: those of the first are enough.
FULL = [number for number in SETTINGS if "full" in drawn.table()["setting"][number]]
FEW = [number for number in SETTINGS if number not in FULL and number < 40]
MORE = [n for n in SETTINGS if n not in FEW and (n < 40 or n not in FULL)]


def test_the_settings_are_those_of_the_seed():
    assert drawn.table()["setting"].tolist() == [drawn.drawn(i).described for i in SETTINGS]


def _predicted_again(numbers):
    rows = drawn.table()
    for number in numbers:
        found = drawn.drawn(number).predicted()
        # Another scipy may take other points of the cubature.
        known = np.array(rows["predicted_classes"][number].split(), dtype=float)
        np.testing.assert_allclose(found, known, atol=5e-4, err_msg=rows["setting"][number])


def test_what_is_predicted():
    _predicted_again(FEW)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_what_is_predicted_of_others(part):
    _predicted_again(MORE[part::4])


@pytest.mark.slow
@pytest.mark.parametrize("number", [6, 25, 37, 39])
def test_what_networks_do(number):
    """Exact kernels; one layer in all weights, a DEQ in them, and in its readout alone."""
    setting, row = drawn.drawn(number), drawn.table().loc[number]
    again = drawn.measurement(setting)
    # Of thousands of samples rounding moves a few across the border.
    for name in ("measured", "standard_error"):
        assert again[name] == pytest.approx(row[name], abs=5e-4)


def test_what_is_outside_was_measured_again():
    assert pd.read_csv(drawn.REPEATED)["number"].tolist() == drawn.outside()


@pytest.mark.slow
def test_what_other_networks_do():
    rows = pd.read_csv(drawn.REPEATED, index_col="number")
    found = drawn.repetition(drawn.drawn(75))
    for name in ("measured", "standard_error"):
        assert found[name] == pytest.approx(rows[name][75], abs=5e-4)


def test_what_the_theory_says_of_the_table():
    text = THEORY.read_text(encoding="utf-8").replace("−", "-")
    for statement in drawn.statements():
        assert statement in text


def test_the_tangent_kernel_of_a_wide_deq_is_the_exact_one():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((12, 40)) / np.sqrt(40)
    s = implicit_scalars("gelu", 0.3)
    (exact,) = implicit_kernels(X, s.act, s.sigma_a2, s.sigma_b2).compute("ntk")
    found = np.mean([tangent_of_deq(X, s, 1000, rng) for _ in range(4)], axis=0)
    # The readouts' norms alone scale most of it by one plus noise of variance 2 / 4000.
    assert np.linalg.norm(found - exact) < 0.1 * np.linalg.norm(exact)
