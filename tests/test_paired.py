"""Statistics of paired trainings, from tables small enough to do by hand and by scipy."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from deqcli import paired, paired_quantities
from deqcli.errors import InputError
from deqcli.vocabulary import Net

NAMES = ["dataset", "net", "width", "trial", "epoch", "train_loss", "test_accuracy", "status"]
WIDTHS, TRIALS, EPOCHS = (32, 64), 5, 4


def make(statuses=None, limits=True, trials=TRIALS, seed=0):
    """Return a table of random losses and accuracies."""
    rng = np.random.default_rng(seed)
    rows = []
    widths = (*WIDTHS, 0) if limits else WIDTHS
    for net in Net:
        for width in widths:
            name = net.value if width else f"{net}-limit"
            for trial in range(trials):
                for epoch in range(EPOCHS + 1):
                    status = (statuses or {}).get((name, width, trial, epoch), "done")
                    loss, right = np.exp(rng.standard_normal()), rng.uniform()
                    rows.append(("a", name, width, trial, epoch, loss, right, status))
    return pd.DataFrame(rows, columns=NAMES)


def pivot(table, width, column):
    """Return the values of one width by network, each of shape (trials, epochs + 1)."""
    part = table[table["width"] == width]
    return {
        net: part[part["net"] == (net.value if width else f"{net}-limit")]
        .pivot(index="trial", columns="epoch", values=column)
        .to_numpy()
        for net in Net
    }


@pytest.mark.parametrize("width", [*WIDTHS, 0])
def test_every_measure_by_hand_and_its_interval_by_scipy(width):
    table = make()
    rows = paired.gaps(table).set_index(["net", "width"])
    losses, right = pivot(table, width, "train_loss"), pivot(table, width, "test_accuracy")
    for net in paired.OTHERS:
        ratios = np.log(losses[net] / losses[Net.DEQ])[:, 1:]
        expected = {
            "loss": ratios.mean(axis=1),
            "end": ratios[:, -1],
            "distance": np.sqrt(np.mean(ratios**2, axis=1)),
            "accuracy": right[Net.DEQ][:, -1] - right[net][:, -1],
        }
        row = rows.loc[(net.value, width)]
        assert row["trials"] == TRIALS
        for name, values in expected.items():
            low, high = stats.t.interval(
                0.95, TRIALS - 1, loc=values.mean(), scale=stats.sem(values)
            )
            half = row[f"{name}_interval"]
            assert (row[name] - half, row[name] + half) == pytest.approx((low, high))
        # The interval of a paired test.
        test = stats.ttest_rel(right[Net.DEQ][:, -1], right[net][:, -1]).confidence_interval()
        assert row["accuracy"] - row["accuracy_interval"] == pytest.approx(test.low)


def test_means_are_those_of_every_epoch():
    ratios = paired.log_ratios(make())["plain"]
    curve = paired.means(ratios.xs(64, level="width"), ["epoch"])
    values = ratios.xs(64, level="width").xs(3, level="epoch").to_numpy()
    low, high = stats.t.interval(0.95, TRIALS - 1, values.mean(), stats.sem(values))
    row = curve.loc[3]
    assert (row["mean"] - row["half"], row["mean"] + row["half"]) == pytest.approx((low, high))


def test_curves_that_cross_have_a_distance():
    rows = [
        ("a", net, 32, 0, epoch, loss, 0.5, "done")
        for net, losses in (("deq", (9, 1, 1)), ("plain", (9, 2, 0.5)))
        for epoch, loss in enumerate(losses)
    ]
    row = paired.gaps(pd.DataFrame(rows, columns=NAMES)).iloc[0]
    assert row["loss"] == pytest.approx(0)
    assert row["distance"] == pytest.approx(np.log(2))
    assert row["end"] == pytest.approx(-np.log(2))
    assert row["distance_interval"] is None


def test_a_training_cut_short_takes_its_pair_away():
    table = make({("plain", 64, 1, EPOCHS): "stopped: loss not finite in epoch 5"})
    rows = paired.gaps(table).set_index(["net", "width"])
    assert rows.loc[("plain", 64), "trials"] == TRIALS - 1
    assert rows.loc[("matched", 64), "trials"] == TRIALS
    losses = pivot(table, 64, "train_loss")
    kept = np.delete(np.log(losses[Net.PLAIN] / losses[Net.DEQ])[:, 1:].mean(axis=1), 1)
    assert rows.loc[("plain", 64), "loss"] == pytest.approx(kept.mean())
    assert len(paired.last_epochs(table)) == 9 * TRIALS - 1


def test_a_loss_of_zero_has_a_logarithm():
    table = make()
    table["train_loss"] = 0.0
    assert paired.gaps(table)["loss"].eq(0).all()


def test_clipped_epochs_are_counted_after_training_began():
    statuses = {("deq", 64, trial, epoch): "projected" for trial in range(2) for epoch in (3, 4)}
    shares = paired.clipped(make(statuses))
    assert shares["a", 64] == pytest.approx(4 / (TRIALS * EPOCHS))
    assert shares["a", 32] == 0
    assert len(shares) == 2  # a limit has no norm


def test_advantage_is_paired():
    """The two move together: how much farther one is does not move."""
    values = pd.DataFrame({"matched": [0.1, 0.12, 0.11], "plain": [0.3, 0.32, 0.31]})
    for signed in (True, False):
        found = paired.advantage(values, signed)
        assert (found.value, found.spread) == pytest.approx((0.2, 0.0), abs=1e-12)
    swapped = paired.advantage(values.rename(columns={"matched": "plain", "plain": "matched"}))
    assert swapped.value == pytest.approx(-0.2)
    opposite = paired.advantage(values.assign(matched=-values["matched"]))
    assert opposite.value == pytest.approx(0.2)
    # Here it is the sum that decides, and it moves.
    assert opposite.spread == pytest.approx(
        stats.t.ppf(0.975, 2) * stats.sem(values["plain"] - values["matched"]), abs=1e-12
    )
    with pytest.raises(InputError, match="reached its end"):
        paired.advantage(values.iloc[:0])


def test_nothing_is_decided_where_signs_are_open():
    """What moves together by more than its mean may lie on either side of the DEQ."""
    values = pd.DataFrame({"matched": [-1.0, 0.0, 0.9], "plain": [-1.4, -0.4, 0.5]})
    found = paired.advantage(values)
    assert found.value > 0.3
    assert found.spread > found.value


@pytest.mark.slow
def test_a_decision_is_rarely_wrong():
    """Twin and plain are as far from the DEQ on either side: at most 5 % decide for one."""
    rng = np.random.default_rng(0)
    for twin, plain in ((0.0, 0.0), (0.5, 0.5), (0.5, -0.5), (2.0, -2.0), (2.0, 2.0)):
        wrong = 0
        for _ in range(400):
            common, own = rng.standard_normal((6, 1)), 0.3 * rng.standard_normal((6, 2))
            drawn = pd.DataFrame(common + own + [twin, plain], columns=["matched", "plain"])
            found = paired.advantage(drawn)
            wrong += abs(found.value) > found.spread
        # 5 % of 400 is 20; three standard deviations of the count beyond it are 33.
        assert wrong <= 33, (twin, plain)


def shifted(distance, noise, limit):
    """Return a table in which the plain network's loss is e^distance times the others'."""
    rng = np.random.default_rng(3)
    table = make()
    for width, shift, scatter in ((64, distance, noise), (32, 0, noise), (0, limit, 0.0)):
        for net in Net:
            name = net.value if width else f"{net}-limit"
            rows = (table["net"] == name) & (table["width"] == width)
            plain = net is Net.PLAIN
            table.loc[rows, "train_loss"] = np.exp(
                shift * plain + scatter * rng.standard_normal(rows.sum())
            )
    return table


def test_decided_by_the_interval():
    rows = paired.advantages(shifted(0.5, 0.01, 0.5))
    found = {row["width"]: row for row in rows if row["measure"] == "distance"}
    assert found[64]["nearer"] == "twin"
    assert found[64]["advantage"] == pytest.approx(0.5, abs=0.02)
    assert found[64]["advantage"] > found[64]["interval"]
    assert found[32]["nearer"] == "undecided"
    assert found[0]["nearer"] == "twin"


@pytest.mark.parametrize(("limit", "enough"), [(0.5, True), (0.001, False)])
def test_trials_are_enough_for_a_prediction_that_is_larger_than_the_interval(limit, enough):
    table = shifted(limit, 0.05, limit)
    row = paired.resolution(table)[0]
    assert (row["measure"], row["enough"]) == ("distance", enough)
    assert row["predicted"] == pytest.approx(limit, abs=1e-9)
    assert row["predicted_interval"] == pytest.approx(0, abs=1e-9)
    assert row["effect"]
    assert (row["interval"] < limit) == enough
    assert row["trials"] == TRIALS if enough else row["trials"] > TRIALS


def test_no_effect_where_its_own_interval_reaches_zero():
    """The limits' difference by scipy: no number of trials is enough for what may be nothing."""
    table = make(seed=5)
    losses = pivot(table, 0, "train_loss")
    twin, plain = (
        np.sqrt(np.mean(np.log(losses[net] / losses[Net.DEQ])[:, 1:] ** 2, axis=1))
        for net in paired.OTHERS
    )
    test = stats.ttest_rel(plain, twin)
    assert test.pvalue > 0.05
    row = paired.resolution(table)[0]
    low, high = test.confidence_interval()
    assert row["predicted"] == pytest.approx(np.mean(plain - twin))
    assert row["predicted_interval"] == pytest.approx((high - low) / 2)
    assert (row["effect"], row["enough"], row["trials"]) == (False, False, None)
    (said,) = told([row])
    assert said.endswith(f"{row['predicted_interval']:.2g} farther from the DEQ than the twin: no "
                         "effect that these trials tell from zero")  # fmt: skip


def told(rows):
    """Return what the command says of predicted differences."""
    findings = {"gaps": [], "predicted": [], "resolution": rows, "clipped": []}
    return list(paired_quantities.sentences(findings))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"enough": True}, []),
        ({"trials": 30}, ["+- 0.5 points farther", "the interval is +- 2: 30 trials would see it"]),
        ({"trials": None}, ["no 10000 trials"]),
        ({"effect": False}, ["+1 +- 0.5 points farther", "no effect that these trials tell"]),
        ({"interval": None}, []),
    ],
)
def test_what_is_said_of_a_prediction(given, said):
    row = {"measure": "accuracy", "predicted": 0.01, "predicted_interval": 0.005, "effect": True,
           "interval": 0.02, "enough": False, "trials": 30}  # fmt: skip
    text = told([row | given])
    assert len(text) == bool(said)
    assert all(part in text[0] for part in said)


def test_a_record_of_before_is_read():
    row = {"measure": "distance", "predicted": 0.01, "interval": 0.02, "enough": False, "trials": 9}
    assert told([row])[0].endswith("+0.01 farther from the DEQ than the twin, the interval is "
                                   "+- 0.02: 9 trials would see it")  # fmt: skip


def test_without_limits_nothing_is_predicted():
    assert paired.resolution(make(limits=False)) == []


@pytest.mark.parametrize("nets", [["deq"], ["plain"], ["matched", "plain"], []])
def test_some_networks_only(nets):
    table = make(limits=False)
    table = table[table["net"].isin(nets)]
    assert paired.gaps(table).empty
    assert paired.advantages(table) == paired.resolution(table) == []


def test_one_trial_decides_nothing():
    table = make(trials=1)
    assert all(row["interval"] is None for row in paired.advantages(table))
    assert {row["nearer"] for row in paired.advantages(table)} == {"undecided"}
    assert not any(row["enough"] or row["effect"] for row in paired.resolution(table))
    assert paired.gaps(table).to_dict("records")[0]["loss_interval"] is None
