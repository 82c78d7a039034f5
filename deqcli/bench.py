"""Speed and memory, as ratios within one run.

Machines and their load differ, so that seconds alone mean nothing: what is compared takes turns,
round after round, and medians over rounds are returned.
"""

from __future__ import annotations

import functools
import math
import time
import tracemalloc
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import erf, expit
from threadpoolctl import threadpool_limits

from deqcli.activations import Activation, activation
from deqcli.data.mixture import GaussianMixture
from deqcli.errors import silence_range_warning
from deqcli.gaussian import check_existence
from deqcli.kernels.exact import implicit_kernels
from deqcli.kernels.matrix import KernelMatrix, check_samples
from deqcli.kernels.pairs import ImplicitPairs
from deqcli.kernels.tiles import Combination
from deqcli.matching import match, plain_network
from deqcli.monte_carlo import Ensemble, Workspace
from deqcli.training.base import Network, cross_entropy
from deqcli.training.networks import EquilibriumNetwork, ExplicitNetwork
from deqcli.vocabulary import Kernel

Array = NDArray[Any]
Shape = tuple[int, int, int]

_SIGMA_A2 = 0.2
_NAIVE_ITERATIONS = 500
_CLASSES = 10
#: What somebody would write by hand; other activations are taken from the registry.
_BY_HAND: dict[str, Callable[[Array], Array]] = {
    "relu": lambda x: np.maximum(x, 0),
    "tanh": np.tanh,
    "erf": erf,
    "swish": lambda x: x * expit(x),
}


def measure_kernel(X: Array, activations: Sequence[str], repeats: int) -> pd.DataFrame:
    """Time the exact CK and CK + NTK as multiples of the product ``X @ X.T``.

    All three write into arrays that have been written to before: one result takes one array and
    the other two, and what new memory takes depends on the machine and on what ran before.
    ``new_memory_ratio`` is what one new array of n x n takes besides, in units of the product.

    Parameters
    ----------
    X : ndarray of shape (n, p)
        Samples of mean squared norm near 1.
    activations : sequence of str
    repeats : int
        How many rounds there are.

    Returns
    -------
    DataFrame
        Columns activation, n, p, product_seconds, ck_ratio, ck_ntk_ratio, new_memory_ratio,
        ck_peak_arrays, ck_ntk_peak_arrays (memory beyond X in n x n float64 arrays, the results
        included).

    Examples
    --------
    >>> X = np.random.default_rng(0).standard_normal((120, 40)) / np.sqrt(40)
    >>> list(measure_kernel(X, ["relu"], repeats=1)["activation"])
    ['relu']
    """
    n, p = X.shape
    rows = []
    outs = np.zeros((2, n, n))
    for name in activations:
        act = _centred(name, 0.1)
        ck = functools.partial(_fill, X, act, [Kernel.CK])
        both = functools.partial(_fill, X, act, [Kernel.CK, Kernel.NTK])
        seconds = _time(
            repeats,
            product=lambda: np.matmul(X, X.T, out=outs[0]),
            ck=functools.partial(ck, outs[:1]),
            both=functools.partial(both, outs),
            memory=lambda: np.empty((n, n)).fill(0),
        )
        rows.append(
            {
                "activation": act.name,
                "n": n,
                "p": p,
                "product_seconds": np.median(seconds["product"]),
                "ck_ratio": np.median(seconds["ck"] / seconds["product"]),
                "ck_ntk_ratio": np.median(seconds["both"] / seconds["product"]),
                "new_memory_ratio": np.median(seconds["memory"] / seconds["product"]),
                "ck_peak_arrays": _peak(ck) / (8 * n * n),
                "ck_ntk_peak_arrays": _peak(both) / (8 * n * n),
            }
        )
    return pd.DataFrame(rows)


def measure_match(
    activations: Sequence[str], variances: Sequence[float] = (0.1, 0.2)
) -> pd.DataFrame:
    """Time one match of each kind, as a multiple of the very kernel of the DEQ for 400 samples.

    The samples are those of the papers' mixture in dimension 400; all is on one core. A match is
    by scalars, then by a fit to 200 of the samples.

    Returns
    -------
    DataFrame
        Columns activation, sigma_a2, kernel, family, layers, worst (relative residual), ratio, and
        of the fit fit_family, fit_layers, fit_distance (on the other samples), fit_ratio.

    Examples
    --------
    >>> table = measure_match(["tanh"], [0.2])
    >>> set(table["family"]), bool((table["ratio"] > 0).all())
    ({'htanh'}, True)
    """
    X = GaussianMixture.papers(400).sample(400, np.random.default_rng(0)).X
    rows = []
    with threadpool_limits(1), silence_range_warning():
        for name in activations:
            for variance in variances:
                act = _centred(name, variance)
                for kernel in Kernel:
                    evaluate = functools.partial(_compute, X, act, variance, kernel)
                    reference = np.median(_time(3, kernel=evaluate)["kernel"])
                    started = time.perf_counter()
                    twin = match(name, variance, kernel=kernel)
                    middle = time.perf_counter()
                    fitted = match(name, variance, kernel=kernel, X=X)
                    rows.append(
                        {
                            "activation": name,
                            "sigma_a2": variance,
                            "kernel": kernel,
                            "family": twin.family,
                            "layers": twin.layers,
                            "worst": twin.worst,
                            "ratio": (middle - started) / reference,
                            "fit_family": fitted.family,
                            "fit_layers": fitted.layers,
                            "fit_distance": fitted.distance,
                            "fit_ratio": (time.perf_counter() - middle) / reference,
                        }
                    )
    return pd.DataFrame(rows)


def measure_monte_carlo(
    n: int, p: int, width: int, activations: Sequence[str], repeats: int, threads: int = 1
) -> pd.DataFrame:
    r"""Time one realization of the conjugate kernel, its bare products and a plain loop.

    ``products_seconds`` is the time of as many float32 products as the engine does: one of shapes
    (m, p) and (p, n), those of the iterations, and one of (n, m) and (m, n).
    ``naive_float64_seconds`` is the plain numpy loop in float64: standard normal weights, Picard
    from zero until the largest relative change of a sample is within the tolerance, the kernel.
    Each is on one core; with ``threads``, as many do the same at a time, as processes of a study.

    What is not products is, at n = 800 and m = p = 1000, in shares of the engine's processor time:
    drawing the weights 0.04, the activation 0.02 (relu, tanh), 0.035 (swish) or 0.07 (erf), norms
    of changes 0.025, and the rest the bias, copies of blocks and the kernel in double precision.

    Returns
    -------
    DataFrame
        Columns activation, engine_seconds, products_seconds, share_of_products,
        naive_float64_seconds, speedup_over_naive, iterations, naive_iterations.

    Examples
    --------
    >>> measure_monte_carlo(20, 20, 20, ("tanh",), repeats=1)["activation"].tolist()
    ['tanh']
    """
    X = np.random.default_rng(0).standard_normal((n, p)) / math.sqrt(p)
    with threadpool_limits(1):
        rows = [_realization(X, name, width, repeats, threads) for name in activations]
        return pd.DataFrame(rows)


def measure_training(
    widths: Sequence[int],
    activations: Sequence[str],
    batch: int,
    tolerance: float,
    repeats: int,
    n_features: int = 784,
) -> pd.DataFrame:
    r"""Time a step of the DEQ and of an explicit network with two hidden layers.

    A step is all of it: forward, loss, backward, update with momentum, and the watch over the
    norm. ``products_seconds`` is the time of as many float32 products of the same shapes, out of
    and into buffers: for the DEQ :math:`BX` and its gradient, those of the iterations of both
    solves, the gradient of A, and the three of the readout. All is on one core.

    Returns
    -------
    DataFrame
        Columns network, activation, width, step_seconds, products_seconds, ratio (the median over
        rounds of the ratio within one), forward_iterations, adjoint_iterations.

    Examples
    --------
    >>> measure_training((32,), ("tanh",), 8, 1e-3, repeats=1, n_features=20)["network"].tolist()
    ['deq', 'explicit']
    """
    rng = np.random.default_rng(0)
    X = (rng.standard_normal((batch, n_features)) / np.sqrt(n_features)).astype(np.float32)
    labels = rng.integers(0, _CLASSES, batch)
    variances = _SIGMA_A2, 1 - _SIGMA_A2
    rows = []
    with threadpool_limits(1), silence_range_warning():
        for width in widths:
            size = width, n_features, _CLASSES
            for name in activations:
                act = _centred(name, _SIGMA_A2)
                networks = {
                    "deq": EquilibriumNetwork(act, *variances, *size, tolerance=tolerance),
                    "explicit": ExplicitNetwork(plain_network(activation(name), 2), *size),
                }
                for kind, network in networks.items():
                    row = {"network": kind, "activation": name, "width": width}
                    rows.append(row | _step(network, X, labels, repeats))
    return pd.DataFrame(rows)


def _realization(X: Array, name: str, width: int, repeats: int, threads: int) -> dict[str, Any]:
    """Return the row of one activation in the table of :func:`measure_monte_carlo`."""
    n, p = X.shape
    check_existence(activation(name), _SIGMA_A2, papers_range=False)
    ensemble = Ensemble(activation(name), _SIGMA_A2, 1 - _SIGMA_A2, width)
    workspaces = [Workspace(X, ensemble) for _ in range(threads)]
    phi = _BY_HAND.get(name, ensemble.activation)
    streams = [np.random.default_rng(1 + k) for k in range(threads)]
    features = streams[0].standard_normal((width, n), dtype=np.float32)
    # Every thread writes into arrays of its own.
    product = [functools.cache(_product) for _ in range(threads)]
    iterations: list[int] = []
    naive_iterations: list[int] = []

    def engine(k: int) -> None:
        iterations.append(workspaces[k].realize(streams[k]).forward.iterations)

    def products(k: int) -> None:
        blocks = len(workspaces[k].layer.blocks)
        for shape in [(width, p, n), *_solve(width, n, blocks, iterations[-1])]:
            product[k](*shape)()
        # The kernel: a product of a matrix and its transpose costs half.
        features.T @ features

    def naive(k: int) -> None:
        naive_iterations.append(_naive(X, phi, width, ensemble.tolerance, streams[k]))

    with ThreadPoolExecutor(threads) as pool:
        seconds = _time(
            repeats,
            engine=lambda: list(pool.map(engine, range(threads))),
            products=lambda: list(pool.map(products, range(threads))),
            naive=lambda: list(pool.map(naive, range(threads))),
        )
    middle = {key: np.median(values) for key, values in seconds.items()}
    return {
        "activation": name,
        "engine_seconds": middle["engine"],
        "products_seconds": middle["products"],
        "share_of_products": middle["products"] / middle["engine"],
        "naive_float64_seconds": middle["naive"],
        "speedup_over_naive": middle["naive"] / middle["engine"],
        "iterations": np.median(iterations),
        "naive_iterations": np.median(naive_iterations),
    }


def _naive(
    X: Array,
    phi: Callable[[Array], Array],
    width: int,
    tolerance: float,
    rng: np.random.Generator,
) -> int:
    A = rng.standard_normal((width, width))
    B = rng.standard_normal((width, X.shape[1]))
    bias = math.sqrt(1 - _SIGMA_A2) * X @ B.T
    Z = np.zeros((len(X), width))
    change, count = np.ones(1), 0
    # A narrow network need not contract.
    while change.max() > tolerance and count < _NAIVE_ITERATIONS:
        count += 1
        new = phi(math.sqrt(_SIGMA_A2) * Z @ A.T + bias) / math.sqrt(width)
        # Where all neurons of a sample are dead, its fixed point is zero.
        norms = np.maximum(np.linalg.norm(new, axis=1), np.finfo(float).tiny)
        change = np.linalg.norm(new - Z, axis=1) / norms
        Z = new
    Z @ Z.T
    return count


def _step(network: Network, X: Array, labels: NDArray[np.int64], repeats: int) -> dict[str, Any]:
    """Return the numbers of one network in the table of :func:`measure_training`."""
    network.draw([np.random.default_rng(k) for k in range(3)])
    product = functools.cache(_product)
    iterations: list[tuple[float, float]] = []

    def step() -> None:
        forward = network.forward(X)
        delta = cross_entropy(network.outputs, labels)[2]
        adjoint = network.backward(delta, 0.9)
        # Small, that the iterations stay those of the start.
        network.move(1e-3)
        iterations.append((forward.iterations, adjoint.iterations))

    def products() -> None:
        m, d, k, b = network.width, network.n_features, network.n_classes, len(X)
        shapes = [(m, d, b), (m, b, d), (k, m, b), (m, k, b), (k, b, m), (m, b, m)]
        if isinstance(network, EquilibriumNetwork):
            for count in iterations[-1]:
                shapes += _solve(m, b, len(network.layer.blocks), int(count))
        else:
            shapes += [(m, m, b)] * 2
        for shape in shapes:
            product(*shape)()

    seconds = _time(repeats, step=step, products=products)
    forward, adjoint = np.median(iterations, axis=0)
    return {
        "step_seconds": np.median(seconds["step"]),
        "products_seconds": np.median(seconds["products"]),
        "ratio": np.median(seconds["step"] / seconds["products"]),
        "forward_iterations": forward,
        "adjoint_iterations": adjoint,
    }


def _solve(width: int, columns: int, n_blocks: int, iterations: int) -> list[Shape]:
    """Return the products of a solve; the first of b blocks from zero does (b-1)/2b of one."""
    first = width * (n_blocks - 1) // (2 * n_blocks)
    return [(width, first, columns)] * (first > 0) + [(width, width, columns)] * (iterations - 1)


def _product(rows: int, inner: int, columns: int) -> Callable[[], Array]:
    """Return a float32 product of that shape, ready to be called."""
    rng = np.random.default_rng(1)
    left = rng.standard_normal((rows, inner), dtype=np.float32)
    right = rng.standard_normal((inner, columns), dtype=np.float32)
    return functools.partial(np.matmul, left, right, out=np.empty((rows, columns), np.float32))


def _centred(name: str, sigma_a2: float) -> Activation:
    with silence_range_warning():
        return activation(name).centred(sigma_a2, 1 - sigma_a2, 1.0)


def _fill(
    X: Array, act: Activation, kernels: Sequence[Kernel], outs: Sequence[Array] | None = None
) -> None:
    matrix = KernelMatrix(ImplicitPairs(act, 0.1, 0.9), check_samples(X))
    matrix.rows(0, len(X), [Combination(kernel) for kernel in kernels], outs)


def _compute(X: Array, act: Activation, sigma_a2: float, *kernels: Kernel) -> list[Array]:
    with silence_range_warning():
        return implicit_kernels(X, act, sigma_a2).compute(*kernels)


def _time(repeats: int, **work: Callable[[], object]) -> dict[str, Array]:
    """Return the seconds of each, done in turn; the first round warms up and is left out."""
    seconds: dict[str, list[float]] = {name: [] for name in work}
    for _ in range(repeats + 1):
        for name, call in work.items():
            started = time.perf_counter()
            call()
            seconds[name].append(time.perf_counter() - started)
    return {name: np.array(values[1:]) for name, values in seconds.items()}


def _peak(work: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
