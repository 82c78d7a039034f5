"""Every public function with hostile arguments: an answer that is finite, or one sentence."""

from __future__ import annotations

import warnings

import pytest

import deqcli
from deqcli.errors import DeqcliError, OutsidePapersRangeWarning

from . import calls, data_calls
from .hostile import batches, frozen, generator, no_sentence, not_finite, seen

#: What makes the arguments of each public name.
CALLS = {
    "implicit_kernels": calls.implicit_kernels,
    "explicit_kernels": calls.explicit_kernels,
    "implicit_scalars": calls.implicit_scalars,
    "explicit_scalars": calls.explicit_scalars,
    "sphere_scalars": calls.sphere_scalars,
    "equivalent": calls.equivalent,
    "Equivalent": calls.operator,
    "spectral_law": calls.spectral_law,
    "predict_error": calls.predict_error,
    "kernel_operator": calls.kernel_operator,
    "cluster_operator": calls.cluster_operator,
    "spectral_density": calls.spectral_density,
    "solve_ridge": calls.solve_ridge,
    "match": calls.match,
    "match_sphere": calls.match_sphere,
    "export": calls.export,
    "operator_norm": calls.operator_norm,
    "operator_distance": calls.operator_distance,
    "activation": calls.named_activation,
    "Activation": calls.constructed_activation,
    "Activation.from_function": calls.own_activation,
    "Activation.centred": calls.activation_methods,
    "Kernel": calls.kernel_name,
    "accumulate": calls.accumulate,
    "simulate": calls.simulate,
    "plot": calls.plot,
    "DEQRegressor": calls.regressor,
    "DEQClassifier": calls.classifier,
    "DEQKernel": calls.deq_kernel,
    "run": calls.run,
    "estimate_statistics": data_calls.estimate_statistics,
    "GaussianMixture": data_calls.mixture,
    "GaussianMixture.papers": data_calls.papers,
    "sphere": data_calls.sphere,
    "load": data_calls.load,
    "read": data_calls.read,
}
#: Made by `accumulate`, or returned by other calls.
WITHIN = {"Dataset", "Ensemble", "KernelOperator", "PredictedError", "Result", "RidgeSolution",
          "ShardedOperator", "Simulation", "SpectralLaw", "__version__", "errors"}  # fmt: skip


def test_nothing_public_is_left_out():
    assert set(deqcli.__all__) <= WITHIN | {name.partition(".")[0] for name in CALLS}


def attempt(case: int) -> tuple[str, list[str]]:
    """Make one call; say how it ended and what is wrong with that."""
    rng = generator("calls", case)
    name = list(CALLS)[case % len(CALLS)]
    function, arguments, follow = CALLS[name](rng)
    before = {name: frozen(value) for name, value in arguments.items()}
    described = f"case {case}: {name}(**{seen(arguments)})"
    wrong: list[str] = []
    outcome = "answered"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            warnings.simplefilter("ignore", OutsidePapersRangeWarning)
            result = function(**arguments)
            answer = result if follow is None else (result, follow(result))
        wrong += not_finite(answer, "result")
    except DeqcliError as error:
        outcome = "refused"
        wrong += no_sentence(error)
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        wrong.append(f"{type(error).__name__}: {error}")
    changed = [name for name, value in arguments.items() if frozen(value) != before[name]]
    wrong += [f"{name} was changed" for name in changed if name != "rng"]
    faults = [f"{described}\n    {text}" for text in wrong]
    return "faulty" if faults else outcome, faults


@pytest.mark.parametrize("cases", batches(), ids=lambda cases: f"from{cases[0]}")
def test_calls(cases, assert_clean):
    assert_clean("calls", cases, attempt)
