"""The data folder: where it is, which files it holds, and whether they are the right ones.

A file is right when its *unpacked* content has the registered sha256, however it is packed. What
``deqcli data features`` made is right when the JSON written beside it says so.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from deqcli.data.readers import unpack, unpack_tar
from deqcli.data.registry import Piece, Source, Split
from deqcli.errors import DataError
from deqcli.runs import files

VARIABLE = "DEQCLI_DATA_DIR"


@dataclass(frozen=True)
class Content:
    """An unpacked piece, the file it came from and that file's own sha256."""

    piece: Piece
    path: Path
    sha256: str
    data: bytes


@dataclass(frozen=True)
class Report:
    """Whether one piece is there and right, and if not, why."""

    piece: Piece
    path: Path | None
    ok: bool
    verdict: str


def data_dir(folder: str | os.PathLike[str] | None = None) -> Path:
    """Return the data folder: ``folder``, else ``DEQCLI_DATA_DIR``, else the user's cache.

    Examples
    --------
    >>> data_dir("here").name
    'here'
    """
    folder = folder or os.environ.get(VARIABLE)
    if not folder:
        import pooch

        folder = pooch.os_cache("deqcli")
    return Path(folder).expanduser()


def find(source: Source, piece: Piece, root: Path) -> Path | None:
    """File that holds ``piece`` below ``root``: plain, ``.gz``, ``.xz``, or the whole archive."""
    published = source.download(piece).filename
    for folder in source.folders:
        for name in (piece.name, f"{piece.name}.gz", f"{piece.name}.xz", published):
            path = root / folder / name
            if os.path.isfile(path):  # noqa: PTH113  Path.is_file raises on long names
                return path
    return None


def locate(source: Source, split: Split, root: Path) -> dict[Piece, Path]:
    """Find every piece of ``split``; nothing is ever downloaded here.

    Raises
    ------
    DataError
        If files are missing: which, their sha256, where they belong, and how to get them.
    """
    paths = {piece: find(source, piece, root) for piece in source.needed(split)}
    missing = [piece for piece, path in paths.items() if path is None]
    if missing:
        other: Split = "test" if split == "train" else "train"
        hint = ""
        if split == "train" and all(find(source, piece, root) for piece in source.needed(other)):
            hint = f"; its test half is there, and {source.name}:test uses that for the samples"
        complaint = describe_missing(source, missing, root)
        raise DataError(f"{source.name} is incomplete: {complaint}{hint}.")
    return {piece: path for piece, path in paths.items() if path is not None}


def describe_missing(source: Source, missing: Sequence[Piece], root: Path) -> str:
    """Say which files are missing, their sha256, where they belong and how to get them."""
    downloads = list(dict.fromkeys(source.download(piece) for piece in missing))
    files = [f"{item.filename} (sha256 {item.sha256})" for item in downloads]
    if len(missing) > len(downloads):
        files[0] += f", which holds {', '.join(piece.name for piece in missing)},"
    them, are = ("it", "is") if len(files) == 1 else ("them", "are")
    how = f"run `deqcli data fetch {source.name}`"
    if not all(item.mirrors for item in downloads):
        how = "make them with `deqcli data features cifar10 --weights FILE.npz`"
    place = source.folders[0]
    return (
        f"{' and '.join(files)} {are} not in {root / place}; {how}, or put {them} there, or set "
        f"{VARIABLE} or `data_dir` to the folder that has {them} in its {place}/"
    )


def read(path: Path, pieces: Iterable[Piece]) -> list[Content]:
    """Read the pieces that one file holds, unpacked but not yet checked.

    Raises
    ------
    DataError
        If the file cannot be read, is far too large or its packing is damaged.
    """
    pieces = list(pieces)
    limit = max(piece.size for piece in pieces)
    try:
        if path.name.endswith(".tar.gz"):
            with path.open("rb") as stream:
                sha256 = hashlib.file_digest(stream, "sha256").hexdigest()
            members = unpack_tar(path, {piece.name for piece in pieces}, limit)
            return [Content(piece, path, sha256, members[piece.name]) for piece in pieces]
        # Packing adds less than one byte in a hundred and a header.
        if (size := path.stat().st_size) > 1.01 * limit + 65_536:
            raise DataError(f"{path} has {size} bytes, too many for the {limit} it must hold.")
        data = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.") from None
    sha256 = hashlib.sha256(data).hexdigest()
    return [Content(piece, path, sha256, unpack(data, path, limit)) for piece in pieces]


def contents(paths: dict[Piece, Path]) -> list[Content]:
    """Read every piece, each file once, in the order of ``paths``."""
    by_piece = {
        content.piece: content
        for path in dict.fromkeys(paths.values())
        for content in read(path, [piece for piece, place in paths.items() if place == path])
    }
    return [by_piece[piece] for piece in paths]


def check(source: Source, content: Content) -> str:
    """Compare checksums and say what was recognised.

    Raises
    ------
    DataError
        If the content is neither the registered one nor one that was made here.
    """
    digest = hashlib.sha256(content.data).hexdigest()
    download = source.download(content.piece)
    if digest == content.piece.sha256:
        if content.sha256 == download.sha256:
            return "as published"
        packer = download.repacked.get(content.sha256)
        return f"content as published{f', packed by {packer}' if packer else ''}"
    if digest in _recorded_checksums(content.path.parent):
        return "made by deqcli data features"
    remedy = f"remove it and run `deqcli data fetch {source.name}`"
    raise DataError(
        f"{content.path} has the wrong checksum: the sha256 of {content.piece.name}, unpacked, is "
        f"{digest}, not {content.piece.sha256}; "
        f"{remedy if download.mirrors else 'put the right file in its place'}."
    )


def _recorded_checksums(folder: Path) -> set[str]:
    """Content checksums in the records that ``deqcli data features`` leaves."""
    checksums: set[str] = set()
    for path in sorted(folder.glob("features-*.json")):
        try:
            record = files.read_json(path)
            checksums.update(str(item["content_sha256"]) for item in record["files"].values())
        except (OSError, ValueError, LookupError, TypeError, AttributeError):
            continue  # a record that cannot be read confirms no file
    return checksums


def verify(source: Source, root: Path) -> list[Report]:
    """Check every piece of a data set, present or not; nothing is downloaded."""
    paths = {piece: find(source, piece, root) for piece in source.pieces}
    reports: dict[Piece, Report] = {}
    for path in dict.fromkeys(paths.values()):
        pieces = [piece for piece, place in paths.items() if place == path]
        if path is None:
            reports |= {piece: Report(piece, None, False, "missing") for piece in pieces}
            continue
        try:
            for content in read(path, pieces):
                reports[content.piece] = _report(source, content)
        except DataError as error:
            reports |= {piece: Report(piece, path, False, str(error)) for piece in pieces}
    return [reports[piece] for piece in source.pieces]


def _report(source: Source, content: Content) -> Report:
    try:
        return Report(content.piece, content.path, True, check(source, content))
    except DataError as error:
        return Report(content.piece, content.path, False, str(error))
