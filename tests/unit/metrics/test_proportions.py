"""Bounds at one threshold: exact coverage by counting all outcomes, and limits against other formulas."""

import numpy as np
import pytest
from scipy import stats

from partialfair.metrics import fairness_report
from partialfair.metrics.catalogue import METRICS
from partialfair.metrics.inputs import Setting, scored_groups
from partialfair.metrics.proportions import estimate_proportions

EVERY = Setting("interval", 0.5, "group")
FEW_SELECTED = [
    ((60, 0.101), (60, 0.0)),
    ((60, 0.101), (2000, 0.0)),
    ((200, 0.0305), (200, 0.0)),
    ((200, 0.0305), (2000, 0.0)),
    ((60, 0.13), (60, 0.03)),
    ((1000, 0.0061), (2000, 0.0)),
]


def bounds_of(counts, sizes, *, labels=(None,), interval=(0, 1), setting=EVERY, confidence=0.95):
    """Bounds of two groups of which so many rows are selected; all rows have the positive label."""
    scores = np.concatenate([np.arange(n) < x for n, x in zip(sizes, counts, strict=True)]).astype(float)
    scored = scored_groups(
        scores,
        np.repeat([0, 1], sizes),
        interval,
        None,
        np.ones(scores.size, dtype=bool) if labels[0] else None,
    )
    return estimate_proportions(scored, setting, labels, confidence)


def outcomes(sizes, rates):
    """All pairs of counts with their probabilities, but for a millionth."""
    each = []
    for n, rate in zip(sizes, rates, strict=True):
        chances = stats.binom.pmf(np.arange(n + 1), n, rate)
        each.append([(x, chance) for x, chance in enumerate(chances) if chance > 1e-7])
    for x, chance in each[0]:
        for y, other in each[1]:
            if chance * other > 1e-8:
                yield (x, y), chance * other


def misses(sizes, rates, **options):
    """Probabilities that upper_bound, high, lower_bound and low miss the true difference."""
    truth, missed = abs(rates[0] - rates[1]), np.zeros(4)
    for counts, chance in outcomes(sizes, rates):
        found = bounds_of(counts, sizes, **options)
        high, low = (
            [found.gap + sign * move(error) for error in (0.05, 0.025)]
            for sign, move in ((1, found.above), (-1, found.below))
        )
        missed += chance * np.array(
            [*(end < truth - 1e-9 for end in high), *(end > truth + 1e-9 for end in low)]
        )
    return missed


@pytest.mark.parametrize(("one", "other"), FEW_SELECTED)
def test_bounds_hold_where_few_rows_are_selected(one, other):
    """Wald bounds with at least the rule of three missed 9 to 17% of the time for 5%."""
    missed = misses((one[0], other[0]), (one[1], other[1]))
    assert (missed <= [0.05, 0.025, 0.05, 0.025]).all(), missed


def test_bounds_hold_where_nearly_all_positives_are_selected():
    """True positive rates of 0.9 and 1, where ranks are taken in the group or among the positives."""
    for rank_within in ("group", "group_and_label"):
        missed = misses((60, 60), (0.9, 1.0), labels=(True,), setting=Setting("interval", 0.5, rank_within))
        assert (missed <= [0.05, 0.025, 0.05, 0.025]).all(), missed


@pytest.mark.parametrize("rate", [0.1, 0.175, 0.25])
def test_bounds_hold_near_the_ends_of_the_interval(rate):
    """Limits clipped as the proportions are would miss 9% of the time; slopes are carried across."""
    sizes, rates, (low, high) = (150, 150), (rate, 0.1), (0.1, 0.25)
    missed, truth = 0.0, (rate - low) / (high - low)
    for counts, chance in outcomes(sizes, rates):
        found = bounds_of(counts, sizes, interval=(low, high))
        missed += chance * (min(1.0, found.gap + found.above(0.05)) < truth - 1e-9)
    assert missed <= 0.06


def test_one_group_against_a_certain_one_has_clopper_pearson_limits():
    """Nobody of a large group is selected, and in a group of 60 four are."""
    found = bounds_of((4, 0), (60, 10**6))
    assert found.gap + found.above(0.05) == pytest.approx(stats.beta.ppf(0.95, 5, 56), abs=1e-9)
    # The lower bound divides 90% of the error among the signs that are possible: one.
    low = 4 / 60 - stats.beta.ppf(0.045, 4, 57)
    other = -np.expm1(np.log(0.045) / 10**6)
    assert found.below(0.05) == pytest.approx(np.hypot(low, other), abs=1e-9)


def test_large_samples_have_normal_limits():
    sizes, counts = (40_000, 90_000), (10_000, 27_000)
    found = bounds_of(counts, sizes)
    error = np.sqrt(0.25 * 0.75 / sizes[0] + 0.3 * 0.7 / sizes[1])
    assert found.above(0.05) == pytest.approx(stats.norm.ppf(0.95) * error, rel=0.01)
    assert found.below(0.05) == pytest.approx(stats.norm.ppf(0.955) * error, rel=0.01)


def labeled_rows(seed, n, kind="plain"):
    rng = np.random.default_rng(seed)
    groups, more = np.repeat([0, 1], n), {}
    scores = rng.random(2 * n)
    if kind == "clustered":
        clusters = np.repeat(np.arange(n), 4)
        groups, more = np.repeat([0, 1], [2 * n, 2 * n]), {"clusters": clusters}
        scores = 0.75 * rng.random(n)[clusters] + 0.25 * rng.random(4 * n)
    elif kind == "weighted":
        more = {"sample_weight": rng.exponential(size=2 * n)}
    labels = rng.random(scores.size) < 0.2 + 0.6 * scores
    return labels, scores, groups, more


@pytest.mark.parametrize("gap_scale", ["interval", "absolute"])
@pytest.mark.parametrize("kind", ["plain", "weighted", "clustered"])
@pytest.mark.parametrize("metric", ["demographic_parity", "equal_opportunity"])
def test_distances_have_the_size_of_the_errors(metric, kind, gap_scale):
    """The upper bound lies 1.645 standard deviations of the difference above it, for ranks in the group."""
    setting = Setting(gap_scale, 0.65, "group")
    values, distances = [], []
    for seed in range(150):
        labels, scores, groups, more = labeled_rows(seed, 800, kind)
        weights = more.pop("sample_weight", None)
        scored = scored_groups(scores, groups, (0.15, 0.55), weights, labels, **more)
        found = estimate_proportions(scored, setting, METRICS[metric].proportions, 0.95)
        values.append(found.by_label[0][0].value - found.by_label[0][1].value)
        distances.append(found.gap + found.above(0.05) - abs(values[-1]))
    assert np.mean(distances) == pytest.approx(stats.norm.ppf(0.95) * np.std(values), rel=0.15)


def test_clusters_in_both_groups_err_together():
    """Each person has a row in either group, with the same score: the difference is known to be 0."""
    scores = np.repeat(np.random.default_rng(0).random(300), 2)
    groups, persons = np.tile([0, 1], 300), np.repeat(np.arange(300), 2)
    alone, paired = (
        estimate_proportions(
            scored_groups(scores, groups, clusters=clusters),
            Setting("interval", 0.4, "group"),
            METRICS["demographic_parity"].proportions,
            0.95,
        )
        for clusters in (np.arange(600), persons)
    )
    assert alone.above(0.05) > 0.05
    # Limits are not symmetric, so that a little is left.
    assert paired.above(0.05) < 0.01


def test_the_p_value_agrees_with_the_lower_bound():
    found = bounds_of((30, 12), (100, 100))
    for error in (0.01, 0.05, 0.2):
        assert found.p_value(found.below(error)) == pytest.approx(error, rel=1e-6)
    assert found.p_value(0.0) == 1.0


def test_labels_and_thresholds_do_not_change_the_intervals_of_other_metrics():
    """Each metric has its own random stream and draws what it needs."""
    labels, scores, groups, _ = labeled_rows(3, 300)
    settings = {"sensitive_features": groups, "interval": (0.1, 0.5), "random_state": 5, "n_resamples": 100}
    full = fairness_report(labels, scores, threshold=0.6, **settings).to_frame()
    for y, threshold in ((None, None), (None, 0.6), (labels, None), (labels, 0.7)):
        fewer = fairness_report(y, scores, threshold=threshold, **settings).to_frame()
        shared = [name for name in fewer.index if threshold == 0.6 or not METRICS[name].needs_threshold]
        assert len(shared) >= 2
        columns = ["gap", "ci_low", "ci_high", "lower_bound", "upper_bound"]
        np.testing.assert_array_equal(fewer.loc[shared, columns], full.loc[shared, columns])


@pytest.mark.parametrize("metric", ["demographic_parity", "equal_opportunity", "equalized_odds"])
def test_reports_and_choices_of_models_use_these_bounds(metric):
    """`upper_bound` is what gates compare, `bound_above` what `path.best` and population guarantees do."""
    labels, scores, groups, _ = labeled_rows(4, 400)
    settings = {"sensitive_features": groups, "threshold": 0.6, "interval": (0.1, 0.5), "n_resamples": 100}
    row = fairness_report(labels, scores, **settings)[metric]
    scored = scored_groups(scores, groups, (0.1, 0.5), None, labels)
    found = estimate_proportions(scored, Setting("interval", 0.6, "group"), METRICS[metric].proportions, 0.95)
    assert row.gap == pytest.approx(found.gap)
    assert (row.upper_bound, row.ci_high) == pytest.approx(
        [found.gap + found.above(error) for error in (0.05, 0.025)]
    )
    assert (row.lower_bound, row.ci_low) == pytest.approx(
        [found.gap - found.below(error) for error in (0.05, 0.025)]
    )
    assert row.bound_above(0.05) == row.upper_bound
    assert row.bound_above(0.01) == pytest.approx(min(1.0, found.gap + found.above(0.01)))
