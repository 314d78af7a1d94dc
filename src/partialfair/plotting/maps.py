"""The unfairness map: gap by first and last rank of the interval."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from partialfair.data.intervals import as_interval_set
from partialfair.metrics.map import UnfairnessMap
from partialfair.plotting.style import INTERVAL_COLOUR, new_axes, percent_axis, set_title
from partialfair.utils.typing import IntervalLike

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_unfairness_map"]

_NARROW = 0.1
_NO_GAP = 1e-9


def plot_unfairness_map(
    unfairness: UnfairnessMap,
    *,
    interval: IntervalLike | None = None,
    title: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the gap of every interval as a colour: where it begins across, where it ends upwards.

    Intervals whose gap could be 0 (lower end of the simultaneous band) are faded.

    Parameters
    ----------
    unfairness
        From `unfairness_map`.
    interval
        Marked by a ring; a union by one ring for each of its parts.
    title
        Title of the axes.
    ax
        Axes to draw on; new ones by default.
    """
    ax = new_axes(ax, size=(6.0, 5.0))
    edges, values = unfairness.edges, unfairness.values
    # Narrow intervals hold few people and saturate; the colours are spread over the others.
    begins, ends = np.meshgrid(edges[:-1], edges[1:], indexing="ij")
    widest = float(np.nanmax(np.where(ends - begins >= _NARROW, values, np.nan)))
    top = widest if widest > _NO_GAP else 1.0
    mesh = ax.pcolormesh(edges, edges, values.T, cmap="viridis", vmin=0, vmax=top, rasterized=True)
    ax.figure.colorbar(
        mesh,
        ax=ax,
        extend="max" if np.nanmax(values) > top + _NO_GAP else "neither",
        label=f"gap of the worst pair ({unfairness.gap_scale} scale)",
    )
    unsure = np.where(unfairness.low > 0, np.nan, np.where(np.isnan(values), np.nan, 1.0))
    ax.pcolormesh(edges, edges, unsure.T, cmap="gray", vmin=0, vmax=1, alpha=0.55, rasterized=True)
    half = (edges[1] - edges[0]) / 2  # the cell of [α, β) begins at α and ends at β
    for begin, end in () if interval is None else as_interval_set(interval).parts:
        ax.plot(
            begin + half,
            end - half,
            "o",
            clip_on=False,
            markersize=11,
            markerfacecolor="none",
            markeredgecolor=INTERVAL_COLOUR,
            markeredgewidth=2.2,
        )
    ax.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    start = "top" if unfairness.higher_is_better else "best, the lowest score"
    ax.set_xlabel(f"the interval begins at rank (from the {start})")
    ax.set_ylabel("… and ends at rank")
    ring = "" if interval is None else "ring: your interval\n"
    ax.text(
        0.98,
        0.03,
        f"{ring}faded: the true gap could be 0\n({100 * unfairness.confidence:g} % band for all\n"
        f"{unfairness.n_intervals:,} intervals at once)",
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
