"""When does a deep equilibrium model equal a shallow explicit network, and which one?

The public interface; everything is loaded on first use, so that importing the package is free.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from deqcli._version import __version__ as __version__

if TYPE_CHECKING:
    from deqcli import errors as errors
    from deqcli import plot as plot
    from deqcli.activations import Activation as Activation
    from deqcli.activations import activation as activation
    from deqcli.conjugate import RidgeSolution as RidgeSolution
    from deqcli.conjugate import solve_ridge as solve_ridge
    from deqcli.data.dataset import Dataset as Dataset
    from deqcli.data.load import load as load
    from deqcli.data.mixture import GaussianMixture as GaussianMixture
    from deqcli.data.mixture import sphere as sphere
    from deqcli.equivalents import Equivalent as Equivalent
    from deqcli.equivalents import equivalent as equivalent
    from deqcli.equivalents import operator_distance as operator_distance
    from deqcli.equivalents import operator_norm as operator_norm
    from deqcli.estimators import DEQClassifier as DEQClassifier
    from deqcli.estimators import DEQKernel as DEQKernel
    from deqcli.estimators import DEQRegressor as DEQRegressor
    from deqcli.kernels.exact import explicit_kernels as explicit_kernels
    from deqcli.kernels.exact import implicit_kernels as implicit_kernels
    from deqcli.lanczos import spectral_density as spectral_density
    from deqcli.matching import match as match
    from deqcli.matching import match_sphere as match_sphere
    from deqcli.matching.export import export as export
    from deqcli.monte_carlo import Ensemble as Ensemble
    from deqcli.monte_carlo import accumulate as accumulate
    from deqcli.operators import KernelOperator as KernelOperator
    from deqcli.operators import kernel_operator as kernel_operator
    from deqcli.prediction.error import predict_error as predict_error
    from deqcli.prediction.regression import PredictedError as PredictedError
    from deqcli.runs.execute import run as run
    from deqcli.runs.reading import read as read
    from deqcli.runs.result import Result as Result
    from deqcli.scalars import explicit_scalars as explicit_scalars
    from deqcli.scalars import implicit_scalars as implicit_scalars
    from deqcli.scalars import sphere_scalars as sphere_scalars
    from deqcli.sharded import ShardedOperator as ShardedOperator
    from deqcli.sharded import cluster_operator as cluster_operator
    from deqcli.simulation import Simulation as Simulation
    from deqcli.simulation import simulate as simulate
    from deqcli.spectral.law import SpectralLaw as SpectralLaw
    from deqcli.spectral.law import spectral_law as spectral_law
    from deqcli.statistics import estimate_statistics as estimate_statistics
    from deqcli.vocabulary import Kernel as Kernel

#: Where each public name lives.
_HOME = {
    "deqcli.activations": ("Activation", "activation"),
    "deqcli.conjugate": ("RidgeSolution", "solve_ridge"),
    "deqcli.data.dataset": ("Dataset",),
    "deqcli.data.load": ("load",),
    "deqcli.data.mixture": ("GaussianMixture", "sphere"),
    "deqcli.equivalents": ("Equivalent", "equivalent", "operator_distance", "operator_norm"),
    "deqcli.estimators": ("DEQClassifier", "DEQKernel", "DEQRegressor"),
    "deqcli.kernels.exact": ("explicit_kernels", "implicit_kernels"),
    "deqcli.lanczos": ("spectral_density",),
    "deqcli.matching": ("export", "match", "match_sphere"),
    "deqcli.monte_carlo": ("Ensemble", "accumulate"),
    "deqcli.operators": ("KernelOperator", "kernel_operator"),
    "deqcli.prediction.error": ("predict_error",),
    "deqcli.prediction.regression": ("PredictedError",),
    "deqcli.runs.execute": ("run",),
    "deqcli.runs.reading": ("read",),
    "deqcli.runs.result": ("Result",),
    "deqcli.simulation": ("Simulation", "simulate"),
    "deqcli.sharded": ("ShardedOperator", "cluster_operator"),
    "deqcli.scalars": ("explicit_scalars", "implicit_scalars", "sphere_scalars"),
    "deqcli.spectral.law": ("SpectralLaw", "spectral_law"),
    "deqcli.statistics": ("estimate_statistics",),
    "deqcli.vocabulary": ("Kernel",),
}
#: Modules that are public themselves.
_MODULES = ("errors", "plot")

__all__ = ["__version__", *_MODULES, *sorted(name for names in _HOME.values() for name in names)]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"deqcli.{name}")
    for home, names in _HOME.items():
        if name in names:
            value = getattr(importlib.import_module(home), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module 'deqcli' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
