"""The second route of predictions: networks and kernels on drawn samples."""

from __future__ import annotations

import math

import numpy as np

from deqcli import explicit_kernels, implicit_kernels
from deqcli.scalars import ImplicitScalars

# New samples of each class.
TESTS = 400


def features(X, scalars, width, rng):
    """Return the features of one random network, of shape (width, n), in double precision."""
    if isinstance(scalars, ImplicitScalars):
        return _equilibrium(X, scalars, width, rng)[0] / math.sqrt(width)
    z = X.T
    for act in scalars.acts:
        z = act(rng.standard_normal((width, len(z))) @ z) / math.sqrt(width)
    return z


def _equilibrium(X, scalars, width, rng):
    """Return z, what the activation sees, and A, of one random DEQ."""
    bias = math.sqrt(scalars.sigma_b2) * rng.standard_normal((width, X.shape[1])) @ X.T
    A = math.sqrt(scalars.sigma_a2 / width) * rng.standard_normal((width, width))
    z, last = scalars.act(bias), np.zeros_like(bias)
    while np.linalg.norm(z - last) > 1e-6 * np.linalg.norm(z):
        z, last = scalars.act(A @ z + bias), z
    return z, A @ z + bias, A


def outputs(mixture, counts, scalars, kernel, ridge, width, rng, *, bias=False, tests=TESTS):
    """Return the outputs of one trained readout on new samples, and their classes."""
    counts = np.asarray(counts)
    n, k = int(counts.sum()), counts.size
    data = mixture.sample(n, rng, counts=counts)
    new = mixture.sample(tests * k, rng)
    X = np.vstack([data.X, new.X])
    if width is not None and kernel == "ntk":
        if isinstance(scalars, ImplicitScalars):
            K = tangent_of_deq(X, scalars, width, rng)[:n]
        else:
            K = tangent(X, scalars.acts, width, rng)[0][:n]
    elif width is not None:
        z = features(X, scalars, width, rng)
        K = z[:, :n].T @ z
    elif isinstance(scalars, ImplicitScalars):
        variances = scalars.sigma_a2, scalars.sigma_b2
        (K,) = implicit_kernels(data.X, scalars.act, *variances, X).compute(kernel)
    else:
        (K,) = explicit_kernels(data.X, scalars.acts, X).compute(kernel)
    targets = np.array([[-1.0], [1.0]]) if k == 2 else np.eye(k) - 1 / k
    A = K[:, :n] + ridge * np.mean(np.diagonal(K)) * np.eye(n)
    solved = np.linalg.solve(A, np.column_stack([targets[data.y], np.ones(n)]))
    shift = solved[:, :-1].sum(axis=0) / solved[:, -1].sum() if bias else 0.0
    weights = solved[:, :-1] - np.outer(solved[:, -1], np.atleast_1d(shift))
    return K[:, n:].T @ weights + shift, new.y


def errors(*arguments, draws, seed=0, **choices):
    """Return the classes' errors in each draw, of shape (draws, K)."""
    found = []
    for draw in range(draws):
        f, y = outputs(*arguments, np.random.default_rng([seed, draw]), **choices)
        named = (f[:, 0] > 0).astype(int) if f.shape[1] == 1 else f.argmax(axis=1)
        found.append([np.mean(named[y == a] != a) for a in range(y.max() + 1)])
    return np.array(found)


def tangent(X, acts, width, rng):
    """Return the tangent kernel of one explicit network, and what it is beside inner products.

    Of layer l the second is the inner products of gradients in what it sees.
    """
    z, seen, weights, layers = X.T, [], [], []
    for act in acts:
        weights.append(rng.standard_normal((width, len(z))))
        seen.append(weights[-1] @ z)
        layers.append(z)
        z = act(seen[-1]) / math.sqrt(width)
    kernel, slopes = z.T @ z, []
    back = rng.standard_normal((width, 1))
    for act, u, W, below in zip(*(x[::-1] for x in (acts, seen, weights, layers)), strict=True):
        back = back * _slopes(act, u) / math.sqrt(width)
        slopes.append(back.T @ back)
        kernel += (below.T @ below) * slopes[-1]
        back = W.T @ back
    return kernel, slopes[::-1]


def tangent_of_deq(X, scalars, width, rng):
    """Return the tangent kernel of one DEQ: of its readout, and of A and B in units of theirs.

    What comes back from the equilibrium solves q = slopes * (readout + A'q).
    """
    z, seen, A = _equilibrium(X, scalars, width, rng)
    slopes, readout = _slopes(scalars.act, seen), rng.standard_normal((width, 1))
    q, last = slopes * readout, np.zeros_like(z)
    while np.linalg.norm(q - last) > 1e-6 * np.linalg.norm(q):
        q, last = slopes * (readout + A.T @ q), q
    features = z.T @ z / width
    below = scalars.sigma_a2 * features + scalars.sigma_b2 * X @ X.T
    return features + below * (q.T @ q) / width


def _slopes(act, u):
    return (act(u + 1e-3) - act(u - 1e-3)) / 2e-3
