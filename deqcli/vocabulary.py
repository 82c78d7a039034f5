"""The words that options, tables, records and Python share, each written once.

Nothing heavy is imported here: the command line reads these names for its help.
"""

from __future__ import annotations

import difflib
from enum import StrEnum
from typing import Self

from deqcli.errors import InputError


class Word(StrEnum):
    """A closed list of names; underscores may stand for hyphens when one is looked up."""

    @classmethod
    def of(cls, name: str, parameter: str) -> Self:
        """Return the member of that name.

        Parameters
        ----------
        name : str
            As a user wrote it.
        parameter : str
            What the name was given for, to be named in the error.

        Raises
        ------
        InputError
            If there is no such name; the nearest one is suggested.

        Examples
        --------
        >>> Kernel.of("preactivation_ck", "kernel")
        <Kernel.PREACTIVATION_CK: 'preactivation-ck'>
        >>> Kernel.of("nkt", "kernel")
        Traceback (most recent call last):
            ...
        deqcli.errors.InputError: `kernel` is 'nkt'; did you mean ntk?
        """
        known = [member.value for member in cls]
        if isinstance(name, str) and name.replace("_", "-") in known:
            return cls(name.replace("_", "-"))
        close = difflib.get_close_matches(str(name), known, n=1)
        hint = f"did you mean {close[0]}?" if close else f"choose from {', '.join(known)}."
        raise InputError(f"`{parameter}` is {name!r}; {hint}")


class Kernel(Word):
    r"""The four kernels of a DEQ (theory.md §2).

    =================  ==================================================  ================
    name               matrix                                              in the papers
    =================  ==================================================  ================
    ck                 :math:`G = E[\phi(u)\phi(v)]`, of the features      ICML's G*
    preactivation-ck   :math:`\Lambda = \sigma_a^2G + \sigma_b^2XX^\top`   HLD's, ICLR's G*
    ntk                :math:`\Theta` of the network, all weights trained
    preactivation-ntk  :math:`K = \Lambda/(1 - \dot G)`                    HLD's, ICLR's K*
    =================  ==================================================  ================

    An explicit network has the first and the third.
    """

    CK = "ck"
    PREACTIVATION_CK = "preactivation-ck"
    NTK = "ntk"
    PREACTIVATION_NTK = "preactivation-ntk"

    @property
    def attribute(self) -> str:
        """The name as a Python identifier, such as ``preactivation_ck``."""
        return self.value.replace("-", "_")

    @property
    def letter(self) -> str:
        """The letter that stands for the matrix in the papers and in our texts."""
        return {"ck": "G", "preactivation-ck": "Λ", "ntk": "Θ", "preactivation-ntk": "K"}[self]

    @property
    def before_activation(self) -> bool:
        """Whether the kernel is that of the pre-activations."""
        return self in (Kernel.PREACTIVATION_CK, Kernel.PREACTIVATION_NTK)

    @property
    def explicit(self) -> Kernel:
        """The kernel of an explicit network that is set beside this one: ``ck`` or ``ntk``."""
        return Kernel.NTK if self.value.endswith("ntk") else Kernel.CK


class Solver(Word):
    """How an equilibrium is found; all reach the same point (:mod:`deqcli.finite`)."""

    GAUSS_SEIDEL = "gauss-seidel"
    PICARD = "picard"
    ANDERSON = "anderson"


class Weights(Word):
    """Laws of the random weights, all of mean 0 and variance 1."""

    GAUSSIAN = "gaussian"
    RADEMACHER = "rademacher"
    STUDENT_T = "student-t"


class Estimator(Word):
    """Where a kernel comes from: averaged over random networks, or exact."""

    MONTE_CARLO = "monte-carlo"
    EXACT = "exact"


class Net(Word):
    """The networks that are set side by side: the DEQ, its matched twin, a plain network."""

    DEQ = "deq"
    MATCHED = "matched"
    PLAIN = "plain"
