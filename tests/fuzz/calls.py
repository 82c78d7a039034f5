"""Hostile arguments for every public function of networks and kernels."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.sparse.linalg import LinearOperator

import deqcli
import deqcli.errors
from deqcli.activations import Activation

from .hostile import (
    ACTIVATIONS,
    Random,
    hostile,
    labels,
    matrix,
    pick,
)

KERNELS = (*deqcli.Kernel, "preactivation_ck", "nkt")
Arguments = dict[str, Any]


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


def kernel_operator(rng: Random) -> Any:
    n, p = (int(size) for size in rng.integers(2, 6, 2))
    arguments = {"X": matrix(rng, n, p), **deq(rng)}
    choices: Arguments = {
        "kernel": pick(rng, KERNELS),
        "y": labels(rng, n),
        "components": 1,
        "budget": 1e9,
        "progress": lambda done, all_there_are: None,
    }
    arguments |= {k: hostile(rng, v, 0.1) for k, v in choices.items() if rng.random() < 0.4}
    return deqcli.kernel_operator, arguments, lambda M: (M @ np.eye(n), M.rounding, M.distance())


def cluster_operator(rng: Random) -> Any:
    _, arguments, _ = kernel_operator(rng)
    arguments = {k: v for k, v in arguments.items() if k not in ("budget", "progress")}
    # Nobody listens there, and whatever is wrong with the rest may be said before that.
    arguments["scheduler"] = hostile(rng, "tcp://127.0.0.1:1", 0.2)

    def call(**given: Any) -> None:
        with deqcli.cluster_operator(**given):
            pass

    return call, arguments, lambda _: 0.0


def solve_ridge(rng: Random) -> Any:
    n = int(rng.integers(2, 8))
    operator = deqcli.kernel_operator(rng.standard_normal((n, 3)), pick(rng, ("tanh", "relu")), 0.1)
    arguments = {"operator": hostile(rng, operator, 0.1), "targets": matrix(rng, n, 2)}
    choices: Arguments = {"ridge": 0.1, "tolerance": 1e-6, "columns": 2, "most": 5}
    arguments |= {k: hostile(rng, v, 0.2) for k, v in choices.items() if rng.random() < 0.6}
    return deqcli.solve_ridge, arguments, lambda found: (found.weights, found.residual)


def spectral_density(rng: Random) -> Any:
    diagonal = rng.standard_normal(4)
    operator = LinearOperator((4, 4), matvec=lambda v: diagonal * v.ravel(), dtype=np.float64)
    arguments = {
        "operator": hostile(rng, operator, 0.1),
        "at": hostile(rng, [0.0, 1.0], 0.2),
        "width": hostile(rng, 0.1),
        "probes": hostile(rng, 3),
        "steps": hostile(rng, 3),
        "rng": hostile(rng, np.random.default_rng(0), 0.1),
    }
    return deqcli.spectral_density, arguments, lambda found: (found.density, found.error)


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
    if rng.random() < 0.4:
        arguments["form"] = hostile(rng, "own-norm", 0.1)
        arguments["components"] = hostile(rng, pick(rng, (0, 1, 3, 20)), 0.1)
    if rng.random() < 0.3:
        known = deqcli.GaussianMixture.papers(9).statistics(np.array([3, 3]))
        arguments["statistics"] = hostile(rng, known, 0.3)
    return deqcli.equivalent, arguments, lambda M: (M.dense(), M.eigenvalues())


def operator(rng: Random) -> Any:
    n, q = (int(size) for size in rng.integers(1, 9, 2))
    X, factor = matrix(rng, n, 4), matrix(rng, n, q)
    core = np.eye(q) if rng.random() < 0.7 else matrix(rng, q, q)
    arguments = {"X": X, "linear": hostile(rng, 0.5), "factor": factor, "core": core}
    arguments["ridge"] = hostile(rng, 0.1)
    return deqcli.Equivalent, arguments, lambda M: (M.dense(), M.eigenvalues(), M @ np.ones(n))


@functools.cache
def _scalars() -> Any:
    import deqcli.scalars

    return deqcli.implicit_scalars("relu", 0.1), deqcli.explicit_scalars(["tanh"])


def spectral_law(rng: Random) -> Any:
    implicit, explicit = _scalars()
    p = int(rng.integers(9, 40))
    parts = (1.0, 2.0, 1e-6, np.linspace(0.5, 2, p), np.eye(p) + 0.3)
    size = pick(rng, (0, 1, 5, 1e3))
    mixture = deqcli.GaussianMixture(
        size * rng.standard_normal((2, p)), [pick(rng, parts), pick(rng, parts)]
    )
    counts = pick(rng, ([20, 30], [0, 9], [1, 1], [9, 0], [400, 7]))
    x = hostile(rng, pick(rng, (0.3, [], [[0.1, 2.0]], [np.inf], "x")), 0.1)
    arguments = {
        "mixture": hostile(rng, mixture, 0.1),
        "counts": hostile(rng, counts, 0.1),
        "scalars": hostile(rng, pick(rng, (implicit, explicit, implicit.coefficients("ck"))), 0.1),
        "kernel": hostile(rng, pick(rng, ("ck", "ntk", "preactivation-ck")), 0.05),
        "form": hostile(rng, pick(rng, ("papers", "own-norm")), 0.05),
    }
    return deqcli.spectral_law, arguments, lambda law: (
        law.edge, law.atom, law.largest, law.above, law.density(x), law.distribution(x)
    )  # fmt: skip


def predict_error(rng: Random) -> Any:
    _, arguments, _ = spectral_law(rng)
    arguments["ridge"] = hostile(rng, pick(rng, (0.1, 0.0, 1e-6, 10.0)), 0.1)
    choices: Arguments = {"width": pick(rng, (1, 30, 50, 1000)), "bias": bool(rng.integers(2))}
    arguments |= {k: hostile(rng, v, 0.1) for k, v in choices.items() if rng.random() < 0.4}
    return deqcli.predict_error, arguments, lambda found: (
        found.error, found.total, found.mean, found.covariance, found.effective_ridge
    )  # fmt: skip


def match(rng: Random) -> Any:
    arguments = {**deq(rng), "tau0": hostile(rng, 1.0)}
    family = pick(rng, ("auto", *5 * ("htanh", "lrelu", "quadratic", "cubic")))
    # Two layers take a second.
    arguments["family"] = hostile(rng, family, 0.05)
    arguments["layers"] = hostile(rng, pick(rng, (*11 * (1,), 2)), 0.05)
    arguments["kernel"] = hostile(rng, pick(rng, KERNELS), 0.05)
    if rng.random() < 0.3:
        # Fits of one layer, on few rows.
        X = rng.standard_normal((24, 3))
        arguments |= {"X": hostile(rng, X), "within": hostile(rng, 0.1), "seed": hostile(rng, 0)}
        arguments["layers"] = 1
        arguments["family"] = pick(rng, ("lrelu", "spline", "quintic", "htanh"))
    return deqcli.match, arguments, lambda twin: twin.as_record()


def match_sphere(rng: Random) -> Any:
    arguments = {**deq(rng), "dimension": hostile(rng, 10)}
    arguments["family"] = hostile(rng, pick(rng, ("quadratic", "cubic")), 0.05)
    arguments["kernel"] = hostile(rng, pick(rng, KERNELS), 0.05)
    return deqcli.match_sphere, arguments, lambda twin: (twin.as_record(), deqcli.export(twin))


@functools.cache
def _twins() -> Any:
    return (
        deqcli.match("tanh", 0.1),
        deqcli.match("relu", 0.1, layers=1, family="htanh"),
        deqcli.match_sphere("tanh", 0.1, 9, family="cubic"),
    )


def export(rng: Random) -> Any:
    target = hostile(rng, pick(rng, ("numpy", "torch")), 0.2)
    arguments = {"match": hostile(rng, pick(rng, _twins()), 0.2), "target": target}
    return deqcli.export, arguments, lambda text: compile(text, "twin.py", "exec").co_names


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


def named_activation(rng: Random) -> Any:
    x = matrix(rng, 2, 3)
    good = isinstance(x, np.ndarray) and x.dtype.kind == "f" and np.isfinite(x).all()
    follow = (lambda act: act(np.clip(x, -9, 9))) if good else None
    name = pick(rng, ACTIVATIONS if rng.random() < 0.7 else OWN)
    return deqcli.activation, {"name": hostile(rng, name, 0.3)}, follow


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


def constructed_activation(rng: Random) -> Any:
    pair = pick(rng, ((np.tanh, lambda x: 1 - np.tanh(x) ** 2), (np.sin, np.cos)))
    function, derivative = (pick(rng, (good, good, pick(rng, OWN))) for good in pair)
    arguments = {
        "name": hostile(rng, "mine", 0.05),
        "function": hostile(rng, function, 0.05),
        "derivative": hostile(rng, derivative, 0.05),
    }
    choices: Arguments = {
        "kinks": pick(rng, ((), (0.3,), None, 3)),
        "lipschitz": pick(rng, (1.0, 0.01, "abc")),
        "shift": 0.1,
        "closed_form": None,
    }
    arguments |= {k: hostile(rng, v, 0.2) for k, v in choices.items() if rng.random() < 0.3}
    return Activation, arguments, lambda act: deqcli.implicit_scalars(act, 0.0)


def activation_methods(rng: Random) -> Any:
    act = deqcli.activation(pick(rng, ACTIVATIONS[:12]))
    if rng.random() < 0.5:
        return act.shifted, {"shift": hostile(rng, 0.1, 0.4)}, None
    names = {"sigma_a2": 0.1, "sigma_b2": 0.9, "tau0": 1.0}
    return act.centred, {name: hostile(rng, good, 0.2) for name, good in names.items()}, None


def kernel_name(rng: Random) -> Any:
    return deqcli.Kernel.of, {"name": hostile(rng, pick(rng, KERNELS)), "parameter": "kernel"}, None


def accumulate(rng: Random) -> Any:
    names: Arguments = {
        "activation": pick(rng, (deqcli.activation("tanh"), deqcli.activation("relu"), "tanh")),
        "sigma_a2": 0.1,
        "sigma_b2": 0.9,
        "width": int(pick(rng, (1, 7, 20))),
        "kernels": [pick(rng, KERNELS) for _ in range(rng.integers(1, 3))],
        "weights": pick(rng, ("gaussian", "rademacher", "student-t")),
        "solver": pick(rng, ("gauss-seidel", "anderson", "picard")),
        "dtype": pick(rng, ("float32", "float64", "float16")),
        "tolerance": pick(rng, (1e-6, 1e-3, 1e-12)),
        "max_iterations": pick(rng, (1, 100)),
    }
    chosen = {name: hostile(rng, good, 0.04) for name, good in names.items()}
    source = pick(rng, (*3 * (np.random.default_rng,), lambda index: None, 3))
    arguments = {
        "X": matrix(rng, *(int(size) for size in rng.integers(1, 6, 2))),
        "realizations": hostile(rng, pick(rng, (range(2), [0], [], [-1], [0.5], 3)), 0.05),
        "stream": source,
        "settings": chosen,
    }
    kernel = hostile(rng, pick(rng, KERNELS), 0.05)
    return _accumulated, arguments, lambda total: total.mean(kernel)


def _accumulated(settings: Arguments, **arguments: Any) -> Any:
    return deqcli.accumulate(ensemble=deqcli.Ensemble(**settings), **arguments)


def simulate(rng: Random) -> Any:
    arguments = {"X": matrix(rng, *(int(size) for size in rng.integers(1, 6, 2))), **deq(rng)}
    names: Arguments = {
        "kernel": pick(rng, KERNELS), "width": 15, "realizations": int(pick(rng, (2, 3))),
        "weights": pick(rng, ("gaussian", "rademacher", "student-t")), "seed": 3,
    }  # fmt: skip
    return (
        deqcli.simulate,
        arguments | {name: hostile(rng, good, 0.05) for name, good in names.items()},
        np.asarray,
    )


def plot(rng: Random) -> Any:
    roll = rng.random()
    if roll < 0.5:
        one = [_square_matrix(rng), hostile(rng, np.arange(30.0), 0.2)]
        spectra = pick(rng, (one[0], one[1], dict(enumerate(one)), {"a": one[1]}))
        isolated = hostile(rng, pick(rng, (None, 0, 2)), 0.1)
        arguments = {"spectra": hostile(rng, spectra, 0.05), "isolated": isolated}
        return deqcli.plot.spectrum, arguments, _drawn
    if roll < 0.75:
        arguments = {"acts": layers(rng), "reach": hostile(rng, 3.0)}
        return deqcli.plot.activations, arguments, _drawn
    several = [hostile(rng, good, 0.05) for good in (50, 100, 200)]
    arguments = {"n": hostile(rng, several, 0.1)}
    arguments["errors"] = hostile(rng, [hostile(rng, 0.1, 0.05) for _ in range(3)], 0.1)
    return deqcli.plot.errors, arguments, _drawn


def _drawn(figure: Any) -> None:
    figure.draw_without_rendering()


def regressor(rng: Random) -> Any:
    return _estimator(rng, deqcli.DEQRegressor, rng.standard_normal(6))


def classifier(rng: Random) -> Any:
    return _estimator(rng, deqcli.DEQClassifier, labels(rng, 6))


def _estimator(rng: Random, cls: type, y: Any) -> Any:
    names = {"kernel": pick(rng, KERNELS), "ridge": 1e-2, "preprocess": "centred"}
    settings = {**deq(rng), **{name: hostile(rng, good, 0.05) for name, good in names.items()}}
    X, new = matrix(rng, 6, 3), matrix(rng, 2, 3)
    arguments = {"X": X, "y": y, "new": new, "settings": settings}
    return functools.partial(_fitted, cls), arguments, None


def _fitted(cls: type, X: Any, y: Any, new: Any, settings: Arguments) -> Any:
    try:
        return cls(**settings).fit(X, y).predict(new)
    except deqcli.errors.DeqcliError:
        raise
    # What is wrong with X and y scikit-learn says itself.
    except (ValueError, TypeError, OverflowError, UserWarning, RuntimeWarning) as error:
        raise deqcli.errors.InputError("scikit-learn refused it.") from error


def deq_kernel(rng: Random) -> Any:
    arguments = {**deq(rng), "kernel": hostile(rng, pick(rng, KERNELS), 0.05)}
    X = matrix(rng, 4, 3)
    return deqcli.DEQKernel, arguments, lambda kernel: kernel(X)


def run(rng: Random) -> Any:
    arguments: Arguments = {"study": hostile(rng, "match", 0.2), "tau0": hostile(rng, 1.0)}
    arguments |= {"act": activation(rng), "sigma_a2": hostile(rng, 0.1)}
    # A whole run is a hundred times as long.
    arguments["dry_run"] = rng.random() < 0.7
    for name, good in (("jobs", 1), ("name", "x"), ("formats", ("png",)), ("settings", None),
                       ("family", "htanh"), ("nonsense", 1), ("seed", 3), ("force", True),
                       ("scheduler", None), ("progress", False)):  # fmt: skip
        if rng.random() < 0.15:
            arguments[name] = hostile(rng, good, 0.5)
    return deqcli.run, arguments, lambda result: (result.exit_code, result.findings, result.table)
