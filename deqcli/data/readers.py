"""Bytes of a data file to arrays: unpacking, idx, CIFAR-10's binary batches, npy and npz.

Nothing is ever unpickled. Every complaint names the file and what is wrong with it.
"""

from __future__ import annotations

import io
import lzma
import math
import tarfile
import zipfile
import zlib
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
from numpy.typing import NDArray

from deqcli.errors import DataError, InputError
from deqcli.runs import memory

CIFAR_RECORD = 1 + 3 * 32 * 32
_NPZ_PACKINGS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
#: Times that unpacked bytes are in memory at most: as pieces and as a whole, or beside a check.
UNPACKED = 2
_ROLES = {1: "labels", 3: "images"}


def unpack(data: bytes, path: Path, limit: int) -> bytes:
    """Undo ``.gz`` or ``.xz``, going by the name, up to ``limit + 1`` bytes.

    One byte more than ``limit`` shows that the content is too long, whatever follows.

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
    contents: dict[str, bytes] = {}
    try:
        with tarfile.open(path, "r:gz") as archive:
            for member in archive:
                name = Path(member.name).name
                stream = archive.extractfile(member) if name in members else None
                if stream is not None:
                    with stream:
                        contents[name] = stream.read(limit + 1)
                if len(contents) == len(members):
                    break
    except (tarfile.TarError, zlib.error, EOFError, OSError) as error:
        raise DataError(f"{path} is damaged: {error}.") from None
    missing = sorted(set(members) - set(contents))
    if missing:
        raise DataError(f"{path} does not hold {', '.join(missing)}.")
    return contents


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
    size = math.prod(shape)
    _check_length(len(content) - start, size, path, f"promises {'x'.join(map(str, shape))}")
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


def read_cifar(
    content: bytes, path: Path, count: int
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Parse a CIFAR-10 batch: ``count`` records of a label byte and 3072 pixels (R, G, B planes).

    Returns
    -------
    pixels : ndarray of shape (n, 3072)
        A view of ``content``.
    labels : ndarray of shape (n,)

    Examples
    --------
    >>> pixels, labels = read_cifar(bytes([7] + [0] * 3072), Path("batch.bin"), 1)
    >>> pixels.shape, labels
    ((1, 3072), array([7], dtype=uint8))
    """
    _check_length(len(content), count * CIFAR_RECORD, path, f"must hold {count} records")
    table = np.frombuffer(content, np.uint8).reshape(-1, CIFAR_RECORD)
    return table[:, 1:], table[:, 0]


def read_npy(content: bytes, path: Path) -> NDArray[Any]:
    """Parse a ``.npy`` file of numbers or text, as a view of ``content``.

    Examples
    --------
    >>> stream = io.BytesIO()
    >>> np.save(stream, np.eye(2, dtype=np.float16))
    >>> read_npy(stream.getvalue(), Path("eye.npy")).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    stream = io.BytesIO(content)
    shape, order, dtype = _read_npy_header(stream, path, len(content))
    values: NDArray[Any] = np.frombuffer(content, dtype, offset=stream.tell())
    return values.reshape(shape, order=order)


def _read_npy_header(
    stream: IO[bytes], path: Path, length: int
) -> tuple[tuple[int, ...], Literal["C", "F"], np.dtype[Any]]:
    """Read the header of a ``.npy`` file of ``length`` bytes, and check that it agrees."""
    try:
        # Headers of later versions, which numpy never writes for numbers, may be gigabytes long.
        if (version := np.lib.format.read_magic(stream)) != (1, 0):
            raise ValueError(f"its version is {version}; numpy.save writes (1, 0)")
        shape, fortran, dtype = np.lib.format.read_array_header_1_0(stream)
    except Exception as error:  # hostile headers make numpy raise errors of many kinds
        raise DataError(f"{path} is not a .npy file: {error}.") from None
    if dtype.kind not in "biufcUS" or not dtype.itemsize or min(shape, default=0) < 0:
        raise DataError(
            f"{path} holds {dtype} of shape {shape}, not numbers or text; it is never unpickled."
        )
    size, promise = math.prod(shape) * dtype.itemsize, "x".join(map(str, shape))
    _check_length(length - stream.tell(), size, path, f"promises {promise}")
    return shape, "F" if fortran else "C", dtype


def read_npz(
    file: IO[bytes], path: Path, keys: Collection[str] | None = None
) -> dict[str, NDArray[Any]]:
    """Read the named arrays of a ``.npz`` file, or all of them.

    No more is unpacked than the directory of the archive states, which must fit in memory.

    Raises
    ------
    InputError
        If the arrays do not fit in memory.
    DataError
        If the file is damaged, an array is absent, or an array holds Python objects.
    """
    with _opened_npz(file, path, keys) as (archive, members):
        _check_room(members.values(), path)
        arrays = {}
        for key, info in members.items():
            with archive.open(info) as stream:
                place = Path(f"{path}:{key}")
                shape, order, dtype = _read_npy_header(stream, place, info.file_size)
                values = np.frombuffer(stream.read(info.file_size), dtype)
            arrays[key] = values.reshape(shape, order=order)
        return arrays


def read_npz_headers(
    file: IO[bytes], path: Path, keys: Collection[str]
) -> dict[str, tuple[tuple[int, ...], np.dtype[Any]]]:
    """Return shape and type of the named arrays of a ``.npz`` file, of which nothing is unpacked.

    Raises
    ------
    InputError, DataError
        As :func:`read_npz`, but for values that are damaged.

    Examples
    --------
    >>> stream = io.BytesIO()
    >>> np.savez_compressed(stream, X=np.zeros((1000, 1000)))
    >>> read_npz_headers(stream, Path("zeros.npz"), ["X"])
    {'X': ((1000, 1000), dtype('float64'))}
    """
    with _opened_npz(file, path, keys) as (archive, members):
        _check_room(members.values(), path)
        headers = {}
        for key, info in members.items():
            with archive.open(info) as stream:
                place = Path(f"{path}:{key}")
                shape, _, dtype = _read_npy_header(stream, place, info.file_size)
            headers[key] = shape, dtype
        return headers


@contextmanager
def _opened_npz(
    file: IO[bytes], path: Path, keys: Collection[str] | None
) -> Iterator[tuple[zipfile.ZipFile, dict[str, zipfile.ZipInfo]]]:
    """Keep an archive open, with the named members of it; whatever is wrong with it is told."""
    try:
        with zipfile.ZipFile(file) as archive:
            members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
            keys = list(members) if keys is None else keys
            missing = [key for key in keys if key not in members]
            if missing:
                raise DataError(
                    f"{path} has no array {', '.join(missing)}; "
                    f"it has {', '.join(members) or 'none'}."
                )
            # numpy writes no other packing, and zipfile unpacks others without a limit.
            if any(members[key].compress_type not in _NPZ_PACKINGS for key in keys):
                raise DataError(f"{path} is packed in a way that numpy never writes.")
            yield archive, {key: members[key] for key in keys}
    except InputError:
        raise
    # RuntimeError: an encrypted archive
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, ValueError) as error:
        raise DataError(f"{path} is not a readable .npz file: {error}.") from None


def _check_room(members: Iterable[zipfile.ZipInfo], path: Path) -> None:
    size = UNPACKED * sum(info.file_size for info in members)
    memory.check(size, f"Reading {path}", "give a smaller file")


def check_labels(labels: NDArray[Any], classes: int, path: Path) -> NDArray[np.int64]:
    """Return the labels as integers 0 ... ``classes`` - 1, or say where they are not.

    Examples
    --------
    >>> check_labels(np.array([0, 9], np.uint8), 10, Path("labels"))
    array([0, 9])
    """
    if labels.ndim != 1 or labels.dtype.kind not in "biu":
        raise DataError(
            f"{path} has labels of type {labels.dtype} and shape {labels.shape}; "
            "they must be a list of whole numbers."
        )
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
