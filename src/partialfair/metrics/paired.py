"""Is one model fairer than another? The difference of two gaps, measured on the same people.

Two models that score the same people err together, so the difference of their gaps is known better than
either gap. Both models' draws give every person (or cluster) the same weight, and the errors are compared
draw by draw.

Let ``g_M = max_j |d_j|`` be the gap of model M, ``Δ = g_B − g_A``, and ``e_j`` the error of an estimated
``d_j``. For the upper end of Δ:

- "B's gap is not wider" is a claim about every difference of B, so each j, with either sign, is looked at by
  itself (an intersection–union test): the end is the largest of the upper ends of ``±d_j − g_A``.
- That A's gap is large can be shown in two ways. By A's difference at the same place i (as far down the
  pair's scores, with the same sign): ``g_A ≥ ±d_i``, so the error is ``±e_i ∓ e_j``, which is small where the
  models are alike. Or by A's widest place, a choice among many, as in `partialfair.metrics.bounds`: with
  probability 1 − δ' that is among A's candidates J, and then ``ĝ_A − g_A ≤ R = max_{i∈J} ±e_i``, with the
  sign of d_i, or with both where it is not known; the error is ``R ∓ e_j``.

An end is the lower of the two, ``min(±d̂_j ∓ d̂_i + q, ±d̂_j − ĝ_A + q')``. q and q' are quantiles of those
errors over the joint draws, both at a level at which one or the other is exceeded with probability δ. The
lower end is the upper end with A and B exchanged.

As in `partialfair.metrics.bounds`, deviations are corrected for few members, and q is at least what nobody in
the sample may have shown. By simulation the intervals cover more often than they claim, the more so the more
places compete (see docs/metrics.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from partialfair._checks import random_generator
from partialfair._typing import (
    ArrayLike,
    Floats,
    GapScale,
    IntervalLike,
    MissingGroups,
    RankWithin,
    SmallGroups,
)
from partialfair.exceptions import InputError
from partialfair.metrics._differences import Setting
from partialfair.metrics._judged_scores import JudgedScores, judged_scores
from partialfair.metrics._paired_kernels import furthest_ends, raise_by_candidates
from partialfair.metrics._report_rows import DrawsOfGroups
from partialfair.metrics.bounds import Differences, Fluctuation, fluctuation
from partialfair.metrics.catalogue import METRICS, Metric, n_members, too_few_reason
from partialfair.metrics.resampling import Resamples
from partialfair.metrics.small_groups import SmallGroup

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["GapComparison", "GapDifference", "Verdict", "compare_gaps"]

Verdict: TypeAlias = Literal["fairer", "less fair", "not shown"]


@dataclass(frozen=True)
class GapDifference:
    """One metric of two models: ``difference = gap_b − gap_a``, negative where B's gap is smaller.

    Attributes
    ----------
    metric, gap_a, gap_b, difference
        Its name, the gap of each model, and their difference. nan if undefined.
    low, high
        Ends of the confidence interval of the true difference.
    at_least, at_most
        One-sided bounds, each by itself with the comparison's confidence.
    p_value
        Of the null hypothesis that B's true gap is at least A's, one-sided: small values speak for B. It is
        at most ``1 − confidence`` just where ``at_most`` is below 0.
    """

    metric: str
    gap_a: float
    gap_b: float
    difference: float
    low: float
    high: float
    at_least: float
    at_most: float
    p_value: float

    @property
    def verdict(self) -> Verdict:
        """What is shown of B: a smaller gap, a wider one, or neither; by the two-sided interval."""
        if self.high < 0:
            return "fairer"
        return "less fair" if self.low > 0 else "not shown"


@dataclass(frozen=True, eq=False, repr=False)
class GapComparison:
    """What `compare_gaps` found.

    Attributes
    ----------
    rows
        One per metric.
    omitted
        Metrics that could not be computed of both models, each with the reason.
    confidence, n_resamples
        The settings.
    """

    rows: tuple[GapDifference, ...]
    omitted: dict[str, str]
    confidence: float
    n_resamples: int

    def __getitem__(self, metric: str) -> GapDifference:
        """Return the row of one metric; a missing one says why it was left out."""
        for row in self.rows:
            if row.metric == metric:
                return row
        raise KeyError(f"{metric}: {self.omitted.get(metric, 'no such metric')}")

    def to_frame(self) -> pd.DataFrame:
        """One line per metric."""
        import pandas as pd

        lines = [{**asdict(row), "verdict": row.verdict} for row in self.rows]
        columns = [*GapDifference.__dataclass_fields__, "verdict"]
        return pd.DataFrame(lines, columns=columns).set_index("metric")

    def __repr__(self) -> str:
        return f"<GapComparison of {len(self.rows)} metrics>\n{self.to_frame().to_string()}"


def compare_gaps(
    y_true: ArrayLike | None,
    score_a: ArrayLike,
    score_b: ArrayLike,
    *,
    sensitive_features: ArrayLike,
    interval: IntervalLike = (0.0, 1.0),
    threshold: float | tuple[float, float] | None = None,
    confidence: float = 0.95,
    gap_scale: GapScale = "interval",
    rank_within: RankWithin = "group",
    pos_label: Any = 1,
    sample_weight: ArrayLike | None = None,
    clusters: ArrayLike | None = None,
    n_resamples: int = 1000,
    random_state: int | np.random.Generator | None = None,
    higher_is_better: bool = True,
    min_group_size: int = 10,
    small_groups: SmallGroups = "list",
    missing_groups: MissingGroups = "error",
) -> GapComparison:
    """Return ``Δ = gap(B) − gap(A)`` by every metric that the data allow, with a confidence interval.

    Both models score the same people, so that what chance did to one it did to the other: the interval of
    the difference is shorter than the two gaps' own intervals would let one think.

    Parameters
    ----------
    score_a, score_b
        Scores of the same rows by two models.
    threshold
        As in `fairness_report`, for both models, or a pair: one for A and one for B.
    y_true, sensitive_features, interval, confidence, gap_scale, rank_within, pos_label
        As in `fairness_report`; the interval is that of both models.
    sample_weight, clusters, n_resamples, random_state, higher_is_better, min_group_size, small_groups
        As in `fairness_report`. Draws cost as much as there are rows, or clusters.
    missing_groups
        As in `fairness_report`.

    Returns
    -------
    GapComparison
        Of the groups that both models can be judged on: whether a group has enough positives in the interval
        may depend on the scores.

    Examples
    --------
    >>> from partialfair.datasets import make_admissions
    >>> from partialfair.metrics import compare_gaps
    >>> data = make_admissions(seed=0)
    >>> found = compare_gaps(
    ...     data.y,
    ...     data.historical_score,
    ...     data.X["test_score"],
    ...     sensitive_features=data.sensitive_features,
    ...     interval=data.interval,
    ...     random_state=0,
    ... )
    >>> round(found["statistical_parity"].difference, 2), found["statistical_parity"].verdict
    (-0.12, 'not shown')
    """
    n_rows = np.shape(score_a)[0] if np.ndim(score_a) else 0
    if np.shape(score_b) != np.shape(score_a):
        raise InputError(
            f"score_a and score_b must be of the same rows, but have shapes {np.shape(score_a)} and "
            f"{np.shape(score_b)}"
        )
    thresholds = threshold if isinstance(threshold, tuple) else (threshold, threshold)
    if len(thresholds) != 2:
        raise InputError(f"threshold must be one for both models or a pair, not {len(thresholds)}")
    read = [
        judged_scores(
            y_true,
            scores,
            sensitive_features=sensitive_features,
            interval=interval,
            threshold=limit,
            confidence=confidence,
            gap_scale=gap_scale,
            rank_within=rank_within,
            pos_label=pos_label,
            sample_weight=sample_weight,
            # Each row is a cluster of its own: draws then know who is who in both models.
            clusters=np.arange(n_rows) if clusters is None else clusters,
            n_resamples=n_resamples,
            higher_is_better=higher_is_better,
            min_group_size=min_group_size,
            small_groups=small_groups,
            missing_groups=missing_groups,
        )
        for scores, limit in zip((score_a, score_b), thresholds, strict=True)
    ]
    few = {name: _either(name, read) for name in METRICS}
    omitted = _omitted(read, few, min_group_size)
    seed = int(random_generator(random_state).integers(2**63))
    draws = [DrawsOfGroups(one.judged.scored, one.setting.threshold, n_resamples, seed) for one in read]
    rows = []
    for name, metric in METRICS.items():
        if name not in omitted:
            # Both models have the metric's stream and the same groups, so rows have the same weights in both.
            models = [
                (drawn.draw(name, metric, few[name]), one.setting)
                for drawn, one in zip(draws, read, strict=True)
            ]
            rows.append(_difference(name, metric, models, confidence))
    return GapComparison(tuple(rows), omitted, confidence, n_resamples)


def _either(name: str, read: Sequence[JudgedScores]) -> tuple[SmallGroup, ...]:
    """Return the groups that a metric leaves out under either model, each once, in one order for both."""
    return tuple({small.group: small for one in read for small in one.few.get(name, ())}.values())


def _omitted(
    read: Sequence[JudgedScores], few: dict[str, tuple[SmallGroup, ...]], min_group_size: int
) -> dict[str, str]:
    """Why metrics cannot be computed of both models, on the groups that both can be judged on."""
    omitted = {name: reason for one in read for name, reason in one.omitted.items()}
    for name, metric in METRICS.items():
        n_compared = len(read[0].judged.scored) - len(few[name])
        if name not in omitted and n_compared < 2:
            omitted[name] = too_few_reason(metric, n_compared, min_group_size)
    return {name: omitted[name] for name in METRICS if name in omitted}


@dataclass(frozen=True, eq=False)
class _Gap:
    """One model's gap by one metric, and its errors by some draws.

    Attributes
    ----------
    value, least, most
        The exact gap, and how far down and up ties may shift it.
    differences, spread
        The d_j on cells of scores, and how far the gap may be off.
    rises : (B,)
        ``R* = max_{j∈J} ±(d*_j − d_j)``.
    """

    value: float
    least: float
    most: float
    differences: Differences
    spread: Fluctuation
    rises: Floats

    @classmethod
    def of(cls, metric: Metric, resamples: Resamples, setting: Setting, confidence: float) -> _Gap | float:
        """Measure a model, and follow its candidates through the draws; nan where the gap is undefined."""
        scored = resamples.scored
        value = metric.gap(scored, setting).value
        if np.isnan(value):
            return value
        differences = metric.differences(resamples, setting)
        members, widest = n_members(metric, scored, setting), metric.widest_difference(scored)
        spread = fluctuation(differences, confidence, members, widest, around_half=metric.around_half)
        rises = np.full(differences.n_columns - 1, -np.inf)
        for some, starts, block in differences.blocks(spread.candidates):
            factors = spread.pairs.small_sample[some]
            raise_by_candidates(block, starts, spread.least[some], spread.sure[some], factors, rises)
        return cls(value, *metric.reach(scored, setting, value), differences, spread, rises)


@dataclass(frozen=True, eq=False)
class _ClippedResamples(Resamples):
    """Draws that stop at the ends of the interval, as the shares themselves do."""

    def passed_linearised(
        self, k: int, positive: bool | None = None, *, beyond: float = 2.0, fading: float = 2.0
    ) -> Floats:
        """Return `passed`."""
        return self.passed(k, positive)


def _difference(
    name: str, metric: Metric, models: Sequence[tuple[Resamples, Setting]], confidence: float
) -> GapDifference:
    """Return the line of one metric; see the module's text.

    Draws that go on beyond the ends of an interval fluctuate too much rather than too little, which is what a
    gap's own bounds need. In a difference, one model's fluctuation takes away the other's, and too much of it
    takes away too much. So both kinds of draws are looked at, and the wider interval holds.
    """
    clipped = [
        (_ClippedResamples(draws.scored, draws.thresholds, draws.draws), setting) for draws, setting in models
    ]
    kinds = [
        [_Gap.of(metric, draws, setting, confidence) for draws, setting in kind] for kind in (models, clipped)
    ]
    gap_a, gap_b = (gap if isinstance(gap, float) else gap.value for gap in kinds[0])
    error = 1 - confidence
    # Each end of the interval may miss with half of the probability, a bound with all of it.
    lows, highs, p_value = np.full(2, np.inf), np.full(2, -np.inf), 0.0
    for a, b in kinds:
        if isinstance(a, float) or isinstance(b, float):
            return GapDifference(name, gap_a, gap_b, *[float("nan")] * 6)
        upper, chance = _upper_ends(b, a, (error / 2, error))
        lower, _ = _upper_ends(a, b, (error / 2, error))
        lows, highs, p_value = np.minimum(lows, -lower), np.maximum(highs, upper), max(p_value, chance)
    (low, at_least), (high, at_most) = np.clip([lows, highs], -metric.largest, metric.largest).tolist()
    return GapDifference(name, gap_a, gap_b, gap_b - gap_a, low, high, at_least, at_most, p_value)


def _upper_ends(one: _Gap, other: _Gap, errors: Sequence[float]) -> tuple[Floats, float]:
    """Return upper ends of one gap minus the other, and the p-value of "the one is at least the other"."""
    n_draws = other.rises.size
    left = np.array(errors) - other.spread.spent
    n_beyond = n_draws - 1 - np.ceil((n_draws - 1) * (1 - left)).astype(np.int64)
    pairs, theirs = one.spread.pairs, other.spread.pairs
    # What nobody would have shown: of whom the pair compares, or of the other model's widest pair.
    widest_pair = theirs.only(np.array([np.argmax(theirs.gap)]))
    same_place = np.array([np.maximum(pairs.unseen(share), theirs.unseen(share)) for share in left])
    beside_gap = np.array([np.maximum(pairs.unseen(share), widest_pair.unseen(share)) for share in left])
    floors = np.stack([same_place, beside_gap])
    # Differences are followed on cells of scores; exact gaps differ by what a cell blurs, and by ties.
    blurred = (one.most - one.spread.gap) - (other.least - other.spread.gap)
    ends = np.full(len(errors), -np.inf)
    n_as_far = np.zeros(pairs.gap.size)
    for some, starts, block in one.differences.blocks(np.arange(pairs.gap.size)):
        their_block = np.empty((int(other.differences.n_most[some].sum()), n_draws + 1))
        their_starts = other.differences.fill(some, their_block)
        counts = np.zeros(some.size)
        furthest_ends(
            (block, starts, pairs.small_sample[some]),
            (their_block, their_starts, theirs.small_sample[some]),
            other.spread.gap,
            other.rises,
            n_beyond,
            np.ascontiguousarray(floors[:, :, some]),
            ends,
            -blurred,
            counts,
        )
        n_as_far[some] = counts
    excess = np.clip(other.spread.gap - blurred - pairs.gap, 0.0, None)
    n_smallest = np.minimum(pairs.n_smallest, widest_pair.n_smallest)
    nobody = np.clip(1 - excess / max(pairs.widest, theirs.widest), 0.0, 1.0) ** n_smallest
    chances = np.maximum((1 + n_as_far) / (1 + n_draws), nobody)
    return ends + blurred, min(1.0, float(chances.max()) + other.spread.spent)
