"""Committed results as the rules of README and docs read them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

from deqcli.runs import tables

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "results"


@cache
def record(stem: str) -> dict[str, Any]:
    """Return the record of a committed run."""
    return json.loads((RESULTS / f"{stem}.json").read_text(encoding="utf-8"))


def findings(stem: str) -> dict[str, Any]:
    """Return what a committed run recorded."""
    return record(stem)["findings"]


def settings(stem: str) -> dict[str, Any]:
    """Return the settings of a committed run."""
    return record(stem)["settings"]


def timings(stem: str) -> dict[str, Any]:
    """Return what a committed run took."""
    return record(stem)["timings"]


@cache
def table(stem: str) -> pd.DataFrame:
    """Return the table of a committed run."""
    return tables.read(RESULTS / f"{stem}.csv")


@cache
def verdicts(preset: str) -> dict[str, str]:
    """Return the verdict on every quantity of a preset, by the summary."""
    rows = pd.read_csv(RESULTS / "summary.csv").query("preset == @preset")
    return dict(zip(rows["quantity"], rows["verdict"], strict=True))


def span(values: Iterable[float], form: str = ".2g", unit: str = "") -> str:
    """Return the least and the largest value."""
    low, high = (f"{value:{form}}".replace("-", "−") for value in (min(values), max(values)))
    return f"{low}{unit}" if low == high else f"{low} to {high}{unit}"
