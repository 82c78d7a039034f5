r"""What third cumulants of one layer's features change of a readout at finite width.

Of m neurons the features z of all samples are taken for Gaussian ones, of covariance G, but
:math:`z^\top Qz` of one neuron is correlated with its features: long weights make all of them
larger at once, and a feature with skewness is in it itself. With means :math:`\eta` over neurons

.. math:: E\frac{zz^\top}{1 + z^\top Qz/m} \approx eG - \frac{e^2}m(\eta v^\top + v\eta^\top),
   \qquad v_i = \operatorname{cov}(z_i, z^\top Qz) ,

which is a part :math:`1/\sqrt p` of :math:`e\eta\eta^\top`: little, unless classes differ in their
traces only. And the outputs on new samples have third cumulants (theory.md §11).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from deqcli.activations import Activation
from deqcli.gaussian import grid, moments
from deqcli.prediction.grouped import Table
from deqcli.prediction.resolvent import Resolvent
from deqcli.scalars import Coefficients, ExplicitScalars, ImplicitScalars

Array = NDArray[np.float64]
# Squared mean slopes below this part of the variance are those of even activations; and at least
# so much of it is left where the linear part is known.
_LEAST = 1e-2


@dataclass(frozen=True)
class Thirds:
    r"""Third cumulants of the features :math:`\phi(u)`, u as the groups' samples have it.

    Attributes
    ----------
    width : int
        m.
    gain : float
        q, by which inner products of samples are multiplied in those of u.
    means : ndarray of shape (m,)
        :math:`\eta`.
    squares : ndarray of shape (m,)
        :math:`\tau^2 = Eu^2`.
    m1, m2, excess : ndarray of shape (m,)
        Moments of the groups' classes; the last is :math:`s - m_1^2`.
    variance, cube, mixed : ndarray of shape (m,)
        :math:`\operatorname{var}\phi`, the third cumulant of :math:`\phi`, and
        :math:`\operatorname{cov}(\phi^2, u)`.
    """

    width: int
    gain: float
    means: Array
    squares: Array
    m1: Array
    m2: Array
    excess: Array
    variance: Array
    cube: Array
    mixed: Array

    def _told(self, state: Resolvent, amount: float) -> tuple[Array, Array]:
        r"""Return :math:`m_1^2KQK_{ii}` of u's kernel K, and :math:`\alpha`."""
        bulk, samples = state.bulk, state.bulk.samples
        h = state.unknowns[: -len(bulk.coupling)].reshape(len(bulk.coupling), -1)
        slopes = bulk.weights**2 @ bulk.signs / samples.relative
        told = slopes * samples.rest - np.einsum("ix,ix->i", bulk.pairs, h[samples.classes])
        per = np.divide(self.gain * self.m1, slopes, out=np.zeros_like(told), where=slopes > 0)
        told *= per**2
        return told, np.clip(amount * told / self.squares, 0.0, 1.0)

    def _left(self, state: Resolvent, amount: float) -> Array:
        r"""Return :math:`\operatorname{cov}(\phi, (\phi - \alpha m_1u)^2)`."""
        part = self._told(state, amount)[1] * self.m1
        return self.cube - 2 * part * self.mixed + part**2 * self.squares**2 * self.m2

    def pair(self, state: Resolvent, amount: float) -> tuple[Array, Array]:
        r"""Return :math:`\eta` and :math:`E^2v/m`, E how much of the layer's kernel there is."""
        samples = state.bulk.samples
        told = self._told(state, amount)[0]
        weights = state.bulk.n * samples.shares * state.g * self.excess
        squares = self.gain**2 * samples.variances @ weights
        v = amount**2 / self.width * self.m2 * (told + squares)
        return self.means, v + self.own(state, amount)

    def own(self, state: Resolvent, amount: float) -> Array:
        """Return what of the second there is because a sample is one of training."""
        return amount**2 / self.width * state.g * self._left(state, amount)

    def of_new(self, state: Resolvent, amount: float) -> Array:
        r"""Return :math:`\operatorname{cov}(z_i, r^2)`, r what is left of a new sample's feature.

        Row j is for a new sample of group j, times :math:`E^2/m`.
        """
        samples = state.bulk.samples
        alpha = self._told(state, amount)[1]
        lengths, classes = samples.relative, samples.classes
        omega = state.omega[:, :, 0, 0][np.ix_(classes, classes)] / samples.dimension
        left = self.gain**2 * omega * np.multiply.outer(lengths, lengths)
        both = self.gain**2 * samples.variances
        m1 = self.m1[:, None]
        C = amount * m1 * self.m1 * state.g
        mixed = (self.mixed - alpha * self.m1 * self.squares**2 * self.m2) / self.squares
        bent = self.m2 * m1**2 - 2 * C * m1 * mixed + C**2 * self._left(state, amount)
        v = self.excess[:, None] * self.m2 * both + left * bent
        return amount**2 / self.width * v

    def of_outputs(
        self, state: Resolvent, amount: float, lean: Array, linear: Array, random: Array
    ) -> Array:
        r"""Return S: outputs along a direction d have third cumulants (lean' d)(d'Sd), (m, K, K).

        Parameters
        ----------
        lean : ndarray of shape (K,)
            :math:`J^\top Q\eta`.
        linear, random : ndarray of shape (m, K, K)
            Covariances by the linear part of the kernel, and by random weights.
        """
        alpha = self._told(state, amount)[1]
        part, e = alpha * self.m1, amount / self.width
        cube = self.cube - 3 * part * (self.mixed - part * self.squares**2 * self.m2)
        lines = self.m1**2 * self.squares
        left = np.maximum(self.variance - alpha * lines, _LEAST * self.variance)
        bent = self.mixed / self.squares - 2 * part * self.squares * self.m2
        odd = lines > _LEAST * self.variance
        bent = np.divide(bent, self.m1, out=np.zeros_like(bent), where=odd)
        found = e**2 * amount * np.multiply.outer(cube, np.outer(lean, lean))
        found += 3 * e * (cube / left)[:, None, None] * random
        return np.asarray(found + 6 * e * bent[:, None, None] * linear)


def thirds_of(
    scalars: ImplicitScalars | ExplicitScalars | Coefficients, table: Table, width: int
) -> Thirds | None:
    """Return those of the only random layer on the groups of a table, whose second kernel is G."""
    samples = table.samples
    squares, gain = samples.norms**2, 1.0
    if isinstance(scalars, ImplicitScalars) and scalars.act is not None:
        act = scalars.act
        squares = scalars.sigma_a2 * table.diagonals[1] + scalars.sigma_b2 * squares
        gain = scalars.sigma_b2 / (1 - scalars.sigma_a2 * scalars.m1**2)
    elif isinstance(scalars, ExplicitScalars) and len(scalars.acts) == 1:
        act = scalars.acts[0]
    else:
        return None
    of_class = samples.by_class(squares)
    known = np.array([_moments(act, float(np.sqrt(one))) for one in of_class])[samples.classes]
    mean, m1, m2, s, variance, cube, mixed = known.T
    means = mean + m2 / 2 * (squares - of_class[samples.classes])
    return Thirds(
        width, gain, means, of_class[samples.classes], m1, m2, s - m1**2, variance, cube, mixed
    )


def _moments(act: Activation, tau: float) -> tuple[float, ...]:
    """Return mean, m1, m2, s, variance, third cumulant and covariance of the square with u."""
    found = moments(act, tau)
    nodes, weights = grid(tau, act.kinks)
    values = np.asarray(act(tau * nodes), dtype=np.float64) - found.mean
    variance = float(weights @ values**2)
    # Of the centred square.
    slope = found.s - found.mean * found.m2
    cube, mixed = float(weights @ values**3), float(weights @ (tau * nodes * values**2))
    return found.mean, found.m1, found.m2, slope, variance, cube, mixed
