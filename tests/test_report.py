"""The page: all in one file, and as a browser shows it."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pandas as pd
import pytest
from deqcli.reproduction.quantities import QUANTITIES
from deqcli.studies.errata_claims import CLAIMS
from PIL import Image

from deqcli import presets
from deqcli.errors import InputError
from deqcli.report.page import _KINDS, build, collect
from deqcli.reproduction import summary
from deqcli.studies.errata import ERRATA

PRESENT = ("iclr/figure-1-left", "icml/error-vs-n", "errata/printed-forms")


def record(name: str) -> dict:
    errata = {
        key: {"sizes": [250, 4000], "printed_errors": [0.5, 0.75], "right_errors": [0.1, 0.025],
              "right_slope": -0.5}
        for key in ERRATA
    }  # fmt: skip
    claims = {key: {"evidence": f"{key} was measured."} for key in CLAIMS}
    empirical = {"networks": 60, "width": 2000, "printed_relative": 0.51, "right_relative": 0.015}
    return {
        "command": f"deqcli spectrum --act 'a<b' --name {name} --out '/some/where else' "
        + "--long-option value " * 12,
        "deqcli": "1.2.3",
        "environment": {
            "blas": [], "commit": {"revision": "c" * 40, "dirty": True},
            "cpu": {"model": "CPU", "count": 2}, "packages": {"numpy": "2.0", "distributed": None},
            "platform": "Linux", "python": "CPython 3.11",
        },
        "outputs": {f"{name}.csv": "a" * 64},
        "results": {"errata": errata, "empirical_ntk": empirical, "claims": claims},
        "seed": 0,
        "spec": {"act": "tanh", "n": 800, "sizes": [250, 4000], "trials": 3},
        "spec_hash": "b" * 64,
        "timings": {"points": 61.5, "jobs": 2},
    }  # fmt: skip


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> Path:
    """A folder with three figures, and a preset that was skipped."""
    out = tmp_path_factory.mktemp("results")
    for name in PRESENT:
        stem = presets.load(name).stem
        (out / f"{stem}.json").write_text(json.dumps(record(stem)))
        (out / f"{stem}.csv").write_text("a\n1\n")
        Image.new("RGB", (2100, 1200), "teal").save(out / f"{stem}.png")
    rows = [
        ("iclr/figure-1-left", "‖G* − Ḡ‖", "0.12", 0.0828, 0.002, "differs", "The width is open."),
        ("icml/error-vs-n", "slope, relu", "−1/2 or steeper", -0.55, 0.004, "agrees", None),
        ("icml/error-vs-n", "slope, tanh", None, -0.6, None, "paper does not say", None),
        ("gen/figure-1", None, None, None, None, "skipped", "mnist is incomplete: " + "x" * 200),
    ]
    names = ("preset", "quantity", "paper", "ours", "spread", "verdict", "note")
    table = pd.DataFrame(rows, columns=list(names))
    table["figure"] = [presets.load(name).title for name in table["preset"]]
    table = table.assign(cut=["n p", None, None, None], command="deqcli")
    table["spec_hash"] = ["b" * 64] * 3 + [None]
    table[list(summary.COLUMNS)].to_csv(out / "summary.csv", index=False)
    return out


@pytest.fixture(scope="module")
def page(results) -> str:
    return build(results)


class Links(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        if "id" in attributes:
            self.ids.append(attributes["id"])
        self.links += [attributes[key] for key in ("href", "src") if key in attributes]
        if tag not in ("meta", "link", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_page_is_one_file_whose_links_all_lead_somewhere(page):
    parsed = Links(page)
    assert parsed.open == []
    assert len(set(parsed.ids)) == len(parsed.ids)
    targets = [link.removeprefix("#") for link in parsed.links if link.startswith("#")]
    assert set(targets) <= set(parsed.ids)
    assert all(link.startswith(("#", "data:")) for link in parsed.links)
    assert "url(" not in page
    assert "@import" not in page


def test_pictures_are_inside(page, results):
    pictures = re.findall(r"data:image/png;base64,([A-Za-z0-9+/=]+)", page)
    whole = (results / "iclr-figure-1-left.png").read_bytes()
    assert len(pictures) == len(PRESENT)
    assert base64.b64decode(pictures[0]) == whole
    assert 'width="2100" height="1200"' in page


def test_page_has_captions_verdicts_commands_and_provenance(page):
    assert presets.load("iclr/figure-1-left").about[:40] in page
    assert page.count("This run is smaller than that: n, p.") == 1
    assert "0.083 ± 0.002" in page
    assert '<span class="verdict differs">differs</span>' in page
    assert "The width is open." in page
    assert "deqcli spectrum --act &#39;a&lt;b&#39;" in page
    assert "b" * 64 in page
    assert f"<dd>{'c' * 12}</dd>" in page
    assert presets.load("gen/figure-1").title in page


def test_every_erratum_is_there_with_its_evidence(page):
    for entry in (ERRATA | CLAIMS).values():
        assert f"<strong>{entry.where}</strong>" in page
    for name in CLAIMS:
        assert f"{name} was measured." in page
    assert "means of norm 2 (theirs have 8" in page
    assert "Here n = 250, 4000; 3 trial(s) each." in page
    assert page.count("printed 0.5 → 0.75, right 0.1 → 0.025 (slope −0.50)") == len(ERRATA)
    assert "G/(1 − Ġ) is 51% off, Θ 1.5%" in page
    assert "printed κ² and β3 are not measured" in page


@pytest.fixture
def folder(results, tmp_path) -> Path:
    """The same folder, to be changed."""
    return shutil.copytree(results, tmp_path / "results")


def change(folder: Path, column: str, values: object) -> str:
    """Return the page of a folder with other values in a column of its summary."""
    table = pd.read_csv(folder / "summary.csv", dtype=str)
    table[column] = values
    table.to_csv(folder / "summary.csv", index=False)
    return build(folder)


def rewrite(folder: Path, change) -> None:
    for path in folder.glob("*.json"):
        path.write_text(json.dumps(change(json.loads(path.read_text()))))


def test_summary_of_another_run_is_not_shown(folder):
    page = change(folder, "spec_hash", ["d" * 64, *["b" * 64] * 2, None])
    assert "0.0828" not in page
    # In the table of verdicts, and beside the figure.
    assert page.count("summary is of another run; run deqcli reproduce") == 2
    assert "This run is smaller" not in page
    assert "−0.550 ± 0.004" in page
    assert "1 × agrees" in page


def test_numbers_of_a_run_that_is_not_there_are_not_shown(folder):
    names = ["hld/figure-1-ck", *["icml/error-vs-n"] * 2, "gen/figure-1"]
    page = change(folder, "preset", names)
    assert "0.0828" not in page
    assert page.count("in the summary, but not in this folder") == 1


def test_pictures_are_described_and_commands_are_for_any_machine(page):
    (first, *_) = re.findall(r'alt="([^"]+)"', page)
    about = presets.load("iclr/figure-1-left").about
    assert about.startswith(first.split(",")[0][:20])
    assert first.endswith(".")
    assert len(first) < len(about)
    assert "/some/where" not in page
    assert "--name iclr-figure-1-left --long-option value" in page


def test_errata_without_their_run_say_so(results, tmp_path):
    for path in results.glob("icml*"):
        shutil.copy(path, tmp_path)
    page = build(tmp_path)
    assert "Not measured in this folder" in page
    assert "There is no summary" in page


def test_every_preset_has_a_place_on_the_page():
    assert set(QUANTITIES) == set(presets.names())


MARKER = 'x"><script>alert(9)</script>'


def marked(value: object, keys: bool) -> object:
    """Return JSON with the marker for every string, or a second time under a marked key."""
    if isinstance(value, dict):
        same = {key: marked(item, keys) for key, item in value.items()}
        return same | {f"{key}{MARKER}": item for key, item in same.items() if keys}
    if isinstance(value, list):
        return [marked(item, keys) for item in value]
    return MARKER if isinstance(value, str) and not keys else value


def assert_inert(page: str, seen: bool = True) -> None:
    """Nothing of the marker is markup; escaped it shows, unless it is not meant to be seen."""
    # A part of the marker would do: some texts are cut.
    assert 'x"><' not in page
    assert page.count("<script") == 1
    assert set(re.findall(r'class="verdict ([^"]*)"', page)) <= {*_KINDS, "silent"}
    assert ("x&#34;&gt;&lt;script&gt;" in page) == seen
    assert Links(page).open == []


@pytest.mark.parametrize("column", summary.COLUMNS)
def test_no_cell_of_the_summary_is_markup(folder, column):
    if column == "spec_hash":
        rewrite(folder, lambda record: record | {"spec_hash": MARKER})
    if column in ("ours", "spread"):
        with pytest.raises(InputError, match=r"cannot be used: .* not two numbers"):
            change(folder, column, MARKER)
        return
    # Titles and commands are taken from presets and records, where there are any.
    assert_inert(change(folder, column, MARKER), column not in ("preset", "figure", "command"))
    if column == "figure":
        assert_inert(change(folder, "preset", MARKER))


@pytest.mark.parametrize("keys", [False, True])
def test_no_text_and_no_key_of_a_record_is_markup(folder, keys):
    rewrite(folder, lambda record: marked(record, keys))
    pd.DataFrame({MARKER: [MARKER]}).to_csv(folder / "icml-error-vs-n.csv")
    assert_inert(build(folder))
    facts = [text for entry in collect(folder).entries for text in entry.provenance.values()]
    # Keys are in packages, files and settings; texts in these and in five more.
    assert sum("<script>" in text for text in facts) == (3 if keys else 8) * len(PRESENT)


def test_no_text_of_a_preset_is_markup(results, monkeypatch):
    load = presets.load
    texts = {"title": MARKER, "about": MARKER}
    monkeypatch.setattr(presets, "load", lambda name: replace(load(name), **texts))
    assert_inert(build(results))


@pytest.mark.parametrize("key", sorted(set(record("")) - {"results", "spec_hash"}))
@pytest.mark.parametrize("value", [None, "text", [], 10**400])
def test_a_record_that_lacks_something_says_so(folder, key, value):
    def lacking(record):
        return {k: v for k, v in (record | {key: value}).items() if (k, v) != (key, None)}

    rewrite(folder, lacking)
    page = build(folder)
    # A version, a seed or a command may well be a text, and settings anything.
    if value is None or key in ("environment", "timings", "outputs"):
        assert "not recorded" in page
    assert Links(page).open == []


EMPTY = {"sizes": [], "printed_errors": "x", "right_errors": [], "right_slope": ""}


@pytest.mark.parametrize(
    "value", [None, [], "text", {"errata": 3}, {"errata": dict.fromkeys(ERRATA, EMPTY)}]
)
def test_results_of_any_shape(folder, value):
    rewrite(folder, lambda record: record | {"results": value, "spec_hash": []})
    assert build(folder).count("Not measured in this folder") == len(ERRATA | CLAIMS)


@pytest.mark.parametrize(
    ("column", "value"),
    [("ours", "about 3"), ("spread", "-1"), ("spread", "inf"), ("spread", "5e-324")],
)
def test_a_number_that_is_none_is_an_error(folder, column, value):
    with pytest.raises(InputError, match=r"summary.csv cannot be used: iclr/figure-1-left has"):
        change(folder, column, value)


def test_empty_verdicts_and_presets(folder):
    page = change(folder, "verdict", None)
    assert '<span class="verdict silent">not recorded</span>' in page
    assert Links(change(folder, "preset", None)).open == []


def test_broken_pictures_and_half_characters(folder):
    (folder / "iclr-figure-1-left.png").write_bytes(b"GIF89a")
    (folder / "icml-error-vs-n.png").unlink()
    rewrite(folder, lambda record: record | {"command": "deqcli \ud800"})
    page = build(folder)
    assert page.count("is missing or broken") == 2
    assert "deqcli ?" in page


def test_folders_that_cannot_be_read(folder):
    with pytest.raises(InputError, match="read: File name too long; give other `results`"):
        build(folder / ("x" * 300))
    nested = "[" * 10**5 + "]" * 10**5
    (folder / "icml-error-vs-n.json").write_text(nested)
    with pytest.raises(InputError, match=r"cannot be read: .*recursion"):
        build(folder)


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.skip("chromium is not installed")
    home = tmp_path_factory.mktemp("home")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=program, headless=True, args=["--no-sandbox"],
            env={**os.environ, "HOME": str(home)},
        )  # fmt: skip
        yield browser
        browser.close()


@pytest.fixture
def show(chromium, page, tmp_path):
    """Return a function that opens the page, or another text; nothing may be complained of."""
    path, complaints = tmp_path / "report.html", []

    def shown(width: int, scheme: str = "light", text: str = page):
        path.write_text(text, encoding="utf-8")
        screen = {"width": width, "height": 900}
        tab = chromium.new_page(viewport=screen, color_scheme=scheme, is_mobile=width < 800)
        for event in ("console", "pageerror", "requestfailed", "dialog"):
            tab.on(event, lambda said: complaints.append(str(said)))
        tab.on("request", lambda r: r.url[:5] in ("data:", "file:") or complaints.append(r.url))
        tab.goto(path.as_uri())
        return tab

    shown.complaints = complaints
    yield shown
    assert complaints == []


WHITE = "rgb(255, 255, 255)"


def background(tab) -> str:
    return tab.evaluate("getComputedStyle(document.body).backgroundColor")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 768, 390, 320])
def test_browser_shows_all_figures_without_sideways_scrolling(show, width, scheme):
    tab = show(width, scheme)
    sizes = tab.evaluate("[...document.images].map(i => [i.complete, i.naturalWidth])")
    assert sizes == [[True, 2100]] * len(PRESENT)
    assert (background(tab) == WHITE) == (scheme == "light")
    assert tab.evaluate("innerWidth") == width
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    # Nothing may be cut off by a box of its own either.
    wide = "[...document.querySelectorAll('.wide')].every(b => b.scrollWidth <= b.clientWidth + 1)"
    assert width > 640 or tab.evaluate(wide)
    # Figures keep a size at which their text can be read, and scroll in their box.
    plots = "[...document.querySelectorAll('.plot')].map(b => [b.scrollWidth, b.clientWidth])"
    for whole, seen in tab.evaluate(plots):
        assert whole >= 640
        assert seen <= width
    tab.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert tab.evaluate("document.documentElement.scrollWidth") <= width


def test_dark_and_light_follow_the_button(show):
    tab = show(1280, "dark")
    dark = background(tab)
    tab.click("#theme")
    assert background(tab) == WHITE
    # The choice outlives the page, and wins over the system's.
    tab.reload()
    assert background(tab) == WHITE
    tab.click("#theme")
    assert background(tab) == dark


def test_policy_keeps_a_script_from_running_that_is_not_the_pages_own(show, page):
    tab = show(1280, text=page.replace("<main>", "<main><script>document.title = 9</script>"))
    assert tab.title() != "9"
    assert "Content Security Policy" in show.complaints.pop()
