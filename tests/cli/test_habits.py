"""Small commands that people expect: completion, results, info, --cite, --dry-run."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from deqcli.papers import PAPERS

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script(deqcli, shell):
    done = deqcli("completion", shell)
    assert done.code == 0
    assert f"_DEQCLI_COMPLETE={shell}_complete" in done.out


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("deqcli spec", {"spectrum"}),
        ("deqcli spectrum --act ta", {"tanh"}),
        ("deqcli spectrum --kern", {"--kernel"}),
        ("deqcli completion z", {"zsh"}),
        ("deqcli list pre", {"presets"}),
    ],
)
def test_bash_completes_words(tmp_path, words, expected):
    """The script itself, in a bash that asks it as it does after a tab."""
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("needs bash")
    program = tmp_path / "deqcli"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m deqcli "$@"\n')
    program.chmod(0o755)
    lines = f"""
    complete() {{ :; }}
    eval "$(deqcli completion bash)"
    COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
    _deqcli_completion deqcli; printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    done = subprocess.run([bash, "-c", lines], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert set(done.stdout.split()) == expected


def test_dry_run_says_how_long(deqcli, tmp_path):
    done = deqcli("spectrum", "--n", "40", "--p", "50", "--width", "30", "--realizations", "8",
                  "--dry-run", "--out", str(tmp_path))  # fmt: skip
    assert done.code == 0
    first, second = done.out.splitlines()
    assert "points, 0 already done" in first
    assert second.startswith("about ")
    assert "give or take a factor of two" in second
    assert not list(tmp_path.iterdir())


def test_results_are_listed_with_their_commands(deqcli, tmp_path):
    words = ["--n", "20", "--p", "30", "--estimator", "exact"]
    assert deqcli("spectrum", *words, "--out", str(tmp_path), "--name", "a").code == 0
    done = deqcli("results", str(tmp_path))
    assert done.code == 0
    assert "a: spectrum, by deqcli" in done.out
    assert "  command  deqcli spectrum --n 20 --p 30 --estimator exact --name a" in done.out
    assert deqcli("results", str(tmp_path / "none")).code == 2


def test_all_four_papers_are_cited(deqcli):
    shown = deqcli("--cite").out
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert {paper.title for paper in PAPERS.values()} == {
        reference["title"] for reference in citation["references"]
    }
    for reference in citation["references"]:
        assert reference["title"] in shown
    for paper in PAPERS.values():
        assert paper.link in shown


def test_info_is_json_with_the_commit(deqcli):
    shown = json.loads(deqcli("info").out)
    assert set(shown) >= {"deqcli", "commit", "packages"}
