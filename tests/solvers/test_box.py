"""Bounds on parameters and thresholds: optima against cvxpy, certificates, and points that never leave."""

from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from partialfair.constraints import StatisticalParity
from partialfair.constraints.block import ConstraintBlock, Thresholds
from partialfair.constraints.dc import DCSystem, GroupMeans, atom
from partialfair.constraints.surrogates import Ramp, RoundedRamp
from partialfair.data.groups import encode_groups, members_of
from partialfair.optimization.models import linear_model
from partialfair.optimization.models.blocks import BlockMatrix
from partialfair.optimization.objectives import Logistic
from partialfair.optimization.problems import Box, Problem, certify
from partialfair.optimization.problems.elastic import ElasticModel
from partialfair.optimization.problems.local import Kinks, no_kinks
from partialfair.optimization.solvers import (
    IDCA,
    SQP,
    AugmentedLagrangian,
    MultiStartSQP,
    Newton,
    NewtonSteps,
    Status,
)
from partialfair_paper.quadratic import QuadraticGroupAUC
from tests.sizes import examples
from tests.solvers.problems import (
    Exact,
    conditions_of,
    cp,
    minimum,
    objective_of,
    scores_of,
    solve_subproblem,
)

N, D = 80, 3
INF = np.inf
SECOND_ORDER = [
    SQP(tol=1e-6),
    MultiStartSQP(tol=1e-6),
    IDCA(max_iter=60, inner=NewtonSteps(epsilon=1e-6), mu=1e-2),
]
SOLVERS = [*SECOND_ORDER, AugmentedLagrangian(tol=1e-6)]
every_solver = pytest.mark.parametrize("solver", SOLVERS, ids=lambda solver: type(solver).__name__)
every_second_order_solver = pytest.mark.parametrize(
    "solver", SECOND_ORDER, ids=lambda solver: type(solver).__name__
)
BOXES = {  # coefficients of 3 features and an intercept; the free optimum is about (1.5, 1, .5, 0)
    "two-sided": ([-0.5] * 4, [0.5] * 4),
    "from above": ([-INF] * 4, [0.4, INF, 0.2, INF]),
    "from below": ([-INF, 1.8, -INF, 0.3], [INF] * 4),
    "one value": ([-INF, 0.7, -INF, -INF], [INF, 0.7, INF, INF]),
    "idle": ([-9.0] * 4, [9.0] * 4),
}
every_box = pytest.mark.parametrize("box", BOXES)


def task(statement, box, *, seed=0, sigma=None, bounds_of_theta=(-INF, INF)):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, D))
    groups = encode_groups(np.where(X[:, 0] + rng.normal(size=N) > 0, "a", "b"))
    y = np.where(X @ np.linspace(1.5, 0.5, D) + rng.normal(size=N) > 0, 1.0, -1.0)
    block = (
        ConstraintBlock.none()
        if statement is None
        else statement.build(groups, np.ones(N), Ramp(1.0) if sigma is None else sigma)
    )
    low, high = (
        np.append(side, np.full(block.bank.n_theta, bound))
        for side, bound in zip(BOXES[box], bounds_of_theta, strict=True)
    )
    return Problem.of(linear_model(X), Logistic().build(y, np.ones(N)), block, 0.05, Box(low, high))


def check(problem, result, optimum=None, tol=1e-4):
    """In the box to the last digit, feasible, certified, and no worse than the optimum."""
    low, high = problem.domain.bounds(problem.n)
    assert (low <= result.x).all()
    assert (result.x <= high).all()
    assert result.violation <= 1e-5
    certificate = certify(problem, result.x, tol=tol)
    assert certificate.holds(tol), str(certificate)
    if optimum is not None:
        assert result.objective == pytest.approx(optimum, abs=1e-5)


@every_box
@every_solver
def test_without_constraints(solver, box):
    problem = task(None, box)
    optimum, x = solve_subproblem(problem.linearise(problem.trivial_start))
    result = solver.solve(problem, problem.trivial_start)
    check(problem, result, optimum)
    assert result.x == pytest.approx(x, abs=1e-3)


def quadratic_optimum(problem, max_gap):
    """``A(k, k') − ½ ≤ κ``: the mean of ``½ (1 + s − t)²`` over pairs, by means and variances of groups."""
    (rows,) = problem.rows.shards
    (members,) = rows.members
    v = cp.Variable(problem.n)
    scores = scores_of(problem, v)
    averages = [np.where(members.codes == k, members.shares, 0.0) for k in range(2)]
    means = [average @ scores for average in averages]
    variances = sum(average @ cp.square(scores - mean) for average, mean in zip(averages, means, strict=True))
    conditions = [
        0.5 * (cp.square(1 + sign * (means[0] - means[1])) + variances) - 0.5 <= max_gap for sign in (1, -1)
    ]
    return minimum(objective_of(problem, v), [*conditions, *conditions_of(problem.domain, v)], v)


@every_box
@every_solver
def test_with_quadratic_constraints(solver, box):
    statement = QuadraticGroupAUC(4.0 if box == "from below" else 0.6)
    problem = task(statement, box)
    optimum, x = quadratic_optimum(problem, statement.max_gap)
    result = solver.solve(problem, problem.trivial_start)
    check(problem, result, optimum)
    assert result.x == pytest.approx(x, abs=1e-3)


class AtMost:
    """The mean of ``σ⁺(s − θ)`` in every group is at most .35: convex in scores and in a free threshold θ."""

    def build(self, groups, weights, surrogate):
        bank = GroupMeans(surrogate, len(groups.labels), 1)
        functions = tuple(atom(bank.plus(k, 0)) - 0.35 for k in range(len(groups.labels)))
        members = members_of(groups.codes, weights, len(groups.labels))
        system = DCSystem(functions, bank.n_atoms)
        return ConstraintBlock(bank, members, system, groups.names, Thresholds(np.array([1.0])))


@pytest.mark.parametrize("box", ["two-sided", "from above", "idle"])
@pytest.mark.parametrize("high", [0.1, 0.3])
@every_second_order_solver
def test_bounds_on_thresholds(solver, high, box):
    """The higher θ, the less is asked; so its bound binds, and what is asked is asked of w."""
    problem = task(AtMost(), box, bounds_of_theta=(-1.0, high))
    optimum, _ = solve_subproblem(problem.linearise(problem.trivial_start))
    free = task(None, box)
    assert optimum > solve_subproblem(free.linearise(free.trivial_start))[0] + 1e-3  # it matters
    result = solver.solve(problem, problem.trivial_start)
    assert result.x[-1] == pytest.approx(high, abs=1e-6)
    check(problem, result, optimum)


@pytest.mark.parametrize("box", ["two-sided", "from above", "idle"])
def test_first_order_steps_find_the_same_thresholds(box):
    """Where functions are smooth, as with rounded corners."""
    problem = task(AtMost(), box, sigma=RoundedRamp(1.0), bounds_of_theta=(-1.0, 0.2))
    expected = SQP(tol=1e-6).solve(problem, problem.trivial_start)
    result = AugmentedLagrangian(tol=1e-6).solve(problem, problem.trivial_start)
    check(problem, result, expected.objective)
    assert result.x[-1] == pytest.approx(0.2, abs=1e-6)
    assert result.x == pytest.approx(expected.x, abs=1e-3)


def with_statistical_parity(box, seed):
    statement = StatisticalParity((0.1, 0.6), 0.05, n_points=3)
    return task(statement, box, seed=seed, bounds_of_theta=(-0.1, 0.4))


@cache
def objective_of_exact_idca(box, seed):
    problem = with_statistical_parity(box, seed)
    return IDCA(max_iter=60, inner=Exact(), mu=0.02, tol=1e-4).solve(problem, problem.trivial_start).objective


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("box", ["two-sided", "from above"])
@pytest.mark.parametrize("solver", [SQP(), MultiStartSQP()], ids=["SQP", "MultiStartSQP"])
def test_differences_of_convex_functions(solver, box, seed):
    """As good as IDCA with exact steps, up to local solutions that differ a little."""
    problem = with_statistical_parity(box, seed)
    result = solver.solve(problem, problem.trivial_start)
    assert result.status is Status.CONVERGED
    check(problem, result)
    assert result.objective <= objective_of_exact_idca(box, seed) + 5e-3


@pytest.mark.parametrize("max_gap", [0.2, 0.4, 0.6])
def test_a_box_without_a_feasible_start(max_gap):
    """One coefficient must be large, so that nobody may score everybody alike."""
    problem = task(StatisticalParity((0.1, 0.6), max_gap, n_points=3), "from below")
    assert problem.evaluate(problem.domain.project(problem.constant_start)).violation > 0.1
    result = MultiStartSQP(n_starts=5).solve(problem, problem.trivial_start)
    assert result.status is Status.CONVERGED
    check(problem, result)


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda solver: type(solver).__name__)
def test_every_iterate_stays_in_the_box(solver):
    """Also if the start lies outside, and if nothing may move at all."""
    problem = task(QuadraticGroupAUC(0.6), "two-sided")
    seen = []
    solver.solve(problem, np.full(problem.n, 3.0), callback=lambda _, x: seen.append(x))
    assert np.abs(np.array(seen)).max() <= 0.5
    point = np.array([0.1, -0.2, 0.3, 0.0])
    pinned = Problem(problem.rows, problem.loss, problem.constraints, problem.alpha, Box(point, point))
    assert (solver.solve(pinned, np.ones(4)).x == point).all()


@every_box
@pytest.mark.parametrize("largest_block", [0, 3000])
def test_newton_knows_bounds(largest_block, box):
    """With a factored Hessian and without; what is left of the gradient at the end points out of the box."""
    problem = task(None, box)
    optimum, x = solve_subproblem(problem.linearise(problem.trivial_start))
    result = Newton(tol=1e-6, largest_block=largest_block).solve(problem, np.full(problem.n, 3.0))
    assert result.status is Status.CONVERGED
    assert problem.domain.stationarity(result.x, problem.at(result.x).objective_gradient()) <= 1e-6
    check(problem, result, optimum)
    assert result.x == pytest.approx(x, abs=1e-3)


def test_most_bounds_may_bind():
    """The optimum is cvxpy's, and the certificate holds, as it does not without the faces' normals."""
    rng = np.random.default_rng(0)
    n, n_leaves, statement = 200, 40, QuadraticGroupAUC(0.2)
    groups = encode_groups(rng.choice(["a", "b"], n))
    X = (rng.random((n, n_leaves)) < 0.2).astype(float)
    y = np.where(X @ rng.normal(size=n_leaves) + groups.codes + rng.normal(size=n) > 0.5, 1.0, -1.0)
    block = statement.build(groups, np.ones(n), Ramp(1.0))
    model, loss = linear_model(X, fit_intercept=False), Logistic().build(y, np.ones(n))
    problem = Problem.of(model, loss, block, 0.01, Box(-0.1, 0.1))
    optimum, x = quadratic_optimum(problem, statement.max_gap)
    result = MultiStartSQP(tol=1e-6, n_starts=1).solve(problem, problem.trivial_start)
    check(problem, result, optimum)
    assert result.x == pytest.approx(x, abs=1e-3)
    assert np.mean(np.abs(result.x) == 0.1) > 0.5
    without = Problem(problem.rows, problem.loss, problem.constraints, problem.alpha)
    assert not certify(without, result.x, tol=1e-4).holds(1e-4)
    assert not certify(problem, 0.99 * result.x, tol=1e-4).holds(1e-4)  # no face pushes there


@examples(15)
@given(st.integers(0, 1000), st.sampled_from([20, 80]), st.floats(0.01, 1.0))
def test_steps_within_many_bounds_are_cvxpys(seed, n, size):
    """Whatever faces are guessed at first; with a larger diagonal every step settles."""
    rng = np.random.default_rng(seed)
    root, m = rng.normal(size=(n, n // 2)), 4
    hessian = root @ root.T + np.eye(n)
    gradient, rows, values = rng.normal(size=n), rng.normal(size=(m, n)), rng.normal(size=m)
    low, high = -size * rng.random(n), size * rng.random(n)
    faces = rng.integers(-1, 2, n).astype(np.int8)
    shift, step = 0.0, None
    while step is None or not step.settled:
        factor = BlockMatrix((np.arange(n),), (hessian,)).cholesky(shift)
        model = ElasticModel(factor, gradient, rows, no_kinks(n, m), 2.0, Box(low, high), faces=faces)
        step, shift, added = model.step(values), max(1.0, 4 * shift), shift
    assert shift <= 1e4
    p = cp.Variable(n)
    smooth = gradient @ p + 0.5 * cp.quad_form(p, cp.psd_wrap(hessian + added * np.eye(n)))
    best, _ = minimum(smooth + 2.0 * cp.sum(cp.pos(values + rows @ p)), conditions_of(Box(low, high), p), p)
    found = gradient @ step.p + 0.5 * step.p @ (hessian @ step.p + added * step.p)
    found += 2.0 * np.maximum(values + rows @ step.p, 0).sum()
    assert found == pytest.approx(best, abs=1e-5 * (1 + abs(best)))
    assert (low <= step.p).all()
    assert (step.p <= high).all()


@examples(15)
@given(st.integers(0, 1000), st.sampled_from([0, 4, 150]), st.sampled_from([0, 5]), st.floats(0.1, 3.0))
def test_the_elastic_step_within_bounds_is_cvxpys(seed, m, n_kinks, size):
    rng = np.random.default_rng(seed)
    n, penalty = 6, 2.0
    root = rng.normal(size=(n, n))
    hessian = root @ root.T + np.eye(n)
    gradient, rows, values = rng.normal(size=n), rng.normal(size=(m, n)), rng.normal(size=m)
    beyond = np.zeros((n_kinks, n_kinks))
    beyond[:3, 3:] = rng.random(beyond[:3, 3:].shape)
    shares = rng.random((n_kinks, m))
    kinks = Kinks.alone(
        rng.normal(size=(n_kinks, n)), rng.random(n_kinks), shares, beyond, np.arange(n_kinks)
    )
    low = np.where(rng.random(n) < 0.5, -size * rng.random(n), -INF)
    high = np.where(rng.random(n) < 0.5, size * rng.random(n), INF)
    low[0] = 0.0  # the point lies on a face
    for tau in (0.0, 4.0, 16.0, 64.0):  # where faces are many, a larger τ settles which of them hold
        factor = BlockMatrix((np.arange(n),), (hessian,)).cholesky(tau)
        step = ElasticModel(factor, gradient, rows, kinks, penalty, Box(low, high)).step(values)
        if step.settled:
            break
    assert step.settled
    hessian = hessian + tau * np.eye(n)

    def model(p, maximum):
        heights = kinks.rows @ p - kinks.gaps
        gains = kinks.shares.T @ maximum(heights + kinks.beyond.T @ maximum(heights))
        return maximum(values + rows @ p + gains)

    p = cp.Variable(n)
    smooth = gradient @ p + 0.5 * cp.quad_form(p, cp.psd_wrap(hessian))
    violations = penalty * cp.sum(model(p, cp.pos)) if m else 0.0
    best, _ = minimum(smooth + violations, conditions_of(Box(low, high), p), p)
    assert (low <= step.p).all()
    assert (step.p <= high).all()
    found = gradient @ step.p + 0.5 * step.p @ hessian @ step.p
    found += penalty * model(step.p, lambda x: np.maximum(x, 0)).sum()
    assert found == pytest.approx(best, abs=1e-4 * (1 + abs(best)))
    # Faces push out of nothing but themselves, and all pushes balance: the step is stationary.
    assert (step.bound_push[np.isinf(high)] <= 0).all()
    assert (step.bound_push[np.isinf(low)] >= 0).all()
    pushes = step.multipliers @ rows + step.kink_multipliers @ kinks.rows + step.bound_push
    assert hessian @ step.p + gradient + pushes == pytest.approx(0, abs=1e-5)
