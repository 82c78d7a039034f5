"""The data sets known by name: what they hold, their checksums, and where the public copies are.

The table itself is ``sources.toml`` beside this file. Nothing here reads data or opens a
connection, and nothing heavy is imported, so the command line can offer the names at once.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from deqcli.errors import DataError

Split = Literal["train", "test"]
Role = Literal["images", "labels", "batch", "features", "weights"]


@dataclass(frozen=True)
class Piece:
    """One file's worth of data, known by the checksum of its *unpacked* content.

    Knowing the content makes every packing acceptable: plain, ``.gz`` (whoever compressed it),
    ``.xz``, or a member of the official archive.

    Parameters
    ----------
    name : str
        File name when unpacked.
    role : str
        What the reader takes it for.
    split : str
        The half it belongs to: train, test, both, or none (not needed for loading).
    count : int
        Number of samples.
    size : int
        Bytes when unpacked.
    sha256 : str
        Checksum of the unpacked content.
    """

    name: str
    role: Role
    split: Literal["train", "test", "both", "none"]
    count: int
    size: int
    sha256: str


@dataclass(frozen=True)
class Download:
    """A file as it is published, and the mirrors that serve it byte for byte.

    Parameters
    ----------
    filename : str
        Its name in the data folder.
    size : int
        Bytes.
    sha256 : str
        Checksum a download must have before it gets that name.
    pieces : tuple of Piece
        What it holds.
    mirrors : tuple of str
        Addresses, tried in turn; none for derived files that nobody publishes.
    repacked : mapping
        Checksums of other packings in circulation, and who makes them.
    """

    filename: str
    size: int
    sha256: str
    pieces: tuple[Piece, ...]
    mirrors: tuple[str, ...] = ()
    repacked: Mapping[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class Source:
    """A data set: its name, its folder below the data folder, its downloads and their pieces.

    ``folders`` lists the accepted places; the first is where a download goes, the others are
    the layouts of torchvision and of the unpacked archive.
    """

    name: str
    title: str
    licence: str
    folders: tuple[str, ...]
    features: int
    classes: tuple[str, ...]
    downloads: tuple[Download, ...]

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """All pieces, in the order of the samples."""
        return tuple(piece for download in self.downloads for piece in download.pieces)

    def needed(self, split: Split) -> tuple[Piece, ...]:
        """Pieces without which ``split`` cannot be loaded."""
        return tuple(piece for piece in self.pieces if piece.split in (split, "both"))

    def count(self, split: Split) -> int:
        """Samples in ``split``."""
        return sum(piece.count for piece in self.needed(split) if piece.role != "labels")

    def download(self, piece: Piece) -> Download:
        """Return the published file that holds ``piece``."""
        return next(download for download in self.downloads if piece in download.pieces)


def names() -> tuple[str, ...]:
    """Names of the data sets that can be loaded without naming a file.

    Examples
    --------
    >>> names()
    ('mnist', 'fashion-mnist', 'cifar10', 'cifar10-vgg19')
    """
    return tuple(SOURCES)


def find(name: str) -> tuple[Source, Split]:
    """Look up ``NAME``, or ``NAME:test`` to take the test half as the samples.

    Raises
    ------
    DataError
        If there is no such data set.

    Examples
    --------
    >>> source, split = find("cifar10:test")
    >>> source.name, split, source.count(split)
    ('cifar10', 'test', 10000)
    """
    stem, _, half = name.partition(":")
    if stem not in SOURCES or half not in ("", "train", "test"):
        raise DataError(
            f"There is no data set {name!r}: take one of {', '.join(SOURCES)} (NAME:test for the "
            "test half), or a file ending in .npz or .csv."
        )
    return SOURCES[stem], "test" if half == "test" else "train"


def _source(name: str, entry: dict[str, Any]) -> Source:
    mirrors = entry.pop("mirrors")
    downloads = []
    for item in entry.pop("downloads"):
        pieces = tuple(Piece(**piece) for piece in item.pop("pieces"))
        addresses = tuple(mirror + item["filename"] for mirror in mirrors)
        downloads.append(Download(**item, pieces=pieces, mirrors=addresses))
    folders, classes = tuple(entry.pop("folders")), tuple(entry.pop("classes"))
    return Source(name, **entry, folders=folders, classes=classes, downloads=tuple(downloads))


SOURCES: dict[str, Source] = {
    name: _source(name, entry)
    for name, entry in tomllib.loads(
        Path(__file__).with_name("sources.toml").read_text(encoding="utf-8")
    ).items()
}
