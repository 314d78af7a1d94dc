import time

import numpy as np
import pytest

from partialfair import metrics
from partialfair.exceptions import InputError, SmallGroupWarning, UndefinedGapWarning
from partialfair.metrics import fairness_report
from partialfair.metrics.inputs import Setting, scored_groups
from partialfair.metrics.report import METRICS
from partialfair.metrics.resampling import resample

INTERVAL = (0.1, 0.4)
THRESHOLD = 0.8  # its rank lies inside the interval in every group


def people(seed=0, n=3000, shift=0.4, n_groups=3):
    rng = np.random.default_rng(seed)
    groups = rng.integers(n_groups, size=n)
    scores = rng.normal(size=n) + shift * (groups == 1)
    labels = rng.random(n) < 1 / (1 + np.exp(-scores))
    return labels, scores, np.array(["North", "South", "Islands", "Coast"])[groups]


@pytest.mark.parametrize("gap_scale", ["interval", "absolute"])
@pytest.mark.parametrize("rank_within", ["group", "group_and_label"])
@pytest.mark.filterwarnings(
    "ignore::partialfair.exceptions.ThresholdOutsideIntervalWarning"
)  # among positives of South
def test_every_value_is_the_exact_metric(gap_scale, rank_within):
    y, s, g = people(n=8000)
    w = np.random.default_rng(1).exponential(size=len(s))
    report = fairness_report(
        y,
        s,
        sensitive_features=g,
        interval=INTERVAL,
        threshold=THRESHOLD,
        gap_scale=gap_scale,
        rank_within=rank_within,
        sample_weight=w,
        random_state=0,
    )
    common = {"sensitive_features": g, "sample_weight": w}
    partial = common | {"interval": INTERVAL}
    scaled = partial | {"gap_scale": gap_scale}
    selected = scaled | {"threshold": THRESHOLD}
    expected = {
        "statistical_parity": metrics.partial_statistical_parity_difference(y, s, **scaled),
        "demographic_parity": metrics.partial_demographic_parity_difference(y, s, **selected),
        "group_auc": metrics.partial_group_auc_difference(y, s, **partial),
        "equal_opportunity": metrics.partial_equal_opportunity_difference(
            y, s, **selected, rank_within=rank_within
        ),
        "equalized_odds": metrics.partial_equalized_odds_difference(
            y, s, **selected, rank_within=rank_within
        ),
        "inter_group_pairwise": metrics.inter_group_pairwise_difference(y, s, **common),
        "intra_group_pairwise": metrics.intra_group_pairwise_difference(y, s, **common),
    }
    assert report.to_frame()["gap"].to_dict() == expected
    assert not report.omitted
    for row in report.metrics:
        assert 0 <= row.ci_low <= row.gap <= row.ci_high <= 1


def test_worst_pair_and_place_are_where_the_gap_is():
    _, s, g = people()
    row = fairness_report(None, s, sensitive_features=g, interval=INTERVAL, random_state=0).worst
    assert row.metric == "statistical_parity"
    assert "South" in row.groups
    ranks = [np.mean(s[g == label] > row.threshold) for label in row.groups]
    assert row.ranks == pytest.approx(ranks)
    assert row.sizes == tuple(int((g == label).sum()) for label in row.groups)
    low, high = INTERVAL
    clipped = (np.clip(ranks, low, high) - low) / (high - low)
    assert abs(clipped[0] - clipped[1]) == pytest.approx(row.gap)


def test_rows_that_cannot_be_computed_are_left_out_with_a_reason():
    _, s, g = people()
    report = fairness_report(None, s, sensitive_features=g, random_state=0)
    assert [row.metric for row in report.metrics] == ["statistical_parity", "group_auc"]
    assert report.omitted["demographic_parity"] == "needs a threshold"
    assert report.omitted["equal_opportunity"] == "needs labels and a threshold"
    with pytest.raises(KeyError, match="needs labels"):
        report["intra_group_pairwise"]


def test_p_values_fall_with_the_excess_and_agree_with_the_interval():
    y, s, g = people()
    report = fairness_report(
        y, s, sensitive_features=g, interval=INTERVAL, threshold=THRESHOLD, random_state=0
    )
    row = report["statistical_parity"]
    p_values = [row.p_value(tolerance) for tolerance in (0.0, row.ci_low / 2, row.ci_low, row.gap, 1.0)]
    assert p_values == sorted(p_values)
    assert p_values[0] < 0.01
    assert p_values[3] == 1.0
    # Just below the interval's lower end the null hypothesis is rejected, at the gap itself it is not.
    table = report.test(row.ci_low * 0.99)
    assert table.loc["statistical_parity", "exceeds"]
    assert not report.test(row.gap).loc["statistical_parity", "exceeds"]


def test_same_seed_same_intervals():
    y, s, g = people()
    frames = [
        fairness_report(y, s, sensitive_features=g, interval=INTERVAL, random_state=seed).to_frame()
        for seed in (3, 3, 4)
    ]
    assert frames[0].equals(frames[1])
    assert not frames[0]["ci_low"].equals(frames[2]["ci_low"])


def test_more_data_give_shorter_intervals():
    widths = []
    for n in (1_000, 16_000):
        _, s, g = people(n=n, n_groups=2)
        row = fairness_report(None, s, sensitive_features=g, interval=INTERVAL, random_state=0).worst
        widths.append(row.ci_high - row.ci_low)
    assert widths[1] < widths[0] / 2  # 16 times the data: about a quarter


def test_all_rows_selected_do_not_prove_a_gap_of_0():
    """All rows of both groups are selected, and 120 rows may all miss a proportion that is not."""
    n = 120
    s = np.concatenate([np.linspace(5, 6, n), np.linspace(5, 6, n)])
    g = np.repeat(["a", "b"], n)
    report = fairness_report(None, s, sensitive_features=g, threshold=0.0, random_state=0)
    row = report["demographic_parity"]
    assert row.gap == 0
    assert row.ci_high == pytest.approx(1 - 0.025 ** (1 / n))
    assert row.upper_bound == pytest.approx(1 - 0.05 ** (1 / n))


def test_judged_groups_on_few_members_get_one_warning():
    _, s, g = people(n=240, n_groups=4)
    with pytest.warns(SmallGroupWarning, match="effective members") as caught:
        fairness_report(None, s, sensitive_features=g, interval=INTERVAL, random_state=0)
    assert len(caught) == 1
    assert "and 1 more; gaps measured on fewer than 30 are mostly noise" in str(caught[0].message)


def test_undefined_metric_is_nan_and_names_the_group():
    y, s, g = people()
    y = y & (g != "South")
    with pytest.warns(UndefinedGapWarning, match="'South'"):
        report = fairness_report(
            y,
            s,
            sensitive_features=g,
            interval=INTERVAL,
            threshold=THRESHOLD,
            small_groups="keep",
            random_state=0,
        )
    row = report["equal_opportunity"]
    assert np.isnan([row.gap, row.ci_low, row.ci_high, row.p_value(0.1)]).all()
    assert report.worst.metric != "equal_opportunity"


def test_tied_share_shows_constant_models():
    _, s, g = people()
    report = fairness_report(None, np.ones_like(s), sensitive_features=g, interval=INTERVAL, random_state=0)
    assert report["statistical_parity"].gap == 0
    assert (report.to_frame(by="group")["tied_share"] == 1).all()
    report = fairness_report(None, s, sensitive_features=g, interval=INTERVAL, random_state=0)
    assert (report.to_frame(by="group")["tied_share"] == 0).all()


def test_intervals_by_group_and_unions():
    _, s, g = people(n_groups=2)
    interval = {"North": (0.1, 0.4), "South": [(0.05, 0.2), (0.3, 0.45)]}
    report = fairness_report(None, s, sensitive_features=g, interval=interval, random_state=0)
    direct = metrics.partial_statistical_parity_difference(None, s, sensitive_features=g, interval=interval)
    assert report["statistical_parity"].gap == direct
    with pytest.raises(InputError, match="absolute"):
        fairness_report(None, s, sensitive_features=g, interval=interval, gap_scale="absolute")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"confidence": 1.0}, "confidence"),
        ({"n_resamples": 10}, "n_resamples"),
        ({"gap_scale": "relative"}, "gap_scale"),
        ({"threshold": 0.5, "rank_within": "label"}, "rank_within"),
    ],
)
def test_bad_settings(options, message):
    y, s, g = people(n=600)
    with pytest.raises(InputError, match=message):
        fairness_report(y, s, sensitive_features=g, **options)


@pytest.mark.parametrize(
    ("y", "s", "w", "message"),
    [
        ([0, 1, 2, 1], [1.0, 2, 3, 4], None, "3 classes"),
        ([0, 1, None, 1], [1.0, 2, 3, 4], None, "missing values, the first in row 2"),
        (["no", "yes", "no", "yes"], [1.0, 2, 3, 4], None, "pos_label 1 is not among"),
        ([0, 1, 1], [1.0, 2, 3, 4], None, "y_true has 3 rows"),
        ([0, 1, 1, 0], [1.0, np.nan, 3, 4], None, "first in row 1"),
        ([0, 1, 1, 0], ["1", "x", "3", "4"], None, "'x', which is not a number"),
        ([0, 1, 1, 0], [[0.1, 0.9]] * 4, None, r"\[:, 1\]"),
        ([0, 1, 1, 0], [1.0, 2, 3, 4], [1, -1, 1, 1], "negative values, the first in row 1"),
        ([0, 1, 1, 0], [1.0, 2, 3, 4], [1, 1], "sample_weight has 2 rows"),
        ([0, 1, 1, 0], [], None, "empty"),
        ([0, 1, 1, 0], None, None, "y_score is missing"),
    ],
)
def test_bad_arrays_are_named(y, s, w, message):
    with pytest.raises(InputError, match=message):
        fairness_report(y, s, sensitive_features=["a", "a", "b", "b"], sample_weight=w)


def test_one_group_is_refused():
    with pytest.raises(InputError, match="only group 'a'"):
        fairness_report(None, [1.0, 2.0], sensitive_features=["a", "a"])
    with pytest.raises(InputError, match="only group 'a'"):
        fairness_report(None, [1.0, 2.0], sensitive_features=["a", "b"], sample_weight=[1, 0])


@pytest.mark.parametrize("gap_scale", ["interval", "absolute"])
@pytest.mark.parametrize("rank_within", ["group", "group_and_label"])
def test_differences_on_cells_are_the_exact_metric_when_cells_are_scores(gap_scale, rank_within):
    """With few scores every cell holds one; then what the intervals bootstrap is the metric itself."""
    y, s, g = people(n=150)
    setting = Setting(gap_scale, 0.6, rank_within)
    scored = scored_groups(s, g, INTERVAL, None, y)
    draws = resample(scored, threshold=0.6, n_resamples=100, rng=np.random.default_rng(0))
    for name, metric in METRICS.items():
        if name == "statistical_parity" and gap_scale == "absolute":
            continue  # followed by rank, between the scores too
        differences = metric.differences(draws, setting)
        blocks = differences.blocks(np.arange(len(differences.pairs)))
        on_cells = max(np.abs(block[:, 0]).max() for _, _, block in blocks)
        assert on_cells == pytest.approx(metric.gap(scored, setting).value, abs=1e-12), name


def test_a_tolerance_is_exceeded_just_where_the_lower_bound_excludes_it():
    y, s, g = people(n=1200)
    report = fairness_report(
        y, s, sensitive_features=g, interval=(0.1, 0.6), threshold=THRESHOLD, random_state=0
    )
    for row in report.metrics:
        for tolerance in np.linspace(0, 1, 41):
            if abs(tolerance - row.lower_bound) > 0.005:  # the p-value moves in steps of 1/1001
                assert (row.p_value(tolerance) <= 0.05) == (tolerance < row.lower_bound), (row, tolerance)


def test_a_small_bystander_group_does_not_blur_the_others():
    rng = np.random.default_rng(0)
    s = np.concatenate([rng.normal(size=1500), rng.normal(size=1500) + 0.6])
    g = np.repeat(["a", "b"], 1500)
    alone = fairness_report(None, s, sensitive_features=g, interval=INTERVAL, random_state=0).worst
    crowd = np.concatenate([s, rng.normal(size=110)]), np.concatenate([g, np.repeat("c", 110)])
    beside = fairness_report(
        None, crowd[0], sensitive_features=crowd[1], interval=INTERVAL, random_state=0
    ).worst
    assert beside.ci_low > alone.ci_low - 0.05


def test_the_reports_interval_is_not_looser_than_the_maps_band():
    rng = np.random.default_rng(1)
    g = rng.choice(["a", "b", "c"], p=[0.5, 0.4, 0.1], size=4000)
    s = rng.normal(size=4000) + 0.5 * (g == "b")
    report = fairness_report(None, s, sensitive_features=g, interval=(0.1, 0.4), random_state=0)
    found = metrics.unfairness_map(s, sensitive_features=g, n_grid=10).at(0.1, 0.4)
    assert report.worst.ci_low >= found.ci_low
    assert report.worst.ci_high <= found.ci_high


@pytest.mark.slow
@pytest.mark.alone
def test_many_groups_are_quick_enough():
    rng = np.random.default_rng(0)
    g, s = rng.integers(30, size=30_000), rng.normal(size=30_000)
    start = time.perf_counter()
    report = fairness_report(
        rng.random(30_000) < 0.5, s, sensitive_features=g, interval=INTERVAL, threshold=0.5, random_state=0
    )
    assert len(report.metrics) == len(METRICS)
    assert time.perf_counter() - start < 60


def test_weights_of_any_size_and_rows_inside():
    _, s, g = people(n=900)
    weights = np.random.default_rng(0).exponential(size=900)
    settings = {"sensitive_features": g, "interval": INTERVAL, "random_state": 0}
    frames = [
        fairness_report(None, s, sample_weight=factor * weights, **settings).to_frame()
        for factor in (1.0, 2.0**200, 2.0**-200)
    ]
    assert frames[0].equals(frames[1])
    assert frames[0].equals(frames[2])
    skewed = np.where(s > 0.5, 0.01, 1.0)  # light rows at the top: the interval holds many of them
    report = fairness_report(None, s, sample_weight=skewed, **settings)
    inside = metrics.interval_membership(s, sensitive_features=g, interval=INTERVAL, sample_weight=skewed)
    for group in report.groups:
        assert group.n_in_interval == pytest.approx(inside[g == group.group].sum())


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("labelled", [False, True])
def test_mean_scores_of_cells_are_those_of_the_members(weighted, labelled):
    rng = np.random.default_rng(0)
    scores, groups = rng.normal(size=3000).round(2), rng.choice(["a", "b"], 3000)
    weights = rng.uniform(0.5, 2, 3000) if weighted else None
    positive = rng.random(3000) < 0.3 if labelled else None
    scored = scored_groups(scores, groups, INTERVAL, weights, positive)
    draws = resample(scored, threshold=None, n_resamples=10, rng=rng)
    for k, group in enumerate(scored):
        means, cells = draws.mean_scores(k), draws.draws[k].cells
        # Cell j holds the scores in (thresholds[j], thresholds[j − 1]], the last one the rest.
        tops, bottoms = (
            np.append(np.inf, draws.thresholds)[cells],
            np.append(draws.thresholds, -np.inf)[cells],
        )
        for mean, top, bottom in zip(means, tops, bottoms, strict=True):
            inside = (group.scores > bottom) & (group.scores <= top)
            shares = None if group.weights is None else group.weights[inside]
            assert mean == pytest.approx(np.average(group.scores[inside], weights=shares))


def test_bounds_stand_in_order_and_one_sided_ones_are_nearer():
    y, s, g = people(n=1600)
    for row in fairness_report(
        y, s, sensitive_features=g, interval=INTERVAL, threshold=THRESHOLD, random_state=0
    ).metrics:
        assert row.ci_low <= row.lower_bound <= row.gap <= row.upper_bound <= row.ci_high, row


def test_every_pair_has_its_own_gap_and_interval():
    y, s, g = people(n=1600)
    settings = {"interval": INTERVAL, "threshold": THRESHOLD, "random_state": 0}
    report = fairness_report(y, s, sensitive_features=g, **settings)
    for row in report.metrics:
        pairs = report.pairs(row.metric)
        n_groups = len(report.groups)
        assert len(pairs) == n_groups * (n_groups - 1) / 2
        assert pairs[0].gap == pytest.approx(row.gap)
        assert pairs[0].groups == row.groups
        for pair in pairs:
            assert pair.ci_low <= pair.gap <= pair.ci_high
            alone = np.isin(g, pair.groups)
            other = fairness_report(y[alone], s[alone], sensitive_features=g[alone], **settings)[row.metric]
            assert pair.gap == pytest.approx(other.gap)
            assert pair.ci_low == pytest.approx(other.ci_low, abs=0.06)
            assert pair.ci_high == pytest.approx(other.ci_high, abs=0.03)
    frame = report.to_frame(by="pair")
    assert len(frame) == sum(len(report.pairs(row.metric)) for row in report.metrics)
    odds = frame[frame["metric"] == "equalized_odds"]
    assert set(odds["among"]) <= {"positives", "negatives"}
    assert (frame[frame["metric"] == "group_auc"]["among"] == "").all()


def test_how_sure_all_lines_are_at_once():
    """``1 − m (1 − confidence)``: lines that have no gap claim nothing, and no less than nothing is known."""
    y, s, g = people(n=900)
    settings = {"sensitive_features": g, "threshold": THRESHOLD, "random_state": 0, "n_resamples": 200}
    alone = fairness_report(None, s, **settings)
    every = fairness_report(y, s, **settings)
    unsure = fairness_report(y, s, confidence=0.6, **settings)
    y[g == g[0]] = 0
    with pytest.warns(UndefinedGapWarning):
        undefined = fairness_report(y, s, small_groups="keep", **settings)
    for report, n_lines in ((alone, 3), (every, 7), (undefined, 3)):
        assert sum(not np.isnan(row.gap) for row in report.metrics) == n_lines
        assert report.joint_confidence == pytest.approx(1 - 0.05 * n_lines)
        assert (
            f"all {n_lines} hold simultaneously with at least {100 - 5 * n_lines}% confidence."
            in report.confidence_note
        )
    assert unsure.joint_confidence == 0
    assert unsure.confidence_note == "Each interval by itself holds with 60% confidence."


def test_the_label_that_drives_equalized_odds_is_named():
    y, s, g = people(n=1600)
    report = fairness_report(
        y, s, sensitive_features=g, interval=INTERVAL, threshold=THRESHOLD, random_state=0
    )
    odds, opportunity = report["equalized_odds"], report["equal_opportunity"]
    assert odds.label == (odds.gap == opportunity.gap)


def test_clusters_widen_bounds_and_leave_values():
    """Everybody four times tells no more than once."""
    y, s, g = people(n=1500)
    settings = {"interval": INTERVAL, "threshold": THRESHOLD, "random_state": 0}
    once = fairness_report(y, s, sensitive_features=g, **settings)
    four = {"y_true": np.tile(y, 4), "y_score": np.tile(s, 4), "sensitive_features": np.tile(g, 4)}
    copied = fairness_report(**four, clusters=np.tile(np.arange(1500), 4), **settings)
    naive = fairness_report(**four, **settings)
    for row in once.metrics:
        like, short = copied[row.metric], naive[row.metric]
        assert like.gap == pytest.approx(row.gap)
        assert like.upper_bound - like.gap == pytest.approx(row.upper_bound - row.gap, rel=0.2)
        assert short.upper_bound - short.gap < 0.75 * (like.upper_bound - like.gap)


@pytest.mark.parametrize(
    ("clusters", "message"),
    [([1, 2], "clusters must name the cluster"), ([1.0, np.nan, *range(398)], "the first in row 1")],
)
def test_bad_clusters_are_refused(clusters, message):
    y, s, g = people(n=400)
    with pytest.raises(InputError, match=message):
        fairness_report(y, s, sensitive_features=g, clusters=clusters)
