from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from partialfair.data.intervals import IntervalSet, as_interval_set, band_weights, intervals_by_group
from partialfair.exceptions import InputError

# Reading what a user wrote


@pytest.mark.parametrize(
    ("written", "parts"),
    [
        ((0.05, 0.30), ((0.05, 0.30),)),
        ([0, 1], ((0.0, 1.0),)),
        (np.array([0.1, 0.5]), ((0.1, 0.5),)),
        ((Fraction(1, 20), Fraction(3, 10)), ((0.05, 0.3),)),
        ([(0.5, 0.6), (0.1, 0.2)], ((0.1, 0.2), (0.5, 0.6))),
        (([0.1, 0.2], [0.5, 0.6]), ((0.1, 0.2), (0.5, 0.6))),
        (np.array([[0.1, 0.2], [0.5, 0.6]]), ((0.1, 0.2), (0.5, 0.6))),
        ([(0.2, 0.5), (0.1, 0.2), (0.5, 0.75), (0.8, 1)], ((0.1, 0.75), (0.8, 1.0))),
        ([(0, 0.1 + 0.2), (0.3, 1)], ((0.0, 1.0),)),
    ],
)
def test_reads_pairs_and_unions(written, parts):
    assert as_interval_set(written).parts == parts


def test_an_interval_set_is_left_alone():
    interval = as_interval_set((0.1, 0.5))
    assert as_interval_set(interval) is interval


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ((0.5, 0.1), r"interval \(0.5, 0.1\) is empty or reversed"),
        ((0.1, 0.1), r"interval \(0.1, 0.1\) is empty or reversed"),
        ([(0, 0.1), (0.5, 0.4)], r"interval \(0.5, 0.4\) is empty or reversed"),
        ((-0.1, 0.5), r"interval \(-0.1, 0.5\) lies outside \[0, 1\]"),
        ((0.5, 1.01), r"interval \(0.5, 1.01\) lies outside \[0, 1\]"),
        ((5, 30), r"\(5, 30\) lies outside .* 30% is written 0.30"),
        ((float("nan"), 0.5), r"interval \(nan, 0.5\)"),
        ((0.5, float("nan")), r"interval \(0.5, nan\)"),
        ((0.5, float("inf")), r"interval \(0.5, inf\) lies outside"),
        ([(0, 0.3), (0.2, 0.5)], r"\(0.0, 0.3\) and \(0.2, 0.5\) overlap"),
        ([(0.4, 0.5), (0.1, 0.2), (0.1, 0.2)], r"\(0.1, 0.2\) and \(0.1, 0.2\) overlap"),
        ([(0, 1), (0.2, 0.5)], r"\(0.0, 1.0\) and \(0.2, 0.5\) overlap"),
        ("0.1-0.5", r"must be \(low, high\) or a list of such pairs, not '0.1-0.5'"),
        ("top", r"must be \(low, high\) .* not 'top'"),
        (("0.1", "0.5"), r"two numbers \(low, high\), not '0.1'"),
        ([("0.1", "0.5")], r"two numbers \(low, high\), not \('0.1', '0.5'\)"),
        (None, r"interval is missing: .* interval=\(0, 1\) for the whole range"),
        (0.5, r"must be \(low, high\) .* not 0.5"),
        ({0.1, 0.5}, r"must be \(low, high\)"),
        ((), r"must be \(low, high\) .* not \(\)"),
        ((0.5,), r"two numbers \(low, high\), not \(0.5,\)"),
        ((0.1, 0.2, 0.3), r"two numbers \(low, high\), not \(0.1, 0.2, 0.3\)"),
        ([(0.1, 0.2), 0.5], r"two numbers \(low, high\), not 0.5"),
        ((None, 1), r"two numbers \(low, high\), not None"),
        ((0.1, 0.5j), r"two numbers \(low, high\)"),
    ],
)
def test_refuses_what_is_no_interval(written, message):
    with pytest.raises(InputError, match=message):
        as_interval_set(written)


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ((0.05, 0.30), "ranks 5–30% from the top (score percentiles 70–95)"),
        ((0, 1), "ranks 0–100% from the top (score percentiles 0–100)"),
        ((0.125, 0.3), "ranks 12.5–30% from the top (score percentiles 70–87.5)"),
        ([(0.7, 1), (0, 0.1)], "ranks 0–10% and 70–100% from the top (score percentiles 90–100 and 0–30)"),
    ],
)
def test_text_counts_both_ways(written, text):
    assert str(as_interval_set(written)) == text


# One interval per group


def test_a_common_interval_is_given_to_each_group():
    common = as_interval_set((0.1, 0.5))
    assert intervals_by_group((0.1, 0.5), ["a", "b", "c"]) == (common, common, common)


def test_a_mapping_is_read_in_the_order_of_the_groups():
    written = {"b": [(0, 0.1), (0.2, 0.3)], "a": (0.1, 0.5), ("c", 1): (0, 1)}
    found = intervals_by_group(written, ["a", "b", ("c", 1)])
    assert [interval.parts for interval in found] == [
        ((0.1, 0.5),),
        ((0.0, 0.1), (0.2, 0.3)),
        ((0.0, 1.0),),
    ]


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ({"a": (0, 0.5)}, "no interval for group 'b'"),
        ({}, "no interval for group 'a'"),
        ({"a": (0, 0.5), "b": (0, 0.5), "B": (0, 1)}, r"group 'B', which is not in the data: \['a', 'b'\]"),
        ({"a": (0, 0.5), "b": (0.5, 0)}, "reversed"),
        ({"a": (0, 0.5), "b": "all"}, "must be"),
        ((0.5, 0), "reversed"),
    ],
)
def test_a_mapping_names_each_group_and_no_other(written, message):
    with pytest.raises(InputError, match=message):
        intervals_by_group(written, ["a", "b"])


# Measure and passed share

INTERVALS = [
    (0.0, 1.0),
    (0.07, 0.5),
    (0.0, 0.25),
    (0.9, 1.0),
    [(0.1, 0.2), (0.5, 0.9)],
    [(0, 0.3), (0.4, 0.5), (0.8, 1)],
]


@pytest.mark.parametrize("written", INTERVALS, ids=str)
def test_passed_is_the_integral_of_the_indicator(written):
    interval = as_interval_set(written)
    middles = (np.arange(1000) + 0.5) / 1000  # every end is a multiple of 1/1000
    inside = sum((low <= middles) & (middles < high) for low, high in interval.parts)
    integral = np.concatenate([[0], np.cumsum(inside)]) / 1000
    assert interval.measure == pytest.approx(integral[-1])
    ranks = np.arange(1001) / 1000
    np.testing.assert_allclose(interval.passed(ranks), integral / integral[-1], rtol=0, atol=1e-12)


def test_passed_of_a_union_by_hand():
    interval = as_interval_set([(0.1, 0.2), (0.5, 0.8)])
    assert interval.passed([0, 0.1, 0.15, 0.2, 0.4, 0.5, 0.6, 0.8, 1]) == pytest.approx(
        [0, 0, 1 / 8, 1 / 4, 1 / 4, 1 / 4, 1 / 2, 1, 1]
    )


def test_passed_takes_one_rank():
    assert float(as_interval_set((0.2, 0.6)).passed(0.3)) == pytest.approx(0.25)


# The rank at which a share has been passed


@pytest.mark.parametrize("written", INTERVALS, ids=str)
def test_rank_at_inverts_passed(written):
    interval, shares = as_interval_set(written), np.linspace(0, 1, 41)
    for side in ("left", "right"):
        ranks = interval.rank_at(shares, side=side)
        assert interval.passed(ranks) == pytest.approx(shares, abs=1e-12)
    ranks = np.concatenate([np.linspace(low, high, 12)[1:-1] for low, high in interval.parts])
    for side in ("left", "right"):  # away from holes there is one such rank
        assert interval.rank_at(interval.passed(ranks), side=side) == pytest.approx(ranks)


def test_rank_at_of_one_interval_is_a_straight_line():
    """low + share · (high − low)."""
    shares = np.linspace(0, 1, 11)
    for side in ("left", "right"):
        found = as_interval_set((0.2, 0.6)).rank_at(shares, side=side)
        assert found == pytest.approx(0.2 + shares * 0.4)


def test_rank_at_jumps_over_holes():
    interval = as_interval_set([(0.1, 0.2), (0.5, 0.8), (0.9, 1.0)])  # a share of .2 and one of .8 end parts
    for side, expected in {"left": [0.1, 0.2, 0.8, 1.0], "right": [0.1, 0.5, 0.9, 1.0]}.items():
        assert interval.rank_at([0, 0.2, 0.8, 1], side=side) == pytest.approx(expected)


# Shares of members


def test_the_float_trap():
    """0.07 · 100 is 7.000000000000001 in floats, whose ceiling is 8: one person too many is left out."""
    scores = np.arange(100, 0, -1.0)
    shares = band_weights(scores, None, as_interval_set((0.07, 0.5)))
    expected = np.zeros(100)
    expected[7:50] = 1 / 43
    np.testing.assert_allclose(shares, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("written", INTERVALS, ids=str)
@pytest.mark.parametrize("n", [1, 2, 7, 100])
@pytest.mark.parametrize("weighted", [False, True])
def test_shares_add_up_to_one(written, n, weighted):
    rng = np.random.default_rng(n)
    weights = rng.uniform(0.1, 3, n) if weighted else None
    shares = band_weights(rng.integers(0, 5, n).astype(float), weights, as_interval_set(written))
    assert shares.shape == (n,)
    assert shares.min() >= 0
    assert shares.sum() == pytest.approx(1)


@pytest.mark.parametrize(
    ("scores", "weights", "written", "shares"),
    [
        # The block of two holds ranks [¼, ¾), of which [¼, ½) is inside.
        ([3, 2, 2, 1], None, (0, 0.5), [1 / 2, 1 / 4, 1 / 4, 0]),
        ([1, 2, 3, 2], None, (0, 0.5), [0, 1 / 4, 1 / 2, 1 / 4]),
        ([2, 2, 2], None, (0.4, 0.5), [1 / 3, 1 / 3, 1 / 3]),
        ([5], None, (0.4, 0.5), [1]),
        # Ranks [0, 0.1), [0.1, 0.7), [0.7, 1): the middle block is shared 1 : 2.
        ([3, 2, 2, 1], [1, 2, 4, 3], (0, 0.4), [1 / 4, 1 / 4, 1 / 2, 0]),
        ([3, 2, 1, 2], [1, 2, 3, 4], (0.4, 1), [0, 1 / 6, 1 / 2, 1 / 3]),
        ([3, 2, 1], [0.1, 0.2, 0.7], [(0, 0.1), (0.3, 0.4)], [1 / 2, 0, 1 / 2]),
        ([0.0, -0.0, 1.0, -1.0], None, (0.25, 0.5), [1 / 2, 1 / 2, 0, 0]),
        # No difference of scores may overflow or vanish.
        ([1.7e308, -1.7e308], None, (0, 0.5), [1, 0]),
        ([5e-324, 0.0], None, (0, 0.5), [1, 0]),
    ],
)
def test_tied_members_split_their_share_by_weight(scores, weights, written, shares):
    weights = None if weights is None else np.array(weights, dtype=float)
    found = band_weights(np.array(scores, dtype=float), weights, as_interval_set(written))
    assert found == pytest.approx(shares, abs=1e-12)


def test_shares_do_not_depend_on_the_unit_of_the_weights():
    scores, weights = np.array([3.0, 2, 2, 1]), np.array([1.0, 2, 4, 3])
    interval = IntervalSet(((0.05, 0.3), (0.5, 0.8)))
    found = band_weights(scores, 1e-3 * weights, interval)
    assert found == pytest.approx(band_weights(scores, weights, interval))


@pytest.mark.parametrize(
    ("rank", "side"),
    [
        (0.0, "before"),
        (0.1, "inside"),
        (0.2 + 1e-13, "inside"),
        (0.25, "between"),
        (0.5, "inside"),
        (0.6, "after"),
    ],
)
def test_on_which_side_of_a_union_a_rank_lies(rank, side):
    union = as_interval_set([(0.1, 0.2), (0.3, 0.5)])
    assert union.side(rank) == side
    assert (side != "inside") == bool(
        union.passed(np.array(rank - 1e-9)) == union.passed(np.array(rank + 1e-9))
    )
