"""Sequential quadratic programming against the certificate, cvxpy and exact IDCA."""

from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from partialfair.constraints.surrogates import Ramp, Sigmoid
from partialfair.exceptions import InputError
from partialfair.optimization.models.blocks import BlockMatrix
from partialfair.optimization.problems import EVERYWHERE, certify
from partialfair.optimization.problems.elastic import ElasticModel
from partialfair.optimization.problems.local import Kinks
from partialfair.optimization.problems.programs import best_multipliers
from partialfair.optimization.solvers import IDCA, SQP, Newton, Status
from tests.sizes import examples
from tests.solvers.problems import Exact, cp, features, problem

KINDS = ["statistical", "demographic", "both"]


@examples(15)
@given(st.integers(0, 1000), st.integers(1, 8), st.integers(0, 6), st.sampled_from([0.3, 3.0]))
def test_the_dual_is_cvxpys(seed, m, n_kinks, bound):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(m + n_kinks, 5))
    gram, linear = root @ root.T, rng.normal(size=m + n_kinks)
    shares = rng.random((n_kinks, m)) * (rng.random((n_kinks, m)) < 0.5)
    beyond = np.zeros((n_kinks, n_kinks))
    beyond[:3, 3:] = rng.normal(size=beyond[:3, 3:].shape)
    found = best_multipliers(gram, linear, shares, beyond, np.full(m, bound))
    z = cp.Variable(m + n_kinks, nonneg=True)
    conditions = [z[:m] <= bound, *([z[m:] <= shares @ z[:m] + beyond @ z[m:]] if n_kinks else [])]
    objective = linear @ z - 0.5 * cp.sum_squares(root.T @ z)
    best = cp.Problem(cp.Maximize(objective), conditions).solve(solver=cp.CLARABEL)
    assert linear @ found - 0.5 * found @ gram @ found == pytest.approx(best, abs=1e-5)
    assert found.min() >= 0
    assert found[:m].max() <= bound
    assert (found[m:] <= np.maximum(shares @ found[:m] + beyond @ found[m:], 0) + 1e-12).all()


@examples(10)
@given(st.integers(0, 1000), st.sampled_from([4, 150]))
def test_the_elastic_step_is_cvxpys(seed, m):
    rng = np.random.default_rng(seed)
    n, n_kinks, penalty = 6, 5, 2.0
    root = rng.normal(size=(n, n))
    hessian = root @ root.T + np.eye(n)
    gradient, rows, values = rng.normal(size=n), rng.normal(size=(m, n)), rng.normal(size=m)
    beyond = np.zeros((n_kinks, n_kinks))
    beyond[:3, 3:] = rng.random(beyond[:3, 3:].shape)
    shares = rng.random((n_kinks, m))
    kinks = Kinks.alone(
        rng.normal(size=(n_kinks, n)), rng.random(n_kinks), shares, beyond, np.arange(n_kinks)
    )
    factor = BlockMatrix((np.arange(n),), (hessian,)).cholesky(0.0)
    model_of_step = ElasticModel(factor, gradient, rows, kinks, penalty, EVERYWHERE.room(np.zeros(n)))
    model_of_step.step(rng.normal(size=m))  # what is kept for the next is right for other values too
    step = model_of_step.step(values).p

    def model(p, maximum):
        heights = kinks.rows @ p - kinks.gaps
        gains = kinks.shares.T @ maximum(heights + kinks.beyond.T @ maximum(heights))
        return maximum(values + rows @ p + gains)

    p = cp.Variable(n)
    smooth = gradient @ p + 0.5 * cp.quad_form(p, cp.psd_wrap(hessian))
    best = cp.Problem(cp.Minimize(smooth + penalty * cp.sum(model(p, cp.pos)))).solve(solver=cp.CLARABEL)
    found = gradient @ step + 0.5 * step @ hessian @ step
    found += penalty * model(step, lambda x: np.maximum(x, 0)).sum()
    assert found == pytest.approx(best, abs=1e-4 * (1 + abs(best)))


@examples(15)
@given(st.integers(0, 1000), st.floats(0.01, 0.3), st.sampled_from(["statistical", "demographic"]))
def test_kinks_are_all_that_tangents_miss(seed, length, kind):
    """f⁺ of a ramp is its tangent plus the gains of the kinks on the way, exactly, if pieces are in reach."""
    task, rng = problem(kind, n=60, seed=seed), np.random.default_rng(seed)
    at = task.at(task.trivial_start + 0.3 * rng.normal(size=task.trivial_start.size))
    step = rng.normal(size=at.x.size)
    there = task.at(at.x + length * step / np.linalg.norm(step))
    kinks = at.kinks(np.ones(task.m), 0.0, there, limit=1000, of_convex=True)
    before, after = (task.constraints.system.parts(point.atoms)[0] for point in (at, there))
    tangent = before + at.slopes[0] @ at.atoms_jacobian @ (there.x - at.x)
    gains = kinks.gains(there.x - at.x)
    assert (after >= tangent + gains - 1e-12).all()
    pieces = task.constraints.system.ties(at.atoms, np.ones(task.m, dtype=bool), np.inf)
    if pieces.gaps[pieces.slopes @ (there.atoms - at.atoms) > pieces.gaps].max(initial=0.0) <= 0.05:
        assert after == pytest.approx(tangent + gains, abs=1e-12)
    assert kinks.gaps.min(initial=0.0) >= 0


def test_kinks_of_equal_rows_are_joined():
    task = problem("statistical", n=40)
    (rows,) = task.rows.shards
    features(task)[20:] = features(task)[:20]
    (members,) = rows.members
    members.codes[20:] = members.codes[:20]
    at = task.at(task.trivial_start)
    each = at.kinks(np.ones(task.m), 10.0, limit=1000)
    bank, scores = task.bank, rows.model.scores(task.split(at.x)[0])
    no_moves = np.zeros(scores.size), np.zeros(bank.n_theta)
    found = bank.kinks(np.ones(bank.n_atoms), scores, rows.members, at.theta, no_moves, 10.0, 1000)
    assert each.keys.size == found.atoms.size // 2
    assert each.gaps.sum() == pytest.approx((found.weights * np.abs(found.residuals)).sum())
    assert at.kinks(np.ones(task.m), 10.0, limit=5) is None


@cache
def objective_of_exact_idca(kind):
    task = problem(kind, n=300, max_gap=0.05)
    return IDCA(max_iter=60, inner=Exact(), mu=0.02, tol=1e-4).solve(task, task.trivial_start).objective


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("start", ["trivial", "free"])
def test_it_ends_at_certified_points_as_good_as_exact_idca(kind, start):
    task = problem(kind, n=300, max_gap=0.05)
    x = task.trivial_start
    if start == "free":  # far from feasible
        free = problem("none", n=300)
        x = np.concatenate([Newton().solve(free, free.trivial_start).x, x[free.trivial_start.size :]])
    result = SQP().solve(task, x)
    assert certify(task, result.x).holds(1e-4)
    assert result.violation <= 5e-5
    assert result.objective <= objective_of_exact_idca(kind) + 5e-3  # local solutions differ a little


def test_it_needs_few_passes():
    task = problem(n=300)
    SQP(max_iter=20).solve(task, task.trivial_start)
    assert task.n_passes < 20 * 10


@pytest.mark.parametrize("sigma", [Ramp(0.7), Sigmoid(0.7)], ids=str)
def test_smoothed_curvature_is_a_difference_of_slopes(sigma):
    rng = np.random.default_rng(0)
    scores, weights, codes = rng.normal(size=50), rng.random(50), np.arange(50) % 2
    thetas, coefficients = rng.normal(size=3), rng.random((2, 2, 3))
    bends = sigma.bends(coefficients, scores, weights, codes, thetas)
    by_score, by_theta = bends.sum(axis=1), bends.sum(axis=0)
    step = (0.1 if sigma.kinks else 1e-3) * sigma.width
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


def test_singular_designs():
    """Equal features, one that is always 0, and no penalty: the Hessian has no inverse."""
    task = problem(n=200, d=4, alpha=0.0)
    X = features(task)
    X[:, 1], X[:, 2] = X[:, 0], 0.0
    result = SQP().solve(task, task.trivial_start)
    assert result.violation <= 5e-5
    assert result.objective < task.evaluate(task.trivial_start).objective - 0.01
