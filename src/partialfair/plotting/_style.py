"""Colours, names and axes shared by all pictures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from partialfair._extras import require
from partialfair._typing import GroupLabel
from partialfair.groups import group_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "GROUP_COLOURS",
    "INTERVAL_COLOUR",
    "MAX_SHOWN",
    "group_colour",
    "new_axes",
    "percent_axis",
    "safe_name",
]

GROUP_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#5D3A9B", "#8C6D31", "#4D4D4D")
"""Okabe–Ito and neighbours: told apart by colour-blind readers. Red is kept for the interval."""

INTERVAL_COLOUR = "#D62728"

MAX_SHOWN = 12
"""More groups than this do not fit a picture; the largest are drawn and the title says so."""


def group_colour(position: int) -> str:
    """Colour of the group at that position."""
    return GROUP_COLOURS[position % len(GROUP_COLOURS)]


def safe_name(label: GroupLabel, most: int = 40) -> str:
    """Group name as plain text: matplotlib would read $ as maths and hide labels that start with _."""
    name = group_name(label)
    name = name if len(name) <= most else name[: most - 1] + "…"
    name = name.replace("$", r"\$")
    return "\u200b" + name if name.startswith("_") else name


def new_axes(ax: Axes | None, *, size: tuple[float, float] = (5.2, 5.0)) -> Axes:
    """Return the axes given, or new ones on a figure of that size."""
    pyplot = require("matplotlib.pyplot", extra="cli", purpose="drawing")
    return pyplot.subplots(figsize=size, layout="constrained")[1] if ax is None else ax


def percent_axis(ax: Axes, which: str) -> None:
    """Write fractions as percents on the ``"x"`` or ``"y"`` axis."""
    ticker = require("matplotlib.ticker", extra="cli", purpose="drawing")
    axis = ax.xaxis if which == "x" else ax.yaxis
    axis.set_major_formatter(ticker.PercentFormatter(xmax=1, decimals=0))
