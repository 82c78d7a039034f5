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

from deqcli.reproduction import presets

ROOT = Path(__file__).parents[1]
FILE = ROOT / ".github/workflows/ci.yml"
FILES = sorted(FILE.parent.glob("*.yml"))
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


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_schema_of_workflows(file):
    done = validate(file)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("runs-on:", "run-on:"),
        ("timeout-minutes: 30", "timeout-minutes: soon"),
        ("contents: read", "contents: reed"),
        ("- uses: actions/checkout@", "- use: actions/checkout@"),
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


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_actions_are_pinned_by_commit(file):
    """A tag can be moved; the comment says which version the commit is."""
    lines = [line for line in file.read_text(encoding="utf-8").splitlines() if "uses:" in line]
    assert lines
    for line in lines:
        assert re.fullmatch(r" +- uses: [\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line), line


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_rights_are_given_job_by_job(file):
    workflow = yaml.safe_load(file.read_text(encoding="utf-8"))
    assert workflow["permissions"] == {"contents": "read"}
    for name, job in workflow["jobs"].items():
        assert isinstance(job["timeout-minutes"], int), name
        for step in job["steps"]:
            # Nothing that a stranger can write (a title, a branch) is put into a shell.
            assert "${{" not in step.get("run", ""), name
    allowed = {
        "ci.yml": set(),
        "docs.yml": {"publish"},
        "release.yml": {"publish", "image"},
    }
    assert {name for name, job in workflow["jobs"].items() if "permissions" in job} == allowed[
        file.name
    ]


def test_a_release_is_tested_before_it_is_published():
    jobs = yaml.safe_load((FILE.parent / "release.yml").read_text(encoding="utf-8"))["jobs"]
    assert jobs["test"]["needs"] == "build"
    assert {jobs[name]["needs"] for name in ("publish", "image")} == {"test"}
    assert jobs["test"]["strategy"]["matrix"]["kind"] == ["wheel", "sdist"]
    stages = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
    for stage in stages:
        assert re.search(rf"^{stage.split()[1]}\(\)", SCRIPT, re.MULTILINE), stage
    push = jobs["image"]["steps"][-1]["with"]
    assert push["platforms"] == "linux/amd64,linux/arm64"
    assert push["build-args"] == "COMMIT=${{ github.sha }}"
    # PyPI knows the workflow itself; no token is stored.
    text = (FILE.parent / "release.yml").read_text(encoding="utf-8")
    assert re.findall(r"secrets\.(\w+)", text) == ["GITHUB_TOKEN"]


def test_it_may_only_read_and_runs_on_a_named_system():
    assert WORKFLOW["permissions"] == {"contents": "read"}
    systems = {job["runs-on"] for name, job in JOBS.items() if name != "tests"}
    matrix = JOBS["tests"]["strategy"]["matrix"]
    systems |= {*matrix["system"], *(entry["system"] for entry in matrix["include"])}
    assert systems == {"ubuntu-24.04", "macos-14"}
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
        assert setup["with"]["cache"] == "pip"


@pytest.mark.parametrize(("writes", "code"), [("printf a", 0), ("true", 1)])
def test_image_is_built_and_run_as_the_caller(tmp_path, writes, code):
    """The job's own lines, with a docker that writes into the mounted folder, or does not."""
    lines = [step["run"] for step in JOBS[IMAGE]["steps"] if "run" in step]
    fake = tmp_path / "bin" / "docker"
    fake.parent.mkdir()
    fake.write_text(
        '#!/bin/sh\necho "$@" >> calls\ncase "$*" in build*) ;; *info) cat calls ;; '
        f"*) {writes} > build/image/image.csv ;; esac\n"
    )
    fake.chmod(0o755)
    path = f"{fake.parent}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "GITHUB_SHA": "c" * 40}
    done = [subprocess.run(["bash", "-e", "-c", line], cwd=tmp_path, env=env) for line in lines]
    assert [run.returncode for run in done] == [0, 0, code]
    build, info, run = (tmp_path / "calls").read_text().splitlines()
    assert build == f"build --build-arg COMMIT={'c' * 40} --tag deqcli ."
    assert info == "run --rm deqcli info"
    head = f"run --rm --user {os.getuid()}:{os.getgid()} -v {tmp_path}/build/image:/work/results "
    assert run.startswith(f"{head}deqcli spectrum ")


@pytest.mark.parametrize(
    ("programs", "called"),
    [
        ({"chromium": ""}, []),
        ({}, []),
        ({"apt-get": ""}, ["update", "install"]),
        ({"apt-get": "exit 1"}, ["update"]),
    ],
    ids=["there", "no apt", "installed", "not permitted"],
)
def test_the_script_installs_a_browser_and_never_fails_for_it(tmp_path, programs, called):
    (function,) = re.findall(r"^browser\(\).*?^}", SCRIPT, re.MULTILINE | re.DOTALL)
    for name, line in {"id": "echo 0", **programs}.items():
        program = tmp_path / name
        program.write_text(f'#!/bin/sh\necho "$0 $1" >> {tmp_path}/calls\n{line}\n')
        program.chmod(0o755)
    done = subprocess.run(
        ["/bin/bash", "-euo", "pipefail", "-c", f"{function}\nbrowser"],
        env={"PATH": str(tmp_path)}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0
    assert ("cannot be installed" in done.stderr) == (programs.get("apt-get") == "exit 1")
    lines = (tmp_path / "calls").read_text() if (tmp_path / "calls").exists() else ""
    assert re.findall(r"apt-get (\w+)", lines) == called


def test_figures_are_regenerated_checked_and_kept(monkeypatch):
    assert "reproduce all --quick --check" in SCRIPT
    # What cannot be fetched has a sample in the tests, whose records are the settings.
    assert "reproduce cifar-accuracy.json cifar-match.json" in SCRIPT
    monkeypatch.chdir(ROOT / "tests" / "reference")
    for name in ("cifar-accuracy", "cifar-match"):
        assert presets.load(f"{name}.json").settings.data == "cifar10-vgg19-sample.npz"
    upload = JOBS["figures"]["steps"][-1]
    assert upload["uses"].startswith("actions/upload-artifact@")
    assert "build/report.html" in upload["with"]["path"]
    assert "build/report-pdf/" in upload["with"]["path"]
    assert "--out build/report.html" in SCRIPT
    # The documentation has the report of the committed results.
    assert "report --results build/docs/results" in SCRIPT
    fetched = next(s["env"]["FETCH_DATA"] for s in JOBS["figures"]["steps"] if "run" in s).split()
    from deqcli.data.registry import SOURCES

    for name in fetched:
        assert all(download.mirrors for download in SOURCES[name].downloads)
