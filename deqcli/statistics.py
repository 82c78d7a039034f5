r"""Second-order statistics of a mixture: known exactly or estimated from labelled samples.

.. math:: C^\circ = \sum_a \tfrac{n_a}{n} C_a,\quad \tau_0^2 = \tfrac1p\operatorname{tr}C^\circ,
   \quad t_a = \tfrac1{\sqrt p}\operatorname{tr}(C_a - C^\circ),\quad
   T_{ab} = \tfrac1p\operatorname{tr}(C_aC_b)

for samples :math:`x = (\mu_a + C_a^{1/2}w)/\sqrt p` (theory.md §1).
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from deqcli.display import Displayed
from deqcli.errors import DataError
from deqcli.kernels.matrix import check_samples

Array = NDArray[np.float64]


@dataclass(frozen=True, repr=False)
class MixtureStatistics(Displayed):
    r"""What the equivalents need to know of the data.

    Attributes
    ----------
    tau0 : float
    t : ndarray of shape (K,)
    T : ndarray of shape (K, K)
    centres : ndarray of shape (K, p)
        Class means of the samples, :math:`\mu_a/\sqrt p`.
    spreads : ndarray of shape (K,)
        :math:`E\|x - Ex\|^2 = \operatorname{tr}C_a/p` of each class.
    """

    tau0: float
    t: Array
    T: Array
    centres: Array
    spreads: Array

    def _facts(self) -> dict[str, object]:
        classes, p = self.centres.shape
        return {"classes": classes, "dimension": p, "tau0": self.tau0, "t": self.t.tolist()}

    def fluctuations(self, X: Array, y: NDArray[np.int64]) -> Array:
        r"""Return :math:`\psi_i = \|x_i - Ex_i\|^2 - E\|x_i - Ex_i\|^2`, of shape (n,)."""
        return np.asarray(np.sum((X - self.centres[y]) ** 2, axis=1) - self.spreads[y])


def check_labels(y: ArrayLike, n_samples: int) -> NDArray[np.int64]:
    """Return class indices 0 ... K-1 for labels of any kind, or say what is wrong."""
    try:
        labels = np.asarray(y)
    except ValueError:
        raise DataError("`y` is ragged; give one label a sample.") from None
    if labels.shape != (n_samples,):
        raise DataError(
            f"`y` has shape {labels.shape} for {n_samples} samples; give one label a sample."
        )
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise DataError("`y` has labels that are not finite; remove those samples.")
    if labels.dtype.kind in "mM" and np.isnat(labels).any():
        raise DataError("`y` has labels that are no time; remove those samples.")
    if labels.dtype == object:
        return _numbered(labels)
    return np.unique(labels, return_inverse=True)[1].astype(np.int64)


def _numbered(labels: NDArray[Any]) -> NDArray[np.int64]:
    """Number Python objects in their order, or as they come where they have none."""
    try:
        # What is not equal to itself, such as NaN, is no label; pandas' NA does not even say.
        if any(label is None or not bool(label == label) for label in labels):
            raise TypeError
        distinct = list(dict.fromkeys(labels.tolist()))
    except (TypeError, ValueError):
        raise DataError(
            "`y` has labels that cannot be told apart; give numbers, texts or other hashable "
            "values, none of them missing."
        ) from None
    with contextlib.suppress(TypeError):
        distinct.sort()
    numbers = {label: number for number, label in enumerate(distinct)}
    return np.array([numbers[label] for label in labels.tolist()], dtype=np.int64)


def from_covariances(
    centres: Array, traces: Array, products: Array, counts: NDArray[np.int64]
) -> MixtureStatistics:
    r"""Build the statistics from :math:`\operatorname{tr}C_a` and :math:`\operatorname{tr}C_aC_b`.

    Parameters
    ----------
    centres : ndarray of shape (K, p)
        Class means of the samples.
    traces : ndarray of shape (K,)
    products : ndarray of shape (K, K)
    counts : ndarray of shape (K,)
        Samples in each class; they weigh :math:`C^\circ`.
    """
    p = centres.shape[1]
    mean_trace = float(counts @ traces / counts.sum())
    return MixtureStatistics(
        tau0=float(np.sqrt(mean_trace / p)),
        t=(traces - mean_trace) / np.sqrt(p),
        T=products / p,
        centres=centres,
        spreads=traces / p,
    )


def estimate_statistics(X: ArrayLike, y: ArrayLike) -> MixtureStatistics:
    r"""Estimate the statistics from labelled samples, class by class.

    Empirical means and covariances (with 1/n_a). The plug-in
    :math:`\operatorname{tr}\hat C_a^2` is too large by about
    :math:`(\operatorname{tr}C_a)^2/n_a`, which does not vanish when n and p are comparable; it is
    replaced by the unbiased

    .. math:: \tfrac{(n_a-1)^2}{(n_a-2)(n_a+1)}\left(\operatorname{tr}\hat C_a^2
              - \tfrac{(\operatorname{tr}\hat C_a)^2}{n_a-1}\right)
              \quad\text{(here } \hat C_a \text{ with } 1/(n_a-1)\text{)}

    (exact for Gaussian samples; classes of fewer than four keep the plug-in).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((400, 500)) / np.sqrt(500)
    >>> stats = estimate_statistics(X, np.repeat([0, 1], 200))
    >>> bool(abs(stats.tau0 - 1) < 0.01), bool(abs(stats.T - 1).max() < 0.05)
    (True, True)
    """
    samples = check_samples(X, "X", least=2)
    labels = check_labels(y, len(samples))
    p = samples.shape[1]
    counts = np.bincount(labels)
    if counts.min() < 2:
        raise DataError(
            f"class {int(counts.argmin())} of `y` has {int(counts.min())} sample(s); "
            "estimating its covariance needs at least 2."
        )
    centres = np.stack([samples[labels == a].mean(axis=0) for a in range(counts.size)])
    # Rows scaled so that their Gram matrix is the covariance C_a = p cov(x), with 1/n_a: the
    # fluctuations psi then have mean zero in each class.
    groups = [
        (samples[labels == a] - centres[a]) * np.sqrt(p / counts[a]) for a in range(counts.size)
    ]
    traces = np.array([np.sum(g**2) for g in groups])
    products = np.empty((counts.size, counts.size))
    by_features = counts.max() > p
    covariances = [g.T @ g for g in groups] if by_features else []
    for a in range(counts.size):
        for b in range(a, counts.size):
            if by_features:
                products[a, b] = np.sum(covariances[a] * covariances[b])
            else:
                products[a, b] = np.sum((groups[a] @ groups[b].T) ** 2)
            products[b, a] = products[a, b]
    # The textbook estimators are of covariances with 1/(n_a - 1).
    free = counts / (counts - 1)
    products *= np.outer(free, free)
    for a, n in enumerate(counts):
        if n >= 4:
            excess = products[a, a] - (free[a] * traces[a]) ** 2 / (n - 1)
            products[a, a] = max(excess, 0.0) * (n - 1) ** 2 / ((n - 2) * (n + 1))
    return from_covariances(centres, traces, products, counts)
