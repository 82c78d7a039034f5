"""The page: all in one file, and as a browser shows it."""

from __future__ import annotations

import base64
import html
import json
import os
import re
import shutil
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pandas as pd
import pytest
from PIL import Image

from deqcli.errors import InputError
from deqcli.false_claims import CLAIMS
from deqcli.misprints import ERRATA, SETUP
from deqcli.report import page as pages
from deqcli.report.contents import KINDS, collect
from deqcli.report.page import build
from deqcli.reproduction import presets, summary
from deqcli.runs.execute import run

PRESENT = ("iclr/figure-1-left", "icml/error-vs-n", "errata/printed-forms")


#: As the study of the errata has them in its findings.
ENTRIES = [
    {"name": name, "where": entry.where, "printed": entry.printed, "right": entry.right,
     "evidence": f"{name} was measured: printed 0.596 → 0.668, right 0.117 → 0.0278."}
    for name, entry in (ERRATA | CLAIMS).items()
]  # fmt: skip


def record(name: str) -> dict:
    findings = {"entries": ENTRIES, "setup": SETUP} if name.startswith("errata") else {}
    return {
        "command": f"deqcli spectrum --act 'a<b' --name {name} --out '/some/where else' "
        + "--long-option value " * 12,
        "deqcli": "1.2.3",
        "environment": {
            "blas": [], "commit": {"revision": "c" * 40, "dirty": True},
            "cpu": {"model": "CPU", "count": 2}, "packages": {"numpy": "2.0", "distributed": None},
            "platform": "Linux", "python": "CPython 3.11",
        },
        "findings": findings,
        "hash": "b" * 64,
        "inputs": {},
        "outputs": {f"{name}.csv": "a" * 64},
        "schema": 2,
        "settings": {"act": "tanh", "n": 800, "sizes": [250, 4000], "trials": 3, "seed": 0},
        "study": "spectrum",
        "timings": {"points": 61.5, "jobs": 2},
        "version": 1,
    }  # fmt: skip


def place(out: Path, name: str) -> None:
    """Put a result of a preset into a folder."""
    stem = name.replace("/", "-")
    (out / f"{stem}.json").write_text(json.dumps(record(stem)))
    (out / f"{stem}.csv").write_text("a\n1\n")
    Image.new("RGB", (2100, 1200), "teal").save(out / f"{stem}.png")


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> Path:
    """A folder with three figures, and a preset that was skipped."""
    out = tmp_path_factory.mktemp("results")
    for name in PRESENT:
        place(out, name)
    rows = [
        ("iclr/figure-1-left", "‖G* − Ḡ‖", "0.12", 0.0828, 0.002, "differs", "The width is open."),
        ("icml/error-vs-n", "slope, relu", "−1/2 or steeper", -0.55, 0.004, "agrees", None),
        ("icml/error-vs-n", "slope, tanh", None, -0.6, None, "paper does not say", None),
        ("gen/figure-1", None, None, None, None, "skipped", "mnist is incomplete: " + "x" * 200),
    ]
    names = ("preset", "quantity", "paper", "ours", "interval", "verdict", "note")
    table = pd.DataFrame(rows, columns=list(names))
    table["figure"] = [presets.load(name).heading for name in table["preset"]]
    table = table.assign(cut=["n p", None, None, None], command="deqcli")
    table["hash"] = ["b" * 64] * 3 + [None]
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
        if tag not in ("meta", "link", "img", "input"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_page_is_one_file_whose_links_all_lead_somewhere(page, results):
    parsed = Links(page)
    assert parsed.open == []
    assert len(set(parsed.ids)) == len(parsed.ids)
    targets = [link.removeprefix("#") for link in parsed.links if link.startswith("#")]
    assert set(targets) <= set(parsed.ids)
    outside = [link for link in parsed.links if not link.startswith(("#", "data:"))]
    assert outside == [f"{name.replace('/', '-')}.csv" for name in PRESENT]
    assert all((results / link).is_file() for link in outside)
    assert "url(" not in page
    assert "@import" not in page


def test_what_a_killed_report_left_is_removed(results, tmp_path):
    left = tmp_path / f".report.{'0' * 16}.tmp.html", tmp_path / "report.html.lock"
    pdf = tmp_path / "report-pdf" / f".a.{'0' * 16}.tmp.pdf"
    pdf.parent.mkdir()
    for path in (*left, pdf):
        path.touch()
    pages.write(results, tmp_path / "report.html")
    assert {path.name for path in tmp_path.iterdir()} == {"report.html", "report-pdf"}
    assert not pdf.exists()


def test_pictures_are_inside(page, results):
    pictures = re.findall(r"data:image/png;base64,([A-Za-z0-9+/=]+)", page)
    whole = (results / "iclr-figure-1-left.png").read_bytes()
    assert len(pictures) == len(PRESENT)
    assert base64.b64decode(pictures[0]) == whole
    assert 'width="2100" height="1200"' in page


def test_page_has_captions_verdicts_commands_and_provenance(page):
    figure = presets.load("iclr/figure-1-left").figure
    assert figure.about[:40] in page
    assert figure.open[:60] in page
    assert page.count("This run is smaller than that: n, p.") == 1
    assert "0.083 ± 0.002" in page
    assert '<span class="verdict differs">differs</span>' in page
    assert "The width is open." in page
    assert "deqcli spectrum --act &#39;a&lt;b&#39;" in page
    assert "b" * 64 in page
    assert f"<dd>{'c' * 12}</dd>" in page
    assert presets.load("gen/figure-1").heading in page


def test_entries_of_a_study_are_a_table_above_its_figure(page):
    for entry in ENTRIES:
        assert page.count(f"<strong>{entry['where']}</strong>") == 1
        for key in ("printed", "right", "evidence"):
            assert html.escape(entry[key]).replace("&#x27;", "&#39;") in page
    places = [page.index(f"<strong>{entry['where']}</strong>") for entry in ENTRIES]
    assert places == sorted(places)
    assert page.index('<article id="errata-printed-forms" ') < places[0]
    assert places[-1] < page.index(f'<p class="note">{SETUP}</p>') < page.rindex("<img ")


def test_papers_have_their_titles_in_their_order(page):
    sections = re.findall(r'<section id="([a-z]+)"><h2><a [^>]*>([^<]+)</a>', page)
    assert [anchor for anchor, _ in sections] == ["iclr", "icml", "errata", "verdicts", "missing"]
    paper = presets.papers()["iclr"]
    assert sections[0][1] == f"ICLR: {paper.title} ({paper.venue})"
    # Without a venue there are no brackets.
    assert sections[2][1] == "Errata: What was found wrong in the papers"


@pytest.mark.parametrize("listed", [True, False])
def test_preset_of_an_unknown_paper_is_shown_under_the_name_of_its_folder(
    tmp_path, monkeypatch, listed
):
    root = shutil.copytree(presets.folder(), tmp_path / "experiments")
    (root / "aaa").mkdir()
    (root / "aaa" / "figure-7.toml").write_text(
        'study = "match"\n[figure]\ntitle = "Of nobody"\npage = 3\nabout = "What it shows."\n'
    )
    if not listed:
        (root / "papers.toml").unlink()
    monkeypatch.setattr(presets, "folder", lambda: root)
    assert (presets.names()[-1] == "aaa/figure-7") == listed
    for name in ("aaa/figure-7", "icml/h-tanh"):
        place(tmp_path, name)
    page = build(tmp_path)
    sections = re.findall(r'<section id="([a-z]+)"><h2><a [^>]*>([^<]+)</a>', page)[:-2]
    assert ("aaa", "aaa") in sections
    assert sections[-1][0] == ("aaa" if listed else "icml")
    assert '<a href="#aaa-figure-7">Of nobody, p. 3</a>' in page
    assert "<figcaption>What it shows.</figcaption>" in page


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
    page = change(folder, "hash", ["d" * 64, *["b" * 64] * 2, None])
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
    about = presets.load("iclr/figure-1-left").figure.about
    assert about.startswith(first.split(",")[0][:20])
    assert first.endswith(".")
    assert len(first) < len(about)
    assert "/some/where" not in page
    assert "--name iclr-figure-1-left --long-option value" in page


def test_what_was_not_run_says_so(results, tmp_path):
    for path in results.glob("icml*"):
        shutil.copy(path, tmp_path)
    page = build(tmp_path)
    missing = page[page.index('<section id="missing">') :]
    assert presets.load("errata/printed-forms").heading in missing
    assert missing.count("<li>") == len(presets.names()) - 1
    assert "There is no summary" in page


def test_what_the_paper_does_not_say_is_folded_away(page):
    folded = re.findall(
        r"<details><summary>([^<]+)</summary>\s*<div(.*?)</details>", page, re.DOTALL
    )
    assert [summary for summary, _ in folded] == [
        "1 × paper does not say",
        "Numbers of which the paper does not say anything",
    ]
    for _, rows in folded:
        assert "slope, tanh" in rows
        assert "slope, relu" not in rows
    assert page.index('<p class="lead">') < page.index("<article ") < page.index('id="verdicts"')


def test_runs_that_belong_to_no_preset_are_shown_after_the_papers(folder):
    place(folder, "my/run")
    place(folder, "older/run")
    place(folder, "another/program")
    findings = {"sources": {}, "law": {}}
    text = json.loads((folder / "my-run.json").read_text())
    (folder / "my-run.json").write_text(
        json.dumps(
            text | {"findings": run("spectrum", n=20, p=30, realizations=2, width=20).findings}
        )
    )
    (folder / "older-run.json").write_text(json.dumps(text | {"findings": findings}))
    (folder / "another-program.json").write_text(json.dumps(text | {"study": "cooking"}))
    (folder / "list.json").write_text("[1, 2]")
    page = build(folder)
    beyond = page[page.index('<section id="beyond">') : page.index('<section id="verdicts">')]
    assert re.findall(r'<article id="([^"]+)"', beyond) == ["beyond-my-run", "beyond-older-run"]
    assert "Eigenvalues of a DEQ&#39;s kernel and of its equivalent." in beyond
    assert "distance to the equivalent" in beyond
    assert "another-program" not in page


def test_links_lead_to_the_table_and_to_a_pdf_drawn_from_it(tmp_path, caplog):
    out = tmp_path / "results"
    run("match", act="tanh", sigma_a2=0.1, tau0=1.0, out=out, name="icml-h-tanh")
    place(out, "icml/error-vs-n")
    page = tmp_path / "pages" / "all #1.html"
    pages.write(out, page)
    # The other's table is none of its study.
    assert "icml-error-vs-n: no PDF" in caplog.text
    links = [x for x in Links(page.read_text(encoding="utf-8")).links if x[0] not in "#d"]
    assert links == [
        "../results/icml-error-vs-n.csv",
        "all%20%231-pdf/icml-h-tanh.pdf",
        "../results/icml-h-tanh.csv",
    ]
    for link in links:
        assert (page.parent / unquote(link)).is_file()
    pdf = page.parent / "all #1-pdf" / "icml-h-tanh.pdf"
    assert pdf.read_bytes().startswith(b"%PDF")
    # Drawn once, and again when its table is newer.
    pdf.write_bytes(b"mine")
    pages.write(out, page)
    assert pdf.read_bytes() == b"mine"
    os.utime(pdf, (0, 0))
    pages.write(out, page)
    assert pdf.read_bytes().startswith(b"%PDF")


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
    assert set(re.findall(r'class="verdict ([^"]*)"', page)) <= {*KINDS, "silent"}
    assert ("x&#34;&gt;&lt;script&gt;" in page) == seen
    assert Links(page).open == []


@pytest.mark.parametrize("column", summary.COLUMNS)
def test_no_cell_of_the_summary_is_markup(folder, column):
    if column == "hash":
        rewrite(folder, lambda record: record | {"hash": MARKER})
    if column in ("ours", "interval"):
        with pytest.raises(InputError, match=r"cannot be used: .* not two numbers"):
            change(folder, column, MARKER)
        return
    # Titles and commands are taken from presets and records, where there are any.
    assert_inert(change(folder, column, MARKER), column not in ("figure", "command"))
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
    figure = presets.FigureText(MARKER, about=MARKER, open=MARKER)
    monkeypatch.setattr(presets, "load", lambda name: replace(load(name), figure=figure))
    papers = {key: presets.Paper(MARKER, MARKER, MARKER) for key in presets.papers()}
    monkeypatch.setattr(presets, "papers", lambda: papers)
    assert_inert(build(results))


RESULTS = Path(__file__).parents[1] / "results"


def test_committed_results_make_a_page_that_a_phone_can_load():
    """Under 2 MB, with every picture of the folder; the page itself is made, not committed."""
    page = build(RESULTS)
    assert len(page.encode()) < 2e6
    assert page.count("data:image/png;base64,") == len(list(RESULTS.glob("*.png")))


def test_committed_results_are_small():
    """Constants are in records and pictures have few colours: 10 MB instead of 27."""
    made = ("report.html", ".pdf")
    files = [path for path in RESULTS.rglob("*.*") if not path.name.endswith(made)]
    assert sum(path.stat().st_size for path in files if path.is_file()) < 10e6


SHOWN = {"command", "deqcli", "environment", "outputs", "settings", "timings"}


@pytest.mark.parametrize("key", sorted(set(record("")) - {"findings", "hash", "study"}))
@pytest.mark.parametrize("value", [None, "text", [], 10**400])
def test_a_record_that_lacks_something_says_so(folder, key, value):
    def lacking(record):
        return {k: v for k, v in (record | {key: value}).items() if (k, v) != (key, None)}

    rewrite(folder, lacking)
    page = build(folder)
    # A version or a command may well be a text.
    if key in SHOWN - ({"command", "deqcli"} if value is not None else set()):
        assert "not recorded" in page
    assert Links(page).open == []


@pytest.mark.parametrize("key", ["findings", "hash", "study"])
def test_a_record_without_what_makes_it_one_is_an_error(folder, key):
    rewrite(folder, lambda record: {k: v for k, v in record.items() if k != key})
    with pytest.raises(InputError, match=rf"json cannot be used: there is no '{key}' in it"):
        build(folder)


@pytest.mark.parametrize(
    ("findings", "rows"),
    [
        ({"entries": 3}, 0),
        ({"entries": ["text", None, []]}, 0),
        ({"entries": [{}], "setup": []}, 1),
        ({"entries": [{"where": {"x": 1}, "evidence": None}], "setup": {"x": 1}}, 1),
    ],
)
def test_findings_of_any_shape(folder, findings, rows):
    rewrite(folder, lambda record: record | {"findings": findings, "hash": []})
    page = build(folder)
    assert page.count("<strong>") == rows * len(PRESENT)
    assert Links(page).open == []


@pytest.mark.parametrize("findings", [None, [], "text"])
def test_findings_that_are_none_are_an_error(folder, findings):
    rewrite(folder, lambda record: record | {"findings": findings})
    with pytest.raises(InputError, match="json cannot be used: its findings are no mapping"):
        build(folder)


@pytest.mark.parametrize(
    ("column", "value"),
    [("ours", "about 3"), ("interval", "-1"), ("interval", "inf"), ("interval", "5e-324")],
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
    assert page.count("The picture of iclr/figure-1-left is broken.") == 1
    assert page.count("No picture of icml/error-vs-n is kept; its PDF has the figure.") == 1
    assert "deqcli ?" in page


def test_folders_that_cannot_be_read(folder):
    with pytest.raises(InputError, match="read: File name too long; give other `results`"):
        build(folder / ("x" * 300))
    nested = "[" * 10**5 + "]" * 10**5
    (folder / "icml-error-vs-n.json").write_text(nested)
    with pytest.raises(InputError, match=r"cannot be used: it is nested too deep"):
        build(folder)


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    names = ("chromium", "chromium-browser", "google-chrome")
    program = next(filter(None, map(shutil.which, names)), None)
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
    # Figures fit; enlarged, they have a size at which their text can be read, and scroll in a box.
    plots = "[...document.querySelectorAll('.plot')].map(b => [b.scrollWidth, b.clientWidth])"
    assert all(whole <= seen <= width for whole, seen in tab.evaluate(plots))
    if width < 960:
        for button in tab.query_selector_all(".enlarge"):
            button.click()
        assert all(whole >= 960 and seen <= width for whole, seen in tab.evaluate(plots))
        assert tab.evaluate("document.documentElement.scrollWidth") <= width
        tab.click(".enlarge >> nth=0")
        (whole, seen), *_ = tab.evaluate(plots)
        assert whole <= seen
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


def test_filter_shows_what_has_every_word(show):
    tab = show(390)
    shown = """kind => [...document.querySelectorAll(kind + '[data-filter]')]
                       .filter(part => part.checkVisibility()).length"""
    everything = {kind: tab.evaluate(shown, kind) for kind in ("article", "tr", "li")}
    # One of the four numbers is folded away: the paper does not say.
    assert everything == {"article": 3, "tr": 3, "li": 6}
    tab.fill("#filter", "SLOPE")
    assert {kind: tab.evaluate(shown, kind) for kind in everything} == {
        "article": 1,
        "tr": 2,
        "li": 2,
    }
    assert tab.inner_text("#matches") == "figures: 1, numbers: 2"
    assert not tab.is_visible("#iclr")
    tab.fill("#filter", "slope differs")
    assert tab.inner_text("#matches") == "figures: 0, numbers: 0"
    assert not tab.is_visible("#verdicts")
    tab.fill("#filter", "")
    assert {kind: tab.evaluate(shown, kind) for kind in everything} == everything
    assert tab.inner_text("#matches") == ""


def test_policy_keeps_a_script_from_running_that_is_not_the_pages_own(show, page):
    tab = show(1280, text=page.replace("<main>", "<main><script>document.title = 9</script>"))
    assert tab.title() != "9"
    assert "Content Security Policy" in show.complaints.pop()
