"""What is read from a finished run, from tables small enough to do by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from deqcli.reproduction.quantities import QUANTITIES
from deqcli.reproduction.verdicts import Run, verdict

from deqcli.errors import InputError
from deqcli.reproduction import measures


def test_slopes_and_their_spread_are_those_of_the_trials():
    n = np.array([64, 256, 1024])
    rows = pd.concat(
        [pd.DataFrame({"act": "lrelu:slope=0.1", "n": n, "trial": trial, "slope": -0.5,
                       "error": n**power})
         for trial, power in enumerate((-0.4, -0.6))]
    )  # fmt: skip
    quantity = QUANTITIES["icml/error-vs-n"][3]
    found = quantity.measure(Run({"results": {}}, rows))
    assert found.value == -0.5
    assert found.spread == pytest.approx(0.1)


NETS = ("deq", "matched", "plain")


def trained(accuracies, width=64, statuses=("done", "done", "done")):
    """Two epochs; the last has the accuracies given by network and seed."""
    return pd.DataFrame(
        [
            {"net": net, "width": width, "seed": seed, "epoch": epoch, "status": status,
             "test_accuracy": accuracy if epoch == 1 else 0.1}
            for net, values, status in zip(NETS, accuracies, statuses, strict=True)
            for seed, accuracy in enumerate(values)
            for epoch in (0, 1)
        ]
    )  # fmt: skip


def test_gaps_are_in_points_at_the_largest_width():
    wide = trained([(0.90, 0.92), (0.91, 0.92), (0.87, 0.90)])
    run = Run({"results": {}}, pd.concat([trained([(0.5,)] * 3, width=32), wide]))
    deq, twin, plain, _ = (quantity.measure(run) for quantity in QUANTITIES["iclr/figure-3-a"])
    assert (deq.value, deq.spread) == pytest.approx((91.0, 1.0))
    assert (twin.value, twin.spread) == pytest.approx((-0.5, 0.5))
    assert (plain.value, plain.spread) == pytest.approx((2.5, 0.5))


def test_advantage_has_the_spread_of_differences_within_a_seed():
    # The gaps move together, by 2 points: their difference in size, 2 points, does not move.
    run = Run({"results": {}}, trained([(0.90, 0.90), (0.89, 0.87), (0.87, 0.85)]))
    advantage = QUANTITIES["iclr/figure-3-a"][3]
    found = advantage.measure(run)
    assert (found.value, found.spread) == pytest.approx((2.0, 0.0), abs=1e-12)
    assert verdict(advantage, found) == "agrees"
    assert "|" not in advantage.name


def test_largest_width_is_said():
    run = Run({"results": {}}, trained([(0.9,)] * 3, width=1024))
    for quantity in QUANTITIES["iclr/figure-3-b"]:
        assert quantity.remark(run) == (
            "At width 1024, the largest of this run; the figure goes to 8192."
        )
    assert "At width 1024" in QUANTITIES["icml/accuracies"][0].remark(run)


def test_stopped_training_is_no_number():
    run = Run({"results": {}}, trained([(0.9,)] * 3, statuses=("done", "done", "stopped: inf")))
    assert measures.gap(run, "matched").value == 0
    with pytest.raises(InputError, match="reached its end"):
        measures.gap(run, "plain")


def flown(width, trial, times, loss, *, every=1, status="ok"):
    times = np.asarray(times, dtype=float)
    test = np.where(np.arange(times.size) % every == 0, 2 * loss(times), np.nan)
    return pd.DataFrame(
        {"width": width, "trial": trial, "time": times, "train_loss": loss(times),
         "test_loss": test, "train_error": 0.0, "test_error": test, "norm": 0.5 + times / 100,
         "status": status}
    )  # fmt: skip


def test_widths_are_compared_at_the_last_time_that_all_have():
    # The narrow run stops at time 4 with a loss of exp(-2); the wide goes on to exp(-20).
    parts = [
        flown(100, 0, np.arange(0, 5), lambda t: np.exp(-0.5 * t)),
        flown(100, 0, [4.5], lambda t: np.full_like(t, np.nan), status="contraction lost"),
        flown(2000, 0, np.arange(0, 20.1, 0.8), lambda t: np.exp(-t), every=3),
    ]
    run = Run({"results": {}}, pd.concat(parts, ignore_index=True))
    assert measures.narrow_over_wide(run, "train_loss").value == pytest.approx(np.exp(2))
    # Of the wide run's sparse test losses none is at time 4.
    assert measures.narrow_over_wide(run, "test_loss").value == pytest.approx(np.exp(2))


def test_ratios_are_within_a_trial():
    parts = [
        flown(width, trial, [0, 1], lambda t, high=high: high * np.exp(-t))
        for trial, scale in enumerate((1.0, 10.0))
        for width, high in ((100, 3 * scale), (500, scale))
    ]
    found = measures.narrow_over_wide(Run({"results": {}}, pd.concat(parts)), "train_loss")
    assert (found.value, found.spread) == pytest.approx((3.0, 0.0), abs=1e-12)


def test_promises_of_gen_are_claims():
    parts = [flown(width, 0, [0, 1, 2], lambda t: np.exp(-t)) for width in (100, 500)]
    run = Run({"results": {}}, pd.concat(parts))
    found = {quantity.name: quantity for quantity in QUANTITIES["gen/figure-1"]}
    assert all(quantity.paper is not None for quantity in found.values())
    for name in ("training loss, end / start, widest", "test error, end / start, widest"):
        assert found[name].measure(run).value == pytest.approx(np.exp(-2))
        assert verdict(found[name], found[name].measure(run)) == "agrees"
    norm = found["largest ‖γA(k)‖, widest"]
    assert norm.measure(run).value == pytest.approx(0.52)
    assert verdict(norm, norm.measure(run), ("steps",)).startswith("not compared")
    test_loss = found["test loss at the last common time, narrowest / widest"]
    assert set(test_loss.needs) == {"n", "widths", "steps", "test-size"}


def test_no_error_at_the_start_cannot_be_reduced():
    run = Run({"results": {}}, flown(100, 0, [0, 1], lambda t: np.exp(-t)))
    with pytest.raises(InputError, match="0 at the start"):
        measures.end_over_start(run, "train_error")


def test_distances_of_iclr_figure_2_are_of_the_features_kernel():
    for name in ("iclr/figure-2-gmm", "iclr/figure-2-mnist"):
        assert all("‖G − Σ⁽²⁾‖" in quantity.name for quantity in QUANTITIES[name])
        assert "G* is Λ" in QUANTITIES[name][0].note
