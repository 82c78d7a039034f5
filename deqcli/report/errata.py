"""The errata of theory.md §7 for a reader: what is printed, what is right, what was measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Entry:
    """One erratum.

    Attributes
    ----------
    where, printed, right : str
        Place in the papers, what stands there, and what should.
    measured : str
        Its key in the results of ``deqcli errata``; empty where no curve belongs to it.
    evidence : str
        What shows it, where no curve does.
    """

    where: str
    printed: str
    right: str
    measured: str = ""
    evidence: str = ""


ENTRIES = (
    Entry("ICML Theorem 1", "α2 with α4", "α2 with α4²", "icml-theorem-1"),
    Entry("ICLR Theorem 1", "diagonal with −τ0⁴ α3", "no such term", "iclr-theorem-1"),
    Entry("ICLR Theorem 2", "diagonal with −τ0⁴ β3", "no such term", "iclr-theorem-2"),
    Entry("ICML Theorem 3", "α̃4 and α̃1 not squared, α̃4 without ½",
          "α̃2 with α̃4², α̃3 with α̃1², α̃4 with ½", "icml-theorem-3"),
    Entry("ICML NTK", "K* = G/(1 − Ġ), with κ² from τ* and its β3",
          "Θ = G + Λ (Ġ/σa²)/(1 − Ġ) for the network, K = Λ/(1 − Ġ) before the activation",
          "icml-ntk"),
    Entry("HLD Theorem 3", "k'(0) over σa² f' − 1", "the opposite sign: over 1 − σa² f'",
          "hld-theorem-3"),
    Entry("ICLR Corollary 2", "even or piecewise linear φ have E φ'' = 0; (a − b)² = 4α1²",
          "false for ReLU, which needs two layers; (a + b)²/4 = α1",
          evidence="For ReLU α2 is not ½α3, which one layer forces: deqcli match says so."),
    Entry("ICLR Corollary 1", "a quadratic two-layer network always exists",
          "no solution for odd φ, nor for ReLU, swish, gelu, softplus",
          evidence="deqcli match --family quadratic ends with exit code 3 and the residuals."),
    Entry("ICLR Figure 1", "“Arc-Tanh” activation", "arctan: artanh has no values beyond ±1",
          evidence="The distance of the exact kernel is in the table of verdicts."),
    Entry("ICLR and HLD, the sum for K", "K as summed starts at Ġ",
          "the limit used is K = Λ/(1 − Ġ)",
          evidence="By summing the geometric series."),
)  # fmt: skip


def evidence(entry: Entry, results: dict[str, Any] | None) -> str:
    """Return the measured evidence of an entry in one sentence.

    Examples
    --------
    >>> results = {"errata": {"icml-theorem-1": {"sizes": [250, 4000],
    ...     "printed_errors": [0.596, 0.668], "right_errors": [0.117, 0.0278],
    ...     "right_slope": -0.51}}}
    >>> evidence(ENTRIES[0], results)
    'Error at n = 250 → 4000: printed 0.596 → 0.668, right 0.117 → 0.0278 (slope −0.51).'
    """
    if not entry.measured:
        return entry.evidence
    found = (results or {}).get("errata", {}).get(entry.measured)
    if found is None:
        return "Not measured in this folder: run deqcli reproduce errata/printed-forms."
    sizes, printed, right = (found[k] for k in ("sizes", "printed_errors", "right_errors"))
    text = (
        f"Error at n = {sizes[0]} → {sizes[-1]}: printed {printed[0]:.3g} → {printed[-1]:.3g}, "
        f"right {right[0]:.3g} → {right[-1]:.3g} (slope {found['right_slope']:.2f})."
    ).replace("slope -", "slope −")
    empirical = (results or {}).get("empirical_ntk")
    if entry.measured == "icml-ntk" and empirical:
        text += (
            f" From the tangent kernel of {empirical['networks']} simulated networks of width "
            f"{empirical['width']} it is {empirical['printed_relative']:.0%} off, the right one "
            f"{empirical['right_relative']:.1%}."
        )
    return text
