"""Exported linear models, adjusters and pipelines score as they do; what Python refuses has no score."""

from __future__ import annotations

import json
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.decomposition import PCA
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression, RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler

from partialfair import PartialFairClassifier, PartialFairRegressor
from partialfair.data.categoricals import CategoricalCodes
from partialfair.exceptions import InputError, MissingExtraError
from partialfair.postprocessing import PartialParityAdjuster
from partialfair.postprocessing.maps import ScoreMap
from tests.onnx_runs import metadata, run

to_onnx = pytest.importorskip("partialfair.onnx").to_onnx
pytest.importorskip("onnxruntime")

N = 400
LABELS = {
    "texts": ["b", "a", "ß × c"],
    "whole numbers": [7, -3, 10**12],
    "booleans": [True, False],
    "doubles": [1.5, -0.25],
}


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 3))
    y = np.where(X.sum(axis=1) + rng.normal(size=N) > 0, "yes", "no")
    return X, y, rng


def fresh_rows(n_rows=500):
    return np.random.default_rng(9).normal(size=(n_rows, 3))


def close(got, expected):
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("loss", ["logistic", "hinge"])
def test_a_linear_classifier_needs_no_group(rows, loss):
    X, y, rng = rows
    groups = rng.choice(["a", "b"], N)
    clf = PartialFairClassifier(interval=(0.1, 0.6), max_gap=0.3, loss=loss).fit(
        X, y, sensitive_features=groups
    )
    model, fresh = to_onnx(clf), fresh_rows()
    outputs = run(model, X=fresh)
    close(outputs["scores"], clf.decision_function(fresh))
    assert outputs["label"].tolist() == clf.predict(fresh).tolist()
    if loss == "logistic":
        close(outputs["probabilities"], clf.predict_proba(fresh))
    else:
        assert "probabilities" not in outputs
    told = metadata(model)
    assert told["model"] == "PartialFairClassifier"
    assert told["needs_group"] == "false"
    assert json.loads(told["groups"]) == ["a", "b"]
    (stated,) = json.loads(told["constraints"])
    assert stated["training_gap"] == pytest.approx(clf.result_.gap)


def test_a_regressor_returns_predictions_alone(rows):
    X, _, rng = rows
    reg = PartialFairRegressor(constraint=None).fit(X, X @ [1.0, 2.0, -1.0] + rng.normal(size=N))
    outputs = run(to_onnx(reg), X=fresh_rows())
    assert list(outputs) == ["scores"]
    close(outputs["scores"], reg.predict(fresh_rows()))


@pytest.mark.parametrize("terms", ["intercept", "interactions"])
@pytest.mark.parametrize("kind", LABELS)
def test_group_terms_take_the_group(rows, kind, terms):
    X, y, rng = rows
    groups = rng.choice(np.array(LABELS[kind]), N)
    clf = PartialFairClassifier(constraint=None, group_terms=terms).fit(X, y, sensitive_features=groups)
    fresh = fresh_rows(N)
    close(run(to_onnx(clf), X=fresh, group=groups)["scores"], clf.decision_function(fresh, groups))


def test_a_group_that_the_model_does_not_know_has_no_score(rows):
    X, y, rng = rows
    clf = PartialFairClassifier(constraint=None, group_terms="intercept")
    clf.fit(X, y == "yes", sensitive_features=rng.choice(["a", "b"], N))
    outputs = run(to_onnx(clf), X=X[:3], group=["a", "c", ""])
    assert np.isnan(outputs["scores"]).tolist() == [False, True, True]
    assert outputs["label"][1:].tolist() == [-1, -1]
    assert np.isnan(outputs["probabilities"][1:]).all()


def test_crossed_groups_have_an_input_for_each_column(rows):
    X, y, rng = rows
    groups = pd.DataFrame({"sex": rng.choice(["f", "m"], N), "class": rng.choice([1, 2, 3], N)})
    groups = groups[~((groups["sex"] == "f") & (groups["class"] == 3))]  # so one combination is new
    X, y = X[groups.index], y[groups.index]
    clf = PartialFairClassifier(constraint=None, group_terms="interactions")
    clf.fit(X, y, sensitive_features=groups)
    model = to_onnx(clf)
    given = {"sex": groups["sex"].to_numpy(object), "class": groups["class"].to_numpy(np.int64)}
    close(run(model, X=X, **given)["scores"], clf.decision_function(X, groups))
    strange = run(model, X=X[:3], sex=["f", "f", "x"], **{"class": np.array([3, 1, 1])})["scores"]
    assert np.isnan(strange).tolist() == [True, False, True]


def test_sensitive_columns_are_left_out_of_the_table(rows):
    X, y, rng = rows
    table = pd.DataFrame(X, columns=["u", "v", "w"])
    table.insert(1, "group", rng.choice(["a", "b"], N))
    clf = PartialFairClassifier(constraint=None, group_terms="intercept", sensitive_columns="group")
    clf.fit(table, y)
    model = to_onnx(clf)
    close(run(model, X=X, group=table["group"].to_numpy(object))["scores"], clf.decision_function(table))
    assert json.loads(metadata(model)["features"]) == ["u", "v", "w"]


def test_a_model_of_codes_takes_their_indicators(rows):
    _, y, rng = rows
    frame = pd.DataFrame({"p": rng.choice(list("xyz"), N), "q": rng.choice(list("uv"), N)})
    codes = CategoricalCodes.from_frame(frame)
    clf = PartialFairClassifier(constraint=None, alpha=0.01).fit(codes, y)
    model = to_onnx(clf)
    names = json.loads(metadata(model)["features"])
    indicators = np.column_stack([frame[name[0]] == name[-1] for name in names]).astype(float)
    close(run(model, X=indicators)["scores"], clf.decision_function(codes))


@pytest.mark.parametrize(
    "front",
    [
        [StandardScaler()],
        [StandardScaler(with_mean=False)],
        [StandardScaler(with_std=False)],
        [RobustScaler()],
        [MaxAbsScaler()],
        [MinMaxScaler()],
        [SimpleImputer(strategy="median"), StandardScaler()],
    ],
    ids=lambda steps: "-".join(map(repr, steps)),
)
def test_scalers_in_front(rows, front):
    X, y, rng = rows
    if len(front) > 1:
        X = np.where(rng.random(X.shape) < 0.2, np.nan, X)
    pipe = make_pipeline(*front, PartialFairClassifier(constraint=None, alpha=0.01)).fit(3 * X + 1, y)
    close(run(to_onnx(pipe), X=3 * X + 1)["scores"], pipe.decision_function(3 * X + 1))


def adjusted(rows, **settings):
    X, _, rng = rows
    groups = rng.choice(np.array(settings.pop("labels", ["a", "b"])), N)
    scores = X[:, 0] + (groups == groups[0])
    adjuster = PartialParityAdjuster(interval=(0.1, 0.6), max_gap=0.05, **settings)
    return adjuster.fit(scores, sensitive_features=groups), groups


@pytest.mark.parametrize("kind", LABELS)
def test_an_adjuster_moves_scores_to_the_last_bit(rows, kind):
    adjuster, groups = adjusted(rows, labels=LABELS[kind])
    model = to_onnx(adjuster)
    knots = np.concatenate([one.knots for one in adjuster.maps_])
    assert any((one.knots != one.values).any() for one in adjuster.maps_)
    for scores in (
        knots,
        np.nextafter(knots, np.inf),
        np.nextafter(knots, -np.inf),
        9 * fresh_rows().ravel(),
    ):
        given = np.resize(groups, scores.size)
        got = run(model, unadjusted=scores, group=given)["scores"]
        np.testing.assert_array_equal(got, adjuster.transform(scores, given))


def test_a_map_of_one_knot(rows):
    adjuster, _ = adjusted(rows)
    one = ScoreMap("a", np.array([0.3]), np.array([0.1]))
    adjuster.maps_ = (one, *adjuster.maps_[1:])
    scores = np.array([-1.0, np.nextafter(0.3, -1), 0.3, np.nextafter(0.3, 1), 2.0])
    got = run(to_onnx(adjuster), unadjusted=scores, group=["a"] * 5)["scores"]
    np.testing.assert_array_equal(got, one(scores))


def test_scores_out_of_range_and_strange_groups_have_no_answer(rows):
    adjuster, groups = adjusted(rows, score_range=(-6.0, 6.0))
    model = to_onnx(adjuster)
    scores = np.array([-6.0, 6.0, np.nextafter(-6.0, -7), np.nextafter(6.0, 7), np.nan, 0.0])
    got = run(model, unadjusted=scores, group=["a"] * 5 + ["c"])["scores"]
    assert np.isnan(got).tolist() == [False, False, True, True, True, True]
    assert got[:2].tolist() == [-6.0, 6.0]
    inside = np.linspace(-6, 6, groups.size)
    np.testing.assert_array_equal(
        run(model, unadjusted=inside, group=groups)["scores"], adjuster.transform(inside, groups)
    )


def test_rows_without_a_group_keep_their_scores_where_they_may(rows):
    adjuster, _ = adjusted(rows, missing_groups="ignore")
    got = run(to_onnx(adjuster), unadjusted=[0.25, 0.25, 0.25], group=["", "c", "a"])["scores"]
    assert got[0] == 0.25
    assert np.isnan(got[1])
    assert got[2] == adjuster.transform([0.25], ["a"])[0]


def scorers(X, y, groups):
    own = PartialFairClassifier(constraint=None, group_terms="intercept")
    return {
        "ours, with group terms": (own.fit(X, y, sensitive_features=groups), "auto"),
        "probabilities of ours": (PartialFairClassifier(constraint=None).fit(X, y), "predict_proba"),
        "trees": (HistGradientBoostingClassifier(max_iter=8).fit(X, y), "auto"),
        "forest": (RandomForestClassifier(n_estimators=50, max_depth=6, random_state=0).fit(X, y), "auto"),
        "logistic": (LogisticRegression().fit(X, y), "auto"),
        "its probabilities": (LogisticRegression().fit(X, y), "predict_proba"),
        "ridge": (RidgeClassifier().fit(X, y), "auto"),
        "pipeline": (make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y), "auto"),
        "regression": (LinearRegression().fit(X, y == "yes"), "auto"),
    }


@pytest.mark.parametrize("name", scorers(np.eye(6)[:, :3], np.array(["no", "yes"] * 3), ["a", "b"] * 3))
def test_an_adjuster_around_a_scorer(rows, name):
    X, y, rng = rows
    groups = np.where(X[:, 0] + rng.normal(size=N) > 0, "a", "b")
    scorer, response = scorers(X, y, groups)[name]
    adjuster = PartialParityAdjuster(
        interval=(0.1, 0.6), max_gap=0.1, estimator=FrozenEstimator(scorer), response_method=response
    ).fit(X, sensitive_features=groups)
    outputs = run(to_onnx(adjuster), X=X, group=groups)
    close(outputs["scores"], adjuster.transform(X, groups))
    if hasattr(adjuster, "classes_"):
        assert outputs["label"].tolist() == adjuster.predict(X, groups).tolist()
    else:
        assert list(outputs) == ["scores"]
    if hasattr(adjuster, "predict_proba"):
        close(outputs["probabilities"], adjuster.predict_proba(X, groups))


def test_metadata_of_an_adjuster(rows):
    told = metadata(to_onnx(adjusted(rows)[0]))
    assert told["needs_group"] == "true"
    (stated,) = json.loads(told["constraints"])
    assert stated["constraint"] == "statistical_parity"
    assert stated["max_gap"] == 0.05


class TestRefusals:
    def test_classes_of_models(self):
        with pytest.raises(InputError, match="not the class PartialFairClassifier"):
            to_onnx(PartialFairClassifier)

    def test_models_of_other_kinds(self):
        with pytest.raises(InputError, match=r"PCA cannot be exported; to_onnx takes PartialFairClassifier"):
            to_onnx(PCA())

    def test_models_that_are_not_fitted(self):
        with pytest.raises(ValueError, match="not fitted"):
            to_onnx(PartialFairClassifier(interval=(0, 1)))

    def test_functions(self, rows):
        X, _, rng = rows
        adjuster = PartialParityAdjuster(interval=(0, 1), estimator=lambda X: X[:, 0], max_gap=0.5)
        adjuster.fit(X, sensitive_features=rng.choice(["a", "b"], N))
        with pytest.raises(InputError, match=r"the estimator <lambda> is a function"):
            to_onnx(adjuster)

    def test_steps_that_mix_columns(self, rows):
        X, y, _ = rows
        pipe = make_pipeline(PCA(), PartialFairClassifier(constraint=None)).fit(X, y)
        with pytest.raises(InputError, match=r"the step PCA cannot be exported; convert it with skl2onnx"):
            to_onnx(pipe)

    def test_groups_of_several_kinds(self, rows):
        X, y, rng = rows
        groups = np.where(rng.random(N) < 0.5, 1, np.array("x", dtype=object))
        clf = PartialFairClassifier(constraint=None, group_terms="intercept")
        with pytest.raises(InputError, match=r"groups 1 and 'x' are neither all texts nor all numbers"):
            to_onnx(clf.fit(X, y, sensitive_features=groups))

    def test_onnx_that_is_not_installed(self, rows, monkeypatch):
        X, y, _ = rows
        monkeypatch.setitem(sys.modules, "onnx", None)
        with pytest.raises(
            MissingExtraError, match=r"export to ONNX needs onnx.*pip install 'partialfair\[onnx\]'"
        ):
            to_onnx(PartialFairClassifier(constraint=None).fit(X, y))
