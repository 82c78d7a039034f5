"""Tables and sentences of docs/findings.md on training, made by rule from recorded findings.

``python tests/accuracy_section.py`` prints them.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parents[1] / "results"
#: The results that are told of.
STEMS = (
    "iclr-figure-3-a",
    "iclr-figure-3-b",
    "icml-accuracies",
    "iclr-figure-3-c",
    "accuracy-readout-mnist",
)
#: The papers' twin of two layers, matched in either kernel, at the DEQ's scale and at its own.
RATES = (
    "accuracy-rate-ntk",
    "accuracy-rate-ck",
    "accuracy-rate-ntk-own",
    "accuracy-rate-ck-own",
)
#: The first of them beside a plain network of one layer.
SHALLOW = "accuracy-rate-ntk-one-layer"
DATA = {"mnist": "MNIST", "fashion-mnist": "Fashion-MNIST", "cifar10-vgg19": "CIFAR-10"}
ACTS = {"relu": "ReLU", "tanh": "tanh"}
TRAINED = {"all": "all weights", "readout": "the readout"}
HEAD = (
    "| width | twin: distance | plain: distance | nearer | twin: last loss / DEQ’s | plain: last "
    "loss / DEQ’s | DEQ − twin, points | DEQ − plain, points | nearer | clipped, % |"
)


def read(stem: str) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return settings and findings of a committed result."""
    record = json.loads((RESULTS / f"{stem}.json").read_text(encoding="utf-8"))
    return record["settings"], record["findings"]


def around(value: float, half: float | None, places: int) -> str:
    """Return a number and half of its interval."""
    spread = "" if half is None else f" ± {half:.{places}f}"
    return f"{value:.{places}f}{spread}".replace("-", "−")


def ratio(row: Mapping[str, Any]) -> str:
    """Return the loss of the last epoch over the DEQ's, and its interval, which has two sides."""
    value, half = row["end"], row["end_interval"]
    text = f"{math.exp(value):.2f}"
    if half is None:
        return text
    return f"{text} ({math.exp(value - half):.2f} to {math.exp(value + half):.2f})"


def table(findings: Mapping[str, Any]) -> str:
    """Return a row for every width, and what is predicted for infinite width."""
    lines = [HEAD, "| --- " * (HEAD.count("|") - 1) + "|"]
    clipped = {row["width"]: row["share"] for row in findings["clipped"]}
    rows = [*findings["gaps"], *findings["predicted"]]
    widths = [*sorted({row["width"] for row in findings["gaps"]}), 0]
    nearer = {(row["measure"], row["width"]): row["nearer"] for row in findings["advantages"]}
    for width in widths:
        by_net = {row["net"]: row for row in rows if row["width"] == width}
        if len(by_net) < 2:
            continue
        pair = by_net["matched"], by_net["plain"]
        cells = [
            str(width or "∞"),
            *(around(row["distance"], row["distance_interval"], 3) for row in pair),
            nearer["distance", width],
            *map(ratio, pair),
            *(around(100 * row["accuracy"], _percent(row), 2) for row in pair),
            nearer["accuracy", width],
            f"{100 * clipped[width]:.0f}" if width else "",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def rates() -> str:
    """Return a row for every way to match and to scale two layers."""
    lines = [
        "| twin has the scalars of | scale | plain layers | twin: distance | plain: distance | "
        "nearer | twin: last loss / DEQ’s | plain: last loss / DEQ’s | plain farther in accuracy, "
        "points | predicted |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for stem in (RATES[0], SHALLOW, *RATES[1:]):
        settings, findings = read(stem)
        by_net = {row["net"]: row for row in findings["gaps"]}
        pair = by_net["matched"], by_net["plain"]
        found = {row["measure"]: row for row in findings["advantages"] if row["width"]}
        (limit,) = (row for row in findings["resolution"] if row["measure"] == "accuracy")
        cells = [
            {"ck": "G", "ntk": "Θ"}[settings["match"]],
            {"equal": "the DEQ’s", "own": "its own"}[settings["scale"]],
            str(settings["plain_layers"]),
            *(around(row["distance"], row["distance_interval"], 3) for row in pair),
            found["distance"]["nearer"],
            *map(ratio, pair),
            *(
                around(100 * value, None if half is None else 100 * half, 1)
                for value, half in (
                    (found["accuracy"]["advantage"], found["accuracy"]["interval"]),
                    (limit["predicted"], limit["predicted_interval"]),
                )
            ),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _percent(row: Mapping[str, Any]) -> float | None:
    half = row["accuracy_interval"]
    return None if half is None else 100 * half


def sentence(settings: Mapping[str, Any], findings: Mapping[str, Any]) -> str:
    """Say what the largest width decides, and what infinite width predicts."""
    widest = max(row["width"] for row in findings["gaps"])
    rows = {row["measure"]: row for row in findings["advantages"] if row["width"] == widest}
    predicted = {row["measure"]: row for row in findings["resolution"]}
    said = {
        "twin": "the twin is nearer to the DEQ than the plain network",
        "plain": "the plain network is nearer to the DEQ than the twin",
        "undecided": "neither is shown to be nearer to the DEQ",
    }
    parts = []
    for measure, name, factor, unit in (
        ("distance", "training loss", 1, ""), ("accuracy", "test accuracy", 100, " points")
    ):  # fmt: skip
        row, limit = rows[measure], predicted[measure]
        places = 4 if factor == 1 else 2
        by, expected = (
            around(factor * value, half if half is None else factor * half, places)
            for value, half in (
                (row["advantage"], row["interval"]),
                (limit["predicted"], limit["predicted_interval"]),
            )
        )
        parts.append(
            f"in {name} {said[row['nearer']]} (the plain network is farther by {by}{unit}; "
            f"infinite width predicts {expected}, {_resolved(limit)})"
        )
    data, trained = DATA.get(settings["data"], settings["data"]), TRAINED[settings["train"]]
    return (
        f"{ACTS[settings['act']]} on {data}, {trained} trained, {settings['trials']} trials, width "
        f"{widest}: "
        f"{parts[0]}; {parts[1]}."
    )


def _resolved(row: Mapping[str, Any]) -> str:
    """Say whether there is an effect to be seen, and enough trials to see it."""
    if not row["effect"]:
        return "which is not told from zero"
    if row["enough"]:
        return "for which the trials are enough"
    return f"for which {row['trials'] or 'not even 10000'} trials would be enough"


if __name__ == "__main__":
    for each in STEMS:
        sys.stdout.write("\n".join([sentence(*read(each)), "", table(read(each)[1]), "", ""]))
    sys.stdout.write(rates() + "\n")
