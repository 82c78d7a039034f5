r"""Averages over random networks as points of a study, and how much of a distance is their noise.

Realizations are summed in chunks, which are added up in two halves. With the halves' means
:math:`M_1, M_2` over :math:`k_1, k_2` networks, :math:`k = k_1 + k_2`,

.. math:: N = \sqrt{k_1k_2}\,(M_1 - M_2)/k

has the law of the sampling error of the whole mean (each entry has the variance of a mean over k),
and so has the norm that sampling alone gives to a difference. The *noise floor* of a distance is
the distance between two independent averages of one kernel: what would be measured if nothing but
sampling told the two apart.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from deqcli.activations import Activation
    from deqcli.models import Model
    from deqcli.shared_settings import MonteCarloSettings
    from deqcli.vocabulary import Kernel

Array = NDArray[np.float64]
Chunk = tuple[int, int]
#: Loads what a chunk left.
Part = Callable[[], Mapping[str, NDArray[Any]]]

#: What is said of the noise of a single network.
UNKNOWN_NOISE = "one network does not tell how much of it is sampling"

# A chunk is what a kill can cost; large kernels make fewer and larger parts to spare the disk.
_CHUNK, _LARGE_N, _LARGE_PARTS = 20, 2000, 8


def chunks(realizations: int, n: int) -> list[Chunk]:
    """Return which realizations are summed together, at least two chunks where there are two.

    Parameters
    ----------
    n : int
        Samples, which decide how large a sum is.

    Examples
    --------
    >>> chunks(50, 800), chunks(3, 800)
    ([(0, 20), (20, 40), (40, 50)], [(0, 2), (2, 3)])
    """
    size = max(_CHUNK, -(-realizations // _LARGE_PARTS)) if n > _LARGE_N else _CHUNK
    size = max(1, min(size, -(-realizations // 2)))
    return [(start, min(start + size, realizations)) for start in range(0, realizations, size)]


def chunk_key(chunk: Chunk, kind: str = "realizations") -> str:
    """Return the name of a chunk's point."""
    return f"{kind} {chunk[0]:05d}-{chunk[1]:05d}"


@dataclass(frozen=True)
class Average:
    """The mean of a kernel over random networks, and a draw of its sampling error.

    Attributes
    ----------
    mean : ndarray of shape (n, n)
    noise : ndarray of shape (n, n) or None
        A matrix with the law of the error of ``mean``; None for a single network.
    """

    mean: Array
    noise: Array | None

    def floor(self) -> float | None:
        r"""Return the distance between two independent averages like this one.

        The difference of two has :math:`\sqrt2` times the noise of one.
        """
        from deqcli.equivalents import operator_norm

        return None if self.noise is None else math.sqrt(2) * operator_norm(self.noise)

    def floor_to(self, other: Average) -> float | None:
        """Return the distance between two averages that sampling alone gives them."""
        from deqcli.equivalents import operator_distance

        if self.noise is None or other.noise is None:
            return None
        return operator_distance(self.noise, other.noise)


def average(parts: Sequence[Part]) -> Average:
    """Average over chunks, of which every second one makes one half.

    Parameters
    ----------
    parts : sequence of callables
        Each returns the ``sum`` of a chunk, and ``converged``, one flag a network.

    Examples
    --------
    >>> one, three = ({"sum": np.array([[x]]), "converged": np.array([True])} for x in (1.0, 3.0))
    >>> two = average([lambda: one, lambda: three])
    >>> two.mean.item(), two.noise.item(), round(two.floor(), 4)
    (2.0, -1.0, 1.4142)
    """
    sums: list[Array | None] = [None, None]
    counts = [0, 0]
    for place, load in enumerate(parts):
        part, half = load(), place % 2
        counts[half] += int(np.count_nonzero(part["converged"]))
        known = sums[half]
        if known is None:
            sums[half] = np.array(part["sum"], dtype=float)
        else:
            known += part["sum"]
    first, second = sums
    total = sum(counts)
    assert first is not None
    if second is None or not all(counts):
        # Nothing converged: the caller says so, and needs no mean.
        return Average((first if second is None else first + second) / max(total, 1), None)
    mean = (first + second) / total
    first *= math.sqrt(counts[1] / counts[0]) / total
    second *= math.sqrt(counts[0] / counts[1]) / total
    first -= second
    return Average(mean, first)


def compare(deq: Sequence[Part], twin: Sequence[Part]) -> dict[str, float | None]:
    """Return the distance between two averages, its noise floor, and that of each alone."""
    from deqcli.equivalents import operator_distance

    first, second = average(deq), average(twin)
    return {
        "distance": operator_distance(first.mean, second.mean),
        "noise_floor": first.floor_to(second),
        "deq_noise_floor": first.floor(),
        "twin_noise_floor": second.floor(),
    }


def sentence(averaged: Mapping[str, Any]) -> str:
    """Say how far two averages are apart, and how far sampling alone would put them.

    Examples
    --------
    >>> sentence({"realizations": 400, "width": 1000, "distance": 0.2712, "noise_floor": 0.2701})
    'Averages over 400 networks of width 1000 are 0.271 apart; sampling alone makes that 0.27'
    """
    text = (
        f"Averages over {averaged['realizations']} networks of width {averaged['width']} are "
        f"{averaged['distance']:.3g} apart"
    )
    floor = averaged["noise_floor"]
    said = UNKNOWN_NOISE if floor is None else f"sampling alone makes that {floor:.2g}"
    return f"{text}; {said}"


def sum_chunk(
    settings: MonteCarloSettings,
    model: Model,
    acts: Sequence[Activation] | None,
    kernel: Kernel,
    chunk: Chunk,
    streams: Callable[[int], np.random.Generator],
) -> dict[str, NDArray[Any]]:
    """Return the sum of a kernel over some random networks, and which of them converged.

    Parameters
    ----------
    acts : sequence of Activation, optional
        Of an explicit network; without them it is the model's DEQ.
    kernel : Kernel
        Of the DEQ; an explicit network has the one that it is compared with.
    """
    from deqcli.finite.explicit import sum_explicit
    from deqcli.monte_carlo import accumulate

    realizations = range(*chunk)
    if acts is None:
        total = accumulate(model.X, settings.ensemble(model, kernel), realizations, streams)
        converged = np.array([record.converged for record in total.records])
        return {"sum": total.sums[kernel], "converged": converged}
    weights, width = settings.weights, settings.width
    summed = sum_explicit(model.X, acts, width, realizations, streams, kernel.explicit, weights)
    return {"sum": summed, "converged": np.ones(len(realizations), dtype=bool)}
