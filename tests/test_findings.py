"""Findings that sentences rest on are those of the committed tables, computed once more."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest
from claims_reading import RESULTS, record, table

from deqcli import paired, predicted_errors
from deqcli.misprints import ERRATA
from deqcli.studies import errata, error_vs_n

#: Tables have nine digits or more; differences of logarithms lose some.
DIGITS = {"rel": 1e-5, "abs": 1e-8}


def trainings(rows: pd.DataFrame) -> dict[str, Any]:
    gaps = paired.gaps(rows)
    limits = gaps["width"] == paired.INFINITE
    return {
        "gaps": gaps[~limits].to_dict("records"),
        "predicted": gaps[limits].to_dict("records"),
        "advantages": paired.advantages(rows),
        "resolution": paired.resolution(rows),
        "clipped": paired.clipped(rows).reset_index().to_dict("records"),
    }


def errors(rows: pd.DataFrame) -> dict[str, Any]:
    last = rows[rows["n"] == rows["n"].max()].groupby("act", sort=False)
    return {
        "slopes": error_vs_n._slopes(rows, "error"),
        "own_slopes": error_vs_n._slopes(rows, "own_error"),
        "own_gains": (last["error"].mean() / last["own_error"].mean()).to_dict(),
    }


RULES: dict[str, Callable[[pd.DataFrame], dict[str, Any]]] = {
    "accuracy": trainings,
    "predict": predicted_errors.findings,
    "error-vs-n": errors,
    "errata": lambda rows: {"errata": {name: errata._curve(rows, name) for name in ERRATA}},
}
STEMS = [
    path.stem
    for path in sorted(RESULTS.glob("*.json"))
    if json.loads(path.read_text(encoding="utf-8"))["study"] in RULES
]


def differing(found: Any, said: Any, place: str = "") -> list[str]:
    """Return where two findings differ by more than the digits of a table."""
    if isinstance(found, dict):
        return [
            each
            for key, value in found.items()
            for each in (
                differing(value, said[key], f"{place}.{key}")
                if key in said
                else [f"{place}.{key} is not said"]
            )
        ]
    if isinstance(found, list):
        if len(found) != len(said):
            return [f"{place} has {len(said)} entries, not {len(found)}"]
        pairs = enumerate(zip(found, said, strict=True))
        return [each for k, (a, b) in pairs for each in differing(a, b, f"{place}[{k}]")]
    if isinstance(found, float) and not math.isnan(found) and said is not None:
        return [] if said == pytest.approx(found, **DIGITS) else [f"{place}: {said}, not {found}"]
    return [] if found == said else [f"{place}: {said}, not {found}"]


@pytest.mark.parametrize("stem", STEMS)
def test_findings_are_those_of_the_table(stem):
    rule = RULES[record(stem)["study"]]
    found = json.loads(json.dumps(rule(table(stem)), default=float))
    assert differing(found, record(stem)["findings"]) == []


def test_a_changed_table_is_found():
    rows = table("iclr-figure-3-a").copy()
    rows.loc[(rows["net"] == "plain") & (rows["width"] == 64), "train_loss"] *= 0.5
    found = json.loads(json.dumps(trainings(rows), default=float))
    assert differing(found, record("iclr-figure-3-a")["findings"])
