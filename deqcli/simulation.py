r"""Simulated kernels in one call: the mean over random networks, and how noisy that mean is."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from deqcli.activations import ActivationLike, activation
from deqcli.checks import Range, number
from deqcli.display import Displayed
from deqcli.equivalents import operator_norm
from deqcli.errors import ConvergenceError
from deqcli.gaussian import check_existence
from deqcli.kernels.matrix import check_samples
from deqcli.monte_carlo import Ensemble, accumulate
from deqcli.runs.seeds import stream
from deqcli.vocabulary import Kernel, Weights

Array = NDArray[np.float64]


@dataclass(frozen=True, repr=False)
class Simulation(Displayed):
    r"""A kernel averaged over random networks; ``np.asarray`` gives the average.

    Attributes
    ----------
    mean : ndarray of shape (n, n)
    standard_error : ndarray of shape (n, n)
        Of each entry of the mean.
    noise : float
        How far in operator norm the mean is from that of infinitely many such networks, estimated
        from the networks themselves.
    kernel : Kernel
    width : int
    realizations, failed : int
        Networks that the mean holds, and those left out because no equilibrium was found.
    """

    mean: Array
    standard_error: Array
    noise: float
    kernel: Kernel
    width: int
    realizations: int
    failed: int = 0

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """Return the mean for ``np.asarray``."""
        return self.mean.astype(dtype or np.float64, copy=bool(copy))

    def _facts(self) -> dict[str, object]:
        n = len(self.mean)
        networks = f"{self.realizations} of width {self.width}"
        return {
            "kernel": f"{self.kernel}, {n} x {n}",
            "networks": networks + (f"; {self.failed} failed" if self.failed else ""),
            "noise": f"{self.noise:.3g} in operator norm, "
            f"{np.median(self.standard_error):.3g} in a typical entry",
        }


def simulate(
    X: ArrayLike,
    act: ActivationLike,
    sigma_a2: float,
    sigma_b2: float | None = None,
    *,
    kernel: Kernel | str = Kernel.CK,
    width: int = 1000,
    realizations: int = 100,
    weights: Weights | str = Weights.GAUSSIAN,
    seed: int = 0,
) -> Simulation:
    r"""Average a kernel of random DEQs of finite width over many draws of their weights.

    With :math:`M_1, \dots, M_R` the kernels of R networks and :math:`\bar M` their mean, the error
    of the mean has the covariance of :math:`R^{-1}\sum_k \varepsilon_k(M_k - \bar M)` with signs
    :math:`\varepsilon_k = \pm1`; ``noise`` is the operator norm of that matrix for alternating
    signs, and ``standard_error`` the usual :math:`s/\sqrt R` of each entry. The mean itself differs
    from the exact kernel of infinite width by :math:`O(1/m)` besides.

    Parameters
    ----------
    X : array of shape (n, p)
        Samples in rows.
    act : Activation, str or callable
        Used as it is, shift included.
    sigma_a2, sigma_b2 : float
        Variances of the hidden and input weights; ``sigma_b2`` is ``1 - sigma_a2`` by default.
    kernel : Kernel or str
        One of the four.
    width, realizations : int
        Neurons of each network, and how many networks; at least 2.
    weights : Weights or str
        ``gaussian``, ``rademacher`` or ``student-t``.
    seed : int

    Examples
    --------
    >>> total = simulate(np.eye(3), "tanh", 0.1, width=200, realizations=20)
    >>> total
    Simulation
      kernel    ck, 3 x 3
      networks  20 of width 200
      noise     0.0... in operator norm, 0.00... in a typical entry
    >>> from deqcli.kernels.exact import implicit_kernels
    >>> exact = implicit_kernels(np.eye(3), "tanh", 0.1).ck
    >>> bool(np.all(abs(total.mean - exact) < 5 * total.standard_error + 1 / 200))
    True
    """
    samples, act = check_samples(X, "X"), activation(act)
    realizations = number(realizations, "realizations", int, Range(least=2))
    chosen = Kernel.of(kernel, "kernel")
    ensemble = Ensemble(
        act,
        *check_existence(act, sigma_a2, sigma_b2),
        width=width,
        kernels=(chosen,),
        weights=Weights.of(weights, "weights"),
    )
    n = len(samples)
    total, squares, signed = np.zeros((3, n, n))
    origin, used = np.zeros((n, n)), 0
    source = partial(stream, seed, "simulate")
    for index in range(realizations):
        one = accumulate(samples, ensemble, [index], source)
        if not one.converged:
            continue
        matrix = one.mean(chosen)
        total += matrix
        signed += matrix if used % 2 == 0 else -matrix
        # Around the first network: what is squared is then small, and little cancels.
        origin = origin if used else matrix
        squares += (matrix - origin) ** 2
        used += 1
    if used < 2:
        raise ConvergenceError(
            f"{used} of {realizations} networks have an equilibrium; lower `sigma_a2` or raise "
            "`width`."
        )
    mean = total / used
    signed -= (used % 2) * mean
    variance = np.maximum(squares / used - (mean - origin) ** 2, 0.0) * used / (used - 1)
    return Simulation(
        mean=mean,
        standard_error=np.sqrt(variance / used),
        noise=operator_norm(signed) / used,
        kernel=chosen,
        width=ensemble.width,
        realizations=used,
        failed=realizations - used,
    )
