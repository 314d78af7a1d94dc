"""Metrics at a threshold whose rank lies outside the interval are not evaluated: their 0 is not a merit."""

import math

import numpy as np
import pytest

from partialfair import PartialFairClassifier, fairness_path
from partialfair.datasets import make_admissions
from partialfair.exceptions import InputError, ThresholdOutsideIntervalWarning
from partialfair.metrics import (
    compare_gaps,
    fairness_report,
    partial_demographic_parity_difference,
    partial_equal_opportunity_difference,
    partial_equalized_odds_difference,
)

AT_THRESHOLD = {
    "demographic_parity": partial_demographic_parity_difference,
    "equal_opportunity": partial_equal_opportunity_difference,
    "equalized_odds": partial_equalized_odds_difference,
}
GROUPS = np.repeat(["x", "y"], 400)
SCORES = np.tile(np.arange(0.0, 200.0, 0.5), 2)
POSITIVE = np.tile(np.arange(400) % 2 == 1, 2)
INTERVAL = (0.15, 0.4)  # scores 120 to 169
IGNORED = "ignore::partialfair.exceptions.ThresholdOutsideIntervalWarning"
FEW = "ignore::partialfair.exceptions.SmallGroupWarning"


def options(**other):
    return {"sensitive_features": GROUPS, "interval": INTERVAL, "random_state": 0, **other}


@pytest.mark.parametrize("name", AT_THRESHOLD)
@pytest.mark.parametrize("threshold", [50.0, 189.0])
@pytest.mark.parametrize("higher", [True, False])
def test_functions_return_0_and_warn_and_reports_do_not_evaluate(name, threshold, higher):
    scores, limit = (SCORES, threshold) if higher else (-SCORES, -threshold)
    shared = {"threshold": limit, "sensitive_features": GROUPS, "interval": INTERVAL}
    with pytest.warns(ThresholdOutsideIntervalWarning, match="so gaps at the threshold are 0"):
        assert AT_THRESHOLD[name](POSITIVE, scores, **shared, higher_is_better=higher) == 0.0
    with pytest.warns(ThresholdOutsideIntervalWarning):
        report = fairness_report(POSITIVE, scores, **shared, higher_is_better=higher, random_state=0)
    row = report[name]
    assert np.isnan(
        [row.gap, row.ci_low, row.ci_high, row.lower_bound, row.upper_bound, row.p_value(0.1)]
    ).all()
    assert row.reason == "threshold outside the interval"
    assert row.missing_text == "n/a (threshold outside the interval)"
    assert "n/a (threshold outside the interval)" in repr(row)
    assert report.pairs(name) == []
    frame = report.to_frame()
    assert frame.loc[name, "reason"] == row.reason
    assert frame.loc["statistical_parity", "reason"] == ""
    assert report.worst.metric not in AT_THRESHOLD


@pytest.mark.filterwarnings(IGNORED)
def test_a_gap_that_the_threshold_does_show_is_evaluated():
    """Inside in one group; or outside in both, before one interval and after the other."""
    moved = np.concatenate([SCORES[:400], SCORES[400:] + 60])
    inside_in_x = fairness_report(POSITIVE, moved, **options(threshold=150.0))
    assert inside_in_x["demographic_parity"].gap == pytest.approx(0.61)
    apart = fairness_report(
        None, SCORES, **options(threshold=100.0, interval={"x": (0.0, 0.25), "y": (0.75, 1.0)})
    )
    assert apart["demographic_parity"].gap == 1.0
    # One interval: the threshold is below it in the group with higher scores, and above it in the other.
    higher = np.concatenate([SCORES[:400], SCORES[400:] + 400])
    row = fairness_report(None, higher, **options(threshold=300.0))["demographic_parity"]
    assert (row.gap, row.reason) == (1.0, "")
    assert "n/a" not in repr(row)


@pytest.mark.filterwarnings(IGNORED)
def test_ranks_are_those_of_the_rows_compared():
    """Positives are the upper half: the rank 25% of all members is 50% of the positives."""
    positive = SCORES >= 100
    by_ranking = {
        within: fairness_report(positive, SCORES, **options(threshold=149.0, rank_within=within))
        for within in ("group", "group_and_label")
    }
    assert by_ranking["group"]["equal_opportunity"].gap == 0.0
    assert by_ranking["group_and_label"]["equal_opportunity"].reason
    for report in by_ranking.values():
        assert report["demographic_parity"].gap == 0.0  # inside, and really equal
    assert "all members of a group" in by_ranking["group"].ranking_note
    assert "members with the label" in by_ranking["group_and_label"].ranking_note


@pytest.mark.filterwarnings(IGNORED)
def test_odds_are_evaluated_if_the_threshold_is_inside_for_one_label():
    positive = SCORES >= 60  # 140 positives; the score 149 has rank 36% of them, and 0 of the negatives
    report = fairness_report(positive, SCORES, **options(threshold=149.0, rank_within="group_and_label"))
    assert report["equalized_odds"].gap == 0.0


@pytest.mark.filterwarnings(IGNORED)
def test_differences_of_models_are_not_evaluated_either():
    comparison = compare_gaps(POSITIVE, SCORES, SCORES, **options(threshold=(150.0, 189.0)))
    row = comparison["demographic_parity"]
    assert math.isnan(row.difference)
    assert row.gap_a == 0.0  # inside under the first model
    assert math.isnan(row.gap_b)
    assert row.reason == "threshold outside the interval"
    assert row.verdict == "inconclusive"
    assert comparison["statistical_parity"].reason == ""


@pytest.mark.filterwarnings(IGNORED, FEW)
def test_a_path_ranks_as_audits_do():
    data = make_admissions(2400, seed=0)
    X = data.X.select_dtypes("number").fillna(0.0)
    X = (X - X.mean()) / X.std()
    paths = [
        fairness_path(
            PartialFairClassifier(constraint=name, interval=(0.15, 0.4)),
            X,
            data.y,
            sensitive_features=data.sensitive_features,
            max_gaps=[0.3],
            validation=0.5,
            random_state=0,
        )
        for name in ("demographic_parity", "equal_opportunity")
    ]
    path, by_label = paths
    point, rows = path.points[0], path.validation
    audit = fairness_report(
        rows.y,
        point.scores,
        sensitive_features=rows.groups,
        interval=(0.15, 0.4),
        threshold=0.0,
        pos_label=True,
    )
    report = path.report(point)
    assert report.rank_within == "group"
    for row in report.metrics:
        assert row.gap == pytest.approx(audit[row.metric].gap, nan_ok=True), row.metric
    # As its constraint has it.
    assert by_label.report(by_label.points[0]).rank_within == "group_and_label"


@pytest.mark.filterwarnings(IGNORED, FEW)
def test_no_model_of_a_path_is_chosen_by_a_gap_that_is_not_evaluated():
    """Above 50 no row is selected: every gap is 0, and no model is fair for that."""
    rng = np.random.default_rng(0)
    X, groups = rng.normal(size=(600, 2)), np.repeat(["a", "b"], 300)
    path = fairness_path(
        PartialFairClassifier(
            constraint="demographic_parity",
            interval=(0.2, 0.6),
            constraint_threshold=50.0,
            enforce="surrogate",
        ),
        X,
        X[:, 0] + rng.normal(size=600) > 0,
        sensitive_features=groups,
        max_gaps=[0.3],
        random_state=0,
    )
    assert path.to_frame()["gap"].isna().all()
    assert "n/a (threshold outside the interval)" in path.to_html()
    for choose in (path.best, path.select_by_estimate):
        with pytest.raises(InputError, match=r"not evaluated for any model .*threshold outside the interval"):
            choose(0.3)
