"""Trees and tables out of the ordinary: pruned, without splits, side by side; sparse rows, lists, frames."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.ensemble import (
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)

from partialfair.exceptions import InputError
from partialfair.trees.ensembles import TreeEnsemble, ensemble_of
from tests.tree_models import numbers, scores_with, target_of

# LightGBM 4.6 gives arrays names of features, which scikit-learn then misses.
pytestmark = pytest.mark.filterwarnings("ignore:X does not have valid feature names")

X, FRESH = numbers(1_000, 1), numbers(1_000, 2)
TARGET = target_of(X)
LABELS = (TARGET > 0.2).astype(int)


def check(model, fresh=FRESH) -> TreeEnsemble:
    """Check that values add up to scores, and that other values do in a written copy, to the last bit."""
    ensemble = ensemble_of(model)
    leaves, scores = ensemble.leaves(fresh), ensemble.scores(fresh)
    near = 1e-5 * max(1.0, np.abs(scores).max())
    np.testing.assert_allclose(scores_with(ensemble, ensemble.values, leaves), scores, rtol=0, atol=near)
    halves = (
        0.5 * ensemble.values
        + 0.1 * np.arange(len(ensemble.values)) / len(ensemble.values) / ensemble.n_trees
    )
    written = ensemble.with_values(halves)
    np.testing.assert_array_equal(written.scores(fresh), scores_with(ensemble, halves, leaves))
    assert not np.array_equal(written.scores(fresh), scores)
    return ensemble


def xgboost(name: str, **settings):
    return getattr(pytest.importorskip("xgboost"), name)(**({"n_jobs": 1, "n_estimators": 5} | settings))


def lightgbm(name: str, **settings):
    quiet = {"verbose": -1, "n_jobs": 1, "n_estimators": 5}
    return getattr(pytest.importorskip("lightgbm"), name)(**(quiet | settings))


def test_nodes_that_xgboost_pruned():
    model = xgboost("XGBClassifier", tree_method="exact", gamma=10, max_depth=5).fit(X, LABELS)
    trees = json.loads(model.get_booster().save_raw("json"))["learner"]["gradient_booster"]["model"]["trees"]
    assert max(int(tree["tree_param"]["num_deleted"]) for tree in trees) > 0
    assert max(check(model).n_leaves) > 1


def test_trees_without_splits():
    assert check(xgboost("XGBClassifier", gamma=1e9, base_score=0.2).fit(X, LABELS)).n_leaves == (1,) * 5
    assert set(check(lightgbm("LGBMRegressor").fit(X[:30], TARGET[:30] + 7)).n_leaves) == {1}
    assert check(
        HistGradientBoostingClassifier(min_samples_leaf=900, max_iter=2).fit(X, LABELS)
    ).n_leaves == (1, 1)


def test_several_trees_an_iteration():
    model = xgboost("XGBClassifier", num_parallel_tree=3, subsample=0.5, base_score=0.01).fit(X, LABELS)
    assert check(model).n_trees == 15
    stopped = xgboost(
        "XGBClassifier",
        num_parallel_tree=3,
        subsample=0.5,
        early_stopping_rounds=2,
        n_estimators=60,
        learning_rate=0.9,
    ).fit(X, LABELS, eval_set=[(FRESH, target_of(FRESH, seed=9) > 0.2)], verbose=False)
    assert (
        check(stopped).n_trees
        == 3 * (stopped.best_iteration + 1)
        < stopped.get_booster().num_boosted_rounds() * 3
    )


def test_a_number_that_stands_for_missing_values():
    holes, fresh_holes = (np.where(np.abs(rows - 0.3) < 1e-9, -999.0, rows) for rows in (X, FRESH))
    assert (fresh_holes == -999.0).any()
    check(xgboost("XGBClassifier", missing=-999.0).fit(holes, LABELS), fresh_holes)


def test_categories_as_numbers():
    labels = LABELS ^ (X[:, 3] % 2 == 0)
    check(
        xgboost("XGBClassifier", feature_types=["q", "q", "q", "c"], enable_categorical=True).fit(X, labels),
        FRESH,
    )
    check(HistGradientBoostingClassifier(categorical_features=[3], max_iter=5).fit(X, labels))


@pytest.mark.parametrize("policy", ["Lossguide", "Depthwise"])
def test_trees_of_catboost_that_are_not_symmetric(policy):
    library = pytest.importorskip("catboost")
    check(
        library.CatBoostClassifier(
            iterations=5, grow_policy=policy, verbose=0, allow_writing_files=False, thread_count=1
        ).fit(X, LABELS)
    )


@pytest.mark.parametrize(
    "model",
    [
        GradientBoostingClassifier(init="zero", learning_rate=0.37, n_estimators=5),
        GradientBoostingClassifier(n_iter_no_change=1, n_estimators=50),
        RandomForestClassifier(n_estimators=5, class_weight="balanced", oob_score=False),
    ],
)
def test_other_settings_of_classifiers(model):
    check(model.fit(X, LABELS))


@pytest.mark.parametrize(
    "model",
    [
        GradientBoostingRegressor(loss="absolute_error", learning_rate=0.03, n_estimators=5),
        GradientBoostingRegressor(
            loss="huber", subsample=0.5, max_leaf_nodes=5, n_estimators=5, random_state=0
        ),
        ExtraTreesRegressor(n_estimators=1, bootstrap=True, random_state=0),
    ],
)
def test_other_settings_of_regressors(model):
    check(model.fit(X, 100 * TARGET + 4))


def test_weights_are_the_cover_of_forests():
    weights = np.random.default_rng(0).uniform(0.1, 3.0, len(X))
    model = RandomForestClassifier(n_estimators=2, max_depth=3, bootstrap=False).fit(
        X, LABELS, sample_weight=weights
    )
    ensemble = ensemble_of(model)
    root = ensemble.with_values(ensemble.values).model.estimators_[0].tree_.value[0, 0, 1]
    assert root == pytest.approx(np.average(LABELS, weights=weights), abs=1e-12)


FORMS = {
    "csr": sparse.csr_matrix,
    "csc": sparse.csc_matrix,
    "list": lambda rows: rows.tolist(),
    "polars": lambda rows: pl.DataFrame(rows, schema=["a", "b", "c", "d"]),
    "pandas": lambda rows: pd.DataFrame(rows, columns=["a", "b", "c", "d"]),
    "single precision": lambda rows: rows.astype(np.float32),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", ["lightgbm", "xgboost", "forest"])
def test_every_form_of_table_that_the_library_takes(kind, form, monkeypatch):
    monkeypatch.setattr("partialfair.trees.ensembles._CHUNK_CELLS", 2_000)  # several chunks
    make = {
        "lightgbm": lambda: lightgbm("LGBMClassifier"),
        "xgboost": lambda: xgboost("XGBClassifier"),
        "forest": lambda: RandomForestClassifier(n_estimators=5, max_depth=4, random_state=0),
    }[kind]
    sparse_rows = np.where(np.abs(X) < 0.5, 0.0, X), np.where(np.abs(FRESH) < 0.5, 0.0, FRESH)
    rows, fresh = (FORMS[form](part) for part in sparse_rows)
    try:
        model = make().fit(rows, LABELS)
    except Exception:
        pytest.skip("not a table for this version of the library")
    check(model, fresh)


@pytest.mark.parametrize("best", [None, 1], ids=["all", "stopped early"])
def test_names_of_any_alphabet_survive_xgboost_s_json(best):
    names = ["größe", "日本", "b\\u00e4", 'a "q"\t𝔘\x01']
    table, fresh = (pd.DataFrame(rows, columns=names) for rows in (X, FRESH))
    stop = {} if best is None else {"early_stopping_rounds": best}
    watched = {} if best is None else {"eval_set": [(fresh, np.roll(LABELS, 1))], "verbose": False}
    model = xgboost("XGBClassifier", max_depth=3, **stop).fit(table, LABELS, **watched)
    ensemble = check(model, fresh)
    written = ensemble.with_values(ensemble.values).model
    assert written.get_booster().feature_names == names
    np.testing.assert_array_equal(written.predict(fresh), model.predict(fresh))


def in_colours(rows: np.ndarray, colours: list[str]) -> pd.DataFrame:
    codes = np.digitize(rows[:, 1], [-0.5, 0.5])
    return pd.DataFrame({"a": rows[:, 0], "colour": pd.Categorical.from_codes(codes, colours)})


def test_a_written_xgboost_knows_categories_by_name_as_the_grown_one_does():
    """Also after early stopping: XGBoost's own cut at the best iteration forgets what codes stand for."""
    table, fresh = (in_colours(rows, ["red", "green", "blue"]) for rows in (X, FRESH))
    y = (np.digitize(X[:, 1], [-0.5, 0.5]) == 1).astype(int)
    model = xgboost("XGBClassifier", enable_categorical=True, early_stopping_rounds=2)
    model.fit(table, y, eval_set=[(table[:100], 1 - y[:100])], verbose=False)
    other_codes = fresh.assign(colour=fresh["colour"].cat.reorder_categories(["blue", "red", "green"]))
    grown_ones = model.predict(other_codes, output_margin=True)
    if not np.array_equal(grown_ones, model.predict(fresh, output_margin=True)):
        pytest.skip("this version of XGBoost goes by codes")
    written = check(model, fresh).with_values(np.arange(len(ensemble_of(model).values)) / 8)
    np.testing.assert_array_equal(written.scores(other_codes), written.scores(fresh))


def test_categories_whose_names_xgboost_garbles_are_refused():
    """Or it keeps the names: then people whose category is called ü are scored as such."""
    table = in_colours(X, ["ä", "ö", "ü"])
    y = (np.digitize(X[:, 1], [-0.5, 0.5]) == 2).astype(int)
    model = xgboost("XGBClassifier", enable_categorical=True).fit(table, y)
    if (model.predict(table) == y).all():
        check(model, table)
        return
    with pytest.raises(InputError, match="XGBClassifier confuses the categories of column 1"):
        ensemble_of(model)


def test_a_sparse_table_without_rows_to_take():
    ensemble = ensemble_of(RandomForestClassifier(n_estimators=5, max_depth=4).fit(X, LABELS))
    np.testing.assert_array_equal(
        ensemble.leaves(sparse.coo_matrix(FRESH)).codes, ensemble.leaves(FRESH).codes
    )
