"""What is checked of libraries' own formats before they read it, and ways around the checks."""

from __future__ import annotations

import io
import json
import re
import zipfile

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.ensemble import (
    BaggingClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    IsolationForest,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from partialfair import load_model, save_model
from partialfair.exceptions import InputError
from partialfair.persistence import model_bytes
from partialfair.utils.model_files.lightgbm import rewrite_text
from partialfair.utils.model_files.scikit_learn import check_models
from partialfair.utils.model_files.xgboost import rewrite_json

RNG = np.random.default_rng(0)
CODES = RNG.integers(0, 40, 300)
FRAME = pd.DataFrame({"a": RNG.normal(size=300), "b": RNG.normal(size=300), "c": pd.Categorical(CODES)})
LABELS = (FRAME["a"] + CODES % 3 + RNG.normal(size=300) > 1).to_numpy().astype(int)
X = FRAME[["a", "b"]].to_numpy()


@pytest.fixture(scope="module")
def text():
    """The text of trees that split at numbers and at categories."""
    lightgbm = pytest.importorskip("lightgbm")
    settings = {
        "min_child_samples": 5,
        "cat_smooth": 1.0,
        "min_data_per_group": 5,
        "n_jobs": 1,
        "verbose": -1,
    }
    return (
        lightgbm.LGBMClassifier(n_estimators=3, num_leaves=5, **settings)
        .fit(FRAME, LABELS)
        .booster_.model_to_string()
    )


@pytest.fixture(scope="module")
def document():
    xgboost = pytest.importorskip("xgboost")
    settings = {"n_jobs": 1, "enable_categorical": True, "max_cat_to_onehot": 1, "tree_method": "hist"}
    model = xgboost.XGBClassifier(n_estimators=3, max_depth=3, **settings).fit(FRAME, LABELS)
    return bytes(model.get_booster().save_raw("json"))


def test_good_text_is_written_as_it_was(text):
    before, _, _ = text.partition("end of trees")
    assert "cat_threshold=" in before
    assert rewrite_text(text).partition("end of trees")[0] == before
    parameters = re.search(r"(?s)\nparameters:\n.*end of parameters", text)[0]
    assert parameters in rewrite_text(text)


def test_several_classes_and_trees_without_splits():
    lightgbm = pytest.importorskip("lightgbm")
    for labels, settings in (
        (CODES % 3, {}),
        (LABELS, {"min_child_samples": 1000}),
        (LABELS, {"boosting_type": "rf"}),
    ):
        settings = {
            "n_estimators": 2,
            "n_jobs": 1,
            "verbose": -1,
            "bagging_freq": 1,
            "bagging_fraction": 0.5,
        } | settings
        text = lightgbm.LGBMClassifier(**settings).fit(X, labels).booster_.model_to_string()
        assert rewrite_text(text).partition("end of trees")[0] == text.partition("end of trees")[0]


def test_linear_leaves_are_not_saved(tmp_path):
    lightgbm = pytest.importorskip("lightgbm")
    model = lightgbm.LGBMRegressor(n_estimators=1, linear_tree=True, n_jobs=1, verbose=-1).fit(X, X[:, 0])
    with pytest.raises(InputError, match="cannot be checked"):
        save_model(model, tmp_path / "model.skops")


@pytest.mark.parametrize(
    ("line", "other"),
    [
        (r"num_leaves=\d+", "num_leaves=1000000000"),
        (r"num_leaves=\d+", "num_leaves=4"),
        (r"num_cat=\d+", "num_cat=9"),
        (r"split_feature=\d+", "split_feature=3"),
        (r"split_feature=\d+", "split_feature=-1"),
        (r"left_child=-?\d+", "left_child=0"),
        (r"left_child=-?\d+", "left_child=-100"),
        (r"right_child=-?\d+", "right_child=7"),
        (r"right_child=-?\d+", "right_child=1.5"),
        (r"threshold=\S+", "threshold=nan"),
        (r"decision_type=\d+", "decision_type=14"),
        (r"cat_boundaries=0", "cat_boundaries=5"),
        (r"cat_threshold=\d+", "cat_threshold=-1"),
        (r"leaf_value=\S+", "leaf_value=inf"),
        (r"leaf_value=\S+ ", "leaf_value="),
        (r"num_class=1", "num_class=3"),
        (r"num_tree_per_iteration=1", "num_tree_per_iteration=0"),
        (r"max_feature_idx=2", "max_feature_idx=1"),
        (r"max_feature_idx=2", "max_feature_idx=2000000000"),
        (r"objective=binary sigmoid:1", "objective=multiclass num_class:100"),
        (r"Tree=1\n", "Tree=7\n"),
        (r"feature_names=a", "feature_names="),
        (r"shrinkage=1", "shrinkage=x"),
        (r"end of trees", "end"),
    ],
)
def test_changed_text_is_refused(text, line, other):
    assert re.search(line, text)
    with pytest.raises(InputError, match=r"LightGBM in it|a tree in it"):
        rewrite_text(re.sub(line, other, text, count=1))


def test_thresholds_may_be_infinite(text):
    changed = re.sub(r"threshold=-?\d\S*", "threshold=inf", text, count=1)
    assert "threshold=inf" in rewrite_text(changed)


def test_sizes_of_trees_are_counted_again(text):
    wrong = re.sub(r"tree_sizes=.*", "tree_sizes=5 100000000 3", text)
    assert rewrite_text(wrong) == rewrite_text(text)


def test_good_json_says_the_same(document):
    assert json.loads(rewrite_json(document)) == json.loads(document)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("left_children 0", 0),
        ("left_children 0", 10**8),
        ("right_children 0", -5),
        ("split_indices 0", 10**6),
        ("split_indices 0", 10**30),
        ("split_conditions 0", float("nan")),
        ("split_conditions 0", 1e300),
        ("split_type 0", 7),
        ("parents 1", 3),
        ("categories 0", -1),
        ("categories 0", 2**31),
        ("categories_nodes 0", 1000),
        ("categories_sizes 0", 10**6),
        ("categories_segments 0", -3),
        ("base_weights", []),
        ("sum_hessian", "x"),
        ("tree_param num_nodes", "1000000000"),
        ("tree_param size_leaf_vector", "5"),
        ("extra", 1),
    ],
)
def test_changed_trees_of_xgboost_are_refused(document, path, value):
    whole = json.loads(document)
    trees = whole["learner"]["gradient_booster"]["model"]["trees"]
    part = next(tree for tree in trees if tree["categories"])
    *way, last = (int(key) if key.isdigit() else key for key in path.split(" "))
    for key in way:
        part = part[key]
    part[last] = value
    with pytest.raises(InputError, match=r"XGBoost|a tree in it"):
        rewrite_json(json.dumps(whole).encode())


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("learner_model_param num_feature", "2"),
        ("learner_model_param num_class", "3"),
        ("learner_model_param base_score", "1e999"),
        ("gradient_booster name", "dart"),
        ("gradient_booster model gbtree_model_param num_trees", "9"),
        ("gradient_booster model gbtree_model_param num_parallel_tree", "0"),
        ("gradient_booster model tree_info", [0, 0, 5]),
        ("gradient_booster model trees", []),
        ("attributes", {"best_iteration": "100"}),
        ("objective name", "multi:softmax"),
        ("feature_names", ["a"]),
        ("feature_types", ["x", "x", "x"]),
    ],
)
def test_changed_json_of_xgboost_is_refused(document, path, value):
    whole = json.loads(document)
    part, (*way, last) = whole["learner"], path.split(" ")
    for key in way:
        part = part[key]
    part[last] = value
    with pytest.raises(InputError, match="XGBoost"):
        rewrite_json(json.dumps(whole).encode())


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{}", b"[" * 10**5, b"\xff", b'{"learner": 3, "version": [1, 2, 3]}']
)
def test_other_texts_for_xgboost(content):
    with pytest.raises(InputError, match="XGBoost"):
        rewrite_json(content)


FOREST = RandomForestClassifier(3, max_depth=2, random_state=0).fit(X, LABELS)
BOOSTED = GradientBoostingClassifier(n_estimators=2).fit(X, LABELS)
OF_THREE = GradientBoostingClassifier(n_estimators=2).fit(X, CODES % 3)
HISTOGRAMS = HistGradientBoostingClassifier(max_iter=2).fit(X, LABELS)


@pytest.mark.parametrize(
    ("model", "name", "value"),
    [
        (FOREST, "n_features_in_", 1),
        (FOREST, "n_features_in_", 10**6),
        (FOREST, "n_features_in_", None),
        (FOREST, "estimators_", []),
        (FOREST, "estimators_", BOOSTED.estimators_.ravel().tolist()[:1] * 2 + [3]),
        (FOREST, "n_classes_", 10**9),
        (FOREST, "n_jobs", 10**9),
        (BOOSTED, "n_features_in_", 1),
        (BOOSTED, "n_trees_per_iteration_", 3),
        (BOOSTED, "estimators_", FOREST.estimators_),
        (BOOSTED, "_loss", OF_THREE._loss),
        (BOOSTED, "estimators_", OF_THREE.estimators_),
        (HISTOGRAMS, "n_features_in_", 1),
        (HISTOGRAMS, "n_trees_per_iteration_", 5),
        (HISTOGRAMS, "_in_fit", True),
        (HISTOGRAMS, "_predictors", [[FOREST]]),
        (HISTOGRAMS, "_baseline_prediction", np.zeros((1, 9))),
    ],
)
def test_ensembles_whose_parts_do_not_fit(model, name, value):
    check_models({"inside": [model]})
    changed = object.__new__(type(model))
    changed.__dict__ |= {**vars(model), name: value}
    with pytest.raises(InputError, match=r"^(its|it holds|an ensemble)"):
        check_models({"inside": [changed]})


def _edited_schema(model, change):
    """Return the model's file after a change of the nodes of its schema."""
    with zipfile.ZipFile(io.BytesIO(model_bytes(model))) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    schema = json.loads(members["schema.json"])
    waiting, n_changed = [schema], 0
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict) and "__loader__" in part:
            n_changed += change(part) is not None
        waiting += part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
    assert n_changed
    members["schema.json"] = json.dumps(schema).encode()
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return written.getvalue()


def _as_loss(node):
    if node["__loader__"] == "TreeNode":
        node["__loader__"] = "LossNode"
        return node
    return None


def _deeper_state(node):
    if node["__loader__"] == "TreeNode":
        node["content"]["content"]["more"] = node["content"]["content"]["max_depth"]
        return node
    return None


def _shallow(node):
    if node["__loader__"] == "TreeNode":
        node["content"]["content"]["max_depth"]["content"] = "0"
        return node
    return None


def _sparse_object(node):
    if node["__class__"] == "RandomForestClassifier":
        node["__class__"], node["__module__"] = "csr_matrix", "scipy.sparse._csr"
        return node
    return None


@pytest.mark.parametrize("change", [_as_loss, _deeper_state, _shallow, _sparse_object])
def test_ways_around_the_checks(tmp_path, change):
    path = tmp_path / "model.skops"
    path.write_bytes(_edited_schema(FOREST, change))
    with pytest.raises(InputError, match="is damaged"):
        load_model(path)


@pytest.mark.parametrize("n_jobs", [-(1 << 20), 1 << 20, 1.5])
def test_jobs_are_a_number_of_them(n_jobs):
    model = clone(FOREST).set_params(n_jobs=n_jobs)
    with pytest.raises(InputError, match="n_jobs is not a number of jobs"):
        check_models(model)


@pytest.mark.parametrize(
    "model",
    [
        KMeans(2, n_init=1),
        SVC(),
        KNeighborsClassifier(3),
        BaggingClassifier(LogisticRegression(), 2, random_state=0),
        IsolationForest(n_estimators=3, random_state=0),
        GradientBoostingClassifier(n_estimators=1),
    ],
)
def test_models_that_cannot_be_checked_are_neither_saved_nor_loaded(tmp_path, model):
    X = np.random.default_rng(0).normal(size=(30, 2))
    pipe = make_pipeline(StandardScaler(), model).fit(X, np.arange(30) % 3)
    with pytest.raises(InputError, match=f"its {type(model).__name__} (cannot be checked|has parts)"):
        save_model(pipe, tmp_path / "model.skops")
