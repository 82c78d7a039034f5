"""The settings of the implicit layer that is trained alone, and of its training (GEN).

Nothing heavy is imported here: the command line reads these classes for its help.
"""

from __future__ import annotations

from dataclasses import dataclass

from deqcli.settings import Settings, setting


@dataclass(frozen=True, kw_only=True)
class DescentSettings(Settings):
    r"""Training of the implicit layer alone (GEN).

    A step is :math:`\eta\lambda_{\max}(H(0))`: below 2 descent is stable while H stays near H(0),
    and up to 1 the linearised descent is never slower than the flow.
    """

    method: str = setting(
        "gd", "Gradient descent, or gradient flow by a Runge-Kutta method.", choices=("gd", "ode")
    )
    steps: int = setting(500, "Gradient steps; ode goes as far in time.", least=1, most=10_000_000)
    step: float = setting(1.0, "Size of a step in units of 1/lambda_max(H(0)).", above=0, below=2)
    first_step: float = setting(
        1 / 64, "Size of the first steps of gd, in the same units: the others grow with the time "
        "that has passed, so that descent stays near the flow.", above=0, below=2,
        default_text="1/64",
    )  # fmt: skip
    stop_loss: float = setting(
        1e-8, "Stop a width once its training loss per sample is this.", least=0
    )
    tolerance: float = setting(
        1e-6, "Relative residual of the fixed point, of each equilibrium and adjoint.",
        least=1e-12, below=1e-2,
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class LayerSettings(Settings):
    """The implicit layer that :class:`DescentSettings` train, at the start."""

    gamma0: float = setting(0.5, "Contraction constant ||gamma A|| at the start.", above=0, below=1)
    scaling: str = setting(
        "norm",
        "gamma = gamma0/||A(0)||, or gamma0/sqrt(width) as GEN prints, which need not contract.",
        choices=("norm", "papers"),
    )
    init: str = setting("gaussian", "Law of A(0).", choices=("gaussian", "half-normal", "diagonal"))
    injection: str = setting(
        "relu", "Activation of the input layer.", choices=("relu", "tanh", "identity")
    )
