"""Bytes of a data file to arrays: unpacking, idx, CIFAR-10's binary batches, npy and npz.

Nothing is ever unpickled. Every complaint names the file and what is wrong with it.
"""

from __future__ import annotations

import io
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deqcli.errors import DataError

CIFAR_RECORD = 1 + 3 * 32 * 32
_ROLES = {1: "labels", 3: "images"}


@dataclass(frozen=True)
class Samples:
    """What a file holds, before selection and preprocessing.

    Parameters
    ----------
    X : ndarray of shape (n, p)
        Values as stored (``uint8`` pixels, ``float16`` features), so that memory stays small.
    y : ndarray of shape (n,)
        Index into ``classes``.
    classes : tuple of str
        All classes of the source.
    """

    X: NDArray[Any]
    y: NDArray[np.int64]
    classes: tuple[str, ...]


def unpack(data: bytes, path: Path, limit: int) -> bytes:
    """Undo ``.gz`` or ``.xz``, going by the name; at most ``limit + 1`` bytes are made.

    One byte too many is enough to tell trailing bytes, and a decompression bomb stops there.

    Raises
    ------
    DataError
        If the packing is damaged, ends early, or is followed by other bytes.

    Examples
    --------
    >>> import gzip
    >>> unpack(gzip.compress(b"abc"), Path("abc.gz"), limit=3)
    b'abc'
    """
    decompressor: Any
    if path.suffix == ".gz":
        decompressor = zlib.decompressobj(wbits=31)  # 31: gzip header and CRC, checked by zlib
    elif path.suffix == ".xz":
        decompressor = lzma.LZMADecompressor(format=lzma.FORMAT_XZ)
    else:
        return data
    try:
        content: bytes = decompressor.decompress(data, limit + 1)
    except (zlib.error, lzma.LZMAError) as error:
        raise DataError(f"{path} is damaged: its {path.suffix} packing says {error}.") from None
    if len(content) <= limit:
        if not decompressor.eof:
            raise DataError(
                f"{path} is truncated: its {path.suffix} packing ends early, after "
                f"{len(content)} unpacked bytes."
            )
        if decompressor.unused_data:
            raise DataError(f"{path} has trailing bytes after its {path.suffix} packing.")
    return content


def unpack_tar(path: Path, members: Collection[str], limit: int) -> dict[str, bytes]:
    """Read members of a ``.tar.gz`` by their base names, in one pass, without extracting.

    Raises
    ------
    DataError
        If the archive is damaged or lacks a member.
    """
    found: dict[str, bytes] = {}
    try:
        with tarfile.open(path, "r:gz") as archive:
            for member in archive:
                name = Path(member.name).name
                stream = archive.extractfile(member) if name in members else None
                if stream is not None:
                    with stream:
                        found[name] = stream.read(limit + 1)
                if len(found) == len(members):
                    break
    except (tarfile.TarError, zlib.error, EOFError, OSError) as error:
        raise DataError(f"{path} is damaged: {error}.") from None
    missing = sorted(set(members) - set(found))
    if missing:
        raise DataError(f"{path} does not hold {', '.join(missing)}.")
    return found


def read_idx(content: bytes, path: Path, ndim: int, count: int | None = None) -> NDArray[np.uint8]:
    r"""Parse idx: ``0 0 8 ndim``, then ``ndim`` big-endian sizes, then unsigned bytes.

    Parameters
    ----------
    content : bytes
        The unpacked file.
    path : Path
        For the messages.
    ndim : int
        3 for images, 1 for labels.
    count : int, optional
        Number of samples there must be.

    Returns
    -------
    ndarray of shape (n,) or (n, rows, columns)
        A view of ``content``.

    Examples
    --------
    >>> read_idx(bytes([0, 0, 8, 1, 0, 0, 0, 3, 7, 2, 1]), Path("labels"), ndim=1)
    array([7, 2, 1], dtype=uint8)
    """
    magic = 0x800 + ndim
    if len(content) >= 4 and int.from_bytes(content[:4], "big") != magic:
        raise DataError(
            f"{path} is not an idx file of {_ROLES[ndim]}: its magic number is "
            f"{int.from_bytes(content[:4], 'big')}, not {magic}."
        )
    start = 4 + 4 * ndim
    if len(content) < start:
        raise DataError(f"{path} is truncated: it ends within its idx header.")
    shape = tuple(int(size) for size in np.frombuffer(content, ">u4", ndim, offset=4))
    if count is not None and shape[0] != count:
        raise DataError(f"{path} promises {shape[0]} samples where there must be {count}.")
    size = int(np.prod(shape, dtype=object))
    _check_length(len(content) - start, size, path, f"promises {'x'.join(map(str, shape))}")
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


def read_cifar(
    content: bytes, path: Path, count: int | None = None
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Parse a CIFAR-10 binary batch: records of a label byte and 3072 pixels (R, G, B planes).

    Returns
    -------
    pixels : ndarray of shape (n, 3072)
        A view of ``content``.
    labels : ndarray of shape (n,)

    Examples
    --------
    >>> pixels, labels = read_cifar(bytes([7] + [0] * 3072), Path("batch.bin"))
    >>> pixels.shape, labels
    ((1, 3072), array([7], dtype=uint8))
    """
    records, rest = divmod(len(content), CIFAR_RECORD)
    if count is not None:
        _check_length(len(content), count * CIFAR_RECORD, path, f"must hold {count} records")
    elif rest or not records:
        raise DataError(
            f"{path} is truncated: {len(content)} bytes are not whole records of {CIFAR_RECORD}."
        )
    table = np.frombuffer(content, np.uint8).reshape(-1, CIFAR_RECORD)
    return table[:, 1:], table[:, 0]


def read_npy(content: bytes, path: Path) -> NDArray[Any]:
    """Parse a ``.npy`` file of numbers, as a view of ``content``.

    Examples
    --------
    >>> stream = io.BytesIO()
    >>> np.save(stream, np.eye(2, dtype=np.float16))
    >>> read_npy(stream.getvalue(), Path("eye.npy")).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    stream = io.BytesIO(content)
    try:
        version = np.lib.format.read_magic(stream)
        header = (
            np.lib.format.read_array_header_1_0
            if version == (1, 0)
            else np.lib.format.read_array_header_2_0
        )
        shape, fortran, dtype = header(stream)
    except (ValueError, EOFError) as error:
        raise DataError(f"{path} is not a .npy file: {error}.") from None
    if dtype.kind not in "biuf":
        raise DataError(f"{path} holds {dtype}, not real numbers; it is never unpickled.")
    start, size = stream.tell(), int(np.prod(shape, dtype=object)) * dtype.itemsize
    _check_length(len(content) - start, size, path, f"promises {'x'.join(map(str, shape))}")
    values: NDArray[Any] = np.frombuffer(content, dtype, offset=start)
    return values.reshape(shape, order="F" if fortran else "C")


def read_npz(content: bytes, path: Path, keys: Collection[str]) -> dict[str, NDArray[Any]]:
    """Read the named arrays of a ``.npz`` file.

    Raises
    ------
    DataError
        If the file is damaged, an array is absent, or an array holds Python objects.
    """
    if not content.startswith(b"PK"):  # else numpy would take it for a .npy or a pickle
        raise DataError(f"{path} is not a readable .npz file: it is no zip archive.")
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as archive:
            names = archive.files
            arrays = {key: archive[key] for key in keys if key in names}
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError) as error:
        raise DataError(f"{path} is not a readable .npz file: {error}.") from None
    except ValueError as error:
        raise DataError(
            f"{path} cannot be used ({error}): arrays must hold numbers or text, since Python "
            "objects are never unpickled."
        ) from None
    missing = [key for key in keys if key not in arrays]
    if missing:
        raise DataError(
            f"{path} has no array {', '.join(missing)}; it has {', '.join(names) or 'none'}."
        )
    return arrays


def check_labels(labels: NDArray[Any], classes: int, path: Path) -> NDArray[np.int64]:
    """Return the labels as integers 0 ... ``classes`` - 1, or say where they are not.

    Examples
    --------
    >>> check_labels(np.array([0, 9], np.uint8), 10, Path("labels"))
    array([0, 9])
    """
    if labels.size and (int(labels.max()) >= classes or int(labels.min()) < 0):
        where = int(np.flatnonzero((labels >= classes) | (labels < 0))[0])
        raise DataError(
            f"{path} has the label {labels[where]} at sample {where}; "
            f"labels go from 0 to {classes - 1}."
        )
    return labels.astype(np.int64)


def _check_length(have: int, want: int, path: Path, promise: str) -> None:
    if have < want:
        raise DataError(f"{path} is truncated: it {promise} ({want} bytes) but has {have} bytes.")
    if have > want:
        raise DataError(f"{path} has trailing bytes: it {promise} ({want} bytes) but goes on.")
