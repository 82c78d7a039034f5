"""Twins on the unit sphere: one hidden layer, in closed form (HLD Corollary 1)."""

from __future__ import annotations

import math

from deqcli.activations import Activation, activation
from deqcli.checks import one_of, shown
from deqcli.errors import InputError
from deqcli.matching.result import Match
from deqcli.matching.targets import TOLERANCE
from deqcli.scalars import sphere_scalars
from deqcli.vocabulary import Kernel


def match_sphere(
    act: Activation | str,
    sigma_a2: float,
    dimension: int,
    kernel: Kernel | str = Kernel.PREACTIVATION_CK,
    *,
    sigma_b2: float | None = None,
    family: str = "quadratic",
) -> Match:
    r"""Find the one-layer network that equals a DEQ on the unit sphere.

    A quadratic :math:`a_2x^2 + a_1x + a_0` has the kernel
    :math:`(a_0+a_2)^2 + \nu_1a_1^2t + 2\nu_2a_2^2t^2` of two inputs of inner product t, with
    :math:`\nu = (1, 1)` for the CK and :math:`(2, 3)` for the NTK, so that

    .. math:: a_2 = \sqrt{\mu/2\nu_2},\quad a_1 = \sqrt{\beta/\nu_1},\quad
       a_0 = \sqrt{\alpha - \mu/d} - a_2

    (HLD Corollary 1; theory.md §6). It needs :math:`\alpha \ge \mu/d`, which odd activations do
    not have; the cubic :math:`c_0 + c_1h_1 + c_3h_3` with
    :math:`c_0^2 = \alpha,\ c_1^2 = \beta/\nu_1,\ c_3^2 = \mu` (CK) or :math:`\mu/4` (NTK) does not.

    Parameters
    ----------
    act : Activation or str
        Of the DEQ, as it is: it is not centred. HLD's is ``nrelu``.
    sigma_a2, sigma_b2 : float
        ``sigma_b2`` is ``1 - sigma_a2`` by default.
    dimension : int
        The dimension d of the sphere's space.
    kernel : Kernel or str
        One of the four; HLD's CK and NTK are ``preactivation-ck`` and ``preactivation-ntk``.
    family : str
        ``quadratic`` or ``cubic``.

    Returns
    -------
    Match
        Its activation is not centred: a constant is part of the match. It is feasible where all
        three scalars agree to 1e-10 of the kernel's diagonal.

    Examples
    --------
    >>> twin = match_sphere("nrelu", 0.2, 1200)
    >>> {k: round(v, 5) for k, v in twin.acts[0].parameters.items()}
    {'a2': 0.13363, 'a1': 0.94518, 'a0': 0.13266}
    """
    kernel = Kernel.of(kernel, "kernel")
    family = one_of(family, "family", ("quadratic", "cubic"))
    t = sphere_scalars(act, dimension, sigma_a2=sigma_a2, sigma_b2=sigma_b2, kernel=kernel)
    scale = t.alpha + t.beta + t.mu
    if not scale > 0:
        raise InputError(
            f"the kernel {kernel} is zero with `sigma_b2` {shown(sigma_b2)}; there is nothing to "
            "match."
        )
    linear, square, cube = (1, 1, 1) if kernel.explicit is Kernel.CK else (2, 3, 4)
    if family == "quadratic":
        constant = t.alpha - t.mu / dimension
        a2 = math.sqrt(max(t.mu, 0.0) / (2 * square))
        a1, a0 = math.sqrt(max(t.beta, 0.0) / linear), math.sqrt(max(constant, 0.0)) - a2
        name = f"quadratic:a2={a2!r},a1={a1!r},a0={a0!r}"
        reason = (
            f"α = {t.alpha:.4g} is at least μ/d = {t.mu / dimension:.4g}: "
            "one hidden layer of quadratic activation matches."
            if constant >= 0
            else f"α = {t.alpha:.4g} is less than μ/d = {t.mu / dimension:.4g}: no quadratic "
            "matches; one hidden layer of cubic activation would do."
        )
    else:
        c0, c1, c3 = (math.sqrt(max(x, 0.0)) for x in (t.alpha, t.beta / linear, t.mu / cube))
        name = f"hermite:scale=1.0,c0={c0!r},c1={c1!r},c3={c3!r}"
        reason = "one hidden layer of cubic activation matches wherever α, β, μ are not negative."
    acts = (activation(name),)
    twin = sphere_scalars(acts, dimension, kernel=kernel.explicit)
    target, achieved = ({k: getattr(s, k) for k in ("alpha", "beta", "mu")} for s in (t, twin))
    residuals = {key: (achieved[key] - target[key]) / scale for key in target}
    # 11^T has the eigenvalue n, and alpha is of the order 1/d for odd activations.
    residuals["alpha"] *= dimension
    return Match(
        feasible=max(map(abs, residuals.values())) <= TOLERANCE,
        kernel=kernel,
        family=family,
        layers=1,
        acts=acts,
        target=target,
        achieved=achieved,
        residuals=residuals,
        reason=reason,
        act=activation(act),
        variances=(float(sigma_a2), float(1 - sigma_a2 if sigma_b2 is None else sigma_b2)),
        dimension=dimension,
    )
