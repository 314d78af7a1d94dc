"""Lists of constraints with limits from 0 to 1: those that cannot bind are satisfied."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from partialfair import FitOptions, PartialFairClassifier
from partialfair.constraints import (
    DemographicParity,
    EqualizedOdds,
    EqualOpportunity,
    GroupAUC,
    StatisticalParity,
)
from partialfair.constraints.parity import RankGrid
from partialfair.constraints.surrogates import Ramp
from partialfair.data.groups import encode_groups
from partialfair.data.intervals import as_interval_set
from partialfair.exceptions import InputError

TYPES = [StatisticalParity, DemographicParity, GroupAUC, EqualOpportunity, EqualizedOdds]
BY_GROUP = {"a": (0.1, 0.5), "b": (0.0, 0.4), "c": [(0.1, 0.2), (0.5, 0.9)]}
INTERVALS = [(0.0, 1.0), (0.05, 0.3), [(0.1, 0.3), (0.5, 0.8)], BY_GROUP]


def draw_rows(seed, n=90):
    rng = np.random.default_rng(seed)
    groups = np.array(["a", "b", "c"])[rng.permutation(n) % 3]
    X = rng.normal(size=(n, 2)) + 0.4 * (groups == "a")[:, None]
    return X, (X[:, 0] + rng.normal(size=n) > 0).astype(int), groups


def draw_list(rng):
    constraints = []
    for _ in range(rng.integers(1, 4)):
        kind = TYPES[rng.integers(len(TYPES))]
        absolute = kind is not GroupAUC and rng.random() < 0.5
        interval = INTERVALS[rng.integers(len(INTERVALS) - absolute)]
        limit = float(rng.choice([0.0, 0.2, 0.999, 1.0, 1.0]))
        constraints.append(kind(interval, limit, "absolute" if absolute else "interval"))
    return constraints


def test_any_list_of_limits_can_be_fitted():
    X, y, groups = draw_rows(0)
    rng = np.random.default_rng(8)
    for _ in range(8):
        constraints = draw_list(rng)
        model = PartialFairClassifier(constraints, min_group_size=1, options=FitOptions(search_steps=10))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model.fit(X, y, sensitive_features=groups)
        except InputError:  # two limits for one constraint, or limits that exclude each other
            continue
        assert [one.max_gap for one in model.result_.constraints] == [one.max_gap for one in constraints]
        for constraint, gap in zip(constraints, model.result_.gaps, strict=True):
            assert 0 <= gap.value <= 1
            assert gap.value <= constraint.max_gap or constraint.max_gap < 1


def test_a_limit_of_one_beside_another_does_not_divide_by_zero():
    rng = np.random.default_rng(3)
    groups = rng.integers(0, 2, 800)
    X = rng.normal(size=(800, 4)) + 0.6 * groups[:, None] * [1, 0, 0, 0]
    y = (X[:, 0] + X[:, 1] + rng.normal(size=800) > 0.8).astype(int)
    constraints = [StatisticalParity((0.05, 0.30), 0.2), StatisticalParity((0.30, 0.55), 1.0)]
    fits = []
    for stated in (constraints, constraints[:1]):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fits.append(PartialFairClassifier(stated).fit(X, y, sensitive_features=groups))
    assert len(fits[0].result_.gaps) == 2
    assert fits[0].result_.gaps[0].value == pytest.approx(fits[1].result_.gaps[0].value)
    np.testing.assert_allclose(fits[0].coef_, fits[1].coef_, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("interval", INTERVALS, ids=str)
def test_constraints_that_cannot_bind_have_no_functions(kind, interval):
    _, y, groups = draw_rows(1)
    limit = 0.5 if kind is GroupAUC else 1.0
    stated = kind(interval, limit)
    block = stated.build(encode_groups(groups), np.ones(y.size), Ramp(1.0), y == 1)
    assert block.system.m == 0
    assert (
        kind(interval, 0.9 * limit).build(encode_groups(groups), np.ones(y.size), Ramp(1.0), y == 1).system.m
    )
    if kind is not GroupAUC and interval is not BY_GROUP:
        absolute = kind(interval, 1.0, "absolute")
        assert absolute.build(encode_groups(groups), np.ones(y.size), Ramp(1.0), y == 1).system.m == 0


def test_a_grid_of_bands_as_wide_as_the_interval_stays():
    parts = [as_interval_set((0.3, 0.55))] * 2
    for scale in ("interval", "absolute"):
        grid = RankGrid((0.0, 1.0), 1.0, scale)
        assert grid.refined([0.3, 0.5], parts) is grid
