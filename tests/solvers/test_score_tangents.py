"""Majorants of models whose scores are not linear: tangents in score space, which stay with the rows."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from partialfair.constraints import DemographicParity, EqualizedOdds, GroupAUC, StatisticalParity
from partialfair.constraints.block import join
from partialfair.constraints.surrogates import Ramp, RoundedRamp, Sigmoid
from partialfair.data.groups import encode_groups
from partialfair.optimization.models import linear_model
from partialfair.optimization.objectives import AUC, Logistic, PartialAUC
from partialfair.optimization.problems import InMemoryRows, Problem, ShardRows
from partialfair.optimization.problems.subproblem import ParameterTangents, ScoreTangents
from partialfair.optimization.solvers import IDCA, Switching
from partialfair_paper.quadratic import QuadraticGroupAUC
from tests.sizes import examples
from tests.solvers.problems import network

N, D, N_HIDDEN = 40, 2, 3
ADDITIVE = (
    StatisticalParity((0.1, 0.7), 0.1, n_points=3),
    DemographicParity((0.2, 0.9), 0.1),
    EqualizedOdds((0.1, 0.8), 0.1),
)
PAIRS = (GroupAUC((0.2, 0.9), 0.1), QuadraticGroupAUC(2.0))
LOSSES = [Logistic(), AUC(), PartialAUC((0.1, 0.6)), PartialAUC((0.2, 0.5), "hinge")]
SIGMAS = [Ramp(0.8), RoundedRamp(0.8), Sigmoid(0.8)]
seeds = st.integers(0, 10_000)


def task(model_of, loss, sigma, seed, statements=ADDITIVE + PAIRS, *, n_shards=1, alpha=0.1):
    rng = np.random.default_rng(seed)
    X, groups = rng.normal(size=(N, D)), encode_groups(np.arange(N) % 2)
    positive = rng.permutation(np.arange(N) // 2 % 2 == 0)
    weights = rng.uniform(0.5, 2, N)
    block = join([statement.build(groups, weights, sigma, positive) for statement in statements])
    objective = loss.build(np.where(positive, 1.0, -1.0), weights)
    shards = [
        ShardRows(
            model_of(X[rows]),
            objective.take(rows),
            tuple(members.take(rows) for members in block.all_members),
            rows.start,
        )
        for rows in (slice(N * k // n_shards, N * (k + 1) // n_shards) for k in range(n_shards))
    ]
    rows = InMemoryRows(tuple(shards))
    problem = Problem(rows, objective.loss, block.without_members(), alpha, mean_target=objective.mean_target)
    return problem, rng


def nonlinear(X):
    return network(X, N_HIDDEN)


def drawn(problem, rng, size=0.7):
    return problem.trivial_start + size * rng.normal(size=problem.n)


@pytest.mark.parametrize("sigma", SIGMAS, ids=str)
@pytest.mark.parametrize("mu", [0.0, 0.3])
@examples(5)
@given(seed=seeds, loss=st.sampled_from(LOSSES))
def test_majorants_lie_above_and_touch(sigma, mu, seed, loss):
    problem, rng = task(nonlinear, loss, sigma, seed)
    x = drawn(problem, rng)
    majorant, here = problem.linearise(x, mu=mu), problem.at(x)
    assert isinstance(majorant.tangents, ScoreTangents)
    assert majorant.at(x).objective == pytest.approx(here.objective, abs=1e-12)
    assert majorant.at(x).constraints == pytest.approx(here.constraints, abs=1e-12)
    assert majorant.at(x).objective_gradient() == pytest.approx(here.objective_gradient(), abs=1e-12)
    for size in (0.01, 0.3, 1.0, 3.0):
        v = x + size * rng.normal(size=problem.n)
        assert majorant.at(v).objective >= problem.at(v).objective - 1e-12
        assert (majorant.at(v).constraints >= problem.at(v).constraints - 1e-12).all()


@examples(8)
@given(seed=seeds, loss=st.sampled_from(LOSSES[:3]), mu=st.sampled_from([0.0, 0.3]))
def test_gradients_agree_with_finite_differences(seed, loss, mu):
    problem, rng = task(nonlinear, loss, Sigmoid(0.8), seed)
    x, v = drawn(problem, rng), drawn(problem, rng)
    majorant, step = problem.linearise(x, mu=mu), 1e-6
    at = majorant.at(v)

    def values(v):
        return np.append(majorant.at(v).objective, majorant.at(v).constraints)

    slopes = np.array([(values(v + step * e) - values(v - step * e)) / (2 * step) for e in np.eye(v.size)]).T
    found = [at.objective_gradient(), *(at.constraint_gradient(i) for i in range(problem.m))]
    assert np.array(found) == pytest.approx(slopes, abs=1e-5)


@pytest.mark.parametrize("sigma", SIGMAS, ids=str)
@examples(5)
@given(seed=seeds, loss=st.sampled_from(LOSSES))
def test_tangents_of_linear_scores_are_the_same_in_parameters(sigma, seed, loss):
    """``⟨∂f⁻(s), J (v − x)⟩ = ⟨Jᵀ ∂f⁻(s), v − x⟩``."""
    problem, rng = task(linear_model, loss, sigma, seed)
    here, there = (problem.at(drawn(problem, rng)) for _ in range(2))
    short, by_rows = ParameterTangents(here), ScoreTangents(here)
    for found, expected in zip(by_rows.rises(there), short.rises(there), strict=True):
        assert found == pytest.approx(expected, abs=1e-12)
    assert by_rows.objective_gradient(there) == pytest.approx(short.objective_gradient(there), abs=1e-12)
    for i in range(problem.m):
        found, expected = (form.constraint_gradient(there, i) for form in (by_rows, short))
        assert found == pytest.approx(expected, abs=1e-12)


def test_linear_scores_take_the_short_way():
    problem, rng = task(linear_model, Logistic(), Ramp(0.8), 0)
    assert isinstance(problem.linearise(drawn(problem, rng)).tangents, ParameterTangents)


@pytest.mark.parametrize("n_shards", [2, 5])
@examples(5)
@given(seed=seeds, sigma=st.sampled_from(SIGMAS))
def test_shards_keep_their_own_tangents(n_shards, seed, sigma):
    alone, rng = task(nonlinear, Logistic(), sigma, seed, ADDITIVE)
    split, _ = task(nonlinear, Logistic(), sigma, seed, ADDITIVE, n_shards=n_shards)
    x, v = drawn(alone, rng), drawn(alone, rng)
    one, several = (problem.linearise(x, mu=0.1).at(v) for problem in (alone, split))
    assert several.objective == pytest.approx(one.objective, abs=1e-12)
    assert several.constraints == pytest.approx(one.constraints, abs=1e-12)
    assert several.objective_gradient() == pytest.approx(one.objective_gradient(), abs=1e-12)
    for i in range(alone.m):
        assert several.constraint_gradient(i) == pytest.approx(one.constraint_gradient(i), abs=1e-12)


def test_values_come_along_with_the_rise_of_tangents():
    problem, rng = task(nonlinear, Logistic(), Ramp(0.8), 0)
    majorant = problem.linearise(drawn(problem, rng))
    at = majorant.at(drawn(problem, rng))
    assert majorant.tangent_values.size == problem.m  # the values at x
    before = problem.n_passes
    assert at.objective > 0
    assert at.constraints.size == problem.m
    assert problem.n_passes == before + 1


def test_idca_trains_a_network():
    """Majorants of a network need not be convex, but steps that lower them lower f_0 too."""
    problem, rng = task(nonlinear, Logistic(), RoundedRamp(0.8), 0, ADDITIVE[:1], alpha=1e-3)
    start, n = problem.trivial_start, problem.rows.parameters.n
    start[:n] += 0.1 * rng.normal(size=n)  # where all are 0 hidden units do not differ
    result = IDCA(max_iter=8, inner=Switching(100, 5e-3, longest=0), mu=0.1).solve(problem, start)
    feasible = [line.objective for line in result.history if line.violation <= 5e-3]
    assert (np.diff(feasible) <= 1e-12).all()
    assert result.violation <= 5e-3
    assert result.objective < np.log(2) - 0.01  # that of scoring everybody alike
