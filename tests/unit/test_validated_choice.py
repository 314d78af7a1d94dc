"""Tests in a fixed order: what is certified, by brute force, and how often wrongly, by simulation."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from partialfair import PartialFairClassifier, fairness_path
from partialfair.estimators.fitted_path import (
    estimate_rows_needed,
    find_lowest,
    place_starts,
    validate_places,
)

P_VALUES = st.lists(st.sampled_from([0.001, 0.01, 0.02, 0.03, 0.049, 0.06, 0.5]), min_size=1, max_size=9)


def certified(p_values, error=0.05, starts=None):
    return validate_places(len(p_values), error, lambda at, level: p_values[at] <= level, starts)


def by_definition(p_values, error, starts):
    """The fallback procedure as published: the level of a test goes on if it rejects, else it is lost."""
    share = [error / len(starts) if at in starts else 0.0 for at in range(len(p_values))]
    level, found = [], []
    for at, p in enumerate(p_values):
        inherited = level[at - 1] if at and (at - 1) in found else 0.0
        level.append(share[at] + inherited)
        if level[at] > 0 and p <= level[at] * (1 + 1e-12):
            found.append(at)
    return found


@given(P_VALUES, st.sets(st.integers(0, 8), min_size=1))
def test_it_is_the_fallback_procedure(p_values, places):
    starts = sorted(place for place in places if place < len(p_values)) or [0]
    assert list(certified(p_values, 0.05, starts)) == by_definition(p_values, 0.05, starts)


@given(P_VALUES, st.sampled_from([1, 2, 3]))
def test_no_more_is_certified_than_by_walks_from_every_start_and_no_less(p_values, n_starts):
    """Walks that keep to the share of their own start, as in Learn then Test, certify a subset."""
    starts = place_starts(len(p_values), n_starts)
    walks = set()
    for start in starts:
        for at in range(start, len(p_values)):
            if p_values[at] > 0.05 / len(starts):
                break
            walks.add(at)
    assert walks <= set(certified(p_values, 0.05, starts))


@given(P_VALUES)
def test_larger_errors_certify_more(p_values):
    assert set(certified(p_values, 0.02)) <= set(certified(p_values, 0.05)) <= set(certified(p_values, 0.2))


@given(P_VALUES, st.floats(0.1, 1.0))
def test_smaller_p_values_certify_more(p_values, factor):
    assert set(certified(p_values)) <= set(certified([factor * p for p in p_values]))


def test_levels_add_up_along_a_walk():
    assert certified([0.0] * 4, 0.04, [0, 2]) == pytest.approx({0: 0.02, 1: 0.02, 2: 0.04, 3: 0.04})
    assert certified([1.0, 0.0, 0.0, 0.0], 0.04, [0, 2]) == pytest.approx({2: 0.02, 3: 0.02})
    assert certified([]) == {}


def test_places_after_a_failure_are_not_asked():
    asked = []

    def passes(at, level):
        asked.append(at)
        return at not in (1, 5)

    validate_places(8, 0.05, passes, [0, 4])
    assert asked == [0, 1, 4, 5]


@pytest.mark.parametrize("n_models", range(10))
def test_walks_begin_at_the_first_and_inside_the_order(n_models):
    for n_starts in (1, 2, 3):
        starts = place_starts(n_models, n_starts)
        assert starts == () if n_models == 0 else starts[0] == 0 and max(starts) < n_models
        assert len(starts) == min(n_starts, n_models)


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.95])
@pytest.mark.parametrize(
    "true",
    [
        "0000000000",  # nothing may be certified
        "1111100000",  # as it should be: fair models first
        "0000011111",  # adverse: those that seem fairest are not
        "0101010101",
    ],
)
def test_wrong_certificates_are_as_rare_as_promised(true, correlation):
    """P-values are uniform where a model is unfair, the worst that a valid test may have."""
    rng = np.random.default_rng(0)
    fair = np.array([digit == "1" for digit in true])
    n_draws, error = 4000, 0.1
    common, own = rng.normal(size=(n_draws, 1)), rng.normal(size=(n_draws, fair.size))
    normal = np.sqrt(correlation) * common + np.sqrt(1 - correlation) * own
    p_values = stats.norm.sf(normal + 3.0 * fair)
    wrong = sum(any(not fair[at] for at in certified(row, error)) for row in p_values)
    assert wrong / n_draws <= error + 3 * math.sqrt(error * (1 - error) / n_draws)


def test_the_error_is_used_up_where_one_model_is_unfair():
    """Independent tests: 1 − (1 − δ/2)² for two starts at unfair models."""
    rng = np.random.default_rng(1)
    p_values = rng.random((20_000, 4))
    share = np.mean([bool(certified(row, 0.1, [0, 2])) for row in p_values])
    assert share == pytest.approx(1 - 0.95**2, abs=0.006)


def test_the_lowest_bound_is_that_of_all_at_once():
    asked = []

    def bound(at, error):
        asked.append(error)
        return [0.3, math.nan, 0.2][at]

    assert find_lowest(3, 0.06, bound) == (2, 0.2)
    assert asked == pytest.approx([0.02] * 3)
    assert math.isnan(find_lowest(2, 0.05, lambda at, error: math.nan)[1])


def test_rows_needed():
    # The radius must fall from .1 to .05: four times as many.
    assert estimate_rows_needed(1000, [0.05, 0.2], [0.1, 0.01], 0.1) == 4000
    # Two digits are enough, and as many as there were are not.
    assert estimate_rows_needed(1000, [0.05], [0.0513], 0.1) == 1100
    assert estimate_rows_needed(1000, [0.05], [0.01], 0.1) == 1100
    assert estimate_rows_needed(1000, [0.1, math.nan], [0.1, math.nan], 0.1) is None


def test_where_an_estimate_is_close_to_the_limit_no_number_of_rows_is_advised():
    """The number would be noise: a millionth more or less of the estimate changes it a thousand times."""
    rng = np.random.default_rng(0)
    groups = rng.choice(["a", "b"], 2000)
    X = rng.normal(size=(2000, 2)) + np.outer(groups == "a", [1, 0])
    y = X.sum(axis=1) + rng.normal(size=2000) > 0.5
    clf = PartialFairClassifier(interval=(0.1, 0.6))
    path = fairness_path(clf, X, y, sensitive_features=groups, max_gaps=[0.3], random_state=0)
    least = min(path.gap(point).gap for point in path.points)
    said = path.explain_shortfall(least + 1e-4, 0.05)
    assert "too close to" in said
    assert "held-out rows would be enough" not in said
    assert "held-out rows would be enough" in path.explain_shortfall(least + 0.1, 0.05)
