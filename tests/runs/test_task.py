import json
import os

import pandas as pd
import pytest
from toy_study import draw, make_task

from deqcli.errors import InputError, RunConflictError
from deqcli.runs import files, memory
from deqcli.runs.task import execute


def results(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_run_writes_its_files_and_nothing_else(tmp_path):
    task = make_task(formats=("png", "pdf", "svg"), spec={"save": True})
    result = execute(task, out=tmp_path / "new" / "folder", command=["deqcli", "toy"])
    assert (result.status, result.exit_code, result.points, result.reused) == ("done", 0, 6, 0)
    suffixes = [path.suffix for path in result.paths]
    assert suffixes == [".csv", ".png", ".pdf", ".svg", ".npz", ".json"]
    assert sorted(result.paths) == sorted((tmp_path / "new" / "folder").iterdir())
    assert {path.stem for path in result.paths} == {result.stem}
    assert result.stem.startswith("toy-")
    record = json.loads(result.paths[-1].read_text())
    assert record["spec"] == task.spec
    assert record["seed"] == 0
    assert record["outputs"] == {path.name: files.sha256(path) for path in result.paths[:-1]}
    assert record["results"]["largest"] == files.read_csv(result.paths[0])["eigenvalue"].max()
    assert {blas["threads"] for blas in record["environment"]["blas"]} == {1}


def test_two_processes_write_the_same_bytes(whole, tmp_path):
    execute(make_task(), out=tmp_path, name="toy", jobs=2)
    for name in ("toy.csv", "toy.png"):
        assert results(tmp_path)[name] == whole[name]


def test_a_finished_run_is_not_repeated(tmp_path):
    execute(make_task(), out=tmp_path, name="toy")
    before = results(tmp_path)
    result = execute(make_task(run_point=None, assemble=None), out=tmp_path, name="toy")
    assert (result.status, result.reused) == ("already done", 6)
    assert [path.name for path in result.paths] == ["toy.csv", "toy.png", "toy.json"]
    assert results(tmp_path) == before


def test_missing_figures_are_redrawn_from_the_csv_alone(tmp_path, whole):
    (tmp_path / "toy.csv").write_bytes(whole["toy.csv"])
    (tmp_path / "toy.json").write_bytes(whole["toy.json"])
    task = make_task(run_point=None, assemble=None, formats=("png", "svg"))
    result = execute(task, out=tmp_path, name="toy")
    assert result.status == "already done"
    assert results(tmp_path)["toy.png"] == whole["toy.png"]
    record = json.loads((tmp_path / "toy.json").read_text())
    assert record["outputs"]["toy.svg"] == files.sha256(tmp_path / "toy.svg")


def test_the_figure_sees_the_table_as_it_reads_back(tmp_path):
    seen = []

    def look(table):
        seen.append(table)
        return draw(table)

    execute(make_task(draw=look), out=tmp_path, name="toy")
    pd.testing.assert_frame_equal(seen[0], files.read_csv(tmp_path / "toy.csv"))


@pytest.mark.parametrize("change", ["edited", "removed"])
def test_a_changed_csv_is_computed_again(tmp_path, whole, change):
    for name, data in whole.items():
        (tmp_path / name).write_bytes(data)
    if change == "edited":
        (tmp_path / "toy.csv").write_bytes(whole["toy.csv"] + b"0,0,0\n")
    else:
        (tmp_path / "toy.csv").unlink()
    assert execute(make_task(), out=tmp_path, name="toy").status == "done"
    assert results(tmp_path)["toy.csv"] == whole["toy.csv"]


def test_failed_points_are_told_kept_apart_and_tried_again(tmp_path, whole):
    def broken(spec, trial):
        if trial in (1, 4):
            raise ArithmeticError(f"trial {trial} is broken")
        return task.run_point(spec, trial)

    task = make_task()
    result = execute(make_task(run_point=broken), out=tmp_path, name="toy")
    assert (result.status, result.exit_code, result.paths) == ("incomplete", 3, ())
    assert [failure.key for failure in result.failures] == ["trial 1", "trial 4"]
    assert [path.name for path in tmp_path.iterdir()] == ["toy.parts"]
    told = json.loads((tmp_path / "toy.parts" / "failures.json").read_text())
    assert told[0]["message"] == "trial 1 is broken"
    again = execute(task, out=tmp_path, name="toy")
    assert (again.status, again.reused) == ("done", 4)
    assert results(tmp_path)["toy.csv"] == whole["toy.csv"]
    assert sorted(results(tmp_path)) == ["toy.csv", "toy.json", "toy.png"]


def test_truncated_parts_are_computed_again(tmp_path, whole):
    def stop(load):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        execute(make_task(assemble=stop), out=tmp_path, name="toy")
    for part in sorted((tmp_path / "toy.parts").glob("trial*.npz"))[:2]:
        os.truncate(part, part.stat().st_size - 1)
    result = execute(make_task(), out=tmp_path, name="toy")
    assert result.reused == 4
    assert results(tmp_path)["toy.csv"] == whole["toy.csv"]


def test_other_settings_under_the_name_are_refused_unless_forced(tmp_path):
    execute(make_task(), out=tmp_path, name="toy")
    other = make_task(spec={"size": 20}, formats=("pdf",))
    with pytest.raises(RunConflictError, match="size is 300 there and 20 here"):
        execute(other, out=tmp_path, name="toy")
    with pytest.raises(RunConflictError, match="size is 300 there and 20 here"):
        execute(other, out=tmp_path, name="toy", dry_run=True)
    assert execute(other, out=tmp_path, name="toy", force=True).status == "done"
    # The other run's picture does not stay beside this table.
    assert sorted(results(tmp_path)) == ["toy.csv", "toy.json", "toy.pdf"]


def test_a_dry_run_counts_and_writes_nothing(tmp_path):
    out = tmp_path / "results"
    result = execute(make_task(memory=1000), out=out, name="toy", jobs=2, dry_run=True)
    assert (result.status, result.points, result.reused, result.memory) == ("dry run", 6, 0, 2000)
    assert not out.exists()

    def broken(spec, trial):
        return make_task().run_point(spec, trial) if trial < 2 else 1 / 0

    execute(make_task(run_point=broken), out=out, name="toy")
    assert execute(make_task(), out=out, name="toy", dry_run=True).reused == 2
    assert execute(make_task(), out=out, name="toy", dry_run=True, force=True).reused == 0
    assert [path.name for path in out.iterdir()] == ["toy.parts"]
    execute(make_task(), out=out, name="toy")
    assert execute(make_task(), out=out, name="toy", dry_run=True).reused == 6


def test_memory_is_checked_for_all_processes_before_anything_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "available_bytes", lambda: 10**9)
    task = make_task(memory=600 * 10**6, memory_hint="lower --size")
    with pytest.raises(InputError, match=r"--jobs 2: 1\.2 GB .* 1 GB available; lower --size"):
        execute(task, out=tmp_path / "results", jobs=2)
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    ("available", "processes"), [(10**9, 1), (1_900_000_000, 3), (10**11, 4), (None, 4)]
)
def test_jobs_left_open_are_as_many_as_fit(tmp_path, monkeypatch, available, processes):
    monkeypatch.setattr(memory, "available_bytes", lambda: available)
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    task = make_task(memory=600 * 10**6, memory_hint="lower --size")
    result = execute(task, out=tmp_path, name="toy", jobs=None, dry_run=True)
    assert result.memory == processes * task.memory


def test_jobs_left_open_change_no_byte_and_one_that_cannot_fit_is_refused(tmp_path, monkeypatch):
    execute(make_task(memory=600 * 10**6), out=tmp_path / "two", name="toy", jobs=2)
    monkeypatch.setattr(memory, "available_bytes", lambda: 10**9)
    task = make_task(memory=600 * 10**6, memory_hint="lower --size")
    execute(task, out=tmp_path / "open", name="toy", jobs=None)
    written = [(tmp_path / name / "toy.csv").read_bytes() for name in ("two", "open")]
    assert written[0] == written[1]
    monkeypatch.setattr(memory, "available_bytes", lambda: 10**8)
    with pytest.raises(InputError, match=r"--jobs 1: 600 MB .* 100 MB available; lower --size"):
        execute(task, out=tmp_path / "none", name="toy", jobs=None)


def test_unknown_formats_are_refused():
    with pytest.raises(InputError, match="--format has 'jpg'"):
        make_task(formats=("png", "jpg"))


def test_points_are_assembled_in_their_order_one_at_a_time(tmp_path):
    asked = []
    task = make_task()

    def assemble(load):
        def record(key):
            asked.append(key)
            return load(key)

        return task.assemble(record)

    execute(make_task(assemble=assemble), out=tmp_path, jobs=2)
    assert asked == list(task.points)
