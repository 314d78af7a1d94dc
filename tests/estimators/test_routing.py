"""Pipelines, searches and cross-validation, with and without ``sensitive_columns``."""

import numpy as np
import pytest
import sklearn
from sklearn.compose import make_column_transformer
from sklearn.metrics import make_scorer
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from partialfair import FitOptions, PartialFairClassifier
from partialfair.estimators import population
from partialfair.metrics import partial_statistical_parity_difference

pytestmark = pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.ConvergenceWarning", "ignore::partialfair.exceptions.SurrogateWarning"
)

INTERVAL = (0.1, 0.6)


def quick(**settings):
    return PartialFairClassifier(
        **{
            "enforce": "surrogate",
            "interval": INTERVAL,
            "options": FitOptions(n_points=3),
            "max_iter": 60,
            **settings,
        }
    )


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


GAP = make_scorer(
    partial_statistical_parity_difference,
    response_method="decision_function",
    greater_is_better=False,
    interval=INTERVAL,
)


def test_a_pipeline_hands_groups_on_without_any_request(people, routing):
    pipeline = make_pipeline(StandardScaler(), quick(group_terms="intercept"))
    pipeline.fit(people.X, people.y, sensitive_features=people.groups)
    scaled = StandardScaler().fit_transform(people.X)
    expected = quick(group_terms="intercept").fit(scaled, people.y, sensitive_features=people.groups)
    for method in ("decision_function", "predict", "predict_proba", "predict_log_proba"):
        found = getattr(pipeline, method)(people.X, sensitive_features=people.groups)
        assert (found == getattr(expected, method)(scaled, sensitive_features=people.groups)).all()
    assert pipeline.score(people.X, people.y, sensitive_features=people.groups) == expected.score(
        scaled, people.y, sensitive_features=people.groups
    )


def test_sample_weights_are_routed_on_request(people, routing):
    weights = np.arange(len(people.y)) % 3
    pipeline = make_pipeline(StandardScaler(), quick().set_fit_request(sample_weight=True))
    pipeline[0].set_fit_request(sample_weight=False)
    pipeline.fit(people.X, people.y, sensitive_features=people.groups, sample_weight=weights)
    scaled = StandardScaler().fit_transform(people.X)
    expected = quick().fit(scaled, people.y, sensitive_features=people.groups, sample_weight=weights)
    assert (pipeline[-1].coef_ == expected.coef_).all()


@pytest.mark.parametrize("group_terms", [None, "interactions"])
def test_a_search_with_groups_in_the_table(people, group_terms):
    """The plainest use: no routing, scorers that know nothing of groups."""
    search = GridSearchCV(
        quick(sensitive_columns="sex", group_terms=group_terms), {"max_gap": [0.05, 0.3]}, cv=3
    )
    search.fit(people.frame, people.y)
    assert set(search.cv_results_["param_max_gap"]) == {0.05, 0.3}
    assert search.predict(people.frame).shape == people.y.shape


def test_a_search_with_groups_beside_the_table(people, routing):
    search = GridSearchCV(quick(), {"max_gap": [0.05, 0.3], "alpha": [1e-3]}, cv=3)
    search.fit(people.X, people.y, sensitive_features=people.groups)
    assert not np.isnan(search.cv_results_["mean_test_score"]).any()


def test_a_search_without_routing_passes_groups_to_fit(people):
    search = GridSearchCV(quick(), {"max_gap": [0.05, 0.3]}, cv=3)
    search.fit(people.X, people.y, sensitive_features=people.groups)
    assert not np.isnan(search.cv_results_["mean_test_score"]).any()


def test_cross_validation_scores_the_gap(people, routing):
    scoring = {"gap": GAP.set_score_request(sensitive_features=True), "accuracy": "accuracy"}
    tables = [(quick(max_gap=0.1), people.X), (quick(max_gap=0.1, sensitive_columns="sex"), people.frame)]
    gaps = []
    for estimator, X in tables:
        found = cross_validate(
            estimator, X, people.y, cv=3, scoring=scoring, params={"sensitive_features": people.groups}
        )
        assert not np.isnan(found["test_accuracy"]).any()
        gaps.append(found["test_gap"])
    assert gaps[0] == pytest.approx(gaps[1])
    free = cross_validate(
        quick(constraint=None), people.X, people.y, cv=3, scoring=scoring,
        params={"sensitive_features": people.groups},
    )  # fmt: skip
    assert gaps[0].mean() > free["test_gap"].mean()  # minus the gap: higher is narrower


def test_cross_validation_with_groups_in_the_table(people):
    found = cross_validate(quick(sensitive_columns="sex"), people.frame, people.y, cv=3, error_score="raise")
    assert found["test_score"].mean() > 0.6


def test_groups_survive_a_column_transformer(people, routing):
    """Encoders rename columns, so behind them the groups travel as metadata."""
    frame = people.frame.assign(town=np.where(np.arange(len(people.y)) % 2, "x", "y"))
    encode = make_column_transformer((OneHotEncoder(), ["town"]), (StandardScaler(), ["merit", "income"]))
    pipeline = make_pipeline(encode, quick())
    pipeline.fit(frame, people.y, sensitive_features=people.groups)
    assert pipeline[-1].coef_.shape == (1, 4)
    assert pipeline.predict(frame).shape == people.y.shape


def test_clusters_are_handed_on_without_any_request(people, routing, monkeypatch):
    person = np.arange(len(people.y)) // 2
    given = []

    def spied(estimator, X, y, sensitive_features, sample_weight, clusters, deadline):
        given.append(clusters)

    monkeypatch.setattr(population, "fit_population", spied)
    pipeline = make_pipeline(StandardScaler(), quick(enforce="population"))
    pipeline.fit(people.X, people.y, sensitive_features=people.groups, clusters=person)
    assert given[0] is person
