"""Downloading the registered files, mirror by mirror, each checked before it gets its name.

Only ``deqcli data fetch`` calls this; loading never does, so no worker ever opens a connection.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path
from urllib.parse import urlsplit

import pooch
import requests
from tqdm import tqdm

from deqcli.data.folder import VARIABLE, data_dir, describe_missing, find, verify
from deqcli.data.registry import Download, Source
from deqcli.errors import DataError, RunError

logger = logging.getLogger(__name__)

_TIMEOUT = 30.0  # seconds without a byte, not for the whole file
_CHUNK = 1 << 16  # bytes


def fetch(source: Source, root: str | os.PathLike[str] | None = None) -> list[Path]:
    """Make sure that every file of a data set is in the data folder, downloading what is not.

    Files that are there and right are used as they are; if all are, nothing is connected to. A
    damaged file is replaced once its download has been checked.

    Parameters
    ----------
    source : Source
        From :func:`deqcli.data.registry.find`.
    root : str or path, optional
        Data folder; else ``DEQCLI_DATA_DIR``, else the user's cache.

    Returns
    -------
    list of Path
        The files, in the order of the registry.

    Raises
    ------
    DataError
        If no mirror gave a file with the registered checksum, or nobody publishes it.
    RunError
        If the data folder cannot be written to.
    """
    place = data_dir(root)
    missing = [report.piece for report in verify(source, place) if not report.ok]
    missing = [piece for piece in missing if piece.split != "none"]
    downloads = list(dict.fromkeys(source.download(piece) for piece in missing))
    if not all(download.mirrors for download in downloads):
        raise DataError(
            f"{source.name} is not published: {describe_missing(source, missing, place)}."
        )
    for download in downloads:
        _fetch_one(download, place / source.folders[0] / download.filename)
    if downloads:
        for report in verify(source, place):
            if report.piece in missing and not report.ok:
                # A damaged copy in another packing is preferred to the file just fetched.
                raise DataError(report.verdict)
    paths = (find(source, piece, place) for piece in source.pieces)
    return list(dict.fromkeys(path for path in paths if path is not None))


def _fetch_one(download: Download, target: Path) -> None:
    """Try the mirrors in turn until one gives the registered file."""

    def save(url: str, output_file: str, _: object) -> None:
        _save(url, Path(output_file), download)

    pooch.get_logger().setLevel(logging.WARNING)  # its lines would repeat those below
    failures = []
    for url in download.mirrors:
        logger.info("fetching %s", url)
        try:
            # pooch downloads to a temporary file and renames it if the checksum is right.
            pooch.retrieve(
                url, f"sha256:{download.sha256}", target.name, target.parent, downloader=save
            )
            target.chmod(0o644)  # the temporary file was private, but data folders are shared
            return
        except requests.RequestException as error:
            failure = _reason(error)
        except OSError as error:
            raise RunError(
                f"Cannot write {target}: {error.strerror or error}; choose another data folder "
                f"with `data_dir` or {VARIABLE}."
            ) from error
        except ValueError:  # from pooch
            failure = "wrong checksum"
        failures.append(f"{urlsplit(url).netloc}: {failure}")
        logger.info("%s", failures[-1])
    raise DataError(
        f"{download.filename} could not be fetched ({'; '.join(failures)}): on a machine without "
        f"internet put the file with sha256 {download.sha256} at {target}, or set {VARIABLE} to "
        f"a folder that has it as {target.parent.name}/{target.name}."
    )


def _save(url: str, path: Path, download: Download) -> None:
    """Write what ``url`` sends to ``path``, but never more than the registered size."""
    headers = {"Accept-Encoding": "identity"}  # a .gz must arrive as it is
    name, size = download.filename, download.size
    with (
        requests.get(url, stream=True, timeout=_TIMEOUT, headers=headers) as response,
        path.open("wb") as file,
        tqdm(total=size, desc=name, unit="B", unit_scale=True, disable=None) as bar,
    ):
        response.raise_for_status()
        for chunk in response.iter_content(_CHUNK):
            if file.tell() + len(chunk) > size:
                raise requests.RequestException(f"it sends more than {size} bytes")
            bar.update(file.write(chunk))


def _reason(error: Exception) -> str:
    """Say in a few words why a mirror failed."""
    match error:
        case requests.HTTPError(response=requests.Response() as response):
            return f"{response.status_code} {response.reason}"
        case requests.Timeout():
            return f"no answer within {_TIMEOUT:.0f} s"
        case requests.ConnectionError():
            return "no connection"
        case requests.exceptions.ChunkedEncodingError():
            return "the connection ended early"
    return str(error) or type(error).__name__
