"""Tables to features: what each kind of column becomes, against the definition."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from partialfair import PartialFairClassifier
from partialfair.exceptions import InputError
from partialfair.tables import (
    MAX_LEVELS,
    CategoryColumn,
    GroupColumn,
    NumberColumn,
    TableModel,
    as_text,
    encode,
    read_columns,
    unseen_levels,
)

N = 60


def read(values, rows=None, **options):
    """The one column of a table, or None if it is left out, and the notes."""
    table = pd.DataFrame({"x": values, "other": np.tile([0.0, 1.0, 3.0], N // 3)})
    columns, notes = read_columns(table, ["x", "other"], np.arange(N) if rows is None else rows, **options)
    return (columns[0] if len(columns) == 2 else None), notes


NUMBERS = np.random.default_rng(0).normal(size=N).round(2)


@pytest.mark.parametrize(
    "values",
    [
        NUMBERS,
        NUMBERS.astype(str),
        [f" {value} " for value in NUMBERS],
        [Decimal(str(value)) for value in NUMBERS],
        pd.array(NUMBERS, dtype="Float64"),
        pd.Series(NUMBERS, dtype=object),
    ],
    ids=["floats", "text", "blanks", "decimals", "nullable", "objects"],
)
def test_numbers_however_they_are_written(values):
    column, _ = read(values)
    assert isinstance(column, NumberColumn)
    features = encode([column], pd.DataFrame({"x": values}))
    np.testing.assert_allclose(features[:, 0], (NUMBERS - NUMBERS.mean()) / NUMBERS.std(), atol=1e-12)


def test_text_is_read_to_the_last_digit():
    values = np.random.default_rng(2).normal(size=N)
    assert read(values)[0] == read([repr(value) for value in values.tolist()])[0]
    text, numbers = (pd.DataFrame({"x": column}) for column in (values.astype(str), values))
    column = NumberColumn("x", 0.0, 0.0, 1.0, False)
    np.testing.assert_array_equal(encode([column], text), encode([column], numbers))


def test_underscores_make_no_number():
    assert isinstance(read(["1_000", "2_000"] * (N // 2))[0], CategoryColumn)


@pytest.mark.parametrize("gap", [np.nan, None, "", "NA", "?", "nan", "NULL"])
def test_gaps_in_numbers(gap):
    values = pd.Series(NUMBERS.astype(str), dtype=object)
    values[::4] = gap
    column, _ = read(values)
    known = np.delete(NUMBERS, np.arange(0, N, 4))
    filled = NUMBERS.copy()
    filled[::4] = np.median(known)
    features = encode([column], pd.DataFrame({"x": values}))
    assert column.feature_names == ["x", "x is missing"]
    np.testing.assert_allclose(features[:, 0], (filled - filled.mean()) / filled.std(), atol=1e-12)
    np.testing.assert_array_equal(features[:, 1], np.arange(N) % 4 == 0)


@pytest.mark.parametrize(
    ("values", "levels"),
    [
        (["a", "b", None] * (N // 3), ["a", "b"]),
        ([" a", "b ", ""] * (N // 3), ["a", "b"]),
        (pd.Categorical(["b", "a", None] * (N // 3), categories=["b", "a", "never"]), ["a", "b"]),
        (["yes", "NA", None] * (N // 3), ["NA", "yes"]),  # NA may be a country
    ],
    ids=["text", "blanks", "categorical", "NA"],
)
def test_categories_and_their_gaps(values, levels):
    column, _ = read(values)
    assert column == CategoryColumn("x", tuple(levels), True)
    features = encode([column], pd.DataFrame({"x": values}))
    text = pd.Series(values).astype(object).map(lambda one: one.strip() or None, na_action="ignore")
    for place, level in enumerate(levels):
        np.testing.assert_array_equal(features[:, place], text == level)
    np.testing.assert_array_equal(features[:, -1], text.isna())
    np.testing.assert_array_equal(features.sum(axis=1), 1)


@pytest.mark.parametrize("values", [np.tile([True, False], N // 2), pd.array([True, False] * (N // 2))])
def test_booleans_are_numbers(values):
    column, _ = read(values)
    assert (column.mean, column.scale) == (0.5, 0.5)


def test_codes_as_categories_are_the_same_in_any_type():
    codes = np.tile([3, 10, 7], N // 3)
    for values in (codes, codes.astype(float), codes.astype(str), pd.array(codes, dtype="Int64")):
        column, _ = read(values, categories=["x"])
        assert column == CategoryColumn("x", ("10", "3", "7"), False)


def test_levels_and_means_are_of_the_training_rows():
    rows = np.arange(0, N, 2)
    numbers, _ = read(NUMBERS, rows)
    assert (numbers.mean, numbers.median) == pytest.approx((NUMBERS[rows].mean(), np.median(NUMBERS[rows])))
    column, _ = read(["a", "z", "b", "z"] * (N // 4), rows)
    assert column.levels == ("a", "b")


@pytest.mark.parametrize(
    "values",
    [["a"] * N, [1.5] * N, [0.1] * N, [0.0, 1e-200] * (N // 2)],
    ids=["text", "number", "rounding", "too close to each other"],
)
def test_one_value_is_no_feature(values):
    column, notes = read(values)
    assert column is None
    assert notes == ["column 'x' is the same in every training row, and is left out"]


def test_one_value_with_gaps_is_a_feature():
    column, _ = read([2.0, np.nan, np.nan] * (N // 3))
    features = encode([column], pd.DataFrame({"x": [2.0, np.nan]}))
    np.testing.assert_array_equal(features, [[0, 0], [0, 1]])


@pytest.mark.parametrize("size", [1e-74, 1.0, 1e75])
def test_numbers_of_any_size_are_standardised(size):
    column, _ = read(NUMBERS / np.abs(NUMBERS).max() * size)
    features = encode([column], pd.DataFrame({"x": [-1e75, 0.0, 1e75]}))
    assert column.scale > 0
    assert np.isfinite(features).all()


def test_a_word_among_numbers_is_said():
    column, notes = read([*map(str, range(25)), *map(str, range(25)), *(["unknown"] * 10)])
    assert len(column.levels) == 26
    assert notes == ["column 'x' is read as categories because of 'unknown' among numbers"]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([f"n{k}" for k in range(N)], "'x' has 60 different texts in 60 rows"),
        (pd.date_range("2000-01-01", periods=N), "'x' holds dates or times"),
        (pd.to_timedelta(np.arange(N), unit="h"), "'x' holds dates or times"),
        (["2000-01-02T10:00", "2001-12-31 23:59"] * (N // 2), "'x' holds dates or times"),
        (["10:30", "9:45:10"] * (N // 2), "'x' holds dates or times"),
        (np.random.default_rng(0).permutation(N) + 100, "'x' numbers the rows"),
        ([np.nan] * N, "'x' is empty"),
        (["", "?"] * (N // 2), "'x' is empty"),
        ([[1, 2]] * N, "'x' holds values of type list"),
        ([b"a", b"b"] * (N // 2), "'x' holds values of type bytes"),
        (
            [1.0, np.inf] * (N // 2),
            "'x' has 'inf' where a finite number is needed, in data row 2 and 29 more rows",
        ),
        ([1.0, -1e308] * (N // 2), "'x' has '-1e+308' where a number between -1e+75 and 1e+75 is needed"),
        (["1", "1e99"] * (N // 2), "'x' has '1e99' where a number between -1e+75 and 1e+75 is needed"),
    ],
    ids=str,
)
def test_columns_that_are_refused(values, words):
    with pytest.raises(InputError) as refused:
        read(values)
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_table_of_which_nothing_is_left():
    table = pd.DataFrame({"x": [1] * N, "y": ["a"] * N})
    with pytest.raises(InputError, match="make features of: 'x' and 'y' are the same in every training row"):
        read_columns(table, ["x", "y"], np.arange(N))
    with pytest.raises(InputError, match="make features of: 'x' is the same in every training row"):
        read_columns(table, ["x"], np.arange(N))
    with pytest.raises(InputError, match=r"no column left to make features of$"):
        read_columns(table, [], np.arange(N))


@pytest.fixture(scope="module")
def model():
    """A model of tables with a term for each group."""
    groups, x = np.tile(["f", "m"], N // 2), np.random.default_rng(0).normal(size=N)
    columns, _ = read_columns(table := pd.DataFrame({"x": x, "sex": groups}), ["x"], np.arange(N))
    classifier = PartialFairClassifier(None, group_terms="intercept", alpha=0.1)
    classifier.fit(encode(columns, table), x > 0, sensitive_features=table[["sex"]])
    return TableModel("y", ("no", "yes"), columns, (GroupColumn("sex", False),), (), classifier)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (np.zeros((3, 2)), r"the model needs tables \(pandas DataFrames\), not ndarray"),
        (pd.DataFrame({"x": [], "sex": []}), "the table has no rows to score"),
        (pd.DataFrame({"sex": ["f"], "X": [1.0]}), r"no column 'x' \('X' is similar\)"),
        (pd.DataFrame([[1.0, 2.0, "f"]], columns=["x", "x", "sex"]), "the table has 2 columns 'x'"),
        (pd.DataFrame({"x": ["abc"], "sex": ["f"]}), "'x' has 'abc' where a finite number .* data row 1$"),
        (pd.DataFrame({"x": [1.0, 2.0], "sex": ["f", None]}), "'sex' is empty in data row 2; .*group terms"),
        (pd.DataFrame({"x": [1.0], "sex": ["z"]}), "group 'z' was not seen in fit, which saw 'f' and 'm'"),
    ],
)
def test_tables_that_cannot_be_scored(model, table, message):
    for ask in (model.decision_function, model.predict, model.predict_proba):
        with pytest.raises(InputError, match=message):
            ask(table)


def test_all_columns_that_are_refused_are_named_at_once():
    table = pd.DataFrame({f"c{k}": [f"{k}n{j}" for j in range(N)] for k in range(7)})
    with pytest.raises(
        InputError, match=r"column 'c0' has.*column 'c4' has.* and 2 more; .*--drop c0.*--drop c6"
    ):
        read_columns(table, list(table), np.arange(N))


def test_many_levels_give_a_sparse_matrix_of_the_same_numbers():
    rng = np.random.default_rng(1)
    table = pd.DataFrame(
        {"town": rng.choice([f"t{k:02d}" for k in range(40)], 400), "x": rng.normal(size=400)}
    )
    table.loc[::5, "x"] = np.nan
    columns, _ = read_columns(table, ["town", "x"], np.arange(400))
    features = encode(columns, table)
    assert sparse.issparse(features)
    wanted = np.column_stack(
        [
            pd.get_dummies(table["town"]).to_numpy(dtype=float),
            (table["x"].fillna(columns[1].median) - columns[1].mean) / columns[1].scale,
            table["x"].isna(),
        ]
    )
    np.testing.assert_allclose(features.toarray(), wanted, atol=1e-15)
    new = pd.DataFrame({"town": ["nowhere", "t00"], "x": [0.0, np.nan]})
    np.testing.assert_array_equal(encode(columns, new).toarray()[:, :40], [[0] * 40, [1] + [0] * 39])
    (sentence,) = unseen_levels(columns, new)
    assert sentence.startswith(
        "column 'town' has values such as 'nowhere' in 1 row, which did not occur in training"
    )


def test_the_most_levels():
    values = [f"t{k}" for k in range(MAX_LEVELS)] * 3
    for more, refused in (([], False), (["one more"] * 3, True)):
        table = pd.DataFrame({"x": values + more})
        if refused:
            with pytest.raises(InputError, match="different texts"):
                read_columns(table, ["x"], np.arange(len(table)))
        else:
            assert len(read_columns(table, ["x"], np.arange(len(table)))[0][0].levels) == MAX_LEVELS


def test_groups_are_kept_as_written():
    assert GroupColumn("sex", False).labels(pd.Series([" f", "m"])).tolist() == [" f", "m"]
    assert GroupColumn("sex", True).labels(pd.Series([0.0, 1.0])).tolist() == ["sex=0", "sex=1"]


def test_text_of_numbers():
    assert as_text(pd.Series([1.0, 0.25, np.nan, -3.0])).tolist() == ["1", "0.25", None, "-3"]
    assert as_text(pd.Series([True, False])).tolist() == ["True", "False"]


class TestHintsOfIdentifiers:
    @pytest.mark.parametrize("rows", [["01234", "1000", "22222"], ["007", "8", "9"]])
    def test_leading_zeros(self, rows):
        column, notes = read(rows * (N // 3))
        assert isinstance(column, NumberColumn)
        assert notes == [
            f"column 'x' has codes with leading zeros ({rows[0]!r}), read as numbers: name it in --category, "
            "or leave it out by --id or --drop"
        ]
        assert read(rows * (N // 3), categories=["x"])[1] == []

    @pytest.mark.parametrize(
        "write", [list, lambda values: list(map(str, values)), lambda values: values + 0.0]
    )
    def test_whole_numbers_that_nearly_all_differ(self, write):
        values = np.random.default_rng(0).permutation(10**6)[:N]
        values[1] = values[0]
        _, notes = read(write(values))
        assert len(notes) == 1
        assert "column 'x' has 59 different whole numbers in 60 rows" in notes[0]
        assert "--id or --drop" in notes[0]

    @pytest.mark.parametrize("values", [np.arange(N) // 2, np.arange(N) / 7, ["0", "0.5", "00x"] * (N // 3)])
    def test_other_columns_get_none(self, values):
        assert read(values)[1] == []


def test_all_missing_columns_are_named():
    columns = tuple(
        NumberColumn(name, 0.0, 0.0, 1.0, False) for name in ["age", "test", "x" * 5000, *map(str, range(20))]
    )
    model = TableModel("y", ("0", "1"), columns, (), (), PartialFairClassifier())
    with pytest.raises(InputError) as refused:
        model.decision_function(pd.DataFrame({"Age": [1.0], "tests": [2.0]}))
    assert str(refused.value).startswith(
        "the table has no columns 'age' ('Age' is similar), 'test' ('tests' is"
    )
    assert " and 15 more, which the model was trained on" in str(refused.value)
    assert len(str(refused.value)) < 600
