r"""Train A alone, by gradient descent or as an ordinary differential equation, and measure.

.. math:: \frac{dA}{dt} = -\frac{\partial}{\partial A}\tfrac12\|u - y\|^2
          \quad\Longleftrightarrow\quad
          \frac{dM}{dt} = -\frac{\gamma^2}{\sqrt m} Z^\top\mathrm{diag}(u - y)V

(GEN (6); theory.md §8), with :math:`M = \gamma A`. Every step solves the equilibrium and the
adjoint of all samples from where the step before left them.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import RK45
from scipy.linalg import eigvalsh

from deqcli.equivalents import operator_distance
from deqcli.flow.network import ZERO, LostError, Network, Samples, State
from deqcli.flow.promises import OK, Linearised, linearise
from deqcli.flow.settings import DescentSettings

Array = NDArray[np.float64]

#: How a run ends that was not lost.
DONE, REACHED = FINISHED = ("steps done", "loss reached")

#: By how much of the time passed a step may grow. Where a direction of H(0) still moves, at times
#: up to 1/lambda, steps are then this part of 1/lambda, and descent is near the flow.
_GROWTH = 1 / 32
#: How many times test loss and eigenvalues are measured.
_CHECKPOINTS = 40
#: Tolerance of the integrator. The velocity jumps where a neuron of a sample wakes up, and a
#: tighter one spends its steps on the jumps.
_INTEGRATOR = 1e-4
#: Its longest step in units of 1/lambda_max(H(0)); the method (RK45) is stable up to 3.3.
_LONGEST = 2.0


@dataclass(frozen=True)
class Row:
    r"""The measures of one time; NaN where a measure was not taken.

    Losses are per sample, :math:`\frac1{2n}\|u-y\|^2`; errors are the fraction of wrong signs;
    ``test_absolute`` is the mean :math:`|f - y|`, a 1-Lipschitz loss as GEN's bound is about.
    ``norm`` is :math:`\|\gamma A\|`, the contraction constant of the map, ``contraction`` the one
    observed in the solve. ``kernel_change`` is :math:`\|H(t) - H(0)\|`. ``distance`` is
    :math:`\|u - \hat u(t)\|`, ``distance_method`` the same to the linearisation of the method used:
    for ``gd`` that of gradient descent, free of the error of its steps.
    """

    step: int
    time: float
    status: str = OK
    train_loss: float = np.nan
    train_error: float = np.nan
    envelope: float = np.nan
    test_loss: float = np.nan
    test_error: float = np.nan
    test_absolute: float = np.nan
    norm: float = np.nan
    contraction: float = np.nan
    lambda_min: float = np.nan
    lambda_max: float = np.nan
    kernel_change: float = np.nan
    distance: float = np.nan
    distance_method: float = np.nan
    sweeps: int = 0


@dataclass(frozen=True)
class Training:
    """A run that has ended: its rows, and what was known at the start (None if it had none).

    Attributes
    ----------
    status : str
        Of :data:`FINISHED`, or why training stopped early.
    step_size : float
        The full gradient step, in time.
    """

    rows: tuple[Row, ...]
    status: str
    step_size: float
    linearised: Linearised | None


def checkpoints(steps: int) -> list[int]:
    """Return the steps at which everything is measured: dense at first, the last among them.

    Examples
    --------
    >>> checkpoints(5)
    [0, 1, 2, 3, 4, 5]
    >>> len(checkpoints(10_000)), checkpoints(10_000)[-1]
    (38, 10000)
    """
    spread = np.geomspace(1, steps, _CHECKPOINTS).round().astype(int)
    return [0, *np.unique(spread).tolist()]


def step_times(settings: DescentSettings, largest: float) -> Array:
    r"""Return the time at the start and after every step.

    Descent and flow differ most in the direction of :math:`\lambda_{\max}`, which a step of
    :math:`1/\lambda_{\max}` takes to its end at once. So the first steps of ``gd`` are small and
    grow with the time that has passed, up to the full one.

    Examples
    --------
    >>> step_times(DescentSettings(steps=3, step=1.0, first_step=0.5), 2.0).tolist()
    [0.0, 0.25, 0.5, 0.75]
    >>> step_times(DescentSettings(steps=3, method="ode"), 2.0).tolist()
    [0.0, 0.5, 1.0, 1.5]
    """
    full = settings.step / largest
    if settings.method == "ode":
        return np.asarray(full * np.arange(settings.steps + 1))
    first = min(settings.first_step / largest, full)
    times = [0.0]
    for _ in range(settings.steps):
        times.append(times[-1] + min(full, max(first, _GROWTH * times[-1])))
    return np.array(times)


def train(network: Network, samples: Samples, settings: DescentSettings) -> Training:
    r"""Train until the steps are done, the loss is small, or the map stops to contract.

    Examples
    --------
    >>> from deqcli.flow.network import draw_network
    >>> from deqcli.flow.settings import LayerSettings
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((12, 4))
    >>> X /= np.linalg.norm(X, axis=1, keepdims=True)
    >>> y = np.sign(X[:, 0])
    >>> samples = Samples(X[:8], y[:8], X[8:], y[8:])
    >>> run = train(draw_network(4, 60, rng, LayerSettings()), samples, DescentSettings(steps=20))
    >>> run.status, len(run.rows), run.rows[-1].train_loss < run.rows[0].train_loss
    ('steps done', 21, True)
    """
    state = State(network, samples, settings.tolerance)
    rows: list[Row] = []
    try:
        state.solve(0.0, state.matrix)
        line = linearise(state.kernel(), state.u, samples.y)
        if not line.largest > np.finfo(float).tiny:
            raise LostError(ZERO, 0.0, state.norm, state.contraction)
    except LostError as lost:
        return Training((_last_row(lost, 0),), lost.status, np.nan, None)
    size = settings.step / line.largest
    times = step_times(settings, line.largest)
    moves = (
        _descend(state, settings, times)
        if settings.method == "gd"
        else _integrate(state, settings, size)
    )
    full = set(checkpoints(settings.steps))
    # What is left of each eigendirection on the linearised descent.
    left = np.ones_like(line.eigenvalues)
    status = DONE
    try:
        for count in moves:
            if count:
                left *= 1 - (times[count] - times[count - 1]) * line.eigenvalues
            enough = state.loss() <= settings.stop_loss
            time = float(times[count])
            flow = line.flow(time)
            own = line.decayed(left) if settings.method == "gd" else flow
            rows.append(_measure(state, line.envelope(time), count, flow, own))
            if enough or count in full:
                rows[-1] = replace(rows[-1], **_measure_kernel(state, line))
                # Last, for its solve may fail: what is known of the time stays.
                rows[-1] = replace(rows[-1], **_measure_test(state))
            if enough:
                status = REACHED
                break
    except LostError as lost:
        rows.append(_last_row(lost, int(np.searchsorted(times, lost.time - 1e-9 * size))))
        status = lost.status
    return Training(tuple(rows), status, size, line)


def _last_row(lost: LostError, step: int) -> Row:
    return Row(step, lost.time, lost.status, norm=lost.norm, contraction=lost.contraction)


def _descend(state: State, settings: DescentSettings, times: Array) -> Iterator[int]:
    """Take gradient steps; yield their numbers."""
    yield 0
    full = set(checkpoints(settings.steps))
    for count in range(1, settings.steps + 1):
        state.matrix += (times[count] - times[count - 1]) * state.velocity()
        state.solve(float(times[count]), state.matrix, extrapolate=True, refresh=count in full)
        yield count


def _integrate(state: State, settings: DescentSettings, size: float) -> Iterator[int]:
    """Follow the equation from one checkpoint to the next; yield the steps they stand for."""
    yield 0
    shape = state.matrix.shape
    atol = _INTEGRATOR * state.norm / np.sqrt(shape[0])
    overshoots: list[LostError] = []

    def velocity(time: float, flat: Array) -> Array:
        try:
            state.solve(float(time), flat.reshape(shape))
        except LostError as lost:
            # A trial step may overshoot: the integrator answers NaN by a smaller one, until that
            # is as small as a float and it gives up.
            if np.isfinite(lost.norm):
                overshoots[:] = [lost]
            return np.full(flat.size, np.nan)
        return state.velocity().ravel()

    _, *marks = checkpoints(settings.steps)
    # One integrator for all times, which keeps no path: each holds a dozen matrices in a cycle of
    # references, and they would stay until the collector happens to come by.
    integrator = RK45(
        velocity, 0.0, state.matrix.ravel(), marks[0] * size,
        rtol=_INTEGRATOR, atol=atol, max_step=_LONGEST * size / settings.step,
    )  # fmt: skip
    try:
        for mark in marks:
            integrator.t_bound, integrator.status = mark * size, "running"
            while integrator.status == "running":
                overshoots.clear()
                integrator.step()
            if integrator.status == "failed":
                unknown = LostError("integrator failed", state.time, state.norm)
                raise overshoots[0] if overshoots else unknown
            state.solve(mark * size, integrator.y.reshape(shape), refresh=True)
            yield mark
    finally:
        del integrator
        gc.collect()


def _measure(state: State, envelope: float, count: int, flow: Array, own: Array) -> Row:
    """Return what a time says, beside the linearised paths at it."""
    u, y = state.u, state.samples.y
    return Row(
        step=count,
        time=state.time,
        train_loss=state.loss(),
        train_error=float(np.mean(u * y <= 0)),
        envelope=envelope,
        norm=state.norm,
        contraction=state.contraction,
        distance=float(np.linalg.norm(u - flow)),
        distance_method=float(np.linalg.norm(u - own)),
        sweeps=state.sweeps,
    )


def _measure_kernel(state: State, line: Linearised) -> dict[str, Any]:
    """Return what H(t) says; its eigenvalues cost more than a step."""
    H = state.kernel()
    values = eigvalsh(H) if state.time else line.eigenvalues
    change = operator_distance(H, line.kernel) if state.time else 0.0
    ends = {"lambda_min": float(values[0]), "lambda_max": float(values[-1])}
    return {**ends, "kernel_change": change}


def _measure_test(state: State) -> dict[str, Any]:
    """Return loss and error on the test samples."""
    f, y = state.outputs_test(), state.samples.y_test
    return {
        "test_loss": float(np.mean((f - y) ** 2) / 2),
        "test_error": float(np.mean(f * y <= 0)),
        "test_absolute": float(np.mean(np.abs(f - y))),
    }
