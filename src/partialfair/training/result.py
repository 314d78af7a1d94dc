"""The result of a fit: status, gaps, KKT certificate, history, and what held-out rows say."""

from __future__ import annotations

from dataclasses import astuple, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from partialfair.constraints.base import Constraint
from partialfair.constraints.surrogates import Surrogate
from partialfair.data.groups import group_name
from partialfair.data.intervals import as_interval_set, ranks_text
from partialfair.metrics.partial import WorstGap
from partialfair.optimization.problems import Certificate
from partialfair.optimization.solvers import Record, Status
from partialfair.training.named_constraints import record_of
from partialfair.utils.notebook import result_html
from partialfair.utils.text import gap_text, listed, percent, short_percent, shorten
from partialfair.utils.typing import Floats, GroupLabel

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CHOSEN_IN_TRAINING = (
    "the interval was chosen for its wide gap on the training rows, under the model without constraint; rows "
    "that were not trained on had no say, so what they show is not touched by the choice"
)
"""What ``interval="auto"`` means for the figures."""

USUAL_TOL = 1e-4
"""The default ``tol`` of linear models; trees have a larger one."""

ROUNDING_OF_GAPS = 1e-12
"""By how much an exact gap may exceed what is allowed: sums of fractional weights are not exact."""


@dataclass(frozen=True)
class Candidate:
    """One line of a search: a model, how it was found, and what became of it.

    Attributes
    ----------
    how
        What led to it.
    steps
        Models that were looked at on the way.
    gap, objective, tied_share
        Of the model: the exact gap that is largest relative to its limit, the objective, and the fraction of
        the weight on the most common score.
    seconds
        What it took.
    satisfied
        Whether it satisfies the constraint.
    """

    how: str
    steps: int
    gap: float
    objective: float
    tied_share: float
    seconds: float
    satisfied: bool


@dataclass(frozen=True)
class Population:
    """What held-out rows say of a model's gap in the population, with ``enforce="population"``.

    Attributes
    ----------
    max_gap, confidence
        The limit, and with what confidence it is to hold.
    validated
        Whether held-out rows show it: with probability ``confidence`` no model is validated whose gap in the
        population is larger than ``max_gap``, corrected for choosing among several.
    upper_bound
        An upper bound of the model's gap. Of a validated model the one that decided, at the error of its own
        test: what holds after the choice is ``max_gap``. Otherwise the lowest of all models' bounds, which
        hold with that confidence simultaneously.
    gap
        The estimate on the held-out rows.
    n_rows
        Rows that models were validated on; none of them was trained on.
    n_models, n_validated
        Models that were tried, and how many of them are validated.
    trained_max_gap
        The gap that the model was trained for; infinite for the model without constraint.
    scoring, score, score_without
        By what validated models were compared, and what it is on the held-out rows for the model and for the
        one without constraint.
    not_evaluated
        Groups that nothing is said of, because too few of their rows, or none, were held out.
    """

    max_gap: float
    confidence: float
    validated: bool
    upper_bound: float
    gap: float
    n_rows: int
    n_models: int
    n_validated: int
    trained_max_gap: float
    scoring: str
    score: float
    score_without: float
    not_evaluated: tuple[GroupLabel, ...] = ()

    @property
    def sentence(self) -> str:
        """The answer in words."""
        sure = f"{short_percent(self.confidence)} confidence"
        if self.validated:
            return f"with {sure} the gap of new people is at most {self.max_gap:g}"
        return f"no model was shown, with {sure}, to have a gap of at most {self.max_gap:g} on new people"

    @property
    def basis(self) -> str:
        """What the answer rests on, in words."""
        trained = "no constraint" if np.isinf(self.trained_max_gap) else f"max_gap {self.trained_max_gap:.3g}"
        return (
            f"{self.n_validated} of {self.n_models} models validated on {self.n_rows:,} held-out rows, where "
            f"the gap of this one, trained with {trained}, is {self.gap:.3g} and its upper bound "
            f"{self.upper_bound:.3g}"
        )


@dataclass(frozen=True, eq=False, repr=False)
class FitResult:
    """How a fit ended.

    Attributes
    ----------
    status
        CONVERGED only if a feasible point was found whose KKT certificate holds at ``tol``, and the model is
        feasible and no worse. FEASIBLE if the model is feasible, and no such point was found.
    objective
        Weighted mean loss plus penalty.
    max_violation
        ``max(0, max_i f_i)``: by how much the surrogate constraints are violated, on the scale of max_gap.
    constraints, gaps
        The constraints, and the exact gap of the training scores that each is about, as `partialfair.metrics`
        measures it, with the worst pair of groups, and the score and ranks at which they differ.
    outside, outside_gaps
        With ``outside="no_worse"``, what holds next to the interval: constraints whose ``max_gap`` is the
        exact training gap of the unconstrained model there, and the gaps of this model. Else none.
    thresholds
        The θ of all constraints.
    infeasibility
        What the most violated constraint says, if no point was found that satisfies all; or how far from
        validated the models are.
    surrogate
        The surrogate that was used; None without constraints.
    tied_share
        Share of the training weight on the most common score; 1 for a model that ranks nobody.
    spread
        Spread of the training scores; below one width the surrogate says little.
    history
        Records of the steps: passes over the data, seconds, objective, violation.
    kkt
        The KKT certificate: residuals of the nearly ε-KKT conditions, with multipliers, in units in which
        every feature has mean 0 and standard deviation 1 (without intercepts: root mean square 1).
    tol
        What the residuals were to reach.
    enforce
        Whether the bound was asked for of the exact gaps (``"exact"``), of their surrogates, or of the gap of
        new people (``"population"``); then all but ``status`` and ``infeasibility`` is about the training
        rows.
    small_groups
        Groups with too few members in the interval of some constraint, which leaves them out.
    higher_is_better
        Whether the constraints count ranks from the highest scores.
    candidates
        What was tried, with ``enforce="exact"``: models with their exact gaps, objectives and seconds.
    population
        What rows held out say, with ``enforce="population"``; else None.
    interval_chosen
        Whether an interval was chosen on the training rows (``interval="auto"``); ``constraints`` has it.
    constant_objective
        The objective of the constant model, whose scores are all equal: what a model without features has.
    accuracy, constant_accuracy
        Weighted training accuracy of the model and of the constant model; nan for regressors.
    advice
        What would recover most of the accuracy that the constraint costs, where that is known.
    """

    status: Status
    objective: float
    max_violation: float
    constraints: tuple[Constraint, ...]
    gaps: tuple[WorstGap, ...]
    thresholds: Floats
    infeasibility: str | None
    surrogate: Surrogate | None
    tied_share: float
    spread: float
    history: tuple[Record, ...]
    kkt: Certificate
    tol: float
    enforce: str = "exact"
    small_groups: tuple[GroupLabel, ...] = ()
    higher_is_better: bool = True
    candidates: tuple[Candidate, ...] = ()
    population: Population | None = None
    interval_chosen: bool = False
    constant_objective: float = float("nan")
    accuracy: float = float("nan")
    constant_accuracy: float = float("nan")
    advice: str | None = None
    outside: tuple[Constraint, ...] = ()
    outside_gaps: tuple[WorstGap, ...] = ()

    @property
    def improvement(self) -> float:
        """By how much the objective is lower than that of the KKT point, ``kkt.objective``."""
        return float(self.kkt.objective - self.objective)

    @property
    def satisfied(self) -> bool | None:
        """Whether every exact gap of the training scores is at most its ``max_gap``, also outside.

        With ``enforce="population"`` whether the gap in the population is, as far as held-out rows can show.
        None without constraints, with ``enforce="surrogate"``, and where no constraint bounds an exact
        metric.
        """
        if self.population is not None:
            return self.population.validated
        excess = self.excess
        if self.enforce != "exact" or np.isnan(excess).all():
            return None
        return bool(np.nanmax(excess) <= ROUNDING_OF_GAPS) and self.satisfied_outside

    @property
    def satisfied_outside(self) -> bool:
        """Whether no gap next to the interval exceeds its limit; True where there are no limits."""
        pairs = zip(self.outside_gaps, self.outside, strict=True)
        return all(gap.value - constraint.max_gap <= ROUNDING_OF_GAPS for gap, constraint in pairs)

    @property
    def excess(self) -> Floats:
        """By how much each exact gap exceeds its limit; nan where no metric is known."""
        pairs = zip(self.gaps, self.constraints, strict=True)
        return np.array([gap.value - constraint.max_gap for gap, constraint in pairs])

    @property
    def binding(self) -> WorstGap | None:
        """The gap that is largest relative to its limit; None without constraints that have one."""
        excess = self.excess
        return None if np.isnan(excess).all() else self.gaps[int(np.nanargmax(excess))]

    @property
    def gap(self) -> float:
        """The exact gap of ``binding``; nan without."""
        return float("nan") if self.binding is None else self.binding.value

    def in_units(self, unit: float) -> FitResult:
        """Return the result with everything that depends on the unit of scores in units of 1.

        Parameters
        ----------
        unit
            The unit of scores in this result.
        """
        records = [record_of(constraint) for constraint in self.constraints]
        in_scores = [record is not None and record.bounded.in_scores for record in records]
        gaps = tuple(
            replace(
                gap, value=abs(unit) * gap.value if is_score else gap.value, threshold=unit * gap.threshold
            )
            for gap, is_score in zip(self.gaps, in_scores, strict=True)
        )
        # Gaps of lines of the search are differences of scores if all constraints bound such.
        factor = abs(unit) if in_scores and all(in_scores) else 1.0
        sigma, kkt = self.surrogate, self.kkt
        return replace(
            self,
            # The squared loss is in squared units; losses of classes have units of ±1 only.
            objective=unit**2 * self.objective,
            constant_objective=unit**2 * self.constant_objective,
            constraints=tuple(one.in_units(1 / unit) for one in self.constraints),
            gaps=gaps,
            outside_gaps=tuple(replace(gap, threshold=unit * gap.threshold) for gap in self.outside_gaps),
            thresholds=unit * self.thresholds,
            surrogate=None if sigma is None else replace(sigma, width=abs(unit) * sigma.width),
            spread=abs(unit) * self.spread,
            history=tuple(replace(one, objective=unit**2 * one.objective) for one in self.history),
            kkt=replace(kkt, objective=unit**2 * kkt.objective, gap=factor * kkt.gap),
            candidates=tuple(
                replace(line, gap=factor * line.gap, objective=unit**2 * line.objective)
                for line in self.candidates
            ),
        )

    def __getstate__(self) -> dict[str, Any]:
        """Return what is stored: the status as text and the history as a table, which any file can hold."""
        history = np.array([astuple(line) for line in self.history], dtype=np.float64)
        search = [astuple(line) for line in self.candidates]
        population = None if self.population is None else self.population.__dict__
        stored = {"status": self.status.value, "history": history, "search": search, "population": population}
        return {**self.__dict__, **stored}

    def __setstate__(self, state: dict[str, Any]) -> None:
        history = tuple(
            Record(int(step), int(passes), *measured) for step, passes, *measured in state["history"].tolist()
        )
        search = tuple(Candidate(*line) for line in state.get("search", ()))
        stored = state.get("population")
        population = None if stored is None else Population(**stored)
        self.__dict__.update(
            state, status=Status(state["status"]), history=history, candidates=search, population=population
        )

    @property
    def verdict(self) -> str:
        """Whether the constraint is satisfied, by which gap, and between whom: the answer in a sentence."""
        if self.population is not None:
            return f"{self.population.sentence[0].upper()}{self.population.sentence[1:]}"
        if not self.constraints:
            return "No constraint"
        several = "s" if len(self.constraints) > 1 else ""
        if (worst := self.binding) is None:
            limits = listed([f"{constraint.max_gap:g}" for constraint in self.constraints])
            return (
                f"No exact metric is known for the constraint{several}: surrogate exceeded by "
                f"{self.max_violation:.2g}, limit {limits}"
            )
        limit = self.constraints[int(np.nanargmax(self.excess))].max_gap
        # With ``enforce="surrogate"`` nothing was said of the exact gap, which may exceed its limit.
        is_met = bool(np.nanmax(self.excess) <= ROUNDING_OF_GAPS)
        if is_met and not self.satisfied_outside:
            pairs = zip(self.outside_gaps, self.outside, strict=True)
            gap, next_to = max(pairs, key=lambda pair: pair[0].value - pair[1].max_gap)
            return (
                f"Constraint NOT satisfied outside the interval: training gap "
                f"{gap_text(gap.value, next_to.max_gap)} at the adjoining ranks "
                f"{ranks_text(as_interval_set(next_to.interval))}, limit {next_to.max_gap:.4g} "
                f"({' vs '.join(map(group_name, gap.groups))})"
            )
        of_surrogate = "" if self.enforce == "exact" else " (imposed on the surrogate)"
        pair = " vs ".join(map(group_name, worst.groups))
        training_gap = min(worst.value, limit) if is_met else worst.value  # not above it by rounding alone
        which = "training gap nearest to its limit" if several else "training gap"
        answer = (
            f"Constraint{several} {'satisfied' if is_met else 'NOT satisfied'}{of_surrogate}: {which} "
            f"{gap_text(training_gap, limit)}, limit {limit:g} ({pair})"
        )
        return answer if self.satisfied_outside else f"{answer}; NOT satisfied next to the interval"

    def __str__(self) -> str:
        lines = [self.verdict]
        if self.population is not None:
            lines.append(self.population.basis)
        if self.infeasibility is not None:
            lines.append(f"infeasibility reason: {self.infeasibility}")
        top = "the top" if self.higher_is_better else "the best, the lowest scores"
        for constraint, gap in zip(self.constraints, self.gaps, strict=True):
            if not np.isnan(gap.value):
                pair = " and ".join(map(group_name, gap.groups))
                ranks = " and ".join(percent(rank) for rank in gap.ranks)
                where = "" if np.isnan(gap.ranks).any() else f", at ranks {ranks} from {top}"
                lines.append(
                    f"{type(constraint).__name__}: exact training gap {gap.value:.4g} (max_gap "
                    f"{constraint.max_gap:g}), between {pair}{where}"
                )
        for constraint, gap in zip(self.outside, self.outside_gaps, strict=True):
            ranks, groups = ranks_text(as_interval_set(constraint.interval)), map(group_name, gap.groups)
            lines.append(
                f"outside, at the adjoining ranks {ranks}: exact training gap {gap.value:.4g} (limit "
                f"{constraint.max_gap:.4g}, the gap without a constraint), between {' and '.join(groups)}"
            )
        if self.small_groups:
            names = listed([group_name(label) for label in self.small_groups])
            lines.append(f"excluded, too small to evaluate: {names}")
        if self.population is not None and self.population.not_evaluated:
            left_out = [group_name(label) for label in self.population.not_evaluated]
            lines.append(f"too few held out, so nothing is said of: {listed(left_out)}")
        if self.interval_chosen:
            lines.append(CHOSEN_IN_TRAINING)
        if not np.isnan(self.accuracy):
            lines.append(
                f"training accuracy {self.accuracy:.4f}, of the constant model {self.constant_accuracy:.4f}"
                + (": it is not higher" if self.accuracy <= self.constant_accuracy else "")
            )
        if self.advice is not None:
            lines.append(f"advice: {self.advice}")
        last, larger = self.history[-1], ""
        if self.tol > USUAL_TOL:
            larger = f" ({self.tol / USUAL_TOL:g} times that of linear models by default)"
        of_point = f", surrogate constraints violated by {self.max_violation:.1e}"
        if self.candidates:
            of_point = f"; of the KKT point {self.kkt.objective:.6g}, exact gap {self.kkt.gap:.4g}"
        lines += [
            f"solver: {self.status} after {last.step} steps, {last.passes:,} passes over data, "
            f"{last.seconds:.2f} s",
            f"objective {self.objective:.6g}, of the constant model {self.constant_objective:.6g}{of_point}",
            f"KKT certificate, to be at most {self.tol:g}{larger}: {self.kkt}",
        ]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<FitResult: {shorten(self.verdict, 200)}; status {self.status}>"

    def _repr_html_(self) -> str:
        names = [type(constraint).__name__ for constraint in self.constraints]
        names += [f"outside, {ranks_text(as_interval_set(one.interval))}" for one in self.outside]
        limits = [constraint.max_gap for constraint in (*self.constraints, *self.outside)]
        rows = [
            [name, gap_text(gap.value, limit), f"{limit:.4g}", " vs ".join(map(group_name, gap.groups))]
            for name, gap, limit in zip(names, (*self.gaps, *self.outside_gaps), limits, strict=True)
            if not np.isnan(gap.value)
        ]
        columns = ["constraint", "training gap", "limit", "between"]
        # Of several constraints each has its own limit, and a model of the search only one gap.
        draw = self._draw_search if len(rows) == 1 and len(self.candidates) > 1 else None
        return result_html(self.verdict, columns, rows, notes=str(self).splitlines()[1:], draw=draw)

    def _draw_search(self, ax: Axes) -> None:
        """Draw what the constraint costs in training: gaps and objectives of the models that were tried."""
        without, *others = self.candidates
        tried = [one for one in others if one.tied_share < 1]  # equal scores are no model
        ax.plot([one.gap for one in tried], [one.objective for one in tried], ".", color="0.6", label="tried")
        ax.plot(without.gap, without.objective, "s", color="0.25", label=f"no constraint ({without.gap:.3g})")
        ax.plot(self.gap, self.objective, "o", label=f"this model ({self.gap:.3g})")
        ax.axvline(self.constraints[0].max_gap, color="0.6", linestyle="--", label="limit")
        ax.set(xlabel="training gap", ylabel="objective (training loss and penalty)", xlim=(0, None))
        ax.legend(frameon=False)
