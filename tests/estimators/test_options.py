"""Options of the fit: one object in the constructor, whose fields scikit-learn's tools reach one by one."""

from dataclasses import FrozenInstanceError, fields, replace
from inspect import signature

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from partialfair import FitOptions, PartialFairClassifier, PartialFairRegressor, load_model, save_model
from partialfair.constraints import StatisticalParity
from partialfair.constraints.surrogates import Ramp
from partialfair.exceptions import InputError
from partialfair.trees import PartialFairTrees

INTERVAL = (0.1, 0.6)
ESTIMATORS = [
    PartialFairClassifier(interval=INTERVAL),
    PartialFairRegressor(interval=INTERVAL),
    PartialFairTrees(GradientBoostingClassifier(n_estimators=2), interval=INTERVAL),
    PartialFairTrees(GradientBoostingRegressor(n_estimators=2), interval=INTERVAL),
]
FIELDS = [field.name for field in fields(FitOptions)]

each_estimator = pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda one: type(one).__name__)


def surrogate_fit(**settings):
    return PartialFairClassifier(interval=INTERVAL, max_gap=0.4, enforce="surrogate", tol=1e-2, **settings)


@each_estimator
def test_constructors_have_at_most_28_parameters(estimator):
    names = [*signature(type(estimator)).parameters]
    assert len(names) <= 28
    assert "options" in names
    assert "outside" in names
    assert not {*FIELDS} & {*names}


@each_estimator
def test_parameters_list_the_defaults_of_the_fields(estimator):
    assert estimator.options is None
    assert estimator.get_params()["options"] is None
    listed = {name: value for name, value in estimator.get_params().items() if name.startswith("options__")}
    assert listed == {f"options__{name}": getattr(FitOptions(), name) for name in FIELDS}
    assert not any("__" in name for name in estimator.get_params(deep=False))


@each_estimator
def test_one_field_is_replaced_and_the_others_stay(estimator):
    model = clone(estimator).set_params(options__n_points=30)
    assert model.options == FitOptions(n_points=30)
    assert estimator.options is None
    given = model.options
    model.set_params(options__surrogate=Ramp(0.5), options__n_starts=3)
    assert model.options == FitOptions(n_points=30, surrogate=Ramp(0.5), n_starts=3)
    assert given == FitOptions(n_points=30)
    # The object first, then its fields, in whatever order they are given.
    model.set_params(options__n_points=7, options=FitOptions(search_steps=0))
    assert model.options == FitOptions(n_points=7, search_steps=0)
    assert model.get_params()["options__search_steps"] == 0
    assert model.set_params(options=None).get_params()["options__n_points"] == 10


@each_estimator
def test_clones_have_the_same_options(estimator):
    model = clone(estimator).set_params(options=FitOptions(surrogate=Ramp(0.5), allow_ties=True))
    copied = clone(model)
    assert copied.options == model.options
    assert copied.set_params(options__n_points=3).options != model.options


def test_options_are_frozen():
    with pytest.raises(FrozenInstanceError):
        FitOptions().n_points = 5


def test_what_is_no_options_is_refused():
    model = PartialFairClassifier(interval=INTERVAL, options=30)
    assert "options__n_points" not in model.get_params()
    with pytest.raises(InputError, match=r"options must be a FitOptions, such as .*, not 30"):
        model.set_params(options__n_points=5)
    with pytest.raises(InputError, match=r"options has no field 'points'"):
        PartialFairClassifier().set_params(options__points=5)


def test_points_of_the_grid_are_those_of_the_options(people):
    model = surrogate_fit(options=FitOptions(n_points=4))
    model.fit(people.X, people.y, sensitive_features=people.groups)
    stated = surrogate_fit().set_params(
        constraint=StatisticalParity(INTERVAL, 0.4, n_points=4), interval=None, max_gap=0.05
    )
    stated.fit(people.X, people.y, sensitive_features=people.groups)
    assert model.result_.thresholds.size == stated.result_.thresholds.size == 4
    np.testing.assert_array_equal(model.coef_, stated.coef_)


def test_a_given_surrogate_is_used(people):
    model = surrogate_fit(options=FitOptions(surrogate="sigmoid", surrogate_width=0.7))
    model.fit(people.X, people.y, sensitive_features=people.groups)
    assert model.result_.surrogate.width == pytest.approx(0.7)


def test_searches_vary_a_field(people):
    search = GridSearchCV(surrogate_fit(), {"options__n_points": [2, 5]}, cv=2)
    search.fit(people.X, people.y, sensitive_features=people.groups)
    best = search.best_estimator_
    assert search.best_params_ == {"options__n_points": best.options.n_points}
    assert best.result_.thresholds.size == best.options.n_points
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_searches_vary_a_field_in_a_pipeline(people):
    model = make_pipeline(StandardScaler(), surrogate_fit(sensitive_columns=-1))
    X = np.column_stack([people.X, people.groups == "f"])
    name = "partialfairclassifier__options__n_points"
    search = GridSearchCV(model, {name: [2, 5]}, cv=2).fit(X, people.y)
    assert search.best_estimator_[-1].options == FitOptions(n_points=search.best_params_[name])
    assert model.get_params()[name] == 10
    assert np.isfinite(cross_val_score(model.set_params(**{name: 3}), X, people.y, cv=2)).all()


def test_files_hold_options(people, tmp_path):
    options = FitOptions(n_points=4, surrogate=Ramp(0.5), search_steps=0)
    model = surrogate_fit(options=options).fit(people.X, people.y, sensitive_features=people.groups)
    save_model(model, tmp_path / "model.skops")
    loaded = load_model(tmp_path / "model.skops")
    assert loaded.options == options
    assert loaded.set_params(options__n_points=5).options == replace(options, n_points=5)


class TestInterval:
    """No interval is meant unless it is given: of the whole range, too, it has to be said."""

    @each_estimator
    def test_is_needed_by_constraints_alone(self, estimator, people):
        model = clone(estimator).set_params(interval=None)
        y = people.y if hasattr(model, "predict_proba") else people.X.sum(axis=1)
        with pytest.raises(InputError, match=r"interval is missing: .*interval=\(0, 1\) for the whole range"):
            model.fit(people.X, y, sensitive_features=people.groups)
        assert model.set_params(constraint=None).fit(people.X, y).result_.constraints == ()

    def test_objects_without_one_take_that_of_the_estimator(self, people):
        by_name = surrogate_fit().fit(people.X, people.y, sensitive_features=people.groups)
        settings = {"constraint": StatisticalParity(max_gap=0.4), "max_gap": 0.05}
        by_object = surrogate_fit().set_params(**settings)
        by_object.fit(people.X, people.y, sensitive_features=people.groups)
        assert by_object.result_.constraints == (StatisticalParity(INTERVAL, 0.4),)
        np.testing.assert_array_equal(by_name.coef_, by_object.coef_)

    def test_objects_with_one_keep_it(self, people):
        listed = [StatisticalParity((0.1, 0.3), 0.6), StatisticalParity(max_gap=0.5)]
        model = surrogate_fit().set_params(constraint=listed, max_gap=0.05)
        model.fit(people.X, people.y, sensitive_features=people.groups)
        assert [one.interval for one in model.result_.constraints] == [(0.1, 0.3), INTERVAL]

    def test_one_that_nothing_takes_is_refused(self, people):
        model = PartialFairClassifier(StatisticalParity((0.1, 0.3)), interval=INTERVAL)
        with pytest.raises(InputError, match=r"its own settings, so interval must not be given"):
            model.fit(people.X, people.y, sensitive_features=people.groups)

    def test_objects_without_one_may_have_it_chosen(self, people):
        model = surrogate_fit().set_params(
            constraint=StatisticalParity(max_gap=0.4), interval="auto", max_gap=0.05
        )
        result = model.fit(people.X, people.y, sensitive_features=people.groups).result_
        by_name = surrogate_fit().set_params(interval="auto")
        by_name.fit(people.X, people.y, sensitive_features=people.groups)
        assert result.interval_chosen
        assert result.constraints == by_name.result_.constraints
