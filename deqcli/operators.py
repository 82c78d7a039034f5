r"""Kernels of whole data sets: an equivalent in factors and the small rest in two bytes an entry.

.. math:: M = \bar M' + R, \qquad R \approx \text{scale} \times \text{int16, tile by tile},

where :math:`\bar M'` is the own-norm equivalent (theory.md §9), which has the exact diagonal. What
rounding does to M is at most, in operator norm, the Frobenius norm of what was rounded off, which
is known. Products then read n² bytes, and Lanczos does the rest.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse.linalg import LinearOperator

from deqcli.activations import ActivationLike, activation
from deqcli.checks import SCALE, Range, number, one_line, shown
from deqcli.equivalents import Equivalent, operator_norm
from deqcli.errors import InputError
from deqcli.gaussian import check_existence
from deqcli.kernels.expansion import Expansion
from deqcli.kernels.matrix import KernelMatrix, check_samples
from deqcli.kernels.pairs import ImplicitPairs
from deqcli.kernels.threads import in_threads
from deqcli.kernels.tiles import SCRATCH, SIDE, Combination
from deqcli.lanczos import leading_pairs
from deqcli.own_norms import own_norm_parts
from deqcli.statistics import check_labels
from deqcli.vocabulary import Kernel

Array = NDArray[np.float64]
Codes = NDArray[np.int16]

_LARGEST_CODE = 32767


@dataclass(frozen=True)
class Panel:
    """Some rows of the rest, from the diagonal on.

    Attributes
    ----------
    start : int
        The first row.
    codes : ndarray of shape (n - start, rows), int16
        Transposed. The first tile is square and symmetric.
    scales : ndarray of shape (tiles,)
        By which the codes of each tile of :data:`SIDE` columns are multiplied.
    rounding2 : float
        Squared Frobenius norm of what was rounded off, the mirrored entries included.
    """

    start: int
    codes: Codes
    scales: Array
    rounding2: float

    def __sizeof__(self) -> int:
        """Return its bytes, by which Dask decides what not to move."""
        return self.codes.nbytes + self.scales.nbytes

    def add_product(self, block: Array, out: Array) -> None:
        """Add the product of this panel and of its mirror image with ``block``."""
        rows = slice(self.start, self.start + self.codes.shape[1])
        buffer = np.empty((SIDE, self.codes.shape[1]))
        for k, scale in enumerate(self.scales):
            part = self.codes[k * SIDE : (k + 1) * SIDE]
            tile = buffer[: len(part)]
            np.multiply(part, scale, out=tile)
            columns = slice(self.start + k * SIDE, self.start + k * SIDE + len(part))
            out[columns] += tile @ block[rows]
            if k:
                out[rows] += tile.T @ block[columns]

    def add_columns(self, chosen: NDArray[np.intp], out: Array) -> None:
        """Add what this panel and its mirror image have of some columns, which ascend."""
        scales = np.repeat(self.scales, SIDE)[: len(self.codes)]
        stop = self.start + self.codes.shape[1]
        first, last = np.searchsorted(chosen, [self.start, stop])
        out[self.start :, first:last] += (
            self.codes[:, chosen[first:last] - self.start] * scales[:, None]
        )
        far = chosen[last:] - self.start
        out[self.start : stop, last:] += (self.codes[far] * scales[far, None]).T


def products_of(panels: tuple[Panel, ...], block: Array) -> Array:
    """Return what some panels add to the product of the rest with a block."""
    out = np.zeros_like(block)
    for panel in panels:
        panel.add_product(block, out)
    return out


def columns_of(n: int, panels: tuple[Panel, ...], chosen: NDArray[np.intp]) -> Array:
    """Return what some panels add to columns of the rest, which ascend."""
    out = np.zeros((n, len(chosen)))
    for panel in panels:
        panel.add_columns(chosen, out)
    return out


class KernelOperator(LinearOperator):  # type: ignore[misc]
    r"""A kernel matrix as a ``LinearOperator`` of about n² bytes.

    Attributes
    ----------
    equivalent : Equivalent
        :math:`\bar M'`.
    panels : tuple of Panel
        The rest.
    rounding : float
        The operator differs from the kernel by at most this, in Frobenius norm.
    """

    def __init__(self, equivalent: Equivalent, panels: tuple[Panel, ...]) -> None:
        self.equivalent, self.panels = equivalent, panels
        self.rounding = float(np.sqrt(sum(panel.rounding2 for panel in panels)))
        super().__init__(dtype=np.float64, shape=equivalent.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of the rest."""
        return sum(panel.__sizeof__() for panel in self.panels)

    @property
    def rest(self) -> LinearOperator:
        """The kernel minus its equivalent."""
        return LinearOperator(
            self.shape, matvec=self._rest, matmat=self._rest, rmatvec=self._rest, dtype=np.float64
        )

    @functools.cached_property
    def diagonal(self) -> Array:
        """The kernel of each sample with itself, of shape (n,)."""
        E = self.equivalent
        F = E.linear
        weights = F if isinstance(F, float) else np.einsum("ij,ij->i", F, F)
        low_rank = np.einsum("ij,ij->i", E.factor @ E.core, E.factor)
        return np.asarray(weights * np.einsum("ij,ij->i", E.X, E.X) + low_rank + E.ridge)

    def columns(self, chosen: NDArray[np.intp]) -> Array:
        """Return some columns, of shape (n, m); ``chosen`` ascends."""
        E = self.equivalent
        out = E.X @ E.X[chosen].T
        out *= E.linear if isinstance(E.linear, float) else E.linear @ E.linear[chosen].T
        out += (E.factor @ E.core) @ E.factor[chosen].T
        out[chosen, np.arange(len(chosen))] = self.diagonal[chosen]
        out += self._over_panels(functools.partial(columns_of, self.shape[0]), chosen)
        return out

    def distance(self) -> float:
        """Return the operator norm of the rest; rounding changes it by :attr:`rounding` at most."""
        return operator_norm(self.rest)

    def leading(self, count: int) -> tuple[Array, Array]:
        """Return the largest eigenvalues, descending, and their eigenvectors in columns."""
        count = number(count, "count", int, Range(least=1, most=self.shape[0] - 1))
        return leading_pairs(self, count)

    def _rest(self, block: Array) -> Array:
        columns = np.asarray(block, dtype=np.float64).reshape(self.shape[0], -1)
        return self._over_panels(products_of, columns).reshape(np.shape(block))

    def _over_panels(
        self, function: Callable[[tuple[Panel, ...], Array], Array], argument: NDArray[Any]
    ) -> Array:
        """Return the sum of what a function makes of panels, wherever they are."""
        return function(self.panels, argument)

    def _matmat(self, block: Array) -> Array:
        return np.asarray(self.equivalent @ block) + self._rest(block)

    def _matvec(self, vector: Array) -> Array:
        return self._matmat(vector.reshape(-1, 1)).ravel()

    def _adjoint(self) -> KernelOperator:
        return self


def operator_bytes(n: int, p: int, n_classes: int = 1, components: int = 0) -> int:
    """Return about how many bytes :func:`kernel_operator` takes for n samples of dimension p.

    Examples
    --------
    >>> round(operator_bytes(60_000, 784, 10) / 2**30, 1)
    4.3
    """
    shares = n_classes + components
    factors = 2 * (1 + shares + shares * (shares + 1) // 2 + n_classes)
    # The codes; the samples and their directions; the equivalent's factors; a series' factors.
    return n * (n + SIDE) + 8 * n * (2 * p + factors + 1 + shares + 400)


def kernel_operator(
    X: ArrayLike,
    act: ActivationLike,
    sigma_a2: float,
    sigma_b2: float | None = None,
    *,
    kernel: Kernel | str = Kernel.CK,
    y: ArrayLike | None = None,
    components: int = 0,
    budget: float = 8 * 2**30,
    progress: Callable[[int, int], object] | None = None,
) -> KernelOperator:
    r"""Return an exact kernel of a DEQ as an operator, for more samples than n² numbers allow.

    One pass over tiles of :math:`M - \bar M'`, the rest being kept as int16 with a scale a tile.

    Parameters
    ----------
    X : array of shape (n, p)
    act : Activation, str or callable
        Used as it is, as by :func:`deqcli.implicit_kernels`.
    sigma_a2, sigma_b2 : float
        Variances; ``sigma_b2`` is ``1 - sigma_a2`` by default.
    kernel : Kernel or str
        One of the four.
    y : array of shape (n,), optional
        Labels: their means make the rest smaller.
    components : int
        Principal components that the equivalent keeps besides, for the same purpose.
    budget : float
        Bytes it may take.
    progress : callable, optional
        Called with the entries done and all there are, panel after panel.

    Examples
    --------
    >>> from deqcli import implicit_kernels
    >>> X = np.random.default_rng(0).standard_normal((120, 60)) / np.sqrt(60)
    >>> operator = kernel_operator(X, "relu", 0.2)
    >>> kernel = implicit_kernels(X, "relu", 0.2).ck
    >>> bool(np.linalg.norm(operator @ np.eye(120) - kernel) <= 1.01 * operator.rounding)
    True
    >>> operator.rounding < 1e-3 * operator.distance()
    True
    """
    samples = check_samples(X, "X", least=2)
    components = number(components, "components", int, Range(least=0))
    if progress is not None and not callable(progress):
        raise InputError(f"`progress` is {shown(progress)}; give a function of two numbers.")
    n, p = samples.shape
    labels = check_labels(np.zeros(n, int) if y is None else y, n)
    counts = np.bincount(labels)
    needed = operator_bytes(n, p, counts.size, components)
    allowed = number(budget, "budget", float, SCALE)
    if needed > allowed:
        raise InputError(
            f"`budget` is {allowed / 2**30:.3g} GiB, but an operator of {n} samples takes about "
            f"{needed / 2**30:.3g} GiB; raise it, or give fewer samples."
        )
    rest = kernel_rest(samples, act, sigma_a2, sigma_b2, kernel, labels, components)
    return operator_of(rest, progress)


def operator_of(rest: Rest, progress: Callable[[int, int], object] | None = None) -> KernelOperator:
    """Return a kernel as an operator, by one pass over the panels of what is left of it."""
    n, panels = rest.equivalent.shape[0], []
    for start in rest.starts:
        panels.append(rest.panel(start))
        if progress is not None:
            rows = start + panels[-1].codes.shape[1]
            try:
                progress(rows * (2 * n - rows + 1) // 2, n * (n + 1) // 2)
            except TypeError as error:
                raise InputError(
                    f"`progress` is {shown(progress)}, which does not take two numbers "
                    f"({one_line(error)}); give a function that does."
                ) from error
    return KernelOperator(rest.equivalent, tuple(panels))


def kernel_rest(
    X: Array,
    act: ActivationLike,
    sigma_a2: float,
    sigma_b2: float | None,
    kernel: Kernel | str,
    labels: NDArray[np.int64],
    components: int = 0,
    equivalent: Equivalent | None = None,
) -> Rest:
    """Return what is left of a kernel, to be made panel by panel.

    Parameters
    ----------
    equivalent : Equivalent, optional
        The own-norm one that is taken off, with the exact diagonal; by default it is made here.
    """
    act = activation(act)
    pairs = ImplicitPairs(act, *check_existence(act, sigma_a2, sigma_b2))
    member = Kernel.of(kernel, "kernel")
    combination = Combination(member)
    if member.before_activation:
        combination = Combination(member.explicit, pairs.sigma_a2, pairs.sigma_b2)
    if equivalent is None:
        counts = np.bincount(labels)
        centres = (np.eye(counts.size)[labels] / counts).T @ X
        parts = own_norm_parts(X, labels, centres, Expansion(pairs, combination), components)
        equivalent = Equivalent(X, parts.weights, parts.factor, parts.core, parts.ridge)
    return Rest(KernelMatrix(pairs, X), combination, equivalent)


class Rest:
    """A kernel minus its equivalent, panel by panel.

    Panels do not depend on each other: a pass that was interrupted goes on where it stopped.

    Parameters
    ----------
    matrix : KernelMatrix
    combination : Combination
        The kernel of it.
    equivalent : Equivalent
        With the kernel's diagonal.
    """

    def __init__(
        self, matrix: KernelMatrix, combination: Combination, equivalent: Equivalent
    ) -> None:
        self.equivalent = equivalent
        self._matrix, self._combination = matrix, combination
        self._linear = equivalent.linear
        self._left = equivalent.factor
        self._right = equivalent.factor @ equivalent.core
        self._local = threading.local()

    @property
    def starts(self) -> range:
        """The first row of each panel."""
        return range(0, self._matrix.shape[0], SIDE)

    def panel(self, start: int) -> Panel:
        """Return the panel that begins with a row, one of :attr:`starts`."""
        n = self._matrix.shape[0]
        rows = slice(start, min(start + SIDE, n))
        codes = np.empty((n - start, rows.stop - rows.start), dtype=np.int16)
        scales = np.empty(-(-len(codes) // SIDE))
        rounded = np.empty_like(scales)
        fill = functools.partial(self._fill, codes, scales, rounded)
        columns = [slice(c, min(c + SIDE, n)) for c in range(start, n, SIDE)]
        places = [(rows, c) for c in columns]
        if self._matrix.tiles.parts:
            in_threads(fill, places)
        else:
            for place in places:
                fill(place)
        return Panel(start, codes, scales, float(rounded.sum()))

    def _fill(
        self, codes: Codes, scales: Array, rounded: Array, place: tuple[slice, slice]
    ) -> None:
        """Make one tile of a panel, and the squared norm of what is rounded off."""
        rows, columns = place
        if not hasattr(self._local, "buffers"):
            # Zeros, as the diagonal is left open.
            self._local.buffers = np.zeros((SCRATCH + 1, SIDE * SIDE))
        buffers = self._local.buffers
        (rest,) = self._matrix.tiles.fill(rows, columns, [self._combination], False, buffers)
        # The first buffer still has the cosines.
        inner, spare = (buffer[: rest.size].reshape(rest.shape) for buffer in buffers[:2])
        inner *= self._matrix.x_norm[rows]
        inner *= self._matrix.x_norm[columns, None]
        if isinstance(self._linear, float):
            inner *= self._linear
        else:
            inner *= np.matmul(self._linear[columns], self._linear[rows].T, out=spare)
        rest -= inner
        rest -= np.matmul(self._left[columns], self._right[rows].T, out=spare)
        if rows == columns:
            # The equivalent's diagonal is the exact one.
            lower = np.tril(rest, -1)
            np.add(lower, lower.T, out=rest)
        k = (columns.start - rows.start) // SIDE
        scales[k] = np.abs(rest).max() / _LARGEST_CODE
        if scales[k] > 0:
            rest /= scales[k]
        np.rint(rest, out=spare)
        codes[k * SIDE : k * SIDE + len(rest)] = spare
        rest -= spare
        rounded[k] = scales[k] ** 2 * np.vdot(rest, rest) * (2 if k else 1)
