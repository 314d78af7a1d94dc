"""Plots of scores by group with the interval highlighted (the paper's Figures 3 to 8), and of score maps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from partialfair.exceptions import InputError
from partialfair.metrics.discrete import DiscreteScores, score_span
from partialfair.metrics.inputs import GroupScores, ScoredGroups, check_threshold, scored_groups
from partialfair.plotting.style import (
    GROUP_COLOURS,
    INTERVAL_COLOUR,
    MAX_SHOWN,
    group_style,
    legend_place,
    new_axes,
    percent_axis,
    safe_name,
    set_title,
)
from partialfair.utils.extras import require
from partialfair.utils.typing import ArrayLike, Floats, IntervalLike, MissingGroups

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from partialfair.postprocessing.maps import ScoreMap

_FIGURE_WIDTH = 6.4  # inches
_LETTERS_ACROSS = 64  # digits of ticks that fit side by side on a figure of that width
_HEADROOM = 1.08  # the highest bar leaves this much of the axis free
_N_BINS = 1024
_BEYOND = 0.04  # of the range of all knots of a map is drawn outside it
_NARROWEST = 0.005  # bandwidth, as a share of the axis: the histogram's bins must be narrower


def plot_score_densities(
    y_score: ArrayLike,
    *,
    sensitive_features: ArrayLike,
    interval: IntervalLike = (0.0, 1.0),
    threshold: float | None = None,
    sample_weight: ArrayLike | None = None,
    higher_is_better: bool = True,
    missing_groups: MissingGroups = "error",
    axes: npt.NDArray[Any] | None = None,
) -> npt.NDArray[Any]:
    """Draw one density per group, below each other, with the area of the interval in red.

    The red area is the interval's fraction of the area under the curve, also where scores are tied. Discrete
    scores, which take few values, are drawn as bars: the red part of a bar is the proportion of the group
    with this value inside the interval.

    Parameters
    ----------
    y_score : array-like of shape (n,)
        Scores; only their order matters.
    sensitive_features : array-like of shape (n,) or (n, q)
        Group of each row; several columns define intersectional groups.
    interval : interval-like, default=(0, 1)
        Ranks from the best; see `partial_statistical_parity_difference`.
    threshold : float, optional
        Marked by a vertical line.
    sample_weight : array-like of shape (n,), optional
        A row of weight 2 counts as two rows, one of weight 0 as none.
    higher_is_better : bool, default=True
        If False, ranks count from the lowest score.
    missing_groups : {"error", "ignore"}, default="error"
        "ignore" leaves out rows without a group; "error" raises `InputError`.
    axes : array of matplotlib Axes, optional
        One axes per drawn group; by default on a new figure.

    Returns
    -------
    array of matplotlib Axes
        One per drawn group; at most the twelve largest groups.

    See Also
    --------
    partialfair.metrics.rank_curve : The ranks of all thresholds, with ``plot()``.
    partialfair.metrics.unfairness_map : The gaps of all intervals, with ``plot()``.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from partialfair.datasets import make_admissions
    >>> from partialfair.plotting import plot_score_densities
    >>> data = make_admissions(seed=0)
    >>> axes = plot_score_densities(
    ...     data.historical_score, sensitive_features=data.sensitive_features, interval=data.interval
    ... )
    >>> len(axes)
    3
    >>> matplotlib.pyplot.close(axes[0].figure)
    """
    scored = scored_groups(
        y_score,
        sensitive_features,
        interval,
        sample_weight,
        higher_is_better=higher_is_better,
        missing_groups=missing_groups,
    )
    if threshold is not None:
        check_threshold(threshold)
    return plot_group_densities(scored, threshold=threshold, axes=axes)


def plot_group_densities(
    scored: ScoredGroups, *, threshold: float | None = None, axes: npt.NDArray[Any] | None = None
) -> npt.NDArray[Any]:
    """Draw the densities of groups that are already sorted, such as ``report.scored``."""
    higher_is_better, scored = scored.higher_is_better, scored.in_users_units()
    # The largest groups, in their usual order.
    shown = sorted(sorted(range(len(scored)), key=lambda k: -scored.groups[k].n)[:MAX_SHOWN])
    discrete = DiscreteScores.of(scored)
    if axes is None:
        axes = _stacked_axes(len(shown), len(scored), "Score densities" if discrete is None else "Scores")
    axes = np.asarray(axes, dtype=object).ravel()
    if axes.size != len(shown):
        raise InputError(f"axes must hold one axes for each of the {len(shown)} groups, not {axes.size}")
    if discrete is None:
        remark = _draw_densities(axes, scored, shown)
    else:
        remark = _draw_bars(axes, scored, shown, discrete)
    for ax, k in zip(axes, shown, strict=True):
        group = scored.groups[k]
        ax.set_title(f"{safe_name(group.label)}  (n = {group.n:,})", loc="left", fontsize=9, pad=2)
        if threshold is not None:
            cut = threshold if discrete is None else float(discrete.cuts(threshold, higher_is_better))
            ax.axvline(cut, color="0.25", linewidth=1, linestyle=(0, (4, 3)))
    remarks = [
        remark,
        "" if higher_is_better else "lower is better",
        "" if threshold is None else "dashed: threshold",
    ]
    said = "; ".join(filter(None, remarks))
    axes[-1].set_xlabel(f"score ({said})" if said else "score")
    return axes


def _stacked_axes(n_shown: int, n_groups: int, title: str) -> npt.NDArray[Any]:
    """Return axes below each other on a new figure, whose title says how many groups are not drawn."""
    pyplot = require("matplotlib.pyplot", extra="cli", purpose="drawing")
    size = (_FIGURE_WIDTH, 0.9 + 1.25 * n_shown)
    figure, grid = pyplot.subplots(n_shown, 1, figsize=size, sharex=True, squeeze=False, layout="constrained")
    hidden = n_groups - n_shown
    note = f" ({hidden} smaller groups not drawn)" if hidden else ""
    figure.suptitle(f"{title}, the interval in red{note}", fontsize=11)
    axes: npt.NDArray[Any] = grid[:, 0]
    return axes


def _draw_densities(axes: npt.NDArray[Any], scored: ScoredGroups, shown: list[int]) -> str:
    """Draw the density of every group; return a note for the label of the axis."""
    span = score_span(scored)
    for ax, k in zip(axes, shown, strict=True):
        _draw_density(ax, scored.groups[k], _colour(k), span)
        _open_frame(ax)
        ax.set_yticks([])
        ax.spines["left"].set_visible(False)
    beyond = sum(
        int(
            np.searchsorted(group.scores, span[0]) + group.n - np.searchsorted(group.scores, span[1], "right")
        )
        for group in scored
    )
    return f"{beyond:,} beyond the axis, drawn at its ends" if beyond else ""


def _draw_bars(
    axes: npt.NDArray[Any], scored: ScoredGroups, shown: list[int], discrete: DiscreteScores
) -> str:
    """Draw the bars of every group on one scale; return a note for the label of the axis."""
    # One scale for all groups, so that bars compare.
    top = max(float(discrete.shares(scored.groups[k]).max()) for k in shown)
    for ax, k in zip(axes, shown, strict=True):
        group = scored.groups[k]
        bars = {"x": discrete.centres, "width": discrete.width}
        ax.bar(**bars, height=discrete.shares(group), color=_colour(k), alpha=0.35)
        # From the bottom: where the interval's end cuts a block of ties, the red part is its share.
        ax.bar(**bars, height=discrete.shares_inside(group), color=INTERVAL_COLOUR, alpha=0.65)
        _open_frame(ax)
        ax.set_xlim(discrete.span)
        ax.set_ylim(0, _HEADROOM * top)
        ax.locator_params(axis="y", nbins=2)
        ax.tick_params(axis="y", labelsize=8)
        percent_axis(ax, "y")
        ticks = _apart(discrete)
        ax.set_xticks(discrete.centres[ticks], [discrete.labels[tick] for tick in ticks])
    return "every value has the same room" if discrete.is_even else ""


def _apart(discrete: DiscreteScores) -> list[int]:
    """Return the positions of values whose labels do not overlap on a figure of our width."""
    letter = (discrete.span[1] - discrete.span[0]) / _LETTERS_ACROSS
    # Half the room that a label needs, in units of the axis.
    halves = [letter * (len(label) + 1) / 2 for label in discrete.labels]
    ticks: list[int] = []
    for k, (centre, half) in enumerate(zip(discrete.centres, halves, strict=True)):
        if not ticks or centre - half >= discrete.centres[ticks[-1]] + halves[ticks[-1]]:
            ticks.append(k)
    return ticks


def _open_frame(ax: Axes) -> None:
    ax.set_ylim(bottom=0)
    for side in ("right", "top"):
        ax.spines[side].set_visible(False)


def _colour(k: int) -> str:
    return GROUP_COLOURS[k % len(GROUP_COLOURS)]


def _draw_density(ax: Axes, group: GroupScores, colour: str, span: tuple[float, float]) -> None:
    centres, density = _density(group, span)
    ax.plot(centres, density, color=colour, linewidth=1.6)
    ax.fill_between(centres, density, color=colour, alpha=0.18, linewidth=0)
    for part in group.interval.parts:
        last, first = _scores_at(centres, density, part)
        inside = np.concatenate([[first], centres[(centres > first) & (centres < last)], [last]])
        ax.fill_between(
            inside, np.interp(inside, centres, density), color=INTERVAL_COLOUR, alpha=0.65, linewidth=0
        )


def _density(group: GroupScores, span: tuple[float, float]) -> tuple[Floats, Floats]:
    """Gaussian kernel density from a histogram: O(n) however many scores there are.

    Silverman's bandwidth ``0.9 min(sd, IQR/1.34) n^(−1/5)``.
    """
    from scipy.ndimage import gaussian_filter1d

    weights = np.ones(group.n) if group.weights is None else group.weights
    # What lies far outside the axis is drawn at its ends.
    scores = np.clip(group.scores, *span)
    width = span[1] - span[0] or max(abs(span[0]), 1.0) * 0.1
    scaled = (scores - span[0]) / width
    deviation = np.sqrt(np.average((scaled - np.average(scaled, weights=weights)) ** 2, weights=weights))
    below = np.cumsum(weights) / weights.sum()
    quartiles = scaled[np.searchsorted(below, 0.75)] - scaled[np.searchsorted(below, 0.25)]
    # Zero, as of half tied scores, is no measure of spread.
    spread = min(filter(None, (deviation, quartiles / 1.34)), default=0.02)
    # At least a few bins of the histogram, or the smoothing would be of single bins.
    bandwidth = width * max(0.9 * spread * group.n_effective**-0.2, _NARROWEST)
    low, high = span[0] - 3 * bandwidth, span[1] + 3 * bandwidth
    counts, edges = np.histogram(scores, bins=_N_BINS, range=(low, high), weights=weights)
    step = edges[1] - edges[0]
    density = gaussian_filter1d(counts / counts.sum() / step, bandwidth / step, mode="constant")
    return (edges[:-1] + edges[1:]) / 2, np.asarray(density)


def _scores_at(centres: Floats, density: Floats, ranks: tuple[float, float]) -> Floats:
    """Return the scores above which the fractions ``ranks`` of the area under the density lie."""
    from scipy.integrate import cumulative_trapezoid

    # Area above each score, summed from the right.
    above = -cumulative_trapezoid(density[::-1], centres[::-1], initial=0.0)
    return np.asarray(np.interp(np.array(ranks) * above[-1], above, centres[::-1]))


def plot_score_maps(maps: Sequence[ScoreMap], *, title: str | None = None, ax: Axes | None = None) -> Axes:
    """Draw the adjusted score against the score, one line per group; unchanged scores lie on the diagonal.

    Scores inside the interval in ``fit`` are bold. Only groups whose scores change are drawn, at most the
    twelve with the largest changes.

    Parameters
    ----------
    maps
        Of an adjuster, ``adjuster.maps_``.
    title
        Title of the axes.
    ax
        Axes to draw on; new ones by default.
    """
    # The largest change of a score, by group.
    moves = [float(np.abs(one.values - one.knots).max()) for one in maps]
    furthest = sorted(range(len(maps)), key=lambda k: -moves[k])[:MAX_SHOWN]
    shown = sorted(k for k in furthest if moves[k] > 0)
    ax = new_axes(ax, size=(5.2, 5.0), n_groups=len(shown))
    # From the first to the last score that moves or lies inside: beyond, all lines are parallels.
    ends = np.concatenate([one.knots for one in maps])
    if shown:
        moved = [(maps[k], maps[k].knots != maps[k].values) for k in shown]
        ends = np.concatenate([[*one.knots[at], *one.values[at], *np.ravel(one.inside)] for one, at in moved])
    room = _BEYOND * float(np.ptp(ends)) or 1.0
    low, high = float(ends.min() - room), float(ends.max() + room)
    stays: dict[str, Any] = {"color": "0.6", "linewidth": 1, "linestyle": (0, (4, 3)), "zorder": 1}
    ax.plot([low, high], [low, high], label="stays", **stays)
    for order, k in enumerate(shown):
        style = group_style(order)
        ax.plot(*_line(maps[k], low, high), linewidth=1.0, zorder=2, label=safe_name(maps[k].group), **style)
        for part in maps[k].inside:
            ax.plot(*_line(maps[k], *part), linewidth=3.0, zorder=3, solid_capstyle="butt", **style)
    ax.set(xlim=(low, high), ylim=(low, high), aspect="equal", xlabel="score", ylabel="adjusted score")
    hidden = len(maps) - len(shown)
    note = f"\n{hidden} groups that move least not drawn" if hidden else ""
    set_title(ax, title or "What becomes of a score", f"bold: inside the interval{note}")
    ax.legend(fontsize=9, frameon=False, **legend_place(len(shown), "upper left"))
    return ax


def _line(one: ScoreMap, low: float, high: float) -> tuple[Floats, Floats]:
    """Return the scores between two ends, both included, where a map may bend, and their adjusted scores."""
    bends = one.knots[(one.knots > low) & (one.knots < high)]
    # Maps are linear between knots.
    scores = np.unique(np.concatenate([[low], bends, [high]]))
    return scores, one(scores)
