"""What README and docs/findings.md say of trained twins, made by rule from the committed records."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import accuracy_section
import numpy as np
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
        f"{width}, {here['trials']} trials; twin and plain network have two layers.",
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
        f"By test accuracy the twin is nearer in {accuracy['twin']} of {sum(accuracy.values())} cases, the "
        f"plain network in {accuracy['plain']}, and {accuracy['undecided']} are undecided"
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
    """Say how the papers' twins of two layers train, by the kernel that they share."""
    rows = {}
    for stem in accuracy_section.RATES:
        found = findings(stem)
        by_net = {gap["net"]: gap for gap in found["gaps"]}
        rows[stem] = {net: float(np.exp(gap["end"])) for net, gap in by_net.items()}
        rows[stem]["follows"] = _follows(found, by_net)
    equal, other, own, raw = rows.values()
    here = settings(accuracy_section.RATES[0])
    does = "it does" if equal["follows"] else "it does not"
    return (
        f"With two layers that have the DEQ's four scalars, as in the papers, {does}. Its loss "
        f"after {here['epochs']} epochs at learning rate {here['learning_rate']:g}, over the DEQ's, is "
        f"{equal['matched']:.2f} if it shares Θ and {other['matched']:.2f} if it shares G, a plain "
        f"network's {equal['plain']:.2f}; that is with outputs and learning rates brought to the DEQ's "
        f"scale, and {own['matched']:.2f}, {raw['matched']:.2f} and {own['plain']:.2f} without."
    )


def _follows(found: dict[str, Any], gaps: dict[str, dict[str, Any]]) -> bool:
    """Tell whether a twin's loss is the DEQ's within its interval, and a plain network's is not."""
    (nearer,) = (row["nearer"] for row in found["advantages"]
                 if row["width"] and row["measure"] == "distance")  # fmt: skip
    apart = {net: abs(gap["end"]) > gap["end_interval"] for net, gap in gaps.items()}
    return nearer == "twin" and apart == {"matched": False, "plain": True}


def _listed(values: Iterable[object]) -> str:
    *first, last = map(str, values)
    return f"{', '.join(first)} and {last}" if first else last
