"""A person's own data, in a ``.npz`` or a ``.csv`` file.

``.npz``
    Arrays ``X``, samples first (further axes are flattened), and ``y``, one label a sample.
``.csv``
    A header line, then one sample a line: numbers, and the label in the column ``y`` or
    ``label``, or else in the last column, which is then logged.

Labels may be numbers or text; the classes are numbered in sorted order and keep their names.
"""

from __future__ import annotations

import functools
import hashlib
import logging
import math
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from deqcli.checks import shown, unmasked
from deqcli.data.dataset import Dataset
from deqcli.data.readers import UNPACKED, read_npz, read_npz_headers
from deqcli.errors import DataError, InputError, RunError
from deqcli.runs import memory
from deqcli.runs.files import cannot_be_written, make_folder, remove_temporaries, write_npz
from deqcli.runs.lock import hold

if TYPE_CHECKING:
    import pandas as pd

logger = logging.getLogger(__name__)

SUFFIXES = (".npz", ".csv")
_LARGEST_LABEL = 2**53  # float64 tells all smaller whole numbers apart
_NOT_UTF8 = "{} has labels that are not UTF-8; give them as such."
_LARGEST_VALUE = 1e150  # larger ones have squares that cannot be summed


def read(path: Path) -> tuple[Dataset, str]:
    r"""Read one's own file.

    Parameters
    ----------
    path : Path
        Ends in ``.npz`` or ``.csv``.

    Returns
    -------
    samples : Dataset
        Values as stored, labels numbered, class names; the details of a ``.csv`` name its
        ``label_column``.
    sha256 : str
        Of the file.

    Raises
    ------
    DataError
        If the file cannot be used; the sentence says why.
    InputError
        If it does not fit in memory.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "toy.csv")
    ...     _ = path.write_text("a,b,y\n1,2,dog\n3,4,cat\n")
    ...     samples, _ = read(path)
    >>> samples.X.tolist(), samples.y.tolist(), samples.classes
    ([[1, 2], [3, 4]], [1, 0], ('cat', 'dog'))
    """
    with _told(path):
        sha256 = _digest(path)
        return _parse(path, sha256), sha256


@dataclass(frozen=True)
class Outline:
    """What is known of one's own file before a study reads its samples.

    Attributes
    ----------
    shape : tuple of int
        Samples and features.
    y, classes : ndarray of shape (n,), tuple of str
        Numbered labels and their names.
    reading : int
        Bytes that reading the samples takes at most.
    """

    shape: tuple[int, int]
    y: NDArray[np.int64]
    classes: tuple[str, ...]
    reading: int


def outline(path: Path) -> Outline:
    """Return what a file says of its samples, which in a ``.npz`` are not read for it.

    Raises
    ------
    DataError, InputError
        As :func:`read`, but for values that cannot be used.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "toy.npz")
    ...     np.savez_compressed(path, X=np.zeros((1000, 28, 28)), y=np.arange(1000) % 2)
    ...     toy = outline(path)
    >>> toy.shape, toy.classes, toy.reading
    ((1000, 784), ('0', '1'), 12544000)
    """
    with _told(path):
        return _outline(path, _digest(path))


@contextmanager
def _told(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.") from None


def _digest(path: Path) -> str:
    if path.exists() and not path.is_file():
        raise DataError(f"{path} is not a file.")
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# Settings ask a file for its size and classes before a study loads it: parsed once all the same.
@functools.lru_cache(maxsize=1)
def _parse(path: Path, sha256: str) -> Dataset:
    details = {}
    with path.open("rb") as file:
        if path.suffix.lower() == ".npz":
            arrays = read_npz(file, path, ("X", "y"))
            X, y = arrays["X"], arrays["y"]
        else:
            X, y, details["label_column"] = _read_csv(file, path)
    return _dataset(X, y, path, details)


def _dataset(
    X: NDArray[Any], y: NDArray[Any], path: Path | str, details: Mapping[str, object]
) -> Dataset:
    shape = _check_shape(X.shape, X.dtype, path)
    labels, classes = _check_labels(y, shape[0], path)
    return Dataset(_check_values(X.reshape(shape), path), labels, str(path), classes, details)


@functools.lru_cache(maxsize=1)
def _outline(path: Path, sha256: str) -> Outline:
    if path.suffix.lower() != ".npz":
        samples = _parse(path, sha256)
        return Outline(samples.X.shape, samples.y, samples.classes, _csv_bytes(path))
    with path.open("rb") as file:
        stored, dtype = read_npz_headers(file, path, ("X", "y"))["X"]
        shape = _check_shape(stored, dtype, path)
        y = read_npz(file, path, ("y",))["y"]
    labels, classes = _check_labels(y, shape[0], path)
    return Outline(shape, labels, classes, UNPACKED * math.prod(shape) * dtype.itemsize)


def _check_shape(shape: tuple[int, ...], dtype: np.dtype[Any], path: Path | str) -> tuple[int, int]:
    """Return the shape of samples whose further axes are flattened."""
    if dtype.kind not in "biuf":
        raise DataError(f"{path} has X of type {dtype}; it must hold real numbers.")
    if len(shape) < 2 or 0 in shape:
        raise DataError(f"{path} has X of shape {shape}; it must be (samples, features).")
    if shape[0] < 2:
        raise DataError(f"{path} has fewer than two samples.")
    return shape[0], math.prod(shape[1:])


def _check_labels(
    y: NDArray[Any], n: int, path: Path | str
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    y = y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y
    if y.shape != (n,):
        raise DataError(
            f"{path} has {n} samples but labels of shape {y.shape}; y must be one label a sample."
        )
    return number_labels(y, path)


def save(samples: Any, folder: Path) -> Path:
    """Write samples that a person has in Python to a file of the folder, named by its content.

    Parameters
    ----------
    samples : DataFrame, pair (X, y) or Dataset
        The labels of a DataFrame are in the column that :func:`read` takes of a ``.csv``.
    folder : Path

    Raises
    ------
    InputError
        If they are nothing of this kind.
    DataError
        If they cannot be used; the sentence says why.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = save((np.eye(2), ["dog", "cat"]), Path(folder))
    ...     path.name, read(path)[0].classes
    ('samples-d7186476.npz', ('cat', 'dog'))
    """
    import pandas as pd

    if isinstance(samples, Dataset):
        samples = samples.X, samples.labels
    if isinstance(samples, pd.DataFrame):
        X, y, _ = _split(samples, "`data`", "at sample", 0)
    else:
        try:
            X, y = (unmasked(part, "data") for part in samples)
        except DataError:
            raise
        except Exception:  # of whatever library they are
            raise InputError(
                f"`data` is {shown(samples)}; give a name, a file, a DataFrame with the labels in "
                "its column y, a pair (X, y) of arrays, or what deqcli.load returns."
            ) from None
        y = _labels(pd.Series(y), "`data`", "at sample", 0) if y.ndim == 1 else y
    X, y = (np.ascontiguousarray(part) for part in (_dataset(X, y, "`data`", {}).X, y))
    content = hashlib.sha256(f"{X.dtype} {X.shape} {y.dtype}".encode())
    for array in (X, y):
        content.update(array.data)
    path = folder / f"samples-{content.hexdigest()[:8]}.npz"
    lock = path.with_suffix(".lock")
    if not path.exists() or lock.exists():  # with a lock, another process writes it, or was killed
        try:
            make_folder(folder)
            with hold(lock, seconds=60):
                remove_temporaries(folder, path.stem)
                if not path.exists():
                    write_npz(path, {"X": X, "y": y})
        except RunError as error:
            # What is whole is only read; the lock of a killed process stays where it must.
            if not (path.exists() and cannot_be_written(error)):
                raise
    return path


def number_labels(y: NDArray[Any], path: Path | str) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Number the labels 0 ... K-1 in sorted order and name the classes.

    Examples
    --------
    >>> number_labels(np.array([8.0, 6.0, 8.0]), Path("toy.npz"))
    (array([1, 0, 1]), ('6', '8'))
    """
    if y.dtype.kind == "f":
        wrong = ~((y == np.round(y)) & (np.abs(y) < _LARGEST_LABEL))  # NaN is wrong, too
        if wrong.any():
            sample = int(np.argmax(wrong))
            raise DataError(
                f"{path} has the label {y[sample]} at sample {sample}; labels name classes, so "
                "numbers must be whole and below 2^53."
            )
        y = y.astype(np.int64)
    elif y.dtype.kind not in "biuUS":
        raise DataError(f"{path} has labels of type {y.dtype}; they must be numbers or text.")
    values, labels = np.unique(y, return_inverse=True)
    try:
        # Not replaced by a sign for all that is no text: different labels would become one.
        names = tuple(v.decode() if isinstance(v, bytes) else str(v) for v in values)
        "".join(names).encode()
    except UnicodeError:
        raise DataError(_NOT_UTF8.format(path)) from None
    return labels.reshape(-1).astype(np.int64), names


def _check_values(X: NDArray[Any], path: Path | str) -> NDArray[Any]:
    # A limit of float64, since half precision has no number as large.
    limit = np.float64(_LARGEST_VALUE)
    if X.dtype.kind == "f" and not (np.abs(X) < limit).all():
        row, column = (int(index) for index in np.argwhere(~(np.abs(X) < limit))[0])
        raise DataError(
            f"{path} cannot be used: sample {row}, feature {column} is {X[row, column]}; numbers "
            f"must be finite and below {_LARGEST_VALUE:g} in size."
        )
    return X


def _read_csv(file: IO[bytes], path: Path) -> tuple[NDArray[Any], NDArray[Any], str]:
    import pandas as pd

    memory.check(_csv_bytes(path), f"Reading {path}", "give a smaller file")
    try:
        # low_memory=False: types are decided by whole columns, not chunk by chunk
        # index_col=False: the first column is never an index, whatever a line has too much
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            table = pd.read_csv(file, skipinitialspace=True, low_memory=False, index_col=False)
    except pd.errors.ParserWarning:
        raise DataError(f"{path} has more values in a line than names in its header.") from None
    except (pd.errors.EmptyDataError, pd.errors.ParserError, UnicodeDecodeError) as error:
        raise DataError(f"{path} is not a readable .csv file: {str(error).strip()}.") from None
    names = [str(name) for name in table.columns]
    if not np.isnan(pd.to_numeric(names, errors="coerce")).any():
        raise DataError(f"{path} has no header; its first line must name the columns.")
    # Lines are counted from 1, and the header is the first.
    return _split(table, path, "in line", 2)


def _split(
    table: pd.DataFrame, path: Path | str, place: str, first: int
) -> tuple[NDArray[Any], NDArray[Any], str]:
    """Return features, labels and the column of these; rows are counted from ``first``."""
    names = [str(name) for name in table.columns]
    table = table.set_axis(names, axis=1)
    if table.empty:
        raise DataError(f"{path} has no samples.")
    label = _label_column(names, path)
    features = table.drop(columns=label)
    for name, dtype in features.dtypes.items():
        if dtype.kind not in "biuf":
            raise DataError(
                f"{path} has text in the column {name!r}; all columns but the label "
                f"({label!r}) must be numbers."
            )
    X = features.to_numpy()
    if X.dtype.kind == "O":  # whole numbers with gaps, or of unlike types
        X = features.to_numpy(dtype=float, na_value=np.nan)
    return X, _labels(table[label], path, place, first), label


def _csv_bytes(path: Path) -> int:
    """Return the bytes that a table takes while it is read: its text, and its cells twice."""
    cells = 0
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            cells += chunk.count(b",") + chunk.count(b"\n")
    return path.stat().st_size + 2 * 8 * cells


def _label_column(names: list[str], path: Path | str) -> str:
    special = [name for name in names if name in ("y", "label")]
    if len(special) > 1:
        named = " and ".join(f"a column {name!r}" for name in special)
        raise DataError(f"{path} has both {named}; keep one.")
    if len(names) < 2:
        raise DataError(f"{path} has one column; it needs at least a feature and a label.")
    if special:
        return special[0]
    logger.info(
        "labels are taken from the last column %r; name a column y or label to choose", names[-1]
    )
    return names[-1]


def _labels(column: pd.Series[Any], path: Path | str, place: str, first: int) -> NDArray[Any]:
    if column.isna().any():
        row = int(np.flatnonzero(column.isna().to_numpy())[0])
        raise DataError(f"{path} has no label {place} {row + first}.")
    if column.dtype.kind in "biuf":
        return column.to_numpy()
    try:
        return column.astype(str).to_numpy(dtype=np.str_)
    except UnicodeError:
        raise DataError(_NOT_UTF8.format(path)) from None
