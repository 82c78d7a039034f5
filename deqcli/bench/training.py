"""How fast a training step is, against its own matrix products in the same run."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from deqcli.activations import activation
from deqcli.errors import silence_range_warning
from deqcli.matching import plain_network
from deqcli.training.base import Network, cross_entropy
from deqcli.training.equilibrium import EquilibriumNetwork
from deqcli.training.explicit import ExplicitNetwork
from deqcli.vocabulary import Solver

Array = NDArray[Any]
Shape = tuple[int, int, int]

_CLASSES = 10


def measure(
    widths: Sequence[int] = (128, 512, 1024),
    activations: Sequence[str] = ("relu", "tanh"),
    *,
    batch: int = 128,
    n_features: int = 784,
    sigma_a2: float = 0.2,
    tolerance: float = 1e-3,
    solver: Solver = Solver.GAUSS_SEIDEL,
    repeats: int = 15,
    threads: int = 1,
) -> pd.DataFrame:
    r"""Time a step of the DEQ and of an explicit network with two hidden layers.

    A step is all of it: forward, loss, backward, update with momentum, and the watch over the
    norm. ``products_seconds`` is the time of as many float32 products of the same shapes, out of
    and into buffers: for the DEQ :math:`BX` and its gradient, one :math:`AY` for every iteration of
    either solve (a first one of b blocks of neurons counts for the part that it does, (b-1)/2b),
    the gradient of A, and the three of the readout. Step and products alternate; both are medians
    over ``repeats`` rounds. Only ratios mean something: machines and their load differ.

    Returns
    -------
    pandas.DataFrame
        Columns network, activation, width, step_seconds, products_seconds, ratio (the median over
        rounds of the ratio within one), forward_iterations, adjoint_iterations.

    Examples
    --------
    >>> measure((32,), ("tanh",), batch=8, n_features=20, repeats=1)["network"].tolist()
    ['deq', 'explicit']
    """
    rng = np.random.default_rng(0)
    X = rng.standard_normal((batch, n_features)) / np.sqrt(n_features)
    samples, labels = X.astype(np.float32), rng.integers(0, _CLASSES, batch)
    rows = []
    with threadpool_limits(threads):
        for width in widths:
            for name in activations:
                act = activation(name)
                with silence_range_warning():
                    deq = EquilibriumNetwork(
                        act.centred(sigma_a2, 1 - sigma_a2, 1.0),
                        sigma_a2,
                        1 - sigma_a2,
                        width,
                        n_features,
                        _CLASSES,
                        solver=solver,
                        tolerance=tolerance,
                    )
                explicit = ExplicitNetwork(plain_network(act, 2), width, n_features, _CLASSES)
                for kind, network in (("deq", deq), ("explicit", explicit)):
                    network.draw([np.random.default_rng(k) for k in range(3)])
                    row = _measure(network, samples, labels, repeats)
                    rows.append({"network": kind, "activation": act.name, "width": width, **row})
    return pd.DataFrame(rows)


def _measure(
    network: Network, X: Array, labels: NDArray[np.int64], repeats: int
) -> dict[str, float]:
    steps, products, counts = [], [], []
    for _ in range(repeats + 1):
        started = time.perf_counter()
        forward = network.forward(X)
        delta = cross_entropy(network.outputs, labels)[2]
        adjoint = network.backward(delta, 0.9)
        # Small, that the iterations stay those of the start.
        network.move(1e-3)
        steps.append(time.perf_counter() - started)
        counts.append((forward.iterations, adjoint.iterations))
        products.append(_seconds(_products(network, len(X), *counts[-1])))
    # The first round warms up.
    done, bare = np.array(steps[1:]), np.array(products[1:])
    middle = np.median(counts[1:], axis=0)
    return {
        "step_seconds": float(np.median(done)),
        "products_seconds": float(np.median(bare)),
        "ratio": float(np.median(done / bare)),
        "forward_iterations": float(middle[0]),
        "adjoint_iterations": float(middle[1]),
    }


def _products(
    network: Network, batch: int, forward: float, adjoint: float
) -> list[Callable[[], Array]]:
    """Return the products of a step, ready to be called."""
    m, d, k, b = network.width, network.n_features, network.n_classes, batch
    ends: list[Shape] = [(m, d, b), (m, b, d), (k, m, b), (m, k, b), (k, b, m)]
    if isinstance(network, EquilibriumNetwork):
        blocks = network.n_blocks
        started = m * (blocks - 1) // (2 * blocks)
        rest = int(forward + adjoint) - 2
        shapes = [*ends, (m, b, m), *[(m, m, b)] * rest, *[(m, started, b)] * (2 * (started > 0))]
    else:
        shapes = [*ends, (m, m, b), (m, m, b), (m, b, m)]
    products = {shape: _product(*shape) for shape in set(shapes)}
    return [products[shape] for shape in shapes]


def _product(rows: int, inner: int, columns: int) -> Callable[[], Array]:
    rng = np.random.default_rng(1)
    left, right = (
        rng.standard_normal(shape, dtype=np.float32) for shape in ((rows, inner), (inner, columns))
    )
    out = np.empty((rows, columns), np.float32)
    return lambda: np.matmul(left, right, out=out)


def _seconds(work: Sequence[Callable[[], Any]]) -> float:
    started = time.perf_counter()
    for each in work:
        each()
    return time.perf_counter() - started
