"""Networks whose readout, or whose tangent kernel, is trained by least squares; and predictions.

A DEQ, its twin and a plain network behind one interface: outputs on new samples of a network drawn
at random, or of its limit of infinite width, and what theory says of them before that.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deqcli.activations import Activation, activation
from deqcli.classify import feature_outputs, kernel_outputs
from deqcli.data.dataset import Dataset
from deqcli.errors import ConvergenceError, InputError, silence_range_warning
from deqcli.finite.explicit import sum_explicit
from deqcli.finite.features import deq_features, explicit_features
from deqcli.kernels.exact import explicit_kernels, implicit_kernels
from deqcli.matching import match, plain_network
from deqcli.monte_carlo import Ensemble, accumulate
from deqcli.prediction.error import predict_on
from deqcli.prediction.regression import PredictedError, targets_of
from deqcli.scalars import ExplicitScalars, ImplicitScalars, explicit_scalars, implicit_scalars
from deqcli.spectral.covariances import Covariances
from deqcli.vocabulary import Kernel, Net

Array = NDArray[Any]


@dataclass(frozen=True)
class Readout:
    """A network and the kernel by which it is trained.

    Attributes
    ----------
    scalars : ImplicitScalars or ExplicitScalars
        With the activations as they are used.
    kernel : Kernel
        ``ck``: the readout alone is trained; ``ntk``: all weights, as in the lazy regime.
    """

    scalars: ImplicitScalars | ExplicitScalars
    kernel: Kernel

    @property
    def acts(self) -> tuple[Activation, ...]:
        """The activations, layer by layer."""
        if isinstance(self.scalars, ExplicitScalars):
            return self.scalars.acts
        assert self.scalars.act is not None
        return (self.scalars.act,)

    def outputs(
        self,
        data: Dataset,
        test: Dataset,
        ridge: float,
        width: int | None,
        rng: np.random.Generator,
        bias: bool = False,
    ) -> Array:
        """Train one network of a width, or its limit, and return its outputs on new samples.

        Memory, besides that of :mod:`deqcli.finite`: the features in double precision, or kernels
        of the training samples with all.
        """
        n, X = data.n_samples, np.concatenate([data.X, test.X])
        targets = targets_of(data.n_classes)[data.y]
        if width is not None and self.kernel is Kernel.CK:
            features = self._features(X, width, rng).astype(np.float64)
            return feature_outputs(features[:, :n], targets, features[:, n:], ridge, bias)
        kernel = self._limit(X, data.X) if width is None else self._tangents(X, width, rng)[:, :n]
        return kernel_outputs(kernel[:n].copy(), targets, kernel[n:], ridge, bias)

    def _features(self, X: Array, width: int, rng: np.random.Generator) -> Array:
        s = self.scalars
        if isinstance(s, ImplicitScalars):
            return deq_features(X, self.acts[0], s.sigma_a2, s.sigma_b2, width, rng)
        return explicit_features(X, self.acts, width, rng)

    def _tangents(self, X: Array, width: int, rng: np.random.Generator) -> Array:
        s = self.scalars
        if isinstance(s, ExplicitScalars):
            return sum_explicit(X, self.acts, width, [0], lambda _: rng, Kernel.NTK)
        ensemble = Ensemble(self.acts[0], s.sigma_a2, s.sigma_b2, width, kernels=(Kernel.NTK,))
        total = accumulate(X, ensemble, [0], lambda _: rng)
        if not total.converged:
            raise ConvergenceError(
                f"a network of width {width} has no equilibrium; lower `sigma_a2` or raise the "
                "width."
            )
        return total.sums[Kernel.NTK]

    def _limit(self, X: Array, Y: Array) -> Array:
        s = self.scalars
        if isinstance(s, ExplicitScalars):
            return explicit_kernels(X, self.acts, Y).compute(self.kernel)[0]
        with silence_range_warning():
            kernels = implicit_kernels(X, self.acts[0], s.sigma_a2, s.sigma_b2, Y)
        return kernels.compute(self.kernel)[0]

    def predict(
        self,
        covariances: Covariances,
        counts: NDArray[np.int64],
        ridge: float,
        width: int | None,
        bias: bool = False,
        independent: bool = False,
        real: bool = False,
    ) -> PredictedError:
        """Predict the outputs for the moments of classes.

        Parameters
        ----------
        independent : bool
            As if the features were independent, by the four scalars alone.
        real : bool
            Whether the moments are those of real data.
        """
        scalars = self.scalars.coefficients(self.kernel) if independent else self.scalars
        return predict_on(
            covariances, counts, scalars, self.kernel, ridge, width, bias=bias, real=real
        )


def predicted_errors(
    covariances: Covariances,
    counts: NDArray[np.int64],
    deq: ImplicitScalars,
    explicit: Mapping[Net, tuple[Activation, ...]],
    kernel: Kernel,
    ridge: float,
    real: bool = False,
) -> dict[str, float]:
    """Predict the total test errors of infinitely wide networks side by side, by their names.

    Parameters
    ----------
    covariances : Covariances
        With the means, the moments of classes.
    counts : ndarray of shape (K,)
    deq : ImplicitScalars
    explicit : mapping of Net to activations
        Of the other networks, layer by layer.
    kernel : Kernel
        Of the DEQ; the others have the one that is set beside it.
    ridge : float
        In units of each kernel's mean diagonal.
    real : bool
        Whether the moments are those of real data.

    Examples
    --------
    >>> from deqcli.data.mixture import GaussianMixture
    >>> from deqcli.spectral.from_moments import covariances_of
    >>> mixture = GaussianMixture.papers(100, mean_norm=2.0)
    >>> moments = covariances_of(mixture.means, mixture.covariances)
    >>> deq = implicit_scalars("relu", 0.2, tau0=1.18)
    >>> plain = {Net.PLAIN: plain_network("relu", 2, 1.18)}
    >>> counts = np.array([40, 40])
    >>> found = predicted_errors(moments, counts, deq, plain, Kernel.CK, 0.1)
    >>> {net: round(error, 3) for net, error in found.items()}
    {'deq': 0.063, 'plain': 0.033}
    """
    scalars: dict[Net, ImplicitScalars | ExplicitScalars] = {Net.DEQ: deq}
    for net, acts in explicit.items():
        scalars[net] = replace(explicit_scalars(acts, deq.tau0), acts=acts)
    kernels = {net: kernel if net == Net.DEQ else kernel.explicit for net in scalars}
    return {
        net.value: predict_on(covariances, counts, s, kernels[net], ridge, None, real=real).total
        for net, s in scalars.items()
    }


def readouts(
    act: str,
    sigma_a2: float,
    sigma_b2: float,
    tau0: float,
    kernel: Kernel,
    nets: Collection[Net],
    *,
    X: Array | None = None,
    seed: int = 0,
) -> dict[Net, Readout]:
    r"""Return the networks to set side by side, by name.

    Parameters
    ----------
    act, sigma_a2, sigma_b2
        The DEQ.
    tau0 : float
        Root of the data's mean variance, at which activations are centred.
    kernel : Kernel
        ``ck`` or ``ntk``; the twin has the DEQ's.
    nets : collection of Net
    X : ndarray of shape (n, p), optional
        Samples that the twin is fitted to; else it has the DEQ's four scalars.
    seed : int
        Which of them.

    Examples
    --------
    >>> found = readouts("relu", 0.2, 0.8, 1.0, Kernel.CK, tuple(Net))
    >>> [len(found[net].acts) for net in Net]
    [1, 2, 2]
    """
    chosen = activation(act)
    found: dict[Net, ImplicitScalars | ExplicitScalars] = {}
    with silence_range_warning():
        if Net.DEQ in nets:
            found[Net.DEQ] = implicit_scalars(chosen, sigma_a2, sigma_b2, tau0)
        if set(nets) <= {Net.DEQ}:
            return {net: Readout(scalars, kernel) for net, scalars in found.items()}
        twin = match(chosen, sigma_a2, sigma_b2, tau0, kernel=kernel, X=X, seed=seed)
    if Net.MATCHED in nets and not twin.feasible:
        raise InputError(
            f"no explicit network matches ({twin.reason.rstrip('.')}); leave matched out of "
            "`nets`, take `twin` data, or choose another `act` or `sigma_a2`."
        )
    explicit = {Net.MATCHED: twin.acts, Net.PLAIN: plain_network(chosen, twin.layers, tau0)}
    for net, acts in explicit.items():
        # What was fitted is not centred, and stays so.
        found[net] = replace(explicit_scalars(acts, tau0), acts=acts)
    return {net: Readout(found[net], kernel) for net in Net if net in nets}
