"""Score densities by group with the interval's area highlighted (the paper's Figures 3 to 8)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from partialfair._extras import require
from partialfair._typing import ArrayLike, Floats, IntervalLike, MissingGroups
from partialfair.exceptions import InputError
from partialfair.metrics._inputs import GroupScores, ScoredGroups, scored_groups
from partialfair.plotting._style import GROUP_COLOURS, INTERVAL_COLOUR, MAX_SHOWN, safe_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_group_densities", "plot_score_densities"]

_N_BINS = 1024
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
    """Draw one density per group, one below the other, with the area of its interval in red.

    The red area is the interval's share of the area under the curve, also where scores are tied.

    Parameters
    ----------
    y_score, sensitive_features, interval, sample_weight, higher_is_better, missing_groups
        As in `partial_statistical_parity_difference`.
    threshold
        Marked by a vertical line.
    axes
        One axes per group drawn, to draw on; new ones by default.

    Returns
    -------
    array of Axes
        One per group drawn; at most the twelve largest groups.
    """
    scored = scored_groups(
        y_score,
        sensitive_features,
        interval,
        sample_weight,
        higher_is_better=higher_is_better,
        missing_groups=missing_groups,
    )
    return plot_group_densities(scored, threshold=threshold, axes=axes)


def plot_group_densities(
    scored: ScoredGroups, *, threshold: float | None = None, axes: npt.NDArray[Any] | None = None
) -> npt.NDArray[Any]:
    """Draw the densities of groups that are sorted already, such as ``report.scored``."""
    higher_is_better, scored = scored.higher_is_better, scored.in_users_units()
    order = sorted(range(len(scored)), key=lambda k: -scored.groups[k].n)[:MAX_SHOWN]
    shown = sorted(order)
    if axes is None:
        pyplot = require("matplotlib.pyplot", extra="cli", purpose="drawing")
        size = (6.4, 0.9 + 1.25 * len(shown))
        figure, grid = pyplot.subplots(
            len(shown), 1, figsize=size, sharex=True, squeeze=False, layout="constrained"
        )
        axes = grid[:, 0]
        hidden = len(scored) - len(shown)
        note = f" ({hidden} smaller groups not drawn)" if hidden else ""
        figure.suptitle(f"Score densities, the interval in red{note}", fontsize=11)
    axes = np.asarray(axes, dtype=object).ravel()
    if axes.size != len(shown):
        raise InputError(f"axes must hold one axes for each of the {len(shown)} groups, not {axes.size}")
    every = np.concatenate([group.scores[[0, -1]] for group in scored])
    span = (float(every.min()), float(every.max()))
    for ax, k in zip(axes, shown, strict=True):
        _draw_group(ax, scored.groups[k], GROUP_COLOURS[k % len(GROUP_COLOURS)], span)
        if threshold is not None:
            ax.axvline(threshold, color="0.25", linewidth=1, linestyle=(0, (4, 3)))
    remarks = [
        "" if higher_is_better else "lower is better",
        "" if threshold is None else "dashed: threshold",
    ]
    said = "; ".join(filter(None, remarks))
    axes[-1].set_xlabel(f"score ({said})" if said else "score")
    return axes


def _draw_group(ax: Axes, group: GroupScores, colour: str, span: tuple[float, float]) -> None:
    centres, density = _density(group, span)
    ax.plot(centres, density, color=colour, linewidth=1.6)
    ax.fill_between(centres, density, color=colour, alpha=0.18, linewidth=0)
    for part in group.interval.parts:
        last, first = _scores_at(centres, density, part)
        inside = np.concatenate([[first], centres[(centres > first) & (centres < last)], [last]])
        ax.fill_between(
            inside, np.interp(inside, centres, density), color=INTERVAL_COLOUR, alpha=0.65, linewidth=0
        )
    ax.set_ylim(bottom=0)
    ax.set_yticks([])
    for side in ("left", "right", "top"):
        ax.spines[side].set_visible(False)
    ax.set_title(f"{safe_name(group.label)}  (n = {group.n:,})", loc="left", fontsize=9, color=colour, pad=2)


def _density(group: GroupScores, span: tuple[float, float]) -> tuple[Floats, Floats]:
    """Gaussian kernel density from a histogram: O(n) however many scores there are.

    Silverman's bandwidth ``0.9 min(sd, IQR/1.34) n^(−1/5)``.
    """
    from scipy.ndimage import gaussian_filter1d

    weights = np.ones(group.n) if group.weights is None else group.weights
    width = span[1] - span[0] or max(abs(span[0]), 1.0) * 0.1
    scaled = (group.scores - span[0]) / width
    deviation = np.sqrt(np.average((scaled - np.average(scaled, weights=weights)) ** 2, weights=weights))
    below = np.cumsum(weights) / weights.sum()
    quartiles = scaled[np.searchsorted(below, 0.75)] - scaled[np.searchsorted(below, 0.25)]
    spread = min(filter(None, (deviation, quartiles / 1.34)), default=0.02)
    bandwidth = width * max(0.9 * spread * group.n_effective**-0.2, _NARROWEST)
    low, high = span[0] - 3 * bandwidth, span[1] + 3 * bandwidth
    counts, edges = np.histogram(group.scores, bins=_N_BINS, range=(low, high), weights=weights)
    step = edges[1] - edges[0]
    density = gaussian_filter1d(counts / counts.sum() / step, bandwidth / step, mode="constant")
    return (edges[:-1] + edges[1:]) / 2, np.asarray(density)


def _scores_at(centres: Floats, density: Floats, ranks: tuple[float, float]) -> Floats:
    """Scores above which shares ``ranks`` of the area under the density lie."""
    from scipy.integrate import cumulative_trapezoid

    above = -cumulative_trapezoid(density[::-1], centres[::-1], initial=0.0)
    return np.asarray(np.interp(np.array(ranks) * above[-1], above, centres[::-1]))
