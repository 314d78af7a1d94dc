"""Batched oracles against those that take one pass each."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from partialfair.constraints import DemographicParity, EqualizedOdds, GroupAUC, StatisticalParity
from partialfair.constraints.block import join
from partialfair.constraints.dc.pieces import Pieces
from partialfair.constraints.surrogates import Ramp, RoundedRamp, Sigmoid
from partialfair.data.categoricals import CategoricalCodes
from partialfair.data.groups import encode_groups
from partialfair.exceptions import InputError
from partialfair.optimization.models import FirstOrderModel, Parameters, linear_model
from partialfair.optimization.models.blocks import ArrowMatrix, BlockMatrix
from partialfair.optimization.objectives import Logistic
from partialfair.optimization.problems import InMemoryRows, Problem, ShardRows
from partialfair.optimization.problems.reductions import Expansion, LossParts
from partialfair.optimization.problems.rows import ShardSize
from partialfair_paper.quadratic import InterGroupPairwise, QuadraticGroupAUC
from tests.sizes import examples
from tests.solvers.problems import first_order

N, N_GROUPS = 90, 3
SMOOTH = (StatisticalParity((0.1, 0.7), 0.1, n_points=4), DemographicParity((0.2, 0.9), 0.1))
OTHERS = (
    EqualizedOdds((0.2, 0.9), 0.1),
    GroupAUC((0.2, 0.9), 0.1),
    QuadraticGroupAUC(2.0),
    InterGroupPairwise(2.0),
)


def task(kind, group_terms, fit_intercept, sigma, seed, statements=SMOOTH, n_shards=1):
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
    objective = Logistic().build(rng.choice([-1.0, 1.0], N), rng.random(N))
    problem = Problem.of(model, objective, join(blocks), alpha=0.1, n_shards=n_shards)
    return problem, rng.normal(size=problem.trivial_start.size)


def column_by_column(problem, at):
    """Subgradients of all atoms by a model that knows ``Jᵀv`` only, and so pulls one column at a time."""
    (rows,) = problem.rows.shards
    plain_rows = InMemoryRows((ShardRows(first_order(rows.model), rows.objective, rows.members),))
    reduction = Expansion(problem.bank, at.theta)
    (expanded,) = plain_rows.at(problem.split(at.x)[0]).reduce(reduction)
    return expanded.atoms


@pytest.mark.no_cover
@pytest.mark.parametrize("kind", ["dense", "csr", "codes"])
@pytest.mark.parametrize(
    ("group_terms", "fit_intercept"),
    [(None, True), (None, False), ("intercept", True), ("interactions", True), ("interactions", False)],
)
@examples(2)
@given(seed=st.integers(0, 50), sigma=st.sampled_from([Ramp(0.8), RoundedRamp(0.8), Sigmoid(0.8)]))
def test_jacobians_and_hessians(kind, group_terms, fit_intercept, seed, sigma):
    problem, x = task(kind, group_terms, fit_intercept, sigma, seed, SMOOTH + OTHERS)
    at = problem.at(x)
    each = [at.gradient_of(LossParts.NONE, unit) for unit in np.eye(problem.bank.n_atoms)]
    assert at.atoms_jacobian == pytest.approx(np.array(each), abs=1e-12)
    assert column_by_column(problem, at) == pytest.approx(np.array(each), abs=1e-12)
    rows = [at.constraint_gradient(i) for i in range(problem.m)]
    assert at.constraint_jacobian() == pytest.approx(np.array(rows), abs=1e-12)
    (hessian, concave), direction = at.objective_hessians(), np.random.default_rng(seed).normal(size=x.size)
    assert concave is None  # the logistic loss is convex
    assert hessian @ direction == pytest.approx(at.hessian_product(direction), abs=1e-12)
    sub = problem.linearise(x + 0.1, mu=0.3)
    rows = [sub.at(x).constraint_gradient(i) for i in range(problem.m)]
    assert sub.at(x).expand(np.zeros(problem.m)).jacobian == pytest.approx(np.array(rows), abs=1e-12)


@pytest.mark.parametrize("kind", ["dense", "csr", "codes"])
@pytest.mark.parametrize("group_terms", [None, "interactions"])
@examples(2)
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

    local = problem.at(x).expand(multipliers)
    change = local.convex @ direction - (0 if local.concave is None else local.concave @ direction)
    expected = (gradient(x + direction) - gradient(x - direction)) / 2
    assert change == pytest.approx(expected, abs=2e-9)


@pytest.mark.parametrize("kind", ["csr", "codes"])
@pytest.mark.parametrize("n_shards", [2, 3, 7])
def test_shards_add_up_to_the_same(kind, n_shards):
    def oracles(n_shards):
        problem, x = task(kind, "interactions", True, Ramp(0.8), 0, n_shards=n_shards)
        assert len(problem.rows.shards) == n_shards
        at = problem.at(x)
        local = at.expand(np.ones(problem.m))
        product = at.hessian_product(x)
        return [
            local.gradient,
            local.jacobian,
            at.atoms_jacobian,
            local.convex @ x,
            local.concave @ x,
            product,
        ]

    for found, expected in zip(oracles(n_shards), oracles(1), strict=True):
        assert found == pytest.approx(expected, abs=1e-12)


def test_formulas_of_pairs_see_all_rows_at_once():
    problem, _ = task("csr", None, True, Ramp(0.8), 0, (*SMOOTH, QuadraticGroupAUC(2.0)), n_shards=3)
    assert len(problem.rows.shards) == 1


@given(st.integers(0, 10**9), st.integers(1, 500), st.integers(1, 20))
def test_shards_are_neither_few_nor_small(n_entries, block_size, n_blocks):
    """They have less than twice the entries that are worth a thread, unless Hessians take more time."""
    size, parameters = ShardSize(), Parameters(block_size * n_blocks, 0, block_size)
    n_shards = size.n_shards(n_entries, parameters)
    assert n_shards & (n_shards - 1) == 0
    assert n_shards == 1 or n_entries >= n_shards * size.entries
    of_hessian = size.entries_of_hessian * block_size**2 * n_blocks
    most = size.entries if n_shards == 1 else max(size.entries_of_many, of_hessian)
    assert n_entries < 2 * n_shards * most


@given(st.integers(0, 10_000), st.integers(1, 70))
def test_shards_are_all_rows_in_order_and_about_equal(n_rows, n_shards):
    size = ShardSize()
    slices = size.slices(n_rows, n_shards)
    assert [row for rows in slices for row in range(rows.start, rows.stop)] == list(range(n_rows))
    lengths = [rows.stop - rows.start for rows in slices]
    assert len(lengths) == n_shards
    assert max(lengths) - min(lengths) <= 2 * size.multiple
    if n_rows >= 2 * n_shards * size.multiple:
        assert all(rows.stop % size.multiple == 0 for rows in slices[:-1])


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


def test_a_pass_answers_all_that_is_asked_at_once():
    problem, x = task("csr", "interactions", True, Ramp(1.0), 0)
    at = problem.at(x)
    at.constraint_jacobian()
    assert problem.n_passes == 1 + 1  # the values, which say what is active, and the gradients of two banks
    at.objective_gradient()
    assert problem.n_passes == 2  # it came along
    at.expand(np.ones(problem.m))
    assert problem.n_passes == 3  # all first derivatives and both Hessians
    at.constraint_gradient(0)
    assert problem.n_passes == 4


def test_block_cholesky_solves():
    rng = np.random.default_rng(0)
    places = (np.array([0, 3]), np.array([1, 2, 4]))
    blocks = tuple(a @ a.T for a in (rng.normal(size=(2, 2)), rng.normal(size=(3, 3))))
    matrix, right = BlockMatrix(places, blocks), rng.normal(size=(5, 2))
    found = matrix.cholesky(1.5).solve(right)
    for column in range(2):
        assert matrix @ found[:, column] + 1.5 * found[:, column] == pytest.approx(right[:, column])


@pytest.mark.parametrize("scores", [np.zeros(N + 1), np.zeros((N, 1))], ids=["too_many", "a_column"])
def test_models_that_score_other_rows_are_refused(scores):
    """Compiled loops over the targets would otherwise read whatever lies behind them."""
    model = FirstOrderModel(Parameters(1, 1, 1), lambda w: scores, lambda w, v: np.zeros(1))
    objective = Logistic().build(np.ones(N), np.ones(N))
    with pytest.raises(InputError, match=f"must return {N:,} scores, not an array of shape"):
        Problem.of(model, objective, join([])).evaluate(np.zeros(1))
