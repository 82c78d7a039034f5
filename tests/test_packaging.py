"""What is released: the citation, the hooks before a commit, the source archive and the wheel."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
import yaml

import deqcli

ROOT = Path(__file__).parents[1]
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
#: The tests that read files beside the package; they run in the unpacked source archive.
READERS = ("test_docker.py", "test_docs.py", "test_packaging.py", "test_readme.py",
           "test_theory.py", "test_workflow.py")  # fmt: skip


def releases(changelog: str) -> dict[str, str]:
    """Return the date of each released version, the newest first."""
    return dict(re.findall(r"^## (\d\S*) \((\d{4}-\d\d-\d\d)\)$", changelog, flags=re.MULTILINE))


def test_citation_has_version_and_date_of_the_last_release():
    released = releases((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))
    version, date = next(iter(released.items()))
    assert (CITATION["version"], CITATION["date-released"]) == (version, date)
    assert deqcli.__version__ == version


def test_releases_are_read_in_their_order():
    text = "## Unreleased\n\n- a\n\n## 0.2.0 (2027-01-02)\n- b\n\n## 0.1.0 (2026-11-16)\n"
    assert list(releases(text).items()) == [("0.2.0", "2027-01-02"), ("0.1.0", "2026-11-16")]


def test_citation_and_theory_name_the_same_four_papers():
    theory = (ROOT / "docs/theory.md").read_text(encoding="utf-8")
    titles = [reference["title"] for reference in CITATION["references"]]
    assert len(titles) == 4
    for title in titles:
        assert title in theory


def test_hooks_are_the_style_stage():
    script = (ROOT / ".ci/run").read_text(encoding="utf-8")
    (stage,) = re.findall(r"^style\(\) \{\n(.*?)^\}", script, flags=re.MULTILINE | re.DOTALL)
    commands = re.findall(r"^ +\.venv/bin/(.+)$", stage, flags=re.MULTILINE)
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    (local,) = config["repos"]
    assert local["repo"] == "local"
    assert [hook["entry"] for hook in local["hooks"]] == commands
    assert all(hook["language"] == "system" for hook in local["hooks"])
    assert not any(hook["pass_filenames"] for hook in local["hooks"])


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_source_archive_and_wheel(tmp_path):
    """The tests that read files of the repository pass in the archive; the wheel is typed."""
    pytest.importorskip("build", reason="needs the package build")
    command = [sys.executable, "-m", "build", "--outdir", str(tmp_path), str(ROOT)]
    built = subprocess.run(command, capture_output=True, text=True)
    assert built.returncode == 0, built.stdout + built.stderr
    (wheel,) = tmp_path.glob("*.whl")
    assert "deqcli/py.typed" in zipfile.ZipFile(wheel).namelist()
    if (ROOT / ".git").exists():
        recorded = zipfile.ZipFile(wheel).read("deqcli/_commit.txt").decode()
        assert re.fullmatch(r"[0-9a-f]{40}(-dirty)?\n", recorded)
        assert not (ROOT / "deqcli" / "_commit.txt").exists()
    (archive,) = tmp_path.glob("*.tar.gz")
    assert archive.stat().st_size < 10e6
    with tarfile.open(archive) as unpacked:
        unpacked.extractall(tmp_path, filter="data")
    source = tmp_path / archive.name.removesuffix(".tar.gz")
    readers = [f"tests/{name}" for name in READERS]
    done = subprocess.run(
        # The commands of the README read no file, and take minutes.
        [sys.executable, "-m", "pytest", "-q", "-k", "not commands_run", *readers],
        cwd=source,
        env={**os.environ, "PYTHONPATH": str(source)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout
