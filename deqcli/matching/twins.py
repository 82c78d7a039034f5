"""The twin of a DEQ: by its scalars at one norm, or fitted to its kernel on data."""

from __future__ import annotations

from dataclasses import replace

from numpy.typing import ArrayLike

from deqcli.activations import Activation, activation
from deqcli.matching.data import fit_twin
from deqcli.matching.result import Match
from deqcli.matching.scalar import match_target
from deqcli.matching.targets import deq_target
from deqcli.vocabulary import Kernel


def match(
    act: Activation | str,
    sigma_a2: float,
    sigma_b2: float | None = None,
    tau0: float | None = None,
    *,
    kernel: Kernel | str = Kernel.CK,
    family: str = "auto",
    layers: int | str = "auto",
    X: ArrayLike | None = None,
    within: float = 0.01,
    seed: int = 0,
) -> Match:
    r"""Find the explicit network with one or two hidden layers whose kernel is the DEQ's.

    **On data** ``X`` the network is fitted to the DEQ's exact kernel on the pairs of a design of
    up to 200 rows, and judged on other rows, up to 1000 (:mod:`deqcli.matching.fit`).

    **Without data** it is that of the theory: in high dimension kernels are equal when four
    scalars are,

    .. math:: G: (\alpha_1, \alpha_2, \alpha_3, \gamma^2) =
       (\tilde\alpha_1, \tilde\alpha_2, \tilde\alpha_3, \tilde\tau_L^2), \qquad
       K: (\beta_1, \beta_2, \beta_3, \kappa^2) =
       (\tilde\beta_1, \tilde\beta_2, \tilde\beta_3, \tilde\kappa_L^2)

    and likewise for :math:`\Lambda` and :math:`\Theta` (theory.md §6; ICML Examples 1, 2, ICLR
    Corollaries 1, 2, whose quadratic network does not always exist). Spare numbers match the slope
    of the diagonal too.

    Parameters
    ----------
    act : Activation or str
        Of the DEQ; it is centred at ``tau0``.
    sigma_a2, sigma_b2 : float
        ``sigma_b2`` is ``1 - sigma_a2`` by default.
    tau0 : float, optional
        Root of the mean variance of the data. By default the root mean squared norm of the rows of
        ``X``, or 1 without data.
    kernel : Kernel or str
        Which of the DEQ's four; the twin's CK equals the first two, its NTK the others.
    family : str
        ``htanh``, ``lrelu``, ``quadratic``, ``cubic``, on data also ``spline`` (piecewise linear)
        and ``quintic``, or ``auto`` for the smallest that does.
    layers : 1, 2 or "auto"
        On data, 1 or 2 takes the nearest of all families, not the first that does.
    X : array of shape (n, p), optional
        Samples in rows, at least 20, scaled as the network will see them.
    within : float
        The relative distance, in operator norm, at which a twin on data matches. ``auto`` takes
        the smallest network that is within it on the design and on the other rows, and no farther
        than the plain network there; if there is none, the one that is nearest on both, of one
        layer where that is within it.
    seed : int
        Which rows make up the design; the same seed gives the same twin.

    Returns
    -------
    Match
        ``feasible`` is False, with the nearest network and the reason, where there is none.

    Examples
    --------
    >>> twin = match("relu", 0.2, tau0=1.05)
    >>> twin.feasible, twin.family, twin.layers
    (True, 'lrelu', 2)
    >>> twin.reason
    'α2 = 0.0326 ≠ ½α3 = 0.0314: one hidden layer cannot match; two layers of L-ReLU activation...'
    >>> match("relu", 0.2, family="htanh").feasible
    False
    >>> import numpy as np
    >>> X = np.random.default_rng(0).standard_normal((60, 9)) * np.linspace(0.1, 0.6, 9)
    >>> twin = match("relu", 0.2, kernel="ntk", X=X)
    >>> twin.within, twin.distance < 0.01 < twin.plain_distance, twin.family, twin.layers
    (True, True, 'lrelu', 1)
    """
    if X is None:
        target, deq = deq_target(act, sigma_a2, sigma_b2, 1.0 if tau0 is None else tau0, kernel)
        twin = match_target(target, family=family, layers=layers, deq=deq)
        return replace(twin, act=activation(act).shifted(deq.shift))
    return fit_twin(
        act, sigma_a2, sigma_b2, tau0, kernel=kernel, family=family, layers=layers, X=X,
        within=within, seed=seed,
    )  # fmt: skip
