"""Every public function with hostile arguments: an answer that is finite, or one sentence."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import deqcli
from deqcli.activations import Activation
from deqcli.errors import DeqcliError, OutsidePapersRangeWarning

from .hostile import (
    ACTIVATIONS,
    FLOATS,
    Random,
    anything,
    batches,
    frozen,
    generator,
    labels,
    matrix,
    not_finite,
    pick,
)

KERNELS = (*deqcli.Kernel, "preactivation_ck", "nkt")
Arguments = dict[str, Any]


def hostile(rng: Random, good: Any, chance: float = 0.15) -> Any:
    """Return a good value, a number that may be anything, or anything at all."""
    roll = rng.random()
    if roll < chance and isinstance(good, float | int):
        return pick(rng, FLOATS)
    return anything(rng) if roll < 1.5 * chance else good


def activation(rng: Random) -> Any:
    return hostile(rng, pick(rng, ACTIVATIONS[: 12 if rng.random() < 0.7 else None]), 0.05)


def deq(rng: Random) -> Arguments:
    arguments: Arguments = {"act": activation(rng), "sigma_a2": hostile(rng, 0.1)}
    if rng.random() < 0.6:
        arguments["sigma_b2"] = hostile(rng, pick(rng, (0.9, 0.5, 0.0, 2.0, 1e-50, 1e50)))
    return arguments


def layers(rng: Random) -> Any:
    return hostile(rng, [activation(rng) for _ in range(rng.integers(1, 4))], 0.05)


def implicit_kernels(rng: Random) -> Any:
    n, p = (int(size) for size in rng.integers(2, 6, 2))
    arguments = {"X": matrix(rng, n, p), **deq(rng)}
    if rng.random() < 0.3:
        arguments["Y"] = matrix(rng, 3, p)
    kernel = hostile(rng, pick(rng, KERNELS), 0.05)
    return deqcli.implicit_kernels, arguments, lambda kernels: kernels.compute(kernel)


def explicit_kernels(rng: Random) -> Any:
    n, p = (int(size) for size in rng.integers(2, 6, 2))
    arguments = {"X": matrix(rng, n, p), "acts": layers(rng)}
    if rng.random() < 0.3:
        arguments["Y"] = matrix(rng, 3, p)
    rows, kernel = hostile(rng, 2), pick(rng, KERNELS)
    return deqcli.explicit_kernels, arguments, lambda k: list(k.blocks(kernel, rows))


def implicit_scalars(rng: Random) -> Any:
    return deqcli.implicit_scalars, {**deq(rng), "tau0": hostile(rng, 1.0)}, None


def explicit_scalars(rng: Random) -> Any:
    return deqcli.explicit_scalars, {"acts": layers(rng), "tau0": hostile(rng, 1.0)}, None


def sphere_scalars(rng: Random) -> Any:
    arguments = {"network": layers(rng), "dimension": hostile(rng, 10)}
    if rng.random() < 0.6:
        arguments |= {"network": activation(rng), "sigma_a2": hostile(rng, 0.2)}
    arguments["kernel"] = hostile(rng, pick(rng, KERNELS), 0.05)
    return deqcli.sphere_scalars, arguments, None


def equivalent(rng: Random) -> Any:
    n, p = (int(size) for size in rng.integers(4, 9, 2))
    implicit, explicit = _scalars()
    sphere = deqcli.scalars.SphereScalars(0.1, 0.8, 0.1, p)
    arguments = {
        "X": matrix(rng, n, p),
        "y": labels(rng, n),
        "scalars": hostile(rng, pick(rng, (implicit, explicit, sphere)), 0.05),
        "kernel": hostile(rng, pick(rng, KERNELS), 0.05),
    }
    if rng.random() < 0.3:
        arguments["statistics"] = hostile(rng, _mixture().statistics(np.array([3, 3])), 0.3)
    return deqcli.equivalent, arguments, lambda M: (M.dense(), M.eigenvalues())


@functools.cache
def _scalars() -> Any:
    import deqcli.scalars

    return deqcli.implicit_scalars("relu", 0.1), deqcli.explicit_scalars(["tanh"])


@functools.cache
def _mixture() -> deqcli.GaussianMixture:
    return deqcli.GaussianMixture.papers(9)


def match(rng: Random) -> Any:
    arguments = {**deq(rng), "tau0": hostile(rng, 1.0)}
    family = pick(rng, ("auto", *3 * ("htanh", "lrelu", "quadratic", "cubic")))
    # Two layers take tenths of a second each.
    arguments["family"] = hostile(rng, family, 0.05)
    arguments["layers"] = hostile(rng, pick(rng, (1, 1, 1, 2)), 0.05)
    arguments["kernel"] = hostile(rng, pick(rng, KERNELS), 0.05)
    return deqcli.match, arguments, lambda twin: twin.as_record()


def symmetric(rng: Random) -> Any:
    n = int(pick(rng, (1, 2, 5, 5, 5, 210)))
    X = matrix(rng, n, n)
    with np.errstate(all="ignore"):
        return X + X.T if isinstance(X, np.ndarray) and X.dtype == float and X.ndim == 2 else X


def operator_norm(rng: Random) -> Any:
    return deqcli.operator_norm, {"matrix": _square_matrix(rng)}, None


def _square_matrix(rng: Random) -> Any:
    try:
        return symmetric(rng)
    except (ValueError, TypeError):
        return None


def operator_distance(rng: Random) -> Any:
    arguments = {"first": _square_matrix(rng), "second": _square_matrix(rng)}
    return deqcli.operator_distance, arguments, None


def estimate_statistics(rng: Random) -> Any:
    n, p = (int(size) for size in rng.integers(2, 9, 2))
    return deqcli.estimate_statistics, {"X": matrix(rng, n, p), "y": labels(rng, n)}, None


def named_activation(rng: Random) -> Any:
    x = matrix(rng, 2, 3)
    good = isinstance(x, np.ndarray) and x.dtype.kind == "f" and np.isfinite(x).all()
    follow = (lambda act: act(np.clip(x, -9, 9))) if good else None
    return deqcli.activation, {"name": hostile(rng, pick(rng, ACTIVATIONS), 0.3)}, follow


OWN: tuple[Callable[..., Any], ...] = (
    np.tanh, np.sin, np.abs, np.sign, np.sum, np.exp, len, lambda x: x, lambda x: x * np.nan,
    lambda x: x.T, lambda: 0, lambda x: None, lambda x: x.astype(str), lambda x: exit(3),
    lambda x: 1 / 0, lambda x: x.sort() or x, lambda x: np.tanh(x) if x.size < 50 else x[:1],
    lambda x: np.tanh(x) if x.size < 50 else exit(0), lambda x: np.maximum(x, 0.3),
    lambda x: np.where(x > 5, np.inf, x), lambda x: 1e-30 * x, lambda x: 1e200 * x,
    lambda x: x * 0, lambda x: np.ones_like(x), lambda x: np.tanh(x.astype("f4")),
)  # fmt: skip


def own_activation(rng: Random) -> Any:
    arguments = {"function": hostile(rng, pick(rng, OWN), 0.05)}
    if rng.random() < 0.3:
        arguments["derivative"] = hostile(rng, pick(rng, OWN), 0.05)
    if rng.random() < 0.3:
        arguments["kinks"] = hostile(rng, pick(rng, ((), (0.3,), (0,), None, "abc", 3)), 0.2)
    if rng.random() < 0.3:
        arguments["lipschitz"] = hostile(rng, pick(rng, (1.0, 0.5, "abc", np.inf)), 0.2)
    if rng.random() < 0.3:
        arguments["name"] = hostile(rng, "mine", 0.2)
    sigma_a2 = pick(rng, (0.0, 0.1))
    return Activation.from_function, arguments, lambda a: deqcli.implicit_scalars(a, sigma_a2)


def activation_methods(rng: Random) -> Any:
    act = deqcli.activation(pick(rng, ACTIVATIONS[:12]))
    if rng.random() < 0.5:
        return act.shifted, {"shift": hostile(rng, 0.1, 0.4)}, None
    names = {"sigma_a2": 0.1, "sigma_b2": 0.9, "tau0": 1.0}
    return act.centred, {name: hostile(rng, good, 0.2) for name, good in names.items()}, None


def mixture(rng: Random) -> Any:
    p = int(rng.integers(2, 6))
    means = matrix(rng, 2, p)
    full = np.eye(p) + 0.3 * pick(rng, (0, 1, 5, -9))
    parts = (1.0, np.ones(p), full, np.zeros(p), -1.0, np.triu(full), matrix(rng, p, p))
    covariances = hostile(rng, [hostile(rng, pick(rng, parts), 0.05) for _ in range(2)], 0.05)
    arguments: Arguments = {"means": means, "covariances": covariances}
    if rng.random() < 0.3:
        arguments["shape"] = hostile(rng, pick(rng, parts), 0.1)
        arguments["covariances"] = hostile(rng, [1.0, pick(rng, (0.5, 0.0, np.ones(p)))], 0.05)
    return deqcli.GaussianMixture, arguments, _mixture_use(rng)


def papers(rng: Random) -> Any:
    names = {"p": 10, "classes": 2, "mean_norm": 8.0, "spread": 8.0}
    arguments = {name: hostile(rng, good, 0.12) for name, good in names.items()}
    return deqcli.GaussianMixture.papers, arguments, _mixture_use(rng)


def _mixture_use(rng: Random) -> Any:
    n, source = hostile(rng, 7), hostile(rng, np.random.default_rng(0), 0.05)
    counts = hostile(rng, pick(rng, ([3, 4], [0, 7], [-1, 8], [3.5, 3.5], np.array([3, 4]))), 0.1)

    def use(made: deqcli.GaussianMixture) -> Any:
        given = None if rng.random() < 0.5 else counts
        return made.statistics(counts), made.sample(n, source, given)

    return use


def sphere(rng: Random) -> Any:
    source = hostile(rng, np.random.default_rng(0), 0.1)
    return deqcli.sphere, {"n": hostile(rng, 3), "dimension": hostile(rng, 4), "rng": source}, None


def run(rng: Random) -> Any:
    arguments: Arguments = {"study": hostile(rng, "match", 0.2), "tau0": hostile(rng, 1.0)}
    arguments |= {"dry_run": True, "act": activation(rng), "sigma_a2": hostile(rng, 0.1)}
    for name, good in (("jobs", 1), ("name", "x"), ("formats", ("png",)), ("settings", None),
                       ("family", "htanh"), ("nonsense", 1), ("seed", 3)):  # fmt: skip
        if rng.random() < 0.15:
            arguments[name] = hostile(rng, good, 0.5)
    return deqcli.run, arguments, None


CALLS = (
    implicit_kernels, explicit_kernels, implicit_scalars, explicit_scalars, sphere_scalars,
    equivalent, match, operator_norm, operator_distance, estimate_statistics, named_activation,
    own_activation, activation_methods, mixture, papers, sphere, run,
)  # fmt: skip


def faults(case: int) -> list[str]:
    """Make one call, and say what is wrong with how it ended."""
    rng = generator("calls", case)
    function, arguments, follow = CALLS[case % len(CALLS)](rng)
    before = {name: frozen(value) for name, value in arguments.items()}
    described = f"case {case}: {function.__qualname__}(**{arguments})"
    wrong: list[str] = []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            warnings.simplefilter("ignore", OutsidePapersRangeWarning)
            result = function(**arguments)
            answer = result if follow is None else (result, follow(result))
        wrong += not_finite(answer, "result")
    except DeqcliError as error:
        if "\n" in str(error) or not str(error):
            wrong.append(f"no sentence: {error!r}")
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        wrong.append(f"{type(error).__name__}: {error}")
    changed = [name for name, value in arguments.items() if frozen(value) != before[name]]
    wrong += [f"{name} was changed" for name in changed if name != "rng"]
    return [f"{described}\n    {text}" for text in wrong]


@pytest.mark.parametrize("cases", batches(), ids=lambda cases: f"from{cases[0]}")
def test_calls(cases):
    wrong = [text for case in cases for text in faults(case)]
    assert not wrong, "\n".join(wrong)
