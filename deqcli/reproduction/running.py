"""Run presets one after the other; each uses all the jobs, and what is finished is not redone."""

from __future__ import annotations

import json
import logging
import shlex
import tempfile
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from deqcli.errors import DataError, DeqcliError
from deqcli.presets import Preset
from deqcli.reproduction.quantities import QUANTITIES
from deqcli.reproduction.verdicts import Run
from deqcli.runs import files

logger = logging.getLogger(__name__)

Command = Callable[[Sequence[str], bool], int]
"""Runs deqcli on arguments and returns the exit code; the flag silences it. Errors are raised."""

# A run of these is one draw of the data: two more seeds give the spread, with the exact kernel.
_OTHER_SEEDS = (1, 2)
_ONE_DRAW: dict[str, tuple[str, ...]] = {"spectrum": ("--estimator", "exact"), "match": ()}


@dataclass(frozen=True)
class Outcome:
    """What became of one preset.

    Attributes
    ----------
    status : {"done", "skipped", "failed"}
        Skipped where real data is missing.
    reason : str
        Why it is not done.
    command : str
        The command line that gives the same again.
    """

    preset: Preset
    status: Literal["done", "skipped", "failed"]
    command: str
    reason: str = ""
    run: Run | None = None


def reproduce(preset: Preset, out: Path, command: Command, *extra: str) -> Outcome:
    """Run one preset into a folder.

    Parameters
    ----------
    extra : str
        Options that do not change the numbers, such as ``--jobs 2`` or ``--force``.
    """
    arguments = [*preset.arguments(), "--name", preset.stem]
    text = shlex.join(["deqcli", *arguments])
    try:
        _require_data(preset)
    except DataError as error:
        return Outcome(preset, "skipped", text, str(error))
    try:
        command([*arguments, "--out", str(out), *extra], False)
    except DeqcliError as error:
        return Outcome(preset, "failed", text, str(error))
    run = read(out, preset.stem)
    if run is None:
        return Outcome(preset, "failed", text, "points failed; the same command tries them again")
    return Outcome(preset, "done", text, run=run)


def read(out: Path, stem: str) -> Run | None:
    """Return a finished run of a folder, or None if there is none."""
    record, table = out / f"{stem}.json", out / f"{stem}.csv"
    if not (record.is_file() and table.is_file()):
        return None
    with files.explained(record, "read"):
        return Run(json.loads(record.read_text(encoding="utf-8")), files.read_csv(table))


def _require_data(preset: Preset) -> None:
    """Raise unless the real data of a preset is there, both halves if it tests."""
    from deqcli.data import folder, registry

    name = preset.settings.get("data", "gmm")
    if name in ("gmm", "sphere") or preset.command == "errata":
        return
    source, half = registry.find(str(name))
    halves: set[registry.Split] = {half}
    if "test-size" in preset.settings:
        halves.add("test")
    for split in sorted(halves):
        folder.locate(source, split, folder.data_dir())


def drawn(preset: Preset) -> bool:
    """Tell whether a run of the preset is one draw of its data."""
    return preset.command in _ONE_DRAW and preset.settings.get("data") in ("gmm", "sphere")


def spreads(
    outcome: Outcome, command: Command, wanted: Collection[str], *extra: str
) -> dict[str, float]:
    """Return the standard deviation over three seeds of the quantities wanted, by their names."""
    preset = outcome.preset
    if outcome.run is None or not drawn(preset) or not wanted:
        return {}
    logger.info("%s: two more seeds for the spread", preset.name)
    runs = [outcome.run]
    with tempfile.TemporaryDirectory(prefix="deqcli-") as folder:
        for seed in _OTHER_SEEDS:
            stem = f"seed-{seed}"
            arguments = [*preset.arguments(), *_ONE_DRAW[preset.command], *extra]
            command([*arguments, "--seed", str(seed), "--out", folder, "--name", stem], True)
            found = read(Path(folder), stem)
            if found is not None:
                runs.append(found)
    found_spreads = {}
    for quantity in QUANTITIES.get(preset.name, ()):
        if quantity.name in wanted:
            measure = quantity.over_seeds or quantity.measure
            values = [measure(run).value for run in runs]
            found_spreads[quantity.name] = float(np.std(values, ddof=1))
    return found_spreads
