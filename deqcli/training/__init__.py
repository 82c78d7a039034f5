"""Training: the DEQ by implicit differentiation and explicit networks, in numpy."""

from deqcli.training.base import Network, Progress
from deqcli.training.equilibrium import EquilibriumNetwork
from deqcli.training.explicit import ExplicitNetwork
from deqcli.training.loop import History, train

__all__ = [
    "EquilibriumNetwork",
    "ExplicitNetwork",
    "History",
    "Network",
    "Progress",
    "train",
]
