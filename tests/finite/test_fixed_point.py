import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

from deqcli.errors import InputError
from deqcli.finite.fixed_point import FixedPoint, Status, anderson, gauss_seidel, iterate


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    with threadpool_limits(1):
        yield


def layer(sigma_a2, width=200, samples=7, dtype=float, seed=0):
    """A random equilibrium layer: its matrix and the map on rows."""
    rng = np.random.default_rng(seed)
    matrix = (np.sqrt(sigma_a2 / width) * rng.standard_normal((width, width))).astype(dtype)
    bias = rng.standard_normal((samples, width)).astype(dtype)
    return matrix, bias, lambda z: np.tanh(z @ matrix.T + bias)


def picard(step, start, tolerance=1e-6, max_iterations=500):
    """Iterate a map on rows: one block, from a given start."""
    value = start.copy()

    def finish(_, product):
        product[...] = step(product.T).T

    outcome = gauss_seidel(
        np.eye(start.shape[1], dtype=start.dtype), finish, value.T, tolerance, max_iterations,
        blocks=[slice(0, start.shape[1])], warm=True,
    )  # fmt: skip
    return FixedPoint(**vars(outcome), value=value)


def residual(step, value):
    image = step(value)
    return (np.linalg.norm(image - value, axis=1) / np.linalg.norm(image, axis=1)).max()


def equal_blocks(width, count):
    edges = np.linspace(0, width, count + 1).astype(int)
    return [slice(*pair) for pair in itertools.pairwise(edges.tolist())]


def solve_by_blocks(matrix, bias, tolerance, count, max_iterations=500, predict_residual=True):
    value = np.full(bias.T.shape, np.nan, dtype=bias.dtype)

    def finish(block, product):
        product += bias.T[block]
        np.tanh(product, out=product)

    outcome = gauss_seidel(
        matrix,
        finish,
        value,
        tolerance,
        max_iterations,
        blocks=equal_blocks(len(matrix), count),
        predict_residual=predict_residual,
    )
    return outcome, value.T


@pytest.mark.parametrize("solve", [picard, anderson])
@pytest.mark.parametrize("tolerance", [1e-3, 1e-6, 1e-12])
def test_residual_at_the_answer_is_within_the_tolerance(solve, tolerance):
    _, bias, step = layer(0.4)
    found = solve(step, np.zeros_like(bias), tolerance)
    assert found.status is Status.CONVERGED
    assert found.residual <= tolerance
    assert residual(step, found.value) <= tolerance


@pytest.mark.parametrize("sigma_a2", [0.0, 0.05, 0.2, 0.5, 0.8])
@pytest.mark.parametrize("count", [1, 2, 4, 16])
def test_predicted_residual_of_random_layers_is_true(sigma_a2, count):
    for seed in range(5):
        matrix, bias, step = layer(sigma_a2, dtype=np.float32, seed=seed)
        outcome, value = solve_by_blocks(matrix, bias, 1e-6, count)
        assert outcome.converged
        # The solve is in float32, the check in float64.
        assert residual(step, value.astype(float)) <= 1e-6


def test_all_solvers_find_the_same_point():
    matrix, bias, step = layer(0.4)
    by_picard = picard(step, np.zeros_like(bias), 1e-12)
    by_anderson = anderson(step, np.zeros_like(bias), 1e-12)
    outcome, by_blocks = solve_by_blocks(matrix, bias, 1e-12, 4)
    assert outcome.converged
    np.testing.assert_allclose(by_anderson.value, by_picard.value, atol=1e-11)
    np.testing.assert_allclose(by_blocks, by_picard.value, atol=1e-11)


def test_picard_is_gauss_seidel_with_one_block():
    matrix, bias, step = layer(0.4)
    outcome, value = solve_by_blocks(matrix, bias, 1e-8, 1, predict_residual=False)
    found = picard(step, np.zeros_like(bias), 1e-8)
    assert outcome.iterations == found.iterations
    np.testing.assert_allclose(value, found.value, rtol=1e-12)


@pytest.mark.parametrize("count", [1, 4])
def test_a_mask_and_a_warm_start(count):
    matrix, bias, _ = layer(0.4)
    mask = (bias.T > 0).astype(float)
    blocks = equal_blocks(len(matrix), count)

    def finish(block, product):
        product += bias.T[block]

    value = np.empty(bias.T.shape)
    cold = gauss_seidel(matrix, finish, value, 1e-12, 500, blocks=blocks, mask=mask)
    exact = [
        np.linalg.solve(np.eye(200) - matrix * m, b) for m, b in zip(mask.T, bias, strict=True)
    ]
    np.testing.assert_allclose(value.T, exact, atol=1e-9)
    rows = np.ascontiguousarray(value.T) + 1e-6  # their transpose is in Fortran order
    warm = gauss_seidel(matrix, finish, rows.T, 1e-12, 500, blocks=blocks, mask=mask, warm=True)
    np.testing.assert_allclose(rows, exact, atol=1e-9)
    assert warm.iterations < cold.iterations
    assert 0 < cold.contraction < np.linalg.norm(matrix, 2)


def test_blocks_contract_as_the_energy_argument_says():
    # In the wide limit block q turns the squared errors e into e_q = (r2/count) sum(e), in turn.
    width, count = 1200, 4
    rng = np.random.default_rng(0)
    matrix = np.sqrt(0.2 / width) * rng.standard_normal((width, width))
    expected = np.eye(count)
    for q in range(count):
        update = np.eye(count)
        update[q] = 0.2 / count
        expected = update @ expected
    rate = np.sqrt(np.abs(np.linalg.eigvals(expected)).max())
    value = np.empty((width, 5))

    def add_one(block, product):
        product += 1

    def sweeps(tolerance):
        blocks = equal_blocks(width, count)
        return gauss_seidel(matrix, add_one, value, tolerance, 500, blocks=blocks).iterations

    assert sweeps(1e-13) - sweeps(1e-3) == pytest.approx(np.log(1e-10) / np.log(rate), abs=1.5)
    # Picard contracts by sqrt(0.2) only.
    assert np.log(rate) < 1.2 * np.log(np.sqrt(0.2))


def test_anderson_is_fast_where_picard_is_slow():
    slopes = np.array([[0.999, 0.99, 0.9, 0.5, -0.5]])
    start = np.zeros((1, 5))
    found = anderson(lambda z: slopes * z + 1, start, 1e-9)
    assert found.converged
    assert found.iterations < 60
    np.testing.assert_allclose(found.value, 1 / (1 - slopes), rtol=1e-4)
    assert picard(lambda z: slopes * z + 1, start, 1e-9, 300).status is not Status.CONVERGED


def test_anderson_survives_a_system_that_says_nothing():
    # The map is constant: from the second residual on all are exactly zero.
    target = np.arange(6.0).reshape(2, 3)
    found = anderson(lambda z: target + 0 * z, np.zeros((2, 3)), 1e-12)
    assert found.converged
    np.testing.assert_array_equal(found.value, target)


def test_one_sample_does_not_change_another():
    _, bias, _ = layer(0.4)
    matrix, _, _ = layer(0.4)
    both = anderson(lambda z: np.tanh(z @ matrix.T + bias), np.zeros_like(bias), 1e-10)
    alone = anderson(lambda z: np.tanh(z @ matrix.T + bias[:1]), np.zeros_like(bias[:1]), 1e-10)
    np.testing.assert_allclose(both.value[:1], alone.value, atol=1e-9)


@pytest.mark.parametrize("solve", [picard, anderson])
def test_zero_is_a_fixed_point_like_any_other(solve):
    found = solve(lambda z: 0.5 * z, np.zeros((2, 3)))
    assert found.status is Status.CONVERGED
    assert found.residual == 0


@pytest.mark.parametrize(
    ("step", "status"),
    [
        (lambda z: 2 * z + 1, Status.DIVERGED),
        (lambda z: np.exp(z) + 1, Status.DIVERGED),
        (lambda z: np.full_like(z, np.nan), Status.DIVERGED),
        (lambda z: 1 - z, Status.STALLED),
        (lambda z: 0.97 * z + 1, Status.EXHAUSTED),
    ],
)
def test_failure_has_a_name_and_raises_nothing(step, status):
    found = picard(step, np.full((2, 3), 0.1), 1e-9, 200)
    assert found.status is status
    assert not found.converged


def test_overflow_in_single_precision_is_divergence():
    found = picard(lambda z: z * z * 1e3, np.full((1, 1), 10, dtype=np.float32), 1e-6)
    assert found.status is Status.DIVERGED


@settings(max_examples=40, deadline=None)
@given(
    rates=st.lists(st.floats(-0.95, 0.95), min_size=1, max_size=6),
    scale=st.floats(1e-3, 1e3),
)
def test_picard_of_a_linear_contraction(rates, scale):
    slopes = np.array([rates])
    found = picard(lambda z: slopes * z + scale, np.zeros_like(slopes), 1e-10, 2000)
    assert found.converged
    # |z - z*| <= |f(z) - z| / (1 - 0.95)
    exact = scale / (1 - slopes)
    assert np.linalg.norm(found.value - exact) <= 20 * 1e-10 * np.linalg.norm(exact) * 1.01


@pytest.mark.parametrize(
    ("tolerance", "max_iterations", "words"),
    [(0, 10, "tolerance"), (1.0, 10, "tolerance"), (np.nan, 10, "tolerance"), (1e-3, 0, "max_it")],
)
def test_meaningless_limits_are_refused(tolerance, max_iterations, words):
    with pytest.raises(InputError, match=words):
        iterate(lambda: (np.zeros(1), np.ones(1)), tolerance, max_iterations)


def test_a_first_sweep_that_changes_nothing_has_no_contraction():
    from deqcli.finite.fixed_point import _mean_contraction

    assert _mean_contraction([0.0]) == 0.0
    assert _mean_contraction([4.0, 2.0, 1.0]) == 0.5
