"""Models of a path on rows held out: their gaps there, and which of them are certified."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sklearn.base import is_regressor

from partialfair.data.samples import Samples
from partialfair.estimators.certified_choice import certified_places, lowest_of_all, rows_needed, start_places
from partialfair.estimators.path_fits import PathPoint
from partialfair.metrics.catalogue import report_metrics
from partialfair.metrics.report import FairnessReport, ReportRow, fairness_report
from partialfair.training.named_constraints import record_of, setting_of
from partialfair.utils.typing import SmallGroups

__all__ = ["Certification", "best_of", "judging_of", "report_on", "training_order"]


def judging_of(
    rows: Samples,
    point: PathPoint,
    *,
    confidence: float,
    min_group_size: int,
    small_groups: SmallGroups,
    seed: int,
) -> tuple[Any, dict[str, Any]]:
    """Return labels, and the settings by which a model is judged: those of its constraint."""
    labelled = not is_regressor(point.model)
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
        "random_state": seed,
        "higher_is_better": point.model.higher_is_better,
        "min_group_size": min_group_size,
        "small_groups": small_groups,
        "metrics": report_metrics(*([] if record is None else [record.metric])),
        "missing_groups": "ignore",  # such rows, where a model may have any, count in the score only
    }


def report_on(labels: Any, point: PathPoint, settings: dict[str, Any]) -> FairnessReport:
    """Judge a model; labels and settings are those of `judging_of`."""
    return fairness_report(labels, point.scores, **settings)


def training_order(points: Sequence[PathPoint]) -> list[int]:
    """Return the order in which models are tested: by training gap, the fairest first.

    Rows held out have no say in it, or confidence would be lost.
    """

    def key(at: int) -> tuple[Any, ...]:
        point = points[at]
        return (math.isnan(point.training_gap), point.training_gap, point.max_gap, point.alpha)

    return sorted(range(len(points)), key=key)


@dataclass(frozen=True, eq=False)
class Certification:
    """Tests of "the gap of new people is at most so much", one for each model of a path.

    Attributes
    ----------
    points
        The models.
    gap
        From a model to its gap on the rows held out.
    n_rows
        How many these are.
    """

    points: Sequence[PathPoint]
    gap: Callable[[PathPoint], ReportRow]
    n_rows: int

    def certified(self, max_gap: float, error: float) -> dict[PathPoint, float]:
        """Return the models that are certified, fairest in training first, and at which error each was.

        But with probability ``error`` the gap of new people is at most ``max_gap`` for all of them at once.
        """
        ordered = [self.points[at] for at in training_order(self.points)]
        passed = certified_places(
            len(ordered), error, lambda at, level: self._bound(ordered[at], level) <= max_gap
        )
        return {ordered[at]: level for at, level in passed.items()}

    def lowest(self, error: float) -> tuple[PathPoint, float]:
        """Return the model with the lowest upper bound; but with that error all models' bounds hold."""
        at, bound = lowest_of_all(
            len(self.points), error, lambda at, level: self._bound(self.points[at], level)
        )
        return self.points[at], bound

    def rows_needed(self, max_gap: float, error: float) -> int | None:
        """Return roughly how many rows would certify a model; see `certified_choice`."""
        rows = [self.gap(point) for point in self.points]
        level = error / len(start_places(len(rows)))
        return rows_needed(
            self.n_rows, [row.value for row in rows], [row.radius(level) for row in rows], max_gap
        )

    def shortfall(self, max_gap: float, error: float) -> str:
        """Say how far from certified the models are."""
        lowest, n_needed = self.lowest(error)[1], self.rows_needed(max_gap, error)
        advice = (
            f"no model's estimate is below {max_gap:g}, so more rows alone may not do"
            if n_needed is None
            else f"roughly {n_needed:,} rows held out would do, if gaps stay as estimated and bounds come "
            "closer to them as 1/√n"
        )
        return (
            f"the lowest upper bound is {lowest:.3g} (at that confidence for all {len(self.points)} models "
            f"at once); {advice}"
        )

    def _bound(self, point: PathPoint, error: float) -> float:
        return self.gap(point).bound_above(error)


def best_of(certified: Sequence[PathPoint]) -> PathPoint:
    """Return the model with the best score; of equals, the one that is fairest in training."""
    return max(certified, key=lambda point: (point.score, -point.training_gap))
