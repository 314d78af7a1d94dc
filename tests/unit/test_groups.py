from __future__ import annotations

import re

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from partialfair.data.groups import Groups, encode_groups, group_name
from partialfair.exceptions import InputError


def decoded(groups: Groups) -> list:
    """Return the label of each row, None where it is missing."""
    return [None if code < 0 else groups.labels[code] for code in groups.codes]


def without_address(value):
    """The same name in every process."""
    return re.sub(r" at 0x\w+", "", repr(value))


# One column


@pytest.mark.parametrize(
    ("column", "labels"),
    [
        (["b", "a", "b"], ("a", "b")),
        (("b", "a", "b"), ("a", "b")),
        ([3, 1, 3], (1, 3)),
        ([2.5, -1.0, 2.5], (-1.0, 2.5)),
        ([True, False, True], (False, True)),
        (["", "a", ""], ("", "a")),
        (np.array(["b", "a", "b"]), ("a", "b")),
        (np.array(["b", "a", "b"], dtype=object), ("a", "b")),
        (np.array([True, False, True]), (False, True)),
        (np.array([True, True, True]), (True,)),
        (np.array([True, False] * 3)[::2], (True,)),
        (np.array([1.5, -2.0, 1.5]), (-2.0, 1.5)),
        (np.array([0, 1, 0], dtype=np.int8), (0, 1)),
        (np.array([1, 0, 1], dtype=np.uint64), (0, 1)),
        (np.array([127, -128, 127], dtype=np.int8), (-128, 127)),
        (np.array([-5, -7, -5]), (-7, -5)),
        (np.array([4, 2, 9, 4]), (2, 4, 9)),
        (np.array([10**15, -(10**15), 0]), (-(10**15), 0, 10**15)),
        (np.array([65_536, 0, 65_536]), (0, 65_536)),
        (np.array([2**63, 2**63 + 1], dtype=np.uint64), (2**63, 2**63 + 1)),
        (pd.Series(["b", "a", "b"], index=[7, 8, 9], name="sex"), ("a", "b")),
        (pd.Series([5, 3, 5], index=[2, 1, 0]), (3, 5)),
        (pd.Index(["b", "a", "b"]), ("a", "b")),
        (pd.Series(["b", "a", "b"], dtype="string"), ("a", "b")),
        (pd.Series([5, 3, 5], dtype="Int64"), (3, 5)),
        (pd.Series([True, False, True], dtype="boolean"), (False, True)),
        (pl.Series("sex", ["b", "a", "b"]), ("a", "b")),
        (pl.Series("sex", ["b", "a", "b"], dtype=pl.Categorical), ("a", "b")),
        (pl.Series("sex", [3, 1, 3]), (1, 3)),
        (pl.Series("sex", [True, False, True]), (False, True)),
        (pa.array(["b", "a", "b"]), ("a", "b")),
        (pa.array(["b", "a", "b"]).dictionary_encode(), ("a", "b")),
        (pa.array([3, 1, 3]), (1, 3)),
        (pa.chunked_array([["b"], ["a", "b"]]), ("a", "b")),
    ],
    ids=without_address,
)
def test_one_group_per_distinct_value_in_sorted_order(column, labels):
    groups = encode_groups(column, n_rows=len(column))
    assert groups.labels == labels
    assert [type(label) for label in groups.labels] == [type(label) for label in labels]
    assert decoded(groups) == (column.to_pylist() if hasattr(column, "to_pylist") else list(column))


def test_unused_categories_are_no_groups():
    column = pd.Series(["low", "high", "low"]).astype(pd.CategoricalDtype(["none", "low", "mid", "high"]))
    for given in (column, column.array):
        groups = encode_groups(given)
        assert groups.labels == ("low", "high")  # in the order of the categories
        assert groups.codes.tolist() == [0, 1, 0]


def test_numbers_and_their_names_stay_apart():
    groups = encode_groups([1, "1", 2.5, "1"])
    assert set(groups.labels) == {1, "1", 2.5}
    assert decoded(groups) == [1, "1", 2.5, "1"]


def test_the_order_of_mixed_labels_does_not_depend_on_the_rows():
    assert encode_groups([1, "1", 2.5]).labels == encode_groups([2.5, "1", 1]).labels


# Several columns

SEX, RACE = ["f", "m", "f", "f"], [2, 1, 1, 2]
CROSSED = (("f", 1), ("f", 2), ("m", 1))


@pytest.mark.parametrize(
    "columns",
    [
        {"sex": SEX, "race": RACE},
        {"sex": np.array(SEX), "race": pd.Series(RACE, dtype="Int64")},
        {"sex": pl.Series(SEX), "race": pa.array(RACE)},
        {"sex": pa.array(SEX), "race": RACE},
        pa.table({"sex": SEX, "race": RACE}),
        pd.DataFrame({"sex": SEX, "race": RACE}, index=[3, 2, 1, 0]),
        pd.DataFrame({"sex": pd.Categorical(SEX, ["x", "f", "m"]), "race": RACE}),
        pl.DataFrame({"sex": SEX, "race": RACE}),
        np.array([SEX, RACE], dtype=object).T,
        list(zip(SEX, RACE, strict=True)),
    ],
    ids=lambda columns: type(columns).__module__.partition(".")[0] + "." + type(columns).__name__,
)
def test_columns_are_crossed_into_the_combinations_that_occur(columns):
    groups = encode_groups(columns, n_rows=4)
    assert groups.labels == CROSSED
    assert groups.codes.tolist() == [1, 2, 0, 1]
    assert groups.names == ("f × 1", "f × 2", "m × 1")


def test_three_integer_columns_of_an_array():
    table = np.array([[0, 1, -1], [0, 1, 1], [1, 0, 1], [0, 1, -1]])
    groups = encode_groups(table)
    assert groups.labels == ((0, 1, -1), (0, 1, 1), (1, 0, 1))
    assert decoded(groups) == [tuple(row) for row in table.tolist()]


@pytest.mark.parametrize(
    "column", [{"sex": SEX}, pd.DataFrame({"sex": SEX}), pl.DataFrame({"sex": SEX}), np.array([SEX]).T]
)
def test_a_single_column_of_a_table_gives_plain_labels(column):
    assert encode_groups(column).labels == ("f", "m")


def test_crossing_agrees_with_tuples():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.integers(0, 4, (200, 3)), columns=[*"abc"])
    groups = encode_groups(table)
    rows = [tuple(row) for row in table.to_numpy().tolist()]
    assert groups.labels == tuple(sorted(set(rows)))
    assert decoded(groups) == rows


# Missing values


@pytest.mark.parametrize(
    ("column", "name"),
    [
        (["a", "b", None, "a", None], "sensitive_features"),
        (["a", 1, None, "a", float("nan")], "sensitive_features"),
        (np.array([1.0, 2.0, np.nan, 1.0, np.nan]), "sensitive_features"),
        (np.array(["a", "b", None, "a", None], dtype=object), "sensitive_features"),
        (pd.Series(["a", "b", None, "a", None], index=[*"vwxyz"], name="sex"), "sensitive feature 'sex'"),
        (pd.Series(["a", "b", pd.NA, "a", pd.NA], dtype="string"), "sensitive_features"),
        (pd.Series([1, 2, pd.NA, 1, pd.NA], dtype="Int64"), "sensitive_features"),
        (pd.Series([True, False, pd.NA, True, pd.NA], dtype="boolean"), "sensitive_features"),
        (pd.Categorical(["a", "b", None, "a", None]), "sensitive_features"),
        (pl.Series("sex", ["a", "b", None, "a", None]), "sensitive feature 'sex'"),
        (pl.Series("sex", [1, 2, None, 1, None]), "sensitive feature 'sex'"),
        (pa.array(["a", "b", None, "a", None]), "sensitive_features"),
        (pa.array([True, False, None, True, None]), "sensitive_features"),
        ({"sex": ["a", "b", None, "a", None]}, "column 'sex'"),
        (pd.DataFrame({"sex": ["a", "b", None, "a", None]}), "column 'sex'"),
    ],
    ids=without_address,
)
def test_missing_values_are_refused_by_name_and_row_or_ignored(column, name):
    with pytest.raises(InputError, match=f"^{name} has 2 missing values, the first in row 2$"):
        encode_groups(column)
    groups = encode_groups(column, missing="ignore")
    assert groups.codes.tolist() == [groups.codes[0], groups.codes[1], -1, groups.codes[0], -1]
    assert sorted(groups.codes[:2]) == [0, 1]
    assert len(groups.labels) == 2


@pytest.mark.parametrize("make", [dict, pd.DataFrame, pl.DataFrame])
def test_a_row_that_lacks_one_value_has_no_crossed_group(make):
    table = make({"sex": ["f", None, "m", "f"], "race": ["x", "x", None, "y"]})
    with pytest.raises(InputError, match="column 'sex' has 1 missing values, the first in row 1"):
        encode_groups(table)
    groups = encode_groups(table, missing="ignore")
    assert groups.labels == (("f", "x"), ("f", "y"))
    assert groups.codes.tolist() == [0, -1, -1, 1]


def test_the_second_column_is_named_when_it_is_the_one_that_lacks_values():
    with pytest.raises(InputError, match="column 'race' has 1 missing values, the first in row 0"):
        encode_groups({"sex": ["f", "m"], "race": [None, "x"]})
    with pytest.raises(
        InputError, match=r"sensitive_features\[:, 1\] has 1 missing values, the first in row 0"
    ):
        encode_groups([("f", None), ("m", "x")])


def test_nothing_but_missing_values():
    groups = encode_groups([None, None], missing="ignore")
    assert groups.labels == ()
    assert groups.codes.tolist() == [-1, -1]
    assert encode_groups({"a": [None, None], "b": [1, 2]}, missing="ignore").codes.tolist() == [-1, -1]


# Refusals


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (["a", "b"], "has 2 rows, but there are 3 scores"),
        ({"a": [1, 2, 3], "b": [1, 2]}, "has 2 and 3 rows, but there are 3 scores"),
        ([], "has 0 rows, but there are 3 scores"),
        (np.array([], dtype=int), "has 0 rows, but there are 3 scores"),
        (pd.DataFrame({"a": []}), "has 0 rows"),
        ({}, "no columns"),
        (pd.DataFrame(index=range(3)), "no columns"),
        (None, "sensitive_features is missing"),
        ("abc", "one group per row, not the name 'abc'"),
        (np.zeros((3, 1, 1)), "one or two dimensions, not 3"),
        ([[1], [1, 2], [1]], "cannot be groups"),
    ],
    ids=without_address,
)
def test_refuses_what_is_no_column_of_groups(features, message):
    with pytest.raises(InputError, match=message):
        encode_groups(features, n_rows=3)


def test_columns_must_have_one_length():
    with pytest.raises(InputError, match="has 2 and 3 rows, in different columns"):
        encode_groups({"a": [1, 2, 3], "b": [1, 2]})


@pytest.mark.parametrize(
    "nobody", [[], np.array([], dtype=int), pd.Series([], dtype="category"), {"a": [], "b": []}]
)
def test_no_rows_give_no_groups(nobody):
    groups = encode_groups(nobody, n_rows=0)
    assert groups.labels == ()
    assert groups.codes.size == 0


# Names and pairs


def test_names_are_for_people():
    assert group_name("Female") == "Female"
    assert group_name(3) == "3"
    assert group_name(("Female", "Black", 1)) == "Female × Black × 1"


def test_pairs_are_unordered_and_complete():
    assert [*encode_groups([*"cab"]).pairs()] == [(0, 1), (0, 2), (1, 2)]


def test_other_groups_for_the_same_rows():
    groups = encode_groups(pd.Series(["c", "a", None, "b", "a"]), missing="ignore")
    kept = groups.only(np.array([True, False, True]))
    assert (kept.codes.tolist(), kept.labels) == ([1, 0, -1, -1, 0], ("a", "c"))
    some = groups.take(np.array([0, 2, 4]))
    assert (some.codes.tolist(), some.labels) == ([1, -1, 0], ("a", "c"))
    joined = groups.regroup([1, 0, 1], ("b", "a or c"))
    assert (joined.codes.tolist(), joined.labels) == ([1, 1, -1, 0, 1], ("b", "a or c"))


def test_many_categories_are_taken_whole():
    """Their codes are as short as pandas makes them, and 127 is the largest of a byte."""
    names = [f"{k:03}" for k in range(128)]
    taken = encode_groups(pd.Categorical(names)).take(np.arange(120, 128))
    assert taken.labels == tuple(names[120:])
    assert taken.codes.tolist() == list(range(8))
