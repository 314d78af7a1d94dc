"""Who is judged, who is listed, and what is said about it."""

import warnings

import numpy as np
import pytest

from partialfair import metrics
from partialfair.data.groups import members_text
from partialfair.exceptions import (
    InputError,
    SmallGroupWarning,
    ThresholdOutsideIntervalWarning,
    UndefinedGapWarning,
)
from partialfair.metrics import fairness_report, interval_changes, interval_membership
from partialfair.utils.text import listed

INTERVAL = (0.1, 0.6)  # half of every group


def people(*sizes, seed=0):
    """Scores, groups a, b, ... of the given sizes, and labels."""
    rng = np.random.default_rng(seed)
    groups = np.repeat([*"abcdefgh"][: len(sizes)], sizes)
    scores = rng.normal(size=groups.size)
    return scores, groups, rng.random(groups.size) < 0.5


def report(scores, groups, y=None, **options):
    settings = {"interval": INTERVAL, "random_state": 0, "n_resamples": 100, **options}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SmallGroupWarning)
        return fairness_report(y, scores, sensitive_features=groups, **settings)


def test_small_groups_are_listed_and_never_silently_dropped():
    scores, groups, _ = people(200, 200, 2, 18, 20)
    judged = report(scores, groups)
    assert [group.group for group in judged.groups] == ["a", "b", "e"]  # 20 · 0.5 are ten
    assert [(g.group, g.n, g.n_counted, g.reason) for g in judged.small_groups] == [
        ("c", 2, 1.0, "too small to evaluate"),
        ("d", 18, 9.0, "too small to evaluate"),
    ]
    large = np.isin(groups, [*"abe"])
    wanted = metrics.partial_statistical_parity_difference(
        None, scores[large], sensitive_features=groups[large], interval=INTERVAL
    )
    assert judged["statistical_parity"].gap == wanted
    assert "2 of 5 groups too small to evaluate" in repr(judged)
    frame = judged.to_frame(by="group")
    assert frame["judged"].to_dict() == {"a": True, "b": True, "e": True, "c": False, "d": False}
    assert frame.loc["d", "n_in_interval"] == 9
    with pytest.warns(SmallGroupWarning) as caught:
        fairness_report(None, scores, sensitive_features=groups, interval=INTERVAL, random_state=0)
    said = [str(warning.message) for warning in caught]
    assert len(said) == 2  # who is not judged, and who is but on few members
    assert "2 of 5 groups too small to evaluate" in said[0]
    assert "'c' (1 effective member) and 'd' (9 effective members)" in said[0]


def test_many_small_groups_make_a_short_warning():
    rng = np.random.default_rng(0)
    groups = np.concatenate([np.repeat(["x", "y"], 100), [f"code {k}" for k in range(500)]])
    with pytest.warns(SmallGroupWarning, match="500 of 502 groups too small to evaluate") as caught:
        fairness_report(None, rng.normal(size=groups.size), sensitive_features=groups, random_state=0)
    assert len(caught) == 1
    assert "and 497 more" in str(caught[0].message)


def test_weights_count_by_their_effective_number():
    scores, groups, _ = people(200, 200, 40)
    weights = np.ones(scores.size)
    assert not report(scores, groups, sample_weight=weights).small_groups
    weights[groups == "c"] = np.where(np.arange(40) < 4, 100.0, 1.0)  # as much as about five members
    (small,) = report(scores, groups, sample_weight=weights).small_groups
    own = weights[groups == "c"]
    assert small.n_counted == pytest.approx(own.sum() ** 2 / (own**2).sum() / 2)


def test_kept_groups_are_judged_whatever_their_size():
    scores, groups, _ = people(200, 200, 2)
    kept = report(scores, groups, small_groups="keep", interval=(0.1, 0.4))  # 0.6 of a member
    wanted = metrics.partial_statistical_parity_difference(
        None, scores, sensitive_features=groups, interval=(0.1, 0.4)
    )
    assert kept["statistical_parity"].gap == wanted
    assert "c" in kept["statistical_parity"].groups
    assert kept.exclusions == ""


def test_merged_groups_are_ranked_as_one():
    scores, groups, y = people(200, 200, 15, 17, 3)
    weights = np.random.default_rng(1).choice([1.0, 1.5], scores.size)
    merged = report(scores, groups, y, small_groups="merge", sample_weight=weights)
    together = np.where(np.isin(groups, [*"cde"]), "small groups", groups)
    direct = report(scores, together, y, sample_weight=weights)
    assert merged.to_frame().equals(direct.to_frame())
    assert merged.small_groups == ()
    assert [group.group for group in merged.merged_groups] == [*"cde"]
    assert "3 of 5 groups judged together as 'small groups'" in repr(merged)
    assert merged.to_frame(by="group").loc["small groups", "n"] == 35
    # Together still too few: each is listed.
    few = report(*people(200, 200, 4, 3)[:2], small_groups="merge")
    assert [group.group for group in few.small_groups] == [*"cd"]
    assert few.merged_groups == ()
    with pytest.raises(InputError, match=r"none of 3 groups .* 'a' \(4 effective members\), 'b'"):
        report(*people(8, 7, 6)[:2], small_groups="merge")


def test_groups_with_few_of_a_label_are_left_out_of_those_metrics_only():
    scores, groups, y = people(400, 400, 400)
    y[groups == "c"] = False
    y[np.flatnonzero(groups == "c")[:8]] = True
    judged = report(scores, groups, y, threshold=0.4)
    left_out = {name: [group.group for group in few] for name, few in judged.too_few_labelled.items()}
    assert left_out == {
        "equal_opportunity": ["c"],
        "equalized_odds": ["c"],
        "inter_group_pairwise": ["c"],
        "intra_group_pairwise": ["c"],
    }
    assert {few.counted for (few,) in judged.too_few_labelled.values()} == {"positives"}
    others = groups != "c"
    shared = {"sensitive_features": groups[others]}
    partial = {**shared, "interval": INTERVAL, "threshold": 0.4}
    labels = y[others], scores[others]
    assert judged["equal_opportunity"].gap == metrics.partial_equal_opportunity_difference(*labels, **partial)
    assert judged["equalized_odds"].gap == metrics.partial_equalized_odds_difference(*labels, **partial)
    assert judged["intra_group_pairwise"].gap == metrics.intra_group_pairwise_difference(*labels, **shared)
    assert judged["statistical_parity"].gap == metrics.partial_statistical_parity_difference(
        None, scores, sensitive_features=groups, interval=INTERVAL
    )
    few = r"fewer than 10: equal opportunity \(pEOP\) and equalized .* without 'c' \(5 .* positives\); inter"
    with pytest.warns(SmallGroupWarning, match=few):
        fairness_report(
            y, scores, sensitive_features=groups, interval=INTERVAL, threshold=0.4, random_state=0
        )
    y[groups == "c"] = False
    with pytest.warns(UndefinedGapWarning):
        kept = report(scores, groups, y, threshold=0.4, small_groups="keep")
    assert np.isnan(kept["equal_opportunity"].gap)


@pytest.mark.parametrize("rank_within", ["group", "group_and_label"])
def test_a_metric_without_two_groups_is_omitted_with_the_reason(rank_within):
    scores, groups, y = people(400, 400)
    y[groups == "b"] = False
    judged = report(scores, groups, y, threshold=0.4, rank_within=rank_within)
    assert judged.omitted["equal_opportunity"] == (
        "compares groups with at least 10 effective positives in the interval, of which only 1 has enough"
    )
    assert "effective positives and negatives, of which only 1" in judged.omitted["intra_group_pairwise"]
    assert [row.metric for row in judged.metrics] == ["statistical_parity", "demographic_parity", "group_auc"]


@pytest.mark.parametrize(
    ("sizes", "options", "words"),
    [
        ((200, 3), {}, r"only 1 of 2 groups has at least 10 .* 'b' \(1 effective member\); widen"),
        (
            (3, 3, 3, 3, 3),
            {},
            "none of 5 groups has .* and 2 more; .*min_group_size, small_groups='merge' and",
        ),
        ((200, 3, 3), {"small_groups": "merge"}, "see min_group_size and small_groups='keep'"),
        ((19, 19), {"small_groups": "merge"}, r"none of 2 groups has .* 'a' \(9 .*\) and 'b' \(9 "),
        ((200, 200), {"min_group_size": 101}, "none of 2 groups has at least 101"),
        ((200, 200), {"min_group_size": 0}, "min_group_size must be at least 1"),
        ((200, 200), {"min_group_size": 2.5}, "min_group_size must be a whole number"),
        ((200, 200), {"small_groups": "drop"}, "small_groups must be one of 'list', 'merge', 'keep'"),
        (
            (200, 3),
            {"small_groups": "merge", "interval": {"a": (0, 0.5), "b": (0, 0.5)}},
            "small_groups='merge' needs one interval for all groups",
        ),
    ],
)
def test_what_cannot_be_judged_says_what_to_do(sizes, options, words):
    scores, groups, _ = people(*sizes)
    with pytest.raises(InputError, match=words) as refused:
        report(scores, groups, **options)
    assert len(str(refused.value)) < 1000


def test_the_merged_name_may_not_be_taken():
    scores, groups, _ = people(200, 200, 3)
    named = np.where(groups == "a", "small groups", groups)
    with pytest.raises(InputError, match="the data have one of that name"):
        report(scores, named, small_groups="merge")


def test_rows_without_a_group_are_refused_or_left_out_and_counted():
    scores, groups, _ = people(200, 200)
    missing = groups.astype(object)
    missing[:5] = None
    with pytest.raises(InputError, match=r"5 missing values, the first in row 0; missing_groups='ignore'"):
        report(scores, missing)
    judged = report(scores, missing, missing_groups="ignore")
    assert judged.to_frame().equals(report(scores[5:], groups[5:]).to_frame())
    assert (judged.n_missing, judged.exclusions) == (5, "5 rows without a group left out")
    shared = {"interval": INTERVAL, "missing_groups": "ignore"}
    inside = interval_membership(scores, sensitive_features=missing, **shared)
    assert (inside[:5] == 0).all()
    known = interval_membership(scores[5:], sensitive_features=groups[5:], interval=INTERVAL)
    assert (inside[5:] == known).all()
    changes = interval_changes(scores, -scores, sensitive_features=missing, **shared)
    assert changes["in_interval"].to_dict() == pytest.approx({"a": 97.5, "b": 100.0})
    with pytest.raises(InputError, match="missing_groups must be one of 'error', 'ignore'"):
        report(scores, groups, missing_groups="drop")


@pytest.mark.parametrize(
    ("threshold", "lower", "words"),
    [
        (
            94.5,
            False,
            "the threshold 94.5 has rank 5% in x and 5% in y, outside the interval 15–40%: no row inside "
            "is selected, so gaps at the threshold are 0 whatever the scores inside; choose an interval that "
            "contains the selection rate 5%",
        ),
        (4.5, True, "the threshold 4.5 has rank 5% in x and 5% in y, outside the interval 15–40%: no row"),
        (20, False, "every row inside is selected, so gaps at the threshold are 0"),
    ],
)
def test_a_threshold_outside_the_interval_is_pointed_out(threshold, lower, words):
    scores, groups = np.tile(np.arange(100.0), 2), np.repeat(["x", "y"], 100)
    with pytest.warns(ThresholdOutsideIntervalWarning) as caught:
        found = report(scores, groups, interval=(0.15, 0.4), threshold=threshold, higher_is_better=not lower)
    assert words in str(caught[0].message)
    row = found["demographic_parity"]
    assert np.isnan(row.gap)
    assert row.reason == "threshold outside the interval"


def test_a_threshold_outside_the_interval_of_some_group_only():
    scores = np.concatenate([np.arange(100.0), np.arange(100.0) + 10])
    groups = np.repeat(["x", "y"], 100)
    with pytest.warns(
        ThresholdOutsideIntervalWarning, match=r"rank 10% in x, outside the interval 15–40%: no row"
    ) as caught:
        report(scores, groups, interval=(0.15, 0.4), threshold=89)
    assert "gaps at the threshold are 0" not in str(caught[0].message)
    assert "selection rates 10% to 20%" in str(caught[0].message)
    both = {"x": (0.15, 0.4), "y": (0.05, 0.15)}
    with pytest.warns(
        ThresholdOutsideIntervalWarning, match="outside their intervals: none or all of the rows inside"
    ):
        report(scores, groups, interval=both, threshold=89, min_group_size=5)
    with pytest.warns(
        ThresholdOutsideIntervalWarning, match="10% in x, .* a fixed proportion inside is selected there"
    ):
        report(scores, groups, interval=[(0.05, 0.08), (0.2, 0.5)], threshold=89)  # between the parts
    report(scores, groups, interval=(0.1, 0.2), threshold=89)  # at both ends


def test_idle_thresholds_among_those_who_are_compared():
    scores, groups = np.tile(np.arange(200.0), 2), np.repeat(["x", "y"], 200)
    positive = np.tile(np.arange(200) >= 100, 2)
    setting = {"interval": (0.15, 0.4), "threshold": 149.0}  # rank 25% of all, 50% of positives
    report(scores, groups, positive, **setting)
    with pytest.warns(
        ThresholdOutsideIntervalWarning, match="50% among the positives of x .*: every row inside"
    ):
        report(scores, groups, positive, rank_within="group_and_label", **setting)
    setting["threshold"] = 174.0  # 12.5%, and 25% of positives
    with pytest.warns(ThresholdOutsideIntervalWarning, match=r"12.5% in x and 12.5% in y, outside") as caught:
        report(scores, groups, positive, rank_within="group_and_label", **setting)
    assert len(caught) == 1


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (7.5, "8"),
        (7.4999999999, "8"),
        (7.49, "7"),
        (8.0, "8"),
        (0.04, "0"),
        (1234.56, "1,235"),
    ],
)
def test_members_are_written_as_whole_numbers(count, text):
    assert members_text(count) == text


@pytest.mark.parametrize(("count", "text"), [(9.98, "9"), (9.5, "9"), (8.999999999, "9"), (0.04, "0")])
def test_too_few_are_not_rounded_to_enough(count, text):
    assert members_text(count, too_few=True) == text


def test_a_few_names_are_listed():
    assert listed(["a"]) == "a"
    assert listed(["a", "b"]) == "a and b"
    assert listed(["a", "b", "c"]) == "a, b and c"
    assert listed([*"abcde"]) == "a, b, c and 2 more"
