from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from partialfair.datasets import make_admissions
from partialfair.exceptions import InputError
from partialfair.metrics import grid, partial_statistical_parity_difference, unfairness_map
from partialfair.metrics.inputs import scored_groups
from partialfair.metrics.map_radii import MapRadii
from tests import brute
from tests.sizes import examples


@st.composite
def scored_people(draw):
    n_groups = draw(st.integers(2, 4))
    sizes = draw(st.lists(st.integers(1, 9), min_size=n_groups, max_size=n_groups))
    groups = np.repeat(np.arange(n_groups), sizes)
    scores = draw(st.lists(st.integers(0, 12), min_size=groups.size, max_size=groups.size))
    weights = draw(st.none() | st.lists(st.integers(1, 3), min_size=groups.size, max_size=groups.size))
    return np.array(scores, dtype=float), groups, weights


@pytest.mark.no_cover
@given(scored_people(), st.integers(2, 9), st.sampled_from(["interval", "absolute"]))
@examples(50)
def test_every_interval_has_the_metrics_value(people, n_grid, gap_scale):
    scores, groups, weights = people
    found = unfairness_map(
        scores, sensitive_features=groups, n_grid=n_grid, gap_scale=gap_scale, sample_weight=weights
    )
    for i in range(n_grid):
        for j in range(i + 1, n_grid + 1):
            value = partial_statistical_parity_difference(
                None,
                scores,
                sensitive_features=groups,
                interval=(i / n_grid, j / n_grid),
                gap_scale=gap_scale,
                sample_weight=weights,
            )
            cell = found.at(i / n_grid, j / n_grid)
            assert cell.gap == pytest.approx(value, abs=1e-12)
            assert cell.ci_low <= cell.gap + 1e-12
            assert cell.gap <= cell.ci_high + 1e-12


@pytest.mark.parametrize("confidence", [0.8, 0.95])
@pytest.mark.parametrize("n_groups", [2, 4])
def test_the_band_is_that_of_the_pairs_radii_over_the_width(confidence, n_groups):
    """R_p / (β − α) on both sides of each pair's gap, cut off at 0 and 1; of pairs the largest ends."""
    rng = np.random.default_rng(2)
    groups, weights = rng.integers(n_groups, size=1300), rng.random(1300)
    scores = rng.normal(size=1300) + 0.5 * (groups == 1)
    options = {"n_grid": 5, "sample_weight": weights}
    found = unfairness_map(scores, sensitive_features=groups, confidence=confidence, **options)
    scored = scored_groups(scores, groups, sample_weight=weights)
    pairs = np.array(list(scored.pairs()))
    radii = MapRadii.of(scored, confidence).interval(pairs)
    gaps = []
    for pair in pairs:
        rows = np.isin(groups, pair)
        options["sample_weight"] = weights[rows]
        gaps.append(unfairness_map(scores[rows], sensitive_features=groups[rows], **options).gaps)
    for i in range(5):
        for j in range(i + 1, 6):
            cell = found.at(i / 5, j / 5)
            own = np.array([of_pair[i, j - 1] for of_pair in gaps])
            off = radii / ((j - i) / 5)
            assert cell.ci_low == pytest.approx(max((own - off).max(), 0))
            assert cell.ci_high == pytest.approx(min((own + off).max(), 1))
    assert found.n_intervals == 5 * 6 // 2


@pytest.mark.parametrize("tied", [False, True])
def test_the_absolute_band_is_that_of_shrunk_and_widened_intervals(tied):
    """Within R of the gaps of the interval shrunk and widened by each group's r, in whole cells.

    Where a widened interval ends at 1 it includes rank 1.
    """
    rng, n_grid = np.random.default_rng(4), 10
    groups = np.repeat(["a", "b"], [1200, 150])
    scores = rng.normal(size=1350) + 0.4 * (groups == "b")
    scores = np.round(scores, 1) if tied else scores
    found = unfairness_map(scores, sensitive_features=groups, n_grid=n_grid, gap_scale="absolute")
    radii = MapRadii.of(scored_groups(scores, groups), 0.95)
    radius = radii.absolute(np.array([[0, 1]]))[0]
    steps = np.ceil(radii.membership * n_grid)
    assert steps[0] < steps[1]
    ranks = np.stack([[(scores[groups == k] > t).mean() for t in np.unique(scores)] for k in "ab"])
    lead = np.abs(ranks[0] - ranks[1])

    def widest(begins, ends):
        """Over θ at which some group's rank lies between its own ends."""
        held = [
            (of_k >= b - 1e-12) & (of_k < e - 1e-12) for of_k, b, e in zip(ranks, begins, ends, strict=True)
        ]
        return lead[held[0] | held[1]].max(initial=0.0)

    for i in range(n_grid):
        for j in range(i + 1, n_grid + 1):
            inside = widest((i + steps) / n_grid, (j - steps) / n_grid)
            around = widest((i - steps) / n_grid, np.where(j + steps < n_grid, (j + steps) / n_grid, np.inf))
            cell = found.at(i / n_grid, j / n_grid)
            assert cell.ci_low == pytest.approx(max(inside - radius, 0.0))
            assert cell.ci_high == pytest.approx(min(around + radius, 1.0))


@given(scored_people(), st.integers(2, 9))
def test_visits_sum_up_the_curve(people, n_grid):
    """Per visit of a cell: first and last point, the largest x − y and y − x, and the pairs within it."""
    scores, groups, weights = people
    a, b = scored_groups(scores, groups, sample_weight=weights).groups[:2]
    first, second = (brute.split(scores, groups, weights)[label] for label in (a.label, b.label))
    curve = [
        (brute.rank(first, theta), brute.rank(second, theta))
        for theta in sorted(brute.thresholds(first, second), reverse=True)
    ]
    visits = []
    for x, y in curve:
        cell = (int(x * n_grid), int(y * n_grid))
        if not visits or visits[-1][0] != cell:
            visits.append((cell, []))
        visits[-1][1].append((x, y))
    cells, found = grid.grid_visits(*a.ranked, *b.ranked, n_grid)
    assert cells.tolist() == [list(cell) for cell, _ in visits]
    assert len(visits) <= 2 * n_grid + 1
    for (_, points), at in zip(visits, found, strict=True):
        assert at[:4] == pytest.approx([float(one) for one in (*points[0], *points[-1])])
        assert at[4] - at[5] == pytest.approx(float(max(x - y for x, y in points)))
        assert at[7] - at[6] == pytest.approx(float(max(y - x for x, y in points)))
        # Steps of the curve within the visit: members of b below those of a, and ties by half.
        mass, passed = 0, points[0][0]
        for (x, y), (next_x, next_y) in pairwise(points):
            mass += (next_y - y) * ((x - passed) + (next_x - x) / 2)
        assert at[8] == pytest.approx(float(mass), abs=1e-12)
    at_bottom = [abs(x - y) for x, y in curve if max(x, y) == 1]
    assert grid.bottom_lead(cells, found, n_grid) == pytest.approx(float(max(at_bottom)))


@pytest.mark.no_cover
@given(scored_people(), st.integers(2, 6))
@examples(25)
def test_group_auc_of_every_interval(people, n_grid):
    scores, groups, weights = people
    a, b = scored_groups(scores, groups, sample_weight=weights).groups[:2]
    first, second = (brute.split(scores, groups, weights)[label] for label in (a.label, b.label))
    cells, visits = grid.grid_visits(*a.ranked, *b.ranked, n_grid)
    found = grid.grid_aucs(cells, visits, n_grid)
    for i in range(n_grid):
        for j in range(i + 1, n_grid + 1):
            parts = [(Fraction(i, n_grid), Fraction(j, n_grid))]
            shares = [brute.band_shares(members, parts) for members in (first, second)]
            expected = brute.chance_of_beating(first, shares[0], second, shares[1], "half")
            assert found[i, j - 1] == pytest.approx(float(expected), abs=1e-9)


def test_many_scores_and_groups_against_the_metric():
    rng = np.random.default_rng(0)
    groups = rng.integers(5, size=20_000)
    scores = rng.normal(size=groups.size) * (1 + 0.1 * groups)
    found = unfairness_map(scores, sensitive_features=groups, n_grid=100)
    assert found.n_intervals == 5050
    for low, high in [(0.0, 1.0), (0.05, 0.3), (0.47, 0.48), (0.9, 1.0)]:
        direct = partial_statistical_parity_difference(
            None, scores, sensitive_features=groups, interval=(low, high)
        )
        assert found.at(low, high).gap == pytest.approx(direct, abs=1e-12)
        assert found.at(low, high).groups in found.pairs


def test_it_finds_the_contested_band_of_the_admissions_data():
    for seed in range(3):
        data = make_admissions(20_000, seed=seed)
        found = unfairness_map(data.historical_score, sensitive_features=data.sensitive_features, n_grid=20)
        low, high = found.widest(0.25).interval
        overlap = min(high, data.interval[1]) - max(low, data.interval[0])
        assert overlap >= 0.15
        assert found.widest(0.25).ci_low > 0
        assert found.at(0.6, 0.85).gap < found.at(0.15, 0.4).gap / 2


def test_widest_is_the_largest_of_its_width():
    rng = np.random.default_rng(1)
    groups = rng.integers(2, size=2000)
    found = unfairness_map(rng.normal(size=2000) + 0.3 * groups, sensitive_features=groups, n_grid=10)
    best = found.widest(0.3)
    assert best.gap == max(found.at(k / 10, (k + 3) / 10).gap for k in range(8))
    assert found.widest().gap == np.nanmax(found.gaps)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: m.at(0.5, 0.5), "empty or reversed"),
        (lambda m: m.at(0.33, 0.5), "not on the map's grid"),
        (lambda m: m.widest(0.001), "not on the map's grid"),
        (lambda m: m.widest(0.0), "narrower"),
    ],
)
def test_questions_off_the_grid(call, message):
    found = unfairness_map(np.arange(40.0), sensitive_features=[0, 1] * 20, n_grid=10)
    with pytest.raises(InputError, match=message):
        call(found)


def test_grid_needs_two_steps():
    with pytest.raises(InputError, match="n_grid"):
        unfairness_map([1.0, 2.0], sensitive_features=[0, 1], n_grid=1)
