"""Plot of the frontier of a fairness path."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from partialfair.plotting.style import GROUP_COLOURS, new_axes, set_title
from partialfair.utils.text import short_percent
from partialfair.utils.typing import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from partialfair.estimators.path import FairnessPath

_FONT = 8  # of labels; the sizes below are also in points
_LETTER = 5.4  # width of a digit, with some air
_LINE = 10.0
_MARKER = 6.0
_SIDES = np.array([(-1, 1), (1, -1), (1, 1), (-1, -1), (0, 1), (0, -1), (-1, 0), (1, 0)])
_AROUND = np.concatenate([_SIDES, 2 * _SIDES, 3 * _SIDES])
"""Possible places of a label: first diagonally, away from the horizontal and vertical error bars."""


def plot_path(
    path: FairnessPath, *, confidence: float = 0.95, title: str | None = None, ax: Axes | None = None
) -> Axes:
    """Draw the score of every model against its gap, both on the validation rows.

    Horizontal bars are confidence intervals of the gaps, vertical ones standard errors of the scores. Every
    ``alpha`` is a line; numbers next to the points are the limits ``max_gap``. The square is the
    unconstrained model.

    Parameters
    ----------
    path
        From `fairness_path`.
    confidence
        Confidence of the intervals.
    title
        Title of the axes.
    ax
        Axes to draw on; new ones by default.
    """
    ax = new_axes(ax, size=(6.4, 4.4))
    frame = path.to_frame(confidence)
    several = frame["alpha"].nunique() > 1
    look: dict[str, Any] = {"marker": "o", "markersize": 5, "elinewidth": 0.8, "alpha": 0.9}
    # One line for each penalty: along it only the limit changes.
    for number, (alpha, lines) in enumerate(frame.groupby("alpha")):
        gaps, color = lines["gap"], GROUP_COLOURS[number % len(GROUP_COLOURS)]
        limits = np.array([gaps - lines["ci_low"], lines["ci_high"] - gaps])
        look |= {"color": color, "label": f"alpha = {alpha:g}" if several else None}
        ax.errorbar(gaps, lines[path.scoring], xerr=limits, yerr=lines[f"{path.scoring}_se"], **look)
    rows = f"{path.evaluated_on.replace(' ', '-')} rows"
    ax.set_xlabel(f"gap on {rows} ({short_percent(confidence)} intervals)\nnumbers: max_gap")
    ax.set_ylabel(f"{path.scoring.replace('_', ' ')} on {rows}")
    ax.set_xlim(left=0)
    if several:
        ax.legend(frameon=False)
    if title:
        set_title(ax, title)
    known = frame[np.isfinite(frame["gap"]) & np.isfinite(frame[path.scoring])]
    # The unconstrained model is a square.
    free = known[np.isinf(known["max_gap"])]
    ax.plot(free["gap"], free[path.scoring], "s", markersize=8, color="0.25", zorder=3)
    texts = ["no constraint" if np.isinf(allowed) else f"{allowed:g}" for allowed in known["max_gap"]]
    _label_points(ax, known[["gap", path.scoring]].to_numpy(dtype=float), texts)
    return ax


def _label_points(ax: Axes, points: Floats, texts: list[str]) -> None:
    """Write a text next to every point, or one next to all points at the same place.

    Each label tries the places around its point, nearer ones first, and uses the one that covers the least of
    labels and points.
    """
    # Sizes are known only when everything else has been laid out.
    ax.figure.canvas.figure.draw_without_rendering()
    pixels = ax.figure.dpi / 72
    at = ax.transData.transform(points) / pixels
    inside = np.ravel(ax.transAxes.transform([(0, 0), (1, 1)]) / pixels)
    taken = [_box(point, np.full(2, _MARKER)) for point in at]
    for members in _together(at):
        text = ", ".join(dict.fromkeys(texts[k] for k in members))
        size = np.array([_LETTER * len(text), _LINE])
        offsets = [around * (_MARKER + size / 2) for around in _AROUND]  # in points
        boxes = [_box(at[members[0]] + offset, size) for offset in offsets]
        # The first free place is used.
        cut_off = [size.prod() - _common(box, inside) for box in boxes]
        covered = [sum(_common(box, other) for other in taken) for box in boxes]
        best = int(np.argmin(np.round(np.add(cut_off, covered), 9)))
        taken.append(boxes[best])
        place: dict[str, Any] = {"textcoords": "offset points", "xytext": offsets[best]}
        ax.annotate(text, points[members[0]], fontsize=_FONT, ha="center", va="center", **place)


def _together(at: Floats) -> list[list[int]]:
    """Return lists of positions of points that are too close for separate labels."""
    clusters: list[list[int]] = []
    for k, point in enumerate(at):
        near = [members for members in clusters if np.linalg.norm(at[members[0]] - point) < 1.5 * _MARKER]
        if near:
            near[0].append(k)
        else:
            clusters.append([k])
    return clusters


def _box(center: Floats, size: Floats) -> Floats:
    """Return left, bottom, right and top of a box around a point."""
    return np.concatenate([center - size / 2, center + size / 2])


def _common(one: Floats, other: Floats) -> float:
    """Return the common area of two boxes."""
    sides = np.minimum(one[2:], other[2:]) - np.maximum(one[:2], other[:2])
    return float(np.prod(np.maximum(sides, 0.0)))
