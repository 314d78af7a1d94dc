"""Calibration by group: the definition, summed by hand."""

from itertools import pairwise

import numpy as np
import pytest

from partialfair.exceptions import InputError
from partialfair.metrics import calibration_by_group


def by_hand(y, scores, groups, weights, edges):
    """Both sums of the definition, bin by bin; bins are closed below, and the last one above as well."""
    bins = [(scores >= low) & (scores < high) for low, high in pairwise(edges)]
    bins[-1] |= scores == edges[-1]
    found = {}
    for group in np.unique(groups):
        error = difference = 0.0
        for inside in bins:
            mine = inside & (groups == group)
            if weights[mine].sum() > 0:
                share = weights[mine].sum() / weights[groups == group].sum()
                rate = np.average(y[mine], weights=weights[mine])
                error += share * abs(rate - np.average(scores[mine], weights=weights[mine]))
                difference += share * abs(rate - np.average(y[inside], weights=weights[inside]))
        found[group] = error, difference
    return found


@pytest.mark.parametrize("tied", [False, True])
def test_it_is_the_definition(tied):
    rng = np.random.default_rng(3)
    scores = rng.random(500)
    scores = np.round(scores, 1) if tied else scores
    groups = rng.choice(["a", "b", "c"], 500, p=[0.6, 0.35, 0.05])
    y = (rng.random(500) < scores**2).astype(int)
    weights = rng.integers(0, 4, 500).astype(float)
    found = calibration_by_group(y, scores, sensitive_features=groups, sample_weight=weights, n_bins=7)
    expected = by_hand(y, scores, groups, weights, found.edges)
    for line in found.groups:
        assert (line.error, line.difference) == pytest.approx(expected[line.group])
    assert found.worst_error == max(line.error for line in found.groups)
    assert found.bins_frame().groupby("group")["share"].sum().to_numpy() == pytest.approx(np.ones(3))


def test_calibrated_scores_have_no_error_and_biased_ones_have_their_bias():
    scores = np.repeat([0.25, 0.75], 80)
    y = np.concatenate([np.arange(80) % 4 == 0, np.arange(80) % 4 != 0]).astype(int)
    groups = np.tile(np.repeat(["a", "b"], 4), 20)
    found = calibration_by_group(y, scores, sensitive_features=groups)
    assert found.worst_error == found.worst_difference == 0.0
    shifted = calibration_by_group(y, scores + 0.1 * (groups == "b"), sensitive_features=groups)
    assert [line.bias for line in shifted.groups] == pytest.approx([0.0, 0.1])


def test_scores_that_are_no_probabilities_have_differences_only():
    found = calibration_by_group([0, 1, 1, 0], [2.0, 2.0, -1.0, -1.0], sensitive_features=list("abab"))
    assert np.isnan(found.worst_error)
    assert found.worst_difference == pytest.approx(0.5)


def test_weights_are_repeated_rows_and_groups_may_be_missing():
    y, scores, groups = np.array([0, 1, 1, 0, 1]), np.array([0.1, 0.6, 0.6, 0.4, 0.9]), list("aabba")
    weights = [2, 1, 3, 0, 1]
    rows = np.repeat(np.arange(5), weights)
    one = calibration_by_group(y, scores, sensitive_features=groups, sample_weight=weights)
    other = calibration_by_group(y[rows], scores[rows], sensitive_features=np.array(groups)[rows])
    assert one.to_frame().equals(other.to_frame())
    known = calibration_by_group(
        y, scores, sensitive_features=[None, *groups[1:]], sample_weight=weights, missing_groups="ignore"
    )
    assert [line.group for line in known.groups] == ["a", "b"]
    assert known.edges[0] == 0.6  # the row without a group, of score 0.1, is out


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y_true": [0, 1]}, "y_true has 2 rows, but there are 3 scores"),
        ({"y_score": [0.1, np.nan, 0.2]}, "y_score has 1 values that are NaN"),
        ({"n_bins": 0}, "n_bins must be at least 1, not 0"),
        ({"sensitive_features": [None] * 3, "missing_groups": "ignore"}, "no row has a group"),
    ],
)
def test_bad_input_gets_a_sentence(change, message):
    given = {"y_true": [0, 1, 1], "y_score": [0.1, 0.2, 0.3], "sensitive_features": list("aab")}
    with pytest.raises(InputError, match=message):
        calibration_by_group(**{**given, **change})
