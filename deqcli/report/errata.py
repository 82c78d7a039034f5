"""The errata of theory.md §7 for a reader: what is printed, what is right, what was measured."""

from __future__ import annotations

from typing import Any

from deqcli.studies.errata import ERRATA
from deqcli.studies.errata_claims import CLAIMS
from deqcli.studies.misprints import Erratum

#: By the key of their evidence in a run of ``deqcli errata``: with a curve, then without.
ENTRIES: dict[str, Erratum] = {**ERRATA, **CLAIMS}

_UNMEASURED = "Not measured in this folder: run deqcli reproduce errata/printed-forms."
#: What can be said where a run lacks the number.
_PROSE = {
    "iclr-corollary-1": "deqcli match --family quadratic ends with exit code 3 and the residuals.",
    "iclr-corollary-2": "For ReLU α2 is not ½α3, which one layer forces: deqcli match says so.",
    "iclr-figure-1": "The distance of the exact kernel is in the table of verdicts.",
    "sum-for-k": "By summing the geometric series.",
}


def evidence(name: str, results: dict[str, Any] | None) -> str:
    """Return the measured evidence of an entry in a few sentences.

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
    found = results or {}
    if name in CLAIMS:
        return str(found.get("claims", {}).get(name, {}).get("evidence", _PROSE[name]))
    curve = found.get("errata", {}).get(name)
    if curve is None:
        return _UNMEASURED
    sizes, printed, right = (curve[k] for k in ("sizes", "printed_errors", "right_errors"))
    text = (
        f"Error at n = {sizes[0]} → {sizes[-1]}: printed {printed[0]:.3g} → {printed[-1]:.3g}, "
        f"right {right[0]:.3g} → {right[-1]:.3g} (slope {curve['right_slope']:.2f})."
    ).replace("slope -", "slope −")
    return f"{text}{_tangent(found.get('empirical_ntk'))}" if name == "icml-ntk" else text


def _tangent(empirical: dict[str, Any] | None) -> str:
    text = (
        " Measured against the exact Θ: G/(1 − Ġ) itself, and the corrected closed form. The "
        "printed κ² and β3 are not measured: they follow from the formulas."
    )
    if empirical:
        text += (
            f" From the tangent kernel of {empirical['networks']} simulated networks of width "
            f"{empirical['width']}, G/(1 − Ġ) is {empirical['printed_relative']:.0%} off, Θ "
            f"{empirical['right_relative']:.1%}."
        )
    return text
