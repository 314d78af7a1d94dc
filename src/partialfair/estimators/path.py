"""The frontier between accuracy and fairness: one model for every limit, evaluated on held-out rows."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import is_regressor

from partialfair.constraints import Constraint
from partialfair.data.samples import Samples
from partialfair.estimators.base import PartialFairEstimator
from partialfair.estimators.certified_choice import (
    Certification,
    evaluation_arguments,
    find_best,
    report_point,
)
from partialfair.estimators.held_out import (
    HeldOut,
    OutOfFold,
    check_group_sizes,
    explain_folds,
    hold_out,
    read_folds,
)
from partialfair.estimators.inputs import read_samples
from partialfair.estimators.parameters import is_rows, read_seed
from partialfair.estimators.path_fits import SCORINGS, PathPoint, fit_points, with_gap
from partialfair.exceptions import InputError
from partialfair.metrics import FairnessReport, GapComparison, ReportRow, compare_gaps
from partialfair.training import NamedConstraint, record_of
from partialfair.utils.checks import check_choice, check_count, check_number, refuse_lazy, shown
from partialfair.utils.typing import ArrayLike, Ints, SmallGroups

__all__ = ["FairnessPath", "PathPoint", "fairness_path"]

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

_HELD_OUT = 0.2


@dataclass(frozen=True, eq=False)
class FairnessPath:
    """Models from loose to strict, what they score on rows held out, and how fair they are there.

    Attributes
    ----------
    points
        By alpha, and then by falling ``max_gap``; the first of each alpha is the model without constraint,
        whose ``max_gap`` is infinite.
    scoring
        What ``score`` means.
    validation
        The rows that models are judged on: those held out, or with ``cv`` all of them.
    min_group_size, small_groups
        Which groups are judged on them, as in `fairness_report`.
    record
        The name of the constraint, and the metric that it bounds.
    folds
        With ``cv`` the fold of every row; else None.

    Notes
    -----
    With ``cv`` scores are *out of fold*: every row is scored by a model that was trained without it, one of
    as many as there are folds. Gaps and scores then say how models trained like this, on that share of the
    rows, do on the average. ``model`` of each point was fitted on all rows, and its own gap is not measured:
    there are no rows left that it has not seen. So `best` and `certified`, which promise something of one
    model, refuse such a path; `by_estimate` chooses without a promise.
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
            self._reports[key] = report_point(self.validation, point, **self._settings(confidence))
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

        The best of those that are `certified`, by score; of equals, the one with the smallest training gap.
        The confidence is that of the answer: it is corrected for choosing among several models.
        """
        certified = self.certified(max_gap, confidence)
        if not certified:
            shortfall = self._certification(confidence).explain_shortfall(max_gap, 1 - confidence)
            raise InputError(
                f"no model of the path has a gap of at most {max_gap:g} with confidence {confidence:g} on "
                f"the {self.validation.n:,} validation rows; {shortfall}; or add smaller max_gaps"
            )
        return find_best(certified).model

    def certified(self, max_gap: float, confidence: float = 0.95) -> tuple[PathPoint, ...]:
        """Return the models whose gaps are, all of them with that confidence, at most ``max_gap``.

        Models are tested on the validation rows one after the other, in an order that these have no influence
        on: by training gap, the smallest first (`estimators.certified_choice` has the argument). A model
        passes whose upper bound is at most ``max_gap``; few validation rows ask for fairer models. Any of
        those returned, smallest training gap first, may be chosen, for whatever reason.
        """
        check_number(max_gap, "max_gap", low=0.0, high=self.record.kind.largest_gap)
        if self.folds is not None:
            raise InputError(
                "a promise about new people is about one model, and out-of-fold gaps are of "
                f"{len(np.unique(self.folds))} models, one for each fold; leave cv out and hold rows out, or "
                "choose by_estimate"
            )
        return tuple(self._certification(confidence).certify(max_gap, 1 - confidence))

    def by_estimate(self, max_gap: float) -> Any:
        """Return the model with the best score of those whose estimated gap is at most ``max_gap``.

        No promise: the estimate may be too small by chance, and choosing makes that likelier.
        """
        check_number(max_gap, "max_gap", low=0.0, high=self.record.kind.largest_gap)
        enough = [point for point in self.points if self.gap(point).value <= max_gap]
        if not enough:
            least = min(self.gap(point).value for point in self.points)
            raise InputError(
                f"no model of the path has an estimated gap of at most {max_gap:g} {self.evaluated_on}; "
                f"the smallest is {least:.3g}; add smaller max_gaps"
            )
        return find_best(enough).model

    def compare(self, point_a: PathPoint, point_b: PathPoint, confidence: float = 0.95) -> GapComparison:
        """Return by how much the second model's gaps differ from the first's on the validation rows.

        Both are evaluated on the first one's interval; see `partialfair.metrics.compare_gaps`.
        """
        labels, arguments = evaluation_arguments(self.validation, point_a, **self._settings(confidence))
        return compare_gaps(labels, point_a.scores, point_b.scores, **arguments)

    def _certification(self, confidence: float) -> Certification:
        return Certification(self.points, lambda point: self.gap(point, confidence), self.validation.n)

    def _settings(self, confidence: float) -> dict[str, Any]:
        return {
            "confidence": confidence,
            "min_group_size": self.min_group_size,
            "small_groups": self.small_groups,
            "seed": self._seed,
        }

    def to_frame(self, confidence: float = 0.95) -> pd.DataFrame:
        """Return one line per model: what was asked, how the fit ended, score and gap on validation rows.

        With ``cv`` also ``folds_kept``: in how many folds the model kept, in training, what it was to keep.
        """
        import pandas as pd

        rows = [(point, self.gap(point, confidence)) for point in self.points]
        frame = pd.DataFrame(
            {
                "max_gap": [point.max_gap for point in self.points],
                "alpha": [point.alpha for point in self.points],
                "status": [str(point.model.result_.status) for point in self.points],
                "training_gap": [point.training_gap for point in self.points],
                "gap": [row.value for _, row in rows],
                "gap_low": [row.low for _, row in rows],
                "gap_high": [row.high for _, row in rows],
                "score": [point.score for point in self.points],
                "score_error": [point.error for point in self.points],
                "seconds": [point.seconds for point in self.points],
            }
        )
        if self.folds is not None:
            # In how many folds the constraint was satisfied in training; missing where there was none.
            folds = [[model.result_.satisfied for model in point.fold_models] for point in self.points]
            satisfied = [None if None in of_point else sum(of_point) for of_point in folds]
            frame.insert(4, "folds_kept", pd.Series(satisfied, dtype="Int64"))  # next to the training gap
        return frame

    def plot(self, *, ax: Axes | None = None, **options: Any) -> Axes:
        """Draw the frontier; see `partialfair.plotting.plot_path`, which names the options."""
        from partialfair.plotting import plot_path

        return plot_path(self, ax=ax, **options)

    def to_html(self, path: str | Path | None = None, *, confidence: float = 0.95) -> str | None:
        """Write the interactive page of the models on the validation rows, or return it without a path."""
        from partialfair.report import path_page, write_page

        text = path_page(self, confidence=confidence)
        if path is None:
            return text
        write_page(text, path)
        return None

    def __repr__(self) -> str:
        rows = f"{len(self.points)} models, judged on {self.validation.n:,} rows {self.evaluated_on}"
        meaning = "" if self.meaning is None else f"\n{self.meaning}"
        return f"<FairnessPath of {rows}>\n{self.to_frame().to_string()}{meaning}"


def fairness_path(
    estimator: PartialFairEstimator,
    X: ArrayLike,
    y: ArrayLike,
    *,
    sensitive_features: ArrayLike,
    max_gaps: Sequence[float],
    alphas: Sequence[float] | None = None,
    validation: float | tuple[Any, ...] = _HELD_OUT,
    cv: Any = None,
    sample_weight: ArrayLike | None = None,
    clusters: ArrayLike | None = None,
    scoring: str = "accuracy",
    min_group_size: int = 10,
    small_groups: SmallGroups = "list",
    n_jobs: int | None = None,
    random_state: Any = None,
    callback: Callable[[PathPoint], None] | None = None,
    verbose: int = 0,
) -> FairnessPath:
    """Fit a model without constraint, then one for every ``max_gap``, each from the solution of the last.

    Every fit knows the models before it. Where a stricter model turns out to cost less than a looser one, the
    looser is fitted again with all of them in view, so that objectives never fall as more is asked for.

    An interrupt (Ctrl-C) ends the path with KeyboardInterrupt: half a path would say less than it seems to.
    ``callback`` has seen the models that were finished.

    Parameters
    ----------
    estimator
        A `PartialFairClassifier` or `PartialFairRegressor` with one constraint; its ``max_gap`` is varied.
    X, y, sensitive_features, sample_weight
        As in ``fit``.
    max_gaps
        Gaps to allow, in any order; they are taken from the loosest on.
    alphas
        Penalties to try with each of them; that of the estimator by default, chosen once if it is "auto".
    validation
        Share of the rows to hold out, drawn within groups and classes, or the rows themselves:
        ``(X, y, sensitive_features)``, or with ``sample_weight`` as a fourth and ``clusters`` as a fifth.
    cv
        Instead of ``validation``: the number of folds, or a splitter of scikit-learn that holds out every row
        once. Models are then judged on out-of-fold scores of all rows, and those that are returned are fitted
        on all rows. What that estimates, and why `best` refuses it: see `FairnessPath`. Folds are drawn
        within groups and classes; it takes about as many times longer as there are folds.
    clusters
        Which rows belong together, as several of one person do: a cluster is never on both sides of a split,
        and confidence is that of so many clusters. Splitters get them as ``groups``.
    scoring
        ``"accuracy"``, ``"balanced_accuracy"``, ``"roc_auc"``, or for regressors ``"r2"``.
    min_group_size, small_groups
        Which groups are judged on the validation rows, as in `fairness_report`; whom the constraint is tied
        to is the estimator's ``min_group_size``.
    n_jobs
        Processes; every ``alpha`` is one job, with ``cv`` every fold of it.
    random_state
        For the rows held out and the confidence intervals.
    callback
        Called with every model once it is judged, in the process that fits it; with ``cv`` at the end.
    verbose
        1 writes a line to standard error for every model.

    Examples
    --------
    >>> import numpy as np
    >>> from partialfair import PartialFairClassifier, fairness_path
    >>> rng = np.random.default_rng(0)
    >>> groups = rng.choice(["a", "b"], 2000)
    >>> X = rng.normal(size=(2000, 2)) + np.outer(groups == "a", [1, 0])
    >>> y = X.sum(axis=1) + rng.normal(size=2000) > 0.5
    >>> clf = PartialFairClassifier(interval=(0.1, 0.6))
    >>> path = fairness_path(
    ...     clf, X, y, sensitive_features=groups, max_gaps=[0.1, 0.2, 0.4], random_state=0
    ... )
    >>> path.to_frame()["max_gap"].tolist()  # the first has no constraint
    [inf, 0.4, 0.2, 0.1]
    >>> path.to_frame()["training_gap"].is_monotonic_decreasing
    True
    >>> path.best(max_gap=0.6).max_gap  # on 400 new people the gap of the loosest may be larger
    0.2
    """
    _check_estimator(estimator, scoring)
    refuse_lazy(X, "X")
    refuse_lazy(y, "y")
    if callback is not None and not callable(callback):
        raise InputError(f"callback must be a function of one PathPoint, not {shown(callback)}")
    gaps = _read_numbers(max_gaps, "max_gaps")[::-1]
    constraints = [_state_constraint(estimator, gap) for gap in gaps]  # all are checked before any fit
    stated = constraints[0]
    record = record_of(stated)
    if record is None:
        raise InputError(
            f"fairness_path judges models by the metric that their constraint bounds, and "
            f"{type(stated).__name__} bounds none"
        )
    if alphas is not None and isinstance(estimator.alpha, str):
        raise InputError("alphas are penalties to try, and alpha='auto' chooses one; leave one of them out")
    penalties = [None] if alphas is None else _read_numbers(alphas, "alphas")
    if n_jobs is not None:
        check_count(n_jobs, "n_jobs", low=-1000)
    seed = read_seed(random_state)
    reader = estimator._copy_unfitted().set_params(callback=estimator.callback)  # it learns the columns of X
    reader._check_settings()
    samples = read_samples(reader, X, y, sensitive_features, sample_weight, clusters)
    parts: HeldOut | OutOfFold
    if cv is None:
        parts = hold_out(reader, samples, validation, clusters, seed)
    elif is_rows(validation) or validation != _HELD_OUT:
        raise InputError("cv judges models on all rows out of fold, so validation must not be given")
    else:
        parts = OutOfFold(samples, read_folds(cv, samples, seed))
    parts.check(reader, scoring)
    rows = parts.evaluated
    check_group_sizes(reader, stated, record.metric, samples, rows, min_group_size, small_groups)

    def say(point: PathPoint) -> None:
        if verbose:
            sys.stderr.write(
                f"alpha {point.alpha:g}, {point.allowed}: {point.model.result_.status} in "
                f"{point.seconds:.1f} s, {scoring} {point.score:.4f}\n"
            )
        if callback is not None:
            callback(point)

    known = (record, record.bounded)
    points = fit_points(parts, reader, gaps, penalties, scoring, known, n_jobs, say)
    return FairnessPath(tuple(points), scoring, rows, min_group_size, small_groups, record, seed, parts.folds)


def _read_numbers(given: Sequence[float], name: str) -> list[float]:
    """Return increasing numbers, refusing what is not one."""
    listed = list(given) if np.ndim(given) == 1 else []
    if not listed:
        raise InputError(f"{name} must be a list of numbers, not {shown(given)}")
    for one in listed:
        check_number(one, f"a number in {name}", low=0.0)
    return sorted({float(one) for one in listed})


def _check_estimator(estimator: Any, scoring: str) -> None:
    """Refuse estimators whose gap cannot be varied, and scorings that do not suit them."""
    if not isinstance(estimator, PartialFairEstimator):
        raise InputError(f"fairness_path varies estimators of partialfair, not {type(estimator).__name__}")
    if not isinstance(estimator.constraint, str | Constraint):
        raise InputError("fairness_path needs an estimator with one constraint, whose max_gap it varies")
    if estimator.enforce == "population":
        raise InputError(
            "fairness_path holds rows out itself, and its best is a promise about new people: give it an "
            "estimator with enforce='exact'"
        )
    check_choice(scoring, "scoring", SCORINGS)
    if is_regressor(estimator) != (scoring == "r2"):
        raise InputError(f"scoring={scoring!r} does not suit {type(estimator).__name__}")


def _state_constraint(estimator: Any, gap: float) -> Constraint:
    """Return the constraint with that limit, refusing what no model could be fitted with."""
    constraint: Constraint
    (constraint,) = copy(estimator).set_params(**with_gap(estimator, gap))._read_constraints()
    return constraint
