"""Small training problems, and the same written for cvxpy."""

import warnings

import numpy as np
import pytest

from partialfair.constraints import DemographicParity, StatisticalParity
from partialfair.constraints.block import join
from partialfair.constraints.dc.row_columns import single_column
from partialfair.constraints.surrogates import Ramp
from partialfair.data.groups import encode_groups
from partialfair.optimization.models import FirstOrderModel, Parameters, linear_model
from partialfair.optimization.objectives import Logistic
from partialfair.optimization.problems import Ball, Box, Problem

cp = pytest.importorskip("cvxpy", reason="the reference solver, cvxpy, is not installed")
WHOLE = Box()


def problem(kind="statistical", *, n=80, d=3, seed=0, alpha=0.05, max_gap=0.1, domain=WHOLE):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    groups = encode_groups(np.where(X[:, 0] + rng.normal(size=n) > 0, "a", "b"))
    y = np.where(X @ np.linspace(1.5, 0.5, d) + rng.normal(size=n) > 0, 1.0, -1.0)
    built = {
        "statistical": StatisticalParity((0.1, 0.6), max_gap, n_points=3),
        "demographic": DemographicParity((0.1, 0.9), max_gap),
    }
    kinds = {"both": list(built), "none": []}.get(kind, [kind])
    blocks = [statement.build(groups, np.ones(n), Ramp(1.0)) for statement in map(built.get, kinds)]
    return Problem.of(linear_model(X), Logistic().build(y, np.ones(n)), join(blocks), alpha, domain)


def features(task):
    """The features of all rows of a problem, to be changed in place."""
    (rows,) = task.rows.shards
    return rows.model.design.X


def unconstrained(task):
    """The problem of minimising the objective alone, over all of ℝⁿ."""
    (rows,) = task.rows.shards
    return Problem.of(rows.model, rows.objective, join([]), task.alpha)


def first_order(model):
    """The scores of a linear model, by one that knows no more than scores and ``Jᵀv``."""
    return FirstOrderModel(
        model.parameters, model.scores, lambda w, v: model.vjp(w, single_column(v))[0, 0, :-1]
    )


def scores_of(task, v):
    """Scores of all rows at a variable of cvxpy."""
    (rows,) = task.rows.shards
    return rows.model.rows(np.arange(rows.objective.shares.size)) @ v[: rows.model.parameters.n]


def objective_of(task, v):
    """Logistic loss and penalty at a variable of cvxpy."""
    (rows,) = task.rows.shards
    losses = cp.logistic(-cp.multiply(rows.objective.targets, scores_of(task, v)))
    squares = cp.square(v[: rows.model.parameters.n_penalized])
    loss = cp.sum(cp.multiply(rows.objective.shares, losses))
    return loss + 0.5 * cp.sum(cp.multiply(task.alpha, squares))


def conditions_of(domain, v):
    """That a variable of cvxpy lies in the domain."""
    if isinstance(domain, Ball):
        return [cp.norm(v) <= domain.radius]
    low, high = domain.bounds(v.size)
    below, above = np.isfinite(low), np.isfinite(high)
    return [
        *([v[below] >= low[below]] if below.any() else []),
        *([v[above] <= high[above]] if above.any() else []),
    ]


def minimum(objective, conditions, v):
    """Value and variable at the optimum."""
    value = cp.Problem(cp.Minimize(objective), conditions).solve(
        solver=cp.CLARABEL, tol_gap_abs=1e-11, tol_gap_rel=1e-11
    )
    return value, np.asarray(v.value)


def solve_subproblem(sub, multipliers=None):
    """Optimum of a subproblem of a ramp-constrained linear model, by cvxpy.

    With multipliers, the minimum of its Lagrangian instead.
    """
    task = sub.problem
    (rows,) = task.rows.shards
    v = cp.Variable(sub.x.size)
    scores = scores_of(task, v)
    shift = 0.5 * sub.mu * cp.sum_squares(v - sub.x)
    objective = objective_of(task, v) + shift
    atoms = []
    first = rows.model.parameters.n
    for bank, members in zip(task.bank.banks, rows.members, strict=True):
        thetas = [v[first + j] for j in range(bank.n_theta)] + list(bank.fixed)
        first += bank.n_theta
        for sign in (0.5, -0.5):
            atoms += [
                cp.sum(
                    cp.multiply(
                        members.shares[members.codes == k],
                        cp.pos((scores - theta)[members.codes == k] + sign),
                    )
                )
                for k in range(bank.n_groups)
                for theta in thetas
            ]
    values, gradients = sub.tangent_values, sub.tangents.gradients
    functions = []
    for i, f in enumerate(task.constraints.system.functions):
        plus = f.constant
        for factor, pieces in f.terms:
            if factor > 0:
                heights = [sum(c * atoms[a] for a, c in piece.atoms) + piece.constant for piece in pieces]
                plus = plus + factor * (cp.maximum(*heights) if len(heights) > 1 else heights[0])
        functions.append(plus - values[i] - gradients[i] @ (v - sub.x) + shift)
    conditions = conditions_of(sub.domain, v)
    if multipliers is None:
        conditions += [function <= 0 for function in functions]
    else:
        objective = objective + sum(m * g for m, g in zip(multipliers, functions, strict=True) if m > 0)
    with warnings.catch_warnings():
        # Near a fixed point the feasible set has almost no interior; the answer is good to 1e-7 all the same.
        warnings.filterwarnings("ignore", "Solution may be inaccurate")
        return minimum(objective, conditions, v)


class Exact:
    """An inner solver for IDCA that leaves nothing to be desired but speed."""

    epsilon = 1e-7

    def solve(self, subproblem, start):
        return solve_subproblem(subproblem)[1]

    def longer(self):
        return None


def network(X, n_hidden):
    """``tanh(X W + b) @ v + c`` of all rows: scores that are not linear in the parameters (W, v, b, c)."""
    d = X.shape[1]

    def unpacked(w):
        first, second, shifts, shift = np.split(w, np.cumsum([d * n_hidden, n_hidden, n_hidden]))
        return np.tanh(X @ first.reshape(d, n_hidden) + shifts), second, shift

    def score(w):
        hidden, second, shift = unpacked(w)
        return hidden @ second + shift

    def pull_back(w, v):
        hidden, second, _ = unpacked(w)
        by_hidden = np.outer(v, second) * (1 - hidden**2)
        return np.concatenate([(X.T @ by_hidden).ravel(), v @ hidden, by_hidden.sum(axis=0), [v.sum()]])

    n_penalized = (d + 1) * n_hidden
    n = n_penalized + n_hidden + 1
    return FirstOrderModel(Parameters(n, n_penalized, n), score, pull_back)
