"""Downloading the registered files: resumed, checked before they get their name, mirror by mirror.

Only ``deqcli data fetch`` calls this; loading never does, so no worker ever opens a connection.
"""

from __future__ import annotations

import errno
import logging
import os
from pathlib import Path
from urllib.parse import urlsplit

from deqcli.data.folder import VARIABLE, data_dir, find, verify, wanted
from deqcli.data.registry import Download, Source
from deqcli.errors import DataError
from deqcli.runs.files import explained, sha256
from deqcli.runs.lock import hold

logger = logging.getLogger(__name__)

_CUT_SHORT = "the connection ended early"
_TIMEOUT = 30.0  # seconds without a byte, not for the whole file
_CHUNK = 1 << 16  # bytes; an interruption loses at most one chunk


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
    """
    place = data_dir(root)
    lacking = [item.piece for item in verify(source, place) if not item.ok]
    lacking = [piece for piece in lacking if piece.split != "none"]
    downloads = list(dict.fromkeys(source.download(piece) for piece in lacking))
    if not all(download.mirrors for download in downloads):
        raise DataError(f"{source.name} is not published: {wanted(source, lacking, place)}.")
    for download in downloads:
        _fetch_one(download, place / source.folders[0] / download.filename)
    if downloads:
        for item in verify(source, place):
            if item.piece in lacking and not item.ok:
                raise DataError(item.verdict)  # a damaged copy in another packing comes first
    paths = (find(source, piece, place) for piece in source.pieces)
    return list(dict.fromkeys(path for path in paths if path is not None))


def _fetch_one(download: Download, target: Path) -> None:
    """Try the mirrors in turn; what one of them began the next one continues."""
    _prepare(target.parent)
    # Not runs.files.atomic_path: this temporary must outlive the process, to be resumed.
    part = target.with_name(f"{target.name}.part")
    failures = []
    with hold(target.with_name(f"{target.name}.lock")), explained(part):
        for url in download.mirrors:
            logger.info("fetching %s", url)
            failure = _fetch_from(url, download, part)
            if failure is None:
                part.replace(target)
                return
            failures.append(f"{urlsplit(url).netloc}: {failure}")
            logger.info("%s", failures[-1])
    raise DataError(
        f"{download.filename} could not be fetched ({'; '.join(failures)}): on a machine without "
        f"internet put the file with sha256 {download.sha256} at {target}, or set {VARIABLE} to "
        f"a folder that has it as {target.parent.name}/{target.name}."
    )


def _prepare(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise DataError(
            f"{folder} cannot take files ({error.strerror}): choose another data folder with "
            f"--data-dir or {VARIABLE}."
        ) from None


def _fetch_from(url: str, download: Download, part: Path) -> str | None:
    """Complete ``part`` from one mirror; return why it failed, or None when it is right."""
    while True:
        began = part.stat().st_size if part.exists() else 0
        if began > download.size:
            part.unlink()
            continue
        failure = _transfer(url, download, part, began) if began < download.size else None
        if failure is not None:
            return failure
        if part.stat().st_size < download.size:
            return _CUT_SHORT
        digest = sha256(part)
        if digest == download.sha256:
            return None
        part.unlink()
        if not began:
            return f"wrong checksum, sha256 {digest}"
        # The beginning came from elsewhere or another time; this mirror gets one whole try.


def _transfer(url: str, download: Download, part: Path, began: int) -> str | None:
    """Append to ``part`` from byte ``began`` on; the return value is a reason for failure."""
    import pooch
    import requests
    from tqdm import tqdm

    answers: list[requests.Response] = []
    headers = {"Accept-Encoding": "identity"}  # nobody is to unpack a .gz on the way
    if began:
        headers["Range"] = f"bytes={began}-"
    with part.open("ab") as stream:

        def begin(answer: requests.Response, *args: object, **kwargs: object) -> None:
            answers.append(answer)
            if answer.status_code == requests.codes.ok:  # the whole file, whatever was asked
                length = answer.headers.get("Content-Length", str(download.size))
                if length != str(download.size):
                    raise requests.RequestException(f"it offers another file, of {length} bytes")
                stream.truncate(0)

        progress = tqdm.wrapattr(
            stream, "write", download.size, desc=download.filename, initial=began, disable=None
        )
        try:
            with progress as counted:
                pooch.HTTPDownloader(
                    chunk_size=_CHUNK, timeout=_TIMEOUT, headers=headers, hooks={"response": begin}
                )(url, counted, None)
        except requests.Timeout:
            return f"no answer within {_TIMEOUT:.0f} s"
        except requests.HTTPError:
            return f"{answers[-1].status_code} {answers[-1].reason}"
        except requests.ConnectionError:
            return "no connection"
        except requests.exceptions.ChunkedEncodingError:
            return _CUT_SHORT
        except requests.RequestException as error:
            return str(error) or type(error).__name__
        finally:
            for answer in answers:
                answer.close()
        os.fsync(stream.fileno())
    return None
