"""Many groups: the same values as pair by pair, in little time, and intervals that cover."""

import time
import warnings
from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from partialfair.metrics import fairness_report, resampling, sweep, unfairness_map
from partialfair.metrics.bounds import bound_fluctuation
from partialfair.metrics.differences import statistical_parity
from partialfair.metrics.grid import visits_of_pairs
from partialfair.metrics.inputs import Setting, scored_groups
from partialfair.metrics.resampling import KnotSettings, resample
from partialfair.metrics.sweep import pair_aucs, pair_gap, parity_gaps
from tests.sizes import examples

INTERVAL = (0.2, 0.4)
UNION = [(0.0, 0.1), (0.5, 0.8)]


def people(n_groups, n, seed=0, digits=2):
    """Scores with ties across and inside groups of different sizes, weights and labels."""
    rng = np.random.default_rng(seed)
    groups = np.concatenate([np.arange(n_groups), rng.integers(0, n_groups, n - n_groups)])
    scores = np.round(rng.normal(size=n) + 0.05 * groups, digits)
    return scores, groups, rng.choice([0.1, 0.3, 1.7], n), rng.random(n) < 1 / (1 + np.exp(-scores))


@examples(10)
@given(
    seed=st.integers(0, 10_000),
    digits=st.sampled_from([0, 1, 12]),
    weighted=st.booleans(),
    interval=st.sampled_from([INTERVAL, (0.0, 1.0), UNION]),
)
def test_one_descent_gives_what_merging_every_pair_gives(seed, digits, weighted, interval):
    scores, groups, weights, _ = people(6, 80, seed, digits)
    scored = scored_groups(scores, groups, interval, weights if weighted else None).groups
    orders = list(permutations(range(6), 2))

    def everything():
        aucs = [pair_aucs(scored, orders, share)[~np.eye(6, dtype=bool)] for share in (0.5, 1.0)]
        return [*aucs, *(part for curve in visits_of_pairs(scored, 10) for part in curve)]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sweep, "MANY_GROUPS", 100)
        merged = everything()
        patch.setattr(sweep, "MANY_GROUPS", 1)
        together = everything()
    for scale in ("interval", "absolute"):
        merged.append(np.array([pair_gap(a, b, scale)[0] for a, b in combinations(scored, 2)]))
        together.append(parity_gaps(scored, scale)[np.triu_indices(6, 1)])
    for one, other in zip(merged, together, strict=True):
        np.testing.assert_array_equal(one, other)  # to the last bit


@pytest.mark.parametrize("gap_scale", ["interval", "absolute"])
def test_the_report_of_all_groups_is_the_worst_report_of_two(gap_scale):
    scores, groups, weights, labels = people(12, 600)
    options = {
        "interval": INTERVAL,
        "threshold": 0.4,
        "gap_scale": gap_scale,
        "n_resamples": 100,
        "small_groups": "keep",
    }

    def values(rows):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # few people are the point
            report = fairness_report(
                labels[rows],
                scores[rows],
                sensitive_features=groups[rows],
                sample_weight=weights[rows],
                **options,
            )
        frame = report.to_frame()
        # Where the threshold lies outside the interval of all that are compared, the gap is 0.
        return report, frame["gap"].where(frame["reason"] == "", 0.0).to_numpy()

    whole, found = values(np.arange(600))
    of_two = {pair: values(np.isin(groups, pair))[1] for pair in combinations(range(12), 2)}
    np.testing.assert_allclose(found, np.max(list(of_two.values()), axis=0), rtol=0, atol=1e-14)
    for position, row in enumerate(whole.metrics):
        pair = tuple(sorted(row.groups))
        assert of_two[pair][position] == pytest.approx(found[position], abs=1e-14, nan_ok=True)


@pytest.mark.parametrize("gap_scale", ["interval", "absolute"])
def test_the_map_of_all_groups_is_the_widest_of_the_maps_of_two(gap_scale):
    scores, groups, _, _ = people(12, 600)
    whole = unfairness_map(scores, sensitive_features=groups, n_grid=10, gap_scale=gap_scale)
    maps = []
    for pair in combinations(range(12), 2):
        rows = np.isin(groups, pair)
        of_pair = unfairness_map(
            scores[rows], sensitive_features=groups[rows], n_grid=10, gap_scale=gap_scale
        )
        maps.append(of_pair.gaps)
    np.testing.assert_array_equal(whole.gaps, np.max(maps, axis=0))
    upper = np.triu_indices(10)
    np.testing.assert_array_equal(whole.pair[upper], np.argmax(maps, axis=0)[upper])


def test_knots_are_thinned_to_a_limit_and_keep_the_threshold(monkeypatch):
    rng = np.random.default_rng(0)
    scored = scored_groups(rng.normal(size=6000), np.arange(6000) % 30, INTERVAL)
    monkeypatch.setattr(resampling, "SETTINGS", KnotSettings(max_cells=3000))
    draws = resample(scored, threshold=0.123, n_resamples=5, rng=rng)
    assert sum(group.cells.size for group in draws.draws) <= 3000
    assert 0.123 in draws.thresholds
    # They follow the ranks evenly: in no group is there a wide stretch without a knot.
    for group in scored:
        assert np.diff(group.rank(draws.thresholds), prepend=0.0, append=1.0).max() < 0.1


def test_small_groups_keep_a_cell_for_every_score():
    rng = np.random.default_rng(0)
    scored = scored_groups(rng.normal(size=1600), np.arange(1600) % 200, INTERVAL)
    draws = resample(scored, threshold=None, n_resamples=5, rng=rng)
    assert all(group.cells.size == 8 for group in draws.draws)


def coverage(n_groups, size, gap, n_draws):
    """How often the interval's lower and upper ends are on the right side of the true gap.

    Uniform scores, the first group shifted by gap · (β − α).
    """
    rng = np.random.default_rng(20260101)
    n_below = n_above = 0
    groups = np.repeat(np.arange(n_groups), size)
    for _ in range(n_draws):
        scores = rng.random(groups.size) + np.where(groups == 0, gap * (INTERVAL[1] - INTERVAL[0]), 0.0)
        scored = scored_groups(scores, groups, INTERVAL)
        draws = resample(scored, threshold=None, n_resamples=200, rng=rng)
        n_members = [group.n * group.interval.measure for group in scored]
        spread = bound_fluctuation(statistical_parity(draws, Setting()), 0.95, n_members)
        estimate = parity_gaps(scored.groups, "interval").max()
        n_below += estimate - spread.below(0.025) <= gap
        n_above += gap <= estimate + spread.above(0.025)
    return n_below / n_draws, n_above / n_draws


@pytest.mark.no_cover
@pytest.mark.parametrize("max_cells", [KnotSettings.max_cells, 1500])
def test_intervals_of_thirty_groups_cover_a_gap_of_zero(max_cells, monkeypatch):
    """Also on fifty knots, as many as are left for 200 groups."""
    monkeypatch.setattr(resampling, "SETTINGS", KnotSettings(max_cells=max_cells))
    low, high = coverage(30, 300, 0.0, n_draws=60)
    assert low >= 0.9  # 0.95 less 1.8 standard errors of 60 draws
    assert high == 1.0


@pytest.mark.slow
@pytest.mark.parametrize("size", [100, 2000])
@pytest.mark.parametrize("gap", [0.0, 0.1, 0.4])
@pytest.mark.parametrize("max_cells", [KnotSettings.max_cells, 1500])
def test_intervals_of_thirty_groups_cover(max_cells, gap, size, monkeypatch):
    monkeypatch.setattr(resampling, "SETTINGS", KnotSettings(max_cells=max_cells))
    low, high = coverage(30, size, gap, n_draws=300)
    assert low >= 0.93
    assert high >= 0.93


@pytest.mark.slow
@pytest.mark.alone
def test_a_hundred_groups_are_quick():
    scores, groups, _, labels = people(100, 2000)
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        report = fairness_report(
            labels,
            scores,
            sensitive_features=groups,
            interval=INTERVAL,
            threshold=0.4,
            random_state=0,
            small_groups="keep",
        )
        assert len(report.to_html()) < 4e6
    unfairness_map(scores, sensitive_features=groups)
    assert time.perf_counter() - start < 60  # some three seconds, once compiled
