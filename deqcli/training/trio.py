"""The three networks that are set side by side: a DEQ, its matched twin, a plain network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from deqcli.activations import Activation, activation
from deqcli.errors import InputError, silence_range_warning
from deqcli.kernels.explicit import explicit_kernels
from deqcli.kernels.implicit import implicit_kernels
from deqcli.matching import Match, match, plain_network
from deqcli.training.base import Network
from deqcli.training.equilibrium import EquilibriumNetwork
from deqcli.training.explicit import ExplicitNetwork
from deqcli.vocabulary import Solver

Array = NDArray[Any]

NETS = ("deq", "matched", "plain")
#: The kernel to match, as :func:`deqcli.matching.match` calls it.
MATCHES = {"ck": "ck", "ntk": "network_ntk"}


@dataclass(frozen=True)
class Trio:
    """The activations of the three networks, as they are used.

    Attributes
    ----------
    act : Activation
        Of the DEQ, centred.
    sigma_a2, sigma_b2 : float
    twin : Match
        Its explicit twin.
    plain : tuple of Activation
        The DEQ's activation in as many layers as the twin has, centred in each.
    """

    act: Activation
    sigma_a2: float
    sigma_b2: float
    twin: Match
    plain: tuple[Activation, ...]

    def require_twin(self) -> None:
        """Raise unless the twin's kernel is the DEQ's."""
        if not self.twin.feasible:
            raise InputError(
                f"--nets matched: no explicit network matches ({self.twin.reason.rstrip('.')}); "
                "leave matched out, or choose another --match, --act or --sigma-a2."
            )

    def acts(self, net: str) -> tuple[Activation, ...]:
        """Return the activations of one network, layer by layer."""
        return {"deq": (self.act,), "matched": self.twin.acts, "plain": self.plain}[net]

    def network(
        self,
        net: str,
        width: int,
        n_features: int,
        n_classes: int,
        *,
        solver: Solver = Solver.GAUSS_SEIDEL,
        tolerance: float = 1e-3,
    ) -> Network:
        """Return one network, its weights yet to be drawn."""
        size = width, n_features, n_classes
        if net != "deq":
            return ExplicitNetwork(self.acts(net), *size)
        return EquilibriumNetwork(
            self.act, self.sigma_a2, self.sigma_b2, *size, solver=solver, tolerance=tolerance
        )

    def kernel(self, net: str, name: str, X: Array, Y: Array | None = None) -> Array:
        """Return the exact ``ck`` or ``ntk`` of one network at infinite width."""
        if net != "deq":
            return explicit_kernels(X, self.acts(net), Y).compute(name)[0]
        with silence_range_warning():
            kernels = implicit_kernels(X, self.act, self.sigma_a2, self.sigma_b2, Y)
        return kernels.compute(name)[0]


def trio(
    act: str, sigma_a2: float, sigma_b2: float, tau0: float = 1.0, matched: str = "ck"
) -> Trio:
    r"""Choose the networks for data of a given :math:`\tau_0`.

    Parameters
    ----------
    act : str
        Of the DEQ.
    sigma_a2, sigma_b2, tau0 : float
    matched : {"ck", "ntk"}
        Which kernel the twin shares with the DEQ: that of its features, or the tangent kernel.
        Only one can be had, and all weights are trained: a twin by ``ck`` has another tangent
        kernel. For ReLU it is 1.5 times the DEQ's, and apart from that factor the same to 2 %.

    Examples
    --------
    >>> nets = trio("relu", 0.2, 0.8)
    >>> nets.twin.family, len(nets.plain), nets.network("plain", 8, 4, 3).size
    ('lrelu', 2, 120)
    """
    if matched not in MATCHES:
        raise InputError(f"--match {matched!r}: choose from {', '.join(MATCHES)}.")
    chosen = activation(act)
    with silence_range_warning():
        twin = match(chosen, sigma_a2, sigma_b2, tau0, kernel=MATCHES[matched])
        centred = chosen.centred(sigma_a2, sigma_b2, tau0)
    plain = plain_network(chosen, twin.layers, tau0)
    return Trio(centred, sigma_a2, sigma_b2, twin, plain)
