"""Work on parts of a matrix by as many threads as BLAS has."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from threadpoolctl import ThreadpoolController

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")


@functools.cache
def _controller() -> ThreadpoolController:
    """Look for libraries once: that takes as long as a small kernel."""
    return ThreadpoolController()


def in_threads(function: Callable[[Item], Outcome], items: Sequence[Item]) -> list[Outcome]:
    """Return the function of each item; threads share the work, and each has a BLAS of one.

    There are as many as BLAS may use now, so that one setting rules both.

    Examples
    --------
    >>> in_threads(abs, [-2, 3])
    [2, 3]
    """
    threads = max((int(pool["num_threads"]) for pool in _controller().info()), default=1)
    if min(threads, len(items)) == 1:
        return [function(item) for item in items]
    with _controller().limit(limits=1), ThreadPoolExecutor(threads) as pool:
        return list(pool.map(function, items))
