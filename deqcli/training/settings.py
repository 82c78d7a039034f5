"""The settings of a training by stochastic gradient descent.

Nothing heavy is imported here: the command line reads these classes for its help.
"""

from __future__ import annotations

from dataclasses import dataclass

from deqcli.checks import LARGEST
from deqcli.settings import Settings, setting


@dataclass(frozen=True, kw_only=True)
class TrainingSettings(Settings):
    r"""Stochastic gradient descent, the same for all networks that are compared.

    With momentum the velocity v moves by :math:`v \leftarrow \mu v + g` and the weights by
    :math:`w \leftarrow w - \eta v`.
    """

    train: str = setting(
        "all",
        "Which weights are trained. Wide networks then learn by their CK (readout) or NTK (all).",
        choices=("all", "readout"),
    )
    epochs: int = setting(20, "Passes over the samples.", least=1, most=100_000)
    batch: int = setting(128, "Samples of one step.", least=1)
    learning_rate: float = setting(
        1.0,
        "Learning rate, in the parametrisation in which it serves all widths and networks: "
        "standard normal weights, every layer divided by the root of its width.",
        above=0,
        most=LARGEST,
    )
    momentum: float = setting(0.9, "Momentum.", least=0, below=1)
