import errno
import json
import os
import shutil

import numpy as np
import pytest

from deqcli.errors import InputError, RunConflictError, RunError
from deqcli.runs import files
from deqcli.runs.store import Store

IDENTITY = {
    "study": "toy",
    "version": 1,
    "settings": {"seed": 0, "sigma_a2": 0.1, "n": [800, 900]},
    "inputs": {"sha256": "ab"},
}
VALUE = {"x": np.array([0.1, np.nan]), "n": np.int64(3)}


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path, "run", IDENTITY)


def other(store, **changes):
    return Store(store.out, store.stem, IDENTITY | changes)


def record(store):
    outputs = {path.name: files.sha256(path) for path in store.out.glob("run.[cpn]*[vgz]")}
    return IDENTITY | {"outputs": outputs}


def finish(store):
    with store.open():
        store.save("a", VALUE)
        files.write_text(store.path(".csv"), "x\n1\n")
        files.write_text(store.path(".png"), "picture")
        store.finish(record(store))


def names(store):
    return sorted(path.name for path in store.out.iterdir())


def test_points_come_back_bit_for_bit(store):
    with store.open():
        assert store.missing(["b", "a"]) == ["b", "a"]
        store.save("a", VALUE)
        assert store.missing(["b", "a"]) == ["b"]
        loaded = store.load("a")
    assert loaded.keys() == VALUE.keys()
    for name, array in VALUE.items():
        assert loaded[name].dtype == array.dtype
        assert loaded[name].tobytes() == array.tobytes()


def test_parts_are_plain_npz_files(store):
    with store.open():
        store.save("a", VALUE)
        (part,) = (store.out / "run.parts").glob("*.npz")
        with np.load(part, allow_pickle=False) as arrays:
            assert arrays["n"] == 3


def test_awkward_keys_have_their_own_files(store):
    keys = ["a/b", "a b", "a_b", "A_B", "../x", ".", "é", "x" * 300, "x" * 301, ""]
    with store.open():
        for number, key in enumerate(keys):
            store.save(key, {"number": np.array(number)})
        assert [int(store.load(key)["number"]) for key in keys] == list(range(len(keys)))
    assert names(store) == ["run.parts"]


@pytest.mark.parametrize("damage", ["truncate", "empty", "flip", "swap"])
def test_damaged_parts_are_never_believed(store, caplog, damage):
    with store.open():
        store.save("a", VALUE)
        (part,) = (store.out / "run.parts").glob("*.npz")
        data = part.read_bytes()
        middle = data.index(np.float64(0.1).tobytes())
        part.write_bytes(
            {
                "truncate": data[: len(data) // 2],
                "empty": b"",
                "flip": data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :],
                "swap": data,
            }[damage]
        )
        key = "a"
        if damage == "swap":
            key = "b"
            shutil.copy(part, store._part("b"))
        assert store.missing([key]) == [key]
        assert "damaged" in caplog.text
        with pytest.raises(RunError, match="run the same command again"):
            store.load(key)
        store.save(key, VALUE)
        assert store.has(key)


def test_parts_of_another_run_are_not_believed(store):
    with store.open():
        store.save("a", VALUE)
    (store.out / "run.parts" / "settings.json").write_text("{trunc")
    with store.open():
        assert store.has("a")
    (store.out / "run.parts" / "settings.json").unlink()
    with other(store, version=2).open() as newer:
        assert not newer.has("a")


@pytest.mark.parametrize("endless", [os.mkfifo, lambda path: path.symlink_to("/dev/zero")])
def test_pipes_and_devices_are_never_read(store, endless):
    """Nobody writes to the pipe, so that reading it would wait without end."""
    endless(store.path(".json"))
    with pytest.raises(RunConflictError, match=r"run\.json exists and is not the record of a run"):
        store.finished()
    store.path(".json").unlink()
    with store.open():
        store.save("a", VALUE)
        (part,) = (store.out / "run.parts").glob("a-*.npz")
        part.unlink()
        endless(part)
        assert not store.has("a")


@pytest.mark.parametrize("state", ["begun", "finished"])
def test_other_settings_are_refused_by_name(store, state):
    if state == "finished":
        finish(store)
    else:
        with store.open():
            store.save("a", VALUE)
    changed = {
        "settings": {"seed": 0, "sigma_a2": 0.2, "n": [800, 1000], "act": "tanh"},
        "inputs": {"sha256": "cd"},
    }
    before = names(store)
    with pytest.raises(RunConflictError) as caught, other(store, **changed).open():
        pass
    message = str(caught.value)
    for part in (
        "sigma_a2 is 0.1 there and 0.2 here",
        "n is [800, 900] there and [800, 1000] here",
        'inputs.sha256 is "ab" there and "cd" here',
        'act is absent there and "tanh" here',
        "`name`",
        "`force`",
    ):
        assert part in message
    assert "seed" not in message
    with (
        pytest.raises(RunConflictError, match="version is 1 there and 2 here"),
        other(store, version=2).open(),
    ):
        pass
    assert names(store) == before


def test_force_starts_over(store):
    finish(store)
    with other(store, version=2).open(force=True) as newer:
        assert newer.record() is None
        assert newer.missing(["a"]) == ["a"]
        assert names(store) == ["run.csv", "run.lock", "run.parts"]
    with newer.open():
        newer.save("a", VALUE)
    with newer.open(force=True):
        assert newer.missing(["a"]) == ["a"]


def test_a_finished_run_is_known_and_left_alone(store):
    finish(store)
    assert names(store) == ["run.csv", "run.json", "run.png"]
    assert store.whole([".png"])
    assert not store.whole([".pdf"])


@pytest.mark.parametrize("left", ["run.parts", "run.lock"])
def test_a_finished_run_is_tidied_up(store, left):
    """Killed between the record and the removal of what only a running study has."""
    finish(store)
    if left == "run.lock":
        (store.out / left).touch()
    else:
        (store.out / left).mkdir()
    assert not store.whole([".png"])
    with store.open():
        assert store.record() == record(store)
    assert names(store) == ["run.csv", "run.json", "run.png"]


@pytest.mark.parametrize("change", ["edited", "missing", "not recorded"])
def test_a_changed_table_is_recomputed(store, caplog, change):
    finish(store)
    if change == "edited":
        store.path(".csv").write_text("x\n2\n")
    elif change == "missing":
        store.path(".csv").unlink()
    else:
        files.write_json(store.path(".json"), record(store) | {"outputs": None})
    with store.open():
        assert store.record() is None
        assert store.missing(["a"]) == ["a"]
    assert "computed again" in caplog.text
    with store.open():
        assert store.record() is None


def test_files_of_somebody_else_are_not_overwritten(store):
    for name, text in (("run.csv", "mine"), ("run.json", "{}"), ("run.json", "[1]")):
        (store.out / name).write_text(text)
        with pytest.raises(RunConflictError, match="`name`"), store.open():
            pass
        assert (store.out / name).read_text() == text
        (store.out / name).unlink()


@pytest.mark.parametrize("state", ["new", "forced", "finished"])
def test_a_symbolic_link_for_the_parts_is_never_followed(store, tmp_path_factory, state):
    if state == "finished":
        finish(store)
    target = tmp_path_factory.mktemp("target")
    (target / "settings.json").write_text("mine")
    (store.out / "run.parts").symlink_to(target)
    with (
        pytest.raises(RunConflictError, match="symbolic link, which is never"),
        store.open(force=state == "forced"),
    ):
        pass
    assert [path.name for path in target.iterdir()] == ["settings.json"]
    assert (target / "settings.json").read_text() == "mine"


def test_a_killed_write_leaves_no_debris(store):
    with store.open():
        pass
    for folder, name in ((store.out, ".run"), (store.out / "run.parts", ".a-0123")):
        (folder / f"{name}.0123456789abcdef.tmp.npz").touch()
    with store.open():
        assert names(store) == ["run.lock", "run.parts"]
        assert [path.name for path in (store.out / "run.parts").iterdir()] == ["settings.json"]


def test_a_full_disk_keeps_what_was_stored(store, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with store.open():
        store.save("a", VALUE)
        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(RunError, match="no space is left"):
            store.save("b", VALUE)
        monkeypatch.undo()
        assert store.missing(["a", "b"]) == ["b"]


@pytest.mark.parametrize("stem", ["", ".hidden", "a/b", "..", "a\\b"])
def test_bad_names_are_refused(tmp_path, stem):
    with pytest.raises(InputError, match="`name`"):
        Store(tmp_path, stem, IDENTITY)


def test_the_work_folder_says_whose_it_is(store):
    with store.open():
        text = (store.out / "run.parts" / "settings.json").read_text()
    assert json.loads(text) == IDENTITY
