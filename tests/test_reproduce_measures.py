"""The quantities of each study, from findings and tables small enough to do by hand."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from deqcli import study
from deqcli.errors import InputError
from deqcli.misprints import ERRATA
from deqcli.quantities import RULE, Claim, Measured, Printed, Quantity, undecided_note, verdict
from deqcli.reproduction import presets
from deqcli.reproduction.summary import quantities_of
from deqcli.vocabulary import Kernel, Net

# Half of a 95 % interval from two trials, over the standard error: Student's t.
T1 = 12.7062047


@dataclass
class Run:
    """A finished run, as a quantity sees one."""

    table: pd.DataFrame = field(default_factory=pd.DataFrame)
    findings: dict[str, Any] = field(default_factory=dict)


def quantities(name: str, **options: object) -> dict[str, Quantity]:
    """Return the quantities of a study by their keys."""
    chosen = study.get(name)
    return {each.key: each for each in chosen.quantities(chosen.settings(**options))}


def measure(run: Run, name: str, key: str, **options: object) -> Measured:
    return quantities(name, **options)[key].measure(run)


@pytest.mark.parametrize("name", study.names())
def test_keys_and_names_tell_quantities_apart(name):
    chosen = study.get(name)
    known = chosen.quantities(chosen.settings())
    assert len({each.key for each in known}) == len({each.name for each in known}) == len(known)
    # Names stand in a Markdown table.
    assert not any("|" in each.name for each in known)
    # What a number depends on is a setting that a size may cut.
    assert all(hasattr(chosen.settings(), need) for each in known for need in each.needs)


def test_distances_of_a_spectrum():
    run = Run(
        findings={"distances": {"exact": {"distance": 0.2}, "monte-carlo": {"distance": 3.0}}}
    )
    assert measure(run, "spectrum", "exact").value == 0.2
    assert measure(run, "spectrum", "averaged").value == 3.0
    averaged = quantities("spectrum")["averaged"]
    # Another seed is run for the exact kernel alone.
    assert averaged.over_seeds(run).value == 0.2
    assert "realizations" in averaged.needs


@pytest.mark.parametrize("kernel", Kernel)
def test_names_say_which_kernel_a_distance_is_of(kernel):
    for name in ("spectrum", "match"):
        for quantity in quantities(name, kernel=kernel).values():
            assert quantity.name.startswith(f"‖{kernel.letter} − ")


def test_distances_of_a_match():
    run = Run(findings={"matched_distance": 3.0, "matched_relative": 0.1, "plain_relative": 0.5})
    for key, value in run.findings.items():
        assert measure(run, "match", key).value == value
    assert set(quantities("match")["matched_distance"].needs) == {"n", "p"}


def test_distances_of_iclr_figure_2_are_averages_of_the_papers_kernel():
    for name in ("iclr/figure-2-gmm", "iclr/figure-2-gmm-printed", "iclr/figure-2-mnist"):
        averaged, *others = quantities_of(presets.load(name))
        assert averaged.name == "‖Λ − Σ‖, both averaged over random networks"
        assert averaged.paper is not None
        assert all("‖Λ − Σ‖" in quantity.name and quantity.paper is None for quantity in others)


def test_a_distance_that_is_noise_decides_nothing():
    averaged = quantities("match", averaged=True)["averaged_distance"]
    found = {"distance": 0.24, "noise_floor": 0.27, "realizations": 400, "width": 1000}
    measured = averaged.measure(Run(findings={"averaged": found}))
    quantity = replace(averaged, paper=Printed("0.23"))
    assert verdict(quantity, measured) == "undecided"
    assert undecided_note(quantity.paper, measured).startswith("Sampling noise alone")
    assert "0.24 apart; sampling alone makes that 0.27" in averaged.remark(
        Run(findings={"averaged": found})
    )
    clear = averaged.measure(Run(findings={"averaged": found | {"noise_floor": 0.1}}))
    assert verdict(quantity, clear) == "differs"


def test_slopes_and_their_spread_are_those_of_the_trials():
    n = np.array([64, 256, 1024])
    rows = pd.concat(
        [pd.DataFrame({"act": act, "n": n, "trial": trial, "slope": value,
                       "error": n**power})
         for act, value in (("lrelu:slope=0.1", -0.5), ("relu", -0.7))
         for trial, power in enumerate((-0.4, -0.6))]
    )  # fmt: skip
    slope = measure(Run(rows), "error-vs-n", "lrelu", act=("relu", "lrelu"))
    assert slope.value == -0.5
    assert slope.spread == pytest.approx(0.1 * T1)


def test_claim_of_a_rate_is_made_for_the_slides_activations_only():
    known = quantities("error-vs-n", act=("relu", "tanh", "swish", "lrelu", "abs"))
    assert [key for key, each in known.items() if each.paper is None] == ["abs"]


def test_errata_have_the_slopes_of_both_forms():
    n = np.array([250, 1000])
    rows = pd.concat(
        [pd.DataFrame({"erratum": name, "form": form, "n": n, "trial": trial,
                       "error": n ** (power + shift)})
         for name in ERRATA
         for form, power in (("printed", 0.0), ("right", -0.5))
         for trial, shift in enumerate((-0.1, 0.1))]
    )  # fmt: skip
    curve = {"printed_slope": 0.0, "right_slope": -0.5}
    run = Run(rows, {"errata": dict.fromkeys(ERRATA, curve)})
    known = quantities("errata")
    assert list(known) == [f"{name}-{form}" for name in ERRATA for form in ("printed", "right")]
    for name, erratum in ERRATA.items():
        printed, right = known[f"{name}-printed"], known[f"{name}-right"]
        assert printed.name.startswith(f"{erratum.where}, as printed: slope")
        assert right.name.startswith(f"{erratum.where}, corrected: slope")
        assert (printed.note, right.note) == ("Misprint.", "")
        for quantity, value, expected in ((printed, 0.0, "undecided"), (right, -0.5, "undecided")):
            slope = quantity.measure(run)
            assert (slope.value, slope.spread) == pytest.approx((value, 0.1 * T1))
            assert verdict(quantity, slope) == expected


def test_bound_of_a_rate_is_said():
    rates = [*quantities("error-vs-n").values(), *quantities("errata").values()]
    for quantity in rates:
        assert isinstance(quantity.paper, Claim)
        assert quantity.paper.most == -0.45
        assert "−0.45" in quantity.paper.text
    assert "−0.45" in RULE


def trained(accuracies, width=64, statuses=("done", "done", "done")):
    """Two epochs; the last has the accuracies given by network and trial."""
    return pd.DataFrame(
        [
            {"dataset": "mnist", "net": net.value, "width": width, "trial": trial, "epoch": epoch,
             "status": status, "test_accuracy": accuracy if epoch == 1 else 0.1,
             "train_loss": 2 - accuracy}
            for net, values, status in zip(Net, accuracies, statuses, strict=True)
            for trial, accuracy in enumerate(values)
            for epoch in (0, 1)
        ]
    )  # fmt: skip


def test_gaps_are_in_points_at_the_largest_width():
    wide = trained([(0.90, 0.92), (0.91, 0.92), (0.87, 0.90)])
    run = Run(pd.concat([trained([(0.5,)] * 3, width=32), wide], ignore_index=True))
    for key, expected in (
        ("accuracy", (91, 1)),
        ("accuracy_matched", (-0.5, 0.5)),
        ("accuracy_plain", (2.5, 0.5)),
    ):
        measured = measure(run, "accuracy", key)
        value, error = expected
        assert (measured.value, measured.spread) == pytest.approx((value, T1 * error)), key


def test_advantage_has_the_spread_of_differences_within_a_trial():
    # The gaps move together, by 0.2 points: their difference in size, 2 points, does not move.
    run = Run(trained([(0.90, 0.90), (0.89, 0.888), (0.87, 0.868)]))
    advantage = quantities("accuracy")["accuracy_advantage"]
    measured = advantage.measure(run)
    assert (measured.value, measured.spread) == pytest.approx((2.0, 0.0), abs=1e-12)
    assert verdict(advantage, measured) == "agrees"
    assert verdict(advantage, measured, ("epochs",)).startswith("not compared")


def test_largest_width_is_said():
    run = Run(trained([(0.9,)] * 3, width=1024))
    for quantity in quantities("accuracy").values():
        assert quantity.remark(run) == "At width 1024, the largest of this run."


def test_stopped_training_is_no_number():
    run = Run(trained([(0.9,)] * 3, statuses=("done", "done", "stopped: inf")))
    assert measure(run, "accuracy", "accuracy_matched").value == 0
    with pytest.raises(InputError, match="reached its end"):
        measure(run, "accuracy", "loss_plain")


def flown(width, trial, times, loss, *, every=1, status="ok"):
    times = np.asarray(times, dtype=float)
    test = np.where(np.arange(times.size) % every == 0, 2 * loss(times), np.nan)
    return pd.DataFrame(
        {"width": width, "trial": trial, "time": times, "train_loss": loss(times),
         "test_loss": test, "train_error": 0.0, "test_error": test, "norm": 0.5 + times / 100,
         "status": status, "n": 10, "peak": width**-0.5, "peak_flow": width**-0.1}
    )  # fmt: skip


def test_widths_are_compared_at_the_last_time_that_all_have():
    # The narrow run stops at time 4 with a loss of exp(-2); the wide goes on to exp(-20).
    parts = [
        flown(100, 0, np.arange(0, 5), lambda t: np.exp(-0.5 * t)),
        flown(100, 0, [4.5], lambda t: np.full_like(t, np.nan), status="contraction lost"),
        flown(2000, 0, np.arange(0, 20.1, 0.8), lambda t: np.exp(-t), every=3),
    ]
    run = Run(pd.concat(parts, ignore_index=True))
    assert measure(run, "flow", "faster").value == pytest.approx(np.exp(2))
    # Of the wide run's sparse test losses none is at time 4.
    assert measure(run, "flow", "better").value == pytest.approx(np.exp(2))


def test_ratios_are_within_a_trial():
    parts = [
        flown(width, trial, [0, 1], lambda t, high=high: high * np.exp(-t))
        for trial, scale in enumerate((1.0, 10.0))
        for width, high in ((100, 3 * scale), (500, scale))
    ]
    ratio = measure(Run(pd.concat(parts)), "flow", "faster")
    assert (ratio.value, ratio.spread) == pytest.approx((3.0, 0.0), abs=1e-12)


def test_promises_of_gen_are_claims():
    parts = [
        flown(width, trial, [0, 1, 2], lambda t: np.exp(-t))
        for width in (100, 500)
        for trial in (0, 1)
    ]
    run = Run(pd.concat(parts))
    known = quantities("flow")
    assert all(isinstance(quantity.paper, Claim) for quantity in known.values())
    for key, value in (("train_loss", np.exp(-2)), ("test_error", np.exp(-2)), ("train_error", 0)):
        measured = known[key].measure(run)
        assert measured.value == pytest.approx(value)
        assert verdict(known[key], measured) == "agrees"
    path = Run(run.table, {"slope": -0.5, "slope_flow": -0.1})
    for key, value, decision in (("path", -0.5, "agrees"), ("path_flow", -0.1, "differs")):
        measured = known[key].measure(path)
        assert measured.value == value
        assert measured.spread == pytest.approx(0.0, abs=1e-9)
        assert verdict(known[key], measured) == decision
    with pytest.raises(InputError, match="no two widths"):
        known["path"].measure(Run(run.table, {"slope": None}))
    norm = known["norm"].measure(run)
    assert norm.value == pytest.approx(0.52)
    assert verdict(known["norm"], norm, ("steps",)).startswith("not compared")
    assert set(known["better"].needs) == {"n", "widths", "steps", "test_size"}


def test_largest_norm_includes_the_row_where_a_run_was_lost():
    lost = flown(500, 0, [60], lambda t: np.exp(-t), status="contraction lost")
    run = Run(pd.concat([flown(500, 0, [0, 1], lambda t: np.exp(-t)), lost]))
    assert measure(run, "flow", "norm").value == pytest.approx(1.1)
    assert measure(run, "flow", "train_loss").value == pytest.approx(np.exp(-1))


def test_no_error_at_the_start_cannot_be_reduced():
    run = Run(flown(100, 0, [0, 1], lambda t: 0 * t))
    with pytest.raises(InputError, match="0 at the start"):
        measure(run, "flow", "test_error")
