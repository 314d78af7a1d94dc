"""Newton's method, with and without a factored Hessian."""

import numpy as np
import pytest

from partialfair.constraints.block import join
from partialfair.exceptions import InputError
from partialfair.optimization.models import linear_model
from partialfair.optimization.objectives import Logistic
from partialfair.optimization.problems import Problem
from partialfair.optimization.solvers import Newton, Status
from tests.solvers.problems import features, problem, solve_subproblem


@pytest.mark.parametrize("largest_block", [0, 3000])
@pytest.mark.parametrize("alpha", [0.05, 0.0])
def test_it_finds_the_minimum(largest_block, alpha):
    task = problem("none", alpha=alpha)
    result = Newton(largest_block=largest_block).solve(task, task.trivial_start)
    assert result.status is Status.CONVERGED
    assert np.linalg.norm(task.at(result.x).objective_gradient()) <= 1e-9
    optimum, x = solve_subproblem(task.linearise(task.trivial_start))
    assert result.objective == pytest.approx(optimum, abs=1e-9)
    assert result.x == pytest.approx(x, abs=1e-4)


@pytest.mark.parametrize("largest_block", [0, 3000])
def test_equal_and_empty_features(largest_block):
    task = problem("none", d=4, alpha=0.0)
    X = features(task)
    X[:, 1], X[:, 2] = X[:, 0], 0.0
    result = Newton(largest_block=largest_block).solve(task, task.trivial_start)
    assert np.linalg.norm(task.at(result.x).objective_gradient()) <= 1e-8


@pytest.mark.parametrize("largest_block", [0, 3000])
def test_endings(largest_block):
    task, solver = problem("none"), Newton(largest_block=largest_block)
    start = task.trivial_start
    assert solver.solve(task, start, callback=lambda line, _: line.step == 0).status is Status.STOPPED
    stopped = solver.solve(task, start, callback=lambda line, _: line.step == 2)
    assert (stopped.status, len(stopped.history)) == (Status.STOPPED, 3)
    assert Newton(max_iter=2, largest_block=largest_block).solve(task, start).status is Status.MAX_ITER

    def interrupt(line, _):
        if line.step == 1:
            raise KeyboardInterrupt

    assert solver.solve(task, start, callback=interrupt).status is Status.STOPPED


def test_rare_features_take_few_passes():
    rng = np.random.default_rng(0)
    X = (rng.random((4000, 80)) < np.geomspace(0.5, 0.002, 80)).astype(float)
    y = np.where(X @ rng.normal(size=80) + rng.logistic(size=4000) > 0, 1.0, -1.0)
    spreads = X.std(axis=0)
    task = Problem.of(
        linear_model(X, scales=spreads), Logistic().build(y, np.ones(4000)), join([]), 1e-3 / spreads**2
    )
    factored, conjugate = (
        Newton(tol=1e-6, largest_block=size).solve(task, task.constant_start) for size in (3000, 0)
    )
    assert conjugate.status is Status.CONVERGED
    assert conjugate.x == pytest.approx(factored.x, abs=1e-4)
    assert conjugate.history[-1].passes - factored.history[-1].passes <= 80


def test_it_refuses_constraints():
    task = problem()
    with pytest.raises(InputError, match="without constraints"):
        Newton().solve(task, task.trivial_start)
