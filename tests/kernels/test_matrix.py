"""From pairs to matrices: tables against direct solves, blocks, two sets, threads, memory."""

import math
import time
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import deqcli
from deqcli.activations import REGISTRY, activation
from deqcli.kernels import segments
from deqcli.kernels import tiles as tiles_module
from deqcli.kernels.matrix import KernelMatrix
from deqcli.kernels.pairs import ImplicitPairs
from deqcli.kernels.threads import add_product
from deqcli.kernels.tiles import Combination
from deqcli.vocabulary import Kernel

CONTRACTING = [name for name in sorted(REGISTRY) if math.isfinite(activation(name).lipschitz)]


def mixed_bag(n=100, p=60, seed=0, wide=True):
    """Mixture samples among which duplicates, opposites and near copies hide.

    And, if ``wide``, a multiple and a zero row, which make a table large.
    """
    rng = np.random.default_rng(seed)
    X = deqcli.GaussianMixture.papers(p, mean_norm=2.0, spread=2.0).sample(n, rng).X
    X[n - 1] = X[3]
    X[n - 2] = -X[5]
    for k, size in enumerate((1e-3, 1e-6, 1e-8, 1e-10)):
        X[20 + k] = X[10] + size * np.linalg.norm(X[10]) * rng.standard_normal(p) / np.sqrt(p)
        X[30 + k] = -X[11] + size * np.linalg.norm(X[11]) * rng.standard_normal(p) / np.sqrt(p)
    if wide:
        X[40] = 2 * X[10]
        X[41] = 0.0
    return X


def direct(monkeypatch, make):
    with monkeypatch.context() as patch:
        patch.setattr(tiles_module, "_FEW_PAIRS", 10**9)
        return make()


def kernels(X, act, sigma_a2=0.1, sigma_b2=0.9, **other):
    return deqcli.implicit_kernels(X, act, sigma_a2, sigma_b2, **other)


def deviation(first, second):
    return np.abs(first - second).max() / np.abs(second).max()


# Slow where every pair is a long series.
LONG = {"arctan", "elu"}


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow) if n in LONG else n for n in CONTRACTING]
)
def test_tables_agree_with_direct_solves(name, monkeypatch, tol):
    X = mixed_bag()
    act = activation(name).centred(0.1, 0.9, 1.0)
    matrices = kernels(X, act).compute("ck", "ntk")
    exact = direct(monkeypatch, lambda: kernels(X, act).compute("ck", "ntk"))
    for a, b in zip(matrices, exact, strict=True):
        assert deviation(a, b) < tol("routes")
        assert np.isfinite(a).all()


@pytest.mark.parametrize("name", ["tanh", "relu", "swish", "htanh", "elu"])
@pytest.mark.parametrize("spread", [0.3, 3.0])
def test_segments_agree_with_direct_solves_to_1e_12(name, spread, monkeypatch):
    """Angles of every size: those of one segment, of gathered ones, and between their ends."""
    monkeypatch.setattr(tiles_module, "_RARE", 0.2)
    monkeypatch.setattr(segments, "_LEAST", 0)
    rng = np.random.default_rng(2)
    X = rng.standard_normal((300, 200)) / np.sqrt(200)
    X[:, 0] += spread * rng.uniform(-0.5, 1.0, 300)
    matrix = KernelMatrix(ImplicitPairs(activation(name).centred(0.1, 0.9, 1.0), 0.1, 0.9), X)
    parts = matrix.tiles.parts
    assert len(parts) > 1 if spread > 1 else len(parts) == 1
    made = matrix.rows(0, 300, [Combination(Kernel.CK), Combination(Kernel.NTK)])
    i, j = rng.integers(0, 300, (2, 700))
    i, j = i[i != j], j[i != j]
    unit = X / np.linalg.norm(X, axis=1)[:, None]
    cosine = np.sum(unit[i] * unit[j], axis=1)
    inside = [
        (np.arcsin(cosine) >= p.omegas.low) & (np.arcsin(cosine) <= p.omegas.high) for p in parts
    ]
    assert all(np.count_nonzero(where) > 5 for where in inside)
    solved = matrix.pairs(matrix.x_norm[i], matrix.x_norm[j], np.arccos(cosine))
    for values, exact in zip(made, solved, strict=True):
        assert np.abs(values[i, j] - exact).max() < 1e-12 * np.abs(exact).max()


@pytest.mark.parametrize("name", ["tanh", "relu", pytest.param("htanh", marks=pytest.mark.slow)])
def test_tables_agree_with_direct_solves_uncentred(name, monkeypatch, tol):
    X = mixed_bag()
    act = activation(name)
    matrices = kernels(X, act, 0.24, 0.5).compute(*Kernel)
    exact = direct(monkeypatch, lambda: kernels(X, act, 0.24, 0.5).compute(*Kernel))
    for a, b in zip(matrices, exact, strict=True):
        assert deviation(a, b) < tol("routes")


@pytest.mark.parametrize("acts", [["tanh", "relu"], ["swish"], ["relu", "htanh", "cubic:a3=0.1"]])
def test_explicit_tables_agree_with_direct_solves(acts, monkeypatch, tol):
    X = mixed_bag()
    matrices = deqcli.explicit_kernels(X, acts).compute("ck", "ntk")
    exact = direct(monkeypatch, lambda: deqcli.explicit_kernels(X, acts).compute("ck", "ntk"))
    for a, b in zip(matrices, exact, strict=True):
        assert deviation(a, b) < tol("routes")


@pytest.mark.parametrize("first", ["tanh", "htanh", "cos", "abs"])
def test_opposites_in_a_network_whose_first_layer_is_odd_or_even(first):
    # Odd: relu and its derivative then see opposites, of which one is cut off. Even: duplicates.
    # Angles that are read off a correlation of 1 - 1e-16 would be wrong by 1e-8.
    X = mixed_bag(40, wide=False)
    k = deqcli.explicit_kernels(X, [first, "relu"], -X)
    same = deqcli.explicit_kernels(X, [first, "relu"])
    for kernel in ("ck", "ntk"):
        (opposite,), (own,) = k.compute(kernel), same.compute(kernel)
        expected = 0 * np.diag(own) if "tanh" in first else np.diag(own)
        np.testing.assert_allclose(np.diag(opposite), expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", ["relu", "tanh", "htanh", "erf"])
def test_norms_of_every_size_at_once(name):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((30, 6)) * np.geomspace(1e-6, 1e3, 30)[:, None]
    matrix = kernels(X, name).ck
    np.testing.assert_array_equal(matrix, matrix.T)
    if name == "relu":
        # Homogeneous: entries scale with both norms, to the last digits.
        scaled = kernels(X * 1e-3, name).ck * 1e6
        np.testing.assert_allclose(matrix, scaled, rtol=1e-12, atol=0)
    else:
        # Small inputs see a linear function through the origin.
        small, slope = X[:10], activation(name).derivative(np.zeros(1))[0]
        linear = 0.9 * slope**2 / (1 - 0.1 * slope**2) * small @ small.T
        np.testing.assert_allclose(
            matrix[:10, :10], linear, rtol=1e-5, atol=1e-6 * np.abs(linear).max()
        )
        # Large ones see a step: erf(x), tanh(x), clip(x) -> sign(x).
        large = X[25:]
        norms = np.linalg.norm(large, axis=1)
        angle = np.arccos(np.clip(large @ large.T / np.outer(norms, norms), -1, 1))
        np.testing.assert_allclose(matrix[25:, 25:], 1 - 2 * angle / np.pi, rtol=0, atol=0.06)


@pytest.mark.parametrize("scale", [1e-30, 1e-4, 30.0, 1e4])
@pytest.mark.parametrize("name", ["tanh", "htanh", "swish", "abs", "elu"])
def test_tiny_and_huge_data_are_legal(name, scale):
    X = np.array([[1.0, 0.2], [0.2, 1.0], [-1.0, -0.2], [1.0, 0.2]]) * scale
    k = kernels(X, name)
    ck, ntk = k.compute("ck", "ntk")
    for M in (ck, ntk):
        assert np.isfinite(M).all()
        assert M[0, 3] == pytest.approx(M[0, 0], rel=1e-12)
        assert np.linalg.eigvalsh(M).min() > -1e-12 * np.abs(M).max()


def test_squares_that_overflow_are_refused():
    with pytest.raises(deqcli.errors.DataError, match="too large to square"):
        kernels(np.eye(3) * 1e200, "relu")


# ---------------------------------------------------------------------------------------- pieces


@pytest.mark.parametrize("n", [9, 300])
@pytest.mark.parametrize("name", ["tanh", "relu"])
def test_row_blocks_are_rows_of_the_whole(n, name, tol):
    X = mixed_bag(n, wide=False) if n > 100 else mixed_bag()[[0, 1, 3, 10, 20, 30, 40, 41, 99]]
    k = kernels(X, activation(name).centred(0.1, 0.9, 1.0))
    for kernel in ("ck", "preactivation_ntk"):
        whole = getattr(k, kernel)
        for rows in (4, 50, 128, 200, 1000):
            pieces = list(k.blocks(kernel, rows))
            assert [piece.start for piece, _ in pieces] == list(range(0, n, rows))
            assert all(block.shape == (piece.stop - piece.start, n) for piece, block in pieces)
            assert deviation(np.vstack([block for _, block in pieces]), whole) < tol("rounding")


def test_blocks_of_explicit_kernels(tol):
    X = mixed_bag(140)
    e = deqcli.explicit_kernels(X, ["relu", "tanh"])
    for kernel in ("ck", "ntk"):
        stacked = np.vstack([block for _, block in e.blocks(kernel, 33)])
        assert deviation(stacked, getattr(e, kernel)) < tol("rounding")


@pytest.mark.parametrize(("name", "n"), [("tanh", 100), ("relu", 100), ("elu", 50)])
def test_between_two_sets_is_a_block_of_the_whole(name, n, tol):
    X = mixed_bag(wide=False)[-n:]
    act = activation(name).centred(0.1, 0.9, 1.0)
    whole = kernels(X, act).compute(*Kernel)
    between = kernels(X[:-25], act, Y=X[25:]).compute(*Kernel)
    for a, b in zip(between, whole, strict=True):
        assert a.shape == (n - 25, n - 25)
        # The sets have tables of their own, hence not to rounding.
        assert np.abs(a - b[:-25, 25:]).max() < tol("routes") * np.abs(b).max()


def test_one_new_sample_and_blocks_between_two_sets(tol):
    X = mixed_bag(150, wide=False)
    k = kernels(X[:1], "relu", Y=X)
    assert k.shape == (1, 150)
    np.testing.assert_allclose(k.ntk[0], kernels(X, "relu").ntk[0], rtol=0, atol=tol("routes"))
    wide = kernels(X[:90], "relu", Y=X)
    stacked = np.vstack([block for _, block in wide.blocks("ntk", 40)])
    assert deviation(stacked, wide.ntk) < tol("rounding")
    np.testing.assert_allclose(
        deqcli.explicit_kernels(X[:1], ["tanh"], Y=X).ntk[0],
        deqcli.explicit_kernels(X, ["tanh"]).ntk[0],
        rtol=0,
        atol=tol("routes"),
    )


@pytest.mark.parametrize("n", [2, 60, 130, 700])
@pytest.mark.parametrize("name", ["tanh", "relu"])
def test_symmetric_to_the_last_bit(n, name):
    X = mixed_bag(700, wide=False)[:n]
    for M in kernels(X, name).compute(*Kernel):
        np.testing.assert_array_equal(M, M.T)


def test_each_matrix_is_made_once_and_together_or_alone_the_same():
    X = mixed_bag(150, wide=False)
    k = kernels(X, "swish")
    assert "none yet" in repr(k)
    first = k.ck
    assert k.ck is first
    together = kernels(X, "swish").compute("ntk", "ck", "preactivation-ck", "ck")
    np.testing.assert_array_equal(together[1], first)
    np.testing.assert_array_equal(together[0], k.ntk)
    assert together[1] is together[3]
    assert "150 x 150" in repr(k)
    assert k.shape == (150, 150)


@pytest.mark.parametrize("name", ["tanh", "relu"])
def test_the_relations_between_the_four(name, tol):
    X = mixed_bag(150, wide=False)
    ck, Lambda, ntk, K = kernels(X, name, 0.2, 0.7).compute(*Kernel)
    gram = X @ X.T
    np.testing.assert_allclose(Lambda, 0.2 * ck + 0.7 * gram, rtol=0, atol=tol("rounding") * 10)
    np.testing.assert_allclose(K, 0.2 * ntk + 0.7 * gram, rtol=0, atol=tol("rounding") * 10)


# ---------------------------------------------------------------------------------- special data


def test_data_on_a_sphere_have_one_norm(monkeypatch, tol):
    X = deqcli.sphere(150, 30, np.random.default_rng(0)).X
    matrices = kernels(X, "nrelu").compute("ck", "ntk")
    exact = direct(monkeypatch, lambda: kernels(X, "nrelu").compute("ck", "ntk"))
    for a, b in zip(matrices, exact, strict=True):
        assert deviation(a, b) < tol("routes")
        np.testing.assert_allclose(np.diag(a), a[0, 0], rtol=1e-12)


@pytest.mark.parametrize("name", [pytest.param("tanh", marks=pytest.mark.slow), "relu"])
def test_data_in_one_dimension_are_all_parallel(name, monkeypatch, tol):
    X = np.random.default_rng(0).standard_normal((110, 1))
    matrices = kernels(X, name).compute("ck", "ntk")
    exact = direct(monkeypatch, lambda: kernels(X, name).compute("ck", "ntk"))
    for a, b in zip(matrices, exact, strict=True):
        assert deviation(a, b) < tol("routes")
        assert np.linalg.eigvalsh(a).min() > -tol("psd") * np.linalg.eigvalsh(a).max()


def test_two_samples_and_all_zero_samples():
    assert kernels(np.eye(2), "tanh").ntk.shape == (2, 2)
    np.testing.assert_array_equal(kernels(np.zeros((3, 4)), "relu").ntk, np.zeros((3, 3)))
    constant = kernels(np.zeros((3, 4)), activation("relu").shifted(0.5)).ck
    np.testing.assert_allclose(constant, constant[0, 0], rtol=1e-12)
    assert constant[0, 0] > 0


def test_lists_and_single_precision_are_taken():
    X = [[1, 0], [1, 2], [0, 3]]
    np.testing.assert_array_equal(kernels(X, "tanh").ck, kernels(np.array(X, float), "tanh").ck)
    single = np.array(X, np.float32)
    matrix = kernels(single, "tanh").ck
    assert matrix.dtype == np.float64
    np.testing.assert_array_equal(matrix, kernels(X, "tanh").ck)


def test_the_data_are_left_alone():
    X = mixed_bag(140)
    before = X.copy()
    kernels(X, "relu").compute(*Kernel)
    np.testing.assert_array_equal(X, before)


def clipped(x):
    return np.clip(x, -0.5, 1.3)


@pytest.mark.parametrize(
    ("act", "rows", "scale", "most"),
    [
        ("htanh", 1, 0.0, 400),
        ("htanh", 30, 0.0, 400),
        ("htanh", 3, 20.0, 1000),
        pytest.param(clipped, 1, 0.0, 400, marks=pytest.mark.slow),
    ],
)
def test_a_few_rows_of_other_norms_leave_the_series_to_the_others(
    act, rows, scale, most, monkeypatch
):
    """Near zero, kernels of clipped functions vanish with all their derivatives."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 40)) / np.sqrt(40)
    X[:rows] *= scale
    matrix = KernelMatrix(ImplicitPairs(activation(act), 0.15, 0.85), X)
    solve, solved = matrix.tiles._solve_each, []
    monkeypatch.setattr(matrix.tiles, "_solve_each", lambda e: solved.append(e.i.size) or solve(e))
    made = matrix.rows(0, 300, [Combination(Kernel.CK), Combination(Kernel.NTK)])
    assert sum(solved) < most
    i, j = rng.integers(0, 300, (2, 600))
    i[:300] %= rows
    i, j = i[i != j], j[i != j]
    unit = X / np.where(matrix.x_norm > 0, matrix.x_norm, 1.0)[:, None]
    angle = np.arccos(np.sum(unit[i] * unit[j], axis=1))
    exact = matrix.pairs(matrix.x_norm[i], matrix.x_norm[j], angle)
    for values, expected in zip(made, exact, strict=True):
        np.testing.assert_array_equal(values, values.T)
        assert np.abs(values[i, j] - expected).max() < 1e-12 * np.abs(expected).max()


# ------------------------------------------------------------------------------ threads and memory


@pytest.mark.parametrize("name", ["tanh", "relu"])
def test_the_number_of_threads_does_not_matter(name, tol):
    """Tiles are the same work whoever does it; only the probe that sets a table's range is not."""
    X = mixed_bag(700, 100, wide=False)
    results = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            results.append(kernels(X, name).compute("ck", "ntk"))
    for a, b in zip(*results, strict=True):
        assert deviation(a, b) < tol("rounding")


@pytest.mark.parametrize(("names", "most"), [(("ck",), 1.5), (("ck", "ntk"), 2.7)])
@pytest.mark.parametrize("act", ["relu", "tanh"])
def test_peak_memory_is_the_result_and_a_few_tiles(names, most, act):
    """In units of n x n arrays: 1.3 and 2.3 to 2.6 as measured; four are promised."""
    n = 2000
    X = np.random.default_rng(0).standard_normal((n, 50)) / 7
    # What is imported and cached on first use is not of this kernel.
    kernels(X[:150], act).compute("ck", "ntk")
    tracemalloc.start()
    try:
        # Every thread has tiles of its own: 0.1 more of these small matrices.
        with threadpool_limits(1):
            kernels(X, act).compute(*names)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak / (8 * n * n) < most


def test_blocks_never_hold_the_matrix():
    n = 1500
    X = np.random.default_rng(0).standard_normal((n, 50)) / 7
    tracemalloc.start()
    try:
        for _ in kernels(X, "relu").blocks("ck", 100):
            pass
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak / (8 * n * n) < 0.7


@pytest.mark.parametrize("k", [0, 1, 9])
@pytest.mark.parametrize("keep", [True, False])
def test_products_are_added_as_numpy_does(k: int, keep: bool) -> None:
    rng = np.random.default_rng(k)
    left, right, out = (rng.standard_normal(shape) for shape in [(70, k), (50, k), (70, 50)])
    expected = left @ right.T + keep * out
    add_product(left, right, out, keep)
    np.testing.assert_allclose(out, expected, rtol=1e-13, atol=1e-13)


def test_products_refuse_what_they_would_read_wrongly() -> None:
    square = np.eye(4)
    with pytest.raises(TypeError, match="contiguous"):
        add_product(square[:, ::2], square[:, ::2], np.zeros((4, 4)), keep=True)
    with pytest.raises(ValueError, match="fit"):
        add_product(square, square, np.zeros((4, 3)), keep=True)
    with pytest.raises(ValueError, match="fit"):
        add_product(square, square, np.zeros((4, 4), np.float32), keep=True)


def test_products_leave_the_interpreter_to_other_threads() -> None:
    large, out = np.ones((1500, 1500)), np.zeros((1500, 1500))
    with threadpool_limits(1), ThreadPoolExecutor(1) as pool:
        running = pool.submit(add_product, large, large, out, False)
        turns = 0
        while not running.done():
            turns += 1
            time.sleep(0.001)
    # Whoever keeps the interpreter leaves one turn before and one after.
    assert turns > 5
