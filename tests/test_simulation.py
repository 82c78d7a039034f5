"""The mean over simulated networks and its noise, against closed forms and other seeds."""

from __future__ import annotations

import numpy as np
import pytest

import deqcli
from deqcli.errors import ConvergenceError, InputError

X = np.random.default_rng(0).standard_normal((12, 9)) / 3


def test_mean_is_that_of_the_networks_one_by_one():
    from functools import partial

    from deqcli.runs.seeds import stream

    act = deqcli.activation("relu")
    ensemble = deqcli.Ensemble(act, 0.2, 0.8, width=60, kernels=("ntk",))
    each = [
        deqcli.accumulate(X, ensemble, [k], partial(stream, 3, "simulate")).mean("ntk")
        for k in range(7)
    ]
    total = deqcli.simulate(X, "relu", 0.2, kernel="ntk", width=60, realizations=7, seed=3)
    np.testing.assert_allclose(total.mean, np.mean(each, axis=0), atol=1e-12)
    error = np.std(each, axis=0, ddof=1) / np.sqrt(7)
    np.testing.assert_allclose(total.standard_error, error, rtol=1e-6, atol=1e-12)
    signed = sum((-1) ** k * (one - np.mean(each, axis=0)) for k, one in enumerate(each)) / 7
    assert total.noise == pytest.approx(np.linalg.norm(signed, 2), rel=1e-6)
    assert np.asarray(total).shape == (12, 12)


def test_noise_is_how_far_means_of_other_seeds_lie():
    """Thirty means of twenty networks each: their spread is what each says of itself."""
    runs = [
        deqcli.simulate(X, "tanh", 0.1, width=40, realizations=20, seed=seed) for seed in range(30)
    ]
    centre = np.mean([run.mean for run in runs], axis=0)
    apart = [np.linalg.norm(run.mean - centre, 2) for run in runs]
    # A norm of thirty varies by some 15 %, its mean by 3 %; 20 % is six of those.
    assert np.mean([run.noise for run in runs]) == pytest.approx(np.mean(apart), rel=0.2)
    spread = np.std([run.mean for run in runs], axis=0, ddof=1)
    claimed = np.sqrt(np.mean([run.standard_error**2 for run in runs], axis=0))
    assert np.median(claimed / spread) == pytest.approx(1, abs=0.1)


def test_linear_networks_approach_their_closed_form():
    total = deqcli.simulate(X, "identity", 0.0, width=300, realizations=30)
    assert np.linalg.norm(total.mean - X @ X.T, 2) < 4 * total.noise


def test_seed_decides_and_bad_numbers_are_refused():
    one, again, other = (
        deqcli.simulate(X, np.tanh, 0.1, width=20, realizations=2, seed=s) for s in (1, 1, 2)
    )
    assert (one.mean == again.mean).all()
    assert not (one.mean == other.mean).all()
    with pytest.raises(InputError, match="`realizations` is 1; give a whole number at least 2"):
        deqcli.simulate(X, "tanh", 0.1, realizations=1)


def test_networks_without_an_equilibrium_are_told():
    with (
        pytest.warns(deqcli.errors.OutsidePapersRangeWarning),
        pytest.raises(ConvergenceError, match="of 2 networks have an equilibrium; lower"),
    ):
        deqcli.simulate(100 * np.eye(3), "identity", 0.99, width=2, realizations=2, seed=1)
