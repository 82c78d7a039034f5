r"""Labelled samples, what every source of data returns, and how they are selected and scaled.

===========  =====================================================================================
name         map
===========  =====================================================================================
``centred``  :math:`x \mapsto (x - m) / s`, with :math:`m` the mean of the selected training
             samples and :math:`s^2` their mean :math:`\|x - m\|^2`: mean zero, mean squared norm 1
``unit``     :math:`x \mapsto (x - m) / \|x - m\|`: the same centre, then every sample on the sphere
``raw``      the values as stored (pixels are 0 ... 255)
===========  =====================================================================================

Test samples go through the very map that the training samples fixed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from deqcli.checks import one_line, one_of, shown
from deqcli.display import Displayed
from deqcli.errors import DataError, InputError

if TYPE_CHECKING:
    import pandas as pd

SCHEMES = ("centred", "unit", "raw")
SELECTIONS = ("random", "first")


@dataclass(frozen=True, repr=False)
class Dataset(Displayed):
    """Labelled samples, as a file holds them or ready for a kernel.

    Parameters
    ----------
    X : ndarray of shape (n, p)
        Samples in rows: float64, or as stored (``uint8`` pixels, ``float16`` features) before
        preprocessing, so that memory stays small.
    y : ndarray of shape (n,)
        Class indices 0 ... K-1, integers.
    name : str
        What the user called it.
    classes : tuple of str
        The K original labels, in the order of the indices.
    details : mapping
        What provenance records: preprocessing, selection, checksums of the files read.
    test : Dataset, optional
        Test samples, where they were asked for, scaled as the training samples are.

    Examples
    --------
    >>> data = Dataset(np.zeros((4, 2)), np.array([0, 0, 1, 1]), "toy", ("no", "yes"))
    >>> data
    Dataset
      name      toy
      samples   4
      features  2
      classes   no (2), yes (2)
    >>> data.frame()["label"].tolist()
    ['no', 'no', 'yes', 'yes']
    """

    X: NDArray[Any]
    y: NDArray[np.int64]
    name: str
    classes: tuple[str, ...] = ()
    details: Mapping[str, object] = field(default_factory=dict)
    test: Dataset | None = None

    def __post_init__(self) -> None:
        for key, kinds in {"X": "biuf", "y": "iu"}.items():
            array = getattr(self, key)
            if not isinstance(array, np.ndarray) or array.dtype.kind not in kinds:
                noun = "real numbers" if key == "X" else "class indices"
                raise DataError(f"`{key}` is {shown(array)}; give an array of {noun}.")
        if self.X.ndim != 2 or self.y.shape != self.X.shape[:1]:
            raise DataError(
                f"{self.name}: X must be (samples, features) and y one label a sample, "
                f"not {self.X.shape} and {self.y.shape}."
            )
        most = len(self.classes) - 1 if self.classes else math.inf
        if self.y.size and not 0 <= self.y.min() <= self.y.max() <= most:
            raise DataError(
                f"{self.name}: y has classes {self.y.min()} to {self.y.max()}; number them from 0"
                f"{f' to {most}' if self.classes else ''}."
            )

    @property
    def n_samples(self) -> int:
        """Number of rows."""
        return int(self.X.shape[0])

    @property
    def n_classes(self) -> int:
        """Number of classes, K."""
        return int(self.y.max()) + 1 if self.y.size else 0

    @property
    def labels(self) -> NDArray[np.str_]:
        """The original label of each sample, of shape (n,)."""
        names = self.classes or tuple(str(index) for index in range(self.n_classes))
        return np.array(names)[self.y]

    def frame(self) -> pd.DataFrame:
        """Return the samples as a DataFrame: features x0, x1, ... and the column ``label``."""
        import pandas as pd

        names = [f"x{index}" for index in range(self.X.shape[1])]
        return pd.DataFrame(self.X, columns=names).assign(label=self.labels)

    def _facts(self) -> dict[str, object]:
        counts = np.bincount(self.y)
        names = self.classes or tuple(map(str, range(len(counts))))
        facts: dict[str, object] = {
            "name": self.name,
            "samples": self.n_samples,
            "features": self.X.shape[1],
            "classes": [f"{name} ({n})" for name, n in zip(names, counts, strict=False)],
        }
        return facts | ({"test samples": self.test.n_samples} if self.test else {})


@dataclass(frozen=True)
class Scaling:
    """A preprocessing map with its statistics.

    Parameters
    ----------
    name : str
        One of `SCHEMES`.
    mean : ndarray of shape (p,)
        What is subtracted.
    scale : float
        What is divided by; 1 for ``unit``, which uses each sample's own norm instead.
    """

    name: str
    mean: NDArray[np.float64]
    scale: float

    def __call__(self, X: NDArray[Any]) -> NDArray[np.float64]:
        """Apply the map to samples in rows; the result is a new float64 array."""
        Z = X.astype(np.float64)
        if self.name != "raw":
            Z -= self.mean
            Z /= _norms(Z) if self.name == "unit" else self.scale
        return Z


def fit_transform(X: NDArray[Any], name: str) -> tuple[Scaling, NDArray[np.float64]]:
    r"""Fix a preprocessing map from training samples, and apply it to them in one go.

    Parameters
    ----------
    X : ndarray of shape (n, p)
        Training samples, of any numeric type.
    name : str
        One of `SCHEMES`; see the table above.

    Examples
    --------
    >>> X = np.array([[0, 0], [4, 0], [0, 2], [4, 2]], np.uint8)
    >>> scaling, Z = fit_transform(X, "centred")
    >>> scaling.mean.tolist(), round(scaling.scale**2, 12)
    ([2.0, 1.0], 5.0)
    >>> Z.mean(axis=0).tolist(), float(np.mean(np.sum(Z**2, axis=1)).round(12))
    ([0.0, 0.0], 1.0)
    """
    scaling = Scaling(one_of(name, "preprocess", SCHEMES), X.mean(axis=0, dtype=np.float64), 1.0)
    Z = scaling(X)
    if name == "centred":
        scale = float(np.sqrt(np.vdot(Z, Z) / len(Z)))
        if scale == 0.0:
            raise DataError("`preprocess` 'centred' cannot scale samples that are all the same.")
        scaling = replace(scaling, scale=scale)
        Z /= scale
    return scaling, Z


def _norms(Z: NDArray[np.float64]) -> NDArray[np.float64]:
    """Norms of the rows as a column; none may be zero."""
    norms: NDArray[np.float64] = np.linalg.norm(Z, axis=1, keepdims=True)
    if not norms.all():
        raise DataError(
            f"`preprocess` 'unit' cannot scale sample {int(np.argmin(norms))}, which equals the "
            "mean of the training samples; take 'centred'."
        )
    return norms


def pick_classes(names: Sequence[str], classes: Sequence[int | str] | None) -> list[int]:
    """Turn classes into indices of ``names``, in the order of ``classes``; None means all.

    An entry that is one of ``names`` means that class, any other entry is an index.

    Examples
    --------
    >>> pick_classes(["airplane", "automobile", "bird"], ["bird", 0])
    [2, 0]
    """
    if classes is None:
        return list(range(len(names)))
    if not isinstance(classes, Sequence):
        raise InputError(f"`classes` is {shown(classes)}; give a list of labels.")
    picked = []
    for item in classes:
        label = item if isinstance(item, str) else one_line(item)
        if label in names:
            picked.append(list(names).index(label))
        elif label.isdecimal() and len(label) < 9 and int(label) < len(names):
            picked.append(int(label))
        else:
            raise InputError(
                f"There is no class {shown(label)}; `classes` may be {', '.join(names)}."
            )
    if not picked or len(set(picked)) < len(picked):
        raise InputError("`classes` must be at least one and all different.")
    return picked


def order(
    y: NDArray[np.int64], classes: Sequence[int], select: str, rng: np.random.Generator | None
) -> list[NDArray[np.intp]]:
    """Put the samples of each class in the order in which they are to be taken.

    ``first`` is file order; ``random`` a permutation of the whole class, so that, from one state
    of the generator, a smaller selection is contained in a larger one.

    Examples
    --------
    >>> [rows.tolist() for rows in order(np.array([1, 0, 1, 1]), [1, 0], "first", None)]
    [[0, 2, 3], [1]]
    """
    one_of(select, "select", SELECTIONS)
    rows = [np.flatnonzero(y == label) for label in classes]
    if select == "first" or rng is None:
        return rows
    return [rng.permutation(row) for row in rows]


def balanced(n: int, available: Sequence[int], names: Sequence[str], parameter: str) -> list[int]:
    """Share ``n`` samples out over the classes; what is left over goes to the first ones.

    Where ``n`` is all there are, each class gives all of its own.

    Raises
    ------
    DataError
        If a class has too few samples, or would get none.

    Examples
    --------
    >>> balanced(5, [10, 10, 10], ["a", "b", "c"], "n")
    [2, 2, 1]
    >>> balanced(5, [1, 4], ["a", "b"], "n")
    [1, 4]
    """
    if n == sum(available):
        return list(available)
    base, extra = divmod(n, len(available))
    counts = [base + (index < extra) for index in range(len(available))]
    if n < len(available):
        raise DataError(
            f"`{parameter}` is {n}, which leaves some of the {len(available)} classes without a "
            "sample; raise it."
        )
    if any(count > size for count, size in zip(counts, available, strict=True)):
        table = ", ".join(
            f"{count} of class {name} ({size} there)"
            for name, count, size in zip(names, counts, available, strict=True)
        )
        raise DataError(f"`{parameter}` is {n}, more samples than there are: {table}; lower it.")
    return counts
