"""Confidence intervals by the steps that the module describes, and its draws by their moments."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from partialfair.metrics.bounds import Differences, PairFluctuations, bound_fluctuation, join_differences
from partialfair.metrics.inputs import scored_groups
from partialfair.metrics.resampling import resample
from tests.sizes import examples

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
            cells = draws.draws[k].cells
            assert np.delete(expected, cells) == pytest.approx(0)
            assert draws.weights(k, value)[:, 0] == pytest.approx(np.array(expected)[cells], abs=1e-12)
            ranks = np.cumsum(expected) / np.sum(expected)
            assert draws.ranks(k, value)[:, 0] == pytest.approx(ranks[cells])


def test_draws_have_the_mean_and_the_variance_of_an_exponential_weight_per_row():
    """A cell with weight W = Σw and V = Σw² gets a Gamma weight of mean W and variance V."""
    scores, groups, weights, _, _ = people(n=90)
    scored = scored_groups(np.round(scores), groups, sample_weight=weights)
    draws = resample(scored, threshold=None, n_resamples=40_000, rng=np.random.default_rng(0))
    edges = np.concatenate([[np.inf], draws.thresholds, [-np.inf]])
    for k, group in enumerate(scored):
        for cell, drawn in zip(draws.draws[k].cells, draws.weights(k)[:, 1:], strict=True):
            own = group.weights[(edges[cell + 1] < group.scores) & (group.scores <= edges[cell])]
            assert drawn.mean() == pytest.approx(own.sum(), rel=0.05)
            assert drawn.var() == pytest.approx((own**2).sum(), rel=0.1)


def test_the_unit_makes_up_for_what_few_members_hide():
    """A Bayesian bootstrap gives a share p the variance p(1 − p)/(n + 1), and its estimate has n − 1."""
    n = 12
    scored = scored_groups(np.arange(2.0 * n), np.repeat(["a", "b"], n))
    draws = resample(scored, threshold=5.5, n_resamples=40_000, rng=np.random.default_rng(0))
    at = int(np.flatnonzero(draws.thresholds == 5.5)[0])
    shares = draws.ranks(0)[np.searchsorted(draws.draws[0].cells, at, side="right") - 1, 1:]
    assert shares.var() == pytest.approx(0.25 / (n + 1), rel=0.05)
    pair = PairFluctuations(np.zeros(1), np.array([shares.std()]), np.array([n]))
    assert (pair.small_sample[0] * shares.std()) ** 2 == pytest.approx(0.25 / (n - 1), rel=0.05)
    assert pair.unit[0] / pair.small_sample[0] / shares.std() == pytest.approx(
        stats.t.ppf(0.95, n - 1) / stats.norm.ppf(0.95)
    )


def test_draws_follow_the_slope_of_the_interval_and_fade_out_beyond_it():
    """Slope 1/m inside the interval and for 2/√n before and beyond its ends, then ever less, as far again."""
    scores, groups, weights, positive, interval = people()
    scored = scored_groups(scores, groups, interval, weights, positive)
    draws = resample(scored, **SETTINGS, rng=np.random.default_rng(0))
    for k, group in enumerate(scored):
        ranks = draws.ranks(k)
        margin = 2 / np.sqrt(group.n_effective)
        for row, rank in enumerate(ranks[:, 0]):
            passed = sum(min(max(rank - low, 0), high - low) for low, high in group.interval.parts)
            distance = min(max(low - rank, rank - high, 0) for low, high in group.interval.parts)
            slope = min(max(2 - distance / margin, 0), 1) / group.interval.measure
            expected = passed / group.interval.measure + slope * (ranks[row] - rank)
            assert draws.passed_linearized(k)[row] == pytest.approx(expected, abs=1e-12)


def by_the_steps(pairs, values, confidence, n_members, chance):
    """Both bounds by the module's text, pair by pair and difference by difference."""
    spent = 0.1 * (1 - confidence) / 2
    off = {p: np.abs(rows[:, 1:] - rows[:, :1]) for p, rows in enumerate(values)}
    size = {p: np.median(off[p].max(axis=0)) for p in off}
    fewest = {p: min(n_members[k], n_members[j]) for p, (k, j) in enumerate(pairs)}
    correction = {p: np.sqrt((fewest[p] + 1) / (fewest[p] - 1)) for p in off}

    def radius(p, c, chance):
        student = stats.t.ppf(0.95, fewest[p] - 1) / stats.norm.ppf(0.95)
        return max(c * size[p] * correction[p] * student, 1 - chance ** (1 / fewest[p]))

    widest = {p: np.abs(rows[:, 0]) for p, rows in enumerate(values)}
    c = np.quantile(np.max([off[p].max(axis=0) / size[p] for p in off], axis=0), 1 - spent)
    least = max(widest[p].max() - radius(p, c, spent) for p in off)
    away_from_0, towards_0, candidates = [], [], []
    for p, rows in enumerate(values):
        for j, (data, *draws) in enumerate(rows):
            if abs(data) + radius(p, c, spent) < least:
                continue
            candidates.append((p, j))
            away = np.sign(data) * (np.array(draws) - data)
            known = abs(data) > radius(p, c, spent)
            away_from_0.append((np.maximum(away, 0) if known else np.abs(away)) / size[p])
            towards_0.append((np.maximum(-away, 0) if known else np.abs(away)) / size[p])
    c = max(
        np.quantile(np.max(one_sided, axis=0), 1 - (chance - spent), method="higher")
        for one_sided in (away_from_0, towards_0)
    )
    lower_bound = max(widest[p][j] - radius(p, c, chance - spent) for p, j in candidates)
    upper_bound = 0.0
    for p, rows in enumerate(values):
        t = stats.t.ppf(1 - chance, fewest[p] - 1)
        for data, *draws in rows:
            deviation = np.sqrt(np.mean((np.array(draws) - data) ** 2)) * correction[p]
            upper_bound = max(upper_bound, abs(data) + max(t * deviation, 1 - chance ** (1 / fewest[p])))
    return lower_bound, upper_bound, len({p for p, _ in candidates})


def given_differences(pairs, values):
    """Differences of pairs that are given as arrays."""

    def fill(chosen, block):
        rows = [values[p] for p in chosen]
        starts = np.cumsum([0, *map(len, rows)])
        block[: starts[-1]] = np.concatenate(rows)
        return starts

    return Differences(
        np.array(pairs), np.array([len(rows) + 1 for rows in values]), fill, values[0].shape[1]
    )


@examples(15)
@given(
    seed=st.integers(0, 10_000),
    confidence=st.sampled_from([0.8, 0.95]),
    widest=st.sampled_from([0.01, 0.6]),
    n_rows=st.sampled_from([8, 600]),
)
def test_bounds_are_those_of_the_text(seed, confidence, widest, n_rows):
    """Also where blocks hold one pair each, and where all differences may be the widest."""
    n_members, pairs, values = drawn_differences(seed, widest, n_rows)
    found = bound_fluctuation(given_differences(pairs, values), confidence, n_members)
    assert found.gap == pytest.approx(max(np.abs(rows[:, 0]).max() for rows in values))
    for chance in (1 - confidence, (1 - confidence) / 2):
        lower_bound, upper_bound, n_candidates = by_the_steps(pairs, values, confidence, n_members, chance)
        assert found.gap - found.below(chance) == pytest.approx(lower_bound)
        assert found.gap + found.above(chance) == pytest.approx(upper_bound)
        assert n_candidates == found.candidates.size


def drawn_differences(seed, widest, n_rows):
    rng = np.random.default_rng(seed)
    n_members = rng.integers(5, 400, 3).tolist()
    pairs, values = [(0, 1), (0, 2), (1, 2)], []
    for _ in pairs:
        data = rng.uniform(-widest, widest, (int(rng.integers(1, n_rows)), 1))
        values.append(np.hstack([data, data + rng.uniform(0.01, 0.1) * rng.normal(size=(data.size, 200))]))
    return n_members, pairs, values


def test_joined_families_are_all_pairs_of_both():
    n_members, pairs, values = drawn_differences(3, 0.6, 30)
    together = bound_fluctuation(given_differences(pairs, values), 0.95, n_members)
    parts = [given_differences(pairs[:1], values[:1]), given_differences(pairs[1:], values[1:])]
    joined = bound_fluctuation(join_differences(parts), 0.95, n_members)
    np.testing.assert_array_equal(joined.draws, together.draws)
    np.testing.assert_array_equal(joined.everywhere, together.everywhere)
    assert joined.above(0.05) == together.above(0.05)


def test_rows_that_are_clusters_of_their_own_change_nothing_but_the_noise():
    """Each row one exponential weight: means and variances of cells are those of the Gamma weights."""
    scores, groups, weights, positive, interval = people(n=300)
    plain = scored_groups(scores, groups, interval, weights, positive)
    alone = scored_groups(scores, groups, interval, weights, positive, clusters=np.arange(300))
    one, other = (
        resample(scored, threshold=None, n_resamples=20_000, rng=np.random.default_rng(0))
        for scored in (plain, alone)
    )
    for k in range(len(plain)):
        assert alone.groups[k].n_effective == pytest.approx(plain.groups[k].n_effective)
        np.testing.assert_array_equal(one.draws[k].cells, other.draws[k].cells)
        for label in (True, False):
            np.testing.assert_allclose(one.weights(k, label)[:, 0], other.weights(k, label)[:, 0])
            drawn = [draws.weights(k, label)[:, 1:] for draws in (one, other)]
            np.testing.assert_allclose(*(each.mean(axis=1) for each in drawn), rtol=0.05)
            np.testing.assert_allclose(*(each.var(axis=1) for each in drawn), rtol=0.15)


def test_rows_of_a_cluster_share_their_weight():
    """Four copies of everybody in clusters tell as much as one of each: ranks of draws vary as much."""
    rng = np.random.default_rng(1)
    scores, groups = rng.normal(size=80), np.repeat(["a", "b"], 40)
    once = scored_groups(scores, groups)
    copied = scored_groups(np.tile(scores, 4), np.tile(groups, 4), clusters=np.tile(np.arange(80), 4))
    assert copied.groups[0].n_effective == pytest.approx(40)
    spreads = [
        resample(scored, threshold=0.0, n_resamples=20_000, rng=rng).ranks(0)[20, 1:].std()
        for scored in (once, copied)
    ]
    assert spreads[0] == pytest.approx(spreads[1], rel=0.05)
