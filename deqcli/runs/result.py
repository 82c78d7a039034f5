"""What became of a run: its table, what was found, its figure and its files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from deqcli.display import Displayed
from deqcli.errors import RunError
from deqcli.runs import files
from deqcli.runs.parallel import Failure
from deqcli.settings import Settings
from deqcli.study import get

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

Status = Literal["done", "already done", "incomplete", "dry run"]


@dataclass(frozen=True, repr=False)
class Result(Displayed):
    """What became of a run.

    Attributes
    ----------
    study, stem : str
        The study, and the name that its files share.
    settings : Settings
    status : {"done", "already done", "incomplete", "dry run"}
    points, reused : int
        All points of the study, and those that were on disk before.
    memory : int
        Bytes needed at most by all local processes, or by one worker of a cluster.
    paths : tuple of Path
        Files of the finished run: CSV, figures, ``.npz``, JSON, exports; none without ``out``.
    failures : tuple of Failure
        Points that have no result.
    record : mapping
        The provenance of a finished run, as its JSON has it.
    """

    study: str
    stem: str
    settings: Settings
    status: Status
    points: int
    reused: int
    memory: int
    paths: tuple[Path, ...] = ()
    failures: tuple[Failure, ...] = ()
    record: Mapping[str, Any] = field(default_factory=dict, repr=False)
    _table: pd.DataFrame | None = field(default=None, repr=False)

    def _facts(self) -> dict[str, object]:
        facts: dict[str, object] = {
            "study": self.study,
            "name": self.stem,
            "status": self.status,
            "points": self.points,
        }
        if self._table is not None:
            facts["table"] = f"{len(self._table)} rows: {', '.join(self._table.columns)}"
        numbered = enumerate(self.sentences, start=1)
        return facts | {f"finding {number}": text for number, text in numbered}

    @property
    def table(self) -> pd.DataFrame:
        """The CSV as it reads back from the disk, with the constants of its record.

        Raises
        ------
        RunError
            If the run did not finish; the first failure is named.
        """
        if self._table is None:
            first = self.failures[0] if self.failures else None
            reason = f"{first.key}: {first.message}" if first else self.status
            raise RunError(f"the run {self.stem} has no table: {reason.rstrip('.')}.")
        return self._table

    @property
    def findings(self) -> Mapping[str, Any]:
        """What the study found, as the JSON has it; empty if the run did not finish."""
        findings: Mapping[str, Any] = self.record.get("findings", {})
        return findings

    @property
    def sentences(self) -> Sequence[str]:
        """What was found, in lines for a person."""
        with self._reading(".json"):
            return tuple(get(self.study).sentences(self.findings)) if self.record else ()

    @property
    def shortcomings(self) -> Sequence[str]:
        """What of a finished run failed or is infeasible."""
        with self._reading(".json"):
            return get(self.study).shortcomings(self.findings) if self.record else ()

    @property
    def exit_code(self) -> int:
        """3 if points failed or are infeasible, else 0."""
        return 3 if self.status == "incomplete" or self.shortcomings else 0

    def figure(self) -> Figure:
        """Draw the figure of the table."""
        with self._reading(".csv"):
            return get(self.study).draw(self.table)

    def _reading(self, suffix: str) -> AbstractContextManager[None]:
        """Say which file is damaged if the block fails for what an earlier run left."""
        if self.status != "already done":
            return nullcontext()
        named = (path for path in self.paths if path.suffix == suffix)
        return files.usable(next(named, Path(f"{self.stem}{suffix}")))
