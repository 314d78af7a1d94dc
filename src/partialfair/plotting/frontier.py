"""The frontier of a fairness path."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from partialfair.plotting._style import GROUP_COLOURS, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from partialfair.path import FairnessPath

__all__ = ["plot_path"]


def plot_path(
    path: FairnessPath, *, confidence: float = 0.95, title: str | None = None, ax: Axes | None = None
) -> Axes:
    """Draw the score of every model against its gap, both on the validation rows.

    Horizontal bars are confidence intervals of the gaps, vertical ones standard errors of the scores. Every
    ``alpha`` is a line; numbers beside the points are the gaps that were allowed. The square is the model
    without constraint.

    Parameters
    ----------
    path
        From `fairness_path`.
    confidence
        Of the intervals.
    title
        Title of the axes.
    ax
        Axes to draw on; new ones by default.
    """
    ax = new_axes(ax, size=(6.4, 4.4))
    frame = path.to_frame(confidence)
    several = frame["alpha"].nunique() > 1
    for number, (alpha, lines) in enumerate(frame.groupby("alpha")):
        gaps = lines["gap"]
        ax.errorbar(
            gaps,
            lines["score"],
            xerr=np.array([gaps - lines["gap_low"], lines["gap_high"] - gaps]),
            yerr=lines["score_error"],
            color=GROUP_COLOURS[number % len(GROUP_COLOURS)],
            marker="o",
            markersize=5,
            elinewidth=0.8,
            alpha=0.9,
            label=f"alpha = {alpha:g}" if several else None,
        )
        for gap, score, allowed in zip(gaps, lines["score"], lines["max_gap"], strict=True):
            free = np.isinf(allowed)
            label = "no constraint" if free else f"{allowed:g}"
            ax.annotate(label, (gap, score), textcoords="offset points", xytext=(5, 5), fontsize=8)
            if free:
                ax.plot(
                    [gap], [score], marker="s", markersize=8, color=GROUP_COLOURS[number % len(GROUP_COLOURS)]
                )
    ax.set_xlabel(f"gap on rows held out ({confidence:.0%} intervals); numbers: max_gap")
    ax.set_ylabel(f"{path.scoring.replace('_', ' ')} on rows held out")
    ax.set_xlim(left=0)
    if several:
        ax.legend(frameon=False)
    if title:
        ax.set_title(title)
    return ax
