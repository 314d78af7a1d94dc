"""Maps from old scores to new ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from partialfair.plotting.style import MAX_SHOWN, group_style, new_axes, safe_name, set_title
from partialfair.utils.typing import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from partialfair.postprocessing.maps import ScoreMap

__all__ = ["plot_score_maps"]

_BEYOND = 0.04
"""How much of the range of all knots is drawn beyond it."""


def plot_score_maps(
    maps: Sequence[ScoreMap],
    *,
    title: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw what becomes of a score, one line per group; on the diagonal scores stay.

    Bold are the scores that the interval held in fit. At most the twelve groups whose scores move furthest
    are drawn.

    Parameters
    ----------
    maps
        Of an adjuster, ``adjuster.maps_``.
    title
        Title of the axes.
    ax
        Axes to draw on; new ones by default.
    """
    ax = new_axes(ax, size=(5.2, 5.0))
    moves = [float(np.abs(one.values - one.knots).max()) for one in maps]
    shown = sorted(sorted(range(len(maps)), key=lambda k: -moves[k])[:MAX_SHOWN])
    low, high = _limits([maps[k] for k in shown])
    stays: dict[str, Any] = {"color": "0.6", "linewidth": 1, "linestyle": (0, (4, 3)), "zorder": 1}
    ax.plot([low, high], [low, high], label="stays", **stays)
    for order, k in enumerate(shown):
        style = group_style(order)
        scores, moved = _line(maps[k], low, high)
        ax.plot(scores, moved, linewidth=1.0, zorder=2, label=safe_name(maps[k].group), **style)
        for part in maps[k].inside:
            ax.plot(*_line(maps[k], *part), linewidth=3.0, zorder=3, solid_capstyle="butt", **style)
    ax.set(xlim=(low, high), ylim=(low, high), aspect="equal", xlabel="score", ylabel="adjusted score")
    hidden = len(maps) - len(shown)
    notes = ["bold: inside the interval", f"{hidden} groups that move less not drawn" if hidden else ""]
    set_title(ax, title or "What becomes of a score", "; ".join(filter(None, notes)))
    ax.legend(fontsize=9, frameon=False, loc="upper left")
    return ax


def _line(one: ScoreMap, low: float, high: float) -> tuple[Floats, Floats]:
    """Return the scores at which a map may bend between two, both included, and what becomes of them."""
    bends = one.knots[(one.knots > low) & (one.knots < high)]
    scores = np.unique(np.concatenate([[low], bends, [high]]))
    return scores, one(scores)


def _limits(maps: Sequence[ScoreMap]) -> tuple[float, float]:
    ends = np.concatenate([[one.knots[0], one.values[0], one.knots[-1], one.values[-1]] for one in maps])
    room = _BEYOND * float(np.ptp(ends)) or 1.0
    return float(ends.min() - room), float(ends.max() + room)
