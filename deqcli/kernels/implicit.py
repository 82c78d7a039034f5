"""The four exact kernels of a deep equilibrium model."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from deqcli.activations import Activation, activation
from deqcli.gaussian import check_existence
from deqcli.kernels.exact import ExactKernels
from deqcli.kernels.matrix import Combination, KernelMatrix, check_samples
from deqcli.kernels.pairs import ImplicitPairs
from deqcli.vocabulary import Kernel

Array = NDArray[np.float64]


class ImplicitKernels(ExactKernels):
    r"""The four exact infinite-width kernels of a DEQ.

    Attributes
    ----------
    ck : ndarray of shape (n, n)
        :math:`G = E[\phi(u)\phi(v)]`, the features' kernel (ICML).
    preactivation_ck : ndarray of shape (n, n)
        :math:`\Lambda = \sigma_a^2 G + \sigma_b^2 XX^\top`; HLD and ICLR call this one G*.
    ntk : ndarray of shape (n, n)
        :math:`\Theta`, the tangent kernel of :math:`f = a^\top z^*` with a, A, B all trained.
    preactivation_ntk : ndarray of shape (n, n)
        :math:`K = \Lambda/(1 - \dot G) = \sigma_a^2\Theta + \sigma_b^2 XX^\top` (HLD, ICLR).

    Notes
    -----
    ICML prints :math:`G/(1 - \dot G)` for the tangent kernel, which is neither of the two
    (theory.md §7).
    """

    def __init__(self, matrix: KernelMatrix, sigma_a2: float, sigma_b2: float) -> None:
        combinations = {
            Kernel.CK: Combination(Kernel.CK),
            Kernel.PREACTIVATION_CK: Combination(Kernel.CK, sigma_a2, sigma_b2),
            Kernel.NTK: Combination(Kernel.NTK),
            Kernel.PREACTIVATION_NTK: Combination(Kernel.NTK, sigma_a2, sigma_b2),
        }
        super().__init__(matrix, combinations)

    @property
    def preactivation_ck(self) -> Array:
        r"""The conjugate kernel of the pre-activations, :math:`\Lambda`."""
        return self.compute(Kernel.PREACTIVATION_CK)[0]

    @property
    def preactivation_ntk(self) -> Array:
        """The tangent kernel of the pre-activations, K."""
        return self.compute(Kernel.PREACTIVATION_NTK)[0]


def implicit_kernels(
    X: ArrayLike,
    act: Activation | str,
    sigma_a2: float,
    sigma_b2: float | None = None,
    Y: ArrayLike | None = None,
) -> ImplicitKernels:
    r"""Return the exact kernels of a DEQ on the rows of ``X`` (theory.md §2).

    .. math:: \Lambda = \sigma_a^2 G + \sigma_b^2 XX^\top, \qquad
              G_{ij} = E[\phi(u)\phi(v)],\ (u, v) \sim N(0, \Lambda_{[ij]}).

    Parameters
    ----------
    X : array of shape (n, p)
        Samples in rows (the papers' X is the transpose).
    act : Activation or str
        Used as it is, shift included; centre it first with :meth:`Activation.centred`.
    sigma_a2, sigma_b2 : float
        Variances of the hidden and input weights; ``sigma_b2`` is ``1 - sigma_a2`` by default.
    Y : array of shape (q, p), optional
        A second set: the matrices are then (n, q), as prediction needs them.

    Returns
    -------
    ImplicitKernels

    Examples
    --------
    >>> X = np.array([[1.0, 0.0], [0.6, 0.8]])
    >>> k = implicit_kernels(X, "identity", sigma_a2=0.2, sigma_b2=0.8)
    >>> k.ck.round(12)                      # sigma_b2 / (1 - sigma_a2) X X^T
    array([[1. , 0.6],
           [0.6, 1. ]])
    >>> implicit_kernels(X, "identity", 0.2, Y=X[:1]).ntk.shape
    (2, 1)
    """
    samples = check_samples(X, "X", least=2 if Y is None else 1)
    others = None if Y is None else check_samples(Y, "Y")
    act = activation(act)
    sigma_b2 = 1 - sigma_a2 if sigma_b2 is None else sigma_b2
    check_existence(act, sigma_a2, sigma_b2)
    pairs = ImplicitPairs(act, float(sigma_a2), float(sigma_b2))
    return ImplicitKernels(KernelMatrix(pairs, samples, others), float(sigma_a2), float(sigma_b2))
