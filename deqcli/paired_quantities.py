"""What is said of paired trainings: sentences, and the numbers that are set beside the papers'."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from deqcli import paired
from deqcli.errors import InputError
from deqcli.quantities import Claim, Finished, Measured, Quantity
from deqcli.vocabulary import Net

_CLAIM = Claim("> 0: only the twin follows", least=0.0)
#: Settings on which the size of a difference depends.
_SIZES = ("train_size", "test_size", "epochs")
_UNITS = {"loss": "mean log ratio", "accuracy": "points"}
_NAMES = {Net.MATCHED: "twin", Net.PLAIN: "plain network"}


def sentences(findings: Mapping[str, Any]) -> Iterator[str]:
    """Say how far networks are from the DEQ at the largest width, and how sure that is.

    Parameters
    ----------
    findings : mapping
        As ``deqcli accuracy`` records them.
    """
    gaps = findings["gaps"]
    widest = max((gap["width"] for gap in gaps), default=0)
    predicted = {gap["net"]: gap for gap in findings["predicted"]}
    for gap in gaps:
        if gap["width"] == widest:
            yield _sentence(gap, predicted.get(gap["net"]))
    for row in findings["resolution"]:
        if not row["enough"]:
            needed = row["trials"]
            remedy = f"; {needed} trials would do" if needed else ""
            yield (
                f"width {widest}: the interval of the {row['net']} network's {row['measure']} "
                f"is wider than the difference that infinite width predicts{remedy}"
            )
    shares = [
        f"{100 * row['share']:.0f} % at width {row['width']}"
        for row in findings["clipped"]
        if row["share"]
    ]
    if shares:
        yield f"epochs in which the DEQ's norm was clipped: {', '.join(shares)}"


def _sentence(gap: Mapping[str, Any], predicted: Mapping[str, Any] | None) -> str:
    """Say how far a network is from the DEQ, and how far it was predicted to be."""
    loss, half = gap["loss"], gap["loss_interval"]
    around = "" if half is None else f" ({math.exp(loss - half):.3f} to {math.exp(loss + half):.3f}"
    spread = "" if half is None else f" +- {100 * gap['accuracy_interval']:.2f}"
    limits = "", ""
    if predicted:
        limits = (
            f"{';' if around else ' ('} infinite width: {math.exp(predicted['loss']):.3f}",
            f" (infinite width: {100 * predicted['accuracy']:.2f})",
        )
    return (
        f"width {gap['width']}: training loss of {gap['net']} = {math.exp(loss):.3f} of the DEQ's"
        f"{around}{limits[0]}{')' if around or predicted else ''}; DEQ - {gap['net']} = "
        f"{100 * gap['accuracy']:.2f}{spread} points of test accuracy{limits[1]}"
    )


def _accuracy(run: Finished) -> Measured:
    final = 100 * paired.accuracies(run.table)
    wide = final.index.get_level_values("width") == run.table["width"].max()
    return paired.average(final.loc[wide, Net.DEQ].dropna())


def _difference(run: Finished, measure: str, net: Net, infinite: bool = False) -> Measured:
    values = paired.at_width(run, measure, infinite)[net].dropna()
    return paired.average(values * (100 if measure == "accuracy" else 1))


def _advantage(run: Finished, measure: str, infinite: bool = False) -> Measured:
    values = paired.at_width(run, measure, infinite)
    return paired.advantage(values * (100 if measure == "accuracy" else 1))


def _prediction(run: Finished, measure: str, net: Net | None = None) -> str:
    """Say what infinite width predicts, where a run has it."""
    try:
        if net is None:
            predicted = _advantage(run, measure, infinite=True)
        else:
            predicted = _difference(run, measure, net, infinite=True)
    except InputError:
        return _at_width(run)
    return f"{_at_width(run)} Infinite width predicts {predicted.value:.2g}.".replace("-", "−")


def _at_width(run: Finished) -> str:
    return f"At width {run.table['width'].max()}, the largest of this run."


def _quantities() -> Iterator[Quantity]:
    yield Quantity("accuracy", "DEQ at the largest width, % right", _accuracy, remark=_at_width)
    for measure, unit in _UNITS.items():
        what = {"loss": "training loss over the DEQ’s", "accuracy": "the DEQ’s test accuracy − its"}
        for net, name in _NAMES.items():
            yield Quantity(
                f"{measure}_{net}",
                f"{name} at the largest width: {what[measure]}, {unit}",
                partial(_difference, measure=measure, net=net),
                remark=partial(_prediction, measure=measure, net=net),
            )
        yield Quantity(
            f"{measure}_advantage",
            f"how much farther from the DEQ’s {measure} the plain network is than the twin, {unit}",
            partial(_advantage, measure=measure), _CLAIM, needs=_SIZES,
            remark=partial(_prediction, measure=measure),
        )  # fmt: skip


QUANTITIES = tuple(_quantities())
