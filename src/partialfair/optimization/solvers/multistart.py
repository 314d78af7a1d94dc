"""The default solver of estimators: sequential quadratic programming from several starts, then IDCA."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from partialfair.optimization.models.limited import Diagonal, LimitedMemory
from partialfair.optimization.problems import Capability, PointValues, Problem, certify
from partialfair.optimization.solvers.descent import DESCENT, SECOND_ORDER, Descent, Point, RememberedHessian
from partialfair.optimization.solvers.newton import EXPECTED_CURVATURE, Newton
from partialfair.optimization.solvers.result import Ended, Run, Solver, unconstrained_start
from partialfair.optimization.solvers.sqp import NewtonSteps
from partialfair.optimization.solvers.status import Status
from partialfair.utils.checks import check_count, check_number
from partialfair.utils.typing import Floats


@dataclass(frozen=True)
class ExplorationSettings:
    """Settings of `MultiStartSQP`. Residuals are in units of ε.

    Attributes
    ----------
    scout_steps
        Steps from each start before the paths are compared.
    turn_steps
        Steps of a path's first turn; each round of turns has twice as many.
    steps_again
        Steps from a start that is nearly a solution, since its problem is soon corrected and solved again.
    near
        Residual below which a path is continued beyond the steps of its turn.
    patience
        Largest number of steps of such a path, as a multiple of those of its turn.
    rough
        Residual that is small enough for a sample, whose solution is not that of all rows.
    small_block, renewed_after, renewed_nearby
        Largest number of parameters of a block whose eigenvalues are cheap, and steps after which they are
        recomputed: far from solutions, and near them. With more parameters recent steps are cheaper.
    medium_block
        Largest number of parameters of a block whose eigenvalues are cheaper than steps on very many rows:
        after steps on a sample of the rows they are computed once, at the result.
    times_without
        Steps without Hessians are cheaper and make less progress: this multiple is allowed, also in a turn.
    no_fall
        A decrease of the violations by at most this, relative to them, counts as none.
    certified_every
        Number of steps on kinks after which the KKT certificate is computed. It considers more kinks than a
        step, so it may hold long before the residual of a step is small, and costs less than a step.
    no_step
        A step that moves x by at most this, relative to 1 + ‖x‖, counts as none.
    mu
        Shift of IDCA, the final phase: its steps are longer than with that of the KKT certificate, and still
        safe.
    """

    scout_steps: int = 12
    turn_steps: int = 40
    steps_again: int = 20
    near: float = 10.0
    patience: int = 4
    rough: float = 10.0
    small_block: int = 256
    renewed_after: int = 6
    renewed_nearby: int = 3
    medium_block: int = 1500
    times_without: int = 4
    no_fall: float = 1e-6
    certified_every: int = 4
    no_step: float = 1e-10
    mu: float = 1e-2


SETTINGS = ExplorationSettings()


@dataclass(frozen=True)
class MultiStartSQP(Solver):
    """Start from several points, because critical points differ, and continue the best of the paths.

    A few steps of `SQP` are made from each start. Then the paths are continued in turn, the best first and
    with increasing numbers of steps, until one is stationary or its KKT certificate holds. If none becomes
    so, steps of IDCA, whose subproblems are convex and always decrease, continue from the best point. If
    these no longer move, steps of `SQP` are tried again.

    Parameters
    ----------
    max_iter
        Steps of all phases together; four times as many without Hessians.
    tol
        ε of the KKT certificate.
    n_starts
        Number of starts: the given one, the best model with equal scores, and random ones.
    seed
        Seed of the random starts.
    warm
        Whether the start is nearly a solution: others are tried only if it does not soon lead to one.
    largest_block
        Largest size of blocks of Hessians that are factored, if kinks or the final phase require it.
    """

    max_iter: int = 400
    tol: float = 1e-4
    n_starts: int = 2
    seed: int = 0
    warm: bool = False
    largest_block: int = Newton.largest_block

    requires: ClassVar[frozenset[Capability]] = SECOND_ORDER

    def __post_init__(self) -> None:
        check_count(self.max_iter, "max_iter")
        check_count(self.n_starts, "n_starts")
        check_number(self.tol, "tol", above=0.0)

    def start(self, problem: Problem, free: Floats, last: Floats | None = None) -> Floats:
        """Start from the last solution, or from the unconstrained model; `solve` adds other starts."""
        return unconstrained_start(problem, free, last)

    def again(self) -> MultiStartSQP:
        """Return the solver for a start that is nearly a solution and soon leads to one or fails."""
        return replace(self, warm=True, max_iter=min(self.max_iter, SETTINGS.steps_again))

    def iterate(self, run: Run, x: Floats) -> Status:
        """Run until the KKT certificate holds; return the status."""
        problem, run.tolerance = run.problem, self.tol
        wide = problem.rows.parameters.block_size > self.largest_block
        renewed_after = SETTINGS.renewed_nearby if self.warm else SETTINGS.renewed_after
        exploration = _Exploration(problem, run, self.max_iter, self.tol, renewed_after, wide)
        paths: list[_Path] = []
        try:
            run.record(0, x)
            starts = self._starts(problem, x)
            # 1. With very many rows: explore a sample of them, and continue from the end of the best path.
            scouted = None if self.warm else self._explore_sample(exploration, starts)
            if scouted is not None:
                paths.append(scouted)
                exploration.follow(scouted, exploration.turn_steps)
                starts = self._starts(problem, x)
            # 2. Some steps from each start, then turns of increasing length, the best path first.
            if scouted is None or not scouted.stationary:
                self._explore(exploration, starts, paths)
            if any(path.stationary for path in paths):
                ending = Status.CONVERGED
            elif self.warm and exploration.without_hessians:
                ending = Status.STALLED  # correcting the problem is faster than solving it
            else:
                # 3. Algorithm 1 from the best point: its convex subproblems always decrease.
                ending = exploration.descend()
        except Ended as end:
            if end.status is not Status.MAX_ITER:
                raise
            ending = Status.MAX_ITER
        arrived = [path.at for path in paths if path.stationary]
        if not arrived:
            return ending
        # One path may have become stationary before the steps ran out.
        best = min(arrived, key=lambda at: at.objective)
        run.record(exploration.steps, best.x, PointValues(best.objective, best.constraints))
        return Status.CONVERGED

    def _starts(self, problem: Problem, start: Floats) -> Iterator[Floats]:
        """Yield the given start, the best model with equal scores, and random ones around it."""
        constant = problem.constant_start
        yield start
        if self.n_starts > 1:
            yield constant
        rng = np.random.default_rng(self.seed)
        spread = np.linalg.norm(start - constant) / np.sqrt(start.size)
        for _ in range(self.n_starts - 2):
            yield constant + spread * rng.normal(size=start.size)

    def _explore_sample(self, exploration: _Exploration, starts: Iterator[Floats]) -> _Path | None:
        """Explore a sample of the rows; return the end of the best path as a path to continue."""
        problem = exploration.problem
        sample = problem.sample(problem.enough_rows, self.seed)
        if sample is None:
            return None
        scouting = replace(exploration, problem=sample, tol=SETTINGS.rough * self.tol)
        paths: list[_Path] = []
        try:
            self._explore(scouting, starts, paths)
        finally:
            exploration.steps = scouting.steps
            problem.n_passes += int(np.ceil(sample.share * sample.n_passes))
        best = min(paths, key=_Path.sort_key)
        return exploration.path(best.at.x, best.descent)

    def _explore(self, exploration: _Exploration, starts: Iterator[Floats], paths: list[_Path]) -> None:
        """Begin at all starts, then continue the paths in turn until one is stationary or all are stuck."""
        n_steps = exploration.turn_steps if self.warm else SETTINGS.scout_steps
        setting_out = map(exploration.path, starts)
        for path in setting_out if self.warm else list(setting_out):
            paths.append(path)
            exploration.follow(path, n_steps if self.n_starts > 1 else self.max_iter)
            if self.warm and path.stationary:
                break
            # Other starts may lead to better solutions, but not soon if steps use no Hessians.
            if exploration.without_hessians and (self.warm or path.stationary):
                break
        n_steps = exploration.turn_steps
        while not all(path.stuck for path in paths):
            for path in sorted(paths, key=_Path.sort_key):
                exploration.follow(path, n_steps)
                if path.stationary:
                    return
            n_steps *= 2  # some paths advance slowly while others end


@dataclass(eq=False)
class _Path:
    """One start, its last point, and whether the path has ended there."""

    at: Point
    descent: Descent
    stuck: bool = False
    stationary: bool = False

    def sort_key(self) -> tuple[bool, float]:
        """Order paths: those that continue first, then by the objective with its penalty on violations."""
        penalty = max(self.descent.penalty, 1.0)
        return self.stuck and not self.stationary, self.at.objective + penalty * self.violations()

    def violations(self) -> float:
        """Return the sum of violations."""
        return float(np.maximum(self.at.constraints, 0.0).sum())


@dataclass(eq=False)
class _Exploration:
    """Make steps on a problem, and count those of all phases together.

    Attributes
    ----------
    renewed_after
        Steps after which the Hessian of small blocks is recomputed.
    wide
        Whether blocks are too large to be factored.
    without_hessians
        Whether steps use no Hessians.
    turn_steps, max_steps
        Steps of a path's first turn, and of all phases together.
    """

    problem: Problem
    run: Run
    max_iter: int
    tol: float
    renewed_after: int
    wide: bool
    steps: int = 0

    def __post_init__(self) -> None:
        self.small = self.problem.rows.parameters.block_size <= SETTINGS.small_block
        self.without_hessians = self.wide or not (self.small or self.problem.has_kinks)
        times_as_many = SETTINGS.times_without if self.without_hessians else 1
        self.turn_steps = SETTINGS.turn_steps * times_as_many
        self.max_steps = self.max_iter * times_as_many

    def path(self, start: Floats, like: Descent | None = None) -> _Path:
        """Begin a path at a start, with the state of steps on a similar problem if given."""
        problem = self.problem
        at = problem.at(problem.box.project(start))
        self._count(at)
        # The KKT certificate is computed again at the end, with other multipliers, so it needs some slack.
        tol = 0.5 * self.tol
        if like is not None:
            descent = like.on(problem.at, tol)
            remembered, size = descent.remembered, problem.rows.parameters.block_size
            if remembered is not None and SETTINGS.small_block < size <= SETTINGS.medium_block:
                descent.remembered = replace(remembered, renewed_after=SETTINGS.turn_steps)
            return _Path(at, descent)
        memory = LimitedMemory.start(Diagonal(problem.penalties, EXPECTED_CURVATURE), problem.n)
        descent = Descent(
            problem.at,
            np.zeros(problem.m),
            tol,
            problem.box,
            remembered=RememberedHessian(memory, self.renewed_after if self.small else None),
            has_kinks=problem.has_kinks,
            factors=not self.wide,
        )
        return _Path(at, descent)

    def follow(self, path: _Path, n_steps: int) -> None:
        """Advance along a path, at most to its end, and by more steps than given if that is near.

        A path whose violations do not decrease at the largest penalty ends, because they are stationary.
        """
        before, every = path.violations(), SETTINGS.certified_every
        for step in range(SETTINGS.patience * n_steps):
            near = path.descent.residual <= SETTINGS.near * self.tol
            if path.stuck or (step >= n_steps and not near):
                break
            following = path.descent.advance(path.at)
            if following is None:
                path.stuck = True
                path.stationary = path.descent.residual <= path.descent.tol
                continue
            path.at = following
            self._count(path.at)
            if path.descent.sharpened and step % every == every - 1:
                # The KKT certificate has its own multipliers and may hold already.
                path.stuck = path.stationary = self._is_certified(path.at.x)
        # Infeasible and stationary for the violations: a larger penalty would change nothing.
        if path.descent.penalty >= DESCENT.max_penalty:
            path.stuck |= path.violations() > max(self.tol, (1 - SETTINGS.no_fall) * before)

    def descend(self) -> Status:
        """Make IDCA steps from the best point until the KKT certificate holds or they no longer move."""
        if self.run.best is None:
            return Status.NONFINITE
        if self.wide:  # subproblems need Hessians
            return Status.STALLED
        x = self.run.best.x
        at = self.problem.at(x)  # another path may have been last, and the last point is the answer
        self.run.record(self.steps, x, PointValues(at.objective, at.constraints))
        inner = NewtonSteps(epsilon=0.1 * self.tol)
        while not self._is_certified(x):
            following = inner.solve(self.problem.linearise(x, mu=SETTINGS.mu), x)  # Alg. 1, line 3
            if np.linalg.norm(following - x) <= SETTINGS.no_step * (1 + np.linalg.norm(x)):
                # Kinks in both f⁺ and f⁻ block IDCA, and not SQP.
                path = self.path(x)
                self.follow(path, self.turn_steps)
                return Status.CONVERGED if path.stationary else Status.STALLED
            x = following
            self._count(self.problem.at(x))
        return Status.CONVERGED

    def _is_certified(self, x: Floats) -> bool:
        return certify(self.problem, x, tol=self.tol).holds(self.tol)

    def _count(self, at: Point) -> None:
        """Count and record a step, unless it is on a sample."""
        self.steps += 1
        if self.problem is self.run.problem:
            self.run.record(self.steps, at.x, PointValues(at.objective, at.constraints))
        if self.steps >= self.max_steps:
            raise Ended(Status.MAX_ITER)
