"""Back ends at the edges of what the protocols allow."""

import warnings
from dataclasses import dataclass

import numpy as np
import pytest

from partialfair import PartialFairClassifier
from partialfair.constraints import StatisticalParity
from partialfair.constraints.block import ConstraintBlock, JoinedThresholds, Thresholds, join
from partialfair.exceptions import InputError
from partialfair.optimization.models import FirstOrderModel, linear_model
from partialfair.optimization.objectives import Logistic
from partialfair.optimization.problems import Box, Capability, InMemoryData, Problem
from partialfair.optimization.solvers import (
    IDCA,
    SQP,
    AugmentedLagrangian,
    MultiStartSQP,
    Solver,
    Status,
    Switching,
)
from tests.solvers.problems import problem


def rows(n=200, seed=0):
    rng = np.random.default_rng(seed)
    groups = rng.choice(["a", "b"], n)
    X = rng.normal(size=(n, 3)) + np.outer(groups == "a", [1, 0, 0])
    return X, X.sum(axis=1) + rng.normal(size=n) > 0.5, groups


def first_order(task, *, shared=False):
    """The same problem, given by scores and J'v alone; scores may share one array."""
    (shard,) = task.rows.shards
    everybody = np.arange(shard.objective.shares.size)
    buffer = np.empty(everybody.size)
    jacobian = shard.model.rows(everybody)

    def score(w):
        np.dot(jacobian, w, out=buffer)
        return buffer if shared else buffer.copy()

    model = FirstOrderModel(shard.model.parameters, score, lambda w, v: jacobian.T @ v)
    return Problem(
        InMemoryData(model, shard.objective).rows(shard.members),
        task.loss,
        task.constraints,
        task.alpha,
        mean_target=task.mean_target,
    )


@pytest.mark.parametrize("max_iter", [1, 2, 3, 5, 60])
def test_whatever_ends_it_the_result_is_in_the_box(max_iter):
    box = Box(-0.4, 0.4)
    task = problem("statistical", n=200, domain=box)
    for solver in (MultiStartSQP(max_iter=max_iter, n_starts=4), AugmentedLagrangian(max_iter=max_iter)):
        x = solver.solve(task, task.constant_start).x
        assert (box.project(x) == x).all()


def test_the_augmented_lagrangian_leaves_a_start_at_which_line_searches_give_up():
    task = problem("statistical", n=300, max_gap=0.05)
    result = AugmentedLagrangian().solve(task, task.trivial_start)
    assert result.objective < task.evaluate(task.trivial_start).objective - 0.05
    assert result.history[-1].passes < 10_000


def test_a_warm_start_is_kept_when_there_is_no_time():
    X, y, groups = rows()
    clf = PartialFairClassifier(interval=(0.1, 0.6), max_gap=0.1, enforce="surrogate", warm_start=True)
    before = clf.fit(X, y, sensitive_features=groups).coef_.copy()
    clf.set_params(time_limit=1e-9).fit(X, y, sensitive_features=groups)
    assert clf.result_.status is Status.CONVERGED  # by the certificate of what the last fit left
    assert clf.coef_ == pytest.approx(before)


def test_scores_that_share_one_array_are_copied():
    task = problem("statistical", n=120)
    solver = IDCA(max_iter=4, inner=Switching(n_steps=40))
    apart, shared = (
        solver.solve(first_order(task, shared=shared), task.trivial_start) for shared in (False, True)
    )
    assert shared.objective == apart.objective


def test_tangents_are_shifted_where_scores_are_not_linear():
    task = problem("statistical", n=120)
    settings = {"max_iter": 2, "inner": Switching(n_steps=30)}
    nonlinear = first_order(task)
    default, shifted, unshifted = (
        IDCA(**settings, **mu).solve(nonlinear, task.trivial_start).x
        for mu in ({}, {"mu": 1e-2}, {"mu": 0.0})
    )
    assert (default == shifted).all()
    assert (default != unshifted).any()
    linear = [IDCA(**settings, **mu).solve(task, task.trivial_start).x for mu in ({}, {"mu": 0.0})]
    assert (linear[0] == linear[1]).all()


def test_what_a_model_lacks_is_named():
    nonlinear = first_order(problem("statistical", n=60))
    at = nonlinear.at(nonlinear.trivial_start)
    for reduction in (lambda: at.expand(np.ones(nonlinear.m)), lambda: at.hessian_product(at.x)):
        with pytest.raises(InputError, match="not linear in the parameters"):
            reduction()


def test_shards_that_cannot_be():
    X, y, _ = rows(20)
    objective = Logistic().build(np.where(y, 1.0, -1.0), np.ones(20))
    for n_shards in (0, -1):
        with pytest.raises(InputError, match="n_shards"):
            InMemoryData(linear_model(X), objective, n_shards=n_shards)
    model = first_order(problem("none", n=20)).rows.shards[0].model
    with pytest.raises(InputError, match="has no take"):
        InMemoryData(model, objective, n_shards=2)


def test_thresholds_of_several_banks_are_checked_bank_by_bank():
    task = problem("statistical", n=60)
    (shard,) = task.rows.shards
    bank, members = task.bank.banks[0], shard.members[0]
    one = ConstraintBlock(
        bank, members, task.constraints.system, task.constraints.names, Thresholds(np.zeros(3))
    )
    both = join([one, one])
    for sizes in ((2, 4), (6, 0)):
        with pytest.raises(InputError, match="has 3 free thresholds, but Thresholds for"):
            ConstraintBlock(
                both.bank,
                both.members,
                both.system,
                both.names,
                JoinedThresholds(tuple(Thresholds(np.zeros(n)) for n in sizes)),
            )
    several = ConstraintBlock(
        both.bank,
        both.members,
        both.system,
        both.names,
        JoinedThresholds((Thresholds(np.zeros(3)), Thresholds(np.zeros(3)))),
    )
    stated = Problem.of(shard.model, shard.objective, several)
    assert np.isfinite(stated.start_at(np.zeros(shard.model.parameters.n))).all()


def test_objects_with_a_method_solve_may_say_where_they_start():
    X, y, groups = rows()
    asked = []

    @dataclass
    class Mine(Solver):
        requires = frozenset({Capability.GRADIENT})

        def start(self, problem, free, last):
            asked.append("start")
            return problem.start_at(free)

        def again(self):
            asked.append("again")
            return self

        def solve(self, problem, start, **options):
            return SQP(tol=1e-5).solve(problem, start, **options)

    statement = StatisticalParity((0.1, 0.6), 0.05)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # how it ends is not the point
        PartialFairClassifier(statement, solver=Mine()).fit(X, y, sensitive_features=groups)
    assert asked[:2] == ["start", "again"]
