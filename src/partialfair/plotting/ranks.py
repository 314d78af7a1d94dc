"""Plots of rank curves (the paper's Figure 2) and unfairness maps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from partialfair.data.intervals import as_interval_set, ranks_text
from partialfair.exceptions import InputError
from partialfair.metrics.map import RankCurve, UnfairnessMap
from partialfair.plotting.style import (
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
from partialfair.utils.text import short_percent
from partialfair.utils.typing import GroupLabel, IntervalLike

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_NARROW, _NO_GAP = 0.1, 1e-9

_SHADE: dict[str, Any] = {"color": INTERVAL_COLOUR, "alpha": 0.08, "linewidth": 0, "zorder": 0}


def plot_rank_curve(
    curve: RankCurve,
    *,
    reference: GroupLabel | None = None,
    interval: IntervalLike | None = None,
    title: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw ``F̄_k(θ)`` of every other group against ``F̄_ref(θ)`` of the reference, from best θ to worst.

    On the diagonal the same proportion of both groups is above a threshold; above the diagonal the proportion
    of group k is larger than that of the reference, below it smaller. At most the twelve groups furthest from
    the diagonal are drawn.

    Parameters
    ----------
    curve
        From `rank_curve`.
    reference
        Group on the horizontal axis; the first one by default.
    interval
        The interval shaded red on both axes. One interval or a union, common to the groups.
    title
        Title of the axes.
    ax
        Axes to draw on; new ones by default.
    """
    position = _position(curve, reference)
    others = _furthest(curve, position)
    names = {k: safe_name(curve.labels[k]) for k in others}
    shaded = None if interval is None else _interval_name(interval)
    ax = new_axes(ax, size=(5.2, 5.0), n_groups=len(others))
    ax.plot([0, 1], [0, 1], color="0.6", linewidth=1, linestyle=(0, (4, 3)), label="equal ranks", zorder=1)
    hidden = len(curve.labels) - 1 - len(others)
    for order, (k, name) in enumerate(names.items()):
        # Below θ the ranks jump to their next values: straight segments join them, as in an ROC curve.
        line = {"linewidth": 1.8, "zorder": 3, "clip_on": False, **group_style(order if hidden else k)}
        ax.plot(curve.ranks[:, position], curve.ranks[:, k], label=name, **line)
    for low, high in () if interval is None else as_interval_set(interval).parts:
        # Both axes are ranks, so the interval is a strip on each.
        ax.axvspan(low, high, **_SHADE)
        ax.axhspan(low, high, **_SHADE)
    ax.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    side, start = ("above", "top") if curve.higher_is_better else ("below", "best, the lowest score")
    reference_name = safe_name(curve.labels[position])
    ax.set_xlabel(f"proportion of {reference_name} {side} the threshold\n(rank from the {start})")
    ax.set_ylabel(f"proportion of {'each other group' if len(others) > 1 else names[others[0]]} {side} it")
    note = f"({hidden} groups nearer to the diagonal not drawn)" if hidden else ""
    set_title(ax, title or "Rank curve", note)
    for which in ("x", "y"):
        percent_axis(ax, which)
    # Lines above the diagonal leave the lower right corner free, lines below it the upper left one.
    above = np.mean(curve.ranks) >= np.mean(curve.ranks[:, position])
    _add_legend(ax, shaded, **legend_place(len(others), "lower right" if above else "upper left"))
    return ax


def _furthest(curve: RankCurve, position: int) -> list[int]:
    """Choose the groups to draw: all but the reference, or those furthest from the diagonal."""
    others = [k for k in range(len(curve.labels)) if k != position]
    # Largest difference of ranks at one threshold.
    distance = np.abs(curve.ranks - curve.ranks[:, [position]]).max(axis=0)
    return sorted(sorted(others, key=lambda k: -distance[k])[:MAX_SHOWN])


def _position(curve: RankCurve, reference: GroupLabel | None) -> int:
    if reference is None:
        return 0
    if reference not in curve.labels:
        raise InputError(f"reference {reference!r} is not one of the groups {list(curve.labels)}")
    return curve.labels.index(reference)


def _interval_name(interval: IntervalLike) -> str:
    return f"interval {ranks_text(as_interval_set(interval))}"


def _add_legend(ax: Axes, shaded: str | None, **place: Any) -> None:
    """Name the lines and the interval."""
    patches = require("matplotlib.patches", extra="cli", purpose="drawing")
    handles, names = ax.get_legend_handles_labels()
    if shaded is not None:
        handles.append(patches.Patch(**{**_SHADE, "alpha": 0.2}))
        names.append(shaded)
    ax.legend(handles, names, fontsize=9, frameon=False, **place)


def plot_unfairness_map(
    unfairness: UnfairnessMap,
    *,
    interval: IntervalLike | None = None,
    title: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the gap of every interval as a color, by its begin (x axis) and its end (y axis).

    Intervals whose gap could be 0 (lower end of the simultaneous band) are faded.

    Parameters
    ----------
    unfairness
        From `unfairness_map`.
    interval
        Interval that is marked by a ring; a union has one ring for each of its parts.
    title
        Title of the axes.
    ax
        Axes to draw on; new ones by default.
    """
    ax = new_axes(ax, size=(6.0, 5.0))
    edges, values = unfairness.edges, unfairness.gaps
    # Short intervals have few rows and large gaps; the colors cover the range of the others.
    begins, ends = np.meshgrid(edges[:-1], edges[1:], indexing="ij")
    # The color scale ends at the largest gap of intervals that are not short.
    widest = float(np.nanmax(np.where(ends - begins >= _NARROW, values, np.nan)))
    top = widest if widest > _NO_GAP else 1.0
    mesh = ax.pcolormesh(edges, edges, values.T, cmap="viridis", vmin=0, vmax=top, rasterized=True)
    ax.figure.colorbar(
        mesh,
        ax=ax,
        extend="max" if np.nanmax(values) > top + _NO_GAP else "neither",
        label=f"gap of the worst pair ({unfairness.gap_scale} scale)",
    )
    # A gray layer over cells whose band includes 0.
    unsure = np.where(unfairness.ci_low > 0, np.nan, np.where(np.isnan(values), np.nan, 1.0))
    ax.pcolormesh(edges, edges, unsure.T, cmap="gray", vmin=0, vmax=1, alpha=0.55, rasterized=True)
    half = (edges[1] - edges[0]) / 2  # the cell of [α, β) begins at α and ends at β
    for begin, end in () if interval is None else as_interval_set(interval).parts:
        ring: dict[str, Any] = {"markersize": 11, "fillstyle": "none", "markeredgewidth": 2.2}
        ax.plot(begin + half, end - half, "o", color=INTERVAL_COLOUR, clip_on=False, **ring)
    ax.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    start = "top" if unfairness.higher_is_better else "best, the lowest score"
    ax.set_xlabel(f"the interval begins at rank (from the {start})")
    ax.set_ylabel("the interval ends at rank")
    mark = "" if interval is None else "ring: your interval\n"
    ax.text(
        0.98,
        0.03,
        f"{mark}faded: the true gap could be 0\n({short_percent(unfairness.confidence)} band, simultaneous\n"
        f"for all {unfairness.n_intervals:,} intervals)",
        transform=ax.transAxes,
        ha="right",
        va="bottom",
        fontsize=8,
        color="0.3",
    )
    set_title(ax, title or "Unfairness map")
    for which in ("x", "y"):
        percent_axis(ax, which)
    return ax
