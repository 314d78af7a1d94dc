"""Numbers that are refused: the sentence says what is wanted, whatever was given."""

import numpy as np
import pytest

from partialfair._checks import check_choice, check_count, check_number, shown
from partialfair.exceptions import InputError


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
