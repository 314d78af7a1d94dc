"""Gaps over all ranks: the rank curve of the groups (Figure 2 of the paper), and the unfairness map."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from partialfair.data.groups import group_name
from partialfair.data.intervals import span_text
from partialfair.exceptions import InputError
from partialfair.metrics import grid
from partialfair.metrics.inputs import ScoredGroups, check_gap_scale, oriented, scored_groups
from partialfair.metrics.map_radii import MapRadii
from partialfair.utils.checks import check_count, check_fraction
from partialfair.utils.notebook import result_html
from partialfair.utils.text import fixed, short_percent, shorten
from partialfair.utils.typing import ArrayLike, Floats, GapScale, GroupLabel, Ints, MissingGroups

if TYPE_CHECKING:
    from matplotlib.axes import Axes


# Widths of which the largest gap is shown; the first is that of the verdict.
_WIDTHS = (0.25, 0.1, 0.5)

# Groups shown of a curve, from either end.
_MOST_ROWS = 6


@dataclass(frozen=True, eq=False, repr=False)
class RankCurve:
    """Ranks of thresholds, from the best to the worst, in every group.

    Attributes
    ----------
    thresholds : (t,)
        Falling from +∞ to −∞; rising from −∞ to +∞ where lower is better.
    ranks : (t, n_groups)
        ``F̄_k(θ)``, the proportion of group k with a better score than θ: from 0 to 1.
    labels
        The groups.
    higher_is_better
        Whether high scores are the good ones.
    """

    thresholds: Floats
    ranks: Floats
    labels: tuple[GroupLabel, ...]
    higher_is_better: bool = True

    def __repr__(self) -> str:
        return f"<RankCurve of {len(self.labels)} groups at {self.thresholds.size:,} thresholds>"

    def _repr_html_(self) -> str:
        widest = 1 + int(np.argmax(np.ptp(self.ranks[1:-1], axis=1)))  # at a score, not at an end
        lines = sorted(zip(self.ranks[widest], map(group_name, self.labels), strict=True), reverse=True)
        (most, first), (least, last) = lines[0], lines[-1]
        where = f"{shorten(first)} and {shorten(last)}, at the score {self.thresholds[widest]:.4g}"
        verdict = f"Ranks differ by up to {fixed(most - least)}: {where}."
        rows = [[name, fixed(rank)] for rank, name in lines]
        rows = [*rows[:_MOST_ROWS], *rows[_MOST_ROWS:][-_MOST_ROWS:]]
        columns = ["group", f"proportion {'above' if self.higher_is_better else 'below'} it"]
        return result_html(verdict, columns, rows, draw=self.plot)

    def plot(self, *, ax: Axes | None = None, **options: Any) -> Axes:
        """Draw the curve on Matplotlib axes; see `partialfair.plotting.ranks.plot_rank_curve`."""
        from partialfair.plotting.ranks import plot_rank_curve

        return plot_rank_curve(self, ax=ax, **options)


def rank_curve(
    y_score: ArrayLike,
    *,
    sensitive_features: ArrayLike,
    sample_weight: ArrayLike | None = None,
    n_points: int | None = None,
    higher_is_better: bool = True,
    missing_groups: MissingGroups = "error",
) -> RankCurve:
    """Return the curve ``(F̄_1(θ), ..., F̄_G(θ))`` as θ goes from the best score to the worst.

    Equal score distributions give the diagonal; statistical parity on ``[α, β)`` means that the curve follows
    it between α and β (Figure 2 of the paper).

    Parameters
    ----------
    y_score : array-like of shape (n,)
        Scores; only their order matters.
    sensitive_features : array-like of shape (n,) or (n, q)
        Group of each row; several columns define intersectional groups.
    sample_weight : array-like of shape (n,), optional
        A row of weight 2 counts as two rows, one of weight 0 as none.
    n_points : int, optional
        Largest number of thresholds, evenly spaced among the distinct scores; by default all of them.
    higher_is_better : bool, default=True
        If False, ranks count from the lowest score.
    missing_groups : {"error", "ignore"}, default="error"
        "ignore" leaves out rows without a group; "error" raises `InputError`.

    Returns
    -------
    RankCurve
        The thresholds and their ranks; ``.plot()`` draws them.

    See Also
    --------
    unfairness_map : The gaps of all intervals.
    partialfair.plotting.plot_score_densities : The score distributions with the interval shaded.

    Examples
    --------
    >>> from partialfair.metrics import rank_curve
    >>> curve = rank_curve([9, 8, 5, 4, 7, 6, 3, 2], sensitive_features=list("aaaabbbb"))
    >>> curve.labels, float(abs(curve.ranks[:, 0] - curve.ranks[:, 1]).max())
    (('a', 'b'), 0.5)
    """
    if n_points is not None:
        check_count(n_points, "n_points", low=2)
    scored = scored_groups(
        y_score, sensitive_features, (0.0, 1.0), sample_weight, None, higher_is_better, missing_groups
    )
    return groups_curve(scored, n_points)


def groups_curve(scored: ScoredGroups, n_points: int | None = None) -> RankCurve:
    """Return the rank curve of groups that are already sorted, such as ``report.scored``."""
    distinct = np.unique(np.concatenate([group.scores for group in scored]))[::-1]
    if n_points is not None and n_points < distinct.size:
        distinct = distinct[np.linspace(0, distinct.size - 1, n_points).round().astype(int)]
    thresholds = np.concatenate([[np.inf], distinct, [-np.inf]])
    ranks = np.stack([group.rank(thresholds) for group in scored], axis=1)
    labels = tuple(group.label for group in scored)
    return RankCurve(oriented(thresholds, scored.higher_is_better), ranks, labels, scored.higher_is_better)


@dataclass(frozen=True)
class IntervalGap:
    """One interval of the map.

    Attributes
    ----------
    interval
        Ranks from the best, (low, high).
    gap, ci_low, ci_high
        Its gap, and the ends of the confidence band that holds for all intervals simultaneously.
    groups
        Labels of the worst pair.
    """

    interval: tuple[float, float]
    gap: float
    ci_low: float
    ci_high: float
    groups: tuple[GroupLabel, GroupLabel]


@dataclass(frozen=True, eq=False, repr=False)
class UnfairnessMap:
    """Gaps of all intervals ``[i/n, j/n)``, counted from the best.

    Attributes
    ----------
    edges : (n + 1,)
        Ends of the intervals: 0, 1/n, ..., 1.
    gaps : (n, n)
        ``gaps[i, j − 1]`` is the gap of the worst pair on ``[edges[i], edges[j])``; nan where j ≤ i.
    ci_low, ci_high : (n, n)
        A simultaneous confidence band: with probability ``confidence`` **all** true gaps, of every interval
        and pair, lie inside. It is corrected for choosing the largest of thousands of gaps.
    pair : (n, n)
        Position in ``pairs`` of the worst pair.
    pairs
        All pairs of group labels.
    gap_scale, confidence, higher_is_better
        The settings.
    """

    edges: Floats
    gaps: Floats
    ci_low: Floats
    ci_high: Floats
    pair: Ints
    pairs: tuple[tuple[GroupLabel, GroupLabel], ...]
    gap_scale: GapScale
    confidence: float
    higher_is_better: bool = True

    def __repr__(self) -> str:
        n_groups = len({label for pair in self.pairs for label in pair})
        return f"<UnfairnessMap of {self.n_intervals:,} intervals and {n_groups} groups. {self.verdict}>"

    def _repr_html_(self) -> str:
        percents = short_percent(self.confidence)
        rows = []
        for found in map(self._widest_of, _WIDTHS):
            low, high = found.interval
            rows.append(
                [
                    short_percent(high - low),
                    span_text(low, high),
                    fixed(found.gap),
                    f"{fixed(found.ci_low)} to {fixed(found.ci_high)}",
                    " / ".join(map(group_name, found.groups)),
                ]
            )
        note = (
            f"With {percents} confidence the gaps of all {self.n_intervals:,} intervals lie in their bands, "
            "simultaneously: an interval may be chosen after looking."
        )
        columns = ["width", "ranks", "largest gap", f"{percents} band", "between"]
        return result_html(self.verdict, columns, rows, notes=[note], draw=self.plot)

    @property
    def verdict(self) -> str:
        """The largest gap of intervals a quarter wide, where it is, and whether it is detected."""
        found = self._widest_of(_WIDTHS[0])
        low, high = found.interval
        between = " and ".join(shorten(group_name(label)) for label in found.groups)
        shown = "Gap detected" if found.ci_low > 0 else "No gap detected"
        band = f"{short_percent(self.confidence)} band {fixed(found.ci_low)} to {fixed(found.ci_high)}"
        return (
            f"{shown}: of intervals {short_percent(high - low)} wide the largest gap is {fixed(found.gap)} "
            f"({band}), on ranks {span_text(low, high)}, between {between}."
        )

    def _widest_of(self, width: float) -> IntervalGap:
        """Return the interval with the largest gap, of about that width."""
        step = max(round(width * (self.edges.size - 1)), 1)
        return self.widest(float(self.edges[step]))

    @property
    def n_intervals(self) -> int:
        """Number of intervals compared."""
        return int(np.isfinite(self.gaps).sum())

    def at(self, low: float, high: float) -> IntervalGap:
        """Return the interval whose ends are the given edges; they must lie on the grid."""
        i, j = (self._edge(end) for end in (low, high))
        if not i < j:
            raise InputError(f"interval ({low:g}, {high:g}) is empty or reversed; low must be below high")
        return self._cell(i, j - 1)

    def widest(self, width: float | None = None) -> IntervalGap:
        """Return the interval with the largest gap, among those of one width if it is given.

        Without a width the answer is degenerate: short intervals always win on the interval scale, long ones
        on the absolute scale.
        """
        if width is None:
            return self._cell(*divmod(int(np.nanargmax(self.gaps)), self.gaps.shape[1]))
        step = self._edge(width)
        if step == 0:
            raise InputError(f"width {width:g} is narrower than the grid's step {self.edges[1]:g}")
        first = int(np.argmax(np.diagonal(self.gaps, step - 1)))
        return self._cell(first, first + step - 1)

    def plot(self, *, interval: tuple[float, float] | None = None, ax: Axes | None = None) -> Axes:
        """Draw the map on Matplotlib axes; see `partialfair.plotting.ranks.plot_unfairness_map`."""
        from partialfair.plotting.ranks import plot_unfairness_map

        return plot_unfairness_map(self, interval=interval, ax=ax)

    def _edge(self, value: float) -> int:
        position = int(np.argmin(np.abs(self.edges - value)))
        if abs(self.edges[position] - value) > 1e-9:
            raise InputError(f"{value:g} is not on the map's grid of step 1/{self.edges.size - 1}")
        return position

    def _cell(self, i: int, j: int) -> IntervalGap:
        return IntervalGap(
            (float(self.edges[i]), float(self.edges[j + 1])),
            float(self.gaps[i, j]),
            float(self.ci_low[i, j]),
            float(self.ci_high[i, j]),
            self.pairs[self.pair[i, j]],
        )


def unfairness_map(
    y_score: ArrayLike,
    *,
    sensitive_features: ArrayLike,
    n_grid: int = 50,
    gap_scale: GapScale = "interval",
    confidence: float = 0.95,
    sample_weight: ArrayLike | None = None,
    higher_is_better: bool = True,
    missing_groups: MissingGroups = "error",
) -> UnfairnessMap:
    """Compute the exact statistical-parity gap of all ``n_grid (n_grid + 1) / 2`` intervals from one sort.

    The curve θ → (F̄_k(θ), F̄_k'(θ)) is monotone and visits at most ``2 n_grid + 1`` cells of the grid; a few
    extremes per visit determine the gap of every interval (see `partialfair.metrics.grid`).

    Parameters
    ----------
    y_score : array-like of shape (n,)
        Scores; only their order matters.
    sensitive_features : array-like of shape (n,) or (n, q)
        Group of each row; several columns define intersectional groups.
    n_grid : int, default=50
        Intervals end on multiples of ``1 / n_grid``.
    gap_scale : {"interval", "absolute"}, default="interval"
        Scale of the gap; see `partial_statistical_parity_difference`.
    confidence : float, default=0.95
        Confidence of the whole band: with that probability the gaps of every pair are within ``R / (β − α)``
        of the truth on all intervals. R is about ``1.36 √(1/n_k + 1/n_k')`` for 95% and two groups, as in the
        two-sample Kolmogorov–Smirnov test, and grows with the number of pairs. It never exceeds ``ε_k +
        ε_k'`` of the DKW inequality. On the absolute scale gaps are within R of those of the interval, shrunk
        or extended by the error of the ranks of a group. See `partialfair.metrics.map_radii`.
    sample_weight : array-like of shape (n,), optional
        A row of weight 2 counts as two rows, one of weight 0 as none.
    higher_is_better : bool, default=True
        If False, ranks count from the lowest score.
    missing_groups : {"error", "ignore"}, default="error"
        "ignore" leaves out rows without a group; "error" raises `InputError`.

    Returns
    -------
    UnfairnessMap
        The gaps with a simultaneous confidence band; ``.plot()`` draws them.

    See Also
    --------
    partialfair.choose_interval : Choose the interval of one width with the largest gap.
    rank_curve : The ranks behind the gaps.

    Examples
    --------
    >>> from partialfair.datasets import make_admissions
    >>> from partialfair.metrics import unfairness_map
    >>> data = make_admissions(seed=0)
    >>> found = unfairness_map(data.historical_score, sensitive_features=data.sensitive_features, n_grid=20)
    >>> found.widest(0.25).interval, found.widest(0.25).groups
    ((0.1, 0.35), ('North', 'Islands'))
    """
    check_count(n_grid, "n_grid", low=2)
    check_fraction(confidence, "confidence")
    scored = scored_groups(
        y_score, sensitive_features, (0.0, 1.0), sample_weight, None, higher_is_better, missing_groups
    )
    check_gap_scale(gap_scale, scored)
    return groups_map(scored, n_grid=n_grid, gap_scale=gap_scale, confidence=confidence)


def groups_map(scored: ScoredGroups, *, n_grid: int, gap_scale: GapScale, confidence: float) -> UnfairnessMap:
    """Compute the map of groups that are already sorted, such as ``report.scored``."""
    radii = MapRadii.of(scored, confidence)
    positions = np.array(list(scored.pairs()))
    of_pairs = radii.interval(positions) if gap_scale == "interval" else radii.absolute(positions)
    # Below every gap; nan where there is no interval.
    values = np.full((n_grid, n_grid), np.nan)
    values[np.triu_indices(n_grid)] = -1.0
    # The worst gap of all pairs is at least the largest lower end and at most the largest upper end.
    low, high = values.copy(), values.copy()
    pair = np.zeros((n_grid, n_grid), dtype=np.int64)
    for position, visits in enumerate(grid.visits_of_pairs(scored.groups, n_grid)):
        radius = float(of_pairs[position])
        if gap_scale == "interval":
            gaps = grid.clipped_grid_gaps(*visits, n_grid)
            grid.widen_interval_band(gaps, radius, low, high)
        else:
            widest = grid.widest_in_strips(*visits, n_grid)
            gaps = grid.gaps_in_strips(widest)
            k, j = positions[position]
            reach = (float(radii.membership[k]), float(radii.membership[j]))
            grid.widen_absolute_band(widest, radius, reach, low, high)
        grid.keep_widest(gaps, 0.0, position, values, pair)
    edges, labels = np.arange(n_grid + 1) / n_grid, [group.label for group in scored]
    pairs = tuple((labels[k], labels[j]) for k, j in positions)
    return UnfairnessMap(
        edges, values, low, high, pair, pairs, gap_scale, confidence, scored.higher_is_better
    )
