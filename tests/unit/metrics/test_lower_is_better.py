"""Scores of which low ones are good: everything is that of the negated scores, in the users' units."""

import numpy as np
import pytest

from partialfair import choose_interval, metrics
from partialfair.data.intervals import as_interval_set, interval_text
from partialfair.exceptions import InputError
from partialfair.metrics import (
    fairness_report,
    interval_changes,
    interval_membership,
    rank_curve,
    unfairness_map,
)
from partialfair.metrics.inputs import scored_groups

LOWER = {"higher_is_better": False}


@pytest.fixture(scope="module", params=["distinct", "tied"])
def people(request):
    """Risks of three groups, labels and weights."""
    rng = np.random.default_rng(0)
    groups = rng.choice(["North", "South", "Islands"], 1500)
    risks = rng.normal(size=1500) + 0.4 * (groups == "South")
    if request.param == "tied":
        risks = np.round(risks, 1)
    return risks, groups, rng.random(1500) < 1 / (1 + np.exp(risks)), rng.choice([0.5, 1, 2.5], 1500)


@pytest.mark.parametrize(
    "interval",
    [
        (0.1, 0.5),
        [(0.05, 0.2), (0.3, 0.6)],
        {"North": (0.05, 0.5), "South": (0.15, 0.55), "Islands": (0, 0.6)},
    ],
    ids=["one", "union", "by group"],
)
@pytest.mark.filterwarnings(
    "ignore::partialfair.exceptions.ThresholdOutsideIntervalWarning"
)  # between two parts
def test_a_report_is_that_of_negated_scores_with_thresholds_in_the_users_units(people, interval):
    risks, groups, y, weights = people
    shared = {"sensitive_features": groups, "interval": interval, "sample_weight": weights, "random_state": 0}
    report = fairness_report(y, risks, threshold=-0.5, **LOWER, **shared)
    mirrored = fairness_report(y, -risks, threshold=0.5, **shared)
    found, wanted = report.to_frame(), mirrored.to_frame()
    assert (found["at_score"].dropna() == -wanted["at_score"].dropna()).all()
    assert found.drop(columns="at_score").equals(wanted.drop(columns="at_score"))
    assert (report.threshold, report.higher_is_better) == (-0.5, False)
    row = report["statistical_parity"]
    for label, rank in zip(row.groups, row.ranks, strict=True):
        inside = groups == label
        below = weights[inside & (risks < row.threshold)].sum() / weights[inside].sum()
        assert rank == pytest.approx(below)


def test_who_is_selected_is_below_the_threshold():
    risks, groups = [1.0, 2, 3, 4, 1, 2, 3, 4], [*"aaaabbbb"]
    y = [1, 1, 1, 1, 1, 0, 0, 1]
    gap = metrics.partial_equal_opportunity_difference(
        y, risks, sensitive_features=groups, threshold=3, **LOWER
    )
    assert gap == 0  # 2 of 4 in a, and 1 of 2 in b: a risk of exactly 3 is not selected
    gap = metrics.partial_equal_opportunity_difference(
        y, risks, sensitive_features=groups, threshold=2, **LOWER
    )
    assert gap == pytest.approx(0.25)


def test_maps_bands_and_choices(people):
    risks, groups, _, weights = people
    shared = {"sensitive_features": groups, "sample_weight": weights}
    lower, higher = unfairness_map(risks, **shared, **LOWER), unfairness_map(-risks, **shared)
    assert np.array_equal(lower.gaps, higher.gaps, equal_nan=True)
    assert (lower.higher_is_better, higher.higher_is_better) == (False, True)
    interval = (0.1, 0.35)
    inside = interval_membership(risks, interval=interval, **shared, **LOWER)
    assert (inside == interval_membership(-risks, interval=interval, **shared)).all()
    noise = risks + np.random.default_rng(1).normal(size=risks.size)
    assert interval_changes(risks, noise, interval=interval, **shared, **LOWER).equals(
        interval_changes(-risks, -noise, interval=interval, **shared)
    )
    chosen = choose_interval(risks, threshold=-0.5, **shared, **LOWER)
    assert chosen.positive_rate == pytest.approx(weights[risks < -0.5].sum() / weights.sum(), abs=1e-12)
    assert chosen.interval == choose_interval(-risks, threshold=0.5, **shared).interval


def test_a_rank_curve_rises_from_the_lowest_score():
    risks, groups = np.array([3.0, 1.0, 2.0, 2.0, 5.0, 1.0]), np.array([*"aabbbb"])
    curve = rank_curve(risks, sensitive_features=groups, **LOWER)
    assert curve.thresholds.tolist() == [-np.inf, 1, 2, 3, 5, np.inf]
    for k, label in enumerate("ab"):
        below = [np.mean(risks[groups == label] < theta) for theta in curve.thresholds]
        assert curve.ranks[:, k].tolist() == below


def test_users_units_come_back(people):
    risks, groups, y, weights = people
    scored = scored_groups(risks, groups, (0.1, 0.4), weights, y, **LOWER)
    seen = scored.in_users_units()
    plain = scored_groups(risks, groups, (0.6, 0.9), weights, y)
    for turned, group in zip(seen, plain, strict=True):
        assert (turned.scores == group.scores).all()
        assert turned.weights.sum() == pytest.approx(group.weights.sum())
        assert turned.interval.parts[0] == pytest.approx(group.interval.parts[0])
    assert plain.in_users_units() is plain


def test_zero_stays_zero():
    """And is never shown as −0."""
    curve = rank_curve([0.0, 1.0], sensitive_features=["a", "b"], **LOWER)
    assert str(curve.thresholds[1]) == "0.0"


def test_intervals_are_said_both_ways():
    part, union = as_interval_set((0.05, 0.3)), as_interval_set([(0, 0.1), (0.5, 0.6)])
    assert interval_text(part) == str(part) == "ranks 5–30% from the top (score percentiles 70–95)"
    assert interval_text(part, False) == (
        "ranks 5–30% from the best, the lowest scores (score percentiles 5–30)"
    )
    assert interval_text(union, False) == (
        "ranks 0–10% and 50–60% from the best, the lowest scores (score percentiles 0–10 and 50–60)"
    )


@pytest.mark.parametrize(
    "call",
    [
        lambda **o: metrics.partial_statistical_parity_difference(None, [1, 2], **o),
        lambda **o: fairness_report(None, [1, 2], **o),
        lambda **o: unfairness_map([1, 2], **o),
        lambda **o: rank_curve([1, 2], **o),
        lambda **o: interval_membership([1, 2], interval=(0, 0.5), **o),
        lambda **o: choose_interval([1, 2], positive_rate=0.5, **o),
    ],
)
@pytest.mark.parametrize("given", ["no", 0, None])
def test_only_true_and_false_are_answers(call, given):
    with pytest.raises(InputError, match=f"higher_is_better must be True or False, not {given!r}"):
        call(sensitive_features=["a", "b"], higher_is_better=given)
