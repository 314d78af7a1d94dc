"""Growing a library's model: when it stops, and what it complains of."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn import ensemble

from partialfair.data.groups import encode_groups
from partialfair.data.samples import Samples
from partialfair.exceptions import InputError
from partialfair.trees import PartialFairTrees
from partialfair.trees.base_estimators import fit_trees
from partialfair.trees.ensembles import ensemble_of
from tests.tree_models import numbers, target_of

X = numbers(600, 1)
TARGET = target_of(X)
LABELS = (TARGET > 0.2).astype(int)
GROUPS = np.where(np.arange(600) % 3 == 0, "a", "b")


def catboost(**settings: Any) -> Any:
    quiet = {"verbose": 0, "allow_writing_files": False, "thread_count": 1, "depth": 2, "learning_rate": 0.5}
    return pytest.importorskip("catboost").CatBoostClassifier(**(quiet | settings))


def xgboost(name: str, **settings: Any) -> Any:
    return getattr(pytest.importorskip("xgboost"), name)(**({"n_jobs": 1, "n_estimators": 5} | settings))


def lightgbm(**settings: Any) -> Any:
    quiet = {"verbose": -1, "n_jobs": 1, "n_estimators": 5}
    return pytest.importorskip("lightgbm").LGBMClassifier(**(quiet | settings))


@pytest.mark.parametrize(
    ("name", "y"), [("XGBRFClassifier", LABELS), ("XGBRFRegressor", TARGET)], ids=["classifier", "regressor"]
)
def test_forests_of_xgboost_are_grown_whole(name, y):
    trees = PartialFairTrees(xgboost(name, max_depth=3), interval=(0.1, 0.6), max_gap=1.0)
    trees.fit(X, y, sensitive_features=GROUPS)
    assert ensemble_of(trees.estimator_).n_trees == 5
    assert type(trees.estimator_).__name__ == name


@pytest.mark.parametrize(
    "own", [{"early_stopping_rounds": 1}, {"od_type": "Iter", "od_wait": 1}], ids=["rounds", "detector"]
)
def test_catboost_stops_when_it_was_told_to(own):
    noise = np.random.default_rng(0).integers(0, 2, 600)  # nothing to learn, so patience decides

    def n_trees(**settings: Any) -> int:
        rows = Samples(X, noise, encode_groups(GROUPS))
        model = fit_trees(catboost(iterations=60, use_best_model=False, **settings), rows, 0.2, 0)
        return int(model.tree_count_)

    assert n_trees(**own) < n_trees()


COMPLAINTS = {
    "LightGBM": (lightgbm, pd.DataFrame(X, columns=["a,b", "b", "c", "d"]), "LGBMClassifier", "feature name"),
    "CatBoost": (catboost, pd.DataFrame({"a": ["x", "y"] * 300}), "CatBoostClassifier", "'x'|'y'"),
    "XGBoost": (
        lambda: xgboost("XGBClassifier"),
        np.where(X > 2, np.inf, X),
        "XGBClassifier",
        "contains `inf`",
    ),
}


@pytest.mark.parametrize("library", COMPLAINTS)
def test_what_a_library_complains_of_is_one_sentence_without_its_machine_code(library):
    make, rows, name, what = COMPLAINTS[library]
    trees = PartialFairTrees(make(), interval=(0.1, 0.6), max_gap=0.5)
    with pytest.raises(InputError, match=f"^{name} could not be trained: .*({what})") as caught:
        trees.fit(rows, LABELS, sensitive_features=GROUPS)
    assert "\n" not in str(caught.value)
    assert "Stack trace" not in str(caught.value)


@pytest.mark.parametrize("as_booster", [False, True], ids=["estimator", "booster"])
def test_columns_in_another_order_than_a_fitted_model_s_are_refused(as_booster):
    """LightGBM would go by places, and the refit would be of trees that look at other columns."""
    table = pd.DataFrame(X, columns=["a b", "b", "c", "d"])
    model = lightgbm().fit(table, LABELS)
    model = model.booster_ if as_booster else model
    trees = PartialFairTrees(model, interval=(0.1, 0.6), max_gap=1.0)
    trees.fit(table, LABELS, sensitive_features=GROUPS)
    with pytest.raises(
        InputError, match="was trained on the columns 'a_b', 'b', 'c' and 1 more, and X has them"
    ):
        trees.fit(table[["b", "a b", "c", "d"]], LABELS, sensitive_features=GROUPS)


@pytest.mark.parametrize("make", [lightgbm, catboost, lambda: xgboost("XGBClassifier")])
def test_groups_too_small_to_hold_out_rows_of(make):
    rows = Samples(X[:12], LABELS[:12], encode_groups(np.repeat(np.arange(6), 2)))
    assert ensemble_of(fit_trees(make(), rows, 0.15, 0)).n_trees > 0


@pytest.mark.parametrize("name", ["HistGradientBoostingClassifier", "GradientBoostingClassifier"])
def test_a_class_too_small_to_hold_out_rows_of(name):
    rows = Samples(X[:50], np.arange(50) == 7, encode_groups(GROUPS[:50]))
    assert ensemble_of(fit_trees(getattr(ensemble, name)(), rows, 0.15, 0)).n_trees > 0


def test_libraries_get_weights_as_they_were_given():
    """Regularization has the units of weights, so that a row of weight 4 is not four rows of a scaled 1."""
    model, y = xgboost("XGBClassifier", max_depth=2, random_state=0), LABELS[:60]
    weights = np.arange(60) % 5
    trees = PartialFairTrees(model, constraint=None, validation_fraction=None)
    weighted = trees.fit(X[:60], y, sample_weight=weights).initial_estimator_.predict_proba(X)
    repeated = trees.fit(X[:60].repeat(weights, axis=0), y.repeat(weights)).initial_estimator_.predict_proba(
        X
    )
    np.testing.assert_allclose(weighted, repeated, atol=1e-6)


def test_ragged_rows_are_refused():
    with pytest.raises(InputError, match="X has rows of different lengths"):
        PartialFairTrees(lightgbm(), interval=(0, 1)).fit(
            [[1.0, 2.0], [3.0]], [0, 1], sensitive_features=["a", "b"]
        )
