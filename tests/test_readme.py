"""Every command of README and docs runs; the two of the README's head do all their own set-up."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from deqcli.runs import provenance
from deqcli.study import get

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results"
README, COMMAND_PAGE, PYTHON_PAGE, FINDINGS = (
    (ROOT / name).read_text(encoding="utf-8")
    for name in ("README.md", "docs/commands.md", "docs/python.md", "docs/findings.md")
)
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCKS = re.findall(r"```sh\n(.*?)```", README + COMMAND_PAGE, flags=re.DOTALL)
GROUPS = [tuple(block.strip().splitlines()) for block in BLOCKS]
SETUP = [block.strip() for block in BLOCKS if block.startswith("python3 -m venv")]
COMMANDS = [group for group in GROUPS if not group[0].startswith("python3 -m venv")]
SPEC = importlib.util.spec_from_file_location(
    "accuracy_section", Path(__file__).with_name("accuracy_section.py")
)
accuracy_section = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(accuracy_section)


def test_head_has_the_two_commands():
    assert len(SETUP) == 2
    assert SETUP[0].endswith("deqcli spectrum --act tanh --sigma-a2 0.1")
    assert SETUP[1].endswith("pytest -n 2")
    assert all(line.startswith("deqcli ") for group in COMMANDS for line in group)


def test_the_first_command_makes_the_file_that_is_named():
    spectrum = get("spectrum")
    identity = provenance.identity(spectrum, spectrum.settings(act="tanh", sigma_a2=0.1))
    assert f"`results/{provenance.default_stem(identity)}.png`" in README


def test_ci_calls_the_test_command():
    script = ROOT / ".ci" / "run"
    if not script.exists():
        pytest.skip("an archive has no CI")
    (line,) = re.findall(r"^  command=\$\((.*)\)$", script.read_text(), flags=re.MULTILINE)
    found = subprocess.run(
        ["bash", "-c", line], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == SETUP[1]


@pytest.mark.slow
@pytest.mark.parametrize("group", COMMANDS, ids=lambda group: group[0])
def test_commands_run(group, tmp_path):
    for line in group:
        done = subprocess.run(
            [sys.executable, "-m", *shlex.split(line)],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "code", re.findall(r"```python\n(.*?)```", README + PYTHON_PAGE, flags=re.DOTALL)
)
def test_python_example_runs(code, tmp_path):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert 0 < float(done.stdout) < 0.1


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_figures_and_links_exist(path):
    """Pages that are made when the site is built are there as sources."""
    made = {"papers.md": "papers.in", "gallery": "examples"}
    text = path.read_text(encoding="utf-8")
    targets = re.findall(r"\]\(([^)#\s\\]+)[^)\s\\]*\)", text)
    for target in targets + re.findall(r'<img [^>]*src="([^"]+)"', text):
        first = Path(target).parts[0]
        if "://" not in target:
            there = path.parent / made.get(first, target)
            assert there.exists(), target


def rows(heading):
    """Return the cells of the table rows below a heading."""
    part = FINDINGS.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in part.splitlines() if line.startswith("| ")]
    return [re.split(r" (?<!\\)\| ", line[2:-2]) for line in lines[2:]]


def test_training_is_told_by_rule_from_the_results():
    """Every sentence and table about a training, number by number, from the record beside it."""
    for stem in accuracy_section.STEMS:
        settings, findings = accuracy_section.read(stem)
        assert accuracy_section.sentence(settings, findings) in FINDINGS, stem
        assert accuracy_section.table(findings) in FINDINGS, stem
    assert accuracy_section.rates() in FINDINGS


def test_verdicts_are_those_of_the_summary():
    """Every quantity that a paper has a value for, as results/summary.md says it."""
    summary = (RESULTS / "summary.md").read_text(encoding="utf-8").splitlines()
    lines = [line for line in summary if line.startswith("| ") and "| Errata" not in line]
    cells = [re.split(r" (?<!\\)\| ", line[2:-2]) for line in lines[2:]]
    assert rows("Against the papers") == [
        [figure, quantity, paper, ours, verdict.partition(". ")[0]]
        for figure, quantity, paper, ours, verdict in cells
        if paper
    ]


@pytest.mark.slow
def test_first_command_from_nothing(tmp_path):
    """Install into a fresh environment from a copy of the tree and draw the README's figure."""
    if not (ROOT / ".git").exists():
        pytest.skip("what to copy is what git lists, and this is no checkout")
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).exists():
            target = tmp_path / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes((ROOT / name).read_bytes())
    env = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(
        ["bash", "-c", SETUP[0]], cwd=tmp_path, env=env, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    written = [tmp_path / line for line in done.stdout.split()]
    assert [path.suffix for path in written] == [".csv", ".png", ".json"]
    assert all(path.exists() for path in written)
