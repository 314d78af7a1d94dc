"""Compare the gaps of two models on the same rows: the difference, with its confidence interval.

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
  bound of g_A, which says more where the models are similar. No data choose it. Both ends then use the
  quantile of the larger of the two studentized errors, and the lower end counts; the second one is left out
  if its estimate plus two deviations is larger than that of the first.

The lower end of Δ is the upper end with A and B exchanged. A draw is a plausible truth, and an end is a
quantile of draws, not of their reflection. For statistical parity, whose largest difference is often where a
group's rank reaches an end of the interval, draws are clipped there as the ranks themselves are: a proportion
at an end can only come back into the interval, in truth as in the draws.

As in `partialfair.metrics.bounds`, draws are corrected for few members (by their variance and by Student's
quantile), and an end is above its estimate by at least what no row of the sample may have shown.

Demographic parity, equal opportunity and equalized odds compare one proportion per group; their ends use the
same argument and limits of proportions instead of draws: see `partialfair.metrics.proportions`.

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
from partialfair.metrics.bounds import Differences, PairFluctuations
from partialfair.metrics.catalogue import METRICS, Metric, choose_metrics, draw_groups
from partialfair.metrics.evaluation import EvaluatedScores, evaluate_scores, too_few_reason
from partialfair.metrics.inputs import ScoredGroups, Setting, read_groups
from partialfair.metrics.proportions import PairedProportions, estimate_proportions
from partialfair.metrics.resampling import Resamples
from partialfair.utils.checks import random_generator, refuse_lazy
from partialfair.utils.compiled import njit
from partialfair.utils.typing import (
    ArrayLike,
    Floats,
    GapScale,
    IntervalLike,
    Ints,
    MissingGroups,
    RankWithin,
    SmallGroups,
)

if TYPE_CHECKING:
    import pandas as pd

Verdict: TypeAlias = Literal["smaller gap", "larger gap", "inconclusive"]


@dataclass(frozen=True)
class GapDifference:
    """One metric of two models: ``difference = gap_b − gap_a``, negative where B's gap is smaller.

    Attributes
    ----------
    metric, gap_a, gap_b, difference
        Its name, the gap of each model, and their difference. nan if undefined.
    ci_low, ci_high
        Ends of the confidence interval of the true difference.
    lower_bound, upper_bound
        One-sided bounds, each by itself with the comparison's confidence.
    p_value
        One-sided p-value of the null hypothesis that B's true gap is at least A's. It is at most ``1 −
        confidence`` exactly if ``upper_bound`` is below 0.
    reason
        Why the metric is not evaluated and the difference is nan: the threshold lies outside the interval
        under one of the models; else empty.
    """

    metric: str
    gap_a: float
    gap_b: float
    difference: float
    ci_low: float
    ci_high: float
    lower_bound: float
    upper_bound: float
    p_value: float
    reason: str = ""

    @property
    def verdict(self) -> Verdict:
        """The conclusion from the two-sided interval: B has a smaller gap, a larger one, or neither."""
        if self.ci_high < 0:
            return "smaller gap"
        return "larger gap" if self.ci_low > 0 else "inconclusive"


@dataclass(frozen=True, eq=False, repr=False)
class GapComparison:
    """Result of `compare_gaps`.

    Attributes
    ----------
    metrics
        One `GapDifference` per metric.
    omitted
        Metrics that could not be computed for both models, with the reasons.
    confidence, n_resamples
        The settings.
    """

    metrics: tuple[GapDifference, ...]
    omitted: dict[str, str]
    confidence: float
    n_resamples: int

    def __getitem__(self, metric: str) -> GapDifference:
        """Return the row of one metric; the error for a missing one gives the reason."""
        for row in self.metrics:
            if row.metric == metric:
                return row
        raise KeyError(f"{metric}: {self.omitted.get(metric, 'no such metric')}")

    def to_frame(self) -> pd.DataFrame:
        """Return one row per metric."""
        import pandas as pd

        lines = [{**asdict(row), "verdict": row.verdict} for row in self.metrics]
        columns = [*GapDifference.__dataclass_fields__, "verdict"]
        return pd.DataFrame(lines, columns=columns).set_index("metric")

    def __repr__(self) -> str:
        shown = "; ".join(
            f"{row.metric} {METRICS[row.metric].text(row.difference)}, {row.verdict}"
            for row in self.metrics[:1]
        )
        return f"<GapComparison of {len(self.metrics)} metrics: {shown}>"

    def __str__(self) -> str:
        return f"{self!r}\n{self.to_frame().to_string()}"


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
    metrics: Sequence[str] | None = None,
) -> GapComparison:
    """Return ``Δ = gap(B) − gap(A)`` by every metric that the data allow, with a confidence interval.

    Both models score the same rows, so their errors are correlated, and the interval of the difference is
    usually shorter than the intervals of the two gaps suggest.

    Parameters
    ----------
    y_true : array-like of shape (n,) or None
        Labels of two classes. With None, metrics that need labels are omitted with a reason.
    score_a, score_b : array-like of shape (n,)
        Scores of the same rows by two models.
    sensitive_features : array-like of shape (n,) or (n, q)
        Group of each row; several columns define intersectional groups.
    interval : interval-like, default=(0, 1)
        Ranks from the best, under both models; see `partial_statistical_parity_difference`.
    threshold : float or pair of float, optional
        As in `fairness_report`, for both models, or a pair: one for A and one for B.
    confidence : float, default=0.95
        Nominal coverage of each interval.
    gap_scale : {"interval", "absolute"}, default="interval"
        Scale of the gap; see `partial_statistical_parity_difference`.
    rank_within : {"group", "group_and_label"}, default="group"
        Rows among which ranks are counted; see `partial_equal_opportunity_difference`.
    pos_label : object, default=1
        The label that counts as positive.
    sample_weight : array-like of shape (n,), optional
        A row of weight 2 counts as two rows, one of weight 0 as none.
    clusters : array-like of shape (n,), optional
        Cluster of each row, as in `fairness_report`.
    n_resamples : int, default=1000
        Bootstrap draws; the run time grows with the number of rows or clusters.
    random_state : int or numpy.random.Generator, optional
        Seed or generator of the draws.
    higher_is_better : bool, default=True
        If False, ranks count from the lowest score, and rows with scores below the threshold are selected.
    min_group_size : int, default=10
        A group with fewer effective members inside the interval is too small to evaluate.
    small_groups : {"list", "merge", "keep"}, default="list"
        As in `fairness_report`.
    missing_groups : {"error", "ignore"}, default="error"
        "ignore" leaves out rows without a group; "error" raises `InputError`.
    metrics : sequence of str, optional
        Names of the metrics, as in `fairness_report`.

    Returns
    -------
    GapComparison
        One row per metric, for the groups that can be evaluated under both models: whether a group has enough
        positives in the interval may depend on the scores.

    See Also
    --------
    fairness_report : The gaps of one model.
    interval_changes : Rows that enter and leave the interval from one model to the other.

    Notes
    -----
    Intervals and bounds are corrected for the choice of the threshold at which a gap is largest. The
    correction is asymptotic, and was checked by simulation for 100 to 3,000 rows in each group; it costs
    power. For statistical parity and a few hundred rows "inconclusive" is weak evidence of equal gaps:
    docs/metrics.md has tables of coverage and of power. Demographic parity, equal opportunity and equalized
    odds have limits of paired proportions, which are valid with few selected rows and need no draws.

    Examples
    --------
    >>> from partialfair.datasets import make_admissions
    >>> from partialfair.metrics import compare_gaps
    >>> data = make_admissions(seed=0)
    >>> comparison = compare_gaps(
    ...     data.y,
    ...     data.historical_score,
    ...     data.X["test_score"],
    ...     sensitive_features=data.sensitive_features,
    ...     interval=data.interval,
    ...     random_state=0,
    ... )
    >>> row = comparison["statistical_parity"]
    >>> round(row.difference, 2), row.verdict
    (-0.12, 'inconclusive')
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
    if n_rows:  # encoded once for both models; without rows, the scores are at fault
        sensitive_features = read_groups(sensitive_features, n_rows, missing_groups)
    models = []
    for scores, limit in zip((score_a, score_b), thresholds, strict=True):
        evaluated = evaluate_scores(
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
            # Each row is a cluster of its own: draws then know which rows of the two models are the same.
            clusters=np.arange(n_rows) if clusters is None else clusters,
            n_resamples=n_resamples,
            higher_is_better=higher_is_better,
            min_group_size=min_group_size,
            small_groups=small_groups,
            missing_groups=missing_groups,
            metrics=metrics,
        )
        models.append(evaluated)
    seed = int(random_generator(random_state).integers(2**63))
    omitted = {name: reason for model in models for name, reason in model.omitted.items()}
    rows = []
    for name in choose_metrics(metrics):
        # What a metric leaves out under either model, it leaves out under both, in one order.
        small = {one.group: one for model in models for one in model.too_few_labelled.get(name, ())}
        few = {name: tuple(small.values())}
        a, b = (replace(model, too_few_labelled=few) for model in models)
        # Each model alone may have two groups to compare, and both together not.
        reason = too_few_reason(METRICS[name], len(a.scored) - len(small), min_group_size)
        if reason and name not in omitted:
            omitted[name] = reason
        if name not in omitted:
            rows.append(_difference(name, a, b, confidence, n_resamples, seed))
    omitted = {name: omitted[name] for name in METRICS if name in omitted}
    return GapComparison(tuple(rows), omitted, confidence, n_resamples)


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
        """Largest gap on the cells, which differs a little from the exact one."""
        return float(self.pairs.gap.max())

    @classmethod
    def of(
        cls, metric: Metric, scored: ScoredGroups, draws: Resamples, setting: Setting, value: float
    ) -> _Gap:
        """Follow a model's contenders through the draws, and with them a lower bound of its gap."""
        if metric is METRICS["statistical_parity"]:
            draws = replace(draws, clipped=True)
        differences = metric.differences(draws, setting)
        gap, top = np.zeros(len(differences.pairs)), np.zeros(differences.n_columns)
        for some, starts, block in differences.blocks(np.arange(gap.size)):
            sizes = np.abs(block[:, 0])
            gap[some] = [sizes[first:end].max(initial=0.0) for first, end in pairwise(starts)]
            largest = block[np.argmax(sizes)]
            if abs(largest[0]) > top[0]:
                top = largest * np.sign(largest[0])
        # A second pass: contenders are known once the largest difference is.
        total, weight = np.zeros_like(top), 0.0
        for _, starts, block in differences.blocks(np.arange(gap.size)):
            weight += add_contenders(block, starts, top, _n_deviations(scored), total)
        members = np.asarray(metric.n_members(scored, setting), dtype=np.float64)
        n_smallest = np.maximum(members[differences.pairs].min(axis=1), 1.0)
        pairs = PairFluctuations(gap, np.ones(gap.size), n_smallest, metric.widest_difference(scored))
        least, most = (value, value) if metric.reach is None else metric.reach(scored, setting, value)
        return cls(least, most, differences, pairs, total / weight)


def _difference(
    name: str, a: EvaluatedScores, b: EvaluatedScores, confidence: float, n_resamples: int, seed: int
) -> GapDifference:
    """Return the line of one metric; see the module's text."""
    metric = METRICS[name]
    models = [(model.compared(name), model.setting) for model in (a, b)]
    gaps = [metric.gap(*model).value for model in models]
    reasons = [metric.why_not_evaluated(*model, gap) for model, gap in zip(models, gaps, strict=True)]
    gap_a, gap_b = (float("nan") if reason else gap for gap, reason in zip(gaps, reasons, strict=True))
    if np.isnan([gap_a, gap_b]).any():
        nan = float("nan")
        return GapDifference(name, gap_a, gap_b, nan, nan, nan, nan, nan, nan, reason=max(reasons))
    # Each end of the interval may miss with half of the probability, a bound with all of it.
    errors = ((1 - confidence) / 2, 1 - confidence)
    if metric.proportions:
        of_a, of_b = (estimate_proportions(*model, metric.proportions, confidence) for model in models)
        n_deviations = _n_deviations(models[0][0])
        upper, lower = (
            PairedProportions(of_b, of_a, n_deviations),
            PairedProportions(of_a, of_b, n_deviations),
        )
        highs, lows = (np.array([ends.upper_end(error) for error in errors]) for ends in (upper, lower))
        p_value = upper.p_value()
    else:
        # Both models have the metric's stream and the same groups, so rows have the same weights in both.
        drawn_a, drawn_b = (
            _Gap.of(metric, scored, draw_groups(name, scored, setting, n_resamples, seed), setting, value)
            for (scored, setting), value in zip(models, (gap_a, gap_b), strict=True)
        )
        highs, p_value = _upper_ends(drawn_b, drawn_a, errors)
        lows, _ = _upper_ends(drawn_a, drawn_b, errors)
    ends = np.clip([-lows, highs], -metric.largest, metric.largest)
    (low, lower_bound), (high, upper_bound) = ends.tolist()
    return GapDifference(name, gap_a, gap_b, gap_b - gap_a, low, high, lower_bound, upper_bound, p_value)


def _n_deviations(scored: ScoredGroups) -> float:
    """How many standard deviations contenders may be below the largest difference."""
    return float(np.sqrt(np.log(max(sum(group.n_effective for group in scored), 2.0))))


def _upper_ends(one: _Gap, other: _Gap, errors: Sequence[float]) -> tuple[Floats, float]:
    """Return upper ends of one gap minus the other, and the p-value of "the one is at least the other"."""
    n_draws = other.lower.size - 1
    n_beyond = n_draws - 1 - np.ceil((n_draws - 1) * (1 - np.array(errors))).astype(np.int64)
    # What no row would have shown: of the pair under either model, or of the other model's largest pair.
    n_smallest = np.minimum(one.pairs.n_smallest, other.pairs.n_smallest)
    n_smallest = np.minimum(n_smallest, other.pairs.n_smallest[np.argmax(other.pairs.gap)])
    widest = max(one.pairs.widest, other.pairs.widest)
    compared = replace(one.pairs, n_smallest=n_smallest, widest=widest)
    floors = np.array([compared.unseen(error) for error in errors])
    # Differences are followed on cells of scores, where gaps are a little different; and ties shift them.
    off = (one.most - one.on_cells) - (other.least - other.on_cells)
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
            -off,
            (n_smallest[some], widest),
        )
        p_value = max(p_value, chance)
    return ends + off, p_value


@njit(cache=True)
def add_contenders(block: Floats, starts: Ints, top: Floats, n_deviations: float, total: Floats) -> float:
    """Add the rows that may be the largest in truth, weighted and signed, to ``total``; return their weight.

    A row is a contender if ``|top| − |d_i|`` is at most ``n_deviations`` standard deviations of that
    difference. Its weight is the square of its variance, compared with the largest variance of its pair.
    Column 0 is the estimate, the others are draws; ``top`` is positive, and ``starts`` says where each pair's
    rows begin.
    """
    weight, squares = 0.0, np.empty(block.shape[0])
    for pair in range(starts.size - 1):
        first, end = starts[pair], starts[pair + 1]
        for row in range(first, end):
            squares[row] = np.sum((block[row, 1:] - block[row, 0]) ** 2)
        largest = squares[first:end].max() if end > first else 0.0
        for row in range(first, end):
            values = block[row]
            sign = -1.0 if values[0] < 0 else 1.0
            shortfall = top[0] - sign * values[0]
            spread = np.sum((top[1:] - sign * values[1:] - shortfall) ** 2)
            if shortfall <= n_deviations * np.sqrt(spread / (top.size - 1)):
                # Not 0: the only contender may be a row without variance.
                relative = max((squares[row] / largest) ** 2, 1e-9) if largest > 0 else 1.0
                weight += relative
                total += relative * sign * values
    return weight


@njit(cache=True)
def raise_ends(
    one: tuple[Floats, Ints],
    other: tuple[Floats, Ints],
    reference: Floats,
    factors: Floats,
    n_beyond: Ints,
    floors: Floats,
    ends: Floats,
    limit: float,
    unseen: tuple[Floats, float],
) -> float:
    """Raise ``ends`` to the largest upper end of ``±d_j − g``; return the largest p-value.

    Parameters
    ----------
    one, other
        Differences of two models: their block of rows, and where each pair's rows start.
    reference : (B + 1,)
        A lower bound of the other model's gap g: the estimate, and the draws.
    factors : (p,)
        What each pair's deviations are multiplied by.
    n_beyond : (l,)
        Draws beyond each of several quantiles.
    floors : (l, p)
        What a pair's ends are above the estimates at least.
    ends : (l,)
        Ends so far.
    limit
        The value whose p-values are returned: of the null hypothesis that ``±d_j − g`` is at least that.
    unseen
        Each pair's smallest sample and how far two rows can differ, for what the sample cannot show.
    """
    (block, starts), (block_other, starts_other), (n_smallest, widest) = one, other, unseen
    n_levels, n_draws = n_beyond.size, reference.size - 1
    estimates, deviations = np.empty(2), np.empty(2)
    errors, largest, p_value = np.empty((2, n_draws)), np.empty(n_draws), 0.0
    for pair in range(starts.size - 1):
        n_rows, n_theirs = starts[pair + 1] - starts[pair], starts_other[pair + 1] - starts_other[pair]
        for row in range(n_rows):
            mine = block[starts[pair] + row]
            theirs = block_other[starts_other[pair] + (2 * row + 1) * n_theirs // (2 * n_rows)]
            for sign in (1.0, -1.0):
                for way in range(2):
                    estimates[way] = sign * mine[0] - (reference[0] if way == 0 else sign * theirs[0])
                    squares = 0.0
                    for b in range(n_draws):
                        reached = sign * mine[b + 1] - (
                            reference[b + 1] if way == 0 else sign * theirs[b + 1]
                        )
                        errors[way, b] = factors[pair] * (reached - estimates[way])
                        squares += errors[way, b] ** 2
                    deviations[way] = max(np.sqrt(squares / n_draws), 1e-12 * widest)
                # A second way whose end is higher would only widen the first.
                hopeless = estimates[1] + 2 * deviations[1] > estimates[0] + 2 * deviations[0]
                n_ways = 1 if hopeless else 2
                for b in range(n_draws):
                    largest[b] = errors[0, b] / deviations[0]
                    if n_ways == 2:
                        largest[b] = max(largest[b], errors[1, b] / deviations[1])
                # An end exceeds a value if the quantile exceeds all of the ways' distances from it.
                distance = -np.inf
                for way in range(n_ways):
                    distance = max(distance, (limit - estimates[way]) / deviations[way])
                excess = limit - estimates[:n_ways].min()
                missed = (1 - min(max(excess / widest, 0.0), 1.0)) ** n_smallest[pair]
                chance = (1.0 + np.sum(largest >= distance)) / (1.0 + n_draws)
                p_value = max(p_value, chance, missed)
                ordered = False
                for level in range(n_levels):
                    floor = floors[level, pair]
                    distance = -np.inf
                    for way in range(n_ways):
                        if estimates[way] + floor <= ends[level]:
                            distance = max(distance, (ends[level] - estimates[way]) / deviations[way])
                    # Few rows are sorted: most have too few draws beyond what other rows have reached.
                    if np.sum(largest > distance) <= n_beyond[level]:
                        continue
                    if not ordered:
                        largest.sort()
                        ordered = True
                    quantile = largest[n_draws - 1 - n_beyond[level]]
                    end = np.inf
                    for way in range(n_ways):
                        end = min(end, estimates[way] + max(quantile * deviations[way], floor))
                    ends[level] = max(ends[level], end)
    return p_value
