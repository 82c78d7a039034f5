"""Fixed points ``z = f(z)`` of batches of samples: Gauss-Seidel, Picard and Anderson.

No solver raises because a map does not contract: the status of the result says so.
"""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deqcli.errors import InputError

Array = NDArray[Any]

#: A value this many times larger than after the first iteration is on its way to infinity.
_EXPLODED = 1e6
#: A residual that falls by less than a tenth over this many iterations will not get anywhere.
_PATIENCE = 50
#: How much worse than the last two contractions the next one is taken to be.
_CAUTION = 1.5
#: Anderson coefficients beyond this come from a system that says nothing.
_WILD = 1e4
#: How many iterates Anderson mixes.
ANDERSON_MEMORY = 5
#: Keeps Anderson's coefficients tame where the residuals are nearly dependent.
_REGULARISATION = 1e-8


class Status(enum.StrEnum):
    """How an iteration ended."""

    CONVERGED = "converged"
    DIVERGED = "diverged"
    STALLED = "stalled"
    EXHAUSTED = "iterations exhausted"


@dataclasses.dataclass(frozen=True)
class Outcome:
    r"""What is known of a solve besides its value.

    Parameters
    ----------
    residual : float
        The largest over samples of :math:`\|f(z)-z\|/\|f(z)\|`; see :func:`iterate` for which z.
    iterations : int
        How often the map was applied.
    status : Status
        ``CONVERGED`` or the reason why not.
    contraction : float
        The geometric mean of :math:`\|z_{k+1} - z_k\|/\|z_k - z_{k-1}\|` over the iterations, the
        largest changes over samples; NaN after a single one.
    """

    residual: float
    iterations: int
    status: Status
    contraction: float

    @property
    def converged(self) -> bool:
        """Whether the residual is within the tolerance."""
        return self.status is Status.CONVERGED


@dataclasses.dataclass(frozen=True)
class FixedPoint(Outcome):
    """An :class:`Outcome` and the point it is about, the best known even without convergence."""

    value: Array


def iterate(
    sweep: Callable[[], tuple[Array, Array]],
    tolerance: float,
    max_iterations: int,
    *,
    predict_residual: bool = False,
) -> Outcome:
    r"""Call ``sweep`` until what it changes is small.

    The last change :math:`\|z_{k+1} - z_k\|` is the residual of :math:`z_k`. That of the answer
    :math:`z_{k+1}` is smaller, by the contraction between sweeps; predicted, it is the last change
    times 1.5 times the larger of the last two contractions seen (never more than the last change).
    This saves a sweep of a fast iteration and changes nothing in a slow one, but is right only
    where all directions contract alike, as they do under a matrix with independent entries.

    Parameters
    ----------
    sweep : callable
        Moves the value from :math:`z_k` to :math:`z_{k+1}` and returns, for each sample, the norms
        :math:`\|z_{k+1} - z_k\|` and :math:`\|z_{k+1}\|`.
    tolerance : float
        The largest residual, over samples, of a converged answer.
    max_iterations : int
        How many sweeps there may be.
    predict_residual : bool
        Whether the residual of the answer may be predicted instead of measured.

    Examples
    --------
    >>> z = np.array([1.0])
    >>> def halve_towards_two():
    ...     change = 1 - z / 2
    ...     z[:] += change
    ...     return np.abs(change), np.abs(z)
    >>> str(iterate(halve_towards_two, 1e-6, 100).status), bool(abs(z[0] - 2) < 1e-5)
    ('converged', True)
    """
    if not 0 < tolerance < 1:
        raise InputError(f"`tolerance` is {tolerance:g}; give a number between 0 and 1.")
    if max_iterations < 1:
        raise InputError(f"`max_iterations` is {max_iterations}; give at least 1.")
    changes: list[float] = []
    ratios: list[float] = []
    explosion = math.inf
    status = Status.EXHAUSTED
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        while len(ratios) < max_iterations:
            change, size = sweep()
            largest = float(np.max(size, initial=0.0))
            changes.append(float(np.max(change, initial=0.0)))
            residual = _relative(change, size)
            ratios.append(residual)
            if not math.isfinite(residual) or not largest <= explosion:
                status = Status.DIVERGED
                break
            if math.isinf(explosion) and largest > 0:
                explosion = _EXPLODED * largest
            if predict_residual:
                residual = _predicted(ratios)
            if residual <= tolerance:
                status = Status.CONVERGED
                break
            if len(ratios) > _PATIENCE and ratios[-1] > 0.9 * ratios[-1 - _PATIENCE]:
                status = Status.STALLED
                break
    return Outcome(residual, len(ratios), status, _mean_contraction(changes))


def anderson(
    step: Callable[[Array], Array], start: Array, tolerance: float = 1e-6, max_iterations: int = 500
) -> FixedPoint:
    r"""Iterate :math:`z \leftarrow \sum_k \alpha_k f(z_k)` over the last five iterates.

    Each sample has its own :math:`\alpha`, which minimises
    :math:`\|\sum_k \alpha_k (f(z_k) - z_k)\|^2 + \varepsilon\,\|\alpha\|^2` under
    :math:`\sum_k \alpha_k = 1` (Anderson 1965; Walker and Ni 2011), where :math:`\varepsilon` is
    1e-8 times the sum of the squared residuals. A sample whose system is useless
    takes the plain step :math:`f(z)`. The answer is the last :math:`f(z)`, its residual measured.

    Parameters
    ----------
    step : callable
        The map f, from an array like ``start`` to a new one; rows do not mix.
    start : ndarray of shape (n, d)
        The first :math:`z`; rows are samples.

    Examples
    --------
    >>> result = anderson(lambda z: 0.99 * z + 1, np.zeros((2, 3)), tolerance=1e-9)
    >>> result.converged, result.iterations < 10, bool(np.allclose(result.value, 100))
    (True, True, True)
    """
    value = image = start
    images = np.zeros((ANDERSON_MEMORY, *start.shape), dtype=start.dtype)
    defects = np.zeros_like(images)
    count = 0

    def sweep() -> tuple[Array, Array]:
        nonlocal value, image, count
        image = step(value)
        slot, used = count % ANDERSON_MEMORY, min(count + 1, ANDERSON_MEMORY)
        images[slot], defects[slot] = image, image - value
        count += 1
        weights = _anderson_weights(defects[:used], slot)
        value = np.einsum("nk,knd->nd", weights.astype(images.dtype), images[:used])
        return np.linalg.norm(defects[slot], axis=1), np.linalg.norm(image, axis=1)

    outcome = iterate(sweep, tolerance, max_iterations)
    return FixedPoint(**vars(outcome), value=image)


def gauss_seidel(
    matrix: Array,
    finish: Callable[[slice, Array], None],
    value: Array,
    tolerance: float,
    max_iterations: int,
    *,
    blocks: Sequence[slice],
    mask: Array | None = None,
    warm: bool = False,
    predict_residual: bool = False,
) -> Outcome:
    r"""Solve ``value = finish(matrix @ value)`` in place, block of rows after block of rows.

    Unlike elsewhere **columns are samples**. Each block of coordinates is updated from the newest
    values of all others; with a single block this is Picard. For a matrix with independent entries
    whose Picard iteration contracts the squared error by :math:`\rho^2`, many blocks contract it by
    the root of :math:`\log\lambda = -\rho^2(1-\lambda)/\lambda` below :math:`\rho^2` (0.027 for
    0.1): the same products, a third fewer sweeps. A start from zero needs only the products with
    the blocks already updated in its first sweep, half of them. All elementwise work is on one
    block, which stays in the cache.

    Parameters
    ----------
    matrix : ndarray of shape (d, d)
        May be a transposed view.
    finish : callable
        ``finish(block, product)`` turns the rows ``block`` of ``matrix @ value`` into the new
        value of these rows, in place.
    value : ndarray of shape (d, n)
        Receives the answer, in C or Fortran order.
    blocks : sequence of slice
        The blocks of rows, in order, together all of them.
    mask : ndarray of shape (d, n), optional
        Multiplies the value before the product: ``value = finish(matrix @ (mask * value))``.
    warm : bool
        Whether to start from what ``value`` holds, instead of from zero.
    predict_residual : bool
        As for :func:`iterate`.

    Examples
    --------
    >>> value = np.empty((2, 1))
    >>> def add_one(block, product):
    ...     product += 1
    >>> half = [slice(0, 1), slice(1, 2)]
    >>> gauss_seidel(np.full((2, 2), 0.25), add_one, value, 1e-9, 100, blocks=half).converged
    True
    >>> value.round(6).tolist()
    [[2.0], [2.0]]
    """
    if not warm:
        value.fill(0)
    tallest = max(block.stop - block.start for block in blocks)
    scratch = np.empty_like(value[:tallest])
    from_zero = not warm

    def sweep() -> tuple[Array, Array]:
        nonlocal from_zero
        change, size = np.zeros((2, value.shape[1]))
        for block in blocks:
            fresh, old = scratch[: block.stop - block.start], value[block]
            known = block.start if from_zero else len(value)
            operand = value[:known] if mask is None else mask[:known] * value[:known]
            np.matmul(matrix[block, :known], operand, out=fresh)
            finish(block, fresh)
            np.subtract(fresh, old, out=old)
            change += np.einsum("ij,ij->j", old, old)
            size += np.einsum("ij,ij->j", fresh, fresh)
            old[...] = fresh
        from_zero = False
        return np.sqrt(change), np.sqrt(size)

    return iterate(sweep, tolerance, max_iterations, predict_residual=predict_residual)


def _relative(change: Array, size: Array) -> float:
    """Return the largest ratio, where a sample at zero that stays there has none."""
    ratios = np.where(change == 0, 0.0, change / size)
    return float(np.max(ratios, initial=0.0))


def _predicted(ratios: list[float]) -> float:
    if len(ratios) < 3:
        return ratios[-1]
    contraction = max(ratios[-1] / ratios[-2], ratios[-2] / ratios[-3])
    return ratios[-1] * min(1.0, _CAUTION * contraction)


def _mean_contraction(changes: list[float]) -> float:
    first, last, steps = changes[0], changes[-1], len(changes) - 1
    if steps and first > 0 and math.isfinite(last):
        return float((last / first) ** (1 / steps))
    # A first sweep that changes nothing is at the fixed point.
    return 0.0 if first == 0 else math.nan


def _anderson_weights(defects: Array, latest: int) -> Array:
    """Return the (n, k) coefficients of the k residuals ``defects`` (k, n, d)."""
    count = len(defects)
    by_sample = defects.transpose(1, 0, 2)
    gram = (by_sample @ by_sample.transpose(0, 2, 1)).astype(np.float64)
    trace = np.trace(gram, axis1=1, axis2=2)
    usable = np.isfinite(trace) & (trace > 0)
    gram = np.where(usable[:, None, None], gram / trace[:, None, None], 0.0)
    gram += _REGULARISATION * np.eye(count)
    solved = np.linalg.solve(gram, np.ones((len(gram), count, 1)))[:, :, 0]
    weights = solved / solved.sum(axis=1, keepdims=True)
    plain = ~usable | ~(np.abs(weights).max(axis=1) < _WILD)
    weights[plain] = np.eye(count)[latest]
    return weights
