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

Besides, a layer sees the squared norm of what is below it with noise: that of m features departs
from its mean by a variance :math:`\operatorname{var}\phi^2/m`, as large as what samples' own norms
do, 2/p, and no help in telling classes apart (theory.md §11).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import root

from deqcli.activations import Activation
from deqcli.errors import ConvergenceError
from deqcli.gaussian import grid
from deqcli.prediction.forms import RidgeForms
from deqcli.scalars import Coefficients, ExplicitScalars, ImplicitScalars, layer_scalars
from deqcli.spectral.covariances import Covariances
from deqcli.spectral.forms import Model, noisy_norms, papers_form
from deqcli.vocabulary import Kernel

Array = NDArray[np.float64]
# Relative steps of derivatives.
_STEP = 1e-4


@dataclass(frozen=True)
class Layers:
    r"""The random layers of a network, and the kernel that is made of them.

    Attributes
    ----------
    own : ndarray of shape (L, 4)
        c1, c2, c3, d of each :math:`B_l`.
    links : ndarray of shape (L,)
        :math:`a_l`; that of the first layer is not used.
    weights : ndarray of shape (L,)
        :math:`\pi_l`.
    rest : ndarray of shape (4,)
        B.
    slopes, noises : ndarray of shape (L,)
        A layer sees norms as ``slope * norm + noise``, the noise of variance ``noises / m``.
    feedback : float
        :math:`r^2`.
    tau0 : float
    """

    own: Array
    links: Array
    weights: Array
    rest: Array
    slopes: Array
    noises: Array
    feedback: float
    tau0: float

    def without_squares(self) -> Layers:
        """Return the same with c3 = 0 in all kernels."""
        kept = np.array([1.0, 1.0, 0.0, 1.0])
        return replace(self, own=self.own * kept, rest=self.rest * kept)

    def amounts(self, e: Array) -> Array:
        """Return :math:`E_l`, how much of each :math:`B_l` there is."""
        out, above = np.empty(e.size), 0.0
        for k in reversed(range(e.size)):
            out[k] = e[k] * (self.weights[k] + above)
            above = self.links[k] * out[k]
        return out

    def dressed(self, e: Array) -> Array:
        """Return how much of each :math:`B_k` is in :math:`E_lK_l`, of shape (L, L)."""
        kernels = np.eye(e.size)
        for k in range(1, e.size):
            kernels[k] += self.links[k] * e[k - 1] * kernels[k - 1]
        return self.amounts(e)[:, None] * kernels

    def coefficients(self, amounts: Array) -> Coefficients:
        """Return the scalars of a kernel that is made of so much of each :math:`B_l`."""
        c1, c2, c3, d = map(float, self.rest + amounts @ self.own)
        return Coefficients(c1, c2, c3, d, self.tau0)

    def shares(self, amounts: Array) -> Array:
        """Return how much of each layer's own kernel :math:`G_l` is in it."""
        return amounts - np.append(self.links[1:] * amounts[1:], 0.0)

    def closure(self, e: Array) -> Array:
        """Return :math:`x_l/m` for given :math:`e_l`."""
        return np.asarray((1 - e) / (1 + self.feedback * e / (1 - self.feedback)) ** 2)


def layers_of(
    scalars: ImplicitScalars | ExplicitScalars | Coefficients, kernel: Kernel | str
) -> Layers:
    """Return the layers of the network that has these scalars; of bare ones, independent features.

    Examples
    --------
    >>> from deqcli.scalars import explicit_scalars
    >>> two = layers_of(explicit_scalars(["tanh", "relu"]), "ck")
    >>> two.links.round(3), two.shares(two.amounts(np.ones(2))).round(12)
    (array([0.367, 0.25 ]), array([0., 1.]))
    """
    one = np.ones(1)
    if isinstance(scalars, Coefficients):
        own = _vector(scalars)[None]
        return Layers(own, one, one, np.zeros(4), one, 0 * one, 0.0, scalars.tau0)
    member = Kernel.of(kernel, "kernel")
    tangent, feedback = member.explicit is Kernel.NTK, 0.0
    if isinstance(scalars, ImplicitScalars):
        feedback = scalars.sigma_a2 * scalars.m1**2
        weight = scalars.sigma_a2 if member.before_activation else 1.0
        weights = np.array([weight / (1 - feedback) if tangent else weight])
        own, links = _vector(scalars.coefficients(Kernel.CK))[None], one
        slopes, noises = np.array([scalars.alpha4]), 0 * one
        if scalars.act is not None:
            heard = scalars.sigma_a2 / (1 - scalars.sigma_a2 * scalars.s)
            noises = np.array([heard**2 * _norm_noise(scalars.act, scalars.tau)])
    else:
        steps = layer_scalars(scalars.acts, scalars.tau0)
        links = np.array([m.m1**2 for _, _, m in steps])
        kernels = np.stack([_vector(step.coefficients(Kernel.CK)) for step, _, _ in steps])
        own = kernels - links[:, None] * np.vstack([np.zeros(4), kernels[:-1]])
        # In the tangent kernel a layer's features have the slopes of all layers after it.
        after = np.append(np.cumprod(links[:0:-1])[::-1], 1.0)
        weights = after if tangent else np.eye(links.size)[-1]
        seen, below = [(1.0, 0.0)], scalars.tau0
        for step, act, m in steps:
            seen.append((step.alpha4, m.s**2 * seen[-1][1] + _norm_noise(act, below)))
            below = float(np.sqrt(step.tau2))
        slopes, noises = np.array(seen[:-1]).T
    layers = Layers(own, links, weights, np.zeros(4), slopes, noises, feedback, scalars.tau0)
    limit = layers.amounts(np.ones(links.size)) @ own
    return replace(layers, rest=_vector(scalars.coefficients(kernel)) - limit)


def _vector(c: Coefficients) -> Array:
    return np.array([c.c1, c.c2, c.c3, c.d])


def _norm_noise(act: Activation, tau: float) -> float:
    r"""Return :math:`\operatorname{var}\phi^2(\tau\xi)`."""
    nodes, weights = grid(tau, act.kinks)
    squares = np.asarray(act(tau * nodes), dtype=np.float64) ** 2
    return float(weights @ squares**2 - (weights @ squares) ** 2)


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

    def model(self, amounts: Array) -> Model:
        """Return the kernel that is made of so much of each :math:`B_l`, its norms with noise."""
        layers = self.layers
        whole = layers.coefficients(amounts)
        quiet = papers_form(self.covariances, whole, self.counts)
        if not layers.noises.any():
            return quiet
        own = amounts * layers.own[:, 1]
        # The first is what no layer has noise in.
        parts = [(whole.c2 - float(own.sum()), 0.0)]
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = np.sqrt(layers.noises / self.width) / np.abs(layers.slopes)
        parts += [(float(c), float(r)) for c, r in zip(own, ratios, strict=True) if c]
        return noisy_norms(self.covariances, whole, self.counts, parts)

    def forms(self, amounts: Array, ridge: float) -> RidgeForms:
        """Return the regression with such a kernel."""
        return RidgeForms(self.model(amounts), int(self.counts.sum()), ridge)

    def traces(self, e: Array, ridge: float) -> Array:
        """Return :math:`x_l/m`."""
        layers = self.layers
        found, kernels = self.forms(layers.amounts(e), ridge), layers.dressed(e) @ layers.own
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
            found = root(miss, logarithms, (at,), options={"xtol": 1e-11})
            if np.abs(found.fun).max() > 1e-7:
                raise ConvergenceError("the equations of finite width did not converge.")
            logarithms = np.minimum(found.x, 0.0)
        return np.exp(logarithms)

    def variances(self, e: Array, ridge: float) -> Array:
        r"""Return what random weights add to the outputs' covariances on classes, (K, K, K).

        These are forms in the targets,
        :math:`-\sum_k\dot e_k\,\partial(J^\top P^{-1}J)/\partial e_k`, with :math:`\dot e` the
        response of e to a new sample, of whose features the training samples' leave
        :math:`V_l = \partial g^{-1}` along :math:`E_lK_l`.
        """
        layers, steps = self.layers, _STEP * e
        slopes = np.stack(
            _derivatives(lambda x: self.forms(layers.amounts(x), ridge).inverse, e, steps)
        )
        jacobian = np.stack(
            _derivatives(lambda x: self.traces(x, ridge) - layers.closure(x), e, steps), axis=1
        )
        amounts, kernels = layers.amounts(e), layers.dressed(e)
        left = np.stack(
            _derivatives(
                lambda x: 1 / self.forms(amounts + x @ kernels, ridge).state.g,
                np.zeros(e.size),
                np.full(e.size, _STEP),
            )
        )
        # All groups of a class have the same.
        groups = left.shape[1] // self.counts.size
        response = np.linalg.solve(jacobian, left[:, ::groups] / self.width)
        return np.asarray(-np.einsum("li,lab->iab", response, slopes))


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
