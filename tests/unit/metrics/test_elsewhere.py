"""The largest gap outside an interval: by brute force over all positions, and its bounds by simulation."""

import re

import numpy as np
import pytest

from partialfair.exceptions import InputError
from partialfair.metrics import fairness_report
from partialfair.metrics import partial_statistical_parity_difference as parity_gap
from partialfair.metrics.elsewhere import compare_elsewhere, gap_elsewhere, groups_gap_elsewhere
from partialfair.metrics.inputs import scored_groups
from partialfair.utils.text import fixed


def rows(seed, n=60, n_groups=3, ties=False, weighted=False):
    rng = np.random.default_rng(seed)
    groups = rng.integers(n_groups, size=n * n_groups)
    scores = rng.normal(size=groups.size) + 0.5 * groups * rng.normal()
    scores += (groups == 1) * (scores > 0.3) * 0.4  # the gap is large at some ranks only
    weights = rng.integers(1, 4, size=groups.size).astype(float) if weighted else None
    return (np.round(scores, 1) if ties else scores), groups, weights


def all_positions(scores, groups, weights, piece, width):
    """Every start at which a gap of that width, piecewise linear in it, may have a kink."""
    low, high = piece
    scored = scored_groups(scores, groups, (0, 1), weights)
    ranks = np.concatenate([group.rank(np.unique(scores)) for group in scored])
    starts = np.concatenate([[low, high - width], ranks, ranks - width])
    return np.unique(starts[(starts >= low) & (starts <= high - width + 1e-12)])


def gap_at(scores, groups, weights, low, high, **options):
    return parity_gap(
        None,
        scores,
        sensitive_features=groups,
        sample_weight=weights,
        interval=(low, min(high, 1.0)),
        **options,
    )


@pytest.mark.filterwarnings("ignore::partialfair.exceptions.SmallGroupWarning")
@pytest.mark.parametrize("gap_scale", ["interval", "absolute"])
@pytest.mark.parametrize(("ties", "weighted"), [(False, False), (True, False), (True, True)])
@pytest.mark.parametrize("interval", [(0.2, 0.45), (0.0, 0.3), (0.5, 1.0), (0.1, 0.9)])
def test_it_is_the_largest_gap_of_all_positions(gap_scale, ties, weighted, interval):
    for seed in range(3):
        scores, groups, weights = rows(seed, ties=ties, weighted=weighted)
        found = gap_elsewhere(
            scores,
            sensitive_features=groups,
            interval=interval,
            gap_scale=gap_scale,
            sample_weight=weights,
            n_resamples=100,
            min_group_size=1,
        )
        width, best = interval[1] - interval[0], 0.0
        for piece in ((0.0, interval[0]), (interval[1], 1.0)):
            length = piece[1] - piece[0]
            if length == 0:
                continue
            own = min(width, length)
            for start in all_positions(scores, groups, weights, piece, own):
                if start + own > start:
                    gap = gap_at(scores, groups, weights, start, start + own, gap_scale=gap_scale)
                    best = max(best, gap)
        assert found.gap == pytest.approx(best, abs=1e-9)
        # It is attained where it says, and there are the groups that it names.
        low, high = found.interval
        assert not np.signbit(low)
        assert high <= interval[0] + 1e-9 or low >= interval[1] - 1e-9
        assert gap_at(scores, groups, weights, low, high, gap_scale=gap_scale) == pytest.approx(
            found.gap, abs=1e-9
        )
        of_pair = np.isin(groups, found.groups)
        pair_weights = None if weights is None else weights[of_pair]
        assert gap_at(
            scores[of_pair], groups[of_pair], pair_weights, low, high, gap_scale=gap_scale
        ) == pytest.approx(found.gap, abs=1e-9)
        assert found.ci_low <= found.lower_bound <= found.gap <= found.upper_bound <= found.ci_high


@pytest.mark.filterwarnings("ignore::partialfair.exceptions.SmallGroupWarning")
def test_of_a_union_the_pieces_of_the_complement_are_compared():
    scores, groups, _ = rows(5, n=200)
    union = [(0.1, 0.3), (0.5, 0.6)]
    found = gap_elsewhere(scores, sensitive_features=groups, interval=union, min_group_size=1)
    gaps = {piece: gap_at(scores, groups, None, *piece) for piece in ((0.0, 0.1), (0.3, 0.5), (0.6, 1.0))}
    assert found.pieces == tuple(gaps)
    assert found.gap == pytest.approx(max(gaps.values()))
    assert found.interval == max(gaps, key=gaps.get)


def test_direction_and_sentences():
    """Group b is worse off below rank 0.5, by construction: its lower half is moved down."""
    top = np.linspace(5, 6, 300)
    scores = np.concatenate([top, np.linspace(1, 2, 300), top, np.linspace(0.5, 1.5, 300)])
    groups = np.repeat(["a", "b"], 600)
    found = gap_elsewhere(scores, sensitive_features=groups, interval=(0.0, 0.4))
    assert found.worse_off == "b"
    assert found.interval[0] <= 0.5
    assert found.interval[1] >= 0.75
    assert "where b is worse off than a" in found.statement
    assert f"{found.gap:.3f}" in found.statement
    turned = gap_elsewhere(-scores, sensitive_features=groups, interval=(0.0, 0.4), higher_is_better=False)
    assert turned == found
    equal = np.concatenate([np.linspace(0, 1, 600)] * 2)
    change = compare_elsewhere(equal, scores, sensitive_features=groups, interval=(0.0, 0.4))
    assert change.after == gap_elsewhere(
        scores,
        sensitive_features=groups,
        interval=(0.0, 0.4),
        random_state=int(np.random.default_rng(0).integers(2**63)),
    )
    assert change.before.gap == 0.0
    assert "is estimated as 0.000 before" in change.statement
    assert f"{fixed(change.after.gap)} after ({change.after.place}; 95% interval " in change.statement
    # Two estimates, of which nobody has tested whether they differ.
    assert not re.search("rises|falls|stays", change.statement)
    assert change.statement.endswith("Whether it changed is not tested.")


def test_nothing_elsewhere_and_small_groups():
    scores, groups, _ = rows(1, n=300)
    assert gap_elsewhere(scores, sensitive_features=groups, interval=(0.0, 1.0)) is None
    # The first percent holds three members of each group.
    found = gap_elsewhere(scores, sensitive_features=groups, interval=(0.01, 0.4))
    assert found.skipped == ((0.0, 0.01),)
    assert found.pieces == ((0.4, 1.0),)
    assert gap_elsewhere(scores, sensitive_features=groups, interval=(0.01, 1.0)) is None
    # A group that is too small is compared nowhere.
    few = np.where(np.arange(groups.size) < 20, 3, groups)
    found = gap_elsewhere(np.where(few == 3, 100.0, scores), sensitive_features=few, interval=(0.2, 0.4))
    assert 3 not in found.groups
    by_group = {0: (0.1, 0.2), 1: (0.1, 0.2), 2: (0.3, 0.4)}
    with pytest.raises(InputError, match="differ by group"):
        gap_elsewhere(scores, sensitive_features=groups, interval=by_group)
    with pytest.raises(InputError, match=r"same rows, but have shapes .900,. and .899,."):
        compare_elsewhere(scores, scores[1:], sensitive_features=groups, interval=(0.2, 0.4))


def test_reports_know_it():
    scores, groups, _ = rows(2, n=300)
    report = fairness_report(
        None, scores, sensitive_features=groups, interval=(0.2, 0.4), random_state=0, n_resamples=200
    )
    found = report.elsewhere()
    assert found == gap_elsewhere(scores, sensitive_features=groups, interval=(0.2, 0.4), n_resamples=200)


def missed(n_samples, n, truth, draw):
    """How often each bound misses the truth."""
    misses = np.zeros(4)
    for seed in range(n_samples):
        rng = np.random.default_rng(seed)
        scored = scored_groups(*draw(rng, n), (0.2, 0.4))
        found = groups_gap_elsewhere(
            scored, gap_scale="interval", confidence=0.9, n_resamples=200, min_group_size=10, rng=rng
        )
        misses += [
            found.ci_low > truth,
            found.ci_high < truth,
            found.lower_bound > truth,
            found.upper_bound < truth,
        ]
    return misses / n_samples


def equal(rng, n):
    return rng.uniform(size=2 * n), np.repeat([0, 1], n)


def lower_half_moved(rng, n):
    """Uniform scores; those of group 1 between the ranks 50 and 70% are moved to the lower end of them."""
    scores, groups = equal(rng, n)
    inside = (groups == 1) & (scores > 0.3) & (scores < 0.5)
    scores[inside] = 0.3 + (scores[inside] - 0.3) * 0.4
    return scores, groups


# The score 0.38 has rank 62% in group 0 and 50% in group 1: 12% of the ranks, 0.6 of an interval 20% wide.
@pytest.mark.parametrize(("draw", "truth"), [(equal, 0.0), (lower_half_moved, 0.6)])
def test_bounds_hold_as_often_as_they_claim(draw, truth):
    misses = missed(60, 250, truth, draw)
    # The nominal 5, 5, 10 and 10%, and three standard errors of 60 samples.
    assert (misses <= np.array([0.05 + 0.085] * 2 + [0.1 + 0.116] * 2)).all(), misses


@pytest.mark.slow
@pytest.mark.parametrize(("draw", "truth"), [(equal, 0.0), (lower_half_moved, 0.6)])
@pytest.mark.parametrize("n", [100, 400, 1600])
def test_bounds_hold_in_many_samples(draw, truth, n):
    misses = missed(1000, n, truth, draw)
    assert (misses <= np.array([0.05 + 0.021] * 2 + [0.1 + 0.029] * 2)).all(), misses
