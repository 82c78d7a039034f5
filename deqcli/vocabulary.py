"""The words that options, tables, records and Python share, each written once.

Nothing heavy is imported here: the command line reads these names for its help.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from enum import StrEnum
from typing import Any, Self

from deqcli.checks import one_line, shown
from deqcli.errors import InputError


def suggestion(value: object, known: Iterable[str]) -> str:
    """Return the end of a sentence about a name that nobody knows: what may have been meant.

    Examples
    --------
    >>> suggestion("tahn", ["tanh", "relu"]), suggestion("x", ["tanh", "relu"])
    ('did you mean tanh?', 'choose from tanh, relu.')
    """
    names = list(known)
    close = difflib.get_close_matches(one_line(value), names, n=1)
    return f"did you mean {close[0]}?" if close else f"choose from {', '.join(names)}."


class Named(str):
    """A text with the object that it stands for, which goes with it to other processes."""

    __slots__ = ("meaning",)
    meaning: Any

    def __new__(cls, text: str, meaning: Any) -> Self:
        """Make one; what it means need not be comparable, since texts are compared."""
        named = super().__new__(cls, text)
        named.meaning = meaning
        return named

    def __getnewargs__(self) -> tuple[str, Any]:  # type: ignore[override]
        return str(self), self.meaning


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
        raise InputError(f"`{parameter}` is {shown(name)}; {suggestion(name, known)}")


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

    @classmethod
    def of_explicit(cls, name: str, parameter: str) -> Kernel:
        """Return the member of that name, one of the two that an explicit network has."""
        kernel = cls.of(name, parameter)
        if kernel.before_activation:
            raise InputError(
                f"`{parameter}` is {kernel.value!r}; an explicit network has ck and ntk."
            )
        return kernel


class Form(Word):
    """Forms of the closed-form equivalent: as in the papers, or with every sample's own norm."""

    PAPERS = "papers"
    OWN_NORM = "own-norm"


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


class Storage(Word):
    """How an exact kernel is kept: as a matrix, or as an operator, here, on disk, on a cluster."""

    DENSE = "dense"
    MEMORY = "memory"
    DISK = "disk"
    CLUSTER = "cluster"


#: Names of laws that samples are drawn from; any other ``data`` is a data set or a file.
DRAWN = ("gmm", "sphere")


class Net(Word):
    """The networks that are set side by side: the DEQ, its matched twin, a plain network."""

    DEQ = "deq"
    MATCHED = "matched"
    PLAIN = "plain"


#: What people call the activations, by their names in :data:`deqcli.activations.REGISTRY`.
ACTIVATION_TITLES = {
    "identity": "identity",
    "tanh": "tanh",
    "arctan": "arctan",
    "erf": "erf",
    "sin": "sin",
    "cos": "cos",
    "relu": "ReLU",
    "nrelu": "normalised ReLU",
    "lrelu": "Leaky ReLU",
    "maxlin": "Leaky ReLU",
    "abs": "absolute value",
    "htanh": "Hard Tanh",
    "spline": "linear spline",
    "swish": "Swish",
    "gelu": "GELU",
    "softplus": "Softplus",
    "elu": "ELU",
    "quadratic": "quadratic",
    "cubic": "cubic",
    "hermite": "Hermite polynomial",
}
#: The activations' names.
ACTIVATIONS = tuple(ACTIVATION_TITLES)


def activation_title(name: str) -> str:
    """Return what people call an activation; a function of one's own keeps its name.

    Examples
    --------
    >>> activation_title("maxlin:a=1.2,b=0.3"), activation_title("package.module:function")
    ('Leaky ReLU', 'package.module:function')
    """
    return ACTIVATION_TITLES.get(name.partition(":")[0], name)
