"""What the confidence intervals bootstrap is the metric, where every cell of scores holds one of them."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from partialfair.exceptions import UndefinedGapWarning
from partialfair.metrics.catalogue import METRICS, Metric
from partialfair.metrics.differences import N_RANKS, share_differences
from partialfair.metrics.inputs import Setting, scored_groups
from partialfair.metrics.partial import differences, gap_of_pair
from partialfair.metrics.resampling import resample
from tests.property.strategies import as_array, as_floats, tables
from tests.sizes import examples


def mean_gap(scored, setting):
    return gap_of_pair(scored, differences([float(group.in_band @ group.scores) for group in scored]))


def mean_differences(resamples, setting):
    means = []
    for k in range(len(resamples.scored)):
        in_band = np.diff(resamples.passed(k), axis=0, prepend=0.0)
        means.append(resamples.mean_scores(k) @ in_band)
    return share_differences(resamples, [means])


IN_SCORES = Metric("mean score", mean_gap, mean_differences, counts="interval", in_scores=True)
"""The metric that docs/add_a_constraint.md adds: its gaps are as large as scores are."""


def both_ways(metric, scored, setting):
    """Return the gap of a metric, and the widest of its differences on cells; None if it is undefined."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UndefinedGapWarning)
        gap = metric.gap(scored, setting).value
    if np.isnan(gap):
        return None
    draws = resample(scored, threshold=setting.threshold, n_resamples=1, rng=np.random.default_rng(0))
    found = metric.differences(draws, setting)
    blocks = found.blocks(np.arange(len(found.pairs)))
    return gap, max(np.abs(block[:, 0]).max() for _, _, block in blocks)


@pytest.mark.parametrize("rank_within", ["group", "group_and_label"])
@pytest.mark.parametrize("gap_scale", ["interval", "absolute"])
@examples(30)
@given(table=tables(both_labels=True))
def test_the_widest_difference_is_the_gap(table, gap_scale, rank_within):
    """With ties, weights, unions of intervals and one for each group."""
    setting = Setting(gap_scale, table.threshold, rank_within)
    scored = scored_groups(
        np.array(table.scores),
        np.array(table.groups),
        as_floats(table.interval),
        as_array(table.weights),
        np.array(table.labels) == 1,
    )
    if gap_scale == "absolute" and scored.intervals_differ:
        return  # that scale refuses them
    largest = np.abs(table.scores).max()
    metrics = METRICS if largest > 1e300 else {**METRICS, "mean_scores": IN_SCORES}  # gaps overflow beyond
    for name, metric in metrics.items():
        if name == "statistical_parity" and gap_scale == "absolute":
            continue  # see the next test
        found = both_ways(metric, scored, setting)
        # Rounding is relative to what is added up: proportions of a group, or scores of any size.
        rounding = 1e-12 * (largest if metric.in_scores else 1.0)
        if found is not None:
            assert found[1] == pytest.approx(found[0], rel=1e-9, abs=rounding), name


@examples(30)
@given(
    seed=st.integers(0, 10**6),
    sizes=st.lists(st.integers(30, 60), min_size=2, max_size=3),
    ends=st.tuples(st.integers(0, 7), st.integers(2, 6)),
)
def test_ranks_are_followed_between_the_scores(seed, sizes, ends):
    """On the absolute scale at ranks p of an interval instead of scores: off by a member and a step of p."""
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(len(sizes)), sizes)
    scores = rng.permutation(groups.size) + rng.choice([0.0, 30.0], len(sizes))[groups] + 0.1 * groups
    # Nobody's rank is an end: whether θ with F̄(θ) = β counts is where thresholds and ranks differ.
    low, high = ends[0] / 10 + 0.0037, min(ends[0] / 10 + ends[1] / 10 + 0.0037, 1.0)
    scored = scored_groups(scores, groups, (low, high))
    gap, on_ranks = both_ways(METRICS["statistical_parity"], scored, Setting("absolute"))
    assert on_ranks == pytest.approx(gap, abs=1 / min(sizes) + (high - low) / (N_RANKS - 1))
