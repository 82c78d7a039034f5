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
#: What can be said of a claim where a run lacks the number.
_PROSE = {
    "iclr-corollary-1": "deqcli match --family quadratic ends with exit code 3 and the residuals.",
    "iclr-corollary-2": "For ReLU α2 is not ½α3, which one layer forces: deqcli match says so.",
    "iclr-figure-1": "The distance of the exact kernel is in the table of verdicts.",
    "sum-for-k": "By summing the geometric series.",
}
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


def _commit(record: Any) -> str:
    commit = record["environment"]["commit"]
    if commit is None:
        return "none: an installed package"
    return f"{commit['revision'][:12]}{' and changes' if commit['dirty'] else ''}"


_FACTS: dict[str, Text] = {
    "deqcli": "{deqcli}".format_map,
    "commit": _commit,
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
    """Return what a record says of a run's origin, by what it is.

    Examples
    --------
    >>> [provenance({"seed": 0})[key] for key in ("seed", "time")]
    ['0', 'not recorded']
    """
    return {name: recorded(record, text) for name, text in _FACTS.items()}


def sizes(record: Mapping[str, Any]) -> str:
    """Return the sizes of a run of the errata in a sentence."""
    numbers = recorded(record, lambda record: ", ".join(map(str, record["spec"]["sizes"])))
    return f"Here n = {numbers}; {recorded(record, '{spec[trials]}'.format_map)} trial(s) each."


def evidence(name: str, results: Any) -> str:
    """Return the measured evidence of an erratum in a few sentences.

    Parameters
    ----------
    name : str
        The key of the erratum.
    results : mapping or None
        What a run of ``deqcli errata`` recorded.

    Examples
    --------
    >>> results = {"errata": {"icml-theorem-1": {"sizes": [250, 4000],
    ...     "printed_errors": [0.596, 0.668], "right_errors": [0.117, 0.0278],
    ...     "right_slope": -0.51}}}
    >>> evidence("icml-theorem-1", results)
    'Error at n = 250 → 4000: printed 0.596 → 0.668, right 0.117 → 0.0278 (slope −0.51).'
    >>> evidence("sum-for-k", results)
    'By summing the geometric series.'
    """
    if name in _PROSE:
        return recorded(
            results, lambda results: str(results["claims"][name]["evidence"]), _PROSE[name]
        )
    text = recorded(results, lambda results: _curve(results["errata"][name]), _UNMEASURED)
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
