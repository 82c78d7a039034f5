"""The page: all in one file, and as a browser shows it."""

from __future__ import annotations

import base64
import itertools
import json
import os
import re
import shutil
import struct
import subprocess
import zlib
from contextlib import contextmanager
from html.parser import HTMLParser
from pathlib import Path

import pandas as pd
import pytest

from deqcli import presets
from deqcli.errors import InputError
from deqcli.report.errata import ENTRIES, evidence
from deqcli.report.page import build
from deqcli.reproduction import summary
from deqcli.reproduction.quantities import QUANTITIES
from deqcli.studies.errata import ERRATA
from deqcli.studies.errata_claims import CLAIMS

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
PRESENT = ("iclr/figure-1-left", "icml/error-vs-n", "errata/printed-forms")


def png(width: int, height: int) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        check = struct.pack(">I", zlib.crc32(kind + data))
        return struct.pack(">I", len(data)) + kind + data + check

    rows = b"".join(b"\0" + b"\x40\x80\xc0" * width for _ in range(height))
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


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
        (out / f"{stem}.png").write_bytes(png(2100, 1200))
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
    found = Links(page)
    assert found.open == []
    assert len(set(found.ids)) == len(found.ids)
    targets = [link.removeprefix("#") for link in found.links if link.startswith("#")]
    assert set(targets) <= set(found.ids)
    assert all(link.startswith(("#", "data:")) for link in found.links)
    assert "url(" not in page
    assert "@import" not in page


def test_pictures_are_inside(page, results):
    pictures = re.findall(r"data:image/png;base64,([A-Za-z0-9+/=]+)", page)
    whole = (results / "iclr-figure-1-left.png").read_bytes()
    assert len(pictures) == len(PRESENT)
    assert base64.b64decode(pictures[0]) == whole
    assert 'width="2100" height="1200"' in page


def test_page_has_captions_verdicts_commands_and_provenance(page):
    preset = presets.load("iclr/figure-1-left")
    assert preset.about[:40] in page
    assert page.count("This run is smaller than that: n, p.") == 1
    assert "0.083 ± 0.002" in page
    assert '<span class="verdict differs">differs</span>' in page
    assert "The width is open." in page
    assert "deqcli spectrum --act &#x27;a&lt;b&#x27;" in page
    assert "b" * 64 in page
    assert "c" * 12 + " and changes" in page
    assert presets.load("gen/figure-1").title in page


def test_every_erratum_is_there_with_its_evidence(page):
    assert set(ENTRIES) == set(ERRATA) | set(CLAIMS)
    for entry in ENTRIES.values():
        assert f"<strong>{entry.where}</strong>" in page
    for name in CLAIMS:
        assert f"{name} was measured." in page
    assert "means of norm 2 (theirs have 8" in page
    assert "Here n = 250, 4000; 3 trial(s) each." in page
    assert page.count("printed 0.5 → 0.75, right 0.1 → 0.025 (slope −0.50)") == len(ERRATA)
    assert "G/(1 − Ġ) is 51% off, Θ 1.5%" in page
    assert "printed κ² and β3 are not measured" in page


def test_claims_of_an_older_run_fall_back_to_prose():
    for name in CLAIMS:
        assert evidence(name, {"errata": {}}) == evidence(name, None)
        assert evidence(name, {"errata": {}}).endswith(".")


def copy(results: Path, to: Path, change: str, value: object) -> str:
    """Return the page of the same folder with another column in its summary."""
    for path in results.iterdir():
        shutil.copy(path, to)
    table = pd.read_csv(to / "summary.csv")
    table[change] = value
    table.to_csv(to / "summary.csv", index=False)
    return build(to)


def test_summary_of_another_run_is_not_shown(results, tmp_path):
    page = copy(results, tmp_path, "spec_hash", ["d" * 64, *["b" * 64] * 2, None])
    assert "0.0828" not in page
    # In the table of verdicts, and beside the figure.
    assert page.count("summary is of another run; run deqcli reproduce") == 2
    assert "This run is smaller" not in page
    assert "−0.550 ± 0.004" in page
    assert "1 × agrees" in page


def test_numbers_of_a_run_that_is_not_there_are_not_shown(results, tmp_path):
    page = copy(results, tmp_path, "preset", ["hld/figure-1-ck", *["icml/error-vs-n"] * 2,
                                              "gen/figure-1"])  # fmt: skip
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


def test_folder_without_results_is_an_error(tmp_path):
    with pytest.raises(InputError, match="deqcli reproduce"):
        build(tmp_path)


def test_every_preset_has_a_place_on_the_page():
    assert set(QUANTITIES) == set(presets.names())


class Browser:
    """Chromium over the DevTools protocol, through a pair of pipes."""

    def __init__(self, send: int, receive: int) -> None:
        self.send, self.receive, self.rest = send, receive, b""
        self.numbers = itertools.count(1)
        self.events: list[dict] = []
        self.attached: dict[str, str] = {}
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self.attached = {"sessionId": attached["sessionId"]}
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def read(self) -> dict:
        while b"\0" not in self.rest:
            data = os.read(self.receive, 1 << 20)
            assert data, "the browser went away"
            self.rest += data
        message, _, self.rest = self.rest.partition(b"\0")
        return json.loads(message)

    def call(self, method: str, **params) -> dict:
        message = {"id": next(self.numbers), "method": method, "params": params, **self.attached}
        os.write(self.send, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.read()
            if answer.get("id") == message["id"]:
                assert "error" not in answer, answer
                return answer["result"]
            self.events.append(answer)

    def wait(self, event: str) -> None:
        while not any(found.get("method") == event for found in self.events):
            self.events.append(self.read())

    def open(self, path: Path) -> None:
        self.events.clear()
        self.call("Page.navigate", url=path.as_uri())
        self.wait("Page.loadEventFired")

    def evaluate(self, expression: str):
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True,
                           awaitPromise=True, userGesture=True)  # fmt: skip
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def screen(self, width: int, height: int, mobile: bool) -> None:
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=mobile)  # fmt: skip

    def scheme(self, value: str) -> None:
        features = [{"name": "prefers-color-scheme", "value": value}]
        self.call("Emulation.setEmulatedMedia", features=features)

    def complaints(self) -> list[str]:
        bad = ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded",
               "Network.loadingFailed")  # fmt: skip
        return [str(event) for event in self.events if event.get("method") in bad]

    def requests(self) -> list[str]:
        return [
            event["params"]["request"]["url"]
            for event in self.events
            if event.get("method") == "Network.requestWillBeSent"
        ]


@contextmanager
def browser(folder: Path):
    there, send = os.pipe()
    receive, here = os.pipe()
    flags = (
        "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync "
        "--disable-background-networking --disable-component-update --disable-dev-shm-usage "
        f"--remote-debugging-pipe --user-data-dir={folder}/profile"
    )
    # Chromium reads from descriptor 3 and writes to 4.
    shell = f"exec {CHROMIUM} {flags} 3<&{there} 4>&{here}"
    child = subprocess.Popen(
        ["bash", "-c", shell], pass_fds=(there, here), stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, env={**os.environ, "HOME": str(folder)},
    )  # fmt: skip
    os.close(there)
    os.close(here)
    try:
        yield Browser(send, receive)
    finally:
        child.kill()
        child.wait()
        os.close(send)
        os.close(receive)


@pytest.fixture(scope="module")
def shown(page, tmp_path_factory):
    if CHROMIUM is None:
        pytest.skip("chromium is not installed")
    folder = tmp_path_factory.mktemp("browser")
    path = folder / "report.html"
    path.write_text(page, encoding="utf-8")
    with browser(folder) as found:
        yield found, path


BACKGROUND = "getComputedStyle(document.body).backgroundColor"


def test_browser_shows_all_figures_and_has_nothing_to_complain_of(shown):
    chromium, path = shown
    chromium.screen(1200, 900, mobile=False)
    chromium.open(path)
    sizes = chromium.evaluate("[...document.images].map(i => [i.complete, i.naturalWidth])")
    assert sizes == [[True, 2100]] * len(PRESENT)
    assert chromium.complaints() == []
    outside = [url for url in chromium.requests() if not url.startswith(("data:", "file:"))]
    assert outside == []


def test_contents_lead_to_their_sections(shown):
    chromium, path = shown
    chromium.screen(1200, 900, mobile=False)
    chromium.open(path)
    # Scrolling at once, so that the position can be read at once.
    chromium.evaluate("document.documentElement.style.scrollBehavior = 'auto'")
    tops = chromium.evaluate("""[...document.querySelectorAll('nav a')].map(link => {
        link.click();
        const end = document.documentElement.scrollHeight - innerHeight;
        const top = document.querySelector(link.getAttribute('href')).getBoundingClientRect().top;
        return Math.abs(top) < 2 || Math.abs(scrollY - end) < 2;
    })""")
    assert len(tops) > len(PRESENT)
    assert all(tops)
    assert chromium.evaluate("location.hash") != ""


@pytest.mark.parametrize("width", [320, 390, 768])
def test_no_sideways_scrolling(shown, width):
    chromium, path = shown
    chromium.screen(width, 800, mobile=True)
    chromium.open(path)
    assert chromium.evaluate("innerWidth") == width
    assert chromium.evaluate("document.documentElement.scrollWidth") <= width
    # Nothing may be cut off by a box of its own either.
    wide = "[...document.querySelectorAll('.wide')].every(b => b.scrollWidth <= b.clientWidth + 1)"
    assert width > 640 or chromium.evaluate(wide)
    # Figures keep a size at which their text can be read, and scroll in their box.
    plots = "[...document.querySelectorAll('.plot')].map(b => [b.scrollWidth, b.clientWidth])"
    for whole, seen in chromium.evaluate(plots):
        assert whole >= 640
        assert seen <= width
    chromium.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert chromium.evaluate("document.documentElement.scrollWidth") <= width


def test_dark_and_light_follow_the_reader_and_the_button(shown):
    chromium, path = shown
    chromium.screen(1200, 900, mobile=False)
    chromium.scheme("dark")
    chromium.open(path)
    dark = chromium.evaluate(BACKGROUND)
    chromium.evaluate("document.getElementById('theme').click()")
    light = chromium.evaluate(BACKGROUND)
    assert dark != light == "rgb(255, 255, 255)"
    # The choice outlives the page, and wins over the system's.
    chromium.open(path)
    assert chromium.evaluate(BACKGROUND) == light
    chromium.evaluate("document.getElementById('theme').click()")
    assert chromium.evaluate(BACKGROUND) == dark
    assert chromium.complaints() == []
    chromium.evaluate("localStorage.clear()")
    chromium.scheme("light")
    chromium.open(path)
    assert chromium.evaluate(BACKGROUND) == light
