"""Records the commit that a wheel or source archive is built from, for ``deqcli info``.

The commit comes from git; where there is none, as in a build of the image, from DEQCLI_COMMIT; and
a wheel that is built from a source archive keeps the archive's.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

#: In the package, where deqcli/runs/provenance.py looks for it.
RECORD = "deqcli/_commit.txt"


class CommitHook(BuildHookInterface):  # type: ignore[type-arg]
    """Puts the file with the commit into what is built, and leaves none in the checkout."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the commit, if it is known, where the build takes it from."""
        root = Path(self.root)
        if version == "editable" or (root / RECORD).exists():
            return
        revision = commit(root)
        if revision:
            made = Path(self.directory, "commit.txt")
            made.parent.mkdir(parents=True, exist_ok=True)
            made.write_text(f"{revision}\n", encoding="utf-8")
            build_data["force_include"][str(made)] = RECORD

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the file beside what was built."""
        Path(self.directory, "commit.txt").unlink(missing_ok=True)


def commit(root: Path) -> str:
    """Return the commit of a checkout, with ``-dirty`` if files were changed; empty if unknown."""
    if not (root / ".git").exists():
        return os.environ.get("DEQCLI_COMMIT", "")
    try:
        revision, changes = (
            subprocess.run(
                ["git", "-C", str(root), *words], capture_output=True, text=True, check=True
            ).stdout.strip()
            for words in (("rev-parse", "HEAD"), ("status", "--porcelain", "-uno"))
        )
    except (OSError, subprocess.SubprocessError):
        return os.environ.get("DEQCLI_COMMIT", "")
    return f"{revision}-dirty" if changes else revision
