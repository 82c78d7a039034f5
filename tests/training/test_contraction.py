import numpy as np
import pytest

from deqcli.activations import activation
from deqcli.errors import ConvergenceError, ExistenceError, InputError
from deqcli.finite.norm import MARGIN, Guard
from deqcli.training.base import cross_entropy
from deqcli.training.networks import EquilibriumNetwork


def drawn(**changes):
    settings = {"width": 40, "n_features": 5, "n_classes": 3, "dtype": "float64"} | changes
    network = EquilibriumNetwork(activation("tanh"), 0.1, 0.9, **settings)
    network.draw([np.random.default_rng(k) for k in range(3)])
    return network


def test_the_norm_is_followed_from_below():
    rng = np.random.default_rng(0)
    W = 0.3 * rng.standard_normal((60, 60)) / np.sqrt(60)
    guard = Guard(W, 1.0)
    for _ in range(20):
        W += 0.02 * np.outer(*rng.standard_normal((2, 60))) / 60
        assert guard.check() == 0
        exact = np.linalg.norm(W, 2)
        assert 0.9 * exact < guard.norm <= exact * (1 + 1e-12)


@pytest.mark.parametrize("lipschitz", [1.0, 2.0])
def test_only_what_is_too_large_is_clipped(lipschitz):
    rng = np.random.default_rng(1)
    U, V = (np.linalg.qr(rng.standard_normal((30, 30)))[0] for _ in range(2))
    small = np.linspace(0.01, 0.3, 30)
    W = U * small @ V.T
    guard = Guard(W, lipschitz)
    large = small.copy()
    large[-2:] = 1.7, 2.5
    W[...] = U * large @ V.T
    assert guard.check() == 2
    wanted = U * np.minimum(large, MARGIN / lipschitz) @ V.T
    # The two are found by 40 power iterations, not exactly.
    np.testing.assert_allclose(W, wanted, atol=1e-4)


def test_a_network_that_starts_beyond_the_bound_keeps_its_start():
    rng = np.random.default_rng(2)
    W = 0.8 * rng.standard_normal((50, 50)) / np.sqrt(50)
    before = W.copy()
    guard = Guard(W, 1.0)
    assert guard.limit > 1
    assert guard.check() == 0
    np.testing.assert_array_equal(W, before)


def test_zero_weights_are_no_trouble():
    guard = Guard(np.zeros((4, 4)), 1.0)
    assert guard.check() == 0
    assert guard.norm == 0


def test_training_that_leaves_contraction_is_projected_back():
    network = drawn()
    X = np.random.default_rng(0).standard_normal((6, 5))
    directions = np.random.default_rng(1).standard_normal((2, 40)) / np.sqrt(40)
    said = set()
    for _ in range(80):
        network.forward(X)
        network.backward(cross_entropy(network.outputs, np.arange(6) % 3)[2], 0.9)
        network.hidden.velocity[...] = -np.outer(*directions)  # pushes one singular value up
        said.add(network.move(100.0))
    assert said == {"", "projected"}
    # The last look was at the last step.
    assert np.linalg.norm(network.hidden.weight, 2) < 1.0
    network.forward(X)


@pytest.mark.parametrize("solver", ["gauss-seidel", "picard", "anderson"])
def test_statuses_of_both_solves(solver):
    network = drawn(solver=solver, max_iterations=3, tolerance=1e-9)
    X = np.random.default_rng(0).standard_normal((6, 5))
    with pytest.raises(ConvergenceError, match="forward iteration iterations exhausted"):
        network.forward(X)
    before = [p.velocity.copy() for p in network.parameters]
    delta = np.ones((3, 6))
    with pytest.raises(ConvergenceError, match="adjoint iteration iterations exhausted"):
        network.backward(delta, 0.9)
    for parameter, old in zip(network.parameters, before, strict=True):
        np.testing.assert_array_equal(parameter.velocity, old)


def test_divergence_is_a_status():
    relu = EquilibriumNetwork(activation("relu"), 0.1, 0.9, 40, 5, 3)
    relu.draw([np.random.default_rng(k) for k in range(3)])
    relu.hidden.weight[...] = 2.0
    relu.inputs.weight[...] = 1.0
    with pytest.raises(ConvergenceError, match="forward iteration diverged"):
        relu.forward(np.ones((2, 5), np.float32))


def test_what_cannot_be_is_refused():
    with pytest.raises(ExistenceError):
        EquilibriumNetwork(activation("tanh"), 1.2, 0.1, 4, 3, 2)
    with pytest.raises(InputError, match="solver"):
        EquilibriumNetwork(activation("tanh"), 0.1, 0.9, 4, 3, 2, solver="newton")
    with pytest.raises(InputError, match="neuron"):
        drawn(width=0)
