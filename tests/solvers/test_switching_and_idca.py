"""The paper's algorithms against cvxpy's optimum and against what the theorems promise."""

import numpy as np
import pytest

from partialfair.exceptions import InputError
from partialfair.optimization.problems import Ball, Box
from partialfair.optimization.solvers import (
    IDCA,
    SOLVERS,
    SQP,
    AugmentedLagrangian,
    DirectSwitching,
    MultiStartSQP,
    Newton,
    Status,
    Switching,
)
from tests.solvers.problems import Exact, problem, solve_subproblem

KINDS = ["statistical", "demographic", "both"]


def numerical_gradients(target, x, step=1e-6):
    """Gradients of the objective and of all constraints, one row each."""

    def values(x):
        at = target.at(x)
        return np.append(at.objective, at.constraints)

    slopes = [(values(x + step * e) - values(x - step * e)) / (2 * step) for e in np.eye(x.size)]
    return np.array(slopes).T


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mu", [0.0, 0.3])
def test_oracles_agree_with_finite_differences(kind, mu):
    task = problem(kind)
    rng = np.random.default_rng(1)
    x, v = (task.trivial_start + 0.5 * rng.normal(size=task.trivial_start.size) for _ in range(2))
    sub = task.linearise(x, mu=mu)
    for target in (task, sub):
        at = target.at(v)
        found = [at.objective_gradient(), *(at.constraint_gradient(i) for i in range(task.m))]
        expected = numerical_gradients(target, v)
        assert np.array(found) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mu", [0.0, 0.3])
def test_subproblems_majorise_and_touch(kind, mu):
    task = problem(kind)
    rng = np.random.default_rng(2)
    for _ in range(20):
        x, v = (task.trivial_start + rng.normal(size=task.trivial_start.size) for _ in range(2))
        sub = task.linearise(x, mu=mu)
        assert (sub.at(v).constraints >= task.at(v).constraints - 1e-9).all()
        assert sub.at(v).objective >= task.at(v).objective - 1e-12
        assert sub.at(x).constraints == pytest.approx(task.at(x).constraints)


@pytest.mark.no_cover
@pytest.mark.parametrize("kind", KINDS)
def test_switching_solves_the_subproblem_to_cvxpys_optimum(kind):
    """Proposition thm:ssg: within ε of the optimum and of feasibility, given enough steps."""
    task = problem(kind)
    sub = task.linearise(task.trivial_start, mu=0.2)
    optimum, _ = solve_subproblem(sub)
    epsilon = 2e-3
    v = Switching(n_steps=2000, epsilon=epsilon).solve(sub, task.trivial_start)
    assert sub.at(v).constraints.max() <= epsilon
    assert sub.at(v).objective <= optimum + epsilon


@pytest.mark.parametrize("kind", KINDS)
def test_idca_with_exact_steps_descends_and_stays_feasible(kind):
    """Lemma thm:nearfeasibility and the descent in the proof of thm:idca, with cvxpy as the inner solver."""
    task = problem(kind)
    result = IDCA(max_iter=8, inner=Exact(), mu=0.05).solve(task, task.trivial_start)
    objectives = [line.objective for line in result.history]
    assert (np.diff(objectives) <= 1e-6).all()
    assert objectives[-1] < objectives[0] - 0.02
    assert all(line.violation <= 1e-6 for line in result.history)


@pytest.mark.no_cover
@pytest.mark.parametrize("kind", KINDS)
def test_idca_with_switching_improves_and_stays_nearly_feasible(kind):
    task = problem(kind)
    result = IDCA(max_iter=30, inner=Switching(100, 2e-3)).solve(task, task.trivial_start)
    assert result.status is Status.MAX_ITER
    assert result.objective < task.evaluate(task.trivial_start).objective - 0.02
    assert result.violation <= 2e-3
    found = task.evaluate(result.x)
    assert (found.objective, found.violation) == (result.objective, result.violation)


@pytest.mark.parametrize("diminishing", [None, 0.05])
def test_direct_switching_judges_iterates_at_one_tolerance(diminishing):
    task = problem()
    solver = DirectSwitching(max_iter=2000, epsilon=1e-3, diminishing=diminishing)
    result = solver.solve(task, task.trivial_start)
    assert result.violation <= 1e-3
    assert result.objective < task.evaluate(task.trivial_start).objective - 0.01


@pytest.mark.parametrize("solver", [IDCA(max_iter=10), DirectSwitching(max_iter=1000)])
@pytest.mark.parametrize("domain", [Ball(0.15), Box(-0.1, 0.1)])
def test_iterates_stay_in_the_domain(solver, domain):
    task = problem("demographic", domain=domain)
    result = solver.solve(task, task.trivial_start)
    assert result.feasible
    assert result.x == pytest.approx(domain.project(result.x))
    everywhere = problem("demographic")
    free = solver.solve(everywhere, everywhere.trivial_start)
    assert np.linalg.norm(free.x - domain.project(free.x)) > 0.04
    assert free.objective < result.objective < task.evaluate(task.trivial_start).objective - 0.01


@pytest.mark.parametrize("kind", [SQP, MultiStartSQP, AugmentedLagrangian, SOLVERS["idca"], Newton])
def test_solvers_that_know_bounds_only_refuse_a_ball(kind):
    task = problem("none" if kind is Newton else "statistical", domain=Ball(1.0))
    with pytest.raises(InputError, match=r"bounds on coordinates \(Box\), not Ball\(radius=1.0\); IDCA with"):
        kind(max_iter=1).solve(task, task.trivial_start)


@pytest.mark.no_cover
def test_unconstrained_problems_reach_the_loss_minimum():
    task = problem("none")
    result = IDCA(max_iter=30, inner=Switching(100, 1e-4)).solve(task, task.trivial_start)
    optimum, _ = solve_subproblem(task.linearise(task.trivial_start))
    assert result.objective <= optimum + 2e-3


def test_passes_are_counted_where_they_happen():
    task = problem()
    IDCA(max_iter=3, inner=Switching(50)).solve(task, task.trivial_start)
    # Per outer step: the scores and all tangents at once; then scores and one gradient for each inner step.
    assert task.n_passes == 3 * (2 + 2 * 50)


def test_a_callback_sees_each_step_and_can_stop():
    seen = []
    task = problem()
    result = IDCA(max_iter=50).solve(
        task, task.trivial_start, callback=lambda line, _: seen.append(line) or line.step == 4
    )
    assert result.status is Status.STOPPED
    assert [line.step for line in seen] == [0, 1, 2, 3, 4]
    assert result.history == tuple(seen)


@pytest.mark.usefixtures("ticking_clock")
def test_time_limit():
    task = problem()
    result = IDCA(max_iter=10_000).solve(task, task.trivial_start, time_limit=0.2)
    assert result.status is Status.TIME_LIMIT
    assert len(result.history) < 1000


@pytest.mark.parametrize("solver", [IDCA(max_iter=50), DirectSwitching(max_iter=5000)])
def test_interruption_returns_the_best_point_so_far(solver):
    def interrupt(line, _):
        if len(seen := [*history, line]) and line.step >= 3:
            raise KeyboardInterrupt
        history.append(seen[-1])

    history = []
    task = problem()
    result = solver.solve(task, task.trivial_start, callback=interrupt)
    assert result.status is Status.STOPPED
    assert result.objective <= min(line.objective for line in result.history)


def test_an_infeasible_problem_says_so_and_returns_the_least_violating_point():
    task = problem(max_gap=0.0)
    solver = IDCA(max_iter=3, inner=Switching(20, 1e-9))
    start = task.trivial_start + np.linspace(0.5, 1.5, task.trivial_start.size)
    result = solver.solve(task, start)
    assert result.status is Status.NO_FEASIBLE_POINT
    assert result.violation == min(line.violation for line in result.history)


def test_nonfinite_values_end_the_run():
    task = problem()
    start = task.trivial_start
    start[0] = np.nan
    with pytest.raises(FloatingPointError, match="starting point"):
        IDCA().solve(task, start)


@pytest.mark.parametrize("domain", [Box(), Ball(1.0), Box(np.array([-1.0, -2.0]), np.array([0.5, 2.0]))])
def test_stationarity_is_the_distance_from_the_normal_cone(domain):
    """At the minimiser of ½‖x − c‖² over the set the residual is 0; elsewhere it is not."""
    for centre in (np.array([3.0, -4.0]), np.array([0.1, 0.2])):
        x = domain.project(centre)
        assert domain.stationarity(x, x - centre) == pytest.approx(0, abs=1e-12)
        inside = 0.3 * x + 0.01
        assert domain.stationarity(inside, inside - centre) > 1e-3


@pytest.mark.parametrize(
    "make",
    [
        lambda: Switching(n_steps=0),
        lambda: Switching(epsilon=0.0),
        lambda: DirectSwitching(epsilon=-1.0),
        lambda: DirectSwitching(diminishing=0.0),
        lambda: Ball(0.0),
        lambda: Box(1.0, 0.0),
    ],
)
def test_settings_that_cannot_be_right(make):
    with pytest.raises(InputError):
        make()


def test_a_stalled_idca_asks_for_longer_runs():
    """One step sees the start alone; then T doubles, unless it is to stay as it is."""
    task = problem()
    fixed = IDCA(max_iter=40, inner=Switching(1, longest=0)).solve(task, task.trivial_start)
    longer = IDCA(max_iter=40, inner=Switching(1)).solve(task, task.trivial_start)
    assert fixed.status is Status.STALLED
    assert longer.objective < fixed.objective - 0.01
