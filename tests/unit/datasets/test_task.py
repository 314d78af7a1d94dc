from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from partialfair.data.categoricals import CategoricalCodes
from partialfair.datasets.task import Dataset, Shares, group_series
from partialfair.exceptions import InputError


def made(n: int = 20, X: object = None, **options: object) -> Dataset:
    frame = pd.DataFrame({"x": np.arange(float(n))})
    settings = {
        "name": "made",
        "X": frame if X is None else X,
        "y": (np.arange(n) % 2).astype(np.int8),
        "sensitive_features": group_series("sex", np.arange(n) % 3 == 0, ("Female", "Male")),
        "feature_names": ("x",),
        "target_name": "odd",
        "interval": (0.0, 1.0),
        "description": "",
        **options,
    }
    return Dataset(**settings)


@given(
    n=st.integers(1, 300),
    seed=st.integers(0, 2**32),
    cuts=st.tuples(st.floats(0, 1), st.floats(0, 1)).map(sorted),
)
def test_a_split_is_a_partition_in_the_given_shares(n, seed, cuts):
    shares = Shares(cuts[0], cuts[1] - cuts[0], 1.0 - cuts[1])
    split = made(n, shares=shares).split(seed)
    parts = (split.train, split.validation, split.test)
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(n))
    for part, share in zip(parts, (shares.train, shares.validation, shares.test), strict=True):
        assert abs(len(part) - share * n) <= 1
        assert np.all(np.diff(part) > 0)


def test_the_same_seed_gives_the_same_split_and_another_seed_another():
    data = made(1000)
    np.testing.assert_array_equal(data.split(3).train, data.split(3).train)
    assert not np.array_equal(data.split(3).train, data.split(4).train)
    # A split that were no permutation would put the first rows into the training part.
    assert data.split(3).train.max() > 900


def test_official_test_rows_stay_where_they_are():
    partition = np.repeat([0, 2], [100, 50]).astype(np.int8)
    data = made(150, shares=Shares(0.9, 0.1, test=None), official_partition=partition)
    for seed in range(3):
        split = data.split(seed)
        np.testing.assert_array_equal(split.test, np.arange(100, 150))
        assert (len(split.train), len(split.validation)) == (90, 10)
        np.testing.assert_array_equal(np.sort(np.r_[split.train, split.validation]), np.arange(100))


@pytest.mark.parametrize("kind", ["frame", "csr", "codes"])
@pytest.mark.parametrize("rows", [np.array([4, 1]), np.arange(20) >= 17], ids=["positions", "mask"])
def test_subset_takes_the_same_rows_of_everything(kind, rows):
    values = np.arange(20)
    features = {
        "frame": pd.DataFrame({"x": values}, index=values + 100),
        "csr": sparse.csr_matrix(values[:, None]),
        "codes": CategoricalCodes(values[:, None], (values,), ("x",)),
    }[kind]
    X, y, groups = made(20, features).subset(rows)
    taken = {"frame": lambda: X["x"], "csr": lambda: X.toarray().ravel(), "codes": lambda: X.codes[:, 0]}[
        kind
    ]()
    expected = values[rows]
    np.testing.assert_array_equal(taken, expected)
    np.testing.assert_array_equal(y, expected % 2)
    assert groups.tolist() == ["Male" if row % 3 == 0 else "Female" for row in expected]


@pytest.mark.parametrize("name", ["y", "sensitive_features", "official_partition", "historical_score"])
def test_lengths_must_agree(name):
    with pytest.raises(InputError, match=f"{name} has 3 entries, but X has 20 rows"):
        made(**{name: pd.Series([0, 0, 1])})


def test_shares_must_sum_to_one():
    with pytest.raises(InputError, match="sum to one"):
        Shares(0.6, 0.2, 0.3)
    with pytest.raises(InputError, match="non-negative"):
        Shares(1.2, -0.2, 0.0)


def test_official_shares_need_an_official_partition():
    with pytest.raises(InputError, match="no official_partition"):
        made(shares=Shares(0.9, 0.1, test=None))


def test_the_repr_is_short_and_says_the_sizes():
    assert repr(made()) == "<Dataset made: 20 rows, 1 features, sex: Female 13, Male 7>"
