"""The two exact kernels of an explicit network."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from deqcli.activations import Activation, activation
from deqcli.errors import InputError
from deqcli.kernels.matrix import CK, NTK, Combination, KernelMatrix, check_samples
from deqcli.kernels.pairs import ExplicitPairs

Array = NDArray[np.float64]
_WANTED = {"ck": Combination(CK), "ntk": Combination(NTK)}


class ExplicitKernels:
    r"""Exact infinite-width kernels of an explicit network; each is made when first asked for.

    Attributes
    ----------
    ck : ndarray of shape (n, n)
        :math:`\Sigma^{(L)}`.
    ntk : ndarray of shape (n, n)
        :math:`\Theta^{(L)}`.
    """

    def __init__(self, matrix: KernelMatrix) -> None:
        self._matrix = matrix
        self._made: dict[str, Array] = {}

    def __repr__(self) -> str:
        rows, columns = self._matrix.shape
        return f"<ExplicitKernels {rows} x {columns}, made: {', '.join(self._made) or 'none yet'}>"

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of each matrix."""
        return self._matrix.shape

    @property
    def ck(self) -> Array:
        """The conjugate kernel of the last layer."""
        return self.compute("ck")[0]

    @property
    def ntk(self) -> Array:
        """The tangent kernel of the last layer."""
        return self.compute("ntk")[0]

    def compute(self, *names: str) -> list[Array]:
        """Return several matrices, making the missing ones in one pass."""
        missing = [name for name in dict.fromkeys(names) if name not in self._made]
        if missing:
            matrices = self._matrix.dense(*(_combination(name) for name in missing))
            self._made.update(zip(missing, matrices, strict=True))
        return [self._made[name] for name in names]

    def blocks(self, name: str, rows: int = 512) -> Iterator[tuple[slice, Array]]:
        """Yield ``(rows, block)`` of one matrix, without ever holding more than a block."""
        if rows < 1:
            raise InputError(f"rows must be at least 1, not {rows}.")
        yield from self._matrix.blocks(_combination(name), rows)


def _combination(name: str) -> Combination:
    if name not in _WANTED:
        raise InputError(f"unknown kernel {name!r}: an explicit network has ck and ntk.")
    return _WANTED[name]


def explicit_kernels(
    X: ArrayLike, acts: Sequence[Activation | str], Y: ArrayLike | None = None
) -> ExplicitKernels:
    r"""Return the exact kernels of :math:`x^{(l)} = \sigma_l(W_l x^{(l-1)})/\sqrt{m_l}`.

    .. math:: \Sigma^{(l)}_{ij} = E[\sigma_l(u)\sigma_l(v)], \qquad
       \Theta^{(l)} = \Sigma^{(l)} + \Theta^{(l-1)} \circ E[\sigma_l'(u)\sigma_l'(v)],

    from :math:`\Sigma^{(0)} = \Theta^{(0)} = XX^\top` (ICLR Eqs. 19, 20; theory.md §5).

    Parameters
    ----------
    X : array of shape (n, p)
        Samples in rows.
    acts : sequence of Activation or str
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
    if isinstance(acts, str | Activation):
        acts = [acts]
    layers = tuple(activation(act) for act in acts)
    if not layers:
        raise InputError("an explicit network needs at least one activation.")
    samples = check_samples(X, "X", least=2 if Y is None else 1)
    others = None if Y is None else check_samples(Y, "Y")
    return ExplicitKernels(KernelMatrix(ExplicitPairs(layers), samples, others))
