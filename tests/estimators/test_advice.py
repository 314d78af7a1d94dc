"""Where an intercept per group would recover most of the accuracy that a constraint costs."""

from __future__ import annotations

import re

import numpy as np
import pytest

from partialfair import PartialFairClassifier

FAST = {"interval": (0.1, 0.6), "max_gap": 0.1}


@pytest.fixture(scope="module")
def rows():
    """Rows whose useful feature is shifted by group: without the group a small gap costs the feature."""
    rng = np.random.default_rng(0)
    groups, merit = rng.choice(["a", "b"], 2000), rng.normal(size=2000)
    X = np.column_stack([merit + 1.5 * (groups == "a"), rng.normal(size=2000)])
    y = merit + 0.5 * X[:, 1] + 0.5 * rng.normal(size=2000) + 0.8 * (groups == "a") > 0
    return X, y, groups


@pytest.mark.parametrize("higher_is_better", [True, False])
def test_the_estimate_is_what_a_fit_reaches(rows, higher_is_better):
    X, y, groups = rows
    clf = PartialFairClassifier(higher_is_better=higher_is_better, **FAST)
    result = clf.fit(X, y, sensitive_features=groups).result_
    assert "may be unlawful" in result.advice
    assert f"advice: {result.advice}" in str(result)
    recovered, accuracy = map(float, re.findall(r"0\.\d+", result.advice))
    assert accuracy == pytest.approx(result.accuracy, abs=0.01)
    with_terms = clf.set_params(group_terms="intercept").fit(X, y, sensitive_features=groups).result_
    assert recovered == pytest.approx(with_terms.accuracy, abs=0.02)
    assert with_terms.advice is None


@pytest.mark.filterwarnings("ignore")  # of a threshold outside the interval
def test_no_advice_without_need(rows):
    X, y, groups = rows
    # The limit costs nothing, the constraint is at a threshold, or there is none.
    for settings in (
        {"max_gap": 0.9},
        {"constraint": "demographic_parity", "max_gap": 0.3},
        {"constraint": None},
    ):
        clf = PartialFairClassifier(**{**FAST, **settings}).fit(X, y, sensitive_features=groups)
        assert clf.result_.advice is None


@pytest.mark.filterwarnings("ignore")  # of an infeasible model
def test_no_advice_where_a_shift_does_not_help(rows):
    rng = np.random.default_rng(0)
    groups = rng.choice(["a", "b"], 2000)
    x = rng.normal(size=2000)
    # The feature has other slopes in the groups: shifts leave the gap.
    X = np.where(groups == "a", 3 * x, x)[:, None]
    clf = PartialFairClassifier(**FAST).fit(X, x + rng.normal(size=2000) > 0.5, sensitive_features=groups)
    assert clf.result_.advice is None
