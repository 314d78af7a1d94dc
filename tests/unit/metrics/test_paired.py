"""Differences of two models' gaps: exact values, symmetry, the gain from pairing, coverage."""

import warnings

import numpy as np
import pytest
from scipy import stats

from partialfair.exceptions import InputError, SmallGroupWarning
from partialfair.metrics import compare_gaps, fairness_report
from partialfair.metrics.catalogue import METRICS
from partialfair.metrics.paired import add_contenders, raise_ends
from tests.sizes import quick_first

INTERVAL = (0.1, 0.8)
SETTINGS = {"interval": INTERVAL, "threshold": 0.3, "random_state": 0}


def two_models(rng, n, shift_a, shift_b, *, n_groups=2, correlation=0.95):
    """Normal scores, of which the last group has more, under A and under B."""
    groups = np.arange(n) % n_groups
    noise = rng.normal(size=(2, n))
    last = groups == n_groups - 1
    score_a = noise[0] + shift_a * last
    score_b = correlation * noise[0] + np.sqrt(1 - correlation**2) * noise[1] + shift_b * last
    labels = rng.random(n) < 1 / (1 + np.exp(-noise[0]))
    return labels, score_a, score_b, groups


@pytest.mark.parametrize("gap_scale", ["interval", "absolute"])
def test_gaps_are_those_of_reports_and_exchanging_models_changes_the_sign(gap_scale):
    y, a, b, groups = two_models(np.random.default_rng(0), 400, 0.8, 0.2, n_groups=3)
    options = {"sensitive_features": groups, "gap_scale": gap_scale, **SETTINGS}
    found, exchanged = compare_gaps(y, a, b, **options), compare_gaps(y, b, a, **options)
    reports = [fairness_report(y, scores, **options) for scores in (a, b)]
    assert [row.metric for row in found.metrics] == list(METRICS)
    for row in found.metrics:
        assert (row.gap_a, row.gap_b) == tuple(report[row.metric].gap for report in reports)
        assert row.difference == row.gap_b - row.gap_a
        other = exchanged[row.metric]
        assert (row.ci_low, row.ci_high, row.lower_bound, row.upper_bound) == pytest.approx(
            (-other.ci_high, -other.ci_low, -other.upper_bound, -other.lower_bound), abs=1e-12
        )
        assert row.ci_low <= row.lower_bound <= row.upper_bound <= row.ci_high
        assert row.ci_low <= row.difference <= row.ci_high


def test_a_model_is_not_fairer_than_itself():
    y, a, _, groups = two_models(np.random.default_rng(1), 500, 0.8, 0.8)
    for row in compare_gaps(
        y, a, 10 + 3 * a, sensitive_features=groups, **SETTINGS | {"threshold": None}
    ).metrics:
        assert row.difference == pytest.approx(0, abs=1e-12)
        assert row.verdict == "inconclusive"
        # All that is left open is whom nobody has seen: of 125 or more in the interval, or with a label.
        assert -0.05 <= row.ci_low <= 0 <= row.ci_high <= 0.05
        assert row.p_value == 1


def test_the_interval_of_one_contrast_is_that_of_a_paired_mean():
    """Where signs are known and one threshold decides, Δ is one of means of ``[b > θ] − [a > θ]``."""
    _, a, b, groups = two_models(np.random.default_rng(2), 4000, 1.0, 0.6)
    row = compare_gaps(
        None, a, b, sensitive_features=groups, threshold=0.3, random_state=0, n_resamples=2000
    )["demographic_parity"]
    moved = (b > 0.3).astype(float) - (a > 0.3)
    error = np.sqrt(sum(moved[groups == k].var() / (groups == k).sum() for k in range(2)))
    assert 1.0 <= (row.ci_high - row.ci_low) / (2 * 1.96 * error) <= 1.15  # two ways to fail share the error
    assert row.verdict == "smaller gap"


@pytest.mark.parametrize(("shift_a", "shift_b"), [(0.0, 0.0), (0.8, 0.8), (0.8, 0.5)])
def test_similar_models_are_told_apart_better_than_by_their_own_intervals(shift_a, shift_b):
    y, a, b, groups = two_models(np.random.default_rng(3), 1000, shift_a, shift_b, correlation=0.98)
    found = compare_gaps(y, a, b, sensitive_features=groups, **SETTINGS)
    reports = [fairness_report(y, scores, sensitive_features=groups, **SETTINGS) for scores in (a, b)]
    for metric in ("statistical_parity", "demographic_parity", "group_auc"):
        separate = sum(report[metric].ci_high - report[metric].ci_low for report in reports)
        assert found[metric].ci_high - found[metric].ci_low < 0.8 * separate


def test_a_model_at_its_threshold_is_not_fairer_than_itself():
    y, a, _, groups = two_models(np.random.default_rng(15), 500, 0.8, 0.8, n_groups=3)
    found = compare_gaps(y, a, a, sensitive_features=groups, **SETTINGS)
    for metric in ("demographic_parity", "equal_opportunity", "equalized_odds"):
        row = found[metric]
        assert row.difference == 0
        assert row.verdict == "inconclusive"
        assert row.ci_low <= 0 <= row.ci_high
        assert row.ci_high == pytest.approx(-row.ci_low)
        assert row.p_value > 0.5


def selected(n_selected, n):
    """Scores of which the first few are above 0."""
    return np.where(np.arange(n) < n_selected, 1.0, -1.0)


def test_few_selected_rows_have_limits_of_paired_proportions():
    """A selects 6 of 60 rows in one group, of which B selects 4, and neither selects any of the other 50."""
    groups = np.repeat([0, 1], [60, 50])
    a = np.concatenate([selected(6, 60), selected(0, 50)])
    b = np.concatenate([selected(4, 60), selected(0, 50)])
    row = compare_gaps(None, a, b, sensitive_features=groups, threshold=0.0)["demographic_parity"]

    def limits(p, n, error):
        # Estimated variances have n − 1 degrees of freedom.
        size = (n if p == 0 else n - 1) * (stats.norm.ppf(1 - error) / stats.t.ppf(1 - error, n - 1)) ** 2
        low = stats.beta.ppf(error, p * size, (1 - p) * size + 1) if p > 0 else 0.0
        return p - low, stats.beta.ppf(1 - error, p * size + 1, (1 - p) * size) - p

    r = np.corrcoef(a[:60] > 0, b[:60] > 0)[0, 1]
    for error, upper_bound, lower_bound in (
        (0.05, row.upper_bound, row.lower_bound),
        (0.025, row.ci_high, row.ci_low),
    ):
        below_a, above_a = limits(0.1, 60, error)
        below_b, above_b = limits(4 / 60, 60, error)
        _, other = limits(0.0, 50, error)
        upper = np.sqrt(above_b**2 + below_a**2 - 2 * r * above_b * below_a + other**2)
        lower = np.sqrt(above_a**2 + below_b**2 - 2 * r * above_a * below_b + other**2)
        assert upper_bound == pytest.approx(4 / 60 - 0.1 + upper)
        assert lower_bound == pytest.approx(4 / 60 - 0.1 - lower)


@pytest.mark.no_cover
@pytest.mark.parametrize("rates_b", quick_first([(0.1, 0.0), (0.0, 0.1), (0.0, 0.0)], quick=2))
def test_bounds_hold_where_few_rows_are_selected(rates_b):
    """A selects 10% of one group and none of the other, of 60 rows each."""
    n_samples, groups = 300, np.repeat([0, 1], 60)
    truth = max(rates_b) - 0.1
    n_below, n_above = 0, 0
    for seed in range(n_samples):
        rng = np.random.default_rng([16, seed])
        common, other = rng.normal(size=(2, 120))
        mixed = 0.8 * common + 0.6 * other
        a, b = (
            stats.norm.sf(noise) < np.array(rates)[groups]
            for noise, rates in ((common, (0.1, 0.0)), (mixed, rates_b))
        )
        row = compare_gaps(
            None, a.astype(float), b.astype(float), sensitive_features=groups, threshold=0.5, n_resamples=100
        )["demographic_parity"]
        n_below += row.upper_bound < truth
        n_above += row.lower_bound > truth
    assert max(n_below, n_above) <= 0.07 * n_samples  # 15 are expected of a bound that holds with 95%


def test_models_in_other_units_have_thresholds_of_their_own():
    y, a, b, groups = two_models(np.random.default_rng(10), 300, 0.8, 0.2)
    same = compare_gaps(y, a, b, sensitive_features=groups, **SETTINGS)
    scaled = compare_gaps(y, a, 8 * b, sensitive_features=groups, **SETTINGS | {"threshold": (0.3, 2.4)})
    assert scaled.to_frame().drop(columns="verdict").to_numpy() == pytest.approx(
        same.to_frame().drop(columns="verdict").to_numpy()
    )
    with pytest.raises(InputError, match="a pair, not 3"):
        compare_gaps(y, a, b, sensitive_features=groups, threshold=(0.3, 0.3, 0.3))


def test_a_verdict_is_of_both_sides_and_a_bound_of_one():
    y, a, b, groups = two_models(np.random.default_rng(4), 1500, 1.0, 0.2)
    found = compare_gaps(y, a, b, sensitive_features=groups, **SETTINGS)
    assert found["statistical_parity"].verdict == "smaller gap"
    assert compare_gaps(y, b, a, sensitive_features=groups, **SETTINGS)["group_auc"].verdict == "larger gap"
    frame = found.to_frame()
    assert list(frame.index) == [row.metric for row in found.metrics]
    shown = frame["verdict"] == "smaller gap"
    assert (shown == (frame["ci_high"] < 0)).all()
    assert (frame.loc[shown, "p_value"] <= 0.05).all()
    assert (frame.loc[frame["upper_bound"] > 0.02, "p_value"] > 0.05).all()


def test_rows_that_belong_together_count_once():
    _, a, b, groups = two_models(np.random.default_rng(5), 600, 0.8, 0.4)
    person = np.arange(600)
    twice = [np.repeat(values, 2) for values in (a, b, groups, person)]
    single = compare_gaps(None, a, b, sensitive_features=groups, **SETTINGS)["demographic_parity"]
    together, apart = (
        compare_gaps(None, twice[0], twice[1], sensitive_features=twice[2], clusters=clusters, **SETTINGS)[
            "demographic_parity"
        ]
        for clusters in (twice[3], None)
    )
    assert together.difference == pytest.approx(single.difference)
    assert together.ci_high - together.ci_low == pytest.approx(single.ci_high - single.ci_low, rel=0.01)
    assert apart.ci_high - apart.ci_low < 0.85 * (single.ci_high - single.ci_low)


def test_groups_that_one_model_cannot_judge_are_left_out_of_both():
    rng = np.random.default_rng(6)
    y, a, b, groups = two_models(rng, 900, 0.5, 0.5, n_groups=3)
    y[groups == 2] = False
    few = np.flatnonzero(groups == 2)[:20]
    y[few] = True
    a[few], b[few] = np.linspace(0, 0.3, 20), -9.0  # positives inside the interval under A, below it under B
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SmallGroupWarning)
        found = compare_gaps(y, a, b, sensitive_features=groups, **SETTINGS)
        two = compare_gaps(
            y[groups < 2], a[groups < 2], b[groups < 2], sensitive_features=groups[groups < 2], **SETTINGS
        )
    for metric in ("equal_opportunity", "equalized_odds"):
        assert found[metric].gap_a == two[metric].gap_a
        assert found[metric].gap_b == two[metric].gap_b


def test_what_is_missing_is_said():
    _, a, b, groups = two_models(np.random.default_rng(7), 200, 0.5, 0.5)
    found = compare_gaps(None, a, b, sensitive_features=groups)
    assert found.omitted["equal_opportunity"] == "needs labels and a threshold"
    with pytest.raises(KeyError, match="needs labels"):
        found["intra_group_pairwise"]
    with pytest.raises(InputError, match=r"same rows.*\(200,\) and \(199,\)"):
        compare_gaps(None, a, b[1:], sensitive_features=groups)
    with pytest.raises(InputError, match="confidence"):
        compare_gaps(None, a, b, sensitive_features=groups, confidence=1.5)


def test_a_smaller_gap_at_an_unknown_threshold_is_shown():
    """A test that knows both thresholds shows it in 97% of samples, and intervals of every place in few."""
    n_shown = 0
    for seed in range(24):
        rng = np.random.default_rng([11, seed])
        groups = np.repeat([0, 1], 400)
        common, other = rng.normal(size=(2, 800))
        row = compare_gaps(
            None,
            common + 0.3 * groups,
            0.95 * common + np.sqrt(1 - 0.95**2) * other + 0.1 * groups,
            sensitive_features=groups,
            interval=(0.1, 0.5),
            n_resamples=300,
            random_state=seed,
        )["statistical_parity"]
        assert (row.p_value <= 0.05) == (row.upper_bound < 0)
        n_shown += row.upper_bound < 0
    assert n_shown >= 16  # with equal weights of the contenders: 15


@pytest.mark.no_cover
@pytest.mark.parametrize("gap_scale", quick_first(["absolute", "interval"]))
@pytest.mark.parametrize("correlation", quick_first([0.95, 0.5, 0.0]))
def test_equal_gaps_are_rarely_distinguished_where_one_model_has_tied_maxima(gap_scale, correlation):
    """Scores of A differ by 0.1 in rank at all thresholds, and those of B, of four levels, at one."""
    n_missed, n_samples = 0, 150
    for seed in range(n_samples):
        rng = np.random.default_rng([14, seed])
        groups = np.repeat([0, 1], 400)
        common, other = rng.normal(size=(2, 800))
        mixed = stats.norm.cdf(correlation * common + np.sqrt(1 - correlation**2) * other)
        levels = (mixed > 0.25).astype(float) + (mixed > 0.7 - 0.1 * groups) + (mixed > 0.95)
        row = compare_gaps(
            None,
            stats.norm.cdf(common) + 0.1 * groups,
            levels,
            sensitive_features=groups,
            interval=(0.1, 0.5),
            gap_scale=gap_scale,
            n_resamples=200,
            random_state=seed,
        )["statistical_parity"]
        n_missed += row.upper_bound < 0
    assert n_missed <= 0.08 * n_samples  # 7.5 are expected of a bound that holds with 95%


def test_contenders_are_the_places_that_may_be_the_largest():
    rng = np.random.default_rng(12)
    block = rng.normal(size=(30, 1)) + 0.3 * rng.normal(size=(30, 401)) * np.r_[0.0, np.ones(400)]
    block *= rng.choice([-1, 1], size=(30, 1))
    top = np.abs(block[:, 0]).argmax()
    signed = np.sign(block[:, :1]) * block
    shortfalls = signed[top] - signed
    deviations = np.sqrt(((shortfalls[:, 1:] - shortfalls[:, :1]) ** 2).mean(axis=1))
    chosen = shortfalls[:, 0] <= 2.0 * deviations
    variances = ((block[:, 1:] - block[:, :1]) ** 2).mean(axis=1)
    starts = np.array([0, 12, 12, 30])  # the second pair has no rows
    largest = np.repeat([variances[:12].max(), variances[12:].max()], [12, 18])
    weights = np.where(chosen, (variances / largest) ** 2, 0.0)
    total = np.zeros(401)
    assert add_contenders(block, starts, signed[top], 2.0, total) == pytest.approx(weights.sum())
    assert chosen.sum() > 1
    assert total == pytest.approx(weights @ signed)


def test_a_contender_without_variance_counts():
    block = np.full((2, 11), [[0.9], [0.1]])
    block[1, 1:] += np.linspace(-0.01, 0.01, 10)
    total = np.zeros(11)
    weight = add_contenders(block, np.array([0, 2]), block[0], 2.0, total)
    assert total / weight == pytest.approx(block[0])


def test_an_end_is_the_largest_of_the_ends_of_all_places():
    """Brute force: each row and sign by itself, with one lower bound of the other gap or with two."""
    rng = np.random.default_rng(13)
    n_draws, n_beyond, floors = 200, np.array([5, 10]), np.array([[0.03], [0.01]])
    common = 0.1 * rng.normal(size=n_draws)
    estimates = rng.normal(0.3, 0.1, size=(2, 20, 1))
    blocks = np.concatenate(
        [estimates, estimates + common + 0.02 * rng.normal(size=(2, 20, n_draws))], axis=2
    )
    reference = np.concatenate([[0.35], 0.35 + common + 0.08 * rng.normal(size=n_draws)])
    starts = np.array([0, 20])
    ends = np.full(2, -np.inf)
    p_value = raise_ends(
        (blocks[0], starts),
        (blocks[1], starts),
        reference,
        np.ones(1),
        n_beyond,
        floors,
        ends,
        0.2,
        (np.array([50.0]), 1.0),
    )
    expected, chances, n_bounds = [], [], set()
    for ours, theirs in zip(*blocks, strict=True):
        for sign in (1, -1):
            ways = [sign * ours - reference, sign * (ours - theirs)]
            errors = [way[1:] - way[0] for way in ways]
            spreads = [np.sqrt((error**2).mean()) for error in errors]
            hopeless = ways[1][0] + 2 * spreads[1] > ways[0][0] + 2 * spreads[0]
            n_ways = 1 if hopeless else 2
            n_bounds.add(n_ways)
            largest = np.max([errors[k] / spreads[k] for k in range(n_ways)], axis=0)
            quantiles = np.sort(largest)[n_draws - 1 - n_beyond]
            expected.append(
                np.min(
                    [ways[k][0] + np.maximum(quantiles * spreads[k], floors[:, 0]) for k in range(n_ways)],
                    axis=0,
                )
            )
            distance = max((0.2 - ways[k][0]) / spreads[k] for k in range(n_ways))
            unseen = (1 - np.clip(0.2 - min(way[0] for way in ways[:n_ways]), 0, 1)) ** 50
            chances.append(max((1 + (largest >= distance).sum()) / (1 + n_draws), unseen))
    assert n_bounds == {1, 2}
    assert ends == pytest.approx(np.max(expected, axis=0))
    assert p_value == pytest.approx(max(chances))


@pytest.mark.no_cover
@pytest.mark.parametrize("n_groups", quick_first([2, 5], quick=1))
@pytest.mark.parametrize("shifts", quick_first([(0.8, 0.4), (0.4, 0.4), (0.0, 0.0)], quick=1))
@pytest.mark.parametrize("correlation", quick_first([0.95, 0.3], quick=1))
def test_intervals_cover_the_true_difference(n_groups, shifts, correlation):
    shift_a, shift_b = shifts
    metrics = ("statistical_parity", "demographic_parity", "group_auc")
    options = {"interval": INTERVAL, "threshold": 0.3, "n_resamples": 200}
    many = two_models(np.random.default_rng(8), 200_000 * n_groups, shift_a, shift_b, n_groups=n_groups)
    truth = [
        fairness_report(None, scores, sensitive_features=many[3], **options | {"n_resamples": 100})
        for scores in many[1:3]
    ]
    same = shift_a == shift_b
    covered = dict.fromkeys(metrics, 0)
    rng = np.random.default_rng(9)
    for seed in range(100):
        _, a, b, groups = two_models(
            rng, 150 * n_groups, shift_a, shift_b, n_groups=n_groups, correlation=correlation
        )
        found = compare_gaps(None, a, b, sensitive_features=groups, random_state=seed, **options)
        for metric in metrics:
            difference = 0.0 if same else truth[1][metric].gap - truth[0][metric].gap
            covered[metric] += found[metric].ci_low <= difference <= found[metric].ci_high
    assert min(covered.values()) >= 93
