"""The adjuster against the definitions: exact gaps, order, ties, and the least change of all orders."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.isotonic import isotonic_regression

from partialfair.metrics import partial_statistical_parity_difference
from partialfair.postprocessing import PartialParityAdjuster
from tests import brute
from tests.property.strategies import GROUP_NAMES, WEIGHTS, as_array, as_floats, common_intervals, unions
from tests.sizes import examples

ROUNDING = Fraction(1, 10**12)
TIED = st.sampled_from([-2.0, -1.0, 0.0, 0.5, 1.0])
FREE = st.floats(-1e6, 1e6, allow_nan=False)


@dataclass(frozen=True)
class Asked:
    """Scores, what is asked of them, and how."""

    scores: list[float]
    groups: list[str]
    weights: list[Fraction] | None
    interval: Any
    gap_scale: str
    slack: float  # of the way from the floor to 1

    @property
    def options(self) -> dict[str, Any]:
        return {"sensitive_features": self.groups, "interval": self.interval, "gap_scale": self.gap_scale}

    def gap(self, scores) -> Fraction:
        """The gap by the definition, in exact arithmetic."""
        return brute.partial_statistical_parity_difference(
            None, list(scores), sample_weight=self.weights, **self.options
        )

    @property
    def max_gap(self) -> float:
        return min(1.0, self.floor + self.slack * (1 - self.floor))

    @property
    def floor(self) -> float:
        """½ (b_k + b_j) of the worst pair; on the absolute scale of whole groups."""
        largest = []
        for group, members in brute.split(self.scores, self.groups, self.weights).items():
            parts = brute.parts_of(self.interval if self.gap_scale == "interval" else (0, 1), group)
            held: dict[float, Fraction] = {}
            for member, share in zip(members, brute.band_shares(members, parts), strict=True):
                held[member.score] = held.get(member.score, Fraction(0)) + share
            largest.append(max(held.values()))
        return float(sum(sorted(largest)[-2:])) / 2

    def fit(self, **options) -> tuple[PartialParityAdjuster, np.ndarray]:
        adjuster = PartialParityAdjuster(
            as_floats(self.interval),
            self.max_gap,
            gap_scale=self.gap_scale,
            min_group_size=0,
            **{"max_knots": None, "margin": 0.0, **options},
        )
        scores = np.array(self.scores)
        weights = as_array(self.weights)
        adjuster.fit(scores, sensitive_features=self.groups, sample_weight=weights)
        return adjuster, adjuster.transform(scores, self.groups)


@st.composite
def asked(draw, max_groups=4, max_members=8, per_group=True, weights=(None, "integer", "rational")) -> Asked:
    sizes = draw(st.lists(st.integers(1, max_members), min_size=2, max_size=max_groups))
    groups = [name for name, size in zip(GROUP_NAMES, sizes, strict=False) for _ in range(size)]
    n = len(groups)
    free = st.lists(FREE, min_size=n, max_size=n, unique=True)
    scores = draw(st.lists(TIED, min_size=n, max_size=n) | free)
    kind = draw(st.sampled_from(weights))
    given_weights = None
    if kind is not None:
        positive = WEIGHTS[kind].filter(bool)
        given_weights = draw(st.lists(positive, min_size=n, max_size=n))
    scale = draw(st.sampled_from(["interval", "absolute"]))
    interval = draw(common_intervals())
    if per_group and scale == "interval" and draw(st.booleans()):
        interval = draw(st.fixed_dictionaries({name: common_intervals() for name in set(groups)}))
    return Asked(scores, groups, given_weights, interval, scale, draw(st.sampled_from([0.0, 0.05, 0.3])))


def by_group(groups, *columns):
    """Each group's rows, sorted by the first column."""
    for name in sorted(set(groups)):
        rows = [i for i, group in enumerate(groups) if group == name]
        rows.sort(key=lambda i: columns[0][i])
        yield tuple(np.array([column[i] for i in rows]) for column in columns)


@settings(examples(60))
@given(asked())
def test_the_gap_is_at_most_what_was_asked_by_the_definition(case):
    adjuster, adjusted = case.fit()
    assert case.gap(adjusted) <= Fraction(case.max_gap) + ROUNDING
    assert adjuster.result_.gap == pytest.approx(float(case.gap(adjusted)), abs=1e-12)
    assert adjuster.result_.gap_before == pytest.approx(float(case.gap(case.scores)), abs=1e-12)
    assert adjuster.result_.satisfied


NEAR_THE_END = Asked(
    [0.03125, -2.0, -73186.0, 0.0, 0.0625],
    ["amber", "amber", "amber", "blue", "blue"],
    None,
    (Fraction(0), Fraction(1)),
    "absolute",
    0.0,
)
"""To tell two rows apart at the highest score, one was raised above it by rounding."""


@settings(examples(60))
@given(asked())
@example(NEAR_THE_END)
def test_order_within_groups_is_kept_strictly_and_ties_stay_ties(case):
    _, adjusted = case.fit()
    for before, after in by_group(case.groups, case.scores, adjusted):
        assert ((np.diff(before) > 0) == (np.diff(after) > 0)).all()
        assert ((np.diff(before) == 0) == (np.diff(after) == 0)).all()
    assert min(case.scores) <= adjusted.min()
    assert adjusted.max() <= max(case.scores)


@given(asked())
def test_nothing_moves_where_the_gap_is_allowed_already(case):
    already = float(case.gap(case.scores))
    adjuster = PartialParityAdjuster(
        as_floats(case.interval), already, gap_scale=case.gap_scale, min_group_size=0, margin=0.0
    )
    weights = as_array(case.weights)
    adjuster.fit(np.array(case.scores), sensitive_features=case.groups, sample_weight=weights)
    assert (adjuster.transform(np.array(case.scores), case.groups) == case.scores).all()
    assert adjuster.result_.moved_share == adjuster.result_.mean_squared_change == 0


@given(asked())
def test_adjusting_twice_changes_nothing_more_and_every_fit_is_the_same(case):
    adjuster, adjusted = case.fit()
    again = PartialParityAdjuster(**adjuster.get_params())
    weights = as_array(case.weights)
    twice = again.fit_transform(adjusted, sensitive_features=case.groups, sample_weight=weights)
    assert (twice == adjusted).all()
    assert (case.fit()[1] == adjusted).all()


def merged_orders(counts):
    """All sequences of groups, from the best, in which group k occurs counts[k] times."""
    if not any(counts):
        yield ()
    for k, count in enumerate(counts):
        if count:
            for rest in merged_orders([c - (j == k) for j, c in enumerate(counts)]):
                yield (k, *rest)


def least_of_all_orders(case: Asked) -> float:
    """The least weighted squared change: the best isotonic fit along any order whose gap is allowed.

    An order that keeps groups in order is a sequence of groups. Its gap, by the definition, is that of any
    scores in this order; the nearest scores in it, ties allowed, are an ordinary isotonic regression.
    """
    names = sorted(set(case.groups))
    weights = [Fraction(1)] * len(case.scores) if case.weights is None else case.weights
    held = []
    for name in names:
        mine = [(s, w) for s, g, w in zip(case.scores, case.groups, weights, strict=True) if g == name]
        distinct = sorted({s for s, _ in mine}, reverse=True)
        held.append([(s, sum(w for t, w in mine if t == s)) for s in distinct])
    best = math.inf
    for order in merged_orders([len(one) for one in held]):
        taken = [0] * len(names)
        line = []
        for k in order:
            line.append((k, *held[k][taken[k]]))
            taken[k] += 1
        ranks = list(range(len(line), 0, -1))
        gap = partial_statistical_parity_difference(  # in floats: fractions would take minutes
            None,
            ranks,
            sensitive_features=[names[k] for k, _, _ in line],
            interval=as_floats(case.interval),
            gap_scale=case.gap_scale,
            sample_weight=[float(w) for _, _, w in line],
        )
        if gap <= case.max_gap + 1e-12:
            targets = np.array([s for _, s, _ in line])
            weight = np.array([float(w) for _, _, w in line])
            nearest = isotonic_regression(targets, sample_weight=weight, increasing=False)
            best = min(best, float(weight @ (nearest - targets) ** 2) / weight.sum())
    return best


@settings(examples(60))
@given(
    asked(max_groups=2, max_members=4) | asked(max_groups=3, max_members=2), st.sampled_from([0.0, 0.1, 0.25])
)
def test_the_change_is_the_least_of_all_orders(case, slack):
    case = Asked(**(vars(case) | {"slack": slack}))
    adjuster, adjusted = case.fit()
    if (adjusted == case.scores).all():
        return  # nothing moves: see above; ties of different groups are in none of the orders
    distance = math.sqrt(adjuster.result_.mean_squared_change)
    least = math.sqrt(least_of_all_orders(case))
    assert distance == pytest.approx(least, rel=1e-6, abs=1e-6 * np.ptp(case.scores))


@given(asked(weights=("integer",)))
def test_a_weight_is_so_many_rows(case):
    rows = np.repeat(np.arange(len(case.scores)), [int(w) for w in case.weights])
    repeated = Asked(
        [case.scores[i] for i in rows],
        [case.groups[i] for i in rows],
        None,
        case.interval,
        case.gap_scale,
        case.slack,
    )
    spread = np.ptp(case.scores) or 1.0
    np.testing.assert_allclose(case.fit()[1][rows], repeated.fit()[1], atol=1e-5 * spread)


@given(asked(per_group=False), st.floats(0.1, 10), st.floats(-5, 5))
def test_units_do_not_matter(case, factor, shift):
    spread = np.ptp(case.scores) or 1.0
    scaled = Asked(**(vars(case) | {"scores": [factor * s + shift * spread for s in case.scores]}))
    if len(set(scaled.scores)) < len(set(case.scores)):
        return  # rounding has tied scores
    expected = factor * case.fit()[1] + shift * spread
    np.testing.assert_allclose(scaled.fit()[1], expected, atol=1e-5 * factor * spread)


@given(asked(per_group=False))
def test_low_scores_may_be_the_good_ones(case):
    adjuster = PartialParityAdjuster(
        as_floats(case.interval),
        case.max_gap,
        gap_scale=case.gap_scale,
        min_group_size=0,
        max_knots=None,
        margin=0.0,
        higher_is_better=False,
    )
    negated = -np.array(case.scores)
    weights = as_array(case.weights)
    turned = adjuster.fit_transform(negated, sensitive_features=case.groups, sample_weight=weights)
    assert (-turned == case.fit()[1]).all()


@settings(examples(20))
@given(unions(), st.sampled_from(["interval", "absolute"]), st.integers(0, 10**6))
def test_people_outside_move_only_where_a_member_inside_pushes_them(interval, scale, seed):
    """Whoever moves outside stands in an unbroken line, nearly tied, that ends at a member who is inside.

    On the absolute scale everybody whose rank a row is about counts as inside: those within κ of it.
    """
    rng = np.random.default_rng(seed)
    groups = np.repeat(["a", "b"], [25, 35])
    scores = rng.normal(size=60) + (groups == "a")
    case = Asked(scores.tolist(), groups.tolist(), None, interval, scale, 0.05)
    _, adjusted = case.fit()
    still = 1e-6 * scores.std()
    low, high = map(float, interval)
    reach = case.max_gap if scale == "absolute" else 0.0
    for before, after in by_group(groups, scores, adjusted):
        n = before.size
        ranks = (n - 1 - np.arange(n)) / n
        inside = (ranks + 1 / n > low - reach) & (ranks < high + reach)
        for i in np.flatnonzero((np.abs(after - before) > still) & ~inside):
            tied = np.flatnonzero(np.abs(after - after[i]) <= still)
            assert inside[tied].any()


@settings(examples(30))
@given(
    st.integers(0, 10**6),
    st.sampled_from([(0.0, 1.0), (0.1, 0.4), [(0.1, 0.2), (0.6, 0.9)]]),
    st.sampled_from(["interval", "absolute"]),
    st.sampled_from([0.0, 0.02, 0.1]),
    st.booleans(),
)
def test_few_knots_keep_the_promise_and_cost_little_more(seed, interval, scale, slack, tied):
    rng = np.random.default_rng(seed)
    groups = rng.choice(["a", "b", "c"], 600, p=[0.5, 0.3, 0.2])
    scores = rng.normal(size=600) * (1 + (groups == "b")) + (groups == "a")
    scores = np.round(scores, 1) if tied else scores

    def fit(max_gap, max_knots):
        adjuster = PartialParityAdjuster(interval, max_gap, gap_scale=scale, max_knots=max_knots, margin=0.0)
        return adjuster, adjuster.fit_transform(scores, sensitive_features=groups)

    max_gap = fit(1.0, None)[0].result_.floor + slack
    exact, _ = fit(max_gap, None)
    few, adjusted = fit(max_gap, 60)
    gap = partial_statistical_parity_difference(
        None, adjusted, sensitive_features=groups, interval=interval, gap_scale=scale
    )
    assert gap <= max_gap + 1e-12
    for before, after in by_group(groups, scores, adjusted):
        assert ((np.diff(before) > 0) == (np.diff(after) > 0)).all()
    least = exact.result_.mean_squared_change
    assert few.result_.mean_squared_change >= least * (1 - 1e-4) - 1e-9
    assert few.result_.mean_squared_change <= 2.5 * least + 0.01  # sixty knots are few, more so with ties


def barycentre(ranked, shares, u):
    """Mean of the groups' quantiles at u: the quantile of the Wasserstein-2 barycentre on the line."""
    at = [np.clip(np.ceil(u * one.size - 1e-9).astype(int) - 1, 0, one.size - 1) for one in ranked]
    return sum(share * one[i] for share, one, i in zip(shares, ranked, at, strict=True))


@given(st.integers(0, 10**6), st.integers(2, 4), st.integers(10, 80))
def test_on_everybody_at_the_floor_it_is_the_barycentre_up_to_a_step(seed, n_groups, n):
    """Nobody but the first and last two of a group is further from it than one member's step.

    At the floor, of one member, the best of a group is not bounded from above, nor the worst from below.
    """
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(n_groups), n)
    scores = rng.normal(size=groups.size) * (1 + groups) + groups
    adjuster = PartialParityAdjuster((0.0, 1.0), 1 / n, max_knots=None)
    adjusted = adjuster.fit_transform(scores, sensitive_features=groups)
    ranked = [np.sort(scores[groups == k]) for k in range(n_groups)]
    u = (np.arange(n) + 1) / n
    for k in range(n_groups):
        mine = np.sort(adjusted[groups == k])
        lowest = barycentre(ranked, np.full(n_groups, 1 / n_groups), u - 1 / n)
        highest = barycentre(ranked, np.full(n_groups, 1 / n_groups), u + 1 / n)
        assert (mine >= lowest - 1e-5)[2:].all()
        assert (mine <= highest + 1e-5)[:-2].all()


@given(st.integers(0, 10**6), st.lists(st.integers(20, 120), min_size=2, max_size=4))
def test_at_the_floor_it_moves_scores_by_no_more_than_the_barycentre_does(seed, sizes):
    """Placing everybody at the barycentre's quantiles is allowed there too, and costs more."""
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(len(sizes)), sizes)
    scores = rng.normal(size=groups.size) * (1 + groups) + groups
    floor = sum(sorted(1 / size for size in sizes)[-2:]) / 2
    adjuster = PartialParityAdjuster((0.0, 1.0), floor, max_knots=None).fit(scores, sensitive_features=groups)
    assert adjuster.result_.floor == pytest.approx(floor)
    ranked = [np.sort(scores[groups == k]) for k in range(len(sizes))]
    moved = [
        barycentre(ranked, np.array(sizes) / sum(sizes), (np.arange(one.size) + 0.5) / one.size) - one
        for one in ranked
    ]
    assert adjuster.result_.mean_squared_change <= np.mean(np.concatenate(moved) ** 2) + 1e-9
