"""How results show themselves: a few lines in a terminal, a small table in a notebook."""

from __future__ import annotations

import dataclasses
import html
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
