"""When does a deep equilibrium model equal a shallow explicit network, and which one?

The public interface; everything is loaded on first use, so that importing the package is free.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from deqcli._version import __version__ as __version__

if TYPE_CHECKING:
    from deqcli.activations import Activation as Activation
    from deqcli.activations import activation as activation
    from deqcli.data.mixture import GaussianMixture as GaussianMixture
    from deqcli.data.mixture import sphere as sphere
    from deqcli.equivalents import Equivalent as Equivalent
    from deqcli.equivalents import equivalent as equivalent
    from deqcli.kernels.explicit import explicit_kernels as explicit_kernels
    from deqcli.kernels.implicit import implicit_kernels as implicit_kernels
    from deqcli.matching import match as match
    from deqcli.scalars import explicit_scalars as explicit_scalars
    from deqcli.scalars import implicit_scalars as implicit_scalars
    from deqcli.scalars import sphere_scalars as sphere_scalars
    from deqcli.spectra import operator_distance as operator_distance
    from deqcli.spectra import operator_norm as operator_norm
    from deqcli.statistics import estimate_statistics as estimate_statistics

_HOME = {
    "Activation": "deqcli.activations",
    "activation": "deqcli.activations",
    "GaussianMixture": "deqcli.data.mixture",
    "sphere": "deqcli.data.mixture",
    "Equivalent": "deqcli.equivalents",
    "equivalent": "deqcli.equivalents",
    "explicit_kernels": "deqcli.kernels.explicit",
    "implicit_kernels": "deqcli.kernels.implicit",
    "match": "deqcli.matching",
    "explicit_scalars": "deqcli.scalars",
    "implicit_scalars": "deqcli.scalars",
    "sphere_scalars": "deqcli.scalars",
    "operator_distance": "deqcli.spectra",
    "operator_norm": "deqcli.spectra",
    "estimate_statistics": "deqcli.statistics",
}

__all__ = ["__version__", *_HOME]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'deqcli' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
