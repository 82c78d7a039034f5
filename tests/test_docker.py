"""The Dockerfile by its instructions; and its commands in a clean environment, as nobody."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "Dockerfile").read_text(encoding="utf-8")
NOBODY = 65534


def parse(text: str) -> list[tuple[str, str]]:
    """Return (instruction, arguments), continued lines joined and comments left out."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n", " ", "\n".join(lines))
    return [
        (word.upper(), re.sub(r"\s+", " ", rest).strip())
        for word, _, rest in (line.strip().partition(" ") for line in joined.splitlines() if line)
    ]


INSTRUCTIONS = parse(TEXT)


def arguments(name: str) -> list[str]:
    return [rest for word, rest in INSTRUCTIONS if word == name]


def test_only_known_instructions():
    known = {"ARG", "FROM", "WORKDIR", "COPY", "RUN", "LABEL", "ENV", "USER", "ENTRYPOINT", "CMD"}
    assert {word for word, _ in INSTRUCTIONS} <= known
    assert TEXT.startswith("# syntax=docker/dockerfile:1\n")


def test_base_image_is_slim_and_its_tag_pinned():
    defaults = dict(entry.split("=", 1) for entry in arguments("ARG"))
    for entry in arguments("FROM"):
        image = re.sub(r"\$\{(\w+)\}", lambda name: defaults[name.group(1)], entry.split()[0])
        name, _, tag = image.partition(":")
        assert name == "python"
        assert re.fullmatch(r"3\.\d+\.\d+-slim-\w+(@sha256:[0-9a-f]{64})?", tag), image


def test_two_stages_and_the_second_takes_only_the_environment():
    stages = arguments("FROM")
    assert len(stages) == 2
    assert stages[0].endswith(" AS build")
    second = INSTRUCTIONS[[k for k, (word, _) in enumerate(INSTRUCTIONS) if word == "FROM"][1] :]
    assert [rest for word, rest in second if word == "COPY"] == [
        "--from=build /opt/deqcli /opt/deqcli"
    ]
    assert not any("pip" in rest or "apt" in rest for word, rest in second if word == "RUN")


def test_nothing_runs_as_root_in_the_end():
    (user,) = arguments("USER")
    assert re.fullmatch(r"[1-9]\d*(:[1-9]\d*)?", user)
    assert INSTRUCTIONS.index(("USER", user)) > max(
        k for k, (word, _) in enumerate(INSTRUCTIONS) if word == "RUN"
    )
    assert not any(re.search(r"\bsudo\b", rest) for rest in arguments("RUN"))


def test_habits_that_hadolint_asks_for():
    assert all(path.startswith("/") for path in arguments("WORKDIR"))
    assert not any(re.search(r"\bcd\b", rest) for rest in arguments("RUN"))
    pips = [part for rest in arguments("RUN") for part in rest.split("&&") if "pip install" in part]
    assert pips
    for part in pips:
        assert "--no-cache-dir" in part
        # From the index by hashes, or what was built here without an index.
        assert ("--require-hashes" in part) != (
            "--no-index --no-deps" in part.replace("--no-deps --no-index", "--no-index --no-deps")
        )
    for word in ("ENTRYPOINT", "CMD"):
        (given,) = arguments(word)
        assert isinstance(json.loads(given), list), f"{word} is not in exec form"
    assert not any("latest" in rest for _, rest in INSTRUCTIONS)


def test_build_backend_is_pinned():
    """An isolated build would take the newest backend, whatever the constraints say."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (backend,) = (re.split(r"[<>=]", entry)[0] for entry in project["build-system"]["requires"])
    pins = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    assert sum(line.startswith(f"{backend}==") for line in pins) == 1
    steps = [step.strip() for rest in arguments("RUN") for step in rest.split("&&")]
    (wheel,) = (step for step in steps if " pip wheel " in step.replace("/", " "))
    assert "--no-build-isolation" in wheel
    assert f"{backend}==" in (ROOT / "requirements-build.txt").read_text(encoding="utf-8")
    # Nothing else is built from source, where isolation would come back.
    assert not any(step.endswith(" .") for step in steps if step != wheel)


def test_dependencies_come_before_sources_and_by_their_hashes():
    words = [word for word, _ in INSTRUCTIONS]
    copies = [k for k, (word, rest) in enumerate(INSTRUCTIONS) if word == "COPY"]
    assert INSTRUCTIONS[copies[0]][1] == "requirements-image.txt requirements-build.txt ./"
    assert words[copies[0] + 1] == "RUN"
    pins = dict(
        line.split("==")
        for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
        if "==" in line
    )
    known = {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in pins.items()}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wanted = {
        "requirements-image.txt": project["project"]["dependencies"],
        "requirements-build.txt": project["build-system"]["requires"],
    }
    for file, names in wanted.items():
        text = (ROOT / file).read_text(encoding="utf-8")
        locked = dict(re.findall(r"^([\w.-]+)==(\S+)", text, re.MULTILINE))
        assert {re.split(r"[<>=]", name)[0] for name in names} <= set(locked)
        for name, version in locked.items():
            assert known[name] == version, f"{name}: run .ci/lock.py"
        assert text.count("--hash=sha256:") >= len(locked)


def copied() -> list[tuple[str, str]]:
    pairs = []
    for rest in arguments("COPY"):
        if not rest.startswith("--from"):
            *sources, target = rest.split()
            pairs += [(source, target) for source in sources]
    return pairs


def ignored(name: str) -> bool:
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    assert rules[0] == "*"
    return f"!{name}" not in rules


def test_what_is_copied_exists_and_reaches_the_build():
    sources = [source for source, _ in copied()]
    assert {"pyproject.toml", "deqcli", "experiments", "hatch_build.py"} <= set(sources)
    for source in sources:
        assert (ROOT / source).exists(), source
        assert not ignored(source), source


def test_head_shows_the_command_with_the_callers_uid():
    assert '--user "$(id -u):$(id -g)" -v "$PWD/results:/work/results"' in TEXT
    assert "deqcli spectrum --act tanh --sigma-a2 0.1" in TEXT
    # A folder that is not there would be made by the daemon, as root.
    assert TEXT.index("# mkdir -p results") < TEXT.index("# docker run")


def interpreter(place: Path) -> str:
    """Return a Python that others may run: this one, or a copy where its folder is private."""
    mine = Path(sys.base_prefix)
    if all(parent.stat().st_mode & 0o5 == 0o5 for parent in (mine, *mine.parents)):
        return sys.executable
    left_out = shutil.ignore_patterns("site-packages", "test", "__pycache__", "*.a", "share")
    shutil.copytree(mine, place / "python", symlinks=True, ignore=left_out)
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return str(place / "python" / "bin" / name)


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="users and their rights are those of a POSIX system")
def test_install_and_entry_commands_in_a_clean_environment():
    """What ``docker build`` and ``docker run --user nobody`` would do, with other paths."""
    # Not below pytest's own folder, which only its owner may enter.
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        place.chmod(0o755)
        source, results = place / "source", place / "work" / "results"
        installed = place / "opt" / "deqcli"
        for path in (source, results):
            path.mkdir(parents=True)
        for item, target in copied():
            origin = ROOT / item
            if origin.is_dir():
                hidden = shutil.ignore_patterns("__pycache__")
                shutil.copytree(origin, source / target, ignore=hidden)
            else:
                shutil.copy(origin, source)
        installs = [rest for rest in arguments("RUN") if "pip install" in rest]
        install = (
            "\n".join(installs)
            .replace("${COMMIT}", 40 * "a")
            .replace("/opt/", f"{place}/opt/")
            .replace("python -m venv", f"{interpreter(place)} -m venv")
        )
        kept = ("PATH", "HOME", "LANG", "PIP_INDEX_URL", "PIP_FIND_LINKS", "PIP_NO_INDEX",
                "PIP_EXTRA_INDEX_URL", "PIP_CONFIG_FILE", "SSL_CERT_FILE")  # fmt: skip
        clean = {key: os.environ[key] for key in kept if key in os.environ}
        # A copied interpreter finds its own shared library, not the system's of another version.
        library = {"LD_LIBRARY_PATH": str(place / "python" / "lib")}
        clean |= library
        done = subprocess.run(["sh", "-ec", install], cwd=source, env=clean, capture_output=True,
                              text=True)  # fmt: skip
        assert done.returncode == 0, done.stderr
        user = {}
        if os.geteuid() == 0:
            os.chown(results, NOBODY, NOBODY)
            user = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
        (settings,) = arguments("ENV")
        env = dict(entry.split("=", 1) for entry in shlex.split(settings))
        env |= library | {"PATH": f"{installed}/bin:{os.environ['PATH']}", "HOME": str(results),
                "MPLCONFIGDIR": str(results / ".matplotlib")}  # fmt: skip
        entry = json.loads(arguments("ENTRYPOINT")[0])
        small = ["--n", "60", "--p", "80", "--realizations", "4", "--width", "30"]
        done = subprocess.run(
            [*entry, "spectrum", "--act", "tanh", "--sigma-a2", "0.1", *small, "--name", "first"],
            cwd=results.parent, env=env, capture_output=True, text=True, **user,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        for suffix in (".csv", ".png", ".json"):
            written = results / f"first{suffix}"
            assert written.stat().st_uid == (NOBODY if user else os.geteuid())
        # The presets and the page's template came along with the package.
        done = subprocess.run(
            [*entry, "reproduce", "all", "--quick", "--dry-run"],
            cwd=results.parent, env=env, capture_output=True, text=True, **user,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert len(done.stdout.splitlines()) >= 10
        packages = next((installed / "lib").glob("python*/site-packages/deqcli"))
        assert (packages / "report" / "page.html").is_file()
        assert (packages / "_commit.txt").read_text() == 40 * "a" + "\n"
