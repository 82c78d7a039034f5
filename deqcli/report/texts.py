"""Texts of presets and records as a reader of the page expects them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import PureWindowsPath
from typing import Any

NOT_RECORDED = "not recorded"

_OUT = re.compile(r"""\s--out[ =]((?:'[^']*'|"[^"]*"|[^\s'"])+)""")
_LETTERS = {"sigma": "σ", "alpha": "α", "gamma": "γ", "lambda": "λ"}
_UNMEASURED = "Not measured in this folder: run deqcli reproduce errata/printed-forms."
_DEFINITION = (
    " Measured against the exact Θ: G/(1 − Ġ) itself, and the corrected closed form. The "
    "printed κ² and β3 are not measured: they follow from the formulas."
)
_TANGENT = (
    " From the tangent kernel of {empirical_ntk[networks]} simulated networks of width "
    "{empirical_ntk[width]}, G/(1 − Ġ) is {empirical_ntk[printed_relative]:.0%} off, Θ "
    "{empirical_ntk[right_relative]:.1%}."
)

Text = Callable[[Any], str]


def recorded(record: Any, text: Text, otherwise: str = NOT_RECORDED) -> str:
    """Return a text made of a record, another where the record lacks what the text needs.

    Examples
    --------
    >>> time = "{timings[points]:.0f} s".format_map
    >>> recorded({"timings": {"points": 61.5}}, time), recorded({"timings": "soon"}, time)
    ('62 s', 'not recorded')
    """
    # A record is JSON of any shape. RecursionError: nested too deeply to be written again.
    try:
        return text(record) or otherwise
    except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError, RecursionError):
        return otherwise


def command(record: Mapping[str, Any]) -> str:
    """Return the command of a record without a folder that only one machine has.

    Examples
    --------
    >>> command({"command": "deqcli errata --n 64,128 --out '/home/me/my results' --name e"})
    'deqcli errata --n 64,128 --name e'
    >>> command({"command": "deqcli errata --out=build/results"})
    'deqcli errata --out=build/results'
    """

    def kept(option: re.Match[str]) -> str:
        path = option.group(1).strip("'\"")
        local = path.startswith("~") or PureWindowsPath(path).anchor
        return "" if local else option.group()

    return recorded(record, lambda record: _OUT.sub(kept, record["command"]))


_FACTS: dict[str, Text] = {
    "deqcli": "{deqcli}".format_map,
    "commit": "{environment[commit][revision]:.12}".format_map,
    "changes not committed": "{environment[commit][dirty]}".format_map,
    "seed": "{seed}".format_map,
    "settings (hash)": "{spec_hash}".format_map,
    "Python": "{environment[python]}".format_map,
    "packages": lambda record: ", ".join(
        f"{name} {version}"
        for name, version in record["environment"]["packages"].items()
        if version
    ),
    "machine": "{environment[platform]}, {environment[cpu][model]}".format_map,
    "time": "{timings[points]:.0f} s on {timings[jobs]} process(es)".format_map,
    "files (SHA-256)": lambda record: "; ".join(
        f"{name} {digest[:16]}…" for name, digest in record["outputs"].items()
    ),
    "all settings": lambda record: json.dumps(record["spec"], sort_keys=True, ensure_ascii=False),
}


def provenance(record: Mapping[str, Any]) -> dict[str, str]:
    """Return what a record says of a run's origin, by what it is."""
    return {name: recorded(record, text) for name, text in _FACTS.items()}


def sizes(record: Mapping[str, Any]) -> str:
    """Return the sizes of a run of the errata in a sentence."""
    numbers = recorded(record, lambda record: ", ".join(map(str, record["spec"]["sizes"])))
    return f"Here n = {numbers}; {recorded(record, '{spec[trials]}'.format_map)} trial(s) each."


def evidence(name: str, results: Any) -> str:
    """Return the evidence of an erratum, by its key, in the results of a run of ``deqcli errata``.

    Examples
    --------
    >>> results = {"errata": {"icml-theorem-1": {"sizes": [250, 4000],
    ...     "printed_errors": [0.596, 0.668], "right_errors": [0.117, 0.0278],
    ...     "right_slope": -0.51}}}
    >>> evidence("icml-theorem-1", results)
    'Error at n = 250 → 4000: printed 0.596 → 0.668, right 0.117 → 0.0278 (slope −0.51).'
    >>> evidence("sum-for-k", results)
    'Not measured in this folder: run deqcli reproduce errata/printed-forms.'
    """
    claim = recorded(results, f"{{claims[{name}][evidence]}}".format_map, _UNMEASURED)
    text = recorded(results, lambda results: _curve(results["errata"][name]), claim)
    if name == "icml-ntk" and text != _UNMEASURED:
        text += _DEFINITION + recorded(results, _TANGENT.format_map, "")
    return text


def _curve(curve: Any) -> str:
    sizes, printed, right = (curve[key] for key in ("sizes", "printed_errors", "right_errors"))
    return (
        f"Error at n = {sizes[0]} → {sizes[-1]}: printed {printed[0]:.3g} → {printed[-1]:.3g}, "
        f"right {right[0]:.3g} → {right[-1]:.3g} (slope {curve['right_slope']:.2f})."
    ).replace("slope -", "slope −")


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
