"""Explainers of the libraries, on written models: contributions add up, from the mean over training rows."""

from __future__ import annotations

import json

import numpy as np
import pytest

from partialfair.trees.ensembles import TreeEnsemble, ensemble_of
from tests.tree_models import grown

ROWS = 500


def written(name: str) -> tuple[TreeEnsemble, object]:
    case = grown(name)
    ensemble = ensemble_of(case.model)
    values = ensemble.values + np.random.default_rng(3).normal(scale=0.3, size=len(ensemble.values))
    return ensemble.with_values(values), case.fresh[:ROWS]


def means_from_below(left, right, cover, values, node=0):
    """Return the cover-weighted mean of the leaves below a node, and its cover, by recursion."""
    if left[node] < 0:
        return values[node], cover[node]
    (low, low_cover), (high, high_cover) = (
        means_from_below(left, right, cover, values, child[node]) for child in (left, right)
    )
    return (low_cover * low + high_cover * high) / (low_cover + high_cover), low_cover + high_cover


@pytest.mark.parametrize("name", ["LGBMClassifier", "LGBMRegressor", "lightgbm.Booster"])
def test_lightgbm(name):
    ensemble, fresh = written(name)
    contributions = ensemble.model.predict(fresh, pred_contrib=True)
    np.testing.assert_allclose(contributions.sum(axis=1), ensemble.scores(fresh), atol=1e-10)
    booster = getattr(ensemble.model, "booster_", ensemble.model)
    trees = booster.dump_model()["tree_info"]
    roots = [lightgbm_mean(tree["tree_structure"])[0] for tree in trees]
    np.testing.assert_allclose(contributions[:, -1], sum(roots), atol=1e-10)
    shown = [tree["tree_structure"]["internal_value"] for tree in trees]
    np.testing.assert_allclose(shown, roots, atol=1e-10)


def lightgbm_mean(node):
    if "leaf_value" in node:
        return node["leaf_value"], node["leaf_count"]
    (low, low_count), (high, high_count) = (
        lightgbm_mean(node[f"{side}_child"]) for side in ("left", "right")
    )
    mean = (low * low_count + high * high_count) / (low_count + high_count)
    assert node["internal_value"] == pytest.approx(mean, abs=1e-10)
    return mean, low_count + high_count


@pytest.mark.parametrize("name", ["XGBClassifier", "XGBRegressor", "xgboost.Booster"])
def test_xgboost(name):
    xgboost = pytest.importorskip("xgboost")
    ensemble, fresh = written(name)
    booster = ensemble.model if name == "xgboost.Booster" else ensemble.model.get_booster()
    table = xgboost.DMatrix(fresh, enable_categorical=True)
    contributions = booster.predict(table, pred_contribs=True)
    np.testing.assert_allclose(contributions.sum(axis=1), ensemble.scores(fresh), atol=1e-5)
    roots = 0.0
    for tree in json.loads(booster.save_raw("json"))["learner"]["gradient_booster"]["model"]["trees"]:
        arrays = (np.array(tree[key]) for key in ("left_children", "right_children", "sum_hessian"))
        left, right, cover = arrays
        mean, _ = means_from_below(left, right, cover, np.array(tree["split_conditions"]))
        assert tree["base_weights"][0] == pytest.approx(mean, abs=1e-5)
        roots += mean
    np.testing.assert_allclose(contributions[:, -1], roots, atol=1e-5)


@pytest.mark.parametrize("name", ["CatBoostClassifier", "CatBoostRegressor"])
def test_catboost(name):
    catboost = pytest.importorskip("catboost")
    ensemble, fresh = written(name)
    contributions = ensemble.model.get_feature_importance(
        catboost.Pool(fresh, cat_features=["e"]), type="ShapValues"
    )
    np.testing.assert_allclose(contributions.sum(axis=1), ensemble.scores(fresh), atol=1e-10)


@pytest.mark.parametrize(
    "name",
    ["GradientBoostingClassifier", "RandomForestClassifier", "RandomForestRegressor", "ExtraTreesRegressor"],
)
def test_decision_trees_hold_means(name):
    ensemble, _ = written(name)
    for estimator in np.ravel(ensemble.model.estimators_):
        tree = estimator.tree_
        held = tree.value[:, 0, -1]
        for node in range(tree.node_count):
            mean, _ = means_from_below(
                tree.children_left, tree.children_right, tree.weighted_n_node_samples, held, node
            )
            assert held[node] == pytest.approx(mean, abs=1e-12)
        if ensemble.score_kind == "probability":
            np.testing.assert_allclose(tree.value.sum(axis=2), 1.0, atol=1e-15)
            assert tree.value.min() >= 0.0


def test_nodes_of_histograms_hold_means():
    ensemble, _ = written("HistGradientBoostingRegressor")
    for (tree,) in ensemble.model._predictors:
        nodes = tree.nodes
        left, right = (
            np.where(nodes["is_leaf"] == 1, -1, nodes[side].astype(int)) for side in ("left", "right")
        )
        for node in range(len(nodes)):
            mean, _ = means_from_below(left, right, nodes["count"].astype(float), nodes["value"], node)
            assert nodes["value"][node] == pytest.approx(mean, abs=1e-12)
