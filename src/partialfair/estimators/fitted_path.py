"""The models of a path on validation rows, and which of them satisfy a limit in the population.

Models are tested in an order that does not depend on the held-out rows. For each of them the null hypothesis
is "its gap is larger than the limit"; rejecting it validates the model. The error δ is divided equally among
a few *starts* in that order. A walk begins at each start with the start's part of δ. After a model that is
validated, the walk continues with its full error; when it reaches another start, it adds that start's part;
at the first model that is not validated it ends:

    place in the order    0     1     2     3     4     5     6
    error of a start      δ/2   0     0     δ/2   0     0     0
    tested at             δ/2   δ/2   δ/2   δ     δ     δ     –     (5 fails: the walk ends, 6 is not tested)

This is the fallback procedure (Wiens 2003), which is slightly more powerful than the fixed sequences with
several starts of "Learn then Test" (Angelopoulos et al. 2021). With probability 1 − δ no model is validated
wrongly. Proof: let t₁ < t₂ < … be the places whose gap *is* too large. If one of them is validated, let t_j
be the first. No t_i with i < j was validated, so every walk ended at t_{j−1} at the latest, and t_j was
tested with at most the error of the starts in (t_{j−1}, t_j]. The probability that this test errs is at most
its level, and these levels add up to at most δ.

Hence all validated models may be compared by any other measure on the same rows, and the best one chosen.
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
"""Number of starts that share the error: the beginning, one third and two thirds of the order.

A single start fails if the models with the smallest training gaps are fitted to noise, so that their gaps on
new data are not smaller. Every further start reduces the error of the others: the normal quantile is 1.64 at
5%, 1.96 at half of it and 2.13 at a third. The choice matters little: on 23 splits of law school with nine
models each, one, two and three starts validated some model equally often (18 times), and three starts reached
the loosest models on average; eight other combinations of places and errors validated 15 to 19 times.
"""


REALISTIC_FACTOR = 30
"""An estimate of the required rows above this multiple of the present number is mostly noise."""


def place_starts(n_models: int, n_starts: int = N_STARTS) -> tuple[int, ...]:
    """Return the places at which walks begin: the first, and others at equal distances."""
    return tuple(sorted({n_models * k // n_starts for k in range(n_starts)})) if n_models else ()


def validate_places(
    n_models: int, error: float, passes: Callable[[int, float], bool], starts: Sequence[int] | None = None
) -> dict[int, float]:
    """Return the places in the order that are validated, each with the error at which it was tested.

    Parameters
    ----------
    n_models
        Number of models.
    error
        δ, the probability with which one or more models may be validated wrongly.
    passes
        ``passes(place, level)``: whether the model at a place passes a test with error at most ``level``. It
        is called in order and not for every place.
    starts
        Places at which walks begin; by default those of `place_starts`.
    """
    begun = set(place_starts(n_models) if starts is None else starts)
    validated: dict[int, float] = {}
    n_shares = 0
    for place in range(n_models):
        # A walk that reaches a start adds its part of the error.
        n_shares += place in begun
        if not n_shares:
            continue
        # The error of all starts since the last failure.
        level = error * n_shares / len(begun)
        if passes(place, level):
            validated[place] = level
        else:
            n_shares = 0
    return validated


def find_lowest(n_models: int, error: float, bound: Callable[[int, float], float]) -> tuple[int, float]:
    """Return the model with the lowest upper bound; all bounds hold except with probability ``error``.

    The error is divided by the number of models (Bonferroni), so the bound holds for any choice of model and
    needs no order. Unknown bounds (nan) come last.
    """
    bounds = [bound(place, error / n_models) for place in range(n_models)]
    lowest = min(range(n_models), key=lambda place: (math.isnan(bounds[place]), bounds[place]))
    return lowest, bounds[lowest]


def estimate_rows_needed(
    n_rows: int, gaps: Sequence[float], radii: Sequence[float], limit: float
) -> int | None:
    """Return roughly how many rows would validate a model; None if no gap is below the limit.

    The estimate assumes that gaps stay as estimated and that the width of bounds decreases as 1/√n.
    """
    needed = [
        n_rows * (radius / (limit - gap)) ** 2 for gap, radius in zip(gaps, radii, strict=True) if gap < limit
    ]
    if not needed or not math.isfinite(min(needed)):
        return None
    least = max(min(needed), n_rows + 1.0)  # the present rows were not enough
    # Rounded up to two digits, because the number is rough.
    step = 10.0 ** (math.floor(math.log10(least)) - 1)
    return round(math.ceil(least / step) * step)


@dataclass(frozen=True, eq=False, repr=False)
class FairnessPath:
    """Models with decreasing limits, with their scores and gaps on validation rows.

    `fairness_path` returns this object.

    Attributes
    ----------
    points : tuple of PathPoint
        The models, by ``alpha`` and then by decreasing ``max_gap``. The first of each ``alpha`` is the
        unconstrained model, whose ``max_gap`` is infinite.
    scoring : str
        Name of the score by which models are compared.
    validation : Samples
        Rows on which models are evaluated: the held-out rows, or all rows with ``cv``.
    min_group_size : int
        Smallest group that is evaluated on them, as in `fairness_report`.
    small_groups : str
        How smaller groups are treated, as in `fairness_report`.
    record : NamedConstraint
        Name of the constraint and of the metric that it bounds.
    folds : ndarray of shape (n_samples,) or None
        With ``cv`` the fold of every row.

    See Also
    --------
    fairness_path : Fit the models of a path.

    Notes
    -----
    With ``cv`` scores are *out of fold*: every row is scored by a model that was trained without it, one
    model per fold. Gaps and scores then estimate the average over models trained like these on that fraction
    of the rows. The ``model`` of each point was fitted on all rows, and its own gap is not measured, because
    no held-out rows remain. Therefore `best` and `validated`, which concern one model in the population,
    raise `InputError` for such a path; `select_by_estimate` chooses without a guarantee.

    Examples
    --------
    >>> import numpy as np
    >>> from partialfair import PartialFairClassifier, fairness_path
    >>> rng = np.random.default_rng(0)
    >>> groups = rng.choice(["a", "b"], 2000)
    >>> X = rng.normal(size=(2000, 2)) + np.outer(groups == "a", [1, 0])
    >>> y = X.sum(axis=1) + rng.normal(size=2000) > 0.5
    >>> clf = PartialFairClassifier(interval=(0.1, 0.6))
    >>> fairness_path(clf, X, y, sensitive_features=groups, max_gaps=[0.2])
    <FairnessPath: 2 models, evaluated on 400 rows held out>
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
        """Name of the rows on which models are evaluated: "held out" or "out of fold"."""
        return "held out" if self.folds is None else "out of fold"

    @property
    def meaning(self) -> str | None:
        """Explanation of out-of-fold figures; None for held-out rows."""
        return None if self.folds is None else explain_folds(self.folds)

    def report(self, point: PathPoint, confidence: float = 0.95) -> FairnessReport:
        """Return all metrics of a model on the validation rows, with confidence intervals.

        Parameters
        ----------
        point : PathPoint
            A model of the path.
        confidence : float, default=0.95
            Confidence level of the intervals.

        Returns
        -------
        FairnessReport
            The report of the model.
        """
        key = (self.points.index(point), confidence)
        if key not in self._reports:
            labels, arguments = self._arguments(point, confidence)
            self._reports[key] = fairness_report(labels, point.scores, **arguments)
        return self._reports[key]

    def gap(self, point: PathPoint, confidence: float = 0.95) -> ReportRow:
        """Return the gap that the constraint limits, on the validation rows.

        Parameters
        ----------
        point : PathPoint
            A model of the path.
        confidence : float, default=0.95
            Confidence level of the interval.

        Returns
        -------
        ReportRow
            The gap with its confidence interval and bounds.
        """
        report, metric = self.report(point, confidence), self.record.metric
        if metric in report.omitted:
            raise InputError(
                f"{metric} {report.omitted[metric]}, on the {self.validation.n:,} validation rows; hold out "
                "more rows"
            )
        return report[metric]

    def best(self, max_gap: float, confidence: float = 0.95) -> Any:
        """Return the best model whose gap in the population is at most ``max_gap``.

        This is the model with the best score among those that `validated` returns; of equal scores, the one
        with the smallest training gap. The confidence accounts for choosing among several models.

        Parameters
        ----------
        max_gap : float
            Limit on the gap in the population.
        confidence : float, default=0.95
            Confidence with which the limit holds.

        Returns
        -------
        estimator
            The fitted estimator of the chosen model.
        """
        validated = self.validated(max_gap, confidence)
        if not validated:
            shortfall = self.explain_shortfall(max_gap, 1 - confidence)
            raise InputError(
                f"no model of the path has a gap of at most {max_gap:g} with confidence {confidence:g} on "
                f"the {self.validation.n:,} validation rows; {shortfall}; or add smaller max_gaps"
            )
        return find_best(validated).model

    def validated(self, max_gap: float, confidence: float = 0.95) -> tuple[PathPoint, ...]:
        """Return the models whose gaps in the population are at most ``max_gap``, simultaneously.

        Models are tested on the validation rows in an order that does not depend on these rows: by training
        gap, the smallest first. A model passes if the upper confidence bound of its gap is at most
        ``max_gap``; with few validation rows only models with small gaps pass. Any of the returned models may
        be chosen for any reason.

        Parameters
        ----------
        max_gap : float
            Limit on the gap in the population.
        confidence : float, default=0.95
            Confidence with which the limit holds for all returned models.

        Returns
        -------
        tuple of PathPoint
            The validated models, smallest training gap first.
        """
        check_number(max_gap, "max_gap", low=0.0, high=self.record.kind.largest_gap)
        if self.folds is not None:
            raise InputError(
                "a population guarantee is about one model, and out-of-fold gaps are about "
                f"{len(np.unique(self.folds))} models, one for each fold; leave cv out and hold rows out, or "
                "use select_by_estimate"
            )
        self._check_evaluated()
        return tuple(self.find_validated(max_gap, 1 - confidence))

    def find_validated(self, max_gap: float, error: float) -> dict[PathPoint, float]:
        """Return the validated models, smallest training gap first, each with the error of its test.

        Except with probability ``error``, the gap in the population is at most ``max_gap`` for all of them.
        """
        # Whether a model violates a limit outside depends on training rows only, as does the order.
        ordered = order_by_training_gap([one for one in self.points if one.model.result_.satisfied_outside])
        places = validate_places(
            len(ordered), error, lambda k, level: self._bound(ordered[k], level) <= max_gap
        )
        return {ordered[place]: level for place, level in places.items()}

    def find_lowest_bound(self, error: float) -> tuple[PathPoint, float]:
        """Return the model with the lowest upper bound; all bounds hold except with probability ``error``."""
        place, bound = find_lowest(
            len(self.points), error, lambda k, level: self._bound(self.points[k], level)
        )
        return self.points[place], bound

    def explain_shortfall(self, max_gap: float, error: float) -> str:
        """Return how far the models are from validation, and roughly how many rows would be enough."""
        lowest, rows = self.find_lowest_bound(error)[1], [self.gap(point) for point in self.points]
        # The level at which the model at the first start is tested.
        level = error / len(place_starts(len(rows)))
        n_needed = estimate_rows_needed(
            self.validation.n, [row.gap for row in rows], [row.radius(level) for row in rows], max_gap
        )
        if n_needed is None:
            advice = f"no model's estimate is below {max_gap:g}, so more rows alone may not be enough"
        elif n_needed > REALISTIC_FACTOR * self.validation.n:
            advice = f"the estimates are too close to {max_gap:g} for a sample of realistic size"
        else:
            advice = (
                f"roughly {n_needed:,} held-out rows would be enough if the estimated gaps stay and the "
                "width of bounds decreases as 1/√n"
            )
        return (
            f"the lowest upper bound is {lowest:.3g} (simultaneous for all {len(self.points)} models); "
            f"{advice}"
        )

    def _bound(self, point: PathPoint, error: float) -> float:
        return self.gap(point).bound_above(error)  # independent of the confidence of the report

    def select_by_estimate(self, max_gap: float) -> Any:
        """Return the model with the best score among those whose estimated gap is at most ``max_gap``.

        There is no guarantee: the estimate may be too small by chance, and choosing makes that more likely.

        Parameters
        ----------
        max_gap : float
            Limit on the estimated gap.

        Returns
        -------
        estimator
            The fitted estimator of the chosen model.
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
        """Raise `InputError` if the gap of no model can be evaluated: it would count as 0."""
        rows = [self.gap(point) for point in self.points]
        if all(row.reason for row in rows):
            raise InputError(
                f"{self.record.metric} is not evaluated for any model of the path ({rows[0].reason}); choose "
                "an interval that contains the selection rate, or constraint='statistical_parity'"
            )

    def compare(self, point_a: PathPoint, point_b: PathPoint, confidence: float = 0.95) -> GapComparison:
        """Compare the gaps of two models on the validation rows, on the interval of the first model.

        Parameters
        ----------
        point_a : PathPoint
            The model to compare with.
        point_b : PathPoint
            The model that is compared.
        confidence : float, default=0.95
            Confidence level of the intervals.

        Returns
        -------
        GapComparison
            Differences of the gaps, as `partialfair.metrics.compare_gaps` returns them.
        """
        labels, arguments = self._arguments(point_a, confidence)
        return compare_gaps(labels, point_a.scores, point_b.scores, **arguments)

    def _arguments(self, point: PathPoint, confidence: float) -> tuple[Any, dict[str, Any]]:
        """Return the labels, and the settings with which a model is evaluated: those of its constraint."""
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
            "missing_groups": "ignore",  # such rows count in the score only
        }

    def to_frame(self, confidence: float = 0.95) -> pd.DataFrame:
        """Return one line per model: its limit, status, score and gap on validation rows.

        Parameters
        ----------
        confidence : float, default=0.95
            Confidence level of the intervals.

        Returns
        -------
        pandas.DataFrame
            With ``cv``, ``folds_satisfied`` is the number of folds whose training satisfied the constraint.
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
            # Next to the training gap: in how many folds training satisfied the constraint, if there is one.
            folds = [[model.result_.satisfied for model in point.fold_models] for point in self.points]
            satisfied = [None if None in of_point else sum(of_point) for of_point in folds]
            frame.insert(4, "folds_satisfied", pd.Series(satisfied, dtype="Int64"))
        return frame

    def plot(self, *, ax: Axes | None = None, **options: Any) -> Axes:
        """Draw the frontier of scores and gaps.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on; None creates a figure.
        **options : dict
            Further arguments of `partialfair.plotting.frontier.plot_path`.

        Returns
        -------
        matplotlib Axes
            The axes of the figure.
        """
        from partialfair.plotting.frontier import plot_path

        return plot_path(self, ax=ax, **options)

    def to_html(self, path: str | Path | None = None, *, confidence: float = 0.95) -> str | None:
        """Return the HTML report of the models on the validation rows, or write it to a file.

        Parameters
        ----------
        path : str or Path, default=None
            File to write; None returns the HTML text.
        confidence : float, default=0.95
            Confidence level of the intervals.

        Returns
        -------
        str or None
            The HTML text, or None if it was written to a file.
        """
        from partialfair.report.pages import path_page, write_page

        text = path_page(self, confidence=confidence)
        if path is None:
            return text
        write_page(text, path)
        return None

    @property
    def summary(self) -> str:
        """Number of models, and the rows that they were evaluated on, as text."""
        return f"{len(self.points)} models, evaluated on {self.validation.n:,} rows {self.evaluated_on}"

    def __str__(self) -> str:
        meaning = "" if self.meaning is None else f"\n{self.meaning}"
        return f"{self.summary}\n{self.to_frame().to_string()}{meaning}"

    def __repr__(self) -> str:
        return f"<FairnessPath: {self.summary}>"

    def _repr_html_(self) -> str:
        gaps = [(self.gap(point).gap, point) for point in self.points]
        known = [pair for pair in gaps if np.isfinite(pair[0])]
        # From the unconstrained model to the one with the smallest gap.
        ends = [known[0], min(known, key=lambda pair: pair[0])] if known else []
        stated = [f"{fixed(gap)} at {self.scoring} {fixed(one.score)} ({one.allowed})" for gap, one in ends]
        verdict = f"Gap {' down to '.join(dict.fromkeys(stated)) or 'not evaluated'}. {self.summary}."
        notes = [*filter(None, [self.meaning])]
        table = frame_cells(self.to_frame().drop(columns="seconds"))
        return result_html(verdict, *table, notes=notes, draw=self.plot)


def order_by_training_gap(points: Sequence[PathPoint]) -> list[PathPoint]:
    """Return the models in the order in which they are tested: smallest training gap first.

    The order must not depend on held-out rows; otherwise the confidence would not hold.
    """
    return sorted(
        points, key=lambda one: (math.isnan(one.training_gap), one.training_gap, one.max_gap, one.alpha)
    )


def find_best(validated: Sequence[PathPoint]) -> PathPoint:
    """Return the model with the best score; of equal scores, the one with the smallest training gap."""
    return max(validated, key=lambda point: (point.score, -point.training_gap))
