r"""How the slopes' part of a tangent kernel varies from network to network.

At finite width the tangent kernel is a sum over the layers of :math:`K_{ij}\psi_{ij}`, K the kernel
below a layer and :math:`\psi_{ij} = \frac1m\sum_kq_k(x_i)q_k(x_j)`, :math:`q_k = \phi'(u_k)y_k`,
with y what comes back from the layers above. Given the network, q is its mean over samples,
:math:`m_1\bar y_k`, and a part that is as good as noise: between different samples
:math:`\psi` varies by :math:`\frac1mE\operatorname{Var}(q_k)^2`. With P and P + R the products of
two samples' y and of one with itself, and :math:`v = E\phi'^2 - m_1^2`,

.. math:: E\operatorname{Var}(q_k)^2 = 3v^2P^2 + 2vE\phi'^2PR + (E\phi'^2)^2R^2 .

What it has in common with :math:`\bar q_k = m_1\bar y_k` scales a sample's row: with
:math:`\epsilon_i = \frac1m\sum_k\bar q_k(q_k(x_i) - \bar q_k)` and the mean :math:`m_1^2P`, it is
:math:`\psi_{ij} \approx m_1^2P(1 + e_i)(1 + e_j)`, :math:`e = \epsilon/m_1^2P`, and

.. math:: m\operatorname{Var}\epsilon = m_1^2\big(E\phi'^2P(3P + R) - 3m_1^2P^2\big) .

An even :math:`\phi` has :math:`m_1 = 0`: what it does to inner products is a metric of its own
(:mod:`deqcli.prediction.metric`), and only what of its slopes is not linear is noise besides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from deqcli.gaussian import Moments
from deqcli.prediction.grouped import NODES, WEIGHTS, Table
from deqcli.prediction.metric import Metric, repeats
from deqcli.scalars import ExplicitScalars, ImplicitScalars, layer_scalars
from deqcli.vocabulary import Kernel

Array = NDArray[np.float64]
# Squared mean slopes below this part of the mean square are those of even activations.
_EVEN = 1e-2
# Scales of rows below this do not count; means of slopes below this are rounding.
_LEAST, _NOTHING = 1e-2, 1e-12


@dataclass(frozen=True)
class Slopes:
    r"""The slopes' part of a tangent kernel.

    Attributes
    ----------
    below : ndarray of shape (L, 1 + depth)
        The kernels K as sums of the samples' inner products and of the layers' conjugate kernels.
    variances : ndarray of shape (L,)
        m times those that each layer adds to :math:`\psi` between different samples.
    reach : ndarray of shape (L, L)
        How much of each K is multiplied by what a layer adds.
    metric : Metric or None
        If one layer is even.
    rows : ndarray of shape (L,)
        m times the variances of :math:`\epsilon` that each layer adds.
    scaled : ndarray of shape (L,)
        How much of each K one standard normal number of a sample scales, times :math:`\sqrt m`.
    means : ndarray of shape (L,)
        Those of :math:`\psi` between different samples.
    """

    below: Array
    variances: Array
    reach: Array
    metric: Metric | None
    rows: Array
    scaled: Array
    means: Array

    def scales(self, width: int) -> bool:
        """Whether rows have scales that count."""
        known = self.means > _NOTHING
        return bool((known & (self.rows > width * (_LEAST * self.means) ** 2)).any())

    def noise(self, table: Table, width: int) -> Array:
        r"""Return the variances of :math:`\sum K(\psi - E\psi)` between groups, (m, m).

        The features in K vary as well; if there is a metric, in that.
        """
        amounts = self.reach @ self.below
        squares = np.tensordot(amounts, self._known(table), 1) ** 2 @ WEIGHTS
        if not self.metric:
            own = table.diagonals[1:, :, None] * table.diagonals[1:, None, :] / width
            squares = squares + np.tensordot(amounts[:, 1:] ** 2, own, 1)
        return np.asarray(np.tensordot(self.variances / width, squares, 1))

    def rescaled(self, table: Table, width: int, features: Array) -> Table:
        r"""Scale rows: add :math:`(\epsilon_i + \epsilon_j + \epsilon_i\epsilon_j/m_1^2P)K_{ij}`.

        Parameters
        ----------
        features : ndarray of shape (depth, depth)
            How much of each layer's kernel acts in place of each layer's features.
        """
        sizes = self.scaled / np.sqrt(width)
        squares = np.divide(
            sizes**2, self.means, out=np.zeros_like(sizes), where=self.means > _NOTHING
        )
        amounts = np.stack([sizes, squares]) @ self.below
        amounts[:, 1:] = amounts[:, 1:] @ features
        own = table.samples.scales
        factors = np.stack([own[:, None] + own, own[:, None] * own])
        known = np.concatenate([table.samples.norms[None] ** 2, table.diagonals[1:]])
        values, diagonals = table.values.copy(), table.diagonals.copy()
        added = np.tensordot(amounts, self._known(table), 1)
        values[0] += np.einsum("cij,cijq->ijq", factors, added)
        diagonals[0] += np.einsum("cii,ci->i", factors, amounts @ known)
        return replace(table, values=values, diagonals=diagonals)

    @staticmethod
    def _known(table: Table) -> Array:
        """Return inner products and the layers' conjugate kernels."""
        samples = table.samples
        inners = samples.inner[..., None] + np.sqrt(samples.variances)[..., None] * NODES
        return np.stack([inners, *table.values[1:]])


def slopes_of(
    scalars: ImplicitScalars | ExplicitScalars, kernel: Kernel, left: Array | None = None
) -> Slopes:
    r"""Return the slopes' part of a network's tangent kernel.

    In an explicit network :math:`P \leftarrow m_1^2P` from the readout's P = 1, R = 0 down, and
    noise goes on with the factor :math:`m_1^2` and is the same in all layers below; in a DEQ
    :math:`P = 1/(1 - \sigma_a^2m_1^2)`, :math:`P + R = 1/(1 - \sigma_a^2E\phi'^2)` and all of it
    comes back.

    Parameters
    ----------
    left : ndarray of shape (L,), optional
        How much of each layer's features acts. Without it an even layer has no metric of its own.

    Examples
    --------
    >>> from deqcli.scalars import explicit_scalars
    >>> one = slopes_of(explicit_scalars(["relu"]), Kernel.NTK)   # 3 / 16, the slope is 0 or 1
    >>> one.variances.round(4), one.metric
    (array([0.1875]), None)
    """
    if isinstance(scalars, ImplicitScalars):
        c = scalars
        back, weight = c.sigma_a2 * c.m1**2, c.sigma_a2 if kernel.before_activation else 1.0
        P, Q = 1 / (1 - back), 1 / (1 - c.sigma_a2 * c.r)
        noise, metric = _noise(c.m1, c.r, P, Q - P) / (1 - back**2), None
        # Before the activation inner products themselves tell nearly all.
        if left is not None and c.m1**2 < _EVEN * c.r and not kernel.before_activation:
            share = float(left[0])
            metric = Metric.of_layer(1, 1, share).shared(1, 1, share)
            noise -= 3 * (P * c.m2**2 * c.sigma_b2 * c.tau0**2) ** 2
        row = (weight / (1 - back)) ** 2 * _row(c.m1, c.r, P, Q - P)
        return Slopes(
            np.array([[c.sigma_b2, c.sigma_a2]]),
            np.array([weight**2 * noise]),
            np.ones((1, 1)),
            metric,
            np.array([row]),
            np.array([np.sqrt(row)]),
            np.array([weight * c.m1**2 * P]),
        )
    steps = layer_scalars(scalars.acts, scalars.tau0)
    moments = [m for _, _, m in steps]
    noises, rows, means, rests = list[float](), list[float](), list[float](), list[float]()
    P, Q = 1.0, 1.0
    for m in reversed(moments):
        noises.insert(0, _noise(m.m1, m.r, P, Q - P))
        rows.insert(0, _row(m.m1, m.r, P, Q - P))
        means.insert(0, m.m1**2 * P)
        rests.insert(0, (Q - P) / P if P else 0.0)
        P, Q = P * m.m1**2, Q * m.r
    squares = np.array([m.m1**2 for m in moments])
    # The noise of one layer and the scales of its rows go on to those below: what they multiply.
    reach = np.eye(len(steps))
    for k in range(1, len(steps)):
        reach[k] += squares[k - 1] * reach[k - 1]
    # One number in place of one for each layer, with the same variance of the linear part.
    linear = reach @ np.cumprod([1.0, *squares[:-1]])
    shares = np.array(rows) * linear
    scaled = shares @ reach / max(float(np.sqrt(shares @ linear)), 1e-300)
    variances, metric = np.array(noises), None
    even = [place for place, m in enumerate(moments, 1) if m.m1**2 < _EVEN * m.r]
    # What two even layers tell of classes is of fourth order in inner products.
    if left is not None and len(even) == 1:
        place = even[0]
        share = float(left[place - 1])
        times = repeats(place, len(steps), share)
        metric = Metric.of_layer(place, len(steps), share).shared(place, len(steps), share)
        sizes = [scalars.tau0**2, *(step.tau2 for step, _, _ in steps[: place - 1])]
        reach[:, :place] = np.eye(len(steps), place)
        variances[:place] = _beside(moments, sizes, times, rests[place - 1])
    return Slopes(
        np.eye(len(steps), len(steps) + 1),
        variances,
        reach,
        metric,
        np.array(rows),
        scaled,
        np.array(means),
    )


def _beside(moments: Sequence[Moments], sizes: Sequence[float], times: Array, rest: float) -> Array:
    r"""Return the variances of the noise beside the metric of an even layer t, of shape (t,).

    It is that of the same sums as the metric's, with the lengths of all that is not linear in the
    samples; each of the t kernels has an equal part.

    Parameters
    ----------
    moments : sequence of L Moments
    sizes : sequence of t float
        Mean squares of what the layers up to t see.
    times : ndarray of shape (t - 1,)
        How often the features of the layers below are in the kernel.
    rest : float
        R/P of what comes back to layer t.
    """
    place = len(sizes)
    *below, own = moments[:place]
    squares = np.cumprod([1.0, *(m.m1**2 for m in below)])
    lengths = np.array(sizes) / squares
    length = own.r / (own.m2**2 * squares[-1])
    noise = float(times**2 @ (lengths[1:] ** 2 - lengths[0] ** 2))
    noise += place**2 * ((3 + 2 * rest + rest**2) * length**2 - 3 * lengths[0] ** 2)
    for layer in range(place - 1, 0, -1):
        length *= below[layer - 1].r / below[layer - 1].m1 ** 2
        noise += layer**2 * (length**2 - lengths[0] ** 2)
    slopes = [m.m1**2 for m in moments[place:]]
    whole = own.m2**2 * squares[-1] ** 2 * float(np.prod(slopes)) / squares
    return np.asarray(whole**2 * noise / place)


def _noise(m1: float, r: float, P: float, R: float) -> float:
    """Return the mean square of q's variance over samples."""
    v = r - m1**2
    return 3 * (v * P) ** 2 + 2 * v * r * P * R + (r * R) ** 2


def _row(m1: float, r: float, P: float, R: float) -> float:
    """Return m times the variance of a row's scale."""
    return m1**2 * (r * P * (3 * P + R) - 3 * (m1 * P) ** 2)
