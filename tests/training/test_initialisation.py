"""At the start the networks' kernels are the theory's."""

import numpy as np
import pytest

from deqcli.training.trio import trio
from deqcli.vocabulary import Net

N, P, WIDTH = 3, 40, 2000
# Entries of one network's kernels fluctuate by some 5 % in each layer at width 2000 (the square of
# a centred ReLU has a heavy tail), means of several by less. One layer, a DEQ's, needs fewer.
DRAWS = {"deq": 2, "matched": 10, "plain": 10}
TOLERANCE = 0.05

RNG = np.random.default_rng(3)
X = RNG.standard_normal((N, P)) / np.sqrt(P)
SAMPLES = X.astype(np.float32)
# Samples of norm 1, which is all that networks are chosen by.
UNIT = np.eye(3)


def exact_kernel(nets, net, kernel):
    return nets.kernels(net, X).compute(kernel)[0]


def empirical(network):
    """Return both kernels, the tangent kernel from the very gradients that training uses."""
    network.forward(SAMPLES)
    ck = network.features.T @ network.features / WIDTH
    gradients = []
    for i in range(N):
        network.forward(SAMPLES[i : i + 1])
        network.backward(np.ones((1, 1), np.float32), 0.0)
        gradients.append([p.factor * p.velocity.ravel() for p in network.parameters])
    parts = [np.array(part) for part in zip(*gradients, strict=True)]
    return np.array([ck, sum(part @ part.T for part in parts)])


@pytest.mark.parametrize(("act", "sigma_a2"), [("relu", 0.2), ("tanh", 0.1)])
@pytest.mark.parametrize("net", Net)
def test_kernels_match_theory(act, sigma_a2, net):
    nets = trio(act, sigma_a2, 1 - sigma_a2, UNIT, twin="scalars")
    network = nets.network(net, WIDTH, P, 1, tolerance=1e-4)
    total = np.zeros((2, N, N))
    for draw in range(DRAWS[net]):
        network.draw([np.random.default_rng([k, draw]) for k in range(len(network.parameters))])
        total += empirical(network)
    for kernel, found in zip(("ck", "ntk"), total / DRAWS[net], strict=True):
        exact = exact_kernel(nets, net, kernel)
        assert np.linalg.norm(found - exact) < TOLERANCE * np.linalg.norm(exact)


def test_twins_share_the_kernel_they_are_matched_in():
    for kernel in ("ck", "ntk"):
        nets = trio("tanh", 0.2, 0.8, UNIT, kernel, twin="scalars")
        distance = {
            net: np.linalg.norm(exact_kernel(nets, net, kernel) - exact_kernel(nets, "deq", kernel))
            for net in Net
        }
        assert distance["matched"] < 0.05 * np.linalg.norm(exact_kernel(nets, "deq", kernel))
