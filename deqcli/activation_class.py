"""What an activation is to the theory, and how a function of the user's own becomes one."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deqcli import activation_functions as functions
from deqcli import checks
from deqcli.activation_functions import Function
from deqcli.checks import one_line, shown
from deqcli.closed_forms import ClosedForm
from deqcli.display import Displayed
from deqcli.errors import ActivationError, InputError

#: Sizes that kinks and parameters of activations may have.
SIZE = checks.Range(least=-checks.LARGEST, most=checks.LARGEST, smallest=checks.SMALLEST)


@dataclasses.dataclass(frozen=True, repr=False)
class Activation(Displayed):
    r"""An activation :math:`\phi(x) = \tilde\phi(x) - c` with what the theory needs to know of it.

    Parameters
    ----------
    name : str
        The name that :func:`activation` understands, parameters included.
    function : callable
        :math:`\tilde\phi`, elementwise, array in and array of the same shape out.
    derivative : callable
        :math:`\tilde\phi'`, elementwise; at a kink, either one-sided value.
    kinks : tuple of float
        Where :math:`\tilde\phi` or a derivative jumps; quadrature splits there.
    lipschitz : float
        The Lipschitz constant L; infinite for polynomials of degree two or more.
    parameters : mapping of str to float
        The parameters that the name carries.
    shift : float
        The constant c; :meth:`centred` and :meth:`shifted` set it.
    closed_form : ClosedForm, optional
        Its Gaussian pair expectations, where they are known.

    Examples
    --------
    >>> from deqcli.activations import activation
    >>> act = activation("lrelu:slope=0.3").centred(sigma_a2=0.2, sigma_b2=0.8, tau0=1.0)
    >>> act.name, round(act.shift, 6)
    ('lrelu:slope=0.3', 0.262329)
    >>> activation("htanh")
    Activation
      name       htanh:a=1.0,c=1.0
      kinks      -1, 1
      Lipschitz  1
      shift      0
    """

    name: str
    function: Function
    derivative: Function
    kinks: tuple[float, ...] = ()
    lipschitz: float = math.inf
    parameters: Mapping[str, float] = dataclasses.field(default_factory=dict, hash=False)
    shift: float = 0.0
    closed_form: ClosedForm | None = None

    def __post_init__(self) -> None:
        """Check what is declared, and guard functions that are not this package's."""
        label = one_line(self.name)
        checks.of_type(self.name, "name", str, "a text")
        checks.of_type(self.closed_form, "closed_form", ClosedForm | None, "one, or None")
        known: dict[str, Any] = {
            "kinks": _kinks(self.kinks, label, checks.Range()),
            "lipschitz": _lipschitz(self.lipschitz, label, checks.Range(least=0)),
            "shift": checks.number(self.shift, "shift", float),
        }
        # Those of :meth:`from_function` and of the registry have been looked at.
        if not isinstance(self.function, functions.Guarded | functions.Bound):
            found = Activation.from_function(
                self.function, self.derivative, known["kinks"], known["lipschitz"], label
            )
            for key in ("function", "derivative"):
                if not functions.is_known(getattr(self, key)):
                    known[key] = getattr(found, key)
        for key, value in known.items():
            object.__setattr__(self, key, value)

    def __call__(self, x: NDArray[Any]) -> NDArray[Any]:
        """Return ``function(x) - shift``, of the shape and floating type of ``x``."""
        return self.function(x) - self.shift if self.shift else self.function(x)

    def _facts(self) -> dict[str, object]:
        return {
            "name": self.name,
            "kinks": self.kinks or "none",
            "Lipschitz": self.lipschitz,
            "shift": self.shift,
        }

    def shifted(self, shift: float) -> Activation:
        """Return the same activation with ``shift`` subtracted (instead of any earlier shift)."""
        return dataclasses.replace(self, shift=checks.number(shift, "shift", float))

    def centred(self, sigma_a2: float, sigma_b2: float, tau0: float) -> Activation:
        r"""Return the activation shifted so that :math:`E\phi(\tau_*\xi) = 0`.

        The shift and :math:`\tau_*^2 = \sigma_a^2 E\phi^2(\tau_*\xi) + \sigma_b^2\tau_0^2` are
        solved jointly (ICLR Remark 3; theory.md §3).
        """
        from deqcli.gaussian import centring

        return self.shifted(centring(self, sigma_a2, sigma_b2, tau0).shift)

    @staticmethod
    def from_function(
        function: Function,
        derivative: Function | None = None,
        kinks: tuple[float, ...] | None = None,
        lipschitz: float | None = None,
        name: str | None = None,
    ) -> Activation:
        """Wrap a function of one's own; what is not given is found numerically.

        Parameters
        ----------
        function, derivative : callable
            Elementwise, numpy array in and out. Without a derivative a fourth-order difference
            that never reaches across a kink takes its place.
        kinks : tuple of float, optional
            Every point where the function or one of its derivatives jumps: Gaussian integrals are
            split there, without which they are right to a few digits only. When absent, jumps of
            the function and of its slope are looked for on [-20, 20]; those of higher derivatives,
            which cost less, are not found.
        lipschitz : float, optional
            Found on a grid over [-1000, 1000] when absent; infinite if the slope still grows there,
            or the function itself jumps.
        """
        label = one_line(functions.name_of(function) if name is None else name)
        function = functions.guarded(function, label)
        kinks = functions.find_kinks(function, label) if kinks is None else kinks
        kinks = _kinks(kinks, label, SIZE)
        if derivative is None:
            derivative = functions.Bound(functions.difference, function, kinks)
        else:
            derivative = functions.guarded(derivative, f"the derivative of {label}")
            functions.check_derivative(function, derivative, kinks, label)
        if lipschitz is None:
            lipschitz = functions.steepest(derivative)
            # A difference that stops at a kink does not see a jump there.
            lipschitz = math.inf if functions.jumps(function, kinks) else lipschitz
            return Activation(label, function, derivative, kinks, lipschitz)
        lipschitz = _lipschitz(lipschitz, label, checks.NOT_NEGATIVE)
        if (slope := functions.steepest_secant(function)) > 1.000001 * lipschitz:
            raise ActivationError(
                f"{label}: `lipschitz` is {lipschitz:g}, but its slope reaches {slope:.4g}."
            )
        return Activation(label, function, derivative, kinks, lipschitz)


def _kinks(kinks: Any, label: str, allowed: checks.Range) -> tuple[float, ...]:
    try:
        return tuple(sorted(checks.number(kink, "kinks", float, allowed) for kink in kinks))
    except InputError as error:
        raise ActivationError(f"{label}: {error}") from None
    except TypeError:
        raise ActivationError(
            f"{label}: `kinks` is {shown(kinks)}; give a tuple of numbers."
        ) from None


def _lipschitz(lipschitz: Any, label: str, allowed: checks.Range) -> float:
    if isinstance(lipschitz, float | np.floating) and lipschitz == math.inf:
        return math.inf
    try:
        return checks.number(lipschitz, "lipschitz", float, allowed)
    except InputError as error:
        raise ActivationError(f"{label}: {error}") from None
