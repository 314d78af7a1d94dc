"""Rank curves (the paper's Figure 2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from partialfair._typing import GroupLabel, IntervalLike
from partialfair.exceptions import InputError
from partialfair.intervals import as_interval_set
from partialfair.metrics.curve import RankCurve
from partialfair.plotting._style import (
    INTERVAL_COLOUR,
    MAX_SHOWN,
    group_colour,
    new_axes,
    percent_axis,
    safe_name,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_rank_curve"]


def plot_rank_curve(
    curve: RankCurve,
    *,
    reference: GroupLabel | None = None,
    interval: IntervalLike | None = None,
    title: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw ``F̄_k(θ)`` of every other group against ``F̄_ref(θ)`` of the reference as θ falls.

    On the diagonal a threshold lets the same share of both groups pass. Above it group k does better than the
    reference, below it worse.

    Parameters
    ----------
    curve
        From `rank_curve`.
    reference
        Group on the horizontal axis; the first one by default.
    interval
        Marked in red on both axes. One interval or a union, common to the groups.
    title
        Title of the axes.
    ax
        Axes to draw on; new ones by default.
    """
    position = _position(curve, reference)
    others = [k for k in range(len(curve.labels)) if k != position]
    ax = new_axes(ax)
    ax.plot([0, 1], [0, 1], color="0.6", linewidth=1, linestyle=(0, (4, 3)), label="equal ranks", zorder=1)
    for k in others[:MAX_SHOWN]:
        # Below θ the ranks jump to their next values: straight segments join them, as in an ROC curve.
        ax.plot(
            curve.ranks[:, position],
            curve.ranks[:, k],
            color=group_colour(k),
            linewidth=1.8,
            label=safe_name(curve.labels[k]),
            zorder=3,
        )
    if interval is not None:
        _mark_interval(ax, interval)
    name = safe_name(curve.labels[position])
    ax.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    ax.set_xlabel(f"share of {name} above the threshold (rank from the top)")
    several = len(others) > 1
    ax.set_ylabel(
        f"share of {'each other group' if several else safe_name(curve.labels[others[0]])} above it"
    )
    hidden = len(others) - MAX_SHOWN
    note = f"\n({hidden} more groups not drawn)" if hidden > 0 else ""
    ax.set_title((title or "Rank curve") + note, fontsize=11)
    for which in ("x", "y"):
        percent_axis(ax, which)
    ax.legend(loc="lower right", fontsize=9, frameon=False)
    return ax


def _position(curve: RankCurve, reference: GroupLabel | None) -> int:
    if reference is None:
        return 0
    if reference not in curve.labels:
        raise InputError(f"reference {reference!r} is not one of the groups {list(curve.labels)}")
    return curve.labels.index(reference)


def _mark_interval(ax: Axes, interval: IntervalLike) -> None:
    for low, high in as_interval_set(interval).parts:
        ax.axvspan(low, high, color=INTERVAL_COLOUR, alpha=0.07, linewidth=0, zorder=0)
        ax.axhspan(low, high, color=INTERVAL_COLOUR, alpha=0.07, linewidth=0, zorder=0)
        text = f"{100 * low:.3g}–{100 * high:.3g} %"
        place: dict[str, Any] = {"color": INTERVAL_COLOUR, "fontsize": 8}
        ax.text((low + high) / 2, 0.012, text, ha="center", va="bottom", **place)
        ax.text(0.012, (low + high) / 2, text, ha="left", va="center", **place)
