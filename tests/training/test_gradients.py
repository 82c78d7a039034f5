"""Gradients against finite differences, in double precision, for every network."""

import numpy as np
import pytest

from deqcli.activations import REGISTRY, activation
from deqcli.training.base import cross_entropy
from deqcli.training.networks import EquilibriumNetwork, ExplicitNetwork

WIDTH, FEATURES, CLASSES, BATCH = 9, 6, 4, 5
STEP = 1e-6
# A central difference of step 1e-6: rounding 1e-16/1e-6 and truncation 1e-12, amplified by the
# solve's own error of 1e-12/1e-6.
TOLERANCE = 2e-6

RNG = np.random.default_rng(5)
X = RNG.standard_normal((BATCH, FEATURES)) / np.sqrt(FEATURES)
Y = RNG.integers(0, CLASSES, BATCH)

# Every activation of the registry; those that need parameters get some.
PARAMETERS = {
    "htanh": "htanh:a=1,c=0.7", "maxlin": "maxlin:a=1.2,b=0.7", "cubic": "cubic:a3=0.1,a2=0.2",
    "hermite": "hermite:c1=1,c2=0.3,c3=0.1",
}  # fmt: skip
ACTS = [PARAMETERS.get(name, name) for name in REGISTRY]
LIPSCHITZ = [name for name in ACTS if np.isfinite(activation(name).lipschitz)]


def deq(act, solver="gauss-seidel"):
    return EquilibriumNetwork(
        activation(act).shifted(0.1), 0.15, 0.85, WIDTH, FEATURES, CLASSES, solver=solver,
        tolerance=1e-12, dtype="float64",
    )  # fmt: skip


def explicit(*acts):
    shifted = [activation(act).shifted(0.1) for act in acts]
    return ExplicitNetwork(shifted, WIDTH, FEATURES, CLASSES, dtype="float64")


def loss_of(network):
    network.forward(X)
    return cross_entropy(network.outputs, Y)


def check(network):
    rng = np.random.default_rng(6)
    network.draw([np.random.default_rng(k) for k in range(len(network.parameters))])
    _, _, delta = loss_of(network)
    network.backward(delta, momentum=0.0)
    gradients = [parameter.velocity.copy() for parameter in network.parameters]
    for parameter, gradient in zip(network.parameters, gradients, strict=True):
        # Partly along the gradient, so that there is a slope to be seen.
        direction = rng.standard_normal(gradient.shape)
        direction += gradient * np.linalg.norm(direction) / np.linalg.norm(gradient)
        kept = parameter.weight.copy()
        losses = []
        for sign in (1, -1):
            parameter.weight[...] = kept + sign * STEP * direction
            losses.append(loss_of(network)[0])
        parameter.weight[...] = kept
        slope = (losses[0] - losses[1]) / (2 * STEP)
        assert abs(slope) > 1e-4  # or the test could not fail
        assert np.sum(gradient * direction) == pytest.approx(slope, rel=TOLERANCE, abs=TOLERANCE)


@pytest.mark.parametrize("act", LIPSCHITZ)
def test_equilibrium(act):
    check(deq(act))


@pytest.mark.parametrize("solver", ["picard", "anderson"])
def test_equilibrium_by_other_solvers(solver):
    check(deq("tanh", solver))


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("layers", [1, 2, 3])
def test_explicit(act, layers):
    check(explicit(*[act] * layers))


def test_explicit_of_different_layers():
    check(explicit("maxlin:a=1.2,b=0.7", "tanh"))


def test_blocks_do_not_change_the_answer():
    found = []
    for solver in ("gauss-seidel", "picard"):
        network = EquilibriumNetwork(
            activation("tanh"), 0.2, 0.8, 600, FEATURES, CLASSES, solver=solver,
            tolerance=1e-12, dtype="float64",
        )  # fmt: skip
        network.draw([np.random.default_rng(k) for k in range(3)])
        _, _, delta = loss_of(network)
        network.backward(delta, 0.0)
        found.append([network.features, *(p.velocity for p in network.parameters)])
    assert len(network.layer.blocks) == 1
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-9 * np.abs(one).max())


def test_momentum_and_rates_are_those_of_standard_normal_weights():
    """Two steps with the weights scaled by hand, as the formula has them."""
    network = explicit("tanh")
    network.draw([np.random.default_rng(k) for k in range(2)])
    factors = [1.0, WIDTH**-0.5]
    theta = [p.weight / c for p, c in zip(network.parameters, factors, strict=True)]
    velocity = [np.zeros_like(t) for t in theta]
    for _ in range(2):
        _, _, delta = loss_of(network)
        hidden = np.tanh(theta[0] @ X.T) - 0.1
        error = (factors[1] * theta[1]).T @ delta * (1 - np.tanh(theta[0] @ X.T) ** 2)
        gradient = [error @ X, factors[1] * delta @ hidden.T]
        network.backward(delta, 0.9)
        network.move(0.7)
        velocity = [0.9 * v + g for v, g in zip(velocity, gradient, strict=True)]
        theta = [t - 0.7 * v for t, v in zip(theta, velocity, strict=True)]
        for parameter, c, t in zip(network.parameters, factors, theta, strict=True):
            np.testing.assert_allclose(parameter.weight, c * t, rtol=1e-9, atol=1e-12)


def test_cross_entropy_of_huge_outputs():
    outputs = np.array([[1e4, -1e4], [0.0, 0.0]])
    loss, right, delta = cross_entropy(outputs, np.array([1, 1]))
    assert loss == pytest.approx(5e3)
    assert right == 1
    np.testing.assert_allclose(delta, [[0.5, 0.0], [-0.5, 0.0]])
