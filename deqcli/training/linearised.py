r"""What a network of infinite width does in training: steps with a kernel that stays as it is.

Along the steps of training the outputs of a network move by its tangent kernel. At infinite width
that is :math:`\Theta` throughout (and G if the readout alone is trained), so that the outputs after
gradient steps on batches :math:`B_k` of a loss with derivatives :math:`\delta` are

.. math:: f = f_0 + \alpha K, \qquad v \leftarrow \mu v + \sum_{i \in B_k}\delta_ie_i^\top, \qquad
          \alpha \leftarrow \alpha - \eta v,

for any loss and with momentum (the same steps as in :mod:`deqcli.training.loop`). Set beside each
other, two such limits say which difference of their loss curves the kernels of two networks predict
before any network is trained.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np

from deqcli.data.dataset import Dataset
from deqcli.training.base import Array, Network, Parameter, Progress
from deqcli.training.loop import train
from deqcli.training.scale import Scale
from deqcli.training.settings import TrainingSettings


class LinearisedNetwork(Network):
    r"""A classifier that learns by a fixed kernel; samples are named by their numbers.

    Parameters
    ----------
    kernel : ndarray of shape (n + q, n)
        Of the training samples, then of the test samples, with the training samples. Best in
        single precision, which is what it is used in.
    start : ndarray of shape (n + q, K)
        The outputs before training.

    Examples
    --------
    >>> kernel = np.array([[1.0, 0.5], [0.5, 1.0], [0.2, 0.4]], np.float32)
    >>> network = LinearisedNetwork(kernel, np.zeros((3, 2)))
    >>> _ = network.forward(np.array([[0.0]]))
    >>> _ = network.backward(np.array([[-1.0], [1.0]]), momentum=0.0)
    >>> _ = network.move(0.1), network.forward(np.array([[0.0], [2.0]]))
    >>> network.outputs[0].round(6).tolist()                # 0.1 of rows 0 and 2 of the kernel
    [0.10000000149011612, 0.019999999552965164]
    """

    def __init__(self, kernel: Array, start: Array) -> None:
        n, n_classes = kernel.shape[1], start.shape[1]
        super().__init__(n, 1, n_classes, "float32")
        self.kernel = np.asarray(kernel, self.dtype)
        self._start = np.asarray(start.T, self.dtype)
        # The multipliers alpha of samples, zero before training.
        self.parameters = (Parameter((n_classes, n), 1.0, self.dtype),)

    def forward(self, X: Array) -> Progress:
        """See :meth:`Network.forward`; ``X`` of shape (b, 1) holds the numbers of samples."""
        progress = super().forward(X)
        self.outputs += self._start[:, self._batch]
        return progress

    def backward(self, delta: Array, momentum: float) -> Progress:
        """See :meth:`Network.backward`."""
        return self._backward(delta, momentum)

    def _forward(self, X: Array) -> Progress:
        self._batch = X[:, 0].astype(np.intp)
        self.features = self.kernel[self._batch].T
        return Progress()

    def _backward(self, delta: Array, momentum: float) -> Progress:
        velocity = self.parameters[0].velocity
        velocity *= momentum
        # No sample is twice in a batch.
        velocity[:, self._batch] += delta
        return Progress()


def numbered(data: Dataset, test: Dataset) -> tuple[Dataset, Dataset]:
    """Return both sets with the numbers of their samples instead of the samples.

    Examples
    --------
    >>> data = Dataset(np.eye(3), np.array([0, 1, 0]), "a")
    >>> numbered(data, data)[1].X[:, 0].tolist()
    [3.0, 4.0, 5.0]
    """
    ends = data.n_samples, data.n_samples + test.n_samples
    numbers = np.arange(ends[1], dtype=np.float64)[:, None]
    return (
        Dataset(numbers[: ends[0]], data.y, data.name),
        Dataset(numbers[ends[0] :], test.y, test.name),
    )


def initial_outputs(network: Network, X: Array, batch: int) -> Array:
    """Return the outputs of a network as it is, of shape (n, K).

    Examples
    --------
    >>> from deqcli.activations import activation
    >>> from deqcli.training.networks import ExplicitNetwork
    >>> network = ExplicitNetwork([activation("tanh")], 50, 4, 3)
    >>> network.draw([np.random.default_rng(k) for k in range(2)])
    >>> initial_outputs(network, np.eye(4), batch=3).shape
    (4, 3)
    """
    outputs = np.empty((len(X), network.n_classes), network.dtype)
    for start in range(0, len(X), batch):
        part = X[start : start + batch]
        network.forward(np.ascontiguousarray(part, network.dtype))
        outputs[start : start + len(part)] = network.outputs.T
    return outputs


def train_limits(
    networks: Iterable[Network],
    kernel: Callable[[Array, Array], Array],
    scale: Scale,
    data: Dataset,
    test: Dataset,
    settings: TrainingSettings,
    orders: Sequence[np.random.Generator],
) -> dict[str, Array]:
    """Train the limit of a kind of network, once for each of its networks.

    Parameters
    ----------
    networks : iterable of Network
        Drawn; from their outputs the limits start.
    kernel : callable
        The exact kernel of two sets of samples in single precision, before any scaling.
    scale : Scale
        That of the networks.
    data, test : Dataset
    settings : TrainingSettings
    orders : sequence of numpy.random.Generator
        One a network, for the order of the samples.

    Returns
    -------
    dict of str to ndarray
        A row an epoch: trial, epoch, train_loss, train_accuracy, test_loss, test_accuracy, status.
    """
    X = np.concatenate([data.X, test.X])
    starts = [initial_outputs(network, X, settings.batch) for network in networks]
    matrix = kernel(X, data.X)
    matrix *= scale.gain**2
    halves = numbered(data, test)
    # Its numbers have no features to be computed first.
    whole = replace(settings, train="all")
    names = ("train_loss", "train_accuracy", "test_loss", "test_accuracy", "status")
    parts = []
    for trial, (start, rng) in enumerate(zip(starts, orders, strict=True)):
        network = LinearisedNetwork(matrix, start)
        network.rescale(1.0, scale.rate)
        columns = train(network, *halves, whole, rng).arrays()
        epochs = np.arange(len(columns["status"]))
        part = {"trial": np.full_like(epochs, trial), "epoch": epochs}
        parts.append(part | {name: columns[name] for name in names})
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
