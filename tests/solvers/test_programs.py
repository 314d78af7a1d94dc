"""Both solvers of quadratic programs meet the conditions of optimality, and the second replaces the first."""

import sys

import numpy as np
import pytest
from scipy.sparse import csc_matrix, diags

import partialfair.optimization.problems.programs as programs
from partialfair import PartialFairClassifier
from partialfair.exceptions import MissingExtraError
from partialfair.optimization.problems.programs import (
    SOLVERS,
    Optimum,
    QuadraticProgram,
    Tolerances,
    best_multipliers,
    bound_kinks,
    solve_program,
)
from partialfair.optimization.solvers import Status
from partialfair.postprocessing import PartialParityAdjuster

TOLERANCES = Tolerances(1e-10, 0.0, 1e-9, 1e-9, 100)


def dense_program(seed, rank=None):
    """Return a program in multipliers with kinks, some of which go back, and balanced borders."""
    rng = np.random.default_rng(seed)
    m, n_kinks = int(rng.integers(1, 30)), int(rng.integers(0, 12))
    n = m + n_kinks
    root = rng.normal(size=(n, rank or n + 5)) * 10.0 ** rng.uniform(-1, 3)
    low, high = np.zeros(n), np.append(10.0 ** rng.uniform(-2, 2, m), np.full(n_kinks, np.inf))
    rows = limits = equal = None
    if n_kinks:
        backs = np.where(rng.random(n_kinks) < 0.3, 0.5, 0.0)
        rows = bound_kinks(rng.random((n_kinks, m)), np.zeros((n_kinks, n_kinks)), backs)
        limits = np.zeros(len(rows))
        low[m:] = np.where(backs > 0, -np.inf, 0.0)
        equal = np.append(np.zeros(m), rng.normal(size=n_kinks))[None, :]
    linear = root @ rng.normal(size=root.shape[1])  # in the range of the Hessian, and so bounded
    return QuadraticProgram(root @ root.T, linear, rows, limits, equal, low, high)


def order_program(seed):
    """Return the sparse program of an isotonic regression on a random graph."""
    rng = np.random.default_rng(seed)
    n, m = 200, 350
    ends = np.sort(rng.integers(n, size=(m, 2)), axis=1)
    ends = ends[ends[:, 0] < ends[:, 1]]
    at = np.arange(len(ends))
    rows = csc_matrix((np.ones(len(ends)), (at, ends[:, 0])), shape=(len(ends), n))
    rows -= csc_matrix((np.ones(len(ends)), (at, ends[:, 1])), shape=(len(ends), n))
    weights = rng.uniform(0.5, 2, n)
    targets = rng.normal(size=n)
    return QuadraticProgram(diags(weights, format="csc"), -weights * targets, rows, np.zeros(len(ends)))


def kkt_residual(program, optimum):
    """Return the largest residual of feasibility, stationarity and complementarity, relative to the data.

    Multipliers of equalities are those that fit best.
    """
    x, n = optimum.x, optimum.x.size
    low = np.full(n, -np.inf) if program.low is None else program.low
    high = np.full(n, np.inf) if program.high is None else program.high
    slope = program.hessian @ x + program.linear - optimum.low + optimum.high
    slacks = [(optimum.low, x - low), (optimum.high, high - x)]
    if program.rows is not None:
        slope = slope + program.rows.T @ optimum.rows
        slacks.append((optimum.rows, program.limits - program.rows @ x))
    infeasible = [0.0]
    if program.equal is not None:
        infeasible.append(np.abs(program.equal @ x).max())
        slope = slope - program.equal.T @ np.linalg.lstsq(program.equal.T, slope, rcond=None)[0]
    size = 1 + np.abs(program.linear).max()
    for duals, slack in slacks:
        finite = np.isfinite(slack)
        assert (duals >= -1e-12).all()
        assert not duals[~finite].any()
        infeasible.append(-slack.min())
        infeasible.append(np.abs(duals[finite] * slack[finite]).max(initial=0.0) / size)
    return max(np.abs(slope).max() / size, *infeasible)


def objective(program, x):
    return 0.5 * x @ (program.hessian @ x) + program.linear @ x


@pytest.mark.parametrize("make", [dense_program, lambda s: dense_program(s, rank=3), order_program])
@pytest.mark.parametrize("seed", range(15))
def test_both_solvers_meet_the_kkt_conditions_and_agree(make, seed):
    program = make(seed)
    optima = [solver(program, TOLERANCES) for solver in SOLVERS.values()]
    for optimum in optima:
        assert kkt_residual(program, optimum) <= 1e-6
    first, second = (objective(program, optimum.x) for optimum in optima)
    assert second == pytest.approx(first, rel=1e-7, abs=1e-8)


@pytest.fixture(params=["not importable", "raises", "gives up", "not a number"])
def without_piqp(request, monkeypatch):
    """Make PIQP unusable, in every way in which it can be."""
    if request.param == "not importable":
        monkeypatch.setitem(sys.modules, "piqp", None)
        return
    import piqp

    class Broken:
        settings = piqp.DenseSolver().settings

        def setup(self, hessian, *rest):
            self.n = len(rest[0])
            if request.param == "raises":
                raise RuntimeError("no memory")

        def solve(self):
            return piqp.PIQP_NUMERICS if request.param == "gives up" else piqp.PIQP_SOLVED

        @property
        def result(self):
            value = 0.5 if request.param == "gives up" else np.nan
            zeros = np.zeros(self.n)
            return Optimum(np.full(self.n, value), zeros, zeros, zeros)

    monkeypatch.setattr(piqp, "DenseSolver", Broken)
    monkeypatch.setattr(piqp, "SparseSolver", Broken)


@pytest.mark.parametrize("make", [dense_program, order_program])
def test_the_second_solves_what_the_first_does_not(make, without_piqp):
    program = make(0)
    expected = programs.solve_by_clarabel(program, TOLERANCES)
    assert np.array_equal(solve_program(program, TOLERANCES).x, expected.x)


def admissions():
    rng = np.random.default_rng(0)
    groups = rng.choice(["a", "b", "c"], 400)
    X = rng.normal(size=(400, 4)) + (groups == "a")[:, None] * [1, 0, 0, 0.5]
    y = X[:, 0] + X[:, 1] + rng.normal(size=400) > 0
    return X, y, groups


def fitted():
    X, y, groups = admissions()
    model = PartialFairClassifier("statistical_parity", interval=(0.2, 0.6), max_gap=0.1, enforce="surrogate")
    return model.fit(X, y, sensitive_features=groups).result_


def adjusted():
    X, _, groups = admissions()
    adjuster = PartialParityAdjuster(interval=(0.2, 0.6), max_gap=0.05)
    scores = X[:, 0] + X[:, 1]
    return adjuster.fit(scores, sensitive_features=groups).transform(scores, sensitive_features=groups)


def test_a_fit_without_piqp_has_the_same_objective(monkeypatch):
    with_piqp = fitted()
    monkeypatch.setitem(sys.modules, "piqp", None)
    without = fitted()
    assert without.status is with_piqp.status is Status.CONVERGED
    assert without.kkt.holds(1e-4)
    assert without.objective == pytest.approx(with_piqp.objective, rel=1e-6)


def test_an_adjuster_without_piqp_gives_the_same_scores(monkeypatch):
    with_piqp = adjusted()
    monkeypatch.setitem(sys.modules, "piqp", None)
    assert adjusted() == pytest.approx(with_piqp, rel=1e-6, abs=1e-9)


def test_a_machine_without_any_says_what_to_install(monkeypatch):
    for package in SOLVERS:
        monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match="need piqp or clarabel, and neither can be imported"):
        solve_program(dense_program(0), TOLERANCES)


def test_multipliers_are_zero_if_all_solvers_give_up(monkeypatch):
    monkeypatch.setattr(programs, "SOLVERS", {"piqp": lambda program, tolerances: None})
    z = best_multipliers(np.eye(2), np.ones(2), np.empty((0, 2)), np.empty((0, 0)), np.ones(2))
    assert np.array_equal(z, np.zeros(2))
