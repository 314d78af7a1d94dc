"""The Hessian that the last steps correct, against the recursion that it stands for."""

import numpy as np
import pytest

from partialfair.optimization.models.blocks import ArrowMatrix, BlockMatrix
from partialfair.optimization.models.limited import SETTINGS, AbsoluteHessian, Diagonal, LimitedMemory


def pairs_of(hessian, n_pairs, seed):
    rng = np.random.default_rng(seed)
    for _ in range(n_pairs):
        step = rng.normal(size=len(hessian))
        yield step, hessian @ step


def some_arrow(seed, sizes=(4, 5), n_theta=3):
    """A Hessian with two blocks and thresholds, concave along some directions."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(sum(sizes))
    roots = [rng.normal(size=(size, size)) for size in (*sizes, n_theta)]
    *blocks, corner = (root + root.T for root in roots)
    positions = tuple(np.split(order, np.cumsum(sizes)[:-1]))
    return ArrowMatrix(BlockMatrix(positions, tuple(blocks)), rng.normal(size=(sum(sizes), n_theta)), corner)


def test_the_absolute_hessian_turns_concave_directions_around():
    hessian = some_arrow(0)
    without_cross = ArrowMatrix(hessian.inner, np.zeros_like(hessian.cross), hessian.corner)
    dense = np.array([without_cross @ unit for unit in np.eye(12)])
    values, vectors = np.linalg.eigh(dense)
    expected = (vectors * np.abs(values)) @ vectors.T
    base = AbsoluteHessian.of(hessian)
    assert base @ np.eye(12) == pytest.approx(expected)
    assert base.solve(np.eye(12), 0.7) == pytest.approx(np.linalg.inv(expected + 0.7 * np.eye(12)))


def check_parts(factor, dense):
    """A factor multiplies as its matrix does, and its part is that of the matrix, also part of a part."""
    rng = np.random.default_rng(3)
    vector = rng.normal(size=len(dense))
    assert factor.times(vector) == pytest.approx(dense @ vector, abs=1e-8)
    some, fewer = np.array([0, 2, 3, 7, 8, 10, 11]), np.array([1, 2, 5])
    for part, which in (
        (factor.restricted(some), some),
        (factor.restricted(some).restricted(fewer), some[fewer]),
    ):
        expected = dense[np.ix_(which, which)]
        assert part.solve(expected) == pytest.approx(np.eye(which.size), abs=1e-8)
        assert part.times(vector[: which.size]) == pytest.approx(expected @ vector[: which.size], abs=1e-8)


@pytest.mark.parametrize("n_theta", [0, 3])
def test_parts_of_factored_arrows(n_theta):
    arrow = some_arrow(2, sizes=(4, 8 - n_theta), n_theta=n_theta)
    dense = np.array([arrow @ unit for unit in np.eye(12)]) if n_theta else arrow.inner.merged().blocks[0]
    shift = 1 - np.linalg.eigvalsh(dense).min()
    check_parts(arrow.cholesky(shift), dense + shift * np.eye(12))


def recursion(matrix, steps, changes):
    """BFGS, one pair after the other, from the base."""
    dense = matrix.base @ np.eye(len(steps))
    for step, change in zip(steps.T, changes.T, strict=True):
        along = dense @ step
        dense += np.outer(change, change) / (step @ change) - np.outer(along, along) / (step @ along)
    return dense


@pytest.mark.parametrize("n_pairs", [0, 1, 5, SETTINGS.n_pairs + 3])
@pytest.mark.parametrize("base", [Diagonal(np.linspace(0, 1, 12), 0.5), AbsoluteHessian.of(some_arrow(1))])
def test_it_is_what_bfgs_makes_of_the_pairs(base, n_pairs):
    rng = np.random.default_rng(0)
    n = 12
    root = rng.normal(size=(n, n))
    hessian = root @ root.T / n + np.eye(n)
    memory = LimitedMemory.start(base, n)
    for step, change in pairs_of(hessian, n_pairs, 1):
        memory = memory.updated(step, change)
    assert memory.steps.shape[1] == min(n_pairs, SETTINGS.n_pairs)
    dense = recursion(memory, memory.steps, memory.changes)
    assert np.array([memory @ unit for unit in np.eye(n)]) == pytest.approx(dense, abs=1e-8)
    right = rng.normal(size=(n, 3))
    for columns in (right, right[:, 0]):
        expected = np.linalg.solve(dense + 0.3 * np.eye(n), columns)
        assert memory.cholesky(0.3).solve(columns) == pytest.approx(expected, abs=1e-8)
    check_parts(memory.cholesky(0.3), dense + 0.3 * np.eye(n))
    if n_pairs:
        assert memory @ memory.steps[:, -1] == pytest.approx(memory.changes[:, -1])  # the secant equation


@pytest.mark.parametrize("seed", range(5))
def test_it_stays_positive_definite_where_functions_are_concave(seed):
    rng = np.random.default_rng(seed)
    n = 8
    hessian = np.diag(rng.normal(size=n))
    memory = LimitedMemory.start(Diagonal(np.zeros(n), 1.0), n)
    for step, change in pairs_of(hessian, 20, seed):
        memory = memory.updated(step, change)
        dense = np.array([memory @ unit for unit in np.eye(n)])
        assert np.linalg.eigvalsh((dense + dense.T) / 2).min() > 0


def test_changes_that_are_not_finite_are_not_remembered():
    memory = LimitedMemory.start(Diagonal(np.zeros(3), 1.0), 3)
    assert memory.updated(np.ones(3), np.full(3, np.nan)) is memory
