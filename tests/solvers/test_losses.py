"""Every loss in every solver: known optima, certificates, and the sharp corner of the hinge."""

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.svm import LinearSVC

from partialfair.constraints import DemographicParity, StatisticalParity
from partialfair.constraints.block import join
from partialfair.constraints.surrogates import RoundedRamp
from partialfair.data.groups import encode_groups
from partialfair.optimization.models import linear_model
from partialfair.optimization.objectives import AUC, Hinge, Logistic, PartialAUC, Squared
from partialfair.optimization.problems import Problem, certify
from partialfair.optimization.solvers import IDCA, DirectSwitching, MultiStartSQP, Newton, Status, Switching

LOSSES = [
    Logistic(),
    Squared(),
    Hinge(),
    AUC(),
    AUC("squared"),
    AUC("hinge"),
    AUC("logistic"),
    PartialAUC((0.0, 0.3)),
    PartialAUC((0.0, 0.3), "hinge"),
    PartialAUC((0.1, 0.5)),
    PartialAUC((0.1, 0.5), "hinge"),
    PartialAUC((0.1, 0.5), "logistic"),
]
CONVEX = [loss for loss in LOSSES if getattr(loss, "fpr", (0.0, 1.0))[0] == 0]


def problem(loss, *constraints, n=300, alpha=1e-2, group_terms=None, fit_intercept=True):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    groups = encode_groups(np.where(X[:, 0] + rng.normal(size=n) > 0, "a", "b"))
    y = np.where(X @ [2.0, 1.5, 0.5] + 0.5 * rng.normal(size=n) > 0.3, 1.0, -1.0)
    weights = rng.integers(1, 4, n).astype(float)
    model = linear_model(
        X, codes=groups.codes, n_groups=2, group_terms=group_terms, fit_intercept=fit_intercept
    )
    blocks = [one.build(groups, weights, RoundedRamp(0.5)) for one in constraints]
    return Problem.of(model, loss.build(y, weights, anchored=fit_intercept), join(blocks), alpha)


@pytest.mark.parametrize("largest_block", [0, 3000])
@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_newton_finds_stationary_points(loss, largest_block):
    task = problem(loss)
    result = Newton(tol=1e-6, largest_block=largest_block).solve(task, task.constant_start)
    assert result.status is Status.CONVERGED
    assert certify(task, result.x).holds(1e-5)


@pytest.mark.parametrize("loss", CONVEX, ids=str)
def test_newton_finds_what_a_generic_optimiser_finds(loss):
    task = problem(loss)
    result = Newton(tol=1e-7).solve(task, task.constant_start)
    found = minimize(
        lambda x: task.at(x).objective,
        task.trivial_start,
        jac=lambda x: task.at(x).objective_gradient(),
        method="BFGS",
        options={"gtol": 1e-6},
    )
    assert result.objective == pytest.approx(found.fun, abs=1e-8)
    assert result.x == pytest.approx(found.x, abs=1e-3)


@pytest.mark.parametrize("group_terms", ["intercept", "interactions"])
@pytest.mark.parametrize("loss", [AUC(), PartialAUC((0.1, 0.5))], ids=str)
def test_hessians_of_pairs_with_group_terms(loss, group_terms):
    """Pairs couple the groups' parameters; the matrix is that of the product with a vector."""
    task = problem(loss, group_terms=group_terms)
    x = np.random.default_rng(1).normal(size=task.trivial_start.size)
    at = task.at(x)
    direction = np.random.default_rng(2).normal(size=x.size)
    convex, concave = at.objective_hessians()
    product = convex @ direction - (0 if concave is None else concave @ direction)
    assert product == pytest.approx(at.hessian_product(direction), abs=1e-12)
    result = Newton(tol=1e-6).solve(task, task.constant_start)
    assert result.status is Status.CONVERGED


@pytest.mark.parametrize(
    "constraint", [StatisticalParity((0.1, 0.6), 0.1), DemographicParity((0.1, 0.9), 0.1)]
)
@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_constrained_fits_converge(loss, constraint):
    task = problem(loss, constraint)
    result = MultiStartSQP().solve(task, task.constant_start)
    assert result.status is Status.CONVERGED
    assert certify(task, result.x).holds(1e-4)
    assert certify(task, result.x).multipliers.max() > 1e-3  # the constraint binds


@pytest.mark.no_cover
@pytest.mark.parametrize("sharp", [False, True])
@pytest.mark.parametrize("loss", [Hinge(), AUC("hinge"), PartialAUC((0.1, 0.5), "hinge")], ids=str)
def test_the_papers_solvers_take_corners_sharp_or_rounded(loss, sharp):
    statement = type(loss)(**{**vars(loss), "rounding": 0.0}) if sharp else loss
    task = problem(statement, StatisticalParity((0.1, 0.6), 0.1))
    best = MultiStartSQP().solve(problem(loss, StatisticalParity((0.1, 0.6), 0.1)), task.constant_start)
    for solver in (IDCA(max_iter=8, inner=Switching(n_steps=50)), DirectSwitching(max_iter=1500)):
        result = solver.solve(task, task.constant_start)
        assert result.violation <= 5e-3
        assert result.objective < task.evaluate(task.constant_start).objective - 0.03
        assert result.objective > best.objective - 0.1


def test_majorants_of_a_difference_lie_above_and_touch():
    task = problem(PartialAUC((0.2, 0.5)), StatisticalParity((0.1, 0.6), 0.1))
    rng = np.random.default_rng(3)
    x = rng.normal(size=task.trivial_start.size)
    majorant = task.linearise(x, mu=1e-3)
    assert majorant.at(x).objective == pytest.approx(task.at(x).objective, abs=1e-12)
    assert majorant.at(x).objective_gradient() == pytest.approx(task.at(x).objective_gradient(), abs=1e-12)
    for _ in range(50):
        v = x + rng.normal(size=x.size) * rng.choice([0.1, 1.0, 3.0])
        assert majorant.at(v).objective >= task.at(v).objective - 1e-12
        nudge = 1e-6 * rng.normal(size=x.size)
        change = majorant.at(v + nudge).objective - majorant.at(v - nudge).objective
        assert change / 2 == pytest.approx(majorant.at(v).objective_gradient() @ nudge, abs=1e-9)


@pytest.mark.no_cover
def test_idca_leads_down_on_a_difference():
    task = problem(PartialAUC((0.2, 0.5)), StatisticalParity((0.1, 0.6), 0.1))
    result = IDCA(max_iter=8, inner=Switching(n_steps=100)).solve(task, task.constant_start)
    objectives = [line.objective for line in result.history]
    assert (np.diff(objectives) <= 1e-6).all()
    assert objectives[-1] < objectives[0] - 0.02


@pytest.mark.parametrize("rounding", [0.3, 0.03, 0.003])
def test_the_hinge_tends_to_the_support_vector_machine(rounding):
    """LinearSVC penalises its intercept, so there is none here; its C is 1 / (alpha n)."""
    alpha = 1e-2
    task = problem(Hinge(rounding), alpha=alpha, fit_intercept=False)
    result = Newton(tol=1e-6).solve(task, task.trivial_start)
    assert result.status is Status.CONVERGED
    (rows,) = task.rows.shards
    machine = LinearSVC(loss="hinge", C=1 / alpha, fit_intercept=False, tol=1e-10, max_iter=1_000_000)
    machine.fit(rows.model.design.X, rows.objective.targets, sample_weight=rows.objective.shares)
    sharp = problem(Hinge(0.0), alpha=alpha, fit_intercept=False)
    optimum = sharp.evaluate(machine.coef_[0]).objective
    assert optimum - 1e-9 <= sharp.evaluate(result.x).objective <= optimum + rounding / 8
    assert optimum - 1e-9 <= result.objective <= optimum + rounding / 8
