"""The two exact kernels of an explicit network."""

from __future__ import annotations

from collections.abc import Sequence

from numpy.typing import ArrayLike

from deqcli.activations import Activation, activation
from deqcli.errors import InputError
from deqcli.kernels.exact import ExactKernels
from deqcli.kernels.matrix import Combination, KernelMatrix, check_samples
from deqcli.kernels.pairs import ExplicitPairs
from deqcli.vocabulary import Kernel


def explicit_kernels(
    X: ArrayLike, acts: Sequence[Activation | str], Y: ArrayLike | None = None
) -> ExactKernels:
    r"""Return the exact kernels of :math:`x^{(l)} = \sigma_l(W_l x^{(l-1)})/\sqrt{m_l}`.

    .. math:: \Sigma^{(l)}_{ij} = E[\sigma_l(u)\sigma_l(v)], \qquad
       \Theta^{(l)} = \Sigma^{(l)} + \Theta^{(l-1)} \circ E[\sigma_l'(u)\sigma_l'(v)],

    from :math:`\Sigma^{(0)} = \Theta^{(0)} = XX^\top` (ICLR Eqs. 19, 20; theory.md §5).

    Parameters
    ----------
    X : array of shape (n, p)
        Samples in rows.
    acts : sequence of Activation or str
        One a layer, any number of layers from one; shifts count.
    Y : array of shape (q, p), optional
        A second set: the matrices are then (n, q).

    Examples
    --------
    >>> import numpy as np
    >>> e = explicit_kernels(np.eye(3), ["relu", "tanh"])
    >>> e.ck.shape
    (3, 3)
    >>> explicit_kernels(np.eye(2), ["identity"] * 3).ntk[0].round(12)
    array([4., 0.])
    """
    if isinstance(acts, str | Activation):
        acts = [acts]
    layers = tuple(activation(act) for act in acts)
    if not layers:
        raise InputError("`acts` is empty; an explicit network needs at least one activation.")
    samples = check_samples(X, "X", least=2 if Y is None else 1)
    others = None if Y is None else check_samples(Y, "Y")
    combinations = {kernel: Combination(kernel) for kernel in (Kernel.CK, Kernel.NTK)}
    return ExactKernels(KernelMatrix(ExplicitPairs(layers), samples, others), combinations)
