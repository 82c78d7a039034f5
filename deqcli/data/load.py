"""The public door to data: one call, a seed, a data set with ``X`` and ``y``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

from deqcli.data import images
from deqcli.data.dataset import Dataset
from deqcli.errors import InputError
from deqcli.runs.seeds import stream


def load(
    name: str | os.PathLike[str],
    classes: Sequence[int | str] | None = None,
    n: int | None = None,
    seed: int = 0,
    *,
    n_test: int | None = None,
    select: str = "random",
    preprocess: str = "centred",
    data_dir: str | os.PathLike[str] | None = None,
) -> Dataset:
    r"""Read, select and scale samples: MNIST and its relatives, or a file of one's own.

    Reading never downloads; ``deqcli data fetch mnist`` does that once.

    Parameters
    ----------
    name : str or path
        ``mnist``, ``fashion-mnist``, ``cifar10``, ``cifar10-vgg19``, one of them with ``:test``
        appended, or the path of a ``.npz`` (arrays ``X`` and ``y``) or ``.csv`` file (the column
        ``y`` or ``label``, else the last one, has the labels).
    classes : sequence of int or str, optional
        Labels or names; all, if not given. Their order numbers them in ``y``.
    n : int, optional
        Samples in all, shared equally over the classes; all there are, if not given.
    seed : int
        Which samples, where ``n`` leaves some out. One seed gives nested selections as ``n``
        grows.
    n_test : int, optional
        Test samples in all, then found in ``.test``; 0 for all there are.
    select : {"random", "first"}
    preprocess : {"centred", "unit", "raw"}
        ``centred``: mean 0 and mean squared norm 1, over the training samples; ``unit``: centred,
        then every sample on the unit sphere; ``raw``: as stored.
    data_dir : str or path, optional
        Data folder; else ``DEQCLI_DATA_DIR``, else the user's cache.

    Returns
    -------
    Dataset
        ``X`` of shape (n, p), ``y`` of class indices, ``labels`` the original ones, ``classes``
        their names, ``test``; ``frame()`` gives a DataFrame.

    Examples
    --------
    >>> import tempfile, numpy as np
    >>> with tempfile.TemporaryDirectory() as place:
    ...     np.savez(f"{place}/toy.npz", X=np.arange(12.0).reshape(6, 2), y=list("aabbcc"))
    ...     data = load(f"{place}/toy.npz", classes=["c", "a"], n=2, n_test=2)
    >>> data.labels.tolist(), data.y.tolist(), data.test.X.shape
    (['c', 'a'], [0, 1], (2, 2))
    """
    if not isinstance(name, str | os.PathLike):
        raise InputError(
            f"`name` is of type {type(name).__name__}; give the name of a data set or a path. "
            "Samples in Python, such as a DataFrame, are taken by deqcli.run(study, data=samples)."
        )
    train, test = images.load(
        name,
        classes=classes,
        n=n,
        select=select,
        preprocess=preprocess,
        rng=stream(seed, "load"),
        data_dir=data_dir,
        n_test=n_test,
    )
    return replace(train, test=test)
