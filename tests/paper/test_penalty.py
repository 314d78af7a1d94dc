"""The penalty method: its objective by definition, its subgradient by differences, its end by the engine."""

import numpy as np
import pytest

from partialfair import FitOptions, PartialFairClassifier
from partialfair.constraints import DemographicParity
from partialfair.constraints.block import join
from partialfair.constraints.surrogates import Ramp
from partialfair.data.groups import encode_groups
from partialfair.optimization.models import linear_model
from partialfair.optimization.objectives import Logistic
from partialfair.optimization.problems import Problem
from partialfair_paper.engine import RankBand
from partialfair_paper.penalty import Penalty


def people(seed=0, n=300, d=3):
    rng = np.random.default_rng(seed)
    codes = rng.integers(2, size=n)
    X = rng.normal(size=(n, d)) + 0.8 * codes[:, None]
    return X, X @ rng.normal(size=d) + rng.logistic(size=n) > 0, codes


def problem_of(constraint, X, y, codes):
    groups, n = encode_groups(codes), len(y)
    block = constraint.build(groups, np.ones(n), Ramp(1.0), y)
    objective = Logistic().build(np.where(y, 1.0, -1.0), np.ones(n))
    return Problem.of(linear_model(X), objective, join([block]), 1e-3)


def ramp(x):
    return np.clip(x + 0.5, 0, 1)


@pytest.mark.parametrize("seed", range(5))
def test_of_rank_bands_the_term_is_the_papers(seed):
    """``λ · 2/(β−α) · max_p max_k |mean σ(s − θ_p) − p|`` (inprocess_pdp_regularized_approx)."""
    X, y, codes = people(seed)
    price, interval = 2 * 0.4 / 0.5, (0.2, 0.7)
    problem = problem_of(RankBand(interval, 0.0, "absolute", n_points=4), X, y, codes)
    x = np.random.default_rng(seed).normal(size=problem.n)
    w, theta = problem.split(x)
    at = problem.at(x)
    scores = X @ w[:-1] + w[-1]
    ranks = interval[0] + np.arange(4) * 0.5 / 4
    largest = max(
        abs(ramp(scores[codes == k] - threshold).mean() - rank)
        for k in (0, 1)
        for rank, threshold in zip(ranks, theta, strict=True)
    )
    assert Penalty(price).value(at) == pytest.approx(at.objective + price * largest, abs=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_of_demographic_parity_it_is_the_difference_of_clipped_shares(seed):
    """``λ/(β−α) · |…|`` (inprocess_wpdp_regularized_approx), up to the least κ, which is a constant."""
    X, y, codes = people(seed)
    stated = DemographicParity((0.2, 0.7), 0.0, "absolute")
    problem = problem_of(stated, X, y, codes)
    w = np.random.default_rng(seed).normal(size=problem.n)
    scores = X @ w[:-1] + w[-1]
    shares = [ramp(scores[codes == k]).mean() for k in (0, 1)]
    first, second = (min(share, 0.7) - min(share, 0.2) for share in shares)
    at = problem.at(w)
    expected = at.objective + 3.0 * (abs(first - second) - stated.kappa)
    assert Penalty(3.0).value(at) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    "constraint", [RankBand((0.2, 0.7), 0.0, "absolute"), DemographicParity((0.2, 0.7), 0.0, "absolute")]
)
def test_the_subgradient_is_that_of_the_value(constraint):
    problem, solver = problem_of(constraint, *people(2)), Penalty(1.5)
    rng = np.random.default_rng(0)
    agree = 0
    for _ in range(20):
        x, direction = rng.normal(size=problem.n), rng.normal(size=problem.n)
        slope = solver.subgradient(problem.at(x)) @ direction
        step = 1e-6
        ahead, behind = (solver.value(problem.at(x + sign * step * direction)) for sign in (1, -1))
        agree += abs((ahead - behind) / (2 * step) - slope) < 1e-5
    assert agree >= 18  # a kink may lie between


def test_descent_comes_near_the_best_trade_of_loss_and_gap():
    """Over all gaps t, the lowest of ``price · t`` and the loss with a gap of t, by the engine."""
    X, y, codes = people(4)
    price, interval = 1.0, (0.2, 0.7)
    options = {
        "enforce": "surrogate",
        "options": FitOptions(surrogate="ramp", surrogate_width=1.0),
        "alpha": 1e-3,
    }
    lowest = np.inf
    for gap in np.geomspace(0.3, 1e-3, 10):
        band = RankBand(interval, gap, "absolute")
        clf = PartialFairClassifier(band, **options).fit(X, y, sensitive_features=codes)
        lowest = min(lowest, clf.result_.objective + price * gap)
    problem = problem_of(RankBand(interval, 0.0, "absolute"), X, y, codes)
    solver = Penalty(price, step=5e-3, max_iter=8000, record_every=1000)
    result = solver.solve(problem, solver.start(problem, np.zeros(4)))
    assert solver.value(problem.at(result.x)) == pytest.approx(lowest, abs=0.02)
    assert result.history[-1].step == 8000
