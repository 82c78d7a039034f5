"""The one check of a number, wherever it comes from, and of other values and files."""

from __future__ import annotations

import math
import operator
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from deqcli.errors import DataError, InputError

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np

N = TypeVar("N", int, float)

SMALLEST, LARGEST = 1e-50, 1e50
"""Limits of scales: fourth powers and their ratios are formed, and float64 ends at 1e308."""

# Beyond 64 bits nothing can be counted, and numpy overflows.
_LARGEST_COUNT = 2**63 - 1

#: Bytes; a device such as /dev/zero never ends.
_LONGEST_FILE = 100_000_000


@dataclass(frozen=True, kw_only=True)
class Range:
    """Which numbers are allowed; one nearer to 0 than ``smallest``, and not 0, never is."""

    least: float = -math.inf
    above: float = -math.inf
    most: float = math.inf
    below: float = math.inf
    smallest: float = 0.0

    def range_text(self) -> str:
        """Say which numbers are allowed, such as ``at least 2``; empty if all are."""
        parts = [
            f"{word} {value:g}"
            for word, value in (
                ("at least", self.least), ("above", self.above),
                ("at most", self.most), ("below", self.below),
            )
            if math.isfinite(value)
        ]  # fmt: skip
        return " and ".join(parts)

    def allows(self, value: float) -> bool:
        """Tell whether a number is in the range."""
        inside = self.least <= value <= self.most and self.above < value < self.below
        return inside and not 0 < abs(value) < self.smallest


#: A variance or a length, one that may not vanish and one that may; how many of something.
SCALE = Range(least=SMALLEST, most=LARGEST)
NOT_NEGATIVE = Range(least=0, most=LARGEST, smallest=SMALLEST)
POSITIVE = Range(least=1)


def number(value: Any, name: str, kind: type[N], allowed: Range | None = None) -> N:
    """Return a value as a finite float or as an int, or say what is wrong with it.

    Texts of numbers count, as the command line gives them; truth values and arrays do not.

    Examples
    --------
    >>> number("0.5", "tau0", float), number(3, "n", int)
    (0.5, 3)
    >>> number(float("nan"), "tau0", float, SCALE)
    Traceback (most recent call last):
        ...
    deqcli.errors.InputError: `tau0` is nan; give a finite number at least 1e-50 and at most 1e+50.
    """
    allowed = allowed or Range()
    try:
        if isinstance(value, bool) or getattr(value, "ndim", False):
            raise TypeError
        converted = _to_int(value) if kind is int else float(value)
        if math.isfinite(converted) and allowed.allows(converted):
            return kind(converted)
        value = converted
    except OverflowError:
        if kind is int:
            allowed = replace(allowed, most=min(allowed.most, _LARGEST_COUNT))
    except Exception:  # an object of the user's own may raise anything
        pass
    noun = "a whole number" if kind is int else "a finite number"
    wanted = " ".join(filter(None, [noun, allowed.range_text()]))
    if isinstance(value, float) and 0 < abs(value) < allowed.smallest:
        wanted += f", no nearer to 0 than {allowed.smallest:g}"
    raise InputError(f"`{name}` is {shown(value)}; give {wanted}.")


def _to_int(value: Any) -> int:
    count = int(value) if isinstance(value, str) else operator.index(value)
    if abs(count) > _LARGEST_COUNT:
        raise OverflowError
    return count


def of_type(value: Any, name: str, kinds: Any, noun: str) -> None:
    """Refuse a value that is of none of the types, with what to give instead."""
    if not isinstance(value, kinds):
        raise InputError(f"`{name}` is {shown(value)}; give {noun}.")


def one_of(value: Any, name: str, known: Collection[str]) -> str:
    """Return a text that is one of those known, or say which they are."""
    if isinstance(value, str) and value in known:
        return value
    raise InputError(f"`{name}` is {shown(value)}; take one of {', '.join(known)}.")


def utf8(text: str, name: str) -> str:
    r"""Return a text that files can keep; what the system takes for a name need not be one.

    Examples
    --------
    >>> utf8("b\udce9d.npz", "data")
    Traceback (most recent call last):
    ...
    deqcli.errors.InputError: `data` is 'b\udce9d.npz', which is not UTF-8; give another name.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InputError(
            f"`{name}` is {shown(text)}, which is not UTF-8; give another name."
        ) from None
    return text


def generator(rng: Any) -> np.random.Generator:
    """Return a random generator of numpy, or say that it is none."""
    from numpy.random import Generator  # here, for the sake of a light ``--help``

    if not isinstance(rng, Generator):
        raise InputError(f"`rng` is {shown(rng)}; give a numpy.random.Generator.")
    return rng


def unmasked(value: Any, name: str) -> np.ndarray[Any, Any]:
    """Return a value as an array; one with masked entries, which hold no number, is refused.

    Examples
    --------
    >>> import numpy as np
    >>> unmasked(np.ma.masked_equal([1, 2, 2], 2), "X")
    Traceback (most recent call last):
    ...
    deqcli.errors.DataError: `X` has 2 masked entries; fill them, or remove those samples.
    """
    import numpy as np  # here, for the sake of a light ``--help``

    if count := int(np.sum(np.ma.getmask(value))):
        raise DataError(f"`{name}` has {count} masked entries; fill them, or remove those samples.")
    return np.asarray(value)


def shown(value: Any) -> str:
    """Return a value for a sentence: on one line and not long.

    Examples
    --------
    >>> shown(range(3)), len(shown("x" * 1000))
    ('range(0, 3)', 60)
    >>> shown(10**5000)
    'of type int and cannot be shown'
    """
    try:
        text = repr(value)
    except Exception:  # an int of more than 4300 digits, or an object of the user's own
        text = f"of type {type(value).__name__} and cannot be shown"
    return one_line(text, 60)


def one_line(text: object, most: int = 200) -> str:
    """Return a text, such as another library's error, on one line and cut to a length."""
    try:
        line = " ".join(str(text).split())
    except Exception:  # of the user's own
        line = "it cannot be shown"
    return line if len(line) <= most else f"{line[: most - 3]}..."


def content(path: Path) -> str:
    """Return the UTF-8 text of a file that a person may read.

    Raises
    ------
    OSError
        If it cannot be read.
    ValueError
        If it never ends, or is no UTF-8.
    """
    with path.open("rb") as file:
        read = file.read(_LONGEST_FILE + 1)
    if len(read) > _LONGEST_FILE:
        raise ValueError(f"it is longer than {_LONGEST_FILE} bytes")
    return read.decode("utf-8")
