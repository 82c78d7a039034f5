r"""Kernels of explicit networks of finite width, summed over random ones.

One realization draws :math:`W_l` for :math:`x^{(l)} = \sigma_l(W_l x^{(l-1)})/\sqrt{m}` and, for
the tangent kernel, the readout a of :math:`f = a^\top x^{(L)}` (ICLR (18)-(20); theory.md §5):

* ``ck``: :math:`x_i^{(L)\top} x_j^{(L)}`;
* ``ntk``: the product of the gradients of f in all weights,
  :math:`x_i^{(L)\top} x_j^{(L)} + \sum_l (x_i^{(l-1)\top} x_j^{(l-1)})(s_i^{(l)\top} s_j^{(l)})`,
  with :math:`s^{(L)} = \sigma_L'\circ a/\sqrt m`,
  :math:`s^{(l)} = \sigma_l'\circ W_{l+1}^\top s^{(l+1)}/\sqrt m`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deqcli.activations import Activation, activation
from deqcli.checks import POSITIVE, Range, number
from deqcli.finite.weights import draw
from deqcli.kernels.matrix import check_samples
from deqcli.vocabulary import Kernel, Weights

Array = NDArray[Any]


def sum_explicit(
    X: Array,
    acts: Sequence[Activation | str],
    width: int,
    realizations: Iterable[int],
    stream: Callable[[int], np.random.Generator],
    kernel: Kernel = Kernel.CK,
    weights: Weights = Weights.GAUSSIAN,
) -> NDArray[np.float64]:
    r"""Return the sum of the kernels of explicit networks drawn at random.

    Networks are evaluated in single precision. Memory, besides the result: two n x n matrices and
    L + 1 of shape (m, n), whatever the number of realizations.

    Parameters
    ----------
    X : ndarray of shape (n, p)
        Rows are samples.
    acts : sequence of Activation
        :math:`\sigma_1, \dots, \sigma_L`, centred or not.
    width : int
        The number m of neurons of every layer.
    realizations : iterable of int
        Which networks to add, numbered from 0.
    stream : callable
        From the index of a network to its own generator.
    kernel : Kernel
        ``ck`` or ``ntk``.
    weights : Weights
        The law of the entries of :math:`W_l`; a is Gaussian.

    Returns
    -------
    ndarray of shape (n, n)

    Examples
    --------
    >>> total = sum_explicit(np.eye(2), ["identity"], 200, range(50), np.random.default_rng)
    >>> bool(np.allclose(total / 50, np.eye(2), atol=0.1))
    True
    """
    samples = np.ascontiguousarray(check_samples(X).T, dtype=np.float32)
    layers = [activation(act) for act in acts]
    m = number(width, "width", int, POSITIVE)
    tangent = Kernel.of(kernel, "kernel").explicit is Kernel.NTK
    law = Weights.of(weights, "weights")
    total = np.zeros((samples.shape[1], samples.shape[1]))
    for index in realizations:
        rng = stream(number(index, "realizations", int, Range(least=0)))
        _add(total, samples, layers, m, law, rng, tangent)
    return total


def _add(
    total: NDArray[np.float64],
    samples: Array,
    layers: Sequence[Activation],
    width: int,
    law: Weights,
    rng: np.random.Generator,
    tangent: bool,
) -> None:
    """Add the kernel of one network."""
    scale = np.float32(1 / math.sqrt(width))
    matrices, values, slopes = [], [samples], []
    for act in layers:
        W = np.empty((width, len(values[-1])), dtype=np.float32)
        draw(law, rng, W)
        u = W @ values[-1]
        values.append(np.asarray(act(u), dtype=np.float32) * scale)
        if tangent:
            matrices.append(W)
            slopes.append(np.asarray(act.derivative(u), dtype=np.float32) * scale)
    total += values[-1].T @ values[-1]
    if not tangent:
        return
    back = np.empty((width, 1), dtype=np.float32)
    draw(Weights.GAUSSIAN, rng, back)
    for W, slope, value in zip(
        reversed(matrices), reversed(slopes), reversed(values[:-1]), strict=True
    ):
        adjoint = slope * back
        total += (value.T @ value) * (adjoint.T @ adjoint)
        back = W.T @ adjoint
