"""Accuracy at equal test gap: what is known of straight lines, and of standard errors."""

import math
import sys
from pathlib import Path

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))
try:
    from _equal_gaps import Paired, at_equal_gaps, overall
finally:
    sys.path.remove(str(BENCHMARKS))


def line(gaps, height=0.8, slope=0.3):
    return [(gap, height + slope * gap) for gap in gaps]


def test_points_of_one_line_do_not_differ_wherever_they_are():
    """A fit that spends more of its slack moves along the frontier: that is no gain."""
    levels = at_equal_gaps(line([0.2, 0.05, 0.1]), line([0.12, 0.24, 0.07]))
    assert levels.difference == pytest.approx(0, abs=1e-12)
    assert (levels.low, levels.high) == (0.07, 0.2)


def test_a_line_above_another_differs_by_its_height():
    levels = at_equal_gaps(line([0.05, 0.2]), line([0.07, 0.3], height=0.81))
    assert levels.difference == pytest.approx(0.01)


def test_fits_with_the_same_gap_count_as_their_mean():
    twice = [(0.1, 0.8), (0.1, 0.9), (0.2, 0.9)]
    assert at_equal_gaps(twice, [(0.1, 0.85), (0.2, 0.9)]).difference == pytest.approx(0)


@pytest.mark.parametrize("after", [[0.3, 0.4], [0.195, 0.4], [0.2, 0.2]])
def test_frontiers_that_hardly_overlap_are_not_compared(after):
    assert at_equal_gaps(line([0.1, 0.2]), line(after)) is None


def test_standard_errors():
    differences = [0.01, 0.03, -0.01, 0.02]
    paired = Paired.of(differences)
    assert paired.mean == pytest.approx(0.0125)
    assert paired.error == pytest.approx(np.std(differences, ddof=1) / 2)
    assert paired.in_errors == pytest.approx(paired.mean / paired.error)
    assert Paired.of([0.0, 0.0]).in_errors == 0
    assert math.isnan(Paired.of([0.1]).in_errors)
    assert math.isnan(Paired.of([]).in_errors)


def test_rows_that_share_their_splits_are_not_independent():
    """Twice the same row is no more certain than once; another table with as much chance in it is."""
    row = {0: 0.01, 1: 0.03, 2: 0.02}
    once = overall({"a": {"one": row}})
    assert once == Paired.of(row.values())
    twice = overall({"a": {"one": row, "two": row}})
    assert twice.mean == pytest.approx(once.mean)
    assert twice.error == pytest.approx(once.error)
    both = overall({"a": {"one": row}, "b": {"one": row}})
    assert both.mean == pytest.approx(once.mean)
    assert both.error == pytest.approx(once.error / math.sqrt(2))


def test_tables_without_two_splits_say_nothing():
    row = {0: 0.01, 1: 0.03}
    assert overall({"a": {"one": row}, "b": {"one": {0: -0.5}}}).mean == pytest.approx(0.02)
    assert math.isnan(overall({"b": {"one": {}}}).mean)
