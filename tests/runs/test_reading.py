"""A result is read back as the run returned it, or one sentence says what is wrong."""

import copy
import hashlib
import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import deqcli
from deqcli.errors import DeqcliError, InputError
from deqcli.study import get

SMALL = {
    "n": 30, "p": 40, "estimator": "exact", "kernel": "ntk", "jobs": 1, "name": "small.1",
}  # fmt: skip
RESULTS = Path(__file__).parents[2] / "results"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    return deqcli.run("spectrum", **SMALL, out=folder)


@pytest.fixture
def folder(made, tmp_path):
    for path in made.paths:
        shutil.copy(path, tmp_path)
    return tmp_path


def test_what_a_run_returned_is_read_back(made):
    there = made.paths[0].parent
    for name in ("small.1.csv", "small.1.json", "small.1"):
        read = deqcli.read(there / name)
        pd.testing.assert_frame_equal(read.table, made.table)
        assert read.settings == made.settings
        assert read.findings == made.findings
        assert read.record == made.record
        assert (read.study, read.stem, read.points) == ("spectrum", "small.1", made.points)
        assert read.reused == made.points
        assert set(read.paths) == set(made.paths)
        assert read.status == "already done"
    assert len(read.figure().axes) == len(made.figure().axes)
    # What makes the reader needed: the table alone has fewer columns.
    lacking = set(made.table) - set(pd.read_csv(there / "small.1.csv"))
    assert {"act", "kernel", "sigma_a2"} <= lacking


def test_renamed_files_and_lost_figures_are_read_too(folder, made):
    (folder / "small.1.png").unlink()
    for ending in ("csv", "json"):
        (folder / f"small.1.{ending}").rename(folder / f"mine.{ending}")
    read = deqcli.read(str(folder / "mine.csv"))
    pd.testing.assert_frame_equal(read.table, made.table)
    assert read.paths == (folder / "mine.json",)


@pytest.mark.parametrize(
    ("study", "options"),
    [
        ("spectrum", {"estimator": "exact"}),
        ("match", {"design": 0}),
        ("error-vs-n", {"n": "10,20", "trials": 1}),
    ],
)
def test_the_samples_may_be_gone(tmp_path, study, options):
    rng = np.random.default_rng(0)
    samples = tmp_path / "own.npz"
    np.savez(samples, X=rng.standard_normal((40, 10)), y=np.arange(40) % 2)
    made = deqcli.run(
        study, data=str(samples), out=tmp_path, name="own", formats=(), jobs=1, **options
    )
    samples.unlink()
    read = deqcli.read(tmp_path / "own.csv")
    pd.testing.assert_frame_equal(read.table, made.table)
    assert read.settings == replace_unchecked(made.settings, data="own.npz")
    assert read.points == made.points
    assert read.memory > 0
    assert read.figure().axes


def replace_unchecked(settings, **changes):
    changed = copy.copy(settings)
    for name, value in changes.items():
        object.__setattr__(changed, name, value)
    return changed


@pytest.mark.parametrize(
    "path", ["nothing.csv", "", ".", "..", "a\0b", "\udce9", "a" * 3000, "small.1.png", "x/y.csv"]
)
def test_no_table(folder, path, monkeypatch):
    monkeypatch.chdir(folder)
    with pytest.raises(InputError, match=r"`path` is .*; give the CSV of a finished run"):
        deqcli.read(path)


@pytest.mark.parametrize("path", [None, 3, b"small.1.csv", ["small.1.csv"]])
def test_no_path(path):
    with pytest.raises(InputError, match=r"`path` is .*; give the CSV of a finished run"):
        deqcli.read(path)


def test_a_table_without_its_record(folder):
    (folder / "small.1.json").unlink()
    with pytest.raises(InputError, match=r"no small\.1\.json beside it .* pandas\.read_csv"):
        deqcli.read(folder / "small.1.csv")


def test_a_table_of_another_run(folder):
    with (folder / "small.1.csv").open("a") as file:
        file.write("exact,99,1.0,False,,,\n")
    with pytest.raises(InputError, match=r"small\.1\.csv cannot be used: it is not the table that"):
        deqcli.read(folder / "small.1.csv")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"settings": None}, "no mapping 'settings'"),
        ({"outputs": ["small.1.csv"]}, "no mapping 'outputs'"),
        ({"timings": 3}, "no mapping 'timings'"),
        ({"timings": {"peak_bytes": "many"}}, "invalid literal"),
        ({"study": "spektrum"}, "there is no study 'spektrum'; did you mean spectrum"),
        ({"study": ["spectrum"]}, "there is no study"),
        ({"settings": {"neurons": 3}}, "unknown key 'neurons'"),
        ({"settings": {"n": "many"}}, "`n`"),
        ({"findings": 3}, "its findings are no mapping"),
        ({"constants": [{"by": 0}]}, "the constants of its record are not of this table"),
        ({"constants": [1]}, "the constants of its record are not of this table"),
        ({"constants": None}, "the constants of its record are not of this table"),
        ({"findings": {"a": {"b": [{}]}}}, "there is no 'distances' in it"),
    ],
)
def test_a_record_of_something_else(folder, change, reason):
    path = folder / "small.1.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(InputError, match=r"cannot be used: .*; delete it, or") as caught:
        deqcli.read(path)
    assert reason in str(caught.value)
    assert str(caught.value).endswith(".")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"constants": [1]}, "the constants of its record are not of this table"),
        ({"constants": None}, "the constants of its record are not of this table"),
        ({"findings": {"a": {"b": [{}]}}}, "there is no 'distances' in it"),
    ],
)
def test_a_run_that_finds_a_damaged_record_is_a_sentence(folder, change, reason):
    """One of before, which says nothing of what it holds."""
    change = change | {"found_hash": None}
    path = folder / "small.1.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(
        InputError, match=r"small\.1\.(json|csv) cannot be used: .*`force`\.$"
    ) as told:
        deqcli.run("spectrum", **SMALL, out=folder).sentences  # noqa: B018
    assert reason in str(told.value)
    assert deqcli.run("spectrum", **SMALL, out=folder, force=True).status == "done"


@pytest.mark.parametrize("key", ["constants", "findings"])
def test_a_number_that_was_changed_in_a_record_is_computed_again(folder, made, key, caplog):
    path = folder / "small.1.json"
    kept = json.loads(path.read_text())
    if key == "constants":
        part = kept["constants"][0]
        part["values"][0][part["names"].index("sigma_a2")] = 100
    else:
        kept["findings"]["mine"] = 100
    path.write_text(json.dumps(kept))
    with pytest.raises(InputError, match=r"json cannot be used: its findings or constants were"):
        deqcli.read(path)
    again = deqcli.run("spectrum", **SMALL, out=folder)
    assert again.status == "done"
    assert "computed again" in caplog.text
    pd.testing.assert_frame_equal(again.table, made.table)
    assert again.findings == made.findings


@pytest.mark.parametrize("figure", [True, False])
@pytest.mark.parametrize("text", ["", "eigenvalue\n", "a,b\n1,2\n", b"\xff\xfe", "index\nmany\n"])
def test_a_damaged_table_with_the_right_checksum_is_a_sentence(folder, text, figure):
    """Its figure is drawn again, or asked for."""
    table, record = folder / "small.1.csv", folder / "small.1.json"
    table.write_bytes(text if isinstance(text, bytes) else text.encode())
    kept = json.loads(record.read_text())
    kept["outputs"][table.name] = hashlib.sha256(table.read_bytes()).hexdigest()
    record.write_text(json.dumps(kept))
    if not figure:
        (folder / "small.1.png").unlink()
    for make in (
        lambda: deqcli.run("spectrum", **SMALL, out=folder).figure(),
        lambda: deqcli.read(table).figure(),
    ):
        with pytest.raises(InputError, match=r"small\.1\.csv cannot be used: .*`force`\.$"):
            make()


def test_someone_elses_files(tmp_path):
    pd.DataFrame({"a": [1]}).to_csv(tmp_path / "mine.csv")
    (tmp_path / "mine.json").write_text('{"a": 1}')
    with pytest.raises(InputError, match=r"mine\.json cannot be used: there is no 'findings'"):
        deqcli.read(tmp_path / "mine.csv")


@pytest.mark.skipif(not RESULTS.is_dir(), reason="committed results are not beside the tests")
def test_every_committed_result_is_read_with_all_its_columns():
    records = sorted(RESULTS.rglob("*.json"))
    assert len(records) > 40
    for path in records:
        read = deqcli.read(path.with_suffix(".csv"))
        assert list(read.table) == read.record["columns"]
        assert not read.table.empty
        # What the same settings give today: no result is older than its study.
        assert read.record["version"] == get(read.study).version, path


@pytest.mark.parametrize("broken", ["[" * 100_000, '{"a":' * 100_000])
def test_a_record_that_is_nested_too_deep_is_a_sentence(folder, broken):
    (folder / "small.1.json").write_text(broken)
    with pytest.raises(InputError, match=r"small\.1\.json"):
        deqcli.read(folder / "small.1.csv")


def test_figures_show_dollars_of_names_as_they_are(made):
    """Text between dollars would be read as a formula, and most of it is none."""
    table = made.table.assign(data=r"a$\frac{$b.csv")
    table["carries"] = table["carries"].where(table["carries"].isna(), r"class $\frac{$")
    figure = get("spectrum").draw(table)
    assert figure._repr_png_().startswith(b"\x89PNG")
    (legend,) = figure.legends
    assert r"a\$\frac{\$b.csv" in legend.get_title().get_text()


def test_findings_that_are_none_are_no_finished_run(folder):
    path = folder / "small.1.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"findings": [1]}))
    with pytest.raises(DeqcliError, match=r"small\.1"):
        deqcli.run(
            "spectrum", n=30, p=40, estimator="exact", kernel="ntk", jobs=1, out=folder,
            name="small.1",
        )  # fmt: skip
