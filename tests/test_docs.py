"""The documentation tells what there is, and its examples and commands run."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import deqcli

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
EXAMPLES = sorted((DOCS / "examples").glob("plot_*.py"))
START = (DOCS / "start.md").read_text(encoding="utf-8")


def run(words, folder):
    """Run a command beside the package, warnings being errors."""
    done = subprocess.run(
        [sys.executable, "-W", "error", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "MPLBACKEND": "Agg"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs(path, tmp_path):
    run([str(path)], tmp_path)


def test_the_promised_examples_are_there():
    assert len(EXAMPLES) >= 5
    for path in EXAMPLES:
        title = path.read_text(encoding="utf-8").splitlines()[1]
        assert re.match(r"[A-Z]", title), path


def test_python_of_the_first_page_runs(tmp_path):
    (code,) = re.findall(r"```python\n(.*?)```", START, flags=re.DOTALL)
    first, *rest = run(["-c", code], tmp_path).splitlines()
    assert 0 < float(first) < 0.1
    assert rest[0] == "Match"


@pytest.mark.slow
def test_commands_of_the_first_page_run(tmp_path):
    lines = re.findall(r"^\.venv/bin/(deqcli .+)$", START, flags=re.MULTILINE)
    assert len(lines) == 3
    for line in lines:
        run(["-m", *shlex.split(line)], tmp_path)
    written = {path.name for path in (tmp_path / "results").iterdir()}
    for name in ("first.csv", "first.png", "first.json", "twin-torch.py"):
        assert name in written
        assert name in START


def test_every_public_name_is_in_the_reference():
    text = (DOCS / "python.md").read_text(encoding="utf-8")
    for name in set(deqcli.__all__) - {"__version__", "errors"}:
        assert re.search(rf"auto\w+:: deqcli\.{name}$", text, re.MULTILINE), name


def test_every_environment_variable_is_told():
    told = (DOCS / "environment.md").read_text(encoding="utf-8")
    files = [*ROOT.glob("deqcli/**/*.py"), *ROOT.glob("tests/fuzz/*.py"), ROOT / "hatch_build.py"]
    text = "\n".join(path.read_text(encoding="utf-8") for path in files)
    for name in set(re.findall(r"[\"'](DEQCLI_[A-Z_]+)[\"']", text)):
        assert f"`{name}`" in told, name


def test_pages_lead_to_pages_that_exist():
    made = {"papers.md", "gallery/index", *(f"gallery/{path.stem}" for path in EXAMPLES)}
    for page in (*DOCS.glob("*.md"), DOCS / "papers.in"):
        text = page.read_text(encoding="utf-8")
        for target in re.findall(r"\]\(([\w./-]+)\)", text):
            assert target in made or (DOCS / target).exists(), f"{page.name}: {target}"
        for target in re.findall(r"^```\{image\} (\S+)", text, re.MULTILINE):
            assert (DOCS / target).exists(), target
