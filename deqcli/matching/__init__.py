"""Matching: the shallow explicit network that equals a deep equilibrium model."""

from deqcli.matching.export import export
from deqcli.matching.targets import network_target
from deqcli.matching.twins import Match, match, match_sphere, match_target, plain_network

__all__ = [
    "Match",
    "export",
    "match",
    "match_sphere",
    "match_target",
    "network_target",
    "plain_network",
]
