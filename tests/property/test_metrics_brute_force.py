"""Every metric against the definition, against other libraries, and under changes that must not matter."""

from __future__ import annotations

import inspect
import itertools
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from math import isnan, nan
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.stats import ks_2samp
from sklearn.metrics import roc_auc_score

from partialfair import metrics
from partialfair.exceptions import InputError, UndefinedGapWarning
from tests import brute
from tests.property.strategies import (
    EVERYONE,
    STEP,
    Table,
    as_array,
    as_floats,
    tables,
    tables_cut_between_members,
)
from tests.sizes import examples


@dataclass(frozen=True)
class Metric:
    """One metric with its options, called in the same way in the package and by brute force."""

    name: str
    options: dict[str, str] = field(default_factory=dict)

    def __call__(self, table: Table) -> float:
        return self.with_warnings(table)[0]

    def with_warnings(self, table: Table) -> tuple[float, list[str]]:
        arguments = self.arguments(table)
        if "interval" in arguments:
            arguments["interval"] = as_floats(arguments["interval"])
        arguments["sample_weight"] = as_array(table.weights)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UndefinedGapWarning)
            value = getattr(metrics, self.name)(table.labels, np.array(table.scores), **arguments)
        assert type(value) is float
        return value, [str(warning.message) for warning in caught]

    def brute(self, table: Table) -> tuple[float, list[str]]:
        """Return the exact value, and the groups for which there is none."""
        arguments = self.arguments(table) | {"sample_weight": table.weights}
        try:
            return float(getattr(brute, self.name)(table.labels, table.scores, **arguments)), []
        except brute.Undefined as undefined:
            return nan, undefined.groups

    def arguments(self, table: Table) -> dict[str, Any]:
        accepted = inspect.signature(getattr(metrics, self.name)).parameters
        interval = table.interval
        if isinstance(interval, Mapping) and self.options.get("gap_scale") == "absolute":
            first, *others = interval.values()
            if any(other != first for other in others):
                interval = first  # that scale refuses intervals that differ
        values = {"interval": interval, "threshold": table.threshold}
        return {
            "sensitive_features": table.groups,
            **{name: value for name, value in values.items() if name in accepted},
            **self.options,
        }

    def __str__(self) -> str:
        return "-".join([self.name.removesuffix("_difference"), *self.options.values()])


def variants(name: str, **choices) -> list[Metric]:
    return [Metric(name, dict(zip(choices, o, strict=True))) for o in itertools.product(*choices.values())]


SCALES = ("interval", "absolute")
WITHIN = ("group", "group_and_label")
TIES = ("half", "geq")
PARITY = variants("partial_statistical_parity_difference", gap_scale=SCALES)
SELECTION = variants("partial_demographic_parity_difference", gap_scale=SCALES)
GROUP_AUC = variants("partial_group_auc_difference", ties=TIES)
OPPORTUNITY = variants("partial_equal_opportunity_difference", gap_scale=SCALES, rank_within=WITHIN)
ODDS = variants("partial_equalized_odds_difference", gap_scale=SCALES, rank_within=WITHIN)
INTER = variants("inter_group_pairwise_difference", ties=TIES)
INTRA = variants("intra_group_pairwise_difference", ties=TIES)
METRICS = PARITY + SELECTION + GROUP_AUC + OPPORTUNITY + ODDS + INTER + INTRA
PARTIAL = [metric for metric in METRICS if metric not in INTER + INTRA]

pytestmark = [
    pytest.mark.no_cover,  # tracing would take as long as checking; quicker tests run the same lines
    # Values are those of the definition, wherever a threshold lies.
    pytest.mark.filterwarnings("ignore::partialfair.exceptions.ThresholdOutsideIntervalWarning"),
]
many, few = examples(20), examples(5)


def every(chosen):
    return pytest.mark.parametrize("metric", chosen, ids=str)


def same(value, tolerance=1e-12):
    return pytest.approx(value, rel=0, abs=tolerance, nan_ok=True)


def dense(scores) -> np.ndarray:
    """Return 0 for the lowest score, 1 for the next higher one, and so on."""
    return np.unique(scores, return_inverse=True)[1].astype(float)


def rows_by_group(table: Table) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Scores, labels and weights of each group."""
    groups, scores, labels = map(np.array, (table.groups, table.scores, table.labels))
    weights = np.ones(table.n) if table.weights is None else as_array(table.weights)
    return [(scores[own], labels[own], weights[own]) for own in (groups == k for k in table.present)]


def check_against_brute_force(metric: Metric, table: Table) -> None:
    expected, undefined = metric.brute(table)
    value, messages = metric.with_warnings(table)
    assert value == same(expected, 1e-9)
    assert bool(messages) == bool(undefined)
    assert all(any(repr(group) in message for message in messages) for group in undefined)


# The definition


@every(METRICS)
@many
@given(table=tables())
def test_is_the_definition(metric, table):
    check_against_brute_force(metric, table)


@every(PARTIAL)
@many
@given(table=tables_cut_between_members())
def test_rounding_does_not_move_members_across_the_ends(metric, table):
    check_against_brute_force(metric, table)


def test_an_end_that_is_a_rank_in_spite_of_rounding():
    """The score at rank r is outside (…, r) and inside (r, …), and nobody above it holds any of (r, 1)."""
    parity, opportunity = PARITY[1], OPPORTUNITY[0]
    for weights in itertools.product(map(Fraction, ("0.1", "0.2", "0.7", "1/3", "5/7")), repeat=3):
        before, here, after = (r / sum(weights) for r in itertools.accumulate(weights))
        table = Table([3, 2, 1, 9], [*"aaab"], [1, 1, 0, 1], [*weights, Fraction(1)], None, 0)
        assert parity(table.with_(interval=((before + here) / 2, here))) == 0
        assert parity(table.with_(interval=(here, (here + after) / 2))) == same(float(1 - here))
        assert isnan(opportunity(table.with_(interval=(here, Fraction(1)))))


def test_nobody_is_in_a_short_interval_that_begins_where_they_end():
    """Of the short interval a rounding error of a rank is a share that counts; of the ranks it is none."""
    weights = [Fraction(250), Fraction(1, 3), Fraction(1, 1000)]
    start = sum(weights[:2]) / sum(weights)
    table = Table([5, 0, -1, 6, 0.5], [*"aaabb"], [0, 1, 0, 0, 1], [*weights, 1, 1], (start, 1), 0)
    assert isnan(OPPORTUNITY[0](table))


@every(METRICS)
@few
@given(table=tables())
def test_where_lower_is_better_it_is_the_metric_of_negated_scores(metric, table):
    turned = table.with_(scores=[-score for score in table.scores], threshold=-table.threshold)
    lower = Metric(metric.name, {**metric.options, "higher_is_better": False})
    assert lower.with_warnings(turned)[0] == same(metric(table), 1e-15)
    assert lower.with_warnings(turned)[1] == metric.with_warnings(table)[1]


# Rows and weights


@every(METRICS)
@few
@given(table=tables(), which=st.integers(0, 2**16))
def test_rows_without_a_group_are_removed_rows_if_they_are_ignored(metric, table, which):
    rows = [i for i in range(table.n) if (which >> i % 16) & 1 or table.groups.index(table.groups[i]) == i]
    removed = table.take(rows)
    if removed.present != table.present:
        return
    missing = table.with_(groups=[group if i in rows else None for i, group in enumerate(table.groups)])
    lenient = Metric(metric.name, {**metric.options, "missing_groups": "ignore"})
    assert lenient.with_warnings(missing)[0] == same(metric(removed), 0)


@every(METRICS)
@few
@given(table=tables(weights=("integer",)))
def test_integer_weights_are_repeated_rows(metric, table):
    rows = [i for i in range(table.n) for _ in range(int(table.weights[i]))]
    repeated = metric(table.take(rows).with_(weights=None))
    assert metric(table) == same(repeated, 0 if metric in PARITY + SELECTION else 1e-12)


@every(METRICS)
@few
@given(table=tables(weights=("integer", "rational")))
def test_weight_zero_is_a_removed_row(metric, table):
    rows = [i for i in range(table.n) if table.weights[i]]
    assert metric(table) == same(metric(table.take(rows)))


@every(METRICS)
@few
@given(table=tables(), times=st.integers(2, 3))
def test_duplicating_all_rows_changes_nothing(metric, table, times):
    assert metric(table) == same(metric(table.take([*range(table.n)] * times)))


@every(METRICS)
@few
@given(table=tables(weights=("integer", "rational")), factor=st.sampled_from([1e-6, 0.3, 7.0, 1e9]))
@example(
    table=Table(
        scores=[-2.0, -2.0, -2.0, -1.0, -2.0, -1.0],
        groups=["amber", "amber", "amber", "blue", "blue", "blue"],
        labels=[0, 0, 1, 0, 1, 0],
        weights=[Fraction(one) for one in ("1", "0", "1/3", "1/3", "1/1000", "250")],
        interval=(Fraction(0), Fraction(1)),
        threshold=-3.0,
    ),
    factor=1e-6,
)
def test_the_unit_of_the_weights_does_not_matter(metric, table, factor):
    assert metric(table) == same(metric(table.with_(weights=[float(w) * factor for w in table.weights])))


@every(METRICS)
@few
@given(table=tables(), data=st.data())
def test_the_order_of_rows_does_not_matter(metric, table, data):
    order = data.draw(st.permutations(range(table.n)))
    assert metric(table) == same(metric(table.take(order)))


@every([PARITY[1], OPPORTUNITY[0]])
@pytest.mark.parametrize("other_weight", [0.1, 1.0])
def test_a_million_fractional_weights_do_not_blur_the_ends_of_the_interval(metric, other_weight):
    n, top = 10**6, 350_000
    scores = np.repeat([3.0, 1.0, 2.0, 0.0], [top, n - top, 1, 1])
    table = Table(scores, np.repeat(["a", "b"], [n, 2]), scores >= 2, None, (0.35, 0.4), 1.5)
    weights = np.repeat([0.1, other_weight], [n, 2])
    assert metric(table.with_(weights=weights)) == same(metric(table), 1e-9)


# Scores and groups


@every(METRICS)
@few
@given(table=tables(), power=st.sampled_from([1, 3]), shift=st.sampled_from([-5, 0, 1e6]))
def test_increasing_transformations_of_the_scores_do_not_matter(metric, table, power, shift):
    # Through dense ranks, so that no two scores can fall together.
    *scores, threshold = (dense([*table.scores, table.threshold]) - 3) ** power + shift
    assert metric(table) == same(metric(table.with_(scores=scores, threshold=threshold)))


@every(METRICS)
@few
@given(table=tables())
def test_names_of_groups_do_not_matter(metric, table):
    numbers = {name: -number for number, name in enumerate(sorted(set(table.groups)))}
    interval = table.interval
    if isinstance(interval, Mapping):
        interval = {numbers[name]: own for name, own in interval.items()}
    renamed = table.with_(groups=[numbers[name] for name in table.groups], interval=interval)
    assert metric(table) == same(metric(renamed))


@every(METRICS)
@few
@given(table=tables())
def test_values_lie_in_their_range(metric, table):
    value = metric(table)
    assert isnan(value) or 0 <= value <= (0.5 if metric in GROUP_AUC else 1) + 1e-12


@every(METRICS)
@few
@given(table=tables(both_labels=True, weights=(None,)))
def test_constant_scores_are_fair_unless_ties_count_as_wins(metric, table):
    constant = metric(table.with_(scores=[0.5] * table.n))
    assert constant == same({"partial_group_auc-geq": 0.5, "inter_group_pairwise-geq": 1}.get(str(metric), 0))


# Intervals


@every(PARTIAL)
@few
@given(table=tables(per_group=False))
def test_the_same_interval_for_each_group_is_a_common_interval(metric, table):
    mapping = dict.fromkeys(table.present, table.interval)
    assert metric(table.with_(interval=mapping)) == same(metric(table), 0)


@every(PARTIAL)
@few
@given(table=tables(per_group=False), ends=st.lists(st.integers(0, 20), min_size=3, max_size=5, unique=True))
def test_touching_intervals_are_joined(metric, table, ends):
    ends = [STEP * k for k in sorted(ends)]
    touching = table.with_(interval=[*itertools.pairwise(ends)])
    joined = table.with_(interval=(ends[0], ends[-1]))
    assert metric(touching) == same(metric(joined), 0)


@every([metric for metric in PARTIAL if "absolute" in metric.options.values()])
@pytest.mark.parametrize("other", [(0, 0.25), (0.5, 1), [(0, 0.25), (0.5, 0.75)]])
def test_the_absolute_scale_refuses_intervals_that_differ(metric, other):
    arguments = metric.arguments(Table([1, 2, 3, 4], [*"aabb"], [0, 1, 0, 1], None, EVERYONE, 2))
    arguments["interval"] = {"a": (0, 0.5), "b": other}
    with pytest.raises(InputError, match="absolute"):
        getattr(metrics, metric.name)([0, 1, 0, 1], [1, 2, 3, 4], **arguments)


# Other libraries, on all ranks


@few
@given(table=tables(max_groups=2, weights=(None,)))
def test_parity_over_all_ranks_is_the_kolmogorov_smirnov_statistic(table):
    first, second = (scores for scores, _, _ in rows_by_group(table))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # about the p-value, which scipy always computes
        expected = ks_2samp(first, second).statistic
    for metric in PARITY:
        assert metric(table.with_(interval=EVERYONE)) == same(expected)


@few
@given(table=tables())
def test_demographic_parity_over_all_ranks_is_the_difference_of_selection_rates(table):
    rates = [
        np.average(scores > table.threshold, weights=weights) for scores, _, weights in rows_by_group(table)
    ]
    for metric in SELECTION:
        assert metric(table.with_(interval=EVERYONE)) == same(np.ptp(rates))


@few
@given(table=tables(both_labels=True, weights=(None,)))
def test_opportunity_over_all_ranks_is_the_difference_of_true_positive_rates(table):
    above = [(scores > table.threshold, labels == 1) for scores, labels, _ in rows_by_group(table)]
    true_rates = [selected[positive].mean() for selected, positive in above]
    false_rates = [selected[~positive].mean() for selected, positive in above]
    for metric in OPPORTUNITY:
        assert metric(table.with_(interval=EVERYONE)) == same(np.ptp(true_rates))
    for metric in ODDS:
        assert metric(table.with_(interval=EVERYONE)) == same(max(np.ptp(true_rates), np.ptp(false_rates)))


@few
@given(table=tables(max_groups=2))
def test_group_auc_over_all_ranks_is_the_area_under_the_curve(table):
    of_first = [group == table.groups[0] for group in table.groups]
    area = roc_auc_score(of_first, dense(table.scores), sample_weight=as_array(table.weights))
    assert GROUP_AUC[0](table.with_(interval=EVERYONE)) == same(abs(area - 0.5))


@few
@given(table=tables(both_labels=True, weights=(None,)))
def test_intra_group_gap_is_the_difference_of_areas(table):
    areas = [roc_auc_score(labels, dense(scores)) for scores, labels, _ in rows_by_group(table)]
    assert INTRA[0](table) == same(np.ptp(areas))
