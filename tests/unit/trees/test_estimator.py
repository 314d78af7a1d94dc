"""Refitted trees: the promise on the library's own scores, what is optimal, and scikit-learn's habits."""

from __future__ import annotations

import pickle
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    IsolationForest,
    RandomForestClassifier,
)
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV

from partialfair import FitOptions, PartialFairClassifier, fairness_path, load_model, save_model
from partialfair.estimators import population
from partialfair.exceptions import InputError
from partialfair.metrics import partial_statistical_parity_difference
from partialfair.trees import PartialFairTrees
from partialfair.trees.ensembles import ensemble_of
from tests.solvers.problems import cp
from tests.tree_models import GROW, answers_of, grown, mixed_table, target_of, words_for_holes

INTERVAL = (0.1, 0.6)
QUICK: dict[str, Any] = {
    "interval": INTERVAL,
    "max_gap": 0.15,
    "options": FitOptions(n_starts=1, search_steps=20),
    "tol": 1e-2,
}


def people(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features that tell the group, labels that hang on them, and groups."""
    rng = np.random.default_rng(seed)
    groups = rng.choice(["a", "b"], n)
    X = rng.normal(size=(n, 3)) + np.outer(groups == "a", [1.0, 0.0, 0.0])
    return X, np.where(X.sum(axis=1) + rng.normal(size=n) > 0.5, "yes", "no"), groups


def grower(**settings: Any) -> HistGradientBoostingClassifier:
    chosen = {"max_iter": 10, "max_leaf_nodes": 6, "early_stopping": False, "random_state": 0} | settings
    return HistGradientBoostingClassifier(**chosen)


def exact_gap(scores: np.ndarray, groups: np.ndarray, **settings: Any) -> float:
    chosen = {"interval": INTERVAL} | settings
    return partial_statistical_parity_difference(None, scores, sensitive_features=groups, **chosen)


@pytest.fixture(scope="module")
def fitted() -> tuple[PartialFairTrees, np.ndarray, np.ndarray, np.ndarray]:
    X, y, groups = people(600)
    return PartialFairTrees(grower(), **QUICK).fit(X, y, sensitive_features=groups), X, y, groups


def raw_scores(model: Any, X: Any) -> np.ndarray:
    """What the library's own model says, by its own means, on the scale that is cut at 0."""
    if type(model).__module__.startswith("lightgbm"):
        return np.asarray(model.predict(X, raw_score=True))
    if type(model).__module__ == "xgboost.core":
        import xgboost

        return model.predict(xgboost.DMatrix(X, enable_categorical=True), output_margin=True).astype(float)
    if type(model).__module__.startswith("xgboost"):
        return model.predict(X, output_margin=True).astype(float)
    if type(model).__module__.startswith("catboost"):
        return model.predict(X, prediction_type="RawFormulaVal")
    if hasattr(model, "decision_function"):
        return model.decision_function(X)
    return 2 * model.predict_proba(X)[:, 1] - 1 if hasattr(model, "predict_proba") else model.predict(X)


ONE_OF_EVERY_KIND = {
    "LGBMClassifier",
    "lightgbm.Booster",
    "XGBRegressor",
    "XGBRFClassifier",
    "xgboost.Booster",
    "CatBoostRegressor",
    "HistGradientBoostingClassifier",
    "GradientBoostingRegressor",
    "RandomForestClassifier",
    "ExtraTreesRegressor",
}
"""A classifier or a regressor; the tests of the others are slow."""


@pytest.mark.parametrize(
    "name",
    [name if name in ONE_OF_EVERY_KIND else pytest.param(name, marks=pytest.mark.slow) for name in GROW],
)
def test_the_promise_holds_on_the_scores_of_the_library(name):
    model = grown(name).model
    X = mixed_table(400, 7)
    if "CatBoost" in name:
        X = words_for_holes(400, 7)
    elif "Gradient" in name and "Hist" not in name:
        X = X[["a", "b", "c", "d"]].fillna(0.3).to_numpy()
    elif "Random" in name or "Extra" in name:
        X = X[["a", "b", "c", "d"]].to_numpy()
    target = target_of(X)
    groups = np.where(target + np.random.default_rng(1).normal(size=400) > 0.2, "high", "low")
    ensemble = ensemble_of(model)
    y = target if ensemble.kind == "regressor" else target > 0.3
    if ensemble.classes is not None and "yes" in ensemble.classes:
        y = answers_of(X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of small samples
        trees = PartialFairTrees(model, **QUICK | {"max_gap": 0.3}).fit(X, y, sensitive_features=groups)
    scores = raw_scores(trees.estimator_, X)
    assert exact_gap(raw_scores(model, X), groups) > 0.3  # else nothing is shown
    assert exact_gap(scores, groups) <= 0.3 + 1e-12
    assert trees.result_.satisfied
    assert trees.result_.gap == pytest.approx(exact_gap(scores, groups), abs=1e-12)
    assert type(trees.estimator_) is type(model)
    own = trees.predict(X) if is_regressor(trees) else trees.decision_function(X)
    np.testing.assert_allclose(own, scores, rtol=0, atol=1e-12)


def test_result_is_certified(fitted):
    trees, *_ = fitted
    assert trees.result_.kkt.holds(trees.tol)
    assert trees.result_.gap <= 0.15


def test_predictions_are_those_of_the_library(fitted):
    trees, X, y, _ = fitted
    np.testing.assert_array_equal(trees.predict(X), trees.estimator_.predict(X))
    np.testing.assert_allclose(trees.predict_proba(X), trees.estimator_.predict_proba(X), atol=1e-12)
    assert trees.score(X, y) == np.mean(trees.predict(X) == y)


def test_without_constraint_a_huge_alpha_returns_the_librarys_values():
    X, y, _ = people(500)
    trees = PartialFairTrees(grower(), constraint=None, alpha=1e8).fit(X, y)
    before, after = (ensemble_of(model).values for model in (trees.initial_estimator_, trees.estimator_))
    # All but an intercept, which is free, is as it was.
    np.testing.assert_allclose(after - before, (after - before)[0], atol=1e-6)


def test_unconstrained_values_minimise_loss_and_distance():
    X, y, _ = people(300)
    alpha = 0.05
    trees = PartialFairTrees(grower(max_iter=3), constraint=None, alpha=alpha, tol=1e-6).fit(X, y)
    ensemble = ensemble_of(trees.initial_estimator_)
    one_hot, signs = ensemble.leaves(X).to_csr().toarray(), np.where(y == "yes", 1.0, -1.0)

    def objective(change: np.ndarray) -> float:
        scores = ensemble.scores(X) + one_hot @ change[:-1] + change[-1]
        return np.logaddexp(0, -signs * scores).mean() + alpha / 2 * change[:-1] @ change[:-1]

    best = minimize(objective, np.zeros(one_hot.shape[1] + 1), options={"gtol": 1e-7})
    assert trees.result_.objective == pytest.approx(best.fun, abs=1e-8)
    scores = ensemble.scores(X) + one_hot @ best.x[:-1] + best.x[-1]
    np.testing.assert_allclose(trees.decision_function(X), scores, atol=1e-4)


def test_from_values_of_0_it_is_the_linear_classifier_on_leaves():
    X, y, groups = people(600)
    emptied = ensemble_of(grower(max_iter=4).fit(X, y))
    emptied = emptied.with_values(np.zeros(emptied.values.size))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        settings = {"alpha": 0.01, "tol": 1e-5, "interval": INTERVAL, "max_gap": 0.2, "enforce": "surrogate"}
        trees = PartialFairTrees(emptied.model, **settings).fit(X, y, sensitive_features=groups)
        linear = PartialFairClassifier(**settings)
        linear.fit(emptied.leaves(X).to_csr(), y, sensitive_features=groups)
    assert trees.result_.objective == pytest.approx(linear.result_.objective, abs=2e-4)


def test_fitted_models_keep_their_trees_and_are_left_alone():
    X, y, groups = people(600)
    model = grower().fit(X, y)
    before = model.decision_function(X)
    for given in (model, FrozenEstimator(model)):
        trees = PartialFairTrees(given, **QUICK).fit(X[:400], y[:400], sensitive_features=groups[:400])
        assert ensemble_of(trees.estimator_).n_leaves == ensemble_of(model).n_leaves
        assert trees.initial_estimator_ is model
    np.testing.assert_array_equal(model.decision_function(X), before)


def test_clones_grow_anew_unless_frozen():
    X, y, _ = people(400)
    model = grower(max_iter=3).fit(X, y)
    fresh = clone(PartialFairTrees(model, **QUICK))
    with pytest.raises(NotFittedError):
        fresh.estimator.predict(X)
    kept = clone(PartialFairTrees(FrozenEstimator(model), **QUICK))
    assert kept.estimator.estimator is model


def test_parameters_of_the_model_are_searched():
    X, y, groups = people(400)
    search = GridSearchCV(
        PartialFairTrees(grower(max_iter=3), sensitive_columns="group", **QUICK | {"max_gap": 0.5}),
        {"estimator__max_leaf_nodes": [2, 5]},
        cv=2,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        search.fit(pd.DataFrame(X, columns=list("uvw")).assign(group=groups), y)
    assert set(search.cv_results_["param_estimator__max_leaf_nodes"]) == {2, 5}
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_kind_follows_the_model():
    assert is_classifier(PartialFairTrees(grower()))
    regressor = PartialFairTrees(HistGradientBoostingRegressor())
    assert is_regressor(regressor)
    assert not is_classifier(regressor)
    assert not hasattr(regressor, "predict_proba")
    assert is_regressor(PartialFairTrees(grown("XGBRegressor").model.get_booster()))
    assert is_classifier(PartialFairTrees(grown("lightgbm.Booster").model))


def test_weight_0_is_absent_and_weight_2_is_the_row_twice():
    X, y, groups = people(300)
    model = grower(max_iter=4).fit(X, y)
    weights = np.random.default_rng(0).integers(0, 3, 300)
    rows = np.repeat(np.arange(300), weights)
    weighted, repeated = (PartialFairTrees(model, **QUICK | {"tol": 1e-6}) for _ in range(2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        weighted.fit(X, y, sensitive_features=groups, sample_weight=weights)
        repeated.fit(X[rows], y[rows], sensitive_features=groups[rows])
    assert weighted.result_.gap == pytest.approx(exact_gap(weighted.decision_function(X[rows]), groups[rows]))
    assert weighted.result_.objective == pytest.approx(repeated.result_.objective, rel=0.02)


def test_low_scores_may_be_good():
    X, y, groups = people(600)
    trees = PartialFairTrees(grower(), higher_is_better=False, **QUICK).fit(X, y, sensitive_features=groups)
    assert exact_gap(-trees.decision_function(X), groups) <= 0.15 + 1e-12
    assert trees.score(X, y) > 0.6


def values_of(forest: Any) -> np.ndarray:
    """Probabilities that the leaves hold, of the second class."""
    ensemble = ensemble_of(forest)
    return np.asarray(ensemble.values) * ensemble.n_trees


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        (RandomForestClassifier, {}),
        (ExtraTreesClassifier, {"higher_is_better": False}),
        (RandomForestClassifier, {"enforce": "surrogate"}),
        pytest.param(ExtraTreesClassifier, {}, marks=pytest.mark.slow),
        pytest.param(RandomForestClassifier, {"higher_is_better": False}, marks=pytest.mark.slow),
        pytest.param(ExtraTreesClassifier, {"enforce": "surrogate"}, marks=pytest.mark.slow),
    ],
)
def test_forests_hold_probabilities_and_score_as_they_were_fitted(kind, settings):
    X, y, groups = people(500)
    forest = kind(8, max_leaf_nodes=6, random_state=0)
    trees = PartialFairTrees(forest, **QUICK | {"alpha": 1e-5} | settings).fit(
        X, y, sensitive_features=groups
    )
    values = values_of(trees.estimator_)
    assert 0 <= values.min() <= values.max() <= 1
    assert ((values == 0) | (values == 1)).any()  # some would have left
    for tree in trees.estimator_.estimators_:
        assert 0 <= tree.tree_.value.min() <= tree.tree_.value.max() <= 1
    probabilities = trees.estimator_.predict_proba(X)[:, 1]
    np.testing.assert_array_equal(trees.predict(X) == "yes", probabilities > 0.5)
    linear = trees._refit
    assert not linear.intercept_.any()  # it would lead out of [0, 1]
    leaves = ensemble_of(trees.initial_estimator_).leaves(X)
    refitted = 2 * ensemble_of(trees.initial_estimator_).scores(X) - 1 + linear.decision_function(leaves)
    np.testing.assert_allclose(2 * probabilities - 1, refitted, atol=1e-12)


def test_forests_without_a_constraint_are_the_bounded_least_squares():
    """``min mean ½ (s − y)² + ½ alpha ‖coef − coef₀‖²`` over values in [0, 1], by cvxpy."""
    X, y, _ = people(300)
    forest = RandomForestClassifier(6, max_leaf_nodes=8, random_state=0).fit(X, y)
    trees = PartialFairTrees(forest, None, alpha=1e-3, tol=1e-5).fit(X, y)
    ensemble = ensemble_of(forest)
    leaves, starts = ensemble.leaves(X), np.cumsum([0, *ensemble.n_leaves[:-1]])
    Z = np.zeros((len(X), len(ensemble.values)))
    for row, codes in zip(Z, leaves.codes, strict=True):
        row[starts + codes] = 1.0 / ensemble.n_trees
    v = cp.Variable(Z.shape[1])
    residuals = 2 * Z @ v - 1 - np.where(y == "yes", 1.0, -1.0)
    change = 2 * (v - values_of(forest)) / ensemble.n_trees
    objective = cp.sum_squares(residuals) / (2 * len(X)) + 0.5e-3 * cp.sum_squares(change)
    optimum = cp.Problem(cp.Minimize(objective), [v >= 0, v <= 1]).solve(solver=cp.CLARABEL)
    assert trees.result_.objective == pytest.approx(optimum, abs=1e-6)
    assert trees.result_.kkt.holds(1e-4)
    values = values_of(trees.estimator_)
    np.testing.assert_allclose(values, np.asarray(v.value), atol=2e-3)
    assert np.mean((values == 0) | (values == 1)) > 0.1


def test_strings_categories_and_missing_values_go_to_the_library():
    X = mixed_table(500, 3)
    y = answers_of(X)
    groups = np.random.default_rng(2).choice(["x", "y"], 500)
    X["group"] = groups
    model = grower(categorical_features="from_dtype")
    trees = PartialFairTrees(model, sensitive_columns="group", **QUICK).fit(X, y)
    assert list(trees.feature_names_in_) == ["a", "b", "c", "d", "e", "group"]
    assert exact_gap(trees.estimator_.decision_function(X.drop(columns="group")), groups) <= 0.15 + 1e-12
    np.testing.assert_array_equal(trees.predict(X), trees.estimator_.predict(X.drop(columns="group")))


@pytest.mark.parametrize("name", ["LGBMClassifier", "XGBClassifier", "GradientBoostingClassifier"])
def test_models_that_stop_early_are_grown_on_part_and_refitted_on_all(name):
    X, y, groups = people(500)
    model = clone(grown(name).model).set_params(n_estimators=400)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trees = PartialFairTrees(model, **QUICK | {"max_iter": 20}).fit(X, y, sensitive_features=groups)
    assert ensemble_of(trees.initial_estimator_).n_trees < 400
    assert trees.result_.gap == pytest.approx(exact_gap(trees.decision_function(X), groups))
    assert set(trees.predict(X)) == {"yes", "no"}


@pytest.mark.parametrize("name", ["LGBMClassifier", "XGBClassifier", "HistGradientBoostingClassifier"])
def test_copies_and_files_score_the_same(name, tmp_path):
    X = mixed_table(300, 4)
    y = np.asarray(target_of(X) > 0.3)
    y = y if name == "XGBClassifier" else answers_of(X)
    groups = np.random.default_rng(2).choice(["x", "y"], 300)
    trees = PartialFairTrees(FrozenEstimator(grown(name).model), **QUICK | {"max_gap": 0.5})
    trees.fit(X, y, sensitive_features=groups)
    scores = trees.decision_function(X)
    again = pickle.loads(pickle.dumps(trees))
    np.testing.assert_array_equal(again.decision_function(X), scores)
    save_model(trees, tmp_path / "trees.skops")
    loaded = load_model(tmp_path / "trees.skops")
    np.testing.assert_array_equal(loaded.decision_function(X), scores)
    np.testing.assert_array_equal(loaded.predict(X), trees.predict(X))
    assert loaded.result_.gap == trees.result_.gap
    assert isinstance(loaded.estimator, FrozenEstimator)
    assert clone(loaded).max_gap == 0.5


def test_a_path_grows_once_and_falls():
    X, y, groups = people(800)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = fairness_path(
            PartialFairTrees(
                grower(max_iter=5), interval=INTERVAL, options=FitOptions(n_starts=1, search_steps=20)
            ),
            X,
            y,
            sensitive_features=groups,
            max_gaps=[0.4, 0.2],
            random_state=0,
        )
    assert [point.max_gap for point in path.points] == [float("inf"), 0.4, 0.2]
    values = [ensemble_of(point.model.initial_estimator_).values for point in path.points]
    assert all(np.array_equal(values[0], others) for others in values)
    objectives = [point.objective for point in path.points]
    assert objectives == sorted(objectives)
    for point in path.points[1:]:
        assert point.training_gap <= point.max_gap + 1e-12


def test_a_promise_about_new_people(monkeypatch):
    monkeypatch.setattr(population, "_TIGHTER", population._TIGHTER[::3])  # a third of the models
    X, y, groups = people(3000)
    settings = QUICK | {"max_gap": 0.5, "options": FitOptions(search_steps=5)}
    trees = PartialFairTrees(grower(max_iter=2), **settings, enforce="population")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trees.fit(X, y, sensitive_features=groups)
    assert trees.result_.population.validated
    assert trees.result_.population.n_rows == 600
    np.testing.assert_array_equal(trees.predict(X), trees.estimator_.predict(X))
    fresh, _, others = people(5000, seed=9)
    assert exact_gap(trees.decision_function(fresh), others) <= 0.5


def test_a_warm_start_is_no_worse():
    X, y, groups = people(600)
    trees = PartialFairTrees(grower().fit(X, y), warm_start=True, **QUICK | {"max_gap": 0.3})
    loose = trees.fit(X, y, sensitive_features=groups).result_.objective
    strict = trees.set_params(max_gap=0.15).fit(X, y, sensitive_features=groups).result_
    assert strict.gap <= 0.15 + 1e-12
    assert strict.objective >= loose


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        (LogisticRegression(), "LogisticRegression is not a tree ensemble that can be read"),
        (None, "NoneType is not a tree ensemble"),
        (
            GradientBoostingClassifier,
            r"GradientBoostingClassifier is a class; pass a model of it",
        ),
        (IsolationForest(), "IsolationForest"),
    ],
)
def test_models_without_trees_to_refit_are_refused(model, sentence):
    X, y, groups = people(100)
    with pytest.raises(InputError, match=sentence):
        PartialFairTrees(model, **QUICK).fit(X, y, sensitive_features=groups)


def test_bad_input_is_refused_before_anything_grows(monkeypatch):
    X, y, groups = people(100)
    monkeypatch.setattr("partialfair.trees.base_estimators.fit_trees", None)  # whoever trains, fails
    trees = PartialFairTrees(grower(), **QUICK)
    with pytest.raises(InputError, match="Only binary classification is supported"):
        trees.fit(X, np.arange(100) % 3, sensitive_features=groups)
    with pytest.raises(InputError, match="needs the group of every row"):
        trees.fit(X, y)
    with pytest.raises(InputError, match="only group 'a'"):
        trees.fit(X, y, sensitive_features=["a"] * 100)
    with pytest.raises(InputError, match="compares rows of one label"):
        PartialFairTrees(HistGradientBoostingRegressor(), "equal_opportunity", interval=(0, 1)).fit(
            X, X[:, 0], sensitive_features=groups
        )
    with pytest.raises(InputError, match="validation_fraction"):
        PartialFairTrees(grower(), interval=(0, 1), validation_fraction=1.5).fit(
            X, y, sensitive_features=groups
        )
    with pytest.raises(InputError, match="X has no rows"):
        trees.fit(X[:0], y[:0], sensitive_features=groups[:0])
    with pytest.raises(InputError, match="y has 99 rows"):
        trees.fit(X, y[:99], sensitive_features=groups)


def test_labels_other_than_the_models_are_refused():
    X, y, groups = people(200)
    model = grower(max_iter=2).fit(X, y)
    with pytest.raises(
        InputError, match=r"trained on the classes \['no', 'yes'\], and y has \['in', 'out'\]"
    ):
        PartialFairTrees(model, **QUICK).fit(X, np.where(y == "yes", "in", "out"), sensitive_features=groups)


def test_features_other_than_the_models_are_refused():
    X, y, groups = people(200)
    model = grower(max_iter=2).fit(X, y)
    with pytest.raises(InputError, match="was trained on 3 features, and X has 2"):
        PartialFairTrees(model, **QUICK).fit(X[:, :2], y, sensitive_features=groups)


def test_where_nothing_keeps_the_promise_the_advice_is_about_trees():
    groups = np.repeat(["a", "b"], 100)
    X = np.column_stack([groups == "a", np.zeros(200)]).astype(float)  # whoever is ranked, is by group
    y = np.random.default_rng(0).random(200) < 0.3 + 0.4 * X[:, 0]
    with pytest.warns(ConvergenceWarning, match="train more or larger trees"):
        trees = PartialFairTrees(grower(max_iter=1), **QUICK).fit(X, y, sensitive_features=groups)
    assert trees.result_.satisfied is False


def test_what_the_library_complains_of_is_said_with_its_name():
    X, y, groups = people(100)
    with pytest.raises(InputError, match="HistGradientBoostingClassifier could not be trained"):
        PartialFairTrees(grower(max_leaf_nodes=-1), **QUICK).fit(X, y, sensitive_features=groups)


def test_calibration_before_is_that_of_the_library_and_after_that_of_the_new_values(fitted):
    trees, X, y, groups = fitted
    table = trees.calibration(X, y, sensitive_features=groups)
    for model, when in ((trees.initial_estimator_, "before"), (trees.estimator_, "after")):
        for group in ("a", "b"):
            bias = np.mean(model.predict_proba(X[groups == group])[:, 1] - (y[groups == group] == "yes"))
            assert table.loc[group, f"bias_{when}"] == pytest.approx(bias)
    observed = [np.mean(y[groups == group] == "yes") for group in ("a", "b")]
    apart = {when: abs((table[f"bias_{when}"] + observed).diff().iloc[-1]) for when in ("before", "after")}
    assert apart["after"] < apart["before"]  # whatever happened
