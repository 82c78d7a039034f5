"""The table of promises names tests that exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TABLES = (ROOT / "docs" / "promises.md").read_text(encoding="utf-8")
ROWS = [line for line in TABLES.splitlines() if line.startswith("| ") and "| ---" not in line]
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", TABLES)))


@pytest.mark.parametrize(("path", "name"), NAMED, ids=[name for _, name in NAMED])
def test_a_named_test_exists(path, name):
    text = (ROOT / path).read_text(encoding="utf-8")
    assert re.search(rf"^def {name}\(", text, re.MULTILINE)


def test_every_promise_has_a_test():
    assert len(ROWS) > 30
    for row in ROWS:
        assert "::" in row or row.endswith("| test |"), row


def test_slow_ones_are_marked():
    for path, name in NAMED:
        text = (ROOT / path).read_text(encoding="utf-8")
        head = text[: text.index(f"def {name}(")].rpartition("\n\n\n")[2]
        stated = f"`{path}::{name}` (*slow*)" in TABLES
        assert stated == ("@pytest.mark.slow" in head), name
