"""Constants leave a table, live in the record, and come back as they were."""

import json

import numpy as np
import pandas as pd
import pytest

from deqcli.runs import files, tables
from deqcli.study import get, names

CONSTANTS = {(): ("act", "n", "gamma", "feasible"), ("kind", "name"): ("distance", "carries")}


def make_table() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "kind": ["a", "a", "b", "b", "b"],
            "act": "tanh",
            "name": ["x", "x", np.nan, np.nan, "y"],
            "value": [1.5, 2.5, np.nan, 4.5, 5.5],
            "distance": [0.1 + 0.2, 0.1 + 0.2, np.nan, np.nan, 2.0],
            "carries": ["class 1", "class 1", np.nan, np.nan, np.nan],
            "n": 800,
            "gamma": np.nan,
            "feasible": True,
        }
    )


def through_the_disk(folder, table, constants, digits=None):
    rows, kept = tables.split(table, constants)
    files.write_csv(folder / "t.csv", rows, digits)
    files.write_json(folder / "t.json", {"study": "toy"} | kept)
    return rows, tables.read(folder / "t.csv")


def test_what_leaves_the_rows_comes_back_as_it_was(tmp_path):
    table = make_table()
    files.write_csv(tmp_path / "whole.csv", table)
    rows, again = through_the_disk(tmp_path, table, CONSTANTS)
    assert list(rows.columns) == ["kind", "name", "value"]
    # As the whole table would have read: values, missing cells, types, order of columns.
    pd.testing.assert_frame_equal(again, files.read_csv(tmp_path / "whole.csv"))


@pytest.mark.parametrize("constants", [{}, {(): ("act",)}, {("kind",): ()}, {(): ("nowhere",)}])
def test_few_constants_or_none(tmp_path, constants):
    table = make_table()
    rows, again = through_the_disk(tmp_path, table, constants)
    assert len(rows.columns) == len(table.columns) - ("act" in constants.get((), ()))
    pd.testing.assert_frame_equal(again, table)


def test_a_table_without_rows_keeps_its_columns(tmp_path):
    table = make_table().iloc[:0]
    _, again = through_the_disk(tmp_path, table, CONSTANTS)
    assert list(again.columns) == list(table.columns)
    assert again.empty


def test_digits_are_those_of_the_rows_alone(tmp_path):
    table = make_table().assign(value=np.pi)
    _, again = through_the_disk(tmp_path, table, CONSTANTS, digits=4)
    assert set(again["value"]) == {3.142}
    assert again["distance"].iloc[0] == 0.1 + 0.2


@pytest.mark.parametrize("by", [(), ("kind",)])
def test_a_column_that_varies_is_no_constant(by):
    with pytest.raises(ValueError, match="value are no constants of"):
        tables.split(make_table(), {by: ("value",)})


@pytest.mark.parametrize(
    "change",
    [
        {"constants": 3},
        {"constants": [{}]},
        {"constants": [{"by": 1, "names": ["other", "act"], "values": [["a", 1]]}]},
        {"constants": [{"by": 1, "names": ["kind"], "values": [["a", 1]]}]},
        {"columns": None},
    ],
)
def test_a_record_of_another_table_is_told(change):
    rows, kept = tables.split(make_table(), CONSTANTS)
    with pytest.raises(ValueError):
        tables.joined(rows, json.loads(json.dumps(kept)) | change)


def test_tables_without_a_record_are_read_as_they_are(tmp_path):
    table = make_table()
    files.write_csv(tmp_path / "t.csv", table)
    pd.testing.assert_frame_equal(tables.read(tmp_path / "t.csv"), table)


@pytest.mark.parametrize("name", names())
def test_no_column_is_declared_twice_or_decides_and_is_decided(name):
    constants = get(name).constants
    every = [column for columns in constants.values() for column in columns]
    assert len(set(every)) == len(every)
    assert not set(every) & {column for by in constants for column in by}
    # What check looks up in the committed table or leaves out stays in the rows or comes back.
    assert not set(every) & get(name).ignored
