"""How results show themselves: a few lines in a terminal, a small table in a notebook."""

from __future__ import annotations

import dataclasses
import html
import math
from collections.abc import Mapping

#: More than this of one value is cut.
_WIDTH = 72


class Displayed:
    """Shows the facts that a class names, in place of every array and function it holds.

    A dataclass must be made with ``repr=False``, which leaves this one in force.

    Examples
    --------
    >>> class Twin(Displayed):
    ...     def _facts(self):
    ...         return {"layers": 2, "worst residual": 1.25e-14}
    >>> Twin()
    Twin
      layers          2
      worst residual  1.25e-14
    >>> Twin()._repr_html_()[:40]
    '<table><caption>Twin</caption><tr><th sc'
    """

    def _facts(self) -> Mapping[str, object]:
        """Name what is shown: by default the numbers and texts of a dataclass."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}  # type: ignore[arg-type]
        return {name: value for name, value in fields.items() if isinstance(value, float | str)}

    def __repr__(self) -> str:
        facts = self._facts()
        wide = max(map(len, facts), default=0)
        lines = [f"  {name:{wide}}  {cut(value)}".rstrip() for name, value in facts.items()]
        return "\n".join([type(self).__name__, *lines])

    def _repr_html_(self) -> str:
        rows = "".join(
            f'<tr><th scope="row" style="text-align:left">{html.escape(name)}</th>'
            f'<td style="text-align:left">{html.escape(cut(value, 200))}</td></tr>'
            for name, value in self._facts().items()
        )
        return f"<table><caption>{html.escape(type(self).__name__)}</caption>{rows}</table>"


def cut(value: object, most: int = _WIDTH) -> str:
    r"""Return a value as a person reads it: short numbers, one line, not long.

    Examples
    --------
    >>> cut(0.1234567891), cut((1.0, 2.5)), cut("a\nb")
    ('0.123457', '1, 2.5', 'a b')
    """
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, tuple | list):
        return cut(", ".join(cut(entry) for entry in value), most)
    line = " ".join(str(value).split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def number(value: float, digits: int = 3) -> str:
    """Return a number with some significant digits and the sign that the text around it has.

    Examples
    --------
    >>> number(0.0828), number(-12.345), number(6.1e-05)
    ('0.0828', '−12.3', '6.1e−05')
    """
    return f"{value:.{digits}g}".replace("-", "−")


def around(value: float, half: float | None) -> str:
    """Return a number with half of its interval, both to the digit that this leaves certain.

    Examples
    --------
    >>> around(0.00833, 0.161), around(-0.596, 0.0082), around(7.521e-6, 5e-8), around(94.3, 0.0)
    ('0.01 ± 0.16', '−0.596 ± 0.008', '7.52e−06 ± 5e−08', '94.3 ± 0')
    >>> around(4.2735, None)
    '4.27'
    """
    if half is None:
        return number(value)
    if half == 0 or max(abs(value), half) < 1e-4:
        return f"{number(value)} ± {number(half, 1)}"
    power = math.floor(math.log10(half))
    # A leading 1 alone would be a coarse one.
    places = max(0, -power + (half / 10**power < 2))
    return f"{value:.{places}f} ± {half:.{places}f}".replace("-", "−")
