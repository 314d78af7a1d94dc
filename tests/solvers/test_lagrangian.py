"""The Lagrangian in score space against finite differences, the problem's own, and sums over batches."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from partialfair.constraints import (
    DemographicParity,
    EqualizedOdds,
    GroupAUC,
    QuadraticGroupAUC,
    StatisticalParity,
    join,
)
from partialfair.groups import encode_groups
from partialfair.models import linear_model
from partialfair.objectives import AUC, Hinge, Logistic, PartialAUC, Squared
from partialfair.problems import Problem, ScoreLagrangian
from partialfair.surrogates import Ramp, RoundedRamp, Sigmoid
from tests.sizes import examples

N = 24
ADDITIVE = (
    StatisticalParity((0.1, 0.7), 0.1, n_points=3),
    DemographicParity((0.2, 0.9), 0.1),
    EqualizedOdds((0.1, 0.8), 0.1),
)
PAIRS = (GroupAUC((0.2, 0.9), 0.1), QuadraticGroupAUC(2.0))
seeds = st.integers(0, 10_000)


def statement(seed, loss, statements, sigma):
    rng = np.random.default_rng(seed)
    groups = encode_groups(np.arange(N) % 3)
    positive = np.arange(N) // 3 % 2 == 0
    weights = rng.uniform(0.5, 2, N)
    blocks = [one.build(groups, weights, sigma, positive) for one in statements]
    objective = loss.build(np.where(positive, 1.0, -1.0), weights)
    return ScoreLagrangian(objective, join(blocks)), rng


def drawn(lagrangian, rng):
    """Scores, thresholds and multipliers of which half are 0."""
    m, n_theta = lagrangian.constraints.system.m, lagrangian.constraints.bank.n_theta
    return rng.normal(size=N), rng.normal(size=n_theta), rng.random(m) * (rng.random(m) < 0.5)


@examples(10)
@given(seeds, st.sampled_from([Logistic(), Squared(), AUC(), PartialAUC((0.1, 0.6))]))
def test_the_gradient_is_that_of_the_value(seed, loss):
    lagrangian, rng = statement(seed, loss, ADDITIVE + PAIRS, Sigmoid(0.7))
    scores, theta, multipliers = drawn(lagrangian, rng)
    gradient, step = lagrangian.gradient(scores, theta, multipliers), 1e-6

    def value(nudge):
        return lagrangian.value(scores + nudge[:N], theta + nudge[N:], multipliers)

    slopes = [(value(step * unit) - value(-step * unit)) / (2 * step) for unit in np.eye(N + theta.size)]
    assert np.concatenate([gradient.scores, gradient.theta]) == pytest.approx(slopes, abs=1e-6)


@examples(10)
@given(seeds, st.sampled_from([Logistic(), Squared()]))
def test_the_curvature_is_that_of_the_gradient(seed, loss):
    lagrangian, rng = statement(seed, loss, ADDITIVE, Sigmoid(0.7))
    scores, theta, multipliers = drawn(lagrangian, rng)
    atoms, step = lagrangian.atoms(scores, theta), 1e-6  # the pieces of maxima that are active stay so
    convex, concave = lagrangian.curvature(scores, theta, multipliers)
    assert min(convex.min(), concave.min()) >= 0

    def slope(nudge, i):
        return lagrangian.gradient(scores + nudge, theta, multipliers, atoms).scores[i]

    bends = [
        (slope(step * unit, i) - slope(-step * unit, i)) / (2 * step) for i, unit in enumerate(np.eye(N))
    ]
    assert convex - concave == pytest.approx(bends, abs=1e-6)


@pytest.mark.parametrize("sigma", [Ramp(0.8), RoundedRamp(0.8), Sigmoid(0.8)], ids=str)
@examples(5)
@given(seeds, st.sampled_from([Logistic(), Hinge(), AUC(), PartialAUC((0.1, 0.6))]))
def test_pulled_back_it_is_the_problems_own(sigma, seed, loss):
    lagrangian, rng = statement(seed, loss, ADDITIVE + PAIRS, sigma)
    model, alpha = linear_model(rng.normal(size=(N, 3))), 0.1
    task = Problem.of(model, lagrangian.objective, lagrangian.constraints, alpha)
    w = rng.normal(size=model.parameters.n)
    _, theta, multipliers = drawn(lagrangian, rng)
    at = task.at(np.concatenate([w, theta]))
    gradient = lagrangian.gradient(model.scores(w), theta, multipliers)
    penalty = np.append(alpha * w[:-1], 0.0)
    expected = np.concatenate([gradient.scores @ model.rows(np.arange(N)) + penalty, gradient.theta])
    assert at.lagrangian_gradient(multipliers) == pytest.approx(expected, abs=1e-12)
    value = lagrangian.value(model.scores(w), theta, multipliers) + 0.5 * penalty @ w
    assert value == pytest.approx(at.objective + multipliers @ at.constraints, abs=1e-12)


@pytest.mark.parametrize("sigma", [Ramp(0.8), RoundedRamp(0.8), Sigmoid(0.8)], ids=str)
@examples(5)
@given(seeds, st.sampled_from([Logistic(), Hinge(), Squared()]), st.lists(st.integers(0, N), max_size=3))
def test_batches_add_up(sigma, seed, loss, borders):
    whole, rng = statement(seed, loss, ADDITIVE, sigma)
    scores, theta, multipliers = drawn(whole, rng)
    ends = [0, *sorted(borders), N]
    batches = [slice(first, stop) for first, stop in pairwise(ends)]
    parts = [(rows, taken(whole, rows)) for rows in batches]
    atoms = sum(part.atoms(scores[rows], theta) for rows, part in parts)
    assert atoms == pytest.approx(whole.atoms(scores, theta), abs=1e-12)

    gradients = [part.gradient(scores[rows], theta, multipliers, atoms) for rows, part in parts]
    expected = whole.gradient(scores, theta, multipliers, atoms)
    assert np.concatenate([part.scores for part in gradients]) == pytest.approx(expected.scores, abs=1e-12)
    assert sum(part.theta for part in gradients) == pytest.approx(expected.theta, abs=1e-12)

    curvatures = [part.curvature(scores[rows], theta, multipliers, atoms) for rows, part in parts]
    assert np.hstack(curvatures) == pytest.approx(
        np.array(whole.curvature(scores, theta, multipliers, atoms)), abs=1e-12
    )

    terms = float(multipliers @ whole.constraints.system.values(atoms))  # of all rows, in every batch
    values = [part.value(scores[rows], theta, multipliers, atoms) - terms for rows, part in parts]
    assert sum(values) + terms == pytest.approx(whole.value(scores, theta, multipliers), abs=1e-12)


def taken(lagrangian, rows):
    """The same for some rows, with the shares that they have among all."""
    block = lagrangian.constraints
    members = tuple(part.take(rows) for part in block.all_members)
    kept = type(block)(block.bank, members, block.system, block.names, block.thresholds)
    return ScoreLagrangian(lagrangian.objective.take(rows), kept)
