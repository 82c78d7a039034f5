"""One door to real data: MNIST, Fashion-MNIST, CIFAR-10, its VGG-19 features, one's own files.

Loading reads and never downloads; ``deqcli data fetch`` does that.
"""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deqcli.checks import Range, generator, number, of_type, one_of
from deqcli.data import files, folder, registry
from deqcli.data.dataset import SELECTIONS, Dataset, balanced, fit_transform, order, pick_classes
from deqcli.data.folder import Content
from deqcli.data.readers import check_labels, read_cifar, read_idx, read_npy, read_npz
from deqcli.data.registry import Source, Split
from deqcli.errors import DataError, InputError


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
        See :mod:`deqcli.data.dataset`. Statistics come from the training samples returned.
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
    paths = {"name": name} if data_dir is None else {"name": name, "data_dir": data_dir}
    for parameter, path in paths.items():
        of_type(path, parameter, str | os.PathLike, "a text or a path")
    one_of(select, "select", SELECTIONS)
    if rng is not None:
        generator(rng)
    n = None if n is None else number(n, "n", int, Range(least=0))
    n_test = None if n_test is None else number(n_test, "n_test", int, Range(least=0))
    if select == "random" and rng is None and (n is not None or n_test):
        raise InputError('`select` is "random", which needs a generator `rng` to draw from.')
    name = os.fspath(name)
    selection = Selection(classes, n, select, rng, n_test)
    if Path(name).suffix.lower() in files.SUFFIXES:
        parts = _load_file(Path(name), selection)
    else:
        parts = _load_named(name, selection, folder.data_dir(data_dir))
    scaling, X = fit_transform(parts[0].X, preprocess)
    recorded = {
        "preprocess": scaling.name,
        "scale": scaling.scale,
        "mean_norm": float(np.linalg.norm(scaling.mean)),
    }
    train, *test = (
        replace(part, X=Z, name=name, details={**part.details, **recorded})
        for part, Z in zip(parts, (X, *(scaling(part.X) for part in parts[1:])), strict=True)
    )
    return train, test[0] if test else None


def read(source: Source, split: Split, root: Path) -> tuple[Dataset, dict[str, str]]:
    """Read one half of a named data set whole, checked, with the sha256 of each file read.

    Raises
    ------
    DataError
        If a file is missing, damaged, or not the registered one.
    """
    contents = folder.contents(folder.locate(source, split, root))
    # Parsed before the checksums are compared, because a parser says more exactly what is wrong.
    X, labels, path = _READERS[contents[0].piece.role](contents, split)
    y = check_labels(labels, len(source.classes), path)
    if len(X) != len(y):
        raise DataError(f"{path} has {len(y)} labels for the {len(X)} samples beside it.")
    for content in contents:
        folder.check(source, content)
    checksums = {content.path.name: content.sha256 for content in contents}
    return Dataset(X, y, source.name, source.classes), checksums


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
    if X.ndim != 2 or X.dtype.kind not in "biuf":
        raise DataError(
            f"{features.path} holds {X.dtype} of shape {X.shape}, not real numbers of shape "
            "(samples, features)."
        )
    key = f"y_{split}"
    return X, read_npz(io.BytesIO(labels.data), labels.path, [key])[key], labels.path


_READERS = {"images": _read_idx, "batch": _read_cifar, "features": _read_features}


@dataclass(frozen=True)
class Selection:
    """Which samples `load` takes: its arguments apart from the place and the scaling."""

    classes: Sequence[int | str] | None
    n: int | None
    select: str
    rng: np.random.Generator | None
    n_test: int | None


class _Classes:
    """The rows of the selected classes, each class in the order in which samples are taken."""

    def __init__(self, samples: Dataset, selection: Selection) -> None:
        picked = pick_classes(samples.classes, selection.classes)
        self.samples = samples
        self.names = tuple(samples.classes[index] for index in picked)
        self.rows = order(samples.y, picked, selection.select, selection.rng)
        self.sizes = [len(rows) for rows in self.rows]

    def share(self, n: int | None, sizes: Sequence[int], parameter: str) -> list[int]:
        """How many of each class: ``n`` in all, or for None as many as there are."""
        return list(sizes) if n is None else balanced(n, sizes, self.names, parameter)

    def part(self, starts: Sequence[int], stops: Sequence[int], **details: object) -> Dataset:
        """Take from each class the samples between two positions, in file order."""
        limits = zip(self.rows, starts, stops, strict=True)
        selected = [np.sort(rows[start:stop]) for rows, start, stop in limits]
        counts = [len(rows) for rows in selected]
        if not all(counts):
            raise DataError(f"The {details['split']} set has classes without a sample: {counts}.")
        return Dataset(
            self.samples.X[np.concatenate(selected)],
            np.repeat(np.arange(len(selected)), counts),
            self.samples.name,
            self.names,
            {**details, "classes": list(self.names), "counts": counts},
        )


def _load_named(name: str, selection: Selection, root: Path) -> list[Dataset]:
    source, split = registry.find(name)
    halves: list[tuple[Split, int | None, str]] = [(split, selection.n, "n")]
    if selection.n_test is not None:
        if split == "test":
            raise InputError(f"`data` is {name}; leave out ':test', which gives the test samples.")
        halves.append(("test", selection.n_test or None, "test_size"))
    pick_classes(source.classes, selection.classes)  # refuses a wrong class before files are read
    parts = []
    for half, n, parameter in halves:
        samples, checksums = read(source, half, root)
        classes = _Classes(samples, selection)
        stops = classes.share(n, classes.sizes, parameter)
        select = "all" if n is None else selection.select
        starts = [0] * len(stops)
        parts.append(classes.part(starts, stops, split=half, files=checksums, select=select))
    return parts


def _load_file(path: Path, selection: Selection) -> list[Dataset]:
    n, n_test = selection.n, selection.n_test
    if n is None and n_test == 0:
        raise InputError(
            f"{path} has no test half of its own: `n` or `test_size` must be a number above 0."
        )
    samples, sha256 = files.read(path)
    classes = _Classes(samples, selection)
    zeros = [0] * len(classes.sizes)
    test_sizes = classes.share(n_test, classes.sizes, "test_size") if n_test else zeros
    rest = [size - test for size, test in zip(classes.sizes, test_sizes, strict=True)]
    stops = classes.share(n, rest, "n")
    select = "all" if n is None and n_test is None else selection.select
    details = {"files": {path.name: sha256}, "select": select, **samples.details}
    parts = [classes.part(zeros, stops, split="train", **details)]
    if n_test is not None:
        starts = rest if n_test else stops
        parts.append(classes.part(starts, classes.sizes, split="test", **details))
    return parts
