"""What README and docs/findings.md say of trained twins, made by rule from the committed records."""

from __future__ import annotations

import math
from collections.abc import Iterable

import accuracy_section
from accuracy_section import ACTS, DATA
from claims_reading import findings, settings, span

from deqcli.quantities import LEVEL

#: The trainings that the README sums up.
TRAININGS = ("iclr-figure-3-a", "iclr-figure-3-b", "iclr-figure-3-c", "icml-accuracies")


def section() -> list[str]:
    """Return what the section on training says, tables and all."""
    return [
        f"{_summed_up()}.",
        "Networks whose kernels differ by a factor learn at different speeds, which another "
        "learning rate would undo.",
        f"Of {100 * LEVEL:.0f} %, by Student's t, over differences within trials; a network is "
        "called nearer where the interval of the difference leaves out 0.",
        *_enough(),
        *(
            each
            for stem in accuracy_section.STEMS
            for each in (
                accuracy_section.sentence(*accuracy_section.read(stem)),
                accuracy_section.table(findings(stem)),
            )
        ),
        _made_by(),
        '"Clipped" is the share of epochs in which the norm of the DEQ\'s matrix had to be kept '
        "below 1.",
        *_rates(),
        accuracy_section.rates(),
    ]


def _enough() -> list[str]:
    """Say where an effect is predicted, and whether the trials are enough for it."""
    stems = (*accuracy_section.STEMS, *accuracy_section.RATES, accuracy_section.SHALLOW)
    rows = [row for stem in stems for row in findings(stem)["resolution"]]
    parts = {
        measure: [row for row in rows if row["measure"] == measure]
        for measure in ("distance", "accuracy")
    }
    effects = {measure: sum(row["effect"] for row in each) for measure, each in parts.items()}
    seen = sum(row["enough"] for row in rows)
    # "enough": for every effect that is predicted.
    assert seen == sum(effects.values())
    return [
        "It has an interval over the same trials: a difference that is predicted is one that this "
        f"tells from zero, which it does in loss in {effects['distance']} of "
        f"{len(parts['distance'])} runs below and in accuracy in {effects['accuracy']} of "
        f"{len(parts['accuracy'])}.",
        f"Where one is predicted, the measured interval is smaller in {seen} of "
        f"{sum(effects.values())}, so that the trials are enough to see it.",
    ]


def _made_by() -> str:
    (size,) = {settings(stem)["train_size"] for stem in TRAININGS}
    (epochs,) = {settings(stem)["epochs"] for stem in TRAININGS}
    return (
        "Made by `deqcli reproduce iclr/figure-3-a iclr/figure-3-b icml/accuracies "
        f"iclr/figure-3-c`, {size} training samples and {epochs} epochs."
    )


def _rates() -> list[str]:
    """Return what stands above the table of two layers."""
    here = settings(accuracy_section.RATES[0])
    (width,) = here["widths"]
    (trials,) = {settings(stem)["trials"] for stem in accuracy_section.RATES}
    gaps = {
        stem: {gap["net"]: gap for gap in findings(stem)["gaps"]} for stem in accuracy_section.RATES
    }
    near, far = (gaps[f"accuracy-rate-{kernel}-own"]["matched"] for kernel in ("ntk", "ck"))
    distances = [
        accuracy_section.around(gap["distance"], gap["distance_interval"], 3) for gap in (near, far)
    ]
    # "nearer": the intervals do not touch.
    upper = near["distance"] + near["distance_interval"]
    assert upper < far["distance"] - far["distance_interval"]
    return [
        f"{ACTS[here['act']]} on {DATA[here['data']]}, all weights trained, {here['train_size']} "
        f"samples, {here['epochs']} epochs at learning rate {here['learning_rate']:g}, width "
        f"{width}, {trials} trials; the twin has two layers.",
        "At its own scale a network's kernel is larger or smaller than the DEQ's; then the twin of "
        f"the kernel that decides, Θ, is nearer to the DEQ than that of G, {distances[0]} against "
        f"{distances[1]}.",
    ]


def _summed_up() -> str:
    """Return what trainings say of twins and plain networks, all widths together."""
    kinds = ("twin", "plain", "undecided")
    accuracy = dict.fromkeys(kinds, 0)
    names, losses = [], []
    for stem in TRAININGS:
        here = settings(stem)
        names.append(f"{ACTS[here['act']]} on {DATA[here['data']]}")
        loss = dict.fromkeys(kinds, 0)
        for row in findings(stem)["advantages"]:
            if row["width"]:
                (loss if row["measure"] == "distance" else accuracy)[row["nearer"]] += 1
        losses.append(loss)
    widths = sum(losses[0].values())
    return (
        f"{two_layers()} {one_layer()}, as root mean squares over epochs. The twin's is nearer to the "
        f"DEQ's than a plain network's at {_listed(loss['twin'] for loss in losses)} of {widths} "
        f"widths ({_listed(names)}), the plain one's at {_listed(loss['plain'] for loss in losses)}. "
        f"By test accuracy the twin is nearer in {accuracy['twin']} of {sum(accuracy.values())} such cases, the "
        f"plain network in {accuracy['plain']}, and {accuracy['undecided']} are undecided{_two_layers_accuracy()}. {_shift()}"
    )


def _two_layers_accuracy() -> str:
    """Say what networks of two layers at the DEQ's scale show in accuracy."""
    found = findings(accuracy_section.RATES[0])
    (row,) = (row for row in found["advantages"] if row["width"] and row["measure"] == "accuracy")
    (limit,) = (row for row in found["resolution"] if row["measure"] == "accuracy")
    assert row["nearer"] == "twin"
    by, expected = (
        accuracy_section.around(100 * value, 100 * half, 1)
        for value, half in (
            (row["advantage"], row["interval"]),
            (limit["predicted"], limit["predicted_interval"]),
        )
    )
    return (
        f"; with two layers the plain network is farther than the twin, by {by} points (infinite "
        f"width predicts {expected})"
    )


def _shift() -> str:
    """Say how much finite width itself moves both networks' last losses, beside what parts them."""
    shifts, parts = [], []
    for stem in TRAININGS:
        found, widest = findings(stem), max(settings(stem)["widths"])
        ends = {gap["net"]: gap["end"] for gap in found["gaps"] if gap["width"] == widest}
        told = {gap["net"]: gap["end"] for gap in found["predicted"]}
        shifts.append([100 * math.expm1(ends[net] - told[net]) for net in ends])
        parts.append(100 * math.expm1(abs(ends["plain"] - ends["matched"])))
    assert all(min(shift) > part for shift, part in zip(shifts, parts, strict=True))
    return (
        f"At width {widest} the last losses of twin and plain network are both larger, beside the "
        f"DEQ's, than infinite width predicts, by {span([one for pair in shifts for one in pair], '.1f')} %: a shift that both "
        f"have in common, and larger than what parts them, {span(parts, '.1f')} %"
    )


def one_layer() -> str:
    """Say how near the widest networks of one layer are to the DEQ."""
    ends: dict[str, list[float]] = {"matched": [], "plain": []}
    for stem in TRAININGS:
        widest = max(settings(stem)["widths"])
        for row in findings(stem)["gaps"]:
            if row["width"] == widest:
                ends[row["net"]].append(row["distance"])
    # "near": less than 5 % in loss.
    assert max(*ends["matched"], *ends["plain"]) < 0.05
    return (
        f"With one layer both are near: at width {widest} the curve of log(loss) of a fitted twin is "
        f"{span(ends['matched'])} from the DEQ's, a plain network's {span(ends['plain'])}"
    )


def two_layers() -> str:
    """Say how the papers' twins of two layers train, and plain networks of two layers and of one."""
    rows = {
        stem: {gap["net"]: gap for gap in findings(stem)["gaps"]}
        for stem in (*accuracy_section.RATES, accuracy_section.SHALLOW)
    }
    theta, g, theta_own, g_own, shallow = rows.values()
    here = settings(accuracy_section.RATES[0])
    # "nearly": the whole interval is within 5 % of the DEQ's loss.
    near = [
        abs(gap["end"]) + gap["end_interval"] < 0.05
        for gap in (theta["matched"], g["matched"], theta["plain"], shallow["plain"])
    ]
    assert near == [True, True, False, True]
    # "no farther": neither is shown to be nearer.
    (nearer,) = (row["nearer"] for row in findings(accuracy_section.SHALLOW)["advantages"]
                 if row["width"] and row["measure"] == "distance")  # fmt: skip
    assert nearer == "undecided"
    own = [math.exp(gap["end"]) for gap in (theta_own["matched"], g_own["matched"])]
    return (
        "The twin nearly does, and for a plain network it depends on the depth. With two layers that "
        f"have the DEQ's four scalars, as in the papers, the twin's loss after {here['epochs']} epochs "
        f"at learning rate {here['learning_rate']:g}, over the DEQ's, is "
        f"{accuracy_section.ratio(theta['matched'])} if it shares Θ and "
        f"{accuracy_section.ratio(g['matched'])} if it shares G, that of a plain network of two layers "
        f"{accuracy_section.ratio(theta['plain'])}, but that of one plain layer "
        f"{accuracy_section.ratio(shallow['plain'])}, which is not shown to be farther from the DEQ "
        "than the twin. That is with outputs and learning rates brought to the DEQ's scale; without, "
        f"two layers have {own[0]:.2f}, {own[1]:.2f} and {math.exp(theta_own['plain']['end']):.2f}."
    )


def in_short() -> str:
    """Say for the README what :func:`two_layers` says."""
    two_layers()  # has the assertions
    theta, shallow = (
        {gap["net"]: gap for gap in findings(stem)["gaps"]}
        for stem in (accuracy_section.RATES[0], accuracy_section.SHALLOW)
    )
    return (
        "Does the papers' twin train like the DEQ? Nearly: its loss is "
        f"{accuracy_section.ratio(theta['matched'])} of the DEQ's. One plain layer does, too, "
        f"{accuracy_section.ratio(shallow['plain'])}, two do not, "
        f"{accuracy_section.ratio(theta['plain'])}"
    )


def _listed(values: Iterable[object]) -> str:
    *first, last = map(str, values)
    return f"{', '.join(first)} and {last}" if first else last
