"""Does one model have a smaller gap than another? The difference of two gaps, measured on the same rows.

Two models that score the same rows have correlated errors, so the difference of their gaps is known better
than either gap. In the draws of both models every row (or cluster) has the same weight, and the models are
compared draw by draw.

Let ``g_M = max_j |d_j|`` be the gap of model M and ``Δ = g_B − g_A``. For the upper end of Δ:

- "B's gap is not larger" is a claim about every difference of B, so each j, with either sign, is bounded by
  itself (an intersection–union test): the end is the largest of the upper ends of ``±d_j − g_A``.
- That A's gap is large must be shown by places that the data choose. A single chosen place, the largest
  estimate, is biased upwards. Instead all contenders count: the places whose estimate is below the largest by
  at most κ paired standard deviations. A weighted mean of their ``|d_i|``, with the signs of the estimates,
  is a lower bound of g_A, in which the errors that made single places large average out. With n rows (their
  effective number, if they are weighted) ``κ = √(log n)``, on either scale and for every metric.
- Weights of contenders depend on variances, not on estimates, which would be biased again: the square of a
  place's variance, relative to the largest variance of its pair of groups. Ranks vary most near the median,
  where shifted scores also differ most, so that this mean is nearer to A's gap than one with equal weights.
- A's difference at the same place i (as far down the pair's scores, with the same sign) is a second lower
  bound of g_A, which tells more where the models are similar. No data choose it. Both ends then use the
  quantile of the larger of the two studentized errors, and the lower end counts; the second one is left out
  if its estimate plus two deviations is larger than that of the first.

The lower end of Δ is the upper end with A and B exchanged. A draw is a plausible truth, and an end is a
quantile of draws, not of their reflection. For statistical parity, whose largest difference is often where a
group's rank reaches an end of the interval, draws are clipped there as the ranks themselves are: a proportion
at an end can only come back into the interval, in truth as in the draws.

As in `partialfair.metrics.bounds`, draws are corrected for few members (by their variance and by Student's
quantile), and an end is above its estimate by at least what nobody in the sample may have shown.

Demographic parity, equal opportunity and equalized odds compare one proportion per group; their ends use the
same argument and limits of proportions instead of draws: see `partialfair.metrics._paired_proportions`.

What is theory and what is simulation: the bounds of single places need no correction for their number, by
the argument of intersection–union tests. The selection of contenders is the moment selection of Andrews and
Soares (2010), who suggest this κ: places that are tied in truth stay in, and all others leave as n grows.
That a mean of selected places may be treated as one of given places is thus an asymptotic statement; in a
sample the mean is biased upwards and varies more than its draws do, by less the larger κ is. For finite n it
is checked by simulation only (benchmarks/paired_and_chosen.py), mainly where it is hardest: A has many tied
maxima, and B has a single one, among few levels of scores, so that B's other places leave no reserve. There
(400 rows, correlation 0.5) κ, 0.8 κ and 0.6 κ missed the truth in 5.3%, 6.3% and 7.5% of 1,200 samples, for a
nominal 5%. Settings, coverage and power: docs/metrics.md.

How much power is possible: let A's scores of two groups of 400 rows be shifted by 0.3 and B's by 0.1, with a
correlation of 0.95, on ranks 10–50%. With normal errors of known covariance the hypothesis that is hardest to
reject is that B's gap is as large with the opposite sign, ``−d_j ≥ |d_i|`` for one j and all i. It is convex,
and 2.46 standard errors away, so that no test with a level of 5% has a power above 0.79. A test that bounds
every place of B by itself, with the best weights on A's places for each of them, which depend on the unknown
truth, has a power of 0.58 (160 places) to 0.61 (40 places).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from partialfair.exceptions import InputError
from partialfair.metrics._evaluated_scores import EvaluatedScores, read_scores
from partialfair.metrics._paired_kernels import add_contenders, raise_ends
from partialfair.metrics._paired_proportions import PairedProportions
from partialfair.metrics._report_rows import DrawsOfGroups
from partialfair.metrics.bounds import Differences, PairFluctuations
from partialfair.metrics.catalogue import METRICS, Metric, n_members, too_few_reason
from partialfair.metrics.differences import Setting
from partialfair.metrics.inputs import ScoredGroups
from partialfair.metrics.resampling import Resamples
from partialfair.metrics.small_groups import SmallGroup
from partialfair.utils.checks import random_generator, refuse_lazy
from partialfair.utils.typing import (
    ArrayLike,
    Floats,
    GapScale,
    IntervalLike,
    MissingGroups,
    RankWithin,
    SmallGroups,
)

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

    Both models score the same rows, so their errors are correlated, and the interval of the difference is
    usually shorter than the intervals of the two gaps suggest.

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

    Notes
    -----
    Intervals and bounds are corrected for the choice of the threshold at which a gap is largest. The
    correction is asymptotic, and was checked by simulation for 100 to 3,000 rows in each group; it costs
    power. For statistical parity and a few hundred rows "not shown" is weak evidence of equal gaps:
    docs/metrics.md has tables of coverage and of power. Demographic parity, equal opportunity and equalized
    odds have limits of paired proportions, which hold with few selected rows and need no draws.

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
    refuse_lazy(score_a, "score_a")
    refuse_lazy(score_b, "score_b")
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
        read_scores(
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
            models = [(drawn, one.setting) for drawn, one in zip(draws, read, strict=True)]
            rows.append(_difference(name, metric, few[name], models, confidence))
    return GapComparison(tuple(rows), omitted, confidence, n_resamples)


def _either(name: str, read: Sequence[EvaluatedScores]) -> tuple[SmallGroup, ...]:
    """Return the groups that a metric leaves out under either model, each once, in one order for both."""
    return tuple({small.group: small for one in read for small in one.few.get(name, ())}.values())


def _omitted(
    read: Sequence[EvaluatedScores], few: dict[str, tuple[SmallGroup, ...]], min_group_size: int
) -> dict[str, str]:
    """Why metrics cannot be computed of both models, on the groups that both can be judged on."""
    omitted = {name: reason for one in read for name, reason in one.omitted.items()}
    for name, metric in METRICS.items():
        n_compared = len(read[0].judged.scored) - len(few[name])
        if name not in omitted and n_compared < 2:
            omitted[name] = too_few_reason(metric, n_compared, min_group_size)
    return {name: omitted[name] for name in METRICS if name in omitted}


@dataclass(frozen=True, eq=False)
class _ClippedResamples(Resamples):
    """Draws that stop at the ends of the interval, as the proportions themselves do."""

    def passed_linearised(
        self, k: int, positive: bool | None = None, *, beyond: float = 2.0, fading: float = 2.0
    ) -> Floats:
        """Return `passed`."""
        return self.passed(k, positive)


@dataclass(frozen=True, eq=False)
class _Gap:
    """One model's gap by one metric, and its draws.

    Attributes
    ----------
    least, most
        The exact gap, or what it is if ties shift it down and up.
    differences
        The d_j on cells of scores.
    pairs
        Gaps and smaller samples of the pairs of groups.
    lower : (B + 1,)
        Weighted mean ``|d_j|`` of the contenders for the largest one: the estimate, and the draws.
    """

    least: float
    most: float
    differences: Differences
    pairs: PairFluctuations
    lower: Floats

    @property
    def on_cells(self) -> float:
        """Largest gap on the cells; the exact one differs by what a cell blurs."""
        return float(self.pairs.gap.max())

    @classmethod
    def of(cls, metric: Metric, draws: Resamples, setting: Setting, value: float) -> _Gap:
        """Follow a model's contenders through the draws, and with them a lower bound of its gap."""
        scored = draws.scored
        if metric is METRICS["statistical_parity"]:
            draws = _ClippedResamples(scored, draws.thresholds, draws.draws)
        differences = metric.differences(draws, setting)
        gap, top = np.zeros(len(differences.pairs)), np.zeros(differences.n_columns)
        for some, starts, block in differences.blocks(np.arange(gap.size)):
            sizes = np.abs(block[:, 0])
            gap[some] = [sizes[first:end].max(initial=0.0) for first, end in pairwise(starts)]
            largest = block[np.argmax(sizes)]
            if abs(largest[0]) > top[0]:
                top = largest * np.sign(largest[0])
        total, weight = np.zeros_like(top), 0.0
        for _, starts, block in differences.blocks(np.arange(gap.size)):
            weight += add_contenders(block, starts, top, _n_deviations(scored), total)
        members = np.asarray(n_members(metric, scored, setting), dtype=np.float64)
        n_smallest = np.maximum(members[differences.pairs].min(axis=1), 1.0)
        pairs = PairFluctuations(gap, np.ones(gap.size), n_smallest, metric.widest_difference(scored))
        return cls(*metric.reach(scored, setting, value), differences, pairs, total / weight)


def _difference(
    name: str,
    metric: Metric,
    few: tuple[SmallGroup, ...],
    models: Sequence[tuple[DrawsOfGroups, Setting]],
    confidence: float,
) -> GapDifference:
    """Return the line of one metric; see the module's text."""
    scored = [draws.select_groups(metric, few) for draws, _ in models]
    values = [metric.gap(each, setting).value for each, (_, setting) in zip(scored, models, strict=True)]
    gap_a, gap_b = values
    if np.isnan(values).any():
        return GapDifference(name, gap_a, gap_b, *[float("nan")] * 6)
    error = 1 - confidence
    # Each end of the interval may miss with half of the probability, a bound with all of it.
    errors = (error / 2, error)
    if metric.proportions is not None:
        a, b = (
            metric.proportions(each, setting, confidence)
            for each, (_, setting) in zip(scored, models, strict=True)
        )
        n_deviations = _n_deviations(scored[0])
        upper, lower = PairedProportions(b, a, n_deviations), PairedProportions(a, b, n_deviations)
        highs, lows = (np.array([ends.upper_end(share) for share in errors]) for ends in (upper, lower))
        p_value = upper.p_value()
    else:
        # Both models have the metric's stream and the same groups, so rows have the same weights in both.
        drawn_a, drawn_b = (
            _Gap.of(metric, draws.draw(name, metric, few), setting, value)
            for (draws, setting), value in zip(models, values, strict=True)
        )
        highs, p_value = _upper_ends(drawn_b, drawn_a, errors)
        lows, _ = _upper_ends(drawn_a, drawn_b, errors)
    ends = np.clip([-lows, highs], -metric.largest, metric.largest)
    (low, at_least), (high, at_most) = ends.tolist()
    return GapDifference(name, gap_a, gap_b, gap_b - gap_a, low, high, at_least, at_most, p_value)


def _n_deviations(scored: ScoredGroups) -> float:
    """How many standard deviations contenders may be below the largest difference."""
    return float(np.sqrt(np.log(max(sum(group.n_effective for group in scored), 2.0))))


def _upper_ends(one: _Gap, other: _Gap, errors: Sequence[float]) -> tuple[Floats, float]:
    """Return upper ends of one gap minus the other, and the p-value of "the one is at least the other"."""
    n_draws = other.lower.size - 1
    n_beyond = n_draws - 1 - np.ceil((n_draws - 1) * (1 - np.array(errors))).astype(np.int64)
    # What nobody would have shown: of the pair under either model, or of the other model's largest pair.
    n_smallest = np.minimum(one.pairs.n_smallest, other.pairs.n_smallest)
    n_smallest = np.minimum(n_smallest, other.pairs.n_smallest[np.argmax(other.pairs.gap)])
    widest = max(one.pairs.widest, other.pairs.widest)
    compared = replace(one.pairs, n_smallest=n_smallest, widest=widest)
    floors = np.array([compared.unseen(error) for error in errors])
    # Differences are followed on cells of scores; exact gaps differ by what a cell blurs, and by ties.
    blurred = (one.most - one.on_cells) - (other.least - other.on_cells)
    ends, p_value = np.full(len(errors), -np.inf), 0.0
    for some, starts, block in one.differences.blocks(np.arange(n_smallest.size)):
        their_block = np.empty((int(other.differences.n_most[some].sum()), n_draws + 1))
        their_starts = other.differences.fill(some, their_block)
        chance = raise_ends(
            (block, starts),
            (their_block, their_starts),
            other.lower,
            (compared.small_sample * compared.student)[some],
            n_beyond,
            np.ascontiguousarray(floors[:, some]),
            ends,
            -blurred,
            (n_smallest[some], widest),
        )
        p_value = max(p_value, chance)
    return ends + blurred, p_value
