"""The workflow is well formed, asks for little, and does what .ci/run does."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
FILE = ROOT / ".github/workflows/ci.yml"
TEXT = FILE.read_text(encoding="utf-8")
WORKFLOW = yaml.safe_load(TEXT)
JOBS = WORKFLOW["jobs"]
STEPS = [(name, step) for name, job in JOBS.items() for step in job["steps"]]
# Needs Docker; all the others are stages of the script.
IMAGE = "image"
STAGES = {name: job for name, job in JOBS.items() if name != IMAGE}
SCRIPT = (ROOT / ".ci/run").read_text(encoding="utf-8")


def validate(path: Path) -> subprocess.CompletedProcess[str]:
    """Check a file against GitHub's own schema of workflows, which check-jsonschema brings."""
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema",
               "vendor.github-workflows", str(path)]  # fmt: skip
    return subprocess.run(command, capture_output=True, text=True)


def test_schema_of_workflows():
    done = validate(FILE)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("runs-on:", "run-on:"),
        ("timeout-minutes: 30", "timeout-minutes: soon"),
        ("contents: read", "contents: reed"),
        ("- uses: actions/checkout@v4", "- use: actions/checkout@v4"),
        ("workflow_dispatch:", "workflow_despatch:"),
        ("fail-fast:", "fails-fast:"),
    ],
)
def test_schema_sees_what_is_wrong(tmp_path, right, wrong):
    assert right in TEXT
    broken = tmp_path / "broken.yml"
    broken.write_text(TEXT.replace(right, wrong, 1), encoding="utf-8")
    done = validate(broken)
    assert done.returncode == 1
    assert "Schema validation errors" in done.stdout


def test_keys_are_those_of_a_workflow():
    # YAML 1.1 reads the key `on` as true.
    assert set(WORKFLOW) == {"name", True, "permissions", "concurrency", "jobs"}
    assert set(WORKFLOW[True]) == {"push", "pull_request", "schedule", "workflow_dispatch"}
    allowed = {"name", "runs-on", "timeout-minutes", "strategy", "env", "steps"}
    for name, job in JOBS.items():
        assert re.fullmatch(r"[a-z][a-z-]*", name)
        assert {"runs-on", "timeout-minutes", "steps"} <= set(job) <= allowed
        assert isinstance(job["timeout-minutes"], int)


def test_steps_use_or_run():
    for name, step in STEPS:
        assert ("uses" in step) != ("run" in step), name
        assert set(step) <= {"name", "uses", "run", "with", "env", "if"}, name
        if "uses" in step:
            assert re.fullmatch(r"actions/[\w-]+@v\d+", step["uses"]), step["uses"]


def test_it_may_only_read_and_runs_on_a_named_system():
    assert WORKFLOW["permissions"] == {"contents": "read"}
    assert all(re.fullmatch(r"ubuntu-\d\d\.\d\d", job["runs-on"]) for job in JOBS.values())
    assert "secrets." not in TEXT
    # Nothing that a stranger can write (a title, a branch) is put into a shell.
    assert not any("${{" in step["run"] for _, step in STEPS if "run" in step)


def test_every_stage_checks_out_sets_up_python_and_calls_the_script():
    for name, job in STAGES.items():
        used = [step.get("uses", "").partition("@")[0] for step in job["steps"]]
        assert used[:2] == ["actions/checkout", "actions/setup-python"], name
        assert [step["run"] for step in job["steps"] if "run" in step] == [f".ci/run {name}"]


def test_scripts_exist_and_know_their_stages():
    for name, step in STEPS:
        if "run" in step and name != IMAGE:
            script, *stages = step["run"].split()
            assert os.access(ROOT / script, os.X_OK), script
            for stage in stages:
                assert re.search(rf"^{stage}\(\)", SCRIPT, re.MULTILINE), stage


def test_matrix_has_the_supported_versions_and_their_lowest():
    versions = JOBS["tests"]["strategy"]["matrix"]["python"]
    assert versions == ["3.11", "3.12", "3.13"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["requires-python"] == f">={versions[0]}"
    for name, job in STAGES.items():
        (setup,) = [s for s in job["steps"] if s.get("uses", "").startswith("actions/setup-python")]
        wanted = "${{ matrix.python }}" if name == "tests" else versions[0]
        assert setup["with"]["python-version"] == wanted


@pytest.mark.parametrize(("writes", "code"), [("printf a", 0), ("true", 1)])
def test_image_is_built_and_run_as_the_caller(tmp_path, writes, code):
    """The job's own lines, with a docker that writes into the mounted folder, or does not."""
    lines = [step["run"] for step in JOBS[IMAGE]["steps"] if "run" in step]
    fake = tmp_path / "bin" / "docker"
    fake.parent.mkdir()
    fake.write_text(
        f'#!/bin/sh\necho "$@" >> calls\n[ "$1" = build ] || {writes} > build/image/image.csv\n'
    )
    fake.chmod(0o755)
    env = {**os.environ, "PATH": f"{fake.parent}{os.pathsep}{os.environ['PATH']}"}
    done = [subprocess.run(["bash", "-e", "-c", line], cwd=tmp_path, env=env) for line in lines]
    assert [run.returncode for run in done] == [0, code]
    build, run = (tmp_path / "calls").read_text().splitlines()
    assert build == "build --tag deqcli ."
    head = f"run --rm --user {os.getuid()}:{os.getgid()} -v {tmp_path}/build/image:/work/results "
    assert run.startswith(f"{head}deqcli spectrum ")


def test_figures_are_regenerated_checked_and_kept():
    assert "reproduce all --quick --check" in SCRIPT
    upload = JOBS["figures"]["steps"][-1]
    assert upload["uses"].startswith("actions/upload-artifact@")
    assert "build/report.html" in upload["with"]["path"]
    assert "--out build/report.html" in SCRIPT
    fetched = next(s["env"]["FETCH_DATA"] for s in JOBS["figures"]["steps"] if "run" in s).split()
    from deqcli.data.registry import SOURCES

    for name in fetched:
        assert all(download.mirrors for download in SOURCES[name].downloads)
