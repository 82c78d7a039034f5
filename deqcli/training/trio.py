"""The three networks that are set side by side: a DEQ, its matched twin, a plain network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deqcli.activations import Activation, activation
from deqcli.errors import InputError, silence_range_warning
from deqcli.kernels.exact import ExactKernels, explicit_kernels, implicit_kernels
from deqcli.kernels.matrix import root_mean_squared_norm
from deqcli.kernels.pairs import ExplicitPairs, ImplicitPairs, PairKernel
from deqcli.matching import Match, match, plain_network
from deqcli.scalars import ImplicitScalars, implicit_scalars
from deqcli.training.base import Network
from deqcli.training.networks import EquilibriumNetwork, ExplicitNetwork
from deqcli.vocabulary import Kernel, Net, Solver

Array = NDArray[Any]


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
        The DEQ's activation in every layer, centred in each.
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
                f"no explicit network matches ({self.twin.reason.rstrip('.')}); leave matched "
                "out of `nets`, or choose another `match`, `twin`, `act` or `sigma_a2`."
            )

    def acts(self, net: str) -> tuple[Activation, ...]:
        """Return the activations of one network, layer by layer."""
        by_net = {Net.DEQ: (self.act,), Net.MATCHED: self.twin.acts, Net.PLAIN: self.plain}
        return by_net[Net.of(net, "net")]

    @property
    def scalars(self) -> ImplicitScalars:
        """The DEQ's scalars at the samples' norm."""
        with silence_range_warning():
            return implicit_scalars(self.act, self.sigma_a2, self.sigma_b2, self.twin.tau0)

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
        if net != Net.DEQ:
            return ExplicitNetwork(self.acts(net), *size)
        return EquilibriumNetwork(
            self.act, self.sigma_a2, self.sigma_b2, *size, solver=solver, tolerance=tolerance
        )

    def kernels(self, net: str, X: Array, Y: Array | None = None) -> ExactKernels:
        """Return the exact kernels of one network at infinite width."""
        if net != Net.DEQ:
            return explicit_kernels(X, self.acts(net), Y)
        with silence_range_warning():
            return implicit_kernels(X, self.act, self.sigma_a2, self.sigma_b2, Y)

    def single_precision_kernel(self, net: str, kernel: Kernel, X: Array, Y: Array) -> Array:
        """Return one exact kernel, of shape (len(X), len(Y)); double precision only by blocks."""
        kept = np.empty((len(X), len(Y)), np.float32)
        for rows, block in self.kernels(net, X, Y).blocks(kernel):
            kept[rows] = block
        return kept

    def mean_diagonals(self, net: str, X: Array) -> tuple[float, float]:
        """Return the mean diagonals of the exact CK and NTK of one network on samples."""
        pairs: PairKernel = ImplicitPairs(self.act, self.sigma_a2, self.sigma_b2)
        if net != Net.DEQ:
            pairs = ExplicitPairs(self.acts(net))
        norms = np.sqrt(np.sum(X**2, axis=1))
        values = pairs(norms, norms, np.zeros_like(norms))
        return float(np.mean(values.ck)), float(np.mean(values.ntk))


def trio(
    act: str,
    sigma_a2: float,
    sigma_b2: float,
    X: Array,
    kernel: Kernel | str = Kernel.CK,
    *,
    twin: str = "data",
    plain_layers: int | None = None,
    seed: int = 0,
) -> Trio:
    r"""Choose the networks for samples, whose :math:`\tau_0^2` is their mean squared norm.

    Parameters
    ----------
    act : str
        Of the DEQ.
    sigma_a2, sigma_b2 : float
    X : ndarray of shape (n, p)
        The training samples.
    kernel : Kernel or str
        Which of the DEQ's four kernels the twin has, as in :func:`deqcli.matching.match`. Only one
        can be had: a twin by ``ck`` has another tangent kernel. For ReLU it is 1.5 times the DEQ's,
        and apart from that factor the same to 2 %.
    twin : {"data", "scalars"}
        Whether the twin's kernel is fitted to the DEQ's on the samples, or has its four scalars.
    plain_layers : int, optional
        Of the plain network; as many as the twin has by default.
    seed : int
        Which samples the twin is fitted on.

    Examples
    --------
    >>> nets = trio("relu", 0.2, 0.8, np.eye(3), twin="scalars")
    >>> nets.twin.family, len(nets.plain), nets.network("plain", 8, 4, 3).size
    ('lrelu', 2, 120)
    """
    chosen = activation(act)
    tau0 = root_mean_squared_norm(X)
    with silence_range_warning():
        fitted = match(
            chosen, sigma_a2, sigma_b2, tau0, kernel=kernel, X=X if twin == "data" else None,
            seed=seed,
        )  # fmt: skip
        centred = chosen.centred(sigma_a2, sigma_b2, tau0)
    plain = plain_network(chosen, plain_layers or fitted.layers, tau0)
    return Trio(centred, sigma_a2, sigma_b2, fitted, plain)
