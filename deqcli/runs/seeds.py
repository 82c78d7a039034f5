"""Random streams keyed by names, so that order, parallelism and resume do not change a number."""

from __future__ import annotations

import hashlib
import json
import operator

import numpy as np

from deqcli.errors import InputError


def stream(seed: int, *key: str | int) -> np.random.Generator:
    """Return the random stream that belongs to a seed and a sequence of names.

    The key is written as a JSON list, which keeps ``("a", 1)``, ``("a", "1")`` and ``("a1",)``
    apart, and the 32-bit words of its SHA-256 are the ``spawn_key`` of a ``SeedSequence``. A
    stream therefore depends on its own names only, never on which streams were made before it.

    Parameters
    ----------
    seed : int
        Not negative.
    *key : str or int
        Names of the stream, such as the study, the quantity and the trial.

    Returns
    -------
    numpy.random.Generator
        PCG64.

    Raises
    ------
    InputError
        If ``seed`` is negative or not an integer.

    Examples
    --------
    >>> first, again, other = stream(0, "trial", 1), stream(0, "trial", 1), stream(0, "trial1")
    >>> value = first.random()
    >>> value == again.random(), value == other.random()
    (True, False)
    """
    try:
        entropy = operator.index(seed)
    except TypeError:
        entropy = -1
    if entropy < 0:
        raise InputError(f"`seed` is {seed!r}; give an integer that is not negative.")
    names = [name if isinstance(name, str) else operator.index(name) for name in key]
    digest = hashlib.sha256(json.dumps(names).encode()).digest()
    words = np.frombuffer(digest, dtype="<u4").tolist()
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(entropy, spawn_key=words)))
