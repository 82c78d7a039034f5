"""The four exact kernels of a deep equilibrium model."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike, NDArray

from deqcli.activations import Activation, activation
from deqcli.errors import InputError
from deqcli.gaussian import check_existence
from deqcli.kernels.matrix import CK, NTK, Combination, KernelMatrix, check_samples
from deqcli.kernels.pairs import ImplicitPairs

Array = NDArray[np.float64]

#: The names of the four matrices, in the order of theory.md §2.
KERNELS = ("ck", "preactivation_ck", "ntk", "preactivation_ntk")


def kernel_name(name: str) -> str:
    """Return the canonical name of a kernel; hyphens may stand for underscores."""
    plain = name.replace("-", "_")
    if plain not in KERNELS:
        raise InputError(f"unknown kernel {name!r}: choose from {', '.join(KERNELS)}.")
    return plain


class ImplicitKernels:
    r"""Exact infinite-width kernels of a DEQ; each matrix is made when first asked for.

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
    Symmetric to the last bit. Peak memory is the matrices asked for plus a few tiles of 0.5 MB.
    ICML prints :math:`G/(1 - \dot G)` for the tangent kernel, which is neither of the two
    (theory.md §7).
    """

    def __init__(self, matrix: KernelMatrix, sigma_a2: float, sigma_b2: float) -> None:
        self._matrix = matrix
        self._wanted = {
            "ck": Combination(CK),
            "preactivation_ck": Combination(CK, sigma_a2, sigma_b2),
            "ntk": Combination(NTK),
            "preactivation_ntk": Combination(NTK, sigma_a2, sigma_b2),
        }
        self._made: dict[str, Array] = {}

    def __repr__(self) -> str:
        rows, columns = self._matrix.shape
        return f"<ImplicitKernels {rows} x {columns}, made: {', '.join(self._made) or 'none yet'}>"

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of each matrix."""
        return self._matrix.shape

    @property
    def ck(self) -> Array:
        """The conjugate kernel of the features, G."""
        return self.compute("ck")[0]

    @property
    def preactivation_ck(self) -> Array:
        r"""The conjugate kernel of the pre-activations, :math:`\Lambda`."""
        return self.compute("preactivation_ck")[0]

    @property
    def ntk(self) -> Array:
        r"""The tangent kernel of the network, :math:`\Theta`."""
        return self.compute("ntk")[0]

    @property
    def preactivation_ntk(self) -> Array:
        """The tangent kernel of the pre-activations, K."""
        return self.compute("preactivation_ntk")[0]

    def compute(self, *names: str) -> list[Array]:
        """Return several matrices, making the missing ones in one pass."""
        plain = [kernel_name(name) for name in names]
        missing = [name for name in dict.fromkeys(plain) if name not in self._made]
        if missing:
            matrices = self._matrix.dense(*(self._wanted[name] for name in missing))
            self._made.update(zip(missing, matrices, strict=True))
        return [self._made[name] for name in plain]

    def blocks(self, name: str, rows: int = 512) -> Iterator[tuple[slice, Array]]:
        """Yield ``(rows, block)`` of one matrix, without ever holding more than a block."""
        if rows < 1:
            raise InputError(f"rows must be at least 1, not {rows}.")
        yield from self._matrix.blocks(self._wanted[kernel_name(name)], rows)


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
