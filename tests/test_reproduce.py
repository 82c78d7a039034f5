"""Verdicts, running presets, and the summary; runs are played by a function where they are slow."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from deqcli import study
from deqcli.errors import InputError, RunConflictError, RunError
from deqcli.quantities import Claim, Measured, Printed, Quantity, verdict
from deqcli.reproduction import presets, running, summary
from deqcli.reproduction.presets import FigureText, Preset
from deqcli.runs import files, reading
from deqcli.runs.parallel import Failure
from deqcli.runs.result import Result

RESULTS = Path(__file__).parent.parent / "results"


def judge(paper, value, spread=None, cut=()):
    quantity = Quantity("q", "a number", lambda run: Measured(0.0), paper, needs=("n", "p"))
    return verdict(quantity, Measured(value, spread), cut)


@pytest.mark.parametrize(
    ("text", "value", "spread", "expected"),
    [
        ("0.12", 0.124, None, "agrees"),
        ("0.12", 0.126, None, "differs"),
        ("0.12", 0.135, 0.011, "agrees"),
        ("0.12", 0.135, 0.009, "differs"),
        ("2", 2.4, None, "agrees"),
        ("-0.50", -0.5049, None, "agrees"),
    ],
)
def test_printed_numbers_agree_within_their_last_digit_and_an_interval(
    text, value, spread, expected
):
    assert judge(Printed(text), value, spread) == expected


@pytest.mark.parametrize(
    ("value", "spread", "expected"),
    [(-0.5, None, "agrees"), (-0.44, None, "differs"), (-0.6, 0.2, "undecided"),
     (-0.3, 0.2, "undecided"), (-0.7, 0.2, "agrees"), (-0.2, 0.2, "differs"),
     (-0.45, 0.0, "agrees")],
)  # fmt: skip
def test_claims(value, spread, expected):
    assert judge(Claim("steep", most=-0.45), value, spread) == expected


def test_nothing_is_compared_with_a_run_too_small_for_it():
    assert judge(Printed("0.12"), 0.12, cut=("n",)) == "not compared: smaller run"
    assert judge(Printed("0.12"), 0.12, cut=("trials",)) == "agrees"
    assert judge(Claim("small", most=1.0), 0.5, cut=("n",)) == "not compared: smaller run"
    assert judge(Claim("small", most=1.0), 0.5, cut=("trials",)) == "agrees"
    assert judge(None, 0.5, cut=("n",)) == "paper does not say"


def preset_of(name: str, study_name: str, figure: FigureText, **options: object) -> Preset:
    chosen = study.get(study_name)
    return Preset(name, chosen, chosen.settings(**options), figure)


ICML = FigureText("ICML slides", about="About.")
PRESET = preset_of("icml/h-tanh", "match", ICML, act="tanh", sigma_a2=0.1, n=700)
FINDINGS = {
    "matched_distance": 2.0,
    "matched_relative": 0.01,
    "plain_relative": 0.5,
    "matched_scaled": 0.02,
    "plain_scaled": 0.3,
}
OURS = list(FINDINGS.values())


class Played:
    """Stands for :func:`deqcli.runs.execute.run`: writes what a run leaves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[tuple[int, int | None]] = []
        self.findings: dict[str, object] = {}
        self.error: Exception | None = None
        self.bad_seed: int | None = None
        monkeypatch.setattr(running, "run", self)

    def __call__(self, study, settings, *, out=None, name="", jobs=None, **options) -> Result:
        self.calls.append((settings.seed, jobs))
        if self.error:
            raise self.error
        if settings.seed == self.bad_seed:
            raise RunError("the seed is bad.")
        findings = {"feasible": True, **FINDINGS, "matched_relative": 0.01 * (1 + settings.seed)}
        findings |= self.findings
        record = {"study": study, "findings": findings, "hash": f"hash of n = {settings.n}"}
        # The other seeds of an interval leave nothing.
        assert (out is None) == (settings.seed > 0)
        if out is not None:
            files.write_json(out / f"{name}.json", record)
            files.write_csv(out / f"{name}.csv", pd.DataFrame({"a": [1]}))
        return Result(study, name, settings, "done", 1, 0, 0, record=record)


@pytest.fixture
def played(monkeypatch):
    return Played(monkeypatch)


def test_rows_have_the_interval_over_five_seeds_and_the_command(tmp_path, played):
    shown = Path("my results/quick")
    outcome = running.reproduce(PRESET, tmp_path, jobs=2, shown=shown)
    assert (outcome.status, outcome.code, outcome.reason) == ("done", 0, "")
    table = summary.rows(outcome, summary.read(tmp_path), jobs=2)
    assert table["ours"].tolist() == OURS
    # 0.01, 0.02 … 0.05: a deviation of √2.5/100, and t of four degrees of freedom is 2.7764.
    assert table["interval"].tolist() == pytest.approx(
        [0.0, 0.027764 * 5**0.5, 0.0, 0.0, 0.0], rel=1e-4
    )
    assert table["verdict"].tolist() == ["paper does not say"] * len(OURS)
    assert set(table["hash"]) == {"hash of n = 700"}
    assert set(table["command"]) == {
        "deqcli match --act tanh --sigma-a2 0.1 --n 700 --name icml-h-tanh --out 'my results/quick'"
    }
    assert played.calls == [(seed, 2) for seed in range(5)]
    written = sorted(path.name for path in tmp_path.iterdir())
    assert written == ["icml-h-tanh.csv", "icml-h-tanh.json"]


def test_printed_numbers_and_notes_of_the_preset_are_in_the_rows(tmp_path, played):
    figure = FigureText(
        "ICML", printed={"matched_distance": "2.1"}, notes={"matched_distance": "Open."}
    )
    outcome = running.reproduce(replace(PRESET, figure=figure), tmp_path)
    first = summary.rows(outcome, summary.empty()).iloc[0]
    assert (first["paper"], first["verdict"], first["note"]) == ("2.1", "differs", "Open.")
    smaller = replace(outcome, preset=replace(outcome.preset, cut=("n",)))
    first = summary.rows(smaller, summary.empty()).iloc[0]
    assert (first["cut"], first["verdict"]) == ("n", "not compared: smaller run")


def test_summary_keeps_intervals_and_the_rows_of_other_presets(tmp_path, played):
    first = running.reproduce(PRESET, tmp_path)
    old = summary.read(tmp_path)
    summary.write(tmp_path, [summary.rows(first, old)], old)
    calls = len(played.calls)
    old = summary.read(tmp_path)
    again = summary.rows(first, old)
    assert len(played.calls) == calls
    assert again["interval"].tolist() == pytest.approx([0.0, 0.06208, 0.0, 0.0, 0.0], rel=1e-3)
    sphere = preset_of("hld/figure-1-ck", "match", FigureText("HLD"), act="nrelu", data="sphere")
    unknown = preset_of("mine/figure", "match", FigureText("Mine"))
    for preset in (unknown, sphere):
        old = summary.read(tmp_path)
        outcome = running.reproduce(preset, tmp_path)
        summary.write(tmp_path, [summary.rows(outcome, old)], old)
    table = summary.read(tmp_path)
    # In the order of the figures, whatever was run last.
    assert list(dict.fromkeys(table["preset"])) == ["hld/figure-1-ck", "icml/h-tanh", "mine/figure"]
    text = (tmp_path / "summary.md").read_text(encoding="utf-8")
    assert "| ICML slides | ‖G − Σ‖/‖G‖, twin |  | 0.01 ± 0.06 | paper does not say |" in text
    assert "* icml/h-tanh: `deqcli match --act tanh" in text


def test_other_settings_measure_the_interval_again(tmp_path, played):
    outcome = running.reproduce(PRESET, tmp_path)
    empty = summary.read(tmp_path)
    summary.write(tmp_path, [summary.rows(outcome, empty)], empty)
    calls = len(played.calls)
    larger = replace(PRESET, settings=replace(PRESET.settings, n=900))
    summary.rows(running.reproduce(larger, tmp_path), summary.read(tmp_path))
    assert len(played.calls) == calls + 5


def test_interval_comes_from_other_seeds_only_where_a_run_is_one_draw():
    one_draw = {name for name in presets.names() if running.is_one_draw(presets.load(name))}
    assert one_draw == {
        "hld/figure-1-ck", "hld/figure-1-ntk", "iclr/figure-1-left", "iclr/figure-2-gmm",
        "iclr/figure-2-gmm-printed",
        "icml/h-tanh", "icml/l-relu",
    }  # fmt: skip
    preset = presets.load("iclr/figure-1-left")
    # The networks are not simulated again.
    assert preset.study.reseeded(preset.settings, 2).estimator == ("exact",)
    assert preset.study.reseeded(preset.settings, 2).seed == 2


def test_failure_and_missing_data_are_rows_with_a_reason(tmp_path, monkeypatch, played):
    monkeypatch.setenv("DEQCLI_DATA_DIR", str(tmp_path / "nothing"))
    mnist = preset_of("gen/figure-1", "flow", FigureText("GEN"), data="mnist", classes="0,1")
    skipped = running.reproduce(mnist, tmp_path)
    assert skipped.status == "skipped"
    assert "deqcli data fetch mnist" in skipped.reason
    assert played.calls == []
    played.error = RunConflictError("made otherwise")
    failed = running.reproduce(PRESET, tmp_path)
    assert (failed.status, failed.reason) == ("failed", "made otherwise")
    old = summary.read(tmp_path)
    summary.write(tmp_path, [summary.rows(each, old) for each in (failed, skipped)], old)
    table = summary.read(tmp_path)
    assert set(table["verdict"]) == {"failed", "skipped"}
    assert "skipped. mnist is incomplete" in (tmp_path / "summary.md").read_text(encoding="utf-8")


def test_a_finished_result_is_read_without_its_data(tmp_path, monkeypatch):
    monkeypatch.setenv("DEQCLI_DATA_DIR", str(tmp_path / "nothing"))
    preset = presets.sized(presets.load("iclr/figure-3-a"), "quick")
    for path in (RESULTS / "quick").glob(f"{preset.stem}.*"):
        shutil.copy(path, tmp_path)
    outcome = running.reproduce(preset, tmp_path)
    assert (outcome.status, outcome.result.status) == ("done", "already done")
    assert (tmp_path / f"{preset.stem}.png").is_file()
    assert running.reproduce(preset, tmp_path, force=True).status == "skipped"


@pytest.mark.parametrize(("name", "halves"), [("flow", True), ("match", False)])
def test_only_what_tests_needs_the_test_samples(name, halves, monkeypatch, tmp_path):
    from deqcli.data import folder

    wanted = []
    monkeypatch.setattr(folder, "locate", lambda source, half, place: wanted.append(half))
    preset = preset_of("a/b", name, FigureText(""), data="mnist", classes="0,1")
    assert running.missing_data(preset) == ""
    assert ("test" in wanted) == halves
    assert "train" in wanted


def test_mistake_of_ours_costs_only_one_preset(tmp_path, played):
    played.error = ZeroDivisionError("a mistake")
    outcome = running.reproduce(PRESET, tmp_path)
    assert outcome.status == "failed"
    assert outcome.reason == "ZeroDivisionError: a mistake; its command alone with -v shows where"


def test_run_that_leaves_points_has_failed(tmp_path, monkeypatch):
    failure = Failure("deq", "RunError", "no memory")
    monkeypatch.setattr(
        running, "run",
        lambda study, settings, **options: Result(
            study, "stem", settings, "incomplete", 3, 2, 0, failures=(failure,)
        ),
    )  # fmt: skip
    outcome = running.reproduce(PRESET, tmp_path)
    assert (outcome.status, outcome.code) == ("failed", 3)
    assert "the same command tries them again" in outcome.reason
    assert summary.rows(outcome, summary.empty())["verdict"].tolist() == ["failed"]


def test_exit_code_of_a_finished_run_is_kept_with_its_reason(tmp_path, played):
    played.findings = {"feasible": False}
    outcome = running.reproduce(PRESET, tmp_path)
    reason = "Finished with shortcomings: no exact match; the nearest network is shown."
    assert (outcome.status, outcome.code, outcome.reason) == ("done", 3, reason)
    table = summary.rows(outcome, summary.empty())
    # Its table counts.
    assert table["ours"].tolist() == OURS
    assert table["note"].tolist() == [reason] * len(OURS)


@pytest.mark.parametrize(
    ("name", "findings", "expected"),
    [
        ("flow", {"runs": [{"width": 9, "trial": 1, "end": "contraction lost", "lost": True},
                           {"width": 20, "trial": 0, "end": "steps done", "lost": False}]},
         ["width 9, trial 1: contraction lost"]),
        ("accuracy", {"stopped": {"deq width=8 trial=0": "stopped: overflow"}},
         ["deq width=8 trial=0: stopped: overflow"]),
        ("match", {"feasible": False}, ["no exact match; the nearest network is shown"]),
        ("match", {"feasible": False, "match": {"limit": 0.02, "distance": 2e-4}},
         ["no exact match; the nearest network is shown"]),
        ("match", {"feasible": False, "match": {"limit": 0.02, "distance": 0.3}},
         ["no match within 0.02; the nearest network is shown"]),
        ("match", {"feasible": False, "verdict": "By the equations of ICLR Corollary 2."},
         ["no exact match"]),
        ("match", {"feasible": True}, []),
        ("spectrum", {"monte_carlo": {"realizations": 40, "not_converged": {"3": "stalled"}}},
         ["1 of 40 realizations did not converge and were left out"]),
        ("spectrum", {}, []),
        ("error-vs-n", {}, []),
        ("errata", {}, []),
    ],
)  # fmt: skip
def test_shortcomings_of_each_study(name, findings, expected):
    assert list(study.get(name).shortcomings(findings)) == expected


@pytest.mark.parametrize(
    ("ends", "expected", "code"),
    [
        (["contraction lost"], ["contraction lost"], 0),
        (["contraction lost", "stalled"], ["contraction lost"], 3),
        (["contraction lost", "stalled"], ["contraction lost", "stalled"], 0),
        (["contraction lost"], [], 3),
    ],
)
def test_what_a_preset_expects_is_no_failure(tmp_path, played, ends, expected, code):
    runs = [{"width": 9, "trial": k, "end": end, "lost": True} for k, end in enumerate(ends)]
    played.findings = {"runs": runs}
    preset = preset_of("gen/figure-1", "flow", FigureText("GEN", expected=expected), n=30)
    outcome = running.reproduce(preset, tmp_path)
    assert (outcome.status, outcome.code) == ("done", code)
    said = "; ".join(f"width 9, trial {k}: {end}" for k, end in enumerate(ends))
    assert outcome.reason == f"Finished with shortcomings: {said}."


def test_bad_seed_costs_only_the_interval(tmp_path, played):
    played.bad_seed = 2
    outcome = running.reproduce(PRESET, tmp_path)
    table = summary.rows(outcome, summary.empty())
    assert table["ours"].tolist() == OURS
    assert table["interval"].isna().all()
    assert table["note"].tolist() == ["No interval: the seed is bad."] * len(OURS)


@pytest.mark.parametrize(
    ("value", "said"),
    [("x", "Not measured: TypeError: "), (float("nan"), "Not measured: it is nan."),
     (None, "Not measured: TypeError: ")],
)  # fmt: skip
def test_number_that_cannot_be_measured_costs_only_itself(tmp_path, monkeypatch, value, said):
    played = Played(monkeypatch)
    played.findings = {"matched_relative": value}
    monkeypatch.setattr(files, "write_json", lambda path, value: None)
    outcome = running.reproduce(PRESET, tmp_path)
    table = summary.rows(outcome, summary.empty())
    silent = "paper does not say"
    assert table["verdict"].tolist() == [silent, "failed", *[silent] * 3]
    assert said in table["note"][1]
    assert table["ours"][2] == 0.5
    assert table["interval"][2] == 0.0
    summary.write(tmp_path, [table], summary.empty())
    assert "| – | failed. Not measured" in (tmp_path / "summary.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "broken",
    ["", '{"findings": {', "{}", "[1]", "\xff", '{"findings": 3, "hash": "", "study": ""}'],
)
def test_broken_record_is_named_with_the_remedy(tmp_path, played, broken):
    assert reading.record(tmp_path, "icml-h-tanh") is None
    running.reproduce(PRESET, tmp_path)
    assert reading.record(tmp_path, "icml-h-tanh")["findings"]["plain_relative"] == 0.5
    (tmp_path / "icml-h-tanh.json").write_bytes(broken.encode("latin-1"))
    with pytest.raises(InputError, match=r"icml-h-tanh\.json cannot be used: .*; delete it, or"):
        reading.record(tmp_path, "icml-h-tanh")


@pytest.mark.parametrize("broken", ["{}", "\xff"])
def test_broken_record_costs_only_one_preset(tmp_path, broken):
    preset = replace(PRESET, settings=replace(PRESET.settings, n=30, p=40))
    assert running.reproduce(preset, tmp_path, jobs=1).status == "done"
    (tmp_path / "icml-h-tanh.json").write_bytes(broken.encode("latin-1"))
    outcome = running.reproduce(preset, tmp_path, jobs=1)
    assert outcome.status == "failed"
    assert "`force`" in outcome.reason
    assert running.reproduce(preset, tmp_path, jobs=1, force=True).status == "done"


@pytest.mark.parametrize("broken", ["", "a,b\n1,2,3\n4\n5,6,7,8\n"])
def test_broken_table_is_named_with_the_remedy(tmp_path, played, broken):
    running.reproduce(PRESET, tmp_path)
    (tmp_path / "icml-h-tanh.csv").write_text(broken)
    with pytest.raises(InputError, match=r"icml-h-tanh\.csv cannot be used: .*; delete it, or"):
        reading.table(tmp_path / "icml-h-tanh.csv")


@pytest.mark.parametrize("broken", ["", "preset,figure\nicml/h-tanh,ICML\n"])
def test_broken_summary_is_not_an_empty_one(tmp_path, broken):
    (tmp_path / "summary.csv").write_text(broken)
    with pytest.raises(InputError, match=r"summary\.csv cannot be used: .*; delete it, or"):
        summary.read(tmp_path)


def test_minus_signs_are_those_of_the_text_in_markdown_and_plain_in_the_table(tmp_path):
    row = {"preset": "icml/h-tanh", "figure": "F", "quantity": "q", "ours": -0.5, "interval": 6e-5,
           "verdict": "agrees", "command": "deqcli match"}  # fmt: skip
    table = pd.DataFrame([row], columns=list(summary.COLUMNS))
    summary.write(tmp_path, [table], summary.empty())
    assert "| −0.50000 ± 0.00006 |" in (tmp_path / "summary.md").read_text(encoding="utf-8")
    assert ",-0.5,6e-05," in (tmp_path / "summary.csv").read_text(encoding="utf-8")
