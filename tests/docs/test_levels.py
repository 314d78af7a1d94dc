"""Frontiers at fixed test gaps: what is read where, when a level counts, and when a bar is cleared."""

import sys
from pathlib import Path

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))
try:
    from _levels import LEVELS, Verdict, differences, overall, read_at
finally:
    sys.path.remove(str(BENCHMARKS))


def frontier(*points, auc=0.8):
    return [{"gap": gap, "accuracy": accuracy, "auc": auc} for gap, accuracy in points]


def flat(accuracy, auc=0.8, least=0.0):
    """One model that is as accurate at every level from the least on."""
    return frontier((least, accuracy), auc=auc)


def test_between_two_models_accuracy_is_between_theirs():
    assert read_at(frontier((0.3, 0.9), (0.1, 0.8)), 0.15, "accuracy") == pytest.approx(0.825)


def test_a_fairer_model_that_is_more_accurate_counts_at_wider_gaps():
    assert read_at(frontier((0.1, 0.9), (0.3, 0.8)), 0.3, "accuracy") == pytest.approx(0.9)


def test_where_no_model_is_as_fair_nothing_is_read():
    assert np.isnan(read_at(frontier((0.1, 0.9)), 0.05, "accuracy"))


def test_a_level_counts_where_half_of_the_splits_reach_it():
    before = [flat(0.8), flat(0.8, least=0.08), flat(0.8, least=0.08), flat(0.8, least=0.13)]
    after = [flat(0.81), flat(0.82), flat(0.83, least=0.12), flat(0.84)]
    at = {found.level: found for found in differences(before, after, "accuracy")}
    assert [at[level].reached for level in LEVELS[:3]] == [1, 2, 4]
    assert [at[level].counts for level in LEVELS[:3]] == [False, True, True]
    assert at[0.1].paired.mean == pytest.approx(0.015)
    assert str(at[0.05]) == "reached in 1 of 4"
    assert str(at[0.1]).endswith("(2 of 4)")


def test_a_table_is_worse_where_it_is_below_by_more_than_a_standard_error():
    before = [flat(0.8), flat(0.8)]
    assert Verdict.on(before, [flat(0.79), flat(0.805)]).not_worse  # −.0025 ± .0075
    assert not Verdict.on(before, [flat(0.79), flat(0.799)]).not_worse  # −.0055 ± .0045
    assert not Verdict.on(before[:1], [flat(0.7999)]).not_worse  # one split has no error


def test_levels_that_are_not_reached_are_not_judged():
    verdict = Verdict.on([flat(0.8), flat(0.8)], [flat(0.81, least=0.2), flat(0.81, least=0.2)])
    assert [found.level for found in verdict.accuracy] == [0.2, 0.25, 0.3]
    nowhere = Verdict.on([flat(0.8)], [flat(0.9, least=0.5)])
    assert (nowhere.not_worse, nowhere.well_above, nowhere.auc_above) == (False, False, False)


def test_bars_are_cleared_by_tables_that_do_so_at_every_level_and_on_both_scales():
    before = [flat(0.8), flat(0.8)]
    above = Verdict.on(before, [flat(0.803, auc=0.81), flat(0.8031, auc=0.79001)])
    sloping = Verdict.on(before, [frontier((0.05, 0.80), (0.3, 0.9), auc=0.8)] * 2)
    assert above.well_above
    assert above.auc_above
    assert not Verdict.on(before, [flat(0.802), flat(0.803)]).well_above
    assert not sloping.well_above  # at the first level
    assert not sloping.auc_above  # the same
    line = overall({("a", "interval"): above, ("a", "absolute"): above, ("b", "interval"): sloping})
    assert line["accuracy ≥ linear + 0.003"].startswith("1 of 2")
    line = overall({("a", "interval"): above, ("a", "absolute"): sloping})
    assert line["accuracy ≥ linear + 0.003"].startswith("0 of 1")
