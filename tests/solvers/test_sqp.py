"""Sequential quadratic programming against the certificate, cvxpy and exact IDCA."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partialfair.constraints import DemographicParity, StatisticalParity, join
from partialfair.exceptions import InputError
from partialfair.groups import encode_groups
from partialfair.models import linear_model
from partialfair.models.blocks import BlockMatrix
from partialfair.objectives import LogisticLoss
from partialfair.problems import Ball, Problem, certify
from partialfair.solvers import IDCA, SQP, Newton, Status
from partialfair.solvers._elastic import ElasticModel, box_maximiser
from partialfair.surrogates import Ramp, Sigmoid
from tests.solvers.problems import Exact, cp, problem

KINDS = ["statistical", "demographic", "both"]


@settings(max_examples=30)
@given(st.integers(0, 1000), st.integers(1, 12), st.sampled_from([0.3, 3.0]))
def test_the_dual_is_solved(seed, m, bound):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(m, 5))
    gram, linear = root @ root.T, rng.normal(size=m)
    found = box_maximiser(gram, linear, bound)
    slope = linear - gram @ found
    # Optimality on a box: no slope inside, and none that points back in from a face.
    assert found == pytest.approx(np.clip(found + slope, 0, bound), abs=1e-5)


@settings(max_examples=20)
@given(st.integers(0, 1000))
def test_the_elastic_step_is_cvxpys(seed):
    rng = np.random.default_rng(seed)
    n, m, penalty = 6, 4, 2.0
    root = rng.normal(size=(n, n))
    hessian = root @ root.T + np.eye(n)
    gradient, rows, values = rng.normal(size=n), rng.normal(size=(m, n)), rng.normal(size=m)
    factor = BlockMatrix((np.arange(n),), (hessian,)).cholesky(np.zeros(n))
    step, _ = ElasticModel(factor, gradient, rows, penalty).step(values)
    p = cp.Variable(n)
    model = gradient @ p + 0.5 * cp.quad_form(p, cp.psd_wrap(hessian))
    cp.Problem(cp.Minimize(model + penalty * cp.sum(cp.pos(values + rows @ p)))).solve(solver=cp.CLARABEL)
    assert step == pytest.approx(p.value, abs=1e-4)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("start", ["trivial", "free"])
def test_it_ends_at_certified_points_as_good_as_exact_idca(kind, start):
    task = problem(kind, n=300, max_gap=0.05)
    x = task.trivial_start
    if start == "free":  # far from feasible
        free = problem("none", n=300)
        x = np.concatenate([Newton().solve(free, free.trivial_start).x, x[free.trivial_start.size :]])
    result = SQP().solve(task, x)
    assert certify(task, result.x).holds(5e-3)
    assert result.violation <= 5e-5
    exact = IDCA(max_iter=60, inner=Exact(), mu=0.02, tol=1e-4).solve(task, task.trivial_start)
    assert result.objective <= exact.objective + 5e-3  # local solutions differ a little


def test_it_needs_few_passes():
    task = problem(n=300)
    SQP(max_iter=20).solve(task, task.trivial_start)
    assert task.n_passes < 20 * 10


@settings(max_examples=25)
@given(st.integers(0, 10_000), st.integers(2, 5), st.sampled_from([0.03, 0.1, 0.3]), st.booleans())
def test_random_problems_end_feasible_and_nearly_stationary(seed, n_groups, max_gap, ramp):
    rng = np.random.default_rng(seed)
    n, d = 60 * n_groups, 4
    groups = encode_groups(rng.permutation(np.arange(n) % n_groups))
    X = rng.normal(size=(n, d)) + 0.5 * rng.normal(size=(n_groups, d))[groups.codes]
    y = np.where(X @ rng.normal(size=d) + rng.normal(size=n) > 0, 1.0, -1.0)
    sigma = Ramp(1.0) if ramp else Sigmoid(0.3)
    statements = [StatisticalParity((0.1, 0.6), max_gap, n_points=4), DemographicParity((0.2, 0.8), max_gap)]
    blocks = [statement.build(groups, np.ones(n), sigma) for statement in statements]
    task = Problem(linear_model(X), LogisticLoss(y, np.ones(n)), join(blocks), alpha=1e-2)
    result = SQP().solve(task, task.trivial_start)
    assert result.violation <= 5e-5
    assert result.objective < task.evaluate(task.trivial_start).objective
    assert certify(task, result.x).residual < 0.05


@pytest.mark.parametrize("sigma", [Ramp(0.7), Sigmoid(0.7)], ids=str)
def test_smoothed_curvature_is_a_difference_of_slopes(sigma):
    rng = np.random.default_rng(0)
    scores, weights, codes = rng.normal(size=50), rng.random(50), np.arange(50) % 2
    thetas, coefficients = rng.normal(size=3), rng.random((2, 2, 3))
    by_score, by_theta = sigma.bends(coefficients, scores, weights, codes, thetas)
    step = 0.1 * sigma.width
    above, below = (
        sigma.pull_back(coefficients, scores + sign * step, weights, codes, thetas) for sign in (1, -1)
    )
    assert by_score == pytest.approx((above[0] - below[0]) / (2 * step))
    assert by_theta == pytest.approx((below[1] - above[1]) / (2 * step))
    assert by_score.min() >= -1e-12  # the parts are convex


def test_endings():
    task = problem(n=200)
    assert SQP(max_iter=2, tol=1e-9).solve(task, task.trivial_start).status is Status.MAX_ITER
    stopped = SQP().solve(task, task.trivial_start, callback=lambda line, _: line.step == 1)
    assert stopped.status is Status.STOPPED
    assert len(stopped.history) == 2

    def interrupt(line, _):
        if line.step == 2:
            raise KeyboardInterrupt

    assert SQP().solve(task, task.trivial_start, callback=interrupt).status is Status.STOPPED
    with pytest.raises(InputError, match="max_iter of SQP"):
        SQP(max_iter=0)
    with pytest.raises(InputError, match="over all of"):
        SQP().solve(problem(domain=Ball(1.0)), task.trivial_start)


def test_singular_designs():
    """Equal features, one that is always 0, and no penalty: the Hessian has no inverse."""
    task = problem(n=200, d=4, alpha=0.0)
    X = task.model.design.X
    X[:, 1], X[:, 2] = X[:, 0], 0.0
    result = SQP().solve(task, task.trivial_start)
    assert result.violation <= 5e-5
    assert result.objective < task.evaluate(task.trivial_start).objective - 0.01
