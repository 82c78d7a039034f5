"""Files that are either whole or absent: temporary name in the same folder, fsync, replace.

Whatever goes wrong (disk full, read-only folder, an error or a signal in the middle), the old
file stays as it was. Only SIGKILL can leave a temporary behind; `remove_temporaries` finds it.
"""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import re
import secrets
import stat
import struct
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd

from deqcli.checks import content, one_line
from deqcli.errors import InputError, RunConflictError, RunError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_NO_SPACE = "no space is left on the disk; free some and run the same command again to continue"
_READ_ONLY = "the folder cannot be written to; choose another `out`"
_IN_THE_WAY = "a file is where a folder is needed, or the reverse; choose another `out` or `name`"
_REMEDIES = {
    errno.ENOSPC: _NO_SPACE,
    errno.EDQUOT: _NO_SPACE,
    errno.EROFS: _READ_ONLY,
    errno.EACCES: _READ_ONLY,
    errno.EPERM: _READ_ONLY,
    errno.EEXIST: _IN_THE_WAY,
    errno.ENOTDIR: _IN_THE_WAY,
    errno.EISDIR: _IN_THE_WAY,
    errno.ENAMETOOLONG: "the name is too long; give a shorter `name`",
}

# Before pandas 3.1 the default reader may miss the last digit; since then it does not, and the
# option is deprecated.
_EXACT_FLOATS: dict[str, Any] = (
    {"float_precision": "round_trip"}
    if tuple(map(int, pd.__version__.split(".")[:2])) < (3, 1)
    else {}
)

# Arrays of fewer bytes are read rather than mapped.
_MAPPED = 1 << 16

# No dates and versions, so that the same table gives the same bytes; None drops the entry.
_FIGURE_METADATA: dict[str, dict[str, None]] = {
    ".pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    ".svg": {"Date": None, "Creator": None},
}


def read_json(path: Path) -> Any:
    """Return what a JSON file says.

    Raises
    ------
    OSError
        If it cannot be read.
    ValueError
        If it is broken, nested too deep, far too long, or a device or a pipe.

    Examples
    --------
    >>> read_json(Path(os.devnull))
    Traceback (most recent call last):
    ...
    ValueError: it is a device or a pipe
    """
    kind = path.stat().st_mode
    if not (stat.S_ISREG(kind) or stat.S_ISDIR(kind)):
        raise ValueError("it is a device or a pipe")
    try:
        return json.loads(content(path))
    except RecursionError:
        raise ValueError("it is nested too deep") from None


@contextmanager
def explained(path: Path, action: str = "write") -> Iterator[None]:
    """Turn an ``OSError`` of the block into a `RunError` that names the path and the remedy.

    Examples
    --------
    >>> with explained(Path("a.csv"), "read"):
    ...     raise OSError(errno.EIO, "Input/output error")
    Traceback (most recent call last):
        ...
    deqcli.errors.RunError: Cannot read a.csv: Input/output error.
    """
    try:
        yield
    except OSError as error:
        reason = _REMEDIES.get(error.errno or 0) if action == "write" else None
        raise RunError(f"Cannot {action} {path}: {reason or error.strerror or error}.") from error


def cannot_be_written(error: RunError) -> bool:
    """Tell whether an error says that a folder is read-only or somebody else's."""
    cause = error.__cause__
    return isinstance(cause, OSError) and _REMEDIES.get(cause.errno or 0) == _READ_ONLY


@contextmanager
def usable(path: Path) -> Iterator[None]:
    """Turn whatever a damaged file makes the block raise into a sentence that names the file.

    Examples
    --------
    >>> with usable(Path("a.json")):  # doctest: +ELLIPSIS
    ...     {}["findings"]
    Traceback (most recent call last):
        ...
    deqcli.errors.InputError: a.json cannot be used: there is no 'findings' in it; delete it...
    """
    try:
        yield
    # Broken JSON, CSV and UTF-8 are ValueErrors; what a study misses in a table or in findings is
    # any of these.
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError) as error:
        reason = one_line(error).rstrip(".")
        if isinstance(error, KeyError):
            reason = f"there is no {reason} in it"
        raise InputError(
            f"{path} cannot be used: {reason}; delete it, or start over with `force`."
        ) from error


def make_folder(path: Path) -> None:
    """Create a folder and its parents; one that exists is fine."""
    with explained(path):
        path.mkdir(parents=True, exist_ok=True)


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Give a temporary path to write to, which takes the place of ``path`` if all went well.

    Parameters
    ----------
    path : Path
        The file wanted; its folder exists.

    Yields
    ------
    Path
        A name in the same folder with the same suffix, for writers that need a path.

    Raises
    ------
    RunError
        For any ``OSError`` of the block, of the flush to disk or of the replacement, and for a
        device or pipe in the place of the file: it would be gone.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with atomic_path(Path(folder, "a.txt")) as temporary:
    ...         _ = temporary.write_text("whole")
    ...     [file.name for file in Path(folder).iterdir()]
    ['a.txt']
    """
    temporary = path.with_name(f".{path.stem}.{secrets.token_hex(8)}.tmp{path.suffix}")
    with explained(path):
        if path.exists() and not path.is_file() and not path.is_dir():
            raise RunConflictError(f"{path} is a device or a pipe; give the name of a file.")
        try:
            yield temporary
            _flush(temporary)
            temporary.replace(path)
        finally:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
        # The new name itself reaches the disk with its folder; not every file system offers this.
        with suppress(OSError):
            _flush(path.parent)


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_temporaries(folder: Path, stem: str | None = None, suffix: str | None = None) -> None:
    """Remove what a killed process left of its writes: of one stem or all, of one suffix or all."""
    middle = ".+" if stem is None else re.escape(stem)
    end = r"(\.\w+)?" if suffix is None else re.escape(suffix)
    pattern = re.compile(rf"\.{middle}\.[0-9a-f]{{16}}\.tmp{end}")
    with explained(folder):
        for file in folder.iterdir():
            if pattern.fullmatch(file.name):
                file.unlink(missing_ok=True)


def write_bytes(path: Path, data: bytes) -> None:
    """Write bytes."""
    with atomic_path(path) as temporary:
        temporary.write_bytes(data)


def write_text(path: Path, text: str) -> None:
    r"""Write UTF-8 text, with ``\n`` line ends on every system.

    Names of files that are not UTF-8, which Python keeps as lone surrogates, are shown with "?".
    """
    write_bytes(path, text.encode(errors="replace"))


def write_json(path: Path, value: Any) -> None:
    """Write indented JSON with sorted keys; NaN and infinities, which JSON lacks, are refused."""
    text = json.dumps(value, indent=2, sort_keys=True, allow_nan=False, default=plain)
    write_text(path, text + "\n")


def plain(value: Any) -> Any:
    """Return a numpy scalar or array as Python's own types; the ``default`` of ``json.dumps``."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} {value!r} cannot be written as JSON")


def write_csv(path: Path, table: pd.DataFrame, digits: int | None = None) -> None:
    """Write a table without its index.

    Floats are written with so many significant digits; by default by their shortest text that
    reads back exactly.
    """
    form = None if digits is None else f"%.{digits}g"
    write_text(path, table.to_csv(index=False, lineterminator="\n", float_format=form))


def read_csv(path: Path) -> pd.DataFrame:
    """Read a table written by `write_csv`; only an empty cell is missing, floats are exact.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_csv(Path(folder, "a.csv"), pd.DataFrame({"act": ["none"], "error": [0.1 + 0.2]}))
    ...     read_csv(Path(folder, "a.csv")).to_dict("list")
    {'act': ['none'], 'error': [0.30000000000000004]}
    """
    with explained(path, "read"):
        table: pd.DataFrame = pd.read_csv(
            path, keep_default_na=False, na_values=[""], **_EXACT_FLOATS
        )
    return table


def write_npz(path: Path, arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
    """Write named arrays as an uncompressed ``.npz``; arrays of objects are refused."""
    with atomic_path(path) as temporary, temporary.open("wb") as handle:
        _savez(handle, arrays)


def npz_bytes(arrays: Mapping[str, np.ndarray[Any, Any]]) -> bytes:
    """Return the bytes that `write_npz` writes."""
    buffer = io.BytesIO()
    _savez(buffer, arrays)
    return buffer.getvalue()


def map_npz(path: Path) -> dict[str, np.ndarray[Any, Any]]:
    """Return the arrays of an uncompressed ``.npz``, large ones as read-only maps of the file.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "a.npz")
    ...     write_npz(path, {"large": np.arange(10_000), "small": np.arange(2)})
    ...     {name: (type(array).__name__, len(array)) for name, array in map_npz(path).items()}
    {'large': ('memmap', 10000), 'small': ('ndarray', 2)}
    """
    arrays = {}
    with explained(path, "read"), path.open("rb") as handle, zipfile.ZipFile(handle) as archive:
        for entry in archive.infolist():
            name = entry.filename.removesuffix(".npy")
            # After the fixed part of an entry's header come its name and what else it has.
            handle.seek(entry.header_offset + 26)
            handle.seek(sum(struct.unpack("<2H", handle.read(4))), os.SEEK_CUR)
            if entry.file_size < _MAPPED:
                arrays[name] = np.lib.format.read_array(handle, allow_pickle=False)
                continue
            np.lib.format.read_magic(handle)
            shape, fortran, dtype = np.lib.format.read_array_header_1_0(handle)
            order: Literal["C", "F"] = "F" if fortran else "C"
            place = handle.tell()
            arrays[name] = np.memmap(path, dtype, "r", place, shape, order)
    return arrays


def _savez(handle: IO[bytes], arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
    # savez itself would pickle objects, which no reader here accepts.
    for name, array in arrays.items():
        if np.asarray(array).dtype.hasobject:
            raise TypeError(f"the array {name!r} holds Python objects, which are never stored")
    np.savez(handle, **arrays)  # type: ignore[arg-type]


def write_figure(path: Path, figure: Figure, label: str) -> None:
    """Write a figure in the format of its suffix, the same bytes every time.

    Parameters
    ----------
    path : Path
        Ends in ``.png``, ``.pdf`` or ``.svg``.
    figure : matplotlib.figure.Figure
        What to draw.
    label : str
        Kept inside a PNG under the key ``deqcli``, so that a picture can be traced to its run.
    """
    import matplotlib

    with matplotlib.rc_context(), atomic_path(path) as temporary:
        # A matplotlibrc of the user, or of the current folder, changes no byte.
        matplotlib.rcdefaults()
        # Without a salt the identifiers inside an SVG are random.
        matplotlib.rcParams["svg.hashsalt"] = "deqcli"
        if path.suffix == ".png":
            _write_png(temporary, figure, label)
        else:
            figure.savefig(temporary, metadata=_FIGURE_METADATA[path.suffix])


def _write_png(path: Path, figure: Figure, label: str) -> None:
    """Write a picture of 128 colours: a third of the bytes, and to the eye the same."""
    from PIL import Image, PngImagePlugin

    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    with Image.open(buffer) as drawn:
        # Of all methods the one that spares rare colours: a few red marks in a blue figure.
        few = drawn.convert("RGB").quantize(
            128, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE
        )
        texts = PngImagePlugin.PngInfo()
        texts.add_text("deqcli", label)
        few.save(path, optimize=True, pnginfo=texts, dpi=drawn.info["dpi"])


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal."""
    with explained(path, "read"), path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()
