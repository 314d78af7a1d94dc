"""Which of many models satisfy a limit in the population: tests in an order that was fixed beforehand.

Models are put in an order that held-out rows had no influence on, the most promising first. "Its gap is
larger than the limit" is the null hypothesis of each; rejecting it certifies the model. A few *starts* share
the error δ. A walk begins at each of them with the start's share, goes on with all of its error from every
model that is certified, takes up the share of a start that it comes to, and ends at the first model that is
not certified:

    place in the order    0     1     2     3     4     5     6
    share of a start      δ/2   0     0     δ/2   0     0     0
    tested at             δ/2   δ/2   δ/2   δ     δ     δ     –     (5 fails: the walk ends, 6 is not tested)

This is the fallback procedure (Wiens 2003), which does a little more than the fixed sequences with several
starts of "Learn then Test" (Angelopoulos et al. 2021). With probability 1 − δ nothing is certified wrongly:
let t₁ < t₂ < … be the places whose gap *is* too large. If one of them is certified, look at the first, t_j.
None of those before it was certified, so every walk ended at t_{j−1} at the latest, and t_j was tested with
no more than the shares of the starts in (t_{j−1}, t_j]. Each of these tests errs with no more than its level,
and the shares add up to δ.

So all certified models may be compared by any other measure, on the same rows, and the best be taken.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sklearn.base import is_regressor

from partialfair.data.samples import Samples
from partialfair.estimators.path_fits import PathPoint
from partialfair.metrics.report import FairnessReport, ReportRow, fairness_report
from partialfair.training import setting_of
from partialfair.utils.typing import SmallGroups

N_STARTS = 3
"""Starts that share the error: at the beginning, and after a third and two thirds of the order.

The first alone fails where the models that seem fairest in training are fitted to its noise, and no fairer
than looser ones. Every further start takes error from the others: the quantile of the normal distribution is
1.64 at 5 %, 1.96 at a half of it and 2.13 at a third. The choice matters little: on 23 splits of law school,
nine models each, one, two and three starts certified some model equally often (18 times) and three reached
the loosest on average; other places and shares of the error, of which eight were tried, gave 15 to 19 times.
"""


def place_starts(n_models: int, n_starts: int = N_STARTS) -> tuple[int, ...]:
    """Return the places at which walks begin: the first, and others at equal distances."""
    return tuple(sorted({n_models * k // n_starts for k in range(n_starts)})) if n_models else ()


def certify_places(
    n_models: int, error: float, passes: Callable[[int, float], bool], starts: Sequence[int] | None = None
) -> dict[int, float]:
    """Return the places in the order that are certified, each with the error at which it was tested.

    Parameters
    ----------
    n_models
        How many there are.
    error
        δ, the probability with which one or more may be certified wrongly.
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
        n_shares += place in begun
        if not n_shares:
            continue
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
    """Return roughly how many rows would certify a model; None where no gap is below the limit.

    It assumes that gaps stay as they were estimated, and that bounds come closer to them by 1/√n.
    """
    needed = [
        n_rows * (radius / (limit - gap)) ** 2 for gap, radius in zip(gaps, radii, strict=True) if gap < limit
    ]
    if not needed or not math.isfinite(min(needed)):
        return None
    least = max(min(needed), n_rows + 1.0)  # so many were not enough
    step = 10.0 ** (math.floor(math.log10(least)) - 1)
    return round(math.ceil(least / step) * step)


def evaluation_arguments(
    rows: Samples,
    point: PathPoint,
    *,
    confidence: float,
    min_group_size: int,
    small_groups: SmallGroups,
    seed: int,
) -> tuple[Any, dict[str, Any]]:
    """Return labels, and the settings by which a model is evaluated: those of its constraint."""
    labelled = not is_regressor(point.model)
    # Intervals by group may name groups that no validation row has.
    constraint = point.constraint.among(rows.groups.labels)
    setting = setting_of(constraint)
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
        "missing_groups": "ignore",  # such rows, where a model may have any, count in the score only
    }


def report_point(rows: Samples, point: PathPoint, **settings: Any) -> FairnessReport:
    """Evaluate a model on rows; settings are those of `evaluation_arguments`."""
    labels, arguments = evaluation_arguments(rows, point, **settings)
    return fairness_report(labels, point.scores, **arguments)


def order_by_training_gap(points: Sequence[PathPoint]) -> list[int]:
    """Return the order in which models are tested: by training gap, the smallest first.

    Held-out rows have no influence on it, or confidence would be lost.
    """

    def key(at: int) -> tuple[Any, ...]:
        point = points[at]
        return (math.isnan(point.training_gap), point.training_gap, point.max_gap, point.alpha)

    return sorted(range(len(points)), key=key)


@dataclass(frozen=True, eq=False)
class Certification:
    """Tests of "the gap in the population is at most the limit", one for each model of a path.

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

    def certify(self, max_gap: float, error: float) -> dict[PathPoint, float]:
        """Return the models that are certified, smallest training gap first, and at which error each was.

        But with probability ``error`` the gap in the population is at most ``max_gap`` for all of them.
        """
        ordered = [self.points[at] for at in order_by_training_gap(self.points)]
        passed = certify_places(
            len(ordered), error, lambda at, level: self._bound(ordered[at], level) <= max_gap
        )
        return {ordered[at]: level for at, level in passed.items()}

    def find_lowest_bound(self, error: float) -> tuple[PathPoint, float]:
        """Return the model with the lowest upper bound; but with that error all models' bounds hold."""
        at, bound = find_lowest(
            len(self.points), error, lambda at, level: self._bound(self.points[at], level)
        )
        return self.points[at], bound

    def explain_shortfall(self, max_gap: float, error: float) -> str:
        """Say how far from certified the models are, and roughly how many rows would be enough."""
        lowest, rows = self.find_lowest_bound(error)[1], [self.gap(point) for point in self.points]
        level = error / len(place_starts(len(rows)))
        n_needed = estimate_rows_needed(
            self.n_rows, [row.value for row in rows], [row.radius(level) for row in rows], max_gap
        )
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


def find_best(certified: Sequence[PathPoint]) -> PathPoint:
    """Return the model with the best score; of equals, the one with the smallest training gap."""
    return max(certified, key=lambda point: (point.score, -point.training_gap))
