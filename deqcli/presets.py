"""Presets: one settings file a figure of the papers, found, read, checked and cut to size.

They lie in ``experiments/`` of a checkout and in ``deqcli/experiments/`` of an installed package.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from deqcli.errors import InputError

Size = Literal["quick", "standard", "paper"]
Setting = str | int | float | bool | list[Any]

_PACKAGE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Preset:
    """The settings of one figure.

    Attributes
    ----------
    name : str
        ``<paper>/<figure>``, the path of its file without the suffix.
    command : str
        The command of deqcli that draws it.
    settings : mapping
        Option name (without dashes) -> value.
    title, about : str
        The header comment: what comes before its first colon, and all the rest.
    cut : tuple of str
        Options that :func:`sized` made smaller than the preset has them.
    """

    name: str
    command: str
    settings: Mapping[str, Setting]
    title: str
    about: str
    cut: tuple[str, ...] = ()

    @property
    def stem(self) -> str:
        """Name of its result files."""
        return self.name.replace("/", "-")

    def arguments(self) -> list[str]:
        """Return the command line that does the same without the file.

        Examples
        --------
        >>> preset = Preset("a/b", "errata", {"n": [250, 500], "trials": 2}, "", "")
        >>> preset.arguments()
        ['errata', '--n', '250,500', '--trials', '2']
        """
        words = [self.command]
        for key, value in self.settings.items():
            if value is True:
                words.append(f"--{key}")
            elif value is not False:
                text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
                words += [f"--{key}", text]
        return words


def folder() -> Path:
    """Return the folder of the presets: the package's own, else the checkout's."""
    for place in (_PACKAGE / "experiments", _PACKAGE.parent / "experiments"):
        if place.is_dir():
            return place
    raise InputError("The presets are not installed; install deqcli again.")


def names() -> tuple[str, ...]:
    """Return the names of all presets, sorted.

    Examples
    --------
    >>> "iclr/figure-1-left" in names()
    True
    """
    root = folder()
    found = (path.relative_to(root).with_suffix("") for path in root.glob("*/*.toml"))
    return tuple(sorted(path.as_posix() for path in found))


def load(name: str, options: Callable[[str], Collection[str]] | None = None) -> Preset:
    """Read one preset.

    Parameters
    ----------
    name : str
        One of :func:`names`.
    options : callable, optional
        Gives the option names of a command; keys beside them are then errors.

    Raises
    ------
    InputError
        If there is no such preset, or its file is wrong.

    Examples
    --------
    >>> load("iclr/figure-1-left").settings["act"]
    'arctan'
    """
    known = names()
    if name not in known:
        raise InputError(f"There is no preset {name!r}; choose from all, {', '.join(known)}.")
    text = (folder() / f"{name}.toml").read_text(encoding="utf-8")
    return parse(name, text, options)


def parse(name: str, text: str, options: Callable[[str], Collection[str]] | None = None) -> Preset:
    """Make a preset of the text of its file; see :func:`load`."""
    try:
        settings = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"The preset {name} is not TOML: {error}.") from error
    command = settings.pop("command", None)
    if not isinstance(command, str):
        raise InputError(f"The preset {name} names no command.")
    if options is not None:
        allowed = options(command)
        unknown = sorted(set(settings) - set(allowed))
        if unknown:
            raise InputError(
                f"The preset {name} has the unknown key {unknown[0]!r}; deqcli {command} knows "
                f"{', '.join(sorted(allowed))}."
            )
    title, about = _header(text)
    return Preset(name, command, settings, title, about)


def _header(text: str) -> tuple[str, str]:
    lines = []
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        lines.append(line.removeprefix("#").strip())
    title, _, about = " ".join(lines).partition(": ")
    return title, re.sub(r"^.", lambda first: first.group().upper(), about)


# How a value is cut: a number to at most the limit; a list to its entries up to the limit.
_QUICK: dict[str, dict[str, int]] = {
    "spectrum": {"n": 1000, "realizations": 40},
    "match": {"n": 1000},
    "error-vs-n": {"n": 1024, "trials": 2},
    "errata": {"n": 1000, "trials": 2},
    "accuracy": {"widths": 256, "train-size": 2000, "test-size": 1000, "epochs": 10, "trials": 2},
    "flow": {"n": 200, "test-size": 200, "widths": 500, "steps": 200, "trials": 2},
}
# Only what would take hours on two cores.
_STANDARD: dict[str, dict[str, int]] = {"accuracy": {"widths": 1024}}

RULES: dict[Size, dict[str, dict[str, int]]] = {
    "quick": _QUICK,
    "standard": _STANDARD,
    "paper": {},
}
"""Limits by size, command and option; what the preset does not set, no rule touches."""


def sized(preset: Preset, size: Size) -> Preset:
    """Cut a preset to a size; where n falls, the dimension p of drawn samples falls with it.

    Examples
    --------
    >>> whole = Preset("a/b", "match", {"n": 2000, "p": 2400, "act": "relu"}, "", "")
    >>> cut = sized(whole, "quick")
    >>> cut.settings, cut.cut, sized(whole, "paper").cut
    ({'n': 1000, 'p': 1200, 'act': 'relu'}, ('n', 'p'), ())
    """
    settings = dict(preset.settings)
    for key, limit in RULES[size].get(preset.command, {}).items():
        if key in settings:
            settings[key] = _cut(preset.name, key, settings[key], limit)
    n, whole, p = settings.get("n"), preset.settings.get("n"), settings.get("p")
    if isinstance(n, int) and isinstance(whole, int) and isinstance(p, int):
        settings["p"] = round(p * n / whole)
    cut = tuple(key for key in settings if settings[key] != preset.settings[key])
    return replace(preset, settings=settings, cut=cut)


def _cut(name: str, key: str, value: Setting, limit: int) -> Setting:
    entries = value if isinstance(value, list) else [value]
    for entry in entries:
        if isinstance(entry, bool) or not isinstance(entry, int | float):
            raise InputError(f"The preset {name} has {key} = {entry!r}; give a number.")
    if isinstance(value, list):
        return [entry for entry in value if entry <= limit]
    return min(entries[0], limit)
