r"""The features of one random network on samples: what a readout is trained on.

:math:`z = \phi(\sigma_aAz + \sigma_bBx)/\sqrt m` of a DEQ, :math:`x^{(L)}` of an explicit network
(theory.md §1, §5), in single precision.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deqcli.activations import Activation
from deqcli.errors import ConvergenceError
from deqcli.finite.equilibrium import Elementwise, Equilibrium
from deqcli.finite.weights import draw
from deqcli.vocabulary import Weights

Array = NDArray[Any]


def deq_features(
    X: Array,
    act: Activation,
    sigma_a2: float,
    sigma_b2: float,
    width: int,
    rng: np.random.Generator,
    tolerance: float = 1e-5,
) -> Array:
    """Return the features of a DEQ with weights drawn at random, of shape (width, n).

    Examples
    --------
    >>> from deqcli.activations import activation
    >>> rng = np.random.default_rng(0)
    >>> z = deq_features(np.eye(3), activation("identity"), 0.1, 0.9, 2000, rng)
    >>> bool(np.allclose(z.T @ z, np.eye(3), atol=0.1))
    True
    """
    m, (n, p) = width, X.shape
    weights = np.empty((m, p), dtype=np.float32)
    draw(Weights.GAUSSIAN, rng, weights, math.sqrt(sigma_b2))
    bias = weights @ np.ascontiguousarray(X.T, dtype=np.float32)
    matrix = np.empty((m, m), dtype=np.float32)
    draw(Weights.GAUSSIAN, rng, matrix, math.sqrt(sigma_a2 / m))
    value = np.empty((m, n), dtype=np.float32)
    found = Equilibrium(act, m, tolerance=tolerance).forward(matrix, bias, value)
    if not found.converged:
        raise ConvergenceError(
            f"a network of width {m} has no equilibrium ({found.status}); lower `sigma_a2` or "
            "raise the width."
        )
    value *= np.float32(1 / math.sqrt(m))
    return value


def explicit_features(
    X: Array, acts: Sequence[Activation], width: int, rng: np.random.Generator
) -> Array:
    """Return the last layer of an explicit network drawn at random, of shape (width, n).

    Examples
    --------
    >>> from deqcli.activations import activation
    >>> identity = [activation("identity")]
    >>> z = explicit_features(np.eye(3), identity, 2000, np.random.default_rng(0))
    >>> bool(np.allclose(z.T @ z, np.eye(3), atol=0.1))
    True
    """
    value = np.ascontiguousarray(X.T, dtype=np.float32)
    for act in acts:
        weights = np.empty((width, len(value)), dtype=np.float32)
        draw(Weights.GAUSSIAN, rng, weights)
        value = weights @ value
        Elementwise(act, np.float32).value(value)
        value *= np.float32(1 / math.sqrt(width))
    return value
