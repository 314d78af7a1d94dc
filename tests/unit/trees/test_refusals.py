"""Models that cannot be read are refused in one sentence that names them."""

from __future__ import annotations

import re

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import (
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    IsolationForest,
    RandomForestClassifier,
    RandomForestRegressor,
    RandomTreesEmbedding,
)
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.tree import DecisionTreeClassifier

from partialfair.exceptions import InputError
from partialfair.trees.ensembles import check_settings, ensemble_of
from tests.tree_models import numbers, target_of

X = numbers(300, 1)
TARGET = np.exp(target_of(X))
LABELS = (TARGET > 1).astype(int)
THREE = np.digitize(TARGET, [0.5, 1.5])
QUIET = {"verbose": -1, "n_jobs": 1, "n_estimators": 3}


def refused(model, message: str) -> None:
    """Check that reading is refused in one sentence that names the model."""
    with pytest.raises(InputError, match=re.escape(message)) as caught:
        ensemble_of(model)
    text = str(caught.value)
    assert text.startswith(type(model).__name__)
    assert "\n" not in text
    assert not text.endswith(".")


def lightgbm(name: str, **settings):
    return getattr(pytest.importorskip("lightgbm"), name)(**(QUIET | settings))


def xgboost(name: str, **settings):
    return getattr(pytest.importorskip("xgboost"), name)(**({"n_jobs": 1, "n_estimators": 3} | settings))


def catboost(name: str, **settings):
    quiet = {"verbose": 0, "allow_writing_files": False, "thread_count": 1, "iterations": 3}
    return getattr(pytest.importorskip("catboost"), name)(**(quiet | settings))


SETTINGS = {
    "LightGBM DART": (lambda: lightgbm("LGBMClassifier", boosting_type="dart"), LABELS, "uses DART"),
    "LightGBM rf": (
        lambda: lightgbm("LGBMClassifier", boosting_type="rf", subsample=0.5, subsample_freq=1),
        LABELS,
        "has boosting_type='rf'",
    ),
    "LightGBM linear": (
        lambda: lightgbm("LGBMRegressor", linear_tree=True),
        TARGET,
        "linear models in its leaves",
    ),
    "LightGBM monotone": (
        lambda: lightgbm("LGBMRegressor", monotone_constraints=[1, 0, 0, 0]),
        TARGET,
        "monotone constraints",
    ),
    "LightGBM Poisson": (
        lambda: lightgbm("LGBMRegressor", objective="poisson"),
        TARGET,
        "the objective poisson",
    ),
    "LightGBM own": (
        lambda: lightgbm("LGBMRegressor", objective=squares),
        TARGET,
        "the objective of your own",
    ),
    "XGBoost DART": (lambda: xgboost("XGBClassifier", booster="dart"), LABELS, "uses DART"),
    "XGBoost linear": (lambda: xgboost("XGBRegressor", booster="gblinear"), TARGET, "trains no trees"),
    "XGBoost monotone": (
        lambda: xgboost("XGBRegressor", monotone_constraints=(1, 0, 0, 0)),
        TARGET,
        "monotone constraints",
    ),
    "XGBoost gamma": (
        lambda: xgboost("XGBRegressor", objective="reg:gamma"),
        TARGET,
        "the objective reg:gamma",
    ),
    "CatBoost Poisson": (
        lambda: catboost("CatBoostRegressor", loss_function="Poisson"),
        TARGET,
        "the objective Poisson",
    ),
    "CatBoost monotone": (
        lambda: catboost("CatBoostRegressor", monotone_constraints=[1, 0, 0, 0]),
        TARGET,
        "monotone constraints",
    ),
    "Hist Poisson": (lambda: HistGradientBoostingRegressor(loss="poisson"), TARGET, "the objective poisson"),
    "Hist monotone": (
        lambda: HistGradientBoostingClassifier(monotonic_cst=[0, -1, 0, 0], max_iter=3),
        LABELS,
        "monotone constraints",
    ),
    "AdaBoost loss": (
        lambda: GradientBoostingClassifier(loss="exponential", n_estimators=3),
        LABELS,
        "the objective exponential",
    ),
    "starts from a model": (
        lambda: GradientBoostingClassifier(init=LogisticRegression(), n_estimators=3),
        LABELS,
        "starts from the scores of LogisticRegression",
    ),
    "starts at random": (
        lambda: GradientBoostingClassifier(init=DummyClassifier(strategy="uniform"), n_estimators=3),
        LABELS,
        "starts from the scores of DummyClassifier",
    ),
    "forest monotone": (
        lambda: RandomForestRegressor(monotonic_cst=[0, 1, 0, 0], n_estimators=3),
        TARGET,
        "monotone constraints",
    ),
    "forest without target": (lambda: RandomTreesEmbedding(n_estimators=3), None, "predicts nothing"),
}


def squares(y_true, y_pred):
    return y_pred - y_true, np.ones_like(y_true)


@pytest.mark.parametrize("case", SETTINGS)
def test_what_cannot_be_read_is_refused_before_and_after_it_is_grown(case):
    make, target, message = SETTINGS[case]
    with pytest.raises(InputError, match=re.escape(message)):
        check_settings(make())
    refused(make().fit(X, target), message)


def test_what_can_be_read_may_be_grown():
    for model in (
        HistGradientBoostingRegressor(),
        GradientBoostingClassifier(init="zero"),
        RandomForestClassifier(),
        lightgbm("LGBMClassifier"),
        xgboost("XGBRegressor"),
        xgboost("XGBClassifier"),
        catboost("CatBoostClassifier"),
    ):
        check_settings(model)
        refused(model, "is not fitted yet")


@pytest.mark.parametrize(
    "make",
    [
        lambda: lightgbm("LGBMClassifier"),
        lambda: xgboost("XGBClassifier"),
        lambda: catboost("CatBoostClassifier"),
        lambda: HistGradientBoostingClassifier(max_iter=3),
        lambda: GradientBoostingClassifier(n_estimators=3),
        lambda: RandomForestClassifier(n_estimators=3),
    ],
)
def test_three_classes_are_refused(make):
    refused(make().fit(X, THREE), "has 3 classes; only binary classifiers")


def test_boosters_of_three_classes_are_refused():
    refused(lightgbm("LGBMClassifier").fit(X, THREE).booster_, "has 3 classes")
    refused(xgboost("XGBClassifier").fit(X, THREE).get_booster(), "has 3 classes")


def test_one_class_is_refused():
    refused(RandomForestClassifier(n_estimators=3).fit(X, np.zeros(len(X))), "has one class")


def test_several_targets_are_refused():
    refused(ExtraTreesRegressor(n_estimators=3).fit(X, np.stack([TARGET, TARGET], axis=1)), "several targets")
    refused(xgboost("XGBRegressor").fit(X, np.stack([TARGET, TARGET], axis=1)), "several targets")


def test_scores_that_are_not_log_odds_are_refused():
    refused(lightgbm("LGBMClassifier", sigmoid=2.0).fit(X, LABELS), "has sigmoid:2")
    refused(lightgbm("LGBMRegressor", reg_sqrt=True).fit(X, TARGET), "has the objective regression sqrt")


@pytest.mark.parametrize(
    "model",
    [
        LogisticRegression(),
        DecisionTreeClassifier(),
        IsolationForest(),
        make_pipeline(HistGradientBoostingClassifier()),
        None,
        "a model",
    ],
)
def test_models_without_trees_to_read_are_refused(model):
    refused(model, "is not a tree ensemble that can be read; use a model of LightGBM")


def test_a_class_is_not_a_model():
    with pytest.raises(InputError, match=r"HistGradientBoostingClassifier is a class; pass a model of it"):
        ensemble_of(HistGradientBoostingClassifier)


def test_a_booster_without_trees_is_refused():
    library = pytest.importorskip("xgboost")
    refused(library.train({"nthread": 1}, library.DMatrix(X, LABELS), 0), "has no trees")


def test_more_leaves_than_codes_can_number_are_refused(monkeypatch):
    monkeypatch.setattr("partialfair.trees.ensembles._MOST_LEAVES", 3)
    model = GradientBoostingRegressor(n_estimators=2, max_depth=3).fit(X, TARGET)
    with pytest.raises(InputError, match=r"tree \d of GradientBoostingRegressor has \d leaves, more than 3"):
        ensemble_of(model)
