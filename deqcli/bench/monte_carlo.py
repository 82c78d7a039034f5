"""How fast realizations of finite width are drawn and solved, against two references."""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import erf, expit
from threadpoolctl import threadpool_limits

from deqcli.activations import activation
from deqcli.finite.equilibrium import blocks
from deqcli.monte_carlo import Ensemble, accumulate

Array = NDArray[Any]

#: What somebody would write by hand; other activations are taken from the registry.
_BY_HAND: dict[str, Callable[[Array], Array]] = {
    "relu": lambda x: np.maximum(x, 0),
    "tanh": np.tanh,
    "erf": erf,
    "swish": lambda x: x * expit(x),
}


def measure(
    n: int = 800,
    p: int = 1000,
    width: int = 1000,
    activations: tuple[str, ...] = ("relu", "tanh", "erf"),
    *,
    sigma_a2: float = 0.2,
    tolerance: float = 1e-6,
    repeats: int = 7,
    threads: int = 1,
) -> pd.DataFrame:
    r"""Time one realization of the conjugate kernel, the bare products and a plain loop.

    The three are timed in turn, ``repeats`` times, each with ``threads`` threads in the matrix
    products; medians are returned. Only ratios mean something: machines and their load differ.

    ``products_seconds`` is the time of as many float32 products as the engine does, of full size:
    one of shapes (m, p) and (p, n), one of (m, m) and (m, n) for each iteration (the first counts
    for the part that it does, (b-1)/2b with b blocks of neurons), one of (n, m) and (m, n).
    ``naive_float64_seconds`` is the plain numpy loop in float64: standard normal weights, Picard
    from zero until the largest relative change of a sample is within the tolerance, the kernel.

    Returns
    -------
    pandas.DataFrame
        Columns activation, engine_seconds, products_seconds, share_of_products,
        naive_float64_seconds, speedup_over_naive, iterations, naive_iterations.

    Examples
    --------
    >>> measure(20, 20, 20, ("tanh",), repeats=1)["activation"].tolist()
    ['tanh']
    """
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, p)) / math.sqrt(p)
    with threadpool_limits(threads):
        rows = [_measure(X, name, width, sigma_a2, tolerance, repeats) for name in activations]
    return pd.DataFrame(rows)


def _measure(
    X: Array, name: str, width: int, sigma_a2: float, tolerance: float, repeats: int
) -> dict[str, str | float]:
    (n, p), m = X.shape, width
    ensemble = Ensemble(activation(name), sigma_a2, 1 - sigma_a2, width, tolerance=tolerance)
    phi = _BY_HAND.get(name, ensemble.activation)
    naive = functools.partial(_naive, X, phi, sigma_a2, m, tolerance)
    shapes = {"input": ((m, p), (p, n)), "step": ((m, m), (m, n)), "kernel": ((n, m), (m, n))}
    products = {part: _product(*pair) for part, pair in shapes.items()}
    seconds: dict[str, list[float]] = {key: [] for key in ("engine", "naive", *products)}
    naive_iterations: list[int] = []
    starts: list[float] = []

    def between(realization: int) -> np.random.Generator:
        """End the last realization's time, time the references, start the next one's."""
        if starts:
            seconds["engine"].append(time.perf_counter() - starts[-1])
        for part, product in products.items():
            # Twice, as the engine repeats its products too: the second finds its operands near.
            _seconds(product)
            seconds[part].append(_seconds(product)[0])
        spent, count = _seconds(functools.partial(naive, realization))
        seconds["naive"].append(spent)
        naive_iterations.append(count)
        starts.append(time.perf_counter())
        return np.random.default_rng(realization)

    # The first realization only warms up, and the last has no successor to end its time.
    total = accumulate(X, ensemble, range(repeats + 2), between)
    middle = {key: float(np.median(values[1:])) for key, values in seconds.items()}
    iterations = float(np.median([record.forward.iterations for record in total.records]))
    count = len(blocks(m))
    steps = iterations - 1 + (count - 1) / (2 * count)
    bare = middle["input"] + steps * middle["step"] + middle["kernel"]
    return {
        "activation": name,
        "engine_seconds": middle["engine"],
        "products_seconds": bare,
        "share_of_products": bare / middle["engine"],
        "naive_float64_seconds": middle["naive"],
        "speedup_over_naive": middle["naive"] / middle["engine"],
        "iterations": iterations,
        "naive_iterations": float(np.median(naive_iterations)),
    }


def _product(left: tuple[int, int], right: tuple[int, int]) -> Callable[[], Array]:
    rng = np.random.default_rng(1)
    second = rng.standard_normal(right, dtype=np.float32)
    # The kernel is a product of a matrix and its transpose, which costs half.
    first = second.T if left == right[::-1] else rng.standard_normal(left, dtype=np.float32)
    return functools.partial(np.matmul, first, second, out=np.empty((left[0], right[1]), "f4"))


def _seconds(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def _naive(
    X: Array,
    phi: Callable[[Array], Array],
    sigma_a2: float,
    width: int,
    tolerance: float,
    seed: int,
) -> int:
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((width, width))
    B = rng.standard_normal((width, X.shape[1]))
    bias = math.sqrt(1 - sigma_a2) * X @ B.T
    Z = np.zeros((len(X), width))
    change, count = np.ones(1), 0
    while change.max() > tolerance:
        count += 1
        new = phi(math.sqrt(sigma_a2) * Z @ A.T + bias) / math.sqrt(width)
        change = np.linalg.norm(new - Z, axis=1) / np.linalg.norm(new, axis=1)
        Z = new
    Z @ Z.T
    return count
