"""What a study is: one object that the command line, presets, the report and Python all run.

A study has settings, inputs that are prepared once a process, points that are computed one by one
and stored, and an assembly that makes a table and findings of them. Nothing heavy is imported
here: the command line reads studies for its help.
"""

from __future__ import annotations

import abc
import copy
import dataclasses
import functools
import importlib
import pkgutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

from deqcli.errors import InputError
from deqcli.settings import Settings, options
from deqcli.vocabulary import suggestion

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from deqcli.data.laws import Streams
    from deqcli.quantities import Quantity
    from deqcli.shared_settings import SeedSettings

    Arrays = Mapping[str, NDArray[Any]]

    class Load(Protocol):
        """Reads the arrays of a point from the disk, or maps them."""

        def __call__(self, key: str, *, mapped: bool = False) -> dict[str, NDArray[Any]]:
            """Return the arrays of a point."""


S = TypeVar("S", bound=Settings)
P = TypeVar("P")


@dataclass(frozen=True)
class Assembled:
    """What a study makes of its points.

    Attributes
    ----------
    table : DataFrame
        The CSV, with its constants in every row.
    findings : mapping
        JSON-able numbers and sentences for the record; JSON has no NaN, so say None.
    arrays : mapping of str to ndarray, optional
        For an ``.npz`` beside the CSV.
    """

    table: pd.DataFrame
    findings: Mapping[str, Any] = field(default_factory=dict)
    arrays: Arrays | None = None


@dataclass(frozen=True)
class Tolerance:
    """How far a fresh value of a column may lie from a committed one.

    The bound is ``relative`` times the value plus ``of_largest`` times the largest value of the
    column plus ``absolute``, plus ``samples`` over what the column ``count`` says. The default is
    for another machine and another BLAS: rounding in another order, nothing else.
    """

    relative: float = 1e-6
    of_largest: float = 1e-9
    absolute: float = 0.0
    samples: int = 0
    count: str = ""


class Study(abc.ABC, Generic[S, P]):
    """A study; a module of ``deqcli/studies/`` holds one instance of a subclass, ``STUDY``.

    The docstring of the subclass is the text of ``deqcli NAME --help``.

    Attributes
    ----------
    name : str
        Of the command, of the preset's key ``study`` and of ``deqcli.run``.
    settings : type
        Its :class:`~deqcli.settings.Settings`.
    version : int
        Raised by hand when the same settings give other numbers.
    threads : int
        BLAS threads of each process. They decide the last digits, hence a constant.
    duration : str
        How long a run with the defaults takes on two cores, for ``--help``; measured.
    examples : tuple of str
        Command lines for ``--help``, without ``deqcli NAME``.
    quick, standard : mapping of str to int
        Limits on settings for ``reproduce --quick`` and ``reproduce``: a number is cut to at most
        the limit, a list to its entries up to the limit.
    tolerances : mapping of str to Tolerance
        For ``reproduce --check``, by column; the empty name is for all other floats.
    ignored : frozenset of str
        Columns that ``--check`` leaves out, such as measured times.
    constants : mapping of tuple of str to tuple of str
        Columns that are kept once in the record instead of in every row of the CSV, by the columns
        that decide their values; the empty tuple has those of the whole run.
    digits : int, optional
        Significant digits of the floats of the CSV; by default as many as read back exactly.
    """

    name: ClassVar[str]
    settings: type[S]
    version: ClassVar[int] = 1
    threads: ClassVar[int] = 1
    duration: ClassVar[str] = ""
    examples: ClassVar[tuple[str, ...]] = ()
    quick: ClassVar[Mapping[str, int]] = {}
    standard: ClassVar[Mapping[str, int]] = {}
    tolerances: ClassVar[Mapping[str, Tolerance]] = {}
    ignored: ClassVar[frozenset[str]] = frozenset()
    constants: ClassVar[Mapping[tuple[str, ...], tuple[str, ...]]] = {}
    digits: ClassVar[int | None] = None

    @abc.abstractmethod
    def prepare(self, settings: S) -> P:
        """Load data and make what points and assembly share; called once a process."""

    @abc.abstractmethod
    def points(self, settings: S) -> Mapping[str, tuple[Any, ...]]:
        """Return small picklable arguments by point, in the order of the work."""

    @abc.abstractmethod
    def compute(self, prepared: P, *arguments: Any) -> Arrays:
        """Compute one point."""

    @abc.abstractmethod
    def assemble(self, prepared: P, load: Load) -> Assembled:
        """Make the table of all points; ``load(key)`` reads one from the disk."""

    def draw(self, table: pd.DataFrame) -> Figure:
        """Draw the figure from the CSV as it reads back, and nothing else."""
        module = importlib.import_module(f"deqcli.figures.{self.name.replace('-', '_')}")
        figure: Figure = module.draw(table)
        return figure

    @abc.abstractmethod
    def memory(self, settings: S) -> int:
        """Return the bytes that one process needs at most; allocates nothing of that size."""

    def point_memory(self, settings: S) -> int | None:
        """Return the bytes of a process that only computes points, if assembly is what takes most.

        The others are then ended before it, and the first process has its own data until then.
        None where points take as much as :meth:`memory` says.
        """
        return None

    def work(self, settings: S) -> float:
        """Return about how many multiplications a run is, for an estimate of its time.

        By the function of the study's name in ``deqcli/work.py``; 0, where there is none. Only
        ratios matter: a run at another size measures the speed.
        """
        counts = getattr(importlib.import_module("deqcli.work"), self.name.replace("-", "_"), None)
        return 0.0 if counts is None else float(counts(settings))

    def needs_scheduler(self, settings: S) -> str:
        """Say which setting needs the workers of a scheduler for the assembly, if one does."""
        return ""

    def memory_remedy(self, settings: S) -> str:
        """Say which setting to change where :meth:`memory` is too much.

        The one that frees most when it is halved; a full covariance, if most is for that.
        """
        needed = self.memory(settings)

        def freed(name: str, value: object) -> int:
            smaller = copy.copy(settings)
            # Past the checks: half of a size need not be a size that is allowed.
            object.__setattr__(smaller, name, value)
            return needed - self.memory(smaller)

        values = {option.name: getattr(settings, option.name) for option in options(self.settings)}
        halves = {name: _halved(value) for name, value in values.items()}
        if "n" in values and values["n"] is None:
            halves["n"] = 1  # all that there are
        gains = {name: freed(name, half) for name, half in halves.items() if half != values[name]}
        best = max(gains, key=lambda name: gains[name], default="")
        # A file is read whole, however few of its samples are taken.
        smaller = ", or give a smaller file" if getattr(settings, "own_file", False) else ""
        # What hardly matters is no remedy.
        if gains.get(best, 0) < needed / 20:
            return f"free some memory{smaller}"
        remedy = f"lower `{best}`" if values[best] else f"give `{best}`"
        if isinstance(values[best], tuple) and len(values[best]) > 1:
            remedy = f"lower the largest of `{best}`"
        covariance = values.get("covariance", "papers")
        if 2 * freed("covariance", "papers") > needed:
            return f"`covariance` {covariance} keeps p × p numbers: take papers, or {remedy}"
        return f"{remedy}{smaller}"

    def stream(self, settings: SeedSettings, *names: str | int) -> np.random.Generator:
        """Return a random stream of the study, keyed by names."""
        from deqcli.runs.seeds import stream

        return stream(settings.seed, self.name, *names)

    def data_streams(self, settings: SeedSettings, *names: str | int) -> Streams:
        """Return the streams that samples are drawn from, from further names to a stream."""
        from deqcli.runs.seeds import stream

        return functools.partial(stream, settings.seed, "data", self.name, *names)

    def sentences(self, findings: Mapping[str, Any]) -> Iterable[str]:
        """Say in lines for a person what was found."""
        return ()

    def shortcomings(self, findings: Mapping[str, Any]) -> Sequence[str]:
        """Say what of a finished run failed or is infeasible; the exit code is then 3."""
        return ()

    def quantities(self, settings: S) -> Sequence[Quantity]:
        """Return the numbers that are set beside a paper's."""
        return ()

    def reseeded(self, settings: S, seed: int) -> S | None:
        """Return settings for another draw of the data, None where a run averages over draws."""
        return None

    def exports(self, settings: S, prepare: Callable[[], P]) -> Mapping[str, str]:
        """Return further files that the settings ask for: texts by what follows the stem."""
        return {}

    def cut(self, settings: S, limits: Mapping[str, int]) -> tuple[S, tuple[str, ...]]:
        """Return smaller settings, and the names of those that changed.

        Where n falls, the dimension p falls with it. What the settings do not use stays.
        """
        changes: dict[str, Any] = {}
        for name, limit in limits.items():
            value = getattr(settings, name)
            if name in settings.unused():
                continue
            if isinstance(value, tuple):
                changes[name] = tuple(entry for entry in value if entry <= limit)
            elif value is not None:
                changes[name] = min(value, limit)
        n, p = getattr(settings, "n", None), getattr(settings, "p", None)
        if isinstance(n, int) and isinstance(p, int) and "n" in changes:
            changes["p"] = round(p * changes["n"] / n)
        changes = {name: v for name, v in changes.items() if v != getattr(settings, name)}
        return dataclasses.replace(settings, **changes), tuple(changes)

    def command_line(self, settings: S, name: str | None = None, out: Path | None = None) -> str:
        """Return the command that makes the same files, as it can be typed."""
        words = ["deqcli", self.name, *settings.arguments()]
        words += ["--name", name] if name else []
        words += ["--out", str(out)] if out is not None and out != DEFAULT_OUT else []
        return " ".join(map(_typed, words))


def _halved(value: object) -> object:
    """Return half of a number or of each of several; 1 for 0, which stands for all there are."""
    if isinstance(value, tuple):
        return tuple(map(_halved, value))
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    return (value // 2 if isinstance(value, int) else value / 2) or 1


def _typed(word: str) -> str:
    """Return a word for a shell; a path in the home folder does not say whose that is."""
    import shlex

    path, home = Path(word), Path.home()
    # A container may have the root for its home.
    if home == home.parent or not path.is_relative_to(home):
        return shlex.quote(word)
    return f"~/{shlex.quote(str(path.relative_to(home)))}"


#: Where results go unless told otherwise.
DEFAULT_OUT = Path("results")


def names() -> tuple[str, ...]:
    """Return the names of all studies: the modules of ``deqcli/studies/``.

    Examples
    --------
    >>> "spectrum" in names()
    True
    """
    modules = pkgutil.iter_modules(_package().__path__)
    return tuple(module.name.replace("_", "-") for module in modules)


def get(name: str) -> Study[Any, Any]:
    """Return a study by its name.

    Raises
    ------
    InputError
        If there is none.
    """
    if name not in names():
        raise InputError(f"there is no study {name!r}; {suggestion(name, names())}")
    module = importlib.import_module(f"deqcli.studies.{name.replace('-', '_')}")
    study: Study[Any, Any] = module.STUDY
    return study


def of_settings(settings: Settings) -> Study[Any, Any]:
    """Return the study that settings are for."""
    for name in names():
        study = get(name)
        if type(settings) is study.settings:
            return study
    raise InputError(f"{type(settings).__name__} belongs to no study.")


def summary(name: str) -> str:
    """Return the first line of a study's module without importing it, for a list of commands."""
    for folder in _package().__path__:
        path = Path(folder, f"{name.replace('-', '_')}.py")
        if path.is_file():
            text = path.read_text(encoding="utf-8")
            return text.partition('"""')[2].partition("\n")[0].removesuffix('"""')
    return ""


@functools.cache
def _package() -> Any:
    return importlib.import_module("deqcli.studies")


@functools.lru_cache(maxsize=1)
def prepared(name: str, settings: Settings, identity: str) -> Any:
    """Return what a study prepared for its settings in this process, made once.

    The hash of the run tells apart a file of data that has changed under its name.
    """
    return get(name).prepare(settings)
