"""The limit of infinite width: against wide networks, and where a network has a fixed kernel."""

import numpy as np
import pytest

from deqcli.data.mixture import GaussianMixture
from deqcli.training.linearised import LinearisedNetwork, initial_outputs, numbered, train_limits
from deqcli.training.loop import Readout, train
from deqcli.training.scale import Scale, equal_scale
from deqcli.training.settings import TrainingSettings
from deqcli.training.trio import trio
from deqcli.vocabulary import Kernel, Net

MIXTURE = GaussianMixture.papers(40, classes=3, mean_norm=3.0)
DATA = MIXTURE.sample(90, np.random.default_rng(0))
TEST = MIXTURE.sample(60, np.random.default_rng(1))
X = np.concatenate([DATA.X, TEST.X])
NAMES = ("train_loss", "train_accuracy", "test_loss", "test_accuracy")


def drawn(nets, net, width, seed=0):
    network = nets.network(net, width, 40, 3, tolerance=1e-5)
    network.draw([np.random.default_rng([k, seed]) for k in range(len(network.parameters))])
    return network


def test_a_readout_is_linear_at_any_width():
    """Its kernel is that of the features it has: the very same epochs, momentum and all."""
    settings = TrainingSettings(epochs=5, batch=32, learning_rate=1.5, train="readout")
    network = drawn(trio("relu", 0.2, 0.8, DATA.X, twin="scalars"), "matched", 30)
    features = Readout(network).compute_features(X.astype(np.float32), 50).astype(float)
    kernel = (features @ features[:90].T / 30).astype(np.float32)
    start = initial_outputs(network, X, 50)
    expected = train(network, DATA, TEST, settings, np.random.default_rng(3)).arrays()
    limit = LinearisedNetwork(kernel, start)
    whole = TrainingSettings(epochs=5, batch=32, learning_rate=1.5)
    found = train(limit, *numbered(DATA, TEST), whole, np.random.default_rng(3)).arrays()
    for name in NAMES:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-3, atol=1e-6)


def test_steps_are_those_of_gradient_descent_in_function_space():
    """Without momentum, on the whole set: f <- f - rate K (p - y) / n, written out."""
    rng = np.random.default_rng(0)
    features = rng.standard_normal((150, 20))
    kernel, f = features @ features[:90].T / 20, rng.standard_normal((150, 3))
    network = LinearisedNetwork(kernel.astype(np.float32), f)
    settings = TrainingSettings(epochs=6, batch=90, learning_rate=0.8, momentum=0.0)
    found = train(network, *numbered(DATA, TEST), settings, np.random.default_rng(0))
    losses = []
    for _ in range(settings.epochs):
        p = np.exp(f[:90]) / np.exp(f[:90]).sum(axis=1, keepdims=True)
        losses.append(-np.mean(np.log(p[np.arange(90), DATA.y])))
        f = f - 0.8 * kernel @ (p - np.eye(3)[DATA.y]) / 90
    np.testing.assert_allclose(found.train_loss[1:], losses, rtol=1e-4)
    assert found.test_accuracy[-1] == np.mean(f[90:].argmax(axis=1) == TEST.y)


def curves(nets, net, width, settings, scale, factor=1.0):
    """Return the losses of a network and of its limit, whose kernel is times a factor."""

    def kernel(A, B):
        return factor * nets.single_precision_kernel(net, Kernel.NTK, A, B)

    network = drawn(nets, net, width)
    network.rescale(scale.gain, scale.rate)
    network.draw([np.random.default_rng([k, 1]) for k in range(len(network.parameters))])
    limit = train_limits([network], kernel, scale, DATA, TEST, settings, [np.random.default_rng(2)])
    found = train(network, DATA, TEST, settings, np.random.default_rng(2)).arrays()
    return np.array(
        [[part[name] for name in ("train_loss", "test_loss")] for part in (found, limit)]
    )


@pytest.mark.parametrize("net", Net)
def test_wide_networks_follow_their_limit_at_small_rates(net):
    """Losses to 2 %; with a kernel 1.3 times too large, the other scale's, they do not."""
    nets = trio("relu", 0.2, 0.8, DATA.X, "ck", twin="scalars")
    scale = equal_scale(nets, net, DATA.X, "all")
    settings = TrainingSettings(epochs=5, batch=30, learning_rate=0.2)
    network, limit = curves(nets, net, 1000, settings, scale)
    assert network[0, -1] < 0.75 * network[0, 0]  # it has learned
    np.testing.assert_allclose(network, limit, rtol=0.02)
    _, wrong = curves(nets, net, 16, settings, Scale(scale.gain, scale.rate), factor=1.3)
    assert abs(wrong[0, -1] / wrong[0, 0] / (limit[0, -1] / limit[0, 0]) - 1) > 0.05


def test_limits_of_several_networks_are_rows_one_after_the_other():
    nets = trio("tanh", 0.1, 0.9, DATA.X, twin="scalars")
    settings = TrainingSettings(epochs=2, batch=30)
    orders = [np.random.default_rng(k) for k in range(2)]
    rows = train_limits(
        (drawn(nets, "deq", 20, seed) for seed in range(2)),
        lambda A, B: nets.single_precision_kernel("deq", Kernel.NTK, A, B),
        Scale(), DATA, TEST, settings, orders,
    )  # fmt: skip
    assert rows["trial"].tolist() == [0, 0, 0, 1, 1, 1]
    assert rows["epoch"].tolist() == [0, 1, 2, 0, 1, 2]
    assert rows["train_loss"][0] != rows["train_loss"][3]
