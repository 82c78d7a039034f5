"""The exact infinite-width kernels of implicit and of explicit networks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from deqcli.activations import ActivationLike, activation, activations
from deqcli.checks import POSITIVE, number
from deqcli.gaussian import check_existence
from deqcli.kernels.matrix import KernelMatrix, check_samples
from deqcli.kernels.pairs import ExplicitPairs, ImplicitPairs, PairKernel
from deqcli.kernels.tiles import Combination
from deqcli.vocabulary import Kernel

if TYPE_CHECKING:
    import pandas as pd

Array = NDArray[np.float64]


class ExactKernels:
    r"""Exact infinite-width kernels of a network; each matrix is computed when first asked for.

    An explicit network has the first and the third.

    Attributes
    ----------
    ck : ndarray of shape (n, n)
        :math:`G = E[\phi(u)\phi(v)]`, the features' kernel (ICML); :math:`\Sigma^{(L)}`.
    preactivation_ck : ndarray of shape (n, n)
        :math:`\Lambda = \sigma_a^2 G + \sigma_b^2 XX^\top`; HLD and ICLR call this one G*.
    ntk : ndarray of shape (n, n)
        :math:`\Theta`, the tangent kernel of :math:`f = a^\top z^*` with a, A, B all trained;
        :math:`\Theta^{(L)}`.
    preactivation_ntk : ndarray of shape (n, n)
        :math:`K = \Lambda/(1 - \dot G) = \sigma_a^2\Theta + \sigma_b^2 XX^\top` (HLD, ICLR).

    Notes
    -----
    Symmetric to the last bit. Peak memory is the matrices asked for plus a few tiles of 0.5 MB.
    ICML prints :math:`G/(1 - \dot G)` for the tangent kernel, which is neither of the two
    (theory.md §7).
    """

    def __init__(
        self,
        pairs: PairKernel,
        X: ArrayLike,
        Y: ArrayLike | None,
        combinations: Mapping[Kernel, Combination],
    ) -> None:
        samples = check_samples(X, "X", least=2 if Y is None else 1)
        others = None if Y is None else check_samples(Y, "Y")
        self._matrix = KernelMatrix(pairs, samples, others)
        self._combinations = combinations
        self._names = _row_names(X), _row_names(X if Y is None else Y)
        self._computed: dict[Kernel, Array] = {}

    def __repr__(self) -> str:
        rows, columns = self.shape
        names = ", ".join(self._computed) or "none yet"
        return f"<{type(self).__name__} {rows} x {columns}, computed: {names}>"

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of each matrix."""
        return self._matrix.shape

    @property
    def ck(self) -> Array:
        """The conjugate kernel of the features."""
        return self.compute(Kernel.CK)[0]

    @property
    def preactivation_ck(self) -> Array:
        r"""The conjugate kernel of the pre-activations, :math:`\Lambda`."""
        return self.compute(Kernel.PREACTIVATION_CK)[0]

    @property
    def ntk(self) -> Array:
        """The tangent kernel of the network, all weights trained."""
        return self.compute(Kernel.NTK)[0]

    @property
    def preactivation_ntk(self) -> Array:
        """The tangent kernel of the pre-activations, K."""
        return self.compute(Kernel.PREACTIVATION_NTK)[0]

    def compute(self, *kernels: Kernel | str) -> list[Array]:
        """Return several matrices, computing the missing ones in one pass."""
        members = [self._member(kernel) for kernel in kernels]
        missing = [kernel for kernel in dict.fromkeys(members) if kernel not in self._computed]
        if missing:
            combinations = [self._combinations[kernel] for kernel in missing]
            matrices = self._matrix.rows(0, self.shape[0], combinations)
            self._computed.update(zip(missing, matrices, strict=True))
        return [self._computed[kernel] for kernel in members]

    def diagonal(self, kernel: Kernel | str = Kernel.CK) -> Array:
        """Return the kernel of each row of ``X`` with itself, of shape (n,), and nothing else."""
        c = self._combinations[self._member(kernel)]
        values = self._matrix.diagonals.of(c.kernel)
        return np.asarray(c.scale * values + c.gram * self._matrix.x_norm**2)

    def frame(self, kernel: Kernel | str = Kernel.CK) -> pd.DataFrame:
        """Return a matrix as a DataFrame; samples that came in one keep their names."""
        import pandas as pd

        rows, columns = self._names
        (matrix,) = self.compute(kernel)
        return pd.DataFrame(matrix, index=rows, columns=columns, copy=False)

    def blocks(self, kernel: Kernel | str, rows: int = 512) -> Iterator[tuple[slice, Array]]:
        """Yield ``(rows, block)`` of one matrix, without ever holding more than a block."""
        rows = number(rows, "rows", int, POSITIVE)
        combination = self._combinations[self._member(kernel)]
        for start in range(0, self.shape[0], rows):
            stop = min(start + rows, self.shape[0])
            yield slice(start, stop), self._matrix.rows(start, stop, [combination])[0]

    def _member(self, kernel: str) -> Kernel:
        read = Kernel.of if Kernel.PREACTIVATION_CK in self._combinations else Kernel.of_explicit
        return read(kernel, "kernel")


def _row_names(samples: object) -> Any:
    """Return the index of a DataFrame; a list has a method of that name."""
    names = getattr(samples, "index", None)
    return None if callable(names) else names


def implicit_kernels(
    X: ArrayLike,
    act: ActivationLike,
    sigma_a2: float,
    sigma_b2: float | None = None,
    Y: ArrayLike | None = None,
) -> ExactKernels:
    r"""Return the exact kernels of a DEQ on the rows of ``X`` (theory.md §2).

    .. math:: \Lambda = \sigma_a^2 G + \sigma_b^2 XX^\top, \qquad
              G_{ij} = E[\phi(u)\phi(v)],\ (u, v) \sim N(0, \Lambda_{[ij]}).

    Parameters
    ----------
    X : array of shape (n, p)
        Samples in rows (the papers' X is the transpose).
    act : Activation, str or callable
        Used as it is, shift included; centre it first with :meth:`Activation.centred`.
    sigma_a2, sigma_b2 : float
        Variances of the hidden and input weights; ``sigma_b2`` is ``1 - sigma_a2`` by default.
    Y : array of shape (q, p), optional
        A second set: the matrices are then (n, q), as prediction needs them.

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
    act = activation(act)
    pairs = ImplicitPairs(act, *check_existence(act, sigma_a2, sigma_b2))
    combinations = {
        kernel: Combination(kernel.explicit, pairs.sigma_a2, pairs.sigma_b2)
        if kernel.before_activation
        else Combination(kernel)
        for kernel in Kernel
    }
    return ExactKernels(pairs, X, Y, combinations)


def explicit_kernels(
    X: ArrayLike, acts: Sequence[ActivationLike], Y: ArrayLike | None = None
) -> ExactKernels:
    r"""Return the exact kernels of :math:`x^{(l)} = \sigma_l(W_l x^{(l-1)})/\sqrt{m_l}`.

    .. math:: \Sigma^{(l)}_{ij} = E[\sigma_l(u)\sigma_l(v)], \qquad
       \Theta^{(l)} = \Sigma^{(l)} + \Theta^{(l-1)} \circ E[\sigma_l'(u)\sigma_l'(v)],

    from :math:`\Sigma^{(0)} = \Theta^{(0)} = XX^\top` (ICLR Eqs. 19, 20; theory.md §5).

    Parameters
    ----------
    X : array of shape (n, p)
        Samples in rows.
    acts : sequence of Activation, str or callable
        One a layer, any number of layers from one; shifts count.
    Y : array of shape (q, p), optional
        A second set: the matrices are then (n, q).

    Examples
    --------
    >>> e = explicit_kernels(np.eye(3), ["relu", "tanh"])
    >>> e.ck.shape
    (3, 3)
    >>> explicit_kernels(np.eye(2), ["identity"] * 3).ntk[0].round(12)
    array([4., 0.])
    """
    combinations = {kernel: Combination(kernel) for kernel in (Kernel.CK, Kernel.NTK)}
    return ExactKernels(ExplicitPairs(activations(acts, "acts")), X, Y, combinations)
