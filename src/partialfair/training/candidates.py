"""Models that a search has seen, each judged by the exact metrics; the answer is the best of them.

A surrogate leads a solver to good models, but it decides nothing: whatever point is visited, by a solve, a
correction or a step on the exact metric itself, is a candidate, and the lowest objective that keeps the
promise wins.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from partialfair.constraints.surrogates import Surrogate
from partialfair.metrics.partial import WorstGap
from partialfair.optimization.problems import Problem, WholeSpace
from partialfair.training.fit_problem import Training
from partialfair.training.named_constraints import record_of
from partialfair.training.rescaling import rescale
from partialfair.training.result import ROUNDING_OF_GAPS, Tried
from partialfair.utils.clock import ignore_deadline
from partialfair.utils.typing import Floats

__all__ = ["Candidate", "Pool"]

_MORE_TIES = 0.01
"""Share of the weight that a candidate may have in ties beyond what the unconstrained model has, whose ties
are those of people with equal features: scores that are made equal meet any constraint, and rank nobody. All
ties that are new count as if they were inside of the interval, unless there are no more inside: people whom
every tree of a forest is sure of score alike, and meet no constraint by that."""

_EQUALLY_INFEASIBLE = 0.01
"""Infeasible candidates whose largest excess differs by no more, relative to the limit, are equally so."""


@dataclass(frozen=True, eq=False)
class Candidate:
    """A model, its objective and its exact gaps.

    Attributes
    ----------
    w
        Its parameters.
    objective
        ``f_0(w)``.
    excess : (n_promises,)
        By how much each exact gap is wider than allowed; where no metric is known, the violation.
    tied : (2, 2)
        The share of the weight on the most common score, and that of people whose score others have: among
        all, and among those who are inside of some promise's interval; nan where nobody has looked.
    is_predictive
        Whether a positive multiple of its scores has a lower loss than a constant has. False only where
        scores are free to be rescaled: then the model orders rows against their targets.
    """

    w: Floats
    objective: float
    excess: Floats
    tied: Floats
    is_predictive: bool = True

    @property
    def worst(self) -> float:
        """By how much the widest gap is too wide; 0 if none is."""
        return float(max(self.excess.max(initial=0.0) - ROUNDING_OF_GAPS, 0.0))


@dataclass(eq=False)
class Pool:
    """All candidates of one fit.

    Parameters
    ----------
    training
        Who is promised what.
    problem
        The problem without constraints: objective and scores.
    sigma
        The surrogate by which constraints that bound no exact metric are judged.
    allow_ties
        Whether models with more ties than the unconstrained one are welcome.
    """

    training: Training
    problem: Problem
    sigma: Surrogate
    allow_ties: bool = False
    candidates: list[Candidate] = field(default_factory=list)
    tried: list[Tried] = field(default_factory=list)
    _unjudged: dict[int, Problem] = field(default_factory=dict)
    _since: float = field(default_factory=time.perf_counter)

    def evaluate(
        self,
        w: Floats,
        below: float = np.inf,
        *,
        ties: bool = False,
        gaps: Sequence[WorstGap] | None = None,
    ) -> Candidate | None:
        """Return a model with its objective and gaps; None, without a look at the gaps, if it costs more.

        Parameters outside of their domain are projected into it. Ties are looked for where they could decide,
        or where that is asked for; gaps, unless they are known.
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
        candidate = Candidate(w, at.objective, excess, np.full((2, 2), np.nan))
        if candidate.worst <= 0 or ties:
            return replace(candidate, tied=counts.ties(self.training.promises))
        return candidate

    def add(self, w: Floats, how: str, gaps: Sequence[WorstGap] | None = None) -> Candidate:
        """Judge a model, remember it, and write down how it was found."""
        candidate = self.evaluate(w, ties=True, gaps=gaps)
        assert candidate is not None
        return self.keep(candidate, how)

    def take(self, candidate: Candidate, how: str) -> None:
        """Remember a candidate that another fit has judged, and look for its ties if nobody has."""
        if np.isnan(candidate.tied).any():
            counts = self.problem.rows.at(candidate.w).counts()
            candidate = replace(candidate, tied=counts.ties(self.training.promises))
        self.keep(candidate, how)

    def keep(self, candidate: Candidate, how: str, steps: int = 1) -> Candidate:
        """Remember a candidate that was judged, with the best scale and intercept if these are free.

        Returns the candidate as it was given, but for `Candidate.is_predictive`.
        """
        given, candidate = self._rescale(candidate)
        self.candidates.append(candidate)
        now = time.perf_counter()
        gaps = candidate.excess + self.training.max_gaps
        widest = float(gaps[int(np.argmax(candidate.excess))])
        satisfied, tied = self.is_feasible(candidate), float(candidate.tied[0, 0])
        self.tried.append(Tried(how, steps, widest, candidate.objective, tied, now - self._since, satisfied))
        self._since = now
        return given

    def _rescale(self, candidate: Candidate) -> tuple[Candidate, Candidate]:
        """Return a candidate, and the one with the best scale and intercept; gaps do not change."""
        if not self.candidates or not self._ranks_decide:  # the first one is the unconstrained optimum
            return candidate, candidate
        with ignore_deadline():
            w = rescale(self.problem, candidate.w)
        if w is None:
            rejected = replace(candidate, is_predictive=False)
            return rejected, rejected
        if w is candidate.w:
            return candidate, candidate
        scaled = self.evaluate(w, ties=True)
        assert scaled is not None
        # Scores may be rounded elsewhere, by a library of trees: then ranks may differ by a tie.
        is_better = scaled.objective < candidate.objective and scaled.worst <= candidate.worst
        return candidate, scaled if is_better else candidate

    @cached_property
    def _ranks_decide(self) -> bool:
        """Whether every exact gap depends on ranks alone, so that scale and intercept are free."""
        records = [record_of(promise.constraint) for promise in self.training.promises]
        return isinstance(self.problem.domain, WholeSpace) and all(
            record is not None and not record.bounded.needs_threshold and not record.bounded.in_scores
            for record in records
        )

    def is_feasible(self, candidate: Candidate) -> bool:
        """Whether a candidate keeps the promise, and does so by ranking people."""
        return candidate.worst <= 0 and candidate.is_predictive and self.is_informative(candidate)

    def is_informative(self, candidate: Candidate) -> bool:
        """Whether a candidate has hardly more ties than the unconstrained model, the first candidate."""
        if self.allow_ties or not self.candidates:
            return True
        more = candidate.tied > self.candidates[0].tied + self._more_ties
        return not more.any(axis=1).all()

    def sort_key(self, candidate: Candidate) -> tuple[bool, float, float]:
        """Order candidates: those that keep the promise by objective, others by how much they break it.

        Of those that break it equally the one with the lower objective comes first.
        """
        if self.is_feasible(candidate):
            return False, candidate.objective, candidate.objective
        is_admitted = candidate.is_predictive and self.is_informative(candidate)
        return True, candidate.worst if is_admitted else np.inf, candidate.objective

    @property
    def best(self) -> Candidate:
        """The best candidate so far."""
        return min(self.candidates, key=self.sort_key)

    @property
    def answer(self) -> Candidate:
        """The candidate to return: the best, or of those that are about as infeasible the lowest loss."""
        best = self.best
        if self.is_feasible(best):
            return best
        margin = _EQUALLY_INFEASIBLE * float(self.training.max_gaps.max())
        near = [one for one in self.candidates if self.sort_key(one)[1] <= best.worst + margin]
        return min(near, key=lambda one: one.objective, default=best)

    def _violation(self, number: int, w: Floats) -> float:
        """Return by how much a constraint is violated that bounds no exact metric, up to its tolerance."""
        if number not in self._unjudged:
            promise, cells = self.training.promises[number], self.training.cells
            stated = promise.constraint
            block = stated.build(promise.groups, cells.weights, self.sigma, cells.positive)
            self._unjudged[number] = self.training.problem([block])
        problem = self._unjudged[number]
        return max(problem.evaluate(problem.start_at(w)).violation - self.training.tol, 0.0)

    @cached_property
    def _more_ties(self) -> Floats:
        """Limits of what a candidate may have more than the unconstrained model."""
        parts = [part for one in self.training.promises for part in one.constraint.intervals(one.groups)]
        return _MORE_TIES * np.array([1.0, min(part.measure for part in parts)])
