"""Texts of presets and records as a reader of the page expects them."""

from __future__ import annotations

import re
from pathlib import PureWindowsPath

_OUT = re.compile(r"""\s--out[ =]((?:'[^']*'|"[^"]*"|[^\s'"])+)""")
_LETTERS = {"sigma": "σ", "alpha": "α", "gamma": "γ", "lambda": "λ"}


def command(text: str) -> str:
    """Return a recorded command without a folder that only one machine has.

    Examples
    --------
    >>> command("deqcli errata --n 64,128 --out '/home/me/my results' --name e")
    'deqcli errata --n 64,128 --name e'
    >>> command("deqcli errata --out=build/results")
    'deqcli errata --out=build/results'
    """

    def kept(found: re.Match[str]) -> str:
        path = found.group(1).strip("'\"")
        local = path.startswith("~") or PureWindowsPath(path).anchor
        return "" if local else found.group()

    return _OUT.sub(kept, text)


def first_sentence(text: str) -> str:
    """Return what comes before a full stop that a capital follows.

    Examples
    --------
    >>> first_sentence("Errors for n = 0.5 p, see p. 8; slopes. Chosen here: tanh.")
    'Errors for n = 0.5 p, see p. 8; slopes.'
    """
    return re.split(r"(?<=\.)\s+(?=[\"“(]?[A-Z])", text, maxsplit=1)[0]


def greek(text: str) -> str:
    """Write the letters of a preset's header as a reader expects them.

    Examples
    --------
    >>> greek("sigma_a^2 = 0.1, the norm of gamma A(k), alpha2")
    'σa² = 0.1, the norm of γ A(k), α2'
    """
    for name, letter in _LETTERS.items():
        text = re.sub(rf"\b{name}(?=[_\W\d])", letter, text)
    return text.replace("σ_a^2", "σa²").replace("σ_b^2", "σb²").replace("λ_max", "λmax")
