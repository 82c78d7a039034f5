"""A depth that is asked for has the network that is nearest in the kernel."""

import numpy as np

from deqcli.data.mixture import GaussianMixture
from deqcli.matching import match


def test_one_layer_is_the_nearest_of_all_families():
    """H-Tanh is within the limit, and comes first; others are a hundred times nearer."""
    X = np.random.default_rng(0).standard_normal((60, 80)) / 80**0.5
    wanted = {"kernel": "preactivation-ck", "X": X}
    first = match("relu", 0.2, **wanted)
    twin = match("relu", 0.2, layers=1, **wanted)
    tried = {each.family: each.worst for each in twin.alternatives}
    assert list(tried) == ["htanh", "lrelu", "spline", "quintic"]
    assert twin.family == min(tried, key=tried.get)
    assert (first.family, first.within) == ("htanh", True)
    assert twin.distance < 0.01 * first.distance


def test_auto_goes_on_while_the_plain_network_is_nearer():
    """Within the limit is little where the DEQ hardly differs from a plain network."""
    X = GaussianMixture.papers(60).sample(60, np.random.default_rng(0)).X
    twin = match("tanh", 0.01, X=X)
    first = match("tanh", 0.01, X=X, family="htanh")
    assert first.within
    assert first.plain_distance < first.distance < 0.01
    assert f"(a plain network {first.plain_distance:.2g}, which is nearer)" in first.reason
    assert (twin.within, twin.family, twin.layers) == (True, "spline", 1)
    assert twin.distance < 0.5 * twin.plain_distance
    assert "which is nearer" not in twin.reason
    # Here the DEQ is the plain network: all of one layer are tried, and none of two.
    plain = match("tanh", 0.0, X=X)
    tried = {each.family: each.worst for each in plain.alternatives}
    assert list(tried) == ["htanh", "lrelu", "spline", "quintic"]
    assert plain.family == min(tried, key=tried.get)
    assert plain.within
    assert "which is nearer)" in plain.reason
