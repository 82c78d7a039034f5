from __future__ import annotations

from pathlib import Path

import pytest

from deqcli import misprints
from deqcli.false_claims import CLAIMS
from deqcli.misprints import ERRATA


@pytest.fixture
def results(deqcli, monkeypatch):
    monkeypatch.setattr(misprints, "NETWORKS", 2)
    monkeypatch.setattr(misprints, "WIDTH", 100)
    done = deqcli("-q", "errata", "--n", "32,64", "--trials", "1", "--name",
                  "errata-printed-forms", "-j", "1")  # fmt: skip
    assert done.code == 0
    return Path("results")


def test_report_of_a_real_run(deqcli, results):
    done = deqcli("report")
    assert done.code == 0, done.err
    assert done.out.split() == ["results/report.html"]
    page = Path("results/report.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert page.count("data:image/png;base64,") == 1
    # Every erratum with what is printed, what is right and what was measured.
    for entry in (ERRATA | CLAIMS).values():
        assert f"<strong>{entry.where}</strong>" in page
    assert page.count("Error at n = 32 → 64") == len(ERRATA)
    assert "simulated networks of width 100" in page
    assert "deqcli errata --n 32,64 --trials 1 --name errata-printed-forms" in page
    assert "ReLU has E φ&#39;&#39; = 0.4" in page
    assert "Here n = 32, 64; 1 trial(s) each." in page


def test_report_goes_where_asked_and_is_the_same_again(deqcli, results):
    assert deqcli("report", "--out", "new/page.html").code == 0
    first = Path("new/page.html").read_bytes()
    assert deqcli("report", "--out", "new/page.html").code == 0
    assert Path("new/page.html").read_bytes() == first


def test_empty_folder_says_what_to_run(deqcli):
    Path("results").mkdir()
    done = deqcli("report")
    assert done.code == 2
    assert "deqcli reproduce all --quick" in done.err
    assert not Path("results/report.html").exists()
    assert len(done.err.strip().splitlines()) == 1


def test_no_folder_and_a_folder_of_quick_results_say_what_to_do(deqcli):
    done = deqcli("report")
    assert done.code == 2
    assert done.err.strip().splitlines() == [
        "error: There is no folder results; run: deqcli reproduce all --quick."
    ]
    Path("results/quick").mkdir(parents=True)
    Path("results/quick/icml-h-tanh.json").write_text("{}")
    done = deqcli("report")
    assert done.code == 2
    assert "give results/quick as --results, or run" in done.err


def test_help_has_an_example(deqcli):
    done = deqcli("report", "--help")
    assert done.code == 0
    assert "deqcli report --results results/quick" in done.out
