"""The engine on problems drawn by a seed; the certificate of each answer is computed anew."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import sparse

from partialfair.constraints import DemographicParity, StatisticalParity
from partialfair.constraints.block import join
from partialfair.constraints.surrogates import Ramp, RoundedRamp, Sigmoid
from partialfair.data.categoricals import CategoricalCodes
from partialfair.data.groups import encode_groups
from partialfair.exceptions import InputError
from partialfair.optimization.models import linear_model
from partialfair.optimization.objectives import Logistic
from partialfair.optimization.problems import Cells, Problem, certify
from partialfair.optimization.solvers import SOLVERS, MultiStartSQP, Newton, Status
from tests.sizes import examples, quick_first
from tests.solvers.problems import problem, unconstrained

TOL = 1e-4


def draw(seed):
    """A training problem of any size, design, groups, weights, intervals, gaps and surrogate."""
    rng = np.random.default_rng(seed)
    n_groups = int(rng.choice([2, 2, 3, 5, 20]))
    n, d = int(rng.integers(60, 400)) * n_groups, int(rng.integers(1, 20))
    shares = rng.dirichlet(np.full(n_groups, 3.0)) + 0.3 / n_groups  # some groups are small
    codes = np.concatenate([np.arange(n_groups), rng.choice(n_groups, n - n_groups, p=shares / shares.sum())])
    groups = encode_groups(codes)
    kind = rng.choice(["dense", "csr", "codes", "deficient"])
    dense = rng.normal(size=(n, d)) + 0.5 * rng.normal(size=(n_groups, d))[groups.codes]
    if kind == "codes":
        levels = int(rng.integers(2, 6))
        columns = np.clip(np.digitize(dense, np.linspace(-1.5, 1.5, levels - 1)), 0, levels - 1)
        X = CategoricalCodes(columns, (np.arange(levels),) * d, tuple(map(str, range(d))))
        score = columns @ rng.normal(size=d)
    else:
        if kind == "deficient":  # a feature twice, and one that is always 0
            dense = np.column_stack([dense, dense[:, 0], np.zeros(n)])
        dense = dense * (rng.random(dense.shape) < 0.6) if kind == "csr" else dense
        X = sparse.csr_matrix(dense) if kind == "csr" else dense
        score = dense @ rng.normal(size=dense.shape[1])
    noise = rng.choice([0.0, 0.5, 2.0])  # without any the classes are separable
    y = np.where(score - np.median(score) + noise * rng.normal(size=n) > 0, 1.0, -1.0)
    weights = rng.choice([np.ones(n), rng.uniform(0.5, 2, n)])
    low = float(rng.choice([0.0, 0.1, 0.4]))
    interval, gap = (low, low + float(rng.choice([0.2, 0.5]))), float(rng.choice([0.0, 0.02, 0.05, 0.2]))
    points = [3, 10, 50] if n_groups <= 3 else [3, 10]  # 2000 constraints take minutes
    statements = {
        "statistical": [StatisticalParity(interval, gap, n_points=int(rng.choice(points)))],
        "absolute": [StatisticalParity(interval, gap, "absolute", n_points=10)],
        "demographic": [DemographicParity(interval, gap)],
        "both": [StatisticalParity(interval, gap, n_points=5), DemographicParity((0.0, 1.0), 0.2)],
    }[str(rng.choice(["statistical", "statistical", "absolute", "demographic", "both"]))]
    terms = rng.choice([None, "intercept", "interactions"])
    if n_groups == 20 and terms == "interactions":
        terms = None  # more parameters than people in a group
    model = linear_model(X, codes=groups.codes, n_groups=n_groups, group_terms=terms)
    objective, alpha = Logistic().build(y, weights), float(rng.choice([1e-4, 1e-2]))
    free = Problem.of(model, objective, join([]), alpha)
    scores = model.scores(Newton(tol=1e-6).solve(free, free.trivial_start).x)
    unit = Cells(weights, groups.codes).with_scores(scores).spread
    sigma = rng.choice([Ramp, RoundedRamp, RoundedRamp, Sigmoid])(unit * float(rng.choice([0.25, 0.5])))
    blocks = [statement.build(groups, weights, sigma) for statement in statements]
    return Problem.of(model, objective, join(blocks), alpha)


def solve(task, solver):
    free = unconstrained(task)
    w = Newton(tol=1e-6).solve(free, free.trivial_start).x
    return solver.solve(task, task.start_at(w))


def check(task, result):
    """What every ending promises."""
    again = Problem(task.rows, task.loss, task.constraints, task.alpha)
    evaluation = again.evaluate(result.x)
    assert result.objective == pytest.approx(evaluation.objective)
    assert result.violation == pytest.approx(evaluation.violation, abs=1e-9)
    certificate = certify(again, result.x, tol=TOL)
    if result.status is Status.CONVERGED:
        assert certificate.holds(1.5 * TOL), str(certificate)
        reference = result.x + 0.05 * np.random.default_rng(0).normal(size=result.x.size)
        assert not certify(again, reference, tol=TOL).holds(TOL)
    else:
        assert result.status in (Status.MAX_ITER, Status.STALLED, Status.NO_FEASIBLE_POINT)
    return result.status is Status.CONVERGED


@pytest.mark.parametrize(
    "seed", quick_first([1, 3, 5, 6, *range(8, 13), 2, 4, 7], quick=9)
)  # large ones last
def test_a_dozen_random_problems(seed):
    task = draw(seed)
    check(task, solve(task, MultiStartSQP(tol=TOL)))


@examples(8)
@given(st.integers(0, 10_000), st.integers(2, 5), st.sampled_from([0.03, 0.1, 0.3]), st.booleans())
@example(3, 3, 0.1, True)  # the best path is not the last
def test_small_problems_end_feasible_and_lower_than_they_began(seed, n_groups, max_gap, ramp):
    rng = np.random.default_rng(seed)
    n, d = 60 * n_groups, 4
    groups = encode_groups(rng.permutation(np.arange(n) % n_groups))
    X = rng.normal(size=(n, d)) + 0.5 * rng.normal(size=(n_groups, d))[groups.codes]
    y = np.where(X @ rng.normal(size=d) + rng.normal(size=n) > 0, 1.0, -1.0)
    sigma = Ramp(1.0) if ramp else Sigmoid(0.3)
    statements = [StatisticalParity((0.1, 0.6), max_gap, n_points=4), DemographicParity((0.2, 0.8), max_gap)]
    blocks = [statement.build(groups, np.ones(n), sigma) for statement in statements]
    task = Problem.of(linear_model(X), Logistic().build(y, np.ones(n)), join(blocks), alpha=1e-2)
    result = solve(task, MultiStartSQP())
    assert result.violation <= 1e-4
    assert result.objective < task.evaluate(task.trivial_start).objective
    check(task, result)


@pytest.mark.slow
def test_nearly_all_of_two_hundred_random_problems_are_certified():
    tasks = [draw(1000 + seed) for seed in range(200)]
    converged = [check(task, solve(task, MultiStartSQP(tol=TOL))) for task in tasks]
    assert np.mean(converged) >= 0.95


@pytest.mark.parametrize("kind", ["statistical", "demographic", "both"])
def test_idca_with_newton_steps_goes_where_it_should(kind):
    task = problem(kind, n=300, max_gap=0.05)
    result = SOLVERS["idca"](max_iter=60).solve(task, task.trivial_start)
    assert result.violation <= 1e-4
    assert result.objective < task.evaluate(task.trivial_start).objective
    assert certify(task, result.x).holds(2e-3)
    objectives = [line.objective for line in result.history]
    assert np.diff(objectives).max() <= 1e-4  # the majorants' minima lead down, up to the inner tolerance


def test_more_starts_are_never_worse_and_a_seed_decides():
    task = problem("statistical", n=300, max_gap=0.05)
    one, two, five = (solve(task, MultiStartSQP(n_starts=k)).objective for k in (1, 2, 5))
    assert two <= one + 1e-3
    assert five <= two + 1e-3
    assert solve(task, MultiStartSQP(n_starts=5)).objective == five


def test_a_warm_start_tries_others_only_if_it_leads_nowhere():
    task = problem("statistical", n=300, max_gap=0.05)
    found = solve(task, MultiStartSQP())
    again = MultiStartSQP(warm=True).solve(task, found.x)
    assert again.status is Status.CONVERGED
    assert len(again.history) <= 3  # setting out from another start would be one more
    assert again.objective == pytest.approx(found.objective, abs=1e-6)
    far = MultiStartSQP(warm=True).solve(task, task.constant_start)
    assert far.status is Status.CONVERGED


def test_what_cannot_be_met_is_said_with_the_nearest_point():
    """Two groups with one feature that only one of them has: no threshold at 0 selects both alike."""
    rng = np.random.default_rng(0)
    groups = encode_groups(np.arange(200) % 2)
    X = np.where(groups.codes == 0, 1.0, -1.0)[:, None] * np.ones((200, 1))
    statements = [DemographicParity((0.0, 1.0), 0.0), StatisticalParity((0.0, 1.0), 0.0, n_points=3)]
    blocks = [statement.build(groups, np.ones(200), Ramp(0.5)) for statement in statements]
    y = np.where(rng.random(200) < 0.5, 1.0, -1.0)
    model, objective = linear_model(X, fit_intercept=False), Logistic().build(y, np.ones(200))
    task = Problem.of(model, objective, join(blocks), 1e-2)
    result = solve(task, MultiStartSQP())
    assert result.violation <= 1e-4  # w = 0 selects both alike: half of each
    shifted = Problem.of(model, objective, _harder(join(blocks)), task.alpha)
    result = solve(shifted, MultiStartSQP(max_iter=20))
    assert result.status is Status.NO_FEASIBLE_POINT
    assert result.violation == pytest.approx(0.3, abs=0.01)


def _harder(block):
    """The same functions, all larger by .3: nothing meets them, and w = 0 comes nearest."""
    functions = tuple(f + 0.3 for f in block.system.functions)
    return replace(block, system=replace(block.system, functions=functions))


def test_endings():
    task = problem("statistical", n=200)
    assert MultiStartSQP(max_iter=3).solve(task, task.trivial_start).status is Status.MAX_ITER
    stopped = MultiStartSQP().solve(task, task.trivial_start, callback=lambda line, _: line.step == 2)
    assert stopped.status is Status.STOPPED
    assert MultiStartSQP().solve(task, task.trivial_start, time_limit=1e-9).status is Status.TIME_LIMIT

    def interrupt(line, _):
        if line.step == 1:
            raise KeyboardInterrupt

    assert MultiStartSQP().solve(task, task.trivial_start, callback=interrupt).status is Status.STOPPED
    with pytest.raises(InputError, match="n_starts"):
        MultiStartSQP(n_starts=0)
