"""Rank curves (the paper's Figure 2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from partialfair.data.intervals import as_interval_set
from partialfair.exceptions import InputError
from partialfair.metrics.map import RankCurve
from partialfair.plotting.style import (
    INTERVAL_COLOUR,
    MAX_SHOWN,
    group_style,
    new_axes,
    percent_axis,
    safe_name,
    set_title,
)
from partialfair.utils.extras import require
from partialfair.utils.typing import GroupLabel, IntervalLike

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_rank_curve"]

_INSIDE = 5
"""A legend of more groups than this stands beside the axes."""

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

    On the diagonal a threshold lets the same share of both groups pass. Above it group k does better than the
    reference, below it worse. At most the twelve groups furthest from the diagonal are drawn.

    Parameters
    ----------
    curve
        From `rank_curve`.
    reference
        Group on the horizontal axis; the first one by default.
    interval
        Shaded red on both axes. One interval or a union, common to the groups.
    title
        Title of the axes.
    ax
        Axes to draw on; new ones by default.
    """
    position = _position(curve, reference)
    others = _furthest(curve, position)
    names = {k: safe_name(curve.labels[k]) for k in others}
    beside = len(others) > _INSIDE
    shaded = None if interval is None else _interval_name(interval)
    room = 0.8 + 0.08 * max(map(len, ["equal ranks", *names.values(), shaded or ""])) if beside else 0.0
    ax = new_axes(ax, size=(5.2 + room, 5.0))
    ax.plot([0, 1], [0, 1], color="0.6", linewidth=1, linestyle=(0, (4, 3)), label="equal ranks", zorder=1)
    hidden = len(curve.labels) - 1 - len(others)
    for order, (k, name) in enumerate(names.items()):
        # Below θ the ranks jump to their next values: straight segments join them, as in an ROC curve.
        line = {"linewidth": 1.8, "zorder": 3, "clip_on": False, **group_style(order if hidden else k)}
        ax.plot(curve.ranks[:, position], curve.ranks[:, k], label=name, **line)
    for low, high in () if interval is None else as_interval_set(interval).parts:
        ax.axvspan(low, high, **_SHADE)
        ax.axhspan(low, high, **_SHADE)
    ax.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    side, start = ("above", "top") if curve.higher_is_better else ("below", "best, the lowest score")
    reference_name = safe_name(curve.labels[position])
    ax.set_xlabel(f"share of {reference_name} {side} the threshold\n(rank from the {start})")
    ax.set_ylabel(f"share of {'each other group' if len(others) > 1 else names[others[0]]} {side} it")
    note = f"({hidden} groups nearer to the diagonal not drawn)" if hidden else ""
    set_title(ax, title or "Rank curve", note)
    for which in ("x", "y"):
        percent_axis(ax, which)
    # Lines above the diagonal leave the lower right corner free, lines below it the upper left one.
    above = np.mean(curve.ranks) >= np.mean(curve.ranks[:, position])
    corner = {"loc": "lower right" if above else "upper left"}
    outside = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0)}
    _add_legend(ax, shaded, **(outside if beside else corner))
    return ax


def _furthest(curve: RankCurve, position: int) -> list[int]:
    """Choose the groups to draw: all but the reference, or those furthest from the diagonal."""
    others = [k for k in range(len(curve.labels)) if k != position]
    distance = np.abs(curve.ranks - curve.ranks[:, [position]]).max(axis=0)
    return sorted(sorted(others, key=lambda k: -distance[k])[:MAX_SHOWN])


def _position(curve: RankCurve, reference: GroupLabel | None) -> int:
    if reference is None:
        return 0
    if reference not in curve.labels:
        raise InputError(f"reference {reference!r} is not one of the groups {list(curve.labels)}")
    return curve.labels.index(reference)


def _interval_name(interval: IntervalLike) -> str:
    parts = as_interval_set(interval).parts
    return f"interval {' and '.join(f'{100 * a:.3g}–{100 * b:.3g}' for a, b in parts)} %"


def _add_legend(ax: Axes, shaded: str | None, **place: Any) -> None:
    """Name the lines and the interval."""
    patches = require("matplotlib.patches", extra="cli", purpose="drawing")
    handles, names = ax.get_legend_handles_labels()
    if shaded is not None:
        handles.append(patches.Patch(**{**_SHADE, "alpha": 0.2}))
        names.append(shaded)
    ax.legend(handles, names, fontsize=9, frameon=False, **place)
