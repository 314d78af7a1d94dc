"""Exported trees score as their libraries do: to the last bit, at thresholds, with holes and odd codes."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
from sklearn.ensemble import (
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
)

from partialfair.exceptions import InputError
from partialfair.metrics import partial_statistical_parity_difference
from partialfair.trees import PartialFairTrees
from partialfair.trees.ensembles import ensemble_of
from tests.onnx_runs import as_numbers, metadata, run, tree_attributes
from tests.tree_models import GROW, answers_of, grown, mixed_table, numbers, target_of

to_onnx = pytest.importorskip("partialfair.onnx").to_onnx
pytest.importorskip("onnxruntime")

KINDS = [name for name in GROW if not name.startswith("CatBoost")]
HOLES = ["LGBM", "lightgbm", "XGB", "xgboost", "Hist", "RandomForest", "ExtraTrees"]


def refitted(name):
    """A model of a library with other leaf values than it found, as PartialFairTrees writes them."""
    ensemble = ensemble_of(grown(name).model)
    moved = ensemble.values + 0.01 * np.random.default_rng(0).normal(size=len(ensemble.values))
    return ensemble.with_values(np.clip(moved, *ensemble.bounds))


@pytest.mark.parametrize("name", KINDS)
def test_fresh_rows_have_the_same_scores(name):
    written, fresh = refitted(name), grown(name).fresh
    exported = run(to_onnx(written.model), X=as_numbers(fresh))["scores"]
    assert len(fresh) == 10_000
    if any(name.startswith(kind) for kind in HOLES):
        assert np.isnan(as_numbers(fresh)).any()
    if name.startswith("GradientBoosting"):  # whose learning rate brings roundings
        np.testing.assert_allclose(exported, written.scores(fresh), rtol=1e-14, atol=1e-14)
    else:
        np.testing.assert_array_equal(exported, written.scores(fresh))


@pytest.mark.parametrize("name", KINDS)
def test_models_as_their_libraries_left_them_do_too(name):
    ensemble, fresh = ensemble_of(grown(name).model), grown(name).fresh
    exported = run(to_onnx(ensemble.model), X=as_numbers(fresh))["scores"]
    # XGBoost adds up in single precision, in which sums depend on their order.
    rounding = 1e-5 if "xgb" in name.lower() else 1e-12
    np.testing.assert_allclose(exported, ensemble.scores(fresh), rtol=0, atol=rounding)


@pytest.mark.parametrize("name", KINDS)
def test_features_at_and_beside_thresholds_fall_on_the_same_side(name):
    written, fresh = refitted(name), grown(name).fresh[:300].copy()
    model = to_onnx(written.model)
    held = tree_attributes(model)
    n_features = as_numbers(fresh).shape[1]
    columns, splits = held["nodes_featureids"] % n_features, held["nodes_splits"]
    numeric = (held["nodes_modes"] != 6) & np.isfinite(splits) & (columns < 4)
    picked = np.flatnonzero(numeric)[:300]
    for change in (
        lambda x: x,
        lambda x: np.nextafter(x, np.inf),
        lambda x: np.nextafter(x, -np.inf),
        lambda x: np.nextafter(np.float32(x), np.float32(np.inf)).astype(float),
        lambda x: np.nextafter(np.float32(x), np.float32(-np.inf)).astype(float),
    ):
        rows = fresh.iloc[: len(picked)].copy() if hasattr(fresh, "iloc") else fresh[: len(picked)].copy()
        for row, node in enumerate(picked):
            if hasattr(rows, "iloc"):
                rows.iloc[row, columns[node]] = change(splits[node])
            else:
                rows[row, columns[node]] = change(splits[node])
        exported = run(model, X=as_numbers(rows))["scores"]
        np.testing.assert_allclose(exported, written.scores(rows), rtol=0, atol=1e-13)


@pytest.mark.parametrize("grower", ["lightgbm", "hist", "forest"])
def test_the_promise_holds_for_what_onnxruntime_computes(grower):
    rng = np.random.default_rng(2)
    table = mixed_table(900, 4).drop(columns="e")
    groups = np.where(table["d"] + 4 * rng.normal(size=900) > 2, "high", "low")
    table["group"] = groups
    y = np.where(table["a"].fillna(0) + table["d"] / 2 + rng.normal(size=900) > 1, "yes", "no")
    if grower == "lightgbm":
        library = pytest.importorskip("lightgbm")
        model = library.LGBMClassifier(n_estimators=15, num_leaves=6, verbose=-1, n_jobs=1)
    elif grower == "hist":
        model = HistGradientBoostingClassifier(max_iter=15, max_leaf_nodes=6)
    else:
        model = RandomForestClassifier(n_estimators=15, max_depth=4)
    trees = PartialFairTrees(
        model, interval=(0.1, 0.5), max_gap=0.2, sensitive_columns="group", random_state=0
    ).fit(table, y)
    exported = to_onnx(trees)
    outputs = run(exported, X=table.drop(columns="group").to_numpy(float))
    np.testing.assert_array_equal(outputs["scores"], trees.decision_function(table))
    np.testing.assert_array_equal(outputs["label"], trees.predict(table))
    np.testing.assert_allclose(outputs["probabilities"], trees.predict_proba(table), rtol=0, atol=1e-15)
    gap = partial_statistical_parity_difference(
        None, outputs["scores"], sensitive_features=groups, interval=(0.1, 0.5)
    )
    assert gap == pytest.approx(trees.result_.gap, abs=1e-12)
    assert trees.result_.satisfied
    assert gap <= 0.2
    told = metadata(exported)
    assert json.loads(told["features"]) == ["a", "b", "c", "d"]
    assert json.loads(told["groups"]) == ["high", "low"]
    (stated,) = json.loads(told["constraints"])
    assert stated["max_gap"] == 0.2
    assert stated["interval"] == [0.1, 0.5]
    assert json.loads(told["classes"]) == ["no", "yes"]


@pytest.mark.parametrize(
    "settings", [{}, {"use_missing": False}, {"zero_as_missing": True}], ids=["none", "unused", "zeros"]
)
def test_every_kind_of_missing_values_of_lightgbm(settings):
    library = pytest.importorskip("lightgbm")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(800, 4)).round(1)
    X[:, 1] = np.where(rng.random(800) < 0.3, np.nan, X[:, 1])  # of the others NaN is new
    X[:, 2] = np.where(rng.random(800) < 0.5, 0.0, X[:, 2])
    y = np.nan_to_num(X[:, 1], nan=2.0) + (X[:, 2] == 0) * 1.5 - X[:, 0]
    grower = library.LGBMRegressor(n_estimators=20, num_leaves=7, verbose=-1, n_jobs=1, **settings)
    model = grower.fit(X, y).booster_
    fresh = rng.normal(size=(2000, 4)).round(1)
    fresh[rng.random(fresh.shape) < 0.2] = np.nan
    fresh[rng.random(fresh.shape) < 0.2] = 0.0
    fresh[rng.random(fresh.shape) < 0.1] = 1e-36
    scores = run(to_onnx(model), X=fresh)["scores"]
    np.testing.assert_allclose(scores, model.predict(fresh), rtol=0, atol=1e-12)


def test_the_number_that_stands_for_missing_values_in_xgboost():
    library = pytest.importorskip("xgboost")
    rng = np.random.default_rng(0)
    X = np.where(rng.random((800, 3)) < 0.3, -9.1, rng.normal(size=(800, 3)))
    model = library.XGBRegressor(n_estimators=20, max_depth=3, n_jobs=1, missing=-9.1)
    model.fit(X, (X[:, 0] == -9.1) - X[:, 1])
    np.testing.assert_allclose(run(to_onnx(model), X=X)["scores"], model.predict(X), rtol=0, atol=1e-5)


def coded_rows(n_rows, seed, n_codes):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 3))
    X[:, 2] = rng.integers(0, n_codes, n_rows)
    return X


@pytest.mark.parametrize("n_codes", [5, 90])
@pytest.mark.parametrize("library", ["lightgbm", "xgboost", "hist"])
def test_sets_of_codes_and_codes_that_training_did_not_see(library, n_codes):
    X = coded_rows(3000, 0, n_codes)
    y = np.isin(X[:, 2], np.arange(0, n_codes, 3)) + np.isin(X[:, 2], [1, 4, 70]) * X[:, 0] + 0.2 * X[:, 1]
    if library == "lightgbm":
        grower = pytest.importorskip("lightgbm").LGBMRegressor(n_estimators=10, verbose=-1, n_jobs=1)
        grower = grower.fit(X, y, categorical_feature=[2]).booster_
    elif library == "xgboost":
        grower = pytest.importorskip("xgboost").XGBRegressor(
            n_estimators=10,
            n_jobs=1,
            feature_types=["q", "q", "c"],
            enable_categorical=True,
            max_cat_to_onehot=2,
        )
        grower.fit(X, y)
    else:
        grower = HistGradientBoostingRegressor(max_iter=10, categorical_features=[2]).fit(X, y)
    written = ensemble_of(grower).with_values(ensemble_of(grower).values)
    model = to_onnx(written.model)
    assert (tree_attributes(model)["nodes_modes"] == 6).any()
    fresh = coded_rows(3000, 1, n_codes)
    fresh[::7, 2] = np.nan
    if library != "xgboost":  # which refuses codes beyond those of training in some versions
        fresh[::11, 2] = n_codes + 3
        fresh[::13, 2] = -1.0
    np.testing.assert_array_equal(run(model, X=fresh)["scores"], written.scores(fresh))


def test_categories_that_are_numbers_are_given_as_they_are_in_hist():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=1000), rng.choice([-3.0, 10.0, 11.0, 500.0], 1000)])
    y = np.isin(X[:, 1], [10, 500]) + 0.1 * X[:, 0]
    model = HistGradientBoostingRegressor(max_iter=5, categorical_features=[1]).fit(X, y)
    fresh = np.column_stack([rng.normal(size=200), rng.choice([-3.0, 10, 11, 500, 10.5, 7, np.nan], 200)])
    scores = run(to_onnx(model), X=fresh)["scores"]
    np.testing.assert_allclose(scores, model.predict(fresh), rtol=0, atol=1e-14)


def test_categories_that_are_no_whole_numbers_are_refused():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=500), rng.choice([0.5, 1.5, 3.0], 500)])
    model = HistGradientBoostingRegressor(max_iter=5, categorical_features=[1]).fit(X, X[:, 1] == 1.5)
    with pytest.raises(InputError, match=r"column 1 has categories that are not whole numbers, such as 0\.5"):
        to_onnx(model)


@pytest.mark.parametrize("name", ["LGBMClassifier", "HistGradientBoostingClassifier"])
def test_metadata_tell_what_codes_stand_for(name):
    told = json.loads(metadata(to_onnx(grown(name).model))["categories"])
    assert told == {"e": ["black", "blue", "green", "red", "white"]}


def test_what_a_library_refuses_has_no_score_and_no_label():
    X = numbers(500, 1)
    model = GradientBoostingClassifier(n_estimators=5).fit(X, answers_of(X))
    X[3, 1] = np.nan
    outputs = run(to_onnx(model), X=X[:5])
    assert np.isnan(outputs["scores"]).tolist() == [False, False, False, True, False]
    assert outputs["label"][3] == ""
    assert np.isnan(outputs["probabilities"][3]).all()


def test_trees_of_one_leaf():
    X = numbers(300, 1)
    model = HistGradientBoostingRegressor(max_iter=3, min_samples_leaf=200).fit(X, target_of(X))
    scores = run(to_onnx(model), X=X)["scores"]
    np.testing.assert_allclose(scores, model.predict(X), rtol=0, atol=1e-14)


def test_catboost_is_referred_to_itself():
    pytest.importorskip("catboost")
    with pytest.raises(InputError, match=r"CatBoostClassifier is not exported here: CatBoost does so itself"):
        to_onnx(grown("CatBoostClassifier").model)


_ALONE = """
import sys
for name in ("partialfair", "sklearn", "lightgbm", "xgboost", "pandas", "onnx"):
    sys.modules[name] = None
import numpy as np
from onnxruntime import InferenceSession
session = InferenceSession("model.onnx", providers=["CPUExecutionProvider"])
np.save("scores.npy", session.run(["scores"], {"X": np.load("X.npy")})[0])
"""


def test_a_process_without_partialfair_and_without_the_library_gives_the_same(tmp_path):
    name = "HistGradientBoostingClassifier"
    written, fresh = refitted(name), grown(name).fresh
    to_onnx(written.model, tmp_path / "model.onnx")
    np.save(tmp_path / "X.npy", as_numbers(fresh))
    subprocess.run([sys.executable, "-c", _ALONE], cwd=tmp_path, check=True)
    np.testing.assert_array_equal(np.load(tmp_path / "scores.npy"), written.scores(fresh))
