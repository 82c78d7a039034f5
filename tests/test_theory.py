"""Every citation of theory.md in the package has its section in docs/theory.md."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
THEORY = (ROOT / "docs/theory.md").read_text(encoding="utf-8")
SECTIONS = {int(number) for number in re.findall(r"^## §(\d+) \S", THEORY, flags=re.MULTILINE)}
#: "theory.md §4", "theory.md §3, §4", "theory.md §2 and §5", "theory.md §1-2".
_CITATION = re.compile(r"theory\.md((?:(?:,| and)?\s+§\d+(?:-\d+)?)+)")


def citations(text: str) -> list[int]:
    """Return the numbers of all sections that a text cites, ranges written out."""
    # A citation may go over the end of a line of a comment.
    joined = re.sub(r"\n\s*(?:#:? ?)?", " ", text)
    numbers: list[int] = []
    for cited in _CITATION.findall(joined):
        for first, last in re.findall(r"§(\d+)(?:-(\d+))?", cited):
            numbers += range(int(first), int(last or first) + 1)
    return numbers


@pytest.mark.parametrize(
    ("text", "cited"),
    [
        ("(ICLR Theorem 1; theory.md §4).", [4]),
        ("(theory.md §3, §4).", [3, 4]),
        ("of theory.md §2\nand §5, the same", [2, 5]),
        ("matrices (theory.md §1-3):", [1, 2, 3]),
        ("# as in theory.md\n    # §7 says", [7]),
        ("GEN §5.1; theory.md §8, GEN §5.2", [8]),
        ("theory.md §99", [99]),
        ("theory.md has none", []),
    ],
)
def test_citations_are_read(text, cited):
    assert citations(text) == cited


def test_every_citation_has_its_section():
    assert sorted(SECTIONS) == list(range(1, 9))
    assert 99 not in SECTIONS
    count = 0
    for path in sorted((ROOT / "deqcli").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        cited = citations(text)
        count += len(cited)
        assert set(cited) <= SECTIONS, path
        # None is written in a way that the expression above does not see.
        assert len(re.findall(r"theory\.md", text)) == len(_CITATION.findall(
            re.sub(r"\n\s*(?:#:? ?)?", " ", text))), path  # fmt: skip
    assert count >= 30


def test_sections_that_the_text_itself_refers_to_exist():
    referred = {int(number) for number in re.findall(r"(?<!GEN )§(\d+)", THEORY)}
    assert referred <= SECTIONS


def test_mathematics_is_closed():
    """Displays and inline formulas come in pairs, or the rest of the page is one formula."""
    prose = re.sub(r"```.*?```", "", THEORY, flags=re.DOTALL)
    assert prose.count("$$") % 2 == 0
    for paragraph in re.sub(r"\$\$.*?\$\$", "", prose, flags=re.DOTALL).split("\n\n"):
        assert paragraph.count("$") % 2 == 0, paragraph
