"""Settings of a study: each field, its default, range and help text written once.

A settings class is a frozen dataclass whose fields are made by :func:`setting`. From it come the
options of the command line, the keys of settings files, the identity of a run and the keyword
arguments in Python; all of them go through :meth:`Option.convert`. Nothing heavy is imported here,
because the command line reads these classes for its help.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from deqcli.checks import SMALLEST, Range, number, shown, utf8
from deqcli.errors import InputError
from deqcli.vocabulary import Named, Word, suggestion


def split_commas(text: str) -> list[str]:
    """Return the parts of a text between its commas, without spaces around them."""
    return [part.strip() for part in text.split(",") if part.strip()]


def split_activations(text: str) -> list[str]:
    """Return activations separated by commas, whose own parameters may hold commas too.

    Examples
    --------
    >>> split_activations("htanh:a=1,c=2,relu")
    ['htanh:a=1,c=2', 'relu']
    """
    names: list[str] = []
    for part in split_commas(text):
        if names and "=" in part and ":" not in part:
            names[-1] += f",{part}"
        else:
            names.append(part)
    return names


@dataclass(frozen=True, kw_only=True)
class Rule(Range):
    """What a field has besides its name, type and default; see :func:`setting`."""

    # What a person sets is divided by somewhere.
    smallest: float = SMALLEST
    help: str
    choices: tuple[str, ...] = ()
    identity: bool = True
    environment: str | None = None
    default_text: str = ""
    derive: Callable[[Any], Any] | None = None
    metavar: str = ""
    suggestions: tuple[str, ...] = ()
    split: Callable[[str], list[str]] = split_commas
    adopt: Callable[[Any, Path], Any] | None = None


def setting(default: Any, help: str, **rule: Any) -> Any:
    """Return a field of a settings class.

    Parameters
    ----------
    default : object
        None for a field that may be left open or that ``derive`` fills in.
    help : str
        One or two sentences for ``--help``.
    least, above, most, below : float
        The range of a number; all have :data:`deqcli.checks.SMALLEST` besides.
    choices : tuple of str
        The texts allowed, where the type of the field is no enum.
    identity : bool
        Whether the field decides the numbers; False for a folder of data.
    environment : str
        An environment variable that gives the value on the command line.
    default_text : str
        What help says of a default that depends on other settings.
    derive : callable
        From the settings to the value of a field that was left None.
    metavar, suggestions, split
        For the command line: what stands for a value, what completion offers, and how a text
        becomes several values.
    adopt : callable
        From what only Python has, and a folder for files, to the text that stands for it.
    """
    return dataclasses.field(default=default, metadata={"rule": Rule(help=help, **rule)})


def with_default(base: type[Settings], name: str, default: Any) -> Any:
    """Return a field of another settings class with a default of its own."""
    field = next(field for field in dataclasses.fields(base) if field.name == name)
    return dataclasses.field(default=default, metadata=field.metadata)


@dataclass(frozen=True)
class Option:
    """A field as the command line and settings files see it.

    Attributes
    ----------
    name : str
        In Python.
    kind : type
        Of one value: bool, int, float, str or a :class:`deqcli.vocabulary.Word`.
    many, optional : bool
        Whether it takes several values, and whether it may be None.
    default : object
    rule : Rule
    """

    name: str
    kind: type
    many: bool
    optional: bool
    default: Any
    rule: Rule

    @property
    def flag(self) -> str:
        """The option of the command line, such as ``--sigma-a2``."""
        return f"--{self.key}"

    @property
    def key(self) -> str:
        """The key in settings files, such as ``sigma-a2``."""
        return self.name.replace("_", "-")

    @property
    def choices(self) -> tuple[str, ...]:
        """The texts allowed, if they are a closed list."""
        if issubclass(self.kind, Word):
            return tuple(member.value for member in self.kind)
        return self.rule.choices

    def convert(self, value: Any) -> Any:
        """Return a value from Python, a file or the command line as the field's type.

        Several values become a tuple; numbers and names from a closed list are sorted.

        Raises
        ------
        InputError
            If it is of another type, out of range, not among the choices or given twice.
        """
        if value is None:
            if self.optional or self.rule.derive:
                return None
            return self._convert_one(value)
        if not self.many:
            return self._convert_one(value)
        values: Sequence[Any] = [value]
        if isinstance(value, str):
            values = [value] if isinstance(value, Named) else self.rule.split(value)
        # A set has no order, and the order belongs to the identity of a run.
        elif isinstance(value, Collection) and not isinstance(value, Set | Mapping | bytes):
            values = list(value) if getattr(value, "ndim", 1) else [value]
        if not values:
            raise InputError(f"`{self.name}` is empty; give at least one value.")
        converted = [self._convert_one(part) for part in values]
        for part in converted:
            if converted.count(part) > 1:
                raise InputError(f"`{self.name}` has {part} twice; give each value once.")
        # In whatever order numbers or names from a closed list are given, the run is the same.
        if issubclass(self.kind, Word):
            converted.sort(key=list(self.kind).index)
        elif self.kind is not str:
            converted.sort()
        return tuple(converted)

    def _convert_one(self, value: Any) -> Any:
        if issubclass(self.kind, Word):
            return self.kind.of(value, self.name)
        if self.kind in (int, float):
            return number(value, self.name, self.kind, self.rule)
        try:
            converted = _to_bool(value) if self.kind is bool else _to_str(value)
        except (TypeError, ValueError):
            raise InputError(f"`{self.name}` is {shown(value)}; give {self._wanted()}.") from None
        if self.choices and converted not in self.choices:
            raise InputError(f"`{self.name}` is {shown(value)}; {suggestion(value, self.choices)}")
        return converted if isinstance(converted, bool) else utf8(converted, self.name)

    def _wanted(self) -> str:
        if self.choices:
            return f"one of {', '.join(self.choices)}"
        return "true or false" if self.kind is bool else "a text"

    def text(self, value: Any) -> str:
        """Return a value as it is written on the command line."""
        return ",".join(map(str, value)) if self.many else str(value)


def _to_bool(value: Any) -> bool:
    texts = {"true": True, "false": False, "1": True, "0": False}
    if isinstance(value, str) and value.lower() in texts:
        return texts[value.lower()]
    if not isinstance(value, bool):
        raise TypeError
    return value


def _to_str(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise TypeError
    text = value if isinstance(value, Named) else str(value)
    if "\0" in text:
        raise ValueError
    return text


def options(cls: type[Settings]) -> tuple[Option, ...]:
    """Return the options of a settings class, in the order of its fields."""
    hints = typing.get_type_hints(cls)
    return tuple(_option(field, hints[field.name]) for field in dataclasses.fields(cls))


def _option(field: dataclasses.Field[Any], annotation: Any) -> Option:
    optional = False
    if isinstance(annotation, types.UnionType):
        optional = True
        (annotation,) = (part for part in annotation.__args__ if part is not types.NoneType)
    many = typing.get_origin(annotation) is tuple
    if many:
        annotation = typing.get_args(annotation)[0]
    return Option(field.name, annotation, many, optional, field.default, field.metadata["rule"])


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The base of all settings classes; fields are converted and checked when one is made.

    Examples
    --------
    >>> @dataclass(frozen=True, kw_only=True)
    ... class Toy(Settings):
    ...     trials: int = setting(2, "Repetitions.", least=1)
    ...     scale: float = setting(None, "Size.", derive=lambda toy: 10.0 * toy.trials)
    >>> Toy(trials=3), Toy.load({"trials": 4, "scale": 1}).identity()
    (Toy(trials=3, scale=30.0), {'trials': 4, 'scale': 1.0})
    >>> Toy(trials=0)
    Traceback (most recent call last):
        ...
    deqcli.errors.InputError: `trials` is 0; give a whole number at least 1.
    """

    def __post_init__(self) -> None:
        self._complete()
        self.check()

    def _complete(self) -> None:
        for option in options(type(self)):
            object.__setattr__(self, option.name, option.convert(getattr(self, option.name)))
        for option in options(type(self)):
            if option.rule.derive and getattr(self, option.name) is None:
                # Not checked against its range: what is wrong is what it was derived from.
                object.__setattr__(self, option.name, option.rule.derive(self))

    def check(self) -> None:
        """Raise :class:`InputError` where fields do not fit each other."""

    def unused(self) -> Collection[str]:
        """Return the names of fields that do not matter to the numbers, given the others."""
        return ()

    def inputs(self) -> dict[str, Any]:
        """Return what else belongs to the identity of a run, such as a file's checksum."""
        return {}

    def identity(self) -> dict[str, Any]:
        """Return what decides the numbers, JSON-able: fields that matter and are not None."""
        unused = set(self.unused())
        values = {
            option.name: getattr(self, option.name)
            for option in options(type(self))
            if option.rule.identity and option.name not in unused
        }
        plain = {name: value for name, value in values.items() if value is not None}
        return {n: list(v) if isinstance(v, tuple) else v for n, v in plain.items()}

    def arguments(self) -> list[str]:
        """Return the words of a command line that sets the same, without what is default."""
        words = []
        unused = set(self.unused())
        for option in options(type(self)):
            value, default = getattr(self, option.name), option.default
            if default is None and option.rule.derive:
                default = option.rule.derive(self)
            # What the environment may give belongs to the machine and not to the run.
            if option.rule.environment or option.name in unused or value in (None, default):
                continue
            if option.kind is bool:
                words += [option.flag] if value else []
            else:
                words += [option.flag, option.text(value)]
        return words

    @classmethod
    def adopt(cls, values: Mapping[str, Any], folder: Path) -> dict[str, Any]:
        """Return values with texts for functions and samples; these go into the folder."""
        rules = {option.name: option.rule.adopt for option in options(cls)}
        return {
            name: adopt(value, folder) if (adopt := rules.get(name)) else value
            for name, value in values.items()
        }

    @classmethod
    def load(cls, values: Mapping[str, Any], where: str = "") -> Self:
        """Make settings of a mapping whose keys may have hyphens.

        Raises
        ------
        InputError
            For a key that is no field, or a value that does not fit.
        """
        return cls(**check_keys(cls, values, where))

    @classmethod
    def restored(cls, values: Mapping[str, Any]) -> Self:
        """Make settings of a record, whose run checked them: a file of samples may be gone.

        Raises
        ------
        InputError
            For a key that is no field, or a value of another type or range.
        """
        made = object.__new__(cls)
        defaults = {option.name: option.default for option in options(cls)}
        for name, value in (defaults | check_keys(cls, values)).items():
            object.__setattr__(made, name, value)
        made._complete()
        return made


def check_keys(cls: type[Settings], values: Mapping[str, Any], where: str = "") -> dict[str, Any]:
    """Return the values of a mapping by field; the one check for unknown keys."""
    known = {option.name: option.key for option in options(cls)}
    start = f"{where}: " if where else ""
    fields: dict[str, Any] = {}
    for key, value in values.items():
        field = str(key).replace("-", "_")
        name = field.replace("_", "-")
        if field not in known:
            hint = suggestion(name, sorted(known.values()))
            raise InputError(f"{start}unknown key {name!r}; {hint}")
        if field in fields:
            raise InputError(f"{start}{name!r} is there with hyphens and with underscores.")
        fields[field] = value
    return fields
