"""Speed and memory of the exact kernels, as multiples of one matrix product in the same run."""

from __future__ import annotations

import time
import tracemalloc
import warnings
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from deqcli.activations import Activation, activation
from deqcli.errors import OutsidePapersRangeWarning
from deqcli.kernels.exact import implicit_kernels
from deqcli.scalars import implicit_scalars
from deqcli.vocabulary import Kernel

Array = NDArray[np.float64]


def measure(
    X: Array,
    activations: Sequence[str] = ("tanh", "relu", "swish", "htanh"),
    sigma_a2: float = 0.1,
    repeats: int = 5,
) -> pd.DataFrame:
    """Time CK and CK + NTK against the product ``X @ X.T`` measured around each of them.

    Parameters
    ----------
    X : ndarray of shape (n, p)
        Samples of mean squared norm near 1.
    activations : sequence of str
    sigma_a2 : float
    repeats : int
        Ratios are medians over as many rounds; in each, product and kernels alternate, so that a
        noisy machine slows both.

    Returns
    -------
    DataFrame
        One row an activation: product_seconds, ck_ratio, ck_ntk_ratio, ck_peak_arrays,
        ck_ntk_peak_arrays (memory beyond X in n x n float64 arrays, the results included).

    Examples
    --------
    >>> X = np.random.default_rng(0).standard_normal((120, 40)) / np.sqrt(40)
    >>> list(measure(X, ["relu"], repeats=1)["activation"])
    ['relu']
    """
    n, p = X.shape
    X @ X.T
    rows = []
    for name in activations:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", OutsidePapersRangeWarning)
            act = activation(name)
            act = act.shifted(implicit_scalars(act, sigma_a2).shift)
            work = {
                "ck": partial(_compute, X, act, sigma_a2, Kernel.CK),
                "ck_ntk": partial(_compute, X, act, sigma_a2, Kernel.CK, Kernel.NTK),
            }
            products: list[float] = []
            ratios: dict[str, list[float]] = {key: [] for key in work}
            for _ in range(repeats):
                for key, compute in work.items():
                    products.append(_seconds(lambda: X @ X.T))
                    ratios[key].append(_seconds(compute) / products[-1])
            rows.append(
                {
                    "activation": act.name,
                    "n": n,
                    "p": p,
                    "product_seconds": float(np.median(products)),
                    "ck_ratio": float(np.median(ratios["ck"])),
                    "ck_ntk_ratio": float(np.median(ratios["ck_ntk"])),
                    "ck_peak_arrays": _peak(work["ck"]) / (8 * n * n),
                    "ck_ntk_peak_arrays": _peak(work["ck_ntk"]) / (8 * n * n),
                }
            )
    return pd.DataFrame(rows)


def _compute(X: Array, act: Activation, sigma_a2: float, *kernels: Kernel) -> list[Array]:
    return implicit_kernels(X, act, sigma_a2).compute(*kernels)


def _seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _peak(work: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
