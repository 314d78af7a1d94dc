"""Groups that are too small to evaluate are outside the promise, and said to be."""

import warnings

import numpy as np
import pytest

from partialfair import FitOptions, PartialFairClassifier, choose_interval
from partialfair.constraints import EqualizedOdds, EqualOpportunity, StatisticalParity
from partialfair.constraints.base import effective_sizes
from partialfair.data.groups import encode_groups
from partialfair.exceptions import InputError, SmallGroupWarning, SmallSampleGapWarning
from partialfair.metrics import partial_statistical_parity_difference, sample_size

LOOSE = {"enforce": "surrogate", "max_gap": 0.3, "options": FitOptions(n_points=3), "tol": 1e-2}


def with_few(people, n_few, label="few"):
    groups = people.groups.astype(object)
    groups[:n_few] = label
    return groups


def test_effective_members_are_those_that_equal_weights_would_have():
    groups = encode_groups(list("aaabb"))
    assert effective_sizes(groups, np.ones(5)) == pytest.approx([3, 2])
    assert effective_sizes(groups, np.array([1, 1, 0, 1, 1e-9])) == pytest.approx([2, 1])
    assert effective_sizes(groups, np.array([0, 0, 0, 3, 3])) == pytest.approx([0, 2])
    inside = StatisticalParity((0.0, 0.25)).effective_members(groups, np.ones(5))
    assert inside == pytest.approx([0.75, 0.5])


def test_small_groups_count_in_the_loss_and_not_in_the_promise(people):
    groups = with_few(people, 3)
    clf = PartialFairClassifier(interval=(0.0, 0.5), max_gap=0.25)
    with pytest.warns(SmallGroupWarning, match="'few' has 1 effective members in the interval of Stat"):
        clf.fit(people.X, people.y, sensitive_features=groups)
    assert clf.result_.small_groups == ("few",)
    assert clf.groups_.tolist() == ["f", "few", "m"]
    assert "excluded, too small to evaluate: few" in str(clf.result_)
    known = groups != "few"
    expected = partial_statistical_parity_difference(
        None, clf.decision_function(people.X)[known], sensitive_features=groups[known], interval=(0.0, 0.5)
    )
    assert clf.result_.gap == pytest.approx(expected)
    assert clf.result_.satisfied
    # The same as rows without a group.
    missing = np.where(known, groups, None)
    same = PartialFairClassifier(interval=(0.0, 0.5), max_gap=0.25, missing_groups="ignore")
    same.fit(people.X, people.y, sensitive_features=missing)
    assert clf.coef_ == pytest.approx(same.coef_, abs=1e-9)


@pytest.mark.parametrize("group_terms", ["intercept", "interactions"])
def test_group_terms_know_small_groups(people, group_terms):
    groups = with_few(people, 3, "a few")  # sorted before the others, whose terms must not be mixed up
    clf = PartialFairClassifier(interval=(0.0, 0.5), group_terms=group_terms, alpha=1e-2, **LOOSE)
    with pytest.warns(SmallGroupWarning, match="'a few'"):
        clf.fit(people.X, people.y, sensitive_features=groups)
    assert clf.intercept_.shape == (3,)
    assert clf.result_.status == "converged"
    known = groups != "a few"
    scores = clf.decision_function(people.X, groups)
    expected = partial_statistical_parity_difference(
        None, scores[known], sensitive_features=groups[known], interval=(0.0, 0.5)
    )
    assert clf.result_.gap == pytest.approx(expected)


def test_a_group_may_be_small_for_one_constraint_only(people):
    positive = people.y == np.unique(people.y)[1]
    rows = np.concatenate([np.flatnonzero(positive)[:1], np.flatnonzero(~positive)[:9]])
    groups = people.groups.astype(object)
    groups[rows] = "x"
    stated = [StatisticalParity((0.0, 1.0), 0.3, n_points=3), EqualOpportunity((0.0, 1.0), 0.3)]
    clf = PartialFairClassifier(stated, enforce="surrogate", tol=1e-2)
    with pytest.warns(SmallGroupWarning, match=r"^group 'x' has 1 effective positives .* of EqualOpp"):
        clf.fit(people.X, people.y, sensitive_features=groups)
    assert clf.result_.small_groups == ("x",)
    members = EqualizedOdds((0, 1)).effective_members(encode_groups(groups), np.ones(300), positive)
    assert members[-1] == pytest.approx(1)


def test_intervals_by_group_may_name_small_groups(people):
    groups = with_few(people, 3)
    by_group = {"f": (0.0, 0.5), "m": (0.0, 0.6), "few": (0.0, 0.1)}
    clf = PartialFairClassifier(interval=by_group, **LOOSE)
    with pytest.warns(SmallGroupWarning, match=r"'few' has 0 effective"):
        clf.fit(people.X, people.y, sensitive_features=groups)
    assert clf.result_.constraints[0].interval == by_group


def test_the_least_size_is_the_users(people):
    groups = with_few(people, 12)
    with pytest.warns(SmallGroupWarning, match="fewer than min_group_size=10"):
        PartialFairClassifier(interval=(0.0, 0.5), min_group_size=10, **LOOSE).fit(
            people.X, people.y, sensitive_features=groups
        )
    clf = PartialFairClassifier(interval=(0.0, 0.5), min_group_size=6, **LOOSE)
    assert not clf.fit(people.X, people.y, sensitive_features=groups).result_.small_groups
    with pytest.raises(InputError, match=r"only group 'm' is .* 'f' has 65 and 'few' has 6 .* or lower"):
        PartialFairClassifier(interval=(0.0, 0.5), min_group_size=72, **LOOSE).fit(
            people.X, people.y, sensitive_features=groups
        )


def test_weights_make_groups_small(people):
    weights = np.where(people.groups == "f", 1e-6, 1.0)
    weights[np.flatnonzero(people.groups == "f")[0]] = 1.0
    with pytest.raises(InputError, match="only group 'm' is large enough"):
        PartialFairClassifier(interval=(0, 1), **LOOSE).fit(
            people.X, people.y, sensitive_features=people.groups, sample_weight=weights
        )


def few_and_many(n_few, n_features=4, seed=0):
    """A thousand of one group and few of another, who score higher on one feature."""
    rng = np.random.default_rng(seed)
    groups = np.repeat(["many", "few"], [1000, n_few])
    X = rng.normal(size=(groups.size, n_features)) + np.outer(groups == "few", np.eye(n_features)[0])
    return X, X.sum(axis=1) + rng.normal(size=groups.size) > 0, groups


@pytest.mark.parametrize(
    ("n_few", "max_gap", "warns"), [(80, 0.05, True), (80, 0.3, False), (600, 0.05, False)]
)
def test_gaps_far_below_what_few_people_can_show_are_warned_of_before_the_fit(n_few, max_gap, warns):
    X, y, groups = few_and_many(n_few)
    assert warns == (n_few < sample_size(max_gap, interval=(0.05, 0.3)) / 200)
    seen = []
    clf = PartialFairClassifier(
        interval=(0.05, 0.3), max_gap=max_gap, enforce="surrogate", callback=lambda line: seen.append(line)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", SmallSampleGapWarning)
        if warns:
            with pytest.raises(
                SmallSampleGapWarning, match=r"max_gap=0\.05 .* 20 effective members of group 'few'"
            ):
                clf.fit(X, y, sensitive_features=groups)
            assert not seen
        else:
            clf.fit(X, y, sensitive_features=groups)


def test_an_automatic_interval_is_not_chosen_by_a_small_group(people):
    groups = with_few(people, 3)
    free = PartialFairClassifier(None).fit(people.X, people.y)
    scores = free.decision_function(people.X)
    choice = choose_interval(scores, sensitive_features=groups, threshold=0.0, min_group_size=2)
    assert choice.excluded == ("few",)
    clf = PartialFairClassifier(interval="auto", **LOOSE)
    with pytest.warns(SmallGroupWarning, match="'few'"):
        clf.fit(people.X, people.y, sensitive_features=groups)
    assert clf.result_.constraints[0].interval == choice.interval
    of_all = choose_interval(scores, sensitive_features=groups, threshold=0.0, min_group_size=0)
    assert of_all.interval != choice.interval
