"""Figures of plain arrays: ``deqcli.plot.spectrum``, ``activations`` and ``errors``.

Each returns a matplotlib ``Figure`` in the papers' colours: the first curve blue (the DEQ), the
second red (its equivalent or twin), the third green (a plain network). A notebook shows it; a
script saves it with ``figure.savefig("name.png")``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse.linalg import LinearOperator

from deqcli.activations import ActivationLike, activation
from deqcli.checks import POSITIVE, Range, number, shown
from deqcli.equivalents import Equivalent, count_isolated, eigenvalues
from deqcli.errors import DataError, InputError
from deqcli.kernels.matrix import check_samples

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[np.float64]

__all__ = ["activations", "errors", "spectrum"]

_MOST = 8


def __dir__() -> list[str]:
    return sorted(__all__)


def spectrum(
    spectra: Mapping[str, Any] | ArrayLike, *, isolated: int | None = None, title: str = ""
) -> Figure:
    """Draw the eigenvalues of one matrix or of several, as histograms over each other.

    Parameters
    ----------
    spectra : mapping of str to array, or one array
        By label: symmetric matrices of shape (n, n), Equivalents, Simulations, or eigenvalues of
        shape (n,).
    isolated : int, optional
        How many of the largest eigenvalues stand apart and get an axis of their own; counted from
        the gaps of the last spectrum, if not given.
    title : str

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 300)) / np.sqrt(300)
    >>> figure = spectrum({"Gram matrix": X @ X.T, "identity": np.ones(200)}, isolated=0)
    >>> figure.axes[0].get_xlabel()
    'eigenvalue, bulk'
    """
    from deqcli.figures.arrays import draw_spectra

    named = spectra if isinstance(spectra, Mapping) else {"eigenvalues": spectra}
    values = {str(label): _eigenvalues(matrix) for label, matrix in _few(named, "spectra").items()}
    least = min(len(entry) for entry in values.values())
    if isolated is None:
        isolated = count_isolated(list(values.values())[-1])
    isolated = number(isolated, "isolated", int, Range(least=0, most=least - 1))
    return draw_spectra(values, isolated, str(title))


def activations(
    acts: Mapping[str, Any] | Sequence[Any] | ActivationLike, *, reach: float = 4.0
) -> Figure:
    """Draw activations, shifts included.

    Parameters
    ----------
    acts : mapping of str to activation, sequence of activations, or one activation
        Names, functions or Activations, such as ``twin.acts``.
    reach : float
        They are drawn on [-reach, reach].

    Examples
    --------
    >>> activations(["tanh", "htanh"]).axes[0].get_xlabel()
    'x'
    """
    from deqcli.figures.arrays import draw_curves

    reach = number(reach, "reach", float, Range(above=0, most=1e6))
    if isinstance(acts, Mapping):
        named = {str(label): activation(act) for label, act in acts.items()}
    else:
        several = acts if isinstance(acts, Sequence) and not isinstance(acts, str) else [acts]
        made = [activation(act) for act in several]
        named = {f"{place}: {act.name}": act for place, act in enumerate(made, start=1)}
    x = np.linspace(-reach, reach, 801)
    curves = {label: np.asarray(act(x), float) for label, act in _few(named, "acts").items()}
    for label, values in curves.items():
        if not np.isfinite(values).all():
            raise InputError(f"{label} is not finite on [-`reach`, `reach`]; lower `reach`.")
    return draw_curves(x, curves, "x", "activation")


def errors(n: ArrayLike, errors: Mapping[str, ArrayLike] | ArrayLike) -> Figure:
    """Draw relative errors against the number of samples, beside the promised n^(-1/2).

    Parameters
    ----------
    n : array of shape (k,)
        Numbers of samples.
    errors : mapping of str to array of shape (k,), or one such array
        By label; the fitted slope is added to it.

    Examples
    --------
    >>> errors([100, 200, 400], {"tanh": [0.1, 0.07, 0.05]}).axes[0].get_ylabel()
    'relative error'
    """
    from deqcli.figures.arrays import draw_errors

    sizes = check_samples(np.atleast_2d(np.asarray(n, object)), "n").ravel()
    if len(sizes) < 2 or (np.diff(sizes) <= 0).any() or sizes[0] <= 0:
        raise InputError(f"`n` is {shown(n)}; give at least two sizes, each larger than the last.")
    named = errors if isinstance(errors, Mapping) else {"error": errors}
    values, slopes = {}, []
    for label, entry in _few(named, "errors").items():
        measured = check_samples(np.atleast_2d(np.asarray(entry, object)), "errors").ravel()
        if measured.shape != sizes.shape or (measured <= 0).any():
            raise DataError(
                f"`errors` of {shown(label)} must be {len(sizes)} numbers above 0, one a size."
            )
        values[str(label)] = measured
        slopes.append(float(np.polyfit(np.log(sizes), np.log(measured), 1)[0]))
    return draw_errors(sizes, values, slopes)


def _few(named: Mapping[Any, Any], name: str) -> Mapping[Any, Any]:
    number(len(named), f"number of {name}", int, Range(least=POSITIVE.least, most=_MOST))
    return named


def _eigenvalues(matrix: Any) -> Array:
    """Return eigenvalues, the largest first, of a matrix, an operator, or as they are given."""
    if isinstance(matrix, Equivalent):
        return matrix.eigenvalues()[::-1]
    if isinstance(matrix, LinearOperator):
        matrix = matrix @ np.eye(matrix.shape[0])
    try:
        array = np.asarray(matrix)
    except ValueError:
        array = np.empty(0)
    if array.ndim == 1:
        return np.sort(check_samples(array[None], "spectra").ravel())[::-1]
    dense = check_samples(array, "spectra")
    if dense.shape[0] != dense.shape[1] or not np.allclose(dense, dense.T, rtol=1e-6, atol=1e-6):
        raise DataError(
            f"`spectra` has a matrix of shape {dense.shape}; give symmetric ones, or eigenvalues."
        )
    return eigenvalues(dense)[::-1]
