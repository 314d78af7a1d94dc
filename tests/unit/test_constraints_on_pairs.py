"""Group AUC on intervals, and the paper's quadratic baselines."""

from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from partialfair.constraints import GroupAUC, InterGroupPairwise, IntraGroupPairwise, QuadraticGroupAUC
from partialfair.exceptions import InputError
from partialfair.groups import encode_groups
from partialfair.metrics import partial_group_auc_difference
from partialfair.surrogates import Ramp, RoundedRamp, Sigmoid
from tests.blocks import atoms_of, functions_of
from tests.brute import band_shares, parts_of, split

N = 60
UNION = [(0.1, 0.3), (0.5, 0.8)]
BY_GROUP = {"a": (0.1, 0.5), "b": UNION, "c": (0.0, 1.0)}
SIGMAS = [Ramp(0.7), RoundedRamp(0.7), Sigmoid(0.5)]


def people(seed=0):
    rng = np.random.default_rng(seed)
    labels = np.array(["a", "b", "c"])[np.arange(N) % 3]
    return encode_groups(labels), labels, np.arange(N) // 3 % 2 == 0, rng


@pytest.mark.parametrize("sigma", SIGMAS, ids=str)
@given(seed=st.integers(0, 1000))
def test_group_auc_says_what_the_paper_writes(sigma, seed):
    """(inprocess_pgauc_approx), both orders of each pair, where αn and βn are whole numbers."""
    groups, labels, _, rng = people(seed)
    scores, low, high, kappa = rng.normal(size=N), 0.2, 0.6, 0.1
    in_band = {k: np.sort(scores[labels == k])[::-1][4:12] for k in "abc"}  # of 20 members each
    expected = []
    for k, other in combinations("abc", 2):
        for one, two in ((k, other), (other, k)):
            auc = np.mean(sigma(in_band[one][:, None] - in_band[two][None, :]))
            expected.append(auc - (0.5 + kappa))
    block = GroupAUC((low, high), kappa).build(groups, np.ones(N), sigma)
    assert functions_of(block, scores) == pytest.approx(expected)


@pytest.mark.no_cover
@pytest.mark.parametrize("sigma", SIGMAS, ids=str)
@pytest.mark.parametrize("interval", [(0.0, 1.0), (0.07, 0.61), UNION, BY_GROUP], ids=str)
@given(seed=st.integers(0, 1000))
def test_group_auc_with_weights_ties_and_any_intervals(sigma, interval, seed):
    """|M − ½| ≤ κ, with the share of the interval that each member holds, by brute force."""
    groups, labels, _, rng = people(seed)
    scores, weights = np.round(rng.normal(size=N), 1), rng.integers(1, 4, size=N)
    members = split(scores, labels, weights)
    shares = {k: np.array(band_shares(members[k], parts_of(interval, k)), dtype=float) for k in "abc"}
    means = [
        shares[k] @ sigma(np.subtract.outer(scores[labels == k], scores[labels == other])) @ shares[other]
        for k, other in combinations("abc", 2)
    ]
    block = GroupAUC(interval, 0.1).build(groups, weights.astype(float), sigma)
    expected = np.array([[mean - 0.6, 0.4 - mean] for mean in means]).ravel()
    assert functions_of(block, scores) == pytest.approx(expected)


@pytest.mark.parametrize("interval", [(0.0, 1.0), (0.13, 0.57), UNION, BY_GROUP], ids=str)
@pytest.mark.parametrize("sigma", [Ramp(1e-3), RoundedRamp(1e-3), Sigmoid(1e-3)], ids=str)
def test_a_narrow_surrogate_is_the_metric(sigma, interval):
    groups, labels, _, rng = people()
    scores, weights = rng.integers(0, 40, size=N) * 1.0, rng.random(N)
    exact = partial_group_auc_difference(
        None, scores, sensitive_features=labels, interval=interval, sample_weight=weights
    )
    block = GroupAUC(interval, 0.01).build(groups, weights, sigma)
    assert functions_of(block, scores).max() == pytest.approx(exact - 0.01)


def test_group_auc_has_one_scale():
    with pytest.raises(InputError, match="gap_scale='absolute' has no meaning for group AUC"):
        GroupAUC(gap_scale="absolute")


def mean_square(scores, weights, first, second, margin=1.0):
    """Mean of ½ (margin + s − t)² over all pairs."""
    quadratic = 0.5 * (margin + np.subtract.outer(scores[first], scores[second])) ** 2
    both = np.outer(weights[first], weights[second])
    return (both * quadratic).sum() / both.sum()


def group_auc(cell, k, other):
    return [(cell(k), cell(other))]


def inter_group(cell, k, other):
    return [(cell(k, True), cell(other, False)), (cell(k, False), cell(other, True))]


def intra_group(cell, k, other):
    return [(cell(k, True), cell(k, False)), (cell(other, False), cell(other, True))]


@pytest.mark.parametrize("margin", [1.0, 0.3, -2.0])
@pytest.mark.parametrize(
    ("kind", "cells"),
    [
        (QuadraticGroupAUC, group_auc),
        (InterGroupPairwise, inter_group),
        (IntraGroupPairwise, intra_group),
    ],
)
@given(seed=st.integers(0, 1000))
def test_baselines_say_what_the_paper_writes(kind, cells, margin, seed):
    """(inprocess_gauc_approx), (inprocess_igpf_approx) and (inprocess_itgpf_approx), by all pairs.

    There the margin is 1; with any, scores that are all equal have the value −κ. Functions are divided by
    max(κ, margin²).
    """
    groups, labels, positive, rng = people(seed)
    scores, weights, kappa = 3 * rng.normal(size=N), rng.random(N), 1.5

    def cell(k, label=None):
        return (labels == k) & (True if label is None else positive == label)

    expected = []
    for k, other in permutations("abc", 2):
        means = [mean_square(scores, weights, *pair, margin) for pair in cells(cell, k, other)]
        expected.append(sum(means) - 0.5 * margin**2 * len(means) - kappa)
    block = kind(kappa, margin=margin).build(groups, weights, Ramp(1.0), positive)
    scale = max(kappa, margin**2)
    assert functions_of(block, np.full(N, 0.7)) == pytest.approx(-kappa / scale)
    assert functions_of(block, scores) == pytest.approx(np.array(expected) / scale)
    assert block.system.parts(atoms_of(block, scores))[1].tolist() == [0] * block.system.m


def test_baselines_take_the_papers_gaps_and_no_interval():
    assert QuadraticGroupAUC(15.0).max_gap == 15
    with pytest.raises(InputError, match="max_gap must be at least 0"):
        InterGroupPairwise(-1.0)
    with pytest.raises(TypeError, match="interval"):
        IntraGroupPairwise(interval=(0.1, 0.5))
    for margin in (0.0, np.nan):
        with pytest.raises(InputError, match="the margin of quadratic group AUC must"):
            QuadraticGroupAUC(1.0, margin=margin)


@pytest.mark.parametrize("unit", [0.25, 1024.0, -1.0, -8.0])
@pytest.mark.parametrize("kappa", [0.0, 2.0])
@pytest.mark.parametrize("kind", [QuadraticGroupAUC, InterGroupPairwise, IntraGroupPairwise])
def test_baselines_in_other_units_are_the_same_functions(kind, kappa, unit):
    """f(s) = f'(s / unit), also where the unit is negative, and where κ is the least one."""
    groups, _, positive, rng = people(3)
    scores, weights = 5 * rng.normal(size=N), rng.random(N)
    stated, scaled = kind(kappa), kind(kappa).in_units(unit)
    block, other = (c.build(groups, weights, Ramp(1.0), positive) for c in (stated, scaled))
    assert functions_of(block, scores) == pytest.approx(
        functions_of(other, scores / unit), rel=1e-9, abs=1e-9
    )
    assert scaled.in_units(1 / unit) == stated


def test_messages_about_other_units_are_about_the_statement():
    groups, _, _, _ = people()
    blocks = [
        c.build(groups, np.ones(N), Ramp(1.0))
        for c in (QuadraticGroupAUC(2.0), QuadraticGroupAUC(2.0).in_units(4.0))
    ]
    assert blocks[0].names[0] == "quadratic group AUC of a over b at most 2"
    assert blocks[1].names[0] == "quadratic group AUC of a over b at most 2 squared margins"


@pytest.mark.parametrize("kind", [InterGroupPairwise, IntraGroupPairwise])
def test_baselines_by_label_need_labels(kind):
    groups, _, positive, _ = people()
    with pytest.raises(InputError, match=r"-group pairwise fairness compares .* needs labels"):
        kind(1.0).build(groups, np.ones(N), Ramp(1.0))
    with pytest.raises(InputError, match="group 'c' has no positives or negatives to compare"):
        kind(1.0).build(groups, np.ones(N), Ramp(1.0), positive | (np.arange(N) % 3 == 2))
    QuadraticGroupAUC(1.0).build(groups, np.ones(N), Ramp(1.0))


def test_baselines_that_were_stored_before_margins_have_the_papers():
    stored = QuadraticGroupAUC.__new__(QuadraticGroupAUC)
    stored.__setstate__({"interval": (0.0, 1.0), "max_gap": 2.0, "gap_scale": "interval"})
    assert stored == QuadraticGroupAUC(2.0)
