"""Figures of scores that several commands draw."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from matplotlib import pyplot

from partialfair.metrics.map import groups_curve
from partialfair.metrics.report import FairnessReport
from partialfair.plotting.ranks import plot_rank_curve
from partialfair.plotting.scores import plot_group_densities
from partialfair.utils.text import visible
from partialfair.utils.typing import IntervalLike

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_CURVE_POINTS = 2000


def draw_rank_curves(reports: Mapping[str, FairnessReport], interval: IntervalLike) -> Figure:
    """Draw the rank curves of several models side by side.

    Groups are compared with the largest group, whose ranks have the smallest errors.
    """
    first = next(iter(reports.values()))
    reference = max(first.groups, key=lambda group: group.n_effective).group
    n = len(reports)
    many = len(first.groups) > 6  # the legend then stands next to the axes
    size = (n * (7.8 if many else 4.6), 4.8) if n > 1 else None
    figure, axes = pyplot.subplots(1, n, figsize=size, squeeze=False, layout="constrained")
    for ax, (name, report) in zip(axes[0], reports.items(), strict=True):
        curve = groups_curve(report.scored, n_points=_CURVE_POINTS)
        title = visible(name).replace("$", r"\$") if n > 1 else None
        plot_rank_curve(curve, reference=reference, interval=shared_interval(interval), title=title, ax=ax)
    return figure


def draw_densities(report: FairnessReport) -> Figure:
    """Draw the score density of each group."""
    figure: Figure = plot_group_densities(report.scored, threshold=report.threshold)[0].figure
    return figure


def shared_interval(interval: IntervalLike) -> IntervalLike | None:
    """Return the interval to shade in figures with one axis for all groups; None for intervals by group."""
    return None if isinstance(interval, dict) else interval
