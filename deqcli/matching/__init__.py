"""Matching: the shallow explicit network that equals a deep equilibrium model."""

from deqcli.matching.choose import match, match_target, plain_network
from deqcli.matching.export import export
from deqcli.matching.result import Attempt, DiagonalSlope, Match
from deqcli.matching.sphere import match_sphere
from deqcli.matching.targets import Target, deq_target, network_target

__all__ = [
    "Attempt",
    "DiagonalSlope",
    "Match",
    "Target",
    "deq_target",
    "export",
    "match",
    "match_sphere",
    "match_target",
    "network_target",
    "plain_network",
]
