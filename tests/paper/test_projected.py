"""Projections onto convex quadratic constraints, against cvxpy; the descent with them, against the engine."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from partialfair import PartialFairClassifier
from partialfair.constraints import StatisticalParity
from partialfair.constraints.block import join
from partialfair.constraints.surrogates import Ramp
from partialfair.data.groups import encode_groups
from partialfair.exceptions import InputError
from partialfair.optimization.models import linear_model
from partialfair.optimization.objectives import Logistic
from partialfair.optimization.problems import Problem
from partialfair_paper.projected import ProjectedGradient, QuadraticConstraints
from partialfair_paper.quadratic import InterGroupPairwise, IntraGroupPairwise, QuadraticGroupAUC

BASELINES = [QuadraticGroupAUC, InterGroupPairwise, IntraGroupPairwise]


def people(seed=0, n=400, d=4, n_groups=2):
    rng = np.random.default_rng(seed)
    codes = rng.integers(n_groups, size=n)
    X = rng.normal(size=(n, d)) + 0.6 * codes[:, None]
    y = X @ rng.normal(size=d) + rng.logistic(size=n) > 0
    return X, y, codes


def problem_of(constraint, X, y, codes):
    groups, n = encode_groups(codes), len(y)
    model = linear_model(X, codes=groups.codes, n_groups=len(groups.labels), group_terms="interactions")
    block = constraint.build(groups, np.ones(n), Ramp(1.0), y)
    objective = Logistic().build(np.where(y, 1.0, -1.0), np.ones(n))
    return Problem.of(model, objective, join([block]), 1e-3)


@settings(max_examples=25)
@given(st.integers(0, 10_000))
@example(900)  # cvxpy's solution is inaccurate
@pytest.mark.filterwarnings("ignore:Solution may be inaccurate")
def test_a_projection_is_what_cvxpy_finds(seed):
    cvxpy = pytest.importorskip("cvxpy")
    rng = np.random.default_rng(seed)
    n, m = int(rng.integers(1, 8)), int(rng.integers(1, 5))
    roots = rng.normal(size=(m, n, rng.integers(1, n + 1)))
    constraints = QuadraticConstraints(
        -rng.uniform(0.01, 2, size=m), rng.normal(size=(m, n)), roots @ roots.transpose(0, 2, 1)
    )
    z = 3 * rng.normal(size=n)
    w, multipliers = constraints.project(z)
    unknown = cvxpy.Variable(n)
    rules = [
        height + slope @ unknown + 0.5 * cvxpy.sum_squares(root.T @ unknown) <= 0
        for height, slope, root in zip(constraints.heights, constraints.slopes, roots, strict=True)
    ]
    peer = cvxpy.Problem(cvxpy.Minimize(cvxpy.sum_squares(unknown - z)), rules)
    nearest = peer.solve(solver=cvxpy.CLARABEL)
    if peer.status == cvxpy.OPTIMAL:
        assert ((w - z) ** 2).sum() == pytest.approx(nearest, rel=1e-6, abs=1e-6)
    # The conditions of Karush, Kuhn and Tucker, which say more than another solver's digits.
    assert constraints.values(w).max() <= 1e-8
    assert (multipliers >= 0).all()
    assert np.abs(multipliers * constraints.values(w)).max() <= 1e-8
    assert w - z + multipliers @ constraints.jacobian(w) == pytest.approx(np.zeros(n), abs=1e-8)


def test_a_guess_of_the_multipliers_changes_nothing():
    X, y, codes = people()
    constraints = QuadraticConstraints.of(problem_of(QuadraticGroupAUC(0.1), X, y, codes))
    z = np.random.default_rng(1).normal(size=constraints.slopes.shape[1])
    w, _ = constraints.project(z)
    again, _ = constraints.project(z, np.full(constraints.heights.size, 5.0))
    assert again == pytest.approx(w, abs=1e-7)


@pytest.mark.parametrize("n_groups", [2, 3])
@pytest.mark.parametrize("kind", BASELINES)
def test_constraints_are_read_off_exactly(kind, n_groups):
    problem = problem_of(kind(0.5), *people(n_groups=n_groups))
    constraints = QuadraticConstraints.of(problem)
    for seed in range(3):
        w = np.random.default_rng(seed).normal(size=problem.n)
        at = problem.at(w)
        assert constraints.values(w) == pytest.approx(at.constraints, abs=1e-9)
        assert constraints.jacobian(w) == pytest.approx(at.constraint_jacobian(), abs=1e-9)


@pytest.mark.parametrize("kind", BASELINES)
def test_it_ends_where_the_engine_does(kind):
    """The problem is convex, so there is one optimum."""
    X, y, codes = people(3)
    options = {"group_terms": "interactions", "alpha": 1e-2, "enforce": "surrogate"}
    engine = PartialFairClassifier(kind(0.05), **options).fit(X, y, sensitive_features=codes)
    solver = ProjectedGradient(max_iter=3000)
    slow = PartialFairClassifier(kind(0.05), solver=solver, **options).fit(X, y, sensitive_features=codes)
    free = PartialFairClassifier(None, group_terms="interactions", alpha=1e-2).fit(
        X, y, sensitive_features=codes
    )
    assert engine.result_.objective > free.result_.objective + 1e-4  # the constraint binds
    assert slow.result_.objective == pytest.approx(engine.result_.objective, abs=1e-5)
    assert slow.result_.max_violation <= 1e-6


def test_other_constraints_are_refused():
    problem = problem_of(StatisticalParity((0.1, 0.6), 0.1), *people())
    with pytest.raises(InputError, match="constraints without thresholds of their own"):
        ProjectedGradient().solve(problem, problem.trivial_start)
