"""What is said of paired trainings: sentences, and the numbers that are set beside the papers'."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from deqcli import paired
from deqcli.display import around
from deqcli.errors import InputError
from deqcli.quantities import Claim, Finished, Measured, Quantity
from deqcli.vocabulary import Net

_CLAIM = Claim("> 0: the twin is nearer", least=0.0)
#: Settings on which the size of a difference depends.
_SIZES = ("train_size", "test_size", "epochs")
#: What each measure is called, and of which the paper's claim is tested.
_TEXTS = {
    "loss": "log(training loss / the DEQ’s), mean over epochs",
    "end": "log(training loss / the DEQ’s), last epoch",
    "distance": "distance of its loss curve from the DEQ’s, rms log ratio",
    "accuracy": "the DEQ’s test accuracy − its, points",
}
_CLAIMED = {"distance": "DEQ’s loss curve", "accuracy": "DEQ’s test accuracy, in points,"}
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
        if not row["enough"] and row["interval"] is not None:
            yield f"width {widest}: {_unresolved(row)}"
    if limit := findings.get("regression"):
        solved = f", residual {limit['residual']:.1g}" if limit["residual"] else ""
        yield (
            f"infinite width, least squares with the exact {limit['kernel']}: test accuracy "
            f"{100 * limit['accuracy']:.2f} %{solved}"
        )
    shares = [
        f"{100 * row['share']:.0f} % at width {row['width']}"
        for row in findings["clipped"]
        if row["share"]
    ]
    if shares:
        yield f"epochs in which the DEQ's norm was clipped: {', '.join(shares)}"


def _unresolved(row: Mapping[str, Any]) -> str:
    """Say that no effect is predicted, or that the trials are not enough for it."""
    factor, unit = (100, " points") if row["measure"] == "accuracy" else (1, "")
    # Records of before have no interval of what was predicted.
    half = row.get("predicted_interval")
    spread = "" if half is None else f" +- {factor * half:.2g}"
    text = (
        f"in {row['measure']} infinite width predicts the plain network "
        f"{factor * row['predicted']:+.2g}{spread}{unit} farther from the DEQ than the twin"
    )
    if not row.get("effect", True):
        return f"{text}: no effect that these trials tell from zero"
    needed = row["trials"]
    remedy = f"{needed} trials would see it" if needed else "no 10000 trials would see it"
    return f"{text}, the interval is +- {factor * row['interval']:.2g}: {remedy}"


def _sentence(gap: Mapping[str, Any], predicted: Mapping[str, Any] | None) -> str:
    """Say how far a network is from the DEQ, and how far it was predicted to be."""

    def told(read: Callable[[Mapping[str, Any]], str]) -> str:
        return read(gap) + (f" [infinite width {read(predicted)}]" if predicted else "")

    loss, end = (told(partial(_ratio, key=key)) for key in ("loss", "end"))
    return (
        f"width {gap['width']}: training loss of {gap['net']} / DEQ's = {loss}, in the last epoch "
        f"{end}; test accuracy DEQ - {gap['net']} = {told(_points)} points"
    )


def _ratio(gap: Mapping[str, Any], key: str) -> str:
    """Return the ratio of which a finding is the logarithm; its interval has two sides."""
    value, half = gap[key], gap[f"{key}_interval"]
    text = f"{math.exp(value):.3f}"
    if half is None:
        return text
    return f"{text} ({math.exp(value - half):.3f} to {math.exp(value + half):.3f})"


def _points(gap: Mapping[str, Any]) -> str:
    half = gap["accuracy_interval"]
    return f"{100 * gap['accuracy']:.2f}" + ("" if half is None else f" +- {100 * half:.2f}")


def _accuracy(run: Finished) -> Measured:
    final = 100 * paired.accuracies(run.table)
    wide = final.index.get_level_values("width") == run.table["width"].max()
    return paired.average(final.loc[wide, Net.DEQ].dropna())


def _difference(run: Finished, measure: str, net: Net, infinite: bool = False) -> Measured:
    values = paired.at_width(run, measure, infinite)[net].dropna()
    return paired.average(values * (100 if measure == "accuracy" else 1))


def _advantage(run: Finished, measure: str, infinite: bool = False) -> Measured:
    values = paired.at_width(run, measure, infinite)
    factor = 100 if measure == "accuracy" else 1
    return paired.advantage(factor * values, signed=measure != "distance")


def _prediction(run: Finished, measure: str, net: Net | None = None) -> str:
    """Say what infinite width predicts, where a run has it."""
    try:
        if net is None:
            predicted = _advantage(run, measure, infinite=True)
        else:
            predicted = _difference(run, measure, net, infinite=True)
    except InputError:
        return _at_width(run)
    half = predicted.spread
    told = f"{_at_width(run)} Infinite width predicts {around(predicted.value, half)}"
    nothing = net is None and half is not None and abs(predicted.value) <= half
    return f"{told}, no effect that these trials tell from zero." if nothing else f"{told}."


def _at_width(run: Finished) -> str:
    return f"At width {run.table['width'].max()}, the largest of this run."


def _quantities() -> Iterator[Quantity]:
    yield Quantity("accuracy", "DEQ at the largest width, % right", _accuracy, remark=_at_width)
    for measure, text in _TEXTS.items():
        for net, name in _NAMES.items():
            yield Quantity(
                f"{measure}_{net}",
                f"{name} at the largest width: {text}",
                partial(_difference, measure=measure, net=net),
                remark=partial(_prediction, measure=measure, net=net),
            )
        if measure in _CLAIMED:
            yield Quantity(
                f"{measure}_advantage",
                f"how much farther from the {_CLAIMED[measure]} the plain network is than the twin",
                partial(_advantage, measure=measure), _CLAIM, needs=_SIZES,
                remark=partial(_prediction, measure=measure),
            )  # fmt: skip


QUANTITIES = tuple(_quantities())
