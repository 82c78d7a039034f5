r"""What third cumulants of the layers' features change of a readout at finite width.

Of m neurons the features z of all samples are taken for Gaussian ones, of covariance G, but
:math:`z^\top Qz` of one neuron is correlated with its features: long weights make all of them
larger at once, and a feature with skewness is in it itself. With means :math:`\eta` over neurons

.. math:: E\frac{zz^\top}{1 + z^\top Qz/m} \approx eG - \frac{e^2}m(\eta v^\top + v\eta^\top),
   \qquad v_i = \operatorname{cov}(z_i, z^\top Qz) ,

which is a part :math:`1/\sqrt p` of :math:`e\eta\eta^\top`: little, unless classes differ in their
traces only. And the outputs on new samples have third cumulants (theory.md §11).
"""

from __future__ import annotations

from collections.abc import Sequence
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
    r"""Third cumulants of the features :math:`\phi(u)` of L layers, on m groups of samples.

    Attributes
    ----------
    width : int
        Neurons of a layer.
    means : ndarray of shape (L, m)
        :math:`\eta`.
    squares : ndarray of shape (L, m)
        :math:`\tau^2 = Eu^2`.
    m1, m2, excess : ndarray of shape (L, m)
        Moments of the groups' classes; the last is :math:`s - m_1^2`.
    variance, cube, mixed : ndarray of shape (L, m)
        :math:`\operatorname{var}\phi`, the third cumulant of :math:`\phi`, and
        :math:`\operatorname{cov}(\phi^2, u)`.
    inner : ndarray of shape (L, m, m)
        Variances of inner products of u.
    shift : ndarray of shape (L, m)
        By how much :math:`\eta` is larger in the mean over what varies of :math:`\tau^2`.
    """

    width: int
    means: Array
    squares: Array
    m1: Array
    m2: Array
    excess: Array
    variance: Array
    cube: Array
    mixed: Array
    inner: Array
    shift: Array

    def bent(self, v: Array) -> Array:
        r"""Return :math:`m_2v` of each layer for each row v, of shape (L * L, m)."""
        return (self.m2[:, None, :] * v).reshape(-1, v.shape[1])

    def _told(self, state: Resolvent, amounts: Array) -> Array:
        r"""Return :math:`\alpha`, how much of u the other samples' features tell: (L, m)."""
        lines = self.m1**2 * self.squares
        own = amounts[:, None] * (self.variance - lines)
        # 1/g is what is left of the linear part, and all that is not linear.
        left = 1 / state.g - state.ridge - np.cumsum(own[::-1], axis=0)[::-1]
        whole = amounts[:, None] * lines
        odd = lines > _LEAST * self.variance
        told = np.divide(whole - left, whole, out=np.zeros_like(whole), where=odd)
        return np.clip(told, 0.0, 1.0)

    def _left(self, told: Array) -> Array:
        r"""Return :math:`\operatorname{cov}(\phi, (\phi - \alpha m_1u)^2)`."""
        part = told * self.m1
        return self.cube - 2 * part * self.mixed + part**2 * self.squares**2 * self.m2

    def pairs(self, state: Resolvent, amounts: Array) -> tuple[Array, Array]:
        r"""Return :math:`\eta` and :math:`E^2v/m` of each layer, E how much of it there is."""
        samples, told = state.bulk.samples, self._told(state, amounts)
        squares = self.inner @ (state.bulk.n * samples.shares * state.g * self.excess)[..., None]
        factor = amounts[:, None] / self.width * self.m2
        v = factor * (told * self.squares + amounts[:, None] * squares[..., 0])
        return self.means, v + self.own(state, amounts) - amounts[:, None] * self.shift

    def own(self, state: Resolvent, amounts: Array) -> Array:
        """Return what of the second there is because a sample is one of training."""
        left = self._left(self._told(state, amounts))
        return np.asarray(amounts[:, None] ** 2 / self.width * state.g * left)

    def of_new(self, state: Resolvent, amounts: Array) -> Array:
        r"""Return :math:`\operatorname{cov}(z_i, r^2)`, r what is left of a new sample's feature.

        Row j is for a new sample of group j, times :math:`E^2/m`: of shape (L, m, m).
        """
        told = self._told(state, amounts)
        left = self.inner * (1 - told)[:, :, None] * (1 - told)[:, None, :]
        m1 = self.m1[:, :, None]
        C = amounts[:, None, None] * m1 * (self.m1 * state.g)[:, None, :]
        mixed = (self.mixed - told * self.m1 * self.squares**2 * self.m2) / self.squares
        bent = (self.m2[:, None, :] * m1 - 2 * C * mixed[:, None, :]) * m1
        bent = bent + C**2 * self._left(told)[:, None, :]
        v = self.excess[:, :, None] * self.m2[:, None, :] * self.inner + left * bent
        return np.asarray(amounts[:, None, None] ** 2 / self.width * v)

    def of_outputs(
        self, state: Resolvent, amounts: Array, lean: Array, linear: Array, random: Array
    ) -> Array:
        r"""Return the third cumulants of outputs, forms in three directions: (m, K, K, K).

        Parameters
        ----------
        lean : ndarray of shape (L, K)
            :math:`J^\top Q\eta`.
        linear : ndarray of shape (m, K, K)
            Covariances by the linear part of the kernel.
        random : ndarray of shape (L, m, K, K)
            By random weights.
        """
        told = self._told(state, amounts)
        part, e = told * self.m1, amounts[:, None] / self.width
        cube = self.cube - 3 * part * (self.mixed - part * self.squares**2 * self.m2)
        lines = self.m1**2 * self.squares
        left = np.maximum(self.variance - told * lines, _LEAST * self.variance)
        bent = self.mixed / self.squares - 2 * part * self.squares * self.m2
        odd = lines > _LEAST * self.variance
        bent = np.divide(bent, self.m1, out=np.zeros_like(bent), where=odd)
        own = np.einsum("li,lb,lc->libc", e**2 * amounts[:, None] * cube, lean, lean)
        own += 3 * (e * cube / left)[..., None, None] * random
        own += 6 * (e * bent)[..., None, None] * linear
        return np.einsum("la,libc->iabc", lean, own)


def thirds_of(
    scalars: ImplicitScalars | ExplicitScalars | Coefficients, table: Table, width: int
) -> Thirds:
    """Return those of the random layers, on the groups of a table of their kernels."""
    samples, v = table.samples, table.diagonals[1:]
    if isinstance(scalars, ImplicitScalars) and scalars.act is not None:
        acts: Sequence[Activation] = (scalars.act,)
        squares = scalars.sigma_a2 * v + scalars.sigma_b2 * samples.norms**2
        gain = scalars.sigma_b2 / (1 - scalars.sigma_a2 * scalars.m1**2)
        hears = scalars.sigma_a2 / (1 - scalars.sigma_a2 * scalars.s)
    else:
        assert isinstance(scalars, ExplicitScalars)
        acts, gain, hears = scalars.acts, 1.0, 0.0
        squares = np.vstack([samples.norms**2, v[:-1]])
    of_class = samples.by_class(squares.T).T[:, samples.classes]
    known = np.array(
        [
            [_moments(act, float(np.sqrt(one))) for one in row]
            for act, row in zip(acts, samples.by_class(squares.T).T, strict=True)
        ]
    )[:, samples.classes]
    mean, m1, m2, s, variance, cube, mixed, squared, bend = np.moveaxis(known, -1, 0)
    inner, varied = [gain**2 * samples.variances], [hears**2 * squared[0] / width]
    for k in range(1, len(acts)):
        drawn = v[k - 1, :, None] * v[k - 1] / width
        inner.append(np.outer(m1[k - 1], m1[k - 1]) ** 2 * inner[-1] + drawn)
        varied.append(s[k - 1] ** 2 * varied[-1] + squared[k - 1] / width)
    means = mean + m2 / 2 * (squares - of_class)
    return Thirds(
        width,
        means,
        of_class,
        m1,
        m2,
        s - m1**2,
        variance,
        cube,
        mixed,
        np.stack(inner),
        bend / 2 * np.stack(varied),
    )


def _moments(act: Activation, tau: float) -> tuple[float, ...]:
    """Return moments: the mean, m1, m2, s, variance, third cumulant, others.

    These are the covariance of the square with u, the variance of the square, and the second
    derivative of the mean by the variance of u.
    """
    found = moments(act, tau)
    nodes, weights = grid(tau, act.kinks)
    values = np.asarray(act(tau * nodes), dtype=np.float64) - found.mean
    variance = float(weights @ values**2)
    # Of the centred square.
    slope = found.s - found.mean * found.m2
    cube, mixed = float(weights @ values**3), float(weights @ (tau * nodes * values**2))
    squared = float(weights @ values**4) - variance**2
    bend = float(weights @ (values * (nodes**4 - 6 * nodes**2 + 3))) / (4 * tau**4)
    return found.mean, found.m1, found.m2, slope, variance, cube, mixed, squared, bend
