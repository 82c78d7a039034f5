"""Imports go one way (CONTRIBUTING.md); a violation is named with its file."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "deqcli"
FILES = sorted(ROOT.rglob("*.py"))


def layers() -> dict[str, list[str]]:
    """Return the modules of each layer, in order, from the table of CONTRIBUTING.md."""
    text = (ROOT.parent / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\w+) \| (`.+?`) \|", text, re.MULTILINE)
    return {name: re.findall(r"`(.+?)/?`", modules) for name, modules in rows}


LAYERS = layers()
RANK = {module: rank for rank, modules in enumerate(LAYERS.values()) for module in modules}
#: The public interface and ``python -m deqcli`` stand outside of the layers.
OUTSIDE = {"__init__", "__main__"}
#: What some layers and packages may not import, or the only things that they may.
FORBIDDEN = {
    "foundation": {"settings", "runs"},
    "theory": {"settings", "runs"},
    "learning": {"runs"},
}
ONLY = {
    "runs": {"runs", "errors", "checks", "display", "_version", "settings", "study"},
    "figures": {"figures", "paired", "display", "vocabulary"},
}
#: Where a figure is saved, and where one is only a type.
NAMES_FIGURES = {"runs/files.py", "runs/result.py", "study.py", "plot.py"}


def module_of(parts: tuple[str, ...]) -> str:
    """Return the entry of the table for a dotted name or path without ``deqcli``."""
    return "/".join(parts[:2]) if parts[0] == "runs" else parts[0]


def imported(path: Path) -> Iterator[tuple[str, int]]:
    """Yield dotted names of all imports, those inside functions included."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{path}: relative import"
            for alias in node.names:
                yield f"{node.module}.{alias.name}", node.lineno


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_point_downwards(path):
    relative = path.relative_to(ROOT).with_suffix("")
    module, top = module_of(relative.parts), relative.parts[0]
    layer = next((name for name, modules in LAYERS.items() if module in modules), "")
    for name, line in imported(path):
        where = f"{path}:{line} ({layer}) imports {name}"
        first, *parts = name.split(".")
        if first == "deqcli" and parts and module in RANK:
            assert RANK[module_of(tuple(parts))] <= RANK[module], where
            assert parts[0] not in FORBIDDEN.get(layer, ()), where
            assert parts[0] in ONLY.get(top, parts), where
        if first == "click":
            assert top == "cli", where
        if first == "matplotlib":
            drawing = top == "figures" or path.relative_to(ROOT).as_posix() in NAMES_FIGURES
            assert drawing, where


def test_the_table_has_every_module_once():
    listed = [module for modules in LAYERS.values() for module in modules]
    there = {module_of(path.relative_to(ROOT).with_suffix("").parts) for path in FILES}
    assert sorted(listed) == sorted(there - OUTSIDE - {"runs/__init__"})


def test_no_global_randomness():
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Attribute):
                called = f"{ast.unparse(node.value)}.{node.attr}"
                if called.startswith("np.random."):
                    assert node.attr in {"Generator", "PCG64", "SeedSequence", "default_rng"}, (
                        f"{path}:{node.lineno} uses {called}"
                    )


def test_nothing_unpickles_or_evaluates():
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in {"eval", "exec"}, f"{path}:{node.lineno}"
        names = {name.split(".")[0] for name, _ in imported(path)}
        assert not names & {"pickle", "cPickle", "dill", "marshal"}, path
