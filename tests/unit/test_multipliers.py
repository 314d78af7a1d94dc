"""Multipliers of quadratic programs are exact: zero where there is slack, to the last digits."""

import numpy as np
import pytest
from scipy.optimize import linprog

from partialfair.optimization.problems.local import Kinks
from partialfair.optimization.problems.programs import Borders, best_multipliers


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("m", [1, 5, 30])
def test_they_meet_the_conditions_of_optimality(m, seed):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(m, m + 5))
    gram, linear = rows @ rows.T, rng.normal(size=m)
    upper = np.where(rng.random(m) < 0.3, 0.05, 10.0)
    z = best_multipliers(gram, linear, np.empty((0, m)), np.empty((0, 0)), upper)
    slopes = linear - gram @ z
    assert (z >= 0).all()
    assert (z <= upper).all()
    assert slopes[z == 0].max(initial=-1.0) <= 1e-9
    assert slopes[z == upper].min(initial=1.0) >= -1e-9
    assert np.abs(slopes[(z > 0) & (z < upper)]).max(initial=0.0) <= 1e-9


@pytest.mark.parametrize("seed", range(10))
def test_with_kinks_they_are_what_cvxpy_finds(seed):
    """Kinks of kinks included; bounds are met to the last digits, and the value is as large as theirs."""
    cvxpy = pytest.importorskip("cvxpy")
    rng = np.random.default_rng(seed)
    m, n_kinks = 3, 6
    rows = rng.normal(size=(m + n_kinks, m + n_kinks + 4))
    gram, linear = rows @ rows.T, 3 * rng.normal(size=m + n_kinks)
    shares, upper = rng.random((n_kinks, m)), np.full(m, 0.3)
    beyond = np.zeros((n_kinks, n_kinks))
    beyond[:2, 2:] = rng.random((2, n_kinks - 2))
    z = best_multipliers(gram, linear, shares, beyond, upper)
    assert (z >= 0).all()
    assert (z[:m] <= upper).all()
    assert (z[m:] <= shares @ z[:m] + beyond @ z[m:] + 1e-12).all()
    unknown = cvxpy.Variable(m + n_kinks)
    value = linear @ unknown - 0.5 * cvxpy.sum_squares(rows.T @ unknown)
    bounds = [unknown >= 0, unknown[:m] <= upper, unknown[m:] <= shares @ unknown[:m] + beyond @ unknown[m:]]
    best = cvxpy.Problem(cvxpy.Maximize(value), bounds).solve(solver=cvxpy.CLARABEL)
    assert linear @ z - 0.5 * z @ gram @ z >= best - 1e-8


def random_borders(rng, n_kinks):
    """Two borders with kinks on both sides and on them, and kinks that belong to none."""
    borders = np.arange(n_kinks) % 3 - 1
    amounts = np.where(borders >= 0, rng.choice([-1, 1], n_kinks) * (0.2 + rng.random(n_kinks)), 0.0)
    backs = np.where((borders >= 0) & (rng.random(n_kinks) < 0.4), rng.random(n_kinks), 0.0)
    return borders, amounts, backs


@pytest.mark.parametrize("seed", range(20))
def test_kinks_of_borders_balance_as_cvxpy_finds(seed):
    """Bounds on both sides and sums of 0 are met to the last digits, and the value is as large as theirs."""
    cvxpy = pytest.importorskip("cvxpy")
    rng = np.random.default_rng(seed)
    m, n_kinks = 2, 12
    rows = rng.normal(size=(m + n_kinks, 20 if seed % 2 else 6))  # with fewer columns many are best
    gram, linear = rows @ rows.T, 3 * rng.normal(size=m + n_kinks)
    shares, upper, beyond = rng.random((n_kinks, m)), np.full(m, 0.3), np.zeros((n_kinks, n_kinks))
    borders, amounts, backs = random_borders(rng, n_kinks)
    balance = np.where(borders == np.arange(2)[:, None], amounts, 0.0)
    z = best_multipliers(gram, linear, shares, beyond, upper, borders=Borders(backs, balance))
    room = shares @ z[:m]
    assert (z[:m] >= 0).all()
    assert (z[:m] <= upper).all()
    assert (z[m:] <= room + 1e-12).all()
    assert (z[m:] >= -backs * room - 1e-12).all()
    assert balance @ z[m:] == pytest.approx(0, abs=1e-12)
    unknown = cvxpy.Variable(m + n_kinks)
    value = linear @ unknown - 0.5 * cvxpy.sum_squares(rows.T @ unknown)
    theirs = shares @ unknown[:m]
    bounds = [unknown[:m] >= 0, unknown[:m] <= upper, unknown[m:] <= theirs, balance @ unknown[m:] == 0]
    bounds.append(unknown[m:] >= -cvxpy.multiply(backs, theirs))
    best = cvxpy.Problem(cvxpy.Maximize(value), bounds).solve(solver=cvxpy.CLARABEL)
    assert linear @ z - 0.5 * z @ gram @ z >= best - 1e-7


@pytest.mark.parametrize("seed", range(20))
def test_gains_of_borders_are_the_largest_balanced_sums(seed):
    """max Σ ν_s h_s over −backs ≤ ν ≤ 1 with Σ amounts_s ν_s = 0, and of kinks of no border max(0, h)."""
    rng = np.random.default_rng(seed)
    n_kinks, n = 12, 4
    borders, amounts, backs = random_borders(rng, n_kinks)
    gaps = np.where(backs > 0, 0.0, rng.random(n_kinks))
    kinks = Kinks(
        rng.normal(size=(n_kinks, n)),
        gaps,
        np.ones((n_kinks, 1)),
        np.zeros((n_kinks, n_kinks)),
        np.arange(n_kinks),
        borders,
        amounts,
        backs,
    )
    step = 2 * rng.normal(size=n)
    heights = kinks.rows @ step - gaps
    balance = np.where(borders == np.arange(2)[:, None], amounts, 0.0)
    bounds = np.stack([-backs, np.ones(n_kinks)], axis=1)
    best = linprog(-heights, A_eq=balance, b_eq=np.zeros(2), bounds=bounds)
    assert kinks.gains(step) == pytest.approx([-best.fun])


def test_opposite_constraints_leave_the_program_solvable():
    """Where the matrix is singular, the interior solution stands."""
    rows = np.array([[1.0, 2.0], [-1.0, -2.0]])
    linear = np.array([-0.1, -0.1])
    assert best_multipliers(
        rows @ rows.T, linear, np.empty((0, 2)), np.empty((0, 0)), np.ones(2)
    ) == pytest.approx([0, 0], abs=1e-6)
