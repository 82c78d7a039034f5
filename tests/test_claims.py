"""A net under the words: what README, findings and summaries say is in the committed tables."""

from __future__ import annotations

import dataclasses
import json
import re
import shlex
from pathlib import Path

import numpy as np
import page_claims
import pytest
import readme_claims

import deqcli
from deqcli import study
from deqcli.cli.studies import StudyCommand
from deqcli.reproduction import presets, summary
from deqcli.reproduction.running import Outcome
from deqcli.runs import tables
from deqcli.runs.result import Result

ROOT = Path(__file__).parents[1]
TEXTS = [(ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "docs/findings.md")]

#: Sections whose numbers are in no committed table, and why.
UNBACKED = {
    "Twins on real data": "held-out distances, which tests/test_twins.py measures anew",
    "Speed": "ratios of one machine, which `deqcli bench` measures anew",
}
#: Sections that say how to use the program, not what was found.
MANUAL = {"Install and use", "Where to go on"}
#: Statements of README and findings that no table backs: what things are, how they were made and
#: where to find them. One that is new or changed is looked at when it is entered here.
EXPLANATIONS = Path(__file__).with_name("explanations.txt").read_text(encoding="utf-8").splitlines()

#: Numbers that name something: a figure, a theorem, an equation, an exponent of a rate.
NAMES = re.compile(
    r"!\[[^\]]*\]\([^)]*\)|`[^`]*`|\]\([^)]*\)"
    r"|(Figure|Theorem|Corollary|Lemma|p\.)s? ?\d+( \([a-z, ]+\))?|\(\d\)(-\(\d\))?"
    r"|[nm]\^[(−-]*1/[24]\)?|0-1 |section \d\.\d|§\d+|[αβγκλστψ]̃?[ab]?[0-9²]|\$[^$]+\$"
)
COMPARING = re.compile(
    r"\b(near(er)?|closer|farther|faster|slower|better|worse|larger|smaller|(do(es)? not )?holds?"
    r"|agrees?|differs?|fails?|(un)?decided|explain(s|ed)|reached|exactly like|(match|equal)s? exactly"
    r"|beats?|refuted|twice|everywhere)\b"
)


def split(text: str) -> list[str]:
    """Return the statements of a text: rows of tables whole, else sentences."""
    lines = [line.strip() for line in text.splitlines()]
    rows = [line for line in lines if line.startswith("|")]
    rest = "\n".join(line for line in lines if not line.startswith("|"))
    sentences = re.split(r"(?<=[.:!?*])\s+(?=[A-Z`*\"σ])|\n+", rest)
    return [*rows, *(each.strip() for each in sentences if each.strip())]


def speaks_of_results(statement: str) -> bool:
    """Tell whether a statement has a number that is no name, or compares."""
    plain = NAMES.sub("", statement)
    return bool(re.search(r"\d", plain) or COMPARING.search(plain))


def sections() -> dict[str, str]:
    """Return README and findings by heading, without code; the top of the README has none."""
    parts = {}
    for number, text in enumerate(TEXTS):
        top, *others = re.sub(r"```.*?```", "", text, flags=re.DOTALL).split("\n## ")
        if not number:
            parts[""] = top
        for part in others:
            heading, _, body = part.partition("\n")
            parts[heading] = body
    return parts


def unbacked(text: str, statements: list[str]) -> list[str]:
    """Return the statements of a text that speak of results and that no rule makes."""
    known = {each for statement in statements for each in split(statement)}
    return [each for each in split(text) if speaks_of_results(each) and each not in known]


def test_every_section_is_known():
    assert set(sections()) == {*readme_claims.SECTIONS, *UNBACKED, *MANUAL}


@pytest.mark.parametrize("heading", readme_claims.SECTIONS, ids=lambda heading: heading or "top")
def test_what_is_said_is_made_by_rule(heading):
    text = sections()[heading]
    if heading == "Against the papers":
        # The table is that of the summary (tests/test_readme.py).
        text = "\n".join(line for line in text.splitlines() if not line.startswith("|"))
    assert not unbacked(text, readme_claims.SECTIONS[heading]())


@pytest.mark.parametrize("heading", readme_claims.SECTIONS, ids=lambda heading: heading or "top")
def test_what_the_rules_make_is_said(heading):
    said = split(sections()[heading])
    rules = readme_claims.SECTIONS[heading]()
    assert [each for rule in rules for each in split(rule) if each not in said] == []


def test_every_statement_is_a_rule_or_a_known_explanation():
    rules = {
        each
        for make in readme_claims.SECTIONS.values()
        for statement in make()
        for each in split(statement)
    }
    papers = {row for row in split(sections()["Against the papers"]) if row.startswith("|")}
    told = [
        each
        for heading, text in sections().items()
        if heading not in UNBACKED
        for each in split(text)
        if each not in rules | papers
    ]
    assert sorted(set(told) - set(EXPLANATIONS)) == []
    assert sorted(set(EXPLANATIONS) - set(told)) == []


@pytest.mark.parametrize(
    "sentence",
    [
        "Ours is nearer by four orders of magnitude.",
        "The distance is 0.23.",
        "The claim holds up to the paper's width.",
        "| wider layers train faster | 1.18 times | holds |",
        "Both agree with n = 250.",
    ],
)
def test_a_sentence_that_no_table_backs_is_found(sentence):
    text = f"Something harmless.\n{sentence}\n"
    assert unbacked(text, ["The distance is 0.24."]) == [sentence]
    assert not unbacked(text, [sentence])


@pytest.mark.parametrize(
    "sentence",
    ["See `deqcli errata --n 100` for more.", "It is drawn in Figure 1 (left).", "Like n^-1/2."],
)
def test_names_are_no_numbers(sentence):
    assert not speaks_of_results(sentence)


@pytest.mark.parametrize("name", page_claims.PAGES)
def test_other_pages_say_what_rules_make_and_no_more(name):
    text = re.sub(r"(```|\$\$).*?\1", "", page_claims.page(name), flags=re.DOTALL)
    rules = page_claims.PAGES[name]()
    assert not unbacked(text, rules)
    said = set(split(text))
    assert [each for rule in rules for each in split(rule) if each not in said] == []


def test_the_measured_number_of_the_commands_page():
    (sentence,) = page_claims.commands()
    assert sentence in page_claims.page("commands.md")


@pytest.mark.parametrize("folder", ["results", "results/quick"])
def test_summaries_are_their_tables(folder):
    path = ROOT / folder
    table = summary.read(path)
    assert (path / "summary.md").read_text(encoding="utf-8") == summary.markdown(table)


def recorded(preset: presets.Preset, folder: Path) -> Result:
    record = summary.reading.record(folder, preset.stem)
    assert record is not None
    return Result(
        preset.study.name, preset.stem, preset.settings, "done", 1, 0, 0, record=record,
        _table=tables.read(folder / f"{preset.stem}.csv"),
    )  # fmt: skip


@pytest.mark.parametrize(("folder", "size"), [("results", "standard"), ("results/quick", "quick")])
@pytest.mark.parametrize("name", presets.names())
def test_summaries_say_what_the_tables_do(name, folder, size, monkeypatch):
    """Each number again from its committed table, each verdict and each word by the rules."""
    preset = presets.sized(presets.load(name), size)
    old = summary.read(ROOT / folder)
    result = recorded(preset, ROOT / folder)
    command = preset.study.command_line(preset.settings, preset.stem, Path(folder))
    short = "; ".join(preset.study.shortcomings(result.findings))
    reason = f"Finished with shortcomings: {short}." if short else ""
    # Other seeds are not run again: their intervals are those of the summary.
    monkeypatch.setattr(summary, "intervals", lambda *_: {})
    again = summary.rows(Outcome(preset, "done", command, reason, result), old)
    said = old.query("preset == @name").reset_index(drop=True)
    numbers = ["ours", "interval"]
    for column in numbers:
        values = again[column].astype(float).tolist()
        assert said[column].tolist() == pytest.approx(values, rel=1e-9, abs=1e-15, nan_ok=True)
    words = [frame.drop(columns=numbers).fillna("") for frame in (said, again)]
    assert words[0].to_dict("records") == words[1].to_dict("records")


def test_numbers_of_a_preset_are_those_of_the_results():
    """ICLR Figure 1 (right): what the open scale of the images makes of the distance."""
    text = " ".join(presets.load("iclr/figure-1-right").figure.open.split())
    here, unit = (
        readme_claims.findings(f"iclr-figure-1-right{end}")["distances"]["exact"]
        for end in ("", "-unit")
    )
    assert f"gives {here['distance']:.2f} of a norm of {here['norm']:.1f}" in text
    assert f"samples of norm 1 each give {unit['distance']:.2f}," in text


@pytest.mark.slow
def test_the_scale_at_which_a_printed_distance_is_met(real_data, monkeypatch):
    monkeypatch.setenv("DEQCLI_DATA_DIR", str(real_data))
    data = deqcli.load("mnist", classes=[6, 8], n=6000, select="first", preprocess="centred")
    X = data.X / np.sqrt(3)
    scalars = deqcli.implicit_scalars(
        "tanh", sigma_a2=0.1, tau0=deqcli.estimate_statistics(X, data.y).tau0
    )
    exact = deqcli.implicit_kernels(X, scalars.act, sigma_a2=0.1).preactivation_ck
    closed = deqcli.equivalent(X, data.y, scalars, kernel="preactivation-ck")
    distance = deqcli.operator_distance(exact, closed)
    text = " ".join(presets.load("iclr/figure-1-right").figure.open.split())
    assert f"a mean squared norm of 1/3 gives {distance:.2f})" in text


@pytest.mark.parametrize(
    "path",
    sorted((ROOT / "results").rglob("*.json")),
    ids=lambda path: f"{path.parent.name}-{path.stem}",
)
def test_the_recorded_command_has_the_recorded_settings(path):
    """A default that was changed since would make another result of the same command."""
    record = json.loads(path.read_text(encoding="utf-8"))
    _, name, *arguments = shlex.split(record["command"])
    chosen = study.get(name)
    given = StudyCommand(chosen).make_context(name, arguments).params
    known = {field.name for field in dataclasses.fields(chosen.settings)}
    settings = chosen.settings(**{key: value for key, value in given.items() if key in known})
    assert json.loads(json.dumps(settings.identity())) == record["settings"]
    assert (name, given["name"]) == (record["study"], path.stem)
