"""Warnings of a fit: small samples, nearly equal scores, thresholds outside the interval.

**Small samples.** With enough features any training gap can be reached: the model then fits the rows that
happen to be in the smallest group. Next to a group of 1,500 rows, with 20 features, at ranks 5-30% and with
``max_gap=0.05``, models had these gaps on new data (three draws each; 0.55 without a constraint):

    rows in the interval        15           30           60           125          250
    gap on new data             0.1 to 0.5   0.2 to 0.4   0.2 to 0.4   0.1 to 0.3   0.2

**Equal scores.** A model with equal scores satisfies every constraint on ranks and on differences of scores,
and its KKT certificate may well hold.

**Thresholds.** Parity at one threshold can be reached by moving the threshold out of the interval: then all
or none of the rows in the interval are selected, in every group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from partialfair.constraints.parity import AtThreshold
from partialfair.data.groups import members_text
from partialfair.data.thresholds import find_decision_threshold
from partialfair.exceptions import (
    SmallGroupWarning,
    SmallSampleGapWarning,
    SurrogateWarning,
    ThresholdOutsideIntervalWarning,
    UninformativeModelWarning,
)
from partialfair.metrics import detectable_gap, sample_size
from partialfair.optimization.objectives import LossSettings, PartialAUC
from partialfair.optimization.problems import Cells, Counts, WeightedScores
from partialfair.optimization.solvers import GOOD, Status
from partialfair.training.named_constraints import record_of
from partialfair.training.result import FitResult
from partialfair.training.statement import GroupedConstraint
from partialfair.utils.checks import shown
from partialfair.utils.text import listed, short_percent

_MUCH_ACCURACY = 0.02
"""Smallest loss of training accuracy for which advice is given."""

_TOO_FEW = 1 / 200
"""Fraction of the rows needed to detect ``max_gap`` below which a sample is far too small for that limit.

The default limit of 0.05 then needs 48 rows at ranks 5-30%; with fewer rows, models in the table above have
gaps up to that of the unconstrained model. In so small a sample even a model whose true gap is 0 never shows
a gap below the limit, so a model that does has fitted the sample. With more rows a limit may still be
smaller than the sample can confirm, but users may have reasons for it.
"""
_FLAT = 1e-3
"""Standard deviation of scores, relative to the unconstrained model's, below which they are nearly equal. The
width of a surrogate is a quarter of that unit, so it cannot distinguish such scores, and the loss equals that
of a constant model up to a thousandth of what the features could gain."""
_ROUNDING = 1e-9
"""The same relative to the size of the scores: smaller differences are rounding errors."""

_ADVICE = {
    Status.MAX_ITER: "raise max_iter or tol",
    Status.TIME_LIMIT: "raise time_limit or tol",
    Status.STATIONARY: "the KKT certificate of its stationary point does not hold: lower tol of the solver",
    Status.STALLED: "its steps no longer move: raise tol, or use another solver",
    Status.STOPPED: "it was stopped by the callback or the keyboard",
    Status.NONFINITE: "it met values that are not finite: scale the features",
    Status.NO_FEASIBLE_POINT: (
        "no feasible model found, though one may exist: raise max_gap or options.search_steps, or add "
        "features or group_terms"
    ),
}


def group_intercept_advice(
    grouped: Sequence[GroupedConstraint], counts: WeightedScores, reference: WeightedScores, sign: float
) -> str | None:
    """Return advice if an intercept per group would recover most of the lost accuracy; else None.

    This is an estimate without a fit: the unconstrained scores, shifted in each group so that the middle of
    its interval has the score 0, with the best common threshold.

    Parameters
    ----------
    grouped
        The constraints.
    counts, reference
        Training scores of the model and of the unconstrained model.
    sign
        Sign of the scores of the positive class.
    """
    at_ranks = all(one.has_metric and not hasattr(one.constraint, "threshold") for one in grouped)
    if not (grouped and at_ranks) or counts.positive is None or reference.positive is None:
        return None
    accuracy, unconstrained = _best_accuracy(counts, sign), _best_accuracy(reference, sign)
    lost = unconstrained - accuracy
    if lost < _MUCH_ACCURACY:
        return None
    groups, shifted = grouped[0].groups_of(reference), reference.scores.copy()
    for code, interval in enumerate(grouped[0].constraint.intervals(groups)):
        rows = np.flatnonzero(groups.codes == code)
        rows = rows[np.argsort(-reference.scores[rows], kind="stable")]
        passed = np.cumsum(reference.weights[rows]) / reference.weights[rows].sum()
        middle = (interval.parts[0][0] + interval.parts[-1][1]) / 2
        at_middle = min(int(np.searchsorted(passed, middle)), rows.size - 1)
        shifted[rows] -= reference.scores[rows[at_middle]]
    moved = replace(reference, scores=shifted)
    if any(one.gap(moved).value > 2 * one.constraint.max_gap for one in grouped):
        return None
    recovered = _best_accuracy(moved, sign)
    if recovered - accuracy < lost / 2:
        return None
    return (
        "group_terms='intercept' would recover most of the accuracy that the constraint costs, about "
        f"{recovered:.3f} instead of {accuracy:.3f} on the training rows; prediction then needs the group, "
        "and using it may be unlawful where you are"
    )


def _best_accuracy(counts: WeightedScores, sign: float) -> float:
    """Return the accuracy with the best common threshold of all groups."""
    assert counts.positive is not None
    scores = sign * counts.scores
    threshold = find_decision_threshold(scores, counts.positive, counts.weights)
    return float(np.average((scores > threshold) == counts.positive, weights=counts.weights))


def explain_unfinished(result: FitResult) -> str | None:
    """Return how an unfinished fit ended and what to do; None if it is finished."""
    if result.status in GOOD:
        return None
    # A KKT certificate of the surrogate problem may hold while exact gaps are too large.
    holds = "holds" if result.kkt.holds(result.tol) else "does not hold"
    if result.satisfied is False:
        holds += " for the surrogate"
    reason = "" if result.infeasibility is None else f"; infeasibility reason: {result.infeasibility}"
    return (
        f"the fit ended with status {result.status} after {result.history[-1].step} steps: "
        f"{_ADVICE[result.status]}{reason} (KKT certificate {holds} at tol={result.tol:g})"
    )


def uninformative_warning(result: FitResult) -> Warning | None:
    """Warn of a model that ranks no rows, predicts nothing, or has a surrogate wider than its scores."""
    if result.gaps and result.tied_share == 1:
        return SurrogateWarning("all training scores are equal: the model ranks no rows; raise max_gap")
    if result.constraints and result.objective >= result.constant_objective:
        return UninformativeModelWarning(
            f"training objective {result.objective:.4g} is not below {result.constant_objective:.4g}, "
            "that of a model with equal scores: under the constraint the features predict nothing; raise "
            "max_gap, or add features or group_terms"
        )
    # Within one width a ramp is linear, so constraints compare mean scores only.
    is_narrow = result.surrogate is not None and result.spread < result.surrogate.width
    if is_narrow and np.nanmax(result.excess, initial=0.0) > 0:
        assert result.surrogate is not None
        return SurrogateWarning(
            f"the scores have a spread of {result.spread:.3g}, less than the surrogate's width "
            f"({result.surrogate.width:.3g}), within which only means are compared, so the exact gap is "
            f"{result.gap:.3g}; reduce options.surrogate_width, or add features or group_terms"
        )
    return None


def flat_scores_warning(result: FitResult, counts: Counts, unconstrained: Counts | None) -> Warning | None:
    """Warn of a model whose scores are nearly equal; None if they are not, or if another warning says so.

    Parameters
    ----------
    result, counts
        The result and the scores of the model.
    unconstrained
        Scores of the unconstrained model; None if the model is unconstrained.
    """
    if result.gaps and result.tied_share == 1:
        return None
    deviation, _, largest = counts.scale
    if deviation <= _ROUNDING * (1 + largest):
        return SurrogateWarning(
            "all training scores are equal but for rounding errors: the model ranks no rows; raise max_gap"
        )
    reference = deviation if unconstrained is None else unconstrained.scale.deviation
    if deviation >= _FLAT * reference:
        return None
    return SurrogateWarning(
        f"the training scores are nearly equal: their standard deviation is {deviation / reference:.1e} "
        "times that of the unconstrained model, so the model hardly ranks rows; raise max_gap, or add "
        "features or group_terms"
    )


def flat_partial_auc_warning(loss: LossSettings, spread: float) -> SurrogateWarning | None:
    """Warn if no direction was found in which positives exceed the top negatives on average; else None."""
    if not isinstance(loss, PartialAUC) or spread >= loss.rounding:
        return None
    return SurrogateWarning(
        f"the scores have a spread of {spread:.3g}, less than the rounding of the loss "
        f"({loss.rounding:g}): positives do not exceed the negatives of fpr={loss.fpr} on average, so the "
        "best scores are nearly equal; widen fpr, or add features"
    )


def small_sample_gap_warning(
    constraints: Sequence[GroupedConstraint], cells: Cells
) -> SmallSampleGapWarning | None:
    """Warn of the first limit that is far too small for its smallest group; None if there is none."""
    for grouped in constraints:
        constraint, groups = grouped.constraint, grouped.groups
        record = record_of(constraint)
        # The formula is about proportions; means over pairs, with gaps up to ½, have smaller errors.
        if record is None or record.bounded.largest != 1 or constraint.largest_gap != 1:
            continue
        # Gaps to the smallest group fluctuate most.
        members = grouped.effective_members(cells)
        fewest = int(np.argmin(members))
        part = constraint.intervals(groups)[fewest]
        # Size of the whole group, of which the interval holds a part.
        n = float(members[fewest]) / part.measure
        where: dict[str, Any] = {"interval": part.parts, "gap_scale": constraint.gap_scale}
        if n < _TOO_FEW * sample_size(constraint.kappa, **where):
            gap = detectable_gap(n, **where)
            return SmallSampleGapWarning(
                f"max_gap={constraint.max_gap:g} is far below {gap:.2g}, the smallest gap that can be "
                f"detected with {members_text(float(members[fewest]))} effective {constraint.counted} of "
                f"group {shown(groups.names[fewest], 60)} in the interval: expect a much larger gap on new "
                "data; raise max_gap, widen the interval or add rows"
            )
    return None


def small_group_warning(constraints: Sequence[GroupedConstraint]) -> SmallGroupWarning | None:
    """Warn of groups that are too small for some constraint; None if there are none."""
    sentences = [f"{one.describe_small()} of {type(one.stated).__name__}" for one in constraints if one.small]
    if not sentences:
        return None
    return SmallGroupWarning(
        f"{'; '.join(sentences[:3])}: fewer than min_group_size={constraints[0].min_group_size:g}, so the "
        "constraint excludes the group; its rows count in the loss"
    )


def idle_threshold_warning(
    constraints: Sequence[GroupedConstraint], counts: WeightedScores
) -> ThresholdOutsideIntervalWarning | None:
    """Warn of groups in which a threshold's rank is outside the interval; None if there are none."""
    sentences = []
    for one in constraints:
        outside = _groups_outside(one, counts)
        if outside:
            sentences.append(f"the threshold of {type(one.stated).__name__} has {listed(outside)}")
    if not sentences:
        return None
    return ThresholdOutsideIntervalWarning(
        f"{'; '.join(sentences[:2])}, outside the interval: its gap says nothing about the interval; "
        "choose an interval that contains the selection rate, or constraint='statistical_parity'"
    )


def _groups_outside(grouped: GroupedConstraint, counts: WeightedScores) -> list[str]:
    """Return "rank 4.2% in group 'f'" for every group in which it is outside the closed interval.

    Ranks are counted among the rows that are compared. With positives and negatives it is enough if the
    threshold is inside for one of the two.
    """
    constraint, groups = grouped.constraint, grouped.groups_of(counts)
    if not isinstance(constraint, AtThreshold):
        return []
    n_groups, is_member = len(groups.labels), groups.codes >= 0
    above, ranks = counts.scores > constraint.threshold, []
    # Equalized odds compares positives and negatives, each with their own ranks.
    for rows in constraint.compared(counts.positive):
        weights = np.where(rows, counts.weights, 0.0)
        selected, totals = (
            np.bincount(groups.codes[is_member], weights=counted[is_member], minlength=n_groups)
            for counted in (np.where(above, weights, 0.0), weights)
        )
        ranks.append(selected / totals)
    outside = []
    for name, part, of_group in zip(
        groups.names, constraint.intervals(groups), zip(*ranks, strict=True), strict=True
    ):
        if all(part.side(float(rank)) != "inside" for rank in of_group):
            percents = " and ".join(short_percent(rank) for rank in of_group)
            outside.append(f"rank {percents} in group {shown(name, 60)}")
    return outside
