"""Every constraint, in every form of interval, under changes that must not matter, and beside its metric."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from partialfair.constraints import (
    DemographicParity,
    EqualizedOdds,
    EqualOpportunity,
    GroupAUC,
    StatisticalParity,
)
from partialfair.constraints.base import Constraint
from partialfair.constraints.surrogates import Ramp, RoundedRamp, Sigmoid
from partialfair.data.groups import encode_groups
from partialfair.training.named_constraints import NAMED_CONSTRAINTS
from partialfair_paper.quadratic import InterGroupPairwise, IntraGroupPairwise, QuadraticGroupAUC
from tests import brute
from tests.blocks import atoms_of, functions_of, slopes_of
from tests.property.strategies import EVERYONE, GROUP_NAMES, STEP, as_array, as_floats, unions
from tests.sizes import examples

QUADRATIC = (QuadraticGroupAUC, InterGroupPairwise, IntraGroupPairwise)
SCALES = ("interval", "absolute")
STATEMENTS = {
    f"{kind.__name__}-{scale}": (kind, {} if scale == "interval" else {"gap_scale": scale})
    for kind in (StatisticalParity, DemographicParity, EqualOpportunity, EqualizedOdds)
    for scale in SCALES
} | {kind.__name__: (kind, {}) for kind in (GroupAUC, *QUADRATIC)}
PARTIAL = [name for name, (kind, _) in STATEMENTS.items() if kind not in QUADRATIC]
WITH_METRICS = {
    DemographicParity: brute.partial_demographic_parity_difference,
    EqualOpportunity: brute.partial_equal_opportunity_difference,
    EqualizedOdds: brute.partial_equalized_odds_difference,
    GroupAUC: brute.partial_group_auc_difference,
}
SURROGATES = st.sampled_from([Ramp(0.8), RoundedRamp(0.8), Sigmoid(0.5)])
MAX_GAP = 0.07
N_POINTS = 3

pytestmark = [
    pytest.mark.no_cover,  # tracing would take as long as checking; quicker tests run the same lines
    # Values are those of the definition, wherever a threshold lies.
    pytest.mark.filterwarnings("ignore::partialfair.exceptions.ThresholdOutsideIntervalWarning"),
]
few = examples(4)


def every(names):
    return pytest.mark.parametrize("name", names)


@dataclass(frozen=True)
class Rows:
    """Rows to train on: tied or not, weighted or not, with both labels in every group."""

    scores: np.ndarray
    groups: np.ndarray
    positive: np.ndarray
    weights: list[Fraction] | None
    interval: Any
    seed: int

    @property
    def n(self) -> int:
        return self.scores.size

    @cached_property
    def thresholds(self) -> np.ndarray:
        return np.random.default_rng(self.seed).normal(size=N_POINTS)

    def take(self, rows) -> Rows:
        weights = self.weights and [self.weights[i] for i in rows]
        changed = {name: getattr(self, name)[rows] for name in ("scores", "groups", "positive")}
        return replace(self, **changed, weights=weights)


def measure(interval) -> Fraction:
    return brute.measure(brute.parts_of(interval, None))


@st.composite
def wide_intervals(draw):
    """One interval, or a union, that holds at least half of the ranks, so that no group is too thin."""
    interval = draw(st.one_of(st.just(EVERYONE), unions(), unions(2), unions(3)))
    if measure(interval) >= Fraction(1, 2):
        return interval
    ends = [Fraction(0), *sorted(end for part in brute.parts_of(interval, None) for end in part), Fraction(1)]
    return [part for part in zip(ends[::2], ends[1::2], strict=True) if part[0] < part[1]]


@st.composite
def rows_to_train_on(draw, *, weights=(None, "integer", "rational"), per_group=True, scores=None) -> Rows:
    n_groups = draw(st.integers(2, 4))
    sizes = draw(st.lists(st.integers(4, 6), min_size=2 * n_groups, max_size=2 * n_groups))
    groups = np.repeat(np.repeat(GROUP_NAMES[:n_groups], 2), sizes)
    positive = np.repeat(np.tile([True, False], n_groups), sizes)
    seed = draw(st.integers(0, 10_000))
    rng = np.random.default_rng(seed)
    kind = draw(st.sampled_from(scores or ["tied", "distinct"]))
    values = rng.normal(size=groups.size)
    values = np.round(values, 1) if kind == "tied" else values
    drawn = None
    if (which := draw(st.sampled_from(weights))) is not None:
        choices = {"integer": [1, 1, 2, 3], "rational": [Fraction(1, 3), Fraction(5, 7), Fraction(1, 10), 2]}
        drawn = [Fraction(choices[which][k]) for k in rng.integers(4, size=groups.size)]
        for size, stop in zip(sizes, np.cumsum(sizes), strict=True):
            if size > 4:  # the last of a group and label is absent, if enough are left
                drawn[stop - 1] = Fraction(0)
    interval = draw(wide_intervals())
    if per_group and draw(st.booleans()):
        interval = draw(st.fixed_dictionaries(dict.fromkeys(GROUP_NAMES[:n_groups], wide_intervals())))
    return Rows(values, groups, positive, drawn, interval, seed)


def stated(name: str, rows: Rows, **changes) -> Constraint:
    kind, options = STATEMENTS[name]
    if kind in QUADRATIC:
        return kind(changes.get("max_gap", MAX_GAP))
    interval = rows.interval
    if options and isinstance(interval, Mapping):  # the absolute scale refuses intervals that differ
        interval = next(iter(interval.values()))
    if kind is StatisticalParity:
        options = options | {"n_points": N_POINTS}
        changes.pop("threshold", None)
    elif kind is GroupAUC:
        changes.pop("threshold", None)
    return kind(as_floats(interval), **({"max_gap": MAX_GAP} | options | changes))


def built(constraint: Constraint, rows: Rows, sigma):
    weights = np.ones(rows.n) if rows.weights is None else as_array(rows.weights)
    return constraint.build(encode_groups(rows.groups), weights, sigma, rows.positive)


def values(constraint: Constraint, rows: Rows, sigma, *, shift=0.0, factor=1.0):
    block = built(constraint, rows, sigma)
    theta = factor * rows.thresholds[: block.bank.n_theta] + shift
    return functions_of(block, rows.scores, theta)


def same(expected):
    return pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_every_constraint_is_here():
    assert {kind for kind, _ in STATEMENTS.values()} == {
        *(one.kind for one in NAMED_CONSTRAINTS.values()),
        *QUADRATIC,
    }


# Rows and weights


@every(STATEMENTS)
@few
@given(rows=rows_to_train_on(weights=("integer",)), sigma=SURROGATES)
def test_integer_weights_are_repeated_rows(name, rows, sigma):
    """In values and in slopes: members that are tied at an end of the interval share it by weight."""
    repeats = [i for i in range(rows.n) for _ in range(int(rows.weights[i]))]
    repeated = replace(rows.take(repeats), weights=None)
    assert values(stated(name, rows), rows, sigma) == same(values(stated(name, rows), repeated, sigma))
    by_weight, by_repeats = (built(stated(name, rows), each, sigma) for each in (rows, repeated))
    coefficients = np.random.default_rng(rows.seed).normal(size=by_weight.bank.n_atoms)
    weighted, split = (
        slopes_of(block, coefficients, each.scores, rows.thresholds[: block.bank.n_theta])
        for block, each in ((by_weight, rows), (by_repeats, repeated))
    )
    assert weighted.scores == same(np.bincount(repeats, split.scores, minlength=rows.n))
    assert weighted.theta == same(split.theta)


@every(STATEMENTS)
@few
@given(rows=rows_to_train_on(weights=("integer", "rational")), sigma=SURROGATES)
def test_weight_zero_is_a_removed_row(name, rows, sigma):
    left = rows.take([i for i in range(rows.n) if rows.weights[i]])
    assert values(stated(name, rows), rows, sigma) == same(values(stated(name, rows), left, sigma))


@every(STATEMENTS)
@few
@given(rows=rows_to_train_on(), sigma=SURROGATES, data=st.data())
def test_neither_the_order_of_rows_nor_having_all_of_them_twice_matters(name, rows, sigma, data):
    order = data.draw(st.permutations(range(rows.n))) * data.draw(st.integers(1, 2))
    assert values(stated(name, rows), rows, sigma) == same(
        values(stated(name, rows), rows.take(order), sigma)
    )


@every(STATEMENTS)
@few
@given(
    rows=rows_to_train_on(weights=("rational",)), sigma=SURROGATES, factor=st.sampled_from([1e-6, 7.0, 1e9])
)
def test_the_unit_of_the_weights_does_not_matter(name, rows, sigma, factor):
    scaled = replace(rows, weights=[float(weight) * factor for weight in rows.weights])
    assert values(stated(name, rows), rows, sigma) == same(values(stated(name, rows), scaled, sigma))


# Scores and groups


@every(STATEMENTS)
@few
@given(rows=rows_to_train_on(), sigma=SURROGATES, shift=st.sampled_from([-3.0, 0.7]))
def test_scores_and_thresholds_may_be_moved_together(name, rows, sigma, shift):
    moved = replace(rows, scores=rows.scores + shift)
    found = values(stated(name, rows, threshold=0.1 + shift), moved, sigma, shift=shift)
    assert found == same(values(stated(name, rows, threshold=0.1), rows, sigma))


@every(PARTIAL)
@few
@given(rows=rows_to_train_on(), sigma=SURROGATES, factor=st.sampled_from([0.1, 6.0]))
def test_the_unit_of_scores_is_that_of_the_width(name, rows, sigma, factor):
    scaled, wider = replace(rows, scores=factor * rows.scores), replace(sigma, width=factor * sigma.width)
    found = values(stated(name, rows, threshold=0.1 * factor), scaled, wider, factor=factor)
    assert found == same(values(stated(name, rows, threshold=0.1), rows, sigma))


@every(STATEMENTS)
@few
@given(rows=rows_to_train_on(), sigma=SURROGATES, unit=st.sampled_from([0.125, 1.0, 64.0]))
def test_in_other_units_constraints_say_the_same(name, rows, sigma, unit):
    """f(s, θ) of scores is f'(s / unit, θ / unit)."""
    constraint = stated(name, rows, threshold=0.1)
    scaled = replace(rows, scores=rows.scores / unit)
    narrower = replace(sigma, width=sigma.width / unit)
    in_units = values(constraint.in_units(unit), scaled, narrower, factor=1 / unit)
    assert in_units == pytest.approx(values(constraint, rows, sigma), rel=1e-9, abs=1e-9)
    assert constraint.in_units(unit).in_units(1 / unit) == constraint


@every(STATEMENTS)
@few
@given(rows=rows_to_train_on(), sigma=SURROGATES)
def test_names_of_groups_do_not_matter(name, rows, sigma):
    """Functions may come in another order."""
    renamed = {group: f"z{-ord(group[0]) + 200}" for group in GROUP_NAMES}
    interval = rows.interval
    if isinstance(interval, Mapping):
        first = next(iter(interval.values()))
        if STATEMENTS[name][1]:
            interval = dict.fromkeys(interval, first)
        interval = {renamed[group]: own for group, own in interval.items()}
    others = replace(rows, groups=np.array([renamed[group] for group in rows.groups]), interval=interval)
    found = values(stated(name, others), others, sigma)
    assert np.sort(found) == same(np.sort(values(stated(name, rows), rows, sigma)))


@every(STATEMENTS)
@few
@given(rows=rows_to_train_on(per_group=False), sigma=SURROGATES)
def test_scores_of_zero_are_feasible_if_all_groups_have_one_interval(name, rows, sigma):
    block = built(stated(name, rows, threshold=0.3), rows, sigma)
    assert functions_of(block, np.zeros(rows.n), block.thresholds.starts).max(initial=0) <= 1e-9


# Gaps and intervals


@every([name for name in STATEMENTS if name != "StatisticalParity-interval"])  # whose grid depends on κ
@few
@given(rows=rows_to_train_on(), sigma=SURROGATES)
def test_a_larger_gap_asks_for_that_much_less(name, rows, sigma):
    strict, loose = (values(stated(name, rows, max_gap=gap), rows, sigma) for gap in (0.05, 0.08))
    if name == "StatisticalParity-absolute":  # lower bounds stay, upper ones move; those above 1 are dropped
        assert loose.max(initial=-1) <= strict.max(initial=-1) + 1e-12
    else:
        assert strict - loose == same(np.full(strict.size, 0.03))


@every(PARTIAL)
@few
@given(rows=rows_to_train_on(per_group=False), sigma=SURROGATES)
def test_the_same_interval_for_each_group_is_a_common_interval(name, rows, sigma):
    mapping = replace(rows, interval=dict.fromkeys(np.unique(rows.groups).tolist(), rows.interval))
    kind, options = STATEMENTS[name]
    by_group = kind(as_floats(mapping.interval), MAX_GAP, **options)
    common = kind(as_floats(rows.interval), MAX_GAP, **options)
    one, other = (built(constraint, rows, sigma) for constraint in (by_group, common))
    assert one.names == other.names
    theta = np.random.default_rng(rows.seed).normal(size=one.bank.n_theta)
    found, expected = (functions_of(block, rows.scores, theta) for block in (one, other))
    assert found == same(expected)


@every(PARTIAL)
@few
@given(
    rows=rows_to_train_on(per_group=False),
    sigma=SURROGATES,
    ends=st.lists(st.integers(1, 10), min_size=1, max_size=3, unique=True),
)
def test_touching_intervals_are_joined(name, rows, sigma, ends):
    ends = [STEP * k for k in (0, *sorted(ends), 19)]
    touching = replace(rows, interval=[*pairwise(ends)])
    joined = replace(rows, interval=(ends[0], ends[-1]))
    found = values(stated(name, touching), rows, sigma)
    assert found == same(values(stated(name, joined), rows, sigma))


# Differences of convex functions


@every(STATEMENTS)
@few
@given(rows=rows_to_train_on(), sigma=SURROGATES, seed=st.integers(0, 1000), tied=st.booleans())
def test_tangents_of_the_second_part_lie_below_it(name, rows, sigma, seed, tied):
    """f⁺(y) − [f⁻(x) + ⟨g, y − x⟩] ≥ f(y), and equal at x: with ties at x, or y, or both."""
    block, rng = built(stated(name, rows), rows, sigma), np.random.default_rng(seed)
    system, bank = block.system, block.bank
    y = rng.normal(size=rows.n), rng.normal(size=bank.n_theta)
    x = rows.scores, rows.thresholds[: bank.n_theta]
    y = tuple(np.round(part, 1) for part in y) if tied else y
    at_x, at_y = atoms_of(block, *x), atoms_of(block, *y)
    tangents = system.tangents(at_x)
    assert system.parts(at_x)[0] - tangents.values == same(system.values(at_x))
    for i in range(system.m):
        slope = slopes_of(block, tangents.slopes[i], *x)
        line = tangents.values[i] + slope.scores @ (y[0] - x[0]) + slope.theta @ (y[1] - x[1])
        assert line <= system.parts(at_y)[1][i] + 1e-9


# The metric


@every([name for name, (kind, _) in STATEMENTS.items() if kind in WITH_METRICS])
@few
@given(rows=rows_to_train_on(scores=["tied"]))
def test_a_narrow_surrogate_is_the_metric(name, rows):
    """Ties within pairs count by half, and no score is the threshold."""
    constraint = stated(name, rows, threshold=0.05)
    options = {"interval": rows.interval, "sample_weight": rows.weights}
    if STATEMENTS[name][1]:
        options["gap_scale"] = "absolute"
        if isinstance(rows.interval, Mapping):
            options["interval"] = next(iter(rows.interval.values()))
    if type(constraint) is not GroupAUC:
        options["threshold"] = 0.05
    if type(constraint) in (EqualOpportunity, EqualizedOdds):
        options["rank_within"] = "group_and_label"
    exact = WITH_METRICS[type(constraint)](
        rows.positive.astype(int).tolist(),
        rows.scores.tolist(),
        sensitive_features=rows.groups.tolist(),
        **options,
    )
    for sigma in (Ramp(1e-3), RoundedRamp(1e-3), Sigmoid(1e-4)):
        assert values(constraint, rows, sigma).max() == pytest.approx(float(exact) - MAX_GAP, abs=1e-9)
