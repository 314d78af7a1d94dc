"""Few distinct scores: a limit is refused exactly if no order-preserving scores without new ties reach it."""

from __future__ import annotations

import re

import numpy as np
import pytest

from partialfair.exceptions import InputError
from partialfair.metrics import partial_statistical_parity_difference
from partialfair.postprocessing import PartialParityAdjuster

INTERVALS = [(0.0, 1.0), (0.1, 0.5), [(0.05, 0.2), (0.4, 0.8)]]


def draw_table(seed, n_values=10, n_groups=3, largest=200):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(30, largest, rng.integers(2, n_groups + 1))
    groups = np.repeat([f"g{k}" for k in range(sizes.size)], sizes)
    shares = [rng.beta(*rng.uniform(0.5, 4, 2), size=size) for size in sizes]
    return np.floor(n_values * np.clip(np.concatenate(shares), 0, 0.999)), groups


def adjust(scores, groups, interval, max_gap, **options):
    adjuster = PartialParityAdjuster(interval, max_gap, **{"min_group_size": 0, **options})
    return adjuster, adjuster.fit_transform(scores, sensitive_features=groups)


def same_order(scores, adjusted, groups):
    for name in np.unique(groups):
        before, after = (
            np.sign(np.subtract.outer(x[groups == name], x[groups == name])) for x in (scores, adjusted)
        )
        if (before != after).any():
            return False
    return True


@pytest.mark.parametrize("gap_scale", ["interval", "absolute"])
@pytest.mark.parametrize("interval", INTERVALS, ids=str)
@pytest.mark.parametrize("seed", range(4))
def test_what_a_looser_request_delivers_is_not_refused(seed, interval, gap_scale):
    scores, groups = draw_table(seed)
    for max_gap in (0.1, 0.2, 0.3, 0.4, 0.45, 0.5, 0.7, 1.0):
        try:
            adjuster, adjusted = adjust(scores, groups, interval, max_gap, gap_scale=gap_scale)
        except InputError as error:
            least = float(re.search(r"can reach, ([\d.]+), because", str(error))[1])
            assert least > max_gap
            continue
        delivered = adjuster.result_.gap
        again, adjusted = adjust(scores, groups, interval, delivered, gap_scale=gap_scale)
        assert again.result_.gap <= delivered + 1e-12
        gap = partial_statistical_parity_difference(
            None, adjusted, sensitive_features=groups, interval=interval, gap_scale=gap_scale
        )
        assert gap == pytest.approx(again.result_.gap, abs=1e-12)
        assert same_order(scores, adjusted, groups)


def test_the_named_limit_is_the_smallest_by_brute_force():
    """All weak orders of two groups' scores: each step passes a score of one group or of both."""
    for seed in range(12):
        scores, groups = draw_table(seed, n_values=4, n_groups=2, largest=60)
        shares = [
            np.append(0.0, np.cumsum(np.unique(scores[groups == name], return_counts=True)[1][::-1]))
            for name in np.unique(groups)
        ]
        ends = [held / held[-1] for held in shares]
        best = {}

        def smallest(i, j, ends=ends, best=best):
            if (i, j) not in best:
                steps = [(i - 1, j), (i, j - 1), (i - 1, j - 1)]
                before = [smallest(*step) for step in steps if min(step) >= 0]
                best[i, j] = max(abs(ends[0][i] - ends[1][j]), min(before, default=0.0))
            return best[i, j]

        least = smallest(ends[0].size - 1, ends[1].size - 1)
        adjuster, adjusted = adjust(scores, groups, (0.0, 1.0), least + 1e-9)
        assert adjuster.result_.gap == pytest.approx(least, abs=1e-8)
        assert same_order(scores, adjusted, groups)
        before = partial_statistical_parity_difference(None, scores, sensitive_features=groups)
        if least > 2e-4 and before > least:
            with pytest.raises(InputError) as refused:
                adjust(scores, groups, (0.0, 1.0), least - 1e-4)
            named = float(re.search(r"can reach, ([\d.e-]+), because", str(refused.value))[1])
            assert least - 1e-9 <= named <= least + 1e-4


def test_groups_with_the_same_shares_reach_a_gap_of_zero():
    scores = np.r_[np.repeat(np.arange(10.0), 20), np.repeat(np.arange(10.0) ** 2, 30)]
    groups = np.repeat(["a", "b"], [200, 300])
    adjuster, adjusted = adjust(scores, groups, (0.1, 0.5), 0.0)
    assert adjuster.result_.gap == 0
    assert same_order(scores, adjusted, groups)


def test_the_advice_fits_the_cause():
    scores, groups = draw_table(1)
    with pytest.raises(InputError, match=r"distinct scores, .*use scores with more distinct values"):
        adjust(scores, groups, (0.1, 0.5), 0.0)
    groups = np.repeat(["a", "b"], [53, 47])
    scores = np.random.default_rng(0).normal(size=100) + (groups == "a")
    with pytest.raises(InputError, match="exclude small groups with min_group_size") as refused:
        adjust(scores, groups, (0.1, 0.5), 0.001)
    assert "distinct" not in str(refused.value)


def test_a_margin_that_users_give_is_named():
    scores, groups = draw_table(5)
    with pytest.raises(InputError, match=r"or reduce margin, 0\.3"):
        adjust(scores, groups, (0.4, 0.6), 0.01, gap_scale="absolute", margin=0.3)
