"""Confidence intervals by the steps that the module describes, and its draws by their moments."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partialfair.metrics._inputs import scored_groups
from partialfair.metrics.resampling import PairBlock, PairFluctuation, fluctuation, resample

SETTINGS = {"threshold": 0.25, "n_resamples": 20}


def people(seed=0, n=300, labelled=True):
    """Tied scores of three groups with weights, some of them 0."""
    rng = np.random.default_rng(seed)
    groups = np.array(["a", "b", "c"])[np.arange(n) % 3]
    scores, weights = np.round(rng.normal(size=n), 1), rng.integers(0, 4, n) * rng.random(n)
    positive = rng.random(n) < 0.4
    interval = {"a": (0.1, 0.5), "b": [(0.1, 0.3), (0.6, 0.8)], "c": (0.2, 0.9)}
    return scores, groups, weights, positive if labelled else None, interval


def test_effective_members():
    """(Σw)² / Σw², which is the number of members if all weigh the same."""
    scores, groups, weights, _, _ = people()
    for group in scored_groups(scores, groups, sample_weight=weights):
        own = weights[groups == group.label]
        assert group.n_effective == pytest.approx(own.sum() ** 2 / (own**2).sum())
    for group in scored_groups(scores, groups, sample_weight=np.full(300, 0.3)):
        assert group.n_effective == 100


@pytest.mark.parametrize("labelled", [False, True])
def test_the_first_row_of_the_cells_is_the_data(labelled):
    """Cell j holds the weights of the scores in (thresholds[j], thresholds[j − 1]], and the last the rest."""
    scores, groups, weights, positive, interval = people(labelled=labelled)
    scored = scored_groups(scores, groups, interval, weights, positive)
    draws = resample(scored, **SETTINGS, rng=np.random.default_rng(0))
    assert 0.25 in draws.thresholds
    assert (np.diff(draws.thresholds) < 0).all()
    edges = np.concatenate([[np.inf], draws.thresholds, [-np.inf]])
    # Weights are scaled by a power of two, which changes no share.
    unit = scored.groups[0].weights.sum() / weights[groups == "a"].sum()
    for k, label in enumerate("abc"):
        for value in (None, True, False) if labelled else (None,):
            inside = (groups == label) & (True if value is None else positive == value)
            expected = [
                unit * weights[inside & (low < scores) & (scores <= high)].sum()
                for high, low in pairwise(edges)
            ]
            assert draws.weights(k, value)[0] == pytest.approx(expected, abs=1e-12)
            assert draws.ranks(k, value)[0] == pytest.approx(np.cumsum(expected) / np.sum(expected))


def test_draws_have_the_mean_and_the_variance_of_an_exponential_weight_per_row():
    """A cell with weight W = Σw and V = Σw² gets a Gamma weight of mean W and variance V."""
    scores, groups, weights, _, _ = people(n=90)
    scored = scored_groups(np.round(scores), groups, sample_weight=weights)
    draws = resample(scored, threshold=None, n_resamples=40_000, rng=np.random.default_rng(0))
    edges = np.concatenate([[np.inf], draws.thresholds, [-np.inf]])
    for k, group in enumerate(scored):
        found = draws.weights(k)[1:]
        for j, (high, low) in enumerate(pairwise(edges)):
            own = group.weights[(low < group.scores) & (group.scores <= high)]
            assert found[:, j].mean() == pytest.approx(own.sum(), rel=0.05)
            assert found[:, j].var() == pytest.approx((own**2).sum(), rel=0.1)


def test_the_unit_makes_up_for_what_few_members_hide():
    """A Bayesian bootstrap gives a share p the variance p(1 − p)/(n + 1), and its estimate has n − 1."""
    n = 12
    scored = scored_groups(np.arange(2.0 * n), np.repeat(["a", "b"], n))
    draws = resample(scored, threshold=5.5, n_resamples=40_000, rng=np.random.default_rng(0))
    at = int(np.flatnonzero(draws.thresholds == 5.5)[0])
    shares = draws.ranks(0)[1:, at]
    assert shares.var() == pytest.approx(0.25 / (n + 1), rel=0.05)
    pair = PairFluctuation(gap=0.0, scale=float(shares.std()), n_smallest=n)
    assert pair.unit**2 == pytest.approx(0.25 / (n - 1), rel=0.05)


def test_draws_follow_the_slope_of_the_interval_and_fade_out_beyond_it():
    """Slope 1/m inside the interval, and on to 2/√n before and beyond its ends, ever less."""
    scores, groups, weights, positive, interval = people()
    scored = scored_groups(scores, groups, interval, weights, positive)
    draws = resample(scored, **SETTINGS, rng=np.random.default_rng(0))
    for k, group in enumerate(scored):
        ranks = draws.ranks(k)
        margin = 2 / np.sqrt(group.n_effective)
        for j, rank in enumerate(ranks[0]):
            passed = sum(min(max(rank - low, 0), high - low) for low, high in group.interval.parts)
            distance = min(max(low - rank, rank - high, 0) for low, high in group.interval.parts)
            slope = max(1 - distance / margin, 0) / group.interval.measure
            expected = passed / group.interval.measure + slope * (ranks[:, j] - rank)
            assert draws.passed_linearised(k)[:, j] == pytest.approx(expected, abs=1e-12)


def by_the_steps(blocks, confidence, n_members):
    """Steps 1 and 2 of the module's text, pair by pair and difference by difference."""
    error = 1 - confidence
    off = {b: np.abs(block.values[1:] - block.values[0]) for b, block in enumerate(blocks)}
    size = {b: np.median(off[b].max(axis=1)) for b in off}
    fewest = {b: min(n_members[block.k], n_members[block.j]) for b, block in enumerate(blocks)}
    unit = {b: size[b] * np.sqrt((fewest[b] + 1) / (fewest[b] - 1)) for b in off}

    def radius(b, c, chance):
        return max(c * unit[b], 1 - chance ** (1 / fewest[b]))

    widest = {b: np.abs(block.values[0]) for b, block in enumerate(blocks)}
    c = np.quantile(np.max([off[b].max(axis=1) / size[b] for b in off], axis=0), 1 - 0.1 * error)
    least = max(widest[b].max() - radius(b, c, 0.1 * error) for b in off)
    candidates = [
        (b, j)
        for b in off
        for j in range(widest[b].size)
        if widest[b][j] + radius(b, c, 0.1 * error) >= least
    ]
    draws = np.max([off[b][:, j] / size[b] for b, j in candidates], axis=0)
    c = np.quantile(draws, 1 - 0.9 * error, method="higher")
    low = max(widest[b][j] - radius(b, c, 0.9 * error) for b, j in candidates)
    high = max(widest[b][j] + radius(b, c, 0.9 * error) for b, j in candidates)
    return low, high, len(candidates)


@settings(max_examples=40)
@given(seed=st.integers(0, 10_000), confidence=st.sampled_from([0.8, 0.95]))
def test_the_interval_is_that_of_the_steps(seed, confidence):
    rng = np.random.default_rng(seed)
    n_members = rng.integers(5, 400, 3).tolist()
    blocks = []
    for k, j in ((0, 1), (0, 2), (1, 2)):
        data = rng.uniform(-0.6, 0.6, 8)
        noise = rng.uniform(0.01, 0.1) * rng.normal(size=(200, 8))
        blocks.append(PairBlock(k, j, np.vstack([data, data + noise])))
    found = fluctuation(lambda: iter(blocks), confidence, n_members)
    low, high, n_candidates = by_the_steps(blocks, confidence, n_members)
    assert found.gap == pytest.approx(max(np.abs(block.values[0]).max() for block in blocks))
    assert found.gap - found.below == pytest.approx(low)
    assert found.gap + found.above == pytest.approx(high)
    assert n_candidates >= len(found.pairs)
