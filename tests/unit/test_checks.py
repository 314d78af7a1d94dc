"""Numbers that are refused: the sentence says what is wanted, whatever was given."""

import datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow
import pytest

from partialfair import PartialFairClassifier, PartialFairRegressor
from partialfair.data.groups import encode_groups
from partialfair.exceptions import InputError
from partialfair.metrics import partial_equal_opportunity_difference, partial_statistical_parity_difference
from partialfair.utils.checks import (
    check_choice,
    check_count,
    check_number,
    check_weights,
    finite_vector,
    shown,
)


@pytest.mark.parametrize(
    ("value", "limits", "sentence"),
    [
        (-1, {"low": 0.0}, "x must be at least 0, not -1"),
        (np.inf, {"low": 0.0}, "x must be a finite number of at least 0, not inf"),
        ("a", {"low": 0.0}, "x must be a finite number of at least 0, not 'a'"),
        (0, {"above": 0.0}, "x must be positive, not 0"),
        (1, {"above": 2.0}, "x must be above 2, not 1"),
        (np.nan, {"above": 0.0}, "x must be a finite number above 0, not nan"),
        (2, {"low": 0.0, "high": 1.0}, "x must lie in [0, 1], not 2"),
        (0, {"above": 0.0, "high": 0.9}, "x must lie in (0, 0.9], not 0"),
        (1.5, {"above": 0.0, "high": 0.9}, "x must lie in (0, 0.9], not 1.5"),
        (None, {}, "x must be a finite number, not None"),
        (True, {}, "x must be a finite number, not True"),
    ],
)
def test_numbers(value, limits, sentence):
    with pytest.raises(InputError) as refused:
        check_number(value, "x", **limits)
    assert str(refused.value) == sentence


def test_counts():
    check_count(3, "n")
    with pytest.raises(InputError, match=r"n must be a whole number, not 2\.5"):
        check_count(2.5, "n")


@pytest.mark.parametrize("value", [np.zeros((200, 3)), [["long"] * 50] * 50])
def test_what_is_long_is_cut_to_one_line(value):
    for check in (lambda: check_number(value, "x"), lambda: check_choice(value, "x", ["a"])):
        with pytest.raises(InputError) as refused:
            check()
        assert "\n" not in str(refused.value)
        assert len(str(refused.value)) < 150
    assert shown("short") == "'short'"


DAYS = [datetime.date(2020, 1, 1), datetime.date(2021, 1, 1)]
DATES = {
    "list": DAYS,
    "objects": np.array(DAYS, dtype=object),
    "numpy": np.array(DAYS, dtype="M8[D]"),
    "list of numpy": [np.datetime64("2020-01-01"), np.datetime64("NaT")],
    "pandas": pd.Series(pd.to_datetime(DAYS)),
    "time zone": pd.Series(pd.to_datetime(DAYS)).dt.tz_localize("UTC"),
    "missing": pd.Series([pd.NaT, pd.NaT]),
    "durations": pd.Series(pd.to_timedelta([1, 2])),
    "polars": pl.Series(DAYS),
    "polars durations": pl.Series([datetime.timedelta(1), None]),
    "arrow": pyarrow.array(DAYS),
    "arrow in pandas": pd.Series(DAYS, dtype=pd.ArrowDtype(pyarrow.date32())),
    "masked": np.ma.array(np.array(DAYS, dtype="M8[D]"), mask=False),
}


@pytest.mark.parametrize("dates", DATES.values(), ids=DATES)
def test_dates_are_no_numbers(dates):
    with pytest.raises(InputError, match="y_score holds dates or times"):
        partial_statistical_parity_difference(None, dates, sensitive_features=["a", "b"])
    with pytest.raises(InputError, match="sample_weight holds dates or times"):
        check_weights(dates, 2)
    with pytest.raises(InputError, match="y_true holds dates or times"):
        partial_equal_opportunity_difference(dates, [0.5, 0.25], sensitive_features=["a", "b"], threshold=0)
    for estimator in (PartialFairClassifier(interval=(0, 1)), PartialFairRegressor(interval=(0, 1))):
        with pytest.raises(InputError, match="y holds dates or times"):
            estimator.fit([[0.0], [1.0]], dates, sensitive_features=["a", "b"])


@pytest.mark.parametrize(
    "X",
    [
        pd.DataFrame({"when": pd.to_datetime(DAYS)}),
        pd.DataFrame({"a": [0.0, 1.0], "when": DAYS}),
        pl.DataFrame({"a": [0.0, 1.0], "when": DAYS}),
        np.array(DAYS, dtype="M8[D]")[:, None],
        [[0.0, day] for day in DAYS],
    ],
)
def test_dates_are_no_features(X):
    with pytest.raises(InputError, match=r"column ('when'|\d) of X holds dates or times"):
        PartialFairClassifier(constraint=None).fit(X, [0, 1])


LARGE = {
    "list": [2**53, 2**53 + 1],
    "with floats": [2**53 + 1, 2**53, 0.5],
    "signed and unsigned": [2**63, 2**63 + 1, -1],
    "unsigned": np.array([2**64 - 2, 2**64 - 1], dtype=np.uint64),
    "nullable": pd.Series([2**53, 2**53 + 1], dtype="Int64"),
    "polars": pl.Series([2**53, 2**53 + 1]),
    "arrow": pyarrow.array([-(2**53) - 1, -(2**53)]),
    "objects": np.array([10**40, 10**40 + 1], dtype=object),
    "decimals": [Decimal("0.1"), Decimal("0.1000000000000000000001")],
}


@pytest.mark.parametrize("values", LARGE.values(), ids=LARGE)
def test_numbers_that_floats_would_tie_are_not_ranked(values):
    with pytest.raises(InputError, match=r"y_score holds .* and .* which are equal as floats"):
        finite_vector(values, "y_score", ranked=True)
    assert np.isfinite(finite_vector(values, "sample_weight")).all()


def test_large_numbers_that_stay_apart_keep_their_order():
    values = [2**60 + 2**20 * k for k in (3, 1, 2)]
    assert finite_vector(values, "y_score", ranked=True).argsort().tolist() == [1, 2, 0]


class TestMasks:
    def test_scores_weights_labels_and_features(self):
        masked = np.ma.array([0.0, 1.0], mask=[False, True])
        for call in (
            lambda: partial_statistical_parity_difference(None, masked, sensitive_features=["a", "b"]),
            lambda: check_weights(masked, 2),
            lambda: partial_equal_opportunity_difference(
                masked, [0.5, 0.25], sensitive_features=["a", "b"], threshold=0
            ),
            lambda: PartialFairClassifier(constraint=None).fit([[0.0], [1.0]], masked),
            lambda: PartialFairClassifier(constraint=None).fit(masked[:, None], [0, 1]),
        ):
            with pytest.raises(InputError, match=r"has 1 values that are masked, the first in row 1"):
                call()

    @pytest.mark.parametrize("values", [[0, 1, 0], ["a", "b", "a"], [0.5, 1.5, 0.5]])
    def test_groups_that_are_masked_are_missing(self, values):
        masked = np.ma.array(values, mask=[False, False, True])
        assert encode_groups(masked, missing="ignore").codes.tolist() == [0, 1, -1]
        crossed = np.ma.array([values, values]).T
        crossed[1, 1] = np.ma.masked
        assert encode_groups(crossed, missing="ignore").codes.tolist() == [0, -1, 0]
        with pytest.raises(InputError, match="1 missing values, the first in row 2"):
            encode_groups(masked)

    def test_nothing_masked_is_nothing_special(self):
        assert finite_vector(np.ma.array([1, 2]), "x").tolist() == [1, 2]


@pytest.mark.parametrize("weight", [1e308, 1e-320])
def test_extreme_weights_are_refused_by_row(weight):
    with pytest.raises(
        InputError, match=r"sample_weight has 1e\+308 in row 2|sample_weight has .*e-321 in row 2"
    ):
        check_weights([0.0, 1.0, weight], 3)
    with pytest.raises(InputError, match="sample_weight has"):
        PartialFairClassifier(constraint=None).fit([[0.0], [1.0]], [0, 1], sample_weight=[1.0, weight])
    assert check_weights([0.0, 1e75, 1e-75], 3).min() == 0.0
