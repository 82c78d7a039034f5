import tracemalloc

import numpy as np
import pytest

from deqcli.activations import activation
from deqcli.data.dataset import Dataset
from deqcli.data.mixture import GaussianMixture
from deqcli.errors import DataError, InputError
from deqcli.training.loop import train
from deqcli.training.networks import EquilibriumNetwork, ExplicitNetwork
from deqcli.training.settings import TrainingSettings
from deqcli.training.trio import trio
from deqcli.vocabulary import Net

MIXTURE = GaussianMixture.papers(60, classes=3)
DATA = MIXTURE.sample(300, np.random.default_rng(0))
TEST = MIXTURE.sample(150, np.random.default_rng(1))
# Samples of norm 1, which is all that networks are chosen by.
UNIT = np.eye(3)


def drawn(network, seed=0):
    network.draw([np.random.default_rng([k, seed]) for k in range(len(network.parameters))])
    return network


def run(network, data=DATA, test=TEST, **settings):
    return train(drawn(network), data, test, TrainingSettings(**settings), np.random.default_rng(2))


@pytest.mark.parametrize("act", ["relu", "tanh"])
@pytest.mark.parametrize("net", Net)
def test_every_network_learns(net, act):
    network = trio(act, 0.1, 0.9, UNIT, twin="scalars").network(net, 64, 60, 3)
    history = run(network, epochs=6, batch=32)
    assert history.train_loss[-1] < 0.3 * history.train_loss[0]
    assert history.test_accuracy[-1] > 0.9  # chance is 1/3
    assert len(history.test_accuracy) == 7
    assert set(history.status) == {"done"}
    assert all(np.isfinite(v).all() for k, v in history.arrays().items() if k != "status")
    iterations = np.array(history.iterations)
    assert (iterations > 0).all() if net == "deq" else (iterations == 0).all()
    assert max(history.residual) < 1e-3
    assert history.forward_seconds[0] == history.backward_seconds[0] == 0


@pytest.mark.parametrize("net", Net)
def test_the_readout_alone(net):
    network = drawn(trio("relu", 0.2, 0.8, UNIT, twin="scalars").network(net, 64, 60, 3))
    before = [parameter.weight.copy() for parameter in network.parameters]
    settings = TrainingSettings(epochs=4, batch=32, train="readout")
    history = train(network, DATA, TEST, settings, np.random.default_rng(2))
    assert history.test_accuracy[-1] > 0.9
    changed = [(p.weight != old).any() for p, old in zip(network.parameters, before, strict=True)]
    assert changed == [False] * (len(before) - 1) + [True]


@pytest.mark.parametrize("net", Net)
def test_the_readout_alone_is_softmax_regression(net):
    """Step by step, against regression written out on the features of the whole set."""
    network = drawn(trio("relu", 0.2, 0.8, UNIT, twin="scalars").network(net, 40, 60, 3))
    network.forward(DATA.X.astype(np.float32))
    features, readout = network.features.astype(float), network.parameters[-1]
    weight, velocity = readout.weight.astype(float), 0.0
    settings = TrainingSettings(epochs=2, batch=64, learning_rate=0.5, train="readout")
    rng = np.random.default_rng(7)
    for _ in range(settings.epochs):
        order = rng.permutation(DATA.n_samples)
        for start in range(0, DATA.n_samples, settings.batch):
            chosen = order[start : start + settings.batch]
            z = features[:, chosen]
            scores = np.exp(weight @ z)
            errors = scores / scores.sum(axis=0) - np.eye(3)[DATA.y[chosen]].T
            velocity = settings.momentum * velocity + errors @ z.T / len(chosen)
            weight = weight - settings.learning_rate * readout.factor**2 * velocity
    train(network, DATA, TEST, settings, np.random.default_rng(7))
    # The DEQ's features depend on the batch within the solver's tolerance of 1e-3.
    np.testing.assert_allclose(readout.weight, weight, rtol=0, atol=2e-3 * np.abs(weight).max())


def test_the_same_streams_give_the_same_bits():
    histories = [
        run(EquilibriumNetwork(activation("relu"), 0.2, 0.8, 32, 60, 3), epochs=2).arrays()
        for _ in range(2)
    ]
    for name in ("train_loss", "test_loss", "test_accuracy", "iterations", "residual"):
        np.testing.assert_array_equal(histories[0][name], histories[1][name])


def test_one_rate_serves_all_widths():
    settings = {"epochs": 2, "batch": 50, "learning_rate": 4.0}
    losses = [
        run(ExplicitNetwork([activation("tanh")], width, 60, 3), **settings).train_loss[-1]
        for width in (64, 1024)
    ]
    assert losses[0] == pytest.approx(losses[1], rel=0.25)


def test_overflow_stops_with_a_status_and_without_nan():
    wild = ExplicitNetwork([activation("cubic")] * 2, 32, 60, 3)
    history = run(wild, epochs=5, learning_rate=1e4)
    assert history.status[-1] == "stopped: loss not finite in epoch 1"
    assert len(history.status) == 1
    assert np.isfinite(history.test_loss).all()


def test_a_solve_that_fails_stops_with_a_status():
    network = EquilibriumNetwork(activation("relu"), 0.2, 0.8, 32, 60, 3, max_iterations=12)
    drawn(network)
    # The weights jump out of reach of the few iterations within the first steps.
    network._guard = None
    history = train(
        network,
        DATA,
        TEST,
        TrainingSettings(epochs=3, learning_rate=3e3, batch=30),
        np.random.default_rng(0),
    )
    assert history.status[-1].startswith("stopped: ")
    assert "in epoch" in history.status[-1]
    assert np.isfinite(history.train_loss).all()


def test_a_network_that_fails_from_the_outset_says_so():
    network = EquilibriumNetwork(activation("tanh"), 0.2, 0.8, 32, 60, 3, max_iterations=1)
    history = run(network)
    assert history.failure.startswith("stopped: forward iteration")
    assert history.failure.endswith("before any training")
    assert all(len(values) == 0 for values in history.arrays().values())


def test_small_last_batches_are_used():
    network = ExplicitNetwork([activation("tanh")], 16, 60, 3)
    history = run(network, epochs=1, batch=128)  # 300 = 128 + 128 + 44
    assert history.status == ["done", "done"]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"batch": 0}, "`batch` is 0"),
        ({"epochs": 0}, "`epochs` is 0"),
        ({"learning_rate": 0.0}, "`learning_rate`"),
        ({"learning_rate": float("nan")}, "`learning_rate`"),
        ({"momentum": 1.0}, "`momentum`"),
        ({"train": "none"}, "`train` is 'none'"),
        ({"batch": 301}, "`batch` is 301, more than the 300 training samples"),
    ],
)
def test_bad_settings(settings, words):
    with pytest.raises(InputError, match=words):
        run(ExplicitNetwork([activation("tanh")], 8, 60, 3), **settings)


def test_test_samples_of_another_dimension():
    other = Dataset(np.zeros((2, 3)), np.array([0, 1]), "other")
    with pytest.raises(DataError, match="3 features"):
        run(ExplicitNetwork([activation("tanh")], 8, 60, 3), test=other)


@pytest.mark.parametrize(
    ("net", "solver"), [*((net, "gauss-seidel") for net in Net), ("deq", "anderson")]
)
def test_memory_is_counted_right(net, solver):
    """The arrays that are counted are nearly all that a training allocates."""
    nets = trio("relu", 0.2, 0.8, UNIT, twin="scalars")
    run(nets.network(net, 16, 60, 3), epochs=1)  # imports and caches
    tracemalloc.start()
    network = nets.network(net, 300, 60, 3, solver=solver)
    run(network, epochs=1, batch=100)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    data = 4 * 60 * (300 + 150 + 100)
    assert network.nbytes == pytest.approx(peak - data, rel=0.25)
