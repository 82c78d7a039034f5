import errno
import io
import json
import os

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from PIL import Image
from toy_study import STUDY

from deqcli.errors import RunError
from deqcli.runs import files


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def fail_with(number):
    def fail(*_, **__):
        raise OSError(number, os.strerror(number))

    return fail


def test_writes_replace_and_leave_nothing_else(tmp_path):
    path = tmp_path / "a.txt"
    files.write_text(path, "old\n")
    files.write_text(path, "new é\n")
    assert path.read_bytes() == "new é\n".encode()
    assert names(tmp_path) == ["a.txt"]


@pytest.mark.parametrize("error", [ValueError("x"), KeyboardInterrupt(), OSError(errno.EIO, "x")])
def test_failure_in_the_middle_leaves_the_old_file(tmp_path, error):
    path = tmp_path / "a.txt"
    files.write_text(path, "old")
    expected = RunError if isinstance(error, OSError) else type(error)

    def write():
        with files.atomic_path(path) as temporary:
            temporary.write_text("half")
            assert (temporary.parent, temporary.suffix) == (tmp_path, ".txt")
            raise error

    with pytest.raises(expected):
        write()
    assert path.read_text() == "old"
    assert names(tmp_path) == ["a.txt"]


@pytest.mark.parametrize(
    ("call", "number", "remedy"),
    [
        ("fsync", errno.ENOSPC, "no space is left on the disk; free some"),
        ("fsync", errno.EDQUOT, "no space is left on the disk; free some"),
        ("open", errno.EROFS, "cannot be written to; choose another `out`"),
        ("open", errno.EACCES, "cannot be written to; choose another `out`"),
        ("fsync", errno.EIO, "Input/output error"),
    ],
)
def test_system_errors_become_sentences(tmp_path, monkeypatch, call, number, remedy):
    path = tmp_path / "a.csv"
    files.write_text(path, "old")
    monkeypatch.setattr(os, call, fail_with(number))
    with pytest.raises(RunError) as caught:
        files.write_text(path, "new")
    monkeypatch.undo()
    assert str(path) in str(caught.value)
    assert remedy in str(caught.value)
    assert path.read_text() == "old"
    assert names(tmp_path) == ["a.csv"]


@pytest.mark.skipif(not os.access("/dev/full", os.W_OK), reason="no /dev/full")
def test_a_full_disk_in_the_middle_of_a_write(tmp_path):
    def write():
        with files.atomic_path(tmp_path / "a.bin") as temporary:
            temporary.symlink_to("/dev/full")
            temporary.write_bytes(b"x")

    with pytest.raises(RunError, match="no space is left"):
        write()
    assert names(tmp_path) == []


def test_a_file_in_the_way_of_the_folder(tmp_path):
    (tmp_path / "results").write_text("")
    with pytest.raises(RunError, match="`out`"):
        files.make_folder(tmp_path / "results")
    with pytest.raises(RunError, match="`out`"):
        files.make_folder(tmp_path / "results" / "deeper")


def test_permissions_follow_the_umask(tmp_path):
    files.write_text(tmp_path / "a", "")
    (tmp_path / "b").write_text("")
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "b").stat().st_mode


def test_only_left_over_temporaries_of_the_stem_are_removed(tmp_path):
    left = ".a.0123456789abcdef.tmp.csv"
    kept = sorted(["a.csv", ".a.b.0123456789abcdef.tmp.csv", ".a.hidden", ".a.0123.tmp"])
    for name in [left, *kept]:
        (tmp_path / name).touch()
    files.remove_temporaries(tmp_path, "a")
    assert names(tmp_path) == kept
    files.remove_temporaries(tmp_path)
    assert ".a.b.0123456789abcdef.tmp.csv" not in names(tmp_path)


def test_json_is_sorted_and_refuses_nan(tmp_path):
    path = tmp_path / "a.json"
    files.write_json(path, {"b": np.float64(0.1), "a": np.int64(2), "c": np.array([True])})
    assert path.read_text().startswith('{\n  "a": 2,')
    assert path.read_text().endswith("}\n")
    assert json.loads(path.read_text()) == {"a": 2, "b": 0.1, "c": [True]}
    for bad in (float("nan"), np.inf, object()):
        with pytest.raises((ValueError, TypeError)):
            files.write_json(path, {"a": bad})
    assert json.loads(path.read_text())["a"] == 2


def test_csv_reads_back_exactly(tmp_path):
    generator = np.random.default_rng(0)
    bits = generator.integers(2**63, size=20_000, dtype=np.uint64).view(np.float64)
    values = np.concatenate([bits[np.isfinite(bits)], [0.1, -0.0, 5e-324, np.inf, -np.inf, np.nan]])
    table = pd.DataFrame({"value": values, "name": "NA", "index": np.arange(len(values))})
    path = tmp_path / "a.csv"
    files.write_csv(path, table)
    first = path.read_bytes()
    assert b"\r" not in first
    again = files.read_csv(path)
    assert again["value"].to_numpy().tobytes() == values.tobytes()
    assert set(again["name"]) == {"NA"}
    files.write_csv(path, again)
    assert path.read_bytes() == first


def test_npz_repeats_and_refuses_objects(tmp_path):
    arrays = {"x": np.arange(3.0), "y": np.float32(2)}
    files.write_npz(tmp_path / "a.npz", arrays)
    assert (tmp_path / "a.npz").read_bytes() == files.npz_bytes(arrays)
    with np.load(tmp_path / "a.npz") as stored:
        assert stored["y"].dtype == np.float32
    with pytest.raises(TypeError, match="objects"):
        files.write_npz(tmp_path / "a.npz", {"x": np.array([None])})
    assert names(tmp_path) == ["a.npz"]


@pytest.mark.parametrize("suffix", [".png", ".pdf", ".svg"])
def test_figures_repeat_byte_for_byte(tmp_path, suffix):
    table = pd.DataFrame({"eigenvalue": np.arange(20.0)})
    for stem in "ab":
        files.write_figure(tmp_path / f"{stem}{suffix}", STUDY.draw(table), "0123abcd")
    data = (tmp_path / f"a{suffix}").read_bytes()
    assert data == (tmp_path / f"b{suffix}").read_bytes()
    for mark in (b"Matplotlib v", b"CreationDate", b"<dc:date>"):
        assert mark not in data
    assert (b"0123abcd" in data) == (suffix == ".png")


@pytest.mark.parametrize("suffix", [".png", ".pdf", ".svg"])
def test_own_settings_of_matplotlib_change_no_byte_of_a_figure(tmp_path, suffix):
    own = {"savefig.dpi": 50, "savefig.bbox": "tight", "savefig.facecolor": "red",
           "pdf.compression": 0, "svg.fonttype": "none", "svg.hashsalt": "a"}  # fmt: skip
    for stem, chosen in {"a": {}, "b": own}.items():
        figure = STUDY.draw(pd.DataFrame({"eigenvalue": np.arange(20.0)}))
        with mpl.rc_context(chosen):
            files.write_figure(tmp_path / f"{stem}{suffix}", figure, "0123abcd")
            assert all(mpl.rcParams[name] == value for name, value in chosen.items())
    assert (tmp_path / f"a{suffix}").read_bytes() == (tmp_path / f"b{suffix}").read_bytes()


def test_png_keeps_its_colours_and_spares_rare_ones(tmp_path):
    """128 colours are a third of the bytes; a single red mark in a wide range of blues stays."""
    figure = Figure(figsize=(3, 2), dpi=240)
    axes = figure.add_subplot()
    for k in range(300):
        axes.plot([0, 1], [k, k + 5], color=(0.1, k / 300, 1 - k / 600), alpha=0.7)
    axes.plot([0.5], [150], "o", color="#d62728", ms=3)
    files.write_figure(tmp_path / "a.png", figure, "0123abcd")
    whole = io.BytesIO()
    figure.savefig(whole, format="png")
    with Image.open(whole) as before, Image.open(tmp_path / "a.png") as after:
        assert after.mode == "P"
        assert after.size == before.size
        assert after.info["deqcli"] == "0123abcd"
        pixels = [np.asarray(image.convert("RGB"), dtype=int) for image in (before, after)]
    # White stays white; no channel of any pixel is off by a tenth of its range.
    assert (pixels[1][0, 0] == 255).all()
    assert np.abs(pixels[0] - pixels[1]).max() < 25
    assert (tmp_path / "a.png").stat().st_size < 0.6 * len(whole.getvalue())


def test_sha256_of_nothing(tmp_path):
    (tmp_path / "a").touch()
    assert files.sha256(tmp_path / "a").startswith("e3b0c44298fc1c149afb")
    with pytest.raises(RunError, match="Cannot read"):
        files.sha256(tmp_path / "b")


@pytest.mark.parametrize("linked", [False, True])
def test_a_pipe_or_device_is_never_replaced(tmp_path, linked):
    pipe = wanted = tmp_path / "pipe"
    os.mkfifo(pipe)
    if linked:
        wanted = tmp_path / "link"
        wanted.symlink_to(pipe)
    with pytest.raises(RunError, match="is a device or a pipe; give the name of a file") as caught:
        files.write_text(wanted, "page")
    assert caught.value.exit_code == 2
    assert pipe.is_fifo()
    assert wanted.is_symlink() == linked
    assert len(list(tmp_path.iterdir())) == 1 + linked
