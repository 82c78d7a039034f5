"""What the exact kernels of implicit and of explicit networks have in common."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from deqcli.errors import InputError
from deqcli.kernels.matrix import Combination, KernelMatrix
from deqcli.vocabulary import Kernel

Array = NDArray[np.float64]


class ExactKernels:
    r"""Exact infinite-width kernels of a network; each matrix is computed when first asked for.

    Attributes
    ----------
    ck : ndarray of shape (n, n)
        The conjugate kernel; :math:`\Sigma^{(L)}` of an explicit network.
    ntk : ndarray of shape (n, n)
        The tangent kernel; :math:`\Theta^{(L)}` of an explicit network.

    Notes
    -----
    Symmetric to the last bit. Peak memory is the matrices asked for plus a few tiles of 0.5 MB.
    """

    def __init__(self, matrix: KernelMatrix, combinations: Mapping[Kernel, Combination]) -> None:
        self._matrix = matrix
        self._combinations = combinations
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
    def ntk(self) -> Array:
        """The tangent kernel of the network, all weights trained."""
        return self.compute(Kernel.NTK)[0]

    def compute(self, *kernels: Kernel | str) -> list[Array]:
        """Return several matrices, computing the missing ones in one pass."""
        members = [self._member(kernel) for kernel in kernels]
        missing = [kernel for kernel in dict.fromkeys(members) if kernel not in self._computed]
        if missing:
            matrices = self._matrix.dense(*(self._combinations[kernel] for kernel in missing))
            self._computed.update(zip(missing, matrices, strict=True))
        return [self._computed[kernel] for kernel in members]

    def blocks(self, kernel: Kernel | str, rows: int = 512) -> Iterator[tuple[slice, Array]]:
        """Yield ``(rows, block)`` of one matrix, without ever holding more than a block."""
        if rows < 1:
            raise InputError(f"`rows` is {rows}; give at least 1.")
        yield from self._matrix.blocks(self._combinations[self._member(kernel)], rows)

    def _member(self, kernel: str) -> Kernel:
        read = Kernel.of if Kernel.PREACTIVATION_CK in self._combinations else Kernel.of_explicit
        return read(kernel, "kernel")
