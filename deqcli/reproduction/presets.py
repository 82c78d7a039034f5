"""Presets: one settings file a figure of the papers, found, read, checked and cut to size.

They lie in ``experiments/`` of a checkout and in ``deqcli/experiments/`` of an installed package.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal

from deqcli.errors import InputError
from deqcli.settings import Settings
from deqcli.settings_files import read_document
from deqcli.study import Study, get
from deqcli.vocabulary import suggestion

Size = Literal["quick", "standard", "paper"]

_PACKAGE = Path(__file__).resolve().parents[1]


#: How the names of settings files end.
_FILES = (".toml", ".json")


@dataclass(frozen=True)
class Paper:
    """A paper whose figures are reproduced: what texts call it, its title and where it appeared."""

    key: str
    title: str
    venue: str = ""


@dataclass(frozen=True)
class FigureText:
    """What a preset says of its figure, the table ``figure`` of its file.

    Attributes
    ----------
    title : str
    page : int, optional
    about : str
        What the figure shows, and what the paper says of it.
    open : str
        What the paper leaves open, and what was chosen here.
    printed, notes : mapping of str to str
        Numbers as the paper prints them, and why ours may differ, by the key of the quantity.
    expected : list of str
        Ends of runs that are a finding and no failure.
    """

    title: str
    about: str = ""
    open: str = ""
    page: int | None = None
    printed: Mapping[str, str] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)
    expected: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Preset:
    """The settings of one figure.

    Attributes
    ----------
    name : str
        ``<paper>/<figure>``, the path of its file without the suffix; of one's own file, its name.
    study : Study
    settings : Settings
    figure : FigureText
    cut : tuple of str
        Settings that :func:`sized` made smaller than the preset has them.
    """

    name: str
    study: Study[Any, Any]
    settings: Settings
    figure: FigureText
    cut: tuple[str, ...] = ()

    @property
    def stem(self) -> str:
        """Name of its result files."""
        return self.name.replace("/", "-")

    @property
    def of_paper(self) -> bool:
        """Whether it is a figure of a paper, and not a file of one's own settings."""
        return "/" in self.name

    @property
    def heading(self) -> str:
        """Title and page of its figure."""
        page = self.figure.page
        return self.figure.title + (f", p. {page}" if page is not None else "")


def folder() -> Path:
    """Return the folder of the presets: the package's own, else the checkout's."""
    for place in (_PACKAGE / "experiments", _PACKAGE.parent / "experiments"):
        if place.is_dir():
            return place
    raise InputError("The presets are not installed; install deqcli again.")


def papers() -> dict[str, Paper]:
    """Return the papers by the folder of their presets, in the order of the report."""
    path = folder() / "papers.toml"
    if not path.is_file():
        return {}
    loaded = tomllib.loads(path.read_text(encoding="utf-8"))
    return {name: Paper(**entry) for name, entry in loaded.items()}


def names() -> tuple[str, ...]:
    """Return the names of all presets, paper by paper.

    Examples
    --------
    >>> "iclr/figure-1-left" in names()
    True
    """
    root, order = folder(), list(papers())
    paths = (path.relative_to(root).with_suffix("").as_posix() for path in root.glob("*/*.toml"))

    def place(name: str) -> tuple[int, str]:
        paper = name.partition("/")[0]
        return (order.index(paper) if paper in order else len(order)), name

    return tuple(sorted(paths, key=place))


def load(name: str) -> Preset:
    """Read one preset, or a file of settings that stands for one, and check its values.

    Raises
    ------
    InputError
        If there is no such preset, or its file is wrong.

    Examples
    --------
    >>> load("iclr/figure-1-left").settings.act
    'arctan'
    """
    if (path := Path(name)).suffix in _FILES:
        return read(path, path.stem)
    known = names()
    if name not in known:
        raise InputError(f"There is no preset {name!r}; {suggestion(name, ('all', *known))}")
    return read(folder() / f"{name}.toml", name)


def read(path: Path, name: str) -> Preset:
    """Read the file of a preset; see :func:`load`."""
    if path.exists() and not path.is_file():
        raise InputError(f"{path} is no file; give one of settings, or the name of a preset.")
    document = read_document(path)
    try:
        if document.study is None:
            raise InputError("it names no study.")
        study = get(document.study)
        settings = study.settings.load(document.values)
        figure = _figure({"title": name, **document.figure})
    except InputError as error:
        raise InputError(f"The preset {name}: {error}") from error
    return Preset(name, study, settings, figure)


def _figure(table: Mapping[str, Any]) -> FigureText:
    """Check the table ``figure``, and join the lines of its texts."""
    known = [part.name for part in fields(FigureText)]
    values: dict[str, Any] = {}
    for key, value in table.items():
        if key not in known:
            raise InputError(f"unknown key {key!r} of its figure; {suggestion(key, known)}")
        if key in ("title", "about", "open"):
            values[key] = _line(key, value)
        elif key in ("printed", "notes") and isinstance(value, dict):
            values[key] = {name: _line(f"{key}.{name}", text) for name, text in value.items()}
        elif key == "expected" and isinstance(value, list):
            values[key] = [_line(key, text) for text in value]
        elif key == "page" and type(value) is int:
            values[key] = value
        else:
            noun = {"page": "a whole number", "expected": "a list of texts"}.get(key, "a table")
            raise InputError(f"figure.{key} is {value!r}; give {noun}.")
    for name, text in values.get("printed", {}).items():
        try:
            float(text)
        except ValueError:
            raise InputError(f"figure.printed.{name} is {text!r}; give a number.") from None
    return FigureText(**values)


def _line(key: str, value: Any) -> str:
    """Return a text on one line; a printed number is a text too, for the sake of its last digit."""
    if not isinstance(value, str):
        raise InputError(f"figure.{key} is {value!r}; give a text between quotes.")
    return " ".join(value.split())


def sized(preset: Preset, size: Size) -> Preset:
    """Cut a preset to a size; where n falls, the dimension p of drawn samples falls with it.

    One's own settings are cut by ``"quick"`` alone.

    Examples
    --------
    >>> whole = load("iclr/figure-1-left")
    >>> sized(whole, "quick").cut, sized(whole, "paper").cut
    (('realizations',), ())
    """
    standard = preset.study.standard if preset.of_paper else {}
    limits = {"quick": preset.study.quick, "standard": standard, "paper": {}}[size]
    settings, cut = preset.study.cut(preset.settings, limits)
    return replace(preset, settings=settings, cut=cut)
