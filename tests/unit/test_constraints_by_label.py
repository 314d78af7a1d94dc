"""Equal opportunity and equalized odds."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from partialfair.constraints import EqualizedOdds, EqualOpportunity
from partialfair.constraints.surrogates import Ramp, Sigmoid
from partialfair.data.groups import encode_groups
from partialfair.exceptions import InputError
from partialfair.metrics import partial_equal_opportunity_difference, partial_equalized_odds_difference
from tests.blocks import functions_of

N = 90
UNION = [(0.1, 0.3), (0.5, 0.8)]
BY_GROUP = {"a": (0.1, 0.5), "b": UNION, "c": (0.0, 1.0)}
PAIRS = [(k, j) for k in range(3) for j in range(3) if k != j]
METRICS = {
    EqualOpportunity: partial_equal_opportunity_difference,
    EqualizedOdds: partial_equalized_odds_difference,
}


def people(seed=0):
    rng = np.random.default_rng(seed)
    labels = np.array(["a", "b", "c"])[np.arange(N) % 3]
    return encode_groups(labels), labels, np.arange(N) // 3 % 3 == 0, rng


def parts_of(interval, label):
    parts = interval[label] if isinstance(interval, dict) else interval
    return parts if isinstance(parts, list) else [parts]


@pytest.mark.parametrize("sigma", [Ramp(0.7), Sigmoid(0.7)], ids=str)
@pytest.mark.parametrize("interval", [(0.2, 0.7), UNION, BY_GROUP], ids=str)
@given(seed=st.integers(0, 1000))
def test_they_say_what_the_paper_writes(sigma, interval, seed):
    """(inprocess_peop_approx) and (inprocess_peod_approx): means of σ over those with the label, clipped."""
    groups, labels, positive, rng = people(seed)
    scores, weights, kappa, threshold = rng.normal(size=N), rng.random(N), 0.1, 0.3
    by_label = []
    for with_label in (positive, ~positive):
        shares = []
        for label in "abc":
            inside = (labels == label) & with_label
            mean = np.average(sigma(scores[inside] - threshold), weights=weights[inside])
            parts = parts_of(interval, label)
            clipped = sum(min(mean, high) - min(mean, low) for low, high in parts)
            shares.append(clipped / sum(high - low for low, high in parts))
        by_label.append([shares[k] - shares[j] - kappa for k, j in PAIRS])
    for kind, expected in ((EqualOpportunity, by_label[0]), (EqualizedOdds, by_label[0] + by_label[1])):
        block = kind(interval, kappa, threshold=threshold).build(groups, weights, sigma, positive)
        found = functions_of(block, scores)
        assert found == pytest.approx(expected)


@pytest.mark.filterwarnings(
    "ignore::partialfair.exceptions.ThresholdOutsideIntervalWarning"
)  # the definition counts
@pytest.mark.parametrize("kind", METRICS)
@pytest.mark.parametrize("gap_scale", ["interval", "absolute"])
def test_a_narrow_surrogate_is_the_metric_with_ranks_within_the_label(kind, gap_scale):
    groups, labels, positive, rng = people()
    scores, weights = rng.permutation(N) + 0.5, rng.random(N)
    for threshold in (20.0, 45.0, 70.0):
        block = kind((0.2, 0.6), 0.01, gap_scale, threshold).build(groups, weights, Ramp(1e-3), positive)
        exact = METRICS[kind](
            positive,
            scores,
            sensitive_features=labels,
            threshold=threshold,
            interval=(0.2, 0.6),
            gap_scale=gap_scale,
            rank_within="group_and_label",
            sample_weight=weights,
        )
        found = functions_of(block, scores).max()
        assert found == pytest.approx(exact - 0.01)


def test_a_gap_of_0_has_some_room():
    groups, _, positive, _ = people()
    for kind in METRICS:
        block = kind((0, 1), max_gap=0.0).build(groups, np.ones(N), Ramp(1.0), positive)
        found = functions_of(block, np.zeros(N))
        assert found == pytest.approx(-1e-3)


@pytest.mark.parametrize(
    ("kind", "positive", "message"),
    [
        (
            EqualOpportunity,
            None,
            r"equal opportunity compares .* so it needs labels",
        ),
        (EqualizedOdds, None, r"equalized odds compares .* so it needs labels"),
        (EqualOpportunity, np.arange(N) % 3 != 1, "group 'b' has no positives to compare"),
        (EqualizedOdds, np.arange(N) % 3 == 2, "group 'a' has no positives to compare"),
    ],
)
def test_labels_are_needed_in_every_group(kind, positive, message):
    groups, _, _, _ = people()
    constraint = kind((0.0, 0.6))
    with pytest.raises(InputError, match=message):
        constraint.build(groups, np.ones(N), Ramp(1.0), positive)
    if positive is None:
        with pytest.raises(InputError, match=message):
            constraint.effective_members(groups, np.ones(N))
    else:
        assert constraint.effective_members(groups, np.ones(N), positive).min() == 0


def test_equal_opportunity_does_not_ask_for_negatives():
    groups, _, _, _ = people()
    EqualOpportunity((0, 1)).build(groups, np.ones(N), Ramp(1.0), np.ones(N, dtype=bool))
    with pytest.raises(InputError, match="group 'a' has no negatives"):
        EqualizedOdds((0, 1)).build(groups, np.ones(N), Ramp(1.0), np.ones(N, dtype=bool))


def test_the_threshold_is_a_number():
    with pytest.raises(InputError, match="the threshold of equalized odds must be a finite number"):
        EqualizedOdds((0, 1), threshold=np.nan)
