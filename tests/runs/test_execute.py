import errno
import json
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from filelock import FileLock
from toy_study import Toy, ToySettings, run_toy

import deqcli
from deqcli.errors import InputError, RunConflictError, RunError
from deqcli.runs import execute, files, memory
from deqcli.runs.execute import run
from deqcli.runs.lock import hold

MEMORY = 600 * 10**6  # of one process, at the toy's size of 300


def results(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def total(processes, one=MEMORY):
    return one if processes == 1 else processes * one + memory.LIBRARIES


def forbidden(*_):
    raise AssertionError("this was computed before")


@pytest.fixture
def large(toy, monkeypatch):
    """Let the toy study say that it needs much memory."""
    monkeypatch.setattr(toy, "memory", lambda self, settings: 2 * 10**6 * settings.size)


@pytest.fixture
def finished(toy, monkeypatch):
    """Return a way to forbid all work but drawing."""

    def forbid():
        for name in ("prepare", "compute", "assemble"):
            monkeypatch.setattr(toy, name, forbidden)

    return forbid


def test_a_run_writes_its_files_and_nothing_else(tmp_path):
    out = tmp_path / "new" / "folder"
    result = run_toy(out, name=None, formats=("png", "pdf", "svg"), save=True)
    assert (result.status, result.exit_code, result.points, result.reused) == ("done", 0, 6, 0)
    suffixes = [path.suffix for path in result.paths]
    assert suffixes == [".csv", ".png", ".pdf", ".svg", ".npz", ".json"]
    assert sorted(result.paths) == sorted(out.iterdir())
    assert {path.stem for path in result.paths} == {result.stem}
    assert result.stem.startswith("toy-")
    record = json.loads(result.paths[-1].read_text())
    assert record == result.record
    assert (record["study"], record["version"], record["inputs"]) == ("toy", 1, {})
    expected = {"seed": 0, "size": 300, "trials": 6, "scale": 0.5, "save": True}
    assert record["settings"] == expected
    assert record["command"] == "deqcli toy --save"
    assert record["outputs"] == {path.name: files.sha256(path) for path in result.paths[:-1]}
    pd.testing.assert_frame_equal(result.table, files.read_csv(result.paths[0]))
    assert record["findings"]["largest"] == result.table["eigenvalue"].max()
    assert {blas["threads"] for blas in record["environment"]["blas"]} == {1}


def test_two_processes_write_the_same_bytes(whole, tmp_path):
    run_toy(tmp_path, jobs=2)
    for name in ("toy.csv", "toy.png"):
        assert results(tmp_path)[name] == whole[name]


def test_without_a_folder_the_numbers_are_the_same_and_no_file_stays(whole, tmp_path, monkeypatch):
    # The temporary store is made below this folder, so that what it leaves would be seen.
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    result = run_toy(None)
    assert (result.status, result.paths) == ("done", ())
    assert result.table.to_csv(index=False, lineterminator="\n").encode() == whole["toy.csv"]
    assert result.record["findings"] == json.loads(whole["toy.json"])["findings"]
    assert result.figure().axes
    assert list(tmp_path.iterdir()) == []


def test_with_a_folder_nothing_is_made_elsewhere(tmp_path, monkeypatch):
    """Which SIGKILL would leave there."""
    monkeypatch.setattr("tempfile.TemporaryDirectory", forbidden)
    assert run_toy(tmp_path).status == "done"


def test_settings_may_be_an_object_or_options(tmp_path):
    settings = ToySettings(size=20, trials=2)
    stems = {
        run(settings, jobs=1).stem,
        run("toy", settings, jobs=1).stem,
        run("toy", size=20, trials=2, jobs=1).stem,
        deqcli.run("toy", size="20", trials=2, jobs=1).stem,
    }
    assert len(stems) == 1
    with pytest.raises(InputError, match="either settings or single options"):
        run("toy", settings, size=30)
    with pytest.raises(InputError, match="either settings or single options"):
        run(settings, size=30)
    with pytest.raises(InputError, match="give one settings object"):
        run(settings, settings)
    with pytest.raises(InputError, match="`jobs` is 0; give a whole number at least 1"):
        run(settings, jobs=0)
    with pytest.raises(InputError, match="ToySettings is not of the study spectrum"):
        run("spectrum", settings)
    with pytest.raises(InputError, match="unknown key 'sise'; did you mean size"):
        run("toy", sise=3)


def test_a_finished_run_is_not_repeated(tmp_path, finished):
    first = run_toy(tmp_path)
    before = results(tmp_path)
    finished()
    result = run_toy(tmp_path)
    assert (result.status, result.reused) == ("already done", 6)
    assert [path.name for path in result.paths] == ["toy.csv", "toy.png", "toy.json"]
    assert results(tmp_path) == before
    pd.testing.assert_frame_equal(result.table, first.table)
    assert result.findings == first.findings


@pytest.mark.parametrize("left", [None, "toy.lock", "toy.parts"])
def test_a_finished_run_in_a_folder_that_cannot_be_written_to(tmp_path, monkeypatch, left):
    run_toy(tmp_path)
    if left is not None:
        (tmp_path / left).touch()
    before = results(tmp_path)

    def read_only(*arguments, **options):
        raise OSError(errno.EROFS, "Read-only file system")

    # Root may write anywhere, so that permissions would show nothing.
    monkeypatch.setattr(Path, "mkdir", read_only)
    monkeypatch.setattr(Path, "unlink", read_only)
    monkeypatch.setattr(Path, "write_bytes", read_only)
    monkeypatch.setattr(FileLock, "acquire", read_only)
    assert run_toy(tmp_path).status == "already done"
    with pytest.raises(RunError, match="cannot be written to; choose another `out`"):
        run_toy(tmp_path, force=True)
    assert results(tmp_path) == before


def test_missing_figures_are_redrawn_from_the_csv_alone(tmp_path, whole, finished):
    (tmp_path / "toy.csv").write_bytes(whole["toy.csv"])
    (tmp_path / "toy.json").write_bytes(whole["toy.json"])
    finished()
    result = run_toy(tmp_path, formats=("png", "svg"))
    assert result.status == "already done"
    assert results(tmp_path)["toy.png"] == whole["toy.png"]
    record = json.loads((tmp_path / "toy.json").read_text())
    assert record["outputs"]["toy.svg"] == files.sha256(tmp_path / "toy.svg")


def test_the_figure_sees_the_table_as_it_reads_back(tmp_path, toy, monkeypatch):
    seen = []
    draw = toy.draw
    monkeypatch.setattr(toy, "draw", lambda self, table: seen.append(table) or draw(self, table))
    run_toy(tmp_path)
    pd.testing.assert_frame_equal(seen[0], files.read_csv(tmp_path / "toy.csv"))


@pytest.mark.parametrize("change", ["edited", "removed"])
def test_a_changed_csv_is_computed_again(tmp_path, whole, change):
    for name, data in whole.items():
        (tmp_path / name).write_bytes(data)
    if change == "edited":
        (tmp_path / "toy.csv").write_bytes(whole["toy.csv"] + b"0,0,0\n")
    else:
        (tmp_path / "toy.csv").unlink()
    assert run_toy(tmp_path).status == "done"
    assert results(tmp_path)["toy.csv"] == whole["toy.csv"]


def break_trials(monkeypatch, broken):
    compute = Toy.compute

    def compute_or_fail(self, prepared, trial):
        if trial in broken:
            raise ArithmeticError(f"trial {trial} is broken")
        return compute(self, prepared, trial)

    monkeypatch.setattr(Toy, "compute", compute_or_fail)


def test_failed_points_are_told_kept_apart_and_tried_again(tmp_path, whole):
    with pytest.MonkeyPatch.context() as monkeypatch:
        break_trials(monkeypatch, (1, 4))
        result = run_toy(tmp_path)
    assert (result.status, result.exit_code, result.paths) == ("incomplete", 3, ())
    assert [failure.key for failure in result.failures] == ["trial 1", "trial 4"]
    with pytest.raises(RunError, match="the run toy has no table: trial 1: trial 1 is broken"):
        _ = result.table
    assert (result.findings, result.shortcomings) == ({}, ())
    assert [path.name for path in tmp_path.iterdir()] == ["toy.parts"]
    told = json.loads((tmp_path / "toy.parts" / "failures.json").read_text())
    assert told[0]["message"] == "trial 1 is broken"
    again = run_toy(tmp_path)
    assert (again.status, again.reused) == ("done", 4)
    assert results(tmp_path)["toy.csv"] == whole["toy.csv"]
    assert sorted(results(tmp_path)) == ["toy.csv", "toy.json", "toy.png"]


def test_shortcomings_of_a_finished_run_are_told_by_the_exit_code(tmp_path, toy, monkeypatch):
    monkeypatch.setattr(toy, "shortcomings", lambda self, findings: ["one did not converge"])
    for status in ("done", "already done"):
        result = run_toy(tmp_path, size=20)
        assert (result.status, result.exit_code) == (status, 3)


def test_truncated_parts_are_computed_again(tmp_path, whole):
    def stop(*_):
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(Toy, "assemble", stop)
        with pytest.raises(KeyboardInterrupt):
            run_toy(tmp_path)
    for part in sorted((tmp_path / "toy.parts").glob("trial*.npz"))[:2]:
        os.truncate(part, part.stat().st_size - 1)
    assert run_toy(tmp_path).reused == 4
    assert results(tmp_path)["toy.csv"] == whole["toy.csv"]


def test_other_settings_under_the_name_are_refused_unless_forced(tmp_path):
    run_toy(tmp_path)
    for dry_run in (False, True):
        with pytest.raises(RunConflictError, match="size is 300 there and 20 here"):
            run_toy(tmp_path, size=20, dry_run=dry_run)
    assert run_toy(tmp_path, size=20, formats=("pdf",), force=True).status == "done"
    # The other run's picture does not stay beside this table.
    assert sorted(results(tmp_path)) == ["toy.csv", "toy.json", "toy.pdf"]


def test_a_dry_run_counts_and_writes_nothing(tmp_path):
    out = tmp_path / "results"
    result = run_toy(out, jobs=2, dry_run=True)
    assert (result.status, result.points, result.reused) == ("dry run", 6, 0)
    assert result.memory == total(2, 1000)
    assert not out.exists()
    with pytest.MonkeyPatch.context() as monkeypatch:
        break_trials(monkeypatch, range(2, 6))
        run_toy(out)
    assert run_toy(out, dry_run=True).reused == 2
    assert run_toy(out, dry_run=True, force=True).reused == 0
    assert [path.name for path in out.iterdir()] == ["toy.parts"]
    run_toy(out)
    assert run_toy(out, dry_run=True).reused == 6


def test_memory_is_checked_for_all_processes_before_anything_is_written(
    tmp_path, monkeypatch, large
):
    monkeypatch.setattr(memory, "available_bytes", lambda: 10**9)
    said = r"`jobs` 2: 1\.33 GB .* 1 GB available; lower `size` or `jobs`\."
    with pytest.raises(InputError, match=said):
        run_toy(tmp_path / "results", jobs=2)
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    ("available", "processes"), [(10**9, 1), (2_000_000_000, 3), (10**11, 4), (None, 4)]
)
def test_jobs_left_open_are_as_many_as_fit(tmp_path, monkeypatch, large, available, processes):
    monkeypatch.setattr(memory, "available_bytes", lambda: available)
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    assert run_toy(tmp_path, jobs=None, dry_run=True).memory == total(processes)


def test_one_process_that_cannot_fit_is_refused(tmp_path, monkeypatch, large, whole):
    monkeypatch.setattr(memory, "available_bytes", lambda: 10**9)
    run_toy(tmp_path / "open", jobs=None)
    assert results(tmp_path / "open")["toy.csv"] == whole["toy.csv"]
    monkeypatch.setattr(memory, "available_bytes", lambda: 10**8)
    with pytest.raises(InputError, match=r"`jobs` 1: 600 MB .* 100 MB available; lower `size`\."):
        run_toy(tmp_path / "none", jobs=None)


def test_unknown_formats_are_refused_before_anything_is_written(tmp_path):
    with pytest.raises(InputError, match="`formats` has 'jpg'"):
        run_toy(tmp_path / "results", formats=("png", "jpg"))
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize("value", [pd.NA, 1, b"x", np.array([True, False])], ids=repr)
@pytest.mark.parametrize("name", ["name", "scheduler", "force", "dry_run", "progress", "out"])
def test_arguments_of_the_wrong_type_are_sentences(name, value):
    with pytest.raises(InputError, match=f"`{name}` is .*; give "):
        run("match", tau0=1.0, **{name: value})


def test_points_are_assembled_in_their_order_one_at_a_time(tmp_path, toy, monkeypatch):
    asked = []
    assemble = toy.assemble

    def watched(self, prepared, load):
        return assemble(self, prepared, lambda key: asked.append(key) or load(key))

    monkeypatch.setattr(toy, "assemble", watched)
    run_toy(tmp_path, jobs=2)
    assert asked == [f"trial {trial}" for trial in range(6)]


def test_inputs_are_prepared_once_for_all_points_and_the_table(tmp_path, toy, monkeypatch):
    calls = []
    monkeypatch.setattr(toy, "prepare", lambda self, settings: calls.append(1) or settings)
    assert run_toy(tmp_path, seed=1, size=20).status == "done"
    assert len(calls) == 1


def test_exports_are_written_and_never_over_another_text(tmp_path, toy, monkeypatch):
    monkeypatch.setattr(toy, "exports", lambda self, settings, prepare: {"-toy.py": "x = 1\n"})
    result = run_toy(tmp_path, size=20)
    assert result.paths[-1] == tmp_path / "toy-toy.py"
    assert result.paths[-1].read_text() == "x = 1\n"
    assert run_toy(tmp_path, size=20).status == "already done"
    result.paths[-1].write_text("mine")
    with pytest.raises(RunConflictError, match=r"toy-toy\.py exists and differs"):
        run_toy(tmp_path, size=20)
    run_toy(tmp_path, size=20, force=True)
    assert result.paths[-1].read_text() == "x = 1\n"


def test_an_export_is_written_under_the_lock_of_its_run(tmp_path, toy, monkeypatch):
    """And removes no temporary that another run writes."""
    monkeypatch.setattr(toy, "exports", lambda self, settings, prepare: {"-toy.py": "x = 1\n"})
    path = run_toy(tmp_path).paths[-1]
    path.unlink()
    mine, other = (tmp_path / f".toy-toy.{'0' * 16}.tmp.{ending}" for ending in ("py", "csv"))
    for file in (mine, other):
        file.touch()
    with hold(tmp_path / "toy.lock"), pytest.raises(RunConflictError, match="Another process"):
        run_toy(tmp_path)
    assert mine.exists()
    assert run_toy(tmp_path).status == "already done"
    assert path.is_file()
    assert not mine.exists()
    assert other.exists()


def test_an_operator_is_counted_once_and_its_workers_end_before_it_is_there(monkeypatch):
    sizes = {"n": 60_000, "p": 784, "estimator": "exact", "dry_run": True}
    one, two = (deqcli.run("spectrum", **sizes, jobs=jobs).memory for jobs in (1, 2))
    assert one <= two < 8 * 2**30
    ended = []
    monkeypatch.setattr(execute, "end_workers", lambda: ended.append(True))
    small = {"n": 60, "p": 40, "estimator": "exact"}
    for storage in ("dense", "memory"):
        deqcli.run("spectrum", **small, storage=storage, jobs=1)
    assert ended == [True]
