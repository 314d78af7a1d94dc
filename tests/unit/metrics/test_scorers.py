"""The metrics inside scikit-learn: scorers, searches, metadata routing, and other libraries' arrays."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import make_scorer
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_validate

from partialfair.metrics import (
    partial_equal_opportunity_difference,
    partial_statistical_parity_difference,
)


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def problem():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    group = np.where(X[:, 0] + rng.normal(size=400) > 0, "a", "b")
    y = (X @ [1.0, 0.5, 0.0] + rng.normal(size=400) > 0).astype(int)
    return X, y, group


def fairness_scorer():
    scorer = make_scorer(
        partial_statistical_parity_difference,
        response_method="decision_function",
        greater_is_better=False,
        interval=(0.1, 0.5),
    )
    return scorer.set_score_request(sensitive_features=True)


@pytest.mark.usefixtures("routing")
def test_cross_validate_routes_groups_to_the_scorer():
    X, y, group = problem()
    result = cross_validate(
        LogisticRegression(),
        X,
        y,
        scoring=fairness_scorer(),
        params={"sensitive_features": group},
        cv=3,
        return_estimator=True,
        return_indices=True,
    )
    for score, model, rows in zip(
        result["test_score"], result["estimator"], result["indices"]["test"], strict=True
    ):
        direct = partial_statistical_parity_difference(
            None, model.decision_function(X[rows]), sensitive_features=group[rows], interval=(0.1, 0.5)
        )
        assert score == -direct


@pytest.mark.usefixtures("routing")
def test_grid_search_scores_by_the_gap():
    X, y, group = problem()
    grid = {"C": [1e-4, 1e-2, 1.0]}
    search = GridSearchCV(LogisticRegression(), grid, scoring=fairness_scorer(), cv=3)
    search.fit(X, y, sensitive_features=group)
    folds = list(StratifiedKFold(3).split(X, y))
    for C, found in zip(grid["C"], search.cv_results_["mean_test_score"], strict=True):
        gaps = [
            partial_statistical_parity_difference(
                None,
                LogisticRegression(C=C).fit(X[train], y[train]).decision_function(X[test]),
                sensitive_features=group[test],
                interval=(0.1, 0.5),
            )
            for train, test in folds
        ]
        assert found == pytest.approx(-np.mean(gaps))


@pytest.mark.parametrize("as_array", [np.asarray, list, pd.Series, pl.Series])
def test_any_array_gives_the_same_number(as_array):
    X, y, group = problem()
    scores = X[:, 0]
    options = {"threshold": 0.2, "interval": (0.1, 0.6)}
    expected = partial_equal_opportunity_difference(y, scores, sensitive_features=group, **options)
    found = partial_equal_opportunity_difference(
        as_array(y), as_array(scores), sensitive_features=as_array(group), **options
    )
    assert found == expected


def test_crossed_columns_are_the_intersections():
    X, _, group = problem()
    scores, second = X[:, 0], np.where(X[:, 1] > 0, "x", "y")
    crossed = [f"{one}{two}" for one, two in zip(group, second, strict=True)]
    expected = partial_statistical_parity_difference(None, scores, sensitive_features=crossed)
    for frame in (
        pd.DataFrame({"one": group, "two": second}),
        pl.DataFrame({"one": group, "two": second}),
        np.column_stack([group, second]),
    ):
        assert partial_statistical_parity_difference(None, scores, sensitive_features=frame) == expected
