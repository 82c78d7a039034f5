"""Matching: the shallow explicit network that equals a deep equilibrium model."""

from deqcli.matching.data import fit_twin
from deqcli.matching.export import export
from deqcli.matching.judging import Distances, compare, judge, on_gaussian_data
from deqcli.matching.result import Match
from deqcli.matching.scalar import match_target, plain_network
from deqcli.matching.sphere import match_sphere
from deqcli.matching.targets import network_target
from deqcli.matching.twins import match

__all__ = [
    "Distances",
    "Match",
    "compare",
    "export",
    "fit_twin",
    "judge",
    "match",
    "match_sphere",
    "match_target",
    "network_target",
    "on_gaussian_data",
    "plain_network",
]
