r"""The random layers of a network: what each adds to the kernel, and how it sees norms.

A layer's features are a random matrix applied to the layer below and features of their own
(:mod:`deqcli.prediction.width`).

A layer sees the squared norm of what is below it with noise: that of m features departs
from its mean by a variance :math:`\operatorname{var}\phi^2/m`, as large as what samples' own norms
do, 2/p, and no help in telling classes apart. If :math:`E\phi^3 \neq 0` it is noise that the mean
of the features has too, so that the two tell less of the norms than two would (theory.md §11).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from deqcli.activations import Activation
from deqcli.gaussian import grid
from deqcli.scalars import Coefficients, ExplicitScalars, ImplicitScalars, layer_scalars
from deqcli.vocabulary import Kernel

Array = NDArray[np.float64]


class Norms(NamedTuple):
    r"""How one layer's features depend on the squared norm of what it sees.

    Attributes
    ----------
    slope : float
        s, the derivative of :math:`E\phi^2`.
    mean : float
        :math:`\eta = m_2/2`, that of :math:`E\phi`.
    noise : float
        :math:`\operatorname{var}\phi^2`.
    skew : float
        :math:`\kappa = \operatorname{cov}(\phi^2, \phi)`.
    variance : float
        :math:`\operatorname{var}\phi`.
    """

    slope: float
    mean: float
    noise: float
    skew: float
    variance: float


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
    norms : tuple of L - 1 Norms
        What the layers before the last do to squared norms.
    heard : tuple of float
        The first layer sees norms as ``slope * norm + noise``: its slope, and m times the noise's
        variance.
    squares : ndarray of shape (L, L)
        By the squares of noise that inner products have from layers k below, :math:`B_l` is larger
        by :math:`\sum_kS_{lk}b_{lk}b_{lk}^\top/m` in the mean, :math:`b_{lk} = m_2v_k` with the
        layer's :math:`m_2` and the squared norms of k's features.
    products : ndarray of shape (L, L)
        What products of such noise with that of slopes add likewise.
    seconds : ndarray of shape (L,)
        :math:`m_2`.
    echo : float
        By how much a DEQ, which hears its own norms, repeats the noise of its features' mean.
    feedback : float
        :math:`r^2`.
    tau0 : float
    """

    own: Array
    links: Array
    weights: Array
    rest: Array
    norms: tuple[Norms, ...]
    heard: tuple[float, float]
    squares: Array
    products: Array
    seconds: Array
    echo: float
    feedback: float
    tau0: float

    def without_squares(self) -> Layers:
        """Return the same with c3 = 0 in all kernels."""
        kept = np.array([1.0, 1.0, 0.0, 1.0])
        none = np.zeros_like(self.squares)
        own, rest = self.own * kept, self.rest * kept
        return replace(self, own=own, rest=rest, squares=none, products=none)

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

    def added(self, amounts: Array) -> Array:
        r"""Return how much of each :math:`b_{lk}b_{lk}^\top/m` there is besides, (L, L)."""
        return amounts[:, None] * self.squares + self.products

    def constant(self, amounts: Array) -> float:
        """Return m times what that is if all norms are as in the mean."""
        return float(self.seconds**2 @ self.added(amounts) @ self.sizes**2)

    @property
    def sizes(self) -> Array:
        """Return the mean squared norms of the layers' features, of shape (L,)."""
        found = np.array(self.own[:, 3])
        for k in range(1, found.size):
            found[k] += self.links[k] * found[k - 1]
        return found

    def shares(self, amounts: Array) -> Array:
        """Return how much of each layer's own kernel :math:`G_l` is in it."""
        return amounts - np.append(self.links[1:] * amounts[1:], 0.0)

    def features(self, e: Array) -> Array:
        """Return how much of each :math:`G_k` acts in place of each layer's features, (L, L)."""
        kernels = (e / self.amounts(e))[:, None] * self.dressed(e)
        return np.stack([self.shares(row) for row in kernels])

    def heard_norms(self, e: Array) -> Array:
        r"""Return with which slope and which noise each layer sees norms, of shape (L, 2).

        The mean of a layer's features, :math:`q = \eta t + \nu`, and their squared norm,
        :math:`r = st + (\kappa/\operatorname{var}\phi)\nu + \dots`, share the noise
        :math:`\nu`, of variance :math:`\operatorname{var}\phi/m`. By Schur's complement, r acts
        beside q as what q does not tell of it:

        .. math:: \text{slope } s - (1 - e)\frac{\kappa\eta}{\operatorname{var}\phi}, \qquad
           \text{variance } \frac1m\Big(\operatorname{var}\phi^2
           - (1 - e)\frac{\kappa^2}{\operatorname{var}\phi}\Big) .

        In a DEQ both are one, :math:`q = \eta(t + h\psi) + \nu` with
        :math:`h = \sigma_a^2/(1-\sigma_a^2s)`: its own :math:`\nu` comes back :math:`1 + o` times
        as large, :math:`o = h\kappa\eta/\operatorname{var}\phi` the echo, and acts as a slope
        :math:`(1 + (1 - e)((1 + o)^2 - 1))^{-1/2}` times as large.
        """
        slope, noise = self.heard
        out = [(slope / float(np.sqrt(1 + (1 - e[0]) * ((1 + self.echo) ** 2 - 1))), noise)]
        for layer, known in zip(self.norms, 1 - e[:-1], strict=True):
            slope, noise = out[-1]
            told = float(known) * layer.skew / layer.variance
            step = layer.slope - told * layer.mean
            out.append((step * slope, step**2 * noise + layer.noise - told * layer.skew))
        return np.array(out)

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
        none, heard = np.zeros((1, 1)), (1.0, 0.0)
        return Layers(
            own, one, one, np.zeros(4), (), heard, none, none, none[0], 0.0, 0.0, scalars.tau0
        )
    member = Kernel.of(kernel, "kernel")
    tangent, feedback = member.explicit is Kernel.NTK, 0.0
    norms, echo = list[Norms](), 0.0
    if isinstance(scalars, ImplicitScalars):
        feedback = scalars.sigma_a2 * scalars.m1**2
        weight = scalars.sigma_a2 if member.before_activation else 1.0
        weights = np.array([weight / (1 - feedback) if tangent else weight])
        own, links = _vector(scalars.coefficients(Kernel.CK))[None], one
        heard = scalars.alpha4, 0.0
        # All of the noise comes back, and so does what its squares are in the mean.
        noise = scalars.sigma_a2**2 / (1 - feedback**2)
        squares = np.full((1, 1), noise / 2 / (1 - feedback))
        times, seconds = np.full((1, 1), weight / (1 - feedback)), np.array([scalars.m2])
        if scalars.act is not None:
            known = _norms(scalars.act, scalars.tau, scalars.s, scalars.m2)
            hears = scalars.sigma_a2 / (1 - scalars.sigma_a2 * scalars.s)
            echo = hears * known.mean * known.skew / known.variance
            heard = scalars.alpha4, hears**2 * (known.noise - known.skew**2 / known.variance)
    else:
        steps = layer_scalars(scalars.acts, scalars.tau0)
        links = np.array([m.m1**2 for _, _, m in steps])
        kernels = np.stack([_vector(step.coefficients(Kernel.CK)) for step, _, _ in steps])
        own = kernels - links[:, None] * np.vstack([np.zeros(4), kernels[:-1]])
        # In the tangent kernel a layer's features have the slopes of all layers after it.
        after = np.append(np.cumprod(links[:0:-1])[::-1], 1.0)
        weights = after if tangent else np.eye(links.size)[-1]
        squares = np.zeros((links.size, links.size))
        for k in range(1, links.size):
            # Noise in inner products goes on with the slope m1^2.
            reach = np.append(np.cumprod(links[k - 1 : 0 : -1] ** 2)[::-1], 1.0)
            squares[k, :k] = reach / 2
        seconds = np.array([m.m2 for _, _, m in steps])
        # What slopes multiply has it from the kernels of all layers in between.
        times = np.subtract.outer(np.arange(links.size), np.arange(links.size)) * after[:, None]
        below, heard = scalars.tau0, (1.0, 0.0)
        for step, act, m in steps[:-1]:
            norms.append(_norms(act, below, m.s, m.m2))
            below = float(np.sqrt(step.tau2))
    products = 2 * times * squares if tangent else np.zeros_like(squares)
    layers = Layers(
        own,
        links,
        weights,
        np.zeros(4),
        tuple(norms),
        heard,
        squares,
        products,
        seconds,
        echo,
        feedback,
        scalars.tau0,
    )
    limit = layers.amounts(np.ones(links.size)) @ own
    return replace(layers, rest=_vector(scalars.coefficients(kernel)) - limit)


def _vector(c: Coefficients) -> Array:
    return np.array([c.c1, c.c2, c.c3, c.d])


def _norms(act: Activation, tau: float, slope: float, second: float) -> Norms:
    """Return what a centred activation does to squared norms near tau."""
    nodes, weights = grid(tau, act.kinks)
    values = np.asarray(act(tau * nodes), dtype=np.float64)
    mean, variance = weights @ values, weights @ values**2
    variance -= mean**2
    noise = weights @ values**4 - (weights @ values**2) ** 2
    skew = weights @ values**3 - mean * (weights @ values**2)
    return Norms(slope, second / 2, float(noise), float(skew), float(variance))
