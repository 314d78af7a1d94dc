"""The certificate against cvxpy and against the definition: it says yes, and it says no."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.optimize import minimize

from partialfair.constraints import GroupAUC
from partialfair.constraints.surrogates import Ramp, RoundedRamp
from partialfair.data.groups import encode_groups
from partialfair.exceptions import InputError
from partialfair.optimization.models import linear_model
from partialfair.optimization.objectives import Logistic
from partialfair.optimization.problems import Ball, Box, Problem, certify
from partialfair.optimization.solvers import IDCA, MultiStartSQP, Status
from tests.sizes import examples
from tests.solvers.problems import Exact, features, problem, solve_subproblem

DOMAINS = [Box(), Ball(1.2), Box(-0.5, 0.5)]
TOL = 1e-4
seeds = st.integers(0, 10_000)


@st.composite
def problems(draw):
    return problem(
        draw(st.sampled_from(["statistical", "demographic", "both"])),
        n=draw(st.integers(40, 120)),
        d=draw(st.integers(1, 5)),
        seed=draw(seeds),
        max_gap=draw(st.sampled_from([0.05, 0.1, 0.3])),
        domain=draw(st.sampled_from(DOMAINS)),
    )


def feasible_point(task, share, mu=0.3):
    """A point between the trivial start and the first IDCA step: feasible, because majorants are convex."""
    start = task.domain.project(task.trivial_start)
    assume(task.evaluate(start).violation <= 0)
    return start + share * (solve_subproblem(task.linearise(start, mu=mu))[1] - start)


def stationary_point(task):
    """Where IDCA with exact steps ends."""
    return IDCA(max_iter=150, inner=Exact(), mu=0.02, tol=1e-5).solve(task, task.trivial_start).x


@pytest.mark.no_cover
@examples(10)
@given(problems(), st.floats(0, 1), st.sampled_from([0.1, 1.0]))
def test_the_bounds_hold_for_the_reported_multipliers(task, share, mu):
    """The definition itself: ŵ minimises the Lagrangian with these λ, and the rest is evaluated at x."""
    x = feasible_point(task, share)
    found = certify(task, x, mu=mu)
    least, nearby = solve_subproblem(task.linearise(x, mu=mu), found.multipliers)
    reference_error = 1e-5
    assert np.linalg.norm(nearby - x) <= found.distance + reference_error
    at = task.evaluate(x)
    constraints = at.constraints
    # M/2 ‖ŵ − x‖² ≤ L(x) − L(ŵ), M = μ (1 + Σ λ_i): at x each g_i is f_i.
    curvature = mu * (1 + found.multipliers.sum())
    fall = at.objective + found.multipliers @ constraints - least
    assert curvature / 2 * np.linalg.norm(nearby - x) ** 2 <= fall + 1e-7
    assert fall <= curvature / 2 * found.distance**2 + 1e-7
    assert found.multipliers.min() >= 0
    assert found.complementarity == pytest.approx(np.abs(found.multipliers * constraints).max(), abs=1e-12)
    assert found.feasibility == pytest.approx(max(0, constraints.max()), abs=1e-9)
    assert found.stationarity == pytest.approx(mu * (1 + found.multipliers.sum()) * found.distance)


@pytest.mark.no_cover
@examples(3)
@given(st.sampled_from(["statistical", "demographic", "both"]), st.sampled_from(DOMAINS), seeds)
def test_it_accepts_what_cvxpy_solved_and_rejects_what_lies_beside_it(kind, domain, seed):
    task = problem(kind, seed=seed, max_gap=0.03, domain=domain)
    assume(task.evaluate(domain.project(task.trivial_start)).violation <= 0)
    x = stationary_point(task)
    found = certify(task, x, tol=TOL)
    reference_error = 1e-8  # of the objective, of which the distance sees the root
    assert found.holds(TOL + np.sqrt(reference_error)), str(found)
    rng = np.random.default_rng(0)
    for _ in range(5):
        nearby = domain.project(x + 0.02 * rng.normal(size=x.size))
        assert not certify(task, nearby, tol=TOL).holds(TOL)


def test_it_rejects_feasible_points_that_are_not_stationary():
    task = problem()
    found = certify(task, task.trivial_start)
    assert found.feasibility == 0
    assert found.stationarity > 0.01
    assert not found.holds(TOL)


def test_it_rejects_infeasible_points_however_low_the_loss():
    task = problem(max_gap=0.05)
    free = problem("none")
    w = solve_subproblem(free.linearise(free.trivial_start))[1]
    x = np.concatenate([w, task.constraints.thresholds.starts])
    found = certify(task, x)
    assert found.feasibility == pytest.approx(task.evaluate(x).violation)
    assert found.feasibility > 0.02
    assert not found.holds(0.01)


@examples(20)
@given(problems(), seeds)
def test_anywhere_it_proves_no_less_than_without_multipliers(task, seed):
    """λ = 0 proves ‖∇f_0‖; others cost ``Σ λ |f|``, and that is at most what they gain, ``‖∇f_0‖²/2``."""
    rng = np.random.default_rng(seed)
    x = task.domain.project(task.trivial_start + rng.normal(size=task.n))
    found, slope = certify(task, x), np.linalg.norm(task.at(x).objective_gradient())
    assert found.residual <= max(found.feasibility, 1.01 * slope, 1.01 * slope**2 / 2)


def test_huge_multipliers_do_not_hide_the_gradient():
    """Without room inside two opposite constraints pin feasible points, at a price that knows no bound."""
    task = problem("demographic", max_gap=0.1, alpha=0.0)
    functions = tuple(f + 0.1 for f in task.constraints.system.functions)
    task.constraints = replace(task.constraints, system=replace(task.constraints.system, functions=functions))
    X = features(task)
    X[:, 1], X[:, 2] = X[:, 0], 1.0
    x = 2.0**40 * np.array([1, -1, 1, -1])  # all scores 0, exactly; but x + step − x is 0 for small steps
    at = task.at(x)
    gradient, row = at.objective_gradient(), at.constraint_gradient(0)
    assert at.constraints == pytest.approx(0, abs=1e-12)
    across = gradient - (gradient @ row) / (row @ row) * row  # what no multiplier can balance
    found = certify(task, x)
    assert found.stationarity >= 0.5 * np.linalg.norm(across)
    assert not found.holds(TOL)


@pytest.mark.parametrize("share", [1.0, 1 - 1e-8])
def test_at_a_sphere_it_weighs_its_normal_against_constraints(share):
    """Without the normal, multipliers of the constraints would have to balance what the sphere does."""
    task = problem(max_gap=0.03, domain=Ball(0.3))
    x = share * stationary_point(task)
    assert np.linalg.norm(x) == pytest.approx(share * 0.3, rel=1e-9)
    certificate = certify(task, x, tol=TOL)
    assert certificate.holds(TOL), str(certificate)
    assert certificate.multipliers.max() > 0.01
    assert not certify(problem(max_gap=0.03), x, tol=TOL).holds(0.01)


@pytest.mark.parametrize("kind", [Ball, lambda size: Box(-size, size)])
def test_a_point_outside_the_domain_is_infeasible(kind):
    task = problem()
    x = solve_subproblem(task.linearise(task.trivial_start, mu=0.3))[1]
    small = problem(domain=kind(np.abs(x).max() / 2))
    outside = np.linalg.norm(x - small.domain.project(x))
    for mu in (1.0, 100.0):
        found = certify(small, x, mu=mu)
        assert found.feasibility >= outside > 0.1
        assert found.stationarity >= mu * found.feasibility  # ŵ lies in 𝒲, so it is at least as far


def test_without_constraints_it_is_the_proximal_distance():
    task = problem("none")
    optimum = solve_subproblem(task.linearise(task.trivial_start))[1]
    assert certify(task, optimum).holds(TOL)
    assert not certify(task, optimum + 0.01).holds(TOL)


@examples(10)
@given(seeds, st.sampled_from([0.1, 1.0, 5.0]), st.floats(0.01, 2))
def test_without_constraints_it_is_the_gradient_over_mu(seed, mu, size):
    """‖ŵ − x‖² ≤ ‖s‖²/M² + 2ε/M with M = μ and no kinks; at ŵ the gradient is −μ (ŵ − x)."""
    task = problem("none", n=40, seed=seed)
    x = size * np.random.default_rng(seed).normal(size=task.trivial_start.size)
    found = certify(task, x, mu=mu)
    gradient = task.at(x).objective_gradient()
    assert found.distance == pytest.approx(np.linalg.norm(gradient) / mu, abs=1e-6)
    assert found.stationarity == pytest.approx(mu * found.distance)
    _, nearby = solve_subproblem(task.linearise(x, mu=mu))
    at_nearby = task.at(nearby).objective_gradient()
    assert at_nearby == pytest.approx(-mu * (nearby - x), abs=1e-4)
    assert np.linalg.norm(at_nearby) <= found.stationarity + 1e-4


def pairs_problem(seed, sigma, *, binary):
    """Group AUC on a few people; binary features make blocks of people whose scores are always the same."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 3))
    groups = encode_groups(np.where(X[:, 0] + rng.normal(size=60) > 0, "a", "b"))
    y = np.where(X @ np.array([1.5, 1.0, 0.5]) + rng.normal(size=60) > 0, 1.0, -1.0)
    X = (X > 0.3).astype(float) if binary else X
    block = GroupAUC((0.1, 0.6), 0.05).build(groups, np.ones(60), sigma)
    return Problem.of(linear_model(X), Logistic().build(y, np.ones(60)), block, 0.01)


def lowest_lagrangian(task, x, certificate):
    """The lowest value of L around x: by steps of all lengths, and by Nelder and Mead's method."""
    sub = task.linearise(x, mu=certificate.mu)

    def lagrangian(v):
        at = sub.at(v)
        return at.objective + certificate.multipliers @ at.constraints

    rng = np.random.default_rng(0)
    steps = [10.0**k * rng.normal(size=(20, x.size)) for k in range(-6, 1)]
    tried = [x + step for step in np.concatenate(steps)]
    best = min([x, *tried], key=lagrangian)
    options = {"xatol": 1e-9, "fatol": 1e-13, "maxiter": 300}
    return lagrangian(x), float(minimize(lagrangian, best, method="Nelder-Mead", options=options).fun)


def fall_and_what_is_proven(task, x):
    """``L(x) − min L``, by search, and the bound of it that the certificate of x proves."""
    certificate = certify(task, x, tol=TOL)
    curvature = certificate.mu * (1 + certificate.multipliers.sum())
    here, lowest = lowest_lagrangian(task, x, certificate)
    return here - lowest, curvature / 2 * certificate.distance**2


@pytest.mark.no_cover
@examples(10)
@given(seeds, st.sampled_from([Ramp(1.0), RoundedRamp(0.7)]), st.booleans(), st.booleans())
def test_no_lagrangian_of_pairs_falls_below_what_its_witness_proves(seed, sigma, binary, solved):
    """M/2 ‖ŵ − x‖² ≤ L(x) − L(ŵ) ≤ M/2 distance², at solutions, on borders of tops, and elsewhere."""
    task = pairs_problem(seed, sigma, binary=binary)
    x = 0.5 * np.random.default_rng(seed).normal(size=task.n)
    if solved:
        x = MultiStartSQP(max_iter=60).solve(task, task.trivial_start).x
    fall, proven = fall_and_what_is_proven(task, x)
    assert fall <= proven + 1e-12


@pytest.mark.parametrize(
    ("seed", "x"),
    [
        (2514, (0.1917404660755, -0.000000000016, 0.691740466082, -0.1461378239098)),
        (3648, (-0.5, 0.7139875314717, 0.713987531342, -0.5146273737666)),
    ],
)
def test_members_who_leave_a_top_take_their_kinks_of_the_ramp_along(seed, x):
    """Blocks at the borders of a top and of a bottom, whose differences of scores are on kinks of the ramp.

    As if each of these kinks were alone, the same multipliers would prove a fall of less than 1e-10.
    """
    fall, proven = fall_and_what_is_proven(pairs_problem(seed, Ramp(1.0), binary=True), np.array(x))
    assert 5e-8 < fall <= proven + 1e-12
    assert proven <= 5 * fall  # correcting the program finds good multipliers all the same


def test_a_solution_among_people_who_are_alike_is_certified():
    """Blocks of people lie on the border of a top: some of each is counted, as suits the gradient."""
    for seed in range(5):
        task = pairs_problem(seed, RoundedRamp(0.7), binary=True)
        result = MultiStartSQP().solve(task, task.trivial_start)
        assert result.ended is Status.CONVERGED
        assert certify(task, result.x, tol=TOL).holds(TOL)


def test_bad_questions():
    task = problem()
    with pytest.raises(InputError, match="a mu in"):
        certify(task, task.trivial_start, mu=0.0)
    with pytest.raises(InputError, match="finite coordinates"):
        certify(task, task.trivial_start[1:])
    with pytest.raises(InputError, match="finite coordinates"):
        certify(task, task.trivial_start * np.nan)
