import dataclasses

import numpy as np
import pytest
from scipy import stats
from scipy.special import erf, expit, ndtr
from threadpoolctl import threadpool_limits

import deqcli
from deqcli.activation_functions import Bound, polynomial
from deqcli.activations import Activation, activation
from deqcli.bench import measure_monte_carlo
from deqcli.errors import ConvergenceError, DataError, InputError
from deqcli.finite import weights
from deqcli.finite.equilibrium import Elementwise, blocks
from deqcli.finite.fixed_point import Status
from deqcli.monte_carlo import Ensemble, Workspace, accumulate
from deqcli.shared_settings import MonteCarloSettings
from deqcli.vocabulary import Kernel

ALL = tuple(Kernel)


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Small matrices are slower on several threads that share a busy machine."""
    with threadpool_limits(1):
        yield


def stream(realization):
    return np.random.default_rng([7, realization])


def data(n=6, p=8, seed=1):
    return np.random.default_rng(seed).standard_normal((n, p)) / np.sqrt(p)


def simulate(X, ensemble, rng):
    return Workspace(X, ensemble).realize(rng)


def dense(X, ensemble, rng):
    """The weights of ``simulate``, and its equilibrium by plain iteration in double precision."""
    m, phi = ensemble.width, ensemble.activation
    B = np.empty((m, X.shape[1]))
    W = np.empty((m, m))
    a = np.empty((m, 1))
    weights.draw(ensemble.weights, rng, B)
    weights.draw(ensemble.weights, rng, W, np.sqrt(ensemble.sigma_a2 / m))
    weights.draw("gaussian", rng, a)
    A = W * np.sqrt(m / ensemble.sigma_a2)
    return A, B, a[:, 0], equilibrium(X, phi, ensemble, A, B)


def equilibrium(X, phi, ensemble, A, B):
    sa, sb = np.sqrt(ensemble.sigma_a2), np.sqrt(ensemble.sigma_b2)
    Z = np.zeros((len(X), len(A)))
    for _ in range(200):
        Z = phi(sa * Z @ A.T + sb * X @ B.T) / np.sqrt(len(A))
    return Z


# One realization against dense linear algebra ------------------------------------------------


@pytest.mark.parametrize("solver", ["gauss-seidel", "picard", "anderson"])
@pytest.mark.parametrize("name", ["tanh", "relu", "erf", "swish"])
def test_kernels_against_dense_solves(name, solver):
    X = data(5, 7)
    phi = activation(name).shifted(0.3)
    settings = Ensemble(
        phi, 0.3, 0.6, 600, kernels=ALL, solver=solver, tolerance=1e-12, dtype="float64"
    )
    one = simulate(X, settings, stream(0))
    A, B, a, Z = dense(X, settings, stream(0))
    m, sa = settings.width, np.sqrt(0.3)
    U = sa * Z @ A.T + np.sqrt(0.6) * X @ B.T
    S = []
    for u in U:
        D = np.diag(phi.derivative(u)) / np.sqrt(m)
        S.append(D @ np.linalg.solve(np.eye(m) - sa * A.T @ D, a))
    S = np.array(S)
    G = Z @ Z.T
    Lambda = 0.3 * G + 0.6 * X @ X.T
    Theta = G + Lambda * (S @ S.T)
    K = 0.3 * Theta + 0.6 * X @ X.T
    for kernel, exact in zip(ALL, (G, Lambda, Theta, K), strict=True):
        np.testing.assert_allclose(one.kernels[kernel], exact, rtol=1e-9, atol=1e-10)


def test_ntk_against_a_jacobian_by_differences():
    X = data(4, 5)
    settings = Ensemble(
        activation("tanh"), 0.2, 0.8, 20, kernels=("ntk",), tolerance=1e-13, dtype="float64"
    )
    one = simulate(X, settings, stream(3))
    A, B, a, Z = dense(X, settings, stream(3))
    step, jacobian = 1e-5, [Z]
    for matrix in (A, B):
        for index in np.ndindex(*matrix.shape):
            sides = []
            for sign in (1, -1):
                matrix[index] += sign * step
                sides.append(equilibrium(X, np.tanh, settings, A, B) @ a)
                matrix[index] -= sign * step
            jacobian.append((sides[0] - sides[1])[:, None] / (2 * step))
    J = np.hstack(jacobian)
    # Central differences of step h are right to h^2.
    np.testing.assert_allclose(one.kernels["ntk"], J @ J.T, rtol=1e-8, atol=1e-9)


def test_solver_statistics_are_reported():
    settings = Ensemble(activation("tanh"), 0.2, 0.8, 500, kernels=("ntk",))
    one = simulate(data(), settings, stream(0))
    for outcome in (one.forward, one.adjoint):
        assert outcome.status is Status.CONVERGED
        assert 0 < outcome.residual <= 1e-6
        assert 5 < outcome.iterations < 20
    assert (
        simulate(data(), dataclasses.replace(settings, kernels=("ck",)), stream(0)).adjoint is None
    )


# Averages against infinite width ---------------------------------------------------------------


def check_average(total, limits, tolerance):
    assert total.converged == len(total.records)
    for kernel, limit in limits.items():
        scale = limit.diagonal().max()
        np.testing.assert_allclose(total.mean(kernel) / scale, limit / scale, atol=tolerance)


@pytest.mark.parametrize("law", ["gaussian", "rademacher", "student-t"])
def test_linear_network_has_closed_forms(law):
    # phi = x: G = Lambda = c XX' with c = sb2/(1 - sa2); Theta = c XX' (1 + 1/(1 - sa2)), as
    # s.s -> 1/(1 - sa2); K = c XX'/(1 - sa2).
    X, sa2, sb2 = data(), 0.3, 0.9
    settings = Ensemble(activation("identity"), sa2, sb2, 400, weights=law, kernels=ALL)
    total = accumulate(X, settings, range(200), stream)
    c, gram = sb2 / (1 - sa2), X @ X.T
    factors = (c, c, c * (1 + 1 / (1 - sa2)), c / (1 - sa2))
    limits = {kernel: f * gram for kernel, f in zip(ALL, factors, strict=True)}
    # Entries fluctuate by a few m^{-1/2} R^{-1/2} = 0.0035 and are biased by O(1/m).
    check_average(total, limits, 0.02)


def arc_cosine_limit(X, sa2, sb2):
    """Infinite width for relu, by the recursion on the whole matrix (Cho and Saul 2009)."""
    gram = sb2 * X @ X.T
    Lambda = gram
    for _ in range(200):
        size = np.sqrt(np.outer(Lambda.diagonal(), Lambda.diagonal()))
        angle = np.arccos(np.clip(Lambda / size, -1, 1))
        G = size * (np.sin(angle) + (np.pi - angle) * np.cos(angle)) / (2 * np.pi)
        Lambda = sa2 * G + gram
    slope = (np.pi - angle) / (2 * np.pi)
    Theta = G + Lambda * slope / (1 - sa2 * slope)
    return dict(zip(ALL, (G, Lambda, Theta, sa2 * Theta + gram), strict=True))


@pytest.mark.parametrize("law", ["gaussian", "rademacher", "student-t"])
def test_relu_network_approaches_the_arc_cosine_fixed_point(law):
    X, sa2, sb2 = data(), 0.5, 0.7
    settings = Ensemble(activation("relu"), sa2, sb2, 800, weights=law, kernels=ALL)
    total = accumulate(X, settings, range(120), stream)
    check_average(total, arc_cosine_limit(X, sa2, sb2), 0.02)


def test_zero_sigma_a2_is_a_shallow_network():
    X = data()
    settings = Ensemble(activation("erf"), 0.0, 1.0, 400, kernels=ALL)
    total = accumulate(X, settings, range(100), stream)
    gram = X @ X.T
    norm = 1 + 2 * gram.diagonal()
    limit = 2 / np.pi * np.arcsin(2 * gram / np.sqrt(np.outer(norm, norm)))
    check_average(total, {"ck": limit, "preactivation_ck": gram, "preactivation_ntk": gram}, 0.02)


# Precision, order, failure ---------------------------------------------------------------------


@pytest.mark.parametrize("name", ["relu", "tanh", "erf", "swish", "gelu", "lrelu"])
def test_single_precision_is_far_below_the_sampling_error(name):
    X = data(40, 60)
    single = Ensemble(activation(name), 0.2, 0.8, 500, kernels=ALL)
    double = dataclasses.replace(single, dtype="float64", tolerance=1e-12)
    one, exact = simulate(X, single, stream(0)), simulate(X, double, stream(0))
    other = simulate(X, single, stream(1))
    for kernel in ALL:
        error = np.linalg.norm(one.kernels[kernel] - exact.kernels[kernel], 2)
        sampling = np.linalg.norm(one.kernels[kernel] - other.kernels[kernel], 2)
        # An average of 10^6 realizations would still not see it.
        assert error < 1e-3 * sampling / 2, kernel


def test_total_does_not_depend_on_portions_or_order():
    settings = Ensemble(activation("tanh"), 0.2, 0.8, 300, kernels=("ck", "ntk"))
    X = data()
    whole = accumulate(X, settings, range(7), stream)
    portions = [[5, 3], [6, 0], [1], [4, 2]]
    parts = [accumulate(X, settings, portion, stream) for portion in portions]
    assert sum(part.converged for part in parts) == whole.converged == 7
    for kernel in ("ck", "ntk"):
        total = sum(part.sums[kernel] for part in parts)
        assert total.tobytes() == whole.sums[kernel].tobytes()
    for portion, part in zip(portions, parts, strict=True):
        assert part.records == tuple(whole.records[k] for k in portion)


def test_sums_are_those_of_single_realizations():
    settings = Ensemble(activation("tanh"), 0.2, 0.8, 300, kernels=ALL)
    X = data()
    total = accumulate(X, settings, range(5), stream)
    for kernel in ALL:
        each = [simulate(X, settings, stream(k)).kernels[kernel] for k in range(5)]
        # Five roundings to multiples of 2^-34 of the scale, which is at most 2 here.
        np.testing.assert_allclose(total.sums[kernel], sum(each), rtol=0, atol=5 * 2.0**-34)


@pytest.mark.parametrize("solver", ["gauss-seidel", "picard", "anderson"])
@pytest.mark.parametrize(("name", "sigma_a2"), [("relu", 4.0), ("tanh", 40.0), ("quadratic", 4.0)])
def test_divergence_is_reported_and_left_out(name, sigma_a2, solver):
    settings = Ensemble(activation(name), sigma_a2, 1.0, 200, solver=solver, max_iterations=200)
    total = accumulate(data(), settings, range(3), stream)
    assert total.converged == 0
    assert not total.sums["ck"].any()
    assert len(total.records) == 3
    assert all(record.forward.status is not Status.CONVERGED for record in total.records)
    with pytest.raises(ConvergenceError, match="none of 3 realizations"):
        total.mean("ck")


def test_only_converged_realizations_are_added():
    free = Ensemble(activation("relu"), 0.4, 0.6, 50)
    X = data()
    needed = [simulate(X, free, stream(k)).forward.iterations for k in range(12)]
    limit = int(np.median(needed))
    settings = dataclasses.replace(free, max_iterations=limit)
    total = accumulate(X, settings, range(12), stream)
    kept = [k for k in range(12) if needed[k] <= limit]
    assert 0 < len(kept) < 12
    assert [k for k, record in enumerate(total.records) if record.converged] == kept
    assert total.converged == len(kept)
    assert {r.forward.status for r in total.records} == {Status.CONVERGED, Status.EXHAUSTED}
    same = accumulate(X, free, kept, stream)
    np.testing.assert_array_equal(total.sums["ck"], same.sums["ck"])


def test_failed_adjoint_leaves_the_realization_out():
    # The forward map is constant, the derivative that the adjoint is given is not.
    odd = Activation("odd", Bound(polynomial, (0.0,)), Bound(polynomial, (5.0,)))
    settings = Ensemble(odd, 0.5, 0.5, 100, kernels=("ntk",))
    one = simulate(data(), settings, stream(0))
    assert one.forward.converged
    assert not one.adjoint.converged
    assert not one.converged
    assert one.kernels == {}


def test_duplicated_opposite_and_zero_samples():
    x = data(1, 8)
    X = np.vstack([x, x, -x, 0 * x])
    one = simulate(X, Ensemble(activation("tanh"), 0.2, 0.8, 300, kernels=ALL), stream(0))
    G = one.kernels["ck"]
    np.testing.assert_allclose(G[0, :3], G[0, 0] * np.array([1, 1, -1]), rtol=1e-5)
    np.testing.assert_array_equal(G[3], 0)


def test_no_realizations_add_up_to_zero():
    empty = accumulate(data(), Ensemble(activation("tanh"), 0.2, 0.8, 50), [], stream)
    assert not empty.sums["ck"].any()
    assert (empty.converged, empty.records) == (0, ())


def test_names_may_be_text_in_either_spelling():
    names = {"weights": "student_t", "kernels": ("preactivation_ntk",), "solver": "gauss_seidel"}
    text = Ensemble(activation("tanh"), 0.2, 0.8, 50, **names)
    assert text.kernels == (Kernel.PREACTIVATION_NTK,)
    total = accumulate(data(), text, [0], stream)
    assert list(total.sums) == [Kernel.PREACTIVATION_NTK]
    np.testing.assert_array_equal(total.mean("preactivation_ntk"), total.mean("preactivation-ntk"))


# The laws, the activations in place, the blocks ------------------------------------------------


@pytest.mark.parametrize(
    ("law", "distribution"),
    [("gaussian", stats.norm()), ("student-t", stats.t(6, scale=1.5**-0.5))],
)
def test_continuous_laws(law, distribution):
    out = np.empty((333, 1001), dtype=np.float32)
    weights.draw(law, np.random.default_rng(0), out)
    assert stats.kstest(out.ravel(), distribution.cdf).pvalue > 1e-3
    # The fourth moment of student-t has no variance, so only the second is checked: 5 deviations.
    spread = np.sqrt((5 if law == "student-t" else 2) / out.size)
    assert abs(np.mean(out.astype(float) ** 2) - 1) < 5 * spread
    assert abs(out.mean(dtype=float)) < 5 / np.sqrt(out.size)
    # Neighbours, and the two halves of a chunk (cosine and sine), are uncorrelated.
    flat = out.ravel().astype(float)
    for lag in (1, 1 << 15, 1 << 16, 1001):
        assert abs(np.mean(flat[lag:] * flat[:-lag])) < 5 / np.sqrt(flat.size - lag)


def test_rademacher_law():
    out = np.empty((333, 1001), dtype=np.float32)
    weights.draw("rademacher", np.random.default_rng(0), out, scale=0.25)
    assert set(np.unique(out)) == {-0.25, 0.25}
    assert abs(out.mean(dtype=float)) < 5 * 0.25 / np.sqrt(out.size)


@pytest.mark.parametrize("law", ["gaussian", "rademacher", "student-t"])
@pytest.mark.parametrize("size", [0, 1, 7, 65536, 65537])
def test_weights_do_not_depend_on_precision(law, size):
    single, double = np.empty(size, dtype=np.float32), np.empty(size)
    for out in (single, double):
        weights.draw(law, np.random.default_rng(5), out, scale=0.3)
    np.testing.assert_array_equal(single, double)


@pytest.mark.parametrize(
    ("name", "exact"),
    [
        ("relu", lambda x: np.maximum(x, 0)),
        ("tanh", np.tanh),
        ("erf", erf),
        ("swish", lambda x: x * expit(x)),
        ("gelu", lambda x: x * ndtr(x)),
    ],
)
def test_fast_forms(name, exact):
    x = np.linspace(-30, 30, 100_003, dtype=np.float32)
    values = x.copy()
    Elementwise(activation(name).shifted(0.25), values.dtype).value(values)
    true = exact(x.astype(float)) - 0.25
    # Four roundings of the argument or of 1, whichever is larger.
    assert (np.abs(values - true) / np.maximum(1, np.abs(x))).max() < 2.5e-7


def test_a_namesake_is_not_mistaken_for_the_registered_function():
    x = np.array([0.5, 2.0], dtype=np.float32)
    mine = Activation("erf", np.sin, np.cos)
    values = x.copy()
    Elementwise(mine, values.dtype).value(values)
    np.testing.assert_array_equal(values, np.sin(x))


@pytest.mark.parametrize("width", [1, 2, 63, 128, 1000, 1024, 1100, 5000])
def test_blocks_cover_the_neurons_once(width):
    for solver in ("gauss-seidel", "picard"):
        covered = np.concatenate([np.arange(width)[block] for block in blocks(width, solver)])
        np.testing.assert_array_equal(covered, np.arange(width))


@pytest.mark.parametrize("threads", [1, 2])
def test_bench_has_its_columns(threads):
    table = measure_monte_carlo(12, 10, 300, ("relu", "sin"), repeats=1, threads=threads)
    assert table["activation"].tolist() == ["relu", "sin"]
    numbers = table.drop(columns="activation")
    assert np.isfinite(numbers.to_numpy(dtype=float)).all()
    ratio = table["naive_float64_seconds"] / table["engine_seconds"]
    np.testing.assert_allclose(table["speedup_over_naive"], ratio)


# Wrong input -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"sigma_a2": -0.1}, "sigma_a2"),
        ({"sigma_a2": 1e40}, "sigma_a2. is 1e.40; give a finite number .*at most 1e.30"),
        ({"sigma_b2": np.nan}, "sigma_b2"),
        ({"width": 0}, "width"),
        ({"weights": "gausian"}, "did you mean gaussian"),
        ({"weights": "cauchy"}, "choose from gaussian"),
        ({"kernels": ()}, r"`kernels` is \(\); name some of"),
        ({"kernels": ("ckk",)}, "`kernels` is 'ckk'"),
        ({"solver": "newton"}, "`solver` is 'newton'"),
        ({"dtype": "float16"}, "`dtype` is 'float16'"),
        ({"tolerance": 1e-9}, "or `dtype` float64"),
        ({"tolerance": 0.0}, "tolerance"),
        ({"tolerance": 2.0}, "tolerance"),
        ({"max_iterations": 0}, "max_iterations"),
    ],
)
def test_bad_settings_are_refused_in_one_sentence(change, words):
    good = Ensemble(activation("tanh"), 0.2, 0.8, 50)
    with pytest.raises(InputError, match=words) as caught:
        dataclasses.replace(good, **change)
    assert str(caught.value).count(". ") == 0
    assert str(caught.value).endswith((".", "?"))


@pytest.mark.parametrize("realizations", [3, np.array(0.1), [0.5], [-1], None])
def test_bad_realizations_are_refused(realizations):
    ensemble = Ensemble(activation("tanh"), 0.2, 0.8, 50)
    with pytest.raises(InputError, match="`realizations` is"):
        accumulate(np.eye(2), ensemble, realizations, np.random.default_rng)


@pytest.mark.parametrize("X", [np.zeros(3), np.zeros((0, 3)), np.zeros((3, 0)), [[1.0, np.nan]]])
def test_bad_data_are_refused(X):
    with pytest.raises(DataError, match="X"):
        simulate(X, Ensemble(activation("tanh"), 0.2, 0.8, 50), stream(0))


@pytest.mark.parametrize("kernel", ["ck", "ntk"])
@pytest.mark.parametrize("name", ["tanh", "relu"])
def test_the_default_tolerance_biases_averages_far_less_than_sampling(name, kernel):
    """The same networks solved to the default and to rounding: the difference is the bias."""
    X = deqcli.GaussianMixture.papers(100).sample(80, np.random.default_rng(0)).X
    act = deqcli.activation(name).centred(0.1, 0.9, 1.0)
    settings, count = MonteCarloSettings(), 40

    def average(tolerance):
        ensemble = Ensemble(act, 0.1, 0.9, width=100, kernels=(kernel,), tolerance=tolerance)
        return accumulate(X, ensemble, range(count), np.random.default_rng).mean(kernel)

    fine = average(1e-6)
    bias = deqcli.operator_distance(average(settings.tolerance), fine)
    (exact,) = deqcli.implicit_kernels(X, act, 0.1).compute(kernel)
    sampling = deqcli.operator_distance(fine, exact) * np.sqrt(count / settings.realizations)
    assert 0 < 30 * bias < sampling


def test_the_default_tolerance_follows_the_number_of_networks():
    assert MonteCarloSettings().tolerance == pytest.approx(5e-4)
    assert MonteCarloSettings(realizations=10).tolerance == 1e-3
    assert MonteCarloSettings(realizations=100_000).tolerance == pytest.approx(2e-6)
    assert MonteCarloSettings(realizations=10, tolerance=1e-5).tolerance == 1e-5
