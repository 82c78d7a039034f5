"""Layers by numbers against the library's exact kernels, and twins that are fitted to data."""

import json

import numpy as np
import pytest

import deqcli
from deqcli.activations import Activation, activation
from deqcli.data.mixture import GaussianMixture
from deqcli.equivalents import operator_distance, operator_norm
from deqcli.errors import InputError
from deqcli.gaussian import hermite_coefficients, second_moments
from deqcli.kernels.exact import explicit_kernels, implicit_kernels
from deqcli.matching import Distances, judge, match
from deqcli.matching.fit import Problem, choose_design
from deqcli.matching.layers import KNOTS, NUMBERS, Pairs, network_pairs, project, series
from deqcli.matching.layers import to_activation as layer
from deqcli.vocabulary import Kernel

pytestmark = pytest.mark.filterwarnings("ignore::deqcli.errors.OutsidePapersRangeWarning")

LAYERS = {
    "htanh": [0.1, 0.9, 1.3],
    "lrelu": [-0.2, 0.8, 0.3],
    "spline": [0.1, 0.3, 0.2, -0.1, 0.5, 0.3, -0.4],
    "quadratic": [0.1, 0.8, 0.3],
    "cubic": [0.1, 0.8, 0.2, -0.1],
    "quintic": [0.1, 0.8, 0.2, -0.1, 0.05, 0.03],
}


def spread(n=120, p=12, seed=0):
    """Rows whose norms and angles vary, as those of images do."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)) * np.linspace(2, 0.2, p)
    X *= rng.uniform(0.6, 1.5, (n, 1))
    return X / np.sqrt(np.mean(np.sum(X**2, axis=1)))


@pytest.mark.parametrize("family", LAYERS)
def test_series_of_a_layer_is_that_of_quadrature(family):
    w, unit = np.array([0.4, 1.0, 2.2]), 1.7
    ours = series(family, np.array(LAYERS[family]), w)
    act = layer(family, np.array(LAYERS[family]), unit)
    terms, _ = hermite_coefficients(act, unit * w, len(ours.terms) - 1)
    # A layer has the sign that the registry can write.
    assert np.abs(ours.terms) == pytest.approx(np.abs(terms.T), abs=1e-10)
    second, slope2 = second_moments(act, unit * w)
    assert ours.second == pytest.approx(second, rel=1e-10)
    assert ours.slope2 == pytest.approx(slope2 * unit**2, rel=1e-10)


def test_a_layer_is_written_convex_and_rising():
    """No kernel knows its sign, nor which way round it is: one of four is taken."""
    x = np.linspace(-2, 2, 9)
    assert layer("lrelu", np.array([0.3, 0.5, -0.7]), 1.0)(x) == pytest.approx(
        -0.3 + 0.5 * x + 0.7 * np.abs(x)
    )
    assert layer("cubic", np.array([0.1, -0.5, 0.2, 0.3]), 1.0)(x) == pytest.approx(
        layer("cubic", np.array([0.1, 0.5, 0.2, -0.3]), 1.0)(x)
    )


def test_negative_numbers_of_htanh_turn_it_round():
    numbers, signs = np.array(LAYERS["htanh"]), [(1, -1), (-1, 1), (-1, -1)]
    w = np.array([0.4, 1.0, 2.2])
    straight = series("htanh", numbers, w)
    for a, c in signs:
        turned = numbers * [1, a, c]
        assert layer("htanh", turned, 1.7).name == layer("htanh", numbers, 1.7).name
        ours = series("htanh", turned, w)
        assert np.abs(ours.terms) == pytest.approx(np.abs(straight.terms), abs=1e-14)
        assert ours.second == pytest.approx(straight.second, rel=1e-14)
        assert ours.slope2 == pytest.approx(straight.slope2, rel=1e-14)


def test_a_row_that_is_far_longer_is_an_answer():
    """The fit of H-Tanh ends at a negative number there; other families are tried after it."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 8)) * rng.uniform(0.5, 2, (60, 1))
    X[-1] *= 1000
    twin = match("tanh", 0.1, X=X)
    assert [each.family for each in twin.alternatives][:3] == ["htanh", "lrelu", "spline"]
    assert twin.alternatives[0].worst < 1
    assert "the nearest" in twin.reason


@pytest.mark.parametrize("tangent", [False, True])
@pytest.mark.parametrize("family", LAYERS)
def test_pair_kernels_are_the_exact_ones(family, tangent):
    X, tau0 = spread(25), 0.9
    norms = np.linalg.norm(X, axis=1)
    i, j = np.triu_indices(25, 1)
    pairs = Pairs(norms, i, j, np.einsum("mp,mp->m", X[i], X[j]) / (norms[i] * norms[j]))
    numbers = [np.array(LAYERS[family])] * 2
    own, mixed, units = network_pairs(family, numbers, tau0, pairs, tangent)
    acts = [layer(family, x, t) for x, t in zip(numbers, units[:-1], strict=True)]
    exact = explicit_kernels(X, acts).compute(Kernel.NTK if tangent else Kernel.CK)[0]
    assert own == pytest.approx(np.diagonal(exact), rel=1e-9)
    # Polynomials end; the series of kinked layers is cut, and slopes converge slowly.
    kinked = family in ("htanh", "lrelu", "spline")
    bound = (2e-2 if tangent else 2e-3) if kinked else 1e-9
    assert np.abs(mixed - exact[i, j]).max() < bound * np.abs(exact).max()


@pytest.mark.parametrize("family", LAYERS)
def test_projection_recovers_a_layer(family):
    numbers = np.array(LAYERS[family])
    assert project(family, layer(family, numbers, 1.3), 1.3) == pytest.approx(numbers, abs=1e-6)
    assert len(numbers) == NUMBERS[family]


@pytest.mark.parametrize("tangent", [False, True])
@pytest.mark.parametrize("family", ["lrelu", "spline", "quintic"])
def test_a_network_of_the_family_is_found_again(family, tangent):
    X = spread(60)
    act = layer(family, np.array(LAYERS[family]), 1.0)
    kernel = explicit_kernels(X, [act]).compute(Kernel.NTK if tangent else Kernel.CK)[0]
    problem = Problem(X, kernel, tangent, 1.0, 0)
    found = problem.fit(family, 1, [(activation("gelu"),), (activation("tanh"),)])
    # What is left is the cut of the series.
    assert found.distance < (1e-8 if family == "quintic" else 5e-3)


@pytest.mark.parametrize(
    ("name", "kernel"),
    [
        ("gelu", "ck"),
        ("tanh", "preactivation-ck"),
        pytest.param("tanh", "ntk", marks=pytest.mark.slow),
        ("gelu", "preactivation-ntk"),
    ],
)
def test_all_four_kernels_on_other_rows(name, kernel):
    X = spread()
    twin = match(name, 0.2, kernel=kernel, X=X)
    assert twin.within
    assert twin.distance <= 0.01 < twin.plain_distance
    # An independent measurement on the rows that were left out.
    held = X[twin.design.others]
    assert np.intersect1d(twin.design.rows, twin.design.others).size == 0
    tau0 = np.sqrt(np.mean(np.sum(X**2, axis=1)))
    act = activation(name).centred(0.2, 0.8, tau0)
    deq = implicit_kernels(held, act, 0.2).compute(kernel)[0]
    ours = explicit_kernels(held, twin.acts).compute(twin.twin_kernel)[0]
    assert twin.distance == pytest.approx(operator_distance(deq, ours) / operator_norm(deq))
    assert twin.frobenius == pytest.approx(np.linalg.norm(deq - ours) / np.linalg.norm(deq))


def test_the_fit_is_nearer_than_the_scalars():
    # sin at 0.2: the scalars' twin is H-Tanh, which bends the wrong way as norms grow.
    X = spread()
    scalars = match("sin", 0.2, tau0=1.0)
    fitted = match("sin", 0.2, tau0=1.0, X=X)
    held = X[fitted.design.others]
    deq = implicit_kernels(held, fitted.act, 0.2).ck
    distances = [
        operator_distance(deq, explicit_kernels(held, m.acts).ck) for m in (scalars, fitted)
    ]
    assert distances[1] < 0.2 * distances[0]


@pytest.mark.parametrize(
    ("name", "kernel", "family"), [("tanh", "ck", "htanh"), ("relu", "ntk", "quintic")]
)
def test_the_range_of_norms_is_one(name, kernel, family):
    X, limit = spread(60), 0.05
    twin = match(name, 0.1, kernel=kernel, X=X, family=family, layers=1, within=limit)
    held = X[twin.design.others]
    unit = np.sqrt(np.mean(np.sum(held**2, axis=1)))

    def distance(norm):
        rows = held * norm / unit
        deq = implicit_kernels(rows, twin.act, 0.1).compute(kernel)[0]
        ours = explicit_kernels(rows, twin.acts).compute(kernel)[0]
        return operator_distance(deq, ours) / operator_norm(deq)

    low, high = twin.norms_range
    assert distance(unit) == pytest.approx(twin.distance)
    assert low < unit < high
    # Both ends are found to 4 %, or are those of the search.
    assert max(distance(0.96 * high), distance(1.04 * low)) < limit
    assert high == pytest.approx(2 * unit) or limit < distance(1.04 * high)
    assert low == pytest.approx(unit / 2) or limit < distance(0.96 * low)
    assert (low, high) != pytest.approx((unit / 2, 2 * unit))


def test_what_is_too_far_has_no_range():
    twin = match("relu", 0.2, X=spread(40), family="htanh", within=0.01)
    assert twin.norms_range is None


def test_auto_goes_on_where_other_rows_are_too_far():
    """One layer of L-ReLU is within 0.0095 on the design, and not on the other rows."""
    twin = match("relu", 0.2, kernel="ntk", X=spread(30), within=0.0095)
    first, near, last = twin.alternatives
    assert (first.family, near.family, last.family) == ("htanh", "lrelu", "spline")
    assert near.feasible
    assert near.worst < 0.0095 < float(near.reason.split(", ")[1].split()[0])
    assert twin.within
    assert twin.family == "spline"
    assert "which chose it among 2 networks" in twin.reason
    # Asked for more than any has, it names the nearest of all.
    none = match("relu", 0.2, kernel="ntk", X=spread(30), within=0.004, layers=1)
    assert (none.within, none.family, len(none.alternatives)) == (False, "spline", 4)
    assert none.norms_range is None


def test_the_same_seed_gives_the_same_twin():
    X = spread()
    asked = {"family": "lrelu", "layers": 1, "X": X}
    first, second, other = (match("gelu", 0.1, seed=seed, **asked) for seed in (3, 3, 4))
    assert first.names == second.names
    assert first.names != other.names
    assert first.design.rows.tolist() != other.design.rows.tolist()


def test_auto_takes_a_larger_network_where_more_is_asked():
    X = GaussianMixture.papers(60).sample(50, np.random.default_rng(0)).X
    loose, tight = (match("swish", 0.2, kernel="ntk", X=X, within=limit) for limit in (0.3, 0.01))
    assert len(loose.alternatives) < len(tight.alternatives)
    assert tight.distance < loose.distance


def test_what_is_not_within_is_said():
    twin = match("relu", 0.2, X=spread(), family="htanh", within=0.001)
    assert not twin.within
    assert not twin.feasible
    assert twin.acts
    for words in ("within 0.001", "the nearest", "a plain network", "was not tried",
                  "more rows", "`within`"):  # fmt: skip
        assert words in twin.reason


def test_advice_can_be_followed():
    """H-Tanh has one layer, and `within` is below 1."""
    twin = match("relu", 0.2, X=spread(40), family="htanh")
    assert "two layers" not in twin.reason
    far = judge(twin, Distances(1.3, 1.2, 0.4, 20))
    assert "no less than" not in far.suggestion
    assert "the plain network, which is nearer" in far.suggestion
    assert "no less than `within` 0.84" in judge(twin, Distances(0.8, 0.7, 0.4, 20)).suggestion


def test_the_record_states_the_design():
    record = json.loads(json.dumps(match("relu", 0.1, X=spread()).as_record()))
    assert record["design"] == {"rows": 60, "pairs": 1770, "held_out": 60, "seed": 0}
    assert record["limit"] == 0.01
    assert record["distance"] < 0.01
    assert len(record["plain"]) == record["layers"]


def test_the_design_has_the_extreme_norms():
    X = spread(500)
    norms = np.linalg.norm(X, axis=1)
    design = choose_design(X, 0)
    assert design.rows.size == 200
    assert {int(norms.argmin()), int(norms.argmax())} <= set(design.rows.tolist())


def test_a_function_of_one_s_own_on_scaled_data():
    act = Activation.from_function(lambda x: x / (1 + np.abs(x)), kinks=(0.0,), name="softsign")
    twin = match(act, 0.2, X=3 * spread(40), family="spline", layers=1)
    assert twin.distance < 0.05


def test_spline_is_an_activation_of_the_registry():
    act = activation("spline:slope=0.5,k1=1,d1=1,k2=-1,d2=-0.25")
    x = np.array([-3.0, -1.0, 0.0, 1.0, 3.0])
    assert act(x).tolist() == [-1.5, -0.5, -0.25, 0.0, 2.5]
    assert act.kinks == (-1.0, 1.0)
    assert act.lipschitz == 1.25
    assert act.derivative(np.array([-2.0, 0.0, 2.0])).tolist() == [0.5, 0.25, 1.25]
    assert len(KNOTS) == NUMBERS["spline"] - 2


@pytest.mark.parametrize(
    ("X", "words"),
    [
        (spread(19), "19 row.s.; give at least 20"),
        (np.ones((30, 4)), "all the same"),
        (np.zeros((30, 4)), "all the same"),
        (deqcli.sphere(30, 5, np.random.default_rng(0)).X, "all of norm 1; .* match_sphere"),
        (1e-60 * spread(30), "too small; scale it up"),
        (1e-200 * spread(30), "too small; scale it up"),
        (np.full((30, 4), np.nan), "not finite"),
        (np.zeros(30), "matrix"),
    ],
)
def test_data_that_cannot_be_matched_on(X, words):
    with pytest.raises(InputError, match=words):
        match("tanh", 0.1, X=X)


def test_requests_that_cannot_be_met():
    X = spread(30)
    with pytest.raises(InputError, match="equilibrium"):
        match("tanh", 1.1, X=X)
    with pytest.raises(InputError, match="`within` is 0"):
        match("tanh", 0.1, X=X, within=0.0)
    with pytest.raises(InputError, match="`seed` is -1"):
        match("tanh", 0.1, X=X, seed=-1)
    with pytest.raises(InputError, match="fitted to data"):
        match("tanh", 0.1, family="spline")


@pytest.mark.slow
@pytest.mark.parametrize("source", ["gmm", "mnist", "fashion-mnist"])
def test_what_was_promised_on_real_data(source):
    rng = np.random.default_rng(5)
    if source == "gmm":
        X = GaussianMixture.papers(1000).sample(700, rng).X
    else:
        try:
            X = deqcli.load(source, n=700, seed=5).X
        except deqcli.errors.DataError:
            pytest.skip("the data set is not here")
    for name, sigma_a2 in (("sin", 0.2), ("gelu", 0.1), ("tanh", 0.1), ("relu", 0.2)):
        assert match(name, sigma_a2, X=X).distance < 0.01
    for name, sigma_a2 in (("relu", 0.2), ("swish", 0.15), ("tanh", 0.1), ("gelu", 0.1)):
        assert match(name, sigma_a2, kernel="ntk", X=X).distance < 0.03
