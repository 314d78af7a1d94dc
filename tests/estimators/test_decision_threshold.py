"""Where classifiers decide: a threshold that is given, or tuned on training rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression

from partialfair import PartialFairClassifier, fairness_path, load_model, save_model
from partialfair.constraints import DemographicParity, StatisticalParity
from partialfair.data.thresholds import find_decision_threshold
from partialfair.exceptions import InputError
from partialfair.postprocessing import PartialParityAdjuster
from partialfair.trees import PartialFairTrees

FAST = {"interval": (0.1, 0.5), "max_gap": 0.5}
BOOSTED = HistGradientBoostingClassifier(max_iter=10, max_leaf_nodes=6)


@pytest.fixture(scope="module")
def rows():
    """Rows of which few are positive, so that the squared loss decides badly at 0."""
    rng = np.random.default_rng(0)
    groups = rng.choice(["a", "b"], 500)
    X = rng.normal(size=(500, 2)) + np.outer(groups == "a", [1, 0])
    y = np.where(np.exp(X.sum(axis=1)) + rng.normal(size=500) > 4, "yes", "no")
    return X, y, groups, rng.integers(0, 4, 500).astype(float)


def accuracy(scores, positive, weights, threshold):
    return np.average((scores > threshold) == positive, weights=weights)


@given(
    st.lists(st.tuples(st.integers(-3, 3), st.booleans(), st.sampled_from([0.5, 1.0, 2.0, 0.1])), min_size=1),
    st.floats(-2, 2),
)
def test_no_threshold_is_better(drawn, shift):
    scores = np.array([score + shift for score, _, _ in drawn])
    positive = np.array([label for _, label, _ in drawn])
    weights = np.array([weight for _, _, weight in drawn])
    found = find_decision_threshold(scores, positive, weights)
    # Every way to decide by a threshold: at each score, below all, and between any two.
    every = np.unique(
        np.concatenate([scores, [scores.min() - 1.0, 0.0], (scores[:, None] + scores).ravel() / 2])
    )
    best = max(accuracy(scores, positive, weights, one) for one in every)
    assert accuracy(scores, positive, weights, found) == pytest.approx(best, abs=1e-12)
    equal = [one for one in every if accuracy(scores, positive, weights, one) >= best - 1e-12]
    assert (found == 0.0) == (0.0 in equal)


def test_it_lies_between_the_scores_that_it_separates():
    positive = np.array([False, False, True])
    assert find_decision_threshold(np.array([1.0, 2.0, 3.0]), positive, np.ones(3)) == 2.5
    # Neighbors among floats have no middle.
    low = np.nextafter(3.0, 0.0)
    threshold = find_decision_threshold(np.array([1.0, low, 3.0]), positive, np.ones(3))
    assert low <= threshold < 3.0


@pytest.mark.parametrize("loss", ["logistic", "squared"])
@pytest.mark.parametrize("class_weight", [None, "balanced", {"yes": 3.0}])
def test_predict_is_as_accurate_as_any_threshold(rows, loss, class_weight):
    X, y, groups, weights = rows
    clf = PartialFairClassifier(loss=loss, class_weight=class_weight, decision_threshold="tune", **FAST)
    clf.fit(X, y, sensitive_features=groups, sample_weight=weights)
    scores, positive = clf.decision_function(X), y == "yes"
    plain = clone(clf).set_params(decision_threshold=0.0)
    plain.fit(X, y, sensitive_features=groups, sample_weight=weights)
    np.testing.assert_array_equal(scores, plain.decision_function(X))  # the fit is the same
    assert clf.result_.gap == plain.result_.gap
    in_loss = weights.copy()
    if class_weight == "balanced":
        in_loss *= np.where(positive, 1 / weights[positive].sum(), 1 / weights[~positive].sum())
    elif class_weight:
        in_loss *= np.where(positive, 3.0, 1.0)
    predicted = clf.predict(X) == "yes"
    np.testing.assert_array_equal(predicted, scores > clf.decision_threshold_)
    best = max(accuracy(scores, positive, in_loss, one) for one in [*scores, scores.min() - 1])
    assert np.average(predicted == positive, weights=in_loss) == pytest.approx(best, abs=1e-12)
    assert clf.result_.accuracy == pytest.approx(clf.score(X, y, weights), abs=1e-12)
    assert plain.decision_threshold_ == 0.0


def test_probabilities_are_unchanged(rows):
    X, y, groups, _ = rows
    tuned, plain = (
        PartialFairClassifier(decision_threshold=given, **FAST).fit(X, y, sensitive_features=groups)
        for given in ("tune", 0.0)
    )
    np.testing.assert_array_equal(tuned.predict_proba(X), plain.predict_proba(X))


def test_a_number_is_where_it_decides(rows):
    X, y, groups, _ = rows
    clf = PartialFairClassifier("demographic_parity", decision_threshold=0.7, **FAST)
    clf.fit(X, y, sensitive_features=groups)
    assert clf.decision_threshold_ == 0.7
    np.testing.assert_array_equal(clf.predict(X) == "yes", clf.decision_function(X) > 0.7)


@pytest.mark.parametrize("model", [BOOSTED, RandomForestClassifier(5, max_depth=3)])
@pytest.mark.parametrize("validation_fraction", [0.3, None])
def test_trees_look_at_rows_that_nothing_was_grown_on(rows, model, validation_fraction, monkeypatch):
    X, y, groups, _ = rows
    grown_on = []
    original = type(model).fit

    def fit(self, X, y, *args, **settings):
        grown_on.append(np.asarray(X))
        return original(self, X, y, *args, **settings)

    monkeypatch.setattr(type(model), "fit", fit)
    trees = PartialFairTrees(
        model, validation_fraction=validation_fraction, decision_threshold="tune", **FAST
    )
    trees.fit(X, y, sensitive_features=groups)
    unseen = ~(X[:, None] == grown_on[0][None]).all(axis=2).any(axis=1)
    assert 0.1 < unseen.mean() < 0.4
    scores, positive = trees.decision_function(X), y == "yes"
    expected = find_decision_threshold(scores[unseen], positive[unseen], np.ones(unseen.sum()))
    assert trees.decision_threshold_ == expected
    np.testing.assert_array_equal(trees.predict(X) == "yes", scores > expected)


def test_of_fitted_trees_all_rows_are_looked_at(rows):
    X, y, groups, _ = rows
    fitted = BOOSTED.__class__(max_iter=5).fit(X[:200], y[:200])
    trees = PartialFairTrees(fitted, decision_threshold="tune", **FAST)
    trees.fit(X[200:], y[200:], sensitive_features=groups[200:])
    scores = trees.decision_function(X[200:])
    assert trees.decision_threshold_ == find_decision_threshold(scores, y[200:] == "yes", np.ones(300))


def test_models_of_a_path_decide_where_they_were_tuned(rows):
    X, y, groups, _ = rows
    for estimator in (PartialFairClassifier(**FAST), PartialFairTrees(BOOSTED, **FAST)):
        path = fairness_path(
            estimator.set_params(decision_threshold="tune"),
            X,
            y,
            sensitive_features=groups,
            max_gaps=[0.4, 0.6],
            random_state=0,
        )
        held_out = path.validation
        for point in path.points:
            predicted = point.model.predict(held_out.X)
            np.testing.assert_array_equal(point.predictions, predicted)
            assert point.score == np.mean(predicted == held_out.y)
        assert any(point.model.decision_threshold_ != 0.0 for point in path.points)


def test_out_of_fold_every_row_is_decided_by_the_model_of_its_fold(rows):
    X, y, groups, _ = rows
    estimator = PartialFairClassifier(decision_threshold="tune", loss="squared", **FAST)
    path = fairness_path(estimator, X, y, sensitive_features=groups, max_gaps=[0.5], cv=3, random_state=0)
    for point in path.points:
        expected = np.empty(len(y), dtype=y.dtype)
        for fold, model in enumerate(point.fold_models):
            members = path.folds == np.unique(path.folds)[fold]
            expected[members] = model.predict(X[members])
        assert np.mean(point.predictions != expected) < 0.005  # a shift rounds
        above = point.scores > point.model.decision_threshold_
        np.testing.assert_array_equal(above, point.predictions == "yes")


@pytest.mark.parametrize("response", ["decision_function", "predict_proba"])
@pytest.mark.parametrize("trees", [False, True])
def test_adjusters_decide_where_their_model_does(rows, response, trees):
    X, y, groups, _ = rows
    settings = {"decision_threshold": "tune", "class_weight": {"yes": 5.0}, **FAST}
    model = PartialFairTrees(BOOSTED, **settings) if trees else PartialFairClassifier(**settings)
    model.set_params(decision_threshold=0.8).fit(X, y, sensitive_features=groups)
    # With a limit of 1 no score moves.
    adjuster = PartialParityAdjuster(interval=(0, 1), max_gap=1.0, estimator=model, response_method=response)
    adjuster.fit(X, sensitive_features=groups)
    np.testing.assert_array_equal(adjuster.predict(X, groups), model.predict(X))


def test_saved_models_decide_alike(rows, tmp_path):
    X, y, groups, _ = rows
    for k, model in enumerate(
        [
            PartialFairClassifier(decision_threshold="tune", loss="squared", **FAST),
            PartialFairTrees(BOOSTED, decision_threshold="tune", **FAST),
        ]
    ):
        model.fit(X, y, sensitive_features=groups)
        save_model(model, tmp_path / f"{k}.skops")
        again = load_model(tmp_path / f"{k}.skops")
        assert again.decision_threshold_ == model.decision_threshold_
        np.testing.assert_array_equal(again.predict(X), model.predict(X))
        model.decision_threshold_ = "0"
        save_model(model, tmp_path / f"{k}.skops")
        with pytest.raises(InputError, match="its decision_threshold_ is not a finite number"):
            load_model(tmp_path / f"{k}.skops")


def test_onnx_labels_are_what_predict_returns(rows):
    pytest.importorskip("onnx")
    from partialfair.onnx import to_onnx
    from tests.onnx_runs import metadata, run

    X, y, groups, _ = rows
    for model in (
        PartialFairClassifier(decision_threshold="tune", loss="squared", **FAST),
        PartialFairTrees(BOOSTED, decision_threshold="tune", **FAST),
    ):
        model.fit(X, y, sensitive_features=groups)
        assert model.decision_threshold_ != 0.0
        exported = to_onnx(model)
        np.testing.assert_array_equal(run(exported, X=X)["label"], model.predict(X))
        assert float(metadata(exported)["decision_threshold"]) == model.decision_threshold_


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"decision_threshold": "best"}, "decision_threshold must be a number or 'tune', not 'best'"),
        ({"decision_threshold": np.nan}, "decision_threshold must be a finite number"),
        ({"decision_threshold": None}, "decision_threshold must be a finite number"),
        (
            {"constraint": "equal_opportunity", "decision_threshold": "tune"},
            "EqualOpportunity compares groups",
        ),
        (
            {
                "constraint": [StatisticalParity((0.1, 0.5), 0.2), DemographicParity((0.1, 0.5), 0.2)],
                "decision_threshold": "tune",
                "interval": None,
                "max_gap": 0.05,
            },
            "DemographicParity compares groups",
        ),
    ],
)
def test_what_cannot_be_is_refused(rows, settings, words):
    X, y, groups, _ = rows
    for estimator in (PartialFairClassifier(**FAST), PartialFairTrees(BOOSTED, **FAST)):
        with pytest.raises(InputError, match=words):
            estimator.set_params(**settings).fit(X, y, sensitive_features=groups)


def test_regressors_make_no_decisions(rows):
    from sklearn.ensemble import HistGradientBoostingRegressor

    X, _, groups, _ = rows
    trees = PartialFairTrees(HistGradientBoostingRegressor(), decision_threshold="tune", **FAST)
    with pytest.raises(InputError, match="decision_threshold is for classifiers"):
        trees.fit(X, X[:, 0], sensitive_features=groups)


def test_a_scorer_without_a_threshold_decides_at_one_half(rows):
    X, y, groups, _ = rows
    model = LogisticRegression().fit(X, y)
    adjuster = PartialParityAdjuster(interval=(0, 1), max_gap=1.0, estimator=model).fit(
        X, sensitive_features=groups
    )
    np.testing.assert_array_equal(adjuster.predict(X, groups), model.predict(X))
