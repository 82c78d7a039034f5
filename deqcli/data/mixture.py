r"""Data to draw: Gaussian mixtures and the unit sphere.

.. math:: x_i = (\mu_a + C_a^{1/2}w)/\sqrt p, \qquad w \sim N(0, I_p) \text{ for } x_i
          \text{ in class } a
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import cholesky
from scipy.linalg import toeplitz as toeplitz_matrix

from deqcli.checks import LARGEST, NOT_NEGATIVE, POSITIVE, Range, generator, number, one_line, shown
from deqcli.data.dataset import Dataset
from deqcli.display import Displayed
from deqcli.errors import DataError, InputError
from deqcli.statistics import MixtureStatistics, from_covariances

Array = NDArray[np.float64]


def toeplitz(p: int, correlation: float) -> Array:
    """Return the covariance ``correlation ** |i - j|``, of shape (p, p).

    Examples
    --------
    >>> toeplitz(3, 0.5)[0]
    array([1.  , 0.5 , 0.25])
    """
    p = number(p, "p", int, POSITIVE)
    correlation = number(correlation, "correlation", float, Range(above=-1, below=1))
    return np.asarray(toeplitz_matrix(correlation ** np.arange(p)))


def check_dimension(p: int, classes: int) -> None:
    """Refuse a dimension without a coordinate for each mean of :meth:`GaussianMixture.papers`."""
    least = 8 * (classes - 1) + 1
    if p < least:
        raise InputError(f"`p` is {p}, too small for {classes} classes; give {least} or more.")


@dataclass(frozen=True, repr=False)
class GaussianMixture(Displayed):
    r"""A K-class Gaussian mixture in the papers' scaling.

    Parameters
    ----------
    means : ndarray of shape (K, p)
        :math:`\mu_a`, before the division by :math:`\sqrt p`.
    covariances : tuple of K arrays
        :math:`C_a` as a number (times the identity), a vector of shape (p,) (diagonal), or a
        matrix of shape (p, p) (full; :func:`toeplitz` makes one).
    shape : ndarray of shape (p, p), optional
        A matrix that all classes share: :math:`C_a` is then the number ``covariances[a]`` times
        it. However many classes there are, it is stored and factorised once.

    Examples
    --------
    >>> mixture = GaussianMixture.papers(p=100)
    >>> data = mixture.sample(6, np.random.default_rng(0))
    >>> data.X.shape, data.y.tolist()
    ((6, 100), [0, 0, 0, 1, 1, 1])
    >>> round(mixture.statistics(np.array([3, 3])).tau0 ** 2, 12)
    1.4
    >>> shared = GaussianMixture(mixture.means, [1.0, 1.8], toeplitz(100, 0.5))
    >>> shared.statistics(np.array([3, 3])).T.round(2)
    array([[1.66, 2.98],
           [2.98, 5.37]])
    """

    means: Array
    covariances: tuple[Array, ...]
    shape: Array | None
    _roots: tuple[Array, ...] = field(repr=False)
    _shape_root: Array | None = field(repr=False)

    def __init__(
        self, means: ArrayLike, covariances: Sequence[ArrayLike], shape: ArrayLike | None = None
    ) -> None:
        try:
            centre = np.atleast_2d(_floats(means))
            parts = tuple(_floats(c) for c in covariances)
            common = None if shape is None else _floats(shape)
        except (TypeError, ValueError, OverflowError) as error:
            raise DataError(f"means and covariances must be numbers: {one_line(error)}.") from None
        if centre.ndim != 2 or 0 in centre.shape or not (np.abs(centre) <= LARGEST).all():
            raise DataError(
                f"the means must be finite, at most {LARGEST:g}, one row a class, not of shape "
                f"{centre.shape}."
            )
        if len(parts) != len(centre):
            raise DataError(f"{len(centre)} means but {len(parts)} covariances.")
        p = centre.shape[1]
        if common is not None and any(c.ndim for c in parts):
            raise DataError("with a common `shape` the covariances must be numbers, one a class.")
        if common is not None and common.shape != (p, p):
            raise DataError(f"`shape` has shape {common.shape}; ({p}, {p}) is needed.")
        for a, c in enumerate(parts):
            if c.shape not in ((), (p,), (p, p)):
                raise DataError(
                    f"covariance {a} has shape {c.shape}; a number, ({p},) or ({p}, {p}) is needed."
                )
        roots = tuple(_root(c, f"covariance {a}") for a, c in enumerate(parts))
        object.__setattr__(self, "means", centre)
        object.__setattr__(self, "covariances", parts)
        object.__setattr__(self, "shape", common)
        object.__setattr__(self, "_roots", roots)
        common_root = None if common is None else _root(common, "`shape`")
        object.__setattr__(self, "_shape_root", common_root)

    @classmethod
    def papers(
        cls, p: int, classes: int = 2, mean_norm: float = 8.0, spread: float = 8.0
    ) -> GaussianMixture:
        r"""Return the mixture of every GMM figure, continued to any number of classes.

        :math:`\mu_a` is 8 at coordinate 8(a-1)+1 and :math:`C_a = (1 + 8(a-1)/\sqrt p)I_p`,
        a = 1, 2, ... (theory.md §1).
        """
        p, classes = number(p, "p", int, POSITIVE), number(classes, "classes", int, POSITIVE)
        mean_norm = number(mean_norm, "mean_norm", float, NOT_NEGATIVE)
        spread = number(spread, "spread", float, NOT_NEGATIVE)
        check_dimension(p, classes)
        means = np.zeros((classes, p))
        means[np.arange(classes), 8 * np.arange(classes)] = mean_norm
        return cls(means, [1 + spread * a / np.sqrt(p) for a in range(classes)])

    def _facts(self) -> dict[str, object]:
        norms = [float(norm) for norm in np.linalg.norm(self.means, axis=1)]
        return {"classes": len(norms), "dimension": self.n_features, "norms of the means": norms}

    @property
    def n_features(self) -> int:
        """The dimension p."""
        return int(self.means.shape[1])

    def sample(
        self, n: int, rng: np.random.Generator, counts: NDArray[np.int64] | None = None
    ) -> Dataset:
        """Draw n samples, class after class, balanced unless ``counts`` says otherwise."""
        n, rng = number(n, "n", int, POSITIVE), generator(rng)
        if counts is None:
            classes = np.arange(len(self.means))
            counts = n // classes.size + (classes < n % classes.size)  # the larger ones first
        counts = self._check_counts(counts)
        if counts.sum() != n:
            raise InputError(
                f"`counts` is {shown(counts.tolist())}; give numbers whose sum is {n}."
            )
        if counts.min() < 1:
            raise InputError(f"`n` is {n}, too small for {len(self.means)} classes.")
        p = self.n_features
        blocks = []
        for mean, root, count in zip(self.means, self._roots, counts, strict=True):
            noise = rng.standard_normal((int(count), p))
            if self._shape_root is not None:
                noise = noise @ self._shape_root
            if root.ndim == 2:
                noise = noise @ root
            else:
                noise *= root
            blocks.append((mean + noise) / np.sqrt(p))
        labels = np.repeat(np.arange(len(counts)), counts)
        names = tuple(str(a + 1) for a in range(len(counts)))
        return Dataset(np.vstack(blocks), labels, "gmm", names)

    def statistics(self, counts: NDArray[np.int64]) -> MixtureStatistics:
        """Return the exact statistics for the given class sizes."""
        p, counts = self.n_features, self._check_counts(counts)
        if any(c.ndim for c in self.covariances):
            traces = np.array([_diagonal(c, p).sum() for c in self.covariances])
            products = np.array(
                [[_trace_of_product(c, d, p) for d in self.covariances] for c in self.covariances]
            )
        else:
            shape, scales = self.shape, np.array(self.covariances)
            traces = scales * (p if shape is None else np.trace(shape))
            products = np.outer(scales, scales) * (p if shape is None else np.vdot(shape, shape))
        return from_covariances(self.means / np.sqrt(p), traces, products, counts)

    def _check_counts(self, counts: ArrayLike) -> NDArray[np.int64]:
        """Return numbers of samples, one a class and none negative, not all zero."""
        sizes = np.asarray(counts) if isinstance(counts, Sequence | np.ndarray) else np.empty(0)
        if sizes.dtype.kind not in "iu" or sizes.shape != (len(self.means),) or sizes.min() < 0:
            raise InputError(
                f"`counts` is {shown(counts)}; give {len(self.means)} whole numbers, one a class."
            )
        if not 0 < sizes.sum() < 2**53:
            raise InputError(f"`counts` is {shown(counts)}; give at least one sample.")
        return sizes.astype(np.int64)


def _floats(values: ArrayLike) -> Array:
    """Return a copy in float64; text, complex numbers and objects raise."""
    return np.asarray(values).astype(np.float64, casting="same_kind")


def _root(c: Array, name: str) -> Array:
    """Return R with C = R'R: a number, a vector or an upper triangle; refuse what has none."""
    if not (np.abs(c) <= LARGEST).all() or (c.ndim == 2 and not np.allclose(c, c.T)):
        raise DataError(f"{name} must be symmetric, finite and at most {LARGEST:g}.")
    try:
        if c.ndim == 2:
            return np.asarray(cholesky(c))
        if np.min(c) > 0:
            return np.sqrt(c)
    except np.linalg.LinAlgError:
        pass
    raise DataError(f"{name} must be positive definite.")


def _diagonal(c: Array, p: int) -> Array:
    return np.diagonal(c) if c.ndim == 2 else np.broadcast_to(c, p)


def _trace_of_product(c: Array, d: Array, p: int) -> float:
    if c.ndim == 2 and d.ndim == 2:
        return float(np.vdot(c, d))  # both are symmetric
    return float(np.sum(_diagonal(c, p) * _diagonal(d, p)))


def sphere(n: int, dimension: int, rng: np.random.Generator) -> Dataset:
    """Draw n points uniformly from the unit sphere (HLD), all of one class.

    Examples
    --------
    >>> data = sphere(3, 10, np.random.default_rng(0))
    >>> np.linalg.norm(data.X, axis=1).round(12)
    array([1., 1., 1.])
    """
    n, dimension = (
        number(value, name, int, Range(least=2))
        for value, name in ((n, "n"), (dimension, "dimension"))
    )
    points = generator(rng).standard_normal((n, dimension))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    return Dataset(points, np.zeros(n, dtype=np.int64), "sphere", ("all",))
