r"""What a finite width changes of kernel ridge regression: an effective kernel and more variance.

The features of layer l are, in high dimension, as good as :math:`Z_l = a_l^{1/2}W_lZ_{l-1} + E_l`,
a random matrix applied to the layer below and Gaussian features of their own: given the layer
below, their kernel is :math:`a_lZ_{l-1}^\top Z_{l-1} + B_l`, :math:`B_l = G_l - a_lG_{l-1}`,
:math:`a_l = m_1^2`. In the mean over weights every :math:`Z_l^\top Z_l` acts as a multiple
:math:`e_l` of its kernel: the resolvent of the network's kernel is the inverse of

.. math:: P = \lambda + B + \sum_lE_lB_l, \qquad E_l = e_l(\pi_l + a_{l+1}E_{l+1}), \qquad
   1 - e_l = \frac{x_l}m\Big(1 + \frac{r^2e_l}{1 - r^2}\Big)^2, \quad
   x_l = \operatorname{tr}E_lK_lP^{-1}, \quad K_l = B_l + a_le_{l-1}K_{l-1},

with :math:`\pi` the weights of the layers in the kernel that is used and B what does not vary. An
explicit layer has r = 0. A DEQ is one layer with :math:`r^2 = \sigma_a^2m_1^2`: its features are
:math:`(I - \sigma_am_1A/\sqrt m)^{-1}` times independent ones, and the singular values of such a
matrix are known. One explicit layer has :math:`\lambda = \varrho(1 - df_1/m)`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import root

from deqcli.errors import ConvergenceError
from deqcli.prediction.forms import RidgeForms, by_class
from deqcli.prediction.layers import Layers
from deqcli.prediction.limits import Limits, limits_of
from deqcli.prediction.outputs import Outputs
from deqcli.spectral.covariances import Covariances
from deqcli.spectral.forms import Model, noisy_norms, papers_form

Array = NDArray[np.float64]
Forms = Callable[[Array, Array | float], RidgeForms | Outputs]
# Relative steps of derivatives.
_STEP = 1e-4


@dataclass(frozen=True)
class FiniteWidth:
    """The equations of one width on the samples of a mixture, in the papers' form.

    Attributes
    ----------
    layers : Layers
    covariances : Covariances
    counts : ndarray of shape (K,)
    width : int
        m, of every layer.
    """

    layers: Layers
    covariances: Covariances
    counts: NDArray[np.int64]
    width: int

    @property
    def noisy(self) -> bool:
        """Whether a layer sees norms with noise."""
        return bool(self.layers.heard_norms(np.ones(self.layers.links.size))[:, 1].any())

    def _model(self, amounts: Array, e: Array, noisy: bool = True) -> Model:
        """Return the kernel that is made of so much of each :math:`B_l`."""
        layers = self.layers
        whole = layers.coefficients(amounts)
        own = amounts * layers.own[:, 1]
        constant = layers.constant(amounts) / self.width
        slopes, noises = layers.heard_norms(e).T
        limits = layers.heard_norms(np.ones(e.size))[:, 0]
        if not (noisy and noises.any()):
            return papers_form(self.covariances, whole, self.counts, constant)
        # The first is what no layer has noise in.
        parts = [(whole.c2 - float(own.sum()), 1.0, 0.0)]
        for c2, slope, noise, limit in zip(own, slopes, noises, limits, strict=True):
            if c2:
                deviation = float(np.sqrt(noise / self.width)) / abs(limit)
                parts.append((float(c2), float(slope / limit), deviation))
        return noisy_norms(self.covariances, whole, self.counts, parts, constant)

    def traces(self, e: Array, ridge: float) -> Array:
        """Return :math:`x_l/m`."""
        layers = self.layers
        model = self._model(layers.amounts(e), e)
        found = RidgeForms(model, int(self.counts.sum()), ridge)
        kernels = layers.dressed(e) @ layers.own
        equations, g = found.equations, found.state.g
        h = found.state.unknowns[: equations.n_classes][equations.classes]
        c1 = kernels[:, 0]
        of_samples = np.multiply.outer(c1, h) + (kernels[:, 3] - layers.tau0**2 * c1)[:, None]
        return np.asarray(found.n / self.width * of_samples @ (equations.shares * g))

    def solve(self, ridge: float) -> Array:
        """Return :math:`e_l`, of shape (L,).

        From a ridge so large that all are near one, step by step.
        """
        logarithms = np.zeros(self.layers.links.size)

        def miss(logarithms: Array, at: float) -> Array:
            e = np.exp(np.minimum(logarithms, 0.0))
            return self.traces(e, at) - self.layers.closure(e)

        size = self.layers.coefficients(self.layers.amounts(np.ones(logarithms.size))).d
        for at in _descending(10 * size * max(1.0, self.counts.sum() / self.width), ridge):
            # First steps of one at most: where all are near one, longer ones end at no e at all.
            found = root(miss, logarithms, (at,), options={"xtol": 1e-11, "factor": 1.0})
            if np.abs(found.fun).max() > 1e-7:
                raise ConvergenceError("the equations of finite width did not converge.")
            logarithms = np.minimum(found.x, 0.0)
        return np.exp(logarithms)

    def variances(self, e: Array, ridge: float, forms: Forms) -> Array:
        r"""Return what random weights add to the outputs' covariances on groups, (L, m, K, K).

        These are forms in the targets,
        :math:`-\sum_k\dot e_k\,\partial(J^\top P^{-1}J)/\partial e_k`, with :math:`\dot e` the
        response of e to a new sample, of whose features the training samples' leave
        :math:`V_l = \partial g^{-1}` along :math:`E_lK_l`.

        Parameters
        ----------
        forms : callable
            Regression with the kernel of given e, so much of each :math:`B_l` added.
        """
        layers, steps = self.layers, _STEP * e
        slopes = np.stack(_derivatives(lambda x: forms(x, 0.0).inverse, e, steps))
        jacobian = np.stack(
            _derivatives(lambda x: self.traces(x, ridge) - layers.closure(x), e, steps), axis=1
        )
        kernels = layers.dressed(e)
        left = np.stack(
            _derivatives(
                lambda x: 1 / forms(e, x @ kernels).state.g,
                np.zeros(e.size),
                np.full(e.size, _STEP),
            )
        )
        response = np.linalg.solve(jacobian, left / self.width)
        return np.asarray(-np.einsum("li,lab->liab", response, slopes))

    def limits(self, e: Array, ridge: float, noisy: bool = True) -> Limits:
        """Return the limits in the papers' form.

        Parameters
        ----------
        noisy : bool
            Whether layers see norms with noise.
        """
        n = int(self.counts.sum())

        def forms(x: Array, added: Array | float) -> RidgeForms:
            amounts = self.layers.amounts(x) + added
            return RidgeForms(self._model(amounts, x, noisy), n, ridge)

        model = self._model(self.layers.amounts(e), e, noisy)
        added = by_class(model.equations, self.variances(e, ridge, forms).sum(axis=0))
        found = limits_of(model, n, ridge)
        return found._replace(covariances=found.covariances + added)


def _derivatives(function: Callable[[Array], Array], at: Array, steps: Array) -> list[Array]:
    """Return central differences in each coordinate."""
    moves = np.diag(steps)
    return [
        (function(at + move) - function(at - move)) / (2 * step)
        for move, step in zip(moves, steps, strict=True)
    ]


def _descending(first: float, last: float) -> Array:
    """Return numbers from the first to the last, each at least a tenth of the one before."""
    if first <= last:
        return np.array([last])
    count = int(np.ceil(np.log10(first / last)))
    return np.append(np.geomspace(first, last, count + 1)[:-1], last)
