"""Write requirements-image.txt and requirements-build.txt: pins of constraints.txt, with hashes.

    python .ci/lock.py

The image installs these files and nothing else; pip then refuses a file that was exchanged. Wheels
for Linux on both architectures and the supported Pythons are listed, and no source archives.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

import requests

ROOT = Path(__file__).parents[1]
WANTED = re.compile(
    r"-(py3|py2\.py3)-none-any\.whl$"
    r"|-cp3(11|12|13)-(cp3\d+|abi3)-[\w.]*manylinux[\w.]*_(x86_64|aarch64)\.whl$"
    r"|-cp3\d+-abi3-[\w.]*manylinux[\w.]*_(x86_64|aarch64)\.whl$"
)


def resolved(requirements: list[str]) -> dict[str, str]:
    """Return the version of each package that pip would install, by name."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run",
                   "--ignore-installed", "--report", str(report),
                   "--constraint", str(ROOT / "constraints.txt"), *requirements]  # fmt: skip
        subprocess.run(command, check=True)
        document = json.loads(report.read_text(encoding="utf-8"))
    found = [entry["metadata"] for entry in document["install"]]
    return {re.sub(r"[-_.]+", "-", one["name"]).lower(): one["version"] for one in found}


def hashes(name: str, version: str) -> list[str]:
    """Return the SHA-256 of each wheel, as the index has it."""
    page = requests.get(f"https://pypi.org/simple/{name}/", timeout=60)
    page.raise_for_status()
    links = re.findall(r'href="[^"]*/([^/"#]+)#sha256=([0-9a-f]{64})"', page.text)
    start = re.sub(r"[-_.]+", "_", name).lower()
    chosen = {
        digest
        for file, digest in links
        if re.sub(r"[-_.]+", "_", file.split("-")[0]).lower() == start
        and file.split("-")[1] == version
        and WANTED.search(file)
    }
    if not chosen:
        raise SystemExit(f"{name} {version} has no wheel for Linux.")
    return sorted(chosen)


def write(file: str, requirements: list[str]) -> None:
    """Write one file of pins with hashes."""
    lines = ["# By .ci/lock.py, from constraints.txt."]
    for name, version in sorted(resolved(requirements).items()):
        digests = [f"    --hash=sha256:{digest}" for digest in hashes(name, version)]
        lines.append(" \\\n".join([f"{name}=={version}", *digests]))
    (ROOT / file).write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    write("requirements-image.txt", project["project"]["dependencies"])
    write("requirements-build.txt", project["build-system"]["requires"])
