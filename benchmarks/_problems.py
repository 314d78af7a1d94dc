"""What benchmarks of solvers ask of problems about rows in memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from partialfair.constraints.block import ConstraintBlock
from partialfair.optimization.problems import InMemoryRows, Problem, ShardRows
from partialfair.optimization.solvers import Newton


def only_shard(problem: Problem) -> ShardRows:
    """Return all rows of a problem that are not split."""
    (shard,) = problem.rows.shards  # type: ignore[attr-defined]
    return shard  # type: ignore[no-any-return]


def unconstrained(problem: Problem) -> Problem:
    """Return the problem of minimising the objective alone."""
    shards = problem.rows.shards  # type: ignore[attr-defined]
    rows = InMemoryRows(tuple(replace(shard, members=()) for shard in shards))
    return Problem(rows, problem.loss, ConstraintBlock.none(), problem.alpha, mean_target=problem.mean_target)


def unconstrained_start(problem: Problem) -> tuple[Any, int]:
    """Return the unconstrained solution with thresholds that suit it, and the passes that it took."""
    free = unconstrained(problem)
    w = Newton(tol=1e-6).solve(free, free.constant_start).x
    return problem.start_at(w), free.n_passes
