"""Choose an interval: of those that contain the decision rate, the one with the largest gap (Appendix B)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from partialfair.data.groups import enough, group_name, members_text
from partialfair.data.intervals import as_interval_set, span_text
from partialfair.exceptions import InputError
from partialfair.metrics import differences
from partialfair.metrics.bounds import bound_fluctuation, join_differences
from partialfair.metrics.inputs import ScoredGroups, Setting, ranked_threshold, scored_groups
from partialfair.metrics.partial import statistical_parity_gap
from partialfair.metrics.resampling import resample
from partialfair.utils.checks import check_fraction, check_number, random_generator
from partialfair.utils.notebook import frame_cells, result_html
from partialfair.utils.text import fixed, listed, short_percent, shorten
from partialfair.utils.typing import ArrayLike, Floats, GroupLabel, MissingGroups

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

_TIE = 1e-9
_MOST_POSITIONS = 5  # that notebooks show
# Resamples that lie outside an interval, at any confidence: what its ends are read from.
_RESAMPLES_BEYOND = 20


@dataclass(frozen=True, eq=False, repr=False)
class IntervalChoice:
    """The chosen interval, and the positions it was compared with.

    Attributes
    ----------
    interval
        ``(low, high)`` from the best; pass it as ``interval``.
    gap, ci_low, ci_high
        Statistical-parity gap there with its confidence interval. The confidence interval holds
        simultaneously for the gaps at all positions, and therefore for the one that was chosen for its large
        gap. A `fairness_report` of the same scores on the chosen interval is not corrected for the choice:
        its confidence interval is too short and too high.
    confidence
        Confidence of that interval.
    positive_rate
        The decision rate p that every candidate contains.
    candidates
        One row per position: ``low``, ``high`` (the ends) and ``gap``.
    excluded
        Groups with too few members inside an interval of that width: their gaps did not count.
    """

    interval: tuple[float, float]
    gap: float
    ci_low: float
    ci_high: float
    confidence: float
    positive_rate: float
    candidates: pd.DataFrame
    excluded: tuple[GroupLabel, ...] = ()

    def __repr__(self) -> str:
        low, high = self.interval
        return (
            f"<IntervalChoice: ranks {span_text(low, high)}, gap {fixed(self.gap)} "
            f"({fixed(self.ci_low)} to {fixed(self.ci_high)}), of {len(self.candidates)} positions>"
        )

    def _repr_html_(self) -> str:
        low, high = self.interval

        def draw(ax: Axes) -> None:
            ax.plot(100 * self.candidates["low"], self.candidates["gap"], marker=".")
            ax.plot([100 * low], [self.gap], "o", color="#D62728", markersize=9, fillstyle="none")
            ax.set(xlabel="the interval begins at rank (%)", ylabel="gap")
            ax.set_ylim(0, 1.1 * ax.get_ylim()[1])

        statement = self.statement[0].upper() + self.statement[1:] + "."
        nearest = (self.candidates["low"] - low).abs().argsort()[:_MOST_POSITIONS]  # the chosen one first
        table = frame_cells(self.candidates.iloc[nearest])
        return result_html(f"Ranks {span_text(low, high)}. {statement}", *table, draw=draw)

    @property
    def statement(self) -> str:
        """A sentence with the gap and its confidence interval, corrected for the choice."""
        excluded = ""
        if self.excluded:
            names = listed([repr(shorten(group_name(label))) for label in self.excluded])
            excluded = f"; too small to evaluate and excluded: {names}"
        return (
            f"the interval was chosen for its large gap among {len(self.candidates)} positions on the same "
            f"rows; corrected for that, its statistical-parity gap, {self.gap:.3f} on the interval scale, is "
            f"between {self.ci_low:.3f} and {self.ci_high:.3f} with {short_percent(self.confidence)} "
            f"confidence{excluded}"
        )


def choose_interval(
    y_score: ArrayLike,
    *,
    sensitive_features: ArrayLike,
    positive_rate: float | None = None,
    threshold: float | None = None,
    width: float = 0.25,
    sample_weight: ArrayLike | None = None,
    clusters: ArrayLike | None = None,
    confidence: float = 0.95,
    random_state: int | np.random.Generator | None = 0,
    higher_is_better: bool = True,
    min_group_size: float = 10,
    missing_groups: MissingGroups = "error",
) -> IntervalChoice:
    """Choose the interval of a given width that contains the decision rate and has the largest gap.

    Appendix B of the paper recommends an interval that contains the rate p of positive decisions and shows
    the most unfairness. Comparing different widths is degenerate (short intervals win on the interval scale,
    long ones on the absolute scale), so the width is fixed. Among equal gaps the one with the highest lower
    confidence bound is chosen, then the one whose middle is nearest to p.

    Parameters
    ----------
    y_score : array-like of shape (n,)
        Scores; only their order matters.
    sensitive_features : array-like of shape (n,) or (n, q)
        Group of each row; several columns define intersectional groups.
    positive_rate : float, optional
        The rate p, for instance the historical admission rate.
    threshold : float, optional
        Used if p is not given: ``p = Pr(score > threshold)``, or below it where lower is better.
    width : float, default=0.25
        Width of the interval.
    sample_weight : array-like of shape (n,), optional
        A row of weight 2 counts as two rows, one of weight 0 as none.
    clusters : array-like of shape (n,), optional
        Cluster of each row; see `partialfair.metrics.fairness_report`.
    confidence : float, default=0.95
        Confidence of the interval for the gap at the chosen position.
    random_state : int or numpy.random.Generator, default=0
        Seed of the confidence intervals.
    higher_is_better : bool, default=True
        If False, ranks count from the lowest score.
    min_group_size : int, default=10
        Groups with fewer effective members inside an interval of that width are excluded, as they are too
        small to evaluate there; p is still the rate of all groups.
    missing_groups : {"error", "ignore"}, default="error"
        "ignore" leaves out rows without a group; "error" raises `InputError`.

    Returns
    -------
    IntervalChoice
        The interval, its gap, and the other positions.

    See Also
    --------
    partialfair.metrics.unfairness_map : The gaps of all intervals, with a simultaneous band.

    Examples
    --------
    >>> from partialfair import choose_interval
    >>> from partialfair.datasets import make_admissions
    >>> data = make_admissions(seed=0)
    >>> groups = data.sensitive_features
    >>> choose_interval(data.historical_score, sensitive_features=groups, positive_rate=0.3).interval
    (0.1, 0.35)
    """
    import pandas as pd

    check_number(width, "width", above=0.0, high=1.0)
    check_fraction(confidence, "confidence")
    draws = random_generator(random_state)
    scored = scored_groups(
        y_score,
        sensitive_features,
        (0.0, 1.0),
        sample_weight,
        None,
        higher_is_better,
        missing_groups,
        clusters,
    )
    rate = _positive_rate(scored, positive_rate, threshold)
    check_number(min_group_size, "min_group_size", low=0.0)
    large = [group for group in scored if enough(group.n_effective * width, min_group_size)]
    small = [group for group in scored if group not in large]
    if len(large) < 2:
        sizes = [
            f"{shorten(group.name)!r} ({members_text(group.n_effective * width, too_few=True)})"
            for group in small
        ]
        raise InputError(
            f"{'only 1' if large else 'none'} of {len(scored)} groups has at least {min_group_size:g} "
            f"effective members inside an interval {short_percent(width)} wide, and a gap needs two; too "
            f"small: {listed(sizes)}; widen it, or lower min_group_size"
        )
    scored = replace(scored, groups=tuple(large))
    # Whole percents at which an interval of that width starts and contains the rate.
    first, last = max(0.0, rate - width), min(rate, 1.0 - width)
    percents = np.arange(np.ceil(100 * first - _TIE), np.floor(100 * last + _TIE) + 1)
    starts = np.abs(percents) / 100 if percents.size else np.array([first])  # never −0
    ends = np.round(starts + width, 12)
    moved = [
        scored.on(as_interval_set(ends_of)) for ends_of in zip(starts.tolist(), ends.tolist(), strict=True)
    ]
    gaps = np.array([statistical_parity_gap(candidate, Setting()).value for candidate in moved])
    radius = _radius_of_all(moved, confidence, draws)
    tied = np.flatnonzero(gaps >= gaps.max() - _TIE).tolist()
    # The higher lower bound first, then the middle that is nearer to the rate.
    chosen = min(tied, key=lambda p: (radius[p], abs((starts[p] + ends[p]) / 2 - rate)))
    gap = float(gaps[chosen])
    off = float(radius[chosen])
    interval = (float(starts[chosen]), float(ends[chosen]))
    excluded = tuple(group.label for group in small)
    candidates = pd.DataFrame({"low": starts, "high": ends, "gap": gaps})
    return IntervalChoice(
        interval, gap, max(0.0, gap - off), min(1.0, gap + off), confidence, rate, candidates, excluded
    )


def _positive_rate(scored: ScoredGroups, positive_rate: float | None, threshold: float | None) -> float:
    if positive_rate is not None:
        check_number(positive_rate, "positive_rate", low=0.0, high=1.0)
        return float(positive_rate)
    if threshold is None:
        raise InputError(
            "give positive_rate (the share of positive decisions) or the threshold that makes them"
        )
    theta = ranked_threshold(scored, threshold)
    weight = [group.n if group.weights is None else group.weights.sum() for group in scored]
    return float(np.average([float(group.rank(theta)) for group in scored], weights=weight))


def _radius_of_all(moved: Sequence[ScoredGroups], confidence: float, rng: np.random.Generator) -> Floats:
    """How far the gaps at all positions may be off simultaneously: so far at most is the chosen one off."""
    first, last = moved[0].groups[0].interval.parts[0], moved[-1].groups[0].interval.parts[0]
    everywhere = moved[0].on(as_interval_set((first[0], last[1])))
    n_resamples = int(np.ceil(_RESAMPLES_BEYOND / (1 - confidence) - _TIE))
    drawn = resample(everywhere, threshold=None, n_resamples=n_resamples, rng=rng)
    families = [differences.statistical_parity(replace(drawn, scored=scored), Setting()) for scored in moved]
    n_members = [group.n_inside for group in moved[0]]  # of any position: all are as wide
    spread = bound_fluctuation(join_differences(families), confidence, n_members)
    # Each side may miss with half of the probability: at a true gap of 0 only the lower end can.
    of_pairs = spread.radius_everywhere(spread.error / 2).reshape(len(moved), -1)
    gaps = spread.pairs.gap.reshape(len(moved), -1)
    # The true maximum over pairs is within the largest of their ends, on either side.
    below = gaps.max(axis=1) - (gaps - of_pairs).max(axis=1)
    above = (gaps + of_pairs).max(axis=1) - gaps.max(axis=1)
    return np.asarray(np.maximum(below, above))
