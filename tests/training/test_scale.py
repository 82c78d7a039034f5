"""Networks at equal scale start with equal outputs and learn at equal speed."""

import numpy as np
import pytest

from deqcli.training.scale import equal_scale
from deqcli.training.trio import trio
from deqcli.vocabulary import Net

N, P, WIDTH, DRAWS = 5, 40, 700, 10
RNG = np.random.default_rng(5)
# Norms differ: it is means that are made equal.
X = RNG.standard_normal((N, P)) / np.sqrt(P) * np.linspace(0.7, 1.3, N)[:, None]
SAMPLES = X.astype(np.float32)


def measure(net, train, act, scaled=True):
    """Return the mean squared output and the mean squared gradient times the rate, of networks."""
    nets = trio(act, 0.2, 0.8, X, "ck", twin="scalars")
    network = nets.network(net, WIDTH, P, 4, tolerance=1e-4)
    if scaled:
        scale = equal_scale(nets, net, X, train)
        network.rescale(scale.gain, scale.rate)
    squares = np.zeros(2)
    for draw in range(DRAWS):
        network.draw([np.random.default_rng([k, draw]) for k in range(len(network.parameters))])
        for i in range(N):
            network.forward(SAMPLES[i : i + 1])
            squares[0] += np.mean(network.outputs**2)
            network.backward(np.eye(4, 1, dtype=np.float32), 0.0)
            trained = network.parameters if train == "all" else network.parameters[-1:]
            gradient2 = sum(p.factor**2 * np.sum(p.velocity.astype(float) ** 2) for p in trained)
            squares[1] += network.rate * gradient2
    return squares / (DRAWS * N)


@pytest.mark.parametrize("act", ["relu", "tanh"])
@pytest.mark.parametrize("train", ["all", "readout"])
def test_start_and_speed_are_the_deqs(train, act):
    deq = measure("deq", train, act, scaled=False)
    for net in (Net.MATCHED, Net.PLAIN):
        output, speed = measure(net, train, act) / deq
        # Outputs of 10 networks with 4 classes, nearly the same for all samples, scatter by 20 %;
        # those of one trial share the readout, which takes most of it out.
        assert output == pytest.approx(1, abs=0.15)
        assert speed == pytest.approx(1, abs=0.05)


def test_own_scales_differ():
    """What is undone is there: a plain network's kernels are less than half as large."""
    deq, plain = (measure(net, "readout", "relu", scaled=False) for net in ("deq", "plain"))
    assert plain[1] < 0.5 * deq[1]


@pytest.mark.parametrize("train", ["all", "readout"])
def test_multipliers_meet_both_conditions_exactly(train):
    nets = trio("tanh", 0.2, 0.8, X, "ntk", twin="scalars")
    place = 1 if train == "all" else 0
    deq = [np.trace(k) for k in nets.kernels("deq", X).compute("ck", "ntk")]
    for net in Net:
        own = [np.trace(k) for k in nets.kernels(net, X).compute("ck", "ntk")]
        scale = equal_scale(nets, net, X, train)
        assert scale.gain**2 * own[0] == pytest.approx(deq[0], rel=1e-9)
        assert scale.rate * scale.gain**2 * own[place] == pytest.approx(deq[place], rel=1e-9)
