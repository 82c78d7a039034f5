"""The summary: every number of ours beside the paper's, as CSV and as Markdown."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd

from deqcli.display import around
from deqcli.errors import DeqcliError, InputError
from deqcli.quantities import (
    FAILED,
    RULE,
    UNDECIDED,
    Finished,
    Measured,
    Printed,
    Quantity,
    undecided_note,
    verdict,
)
from deqcli.reproduction.presets import Preset, names
from deqcli.reproduction.running import Outcome, intervals, is_one_draw
from deqcli.runs import files, reading
from deqcli.runs.lock import alone

COLUMNS = (
    "preset", "figure", "quantity", "paper", "ours", "interval", "verdict", "note", "cut",
    "command", "hash",
)  # fmt: skip
NAME = "summary"


def rows(outcome: Outcome, old: pd.DataFrame, jobs: int | None = None) -> pd.DataFrame:
    """Return the rows of one preset; intervals that an old summary has are not measured again.

    A number that cannot be measured, or an interval, costs only itself and is said in the note.
    """
    preset, result = outcome.preset, outcome.result
    base = {"preset": preset.name, "figure": preset.heading, "command": outcome.command}
    base |= {"cut": " ".join(preset.cut)}
    if outcome.status != "done" or result is None:
        return _frame([{**base, "verdict": outcome.status, "note": outcome.reason}])
    quantities = quantities_of(preset)
    base["hash"] = result.record["hash"]
    one_draw = is_one_draw(preset)
    same = old[(old["preset"] == preset.name) & (old["hash"] == base["hash"])]
    seeds = dict(zip(same["quantity"], same["interval"], strict=True)) if one_draw else {}
    seeds = {name: float(value) for name, value in seeds.items() if pd.notna(value)}
    wanted = [each for each in quantities if each.seeded and each.name not in seeds]
    lost = "No interval: another seed could not be measured." if one_draw else ""
    try:
        seeds |= intervals(outcome, wanted, jobs)
    except DeqcliError as error:
        lost = f"No interval: {str(error).rstrip('.')}."
    lines: list[dict[str, object]] = []
    for quantity in quantities:
        row = {
            **base,
            "quantity": quantity.name,
            "paper": None if quantity.paper is None else str(quantity.paper),
        }
        try:
            measured, remark = _measure(quantity, result)
        # One number that cannot be read must not cost the others.
        except Exception as error:
            name = "" if isinstance(error, DeqcliError) else f"{type(error).__name__}: "
            why = f"Not measured: {name}{str(error).rstrip('.')}."
            note = _joined(why, quantity.note, outcome.reason)
            lines.append({**row, "verdict": FAILED, "note": note})
            continue
        measured = replace(measured, spread=seeds.get(quantity.name, measured.spread))
        decision = verdict(quantity, measured, preset.cut)
        needed = undecided_note(quantity.paper, measured) if decision == UNDECIDED else ""
        no_interval = lost if quantity.seeded and quantity.name not in seeds else ""
        lines.append(
            {
                **row,
                "ours": measured.value,
                "interval": measured.spread,
                "verdict": decision,
                "note": _joined(needed, quantity.note, remark, no_interval, outcome.reason),
            }
        )
    return _frame(lines)


def quantities_of(preset: Preset) -> list[Quantity]:
    """Return the quantities of a preset's study with the numbers that its paper prints."""
    figure = preset.figure
    quantities = preset.study.quantities(preset.settings)
    keys = {quantity.key for quantity in quantities}
    for key in (*figure.printed, *figure.notes):
        if key not in keys:
            raise InputError(f"The preset {preset.name}: there is no quantity {key!r}.")
    return [
        replace(
            quantity,
            paper=Printed(figure.printed[quantity.key])
            if quantity.key in figure.printed
            else quantity.paper,
            note=figure.notes.get(quantity.key, quantity.note),
        )
        for quantity in quantities
    ]


def _measure(quantity: Quantity, run: Finished) -> tuple[Measured, str]:
    measured = quantity.measure(run)
    if not math.isfinite(measured.value):
        raise InputError(f"it is {measured.value}")
    return measured, "" if quantity.remark is None else quantity.remark(run)


def _joined(*sentences: str) -> str:
    return " ".join(sentence for sentence in sentences if sentence)


def _frame(lines: Sequence[dict[str, object]]) -> pd.DataFrame:
    return pd.DataFrame(lines, columns=list(COLUMNS))


def read(out: Path) -> pd.DataFrame:
    """Return the summary of a folder, empty if there is none.

    Raises
    ------
    InputError
        If it is broken or has other columns.
    """
    path = out / f"{NAME}.csv"
    return reading.table(path, COLUMNS) if path.is_file() else empty()


def empty() -> pd.DataFrame:
    """Return a summary of nothing."""
    return _frame([])


def write(out: Path, parts: Iterable[pd.DataFrame], old: pd.DataFrame) -> tuple[Path, Path]:
    """Write ``summary.csv`` and ``summary.md``; presets not run this time keep their old rows."""
    fresh = pd.concat([part for part in parts if not part.empty], ignore_index=True)
    kept = old[~old["preset"].isin(set(fresh["preset"]))]
    table = fresh if kept.empty else pd.concat([kept, fresh], ignore_index=True)
    order = {name: place for place, name in enumerate(names())}
    places = table["preset"].map(lambda name: order.get(name, len(order)))
    table = table.assign(place=places).sort_values("place", kind="stable").drop(columns="place")
    paths = out / f"{NAME}.csv", out / f"{NAME}.md"
    with alone(*paths):
        files.write_csv(paths[0], table)
        files.write_text(paths[1], markdown(table))
    return paths


def ours(row: pd.Series) -> str:
    """Return our number with half of its interval, a dash where there is none.

    Examples
    --------
    >>> ours(pd.Series({"ours": 0.00833, "interval": 0.161}))
    '0.01 ± 0.16'
    """
    value, half = row["ours"], row["interval"]
    return "–" if pd.isna(value) else around(value, None if pd.isna(half) else half)


def text(value: object) -> str:
    """Return a cell's text, empty where there is none."""
    return "" if value is None or (isinstance(value, float) and pd.isna(value)) else str(value)


def markdown(table: pd.DataFrame) -> str:
    """Return the summary as it can stand in a README."""
    lines = [
        "| figure | quantity | paper | ours | verdict |",
        "| --- | --- | --- | --- | --- |",
    ]
    for _, row in table.iterrows():
        cells = (
            row["figure"], row["quantity"], row["paper"], ours(row),
            f"{row['verdict']}. {text(row['note'])}" if text(row["note"]) else row["verdict"],
        )  # fmt: skip
        lines.append("| " + " | ".join(text(cell).replace("|", "\\|") for cell in cells) + " |")
    commands = dict(zip(table["preset"], table["command"], strict=True))
    lines += ["", RULE, "", "Each from one command, or all from `deqcli reproduce all`:", ""]
    lines += [f"* {name}: `{command}`" for name, command in commands.items()]
    return "\n".join(lines) + "\n"
