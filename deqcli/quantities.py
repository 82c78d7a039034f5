"""What a paper says of a number, and whether ours agrees, by the :data:`RULE` and no other."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from deqcli.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

AGREES, DIFFERS, UNDECIDED = "agrees", "differs", "undecided"
SILENT, CUT = "paper does not say", "not compared: smaller run"
FAILED = "failed"

RULE = (
    "The rule. A printed number agrees if ours is within half a unit of its last digit plus two "
    "spreads. A claim agrees if ours keeps its bound, differs if not, and is undecided where two "
    "spreads reach across the bound; a rate of −1/2 is kept by a fitted slope of at most −0.45. "
    "What depends on the size is not compared with a smaller run. The spread is the standard error "
    "over trials, or the standard deviation over three seeds where a run is one draw of the data; "
    "there is none where nothing is random."
)


@dataclass(frozen=True)
class Measured:
    """A number of ours and its spread, None where one run cannot tell."""

    value: float
    spread: float | None = None


@dataclass(frozen=True)
class Printed:
    """A number as the paper prints it, kept as text for the sake of its last digit."""

    text: str

    def __str__(self) -> str:
        return self.text

    def judge(self, measured: Measured) -> str:
        """Tell whether a value rounds to the printed one, give or take two spreads.

        Examples
        --------
        >>> Printed("0.12").judge(Measured(0.1249)), Printed("0.12").judge(Measured(0.085, 0.002))
        ('agrees', 'differs')
        """
        decimals = len(self.text.partition(".")[2])
        margin = 0.5 * 10.0**-decimals + 2 * (measured.spread or 0.0)
        return AGREES if abs(measured.value - float(self.text)) <= margin else DIFFERS


@dataclass(frozen=True)
class Claim:
    """A statement that puts a bound on a number."""

    text: str
    least: float = -math.inf
    most: float = math.inf

    def __str__(self) -> str:
        return self.text

    def judge(self, measured: Measured) -> str:
        """Tell whether a value keeps the bound, and whether its spread leaves that open.

        Examples
        --------
        >>> claim = Claim("> 0", least=0.0)
        >>> [claim.judge(Measured(value, 0.5)) for value in (2.0, 0.9, -0.9, -2.0)]
        ['agrees', 'undecided', 'undecided', 'differs']
        """
        room = min(measured.value - self.least, self.most - measured.value)
        if abs(room) < 2 * (measured.spread or 0.0):
            return UNDECIDED
        return AGREES if room >= 0 else DIFFERS


class Finished(Protocol):
    """A finished run, as :class:`deqcli.runs.execute.Result` is one."""

    @property
    def table(self) -> pd.DataFrame:
        """The CSV."""

    @property
    def findings(self) -> Mapping[str, Any]:
        """What the study recorded."""


@dataclass(frozen=True)
class Quantity:
    """One number of a study that can be set beside a paper's.

    Attributes
    ----------
    key : str
        What the table ``figure.printed`` of a preset calls it.
    name : str
        What it is, for the summary.
    measure : callable
        Takes it from a finished run.
    paper : Printed, Claim or None
        What the paper says; a preset may have a printed number instead.
    note : str
        Why they may differ.
    needs : tuple of str
        Settings that must not have been cut for a comparison with the paper.
    over_seeds : callable, optional
        Taken from runs of several seeds for the spread, where it is not ``measure`` itself.
    remark : callable, optional
        What is to be said of one run, after the note.
    """

    key: str
    name: str
    measure: Callable[[Finished], Measured]
    paper: Printed | Claim | None = None
    note: str = ""
    needs: tuple[str, ...] = ()
    over_seeds: Callable[[Finished], Measured] | None = None
    remark: Callable[[Finished], str] | None = None


def verdict(quantity: Quantity, measured: Measured, cut: tuple[str, ...] = ()) -> str:
    """Apply the rule of this module.

    Parameters
    ----------
    cut : tuple of str
        Settings that made the run smaller than the paper's.

    Examples
    --------
    >>> def judge(paper, *measured):
    ...     return verdict(Quantity("", "", lambda run: Measured(0.0), paper), Measured(*measured))
    >>> judge(Printed("0.12"), 0.085, 0.002)
    'differs'
    >>> judge(Claim("at most -1/2", most=-0.5), -0.6, 0.02)
    'agrees'
    >>> judge(None, 1.0)
    'paper does not say'
    """
    paper = quantity.paper
    if paper is None:
        return SILENT
    if set(quantity.needs) & set(cut):
        return CUT
    return paper.judge(measured)


def mean(values: Sequence[float]) -> Measured:
    """Return the mean of repetitions with its standard error, which one value does not have.

    Examples
    --------
    >>> mean([1.0, 3.0]), mean([2.0])
    (Measured(value=2.0, spread=1.0), Measured(value=2.0, spread=None))
    """
    if not len(values):
        raise InputError("there is no value to average")
    return Measured(statistics.fmean(values), standard_error(values))


def standard_error(values: Sequence[float]) -> float | None:
    """Return the standard error of a mean, None below two values."""
    if len(values) < 2:
        return None
    return statistics.stdev(values) / math.sqrt(len(values))
