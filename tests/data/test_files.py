import hashlib
import logging
import os

import numpy as np
import pytest

from deqcli.data import files, images
from deqcli.errors import DataError, InputError
from deqcli.runs import memory

X = np.arange(12.0).reshape(6, 2)


def npz(tmp_path, **arrays):
    path = tmp_path / "own.npz"
    np.savez(path, **arrays)
    return path


def csv(tmp_path, text):
    path = tmp_path / "own.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize(
    ("y", "classes", "indices"),
    [
        ([8, 6, 8, 6, 6, 10], ("6", "8", "10"), [1, 0, 1, 0, 0, 2]),
        ([1.0, -1.0, 1.0, -1.0, 1.0, 1.0], ("-1", "1"), [1, 0, 1, 0, 1, 1]),
        (list("babcaa"), ("a", "b", "c"), [1, 0, 1, 2, 0, 0]),
        ([True, False] * 3, ("False", "True"), [1, 0] * 3),
        ([b"x", b"y"] * 3, ("x", "y"), [0, 1] * 3),
        ([[3]] * 6, ("3",), [0] * 6),
    ],
)
def test_labels_of_any_kind_are_numbered_and_named(tmp_path, y, classes, indices):
    path = npz(tmp_path, X=X, y=y)
    samples, digest = files.read(path)
    assert samples.classes == classes
    assert samples.y.tolist() == indices
    assert samples.y.dtype == np.int64
    np.testing.assert_array_equal(samples.X, X)
    assert digest == hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("kind", ["f2", "f4", "f8", "g"])
def test_floats_of_any_precision_are_read_as_they_are(tmp_path, kind):
    X = np.array([[1.5, 60000.0], [0.0, -2.0]], dtype=kind)
    np.savez(tmp_path / "a.npz", X=X, y=[0, 1])
    data, _ = files.read(tmp_path / "a.npz")
    np.testing.assert_array_equal(data.X, X)
    X[1, 1] = np.inf
    np.savez(tmp_path / "a.npz", X=X, y=[0, 1])
    with pytest.raises(DataError, match="sample 1, feature 1 is inf"):
        files.read(tmp_path / "a.npz")


def test_images_are_flattened_and_keep_their_type(tmp_path):
    samples, _ = files.read(npz(tmp_path, X=np.zeros((4, 3, 2), np.uint8), y=[0, 0, 1, 1]))
    assert samples.X.shape == (4, 6)
    assert samples.X.dtype == np.uint8


@pytest.mark.parametrize(
    ("arrays", "complaint"),
    [
        ({"X": X}, "has no array y; it has X"),
        ({"X": X, "y": np.array([{}] * 6, object)}, "never unpickled"),
        ({"X": X.astype(complex), "y": [0] * 6}, "X of type complex128"),
        ({"X": [["a"], ["b"]], "y": [0, 1]}, "it must hold real numbers"),
        ({"X": X[:, 0], "y": [0] * 6}, r"X of shape \(6,\); it must be \(samples, features\)"),
        ({"X": np.zeros((0, 3)), "y": []}, "X of shape"),
        ({"X": np.zeros((3, 0)), "y": [0] * 3}, "X of shape"),
        ({"X": X, "y": [0] * 5}, r"6 samples but labels of shape \(5,\)"),
        ({"X": X, "y": np.zeros((6, 2))}, r"labels of shape \(6, 2\)"),
        ({"X": X[:1], "y": [0]}, "fewer than two samples"),
        ({"X": np.where(X == 7, np.nan, X), "y": [0] * 6}, "sample 3, feature 1 is nan"),
        ({"X": np.where(X == 4, np.inf, X), "y": [0] * 6}, "sample 2, feature 0 is inf"),
        ({"X": X, "y": [0, 1, np.nan, 0, 1, 1]}, "the label nan at sample 2"),
        ({"X": X, "y": [0, 1e300, 0, 0, 1, 1]}, r"label 1e\+300 at sample 1.*below 2\^53"),
        ({"X": X, "y": [0, 1, 0, -np.inf, 1, 1]}, "the label -inf at sample 3"),
        (
            {"X": np.where(X == 4, 1e307, X), "y": [0] * 6},
            r"feature 0 is 1e\+307; .* below 1e\+150",
        ),
        ({"X": X, "y": [0, 1, 0.5, 0, 1, 1]}, "the label 0.5 at sample 2"),
        ({"X": X, "y": np.zeros(6, complex)}, "labels of type complex128"),
        ({"X": X, "y": [b"\xe9", b"\xea"] * 3}, "labels that are not UTF-8"),
        ({"X": X, "y": ["\udce9", "\udcea"] * 3}, "labels that are not UTF-8"),
    ],
)
def test_hostile_npz_is_told(tmp_path, arrays, complaint):
    path = npz(tmp_path, **arrays)
    with pytest.raises(DataError, match=rf"own\.npz.*{complaint}"):
        files.read(path)
    if "feature" not in complaint or "shape" in complaint:
        with pytest.raises(DataError, match=rf"own\.npz.*{complaint}"):
            files.outline(path)


@pytest.mark.parametrize(
    "text",
    [
        "y,a,b\n8,1,2.5\n6,3,4\n",
        "a,label,b\n1,8,2.5\n3,6,4\n",
        "a,b,digit\n1,2.5,8\n3,4,6\n",
        "a, b, digit\r\n1, 2.5, 8\r\n3, 4, 6\r\n",
        b"\xef\xbb\xbfy,a,b\n8,1,2.5\n6,3,4\n",
    ],
)
def test_csv_takes_y_or_label_or_the_last_column(tmp_path, text):
    samples, _ = files.read(csv(tmp_path, text))
    assert samples.X.tolist() == [[1, 2.5], [3, 4]]
    assert (samples.y.tolist(), samples.classes) == ([1, 0], ("6", "8"))


@pytest.mark.parametrize(
    ("header", "column"), [("a,b,digit", "digit"), ("y,a,b", "y"), ("a,label,b", "label")]
)
def test_the_label_column_is_recorded_and_a_guess_is_logged(tmp_path, caplog, header, column):
    path = csv(tmp_path, f"{header}\n1,1,1\n1,1,1\n")
    with caplog.at_level(logging.INFO, logger="deqcli"):
        train, test = images.load(path, n_test=1, select="first", preprocess="raw")
    assert train.details["label_column"] == test.details["label_column"] == column
    guessed = "labels are taken from the last column 'digit'; name a column y or label to choose"
    assert caplog.messages == [guessed] * (column == "digit")


def test_csv_labels_may_be_text(tmp_path):
    samples, _ = files.read(csv(tmp_path, "a,y\n1,dog\n2,cat\n3,7\n"))
    assert (samples.y.tolist(), samples.classes) == ([2, 1, 0], ("7", "cat", "dog"))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "not a readable .csv"),
        ("1,2\n3,4\n5,6\n", "has no header"),
        ("a,b\n1,2,3\n", "more values in a line"),
        ("a,b,y\n1,2,3,4\n5,6,7,8\n", "more values in a line"),
        ("a,b,y\n0,2,3,4\n1,6,7,8\n", "more values in a line"),
        ("a,b\n1,2\n1,2,3\n", "not a readable .csv"),
        ("a\n1\n2\n", "has one column"),
        ("y,label,a\n1,2,3\n", "both a column 'y' and a column 'label'"),
        ("a,b,y\n1,x,0\n2,3,1\n", r"text in the column 'b'.*\('y'\)"),
        ("a,b,y\n1,,0\n2,3,1\n", "sample 0, feature 1 is nan"),
        ("a,b,y\n1,2,0\n2,3,\n", "no label in line 3"),
        ("a,b,y\n1,2,0\n", "fewer than two samples"),
        ("a,b,y\n1,2,0.5\n3,4,1\n", "the label 0.5 at sample 0"),
        ("a,b,y\n", "has no samples"),
        (b"a,y\n\xff\xfe,1\n", "not a readable .csv"),
    ],
)
def test_hostile_csv_is_told(tmp_path, text, complaint):
    with pytest.raises(DataError, match=rf"own\.csv.*{complaint}"):
        files.read(csv(tmp_path, text))


def test_an_absent_file_is_told(tmp_path):
    with pytest.raises(DataError, match=r"none\.csv cannot be read: No such file"):
        files.read(tmp_path / "none.csv")


def test_what_is_no_file_is_told_without_waiting_for_it(tmp_path):
    os.mkfifo(tmp_path / "own.npz")
    with pytest.raises(DataError, match=r"own\.npz is not a file"):
        files.read(tmp_path / "own.npz")


def test_the_outline_of_an_npz_is_that_of_its_samples_and_reads_none(tmp_path, monkeypatch):
    path = npz(tmp_path, X=np.zeros((6, 3, 2), np.float32), y=list("babcaa"))
    samples, _ = files.read(path)
    monkeypatch.setattr(files, "_parse", lambda *_: pytest.fail("the samples were read"))
    known = files.outline(path)
    assert (known.shape, known.classes) == (samples.X.shape, samples.classes)
    assert known.y.tolist() == samples.y.tolist()
    assert known.reading == 2 * samples.X.nbytes


def test_the_outline_of_a_csv(tmp_path):
    known = files.outline(csv(tmp_path, "a,b,y\n1,2,dog\n3,4,cat\n"))
    assert (known.shape, known.classes, known.y.tolist()) == ((2, 2), ("cat", "dog"), [1, 0])


def test_a_csv_that_does_not_fit_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "available_bytes", lambda: 10)
    # Its 22 bytes of text, and 9 cells twice.
    with pytest.raises(InputError, match=r"own\.csv: 166 B of memory needed and 10 B available"):
        files.read(csv(tmp_path, "a,b,y\n1,2,dog\n3,4,cat\n"))
