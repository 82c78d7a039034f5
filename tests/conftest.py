"""Tolerances with their reasons, reference numbers, and expectations written out plainly."""

import csv
import os

# Workers share the cores: threads of BLAS beside them would only get in each other's way.
os.environ.setdefault("OMP_NUM_THREADS", "1")
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import settings

# The same examples every time: a failure here is a failure there.
settings.register_profile(
    "deterministic", derandomize=True, deadline=None, max_examples=20, database=None
)
settings.load_profile("deterministic")

REFERENCE = Path(__file__).parent / "reference"

#: Every tolerance of the numerical tests, and why it is that and not less.
TOLERANCES: dict[str, tuple[float, str]] = {
    # Promised to users.
    "scalars": (1e-10, "promised, relative to reference/scalars.csv; met to 1e-12"),
    "zero": (1e-12, "where the reference is zero up to its own rounding"),
    "kernels": (1e-9, "promised, absolute against reference/kernels.npz; met to 1e-14"),
    # One route against another, both meant to be exact.
    "rounding": (1e-13, "the same formula in another order: a few hundred roundings"),
    "quadrature": (1e-12, "composite Gauss-Legendre against mpmath, closed form or series"),
    "routes": (1e-10, "interpolated against direct: TOLERANCE = 5e-12 and some amplification"),
    "parallel": (1e-9, "NTK of nearly parallel inputs: arccos error 1e-16/angle at angle 1e-6"),
    "newton": (1e-10, "fixed point by plain iteration, stopped after a fixed number of steps"),
    "psd": (1e-12, "smallest eigenvalue relative to the largest"),
    # Differences.
    "difference": (1e-8, "sixth-order difference, step 1e-2, activations of unit scale"),
    "numerical derivative": (1e-9, "the library's fourth-order difference, step 1e-3"),
    "price": (1e-7, "central difference of an expectation in its covariance, step 1e-4"),
    "float32": (1e-5, "single precision has 24 bits; tails of exp lose a few"),
    # Random.
    "wide network": (0.06, "3000 neurons, 5 samples: expected 0.3 * 5/sqrt(3000)/0.75 = 0.036"),
    "many networks": (0.025, "15000 neurons and more: expected 0.016"),
    "monte carlo": (6.0, "standard errors"),
}


@pytest.fixture(scope="session")
def tol() -> Callable[[str], float]:
    """Return a tolerance by its name in ``TOLERANCES``."""
    return lambda name: TOLERANCES[name][0]


@pytest.fixture
def no_small_runs(monkeypatch):
    """Let --dry-run say a time without small runs to measure it."""
    monkeypatch.setattr("deqcli.runs.calibration.estimate_seconds", lambda *_: 1.0)


@pytest.fixture(scope="session")
def reference_scalars() -> list[dict[str, str]]:
    with (REFERENCE / "scalars.csv").open(newline="") as stream:
        return list(csv.DictReader(stream))


@pytest.fixture(scope="session")
def reference_kernels() -> dict[str, np.ndarray]:
    with np.load(REFERENCE / "kernels.npz", allow_pickle=False) as stored:
        return dict(stored)


def _legendre(edges: np.ndarray, count: int = 16) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and standard normal weights on panels, for edges along the last axis."""
    nodes, weights = np.polynomial.legendre.leggauss(count)
    half = np.diff(edges, axis=-1)[..., None] / 2
    x = edges[..., :-1, None] + half * (1 + nodes)
    w = half * weights * np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi)
    return x.reshape(*edges.shape[:-1], -1), w.reshape(*edges.shape[:-1], -1)


def _expect_pair(
    function: Callable[[np.ndarray], np.ndarray],
    kinks: tuple[float, ...],
    covariance: np.ndarray,
    panels: int = 40,
) -> float:
    """E f(u) f(v): first over v given u, then over u, panels ending at the kinks.

    Other axes than the library's, and no angle; good for correlations up to 0.99 or so.
    """
    s1, s2 = np.sqrt(np.diag(covariance))
    rho = covariance[0, 1] / (s1 * s2)
    rest = np.sqrt(1 - rho**2)
    base = np.linspace(-9, 9, panels + 1)
    marks = np.array(kinks, dtype=float)
    x, wx = _legendre(np.sort(np.concatenate([base, np.clip(marks / s1, -9, 9)])))
    inner = np.clip((marks / s2 - rho * x[:, None]) / rest, -9, 9)
    edges = np.sort(np.concatenate([np.tile(base, (x.size, 1)), inner], axis=1), axis=1)
    y, wy = _legendre(edges)
    given = np.sum(wy * function(s2 * (rho * x[:, None] + rest * y)), axis=1)
    return float(np.sum(wx * function(s1 * x) * given))


@pytest.fixture(scope="session")
def expect_pair() -> Callable[..., float]:
    """A Gaussian pair expectation that shares no code with the library."""
    return _expect_pair


@pytest.fixture(scope="session")
def plain() -> SimpleNamespace:
    """Matrix recursions as the papers write them, for smooth activations, by Gauss-Hermite."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(220)
    weights = weights / weights.sum()

    def pair_matrix(function: Callable[[np.ndarray], np.ndarray], L: np.ndarray) -> np.ndarray:
        s = np.sqrt(np.diag(L))
        out = np.empty_like(L)
        for i in range(len(L)):
            left = function(s[i] * nodes) * weights
            for j in range(len(L)):
                rho = np.clip(L[i, j] / (s[i] * s[j]), -1, 1)
                v = s[j] * (rho * nodes[:, None] + np.sqrt(1 - rho**2) * nodes)
                out[i, j] = left @ function(v) @ weights
        return out

    def deep_shared(
        act: object, gram: np.ndarray, sigma_a2: float, sigma_b2: float, layers: int
    ) -> SimpleNamespace:
        """Many layers with the same variances and the input injected into each."""
        L = K = sigma_b2 * gram
        for _ in range(layers):
            G, dot = pair_matrix(act, L), pair_matrix(act.derivative, L)
            K = sigma_a2 * (G + K * dot) + sigma_b2 * gram
            L = sigma_a2 * G + sigma_b2 * gram
        G, dot = pair_matrix(act, L), pair_matrix(act.derivative, L)
        return SimpleNamespace(ck=G, preactivation_ck=L, ntk=G + K * dot, preactivation_ntk=K)

    return SimpleNamespace(pair_matrix=pair_matrix, deep_shared=deep_shared)


SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def real_data() -> Path:
    place = Path(os.environ.get("DEQCLI_DATA_DIR") or SHARED)
    for name in ("mnist", "fashion-mnist", "cifar-10", "cifar-10-vgg19"):
        if not (place / name).is_dir():
            pytest.skip(f"no real data: {name} is not in DEQCLI_DATA_DIR or ../shared/data")
    return place
