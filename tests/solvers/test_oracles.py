"""Batched oracles against those that take one pass each."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from partialfair._pieces import Pieces
from partialfair.categoricals import CategoricalCodes
from partialfair.constraints import (
    DemographicParity,
    EqualizedOdds,
    GroupAUC,
    InterGroupPairwise,
    QuadraticGroupAUC,
    StatisticalParity,
    join,
)
from partialfair.dc import pulled_one_by_one
from partialfair.groups import encode_groups
from partialfair.models import linear_model
from partialfair.models.blocks import ArrowMatrix, BlockMatrix
from partialfair.objectives import LogisticLoss
from partialfair.problems import Problem
from partialfair.problems.constrained import _Pull
from partialfair.surrogates import Ramp, RoundedRamp, Sigmoid

N, N_GROUPS = 90, 3
SMOOTH = (StatisticalParity((0.1, 0.7), 0.1, n_points=4), DemographicParity((0.2, 0.9), 0.1))
OTHERS = (
    EqualizedOdds((0.2, 0.9), 0.1),
    GroupAUC((0.2, 0.9), 0.1),
    QuadraticGroupAUC(2.0),
    InterGroupPairwise(2.0),
)


def task(kind, group_terms, fit_intercept, sigma, seed, statements=SMOOTH):
    rng = np.random.default_rng(seed)
    dense = rng.normal(size=(N, 4)) * (rng.random((N, 4)) < 0.7)
    codes = CategoricalCodes(rng.integers(3, size=(N, 2)), (np.arange(3), np.arange(3)), ("a", "b"))
    X = {"dense": dense, "csr": sparse.csr_matrix(dense), "codes": codes}[kind]
    groups = encode_groups(np.arange(N) % N_GROUPS)
    width = 6 if kind == "codes" else 4
    model = linear_model(
        X,
        codes=groups.codes,
        n_groups=N_GROUPS,
        group_terms=group_terms,
        fit_intercept=fit_intercept,
        scales=rng.uniform(0.5, 2, width),
    )
    blocks = [
        statement.build(groups, rng.random(N), sigma, np.arange(N) // N_GROUPS % 2 == 0)
        for statement in statements
    ]
    loss = LogisticLoss(rng.choice([-1.0, 1.0], N), rng.random(N))
    problem = Problem(model, loss, join(blocks), alpha=0.1)
    return problem, rng.normal(size=problem.trivial_start.size)


@pytest.mark.parametrize("kind", ["dense", "csr", "codes"])
@pytest.mark.parametrize(
    ("group_terms", "fit_intercept"),
    [(None, True), (None, False), ("intercept", True), ("interactions", True), ("interactions", False)],
)
@settings(max_examples=6)
@given(seed=st.integers(0, 50), sigma=st.sampled_from([Ramp(0.8), RoundedRamp(0.8), Sigmoid(0.8)]))
def test_jacobians_and_hessians(kind, group_terms, fit_intercept, seed, sigma):
    problem, x = task(kind, group_terms, fit_intercept, sigma, seed, SMOOTH + OTHERS)
    at = problem.at(x)
    each = [at.atoms_gradient(unit) for unit in np.eye(problem.constraints.bank.n_atoms)]
    assert at.atoms_jacobian == pytest.approx(np.array(each), abs=1e-12)
    slow = pulled_one_by_one(
        problem.constraints.bank, at.scores, problem.split(x)[1], _Pull(problem, problem.split(x)[0])
    )
    assert np.hstack(slow) == pytest.approx(np.array(each), abs=1e-12)
    rows = [at.constraint_gradient(i) for i in range(problem.m)]
    assert at.constraint_jacobian() == pytest.approx(np.array(rows), abs=1e-12)
    hessian, direction = at.objective_hessian(), np.random.default_rng(seed).normal(size=x.size)
    assert hessian @ direction == pytest.approx(at.objective_curvature(direction), abs=1e-12)
    sub = problem.linearise(x + 0.1, mu=0.3)
    rows = [sub.at(x).constraint_gradient(i) for i in range(problem.m)]
    assert sub.at(x).constraint_jacobian() == pytest.approx(np.array(rows), abs=1e-12)


@pytest.mark.parametrize("kind", ["dense", "csr", "codes"])
@pytest.mark.parametrize("group_terms", [None, "interactions"])
@settings(max_examples=6)
@given(seed=st.integers(0, 50), sigma=st.sampled_from([RoundedRamp(0.8), Sigmoid(0.8)]))
def test_lagrangian_hessians_are_derivatives_of_gradients(kind, group_terms, seed, sigma):
    problem, x = task(kind, group_terms, True, sigma, seed)
    rng = np.random.default_rng(seed)
    multipliers = rng.random(problem.m) * (rng.random(problem.m) < 0.5)
    direction = rng.normal(size=x.size)
    direction *= 1e-6 / np.linalg.norm(direction)
    slopes = problem.at(x).slopes

    def gradient(v):
        at = problem.at(v)  # of the pieces that are active at x
        return at.objective_gradient() + multipliers @ (slopes[0] - slopes[1]) @ at.atoms_jacobian

    convex, concave = problem.at(x).lagrangian_hessian(multipliers)
    change = convex @ direction - (0 if concave is None else concave @ direction)
    expected = (gradient(x + direction) - gradient(x - direction)) / 2
    assert change == pytest.approx(expected, abs=2e-9)


@pytest.mark.parametrize("kind", ["csr", "codes"])
def test_threads_add_up_to_the_same(kind, monkeypatch):
    problem, x = task(kind, "interactions", True, Ramp(0.8), 0)
    multipliers = np.ones(problem.m)

    def oracles():
        at = problem.at(x)
        convex, concave = at.lagrangian_hessian(multipliers)
        return [at.objective_gradient(), at.atoms_jacobian, convex @ x, concave @ x]

    alone = oracles()
    monkeypatch.setattr("partialfair.models._designs._ROWS_PER_THREAD", 20)
    monkeypatch.setattr("partialfair.models._designs.get_num_threads", lambda: 3)
    for found, expected in zip(oracles(), alone, strict=True):
        assert found == pytest.approx(expected, abs=1e-12)


@given(st.integers(0, 1000), st.integers(1, 80), st.floats(-6, 6))
def test_bins_are_those_of_a_sorted_search(seed, n_edges, size):
    rng = np.random.default_rng(seed)
    edges = np.unique(rng.normal(size=n_edges) * 10.0 ** rng.uniform(-abs(size), abs(size), n_edges))
    scores = np.concatenate([edges, np.nextafter(edges, np.inf), rng.normal(size=50) * 10.0**size])
    pieces = Pieces(edges, *[np.empty(0)] * 3)
    assert (pieces.bins(scores) == np.searchsorted(edges, scores)).all()
    assert pieces.bins(np.array([-np.inf, np.inf, np.nan])).tolist() == [0, edges.size, 0]


@pytest.mark.parametrize("shift", [0.5, 2.0])
def test_arrow_matrices(shift):
    rng = np.random.default_rng(0)
    places = (np.array([0, 3]), np.array([1, 2]))
    inner = BlockMatrix(places, tuple(a @ a.T for a in rng.normal(size=(2, 2, 2))))
    arrow = ArrowMatrix(inner, 0.1 * rng.normal(size=(4, 3)), np.diag(rng.uniform(1, 2, 3)))
    dense = np.array([arrow @ unit for unit in np.eye(7)])
    assert dense == pytest.approx(dense.T)
    assert np.array([arrow.shifted(shift) @ unit for unit in np.eye(7)]) == pytest.approx(
        dense + shift * np.eye(7)
    )
    right = rng.normal(size=(7, 2))
    for columns in (right, right[:, 0]):
        expected = np.linalg.solve(dense + shift * np.eye(7), columns)
        assert arrow.cholesky(shift).solve(columns) == pytest.approx(expected)
    with pytest.raises(np.linalg.LinAlgError):
        arrow.minus(arrow, 1.5).cholesky(1e-6)
    apart, across = rng.normal(size=(2, 7)), rng.normal(size=(2, 7))
    apart[:, places[0]] = 0.0
    for rows, n_blocks in ((apart, 2), (across, 1)):  # rows that couple blocks make one of them
        found = arrow.plus_squares(rows, 3.0)
        assert len(found.inner.blocks) == n_blocks
        assert np.array([found @ unit for unit in np.eye(7)]) == pytest.approx(dense + 3 * rows.T @ rows)


def test_all_constraint_gradients_take_one_pass_for_each_bank():
    problem, x = task("csr", "interactions", True, Ramp(1.0), 0)
    at = problem.at(x)
    at.constraint_jacobian()
    assert problem.n_passes == 1 + 2  # the scores, and two constraints


def test_block_cholesky_solves():
    rng = np.random.default_rng(0)
    places = (np.array([0, 3]), np.array([1, 2, 4]))
    blocks = tuple(a @ a.T for a in (rng.normal(size=(2, 2)), rng.normal(size=(3, 3))))
    matrix, right = BlockMatrix(places, blocks), rng.normal(size=(5, 2))
    found = matrix.cholesky(1.5).solve(right)
    for column in range(2):
        assert matrix @ found[:, column] + 1.5 * found[:, column] == pytest.approx(right[:, column])
