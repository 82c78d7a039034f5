r"""Networks at equal scale: the same variance of outputs at the start, the same speed of learning.

Two networks whose kernels differ by a factor alone learn the same functions at different speeds.
That is no property of an architecture: a factor at the output or another learning rate undoes it.
With outputs :math:`g\,a^\top z` both kernels are multiplied by :math:`g^2`, and with the learning
rate :math:`\rho\eta` the one that decides training by :math:`\rho` besides. With the mean diagonals
:math:`\bar G`, :math:`\bar\Theta` over the training samples,

.. math:: g^2 = \frac{\bar G_{\mathrm{DEQ}}}{\bar G}, \qquad
          \rho = \frac{\bar\Theta_{\mathrm{DEQ}}}{g^2\bar\Theta}
          \quad\text{(all weights)}, \qquad \rho = 1 \quad\text{(the readout)}.

The first makes the initial outputs, of variance :math:`g^2G_{ii}`, as large as the DEQ's; the
second the mean diagonal of the kernel by which the network learns, :math:`\Theta` if all weights
are trained and G if the readout is. Both are taken from the exact kernels of infinite width and
are the same for every width.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from deqcli.training.trio import Array, Trio
from deqcli.vocabulary import Kernel, Net


@dataclass(frozen=True)
class Scale:
    r"""What a network's outputs and its learning rate are multiplied by.

    Attributes
    ----------
    gain, rate : float
        g and :math:`\rho`.
    """

    gain: float = 1.0
    rate: float = 1.0


def deciding_kernel(train: str) -> Kernel:
    """Return the kernel by which a wide network learns: of the readout the CK, of all the NTK.

    Examples
    --------
    >>> deciding_kernel("readout").value, deciding_kernel("all").value
    ('ck', 'ntk')
    """
    return Kernel.CK if train == "readout" else Kernel.NTK


def equal_scale(nets: Trio, net: str, X: Array, train: str) -> Scale:
    """Return the multipliers that put a network on the scale of the DEQ.

    Parameters
    ----------
    nets : Trio
    net : str
    X : ndarray of shape (n, p)
        The training samples.
    train : {"all", "readout"}
        Which weights are trained.

    Examples
    --------
    >>> import numpy as np
    >>> from deqcli.training.trio import trio
    >>> X = np.eye(3)
    >>> nets = trio("relu", 0.2, 0.8, X, twin="scalars")
    >>> equal_scale(nets, "deq", X, "all")
    Scale(gain=1.0, rate=1.0)
    >>> plain = equal_scale(nets, "plain", X, "readout")
    >>> round(plain.gain, 3), plain.rate
    (1.587, 1.0)
    """
    ck, ntk = nets.mean_diagonals(net, X)
    goal_ck, goal_ntk = nets.mean_diagonals(Net.DEQ, X)
    gain2 = goal_ck / ck
    decided = deciding_kernel(train) is Kernel.NTK
    return Scale(math.sqrt(gain2), goal_ntk / (gain2 * ntk) if decided else 1.0)
