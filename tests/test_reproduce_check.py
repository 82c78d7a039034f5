"""Fresh tables against committed ones."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from deqcli import study
from deqcli.errors import InputError
from deqcli.reproduction import check, presets
from deqcli.study import Tolerance, get

OLD = pd.DataFrame(
    {
        "source": ["exact", "exact", "equivalent"],
        "index": [0, 1, 0],
        "isolated": [True, False, True],
        "eigenvalue": [25.0, 1e-3, 25.1],
        "distance": [0.08, 0.08, np.nan],
    }
)


def differences(**changed) -> list[str]:
    new = OLD.assign(**changed)
    return [str(part) for part in check.compare_tables(get("spectrum"), "a.csv", new, OLD)]


def test_tables_within_tolerance_are_the_same():
    assert differences() == []
    # Rounding of a matrix of norm 25 moves small eigenvalues by as much as large ones.
    assert differences(eigenvalue=OLD["eigenvalue"] + 2e-5) == []


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"eigenvalue": [25.1, 1e-3, 25.1]}, ["column eigenvalue: row 0 is 25.1, committed 25"]),
        ({"source": ["exact", "monte", "equivalent"]}, ["column source: row 1 is monte"]),
        ({"index": [0, 2, 0]}, ["column index: row 1 is 2, committed 1"]),
        ({"isolated": [True, True, True]}, ["column isolated: row 1 is True"]),
        ({"distance": [0.08, 0.08, 0.0]}, ["column distance: row 2 is empty on one side only"]),
        ({"index": [0, 2, 0], "distance": [0.09, 0.08, np.nan]},
         ["column index", "column distance: row 0 is 0.09"]),
        ({"other": 1}, ["the columns differ: other"]),
    ],
)  # fmt: skip
def test_differences_name_file_column_and_size(changed, expected):
    messages = differences(**changed)
    assert len(messages) == len(expected)
    for message, part in zip(messages, expected, strict=True):
        assert message.startswith("a.csv")
        assert part in message


def test_size_of_a_difference_is_said():
    (message,) = differences(eigenvalue=[26.0, 1e-3, 25.1])
    assert message.endswith("off by 1, allowed 0.00028")


def test_rows_and_files_that_are_not_there(tmp_path):
    (difference,) = check.compare_tables(get("spectrum"), "a.csv", OLD.head(2), OLD)
    assert str(difference) == "a.csv: 2 rows, committed 3"
    OLD.to_csv(tmp_path / "a.csv", index=False)
    (difference,) = check.compare(get("spectrum"), tmp_path / "a.csv", tmp_path / "none" / "a.csv")
    assert "no committed file" in str(difference)
    assert check.compare(get("spectrum"), tmp_path / "a.csv", tmp_path / "a.csv") == []


def test_numbers_inside_names_are_compared_as_numbers():
    old = pd.DataFrame({"name": ["sigma_1: htanh:a=0.84123456,c=1.9e-05"], "value": [1.0]})
    near = old.assign(name="sigma_1: htanh:a=0.84123457,c=1.9e-05")
    far = old.assign(name="sigma_1: htanh:a=0.85,c=1.9e-05")
    other = old.assign(name="sigma_1: lrelu:a=0.84123456,c=1.9e-05")
    assert check.compare_tables(get("match"), "m.csv", near, old) == []
    assert "0.85" in str(check.compare_tables(get("match"), "m.csv", far, old)[0])
    assert "lrelu" in str(check.compare_tables(get("match"), "m.csv", other, old)[0])
    # Where no tolerance is stated, a text is a text.
    assert check.compare_tables(get("spectrum"), "m.csv", near, old) != []


@pytest.mark.parametrize(("old", "new"), [(np.inf, 3.0), (3.0, np.inf), (np.inf, -np.inf)])
def test_what_is_not_finite_must_be_the_same(old, new):
    table = pd.DataFrame({"eigenvalue": [1.0, old]})
    fresh = table.assign(eigenvalue=[1.0, new])
    (difference,) = check.compare_tables(get("spectrum"), "a.csv", fresh, table)
    assert str(difference) == f"a.csv, column eigenvalue: row 1 is {new:g}, committed {old:g}"
    assert check.compare_tables(get("spectrum"), "a.csv", table, table) == []


def test_infinity_gives_the_others_no_room():
    old = pd.DataFrame({"eigenvalue": [np.inf, 1.0]})
    assert check.compare_tables(get("spectrum"), "a.csv", old.assign(eigenvalue=[np.inf, 1.1]), old)


@pytest.mark.parametrize(
    ("column", "near", "far"),
    [("test_accuracy", 0.01, 0.011), ("train_loss", 0.0109, 0.0111), ("iterations", 1, 1.1),
     ("forward_seconds", 9, None), ("residual", 9, None)],
)  # fmt: skip
def test_room_of_a_training(column, near, far):
    old = pd.DataFrame({column: [1.0, 0.5]})
    moved = [old.assign(**{column: [1.0 + by, 0.5]}) for by in (near, far) if by is not None]
    differs = [bool(check.compare_tables(get("accuracy"), "a.csv", new, old)) for new in moved]
    assert differs == [False, True][: len(differs)]


def test_errors_of_flow_may_differ_by_two_samples():
    old = pd.DataFrame({"n": 200, "n_test": 50, "train_error": [0.0], "test_error": [0.1]})
    assert check.compare_tables(get("flow"), "a.csv", old.assign(train_error=0.01), old) == []
    assert check.compare_tables(get("flow"), "a.csv", old.assign(train_error=0.015), old) != []
    assert check.compare_tables(get("flow"), "a.csv", old.assign(test_error=0.14), old) == []
    assert check.compare_tables(get("flow"), "a.csv", old.assign(test_error=0.16), old) != []


def test_verdicts_are_compared_where_a_preset_was_run():
    old = pd.DataFrame(
        {"preset": ["a", "a", "b"], "quantity": ["x", "y", "x"],
         "verdict": ["agrees", "agrees", "agrees"]}
    )  # fmt: skip
    assert check.compare_verdicts(old, old, {"a", "b"}) == []
    new = old.assign(verdict=["agrees", "differs", "undecided"])
    (difference,) = check.compare_verdicts(new, old, {"a"})
    assert str(difference) == "summary.csv, column verdict: a, y: differs, committed agrees"
    (gone,) = check.compare_verdicts(old, old.head(1), {"a"})
    assert str(gone).endswith("a, y: agrees, committed not there")


@pytest.mark.parametrize("side", ["fresh", "committed"])
def test_broken_file_is_named(tmp_path, side):
    for name in ("fresh", "committed"):
        OLD.to_csv(tmp_path / f"{name}.csv", index=False)
    (tmp_path / f"{side}.csv").write_text("")
    with pytest.raises(InputError, match=rf"{side}\.csv cannot be used: .*; delete it, or"):
        check.compare(get("spectrum"), tmp_path / "fresh.csv", tmp_path / "committed.csv")


def stated(study: str, column: str, tolerance: Tolerance) -> str:
    absolute = f"{tolerance.absolute:g}"
    if tolerance.samples:
        absolute = f"{tolerance.samples} / {tolerance.count}"
    parts = (study, column, f"{tolerance.relative:g}", f"{tolerance.of_largest:g}", absolute)
    return f"| {' | '.join(parts)} |"


def test_readme_of_the_presets_states_the_tolerances():
    text = (presets.folder() / "README.md").read_text(encoding="utf-8")
    text = text.partition("## What counts as the same")[2]
    table = [line for line in text.splitlines() if line.startswith("|")][2:]
    expected = [
        stated(f"`{name}`", f"`{column}`" if column else "any other", tolerance)
        for name in study.names()
        for column, tolerance in get(name).tolerances.items()
    ]
    assert sorted(table[:-1]) == sorted(expected)
    assert table[-1] == stated("any other", "any other", Tolerance())
    for name in study.names():
        for column in get(name).ignored:
            assert f"`{column}`" in text.partition("\n|")[0], column
