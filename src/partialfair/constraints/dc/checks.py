"""Checks for new constraints, atoms or surrogates; each raises `CheckFailed` with a reason.

They test random points, so they can refute a property but not prove it. The argument is the result of a
constraint's ``build``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from partialfair.constraints.dc.bank import BankMembers
from partialfair.constraints.dc.row_columns import RowColumns
from partialfair.utils.typing import Floats

if TYPE_CHECKING:
    from partialfair.constraints.block import ConstraintBlock

_SPREAD = 2.0
"""Random scores and thresholds have this standard deviation: some widths of a usual surrogate."""


class CheckFailed(AssertionError):
    """A function does not have a required property."""


def check_convex(block: ConstraintBlock, *, n_trials: int = 50, tol: float = 1e-9, seed: int = 0) -> None:
    """Check ``T(λx + (1−λ)y) ≤ λT(x) + (1−λ)T(y)`` for every atom at random points x = (s, θ) and y."""
    rng = np.random.default_rng(seed)
    for x, y in _pairs_of_points(block, n_trials, rng):
        # (s, θ) on the segment between two random points, and the chord above it
        share = rng.random()
        between = tuple(share * a + (1 - share) * b for a, b in zip(x, y, strict=True))
        excess = _values(block, *between) - share * _values(block, *x) - (1 - share) * _values(block, *y)
        _refuse(excess, tol, "is not convex: it lies above its chord")


def check_subgradient(
    block: ConstraintBlock, *, n_trials: int = 50, tol: float = 1e-9, seed: int = 0
) -> None:
    """Check ``T(y) ≥ T(x) + ⟨g, y − x⟩`` with g from ``by_score`` at x, for every atom at random points."""
    for x, y in _pairs_of_points(block, n_trials, np.random.default_rng(seed)):
        # T(x) + ⟨g, y − x⟩ must not exceed T(y).
        tangents = np.array([_along(block, unit, x, y) for unit in np.eye(block.bank.n_atoms)])
        excess = _values(block, *x) + tangents - _values(block, *y)
        _refuse(excess, tol, "has a by_score that is not a subgradient: its tangent lies above it")


def check_columns(block: ConstraintBlock, *, n_trials: int = 10, tol: float = 1e-9, seed: int = 0) -> None:
    """Check that ``columns`` and ``by_score`` return the same slopes of every atom, also in θ."""
    bank = block.bank
    for (scores, theta), _ in _pairs_of_points(block, n_trials, np.random.default_rng(seed)):
        by_score, by_theta = np.zeros((bank.n_atoms, scores.size)), np.zeros((bank.n_atoms, bank.n_theta))
        for columns in bank.columns(scores, block.members, theta):
            _add_columns(columns, by_score, by_theta)
        for position, unit in enumerate(np.eye(bank.n_atoms)):
            gradient = bank.by_score(1, unit, scores, block.members, theta)
            by_score[position] -= gradient.scores  # the differences of the two
            by_theta[position] -= gradient.theta
        errors = np.abs(np.hstack([by_score, by_theta])).max(axis=1, initial=0.0)
        _refuse(errors, tol, "has columns that differ from by_score")


def check_additive(block: ConstraintBlock, *, n_trials: int = 10, tol: float = 1e-9, seed: int = 0) -> None:
    """Check that values of the first rows and of the others add up, if the bank says so."""
    if not block.bank.additive:
        return
    rng = np.random.default_rng(seed)
    for (scores, theta), _ in _pairs_of_points(block, n_trials, rng):
        border = int(rng.integers(scores.size + 1))
        shards = []
        for rows in (slice(0, border), slice(border, scores.size)):
            members = block.members  # a tuple for several banks
            if isinstance(members, tuple):
                taken: BankMembers = tuple(of_bank.take(rows) for of_bank in members)
            else:
                taken = members.take(rows)
            shards.append(block.bank.values(scores[rows], taken, theta))
        errors = np.abs(sum(shards) - _values(block, scores, theta))
        _refuse(errors, tol, "is not additive over shards of rows: their sum differs")


def check_majorises(block: ConstraintBlock, *, n_trials: int = 50, tol: float = 1e-9, seed: int = 0) -> None:
    """Check that ``f⁺(y) − [f⁻(x) + ⟨g⁻, y − x⟩] ≥ f(y)`` for every function at random points x and y."""
    system = block.system
    for x, y in _pairs_of_points(block, n_trials, np.random.default_rng(seed)):
        tangents = system.tangents(_values(block, *x))
        # f⁻ is convex, so its tangent at x lies below it at y; then f⁺ − tangent lies above f.
        minus = system.parts(_values(block, *y))[1]
        for i in range(system.m):
            excess = tangents.values[i] + _along(block, tangents.slopes[i], x, y) - minus[i]
            if not excess <= tol:
                raise CheckFailed(
                    f"function {i} is not majorized: the tangent of f⁻ is {excess:.3g} too high"
                )


def _pairs_of_points(
    block: ConstraintBlock, n_trials: int, rng: np.random.Generator
) -> Iterator[tuple[tuple[Floats, Floats], tuple[Floats, Floats]]]:
    """Yield random points (scores, thresholds), two by two."""
    by_bank = block.members if isinstance(block.members, tuple) else (block.members,)
    n_rows = by_bank[0].codes.size if by_bank else 0

    def point() -> tuple[Floats, Floats]:
        return _SPREAD * rng.normal(size=n_rows), _SPREAD * rng.normal(size=block.bank.n_theta)

    for _ in range(n_trials):
        yield point(), point()


def _values(block: ConstraintBlock, scores: Floats, theta: Floats) -> Floats:
    return block.bank.values(scores, block.members, theta)


def _along(
    block: ConstraintBlock, coefficients: Floats, x: tuple[Floats, Floats], y: tuple[Floats, Floats]
) -> float:
    """Return ``⟨g, y − x⟩`` with g the subgradient of ``Σ coefficients · atoms`` at x."""
    gradient = block.bank.by_score(1, coefficients, x[0], block.members, x[1])
    return float(gradient.scores @ (y[0] - x[0]) + gradient.theta @ (y[1] - x[1]))


def _add_columns(columns: RowColumns, by_score: Floats, by_theta: Floats) -> None:
    """Add columns to dense arrays, (n_outputs, n) and (n_outputs, n_theta), as for a model with J = 1."""
    n_rows = len(columns.values)
    cells = np.zeros(n_rows, dtype=np.int64) if columns.cells is None else columns.cells
    for row in np.flatnonzero(cells >= 0):
        # One row at a time: the sum over the rows of a cell is then this row's values.
        entries = columns.combined(columns.values[row][None, None, :], np.array([cells[row]]))[..., 0]
        for block in range(columns.n_blocks):
            first = block * columns.n_columns
            outputs = np.arange(first, first + columns.n_columns)
            if columns.outputs is not None:
                outputs = columns.outputs[block]
            np.add.at(by_score[:, columns.first + row], outputs, entries[block])
            if columns.thresholds is not None:
                free = columns.thresholds[block] >= 0
                np.add.at(by_theta, (outputs[free], columns.thresholds[block][free]), -entries[block][free])


def _refuse(excess: Floats, tol: float, complaint: str) -> None:
    if not excess.size:
        return
    worst = int(np.argmax(excess))
    if not excess[worst] <= tol:
        raise CheckFailed(f"atom {worst} {complaint} by {excess[worst]:.3g}")
