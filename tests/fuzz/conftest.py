"""How the cases of all fuzzers ended, counted and printed."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import pytest

#: From the number of a case to how it ended, and what is wrong with that.
Attempt = Callable[[int], tuple[str, list[str]]]


@pytest.fixture
def assert_clean(record_property: Any) -> Callable[[str, Iterable[int], Attempt], None]:
    """Try cases one after the other, and fail with all that is wrong."""

    def check(kind: str, cases: Iterable[int], attempt: Attempt) -> None:
        outcomes: Counter[str] = Counter()
        wrong: list[str] = []
        for case in cases:
            outcome, faults = attempt(case)
            outcomes[outcome] += 1
            wrong += faults
        record_property("fuzzed", [kind, dict(outcomes)])
        assert not wrong, "\n".join(wrong)

    return check


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print how many cases of each kind ended how."""
    totals: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for outcome in ("passed", "failed"):
        for report in terminalreporter.getreports(outcome):
            for name, value in getattr(report, "user_properties", ()):
                if name == "fuzzed":
                    totals[value[0]].update(value[1])
    for kind, counts in sorted(totals.items()):
        ends = ", ".join(f"{count} {end}" for end, count in sorted(counts.items()))
        terminalreporter.write_line(f"fuzzed {kind}: {counts.total()} cases: {ends}")
