"""Imports go one way (CONTRIBUTING.md); a violation is named with its file."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "deqcli"
FILES = sorted(ROOT.rglob("*.py"))

FOUNDATION = {
    "errors", "_version", "vocabulary", "closed_forms", "activation_functions", "own_functions",
    "activations", "gaussian", "duals", "finite",
}  # fmt: skip
THEORY = {
    "kernels", "scalars", "statistics", "equivalents", "spectra", "matching", "monte_carlo",
}  # fmt: skip
LEARNING = {"classify", "training", "flow"}
PLUMBING = {"runs", "figures"}
REPRODUCTION = {"presets", "reproduction", "report"}
#: Layer -> what its modules may import from the project.
ALLOWED = {
    "foundation": FOUNDATION,
    "theory": FOUNDATION | THEORY,
    "data": FOUNDATION | THEORY | {"data", "runs"},
    "learning": FOUNDATION | THEORY | LEARNING | {"data"},
    "runs": {"runs", "errors", "_version"},
    "figures": {"figures", "errors"},
    "bench": FOUNDATION | THEORY | LEARNING | {"data", "bench", "runs"},
    "reproduction": REPRODUCTION | {"data", "runs", "errors", "_version", "studies"},
    "studies": FOUNDATION | THEORY | LEARNING | PLUMBING | {"data", "studies"},
}


def layer(path: Path) -> str:
    top = path.relative_to(ROOT).parts[0].removesuffix(".py")
    if top in FOUNDATION:
        return "foundation"
    if top in REPRODUCTION:
        return "reproduction"
    if top in LEARNING:
        return "learning"
    return "theory" if top in THEORY else top


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
    allowed = ALLOWED.get(layer(path))
    for name, line in imported(path):
        parts = name.split(".")
        if parts[0] == "deqcli" and len(parts) > 1 and allowed is not None:
            assert parts[1] in allowed, f"{path}:{line} ({layer(path)}) imports {name}"
        if parts[0] == "click":
            assert layer(path) == "cli", f"{path}:{line} imports click"
        if parts[0] == "matplotlib":
            drawing = layer(path) == "figures" or path.name in ("task.py", "files.py")
            assert drawing, f"{path}:{line} imports matplotlib"


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
