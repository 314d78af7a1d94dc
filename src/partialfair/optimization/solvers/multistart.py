"""The engine that estimators use: sequential quadratic programming from several starts, then IDCA."""

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
        Steps from a start that is nearly a solution: its problem is corrected, and solved again, before long.
    near, patience
        Residual below which a path is followed on, up to so many times the steps of its turn.
    rough
        Residual that is small enough for a sample: its solution is not that of all rows.
    small_block, renewed_after, renewed_nearby
        Parameters of a block whose eigenvalues cost little, and steps after which they are computed anew: far
        from solutions, and near them; with more parameters last steps alone cost less.
    medium_block
        Parameters of a block up to which eigenvalues cost less than steps on very many rows: after steps on a
        sample of them they are computed once, where these led.
    times_without
        Steps without Hessians cost less and lead less far: there may be so many times as many, also in a
        turn.
    no_fall
        A fall of the violations by no more, relative to them, is none.
    certified_every
        Steps on kinks after which the KKT certificate is computed, which knows more kinks than a step: it may
        hold long before the residual of a step says so, and costs less than one.
    no_step
        A step that moves x by no more, relative to 1 + ‖x‖, is none.
    mu
        Shift of the last resort, IDCA: its steps are longer than with that of the KKT certificate, and still
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
    """Critical points differ: set out from several starts; follow the best until its KKT certificate holds.

    A few steps of `SQP` are taken from each start. Then the paths are followed in turn, the most promising
    first and ever longer, until one is stationary: some creep while others arrive. If none can be, steps of
    IDCA, whose subproblems are convex and always lead down, go on from the best point. Where these are held,
    steps of `SQP` are tried once more.

    Parameters
    ----------
    max_iter
        Steps, of all phases together; four times as many where they do without Hessians.
    tol
        ε of the KKT certificate.
    n_starts
        How many starts: the one given, the best model that gives all rows one score, and random ones.
    seed
        For the random ones.
    warm
        Whether the start is nearly a solution: others are tried only if it does not lead to one soon.
    largest_block
        Size up to which blocks of Hessians are factored, where kinks or the last resort ask for that.
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
        """Start from the last solution, or from the unconstrained model; other starts are made in `solve`."""
        return unconstrained_start(problem, free, last)

    def again(self) -> MultiStartSQP:
        """Return the solver for a start that is nearly a solution, and soon leads to one or to none."""
        return replace(self, warm=True, max_iter=min(self.max_iter, SETTINGS.steps_again))

    def iterate(self, run: Run, x: Floats) -> Status:
        """Run until the KKT certificate holds, or say why it does not."""
        problem, run.tolerance = run.problem, self.tol
        wide = problem.rows.parameters.block_size > self.largest_block
        renewed_after = SETTINGS.renewed_nearby if self.warm else SETTINGS.renewed_after
        exploration = _Exploration(problem, run, self.max_iter, self.tol, renewed_after, wide)
        paths: list[_Path] = []
        try:
            run.record(0, x)
            starts = self._starts(problem, x)
            # 1. On very many rows: explore a sample of them, and go on from where the best path led.
            scouted = None if self.warm else self._explore_sample(exploration, starts)
            if scouted is not None:
                paths.append(scouted)
                exploration.follow(scouted, exploration.turn_steps)
                starts = self._starts(problem, x)
            # 2. Some steps from each start, then ever longer turns, the most promising path first.
            if scouted is None or not scouted.stationary:
                self._explore(exploration, starts, paths)
            if any(path.stationary for path in paths):
                ending = Status.CONVERGED
            elif self.warm and exploration.without_hessians:
                ending = Status.STALLED  # the problem is corrected sooner than solved
            else:
                # 3. Algorithm 1 from the best point: its convex subproblems always lead down.
                ending = exploration.descend()
        except Ended as end:
            if end.status is not Status.MAX_ITER:
                raise
            ending = Status.MAX_ITER
        arrived = [path.at for path in paths if path.stationary]
        if not arrived:
            return ending
        # One path may have arrived before the steps ran out.
        best = min(arrived, key=lambda at: at.objective)
        run.record(exploration.steps, best.x, PointValues(best.objective, best.constraints))
        return Status.CONVERGED

    def _starts(self, problem: Problem, start: Floats) -> Iterator[Floats]:
        """Yield the start given, the best model that gives all rows one score, and random ones around it."""
        constant = problem.constant_start
        yield start
        if self.n_starts > 1:
            yield constant
        rng = np.random.default_rng(self.seed)
        spread = np.linalg.norm(start - constant) / np.sqrt(start.size)
        for _ in range(self.n_starts - 2):
            yield constant + spread * rng.normal(size=start.size)

    def _explore_sample(self, exploration: _Exploration, starts: Iterator[Floats]) -> _Path | None:
        """Explore a sample of the rows, and return where the best path led, as one to go on with."""
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
        """Set out from all starts, then follow the paths in turn until one is stationary or all are stuck."""
        n_steps = exploration.turn_steps if self.warm else SETTINGS.scout_steps
        setting_out = map(exploration.path, starts)
        for path in setting_out if self.warm else list(setting_out):
            paths.append(path)
            exploration.follow(path, n_steps if self.n_starts > 1 else self.max_iter)
            if self.warm and path.stationary:
                break
            # Other starts may lead to better solutions, but not soon where steps do without Hessians.
            if exploration.without_hessians and (self.warm or path.stationary):
                break
        n_steps = exploration.turn_steps
        while not all(path.stuck for path in paths):
            for path in sorted(paths, key=_Path.sort_key):
                exploration.follow(path, n_steps)
                if path.stationary:
                    return
            n_steps *= 2  # some creep while others arrive


@dataclass(eq=False)
class _Path:
    """One start, how far it got, and whether there it ends."""

    at: Point
    descent: Descent
    stuck: bool = False
    stationary: bool = False

    def sort_key(self) -> tuple[bool, float]:
        """Order paths: those that go on first, then by the objective with its penalty on violations."""
        penalty = max(self.descent.penalty, 1.0)
        return self.stuck and not self.stationary, self.at.objective + penalty * self.violations()

    def violations(self) -> float:
        """Return their sum."""
        return float(np.maximum(self.at.constraints, 0.0).sum())


@dataclass(eq=False)
class _Exploration:
    """Takes steps on a problem, and counts those of all phases together.

    Attributes
    ----------
    renewed_after
        Steps after which the Hessian of small blocks is computed anew.
    wide
        Whether blocks are too large to be factored.
    without_hessians
        Whether steps do without them.
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
        """Set out from a start, with nothing known or with what steps on a problem like this one know."""
        problem = self.problem
        at = problem.at(problem.box.project(start))
        self._count(at)
        # The KKT certificate is computed anew at the end, with other multipliers: leave it some room.
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
        """Advance along a path, to its end at most; if that is near, by more steps than it is given.

        A path on which violations do not fall at the largest penalty ends: it creeps where they are
        stationary.
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
                # With multipliers of its own it may hold already.
                path.stuck = path.stationary = self._is_certified(path.at.x)
        # Infeasible and stationary for the violations: no larger penalty would change anything.
        if path.descent.penalty >= DESCENT.max_penalty:
            path.stuck |= path.violations() > max(self.tol, (1 - SETTINGS.no_fall) * before)

    def descend(self) -> Status:
        """Take IDCA steps from the best point until the KKT certificate holds or they no longer move."""
        if self.run.best is None:
            return Status.NONFINITE
        if self.wide:  # subproblems need Hessians
            return Status.STALLED
        x = self.run.best.x
        at = self.problem.at(x)  # another path may have come last, and the last point is the answer
        self.run.record(self.steps, x, PointValues(at.objective, at.constraints))
        inner = NewtonSteps(epsilon=0.1 * self.tol)
        while not self._is_certified(x):
            following = inner.solve(self.problem.linearise(x, mu=SETTINGS.mu), x)  # Alg. 1, line 3
            if np.linalg.norm(following - x) <= SETTINGS.no_step * (1 + np.linalg.norm(x)):
                # Kinks that stand in f⁺ and in f⁻ hold IDCA, and not SQP.
                path = self.path(x)
                self.follow(path, self.turn_steps)
                return Status.CONVERGED if path.stationary else Status.STALLED
            x = following
            self._count(self.problem.at(x))
        return Status.CONVERGED

    def _is_certified(self, x: Floats) -> bool:
        return certify(self.problem, x, tol=self.tol).holds(self.tol)

    def _count(self, at: Point) -> None:
        """Count a step, and write it down, unless it is on a sample."""
        self.steps += 1
        if self.problem is self.run.problem:
            self.run.record(self.steps, at.x, PointValues(at.objective, at.constraints))
        if self.steps >= self.max_steps:
            raise Ended(Status.MAX_ITER)
