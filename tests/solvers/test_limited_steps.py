"""Steps with few Hessians, or with none, lead where steps with one each do."""

from dataclasses import replace

import numpy as np
import pytest

from partialfair.constraints import DemographicParity, StatisticalParity
from partialfair.constraints.block import join
from partialfair.constraints.surrogates import Ramp, RoundedRamp
from partialfair.data.groups import encode_groups
from partialfair.optimization.models import linear_model
from partialfair.optimization.objectives import Logistic, PartialAUC
from partialfair.optimization.problems import Problem, ProblemPoint, certify
from partialfair.optimization.solvers import SQP, MultiStartSQP, Newton, Status, multistart


def crowd(seed, statement, sigma, n=800, loss=None):
    rng = np.random.default_rng(seed)
    X, member = rng.normal(size=(n, 6)), rng.random(n) < 0.3
    y = np.where(X @ rng.normal(size=6) + 1.5 * member + rng.logistic(size=n) > 0, 1.0, -1.0)
    groups, weights = encode_groups(np.where(member, "a", "b")), rng.uniform(0.5, 2.0, n)
    block = join([] if statement is None else [statement.build(groups, weights, sigma, None)])
    return Problem.of(linear_model(X), (loss or Logistic()).build(y, weights), block, 1e-3)


STATEMENTS = [StatisticalParity((0.1, 0.6), 0.1), DemographicParity((0.1, 0.9), 0.05)]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("statement", STATEMENTS, ids=["pSP", "pDP"])
def test_they_end_at_certified_points_as_good(seed, statement, monkeypatch):
    problem = crowd(seed, statement, RoundedRamp(1.0))
    each_step = SQP().solve(problem, problem.constant_start)
    few = MultiStartSQP().solve(problem, problem.constant_start)
    monkeypatch.setattr(multistart, "SETTINGS", replace(multistart.SETTINGS, small_block=0))
    for name in ("expand", "expand_net"):
        monkeypatch.setattr(f"partialfair.optimization.problems.ProblemPoint.{name}", None)
    none = MultiStartSQP().solve(problem, problem.constant_start)
    for result in (few, none):
        assert result.status is Status.CONVERGED
        assert certify(problem, result.x).holds(1e-4)
        assert result.objective <= each_step.objective + 1e-3


@pytest.mark.parametrize("loss", [Logistic(), PartialAUC((0.1, 0.5))], ids=["convex", "difference"])
def test_the_net_hessian_is_convex_minus_concave(loss):
    problem = crowd(0, STATEMENTS[0], RoundedRamp(1.0), loss=loss)
    rng = np.random.default_rng(0)
    at = problem.at(rng.normal(size=problem.n))
    multipliers, direction = rng.random(problem.m), rng.normal(size=problem.n)
    split, net = at.expand(multipliers), at.expand_net(multipliers)
    expected = split.convex @ direction - split.concave @ direction
    assert net.convex @ direction == pytest.approx(expected, abs=1e-9)
    assert net.gradient == pytest.approx(split.gradient)
    assert net.jacobian == pytest.approx(split.jacobian)


def test_hessians_are_few(monkeypatch):
    problem, asked = crowd(0, STATEMENTS[0], RoundedRamp(1.0)), []
    expand_net = ProblemPoint.expand_net
    monkeypatch.setattr(
        ProblemPoint, "expand_net", lambda at, multipliers: asked.append(at) or expand_net(at, multipliers)
    )
    monkeypatch.setattr(ProblemPoint, "expand", None)  # one at every step
    result = MultiStartSQP(n_starts=1).solve(problem, problem.constant_start)
    steps = result.history[-1].step
    assert result.status is Status.CONVERGED
    assert 0 < len(asked) <= 1 + steps // 6


def test_kinks_are_spelled_out_as_ever():
    problem = crowd(0, STATEMENTS[0], Ramp(1.0))
    limited = MultiStartSQP(largest_block=1, tol=1e-3).solve(problem, problem.constant_start)
    assert limited.status is Status.CONVERGED
    assert certify(problem, limited.x, tol=1e-3).holds(1e-3)


def test_the_problem_without_constraints():
    problem = crowd(0, None, RoundedRamp(1.0))
    factored, conjugate = (
        Newton(largest_block=size).solve(problem, problem.constant_start) for size in (3000, 1)
    )
    assert conjugate.status is Status.CONVERGED
    assert conjugate.x == pytest.approx(factored.x, abs=1e-7)
