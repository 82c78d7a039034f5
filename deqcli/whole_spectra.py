"""Spectra of kernels that are too large to decompose: leading eigenvalues and a density."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator

from deqcli.lanczos import NO_WEIGHT, Quadrature, SplitQuadrature, leading_pairs, quadrature

if TYPE_CHECKING:
    from deqcli.study import Arrays

Array = NDArray[np.float64]

#: Random vectors, Lanczos steps of each, with and without the directions of the largest
#: eigenvalues, and leading eigenvalues at least.
PROBES, STEPS, INNER_STEPS, LEADING = 4, 100, 60, 20
# Squared singular values of samples below this, of the largest, are not told from the bulk.
_NO_DIRECTION = 1e-6
# Directions of the samples are set apart where they are at most this share of all.
_MOST_DIRECTIONS = 0.25
# Points of a density, over how many standard deviations of what smooths it.
_POINTS, _WIDTHS = 241, 80
# Spectra wider than this, in medians, have logarithmic axes, as in the figure.
_WIDE = 50


class Grid(NamedTuple):
    """Where a density is evaluated, how wide it is smoothed, and whether its logarithm is."""

    at: Array
    width: float
    log: bool


def summarise(
    operator: LinearOperator, samples: Array, isolated: int, rng: np.random.Generator
) -> Arrays:
    """Return leading eigenvalues, descending, and the quadratures of random vectors.

    Parameters
    ----------
    samples : ndarray of shape (n, p)
        In whose range the largest eigenvalues are; if p is small beside n the others are found
        apart from them.
    isolated : int
        Eigenvalues that stand apart; one more than them is found, and 20 at least.
    """
    n = operator.shape[0]
    found = quadrature(operator, PROBES, STEPS, rng)
    arrays = {
        "leading": leading_pairs(operator, min(n - 1, max(LEADING, isolated + 1)))[0],
        "diagonal": found.diagonal,
        "beside": found.beside,
    }
    inverse, rank = _inverse_gram(samples)
    if not 0 < rank <= _MOST_DIRECTIONS * n:
        return arrays

    def apart(columns: Array) -> Array:
        # Twice: the second time takes what rounding left.
        for _ in range(2):
            columns = columns - samples @ (inverse @ (samples.T @ columns))
        return columns

    inner = quadrature(operator, PROBES, INNER_STEPS, rng, apart)
    share = np.array(rank / n)
    return arrays | {"inner": inner.diagonal, "inner_beside": inner.beside, "share": share}


def _inverse_gram(samples: Array) -> tuple[Array, int]:
    """Return the inverse of the samples' p × p Gram matrix on its range, and its rank."""
    if samples.shape[1] > _MOST_DIRECTIONS * samples.shape[0]:
        return np.empty((0, 0)), 0
    values, vectors = np.linalg.eigh(samples.T @ samples)
    kept = values > _NO_DIRECTION * values[-1]
    directions = vectors[:, kept]
    return (directions / values[kept]) @ directions.T, int(np.count_nonzero(kept))


def summary_bytes(n: int, p: int) -> int:
    """Return the bytes that :func:`summarise` takes: bases, eigenvectors, scaled samples."""
    return 8 * n * (PROBES * (STEPS + 4) + 4 * LEADING + p)


def grid_of(spectra: Mapping[str, Arrays], isolated: int) -> Grid:
    """Return one grid for all spectra, without what stands apart where axes are linear."""
    nodes, weights = map(np.concatenate, zip(*map(_nodes, spectra.values()), strict=True))
    order = np.argsort(nodes)
    nodes, shares = nodes[order], np.cumsum(weights[order]) / weights.sum()
    low, high = float(nodes[0]), float(max(s["leading"][0] for s in spectra.values()))
    median = float(nodes[np.searchsorted(shares, 0.5)])
    if low > 0 and high > _WIDE * median:
        width = np.log(high / low) / _WIDTHS
        ends = np.log(low) - 3 * width, np.log(high) + 3 * width
        return Grid(np.exp(np.linspace(*ends, _POINTS)), float(width), True)
    high = max(float(s["leading"][min(isolated, s["leading"].size - 1)]) for s in spectra.values())
    width = (high - low) / _WIDTHS or 0.01 * abs(high) or 0.01
    return Grid(np.linspace(low - 3 * width, high + 3 * width, _POINTS), width, False)


def _nodes(spectrum: Arrays) -> tuple[Array, Array]:
    nodes, weights = _quadrature(spectrum).nodes()
    return nodes[weights > NO_WEIGHT], weights[weights > NO_WEIGHT]


def _quadrature(spectrum: Arrays) -> Quadrature:
    outer = spectrum["diagonal"], spectrum["beside"]
    if "inner" not in spectrum:
        return Quadrature(*outer)
    inner = Quadrature(spectrum["inner"], spectrum["inner_beside"])
    return SplitQuadrature(*outer, inner, float(spectrum["share"]))


def facts_of(spectrum: Arrays) -> dict[str, float]:
    """Return how a density was found, for a record; ``split`` is what its distribution may err."""
    probes, steps = spectrum["diagonal"].shape
    return {"probes": probes, "steps": steps, "split": float(spectrum.get("share", 0.0))}


def density_rows(spectrum: Arrays, grid: Grid, rows: pd.DataFrame) -> pd.DataFrame:
    """Return the density of a spectrum in rows, beside those of its leading eigenvalues.

    Parameters
    ----------
    rows : DataFrame
        Of the leading eigenvalues; what else they say is said here too.
    """
    first: dict[str, Any] = {str(name): value for name, value in rows.iloc[0].items()}
    n, known = first["n"], spectrum["leading"]
    found = _quadrature(spectrum).density(grid.at, grid.width, known, n, grid.log)
    values = {
        "index": len(rows) + np.arange(grid.at.size),
        "eigenvalue": grid.at,
        "isolated": False,
        "density": found.density,
        "distribution": found.distribution,
        "error": found.error,
    }
    return pd.DataFrame({**first, **values})
