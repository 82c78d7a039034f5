"""What ``deqcli results`` finds in a folder."""

from __future__ import annotations

import os

import pytest

import deqcli
from deqcli.errors import InputError
from deqcli.runs.listing import results


def test_finished_unfinished_and_strange_files(tmp_path):
    deqcli.run("spectrum", n=20, p=30, estimator="exact", out=tmp_path, name="mine", jobs=1)
    (tmp_path / "half.parts").mkdir()
    (tmp_path / "half.parts" / "one.npz").write_bytes(b"x")
    (tmp_path / "notes.json").write_text('{"a": 1}')
    (tmp_path / "broken.json").write_text("{")
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "zero.json").symlink_to("/dev/zero")
    half, mine = results(tmp_path)
    assert half.state == "unfinished, 1 point(s) done; the same command goes on"
    assert mine.state == f"spectrum, by deqcli {deqcli.__version__}"
    assert mine.files == (".csv", ".png", ".json")
    assert mine.command.startswith("deqcli spectrum --n 20 --p 30")
    assert mine.size == sum(path.stat().st_size for path in tmp_path.glob("mine.*"))
    (tmp_path / "mine.png").unlink()
    assert list(results(tmp_path))[1].state.endswith("; 1 of its files is gone")


def test_a_folder_without_results(tmp_path):
    with pytest.raises(InputError, match="has no result; 'deqcli spectrum --out"):
        list(results(tmp_path))
    with pytest.raises(InputError, match="there is no folder"):
        list(results(tmp_path / "nowhere"))
