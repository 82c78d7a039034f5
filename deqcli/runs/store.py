"""The files of one run: its lock, its finished points, and the decision to continue or refuse.

Beside the results ``<stem>.csv``, ``.png`` and ``.json`` a running study has ``<stem>.lock`` and
the work folder ``<stem>.parts/`` with ``settings.json`` and one ``.npz`` per finished point. The
JSON is written last: where it stands, the run is whole and the work folder is gone.
"""

from __future__ import annotations

import hashlib
import io
import json
import logging
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import numpy as np

from deqcli.checks import utf8
from deqcli.errors import InputError, RunConflictError, RunError
from deqcli.runs import files, provenance
from deqcli.runs.lock import hold

logger = logging.getLogger(__name__)

Arrays = dict[str, np.ndarray[Any, Any]]

SUFFIXES = (".csv", ".png", ".pdf", ".svg", ".npz")
"""Of the files a run may write, beside its ``.json``."""

_REMEDY = "give another `name`, or start over with `force`"


class Store:
    """The files of one run.

    Parameters
    ----------
    out : Path
        The folder of the results; created by `open`.
    stem : str
        The name all files of the run share.
    identity : mapping
        What makes two runs the same run (:func:`deqcli.runs.provenance.identity`).

    Raises
    ------
    InputError
        If the stem cannot be a file name.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with Store(Path(folder), "toy", {"settings": {"n": 3}}).open() as store:
    ...         store.save("trial 0", {"value": np.arange(3)})
    ...         print(store.missing(["trial 0", "trial 1"]), store.load("trial 0"))
    ['trial 1'] {'value': array([0, 1, 2])}
    """

    def __init__(self, out: Path, stem: str, identity: Mapping[str, Any]) -> None:
        if not stem or stem.startswith(".") or re.search(r"[/\\\0]", stem):
            raise InputError(f"`name` is {stem!r}; give a file name without folders or suffix.")
        self.out = out
        self.stem = utf8(stem, "name")
        self.identity = dict(identity)
        self.hash = provenance.identity_hash(identity)
        self._parts = out / f"{stem}.parts"

    def path(self, suffix: str) -> Path:
        """Return the result file with a suffix such as ``".csv"``."""
        return self.out / f"{self.stem}{suffix}"

    @contextmanager
    def open(self, *, force: bool = False) -> Iterator[Self]:
        """Lock the run, check whose files stand there, and make the work folder ready.

        Parameters
        ----------
        force : bool
            Start over, whatever stands there.

        Raises
        ------
        RunConflictError
            If another process writes the run, or results of other settings have its name.
        RunError
            If the folder cannot be written to.
        """
        files.make_folder(self.out)
        with hold(self.path(".lock")):
            if self._parts.is_symlink():
                raise RunConflictError(
                    f"{self._parts} is a symbolic link, which is never followed; remove it."
                )
            files.remove_temporaries(self.out, self.stem)
            if force:
                self._remove_parts()
            elif self.finished():
                self._remove_parts()
                yield self
                return
            elif self.record() is not None:
                logger.warning(
                    "%s or its record: changed or missing, computed again.", self.path(".csv")
                )
            files.make_folder(self._parts)
            files.remove_temporaries(self._parts)
            files.write_json(self._parts / "settings.json", self.identity)
            self._retire()
            yield self

    def finished(self) -> bool:
        """Tell whether a whole and unchanged result of these settings stands there.

        Reads only, so that a dry run can ask.

        Raises
        ------
        RunConflictError
            If what stands there belongs to other settings, or to no run at all.
        """
        record = self.record()
        if record is not None:
            self._compare(self.path(".json"), record)
        # A damaged settings.json is no loss: every part names the run that it belongs to.
        elif started := _read_json(self._parts / "settings.json"):
            self._compare(self._parts, started)
        elif self.path(".csv").exists() and not self._parts.exists():
            raise RunConflictError(
                f"{self.path('.csv')} exists and no {self.stem}.json tells what made it; {_REMEDY}."
            )
        if record is None or not provenance.is_unchanged(record):
            return False
        outputs = _outputs(record)
        tables = [name for name in outputs if name.endswith(".npz")] + [f"{self.stem}.csv"]
        return all(_matches(self.out / name, outputs.get(name)) for name in tables)

    def whole(self, suffixes: Iterable[str]) -> bool:
        """Tell whether a finished run has these files too and nothing is left to tidy up."""
        left = self._parts, self.path(".lock")
        return not any(path.exists() for path in left) and all(
            self.path(each).exists() for each in suffixes
        )

    def record(self) -> dict[str, Any] | None:
        """Return the provenance of the finished run, or None if there is none."""
        record = _read_json(self.path(".json"))
        # One whose findings are no mapping was not written here.
        return record if record is None or isinstance(record.get("findings", {}), dict) else {}

    def has(self, key: str) -> bool:
        """Tell whether a point is stored, whole and of this very run."""
        return self._read(key) is not None

    def missing(self, keys: Iterable[str]) -> list[str]:
        """Return the keys of the points that are not stored, in their order."""
        return [key for key in keys if not self.has(key)]

    def load(self, key: str, *, mapped: bool = False) -> Arrays:
        """Return the arrays of a stored point, or maps of the file for large ones.

        Raises
        ------
        RunError
            If the point is absent or damaged; the next run computes it again.
        """
        payload = self._read(key)
        if payload is None:
            raise RunError(
                f"The stored point {key!r} of {self._parts} is absent or damaged; run the same "
                "command again to recompute it."
            )
        if mapped:
            return files.map_npz(self._part(key))
        with np.load(io.BytesIO(payload), allow_pickle=False) as stored:
            return {name: stored[name] for name in stored.files}

    def save(self, key: str, arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
        """Store the arrays of a finished point, at once and whole."""
        payload = files.npz_bytes(arrays)
        files.write_bytes(self._part(key), _seal(payload, self._digest(key, payload)))

    def save_failures(self, failures: Iterable[Mapping[str, str]]) -> None:
        """Leave the reasons of failed points in the work folder, for a person to read."""
        files.write_json(self._parts / "failures.json", list(failures))

    def finish(self, record: Mapping[str, Any]) -> None:
        """Write the provenance, which makes the run whole, and drop the work folder."""
        files.write_json(self.path(".json"), record)
        self._remove_parts()

    def _compare(self, path: Path, record: dict[str, Any]) -> None:
        if not record.keys() >= self.identity.keys():
            raise RunConflictError(f"{path} exists and is not the record of a run; {_REMEDY}.")
        differences = _differences({name: record[name] for name in self.identity}, self.identity)
        if differences:
            raise RunConflictError(
                f"{path} was made with other settings: {'; '.join(differences)}; {_REMEDY}."
            )

    def _retire(self) -> None:
        """Take the old result out of force: its record, and what may not be written anew.

        The table stays until the new one replaces it, so that nothing is lost by an interrupt.
        """
        record = self.record()
        if record is None:
            return
        old = [suffix for suffix in SUFFIXES if f"{self.stem}{suffix}" in _outputs(record)]
        with files.explained(self.path(".json")):
            for suffix in [*old, ".json"]:
                if suffix != ".csv":
                    self.path(suffix).unlink(missing_ok=True)

    def _part(self, key: str) -> Path:
        # Readable, and unique by the hash even where the file system ignores case.
        readable = re.sub(r"[^A-Za-z0-9.=-]+", "_", key)[:60].lstrip(".")
        return self._parts / f"{readable}-{hashlib.sha256(key.encode()).hexdigest()[:12]}.npz"

    def _digest(self, key: str, payload: bytes) -> bytes:
        name = f"{self.hash}\n{key}\n".encode()
        return hashlib.sha256(name + payload).hexdigest().encode()

    def _read(self, key: str) -> bytes | None:
        path = self._part(key)
        with files.explained(path, "read"):
            if not path.is_file():
                return None
            data = path.read_bytes()
        payload, digest = _unseal(data)
        if digest == self._digest(key, payload):
            return payload
        logger.warning("%s: damaged or of another run, computed again.", path)
        return None

    def _remove_parts(self) -> None:
        with files.explained(self._parts):
            if self._parts.exists():
                shutil.rmtree(self._parts)


# A part is a plain .npz whose digest is the zip archive's comment: one file, hence written in one
# step, and nothing is parsed before it is known to be whole. An archive without a comment ends in
# the comment's length, two zero bytes.
_DIGEST_SIZE = 64
_NO_COMMENT = b"\0\0"


def _seal(payload: bytes, digest: bytes) -> bytes:
    return payload[: -len(_NO_COMMENT)] + _DIGEST_SIZE.to_bytes(2, "little") + digest


def _unseal(data: bytes) -> tuple[bytes, bytes]:
    end = max(len(data) - _DIGEST_SIZE, 0)
    return data[: max(end - len(_NO_COMMENT), 0)] + _NO_COMMENT, data[end:]


def _read_json(path: Path) -> dict[str, Any] | None:
    """Return the object in a JSON file, None if there is no file, ``{}`` if it is not one."""
    with files.explained(path, "read"):
        try:
            value = files.read_json(path)
        except FileNotFoundError:
            return None
        except ValueError:
            return {}
    return value if isinstance(value, dict) else {}


def _outputs(record: dict[str, Any]) -> dict[str, str]:
    outputs = record.get("outputs")
    return outputs if isinstance(outputs, dict) else {}


def _matches(path: Path, digest: str | None) -> bool:
    return path.is_file() and files.sha256(path) == digest


def _differences(there: dict[str, Any], here: dict[str, Any]) -> list[str]:
    """Say which entries of two identities differ, with both values."""
    old, new = _flatten(there), _flatten(here)
    return [
        f"{name.removeprefix('settings.')} is {old.get(name, 'absent')} there and "
        f"{new.get(name, 'absent')} here"
        for name in sorted(old.keys() | new.keys())
        if old.get(name) != new.get(name)
    ]


def _flatten(value: Any, name: str = "") -> dict[str, str]:
    """Return the leaves of nested mappings as JSON, by their dotted names."""
    if not isinstance(value, dict):
        return {name: json.dumps(value)}
    leaves: dict[str, str] = {}
    for key, entry in value.items():
        leaves |= _flatten(entry, f"{name}.{key}" if name else key)
    return leaves
