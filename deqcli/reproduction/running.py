"""Run presets one after the other; each uses all the jobs, and what is finished is not redone."""

from __future__ import annotations

import logging
import shlex
import tempfile
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from deqcli.errors import DataError, DeqcliError, RunError
from deqcli.presets import Preset
from deqcli.reproduction import reading
from deqcli.reproduction.quantities import QUANTITIES
from deqcli.reproduction.reading import run as read
from deqcli.reproduction.verdicts import Run

__all__ = ["Command", "Outcome", "command_line", "drawn", "read", "reproduce", "spreads"]

logger = logging.getLogger(__name__)

Command = Callable[[Sequence[str], bool], int]
"""Runs deqcli on arguments and returns the exit code; the flag silences it. Errors are raised."""

# A run of these is one draw of the data: two more seeds give the spread, with the exact kernel.
_OTHER_SEEDS = (1, 2)
_ONE_DRAW: dict[str, tuple[str, ...]] = {"spectrum": ("--estimator", "exact"), "match": ()}
# Where every command writes unless told otherwise.
_DEFAULT_OUT = Path("results")
_NORMAL_ENDS = ("steps done", "loss reached")
#: How runs of a preset may end that end before their time: what was found, and no failure.
FINDINGS = {"gen/figure-1": "contraction lost"}


@dataclass(frozen=True)
class Outcome:
    """What became of one preset.

    Attributes
    ----------
    status : {"done", "skipped", "failed"}
        Skipped where real data is missing.
    command : str
        The command line that gives the same again.
    reason : str
        Why it is not done, or what of it failed or is infeasible.
    run : Run or None
        Its files, if it is done.
    code : int
        Exit code of the command; 0 where all that it tells of is a known finding.
    """

    preset: Preset
    status: Literal["done", "skipped", "failed"]
    command: str
    reason: str = ""
    run: Run | None = None
    code: int = 0


def command_line(preset: Preset, out: Path) -> str:
    """Return the command that makes a preset's files in a folder, as it can be typed.

    Examples
    --------
    >>> preset = Preset("a/b", "errata", {"trials": 2}, "", "")
    >>> command_line(preset, Path("results/quick"))
    'deqcli errata --trials 2 --name a-b --out results/quick'
    """
    words = ["deqcli", *preset.arguments(), "--name", preset.stem]
    return shlex.join(words if out == _DEFAULT_OUT else [*words, "--out", str(out)])


def reproduce(
    preset: Preset, out: Path, command: Command, *extra: str, shown: Path | None = None
) -> Outcome:
    """Run one preset into a folder.

    Parameters
    ----------
    extra : str
        Options that do not change the numbers, such as ``--jobs 2`` or ``--force``.
    shown : Path, optional
        The folder that the outcome's command names, if not ``out``.
    """
    text = command_line(preset, out if shown is None else shown)
    try:
        missing = _missing_data(preset)
        if missing:
            return Outcome(preset, "skipped", text, missing)
        arguments = [*preset.arguments(), "--name", preset.stem, "--out", str(out), *extra]
        code = command(arguments, False)
        run = reading.run(out, preset.stem)
    except DeqcliError as error:
        return Outcome(preset, "failed", text, str(error))
    if run is None:
        reason = "points failed; the same command tries them again"
        return Outcome(preset, "failed", text, reason, code=code)
    if not code:
        return Outcome(preset, "done", text, run=run)
    found = _shortcomings(run.results)
    reason = f"Finished with exit code {code}{': ' if found else ''}{'; '.join(found)}."
    finding = FINDINGS.get(preset.name)
    if finding and found and all(each.endswith(finding) for each in found):
        code = 0
    return Outcome(preset, "done", text, reason, run, code)


def _shortcomings(results: dict[str, Any]) -> list[str]:
    """Say what of a finished run failed or is infeasible, as its record has it."""
    found = [
        f"width {run['width']}, trial {run['trial']}: {run['end']}"
        for run in results.get("runs", ())
        if run["end"] not in _NORMAL_ENDS
    ]
    found += [f"{key}: {status}" for key, status in results.get("stopped", {}).items()]
    if results.get("feasible") is False:
        found.append(str(results["verdict"]).rstrip("."))
    return found


def _missing_data(preset: Preset) -> str:
    """Say what is missing of a preset's real data, both halves if it tests; else nothing.

    Raises
    ------
    DataError
        If there is no such data set.
    """
    from deqcli.data import folder, registry

    name = preset.settings.get("data", "gmm")
    if name in ("gmm", "sphere") or preset.command == "errata":
        return ""
    source, half = registry.find(str(name))
    halves: set[registry.Split] = {half}
    if "test-size" in preset.settings:
        halves.add("test")
    try:
        for split in sorted(halves):
            folder.locate(source, split, folder.data_dir())
    except DataError as error:
        return str(error)
    return ""


def drawn(preset: Preset) -> bool:
    """Tell whether a run of the preset is one draw of its data."""
    return preset.command in _ONE_DRAW and preset.settings.get("data") in ("gmm", "sphere")


def spreads(
    outcome: Outcome, command: Command, wanted: Collection[str], *extra: str
) -> dict[str, float]:
    """Return the standard deviation over three seeds of the quantities wanted, by their names.

    Raises
    ------
    DeqcliError
        If a seed could not be run.
    """
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
            found = reading.run(Path(folder), stem)
            if found is None:
                raise RunError(f"seed {seed} left no result")
            runs.append(found)
    found_spreads = {}
    for quantity in QUANTITIES.get(preset.name, ()):
        if quantity.name in wanted:
            measure = quantity.over_seeds or quantity.measure
            # A number that cannot be read must not cost the others.
            try:
                spread = float(np.std([measure(run).value for run in runs], ddof=1))
            except Exception:
                logger.debug("%s, %s: no spread", preset.name, quantity.name, exc_info=True)
                continue
            if np.isfinite(spread):
                found_spreads[quantity.name] = spread
    return found_spreads
