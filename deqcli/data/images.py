"""One door to real data: MNIST, Fashion-MNIST, CIFAR-10, its VGG-19 features, one's own files.

Loading reads and never downloads; ``deqcli data fetch`` does that.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deqcli.data import files, folder, registry
from deqcli.data.dataset import Dataset
from deqcli.data.folder import Content
from deqcli.data.preprocess import balanced, fit_transform, order, pick_classes
from deqcli.data.readers import Samples, check_labels, read_cifar, read_idx, read_npy, read_npz
from deqcli.data.registry import Source, Split
from deqcli.errors import DataError, InputError

#: What the commands call the two numbers of samples.
_TRAINING, _TEST = "--n (or --train-size)", "--test-size"


def load(
    name: str | os.PathLike[str],
    *,
    classes: Sequence[int | str] | None = None,
    n: int | None = None,
    select: str = "random",
    preprocess: str = "centred",
    rng: np.random.Generator | None = None,
    data_dir: str | os.PathLike[str] | None = None,
    n_test: int | None = None,
) -> tuple[Dataset, Dataset | None]:
    """Read, select and scale real data.

    Parameters
    ----------
    name : str or path
        A name of :func:`deqcli.data.registry.names`, the same with ``:test`` appended (the test
        half gives the samples, which is all that a folder without CIFAR-10's five training
        batches allows), or a ``.npz`` or ``.csv`` file (see :mod:`deqcli.data.files`).
    classes : sequence of int or str, optional
        Classes by original label or name; the order numbers them. All, if not given.
    n : int, optional
        Training samples in all, shared equally over the classes (the first classes get one
        more when ``n`` is no multiple). All samples of the classes, if not given.
    select : {"random", "first"}
        Which ones of each class: drawn with ``rng``, or the first in file order.
    preprocess : {"centred", "unit", "raw"}
        See :mod:`deqcli.data.preprocess`. Statistics come from the training samples returned.
    rng : numpy.random.Generator, optional
        Needed where ``select="random"`` leaves samples out. One state gives nested selections
        as ``n`` grows, and a test selection that does not depend on ``n`` (named data).
    data_dir : str or path, optional
        Data folder; else ``DEQCLI_DATA_DIR``, else the user's cache.
    n_test : int, optional
        Test samples in all, 0 for all there are; no test set, if not given. Named data have a
        test half. From one's own file the last of each class, in the order of ``select``, are
        split off first and ``n`` is taken from the rest; 0 then means all that ``n`` leaves.

    Returns
    -------
    train : Dataset
        Rows class by class, in the order of ``classes``, within a class in file order.
    test : Dataset or None
        Likewise, scaled by the training statistics.

    Raises
    ------
    DataError
        If files are missing, damaged or hold too few samples.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as place:
    ...     path = Path(place, "toy.npz")
    ...     np.savez(path, X=np.arange(12.0).reshape(6, 2), y=list("aabbcc"))
    ...     train, test = load(path, classes=("c", "a"), n=2, select="first", n_test=2)
    >>> train.classes, train.y.tolist(), test.y.tolist()
    (('c', 'a'), [0, 1], [0, 1])
    >>> float(np.mean(np.sum(train.X**2, axis=1)).round(12))
    1.0
    """
    if select == "random" and rng is None and (n is not None or n_test):
        raise InputError('select="random" needs a generator (rng) to draw from.')
    name = os.fspath(name)
    wish = _Wish(classes, n, select, rng, n_test)
    if Path(name).suffix.lower() in files.SUFFIXES:
        parts = _own(Path(name), wish)
    else:
        parts = _named(name, wish, folder.data_dir(data_dir))
    scaling, X = fit_transform(parts[0].X, preprocess)
    recorded = {
        "preprocess": scaling.name,
        "scale": scaling.scale,
        "mean_norm": float(np.linalg.norm(scaling.mean)),
    }
    train, *test = (
        Dataset(Z, part.y, name, part.classes, {**part.details, **recorded})
        for part, Z in zip(parts, (X, *(scaling(part.X) for part in parts[1:])), strict=True)
    )
    return train, test[0] if test else None


def read(source: Source, split: Split, root: Path) -> tuple[Samples, dict[str, str]]:
    """Read one half of a named data set whole, checked, with the sha256 of each file read.

    Raises
    ------
    DataError
        If a file is missing, damaged, or not the registered one.
    """
    contents = folder.contents(folder.locate(source, split, root))
    # Parsed before the checksums are compared, since a parser can say what is wrong.
    X, labels, path = _READERS[contents[0].piece.role](contents, split)
    y = check_labels(labels, len(source.classes), path)
    if len(X) != len(y):
        raise DataError(f"{path} has {len(y)} labels for the {len(X)} samples beside it.")
    for content in contents:
        folder.check(source, content)
    checksums = {content.path.name: content.sha256 for content in contents}
    return Samples(X, y, source.classes), checksums


def _read_idx(contents: list[Content], split: Split) -> tuple[NDArray[Any], NDArray[Any], Path]:
    images, labels = contents
    X = read_idx(images.data, images.path, 3, images.piece.count)
    y = read_idx(labels.data, labels.path, 1, labels.piece.count)
    return X.reshape(len(X), -1), y, labels.path


def _read_cifar(contents: list[Content], split: Split) -> tuple[NDArray[Any], NDArray[Any], Path]:
    batches = []
    for content in contents:
        pixels, labels = read_cifar(content.data, content.path, content.piece.count)
        check_labels(labels, 10, content.path)
        batches.append((pixels, labels))
    pixels, labels = (np.concatenate(parts) for parts in zip(*batches, strict=True))
    return pixels, labels, contents[0].path


def _read_features(
    contents: list[Content], split: Split
) -> tuple[NDArray[Any], NDArray[Any], Path]:
    features, labels = contents
    X = read_npy(features.data, features.path)
    if X.ndim != 2:
        raise DataError(f"{features.path} has shape {X.shape}, not (samples, features).")
    key = f"y_{split}"
    return X, read_npz(labels.data, labels.path, [key])[key], labels.path


_READERS = {"images": _read_idx, "batch": _read_cifar, "features": _read_features}


@dataclass(frozen=True)
class _Wish:
    """What was asked of `load`, apart from the place and the scaling."""

    classes: Sequence[int | str] | None
    n: int | None
    select: str
    rng: np.random.Generator | None
    n_test: int | None


@dataclass(frozen=True)
class _Part:
    """Selected samples of one half, as stored, class by class and within a class in file order."""

    X: NDArray[Any]
    y: NDArray[np.int64]
    classes: tuple[str, ...]
    details: dict[str, object]


class _Classes:
    """The rows of the wanted classes of some samples, each class in the order of taking."""

    def __init__(self, samples: Samples, wish: _Wish) -> None:
        picked = pick_classes(samples.classes, wish.classes)
        self.samples = samples
        self.names = tuple(samples.classes[index] for index in picked)
        self.rows = order(samples.y, picked, wish.select, wish.rng)
        self.sizes = [len(rows) for rows in self.rows]

    def share(self, n: int | None, sizes: Sequence[int], what: str) -> list[int]:
        """How many of each class: ``n`` in all, or for None as many as there are."""
        return list(sizes) if n is None else balanced(n, sizes, self.names, what)

    def part(self, starts: Sequence[int], stops: Sequence[int], **details: object) -> _Part:
        """Take from each class the rows between two positions."""
        limits = zip(self.rows, starts, stops, strict=True)
        taken = [np.sort(rows[start:stop]) for rows, start, stop in limits]
        counts = [len(rows) for rows in taken]
        if not all(counts):
            raise DataError(f"The {details['split']} set has classes without a sample: {counts}.")
        return _Part(
            self.samples.X[np.concatenate(taken)],
            np.repeat(np.arange(len(taken)), counts),
            self.names,
            {**details, "classes": list(self.names), "counts": counts},
        )


def _named(name: str, wish: _Wish, root: Path) -> list[_Part]:
    source, split = registry.find(name)
    wanted: list[tuple[Split, int | None, str]] = [(split, wish.n, _TRAINING)]
    if wish.n_test is not None:
        if split == "test":
            raise InputError(f"--data {name}: leave out ':test', which the test samples come from.")
        wanted.append(("test", wish.n_test or None, _TEST))
    pick_classes(source.classes, wish.classes)  # a wrong class is told before files are read
    parts = []
    for half, n, what in wanted:
        samples, checksums = read(source, half, root)
        classes = _Classes(samples, wish)
        stops = classes.share(n, classes.sizes, what)
        how = "all" if n is None else wish.select
        starts = [0] * len(stops)
        parts.append(classes.part(starts, stops, split=half, files=checksums, select=how))
    return parts


def _own(path: Path, wish: _Wish) -> list[_Part]:
    if wish.n is None and wish.n_test == 0:
        raise InputError(
            f"{path} has no test half of its own: {_TRAINING} or {_TEST} must be a number above 0."
        )
    samples, sha256 = files.read(path)
    classes = _Classes(samples, wish)
    none = [0] * len(classes.sizes)
    held = classes.share(wish.n_test, classes.sizes, _TEST) if wish.n_test else none
    rest = [size - test for size, test in zip(classes.sizes, held, strict=True)]
    stops = classes.share(wish.n, rest, _TRAINING)
    how = "all" if wish.n is None and wish.n_test is None else wish.select
    common = {"files": {path.name: sha256}, "select": how}
    parts = [classes.part(none, stops, split="train", **common)]
    if wish.n_test is not None:
        starts = rest if wish.n_test else stops
        parts.append(classes.part(starts, classes.sizes, split="test", **common))
    return parts
