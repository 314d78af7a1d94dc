"""The result of a fit: status, gaps, KKT certificate, history, and the population guarantee."""

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
    "the interval was chosen for its large gap on the training rows under the unconstrained model; held-out "
    "rows had no influence on the choice, so their figures need no correction for it"
)
"""What ``interval="auto"`` means for the figures."""

USUAL_TOL = 1e-4
"""The default ``tol`` of linear models; trees have a larger one."""

ROUNDING_OF_GAPS = 1e-12
"""By how much an exact gap may exceed its limit: sums of fractional weights are not exact."""


@dataclass(frozen=True)
class Candidate:
    """One line of a search: a model, how it was found, and its evaluation.

    Attributes
    ----------
    how : str
        The step of the search that found it.
    steps : int
        Number of models that the step evaluated.
    gap, objective, tied_share : float
        The exact gap that is largest relative to its limit, the objective, and the fraction of the weight on
        the most common score.
    seconds : float
        Run time of the step.
    satisfied : bool
        Whether the model satisfies the constraint.
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
    """The population guarantee of a model, with ``enforce="population"``.

    Attributes
    ----------
    max_gap, confidence : float
        The limit, and the confidence with which it is to hold.
    validated : bool
        Whether held-out rows validate the model. With probability ``confidence`` no model is validated whose
        gap in the population exceeds ``max_gap``; this accounts for choosing among several models.
    upper_bound : float
        Upper confidence bound of the model's gap. For a validated model, the bound at the error of its own
        test; after the choice only ``max_gap`` holds with ``confidence``. Otherwise the lowest bound of all
        models, which hold simultaneously.
    gap : float
        The estimate on the held-out rows.
    n_rows : int
        Number of held-out rows.
    n_models, n_validated : int
        Number of trained models, and number of validated ones.
    trained_max_gap : float
        Limit with which the model was trained; infinite for the unconstrained model.
    scoring : str
        Score by which validated models were compared.
    score, score_without : float
        Its value on the held-out rows, for the model and for the unconstrained model.
    not_evaluated : tuple
        Groups that were not evaluated because too few of their rows, or none, were held out.
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
        """The answer as text."""
        sure = f"{short_percent(self.confidence)} confidence"
        if self.validated:
            return f"with {sure} the gap on new data is at most {self.max_gap:g}"
        return f"no model was validated: none has, with {sure}, a gap of at most {self.max_gap:g} on new data"

    @property
    def basis(self) -> str:
        """The figures behind the answer, in words."""
        trained = "no constraint" if np.isinf(self.trained_max_gap) else f"max_gap {self.trained_max_gap:.3g}"
        return (
            f"{self.n_validated} of {self.n_models} models validated on {self.n_rows:,} held-out rows, where "
            f"the gap of this model, trained with {trained}, is {self.gap:.3g} and its upper confidence "
            f"bound {self.upper_bound:.3g}"
        )


@dataclass(frozen=True, eq=False, repr=False)
class FitResult:
    """The result of a fit, in ``result_`` of a fitted estimator.

    Attributes
    ----------
    status : Status
        CONVERGED if a feasible point was found whose KKT certificate holds at ``tol``, and the model is
        feasible and no worse than that point. FEASIBLE if the model is feasible, and no such point was found.
    objective : float
        Weighted mean loss plus penalty.
    max_violation : float
        ``max(0, max_i f_i)``: violation of the surrogate constraints, on the scale of ``max_gap``.
    constraints : tuple of Constraint
        The constraints; automatic intervals are filled in.
    gaps : tuple of WorstGap
        The exact training gap of each constraint, as `partialfair.metrics` measures it, with the two groups,
        the score and the ranks at which they differ most.
    thresholds : ndarray
        The thresholds θ of all constraints.
    infeasibility : str or None
        The infeasibility reason: the most violated constraint if no feasible model was found, or how far the
        models are from validation. None if the model is feasible.
    surrogate : Surrogate or None
        The surrogate that was used; None without constraints.
    tied_share : float
        Fraction of the training weight on the most common score; 1 if all scores are equal.
    spread : float
        Spread of the training scores. Below the width of the surrogate, surrogate constraints are
        uninformative.
    history : tuple of Record
        Records of the steps: passes over the data, seconds, objective, violation.
    kkt : `Certificate`
        The KKT certificate: residuals of the nearly ε-KKT conditions (section "Inexact DCA" of the paper) and
        multipliers, in units in which every feature has mean 0 and standard deviation 1 (without intercepts:
        root mean square 1).
    tol : float
        Tolerance of the residuals.
    enforce : str
        What the limit applies to: exact gaps (``"exact"``), surrogates (``"surrogate"``) or gaps in the
        population (``"population"``). In the last case all attributes but ``status``, ``infeasibility`` and
        ``population`` describe the training rows.
    small_groups : tuple
        Groups that some constraint excludes because they are too small.
    higher_is_better : bool
        Whether the constraints count ranks from the highest scores.
    candidates : tuple of Candidate
        With ``enforce="exact"``, the models that were tried, with their exact gaps, objectives and seconds.
    population : Population or None
        The population guarantee, with ``enforce="population"``.
    interval_chosen : bool
        Whether an interval was chosen on the training rows (``interval="auto"``).
    outside, outside_gaps : tuple
        With ``outside="no_worse"``, constraints next to the interval, whose ``max_gap`` is the exact training
        gap of the unconstrained model there, and the gaps of this model. Empty otherwise.
    constant_objective : float
        Objective of the constant model, whose scores are all equal.
    accuracy, constant_accuracy : float
        Weighted training accuracy of the model and of the constant model; nan for regressors.
    advice : str or None
        A change that would recover most of the accuracy that the constraint costs, if one is known.

    See Also
    --------
    PartialFairClassifier : Its fits set ``result_``.

    Examples
    --------
    >>> import numpy as np
    >>> from partialfair import PartialFairClassifier
    >>> rng = np.random.default_rng(0)
    >>> groups = rng.choice(["a", "b"], 400)
    >>> X = rng.normal(size=(400, 2)) + np.outer(groups == "a", [1, 0])
    >>> y = X.sum(axis=1) + rng.normal(size=400) > 0.5
    >>> clf = PartialFairClassifier(interval=(0.1, 0.5), max_gap=0.1)
    >>> clf.fit(X, y, sensitive_features=groups).result_.satisfied
    True
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
        """How much lower the objective of the model is than that of the KKT point, ``kkt.objective``."""
        return float(self.kkt.objective - self.objective)

    @property
    def satisfied(self) -> bool | None:
        """Whether every exact training gap is at most its ``max_gap``, outside the interval as well.

        With ``enforce="population"``, whether the model is validated. None without constraints, with
        ``enforce="surrogate"``, and if a constraint has no exact metric.
        """
        if self.population is not None:
            return self.population.validated
        excess = self.excess
        if self.enforce != "exact" or np.isnan(excess).all():
            return None
        return bool(np.nanmax(excess) <= ROUNDING_OF_GAPS) and self.satisfied_outside

    @property
    def satisfied_outside(self) -> bool:
        """Whether no gap next to the interval exceeds its limit; True if there are no such limits."""
        pairs = zip(self.outside_gaps, self.outside, strict=True)
        return all(gap.value - constraint.max_gap <= ROUNDING_OF_GAPS for gap, constraint in pairs)

    @property
    def excess(self) -> Floats:
        """Excess of each exact gap over its limit; nan if the constraint has no exact metric."""
        pairs = zip(self.gaps, self.constraints, strict=True)
        return np.array([gap.value - constraint.max_gap for gap, constraint in pairs])

    @property
    def binding(self) -> WorstGap | None:
        """The gap that is largest relative to its limit; None if no constraint has an exact metric."""
        excess = self.excess
        return None if np.isnan(excess).all() else self.gaps[int(np.nanargmax(excess))]

    @property
    def gap(self) -> float:
        """The exact gap of ``binding``; nan if there is none."""
        return float("nan") if self.binding is None else self.binding.value

    def in_units(self, unit: float) -> FitResult:
        """Convert everything that depends on the unit of scores to units of 1.

        Parameters
        ----------
        unit : float
            The unit of scores in this result.

        Returns
        -------
        FitResult
            The converted result.
        """
        records = [record_of(constraint) for constraint in self.constraints]
        in_scores = [record is not None and record.bounded.in_scores for record in records]
        gaps = tuple(
            replace(
                gap, value=abs(unit) * gap.value if is_score else gap.value, threshold=unit * gap.threshold
            )
            for gap, is_score in zip(self.gaps, in_scores, strict=True)
        )
        # Gaps of candidates are differences of scores only if all constraints limit such differences.
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
        """Return the stored state, with the status as text and the history as an array."""
        history = np.array([astuple(line) for line in self.history], dtype=np.float64)
        return {
            **self.__dict__,
            "status": self.status.value,
            "history": history,
            "candidates": [astuple(line) for line in self.candidates],
            "population": None if self.population is None else self.population.__dict__,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        history = tuple(
            Record(int(step), int(passes), *measured) for step, passes, *measured in state["history"].tolist()
        )
        stored = state["population"]
        self.__dict__.update(
            state,
            status=Status(state["status"]),
            history=history,
            candidates=tuple(Candidate(*line) for line in state["candidates"]),
            population=None if stored is None else Population(**stored),
        )

    @property
    def verdict(self) -> str:
        """The answer as text: whether the constraint is satisfied, the gap, the limit and the groups."""
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
        # With ``enforce="surrogate"`` the exact gap has no limit of its own.
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
        training_gap = min(worst.value, limit) if is_met else worst.value  # not above by rounding alone
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
            lines.append(f"not evaluated, too few of their rows held out: {listed(left_out)}")
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
        # With several constraints each has its own limit, and candidates have one gap each: no figure.
        draw = self._draw_search if len(rows) == 1 and len(self.candidates) > 1 else None
        return result_html(self.verdict, columns, rows, notes=str(self).splitlines()[1:], draw=draw)

    def _draw_search(self, ax: Axes) -> None:
        """Draw the training gaps and objectives of the models that were tried."""
        without, *others = self.candidates
        tried = [one for one in others if one.tied_share < 1]  # omit models with equal scores
        ax.plot([one.gap for one in tried], [one.objective for one in tried], ".", color="0.6", label="tried")
        ax.plot(without.gap, without.objective, "s", color="0.25", label=f"no constraint ({without.gap:.3g})")
        ax.plot(self.gap, self.objective, "o", label=f"this model ({self.gap:.3g})")
        ax.axvline(self.constraints[0].max_gap, color="0.6", linestyle="--", label="limit")
        ax.set(xlabel="training gap", ylabel="objective (training loss and penalty)", xlim=(0, None))
        ax.legend(frameon=False)
