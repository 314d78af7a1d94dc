"""Group AUC on intervals."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from partialfair.constraints import GroupAUC
from partialfair.constraints.surrogates import Ramp, RoundedRamp, Sigmoid
from partialfair.data.groups import encode_groups
from partialfair.exceptions import InputError
from partialfair.metrics import partial_group_auc_difference
from tests.blocks import functions_of
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
