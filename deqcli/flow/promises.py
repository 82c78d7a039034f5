r"""What GEN promises of a training run, from its start alone, and whether its table holds it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

if TYPE_CHECKING:
    import pandas as pd

Array = NDArray[np.float64]

#: The status of a time at which nothing was lost.
OK = "ok"


@dataclass(frozen=True)
class Linearised:
    r"""The run that H(0) would drive if it did not change.

    Attributes
    ----------
    kernel : ndarray of shape (n, n)
        H(0).
    eigenvalues : ndarray of shape (n,)
        Of H(0), ascending; the first is :math:`\lambda_0`.
    eigenvectors : ndarray of shape (n, n)
        In columns, Q.
    targets : ndarray of shape (n,)
        y.
    start : ndarray of shape (n,)
        :math:`Q^\top(u(0) - y)`.
    initial_loss : float
        :math:`\frac1{2n}\|u(0) - y\|^2`.

    Examples
    --------
    >>> line = linearise(np.diag([1.0, 4.0]), np.array([1.0, 3.0]), np.array([0.0, 1.0]))
    >>> line.flow(np.log(2)).round(6).tolist()
    [0.5, 1.125]
    >>> line.decayed(1 - 0.25 * line.eigenvalues).round(6).tolist()
    [0.75, 1.0]
    >>> round(line.bound, 6), round(line.rademacher, 6), round(line.envelope(1.0), 6)
    (1.0, 1.581139, 0.459849)
    """

    kernel: Array
    eigenvalues: Array
    eigenvectors: Array
    targets: Array
    start: Array
    initial_loss: float

    def flow(self, time: float) -> Array:
        r"""Return :math:`\hat u(t) = y + e^{-H(0)t}(u(0) - y)` (GEN Lemma 4.2)."""
        return self.decayed(np.exp(-self.eigenvalues * time))

    def decayed(self, factors: Array) -> Array:
        r"""Return :math:`y + Q\,\mathrm{diag}(f)\,Q^\top(u(0) - y)`.

        Of steps of descent the factors are :math:`\prod_k(1 - \eta_k\lambda)`.
        """
        return self.targets + self.eigenvectors @ (factors * self.start)

    def envelope(self, time: float) -> float:
        r"""Return :math:`e^{-\lambda_0 t}` loss(0), by which GEN Theorem 3.1 bounds loss(t).

        Half the rate of the linearised run: GEN allows :math:`\lambda_{\min}(H(t))` to fall to
        :math:`\lambda_0/2`. A singular H(0) promises nothing more than loss(0).
        """
        return self.initial_loss * float(np.exp(-max(self.smallest, 0.0) * time))

    @property
    def smallest(self) -> float:
        r""":math:`\lambda_0 = \lambda_{\min}(H(0))`."""
        return float(self.eigenvalues[0])

    @property
    def largest(self) -> float:
        r""":math:`\lambda_{\max}(H(0))`."""
        return float(self.eigenvalues[-1])

    @property
    def bound(self) -> float:
        r"""The leading term :math:`\sqrt{(y-u_0)^\top H(0)^{-1}(y-u_0)/n}` of GEN Theorem 4.1.

        It bounds, up to a constant, the mean of a 1-Lipschitz loss on new data. The constant holds
        :math:`\sqrt{\mathrm{tr}H(0)/n}`, and with it :math:`\gamma`: see :attr:`rademacher`.
        Infinite where H(0) is singular to rounding.
        """
        n = len(self.eigenvalues)
        if self.smallest <= n * np.finfo(float).eps * self.largest:
            return float(np.inf)
        return float(np.sqrt(np.sum(self.start**2 / self.eigenvalues) / n))

    @property
    def rademacher(self) -> float:
        r"""The complexity :math:`\frac Bn\sqrt{\mathrm{tr}H(0)}` of GEN Theorem A.3.

        :math:`B^2 = (y-u_0)^\top H(0)^{-1}(y-u_0)`. Unlike the leading term alone it does not
        change with :math:`\gamma` at a given :math:`\gamma A(0)`, as the trained network does not.
        """
        return self.bound * float(np.sqrt(self.eigenvalues.mean()))


def linearise(kernel: Array, outputs: Array, targets: Array) -> Linearised:
    """Decompose H(0) once, for all times.

    Parameters
    ----------
    kernel : ndarray of shape (n, n)
        H(0).
    outputs, targets : ndarray of shape (n,)
        u(0) and y.
    """
    values, vectors = eigh(kernel)
    loss = float(np.mean((outputs - targets) ** 2) / 2)
    return Linearised(kernel, values, vectors, targets, vectors.T @ (outputs - targets), loss)


def promises(rows: pd.DataFrame) -> dict[str, Any]:
    r"""Return what GEN promises of one run beside what was measured; None where nothing was.

    ``rate`` is that of the loss over the second half of the run, :math:`\lambda_0` what Theorem
    3.1 promises; ``envelope_ratio`` the largest loss(t) over its envelope; ``kernel_change`` the
    largest :math:`\|H(t) - H(0)\|`, which the proof needs below :math:`\lambda_0/2`.
    ``envelope_end`` is what the envelope has fallen to at the end, as a part of the loss at the
    start: the nearer to 1, the less it says.

    Parameters
    ----------
    rows : DataFrame
        One run of the table that ``deqcli flow`` writes.
    """
    good = rows[rows["status"] == OK]
    if good.empty:
        return {"norm_start": _number(rows["norm"].iloc[0])}
    measured = good.dropna(subset="lambda_min")
    first, end = good.iloc[0], good.iloc[-1]
    tested = good.dropna(subset="test_loss")
    # Half the time is a step of a descent; it must not be lost to rounding.
    half = good[good["time"] >= end["time"] / 2 * (1 - 1e-9)].iloc[0]
    elapsed = end["time"] - half["time"]
    falls = elapsed > 0 and end["train_loss"] > 0
    rate = np.log(half["train_loss"] / end["train_loss"]) / elapsed if falls else np.nan
    lambda0 = first["lambda_min"]
    last: Any = {} if tested.empty else tested.iloc[-1]
    tests = {name: last.get(name, np.nan) for name in ("test_loss", "test_error", "test_absolute")}
    numbers = {
        "lambda0": lambda0,
        "lambda_max": first["lambda_max"],
        "rate": rate,
        "envelope_ratio": (good["train_loss"] / good["envelope"]).max(),
        "envelope_end": end["envelope"] / first["envelope"] if first["envelope"] else np.nan,
        "largest_rise": good["train_loss"].diff().max(),
        "lambda_min_ratio": measured["lambda_min"].min() / lambda0 if lambda0 else np.nan,
        "kernel_change": measured["kernel_change"].max(),
        "norm_start": first["norm"],
        "norm_largest": rows["norm"].max(),
        "contraction_largest": good["contraction"].max(),
        "distance_largest": good["distance"].max(),
        "peak": first["peak"],
        "peak_flow": first["peak_flow"],
        "bound": first["bound"],
        "rademacher": first["rademacher"],
        "train_loss": end["train_loss"],
        "train_error": end["train_error"],
        **tests,
        "time": end["time"],
    }
    steps = {"steps": int(end["step"]), "test_step": None if tested.empty else int(last["step"])}
    return steps | {key: _number(value) for key, value in numbers.items()}


def _number(value: Any) -> float | None:
    return float(value) if np.isfinite(value) else None
