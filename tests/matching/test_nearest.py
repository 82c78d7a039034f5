"""A depth that is asked for has the network that is nearest in the kernel."""

import numpy as np

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
