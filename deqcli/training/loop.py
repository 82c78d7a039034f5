"""Train a network by stochastic gradient descent and keep the record of it."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deqcli.data.dataset import Dataset
from deqcli.errors import ConvergenceError, DataError, InputError
from deqcli.training.base import Network, Progress, cross_entropy
from deqcli.training.settings import TrainingSettings

Array = NDArray[Any]
Labels = NDArray[np.int64]

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

    def add(self, progress: Progress, count: int) -> None:
        """Count a forward pass of that many samples."""
        self.samples += count
        self.iterations += progress.iterations * count
        self.residual = max(self.residual, progress.residual)


class Readout(Network):
    r"""The classifier :math:`f = Wz` on fixed features z, of which W is trained.

    Its limit of infinite width is the conjugate kernel, where that of a network trained whole is
    the tangent kernel. Features do not change, so that each sample's are computed once: an epoch is
    then two products with W, whatever the network behind it.

    Parameters
    ----------
    network : Network
        Its weights drawn; shares its readout.

    Examples
    --------
    >>> from deqcli.activations import activation
    >>> from deqcli.training.networks import ExplicitNetwork
    >>> network = ExplicitNetwork([activation("tanh")], 50, 4, 3)
    >>> network.draw([np.random.default_rng(k) for k in range(2)])
    >>> readout, X = Readout(network), np.eye(4, dtype=np.float32)
    >>> features = readout.compute_features(X, batch=2)
    >>> _ = readout.forward(features), network.forward(X)
    >>> features.shape, bool(np.allclose(readout.outputs, network.outputs, atol=1e-5))
    ((4, 50), True)
    """

    def __init__(self, network: Network) -> None:
        super().__init__(network.width, network.width, network.n_classes, network.dtype)
        self.network = network
        self.parameters, self.rate = network.parameters[-1:], network.rate
        self._solves = _Tally()

    def compute_features(self, X: Array, batch: int) -> Array:
        r"""Return the features of samples, times :math:`\sqrt m`, of shape (n, m)."""
        features = np.empty((len(X), self.width), self.dtype)
        for start in range(0, len(X), batch):
            part = X[start : start + batch]
            self._solves.add(self.network.forward(part), len(part))
            features[start : start + len(part)] = self.network.features.T
        return features

    def _forward(self, X: Array) -> Progress:
        """Take what :meth:`compute_features` returned; tell of the solves behind it."""
        self.features = X.T
        return Progress(self._solves.iterations / self._solves.samples, self._solves.residual)

    def _backward(self, delta: Array, momentum: float) -> Progress:
        return Progress()


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
    >>> from deqcli.training.networks import ExplicitNetwork
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
    X, X_test = (np.ascontiguousarray(part.X, network.dtype) for part in (data, test))
    history = History()
    features_seconds = 0.0
    # What overflows is seen in the loss.
    with np.errstate(over="ignore", invalid="ignore"):
        try:
            if settings.train == "readout":
                started = time.perf_counter()
                readout = Readout(network)
                X = readout.compute_features(X, settings.batch)
                features_seconds = time.perf_counter() - started
                X_test = readout.compute_features(X_test, settings.batch)
                history.nbytes = X.nbytes + X_test.nbytes + network.nbytes
                network = readout
            start = _evaluate(network, X, data.y, settings.batch)
            history.add(start, _evaluate(network, X_test, test.y, settings.batch))
        except ConvergenceError as error:
            return History(failure=f"{STOPPED}: {error} before any training")
        for epoch in range(1, settings.epochs + 1):
            try:
                tally = _run_epoch(network, X, data.y, settings, rng.permutation(len(X)))
                if epoch == 1:
                    tally.forward_seconds += features_seconds
                history.add(tally, _evaluate(network, X_test, test.y, settings.batch))
            except ConvergenceError as error:
                history.status[-1] = f"{STOPPED}: {error} in epoch {epoch}"
                break
    history.nbytes = history.nbytes or network.nbytes
    return history


def check_batch(batch: int, n: int) -> None:
    """Raise if a batch has more than all the samples."""
    if batch > n:
        raise InputError(
            f"`batch` is {batch}, more than the {n} training samples; lower it or raise "
            "`train_size`."
        )


def _run_epoch(
    network: Network, X: Array, y: Labels, settings: TrainingSettings, order: NDArray[np.intp]
) -> _Tally:
    tally = _Tally()
    for start in range(0, len(order), settings.batch):
        chosen = order[start : start + settings.batch]
        batch, labels = X[chosen], y[chosen]
        started = time.perf_counter()
        delta = _forward(network, batch, labels, tally)
        middle = time.perf_counter()
        progress = network.backward(delta, settings.momentum)
        tally.residual = max(tally.residual, progress.residual)
        tally.status = network.move(settings.learning_rate) or tally.status
        tally.forward_seconds += middle - started
        tally.backward_seconds += time.perf_counter() - middle
    return tally


def _evaluate(network: Network, X: Array, y: Labels, batch: int) -> _Tally:
    tally = _Tally()
    for start in range(0, len(X), batch):
        _forward(network, X[start : start + batch], y[start : start + batch], tally)
    return tally


def _forward(network: Network, X: Array, y: Labels, tally: _Tally) -> Array:
    tally.add(network.forward(X), len(X))
    loss, right, delta = cross_entropy(network.outputs, y)
    if not math.isfinite(loss):
        raise ConvergenceError("loss not finite")
    tally.loss += loss * len(X)
    tally.right += right
    return delta
