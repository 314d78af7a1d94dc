import numpy as np
import pytest

from partialfair import choose_interval
from partialfair.exceptions import InputError
from partialfair.metrics import (
    choice,
    interval_changes,
    interval_membership,
    partial_statistical_parity_difference,
    rank_curve,
)


def test_rank_curve_is_the_share_above_each_threshold():
    scores = np.array([3.0, 1.0, 2.0, 2.0, 5.0, 1.0])
    groups = np.array(list("aabbbb"))
    curve = rank_curve(scores, sensitive_features=groups)
    assert curve.labels == ("a", "b")
    assert curve.thresholds.tolist() == [np.inf, 5, 3, 2, 1, -np.inf]
    for k, label in enumerate("ab"):
        expected = [np.mean(scores[groups == label] > theta) for theta in curve.thresholds]
        assert curve.ranks[:, k].tolist() == expected


def test_rank_curve_thinned_keeps_its_ends_and_counts_weights():
    rng = np.random.default_rng(0)
    scores, groups, weights = rng.normal(size=500), rng.integers(2, size=500), rng.random(500)
    curve = rank_curve(scores, sensitive_features=groups, sample_weight=weights, n_points=20)
    assert curve.thresholds.size == 22
    assert curve.ranks[0].tolist() == [0, 0]
    assert curve.ranks[-1].tolist() == [1, 1]
    theta = curve.thresholds[10]
    inside = groups == 1
    expected = weights[inside & (scores > theta)].sum() / weights[inside].sum()
    assert curve.ranks[10, 1] == pytest.approx(expected)


def people(n=4000):
    rng = np.random.default_rng(3)
    groups = rng.integers(2, size=n)
    merit = rng.random(n)
    return merit + 0.1 * groups * ((merit > 0.6) & (merit < 0.8)), groups


def test_choice_is_the_widest_gap_that_contains_the_rate():
    scores, groups = people()
    found = choose_interval(scores, sensitive_features=groups, positive_rate=0.3, width=0.2)
    low, high = found.interval
    assert low <= 0.3 <= high
    assert high - low == pytest.approx(0.2)
    gaps = [
        partial_statistical_parity_difference(
            None, scores, sensitive_features=groups, interval=(percent / 100, percent / 100 + 0.2)
        )
        for percent in range(10, 31)
    ]
    assert found.gap == pytest.approx(max(gaps))
    assert found.candidates["gap"].to_numpy() == pytest.approx(np.array(gaps))
    assert found.ci_low <= found.gap <= found.ci_high


def test_choice_takes_the_rate_from_a_threshold():
    scores, groups = people()
    found = choose_interval(scores, sensitive_features=groups, threshold=0.75)
    assert found.positive_rate == pytest.approx(np.mean(scores > 0.75))


def test_the_rate_of_a_threshold_counts_weights():
    """p = Pr(score > threshold), of all groups together."""
    scores, groups = people()
    weights = np.random.default_rng(1).exponential(size=scores.size) * (1 + 5 * groups)
    found = choose_interval(scores, sensitive_features=groups, threshold=0.75, sample_weight=weights)
    assert found.positive_rate == pytest.approx(np.average(scores > 0.75, weights=weights))


@pytest.mark.parametrize("rate", [0.0, 0.004, 0.996, 1.0])
def test_choice_at_the_ends(rate):
    scores, groups = people(400)
    low, high = choose_interval(scores, sensitive_features=groups, positive_rate=rate).interval
    assert 0 <= low <= rate <= high <= 1


def test_ties_between_positions_are_settled_by_the_lower_bound(monkeypatch):
    """Separated groups have gap 1 at every position; then the one with the shortest interval is chosen."""

    def radius(moved, confidence, rng):
        return np.array([abs(scored.groups[0].interval.parts[0][0] - 0.31) for scored in moved])

    monkeypatch.setattr(choice, "_radius_of_all", radius)
    scores = np.concatenate([np.arange(400.0) + 1000, np.arange(400.0)])
    found = choose_interval(scores, sensitive_features=np.repeat([0, 1], 400), positive_rate=0.4, width=0.2)
    assert found.gap == 1
    assert found.interval == pytest.approx((0.31, 0.51))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "positive_rate"),
        ({"positive_rate": 1.2}, "positive_rate"),
        ({"positive_rate": 0.2, "width": 0.0}, "width"),
        ({"positive_rate": 0.2, "confidence": 95}, "confidence must lie between 0 and 1"),
    ],
)
def test_choice_refuses(options, message):
    scores, groups = people(100)
    with pytest.raises(InputError, match=message):
        choose_interval(scores, sensitive_features=groups, **options)


def test_surer_intervals_of_a_choice_are_wider():
    scores, groups = people(2000)
    options = {"sensitive_features": groups, "positive_rate": 0.3}
    sure, plain, unsure = (
        choose_interval(scores, confidence=level, **options) for level in (0.99, 0.95, 0.8)
    )
    assert sure.gap == plain.gap == unsure.gap
    assert 0 < sure.ci_low < plain.ci_low < unsure.ci_low < unsure.ci_high < plain.ci_high < sure.ci_high < 1
    assert "with 99% confidence" in sure.statement


def test_membership_counts_straddlers_and_ties():
    # Ranks of the five: [0,.2) [.2,.6) tied pair [.6,.8) [.8,1); the interval holds .3 to .7.
    membership = interval_membership(
        [9.0, 7.0, 7.0, 5.0, 1.0], sensitive_features=["a"] * 5, interval=(0.3, 0.7)
    )
    assert membership == pytest.approx([0, 0.75, 0.75, 0.5, 0])


def test_membership_adds_up_to_the_interval_by_group_and_weight():
    rng = np.random.default_rng(0)
    scores, groups, weights = rng.integers(9, size=60), rng.integers(3, size=60), rng.integers(0, 4, size=60)
    membership = interval_membership(
        scores, sensitive_features=groups, interval=[(0.1, 0.2), (0.5, 0.8)], sample_weight=weights
    )
    assert ((membership >= 0) & (membership <= 1)).all()
    assert (membership[weights == 0] == 0).all()
    for k in range(3):
        inside = (groups == k) * weights
        assert (inside * membership).sum() == pytest.approx(0.4 * inside.sum())


@pytest.mark.parametrize("weighted", [False, True])
def test_changes_balance_whatever_the_ties_and_weights(weighted):
    """stays + enters = stays + leaves = in_interval, the weight of the share that the interval holds."""
    rng = np.random.default_rng(1)
    groups, weights = rng.integers(3, size=90), rng.integers(0, 4, size=90) if weighted else None
    before, after = rng.integers(9, size=90), rng.integers(9, size=90)
    interval = {0: (0.1, 0.4), 1: [(0.1, 0.2), (0.5, 0.8)], 2: (0.0, 1.0)}
    found = interval_changes(
        before, after, sensitive_features=groups, interval=interval, sample_weight=weights
    )
    members = np.bincount(groups, weights)
    assert found["in_interval"].to_numpy() == pytest.approx(members * [0.3, 0.4, 1.0])
    for moved in ("enters", "leaves"):
        assert (found["stays"] + found[moved]).to_numpy() == pytest.approx(found["in_interval"].to_numpy())


def test_changes_balance_and_name_the_movers():
    before = np.array([4.0, 3, 2, 1, 4, 3, 2, 1])
    after = np.array([4.0, 3, 2, 1, 1, 2, 3, 4])
    changes = interval_changes(before, after, sensitive_features=list("aaaabbbb"), interval=(0.0, 0.5))
    assert changes.loc["a"].tolist() == [2, 2, 0, 0]
    assert changes.loc["b"].tolist() == [2, 0, 2, 2]


@pytest.mark.slow
def test_the_lower_end_holds_after_the_choice():
    """The widest of two dozen positions is chosen, and its gap is 0 in truth: nominal 2.5%."""
    groups, n_above = np.repeat([0, 1], 300), 0
    for seed in range(400):
        scores = np.random.default_rng(seed).normal(size=600)
        choice = choose_interval(scores, sensitive_features=groups, positive_rate=0.3, random_state=seed)
        n_above += choice.ci_low > 0
    assert n_above / 400 <= 0.035


def test_groups_too_small_to_evaluate_choose_no_interval():
    """A tiny group with a large gap near the bottom would decide the choice."""
    rng = np.random.default_rng(0)
    scores = np.concatenate([rng.normal(size=800), [-9.0, -8.0, -7.0, 2.0, 3.0, 4.0]])
    groups = np.repeat(["a", "b", "few"], [400, 400, 6])
    settings = {"sensitive_features": groups, "positive_rate": 0.4}
    found = choose_interval(scores, **settings)
    without = choose_interval(scores[:800], sensitive_features=groups[:800], positive_rate=0.4)
    assert found.interval == without.interval
    assert found.gap == without.gap
    assert found.excluded == ("few",)
    assert found.statement.endswith("too small to evaluate and excluded: 'few'")
    everyone = choose_interval(scores, min_group_size=1, **settings)
    assert everyone.excluded == ()
    assert everyone.gap > found.gap
    # The rate of decisions is that of all rows, as decisions are about all of them.
    assert choose_interval(scores, sensitive_features=groups, threshold=1.0).positive_rate == np.mean(
        scores > 1.0
    )
    with pytest.raises(InputError, match=r"only 1 of 2 groups .* 25% wide.*too small: 'few' \(1\)"):
        choose_interval(scores[400:], sensitive_features=groups[400:], positive_rate=0.4)
