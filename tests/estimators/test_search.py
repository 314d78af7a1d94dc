"""The search for the best model that keeps the promise: against brute force, and by what it says."""

import warnings
from dataclasses import replace

import numpy as np
import pytest

from partialfair import FitOptions, PartialFairClassifier, fairness_path
from partialfair.metrics import partial_statistical_parity_difference
from partialfair.optimization.solvers import GOOD, Status, multistart


def crowd(seed, n=150, d=2):
    """People whose first feature tells the group."""
    rng = np.random.default_rng(seed)
    groups = rng.choice(["a", "b"], n)
    X = rng.normal(size=(n, d))
    X[:, 0] += 1.2 * (groups == "a")
    y = X.sum(axis=1) + rng.logistic(size=n) > 0.5
    return X, y, groups


def fitted(X, y, groups, **settings):
    clf = PartialFairClassifier(**{"interval": (0.1, 0.6), "max_gap": 0.15, "alpha": 1e-3} | settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return clf.fit(X, y, sensitive_features=groups)


def lowest_on_rays(X, y, groups, interval, max_gap, alpha, n_angles=600):
    """Two features: the gap depends on the angle alone, and along a ray the objective is convex."""
    sign, best = np.where(y, 1.0, -1.0), np.inf
    for angle in np.linspace(0, 2 * np.pi, n_angles, endpoint=False):
        direction = np.array([np.cos(angle), np.sin(angle)])
        along = X @ direction
        gap = partial_statistical_parity_difference(None, along, sensitive_features=groups, interval=interval)
        if gap <= max_gap:
            best = min(best, _newton(along, sign, alpha))
    return best


def _newton(along, sign, alpha):
    """Return the minimum over scale ≥ 0 and intercept of the mean logistic loss and ½ alpha scale²."""
    rows = np.column_stack([along, np.ones(along.size)])
    x, penalty = np.zeros(2), np.diag([alpha, 0.0])
    for _ in range(30):
        chance = 1 / (1 + np.exp(sign * (rows @ x)))
        gradient = -(rows.T @ (sign * chance)) / sign.size + penalty @ x
        hessian = (rows.T * (chance * (1 - chance))) @ rows / sign.size + penalty
        x = x - np.linalg.solve(hessian + 1e-12 * np.eye(2), gradient)
    if x[0] < 0:
        return np.inf
    return np.logaddexp(0, -sign * (rows @ x)).mean() + 0.5 * alpha * x[0] ** 2


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
def test_two_features_against_all_angles(seed):
    X, y, groups = crowd(seed)
    clf = fitted(X, y, groups, max_gap=0.2)
    free = fitted(X, y, groups, constraint=None, interval=(0.0, 1.0), max_gap=0.05).result_.objective
    lowest = lowest_on_rays(X, y, groups, (0.1, 0.6), 0.2, 1e-3)
    assert clf.result_.satisfied
    assert clf.result_.objective - lowest <= 0.05 * (lowest - free) + 1e-5 * free


def test_where_only_a_reversed_ranking_is_feasible_it_is_not_returned():
    X, y, groups = crowd(0)
    result = fitted(X, y, groups, max_gap=0.13).result_
    assert not result.satisfied
    assert result.objective < result.constant_objective


@pytest.mark.parametrize("seed", [3, 4])
@pytest.mark.parametrize("constraint", ["statistical_parity", "demographic_parity", "group_auc"])
def test_no_model_that_was_tried_is_better(seed, constraint):
    X, y, groups = crowd(seed, n=400, d=4)
    result = fitted(X, y, groups, constraint=constraint).result_
    kept = [line.objective for line in result.candidates if line.satisfied]
    assert result.status in GOOD
    assert result.objective == min(kept)
    assert result.gap <= 0.15 + 1e-12
    if result.status is Status.CONVERGED:
        assert result.kkt.holds(result.tol)
        assert result.kkt.gap <= 0.15 + 1e-12
        assert result.improvement >= 0


def test_where_the_unconstrained_model_is_fair_it_is_the_answer():
    X, y, groups = crowd(5, n=400)
    free = fitted(X, y, groups, constraint=None, interval=(0.0, 1.0), max_gap=0.05)
    scores = free.decision_function(X)
    gap = partial_statistical_parity_difference(None, scores, sensitive_features=groups, interval=(0.1, 0.6))
    clf = fitted(X, y, groups, max_gap=gap)
    assert clf.result_.status is Status.CONVERGED
    assert clf.result_.objective == pytest.approx(free.result_.objective, abs=1e-8)
    assert clf.decision_function(X) == pytest.approx(scores, abs=1e-4)


def test_more_steps_are_never_worse_and_the_same_steps_the_same():
    X, y, groups = crowd(6, n=300, d=3)
    none, some, again = (
        fitted(X, y, groups, options=FitOptions(search_steps=steps)) for steps in (0, 60, 60)
    )
    assert some.result_.objective <= none.result_.objective
    assert (some.coef_ == again.coef_).all()
    assert not any(line.how == "random steps" for line in none.result_.candidates)


def test_corrections_go_rank_by_rank_where_that_is_asked_for():
    """The record of the search tells."""
    X, y, groups = crowd(8, n=3000, d=6)
    ways = {}
    for halvings in (0, 3):
        result = fitted(
            X, y, groups, max_gap=0.1, options=FitOptions(surrogate_halvings=halvings, search_steps=0)
        ).result_
        assert result.satisfied
        ways[halvings] = [line.how for line in result.candidates if line.how.startswith("correction")]
    assert ways[0][0] == "correction 1"
    assert not any("rank by rank" in how for how in ways[0])
    assert ways[3][0] == "correction 1, rank by rank"


def test_ties_are_no_way_out():
    """Six people a group, who are told apart by one feature: only equal scores have so small a gap."""
    groups = np.repeat(["a", "b"], 6)
    X = np.arange(12.0)[:, None] / 4
    y = np.arange(12) % 3 > 0
    strict = fitted(X, y, groups, interval=(0.0, 1.0), max_gap=0.01)
    assert strict.result_.status is Status.NO_FEASIBLE_POINT
    assert not strict.result_.satisfied
    assert strict.result_.tied_share < 0.2


@pytest.mark.slow
def test_models_of_a_path_cost_no_less_if_more_is_asked_for():
    X, y, groups = crowd(7, n=300, d=4)
    clf = PartialFairClassifier(interval=(0.1, 0.6))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = fairness_path(
            clf, X, y, sensitive_features=groups, max_gaps=[0.05, 0.1, 0.2, 0.3], random_state=0
        )
    kept = [point for point in path.points[1:] if point.model.result_.satisfied]
    objectives = [point.objective for point in kept]
    assert len(kept) >= 3
    assert objectives == sorted(objectives)


def hows(clf):
    return [line.how for line in clf.result_.candidates]


def test_a_warm_fit_goes_on_from_the_last_model_and_takes_fewer_passes():
    X, y, groups = crowd(3, n=3000, d=20)
    warm = fitted(X, y, groups, max_gap=0.2, warm_start=True)
    assert "surrogate constraints" in hows(warm)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warm.set_params(max_gap=0.15).fit(X, y, sensitive_features=groups)
    cold = fitted(X, y, groups, max_gap=0.15)
    assert "warm start from the previous fit" in hows(warm)
    assert "surrogate constraints" not in hows(warm)
    assert warm.result_.satisfied
    assert warm.result_.kkt.holds(warm.tol)
    assert warm.result_.history[-1].passes < cold.result_.history[-1].passes


def test_a_warm_fit_that_allows_nothing_hands_on_numbers():
    X, y, groups = crowd(3, n=200, d=3)
    warm = fitted(X, y, groups, max_gap=0.0, warm_start=True, options=FitOptions(search_steps=5))
    assert np.isfinite(getattr(warm, "_surrogate_bias", np.zeros(1))).all()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warm.set_params(max_gap=0.2).fit(X, y, sensitive_features=groups)
    assert np.isfinite(warm.coef_).all()
    assert warm.result_.satisfied


def test_solves_that_run_out_of_steps_get_more_of_them(monkeypatch):
    X, y, groups = crowd(3, n=3000, d=20)
    monkeypatch.setattr(multistart, "SETTINGS", replace(multistart.SETTINGS, steps_again=4))
    clf = fitted(X, y, groups, max_gap=0.05)
    assert "more steps" in hows(clf)
    assert clf.result_.satisfied
