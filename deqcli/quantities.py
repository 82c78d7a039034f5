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
    "The rule. What stands after ± is half of a 95 % interval by Student’s t: of the mean over "
    "trials, paired where trials share samples, or of what a second draw of the data differs by "
    "where a run is one draw (five seeds). It is also the smallest difference that the run could "
    "have seen. A printed number agrees if ours is within that plus half a unit of its last digit. "
    "A claim agrees if the interval keeps its bound, differs if it breaks it, and is undecided "
    "where it reaches across, where one trial has none, and where sampling alone makes half of a "
    "distance between averages; the note says how many trials would "
    "decide if the mean and the scatter stayed as they are. A rate of −1/2 is kept by a fitted "
    "slope of at most −0.45. What depends on the size is not compared with a smaller run. There "
    "is no ± where nothing is random, and where one average on one set of samples was made."
)

LEVEL = 0.95
# Beyond this the answer is that no affordable number of trials decides.
_MANY = 10_000


@dataclass(frozen=True)
class Measured:
    """A number of ours and how well it is known.

    Attributes
    ----------
    value : float
    spread : float or None
        Half of its 95 % interval; None where nothing is random, or one trial cannot tell.
    count : int or None
        How many trials it is the mean of; None where it is none.
    noise : float or None
        What sampling alone would make of a distance between averages.
    trials : int or None
        How many trials would decide its sign, where the interval does not tell.
    """

    value: float
    spread: float | None = None
    count: int | None = None
    noise: float | None = None
    trials: int | None = None

    @property
    def untold(self) -> bool:
        """Whether it decides nothing: one trial of something random, or mostly noise."""
        return (self.count == 1 and self.spread is None) or self.noisy

    @property
    def noisy(self) -> bool:
        """Whether sampling alone makes half of a distance, or more."""
        return self.noise is not None and self.noise >= 0.5 * self.value


@dataclass(frozen=True)
class Printed:
    """A number as the paper prints it, kept as text for the sake of its last digit."""

    text: str

    def __str__(self) -> str:
        return self.text

    def room(self, measured: Measured) -> float:
        """Return how far inside the printed number's last digit a value is; negative outside."""
        decimals = len(self.text.partition(".")[2])
        return 0.5 * 10.0**-decimals - abs(measured.value - float(self.text))

    def judge(self, measured: Measured) -> str:
        """Tell whether a value rounds to the printed one, give or take its interval.

        Examples
        --------
        >>> Printed("0.12").judge(Measured(0.1249)), Printed("0.12").judge(Measured(0.085, 0.01))
        ('agrees', 'differs')
        """
        if measured.untold:
            return UNDECIDED
        return AGREES if self.room(measured) + (measured.spread or 0.0) >= 0 else DIFFERS


@dataclass(frozen=True)
class Claim:
    """A statement that puts a bound on a number."""

    text: str
    least: float = -math.inf
    most: float = math.inf

    def __str__(self) -> str:
        return self.text

    def room(self, measured: Measured) -> float:
        """Return how far a value is from the bound; negative beyond it."""
        return min(measured.value - self.least, self.most - measured.value)

    def judge(self, measured: Measured) -> str:
        """Tell whether an interval keeps the bound, breaks it or reaches across.

        Examples
        --------
        >>> claim = Claim("> 0", least=0.0)
        >>> [claim.judge(Measured(value, 1.0)) for value in (2.0, 0.9, -0.9, -2.0)]
        ['agrees', 'undecided', 'undecided', 'differs']
        """
        room = self.room(measured)
        if measured.untold or abs(room) < (measured.spread or 0.0):
            return UNDECIDED
        return AGREES if room >= 0 else DIFFERS


class Finished(Protocol):
    """A finished run, as :class:`deqcli.runs.result.Result` is one."""

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
    seeded : bool
        Whether runs of several seeds, where they are made, give it an interval.
    """

    key: str
    name: str
    measure: Callable[[Finished], Measured]
    paper: Printed | Claim | None = None
    note: str = ""
    needs: tuple[str, ...] = ()
    over_seeds: Callable[[Finished], Measured] | None = None
    remark: Callable[[Finished], str] | None = None
    seeded: bool = True


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


def t_quantile(freedom: int, level: float = LEVEL) -> float:
    """Return how many standard errors half of an interval has, by Student's t.

    Examples
    --------
    >>> [round(t_quantile(freedom), 2) for freedom in (1, 2, 4, 1000)]
    [12.71, 4.3, 2.78, 1.96]
    """
    from scipy.special import stdtrit

    return float(stdtrit(freedom, 0.5 + 0.5 * level))


def mean_interval(values: Sequence[float], level: float = LEVEL) -> Measured:
    r"""Return the mean of repetitions and half of its interval.

    .. math:: \bar x \pm t_{k-1}\, s/\sqrt k

    Differences within pairs make the interval a paired one. One value has no interval.

    Examples
    --------
    >>> mean_interval([1.0, 2.0, 3.0]).spread.__round__(3), mean_interval([2.0])
    (2.484, Measured(value=2.0, spread=None, count=1, noise=None, trials=None))
    """
    if not len(values):
        raise InputError("there is no value to average")
    error = standard_error(values)
    half = None if error is None else t_quantile(len(values) - 1, level) * error
    return Measured(statistics.fmean(values), half, len(values))


def draw_interval(values: Sequence[float], level: float = LEVEL) -> float:
    r"""Return within what a second draw of the data lies of a first one.

    .. math:: t_{k-1}\, s\, \sqrt 2,

    half of the interval of a difference between two draws, of which k were made.

    Examples
    --------
    >>> round(draw_interval([1.0, 2.0, 3.0]), 3)
    6.085
    """
    if len(values) < 2:
        raise InputError(f"`values` has {len(values)} draw(s); give at least two.")
    scatter = statistics.stdev(values)
    return t_quantile(len(values) - 1, level) * scatter * math.sqrt(2)


def trials_to_decide(measured: Measured, room: float, level: float = LEVEL) -> int | None:
    """Return how many trials make an interval narrower than the room that a mean has.

    The mean and the scatter are taken to stay as they are; None where they say nothing, or where
    ten thousand are not enough.

    Examples
    --------
    >>> trials_to_decide(mean_interval([0.0, 1.0, 2.0]), 1.0)
    7
    """
    count, spread = measured.count, measured.spread
    if count is None or count < 2 or not spread or not room:
        return None
    scatter = spread * math.sqrt(count) / t_quantile(count - 1, level)
    enough = (n for n in range(count, _MANY) if _half(scatter, n, level) < abs(room))
    return next(enough, None)


def _half(scatter: float, count: int, level: float) -> float:
    return t_quantile(count - 1, level) * scatter / math.sqrt(count)


def undecided_note(paper: Printed | Claim | None, measured: Measured) -> str:
    """Return what would decide an undecided verdict, in a sentence.

    Examples
    --------
    >>> undecided_note(Claim("> 0", least=0.0), mean_interval([0.0, 1.0, 2.0]))
    '7 trials like these 3 would decide.'
    """
    if paper is None or paper.judge(measured) != UNDECIDED:
        return ""
    if measured.noisy:
        return (
            "Sampling noise alone makes half of it or more; four times as many networks would have "
            "half the noise."
        )
    if measured.untold:
        return "One trial cannot decide."
    needed = measured.trials or trials_to_decide(measured, paper.room(measured))
    if needed is None:
        return f"Not even {_MANY} trials would decide." if measured.count else ""
    return f"{needed} trials like these {measured.count} would decide."


def standard_error(values: Sequence[float]) -> float | None:
    """Return the standard error of a mean, None below two values."""
    if len(values) < 2:
        return None
    return statistics.stdev(values) / math.sqrt(len(values))
