"""``outside="no_worse"``: exact gaps next to the interval are at most those without a constraint."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier

from partialfair import FitOptions, PartialFairClassifier, PartialFairRegressor, fairness_path
from partialfair.constraints import DemographicParity, StatisticalParity
from partialfair.data.intervals import as_interval_set
from partialfair.exceptions import InputError
from partialfair.metrics import partial_statistical_parity_difference
from partialfair.optimization.solvers import GOOD
from partialfair.persistence import load_model, save_model
from partialfair.training.adjoining import adjoining_intervals
from partialfair.trees import PartialFairTrees

INTERVAL, ABOVE, BELOW = (0.15, 0.4), (0.0, 0.15), (0.4, 0.65)
SLACK = 1e-9
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def draw(n=600, seed=0):
    """Rows whose groups differ in the interval: a constraint there moves a part of the gap above it."""
    rng = np.random.default_rng(seed)
    groups = rng.choice(["a", "b"], n, p=[0.6, 0.4])
    X = rng.normal(size=(n, 4))
    X[:, 0] += 0.4 * (groups == "a")
    y = X @ [1.0, 1.0, 0.7, 0.4] + rng.logistic(size=n) > 0.5
    return X, y, groups


@pytest.fixture(scope="module")
def rows():
    return draw()


def gap_of(scores, groups, interval, **settings):
    return partial_statistical_parity_difference(
        None, scores, sensitive_features=groups, interval=interval, **settings
    )


def scores_of(model, X):
    return model.predict(X) if isinstance(model, PartialFairRegressor) else model.decision_function(X)


def check(model, X, y, groups, pieces, *, sign=1.0, **settings):
    """The gaps in the pieces, from the definition, are no larger than without a constraint; `result_` agrees.

    Returns the model without a constraint.
    """
    free = clone(model).set_params(constraint=None, outside="free")
    free.fit(X, y, sensitive_features=groups)
    result = model.result_
    assert result.satisfied
    assert result.status in GOOD
    assert [constraint.interval for constraint in result.outside] == pieces
    for piece, limit, reached in zip(pieces, result.outside, result.outside_gaps, strict=True):
        before, after = (gap_of(sign * scores_of(one, X), groups, piece, **settings) for one in (free, model))
        assert after <= before + SLACK
        assert limit.max_gap == pytest.approx(before, abs=SLACK)
        assert reached.value == pytest.approx(after, abs=SLACK)
    return free


def test_the_gap_moves_without_limits_and_not_with_them(rows):
    X, y, groups = rows
    settings = {"interval": INTERVAL, "max_gap": 0.1, "options": FitOptions(search_steps=30)}
    free = PartialFairClassifier(**settings).fit(X, y, sensitive_features=groups)
    assert free.result_.outside == free.result_.outside_gaps == ()
    model = PartialFairClassifier(**settings, outside="no_worse").fit(X, y, sensitive_features=groups)
    without = check(model, X, y, groups, [ABOVE, BELOW])
    assert model.result_.gap <= 0.1 + SLACK
    moved = [
        gap_of(free.decision_function(X), groups, piece) - gap_of(scores_of(without, X), groups, piece)
        for piece in (ABOVE, BELOW)
    ]
    assert max(moved) > 0.02  # or this would show nothing
    assert len(model.result_.constraints) == len(model.result_.gaps) == 1
    assert "outside, at the adjoining ranks 40–65" in str(model.result_)


@pytest.mark.parametrize(
    ("interval", "pieces"),
    [
        ((0.0, 0.3), [(0.3, 0.6)]),
        ((0.7, 1.0), [(0.4, 0.7)]),
        ((0.5, 0.9), [(0.1, 0.5), (0.9, 1.0)]),
        ([(0.1, 0.3), (0.5, 0.8)], [(0.0, 0.1), (0.3, 0.5), (0.8, 1.0)]),
        ((0.0, 1.0), []),
    ],
    ids=str,
)
def test_pieces_are_clipped_and_those_of_the_complement_for_unions(rows, interval, pieces):
    X, y, groups = rows
    model = PartialFairClassifier(
        interval=interval, max_gap=0.15, outside="no_worse", options=FitOptions(search_steps=20)
    )
    model.fit(X, y, sensitive_features=groups)
    pieces = [pytest.approx(piece) for piece in pieces]
    assert [constraint.interval for constraint in model.result_.outside] == pieces
    check(model, X, y, groups, [constraint.interval for constraint in model.result_.outside])


ends = st.lists(st.floats(0, 1), min_size=2, max_size=8, unique=True).map(sorted)


@given(ends)
def test_pieces_touch_the_interval_and_nothing_else(ends):
    parts = [pair for pair in zip(ends[::2], ends[1::2], strict=False) if pair[1] - pair[0] > 1e-6]
    if not parts:
        return
    interval = as_interval_set(parts)
    pieces = adjoining_intervals(interval)
    borders = {end for part in interval.parts for end in part}
    for low, high in pieces:
        assert 0 <= low < high <= 1
        assert {low, high} & borders
        assert all(high <= begin or low >= end for begin, end in interval.parts)
    if len(interval.parts) == 1:
        assert all(high - low <= interval.measure + 1e-12 for low, high in pieces)
    else:
        assert sum(high - low for low, high in pieces) == pytest.approx(1 - interval.measure)


def test_absolute_gaps_and_low_scores_that_are_good(rows):
    X, y, groups = rows
    settings = {"interval": INTERVAL, "outside": "no_worse", "options": FitOptions(search_steps=30)}
    absolute = PartialFairClassifier(gap_scale="absolute", max_gap=0.03, **settings)
    absolute.fit(X, y, sensitive_features=groups)
    check(absolute, X, y, groups, [ABOVE, BELOW], gap_scale="absolute")
    low = PartialFairClassifier(higher_is_better=False, max_gap=0.1, **settings)
    low.fit(X, y, sensitive_features=groups)
    check(low, X, y, groups, [ABOVE, BELOW], sign=-1.0)


def test_weights_count_in_limits_and_gaps(rows):
    X, y, groups = rows
    weights = np.random.default_rng(1).integers(0, 3, y.size)  # rows of weight 0 are absent
    settings = {"interval": INTERVAL, "max_gap": 0.15, "options": FitOptions(search_steps=20)}
    data = {"sensitive_features": groups, "sample_weight": weights}
    model = PartialFairClassifier(**settings, outside="no_worse").fit(X, y, **data)
    without = PartialFairClassifier(constraint=None).fit(X, y, **data)
    result = model.result_
    assert result.satisfied
    for piece, limit, reached in zip((ABOVE, BELOW), result.outside, result.outside_gaps, strict=True):
        before, after = (
            gap_of(one.decision_function(X), groups, piece, sample_weight=weights) for one in (without, model)
        )
        assert limit.max_gap == pytest.approx(before, abs=SLACK)
        assert reached.value == pytest.approx(after, abs=SLACK)
        assert after <= before + SLACK


def test_a_regressor(rows):
    X, _, groups = rows
    y = 30 * (X @ [1.0, 1.0, 0.5, 0.0]) + 7
    model = PartialFairRegressor(
        interval=INTERVAL, max_gap=0.15, outside="no_worse", options=FitOptions(search_steps=30)
    )
    check(model.fit(X, y, sensitive_features=groups), X, y, groups, [ABOVE, BELOW])


def test_trees_count_from_the_model_without_a_constraint_and_the_same_alpha(rows):
    X, y, groups = rows
    trees = HistGradientBoostingClassifier(max_iter=15, max_leaf_nodes=6, random_state=0).fit(X, y)
    model = PartialFairTrees(trees, interval=INTERVAL, max_gap=0.15, alpha=0.01, outside="no_worse")
    model.fit(X, y, sensitive_features=groups)
    result = model.result_
    assert result.satisfied
    assert [constraint.interval for constraint in result.outside] == [ABOVE, BELOW]
    refit = PartialFairTrees(trees, constraint=None, alpha=0.01).fit(X, y, sensitive_features=groups)
    for piece, limit, reached in zip((ABOVE, BELOW), result.outside, result.outside_gaps, strict=True):
        before, after = (gap_of(one.decision_function(X), groups, piece) for one in (refit, model))
        assert limit.max_gap == pytest.approx(before, abs=SLACK)
        assert reached.value == pytest.approx(after, abs=SLACK)
        assert after <= before + SLACK


def test_every_model_of_a_path(rows):
    X, y, groups = rows
    model = PartialFairClassifier(interval=INTERVAL, outside="no_worse", options=FitOptions(search_steps=20))
    path = fairness_path(
        model, X, y, sensitive_features=groups, max_gaps=[0.1, 0.25], validation=(X, y, groups)
    )
    first, *others = path.points
    for point in others:
        assert point.model.result_.satisfied
        for piece in (ABOVE, BELOW):
            assert gap_of(point.scores, groups, piece) <= gap_of(first.scores, groups, piece) + SLACK


@pytest.mark.filterwarnings("ignore::partialfair.exceptions.SmallSampleGapWarning")
def test_a_violation_outside_is_one(rows):
    X, y, groups = rows
    model = PartialFairClassifier(
        interval=INTERVAL, max_gap=0.1, outside="no_worse", options=FitOptions(search_steps=0)
    )
    result = model.fit(X, y, sensitive_features=groups).result_
    above, below = result.outside_gaps
    larger = replace(below, value=result.outside[1].max_gap + 1e-6)
    violated = replace(result, outside_gaps=(above, larger))
    assert result.satisfied
    assert result.satisfied_outside
    assert not violated.satisfied
    assert not violated.satisfied_outside
    # A fit that may not search long enough says so, too: its status never contradicts the exact gaps.
    model.set_params(max_gap=0.0, max_iter=1, options__n_starts=1).fit(X, y, sensitive_features=groups)
    result = model.result_
    exceeded = [
        gap.value > limit.max_gap + SLACK
        for gap, limit in zip(result.outside_gaps, result.outside, strict=True)
    ]
    assert result.satisfied == (result.gap <= SLACK and not any(exceeded)) == (result.status in GOOD)


def test_the_model_without_a_constraint_satisfies_all_limits_outside(rows):
    X, y, groups = rows
    model = PartialFairClassifier(
        interval=INTERVAL, max_gap=0.9, outside="no_worse", options=FitOptions(search_steps=0)
    )
    result = model.fit(X, y, sensitive_features=groups).result_
    check(model, X, y, groups, [ABOVE, BELOW])
    for gap, limit in zip(result.outside_gaps, result.outside, strict=True):
        assert gap.value == limit.max_gap


def test_a_gap_of_one_sets_no_limit():
    """Groups whose scores do not overlap differ in every interval by 1, and more they cannot."""
    rng = np.random.default_rng(0)
    groups = np.repeat(["a", "b"], 100)
    X = np.column_stack([(groups == "a") * 10.0 + rng.normal(size=200), rng.normal(size=200)])
    y = (groups == "a") ^ (rng.random(200) < 0.05)
    model = PartialFairClassifier(
        interval=INTERVAL, max_gap=0.9, outside="no_worse", options=FitOptions(search_steps=0)
    )
    model.fit(X, y, sensitive_features=groups)
    assert model.result_.outside == ()


def test_groups_too_small_for_a_piece_are_left_out_of_it():
    X, y, groups = draw(600, seed=3)
    groups = np.where(np.arange(600) < 12, "few", groups)
    model = PartialFairClassifier(
        interval=(0.1, 0.7),
        max_gap=0.6,
        min_group_size=4,
        outside="no_worse",
        options=FitOptions(search_steps=0),
    ).fit(X, y, sensitive_features=groups)
    (above, below), scores = model.result_.outside_gaps, model.decision_function(X)
    # 12 members: 7 in the interval and 3.6 below it, 1.2 above it.
    assert "few" not in {*above.groups, *below.groups}
    large = groups != "few"
    assert above.value == pytest.approx(gap_of(scores[large], groups[large], (0.0, 0.1)))


def test_files_hold_the_limits(rows, tmp_path):
    X, y, groups = rows
    model = PartialFairClassifier(
        interval=INTERVAL, max_gap=0.15, outside="no_worse", options=FitOptions(search_steps=0)
    )
    model.fit(X, y, sensitive_features=groups)
    save_model(model, tmp_path / "model.skops")
    loaded = load_model(tmp_path / "model.skops")
    assert loaded.outside == "no_worse"
    assert loaded.result_.outside == model.result_.outside
    assert loaded.result_.outside_gaps == model.result_.outside_gaps
    assert loaded.result_.satisfied


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"outside": "nowhere"}, "outside"),
        ({"enforce": "surrogate"}, "needs enforce='exact', not 'surrogate'"),
        ({"enforce": "population"}, "needs enforce='exact', not 'population'"),
        ({"constraint": None}, "not of no constraint"),
        ({"constraint": "demographic_parity", "interval": INTERVAL}, "not of DemographicParity"),
        ({"constraint": "group_auc", "interval": INTERVAL}, "not of GroupAUC"),
        (
            {"constraint": [StatisticalParity((0.1, 0.3)), DemographicParity((0.1, 0.3))]},
            "not of StatisticalParity and DemographicParity",
        ),
        ({"interval": {"a": (0.1, 0.3), "b": (0.2, 0.3)}}, "intervals differ by group"),
    ],
    ids=str,
)
def test_what_has_no_meaning_is_refused(rows, settings, sentence):
    X, y, groups = rows
    model = PartialFairClassifier(**{"outside": "no_worse", **settings})
    with pytest.raises(InputError, match=sentence):
        model.fit(X, y, sensitive_features=groups)


def test_a_path_refuses_before_it_fits(rows):
    X, y, groups = rows
    model = PartialFairClassifier("group_auc", interval=(0, 1), outside="no_worse")
    with pytest.raises(InputError, match="not of GroupAUC"):
        fairness_path(model, X, y, sensitive_features=groups, max_gaps=[0.1])
