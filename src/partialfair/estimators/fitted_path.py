"""The models of a path on validation rows, and which of them satisfy a limit in the population.

Models are put in an order that held-out rows had no influence on, the most promising first. "Its gap is
larger than the limit" is the null hypothesis of each; rejecting it validates the model. A few *starts* share
the error δ. A walk begins at each of them with the start's share, goes on with all of its error from every
model that is validated, takes up the share of a start that it comes to, and ends at the first model that is
not validated:

    place in the order    0     1     2     3     4     5     6
    share of a start      δ/2   0     0     δ/2   0     0     0
    tested at             δ/2   δ/2   δ/2   δ     δ     δ     –     (5 fails: the walk ends, 6 is not tested)

This is the fallback procedure (Wiens 2003), which does a little more than the fixed sequences with several
starts of "Learn then Test" (Angelopoulos et al. 2021). With probability 1 − δ nothing is validated wrongly:
let t₁ < t₂ < … be the places whose gap *is* too large. If one of them is validated, look at the first, t_j.
None of those before it was validated, so every walk ended at t_{j−1} at the latest, and t_j was tested with
no more than the shares of the starts in (t_{j−1}, t_j]. Each of these tests errs with no more than its level,
and the shares add up to δ.

So all validated models may be compared by any other measure, on the same rows, and the best be taken.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import is_regressor

from partialfair.data.samples import Samples
from partialfair.estimators.held_out import explain_folds
from partialfair.estimators.path_fits import PathPoint
from partialfair.exceptions import InputError
from partialfair.metrics import compare_gaps, fairness_report
from partialfair.metrics.catalogue import report_metrics
from partialfair.metrics.paired import GapComparison
from partialfair.metrics.report import FairnessReport, ReportRow
from partialfair.training.named_constraints import NamedConstraint, record_of, setting_of
from partialfair.utils.checks import check_number
from partialfair.utils.notebook import frame_cells, result_html
from partialfair.utils.text import fixed
from partialfair.utils.typing import Ints, SmallGroups

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

N_STARTS = 3
"""Starts that share the error: at the beginning, and after a third and two thirds of the order.

The first alone fails where the models that seem fairest in training are fitted to its noise, and no fairer
than looser ones. Every further start takes error from the others: the quantile of the normal distribution is
1.64 at 5%, 1.96 at a half of it and 2.13 at a third. The choice matters little: on 23 splits of law school,
nine models each, one, two and three starts validated some model equally often (18 times) and three reached
the loosest on average; other places and shares of the error, of which eight were tried, gave 15 to 19 times.
"""


REALISTIC_FACTOR = 30
"""More than so many times the rows there are is no advice: their number is then mostly noise, too."""


def place_starts(n_models: int, n_starts: int = N_STARTS) -> tuple[int, ...]:
    """Return the places at which walks begin: the first, and others at equal distances."""
    return tuple(sorted({n_models * k // n_starts for k in range(n_starts)})) if n_models else ()


def certify_places(
    n_models: int, error: float, passes: Callable[[int, float], bool], starts: Sequence[int] | None = None
) -> dict[int, float]:
    """Return the places in the order that are validated, each with the error at which it was tested.

    Parameters
    ----------
    n_models
        How many there are.
    error
        δ, the probability with which one or more may be validated wrongly.
    passes
        ``passes(place, level)``: whether the model at a place passes a test that errs with no more than that
        probability; it is called in order, and not for all.
    starts
        Places at which walks begin; by default those of `place_starts`.
    """
    begun = set(place_starts(n_models) if starts is None else starts)
    certified: dict[int, float] = {}
    n_shares = 0
    for place in range(n_models):
        # A walk takes up the share of a start that it comes to.
        n_shares += place in begun
        if not n_shares:
            continue
        # All of the error that arrived here: shares of starts since the last failure.
        level = error * n_shares / len(begun)
        if passes(place, level):
            certified[place] = level
        else:
            n_shares = 0
    return certified


def find_lowest(n_models: int, error: float, bound: Callable[[int, float], float]) -> tuple[int, float]:
    """Return the model with the lowest upper bound, all bounds holding at once but with that probability.

    The error is divided by the number of models (Bonferroni). That holds whichever is taken for whatever
    reason, and no order is needed; bounds that are unknown, nan, come last.
    """
    bounds = [bound(place, error / n_models) for place in range(n_models)]
    lowest = min(range(n_models), key=lambda place: (math.isnan(bounds[place]), bounds[place]))
    return lowest, bounds[lowest]


def estimate_rows_needed(
    n_rows: int, gaps: Sequence[float], radii: Sequence[float], limit: float
) -> int | None:
    """Return roughly how many rows would validate a model; None where no gap is below the limit.

    It assumes that gaps stay as they were estimated, and that bounds come closer to them by 1/√n.
    """
    needed = [
        n_rows * (radius / (limit - gap)) ** 2 for gap, radius in zip(gaps, radii, strict=True) if gap < limit
    ]
    if not needed or not math.isfinite(min(needed)):
        return None
    least = max(min(needed), n_rows + 1.0)  # so many were not enough
    # Two digits, rounded up: it is a rough number.
    step = 10.0 ** (math.floor(math.log10(least)) - 1)
    return round(math.ceil(least / step) * step)


@dataclass(frozen=True, eq=False, repr=False)
class FairnessPath:
    """Models from loose to strict, with their scores and gaps on validation rows.

    Attributes
    ----------
    points
        By alpha, and then by falling ``max_gap``; the first of each alpha is the model without constraint,
        whose ``max_gap`` is infinite.
    scoring
        What ``score`` means.
    validation
        The rows that models are evaluated on: those held out, or with ``cv`` all of them.
    min_group_size, small_groups
        Which groups are evaluated on them, as in `fairness_report`.
    record
        The name of the constraint, and the metric that it bounds.
    folds
        With ``cv`` the fold of every row; else None.

    Notes
    -----
    With ``cv`` scores are *out of fold*: every row is scored by a model that was trained without it, one of
    as many as there are folds. Gaps and scores then say how models trained like this, on that fraction of
    the rows, do on the average. ``model`` of each point was fitted on all rows, and its own gap is not
    measured: there are no rows left that it has not seen. So `best` and `validated`, which are about the
    population and one model, refuse such a path; `select_by_estimate` chooses without a guarantee.
    """

    points: tuple[PathPoint, ...]
    scoring: str
    validation: Samples
    min_group_size: int
    small_groups: SmallGroups
    record: NamedConstraint
    _seed: int
    folds: Ints | None = None
    _reports: dict[tuple[int, float], FairnessReport] = field(default_factory=dict, init=False)

    @property
    def evaluated_on(self) -> str:
        """Which rows models are evaluated on, in words: "held out" or "out of fold"."""
        return "held out" if self.folds is None else "out of fold"

    @property
    def meaning(self) -> str | None:
        """What out-of-fold figures say, in a sentence; None of rows held out, which need none."""
        return None if self.folds is None else explain_folds(self.folds)

    def report(self, point: PathPoint, confidence: float = 0.95) -> FairnessReport:
        """Return all metrics of the model on the validation rows, with confidence intervals."""
        key = (self.points.index(point), confidence)
        if key not in self._reports:
            labels, arguments = self._arguments(point, confidence)
            self._reports[key] = fairness_report(labels, point.scores, **arguments)
        return self._reports[key]

    def gap(self, point: PathPoint, confidence: float = 0.95) -> ReportRow:
        """Return the gap that the constraint is about on the validation rows."""
        report, metric = self.report(point, confidence), self.record.metric
        if metric in report.omitted:
            raise InputError(
                f"{metric} {report.omitted[metric]}, on the {self.validation.n:,} validation rows; hold out "
                "more rows"
            )
        return report[metric]

    def best(self, max_gap: float, confidence: float = 0.95) -> Any:
        """Return the best model whose gap is, with that confidence, at most ``max_gap`` in the population.

        The best of those that are `validated`, by score; of equals, the one with the smallest training gap.
        The confidence is that of the answer: it is corrected for choosing among several models.
        """
        certified = self.validated(max_gap, confidence)
        if not certified:
            shortfall = self.explain_shortfall(max_gap, 1 - confidence)
            raise InputError(
                f"no model of the path has a gap of at most {max_gap:g} with confidence {confidence:g} on "
                f"the {self.validation.n:,} validation rows; {shortfall}; or add smaller max_gaps"
            )
        return find_best(certified).model

    def validated(self, max_gap: float, confidence: float = 0.95) -> tuple[PathPoint, ...]:
        """Return the models whose gaps are, all of them with that confidence, at most ``max_gap``.

        Models are tested on the validation rows one after the other, in an order that these have no influence
        on: by training gap, the smallest first (the module's text has the argument). A model
        passes whose upper bound is at most ``max_gap``; few validation rows ask for fairer models. Any of
        those returned, smallest training gap first, may be chosen, for whatever reason.
        """
        check_number(max_gap, "max_gap", low=0.0, high=self.record.kind.largest_gap)
        if self.folds is not None:
            raise InputError(
                "a promise about new people is about one model, and out-of-fold gaps are of "
                f"{len(np.unique(self.folds))} models, one for each fold; leave cv out and hold rows out, or "
                "choose select_by_estimate"
            )
        self._check_evaluated()
        return tuple(self.find_validated(max_gap, 1 - confidence))

    def find_validated(self, max_gap: float, error: float) -> dict[PathPoint, float]:
        """Return the models that are validated, smallest training gap first, and at which error each was.

        But with probability ``error`` the gap in the population is at most ``max_gap`` for all of them.
        """
        # Training rows alone say which models violate a limit outside; held-out rows have no influence on it.
        ordered = order_by_training_gap([one for one in self.points if one.model.result_.satisfied_outside])
        places = certify_places(
            len(ordered), error, lambda k, level: self._bound(ordered[k], level) <= max_gap
        )
        return {ordered[place]: level for place, level in places.items()}

    def find_lowest_bound(self, error: float) -> tuple[PathPoint, float]:
        """Return the model with the lowest upper bound; but with that error all models' bounds hold."""
        place, bound = find_lowest(
            len(self.points), error, lambda k, level: self._bound(self.points[k], level)
        )
        return self.points[place], bound

    def explain_shortfall(self, max_gap: float, error: float) -> str:
        """Say how far from validated the models are, and roughly how many rows would be enough."""
        lowest, rows = self.find_lowest_bound(error)[1], [self.gap(point) for point in self.points]
        # What a model at the first start is tested at.
        level = error / len(place_starts(len(rows)))
        n_needed = estimate_rows_needed(
            self.validation.n, [row.gap for row in rows], [row.radius(level) for row in rows], max_gap
        )
        if n_needed is None:
            advice = f"no model's estimate is below {max_gap:g}, so more rows alone may not do"
        elif n_needed > REALISTIC_FACTOR * self.validation.n:
            advice = f"the estimates are so close to {max_gap:g} that a realistic sample cannot decide"
        else:
            advice = (
                f"roughly {n_needed:,} rows held out would do, if gaps stay as estimated and bounds come "
                "closer to them as 1/√n"
            )
        return (
            f"the lowest upper bound is {lowest:.3g} (at that confidence for all {len(self.points)} models "
            f"at once); {advice}"
        )

    def _bound(self, point: PathPoint, error: float) -> float:
        return self.gap(point).bound_above(error)  # whatever the confidence of the report

    def select_by_estimate(self, max_gap: float) -> Any:
        """Return the model with the best score of those whose estimated gap is at most ``max_gap``.

        Without a guarantee: the estimate may be too small by chance, and choosing makes that likelier.
        """
        check_number(max_gap, "max_gap", low=0.0, high=self.record.kind.largest_gap)
        self._check_evaluated()
        enough = [
            point
            for point in self.points
            if self.gap(point).gap <= max_gap and point.model.result_.satisfied_outside
        ]
        if not enough:
            least = np.nanmin([self.gap(point).gap for point in self.points])
            raise InputError(
                f"no model of the path has an estimated gap of at most {max_gap:g} {self.evaluated_on}; "
                f"the smallest is {least:.3g}; add smaller max_gaps"
            )
        return find_best(enough).model

    def _check_evaluated(self) -> None:
        """Refuse to choose by a gap that is not evaluated for any model: a 0 there is not a merit."""
        rows = [self.gap(point) for point in self.points]
        if all(row.reason for row in rows):
            raise InputError(
                f"{self.record.metric} is not evaluated for any model of the path ({rows[0].reason}); choose "
                "an interval that contains the selection rate, or constraint='statistical_parity'"
            )

    def compare(self, point_a: PathPoint, point_b: PathPoint, confidence: float = 0.95) -> GapComparison:
        """Return by how much the second model's gaps differ from the first's on the validation rows.

        Both are evaluated on the first one's interval; see `partialfair.metrics.compare_gaps`.
        """
        labels, arguments = self._arguments(point_a, confidence)
        return compare_gaps(labels, point_a.scores, point_b.scores, **arguments)

    def _arguments(self, point: PathPoint, confidence: float) -> tuple[Any, dict[str, Any]]:
        """Return labels, and the settings by which a model is evaluated: those of its constraint."""
        rows, labelled = self.validation, not is_regressor(point.model)
        # Intervals by group may name groups that no validation row has.
        constraint = point.constraint.among(rows.groups.labels)
        setting, record = setting_of(constraint), record_of(constraint)
        return rows.y if labelled else None, {
            "sensitive_features": rows.groups,
            "interval": constraint.interval,
            "threshold": setting.threshold,
            "confidence": confidence,
            "gap_scale": setting.gap_scale,
            "rank_within": setting.rank_within,
            "pos_label": point.model.classes_[1] if labelled else 1,
            "sample_weight": rows.weights,
            "clusters": rows.clusters,
            "random_state": self._seed,
            "higher_is_better": point.model.higher_is_better,
            "min_group_size": self.min_group_size,
            "small_groups": self.small_groups,
            "metrics": report_metrics(*([] if record is None else [record.metric])),
            "missing_groups": "ignore",  # such rows, where a model may have any, count in the score only
        }

    def to_frame(self, confidence: float = 0.95) -> pd.DataFrame:
        """Return one line per model: its limit, how the fit ended, score and gap on validation rows.

        With ``cv`` also ``folds_satisfied``: in how many folds the constraint was satisfied in training.
        """
        import pandas as pd

        rows = [(point, self.gap(point, confidence)) for point in self.points]
        frame = pd.DataFrame(
            {
                "max_gap": [point.max_gap for point in self.points],
                "alpha": [point.alpha for point in self.points],
                "status": [str(point.model.result_.status) for point in self.points],
                "training_gap": [point.training_gap for point in self.points],
                "gap": [row.gap for _, row in rows],
                "ci_low": [row.ci_low for _, row in rows],
                "ci_high": [row.ci_high for _, row in rows],
                self.scoring: [point.score for point in self.points],
                f"{self.scoring}_se": [point.error for point in self.points],
                "seconds": [point.seconds for point in self.points],
            }
        )
        if self.folds is not None:
            # In how many folds the constraint was satisfied in training; missing where there was none.
            folds = [[model.result_.satisfied for model in point.fold_models] for point in self.points]
            satisfied = [None if None in of_point else sum(of_point) for of_point in folds]
            frame.insert(
                4, "folds_satisfied", pd.Series(satisfied, dtype="Int64")
            )  # next to the training gap
        return frame

    def plot(self, *, ax: Axes | None = None, **options: Any) -> Axes:
        """Draw the frontier; see `partialfair.plotting.plot_path`, which names the options."""
        from partialfair.plotting.frontier import plot_path

        return plot_path(self, ax=ax, **options)

    def to_html(self, path: str | Path | None = None, *, confidence: float = 0.95) -> str | None:
        """Write the interactive page of the models on the validation rows, or return it without a path."""
        from partialfair.report.pages import path_page, write_page

        text = path_page(self, confidence=confidence)
        if path is None:
            return text
        write_page(text, path)
        return None

    @property
    def summary(self) -> str:
        """How many models, evaluated on what, in a sentence."""
        return f"{len(self.points)} models, evaluated on {self.validation.n:,} rows {self.evaluated_on}"

    def __str__(self) -> str:
        meaning = "" if self.meaning is None else f"\n{self.meaning}"
        return f"{self.summary}\n{self.to_frame().to_string()}{meaning}"

    def __repr__(self) -> str:
        return f"<FairnessPath: {self.summary}>"

    def _repr_html_(self) -> str:
        gaps = [(self.gap(point).gap, point) for point in self.points]
        known = [pair for pair in gaps if np.isfinite(pair[0])]
        # From the model without constraint to the one with the smallest gap.
        ends = [known[0], min(known, key=lambda pair: pair[0])] if known else []
        stated = [f"{fixed(gap)} at {self.scoring} {fixed(one.score)} ({one.allowed})" for gap, one in ends]
        verdict = f"Gap {' down to '.join(dict.fromkeys(stated)) or 'not evaluated'}. {self.summary}."
        notes = [*filter(None, [self.meaning])]
        table = frame_cells(self.to_frame().drop(columns="seconds"))
        return result_html(verdict, *table, notes=notes, draw=self.plot)


def order_by_training_gap(points: Sequence[PathPoint]) -> list[PathPoint]:
    """Return the models in the order in which they are tested: by training gap, the smallest first.

    Held-out rows have no influence on it, or confidence would be lost.
    """
    return sorted(
        points, key=lambda one: (math.isnan(one.training_gap), one.training_gap, one.max_gap, one.alpha)
    )


def find_best(certified: Sequence[PathPoint]) -> PathPoint:
    """Return the model with the best score; of equals, the one with the smallest training gap."""
    return max(certified, key=lambda point: (point.score, -point.training_gap))
