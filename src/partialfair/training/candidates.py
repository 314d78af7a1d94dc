"""The models that a fit has evaluated by the exact metrics; the best of them is the answer.

A surrogate leads a solver to good models but decides nothing: every point of a solve, a correction or a step
on the exact metric is a candidate, and the feasible candidate with the lowest objective is returned.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from partialfair.constraints.surrogates import Surrogate
from partialfair.metrics.partial import WorstGap
from partialfair.optimization.problems import Capability, Problem
from partialfair.training.named_constraints import record_of
from partialfair.training.result import ROUNDING_OF_GAPS, Candidate
from partialfair.training.statement import Training
from partialfair.utils.clock import ignore_deadline
from partialfair.utils.typing import Floats


@dataclass(frozen=True)
class CandidateSettings:
    """Settings of a `Pool` and of `rescale`.

    Attributes
    ----------
    more_ties
        Fraction of the weight that a candidate may have in ties in addition to the ties of the unconstrained
        model, which come from rows with equal features: equal scores satisfy any constraint and rank no rows.
        New ties count as if they were inside the interval, unless there are no more ties inside: rows with
        the same extreme score in all trees of a forest do not help to satisfy a constraint.
    equally_infeasible
        Infeasible candidates whose largest excesses differ by at most this, relative to the limit, count as
        equally infeasible.
    n_newton
        Newton steps for the best scale; four are usual, more if scores are large and the loss is flat.
    no_gain
        Predicted decrease of the objective, relative to it, below which no step is made.
    min_scale
        The smallest scale of scores: with a smaller one they would be equal up to rounding.
    """

    more_ties: float = 0.01
    equally_infeasible: float = 0.01
    n_newton: int = 20
    no_gain: float = 1e-9
    min_scale: float = 1e-3


_SETTINGS = CandidateSettings()


@dataclass(frozen=True, eq=False)
class CandidateModel:
    """A model, its objective and its exact gaps.

    Attributes
    ----------
    w
        Its parameters.
    objective
        ``f_0(w)``.
    excess : (n_constraints,)
        Excess of each exact gap over its limit; without an exact metric, the violation of the surrogate.
    tied : (2, 2)
        The fraction of the weight on the most common score, and the fraction on scores that occur more than
        once: among all rows, and among rows in some constraint's interval; nan if not evaluated.
    is_predictive
        Whether a positive multiple of its scores has a lower loss than a constant. False only if scores can
        be rescaled freely: then the model orders rows against their targets.
    """

    w: Floats
    objective: float
    excess: Floats
    tied: Floats
    is_predictive: bool = True

    @property
    def worst(self) -> float:
        """The largest excess; 0 without constraints."""
        return float(max(self.excess.max(initial=0.0) - ROUNDING_OF_GAPS, 0.0))


@dataclass(eq=False)
class Pool:
    """All candidates of one fit; the first is the unconstrained model.

    Parameters
    ----------
    training
        The rows, and the constraints on their groups.
    problem
        The problem without constraints: objective and scores.
    sigma
        The surrogate that evaluates constraints without an exact metric.
    allow_ties
        Whether models may have more ties than the unconstrained one.
    """

    training: Training
    problem: Problem
    sigma: Surrogate | None
    allow_ties: bool = False
    candidates: list[CandidateModel] = field(default_factory=list)
    tried: list[Candidate] = field(default_factory=list)
    _without_metric: dict[int, Problem] = field(default_factory=dict)
    _since: float = field(default_factory=time.perf_counter)

    def evaluate(
        self,
        w: Floats,
        below: float = np.inf,
        *,
        ties: bool = False,
        gaps: Sequence[WorstGap] | None = None,
    ) -> CandidateModel | None:
        """Return a model with its objective and gaps; None if the objective is not below a bound.

        Parameters outside of their domain are projected onto it. Ties are evaluated if they can matter or if
        requested; gaps, unless they are given.
        """
        w = self.problem.domain.project(w)
        at = self.problem.at(w)
        if not at.objective < below:
            return None
        counts = at.scored.counts()
        gaps = self.training.gaps(counts) if gaps is None else gaps
        excess = np.array([gap.value for gap in gaps]) - self.training.max_gaps
        for unknown in np.flatnonzero(np.isnan(excess)):
            excess[unknown] = self._violation(int(unknown), w)
        candidate = CandidateModel(w, at.objective, excess, np.full((2, 2), np.nan))
        # Ties cost a sort, and do not matter for an infeasible model.
        if candidate.worst <= 0 or ties:
            return replace(candidate, tied=counts.ties(self.training.constraints))
        return candidate

    def add(self, w: Floats, how: str, gaps: Sequence[WorstGap] | None = None) -> CandidateModel:
        """Evaluate a model, keep it, and record how it was found."""
        candidate = self.evaluate(w, ties=True, gaps=gaps)
        assert candidate is not None
        return self.keep(candidate, how)

    def take(self, candidate: CandidateModel, how: str) -> None:
        """Keep a candidate of another fit, whose ties may not have been evaluated there."""
        if np.isnan(candidate.tied).any():
            counts = self.problem.rows.at(candidate.w).counts()
            candidate = replace(candidate, tied=counts.ties(self.training.constraints))
        self.keep(candidate, how)

    def keep(self, candidate: CandidateModel, how: str, steps: int = 1) -> CandidateModel:
        """Keep an evaluated candidate, with the best scale and intercept if gaps do not depend on them.

        Return the candidate as given, except for `CandidateModel.is_predictive`.
        """
        given, candidate = self._rescale(candidate)
        self.candidates.append(candidate)
        now = time.perf_counter()
        gaps = candidate.excess + self.training.max_gaps
        largest = float(gaps[int(np.argmax(candidate.excess))])
        satisfied, tied = self.is_feasible(candidate), float(candidate.tied[0, 0])
        self.tried.append(
            Candidate(how, steps, largest, candidate.objective, tied, now - self._since, satisfied)
        )
        self._since = now
        return given

    def _rescale(self, candidate: CandidateModel) -> tuple[CandidateModel, CandidateModel]:
        """Return a candidate, and its copy with the best scale and intercept; gaps do not change."""
        if not self.candidates or not self._ranks_decide:  # the first one is the unconstrained optimum
            return candidate, candidate
        with ignore_deadline():
            w = rescale(self.problem, candidate.w)
        # The model orders rows against their targets, so no positive scale improves on none.
        if w is None:
            rejected = replace(candidate, is_predictive=False)
            return rejected, rejected
        if w is candidate.w:
            return candidate, candidate
        scaled = self.evaluate(w, ties=True)
        assert scaled is not None
        # A tree library may round scores differently after scaling, so ranks may differ by a tie.
        is_better = scaled.objective < candidate.objective and scaled.worst <= candidate.worst
        return candidate, scaled if is_better else candidate

    @cached_property
    def _ranks_decide(self) -> bool:
        """Whether every exact gap depends on ranks only, so that scale and intercept are free."""
        records = [record_of(one.constraint) for one in self.training.constraints]
        # A box may hold the model but not its multiples; thresholds and score differences fix the scale.
        return self.problem.box.is_unbounded and all(
            record is not None and not record.bounded.needs_threshold and not record.bounded.in_scores
            for record in records
        )

    def is_feasible(self, candidate: CandidateModel) -> bool:
        """Whether a candidate satisfies the constraints by ranking rows, and not by ties."""
        return candidate.worst <= 0 and candidate.is_predictive and self.is_informative(candidate)

    def is_informative(self, candidate: CandidateModel) -> bool:
        """Whether a candidate has hardly more ties than the unconstrained model."""
        if self.allow_ties or not self.candidates:
            return True
        # Rejected only with more ties both among all rows and inside: ties outside satisfy no constraint.
        more = candidate.tied > self.candidates[0].tied + self._more_ties
        return not more.any(axis=1).all()

    @cached_property
    def _more_ties(self) -> Floats:
        """Limits on additional ties compared with the unconstrained model: among all rows, and inside."""
        stated = [one for one in self.training.constraints if not one.is_adjoining]
        parts = [part for one in stated for part in one.constraint.intervals(one.groups)]
        return _SETTINGS.more_ties * np.array([1.0, min(part.measure for part in parts)])

    def sort_key(self, candidate: CandidateModel) -> tuple[bool, float, float]:
        """Order candidates: feasible ones by objective, then others by their largest excess.

        Candidates with equal excess are ordered by objective.
        """
        if self.is_feasible(candidate):
            return False, candidate.objective, candidate.objective
        is_admitted = candidate.is_predictive and self.is_informative(candidate)
        return True, candidate.worst if is_admitted else np.inf, candidate.objective

    @property
    def best(self) -> CandidateModel:
        """The best candidate so far."""
        return min(self.candidates, key=self.sort_key)

    @property
    def any_feasible(self) -> bool:
        """Whether some candidate is feasible."""
        return self.is_feasible(self.best)

    @property
    def answer(self) -> CandidateModel:
        """The candidate to return: the best; of about equally infeasible ones, that with the lowest loss."""
        best = self.best
        if self.is_feasible(best):
            return best
        # None is feasible: a difference of a hundredth of the limit does not justify a higher loss.
        margin = _SETTINGS.equally_infeasible * float(self.training.max_gaps.max())
        near = [one for one in self.candidates if self.sort_key(one)[1] <= best.worst + margin]
        return min(near, key=lambda one: one.objective, default=best)

    def _violation(self, number: int, w: Floats) -> float:
        """Return the violation of a constraint without an exact metric, up to its tolerance."""
        training = self.training
        if number not in self._without_metric:
            grouped, cells = training.constraints[number], training.cells
            # Without an exact metric the surrogate constraint counts, with the first surrogate.
            assert self.sigma is not None
            block = grouped.constraint.build(grouped.groups, cells.weights, self.sigma, cells.positive)
            self._without_metric[number] = training.problem([block])
        problem = self._without_metric[number]
        return max(problem.evaluate(problem.start_at(w)).violation - training.tol, 0.0)


def rescale(problem: Problem, w: Floats) -> Floats | None:
    """Minimize the objective over ``a > 0`` and b, with scores equal to those at w times a, plus b.

    Neither changes a rank, so neither changes a gap of statistical parity or group AUC, and the loss is
    convex in the two. Steps on exact gaps end at models whose loss is far above the minimum over these two
    numbers; without this step a returned model may have a higher loss than a constant.

    Parameters
    ----------
    problem
        The problem without constraints, on the whole space.
    w : (n,)
        Parameters of the model.

    Returns
    -------
    (n,) or None
        The parameters with the best scale and intercept, or `w` itself if that is as good or if scores cannot
        be scaled. None if no positive scale improves on a constant score: the model orders rows against their
        targets.
    """
    parameters = problem.rows.parameters
    flat = parameters.at_no_scores
    if (
        problem.m
        or Capability.LINEAR not in problem.rows.capabilities
        or not (w - flat)[: parameters.n_penalized].any()
    ):
        return w
    # Directions that scale and shift all scores.
    directions = [w - flat]
    if parameters.level is not None:
        directions.append(parameters.level)
    elif parameters.n > parameters.n_penalized:
        directions.append(np.where(np.arange(parameters.n) < parameters.n_penalized, 0.0, 1.0))
    plane = np.stack(directions, axis=1)
    # Newton steps in the plane, from scale 1 and no shift, halved until the objective falls.
    at, place = problem.at(w), np.eye(1, plane.shape[1])[0]
    for _ in range(_SETTINGS.n_newton):
        gradient = plane.T @ at.objective_gradient()
        hessian = plane.T @ np.stack([at.hessian_product(one) for one in directions], axis=1)
        step = -np.linalg.lstsq(hessian, gradient, rcond=None)[0]
        # Newton decrement: the predicted decrease of the objective under a quadratic model.
        if -0.5 * gradient @ step <= _SETTINGS.no_gain * abs(at.objective):
            break
        fraction = 1.0
        while fraction > _SETTINGS.min_scale:
            following = problem.at(flat + plane @ (place + fraction * step))
            if following.objective < at.objective:
                break
            fraction /= 2
        else:
            break
        at, place = following, place + fraction * step
    if place[0] < _SETTINGS.min_scale:
        return None
    return w if (place == np.eye(1, place.size)[0]).all() else at.x
