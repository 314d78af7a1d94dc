from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from partialfair.data.categoricals import CategoricalCodes
from partialfair.exceptions import InputError


@st.composite
def frames(draw):
    """Frames of one to four columns of small integers or words, often with levels that occur once."""
    n = draw(st.integers(1, 30))
    columns = draw(
        st.lists(
            st.sampled_from([st.integers(-5, 5), st.sampled_from(["a", "b", "é", ""])]),
            min_size=1,
            max_size=4,
        )
    )
    return pd.DataFrame(
        {f"c{j}": draw(st.lists(values, min_size=n, max_size=n)) for j, values in enumerate(columns)}
    )


def small() -> CategoricalCodes:
    return CategoricalCodes.from_frame(pd.DataFrame({"OCCP": [4720, 10, 4720], "state": ["x", "y", "z"]}))


@given(frames())
def test_the_one_hot_matrix_is_pandas(frame):
    codes = CategoricalCodes.from_frame(frame)
    expected = pd.get_dummies(frame, columns=list(frame), prefix_sep="=", dtype=float)
    np.testing.assert_array_equal(codes.to_csr().toarray(), expected.to_numpy())
    assert codes.feature_names == tuple(expected.columns)
    assert codes.n_levels == expected.shape[1]


@given(frames())
def test_the_values_can_be_read_back(frame):
    codes = CategoricalCodes.from_frame(frame)
    for j, name in enumerate(codes.names):
        assert codes.categories[j][codes.codes[:, j]].tolist() == frame[name].tolist()


@given(frames(), st.integers(0, 2**32))
def test_taking_rows_and_expanding_commute(frame, seed):
    codes = CategoricalCodes.from_frame(frame)
    rows = np.random.default_rng(seed).integers(len(frame), size=7)
    np.testing.assert_array_equal(codes.take(rows).to_csr().toarray(), codes.to_csr().toarray()[rows])
    mask = np.random.default_rng(seed).random(len(frame)) < 0.5
    np.testing.assert_array_equal(codes.take(mask).codes, codes.codes[mask])


@given(frames())
def test_known_categories_give_new_rows_the_old_codes(frame):
    whole = CategoricalCodes.from_frame(frame)
    known = dict(zip(whole.names, whole.categories, strict=True))
    again = CategoricalCodes.from_frame(frame.iloc[:1], categories=known)
    np.testing.assert_array_equal(again.codes, whole.codes[:1])
    assert again.feature_names == whole.feature_names


def test_layout():
    codes = small()
    assert codes.codes.dtype == np.uint16
    assert codes.codes.flags.c_contiguous
    assert codes.n_rows == 3
    assert codes.n_levels == 5
    assert codes.offsets.tolist() == [0, 2]
    assert codes.feature_names == ("OCCP=10", "OCCP=4720", "state=x", "state=y", "state=z")


def test_the_matrix_has_the_type_asked_for_and_sorted_columns():
    matrix = small().to_csr(np.float32)
    assert matrix.dtype == np.float32
    assert matrix.indices.dtype == np.int32
    assert matrix.has_sorted_indices
    assert matrix.data.tolist() == [1.0] * 6


def test_codes_are_read_only_and_the_callers_array_is_not_touched():
    given_codes = np.zeros((2, 1), dtype=np.uint16)
    codes = CategoricalCodes(given_codes, (np.array(["a"]),), ("c",))
    with pytest.raises(ValueError, match="read-only"):
        codes.codes[0, 0] = 0
    given_codes[0, 0] = 0
    assert given_codes.flags.writeable


def test_a_pandas_categorical_keeps_its_order_and_its_empty_levels():
    column = pd.Categorical(["low", "high"], categories=["low", "middle", "high"])
    codes = CategoricalCodes.from_frame(pd.DataFrame({"c": column}))
    assert codes.feature_names == ("c=low", "c=middle", "c=high")
    assert codes.codes.ravel().tolist() == [0, 2]


def test_a_pandas_categorical_meets_known_categories():
    frame = pd.DataFrame({"c": pd.Categorical(["b", "a"])})
    codes = CategoricalCodes.from_frame(frame, categories={"c": ["a", "z", "b"]})
    assert codes.codes.ravel().tolist() == [2, 0]


def test_no_rows_and_no_columns_are_fine():
    empty = small().take(np.array([], dtype=int))
    assert empty.n_rows == 0
    assert empty.to_csr().shape == (0, 5)
    bare = CategoricalCodes(np.zeros((4, 0), dtype=int), (), ())
    assert bare.to_csr().shape == (4, 0)


class TestRefusals:
    def test_an_unknown_value_is_named_with_its_column(self):
        frame = pd.DataFrame({"a": [1, 2], "OCCP": [10, 99]})
        with pytest.raises(InputError, match="column 'OCCP' is 99 at row 1"):
            CategoricalCodes.from_frame(frame, categories={"a": [1, 2], "OCCP": [10, 4720]})

    @pytest.mark.parametrize("known", [None, {"c": ["a", "b"]}])
    def test_a_missing_value_is_named(self, known):
        with pytest.raises(InputError, match="column 'c' is missing at row 1"):
            CategoricalCodes.from_frame(pd.DataFrame({"c": ["a", None, "b"]}), categories=known)

    def test_a_column_without_known_categories_is_named(self):
        with pytest.raises(InputError, match="no entry for column 'b'"):
            CategoricalCodes.from_frame(pd.DataFrame({"a": [1], "b": [1]}), categories={"a": [1]})

    def test_repeated_column_names(self):
        with pytest.raises(InputError, match="'a' occurs more than once"):
            CategoricalCodes.from_frame(pd.DataFrame([[1, 2]], columns=["a", "a"]))

    @pytest.mark.parametrize("dtype", [int, "category"])
    def test_more_levels_than_a_code_can_count(self, dtype):
        with pytest.raises(InputError, match="column 'id' has 65537 categories"):
            CategoricalCodes.from_frame(pd.DataFrame({"id": np.arange(65_537)}, dtype=dtype))
        assert CategoricalCodes.from_frame(pd.DataFrame({"id": np.arange(65_536)})).codes[-1, 0] == 65_535

    @pytest.mark.parametrize("code", [-1, 2, 65_536, 65_538])
    def test_a_code_out_of_range_is_named_with_its_column(self, code):
        codes = np.array([[0, 0], [0, code]])
        levels = np.array(["x", "y"])
        with pytest.raises(InputError, match=f"column 'second' has code {code} at row 1, but 2 categories"):
            CategoricalCodes(codes, (levels, levels), ("first", "second"))

    @pytest.mark.parametrize("codes", [np.zeros((2, 1)), np.zeros(2, dtype=int)])
    def test_codes_must_be_a_table_of_integers(self, codes):
        with pytest.raises(InputError, match="two-dimensional integer array"):
            CategoricalCodes(codes, (np.array([0]),), ("c",))

    def test_columns_categories_and_names_must_agree(self):
        with pytest.raises(InputError, match="2 columns, but there are 1 sets of categories and 1 names"):
            CategoricalCodes(np.zeros((1, 2), dtype=int), (np.array([0]),), ("c",))

    def test_repeated_categories(self):
        twice = np.array(["a", "a"])
        with pytest.raises(InputError, match="column 'c' lists category 'a' twice"):
            CategoricalCodes(np.zeros((1, 1), dtype=int), (twice,), ("c",))
        with pytest.raises(InputError, match="column 'c' lists category 'a' twice"):
            CategoricalCodes.from_frame(pd.DataFrame({"c": ["a"]}), categories={"c": twice})

    def test_categories_must_be_a_list(self):
        with pytest.raises(InputError, match="categories of column 'c' must be one-dimensional"):
            CategoricalCodes(np.zeros((1, 1), dtype=int), (np.array([["a"]]),), ("c",))
