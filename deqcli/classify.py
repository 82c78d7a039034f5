"""Kernel classifiers: what a network of infinite width becomes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from deqcli.errors import ConvergenceError, InputError

Array = NDArray[np.float64]


def classify(
    kernel: Array,
    labels: NDArray[np.int64],
    test_kernel: Array,
    test_labels: NDArray[np.int64],
    ridge: float = 1e-3,
) -> tuple[float, float]:
    r"""Classify by kernel ridge regression on centred one-hot labels.

    .. math:: \hat F = K_{\mathrm{test}}(K + \rho\,\tfrac{\operatorname{tr}K}{n}I)^{-1}
              (J - \tfrac1K11^\top), \qquad \hat y = \arg\max_k \hat F_k

    With the tangent kernel this is where gradient descent on the squared loss takes an infinitely
    wide network, all weights trained (:math:`\rho = 0`, up to the random outputs at the start),
    and with the conjugate kernel the same network with only its readout trained. Cross-entropy
    has other weights on the samples and no closed form; its accuracy is close.

    Parameters
    ----------
    kernel : ndarray of shape (n, n)
        Between training samples. Overwritten.
    labels : ndarray of shape (n,)
        Class indices.
    test_kernel : ndarray of shape (q, n)
        Between test and training samples.
    test_labels : ndarray of shape (q,)
    ridge : float
        :math:`\rho`, in units of the kernel's mean diagonal entry.

    Returns
    -------
    train_accuracy, test_accuracy : float

    Examples
    --------
    >>> X, y = np.array([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]]), np.array([0, 0, 1])
    >>> classify(X @ X.T, y, X[:2] @ X.T, y[:2])
    (1.0, 1.0)
    """
    n = len(kernel)
    if kernel.shape != (n, n) or len(labels) != n or test_kernel.shape != (len(test_labels), n):
        raise InputError(
            f"`kernel` of shape {kernel.shape} and `test_kernel` of {test_kernel.shape} do not fit "
            f"{len(labels)} training and {len(test_labels)} test labels; give (n, n) and (q, n)."
        )
    classes = int(labels.max()) + 1
    targets = np.eye(classes)[labels] - 1 / classes
    weights, shift = ridge_weights(kernel, targets, ridge)
    # K alpha = J - shift alpha: the matrix itself is gone.
    fitted = targets - shift * weights
    return _accuracy(fitted, labels), _accuracy(test_kernel @ weights, test_labels)


def ridge_weights(kernel: Array, targets: Array, ridge: float) -> tuple[Array, float]:
    r"""Return :math:`(K + sI)^{-1}T` and the shift :math:`s = \rho\operatorname{tr}K/n`.

    Parameters
    ----------
    kernel : ndarray of shape (n, n)
        Overwritten.
    targets : ndarray of shape (n, k)
    ridge : float
        :math:`\rho`.

    Examples
    --------
    >>> weights, shift = ridge_weights(np.diag([1.0, 3.0]), np.eye(2), ridge=0.5)
    >>> weights.diagonal(), shift
    (array([0.5 , 0.25]), 1.0)
    """
    n = len(kernel)
    if not (np.isfinite(ridge) and ridge >= 0):
        raise InputError(f"`ridge` is {ridge:g}; give a number of at least 0.")
    shift = ridge * float(np.mean(np.diagonal(kernel)))
    kernel[np.diag_indices(n)] += shift
    try:
        weights = cho_solve(
            cho_factor(kernel, overwrite_a=True, check_finite=False), targets, check_finite=False
        )
    except np.linalg.LinAlgError:
        raise ConvergenceError(
            f"the kernel of {n} samples with `ridge` {ridge:g} is singular; raise `ridge`."
        ) from None
    return weights, shift


def _accuracy(outputs: Array, labels: NDArray[np.int64]) -> float:
    return float(np.mean(outputs.argmax(axis=1) == labels))
