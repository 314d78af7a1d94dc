"""A column of numbers given as the group by mistake: thousands of groups are refused before any work."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from partialfair import PartialFairClassifier, PartialFairRegressor, choose_interval, fairness_path, metrics
from partialfair.data.groups import MAX_GROUPS, encode_groups
from partialfair.exceptions import InputError
from partialfair.plotting import plot_score_densities
from partialfair.postprocessing import PartialParityAdjuster

N = 15_000
RNG = np.random.default_rng(0)
SCORES, X = RNG.normal(size=N), RNG.normal(size=(N, 2))
Y = (X[:, 0] > 0).astype(int)
INCOME = RNG.permutation(N) + 0.5  # all different
GIVEN = {"sensitive_features": INCOME}

CALLS = {
    "statistical parity": lambda: metrics.partial_statistical_parity_difference(None, SCORES, **GIVEN),
    "demographic parity": lambda: metrics.partial_demographic_parity_difference(
        None, SCORES, threshold=0.0, **GIVEN
    ),
    "group AUC": lambda: metrics.partial_group_auc_difference(None, SCORES, **GIVEN),
    "inter-group": lambda: metrics.inter_group_pairwise_difference(Y, SCORES, **GIVEN),
    "report": lambda: metrics.fairness_report(None, SCORES, **GIVEN),
    "comparison": lambda: metrics.compare_gaps(None, SCORES, SCORES, **GIVEN),
    "map": lambda: metrics.unfairness_map(SCORES, **GIVEN),
    "curve": lambda: metrics.rank_curve(SCORES, **GIVEN),
    "choice": lambda: choose_interval(SCORES, positive_rate=0.2, **GIVEN),
    "membership": lambda: metrics.interval_membership(SCORES, interval=(0.1, 0.3), **GIVEN),
    "calibration": lambda: metrics.calibration_by_group(Y, SCORES, **GIVEN),
    "densities": lambda: plot_score_densities(SCORES, **GIVEN),
    "adjuster": lambda: PartialParityAdjuster(interval=(0, 1)).fit(SCORES, **GIVEN),
    "classifier": lambda: PartialFairClassifier(interval=(0, 1), max_gap=0.1).fit(X, Y, **GIVEN),
    "regressor": lambda: PartialFairRegressor(interval=(0, 1), max_gap=0.1).fit(X, SCORES, **GIVEN),
    "path": lambda: fairness_path(PartialFairClassifier(interval=(0, 1)), X, Y, max_gaps=[0.1], **GIVEN),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_thousands_of_groups_are_refused_before_any_work(call):
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match=r"15,000 groups, more than 1,000; if it is a number"):
            call()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 64 * 2**20


def test_torch_refuses_them_too():
    torch = pytest.importorskip("torch")
    from partialfair.constraints import StatisticalParity
    from partialfair.torch import GroupBatchSampler, ScoreConstraints

    assert torch
    for call in (
        lambda: ScoreConstraints(StatisticalParity((0, 1)), INCOME),
        lambda: GroupBatchSampler(INCOME, batch_size=64),
    ):
        with pytest.raises(InputError, match="15,000 groups"):
            call()


def test_exactly_the_limit_is_allowed_and_a_report_may_raise_it():
    codes = np.arange(4 * (MAX_GROUPS + 1)) % (MAX_GROUPS + 1)
    scores = RNG.normal(size=codes.size)
    assert len(encode_groups(codes[codes < MAX_GROUPS]).labels) == MAX_GROUPS
    with pytest.raises(InputError, match="1,001 groups"):
        encode_groups(codes)
    few = {"min_group_size": 20, "small_groups": "merge", "n_resamples": 100}
    with pytest.raises(InputError, match="1,001 groups"):
        metrics.fairness_report(None, scores, sensitive_features=codes, **few)
    codes[: codes.size // 2] = -5
    report = metrics.fairness_report(None, scores, sensitive_features=codes, max_groups=MAX_GROUPS + 2, **few)
    assert [group.n for group in report.groups] == [codes.size // 2, codes.size // 2]
    with pytest.raises(InputError, match="max_groups must be at least 2"):
        metrics.fairness_report(None, scores, sensitive_features=codes, max_groups=1)


def test_combinations_that_occur_are_counted_not_those_that_could():
    """Twelve columns of 100 values have 1e24 combinations, which no integer holds; a hundred occur."""
    values = np.arange(500) % 100
    groups = encode_groups({f"c{j}": (values + j) % 100 for j in range(12)})
    assert len(groups.labels) == 100
    assert groups.labels[0] == tuple(range(12))
    assert [groups.labels[code][0] for code in groups.codes] == values.tolist()
    with pytest.raises(InputError, match=r"column 'a' × column 'b' has 2,500 groups"):
        encode_groups({"a": np.repeat(np.arange(50), 50), "b": np.tile(np.arange(50), 50)})


NAMES = RNG.choice(["a", "b", "c"], N)
OF_THREE_GROUPS = {
    "statistical parity": lambda given: metrics.partial_statistical_parity_difference(None, SCORES, **given),
    "equal opportunity": lambda given: metrics.partial_equal_opportunity_difference(
        Y, SCORES, threshold=0.0, **given
    ),
    "inter-group": lambda given: metrics.inter_group_pairwise_difference(Y, SCORES, **given),
    "report": lambda given: metrics.fairness_report(
        Y, SCORES, threshold=0.0, random_state=0, **given
    ).to_frame(),
    "comparison": lambda given: metrics.compare_gaps(
        None, SCORES, -SCORES, random_state=0, metrics=["group_auc"], n_resamples=100, **given
    ).to_frame(),
    "map": lambda given: metrics.unfairness_map(SCORES, **given).gaps,
    "curve": lambda given: metrics.rank_curve(SCORES, **given).ranks,
    "choice": lambda given: choose_interval(SCORES, positive_rate=0.2, **given).candidates,
    "changes": lambda given: metrics.interval_changes(SCORES, -SCORES, interval=(0.1, 0.3), **given),
    "calibration": lambda given: metrics.calibration_by_group(Y, SCORES, **given).to_frame(),
}


@pytest.mark.parametrize("call", OF_THREE_GROUPS.values(), ids=OF_THREE_GROUPS)
def test_groups_that_are_encoded_are_not_encoded_again(call, monkeypatch):
    expected = call({"sensitive_features": NAMES})
    groups = encode_groups(NAMES)
    monkeypatch.setattr("partialfair.data.groups._encode_column", None)
    found = call({"sensitive_features": groups})
    np.testing.assert_array_equal(np.asarray(found, dtype=str), np.asarray(expected, dtype=str))  # nan is nan
