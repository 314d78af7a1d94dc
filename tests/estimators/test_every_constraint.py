"""A classifier trained under each constraint: it converges, and what it was asked for holds."""

import numpy as np
import pytest

from partialfair import PartialFairClassifier
from partialfair.constraints import (
    DemographicParity,
    EqualizedOdds,
    EqualOpportunity,
    GroupAUC,
    StatisticalParity,
)
from partialfair.data.groups import encode_groups
from partialfair.exceptions import InputError
from partialfair.metrics import (
    partial_equal_opportunity_difference,
    partial_equalized_odds_difference,
    partial_group_auc_difference,
)
from partialfair.optimization.problems import SortedRanks
from partialfair.optimization.solvers import Status
from partialfair.training.named_constraints import NAMED_CONSTRAINTS
from partialfair_paper.quadratic import InterGroupPairwise, IntraGroupPairwise, QuadraticGroupAUC
from tests.blocks import functions_of

UNION = [(0.1, 0.3), (0.5, 0.8)]
BY_GROUP = {"f": (0.1, 0.7), "m": UNION}
BAND = (0.3, 1.0)
STATEMENTS = [
    StatisticalParity(BAND, 0.1),
    DemographicParity(BAND, 0.1),
    EqualOpportunity(BAND, 0.05),
    EqualizedOdds(BAND, 0.05),
    GroupAUC((0.1, 0.6), 0.1),
    QuadraticGroupAUC(1.0),
    InterGroupPairwise(1.0),
    IntraGroupPairwise(1.0),
]
pytestmark = [
    pytest.mark.filterwarnings("ignore::partialfair.exceptions.SurrogateWarning"),
    pytest.mark.filterwarnings("ignore::partialfair.exceptions.ThresholdOutsideIntervalWarning"),
]


def block_of(constraint, people, sigma):
    groups = encode_groups(people.groups)
    return constraint.build(groups, np.ones(len(people.y)), sigma, people.y == "passed over")


def suitable_thresholds(block, scores):
    return block.joined_thresholds.at(lambda bank: SortedRanks(scores, block.all_members[bank]))


@pytest.mark.parametrize("group_terms", [None, "intercept", "interactions"])
@pytest.mark.parametrize("constraint", STATEMENTS, ids=lambda one: type(one).__name__)
def test_fits_converge_and_keep_to_the_surrogate_gap(people, constraint, group_terms):
    free = PartialFairClassifier(None, group_terms=group_terms)
    free.fit(people.X, people.y, sensitive_features=people.groups)
    clf = PartialFairClassifier(constraint, enforce="surrogate", group_terms=group_terms)
    clf.fit(people.X, people.y, sensitive_features=people.groups)
    assert clf.classes_.tolist() == ["hired", "passed over"]  # the larger label is positive
    assert clf.result_.status is Status.CONVERGED
    block = block_of(constraint, people, clf.result_.surrogate)
    for model, kept in ((clf, True), (free, False)):
        scores = model.decision_function(people.X, sensitive_features=people.groups)
        theta = clf.result_.thresholds if kept else suitable_thresholds(block, scores)
        assert bool(functions_of(block, scores, theta).max() <= 1e-4) is kept


@pytest.mark.parametrize("interval", [UNION, BY_GROUP], ids=["union", "by group"])
@pytest.mark.parametrize("kind", [one.kind for one in NAMED_CONSTRAINTS.values()], ids=NAMED_CONSTRAINTS)
def test_any_intervals_will_do(people, kind, interval):
    # One model for all cannot give the groups distributions that differ as the intervals ask.
    group_terms = "interactions" if kind is StatisticalParity else None
    clf = PartialFairClassifier(kind(interval, 0.1), enforce="surrogate", group_terms=group_terms, tol=1e-3)
    clf.fit(people.X, people.y, sensitive_features=people.groups)
    assert clf.result_.status is Status.CONVERGED
    assert clf.result_.max_violation <= 1e-3


@pytest.mark.parametrize(
    ("name", "metric", "options"),
    [
        ("group_auc", partial_group_auc_difference, {}),
        ("equal_opportunity", partial_equal_opportunity_difference, {"threshold": 0.3}),
        ("equalized_odds", partial_equalized_odds_difference, {"threshold": 0.3}),
    ],
)
def test_the_result_measures_the_metric_that_the_constraint_is_about(people, name, metric, options):
    clf = PartialFairClassifier(
        name, interval=BAND, max_gap=0.1, constraint_threshold=0.3, enforce="surrogate", tol=1e-2
    )
    weights = np.random.default_rng(0).random(300)
    clf.fit(people.X, people.y, sensitive_features=people.groups, sample_weight=weights)
    if options:
        options = {**options, "pos_label": "passed over", "rank_within": "group_and_label"}
    expected = metric(
        people.y,
        clf.decision_function(people.X),
        sensitive_features=people.groups,
        interval=BAND,
        sample_weight=weights,
        **options,
    )
    assert clf.result_.gap == pytest.approx(expected)
    assert type(clf.result_.constraints[0]) is NAMED_CONSTRAINTS[name].kind
    assert "nan" not in str(clf.result_)


def test_baselines_are_about_no_exact_metric(people):
    clf = PartialFairClassifier(QuadraticGroupAUC(1.0), enforce="surrogate")
    clf.fit(people.X, people.y, sensitive_features=people.groups)
    assert np.isnan(clf.result_.gap)


def test_several_at_once(people):
    stated = [GroupAUC(BAND, 0.2), EqualizedOdds(BAND, 0.2), QuadraticGroupAUC(2.0)]
    clf = PartialFairClassifier(stated, enforce="surrogate", tol=1e-3)
    clf.fit(people.X, people.y, sensitive_features=people.groups)
    assert clf.result_.status is Status.CONVERGED
    assert len(clf.result_.gaps) == 3


def test_what_cannot_work_is_said_before_the_fit(people):
    alone = np.where(people.groups == "f", "passed over", people.y)
    with pytest.raises(InputError, match=r"only group 'm' is large .* 'f' has 0 effective positives"):
        PartialFairClassifier("equalized_odds", interval=(0, 1), enforce="surrogate").fit(
            people.X, alone, sensitive_features=people.groups
        )
    with pytest.raises(InputError, match="no meaning for group AUC"):
        PartialFairClassifier("group_auc", interval=(0, 1), gap_scale="absolute", enforce="surrogate").fit(
            people.X, people.y, sensitive_features=people.groups
        )
