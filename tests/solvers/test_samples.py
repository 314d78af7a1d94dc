"""Problems about some of the rows: what they have in common with those about all, and where they lead."""

from dataclasses import replace

import numpy as np
import pytest

from partialfair.constraints import StatisticalParity
from partialfair.constraints.block import join
from partialfair.constraints.surrogates import RoundedRamp
from partialfair.data.groups import encode_groups
from partialfair.optimization.models import FirstOrderModel, Parameters, linear_model
from partialfair.optimization.objectives import AUC, Logistic
from partialfair.optimization.problems import Capability, Problem, constrained
from partialfair.optimization.solvers import MultiStartSQP, Newton, Status


def crowd(n, seed=0, rare=0.3, loss=None):
    rng = np.random.default_rng(seed)
    X, member = rng.normal(size=(n, 3)), rng.random(n) < rare
    y = np.where(X @ [1.0, 0.5, -1.0] + 1.5 * member + rng.logistic(size=n) > 0, 1.0, -1.0)
    groups = encode_groups(np.where(member, "a", "b"))
    weights = rng.uniform(0.5, 2.0, n)
    statement = StatisticalParity((0.1, 0.6), 0.1)
    block = join([statement.build(groups, weights, RoundedRamp(1.0), None)])
    objective = (loss or Logistic()).build(y, weights)
    return Problem.of(linear_model(X), objective, block, 1e-3)


def test_all_rows_are_a_sample_too():
    problem = crowd(500)
    rows, share = problem.rows.sample(500, 0)
    sample = Problem(rows, problem.loss, problem.constraints, problem.alpha)
    x = np.random.default_rng(1).normal(size=problem.n)
    assert share == 1
    assert sample.evaluate(x).objective == pytest.approx(problem.evaluate(x).objective, abs=1e-12)
    assert sample.evaluate(x).constraints == pytest.approx(problem.evaluate(x).constraints, abs=1e-12)


def test_shares_add_up_and_values_are_right_on_average():
    problem = crowd(20_000, rare=0.02)
    x = 0.5 * np.random.default_rng(1).normal(size=problem.n)
    expected, values = problem.evaluate(x), []
    codes = problem.rows.shards[0].members[0].codes
    for seed in range(30):
        sample = problem.sample(1000, seed)
        (shard,) = sample.rows.shards
        members = shard.members[0]
        assert np.bincount(members.codes, members.shares) == pytest.approx([1.0, 1.0])
        assert shard.objective.shares.sum() == pytest.approx(1.0)
        assert (members.codes == 0).sum() == (codes == 0).sum()  # all of the few
        assert sample.share == pytest.approx(1000 / 20_000, abs=0.03)
        at = sample.evaluate(x)
        values.append(np.append(at.constraints, at.objective))
    errors = np.std(values, axis=0, ddof=1) / np.sqrt(len(values))
    difference = np.mean(values, axis=0) - np.append(expected.constraints, expected.objective)
    assert (np.abs(difference) <= 4 * errors + 1e-3).all()


def test_few_rows_and_rows_that_cannot_be_taken_are_not_sampled():
    assert crowd(2000).sample(1000) is None
    assert Capability.SAMPLES not in crowd(300, loss=AUC()).rows.capabilities  # pairs are no sum over rows
    model = FirstOrderModel(
        Parameters(1, 1, 1), lambda w: np.full(300, w[0]), lambda w, v: np.array([v.sum()])
    )
    objective = Logistic().build(np.ones(300), np.ones(300))
    assert Problem.of(model, objective, join([])).sample(10) is None


def test_what_a_sample_found_is_where_the_solver_goes_on(monkeypatch):
    problem = crowd(30_000)
    free = Newton().solve(
        Problem.of(problem.rows.whole.model, problem.rows.whole.objective, join([]), 1e-3), np.zeros(4)
    )
    start = problem.start_at(free.x)
    without = MultiStartSQP().solve(problem, start)
    monkeypatch.setattr(constrained, "SETTINGS", replace(constrained.SETTINGS, sampled_rows=2000))
    sampled = MultiStartSQP().solve(problem, start)
    assert sampled.status is without.status is Status.CONVERGED
    assert sampled.objective == pytest.approx(without.objective, abs=1e-5)


@pytest.mark.parametrize("seed", range(5))
def test_the_last_steps_stand_in_for_hessians(seed):
    problem = crowd(800, seed)
    start = problem.constant_start
    factored = MultiStartSQP().solve(problem, start)
    limited = MultiStartSQP(largest_block=1).solve(problem, start)
    assert limited.status is factored.status is Status.CONVERGED
    assert limited.objective == pytest.approx(factored.objective, abs=1e-4)
