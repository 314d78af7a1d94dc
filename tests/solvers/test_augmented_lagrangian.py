"""The augmented Lagrangian against SQP and the certificate, and where gradients are all that is known."""

import time

import numpy as np
import pytest

from partialfair.constraints import DemographicParity, GroupAUC, StatisticalParity
from partialfair.constraints.block import join
from partialfair.constraints.surrogates import RoundedRamp, Sigmoid
from partialfair.data.groups import encode_groups
from partialfair.exceptions import InputError
from partialfair.optimization.models import linear_model
from partialfair.optimization.objectives import AUC, Logistic, PartialAUC, Squared
from partialfair.optimization.problems import EVERYWHERE, Problem, certify
from partialfair.optimization.solvers import (
    IDCA,
    SQP,
    AugmentedLagrangian,
    DirectSwitching,
    MultiStartSQP,
    Newton,
    NewtonSteps,
    Status,
)
from tests.solvers.problems import first_order, network

TOL = 1e-4
STATEMENTS = {
    "statistical": (StatisticalParity((0.1, 0.6), 0.1, n_points=3),),
    "demographic": (DemographicParity((0.1, 0.9), 0.1),),
    "group_auc": (GroupAUC((0.0, 1.0), 0.1),),  # with parts of (0, 1) its maxima have corners
    "both": (StatisticalParity((0.1, 0.6), 0.1, n_points=3), DemographicParity((0.0, 1.0), 0.2)),
    "none": (),
}


def task(kind, *, loss=None, sigma=None, n=200, seed=0, model_of=linear_model, domain=EVERYWHERE):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    groups = encode_groups(np.where(X[:, 0] + rng.normal(size=n) > 0, "a", "b"))
    y = np.where(X @ [1.5, 1.0, 0.5] + rng.normal(size=n) > 0, 1.0, -1.0)
    sigma = RoundedRamp(1.0) if sigma is None else sigma
    blocks = [one.build(groups, np.ones(n), sigma, y > 0) for one in STATEMENTS[kind]]
    objective = (Logistic() if loss is None else loss).build(y, np.ones(n))
    return Problem.of(model_of(X), objective, join(blocks), 0.05, domain)


def plain(X):
    return first_order(linear_model(X))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", STATEMENTS)
def test_it_finds_what_sqp_finds(kind, seed):
    problem = task(kind, seed=seed)
    start = problem.constant_start
    result, expected = AugmentedLagrangian(tol=TOL).solve(problem, start), SQP().solve(problem, start)
    assert result.ended is Status.STATIONARY
    assert certify(problem, result.x, tol=TOL).holds(1.5 * TOL)
    assert result.violation <= TOL
    assert result.objective == pytest.approx(expected.objective, abs=TOL)


@pytest.mark.parametrize("loss", [Logistic(), Squared(), AUC(), PartialAUC((0.1, 0.5))], ids=str)
@pytest.mark.parametrize("sigma", [RoundedRamp(0.7), Sigmoid(0.4)], ids=str)
def test_stationary_points_are_certified(loss, sigma):
    problem = task("demographic", loss=loss, sigma=sigma)
    result = AugmentedLagrangian(tol=TOL).solve(problem, problem.constant_start)
    assert result.ended is Status.STATIONARY
    assert result.status is Status.STATIONARY  # a certificate is for others to compute
    certificate = certify(problem, result.x, tol=TOL)
    assert certificate.holds(1.5 * TOL), str(certificate)


@pytest.mark.parametrize("kind", STATEMENTS)
def test_gradients_are_all_that_it_needs(kind):
    """The same steps, whatever else the model knows."""
    problem, known = task(kind, model_of=plain), task(kind)
    found, expected = (
        AugmentedLagrangian(max_iter=3, inner_steps=20).solve(one, one.constant_start)
        for one in (problem, known)
    )
    assert found.objective == pytest.approx(expected.objective, abs=1e-8)
    assert found.violation == pytest.approx(expected.violation, abs=1e-8)
    result = AugmentedLagrangian(tol=TOL).solve(problem, problem.constant_start)
    assert result.ended is Status.STATIONARY
    assert certify(known, result.x, tol=TOL).holds(1.5 * TOL)


def test_it_trains_a_network():
    problem = task("statistical", model_of=lambda X: network(X, 4))
    start = problem.trivial_start
    start[: problem.rows.parameters.n] = 0.3 * np.random.default_rng(0).normal(size=problem.rows.parameters.n)
    result = AugmentedLagrangian(tol=1e-3).solve(problem, start)
    alike = problem.evaluate(problem.trivial_start)
    assert result.violation <= 1e-3
    assert result.objective < alike.objective - 0.01


@pytest.mark.parametrize(
    "solve",
    [
        lambda problem, x: certify(problem, x),
        SQP().solve,
        MultiStartSQP().solve,
        IDCA(inner=NewtonSteps()).solve,
    ],
    ids=["certificate", "SQP", "MultiStartSQP", "IDCA"],
)
def test_what_needs_more_says_what_is_missing(solve):
    problem = task("demographic", model_of=plain)
    missing = r"needs Jacobians.* and scores that are linear .*, which this model does not give"
    with pytest.raises(InputError, match=missing) as refusal:
        solve(problem, problem.constant_start)
    assert "\n" not in str(refusal.value)


def test_newton_says_what_is_missing():
    problem = task("none", model_of=plain)
    with pytest.raises(InputError, match="Newton needs Hessians and scores that are linear"):
        Newton().solve(problem, problem.constant_start)


@pytest.mark.parametrize("solver", [IDCA(max_iter=3), DirectSwitching(max_iter=300)], ids=str)
def test_the_papers_methods_need_no_more_either(solver):
    problem = task("demographic", model_of=plain)
    result = solver.solve(problem, problem.constant_start)
    assert result.objective < problem.evaluate(problem.constant_start).objective


@pytest.mark.usefixtures("ticking_clock")
def test_endings():
    problem = task("both")
    start, solver = problem.constant_start, AugmentedLagrangian(tol=1e-9)
    assert AugmentedLagrangian(max_iter=1, inner_steps=2).solve(problem, start).ended is Status.MAX_ITER
    stopped = solver.solve(problem, start, callback=lambda line, _: line.step == 2)
    assert stopped.status is Status.STOPPED
    assert [line.step for line in stopped.history] == [0, 1, 2]

    def interrupt(line, _):
        if line.step == 1:
            raise KeyboardInterrupt

    assert solver.solve(problem, start, callback=interrupt).status is Status.STOPPED
    began = time.monotonic()
    limited = AugmentedLagrangian(max_iter=10_000, tol=1e-15).solve(problem, start, time_limit=0.05)
    assert limited.status is Status.TIME_LIMIT
    assert time.monotonic() - began <= 0.06


@pytest.mark.parametrize(
    "settings", [{"max_iter": 0}, {"inner_steps": 0}, {"tol": 0.0}, {"weight": 0.0}, {"growth": 1.0}], ids=str
)
def test_settings_that_cannot_be_right(settings):
    (name,) = settings
    with pytest.raises(InputError, match=f"{name} of AugmentedLagrangian"):
        AugmentedLagrangian(**settings)


def test_the_best_point_is_kept():
    problem = task("statistical")
    result = AugmentedLagrangian(max_iter=4, tol=1e-9).solve(problem, problem.constant_start)
    evaluation = problem.evaluate(result.x)
    assert (evaluation.objective, evaluation.violation) == (result.objective, result.violation)
    feasible = [line.objective for line in result.history if line.violation <= 1e-9]
    assert result.objective <= min(feasible, default=np.inf)
