"""The regressor: ridge regression without constraints, and with them fairer predictions."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV

from partialfair import FitOptions, PartialFairRegressor
from partialfair.constraints import DemographicParity, StatisticalParity
from partialfair.exceptions import InputError, SurrogateWarning
from partialfair.metrics import partial_demographic_parity_difference, partial_statistical_parity_difference
from partialfair.optimization.solvers import Status


@pytest.fixture(scope="module")
def wages():
    rng = np.random.default_rng(0)
    groups = rng.choice(["f", "m"], 400)
    X = rng.normal(size=(400, 3)) + np.outer(groups == "m", [1.0, 0, 0])
    y = X @ [0.7, 1.0, 0.2] + 0.5 * rng.normal(size=400) + 2
    return X, y, groups


def test_without_constraints_it_is_ridge_regression(wages):
    X, y, _ = wages
    weights = np.random.default_rng(1).integers(0, 4, y.size).astype(float)
    ours = PartialFairRegressor(None, alpha=0.1).fit(X, y, sample_weight=weights)
    theirs = Ridge(alpha=0.1 * weights.sum(), tol=1e-12).fit(X, y, sample_weight=weights)
    assert ours.coef_[0] == pytest.approx(theirs.coef_, abs=1e-6)
    assert ours.intercept_[0] == pytest.approx(theirs.intercept_, abs=1e-6)
    assert ours.predict(X) == pytest.approx(theirs.predict(X), abs=1e-6)
    assert ours.score(X, y) == pytest.approx(theirs.score(X, y), abs=1e-6)


def test_statistical_parity(wages):
    X, y, groups = wages
    settings = {"interval": (0.1, 0.6), "max_gap": 0.1, "enforce": "surrogate"}
    free = PartialFairRegressor(None).fit(X, y)
    fair = PartialFairRegressor(**settings).fit(X, y, sensitive_features=groups)
    assert fair.result_.status is Status.CONVERGED
    gaps = [
        partial_statistical_parity_difference(
            None, model.predict(X), sensitive_features=groups, interval=(0.1, 0.6)
        )
        for model in (free, fair)
    ]
    assert gaps[1] == pytest.approx(fair.result_.gap)
    assert gaps[1] < 0.2 < 0.4 < gaps[0]
    assert 0.3 < fair.score(X, y) < free.score(X, y)


def test_demographic_parity_at_a_prediction(wages):
    X, y, groups = wages
    fair = PartialFairRegressor(
        "demographic_parity", interval=(0, 1), constraint_threshold=2.5, max_gap=0.05, enforce="surrogate"
    ).fit(X, y, sensitive_features=groups)
    assert fair.result_.status is Status.CONVERGED
    gap = partial_demographic_parity_difference(
        None, fair.predict(X), sensitive_features=groups, threshold=2.5
    )
    assert gap == pytest.approx(fair.result_.gap)
    assert gap < 0.12
    same = PartialFairRegressor(DemographicParity((0, 1), max_gap=0.05, threshold=2.5), enforce="surrogate")
    assert same.fit(X, y, sensitive_features=groups).coef_ == pytest.approx(fair.coef_)


def test_group_terms_and_searches(wages):
    X, y, groups = wages
    frame = np.column_stack([X, groups == "m"])
    search = GridSearchCV(
        PartialFairRegressor(
            interval=(0, 1),
            enforce="surrogate",
            max_gap=0.2,
            options=FitOptions(n_points=3),
            sensitive_columns=-1,
            group_terms="intercept",
        ),
        {"alpha": [1e-3, 1.0]},
        cv=2,
    ).fit(frame, y)
    assert search.best_params_ == {"alpha": 1e-3}
    assert search.best_estimator_.intercept_.shape == (2,)


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"constraint": "equal_opportunity"}, r"'equal_opportunity' compares rows of one label"),
        ({"constraint": ["statistical_parity", "equalized_odds"]}, r"'equalized_odds' compares rows"),
        ({"constraint": "demographic_parity"}, r"'demographic_parity' needs constraint_threshold, the pred"),
        (
            {"constraint": StatisticalParity(), "constraint_threshold": 1.0},
            r"constraint_threshold must not be",
        ),
        ({"constraint": StatisticalParity(), "interval": "auto"}, r"interval='auto' needs a rate"),
        ({"interval": None}, r"interval is missing: .*\(0, 1\)"),
        ({"interval": "auto"}, r"interval='auto' needs a rate .*choose_interval\(.*, positive_rate="),
        (
            {"constraint": "demographic_parity", "constraint_threshold": 2.0, "interval": "auto"},
            r"interval='auto' needs a rate of positive decisions, which a regressor does not have",
        ),
        ({"loss": "hinge"}, r"loss='hinge' is a loss for two classes; a regressor needs 'squared'"),
        ({"loss": "cubic"}, r"loss must be 'logistic', 'squared', .* not 'cubic'"),
    ],
)
def test_bad_settings(wages, settings, match):
    X, y, groups = wages
    with pytest.raises(InputError, match=match) as caught:
        PartialFairRegressor(**{"interval": (0, 1), **settings}).fit(X, y, sensitive_features=groups)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("y", "match"),
    [
        (lambda y: np.where(np.arange(y.size) == 7, np.nan, y), r"y has 1 values .* the first in row 7"),
        (lambda y: np.where(y > 2, "much", "little"), r"y holds '.*', which is not a number"),
        (lambda y: y[:-1], r"y has 399 rows, but there are 400 rows of X"),
    ],
)
def test_bad_targets(wages, y, match):
    with pytest.raises(InputError, match=match):
        PartialFairRegressor(None).fit(wages[0], y(wages[1]))


@pytest.mark.parametrize("unit", [2.0**-20, 1e4])
def test_units_of_y_change_nothing_but_units(wages, unit):
    X, y, groups = wages
    settings = {"max_gap": 0.1, "enforce": "surrogate", "interval": (0.1, 0.6)}
    for kind, own in [
        ("statistical_parity", {}),
        ("demographic_parity", {"constraint_threshold": 2.5, "options__surrogate_width": 0.5}),
    ]:
        plain = PartialFairRegressor(kind, **settings).set_params(**own)
        plain.fit(X, y, sensitive_features=groups)
        own = {name: unit * value for name, value in own.items()}
        lines, steps = [], []
        scaled = PartialFairRegressor(kind, **settings, callback=lines.append, warm_start=True)
        scaled.set_params(**own)
        for _ in range(2):  # the second time from the first solution
            scaled.fit(X, unit * y, sensitive_features=groups)
            assert scaled.result_.status is Status.CONVERGED
            assert scaled.coef_ / unit == pytest.approx(plain.coef_, abs=1e-2)
            assert scaled.result_.objective / unit**2 == pytest.approx(plain.result_.objective, rel=1e-3)
            assert scaled.result_.surrogate.width / unit == pytest.approx(
                plain.result_.surrogate.width, rel=0.01
            )
            # Thresholds of constraints that do not bind may be anywhere.
            thresholds = plain.result_.thresholds
            if thresholds.size:
                binding = plain.result_.kkt.multipliers.reshape(thresholds.size, -1).any(axis=1)
                found = scaled.result_.thresholds / unit
                assert found[binding] == pytest.approx(thresholds[binding], abs=1e-2)
            assert lines[-1].objective == pytest.approx(scaled.result_.objective, rel=0.05)
            steps.append(scaled.n_iter_)
        assert steps[1] < steps[0]
        assert scaled.score(X, unit * y) == pytest.approx(plain.score(X, y), abs=1e-3)


def test_targets_that_are_all_alike(wages):
    X, y, _ = wages
    for value in (0.0, 7.0, 1e6):
        with pytest.warns(SurrogateWarning, match="ranks no rows"):
            model = PartialFairRegressor(None).fit(X, np.full(y.size, value))
        assert model.result_.status is Status.CONVERGED
        assert model.predict(X) == pytest.approx(np.full(y.size, value), abs=1e-5 * max(value, 1.0))
