"""Run presets one after the other; each uses all the jobs, and what is finished is not redone."""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from deqcli.errors import DeqcliError
from deqcli.quantities import Quantity, draw_interval
from deqcli.reproduction.presets import Preset
from deqcli.runs import provenance
from deqcli.runs.execute import run
from deqcli.runs.result import Result
from deqcli.runs.store import Store
from deqcli.shared_settings import SourceSettings

logger = logging.getLogger("deqcli")

# A run that is one draw of the data has its interval from four more.
_OTHER_SEEDS = (1, 2, 3, 4)


@dataclass(frozen=True)
class Outcome:
    """What became of one preset.

    Attributes
    ----------
    status : {"done", "skipped", "failed"}
        Skipped where real data is missing that a run would need.
    command : str
        The command line that gives the same again.
    reason : str
        Why it is not done, or what of it failed or is infeasible.
    result : Result or None
        What the study returned, if it ran.
    code : int
        Exit code of the study; 0 where all that it tells of is expected.
    """

    preset: Preset
    status: Literal["done", "skipped", "failed"]
    command: str
    reason: str = ""
    result: Result | None = None
    code: int = 0


def reproduce(
    preset: Preset,
    out: Path,
    *,
    shown: Path | None = None,
    jobs: int | None = None,
    force: bool = False,
    progress: bool = False,
) -> Outcome:
    """Run one preset into a folder.

    Parameters
    ----------
    shown : Path, optional
        The folder that the outcome's command names, if not ``out``.
    jobs, force, progress
        See :func:`deqcli.runs.execute.run`.
    """
    study, settings = preset.study, preset.settings
    command = study.command_line(settings, preset.stem, out if shown is None else shown)
    missing = missing_data(preset)
    # What is finished is only read.
    if missing and (force or not _finished(preset, out)):
        return Outcome(preset, "skipped", command, missing)
    try:
        result = run(
            study.name, settings, out=out, name=preset.stem, jobs=jobs, force=force,
            progress=progress,
        )  # fmt: skip
    except DeqcliError as error:
        return Outcome(preset, "failed", command, str(error))
    # One figure that cannot be made must not cost the others.
    except Exception as error:
        logger.debug("%s", preset.name, exc_info=True)
        reason = f"{type(error).__name__}: {error}; its command alone with -v shows where"
        return Outcome(preset, "failed", command, reason)
    if result.status == "incomplete":
        reason = "points failed; the same command tries them again"
        return Outcome(preset, "failed", command, reason, result, result.exit_code)
    short = result.shortcomings
    if not short:
        return Outcome(preset, "done", command, result=result)
    reason = f"Finished with shortcomings: {'; '.join(short)}."
    expected = tuple(preset.figure.expected)
    code = 0 if expected and all(each.endswith(expected) for each in short) else 3
    return Outcome(preset, "done", command, reason, result, code)


def _finished(preset: Preset, out: Path) -> bool:
    """Tell whether the preset's result is in a folder."""
    try:
        identity = provenance.identity(preset.study, preset.settings)
        return Store(out, preset.stem, identity).finished()
    except DeqcliError:
        return False


def missing_data(preset: Preset) -> str:
    """Say what is missing of a preset's real data, both halves if it tests; else nothing."""
    settings = preset.settings
    if not isinstance(settings, SourceSettings) or settings.drawn:
        return ""
    return settings.law().missing(halves=hasattr(settings, "test_size"))


def is_one_draw(preset: Preset) -> bool:
    """Tell whether a run of the preset is one draw of its data."""
    return preset.study.reseeded(preset.settings, 0) is not None


def intervals(outcome: Outcome, wanted: Collection[Quantity], jobs: int | None) -> dict[str, float]:
    """Return within what a second draw lies of the first, by the names of the quantities wanted.

    Raises
    ------
    DeqcliError
        If a seed could not be run.
    """
    preset, result = outcome.preset, outcome.result
    if result is None or not is_one_draw(preset) or not wanted:
        return {}
    logger.info("%s: %d more seeds for the interval", preset.name, len(_OTHER_SEEDS))
    runs = [result]
    for seed in _OTHER_SEEDS:
        settings = preset.study.reseeded(preset.settings, seed)
        runs.append(run(preset.study.name, settings, jobs=jobs))
    halves = {}
    for quantity in wanted:
        measure = quantity.over_seeds or quantity.measure
        # One number that cannot be read must not cost the others.
        try:
            halves[quantity.name] = draw_interval([measure(each).value for each in runs])
        except Exception:
            logger.debug("%s, %s: no interval", preset.name, quantity.name, exc_info=True)
    return halves
