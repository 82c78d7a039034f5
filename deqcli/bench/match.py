"""How long a match takes, for every activation and kernel."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence

import pandas as pd
from threadpoolctl import threadpool_limits

from deqcli.errors import OutsidePapersRangeWarning
from deqcli.matching import match
from deqcli.vocabulary import Kernel


def measure(
    activations: Sequence[str], sigma_a2: Sequence[float] = (0.1, 0.2), threads: int = 1
) -> pd.DataFrame:
    """Time one match of each kind on one core.

    Returns
    -------
    pandas.DataFrame
        Columns activation, sigma_a2, kernel, family, layers, worst (relative residual), seconds.

    Examples
    --------
    >>> measure(["tanh"], [0.1])["family"].tolist()
    ['htanh', 'htanh', 'htanh', 'htanh']
    """
    rows = []
    with threadpool_limits(threads), warnings.catch_warnings():
        warnings.simplefilter("ignore", OutsidePapersRangeWarning)
        for name in activations:
            for variance in sigma_a2:
                for kernel in Kernel:
                    started = time.perf_counter()
                    twin = match(name, variance, kernel=kernel)
                    seconds = time.perf_counter() - started
                    rows.append(
                        {
                            "activation": name,
                            "sigma_a2": variance,
                            "kernel": kernel,
                            "family": twin.family,
                            "layers": twin.layers,
                            "worst": twin.worst,
                            "seconds": seconds,
                        }
                    )
    return pd.DataFrame(rows)
