"""Where a result came from: the resolved spec, its hash, versions, machine, BLAS and commit.

Nothing here names a person or a host: home folders become ``~``, scheduler addresses lose theirs.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import platform
import re
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import threadpoolctl

from deqcli._version import __version__
from deqcli.runs.files import plain

SCHEMA = 1
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


def identity(study: str, version: int, spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return what makes two runs the same run, as it reads after a passage through JSON."""
    loaded: dict[str, Any] = json.loads(
        canonical_json({"study": study, "version": version, "spec": dict(spec)})
    )
    return loaded


def spec_hash(study: str, version: int, spec: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a run's `identity`.

    Examples
    --------
    >>> spec_hash("toy", 1, {"n": 3}) == spec_hash("toy", 1, {"n": 4})
    False
    """
    return hashlib.sha256(canonical_json(identity(study, version, spec)).encode()).hexdigest()


def default_stem(study: str, version: int, spec: Mapping[str, Any]) -> str:
    """Return the name of a run that was given none: ``<study>-<first 8 digits of its hash>``.

    Examples
    --------
    >>> default_stem("toy", 1, {"n": 3})
    'toy-e6ceae5c'
    """
    return f"{study}-{spec_hash(study, version, spec)[:8]}"


def collect(
    *,
    command: Sequence[str],
    study: str,
    version: int,
    spec: Mapping[str, Any],
    options: Mapping[str, Any] | None = None,
    seed: int | None,
    timings: Mapping[str, float],
    outputs: Mapping[str, str],
    extra: Mapping[str, Any],
) -> dict[str, Any]:
    """Gather the provenance record of a finished run.

    Parameters
    ----------
    command : sequence of str
        The command line; an absolute path to the program is cut to its name.
    study, version, spec : str, int, mapping
        The run's identity. The spec is kept as it is, since it is compared on the next run:
        a study names its input files by content, not by an absolute path.
    options : mapping
        Settings as a user writes them, to be given back with ``--config``.
    seed : int or None
        Of the random streams.
    timings : mapping of str to float
        Seconds.
    outputs : mapping of str to str
        SHA-256 by file name.
    extra : mapping
        What the study adds, such as distances and solver statistics.

    Returns
    -------
    dict
        JSON-able.
    """
    return {
        "schema": SCHEMA,
        "deqcli": __version__,
        "command": _anonymous(command),
        **identity(study, version, spec),
        "spec_hash": spec_hash(study, version, spec),
        "options": dict(options or {}),
        "seed": seed,
        "outputs": dict(outputs),
        "results": dict(extra),
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


def _anonymous(command: Sequence[str]) -> str:
    words = [Path(command[0]).name, *command[1:]] if command else []
    text = shlex.join(words).replace(str(Path.home()), "~")
    return re.sub(r"\b(tcp|tls|ucx|wss?)://[^\s:/]+", r"\1://HOST", text)


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
    found = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return found.group(1) if found else platform.processor() or None


def _commit() -> dict[str, Any] | None:
    """Return the commit of the checkout this package runs from, None for an installed copy."""
    # Only a .git right above the package is ours: an environment inside somebody's own
    # repository must not pass that repository's commit off as deqcli's.
    if not (_ROOT / ".git").exists():
        return None
    revision, changes = _git("rev-parse", "HEAD"), _git("status", "--porcelain", "-uno")
    if revision is None or changes is None:
        return None
    return {"revision": revision, "dirty": bool(changes)}


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
