"""Where a result came from: its settings, their hash, versions, machine, BLAS and commit.

Nothing here names a person or a host.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import platform
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import threadpoolctl

from deqcli._version import __version__
from deqcli.runs.files import plain
from deqcli.settings import Settings
from deqcli.study import Study

SCHEMA = 2
"""Raised by hand whenever a key of `collect` changes its meaning."""

_PACKAGES = ("numpy", "scipy", "pandas", "matplotlib", "joblib", "threadpoolctl", "distributed")
_ROOT = Path(__file__).resolve().parents[2]


def canonical_json(value: Any) -> str:
    """Return the one JSON text of a value: sorted keys, no spaces, no NaN, numpy as Python.

    Examples
    --------
    >>> canonical_json({"n": 800, "act": ("tanh", 0.1)})
    '{"act":["tanh",0.1],"n":800}'
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False, default=plain)


def identity(study: Study[Any, Any], settings: Settings) -> dict[str, Any]:
    """Return what makes two runs the same run, as it reads after a passage through JSON."""
    loaded: dict[str, Any] = json.loads(
        canonical_json(
            {
                "study": study.name,
                "version": study.version,
                "settings": settings.identity(),
                "inputs": settings.inputs(),
            }
        )
    )
    return loaded


def identity_hash(identity: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a run's :func:`identity`.

    Examples
    --------
    >>> identity_hash({"n": 3}) == identity_hash({"n": 4})
    False
    """
    return hashlib.sha256(canonical_json(identity).encode()).hexdigest()


def found_hash(record: Mapping[str, Any]) -> str:
    """Return the SHA-256 of what a run found that its CSV lacks: findings and constants.

    Examples
    --------
    >>> found_hash({"findings": {3: 0.1}}) == found_hash({"findings": {"3": 0.1}, "hash": "ab"})
    True
    """
    found = {key: record.get(key) for key in ("findings", "columns", "constants")}
    # As JSON reads back, in which keys are texts.
    text = json.dumps(json.loads(json.dumps(found, default=plain)), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def is_unchanged(record: Mapping[str, Any]) -> bool:
    """Tell whether a record's findings and constants are as written; old records do not say."""
    return record.get("found_hash") in (None, found_hash(record))


def default_stem(identity: Mapping[str, Any]) -> str:
    """Return the name of a run that was given none: ``<study>-<first 8 digits of its hash>``.

    Examples
    --------
    >>> default_stem({"study": "toy", "settings": {"n": 3}})
    'toy-3feb1d4d'
    """
    return f"{identity['study']}-{identity_hash(identity)[:8]}"


def collect(
    identity: Mapping[str, Any],
    *,
    command: str,
    findings: Mapping[str, Any],
    constants: Mapping[str, Any],
    outputs: Mapping[str, str],
    timings: Mapping[str, float],
) -> dict[str, Any]:
    """Gather the provenance record of a finished run.

    Parameters
    ----------
    identity : mapping
        Of the run. It is kept as it is, since it is compared on the next run.
    command : str
        What can be typed to make the same files.
    findings : mapping
        What the study found, such as distances and solver statistics.
    constants : mapping
        Columns that the CSV lacks (:func:`deqcli.runs.tables.split`).
    outputs : mapping of str to str
        SHA-256 by file name.
    timings : mapping of str to float
        Seconds, on how many processes, and the largest one's bytes of memory.

    Returns
    -------
    dict
        JSON-able.
    """
    found = {"findings": dict(findings), **constants}
    return {
        "schema": SCHEMA,
        "deqcli": __version__,
        "command": command,
        **identity,
        "hash": identity_hash(identity),
        "outputs": dict(outputs),
        **found,
        "found_hash": found_hash(found),
        "timings": dict(timings),
        "environment": environment(),
    }


def environment() -> dict[str, Any]:
    """Return versions, platform, processor, BLAS with its present threads, and commit.

    Examples
    --------
    >>> sorted(environment())
    ['blas', 'commit', 'cpu', 'packages', 'platform', 'python']
    """
    return {
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "packages": {name: _version_of(name) for name in _PACKAGES},
        "platform": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cpu": {"model": _cpu_model(), "count": os.cpu_count()},
        "blas": [
            {
                "library": library["internal_api"],
                "version": library["version"],
                "architecture": library.get("architecture"),
                "threads": library["num_threads"],
            }
            for library in threadpoolctl.threadpool_info()
            if library["user_api"] == "blas"
        ],
        "commit": _commit(),
    }


def _version_of(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _cpu_model() -> str | None:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        text = ""
    model = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return model.group(1) if model else platform.processor() or None


def _commit() -> dict[str, Any] | None:
    """Return the commit of the checkout this package runs from, or that it was built from."""
    # Only a .git right above the package is ours: an environment inside somebody's own
    # repository must not pass that repository's commit off as deqcli's.
    if not (_ROOT / ".git").exists():
        return _recorded(_ROOT / "deqcli" / "_commit.txt")
    revision = _git("rev-parse", "HEAD")
    # Of the package alone: a run that writes over committed results does not change what it ran.
    changes = _git("status", "--porcelain", "-uno", "--", "deqcli")
    if revision is None or changes is None:
        return None
    return {"revision": revision, "dirty": bool(changes)}


def _recorded(path: Path) -> dict[str, Any] | None:
    """Return the commit that a build of the package recorded (hatch_build.py)."""
    try:
        text = path.read_text(encoding="utf-8").strip()
    except OSError:
        return None
    revision, dash, _ = text.partition("-")
    return {"revision": revision, "dirty": bool(dash)} if revision else None


def _git(*arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(_ROOT), *arguments],
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
