"""Train a network by stochastic gradient descent and keep the record of it."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deqcli.data.dataset import Dataset
from deqcli.errors import DataError, InputError
from deqcli.training.base import Network, Progress, Readout, cross_entropy
from deqcli.training.settings import TrainingSettings

Array = NDArray[Any]

#: The status of an epoch in which nothing had to be done, and what begins that of one cut short.
DONE, STOPPED = "done", "stopped"


@dataclass
class History:
    """One entry an epoch, the first (epoch 0) before any training.

    Attributes
    ----------
    train_loss, train_accuracy : list of float
        Means over the samples of the epoch, each met before the step that it took part in; at
        epoch 0, over the training set.
    test_loss, test_accuracy : list of float
        After the epoch.
    forward_seconds, backward_seconds : list of float
        Of the training steps; the second holds gradients and update too. Where only the readout is
        trained, the first epoch has the time of all training samples' features.
    iterations : list of float
        Mean number of iterations of a forward solve.
    residual : list of float
        The largest of the epoch.
    status : list of str
        ``done``, ``projected`` (the norm of A had to be clipped), or, on the last entry of a
        training that was cut short, ``stopped:`` and why.
    failure : str
        Why there are no entries, if there are none.
    nbytes : int
        Bytes of weights, velocities and buffers, and of fixed features.
    """

    train_loss: list[float] = field(default_factory=list)
    train_accuracy: list[float] = field(default_factory=list)
    test_loss: list[float] = field(default_factory=list)
    test_accuracy: list[float] = field(default_factory=list)
    forward_seconds: list[float] = field(default_factory=list)
    backward_seconds: list[float] = field(default_factory=list)
    iterations: list[float] = field(default_factory=list)
    residual: list[float] = field(default_factory=list)
    status: list[str] = field(default_factory=list)
    failure: str = ""
    nbytes: int = 0

    def arrays(self) -> dict[str, Array]:
        """Return the columns as arrays."""
        columns = {name: values for name, values in vars(self).items() if isinstance(values, list)}
        return {name: np.array(values) for name, values in columns.items()}

    def add(self, train: _Tally, test: _Tally) -> None:
        """Append an epoch."""
        self.train_loss.append(train.loss / train.samples)
        self.train_accuracy.append(train.right / train.samples)
        self.test_loss.append(test.loss / test.samples)
        self.test_accuracy.append(test.right / test.samples)
        self.forward_seconds.append(train.forward_seconds)
        self.backward_seconds.append(train.backward_seconds)
        self.iterations.append(train.iterations / train.samples)
        self.residual.append(train.residual)
        self.status.append(train.status)


@dataclass
class _Tally:
    """Sums over the samples of one pass."""

    samples: int = 0
    loss: float = 0.0
    right: int = 0
    iterations: float = 0.0
    residual: float = 0.0
    forward_seconds: float = 0.0
    backward_seconds: float = 0.0
    status: str = DONE


class _Stop(Exception):
    """A pass that cannot be used, and why."""


def train(
    network: Network,
    data: Dataset,
    test: Dataset,
    settings: TrainingSettings,
    rng: np.random.Generator,
) -> History:
    r"""Train a network whose weights are drawn, and return its history.

    Batches are drawn anew every epoch without replacement; the last one may be smaller. Where a
    fixed point is not reached or the loss is not finite, training stops: the entries are those of
    the epochs before, the last of them with the reason as its status; before any training, there
    are none, and ``failure`` has the reason. No entry is ever NaN.

    Parameters
    ----------
    network : Network
    data, test : Dataset
    settings : TrainingSettings
    rng : numpy.random.Generator
        Decides the order of the samples and nothing else.

    Examples
    --------
    >>> from deqcli.activations import activation
    >>> from deqcli.data.mixture import GaussianMixture
    >>> from deqcli.training.explicit import ExplicitNetwork
    >>> mixture, rng = GaussianMixture.papers(50), np.random.default_rng(0)
    >>> network = ExplicitNetwork([activation("tanh")], 64, 50, 2)
    >>> network.draw([rng, rng])
    >>> data = mixture.sample(200, rng), mixture.sample(100, rng)
    >>> history = train(network, *data, TrainingSettings(epochs=5, batch=20), rng)
    >>> history.status[-1], history.test_accuracy[-1] > 0.9
    ('done', True)
    """
    if test.X.shape[1] != data.X.shape[1]:
        raise DataError(
            f"`test` has samples of {test.X.shape[1]} features and `data` of {data.X.shape[1]}; "
            "give both the same."
        )
    check_batch(settings.batch, data.n_samples)
    # What overflows is seen in the loss.
    with np.errstate(over="ignore", invalid="ignore"):
        return _train(network, data, test, settings, rng)


def check_batch(batch: int, n: int) -> None:
    """Raise if a batch has more than all the samples."""
    if batch > n:
        raise InputError(
            f"`batch` is {batch}, more than the {n} training samples; lower it or raise "
            "`train_size`."
        )


@dataclass
class _Samples:
    """Samples as a network reads them."""

    X: Array
    y: NDArray[np.int64]

    @classmethod
    def of(cls, data: Dataset, network: Network) -> _Samples:
        """Convert to the network's precision."""
        return cls(np.ascontiguousarray(data.X, network.dtype), data.y)

    def take(self, chosen: slice | NDArray[np.intp]) -> _Samples:
        """Return some of them."""
        return _Samples(self.X[chosen], self.y[chosen])


def _train(
    network: Network,
    data: Dataset,
    test: Dataset,
    settings: TrainingSettings,
    rng: np.random.Generator,
) -> History:
    samples, tests = _Samples.of(data, network), _Samples.of(test, network)
    history = History()
    features_seconds = 0.0
    if settings.train == "readout":
        network = readout = Readout(network)
        started = time.perf_counter()
        samples = _Samples(readout.compute_features(samples.X, settings.batch), samples.y)
        features_seconds = time.perf_counter() - started
        tests = _Samples(readout.compute_features(tests.X, settings.batch), tests.y)
        history.nbytes = samples.X.nbytes + tests.X.nbytes + readout.network.nbytes
    try:
        start = _evaluate(network, samples, settings.batch)
        history.add(start, _evaluate(network, tests, settings.batch))
    except _Stop as stop:
        return History(failure=f"{STOPPED}: {stop} before any training")
    for epoch in range(1, settings.epochs + 1):
        try:
            tally = _run_epoch(network, samples, settings, rng.permutation(len(samples.X)))
            if epoch == 1:
                tally.forward_seconds += features_seconds
            history.add(tally, _evaluate(network, tests, settings.batch))
        except _Stop as stop:
            history.status[-1] = f"{STOPPED}: {stop} in epoch {epoch}"
            break
    history.nbytes = history.nbytes or network.nbytes
    return history


def _run_epoch(
    network: Network, samples: _Samples, settings: TrainingSettings, order: NDArray[np.intp]
) -> _Tally:
    tally = _Tally()
    for start in range(0, len(order), settings.batch):
        batch = samples.take(order[start : start + settings.batch])
        started = time.perf_counter()
        delta = _forward(network, batch, tally)
        middle = time.perf_counter()
        progress = _check(network.backward(delta, settings.momentum))
        tally.residual = max(tally.residual, progress.residual)
        tally.status = network.move(settings.learning_rate) or tally.status
        tally.forward_seconds += middle - started
        tally.backward_seconds += time.perf_counter() - middle
    return tally


def _evaluate(network: Network, samples: _Samples, batch: int) -> _Tally:
    tally = _Tally()
    for start in range(0, len(samples.X), batch):
        _forward(network, samples.take(slice(start, start + batch)), tally)
    return tally


def _forward(network: Network, samples: _Samples, tally: _Tally) -> Array:
    progress = _check(network.forward(samples.X))
    loss, right, delta = cross_entropy(network.outputs, samples.y)
    if not math.isfinite(loss):
        raise _Stop("loss not finite")
    count = len(samples.X)
    tally.samples += count
    tally.loss += loss * count
    tally.right += right
    tally.iterations += progress.iterations * count
    tally.residual = max(tally.residual, progress.residual)
    return delta


def _check(progress: Progress) -> Progress:
    if progress.failure:
        raise _Stop(progress.failure)
    return progress
